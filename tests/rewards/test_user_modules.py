"""Which loaded modules are the user's, however their files are reached."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.rewards.lab_child.loaded import UserModules, folders_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "deep"
    folder.mkdir(parents=True)
    for name in ("mine", "theirs"):
        (folder / f"{name}.py").write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "linked.py").symlink_to(folder / "mine.py")
    (tmp_path / "folder").symlink_to(folder.parent)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("project/deep/mine.py", True),
        ("folder/deep/mine.py", True),
        ("project/deep/../deep/mine.py", True),
        ("elsewhere/linked.py", True),
        ("elsewhere/other.py", False),
        ("project/deep/mine.so", False),
        ("projected/mine.py", False),
    ],
)
@pytest.mark.parametrize("relative", [False, True])
def test_a_file_is_the_users_where_it_really_lies(
    project: Path, monkeypatch: pytest.MonkeyPatch, file: str, own: bool, relative: bool
) -> None:
    monkeypatch.chdir(project)
    user = UserModules(kept=("kept_there",))
    user.roots = {str((project / "project").resolve())}
    path = file if relative else f"{project}/{file}"
    before = user.modules().keys()  # other tests of this process may have loaded a person's files
    for name in ("found_there", "kept_there"):
        module = ModuleType(name)
        module.__file__ = path
        monkeypatch.setitem(sys.modules, name, module)
    assert user.modules().keys() - before == ({"found_there"} if own else set())
    assert (path in user.files()) is own
    if file.endswith(".py"):
        assert user.is_own(path) is own


def test_a_persons_modules_lie_beside_the_config_the_sources_and_in_the_runs_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "configs").mkdir()
    file = project / "configs" / "my.yaml"
    file.write_text(
        "model_name_or_path: gpt2\ndataset_name: d\n"
        f"grpo_tui:\n  rewards:\n  - source: {project}/folder/deep/mine.py:right\n"
    )
    config = replace(load_config(file), cwd=str(project / "elsewhere"))
    sources = str(project / "project" / "deep")
    assert folders_of(config) == {str(project / "elsewhere"), str(project / "configs"), sources}
    assert folders_of(replace(config, path=None, cwd="")) == {str(project), sources}
