"""A pane that is looked at first is styled without reading all styles anew, and by the theme in force."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App
from textual.css.stylesheet import Stylesheet

from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.preferences import PreferenceFile
from grpo_tui.ui.theme import NAMES
from tests.ui.conftest import app_on, opened
from tests.ui.recorded_run import RecordedRun

PANES = "52"


def looks(app: Any) -> list[tuple[str, str, str]]:
    """Name and colours of all that is on the screen."""
    return [
        (str(widget), str(widget.styles.background), str(widget.styles.color))
        for widget in (app.screen, *app.screen.query("*"))
    ]


async def after(run: RecordedRun, *keys: str) -> list[tuple[str, str, str]]:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        for key in keys:
            if key == "theme":
                app.theme = NAMES["light"]
            else:
                await pilot.press(key)
            await pilot.pause()
        return looks(app)


@pytest.mark.parametrize("pane", PANES)
async def test_a_first_visit_looks_as_a_second_one(pane: str, run: RecordedRun) -> None:
    first = await after(run, "theme", pane)
    assert first == await after(run, pane, "4", "theme", pane)
    assert first != await after(run, pane)


@pytest.mark.parametrize("theme", ["", "light"])
async def test_the_styles_are_read_once_for_the_first_picture(
    theme: str, run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stylesheet, "reparse", lambda sheet: pytest.fail("all styles are read again"))
    PreferenceFile().change(theme=theme)
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        assert app.theme == NAMES[theme or "dark"]
        assert app.screen.styles.background.hex == str(app.current_theme.background).upper()


async def test_a_first_visit_reads_no_styles_anew(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        read: list[int] = []
        reparse = Stylesheet.reparse
        monkeypatch.setattr(Stylesheet, "reparse", lambda sheet: (read.append(1), reparse(sheet))[1])
        await pilot.press("5")
        await pilot.pause()
        assert not read
        app.theme = NAMES["light"]
        await pilot.pause()
        assert read


def test_a_textual_that_counts_otherwise_reads_the_styles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    app = GrpoApp([], None)
    got = (object(), object())
    monkeypatch.setattr(App, "_get_screen", lambda self, screen: got)
    monkeypatch.delattr(app, "_css_update_count")
    assert app._get_screen("any") == got  # type: ignore[arg-type]
