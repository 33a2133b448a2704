"""The tokens of a completion in the pane: asked, shown with signs and colours, cancelled, refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from grpo_tui.config.resolve import load_config
from grpo_tui.core.commands import Outcome
from grpo_tui.core.token_scores import Token, TokenScores
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.token_lines import (
    HeatRow,
    heat_lines,
    heat_rows,
    line_of,
    sign_of,
    surprising_lines,
    visible,
)
from grpo_tui.rewards.token_asking import AskedPolicy
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.screens import tokens
from grpo_tui.ui.screens.dialogs import MenuDialog
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.tokens import TokenList, TokensHeat, TokensScreen
from tests.ui.acts import Acts
from tests.ui.conftest import app_on, opened, sent, shown, until
from tests.ui.recorded_run import HOSTILE, RecordedRun


def token(text: str, surprise: float, **changes: Any) -> Token:
    values: dict[str, Any] = {
        "id": 5, "text": text, "special": False, "logprob": -surprise, "entropy": 0.5, "rank": 1,
        "likeliest": "the", "likeliest_logprob": -0.1, "base_logprob": -surprise - 0.5, "kl": 0.25,
    }  # fmt: skip
    return Token(**{**values, **changes})


def scores(*tokens: Token, **changes: Any) -> TokenScores:
    values: dict[str, Any] = {
        "tokens": tokens, "policy": "the policy at step 57", "base": "the reference model",
        "of": len(tokens), "recorded": len(tokens), "retokenized": False, "note": "",
        "prompt": "<|user|>What is 3 + 4?<|end|>", "prompt_tokens": 9, "temperature": 0.9,
        "precision": "float32", "device": "cpu", "seconds": 0.2,
    }  # fmt: skip
    return TokenScores(**{**values, **changes})


ODD = scores(
    token("plain", 0.1), token(" two", 1.2), token("\n\n", 5.0), token(HOSTILE, 12.0, rank=9000),
    token("", 0.2), token("日本", 3.0), token("\u0301", 3.0), token("x" * 300, 2.0), token("<|end|>", 0.0),
    token("שלום", 2.5), token("\t", 0.9), token("[bold]no[/]", 0.0, likeliest="\x1b[2J", rank=2),
)  # fmt: skip


@pytest.mark.parametrize(
    ("live", "steps", "step", "chosen"),
    [(True, [60, 40], 41, 0), (False, [60, 40, 20], 41, 1), (False, [60, 40], 50, 0), (False, [], 9, 0)],
)
def test_the_policy_offered_first_is_the_live_one_or_the_nearest(
    live: bool, steps: list[int], step: int, chosen: int
) -> None:
    known = [AskedPolicy("live", "live")] if live else []
    known += [AskedPolicy("checkpoint", f"checkpoint-{saved}", step=saved) for saved in steps]
    assert tokens.nearest([*known, AskedPolicy("base", "base")], step) == chosen


def test_how_far_a_checkpoint_is_from_the_completion_is_told() -> None:
    apart = [tokens._apart(saved, 41) for saved in (41, 40, 60)]
    steps = ["1 step before the completion", "19 steps after the completion"]
    assert apart == ["saved after the step of the completion", *steps]


# -- lines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 78, 118])
def test_no_line_is_wider_than_its_place_and_nothing_hostile_gets_through(width: int) -> None:
    heat = heat_lines(ODD, width)
    for line in heat:
        assert sum(cell_len(text) for text, _ in line) <= width
        assert all(text.isprintable() for text, _ in line)
    assert len(heat) % 2 == 0
    whole = "".join(text for line in heat[::2] for text, _ in line)
    assert whole.count("│") == len(ODD.tokens), "every token ends at a sign"
    for line in surprising_lines(ODD, max(width, 78), 20)[1:]:
        assert all(text.isprintable() for text, _ in line)
        assert sum(cell_len(text) for text, _ in line) <= max(width, 78)


def test_each_sign_stands_below_the_first_cell_of_its_token() -> None:
    above, below = heat_lines(scores(token("ab", 0.1), token("日本", 3.0), token("c", 12.0)), 40)
    assert "".join(text for text, _ in above) == "ab│日本│c│"
    assert "".join(text for text, _ in below).rstrip() == "   3    +"
    assert [role for text, role in above if text != "│"] == ["dim", "attention", "bad"]


@pytest.mark.parametrize(
    ("surprise", "sign"),
    [(0.0, " "), (0.49, " "), (0.5, "1"), (2.4, "2"), (9.4, "9"), (9.5, "+"), (math.inf, "+")],
)
def test_surprise_is_one_sign(surprise: float, sign: str) -> None:
    assert sign_of(token("x", surprise)) == sign


@pytest.mark.parametrize(("text", "expected"), [(" ", "·"), ("", "◌"), ("\u0301", "◌\u0301"), (" a", " a")])
def test_no_token_is_without_a_cell(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_a_marked_token_is_found_in_its_row() -> None:
    rows = heat_rows(ODD, 78)
    assert line_of(rows, 0) == 0
    assert line_of(rows, 3) == 2, "after the line break"
    assert ["selected" in role for _, role in rows[1].lines(3)[0]][:2] == [True, False]


def test_the_most_surprising_tokens_are_listed_first_with_their_figures() -> None:
    head, *lines = surprising_lines(ODD, 100, 3, chosen=2)
    rows = ["".join(text for text, _ in line) for line in lines]
    assert head[0][0].split() == ["at", "token", "p", "log", "p", "rank", "entropy", "KL", "more", "likely"]
    assert [row.split()[:2] for row in rows][1:] == [["❙", "3"], ["6", "日本"]]
    assert rows[0].split()[0] == "4"
    assert rows[0].rstrip().endswith("the 90.5 %"), "its rank is not the first"
    assert ["selected" in line[0][1] for line in lines] == [False, True, False]
    assert rows[2].split()[2:] == ["5", "%", "-3.00", "1", "0.50", "0.25"]


def test_figures_travel_whole() -> None:
    assert TokenScores.from_wire(json.loads(json.dumps(ODD.to_wire()))) == ODD
    with pytest.raises(ValueError, match="something else"):
        TokenScores.from_wire({"tokens": {"id": [1]}})


# -- the screen --------------------------------------------------------------------------------------


async def asked(pilot: Any, run: RecordedRun) -> Mailbox:
    """Open the tokens of the first completion, and wait until the run was asked."""
    await opened(pilot)
    await pilot.press("5")
    await until(pilot, lambda: pilot.app.screen.card is not None)
    await pilot.press("enter", "t")
    await until(pilot, lambda: bool(sent(run)))
    return Mailbox(run.folder.commands)


def decide(box: Mailbox, outcome: Outcome) -> None:
    box.finish(box.pending()[-1], outcome)


def head_of(app: GrpoApp) -> str:
    return "\n".join(shown(app).splitlines()[:8])


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_live_policy_is_asked_and_its_tokens_shown(
    run: RecordedRun, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out = list[int]()

    def counted(found: TokenScores, width: int) -> list[HeatRow]:
        laid_out.append(width)
        return heat_rows(found, width)

    monkeypatch.setattr(tokens.token_lines, "heat_rows", counted)
    app = app_on(run.folder.root)
    async with app.run_test(size=size) as pilot:
        box = await asked(pilot, run)
        await until(pilot, lambda: "waiting for the end of the step" in shown(app))
        kind, args = sent(run)[0]
        card = next(s for s in app.screen_stack if isinstance(s, GenerationsScreen)).card
        assert card is not None
        assert (kind, args["group"], args["index"], args["base"]) == ("tokens", card.id, 0, True)
        assert args["text"] == card.rows[0].text
        found = scores(
            *ODD.tokens, retokenized=True, note="the recorded text has 12 tokens now; it had 9", of=3000
        )
        decide(box, Outcome(True, 57, "", found.to_wire()))
        await until(pilot, lambda: "the policy at step 57" in head_of(app))
        body = shown(app)
        assert "plain│ two│⏎⏎│" in body
        assert "the run samples at 0.9" in body
        assert "these may differ from the generated tokens" in head_of(app)
        assert "only the first 2,048 of 3,000" in head_of(app)
        listed = app.screen.query_one(TokenList)
        assert listed.place == 3, "the least likely first"
        assert "KL" in body
        widths = list(laid_out)
        await pilot.press("down")
        await until(pilot, lambda: app.screen.query_one(TokensHeat).chosen == listed.place == 2)
        assert laid_out == widths, "moving the mark lays out nothing"
        await pilot.press("i")
        await until(pilot, lambda: "<|user|>What is 3 + 4?<|end|>" in shown(app))
        await pilot.press("right")
        await until(pilot, lambda: len(sent(run)) == 2)
        assert sent(run)[1][1]["index"] == 1
        await until(pilot, lambda: "completion 2 of 8" in head_of(app))
        decide(box, Outcome(False, 58, "the prompt has images, which the run does not record"))
        await until(pilot, lambda: "which the run does not record" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen))


async def test_escape_ends_the_asking_and_then_leaves(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        box = await asked(pilot, run)
        await pilot.press("p")
        await pilot.pause()
        assert any("esc to cancel" in notice.message for notice in app._notifications)
        await pilot.press("escape")
        await until(pilot, lambda: "canceled" in shown(app))
        await pilot.press("p")
        await until(pilot, lambda: len(sent(run)) == 2)
        decide(box, Outcome(True, 57, "", ODD.to_wire()))
        await until(pilot, lambda: "the policy at step 57" in head_of(app))
        assert "canceled" not in shown(app), "the next question is not canceled with the last one"
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen))


async def test_every_action_of_the_screen(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        act, box = Acts(pilot), await asked(pilot, run)

        def indexes() -> list[int]:
            return [args["index"] for _, args in sent(run)]

        async def answered() -> None:
            decide(box, Outcome(True, 57, "", ODD.to_wire()))
            await until(pilot, lambda: not app.screen._busy)  # type: ignore[attr-defined]

        await answered()
        await act.copied("tokens.copy", lambda text: text == ODD.table())
        await act("tokens.prompt", lambda: ODD.prompt in shown(app))
        await act.copied("tokens.copy", lambda text: text == ODD.prompt)
        await act("tokens.prompt", lambda: ODD.prompt not in shown(app))
        await act.said("tokens.base", "The live policy is compared with the reference")
        await act("tokens.right", lambda: indexes() == [0, 1])
        await answered()
        await act("tokens.left", lambda: indexes() == [0, 1, 0])
        await answered()
        await act("tokens.policy", lambda: indexes() == [0, 1, 0, 0])
        await act("tokens.back", lambda: "canceled" in shown(app))
        await act("tokens.back", lambda: isinstance(app.screen, GenerationsScreen))
        assert not act.missed("tokens")


async def test_several_policies_are_chosen_from_a_menu(run: RecordedRun) -> None:
    RunSpec(config=load_config(DEMO_CONFIG).to_json()).write(run.folder.spec)
    for step, whole in ((20, True), (40, True), (50, False)):
        folder = Path(run.folder.root) / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text("{}")
        (folder / "grpo_tui.json").write_text(json.dumps({"files": {} if whole else {"model": 1}}))
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("5")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen) and app.screen.card is not None)
        await pilot.press("enter", "t")
        await until(pilot, lambda: isinstance(app.screen, MenuDialog))
        body = shown(app)
        for word in (
            "the live policy",
            "checkpoint-40",
            "checkpoint-20",
            "the base model",
            "17 steps before",
        ):
            assert word in body
        assert "checkpoint-50" not in body, "it was not saved whole"
        assert not sent(run)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen))
        assert not any(isinstance(screen, TokensScreen) for screen in app.screen_stack)
