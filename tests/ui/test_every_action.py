"""Every action of every pane does what its name says; one that is not done here fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from grpo_tui.core import records as r
from grpo_tui.core.text import safe
from grpo_tui.present.formatting import percent
from grpo_tui.ui.actions import ACTIONS, action, on_pane
from grpo_tui.ui.requests import rewards_of_run
from grpo_tui.ui.screens.answers import AnswersScreen
from grpo_tui.ui.screens.chart import ChartScreen, OverlayScreen
from grpo_tui.ui.screens.chat import ChatLines, ChatScreen
from grpo_tui.ui.screens.dialogs import (
    MenuDialog,
    PathDialog,
    SampleDialog,
    StopDialog,
    WordsDialog,
    YesNo,
)
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.generations_dialogs import AuditScreen, CourseScreen, PromptsScreen, PromptTable
from grpo_tui.ui.screens.hardware import HardwareScreen
from grpo_tui.ui.screens.metrics import MetricPicker
from grpo_tui.ui.screens.reading import HelpScreen, TextScreen
from grpo_tui.ui.screens.results import ResultsScreen
from grpo_tui.ui.screens.runs import RunsScreen, RunsTable
from grpo_tui.ui.screens.tokens import TokensScreen
from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.screens.train_dialogs import ReloadScreen, SetDialog
from grpo_tui.ui.screens.what_if import WhatIfScreen
from grpo_tui.ui.widgets.card_table import CardTable
from grpo_tui.ui.widgets.group_table import GroupTable
from grpo_tui.ui.widgets.groups import GroupList
from grpo_tui.ui.widgets.log_list import LogList
from grpo_tui.ui.widgets.results import ModelList
from tests.ship.folders import checkpoint
from tests.ui import machines
from tests.ui.acts import Acts
from tests.ui.chat_child import Scripted
from tests.ui.conftest import app_on, opened, sent, shown, until
from tests.ui.kept_comparison import keep_comparison, waiting_child
from tests.ui.recorded_run import GROUPS, NOW, RecordedRun, recorded

SIZE = (120, 40)


def on_top(app: Any, kind: type) -> Callable[[], bool]:
    """Whether a screen of a kind is on top."""
    return lambda: isinstance(app.screen, kind)


async def closed(pilot: Any, screen: Any) -> None:
    """Leave what is over a screen."""
    await pilot.press("escape")
    await until(pilot, lambda: pilot.app.screen is screen)


def scrolled(app: Any, name: str) -> Callable[[], bool]:
    """Whether a part is a line further down."""
    return lambda: app.screen.query_one(name).scroll_offset.y == 1


async def test_of_train(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        act = Acts(pilot)
        await until(pilot, lambda: "step 57 ── “" in shown(app))
        screen = app.screen
        assert isinstance(screen, TrainScreen)
        groups, log = screen.query_one(GroupList), screen.query_one(LogList)

        def commands() -> list[str]:
            return [kind for kind, _ in sent(run)]

        await act("run.pause", lambda: "pause" in commands())
        app.turning = ""
        await act("run.checkpoint", lambda: "checkpoint" in commands())
        for name, key, kind in (("run.stop", "y", "stop"), ("run.stop_now", "w", "stop_now")):
            await act(name, on_top(app, StopDialog))
            assert kind not in commands()
            await pilot.press(key)
            await until(pilot, lambda kind=kind: kind in commands())  # type: ignore[misc]
        await act("run.set", on_top(app, SetDialog))
        await closed(pilot, screen)
        await act("run.undo", lambda: "undo" in commands())
        await act("run.evaluate", lambda: "evaluate" in commands())
        await act("run.reload", on_top(app, ReloadScreen))
        await closed(pilot, screen)
        await act("run.sample", on_top(app, SampleDialog))
        await closed(pilot, screen)

        turned = screen.query_one("#chart-1").key  # type: ignore[attr-defined]
        await act("chart.next", lambda: screen.query_one("#chart-1").key != turned)  # type: ignore[attr-defined]
        await act("chart.previous", lambda: screen.query_one("#chart-1").key == turned)  # type: ignore[attr-defined]
        await act("chart.log", lambda: "log ─" in shown(app))
        await act("view.settings", lambda: "/models/adder-0.8M" in shown(app))
        await act("view.settings", lambda: "/models/adder-0.8M" not in shown(app))
        await act("chart.open", on_top(app, ChartScreen))
        await closed(pilot, screen)
        await act("chart.pick", on_top(app, MetricPicker))
        await closed(pilot, screen)
        await act("hardware.open", on_top(app, HardwareScreen))
        await closed(pilot, screen)

        await act("view.groups", lambda: screen.has_class("-large") and screen.part == "groups")
        await pilot.press("pagedown")
        await act("part.end", lambda: groups.follows)
        chosen = groups.selected
        assert chosen is not None
        await act.copied("part.copy", lambda text: text == chosen[0].completions[max(0, chosen[1])].text)
        asked: list[Any] = []
        monkeypatch.setattr(app, "show_rewards", asked.append)
        await act("groups.score", lambda: bool(asked))
        assert asked[0].origin == rewards_of_run(run.folder.root, chosen[0].id).origin
        monkeypatch.setattr(app, "show_generations", lambda **words: asked.append(words))
        await act("groups.inspect", lambda: asked[1:] == [{"group": chosen[0].id}])
        await act("view.back", lambda: not screen.has_class("-large"))
        await act("view.large", lambda: screen.has_class("-large"))
        await act.said("view.findings", "No problems were found in this run.")
        await act("view.events", lambda: screen.part == "event-list")
        await act.copied("part.copy", lambda text: "requested; waits for the end" in text)
        await act("view.log", lambda: screen.part == "log")
        await pilot.press("up")
        await until(pilot, lambda: log.selected is not None)
        line = log.selected
        assert line is not None
        await act.copied("part.copy", lambda text: text == safe(line.text))
        level = log.level
        await act("log.level", lambda: log.level != level)
        await act("log.search", lambda: isinstance(app.focused, Input))
        await pilot.press(*"something", "enter")
        await until(pilot, lambda: "“something” 1 of 1" in shown(app))
        await act("log.next", lambda: "wrapped around" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "“something”" not in shown(app))
        await act("view.hold", lambda: "view held" in shown(app))
        run.now("reward", reward_function="correctness")
        await until(pilot, lambda: app.view is not None and app.view.phase == "reward")
        await act("run.abort", lambda: "abort_reward" in commands())
        run.now("wait")
        await until(pilot, lambda: app.view is not None and app.view.state == "paused")
        await act("live.chat", on_top(app, ChatScreen))
        await until(pilot, lambda: "runs/demo-add@live" in shown(app))
        await pilot.press("escape")
        await closed(pilot, screen)
        await act("run.resume", lambda: "resume" in commands())
        await act("replay.open", lambda: app.view is not None and app.view.replay is not None)
        await _replayed(app, act)
        assert act.missed("train") == {"log.previous"}


async def _replayed(app: Any, act: Acts) -> None:
    def step() -> int:
        return int(app.view.step)

    await act("replay.turn", lambda: not app.view.replay.playing)
    await act("replay.go", on_top(app, WordsDialog))
    await act._pilot.press(*"30", "enter")
    await until(act._pilot, lambda: step() == 30)
    await act("replay.after", lambda: step() == 31)
    await act("replay.before", lambda: step() == 30)
    await act("replay.slower", lambda: app.view.replay.speed == 5)
    await act("replay.faster", lambda: app.view.replay.speed == 10)


async def test_of_the_machine(run: RecordedRun) -> None:
    machines.ranks(run, 8)
    machines.put(run, machines.eight())
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        act = Acts(pilot)
        await until(pilot, lambda: "⚠ GPU 3 idle" in shown(app))
        for name in ("hardware.back", "hardware.close"):
            await app.run_action("screen.hardware_open")
            await until(pilot, lambda: "8 × NVIDIA H100" in shown(app))
            down = scrolled(app, "#hardware-lines")
            await act("hardware.down", down)
            await act("hardware.up", lambda down=down: not down())  # type: ignore[misc]
            await act(name, on_top(app, TrainScreen))
        assert not act.missed("hardware")


async def test_of_a_chart(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (10, 20, 30, 40):
        run.write(r.MetricRow(1, step, run.at(step), {"eval_reward": step / 10}))
    run.advance(1)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        act = Acts(pilot)
        await until(pilot, lambda: "step 58 ── “" in shown(app))
        await app.run_action("screen.chart_open")
        await until(pilot, lambda: isinstance(app.screen, ChartScreen) and app.screen.step_here() == 58)
        screen = app.screen
        assert isinstance(screen, ChartScreen)

        def here(step: int) -> Callable[[], bool]:
            return lambda: screen.step_here() == step

        def span() -> tuple[float, float] | None:
            return screen.options.window.span

        await act("zoom.left", here(57))
        await act("zoom.far_left", here(47))
        await act("zoom.right", here(48))
        await act("zoom.far_right", here(58))
        await act("zoom.oldest", here(1))
        await act("zoom.newest", lambda: screen.options.cursor is None)
        assert screen.step_here() == 58
        await act("zoom.in", lambda: span() is not None)
        zoomed = span()
        assert zoomed is not None
        await act("zoom.earlier", lambda: (span() or zoomed)[0] < zoomed[0])
        earlier = span()
        assert earlier is not None
        await act("zoom.later", lambda: (span() or earlier)[0] > earlier[0])
        await act("zoom.out", lambda: span() is None or span()[1] - span()[0] > zoomed[1] - zoomed[0])  # type: ignore[index]
        await app.run_action("screen.zoom(1)")
        await act("zoom.whole", lambda: span() is None)
        smoothing = screen.options.window.smoothing
        await act("zoom.smooth", lambda: screen.options.window.smoothing != smoothing)
        await act("zoom.time", lambda: screen.options.window.x == "time")
        await act("zoom.log", lambda: screen.options.logarithmic)
        together = screen.options.together
        await act("chart.together", lambda: screen.options.together != together)
        key = screen.options.key
        await act("zoom.next", lambda: screen.options.key != key)
        await act("zoom.previous", lambda: screen.options.key == key)
        await act("zoom.pick", on_top(app, MetricPicker))
        await closed(pilot, screen)
        asked: list[str] = []
        monkeypatch.setattr(app, "show_generations", asked.append)
        await act("chart.completions", lambda: asked == ["step==58 and mode==train"])
        await act("zoom.back", on_top(app, TrainScreen))
        assert not act.missed("zoom", "chart")


async def test_of_generations(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        act = Acts(pilot)
        await opened(pilot)
        await act("pane.generations", on_top(app, GenerationsScreen))
        screen = app.screen
        assert isinstance(screen, GenerationsScreen)
        await until(pilot, lambda: screen.card is not None)
        table, cards = screen.query_one(GroupTable), screen.query_one(CardTable)

        def step(number: int) -> Callable[[], bool]:
            return lambda: screen.card is not None and screen.card.step == number

        def at_group(number: int) -> Callable[[], bool]:
            return lambda: screen.card is not None and screen.card.id == number and bool(screen.visits)

        def totals() -> list[float]:
            return [row.total or 0.0 for row in screen.card.rows] if screen.card is not None else []

        await act("generations.earlier", step(56))
        await act("generations.later", step(57))
        await act("generations.group_after", lambda: table.cursor == 1)
        await act("generations.group_before", lambda: table.cursor == 0)
        await act("generations.group_after", lambda: table.cursor == 1)
        await act("generations.newest", lambda: table.cursor == 0)
        await act("generations.right", lambda: cards.cursor == 1)
        await act.said("generations.mark", "completion 2 of step 57")
        await act("generations.left", lambda: cards.cursor == 0)
        await act("generations.diff", lambda: screen.reading.view == "diff")
        assert screen.reading.against[0] == "completion 2 of step 57", "what was marked comes first"
        await act("generations.raw", lambda: screen.reading.view == "raw")
        row = screen.row
        assert row is not None
        await act.copied("generations.copy", lambda text: text == row.text)
        await act("generations.prompt", lambda: screen.reading.view == "prompt")
        card = screen.card
        assert card is not None
        await act.copied("generations.copy", lambda text: text == card.prompt)

        await act("generations.open", lambda: screen.part == "card")
        await act("generations.large", lambda: not screen.query_one("#found-part").display)
        await act("generations.back", lambda: screen.query_one("#found-part").display)
        await act("generations.back", lambda: screen.part == "list")
        await act("generations.kind", lambda: table.of_completions)
        await act("generations.kind", lambda: not table.of_completions)
        await act("generations.query", lambda: isinstance(app.focused, Input))
        await act("generations.back", lambda: screen.part == "list" and app.focused is table)

        await act("generations.sort", on_top(app, MenuDialog))
        await pilot.press("down", "enter")
        await until(pilot, lambda: screen.order == "-reward")
        table.put(2)
        await act("generations.newest", lambda: table.cursor == 0)
        await until(pilot, lambda: 3 in totals())
        await app.run_action(action("generations.sort").target)
        await until(pilot, on_top(app, MenuDialog))
        await pilot.press("enter")
        await until(pilot, lambda: screen.order == "reward")
        table.put(2)
        await act("generations.newest", lambda: table.cursor == 0)
        await until(pilot, lambda: min(totals(), default=1) < 0.3)

        await act("generations.export", on_top(app, PathDialog))
        await closed(pilot, screen)
        await act("generations.tokens", on_top(app, TokensScreen))
        await pilot.press("escape", "escape")
        await until(pilot, on_top(app, GenerationsScreen))
        asked: list[Any] = []
        monkeypatch.setattr(app, "show_rewards", asked.append)
        await act("generations.score", lambda: bool(asked))
        assert screen.card is not None
        assert asked[0].origin == rewards_of_run(run.folder.root, screen.card.id).origin

        screen.show_query('completion has "<think>" and step>50')
        await until(pilot, lambda: screen.row is not None and "<think>" in screen.row.text)
        await act("generations.fold", lambda: bool(screen.reading.folded))
        await act("generations.views", on_top(app, MenuDialog))
        await closed(pilot, screen)
        await act("generations.back", lambda: screen.line == "")
        await until(pilot, lambda: screen.found.line == "")

        groups = screen.found.groups
        assert groups == 57 * GROUPS
        for number in range(groups, 0, -1):
            screen.go_to_group(number)
            await until(pilot, at_group(number))
            at = [visit.group for visit in screen.visits].index(number)
            if at > 0:
                break
        visits = [visit.group for visit in screen.visits]
        await act("generations.visit_before", at_group(visits[at - 1]))
        await act("generations.visit_after", at_group(visits[at]))

        await act("generations.course", on_top(app, CourseScreen))
        await until(pilot, lambda: "different texts in a group" in shown(app))
        down = scrolled(app, "#course-lines")
        await pilot.resize_terminal(80, 12)
        await until(pilot, lambda: app.screen.size.height == 12)
        await act("course.down", down)
        await act("course.up", lambda: not down())
        await act("course.back", on_top(app, GenerationsScreen))
        await act("generations.prompts", on_top(app, PromptsScreen))
        await until(pilot, lambda: "training prompts." in shown(app))
        table = app.screen.query_one(PromptTable)
        chosen = table.rows[0][0]
        for one, _ in table.rows[:5]:
            rates = f"{one.kind:<11}{one.visits:7,}{percent(one.first):>7}{percent(one.last):>7}"
            assert rates in shown(app)
        assert any(one.first != one.last for one, _ in table.rows[:5])
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and screen.line.startswith("group=="))
        await until(pilot, lambda: screen.found.groups == chosen.visits)
        assert f"group=={chosen.group}" in screen.line.split(" or ")
        screen.show_query("step==57")
        await until(pilot, lambda: screen.line == "step==57")
        await act("generations.audit", on_top(app, AuditScreen))
        await until(pilot, lambda: "compared with the attacks of `grpo-tui probe`" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: screen.found.groups == GROUPS)
        run.folder.spec.unlink()  # so the weights of recorded scores are tried without functions
        await act("generations.what_if", on_top(app, WhatIfScreen))
        assert isinstance(app.screen, WhatIfScreen)
        tried = app.screen
        await until(pilot, lambda: bool(tried.trouble))
        await act("what_if.weights", on_top(app, WordsDialog))
        app.screen.query_one(Input).value = "4 0.5 0.5"
        await pilot.press("enter")
        await until(pilot, lambda: tried.found is not None)
        down = scrolled(app, "#what-if-lines")
        await act("what_if.down", down)
        await act("what_if.up", lambda: not down())
        await act("what_if.again", lambda: tried.found is None)
        await act("what_if.back", on_top(app, GenerationsScreen))
        assert not act.missed("generations", "course", "what-if")


async def test_of_results(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(("older", "newer"), 1):
        keep_comparison(run.folder.root, name, at=NOW + number)
    checkpoint(run.folder.root, 40)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        act = Acts(pilot)
        await opened(pilot)
        await act("pane.results", on_top(app, ResultsScreen))
        screen = app.screen
        assert isinstance(screen, ResultsScreen)
        await until(pilot, lambda: screen.complete)

        def file() -> str:
            shown = screen.results.shown if screen.results is not None else None
            return shown.file.stem if shown is not None else ""

        assert file() == "newer"
        await act("results.next", lambda: file() == "older")
        await act("results.previous", lambda: file() == "newer")
        await act.copied("results.copy", lambda text: text.startswith("better than the base: pass@1 +"))
        await act("results.open", on_top(app, AnswersScreen))
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard.startswith("prompt:"))
        await closed(pilot, screen)
        await pilot.press("tab")
        await until(pilot, lambda: isinstance(app.focused, ModelList))
        await act.copied("results.copy", lambda text: text == "vllm serve runs/demo-add/checkpoint-40")
        await act("results.open", on_top(app, TextScreen))
        await closed(pilot, screen)
        await act("results.fork", on_top(app, WordsDialog))
        await closed(pilot, screen)
        await act("results.race", on_top(app, WordsDialog))
        await closed(pilot, screen)
        await act("results.export", on_top(app, PathDialog))
        await closed(pilot, screen)
        await act("results.card", lambda: (run.folder.root / "README.md").exists())
        await act.said("results.merge", "Only a LoRA adapter can be merged.")
        await act("results.delete", on_top(app, YesNo))
        await closed(pilot, screen)
        await act("results.push", on_top(app, WordsDialog))
        await closed(pilot, screen)
        await act("results.chat", on_top(app, YesNo))
        await pilot.press("y")
        await until(pilot, on_top(app, ChatScreen))
        await pilot.press("escape")
        await closed(pilot, screen)
        monkeypatch.setattr("grpo_tui.ui.comparing.Child", waiting_child)
        await act("results.compare", on_top(app, YesNo))
        await pilot.press("y")
        await until(pilot, lambda: "base (1 of 2): generating" in shown(app))
        await act("results.stop", lambda: "S stops it" not in shown(app))
        assert not act.missed("results")


async def test_of_the_chat(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_tui.ui.screens.chat.Chatting", Scripted)
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 16)) as pilot:
        act = Acts(pilot)
        await opened(pilot)
        below = app.screen
        app.push_screen(ChatScreen(run.folder.root, "mine@40", run.folder.root, beside=False))
        await until(pilot, on_top(app, ChatScreen))
        screen, box, lines = app.screen, app.screen.query_one(Input), app.screen.query_one(ChatLines)
        box.value = "What is 1 + 1?"
        await act("chat.send", lambda: "mine@40: writing" in shown(app))
        await act("chat.stop", lambda: "good 1.00" in shown(app))
        await act("chat.base", lambda: "mine@40 beside base" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.focused is lines)
        await act("chat.ask", lambda: app.focused is box)
        for text in ("more", "still more"):
            box.value = text
            await pilot.press("enter")
            await until(pilot, lambda: bool(lines.doing))
            await pilot.press("escape")
            await until(pilot, lambda: not lines.doing)
        await until(pilot, lambda: lines.scroll_offset.y > 1)
        end = lines.scroll_offset.y
        await act("chat.up", lambda: lines.scroll_offset.y == end - 1)
        await act("chat.down", lambda: lines.scroll_offset.y == end)
        await act.copied("chat.copy", lambda text: text == "prompt:\nstill more\n\nmine@40:\n2")
        await act("chat.keep", on_top(app, MenuDialog))
        await pilot.press("p")
        await until(pilot, lambda: "did /probe" in shown(app))
        await act("chat.new", lambda: "still more" not in shown(app))
        await pilot.press("escape")
        await act("chat.back", lambda: app.screen is below)
        assert not act.missed("chat")
        await until(pilot, lambda: Scripted.closed)
        assert screen is not app.screen


async def test_of_the_runs_and_of_those_over_each_other(run: RecordedRun) -> None:
    recorded(Path("runs") / "older", "failed").close()
    app = app_on(None)
    async with app.run_test(size=(100, 30)) as pilot:
        act = Acts(pilot)
        await until(pilot, lambda: app.rows_complete and len(app.rows) == 2)
        screen = app.screen
        assert isinstance(screen, RunsScreen)
        table, name = screen.query_one(RunsTable), screen.query_one("#runs-filter", Input)
        await act.said("runs.config", "its file /tasks/demo.yaml is gone")
        await act("runs.down", lambda: table.cursor == 1)
        older = table.selected
        assert older is not None
        await act.copied("runs.copy", lambda text: text == f"grpo-tui attach {older.path.resolve()}")
        await act.said("runs.resume", "older has no complete checkpoint to resume from")
        await act("runs.up", lambda: table.cursor == 0)
        await act("runs.mark", lambda: "● 1 marked" in shown(app))
        await act("runs.mark", lambda: "● 2 marked" in shown(app))
        await act("runs.overlay", on_top(app, OverlayScreen))
        await until(pilot, lambda: "settings" in shown(app))
        settings = app.screen.query_one("#overlay-settings")
        await act("overlay.table", lambda: settings.has_class("-whole"))
        await closed(pilot, screen)
        await act("runs.clear", lambda: "marked" not in shown(app))
        await act("runs.sort", lambda: " by " in shown(app).splitlines()[1])
        await act("runs.filter", lambda: name.has_focus)
        await pilot.press(*"older", "enter")
        await until(pilot, lambda: table.count == 1)
        await act("runs.open", lambda: app.view is not None and app.view.name == "older")
        await act("pane.runs", on_top(app, RunsScreen))
        await act("runs.replay", lambda: app.view is not None and app.view.replay is not None)
        await act("pane.runs", on_top(app, RunsScreen))
        await act("runs.clear", lambda: table.count == 2 and not name.display)
        assert not act.missed("runs", "overlay")


async def test_of_every_pane(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_tui.ui.app.can_be_continued", lambda: False)
    app = app_on(run.folder.root)
    async with app.run_test(size=SIZE) as pilot:
        act = Acts(pilot)
        await opened(pilot)
        for pane in ("runs", "config", "rewards", "train", "results", "generations"):
            await act(f"pane.{pane}", lambda pane=pane: app.current_mode == pane)  # type: ignore[misc]
        focused = app.focused
        await act("app.next_part", lambda: app.focused is not focused)
        theme = app.theme
        await act("app.theme", lambda: app.theme != theme)
        await act("app.theme", lambda: app.theme == theme)
        await act.said("app.bell", "bell")
        rings = app.preferences.bell
        await act("app.bell", lambda: app.preferences.bell != rings)
        await act.said("app.title", "The terminal title")
        titled = app.preferences.title
        await act("app.title", lambda: app.preferences.title != titled)
        await act("app.palette", lambda: app.screen.id == "--command-palette")
        await pilot.press("escape")
        await act("app.help", on_top(app, HelpScreen))
        await pilot.press("escape")
        await act.said("app.suspend", "Cannot suspend")
        assert act.missed("all") == {"app.leave"}
        await app.run_action("app.app_leave")
    assert app.return_value == "training continues; `grpo-tui attach runs/demo-add`"


WITHOUT_A_RUN = {
    "generations.what_if": "No group can be scored again.",
    "generations.tokens": "No completion is chosen.",
    "generations.score": "No group is chosen.",
    "generations.copy": "No completion is chosen.",
    "generations.fold": "Nothing to fold",
    "generations.views": "No saved queries yet",
    "results.compare": "No run is open.",
    "results.chat": "No run is open.",
    "results.stop": "No comparison or merge is running.",
    "results.export": "There is no run to export.",
    "results.card": "There is no run to describe.",
    "results.push": "No model to upload yet.",
    "results.merge": "No run is open.",
    "results.delete": "Select a checkpoint in the list of models first.",
    "results.fork": "Only a complete checkpoint can be forked.",
    "results.race": "Only a complete checkpoint can be raced from.",
    "results.next": "No other comparison",
    "results.previous": "No other comparison",
    "results.copy": "Nothing to copy yet.",
    "runs.open": "No run is listed.",
    "runs.resume": "No run is listed.",
    "runs.config": "No run is listed.",
    "runs.mark": "No run is listed.",
    "runs.copy": "No run is listed.",
    "runs.overlay": "Mark at least two runs",
}
"""What is said where there is no run; the other actions of these panes then do nothing, or ask."""


async def test_without_a_run_an_action_says_why_it_does_nothing() -> None:
    app = app_on(None)
    async with app.run_test(size=SIZE) as pilot:
        act = Acts(pilot)
        await until(pilot, lambda: app.rows_complete)
        await act.said("pane.train", "No run is open. Start one, or choose one here and press enter.")
        assert app.current_mode == "runs"
        for pane in ("runs", "generations", "results"):
            app.switch_mode(pane)
            await pilot.pause()
            screen = app.screen
            for one in on_pane(pane):
                if one.id in WITHOUT_A_RUN:
                    await act.said(one.id, WITHOUT_A_RUN[one.id])
                elif one.pane == pane:
                    await app.run_action(one.target)
                    await pilot.pause()
                if app.screen is not screen:
                    await closed(pilot, screen)
                assert app.current_mode == pane


def test_no_pane_is_left_out() -> None:
    """The panes that are done here and in the tests of Data, Rewards, Config and the tokens."""
    here = "all train hardware zoom chart overlay generations course what-if results chat runs"
    assert {a.pane for a in ACTIONS} == {*here.split(), "data", "rewards", "probes", "config", "tokens"}
