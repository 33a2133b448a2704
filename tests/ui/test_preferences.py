"""What a person chose is there again at the next start, and a bad file harms nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.ui.preferences import (
    DEFAULTS,
    FOLDER,
    PreferenceFile,
    config_folder,
    forget_unsaved,
    keep_unsaved,
    unsaved,
)
from tests.ui.conftest import app_on, shown, until


def test_without_a_file_there_are_the_defaults(tmp_path: Path) -> None:
    assert PreferenceFile(tmp_path / "none").read() == (DEFAULTS, "")


def test_what_is_changed_is_read_again(tmp_path: Path) -> None:
    file = PreferenceFile(tmp_path / "new" / "folder")
    changed, trouble = file.change(theme="light", charts=("reward", "kl"))
    assert not trouble
    assert PreferenceFile(tmp_path / "new" / "folder").read() == (changed, "")
    assert changed.charts == ("reward", "kl")
    assert [path.name for path in file.path.parent.iterdir()] == ["preferences.json"]


def test_two_programs_do_not_undo_each_other(tmp_path: Path) -> None:
    one, other = PreferenceFile(tmp_path), PreferenceFile(tmp_path)
    one.read()
    other.change(bell=True)
    assert one.change(theme="light")[0].bell


def test_names_of_a_newer_version_are_kept(tmp_path: Path) -> None:
    file = PreferenceFile(tmp_path)
    file.path.write_text('{"theme": "dark", "of_tomorrow": [1]}')
    file.change(theme="light")
    assert "of_tomorrow" in file.path.read_text()


@pytest.mark.parametrize(
    "text", ["{", "[]", '"x"', "\x00", '{"theme": 3}', '{"charts": "reward"}', '{"charts": ["kl", 3]}']
)
def test_a_broken_file_gives_the_defaults_and_a_word(tmp_path: Path, text: str) -> None:
    file = PreferenceFile(tmp_path)
    file.path.write_text(text)
    preferences, trouble = file.read()
    assert preferences == DEFAULTS
    assert str(file.path) in trouble
    assert file.change(title=False)[0].title is False
    assert file.read()[0].title is False


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    preferences, trouble = PreferenceFile(tmp_path / "file").change(theme="light")
    assert preferences.theme == "light"
    assert "not saved" in trouble


def test_the_variable_names_the_folder() -> None:
    assert config_folder({"GRPO_TUI_CONFIG_DIR": "/somewhere"}) == Path("/somewhere")
    assert config_folder({}).name == "grpo-tui"


def test_unsaved_text_is_kept_apart_for_each_file_and_replaced_as_a_whole(tmp_path: Path) -> None:
    def texts() -> list[str | None]:
        files = tmp_path / "a.yaml", tmp_path / "b.yaml"
        return [kept.text if kept else None for kept in map(unsaved, files)]

    assert texts() == [None, None]
    for name, text in (("a", "max_steps: 1000\n"), ("b", "beta: 0"), ("a", "ä: 1\r\n")):
        keep_unsaved(tmp_path / f"{name}.yaml", text)
    assert texts() == ["ä: 1\r\n", "beta: 0"]
    assert {path.stat().st_mode & 0o777 for path in (config_folder() / FOLDER).iterdir()} == {0o600}
    for _ in range(2):
        forget_unsaved(tmp_path / "a.yaml")
        assert texts() == [None, "beta: 0"]


async def test_the_chosen_colours_are_there_at_the_next_start() -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24)):
        assert app.theme == "grpo-dark"
        await app.run_action("app.app_theme")
        assert app.theme == "grpo-light"
    again = app_on(None)
    async with again.run_test(size=(80, 24)):
        assert again.theme == "grpo-light"
        await again.run_action("app.app_theme")
    assert PreferenceFile().read()[0].theme == "dark"


async def test_a_broken_file_is_told_and_the_screen_comes() -> None:
    PreferenceFile().path.write_text("{")
    app = app_on(None)
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        await until(pilot, lambda: "cannot be read" in shown(app))
        assert app.theme == "grpo-dark"
