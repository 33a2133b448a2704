"""The data view on a checker that answers at once, and on one that does not answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.widgets import Input

from grpo_tui.config.resolve import load_config
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.preflight import checker as checker_module
from grpo_tui.preflight.checker import CheckCancelledError, Checked, CheckerError
from grpo_tui.preflight.facts import (
    ColumnFacts,
    DataFacts,
    Facts,
    KindCount,
    Lengths,
    RowView,
    TokenizerFacts,
)
from grpo_tui.preflight.rewards import GoldReward
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.requests import ConfigRequest
from grpo_tui.ui.screens.data import DataScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from tests.ui.acts import Acts
from tests.ui.conftest import app_on, shown, until
from tests.ui.recorded_run import NOW

EVIL = "\x1b]52;c;aGk=\x07[/INST] [@click=app.bell]x"
TOTAL = 30
DEMO = Path(__file__).parents[2] / "grpo_tui" / "demo" / "demo.yaml"
LENGTHS = Lengths(30, 5, 7.0, 7, 9, 9, 9, ((4, 9),), ((5, 6, 10), (7, 9, 20)), ((5, 10), (9, 20)))
FACTS = DataFacts(
    "/data/rows.jsonl",
    source_columns=("question", "answer"),
    columns=(
        ColumnFacts("prompt", "question", (KindCount("text", 30, (1,)),), distinct=30),
        ColumnFacts("answer", "answer", (KindCount("text", 29, (1,)),), 1, (8,), top=((EVIL, 3), ("2", 1))),
    ),
    form="text",
    total=TOTAL,
    looked_at=TOTAL,
    train_rows=28,
    held=2,
    answer_column="answer",
    prompt_tokens=LENGTHS,
)
FOUND = Finding(
    "data.gold-missing",
    "warning",
    None,
    None,
    "no right answer in row 8",
    Fix("grpo_tui.filters.drop_null", True),
)


class Answering:
    """Stands for the checker: every row at once, the facts when they are let through."""

    gate = threading.Event()
    asked: list[tuple[str, Any]] = []  # noqa: RUF012
    hangs = ""
    """What ends only when it is cancelled: `row` or `check`."""
    ended: list[str] = []  # noqa: RUF012

    def __init__(self, progress: Any = None, cancel: threading.Event | None = None) -> None:
        self._progress, self._cancel = progress, cancel

    def row(self, config: Any, number: int, *, rendered: bool = True) -> RowView:
        self.asked.append(("row", number))
        self._hang("row")
        if number == 13:
            raise CheckerError(f"the checker ended: {EVIL}")
        number = max(1, min(number, TOTAL))
        prompt = [{"role": "user", "content": f"question {number} {EVIL}"}]
        return RowView(
            number,
            TOTAL,
            {"question": f"question {number}", "answer": str(number)},
            prompt,
            {"answer": str(number)},
            rendered=f"<|user|>question {number}<|end|>" if rendered else "",
            tokens=number + 5 if rendered else None,
            fate="train" if number != 2 else "left out: an earlier row has the same prompt",
            answer_column="answer",
        )

    def any_row(self, config: Any, *, rendered: bool = True, seed: int | None = None) -> RowView:
        return self.row(config, 17, rendered=rendered)

    def holding(self, config: Any, text: str) -> tuple[int, ...]:
        return (4, 9, 21) if text == "apples" else ()

    def check(self, config: Any, *, settings: Any, tell: Any) -> Checked:
        self._progress("loading the tokenizer")
        self._hang("check")
        self.gate.wait(20)
        checked = Checked(Facts(data=FACTS, tokenizer=TokenizerFacts("T")), (FOUND,), True)
        tell(checked)
        return checked

    def _hang(self, what: str) -> None:
        if self.hangs == what:
            assert self._cancel is not None
            assert self._cancel.wait(20)
            self.ended.append(what)
            raise CheckCancelledError("cancelled")

    def close(self) -> None:
        """Nothing runs."""


class NoLab:
    """Stands for the lab."""

    def __enter__(self) -> NoLab:
        return self

    def __exit__(self, *args: object) -> None:
        """Nothing runs."""

    def load(self, config: Any) -> None:
        """Every function is there."""

    def interrupt(self) -> None:
        """Nothing runs."""


@pytest.fixture(autouse=True)
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answering]]:
    from grpo_tui.preflight import rewards as gold_rewards
    from grpo_tui.rewards import lab

    def scored(lab: Any, row: RowView) -> tuple[GoldReward, ...]:
        return (
            GoldReward("correct", 1.0, 1.0, 0.0, "plain"),
            GoldReward("form", 1.0, 1.0, 1.0, "tagged"),
            GoldReward("broken", 1.0, None, None, "", EVIL),
        )

    monkeypatch.setattr(checker_module, "Checker", Answering)
    monkeypatch.setattr(lab, "Lab", NoLab)
    monkeypatch.setattr(gold_rewards, "gold_rewards", scored)
    Answering.gate = threading.Event()
    Answering.gate.set()
    Answering.asked, Answering.ended = [], []
    yield Answering
    Answering.gate.set()


async def opened_view(pilot: Any) -> GrpoApp:
    """The app with the view on top, its first row there."""
    app: GrpoApp = pilot.app
    await app.push_screen(DataScreen(load_config(DEMO)))
    await until(pilot, lambda: "in the source" in shown(app))
    return app


async def test_a_row_shows_before_the_tokenizer_is_there(answering: type[Answering]) -> None:
    answering.gate.clear()
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app = await opened_view(pilot)
        await until(pilot, lambda: "loading the tokenizer" in shown(app))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "row 2 of 30" in shown(app))
        assert "an earlier row has the same prompt" in shown(app)
        assert "as the model sees it" not in shown(app)
        answering.gate.set()
        await until(pilot, lambda: "as the model sees it" in shown(app))
        assert "7 tokens" in shown(app)
        assert "row 2 of 30" in shown(app)
        assert "loading" not in shown(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_everything_of_a_row_is_there_at_every_size(size: tuple[int, int]) -> None:
    async with app_on(None).run_test(size=size) as pilot:
        app = await opened_view(pilot)
        await until(pilot, lambda: "1.00 right, 0.00 wrong" in shown(app))
        text = shown(app)
        for word in (
            "row 1 of 30",
            "trained on",
            "6 tokens",
            "<|user|>question 1<|end|>",
            "right answer: answer",
        ):
            assert word in text
        assert "does not look at the answer" in text
        assert "rows.jsonl" in text
        assert "⚠ 1 warning" in text


async def test_hostile_text_is_shown_and_not_obeyed() -> None:
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app = await opened_view(pilot)
        await until(pilot, lambda: "1.00 right, 0.00 wrong" in shown(app))
        text = shown(app)
        assert "\x1b" not in text
        assert (
            text.count("␛]52;c;aGk=␇[/INST] [@click=app.bell]x") == 2
        )  # the prompt, and why a reward failed
        await pilot.press("a")
        await until(pilot, lambda: "no right answer in row 8" in shown(app))
        assert "\x1b" not in shown(app)


async def test_moving_by_row_number_and_chance(answering: type[Answering]) -> None:
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app = await opened_view(pilot)
        for keys, row in (
            (["colon", "2", "9", "enter"], 29),
            (["]", "]", "]"], 30),
            (["left"], 29),
            (["r"], 17),
        ):
            await pilot.press(*["right_square_bracket" if key == "]" else key for key in keys])
            await until(pilot, lambda row=row: f"row {row} of 30" in shown(app))  # type: ignore[misc]
        await pilot.press("colon", "x", "enter")
        await until(pilot, lambda: "✗ x is not a row number" in shown(app))


async def test_a_search_goes_from_match_to_match() -> None:
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app = await opened_view(pilot)
        await pilot.press("slash", *"apples", "enter")
        await until(pilot, lambda: "match 1 of 3 rows with “apples”" in shown(app))
        for key, number in (("n", 2), ("n", 3), ("n", 1), ("N", 3)):
            await pilot.press(key)
            await until(pilot, lambda n=number: f"match {n} of 3 rows" in shown(app))  # type: ignore[misc]
        assert "row 21 of 30" in shown(app)
        for row, number in ((9, 2), (10, 3), (22, 1)):  # from the row on the screen on, and around the end
            app.screen.go_to(row)  # type: ignore[attr-defined]
            await until(pilot, lambda n=row: f"row {n} of 30" in shown(app))  # type: ignore[misc]
            await pilot.press("slash", *"apples", "enter")
            await until(pilot, lambda n=number: f"match {n} of 3 rows" in shown(app))  # type: ignore[misc]
        await pilot.press("escape")
        await until(pilot, lambda: "match" not in shown(app))
        await pilot.press("slash", *"pears", "enter")
        await until(pilot, lambda: "✗ no row contains “pears”" in shown(app))


async def test_every_action_of_the_view() -> None:
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app = await opened_view(pilot)
        act, screen = Acts(pilot), app.screen
        assert isinstance(screen, DataScreen)
        lines = screen.query_one("#data-lines")

        def row(number: int) -> Callable[[], bool]:
            return lambda: f"row {number} of 30" in shown(app)

        await act("data.next", row(2))
        await act("data.previous", row(1))
        await act("data.random", row(17))
        await act("data.go", lambda: isinstance(app.focused, Input))
        await pilot.press("2", "9", "enter")
        await until(pilot, row(29))
        await act("data.search", lambda: isinstance(app.focused, Input))
        await pilot.press(*"apples", "enter")
        await until(pilot, row(4))
        await act("data.next_match", row(9))
        await act("data.previous_match", row(4))
        await act.copied("data.copy", lambda text: json.loads(text)["row"] == 4)
        await act("data.figures", lambda: "30 rows checked" in shown(app))
        await pilot.resize_terminal(80, 8)
        await until(pilot, lambda: lines.max_scroll_y > 0)  # the lines are laid out in the smaller room
        await act("data.down", lambda: lines.scroll_offset.y == 1)
        await act("data.up", lambda: lines.scroll_offset.y == 0)
        await pilot.resize_terminal(120, 40)
        await act("data.figures", row(4))
        await act("data.back", lambda: "match" not in shown(app))
        await act("data.again", row(1))
        await act("data.back", lambda: not isinstance(app.screen, DataScreen))
        assert not act.missed("data")


async def test_all_rows_in_figures_and_back() -> None:
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app = await opened_view(pilot)
        await until(pilot, lambda: "⚠ 1 warning" in shown(app))
        await pilot.press("a")
        await until(pilot, lambda: "30 rows checked" in shown(app))
        text = shown(app)
        assert "fix: grpo_tui.filters.drop_null: true" in text
        assert "from question, 30 different" in text
        assert "5 to 6" in text
        assert "row 4 (9)" in text
        await pilot.press("a")
        await until(pilot, lambda: "row 1 of 30" in shown(app))


async def test_a_child_that_fails_is_told_in_a_line_and_the_next_row_comes() -> None:
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app = await opened_view(pilot)
        await pilot.press("colon", "1", "3", "enter")
        await until(pilot, lambda: "✗ the checker ended:" in shown(app))
        assert "\x1b" not in shown(app)
        await pilot.press("colon", "1", "4", "enter")
        await until(pilot, lambda: "row 14 of 30" in shown(app) and "✗ the checker" not in shown(app))


@pytest.mark.parametrize("hangs", ["row", "check"])
async def test_leaving_ends_the_threads_and_what_they_wait_for(
    hangs: str, answering: type[Answering], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "hangs", hangs)
    async with app_on(None).run_test(size=(120, 40)) as pilot:
        app: GrpoApp = pilot.app  # type: ignore[assignment]
        await app.push_screen(DataScreen(load_config(DEMO)))
        await until(pilot, lambda: ("row", 1) in answering.asked)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, DataScreen))
        await until(pilot, lambda: answering.ended == [hangs])
        await until(
            pilot, lambda: not [w for w in app.workers if w.group.startswith("data") and w.is_running]
        )


@pytest.mark.parametrize(("pane", "key"), [("config", "i"), ("rewards", "i")])
async def test_it_opens_over_the_panes_that_have_a_config(pane: str, key: str) -> None:
    config = load_config(DEMO)
    request = ConfigRequest(DEMO) if pane == "config" else None
    app = GrpoApp([Path("runs")], None, config=request, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        screen: Any = app.screen
        if pane == "config":
            await until(pilot, lambda: screen.state is not None)
        else:
            await pilot.press("3")
            await until(pilot, lambda: isinstance(app.screen, RewardsScreen))
            screen = app.screen
            screen.worker = SimpleNamespace(config=config, stop=lambda: None)
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, DataScreen))
        await until(pilot, lambda: "row 1 of 30" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
