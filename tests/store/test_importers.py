"""Folders that TRL and verl wrote are read like runs of ours; what they lack is computed or absent."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.store.importers import copies
from grpo_tui.store.importers.copies import (
    LogFolderError,
    LogSource,
    copy_root,
    find_sources,
    follow,
    open_copy,
    source_at,
)
from grpo_tui.store.importers.copy_child import update
from grpo_tui.store.importers.formats import (
    advantages,
    consecutive,
    group_size,
    reward_columns,
    runs_of_equal,
    weights_differ,
)
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.query import QueryError
from grpo_tui.store.read_series import read_points
from grpo_tui.store.reader import RunReader
from grpo_tui.store.rollouts import MOST_NOTES, Rollout, import_notes, rollouts_of
from grpo_tui.store.search import Search
from grpo_tui.store.status import read_status
from tests import PATIENCE_S
from tests.train.tiny import make_trainer

STEPS, BATCH = 2, 8


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def share_of_digits(completions: list[Any], log_extra: Any = None, **_: Any) -> list[float | None]:
    """A reward that abstains for one completion of a batch."""
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    log_extra("characters", [len(text) for text in texts])
    log_extra("first", [text[:1] for text in texts])
    return [None if i == 2 else sum(map(str.isdigit, t)) / max(1, len(t)) for i, t in enumerate(texts)]


def short(completions: list[Any], **_: Any) -> list[float]:
    """A second reward, of another weight."""
    return [1.0 / (1 + len(str(c))) for c in completions]


@pytest.fixture(scope="module")
def trl_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that TRL logged: chat prompts; string prompts with weights and two steps a generation."""
    root = tmp_path_factory.mktemp("trl")
    arguments: dict[str, Any] = {
        "log_completions": True, "save_strategy": "steps", "save_only_model": True, "save_steps": STEPS,
        "per_device_train_batch_size": BATCH, "max_completion_length": 8,
    }  # fmt: skip
    make_trainer(root / "chat", max_steps=STEPS, rewards=[share_of_digits], **arguments).train()
    trainer = make_trainer(
        root / "nested" / "plain",
        rewards=[share_of_digits, short],
        reward_weights=[2.0, 0.5],
        num_iterations=2,
        max_steps=4,
        **arguments,
    )
    rows = trainer.train_dataset
    trainer.train_dataset = rows.map(lambda row: {"prompt": row["prompt"][0]["content"]})
    trainer.train()
    return root


def parquet(source: LogSource, step: int) -> list[dict[str, Any]]:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(dict(source.files())[step]).to_pylist()


def found(root: Path, line: str = "", sort: str = "step") -> list[Rollout]:
    search = Search(RunFolder(root).database, scans=1)
    try:
        return rollouts_of(search.run, search.find(line, sort).ids)
    finally:
        search.close()


def the_source(path: Path) -> LogSource:
    source = source_at(path)
    assert source is not None
    return source


def copy(path: Path) -> Path:
    """Copy in this process; returns the folder of the copy."""
    source = the_source(path)
    assert update(source) == ""
    return copy_root(source)


