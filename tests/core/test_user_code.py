"""Imports from a person's folder read the sources as they are now, and others stay as they are."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_tui.core import user_code
from grpo_tui.core.user_code import NewestSource, import_newest_from

OWN = "helper_of_a_person"


@pytest.fixture(autouse=True)
def _imports_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(user_code, "_roots", set())
    hooks = [hook for hook in sys.path_hooks if hook is not user_code._finder_of]
    monkeypatch.setattr(sys, "path_hooks", hooks)
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    yield
    sys.modules.pop(OWN, None)


def test_a_folder_that_was_imported_from_before_is_read_anew_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = sysconfig.get_paths()["stdlib"]
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"{OWN}.py").write_text("VALUE = 1\n")
    spec = importlib.util.find_spec(OWN)
    assert spec is not None
    assert not isinstance(spec.loader, NewestSource)
    importlib.util.find_spec("colorsys")
    kept = sys.path_importer_cache[library]
    import_newest_from(tmp_path)
    assert sys.path_importer_cache[library] is kept, "what is installed is not looked for anew"
    spec = importlib.util.find_spec(OWN)
    assert spec is not None
    assert isinstance(spec.loader, NewestSource)


def test_only_folders_of_a_person_are_read_without_cached_byte_code(tmp_path: Path) -> None:
    own, installed = tmp_path / "own", tmp_path / "own" / "site-packages"
    installed.mkdir(parents=True)
    import_newest_from(own)
    assert user_code._finder_of(str(own)).path == str(own)
    for other in (tmp_path, installed, own / "none", Path(sysconfig.get_paths()["stdlib"])):
        with pytest.raises(ImportError, match="not a person's folder"):
            user_code._finder_of(str(other))


def test_a_second_folder_is_one_of_a_person_too_and_the_program_is_nobodys(tmp_path: Path) -> None:
    ours = Path(user_code.__file__).parents[1]
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        import_newest_from(folder)
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert user_code._finder_of(str(folder)).path == str(folder)
    assert sys.path_hooks.count(user_code._finder_of) == 1
    import_newest_from(ours.parent)
    with pytest.raises(ImportError, match="not a person's folder"):
        user_code._finder_of(str(ours))
