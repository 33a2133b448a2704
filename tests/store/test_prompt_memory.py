"""Which prompts a run never solved, always solved, learned or forgot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from grpo_tui.cli.doctor import TABLE_ROWS
from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from grpo_tui.core.prompt_memory import classify, prompt_hash
from grpo_tui.core.statistics import SAME
from grpo_tui.store.connection import open_writer
from grpo_tui.store.prompt_memory import groups_of_prompt, prompt_memories, with_prompts
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer


@pytest.mark.parametrize(
    ("visits", "kind", "first", "last"),
    [
        ([(0, 8)], "few", 0, 0),
        ([(8, 8)] * 2, "few", 1, 1),
        ([(0, 8)] * 3, "never", 0, 0),
        ([(8, 8)] * 3, "always", 1, 1),
        ([(0, 8), (0, 8), (1, 8)], "unstable", 0, 1 / 8),
        ([(0, 8), (4, 8), (8, 8)], "learned", 0, 1),
        ([(1, 8), (4, 8), (6, 8)], "learned", 1 / 8, 6 / 8),
        ([(2, 8), (4, 8), (6, 8)], "unstable", 2 / 8, 6 / 8),  # 0.3 to 0.7 after shrinking
        ([(8, 8), (4, 8), (0, 8)], "forgotten", 1, 0),
        ([(8, 8), (0, 8), (8, 8)], "unstable", 1, 1),
        ([(0, 1), (1, 1), (1, 1)], "unstable", 0, 1),  # one completion proves nothing
        ([(0, 2), (0, 2), (1, 2), (2, 2), (2, 2)], "learned", 0, 1),  # thirds of two visits
        ([(0, 8), (8, 8), (0, 8), (8, 8)], "unstable", 1 / 2, 1 / 2),  # of 4 visits a third is 2
        ([(0, 8)] * 3 + [(8, 8)] * 4, "learned", 0, 1),  # of 7 it is 3
    ],
)
def test_a_prompt_has_the_class_that_its_visits_show(
    visits: list[tuple[int, int]], kind: str, first: float, last: float
) -> None:
    assert classify(visits) == (kind, first, last)


def group(index: int, prompt: r.Prompt, totals: Sequence[float | None]) -> r.Group:
    done = [r.Completion(i, f"{i}", (total,), total, 0.0, 3, False) for i, total in enumerate(totals)]
    return r.Group(index, prompt, {}, tuple(done))


def test_prompts_are_read_with_divided_groups_joined_and_repeated_steps_left_out(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "chat"}]
    database = open_writer(tmp_path / "run.db")
    writer = Writer(database)
    batches = [r.AttemptStarted(1, 0.0, "here", 1, total_steps=9)]
    for step in (1, 2, 3):
        right = 3.0 if step == 3 else 0.0
        for rank in (0, 1):  # the first group is divided over two ranks
            groups = [group(0, "divided", [right, right])]
            if rank == 0:
                groups += [group(1, chat, [3.0, 3.0]), group(2, "unscored", [None, math.nan, math.inf])]
            batches.append(r.GenerationBatch(1, step, rank, "train", step, step, 0.0, tuple(groups)))
        batches.append(r.GenerationBatch(1, step, 2, "eval", step, step, 0.0, (group(0, "eval", [3.0]),)))
    lost = r.GenerationBatch(1, 9, 0, "train", 4, 4, 0.0, (group(0, chat, [0.0]),))
    writer.write([*batches, lost])
    database.execute("UPDATE generation_group SET superseded = 1 WHERE step = 4")
    database.commit()
    with closing(RunReader(tmp_path / "run.db")) as reader:
        found = prompt_memories(reader)
        read = [
            (prompt, one.kind, one.visits, one.last_step)
            for one, prompt in with_prompts(reader, found.prompts)
        ]
        steps = {row["id"]: row["step"] for row in reader.all("SELECT id, step FROM generation_group")}
        assert [steps[one.group] for one in found.prompts] == [3, 3], "the newest visit is opened"
    database.close()
    assert sorted(read, key=str) == sorted([("divided", "learned", 3, 3), (chat, "always", 3, 3)], key=str)
    assert (found.right, found.share) == (3.0, 10 / 18)
    assert found.counts()["always"] == found.counts()["learned"] == 1


def test_the_groups_of_a_prompt_are_its_newest_in_training_oldest_first(tmp_path: Path) -> None:
    database = open_writer(tmp_path / "run.db")
    batches = [
        r.GenerationBatch(
            1, step, 0, mode, step, step, 0.0, (group(0, prompt, [1.0]), group(1, "other", [1.0]))
        )
        for step, mode, prompt in (
            (1, "train", "asked"), (2, "train", "asked"), (3, "train", "not"), (4, "train", "asked"),
            (5, "eval", "asked"), (6, "train", "asked"),
        )
    ]  # fmt: skip
    Writer(database).write([r.AttemptStarted(1, 0.0, "here", 1, total_steps=9), *batches])
    database.execute("UPDATE generation_group SET superseded = 1 WHERE step = 6")
    database.commit()
    with closing(RunReader(tmp_path / "run.db")) as reader:
        asked = reader.all("SELECT id, step, idx, prompt_key FROM generation_group")
        key = next(row["prompt_key"] for row in asked if (row["step"], row["idx"]) == (1, 0))
        steps = {row["id"]: row["step"] for row in asked}
        found = {most: [steps[one] for one in groups_of_prompt(reader, key, most)] for most in (1, 2, 9)}
    database.close()
    assert found == {1: [4], 2: [2, 4], 9: [1, 2, 4]}


def test_a_run_whose_totals_are_all_equal_judges_no_prompt(tmp_path: Path) -> None:
    database = open_writer(tmp_path / "run.db")
    batch = r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, (group(0, "same", [1.0, 1.0]),))
    Writer(database).write([batch])
    with closing(RunReader(tmp_path / "run.db")) as reader:
        assert (prompt_memories(reader).right, prompt_memories(reader).prompts) == (None, ())
    database.close()


@pytest.mark.parametrize(
    ("words", "shown", "more"),
    [
        ((), TABLE_ROWS, "… 5 more; --limit 45 shows all"),
        (("--limit", "44"), 44, "… 1 more; --limit 45 shows all"),
        (("--limit", "45"), 45, ""),
        (("--class", "few", "--limit", "3"), 3, "… 42 more; --limit 45 shows all"),
    ],
)
def test_the_table_says_how_many_prompts_it_does_not_show(
    words: tuple[str, ...], shown: int, more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = open_writer(tmp_path / "run.db")
    groups = [group(index, f"asked {index}", [float(index % 2), 1.0]) for index in range(TABLE_ROWS + 5)]
    batch = r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, tuple(groups))
    Writer(database).write([r.AttemptStarted(1, 0.0, "here", 1, total_steps=9), batch])
    database.close()
    assert main(["prompts", str(tmp_path), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("asked" in line for line in lines) == shown
    assert [line for line in lines if line.startswith("…")] == [more] * bool(more)


def test_the_hash_of_a_prompt_is_that_of_its_words() -> None:
    """Reading messages as a dataset reorders their keys and fills in absent ones."""
    asked = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    read = [{"content": [{"text": "hi", "type": "text", "image": None}], "name": None, "role": "user"}]
    assert prompt_hash(asked) == prompt_hash(read)
    assert len({prompt_hash(one) for one in (asked, "hi", [{"role": "system", "content": "hi"}])}) == 3


@pytest.mark.parametrize(("below", "right"), [(0.0, True), (SAME / 2, True), (SAME * 2, False), (0.5, False)])
def test_a_total_that_rounding_moved_from_the_highest_is_right(
    below: float, right: bool, tmp_path: Path
) -> None:
    """As where the other rules compare totals."""
    groups = [group(0, "top", [1.0]), group(1, "low", [0.0]), group(2, "asked", [1.0 - below])]
    with closing(open_writer(tmp_path / "run.db")) as database:
        start = r.AttemptStarted(1, 0.0, "here", 1)
        Writer(database).write([start, r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, tuple(groups))])
    with closing(RunReader(tmp_path / "run.db")) as reader:
        found = {prompt: one.first for one, prompt in with_prompts(reader, prompt_memories(reader).prompts)}
    assert found == {"top": 1.0, "low": 0.0, "asked": float(right)}