@pytest.mark.slow
def test_a_chat_run_of_trl_is_read_row_by_row(trl_runs: Path) -> None:
    source = the_source(trl_runs / "chat")
    rows = found(open_copy(source))
    logged = [(step, row) for step in range(1, STEPS + 1) for row in parquet(source, step)]
    assert len(rows) == len(logged) == BATCH * STEPS
    for row, (step, wanted) in zip(rows, logged, strict=True):
        assert row.step == wanted["step"] == step
        assert row.prompt == wanted["prompt"]
        assert row.completion == wanted["completion"][0]["content"]
        assert row.messages is None
        assert row.rewards == {"share_of_digits": wanted["share_of_digits"]}
        assert row.advantage == wanted["advantage"]
        assert row.extra == {"characters": wanted["characters"], "first": wanted["first"]}
    assert [row.index for row in rows] == [0, 1, 2, 3] * (BATCH // 4 * STEPS)
    assert any(row.rewards["share_of_digits"] is None for row in rows)


@pytest.mark.slow
def test_its_metrics_and_how_far_it_came_are_those_of_the_trainers_state(trl_runs: Path) -> None:
    root = copy(trl_runs / "chat")
    state = json.loads((trl_runs / "chat" / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    reader = RunReader(RunFolder(root).database)
    logged = [row["reward"] for row in state["log_history"] if "reward" in row]
    assert [point.value for point in read_points(reader, "reward")] == logged
    assert reader.groups(first_step=1, last_step=1)[0].mean is not None
    reader.close()
    look = read_status(root)
    assert (look.state, look.step, look.total_steps) == ("finished", STEPS, STEPS)


@pytest.mark.slow
def test_string_prompts_weights_that_are_not_there_and_a_batch_that_is_logged_twice(trl_runs: Path) -> None:
    root = copy(trl_runs / "nested" / "plain")
    rows = found(root)
    assert {(row.step, row.last_step) for row in rows} == {(1, 2), (3, 4)}
    assert len(rows) == 2 * BATCH
    assert all(isinstance(row.prompt, str) for row in rows)
    assert list(rows[0].rewards) == ["share_of_digits", "short"]
    search = Search(RunFolder(root).database, scans=1)
    assert ["do not contain the weights" in note for note in import_notes(search.run)] == [True]
    search.close()


@pytest.mark.slow
def test_advantages_that_are_not_logged_are_computed_as_trl_does(trl_runs: Path) -> None:
    rows, compared = parquet(the_source(trl_runs / "chat"), 2), 0
    for start in range(0, BATCH, 4):
        members = rows[start : start + 4]
        scored = [row["share_of_digits"] for row in members]
        if None in scored:
            continue  # how TRL counts a row that nobody scored is its own matter
        compared += 1
        wanted = [row["advantage"] for row in members]
        assert advantages(scored, 1e-4) == pytest.approx(wanted, abs=1e-4)
    assert compared == BATCH // 4 - 1


@pytest.mark.slow
def test_what_such_files_lack_is_absent_and_no_query_pretends_otherwise(trl_runs: Path) -> None:
    root = copy(trl_runs / "chat")
    search = Search(RunFolder(root).database, scans=1)
    row = rollouts_of(search.run, search.find("").ids[:1])[0].to_json(everything=True)
    assert (row["tokens"], row["truncated"], row["columns"]) == (None, None, {})
    for line in ("tokens>3", "not truncated", "column.answer is none"):
        with pytest.raises(QueryError, match="not in these logs"):
            search.find(line)
    assert search.find('extra.first has "1" or rewards.share_of_digits>0.5').count > 0
    search.close()


@pytest.mark.slow
def test_folders_are_found_nested_and_nothing_is_written_into_them(trl_runs: Path) -> None:
    before = sorted(trl_runs.rglob("*"))
    assert {source.root.name for source in find_sources([trl_runs])} == {"chat", "plain"}
    assert source_at(trl_runs / "chat" / "completions") == source_at(trl_runs / "chat")
    copy(trl_runs / "chat")
    assert sorted(trl_runs.rglob("*")) == before


# -- verl ----------------------------------------------------------------------------------------


def verl_row(prompt: str, answer: str, score: float, **more: Any) -> dict[str, Any]:
    return {"input": prompt, "output": answer, "gts": "4", "score": score, "step": 1, **more}


def write_lines(path: Path, rows: list[dict[str, Any]], end: str = "") -> None:
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows) + end, encoding="utf-8"
    )


@pytest.fixture
def verl(tmp_path: Path) -> Path:
    """Two steps of verl; lines of a prompt do not stand together, as after its balancing of the batch."""
    folder = tmp_path / "rollouts"
    folder.mkdir()
    rows = [
        verl_row(f"user\n{a} + {b}?", f"{a + b + wrong}\u2028<|im_end|>", float(wrong == 0), acc=wrong == 0)
        for wrong in (0, 1)
        for a, b in ((1, 3), (2, 2), (0, 4))
    ]
    write_lines(folder / "1.jsonl", rows)
    write_lines(folder / "2.jsonl", [*rows[:3], *rows[:3]])
    return folder


def test_a_verl_folder_is_read_with_its_groups_and_computed_advantages(verl: Path) -> None:
    rows = found(copy(verl), "", "step,group,index")
    assert [(row.step, row.group_index, row.index) for row in rows[:6]] == [
        (1, g, i) for g in range(3) for i in range(2)
    ]
    assert rows[0].prompt == "user\n1 + 3?"
    assert [row.completion for row in rows[:2]] == ["4\u2028<|im_end|>", "5\u2028<|im_end|>"]
    assert (rows[0].rewards, rows[0].reward, rows[0].columns, rows[0].extra) == (
        {"score": 1.0},
        1.0,
        {"gts": "4"},
        {"acc": True},
    )
    # verl: (score - mean) / (std + 1e-6), the standard deviation with n - 1
    assert [row.advantage for row in rows[:2]] == pytest.approx(
        [0.5 / (math.sqrt(0.5) + 1e-6), -0.5 / (math.sqrt(0.5) + 1e-6)]
    )
    assert {row.advantage for row in rows if row.step == 2} == {0.0}
    assert [row.step for row in found(copy(verl), "zero_std", "step")] == [2] * 6


def test_the_group_is_verls_own_where_it_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "logged"
    folder.mkdir()
    write_lines(folder / "3.jsonl", [verl_row("same", str(i), float(i), uid=f"u{i % 2}") for i in range(4)])
    assert [row.completion for row in found(copy(folder), "", "group,index")] == ["0", "2", "1", "3"]


def test_a_folder_that_grows_is_read_on_and_a_file_that_changed_is_read_anew(verl: Path) -> None:
    root = copy(verl)
    first = found(root)
    row = verl_row("new", "n", 1.0)
    write_lines(verl / "3.jsonl", [row], end='{"input": "half')
    assert [r.completion for r in found(copy(verl), "step==3")] == ["n"]
    write_lines(verl / "3.jsonl", [row, verl_row("new", "m", 0.0)])
    assert [r.completion for r in found(copy(verl), "step==3")] == ["n", "m"]
    assert found(root, "step<3") == first, "what had not changed was left as it was"
    assert read_status(root).step == 3


@pytest.mark.parametrize(
    ("lines", "completions", "notes"),
    [
        (b'\xef\xbb\xbf{"input": "q", "output": "a", "score": 1}\n', ["a"], ()),
        (
            b'{"input": "q", "output": "a"}\n{"input": "q", "outp\n7\n{"input": "q", "output": "b"}\n{"inp',
            ["a", "b"],
            ("skipped, because it is not a row with input and output: line 2 and 1 more of 1.jsonl",),
        ),
        (b'{"input": "q", "output": null, "score": 1' + b"0" * 400 + b"}\n", [""], ()),
        (b'{"input": "q", "output": "a"}\n{"x": ' + b"[" * 9000 + b"\n{}\n", ["a"], ("line 2 and 1 more",)),
        (b'{"input": {"a": 1}, "output": ["x"], "score": "high"}\n', ["['x']"], ()),
    ],
    ids=["mark", "broken", "huge", "deep", "types"],
)
def test_lines_that_are_no_rows_are_left_out_and_told(
    lines: bytes, completions: list[str], notes: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "logged"
    folder.mkdir()
    (folder / "1.jsonl").write_bytes(lines)
    (folder / f"1{'0' * 30}.jsonl").write_bytes(b'{"input": "q", "output": "of no step"}\n')
    search = Search(RunFolder(copy(folder)).database)
    assert [row.completion for row in rollouts_of(search.run, search.find("", "step").ids)] == completions
    computed, *told = import_notes(search.run)
    assert computed.startswith("These files contain no advantages. They are computed")
    assert len(told) == len(notes)
    assert all(words in note for words, note in zip(notes, told, strict=True))
    search.close()


@pytest.mark.parametrize(
    ("broken", "notes"),
    [
        (1, ["line 2 of 1.jsonl"]),
        (2, ["line 2 of 1.jsonl, and in 1 more files"]),
        (4, ["line 2 of 1.jsonl, and in 3 more files"]),
    ],
)
def test_of_many_files_with_broken_lines_one_is_named_and_the_others_are_counted(
    broken: int, notes: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "logged"
    folder.mkdir()
    for step in range(1, 6):
        write_lines(folder / f"{step}.jsonl", [verl_row("q", "a", 1.0)] + [{"x": 1}] * (step <= broken))
    with closing(RunReader(RunFolder(copy(folder)).database)) as reader:
        told = [note for note in import_notes(reader) if "skipped" in note]
    assert [note.partition("output: ")[2] for note in told] == notes


@pytest.mark.parametrize("more", [0, 2])
def test_of_many_files_that_cannot_be_read_the_first_are_named(more: int, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "completions"
    folder.mkdir(parents=True)
    for step in range(MOST_NOTES + more):
        (folder / f"completions_{step:05}.parquet").write_bytes(b"PAR1 half")
    source = the_source(tmp_path / "run")
    assert "cannot be read" in update(source)
    with closing(RunReader(RunFolder(copy_root(source)).database)) as reader:
        told = [note for note in import_notes(reader) if "cannot be read" in note]
    assert [note.partition(" cannot")[0].split("/")[-1] for note in told] == [
        *(f"completions_{step:05}.parquet" for step in range(MOST_NOTES)),
        *([f"{more} more files"] if more else []),
    ]


@pytest.mark.parametrize(
    "columns",
    [
        {"right": ["a", "b"]},
        {"right": [[1.0], [2.0]]},
        {"right": [None, None]},
        {"right": [1.0, None], "completion": ["a", None]},
        {"prompt": [], "completion": [], "right": []},
    ],
    ids=["texts", "lists", "nothing", "no completion", "empty"],
)
def test_parquet_files_without_rewards_or_rows_are_read(columns: dict[str, Any], tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    folder = tmp_path / "run" / "completions"
    folder.mkdir(parents=True)
    table = {"prompt": ["p", "p"], "completion": ["a", "b"], **columns}
    pyarrow.parquet.write_table(pyarrow.table(table), folder / "completions_00001.parquet")
    (folder / "completions_00002.parquet").write_bytes(b"PAR1 half")
    source = the_source(tmp_path / "run")
    assert "completions_00002.parquet cannot be read" in update(source)
    search = Search(RunFolder(copy_root(source)).database)
    assert search.find("").count == len(table["prompt"])
    *computed, note = search.find("").notes
    assert "completions_00002.parquet cannot be read" in note
    assert ["contain no advantages" in words for words in computed] == [True] * bool(table["prompt"])
    search.close()


def wait_for(search: Search, count: int) -> None:
    """Until so many completions are there."""
    end = time.monotonic() + PATIENCE_S
    while search.find("").count < count:
        assert time.monotonic() < end, "the child did not bring them"
        time.sleep(0.05)


def test_a_child_process_follows_a_folder(verl: Path) -> None:
    with follow(the_source(verl)) as root:
        search = Search(RunFolder(root).database, scans=1)
        wait_for(search, 12)
        write_lines(verl / "4.jsonl", [verl_row("late", "l", 1.0)])
        wait_for(search, 13)
        assert search.find('"l"').count == 1
        search.close()


def test_the_child_process_imports_nothing_from_the_folder_it_was_started_in(
    verl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}

    def refuse(*_: Any, env: dict[str, str], **__: Any) -> None:
        given.update(env)
        raise OSError("no process")

    monkeypatch.setattr(copies.subprocess, "Popen", refuse)
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    with pytest.raises(LogFolderError, match="rollouts: no process"), follow(the_source(verl)):
        pass
    assert given["PYTHONPATH"] == "/elsewhere"


def test_only_columns_that_trl_logs_as_rewards_are_rewards() -> None:
    first = {"right": 1.0, "difficulty": 3.0, "short": None, "note": "n", "mixed": 1.0, "none": None, "n": 3}
    rows: list[dict[str, Any]] = [
        {"prompt": "p", "completion": "c", **first},
        {"prompt": "p", "completion": "c", **first, "short": 0.5, "mixed": "x", "late": 1.0},
    ]
    assert reward_columns(rows, ["short", "right", "gone"]) == ("right", "short")
    assert reward_columns(rows, ["gone"]) == ("right", "difficulty", "short")
    assert reward_columns([], ["right"]) == ()


def test_validation_is_evaluation(tmp_path: Path) -> None:
    folder = tmp_path / "val_rollouts"
    folder.mkdir()
    write_lines(folder / "10.jsonl", [verl_row("p", "a", 1.0)])
    assert [row.mode for row in found(copy(folder))] == ["eval"]


def test_what_is_no_log_is_none(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"prompt": "p", "completion": "c"}\n')
    (tmp_path / "completions").mkdir()
    assert source_at(tmp_path) is None
    assert source_at(tmp_path / "nowhere") is None
    assert find_sources([tmp_path]) == []
    write_lines(tmp_path / "1.jsonl", [{"input": "p"}])
    assert source_at(tmp_path) is None
    write_lines(tmp_path / "1.jsonl", [{"input": "p", "output": "c"}])
    least = source_at(tmp_path)
    assert least is not None
    assert least.kind == "verl"


def test_a_parquet_file_that_cannot_be_read_yet_is_told_and_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "completions"
    folder.mkdir(parents=True)
    path = folder / "completions_00001.parquet"
    path.write_bytes(b"PAR1 half")
    source = the_source(tmp_path / "run")
    assert "completions_00001.parquet cannot be read" in update(source)
    write_parquet(path, [parquet_row("p", str(i), float(i)) for i in range(4)])
    assert update(source) == ""
    assert [row.completion for row in found(copy_root(source))] == ["0", "1", "2", "3"]


def parquet_row(prompt: str, answer: str, reward: float, **more: Any) -> dict[str, Any]:
    return {"step": 1, "prompt": prompt, "completion": answer, "right": reward, **more}


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))


def test_a_prompt_that_comes_twice_in_a_row_is_two_groups(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    rows = [parquet_row(prompt, str(i), float(i)) for i, prompt in enumerate("aaaabbbbbbbb")]
    write_parquet(folder / "completions_00005.parquet", rows)
    assert [row.index for row in found(copy(folder))] == [0, 1, 2, 3] * 3
    assert {row.step for row in found(copy(folder))} == {5}


def test_the_size_of_groups_that_a_later_file_shows_is_that_of_the_earlier_ones_too(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write_parquet(folder / "completions_00001.parquet", [parquet_row("a", str(i), 0.0) for i in range(4)])
    root = copy(folder)
    assert [row.index for row in found(root)] == [0, 1, 2, 3]
    write_parquet(
        folder / "completions_00002.parquet", [parquet_row(p, str(i), 0.0) for i, p in enumerate("aabb")]
    )
    assert [(row.step, row.index) for row in found(copy(folder))] == [
        (s, i) for s in (1, 2) for _ in range(2) for i in (0, 1)
    ]


def test_without_the_reader_of_parquet_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "completions_00001.parquet").write_bytes(b"PAR1")
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "pyarrow.py").write_text("raise ImportError('none here')")
    monkeypatch.syspath_prepend(str(tmp_path / "shadow"))
    with pytest.raises(LogFolderError, match="pip install pyarrow"):
        open_copy(the_source(folder))


@pytest.mark.parametrize(
    ("logged", "differ"),
    [
        ({"reward": 1.5, "rewards/a/mean": 0.5, "rewards/b/mean": 1.0}, False),
        ({"reward": 2.0, "rewards/a/mean": 0.5, "rewards/b/mean": 1.0}, True),
        ({"reward": 2.0, "rewards/a/mean": 0.6, "rewards/b/mean": 1.0}, False),  # a mean over other rows too
        ({}, False),
    ],
)
def test_weights_are_missed_where_the_means_of_the_functions_agree(
    logged: dict[str, Any], differ: bool
) -> None:
    rows = [{"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0}]
    assert weights_differ(rows, ("a", "b"), logged) is differ


@pytest.mark.parametrize(
    ("keys", "size", "groups"),
    [
        ("aabb", 2, [[0, 1], [2, 3]]),
        ("aaaa", 2, [[0, 1], [2, 3]]),
        ("aaab", 1, [[0, 1, 2], [3]]),
        ("", 1, []),
    ],
)
def test_groups_are_what_stands_together(keys: str, size: int, groups: list[list[int]]) -> None:
    assert consecutive(keys, size) == groups


def test_the_size_is_what_divides_all_runs() -> None:
    assert group_size(runs_of_equal("aaaabbbbbbbbcccc")) == 4
    assert group_size(runs_of_equal("aaab")) == 1
    assert group_size([]) == 1
