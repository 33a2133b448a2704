"""A pane comes back in one picture, with what came meanwhile, and styled anew only when it has to be."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.renderables.background_screen import BackgroundScreen

from grpo_tui.ui.screens.reading import HelpScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.textual_private import Tint
from grpo_tui.ui.theme import NAMES
from grpo_tui.ui.widgets.bars import Footer
from tests import PATIENCE_S
from tests.ui.conftest import app_on, filled, opened, shown, until
from tests.ui.recorded_run import RecordedRun


@pytest.fixture
def styled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is styled."""
    names: list[str] = []
    apply = Stylesheet.apply

    def counted(sheet: Stylesheet, node: Any, **how: Any) -> None:
        names.append(str(node))
        apply(sheet, node, **how)

    monkeypatch.setattr(Stylesheet, "apply", counted)
    return names


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pane of each picture that is painted while none is held back."""
    painted: list[str] = []
    display = App._display

    def counted(app: Any, screen: Any, picture: Any) -> None:
        if picture is not None and not app._batch_count:
            painted.append(type(screen).__name__)
        display(app, screen, picture)

    monkeypatch.setattr(App, "_display", counted)
    return painted


async def visited(pilot: Any, *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
        await filled(pilot)


async def settled(pilot: Any) -> None:
    await until(pilot, lambda: pilot.app.screen.has_class("-narrow"))


async def test_a_return_styles_nothing_anew_and_is_one_picture(
    run: RecordedRun, styled: list[str], pictures: list[str]
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await visited(pilot, "1", "4", "1")
        before = shown(app)
        styled.clear()
        pictures.clear()
        await visited(pilot, "4")
        assert not styled
        assert pictures[0] == "TrainScreen"
        assert "newest group" in shown(app)
        await visited(pilot, "1")
        assert not styled
        assert shown(app) == before


async def test_updates_are_delayed_again_after_a_switch(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed: list[float] = []
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        monkeypatch.setattr(App, "delay_update", lambda app, delay: delayed.append(delay))
        await visited(pilot, "1", "4")
        assert not delayed
        app.delay_update(0.02)
        assert delayed == [0.02]


async def test_the_first_return_to_the_first_pane_styles_nothing_anew(
    run: RecordedRun, styled: list[str]
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await visited(pilot, "1")
        styled.clear()
        await visited(pilot, "4")
        assert not styled
        app.theme = NAMES["light"]
        await visited(pilot, "1")
        assert styled


async def test_a_return_shows_what_came_meanwhile(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        step = f"step {run.step + 3}"
        await visited(pilot, "1")
        run.advance(3)
        await until(pilot, lambda: app.view is not None and app.view.step == run.step)
        await visited(pilot, "4")
        assert step in shown(app)


@pytest.mark.parametrize("away", ["1", "5"])
async def test_another_theme_and_another_size_meanwhile(away: str, run: RecordedRun) -> None:
    """What is looked at again looks as if it had never been left."""
    found = []
    for keys in ((away, "change", "4"), ("change",)):
        app = app_on(run.folder.root)
        async with app.run_test(size=(120, 40)) as pilot:
            await opened(pilot)
            for key in keys:
                if key == "change":
                    app.theme = NAMES["light"]
                    await pilot.resize_terminal(80, 24)
                else:
                    await pilot.press(key)
                await pilot.pause()
            await settled(pilot)
            assert isinstance(app.screen, TrainScreen)
            colours = [(str(w), str(w.styles.background), str(w.styles.color)) for w in app.screen.query("*")]
            found.append((shown(app), colours))
    assert found[0] == found[1]


async def test_pictures_are_held_back_no_longer_than_a_change_of_pane(run: RecordedRun) -> None:
    """Panes pressed faster than they are put up, and a pane that is shown already."""
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        for keys in (("1", "4", "5", "1", "4"), ("4", "4"), ("5", "question_mark", "question_mark", "1")):
            await pilot.press(*keys)
            await pilot.pause()
            assert not app._batch_count
            assert app.current_mode == ("train" if keys[-1] == "4" else "runs")
        with pytest.raises(Exception, match="no such"):
            app.switch_mode("no such")
        assert not app._batch_count


async def test_what_is_on_top_is_painted_once_a_slower_pane_holds_no_pictures_back(
    run: RecordedRun, pictures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards is asked for, and left before it has come. The help is on top then, and gets no message."""
    is_up, handled = asyncio.Event(), asyncio.Event()

    async def slow(screen: RewardsScreen) -> None:
        await is_up.wait()

    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await visited(pilot, "3", "4", "question_mark")
        monkeypatch.setattr(RewardsScreen, "on_screen_resume", slow)
        app.switch_mode("rewards")
        app.switch_mode("train")
        app.screen.call_later(handled.set)
        await handled.wait()
        assert isinstance(app.screen, HelpScreen)
        assert app._batch_count == 1
        pictures.clear()
        is_up.set()
        end = time.monotonic() + PATIENCE_S
        while "HelpScreen" not in pictures:
            assert time.monotonic() < end, "it was not painted"
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("key", ["question_mark", "S", "equals_sign", "x", "u"])
async def test_what_opens_is_styled_once_for_its_size(key: str, run: RecordedRun, styled: list[str]) -> None:
    """A dialog opened at a size, and one that gets the size while it is open, look the same."""
    found = []
    for late in (False, True):
        app = app_on(run.folder.root)
        async with app.run_test(size=(120, 40) if late else (80, 24)) as pilot:
            await opened(pilot)
            styled.clear()
            await visited(pilot, key)
            screen = app.screen
            assert not isinstance(screen, TrainScreen)
            assert styled.count(str(screen)) == 1
            if late:
                await pilot.resize_terminal(80, 24)
                await settled(pilot)
            assert screen.has_class("-narrow", "-low")
            assert not screen.has_class("-medium")
            found.append(shown(app))
    assert found[0] == found[1]


async def test_what_lies_behind_a_dialog_is_tinted_as_by_textual(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for ours in (True, False):
        if not ours:
            monkeypatch.setattr(Tint, "process_segments", BackgroundScreen.process_segments)
        app = app_on(run.folder.root)
        async with app.run_test(size=(120, 40)) as pilot:
            await opened(pilot)
            await visited(pilot, "S")
            strips = app.screen._compositor.render_strips()
            found.append([[(s.text, s.style) for s in strip.simplify()] for strip in strips])
            assert any("correctness" in strip.text for strip in strips)
    assert found[0] == found[1]


async def test_a_move_of_the_focus_paints_what_it_concerns(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await visited(pilot, "tab")
        assert "▸ reward" in shown(app)
        painted: list[Any] = []
        app.screen._compositor.render_full_update = lambda **_: painted.append(1)  # type: ignore[method-assign]
        await visited(pilot, "tab", "shift+tab", "shift+tab")
        assert not painted
        assert "▸ reward" not in shown(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_depends_on_a_state_is_styled_by_it(
    size: tuple[int, int], run: RecordedRun, styled: list[str]
) -> None:
    """As it would be if all was styled anew."""
    app = app_on(run.folder.root)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)

        def rules() -> list[dict[str, Any]]:
            return [dict(w.styles.base.get_rules()) for w in (app.screen, *app.screen.query("*"))]

        for key in ("v", "l", "z", "v", "z", "z", "5", "z", "enter", "z", "escape", "4"):
            styled.clear()
            await visited(pilot, key)
            whole = styled.count(str(app.screen.query_one(Footer)))
            kept = rules()
            app.screen.update_node_styles()
            assert kept == rules(), key
            assert not (whole and key in "vz")
