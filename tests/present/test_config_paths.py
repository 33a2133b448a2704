"""Which configs are offered below a folder, and what is said of a path that will not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.config.presets import copy_preset, presets
from grpo_tui.present import config_compare as paths


def test_configs_are_offered_from_near_by_those_in_configs_first(tmp_path: Path) -> None:
    names = (
        "b.yaml", "a.yml", "a.cases.yaml", "notes.txt", ".hidden.yaml", "configs/z.yaml", "runs/one/c.yaml",
        "runs/one/deep/d.yaml", "outputs/e.yaml", "node_modules/f.yaml", ".git/g.yaml",
    )  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "again").symlink_to(tmp_path / "runs")
    found = [str(file.relative_to(tmp_path)) for file in paths.configs_below(tmp_path)]
    assert found == ["configs/z.yaml", "a.yml", "b.yaml", "runs/one/c.yaml"]
    assert paths.configs_below(tmp_path / "none") == []


def test_no_more_configs_and_folders_are_looked_at_than_there_is_time_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.yaml").touch()
    monkeypatch.setattr(paths, "MOST_FOLDERS", 2)
    assert [file.parent.name for file in paths.configs_below(tmp_path)] == ["a", "b"]
    monkeypatch.setattr(paths, "MOST_FILES", 1)
    assert [file.parent.name for file in paths.configs_below(tmp_path)] == ["a"]


def test_a_copy_of_a_preset_knows_which(tmp_path: Path) -> None:
    preset = next(preset for preset in presets() if preset.name == "json_task")
    (copy, *_) = copy_preset(preset, tmp_path / "mine.yaml")
    assert paths.preset_file(copy.read_text(encoding="utf-8")) == preset.path
    assert paths.preset_file("a: 1\n") is None


@pytest.mark.parametrize(
    ("name", "new", "readable", "writable", "script"),
    [
        ("there.yaml", "there.yaml already exists", "", "", "there.yaml already exists"),
        ("new.yml", "", "new.yml: no such file", "", "a script ends in .py"),
        ("new.txt", "a config ends in .yaml", "new.txt: no such file", "a config ends in .yaml",
         "a script ends in .py"),
        ("new.py", "a config ends in .yaml", "new.py: no such file", "a config ends in .yaml", ""),
        ("folder", "folder already exists", "folder is a folder", "folder is a folder",
         "folder already exists"),
        ("none/new.yaml", "", "none/new.yaml: no such file", "there is no folder none",
         "there is no folder none"),
        ("none/new.py", "a config ends in .yaml", "none/new.py: no such file", "there is no folder none",
         "there is no folder none"),
    ],
)  # fmt: skip
def test_a_path_is_refused_with_the_reason(
    name: str,
    new: str,
    readable: str,
    writable: str,
    script: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "there.yaml").touch()
    path = Path(name)
    assert (paths.not_new(path), paths.not_readable(path)) == (new, readable)
    assert (paths.not_writable(path), paths.not_script(path)) == (writable, script)
