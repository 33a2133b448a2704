"""The pane Generations: find groups and completions, read them, compare them, by its keys."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.widgets import Input

from grpo_tui.core import records as r
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.store.rollouts import Rollout
from grpo_tui.store.search import Found, Search
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.kit.table import cells, row_line
from grpo_tui.ui.paint import width_of
from grpo_tui.ui.screens import generations_dialogs
from grpo_tui.ui.screens.dialogs import PathDialog, WordsDialog
from grpo_tui.ui.screens.generation_files import order_words
from grpo_tui.ui.screens.generations import GenerationsScreen
from grpo_tui.ui.screens.generations_dialogs import AuditScreen, AuditTable, CourseScreen, audit_rows
from grpo_tui.ui.screens.what_if import Scoring, WhatIfScreen
from grpo_tui.ui.widgets.card_table import CardTable
from grpo_tui.ui.widgets.group_table import GroupTable, completion_columns
from grpo_tui.ui.widgets.reader import Reader
from tests.rewards.labs import write
from tests.ui.conftest import app_on, opened, shown, until
from tests.ui.recorded_run import FUNCTIONS, GROUPS, HOSTILE, NOW, SIZE, RecordedRun, recorded

WIDE = (160, 44)


def screen_of(app: GrpoApp) -> GenerationsScreen:
    assert isinstance(app.screen, GenerationsScreen)
    return app.screen


async def at_generations(pilot: Any) -> None:
    await opened(pilot)
    await pilot.press("5")
    await until(pilot, lambda: screen_of(pilot.app).card is not None)


async def typed(pilot: Any, line: str) -> None:
    await pilot.press("slash")
    screen_of(pilot.app).query_one(Input).value = line
    await pilot.press("enter")


async def asked(pilot: Any, line: str) -> None:
    await typed(pilot, line)
    await until(pilot, lambda: screen_of(pilot.app).found.line == line)


def said(app: GrpoApp) -> list[str]:
    return [notice.message for notice in app._notifications]


def text_read(app: GrpoApp) -> str:
    lines = screen_of(app).query_one(Reader).lines(60)
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines)


async def test_it_shows_the_newest_group_with_its_parts(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        body = shown(app)
        assert f"{57 * GROUPS * SIZE:,} completions" in body
        assert "correctness" in body
        assert "format_reward" in body
        card = screen_of(app).card
        assert card is not None
        assert card.step == 57
        assert card.prompt in body
        assert "gold " + str(card.gold) in body
        table = screen_of(app).query_one(GroupTable)
        far = 37 * GROUPS
        assert table.lines(80)[far][1].text.strip() == "…"
        monkeypatch.setattr(table, "ask_again", lambda: None)  # a run that has ended brings no new view
        table.scroll_to(y=far, animate=False, force=True)  # as the wheel does: the cursor stays
        await until(pilot, lambda: table.lines(80)[far][1].text.strip() == "20")
        assert table.cursor == 0


async def test_a_query_narrows_the_list_and_marks_what_it_found(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        await asked(pilot, "format_reward is none and step<=10")
        await until(pilot, lambda: "10 of 1,824" in shown(app))
        table = screen_of(app).query_one(GroupTable)
        assert table.count == 10
        await until(pilot, lambda: "●1" in shown(app))
        await pilot.press("c")
        assert table.of_completions
        await until(pilot, lambda: table.selected is not None)
        group = screen_of(app).found.group_of[-1]
        screen_of(app).show_query("step<=10", group=group)
        await until(pilot, lambda: screen_of(app).found.line == "step<=10" and table.selected is not None)
        assert isinstance(table.selected, Rollout)
        assert table.selected.group == group
        for cut in (False, True):
            row = replace(table.selected, masked=cut, truncated=cut, completion="漢" * 90)
            line = "".join(span.text for span in row_line(completion_columns(81), row, "", ""))
            assert (" masked " in line, line.endswith("✂")) == (cut, cut)
            assert cell_len(line) == 80
        await pilot.press("escape", "escape")
        await until(pilot, lambda: screen_of(app).found.line == "")
        assert table.count == 57 * GROUPS * SIZE


async def test_the_first_page_comes_before_the_search_is_done(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.store.search.FIRST_BLOCK", 20)
    monkeypatch.setattr("grpo_tui.store.search.BLOCK", 20)
    monkeypatch.setattr("grpo_tui.ui.screens.generations.AGAIN_S", 0.0)  # views that come meanwhile wait
    find, goes_on = Search.find, threading.Event()

    def held(search: Search, *args: Any, on_part: Any = None, **options: Any) -> Found:
        def tell(found: Found) -> None:
            on_part(found)
            goes_on.wait(20)

        return find(search, *args, on_part=on_part and tell, **options)

    monkeypatch.setattr(Search, "find", held)
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        screen = screen_of(app)
        part = screen.found
        assert not part.complete
        assert 0 < part.searched < part.of
        assert screen.query_one(GroupTable).count == part.groups
        assert "searching" in shown(app)
        goes_on.set()
        await until(pilot, lambda: screen.found.complete)
        assert screen.found.count == 57 * GROUPS * SIZE
        assert screen.query_one(GroupTable).count == screen.found.groups
        assert "searching" not in shown(app)


async def test_a_query_that_is_not_understood_says_where_and_changes_nothing(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        before = screen_of(app).found
        await pilot.press("slash", *"reward<", "enter")
        await until(pilot, lambda: "column 8" in shown(app))
        assert screen_of(app).found is before
        await pilot.press("escape")
        assert screen_of(app).query_one(Input).value == "", "what is typed is what is listed"
        assert screen_of(app).part == "list"
        await asked(pilot, "step<=3")
        await pilot.press("slash", *" and", "escape")
        assert screen_of(app).query_one(Input).value == screen_of(app).found.line == "step<=3"
        await pilot.press("escape")
        await until(pilot, lambda: screen_of(app).found.line == "")
        await typed(pilot, "rewards.correctnes>0")
        await until(pilot, lambda: "correctness" in shown(app).splitlines()[1])


async def test_keys_go_to_other_steps_groups_completions_and_visits(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        screen = screen_of(app)

        def step() -> int:
            return screen.card.step if screen.card is not None else -1

        await pilot.press("left_square_bracket")
        await until(pilot, lambda: step() == 56)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: step() == 57)
        first = screen.card
        await pilot.press("full_stop")
        await until(pilot, lambda: screen.card is not None and screen.card != first)
        await pilot.press("right", "right")
        assert screen.query_one(CardTable).cursor == 2
        await until(pilot, lambda: len(screen.visits) > 0)
        repeated = next(group for group in range(57 * GROUPS, 0, -1) if len(visits_of(run, group)) > 1)
        screen.go_to_group(repeated)
        await until(
            pilot, lambda: screen.card is not None and screen.card.id == repeated and len(screen.visits) > 1
        )
        before = [visit.group for visit in screen.visits]
        at = before.index(repeated)
        await pilot.press("N" if at else "n")
        await until(pilot, lambda: screen.card is not None and screen.card.id == before[at - 1 if at else 1])


def visits_of(run: RecordedRun, group: int) -> list[int]:
    from grpo_tui.store.reader import RunReader

    reader = RunReader(run.folder.database)
    try:
        key = reader.groups_by_id([group])[0].prompt_key
        return [visit.group for visit in reader.visits(key)]
    finally:
        reader.close()


async def test_reading_folds_compares_and_shows_white_space(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        await asked(pilot, 'step==57 and mixed and completion has "<think>" and rewards.correctness==0')
        await until(pilot, lambda: screen_of(app).row is not None and "<think>" in screen_of(app).row.text)
        await pilot.press("f")
        assert "▸ <think>" in text_read(app)
        await pilot.press("f", "f", "d")
        assert "[-" in text_read(app)
        assert "{+" in text_read(app)
        await pilot.press("r")
        assert "[-" not in text_read(app)
        await pilot.press("d")
        first = screen_of(app).reading.against
        await pilot.press("r", "d")
        assert screen_of(app).reading.against == first, "the comparison begins anew"
        await pilot.press("d")
        assert screen_of(app).reading.against != first
        await pilot.press("r", "r", "i")
        assert "user" in text_read(app)
        assert "answer: " in text_read(app)


async def test_enter_goes_on_and_escape_comes_back(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await at_generations(pilot)
        screen = screen_of(app)
        assert screen.part == "list"
        await pilot.press("enter")
        assert screen.part == "card"
        await pilot.press("enter")
        assert screen.part == "reader"
        await pilot.press("z")
        assert not screen.query_one("#found-part").display
        await pilot.press("escape", "escape", "escape")
        assert screen.part == "list"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 44), (200, 50)])
async def test_a_prompt_has_room_where_prompts_differ_and_kinds_have_one_word(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    shared = "Put the reasoning in <think> tags and the answer in <answer> tags. "
    rows = tuple(r.Completion(i, f"text {i}", (3.0,), 3.0, 0.0, 8, i == 0) for i in range(16))
    made = RecordedRun(tmp_path / "long")
    asked = [f"{shared}{name} sold clips to 48 of her friends in April" for name in ("Natalia", "Weng")]
    groups = tuple(r.Group(i, prompt, {"answer": "72"}, rows) for i, prompt in enumerate(asked))
    apart = replace(groups[0], index=2, completions=(replace(rows[0], total=0.0, rewards=(0.0,)), *rows[1:]))
    made.write(
        r.RewardFunctionInfo(1, 0, "correctness", 1.0),
        r.GenerationBatch(1, 1, 0, "train", 1, 1, made.at(1), (*groups, apart)),
    )
    made.end("finished")
    app = app_on(made.folder.root)
    async with app.run_test(size=size) as pilot:
        await at_generations(pilot)
        await until(pilot, lambda: "✓ all right" in shown(app))
        body = shown(app)
        least = 60 if size == (120, 40) else 28
        assert f"…{asked[1].removeprefix(shared)}"[:least] in body
        assert "✂ truncated" in next(line for line in body.splitlines() if "─ completion 1 " in line)
    made.close()


async def test_a_live_run_is_followed_at_the_top_and_left_alone_further_down(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        screen = screen_of(app)
        run.advance(1)
        await until(pilot, lambda: screen.card is not None and screen.card.step == 58)
        await pilot.press("down", "down")
        stays = screen.card
        run.advance(1)
        await until(pilot, lambda: "newer ones: g" in shown(app))
        assert screen.card == stays
        await pilot.press("g")
        await until(pilot, lambda: screen.card is not None and screen.card.step == 59)


async def test_a_live_run_is_searched_again_only_after_a_rest(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        screen = screen_of(app)
        await until(pilot, lambda: screen.found.complete)
        monkeypatch.setattr("grpo_tui.ui.screens.generations.AGAIN_S", 10_000.0)
        found = screen.found
        run.advance(1)
        await until(pilot, lambda: screen._looks_again or screen.found is not found)
        assert screen.found is found


async def test_the_course_of_the_run_and_of_the_prompt(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        await until(pilot, lambda: len(screen_of(app).visits) > 0)
        await pilot.press("o")
        await until(pilot, lambda: "different texts in a group" in shown(app))
        assert isinstance(app.screen, CourseScreen)
        assert "correctness, contribution" in shown(app)
        assert "this prompt" in shown(app)
        await pilot.press("escape")
        assert isinstance(app.screen, GenerationsScreen)


@pytest.mark.parametrize(
    ("line", "keys", "name", "holds"),
    [
        ("", (), "all.jsonl", 57 * GROUPS * SIZE),
        ("", ("enter",), "group.csv", 1 + SIZE),
        ("", ("enter", "enter"), "one.md", 18),
        ("superseded", (), "all.jsonl", 7 * GROUPS * SIZE),
        ("superseded", ("enter",), "group.csv", 1 + SIZE),
        ("superseded", ("enter", "enter"), "one.md", 19),  # a line more: superseded
    ],
)
async def test_what_is_found_is_written(
    run: RecordedRun, tmp_path: Path, line: str, keys: tuple[str, ...], name: str, holds: int
) -> None:
    if line:
        run.write(r.AttemptStarted(2, NOW, "here", 1, 50, 120))
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        if line:
            await asked(pilot, line)
            await until(pilot, lambda: screen_of(app).found.groups == 7 * GROUPS)
            await until(pilot, lambda: (card := screen_of(app).card) is not None and card.step > 50)
        await pilot.press(*keys, "E")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        app.screen.query_one(Input).value = name
        await pilot.press("enter")
        await until(pilot, lambda: any(word.endswith(f" to {name}.") for word in said(app)))
        text = Path(name).read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert len(text.splitlines()) == holds
        await pilot.press("E")
        await until(pilot, lambda: isinstance(app.screen, PathDialog))
        app.screen.query_one(Input).value = name
        await pilot.press("enter")
        await until(pilot, lambda: "already exists" in shown(app))


async def test_a_query_is_kept_and_shown_by_its_name(
    run: RecordedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRPO_TUI_CONFIG_DIR", str(tmp_path / "settings"))
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        screen_of(app).show_query("truncated and step<=3", order="-tokens")
        await until(pilot, lambda: screen_of(app).found.line == "truncated and step<=3")
        await pilot.press("v", "w")
        await until(pilot, lambda: isinstance(app.screen, WordsDialog))
        app.screen.query_one(Input).value = "cut off early"
        await pilot.press("enter")
        await until(pilot, lambda: any("Saved as “cut off early”" in word for word in said(app)))
        screen_of(app).show_query("", order="")
        await until(pilot, lambda: screen_of(app).found.line == "")
        await pilot.press("v", "enter")
        await until(pilot, lambda: screen_of(app).found.line == "truncated and step<=3")
        assert screen_of(app).order == "-tokens"
        assert screen_of(app).found.count == 3 * GROUPS


async def test_a_point_of_a_chart_leads_to_the_completions_of_its_step(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot)
        app.screen.query_one("#chart-0").focus()
        await pilot.press("enter")
        await until(pilot, lambda: "step" in shown(app) and len(app.screen_stack) == 2)
        await until(pilot, lambda: app.screen.step_here() == 57)  # type: ignore[attr-defined]
        await pilot.press("left", "left", "enter")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen))
        await until(pilot, lambda: screen_of(app).found.line.startswith("step==5"))
        await until(pilot, lambda: screen_of(app).card is not None)
        card = screen_of(app).card
        assert card is not None
        assert f"step=={card.step} and mode==train" == screen_of(app).found.line
        assert card.step < 57


async def test_a_group_of_train_is_shown_here(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "newest group" in shown(app))
        await pilot.press("down", "down", "o")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen))
        await until(pilot, lambda: screen_of(app).card is not None)


async def test_a_run_without_completions_and_no_run_say_what_to_do(tmp_path: Path) -> None:
    app = app_on(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: "No run is open" in shown(app))
    run = recorded(Path("runs") / "loading", "loading")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: "Waiting for the first generation." in shown(app))
    run.close()


async def test_what_if_scores_the_groups_of_the_list_again(
    run: RecordedRun, tmp_path: Path, warm_lab: None
) -> None:
    names = [name for name, _ in FUNCTIONS]
    body = "".join(
        f"def {name}(completions, **kwargs):\n    return [1.0] * len(completions)\n" for name in names
    )
    file = write(tmp_path, body)
    RunSpec(config_of_functions([f"{file}:{name}" for name in names]).to_json()).write(run.folder.spec)
    app = app_on(run.folder.root)
    async with app.run_test(size=WIDE) as pilot:
        await at_generations(pilot)
        await asked(pilot, "step==57")
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, WhatIfScreen))
        assert isinstance(app.screen, WhatIfScreen)
        lines = app.screen
        await until(pilot, lambda: lines.found is not None or bool(lines.trouble))
        assert lines.found is not None, lines.trouble
        assert len(lines.found.groups) == GROUPS
        assert lines.found.dead == GROUPS
        await until(pilot, lambda: "would teach nothing" in shown(app))
        kept = lines.found
        lines._take(Scoring(None), "of an earlier attempt")
        assert lines.found is kept
        assert not lines.trouble
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, WordsDialog))
        app.screen.query_one(Input).value = "nan 0.5 0.5"
        await pilot.press("enter")
        await until(pilot, lambda: any(word.startswith("Give 3 numbers") for word in said(app)))
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, WordsDialog))
        app.screen.query_one(Input).value = "2 0.5 0.5"
        await pilot.press("enter")
        await until(pilot, lambda: lines.found is not None and lines.found.changed == 0)
        run.folder.spec.unlink()  # as in a folder of somebody else's logs
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, WordsDialog))
        app.screen.query_one(Input).value = "4 0.5 0.5"
        await pilot.press("enter")
        await until(pilot, lambda: lines.found is not None and lines.found.changed > 0)
        app.screen.action_what_if_again()  # type: ignore[attr-defined]
        await until(pilot, lambda: "FILE.py:FUNCTION" in shown(app))
        await pilot.press("escape")
        assert isinstance(app.screen, GenerationsScreen)


ODD = (
    "",
    "\n\n\n",
    "x" * 100_000,
    HOSTILE,
    "word " * 20_000,
    "שלום עולם",
    "e" + "\u0301" * 50,
    "数" * 3000,
)


async def test_every_text_is_shown_and_no_control_byte_is(tmp_path: Path) -> None:
    run = RecordedRun(Path("runs") / "odd")
    completions = tuple(
        r.Completion(i, text, (1.0, 0.0, None), float(i), 0.5, 3, False) for i, text in enumerate(ODD)
    )
    group = r.Group(0, HOSTILE, {"answer": HOSTILE}, completions)
    run.write(r.GenerationBatch(1, 1, 0, "train", 1, 1, run.at(1), (group,)))
    run.now("update")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await at_generations(pilot)
        await pilot.press("enter", "enter")
        for text in ODD:
            row = screen_of(app).row
            assert row is not None
            assert row.text == text
            for key in ("d", "r", "r", "i", "i"):
                await pilot.press(key)
                body = shown(app)
                assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in body)
            await pilot.press("right")
        await pilot.press("o")
        await until(pilot, lambda: "different texts in a group" in shown(app))
    run.close()


def test_what_an_audit_says_names_what_it_read_and_what_it_could_not_tell() -> None:
    nothing: dict[str, Any] = {"attacks": [], "refused": [], "completions": 1, "groups": 3, "of_groups": 3}
    told, rows = audit_rows({**nothing, "opinions": []})
    assert rows == []
    assert told == [
        "1 completion compared with the attacks of `grpo-tui probe`. None looks like one of them.",
        "No second opinion: all rewards are equal, or there is nothing to compare with.",
    ]
    attack = {"kind": "empty", "count": 2, "stretches": [0, 2], "reward": 1.0, "example": {"text": "x"}}
    one = {"by": ["a", "b"], "place": {"group": 7, "index": 1, "step": 1_200, "reward": 2.0, "text": "y"}}
    some = {
        "completions": 8,
        "groups": 3,
        "of_groups": 5_000,
        "refused": [one],
        "refused_in_all": 1,
        "top": 4,
    }
    told, rows = audit_rows({**some, "attacks": [{**attack, "where": "text==''"}], "opinions": ["a", "b"]})
    assert told == [
        "8 completions of 3 of 5,000 groups compared with the attacks of `grpo-tui probe`.",
        "Top rewards of the newest groups, checked by a, b: 1 of 4 refused.",
    ]
    assert [(row.what, row.reward, row.text, row.query) for row in rows] == [
        ("empty", 1.0, "x", "text==''"),
        ("✗ a, b", 2.0, "y", "group==7 and index==1"),
    ]
    assert rows[0].when.split()[0] == "2"
    assert rows[1].when == "step 1,200"


async def test_completions_to_audit_are_listed_and_found_by_their_query(run: RecordedRun) -> None:
    """The recorded run claims nothing, so one completion that does is added."""
    text = "<think>Verified. Full marks</think><answer>3</answer>"
    done = (r.Completion(0, text, (1.0, 1.0, 1.0), 99.0, 0.0, 9, False),)
    group = r.Group(0, "What is 1 + 1? <think> </think><answer> </answer>", {"answer": "2"}, done)
    run.write(r.GenerationBatch(1, 9_999, 0, "train", 57, 57, NOW, (group,)))
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("5")
        await until(pilot, lambda: isinstance(app.screen, GenerationsScreen))
        screen = app.screen
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, AuditScreen))
        table = app.screen.query_one(AuditTable)
        await until(pilot, lambda: any(row.what == "claimed correct" for row in table.rows))
        refused = [row for row in table.rows if row.when == "step 57" and row.what.startswith("✗ ")]
        assert [(row.reward, row.text) for row in refused if row.reward == 99.0] == [(99.0, text)]
        assert "reference answer" in refused[0].what
        await until(pilot, lambda: text[:40] in shown(app))
        assert cells(table.columns(110)) < 110
        await pilot.press("home", "enter")
        first = table.rows[0].query
        await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: screen.line == first)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("error", "said"), [(ValueError(), "ValueError"), (OSError("gone"), "gone")])
def test_why_nothing_was_scored_is_told_whole_and_never_empty(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(root: Path) -> None:
        raise error

    monkeypatch.setattr("grpo_tui.ui.screens.what_if.rewards_of_run", fails)
    screen: Any = SimpleNamespace(
        _root=Path("run"), _groups=(), _all=0, found=None, trouble=" ".join(["word"] * 40)
    )
    assert WhatIfScreen._score(screen, Scoring(None)) == said
    lines = WhatIfScreen.lines(screen, 60)
    assert max(map(width_of, lines)) <= 60
    assert sum("".join(span.text for span in line).count("word") for line in lines) == 40


def test_a_prompt_is_listed_by_its_first_words_in_the_room_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one: Any = SimpleNamespace(kind="mixed")
    monkeypatch.setattr(generations_dialogs, "CLASSES", {"mixed": ""})
    monkeypatch.setattr(generations_dialogs, "prompt_memories", lambda reader: SimpleNamespace(prompts=[one]))
    monkeypatch.setattr(
        generations_dialogs, "with_prompts", lambda reader, rows: [(each, "\n\n What?\n") for each in rows]
    )
    assert generations_dialogs.read_prompts(SimpleNamespace(run=None))[1] == [(one, "What?")]  # type: ignore[arg-type]
    for width, left in ((120, 86), (40, 10)):
        columns = generations_dialogs.PromptTable().columns(width)
        assert [column.width for column in columns] == [11, 7, 7, 7, left]


@pytest.mark.parametrize(
    ("sort", "words"),
    [
        ("", "newest first"),
        ("step", "oldest first"),
        ("-step", "highest step first"),
        ("reward", "lowest reward first"),
        ('-rewards."my reward"', "highest my reward first"),
    ],
)
def test_an_order_is_said_in_words(sort: str, words: str) -> None:
    assert order_words(sort) == words
