"""What rlprobe, trackio and prime-rl recorded is found by itself and read with TRL's names."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.health.reading import diagnose, settings_of
from grpo_tui.store.importers.copies import LogFolderError, copy_root, find_sources, open_copy, source_at
from grpo_tui.store.importers.copy_child import update
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import metric_keys, read_points
from grpo_tui.store.reader import RunReader
from grpo_tui.store.rollouts import Rollout, import_notes, rollouts_of
from grpo_tui.store.search import Search
from grpo_tui.store.status import read_status

STEPS = 30


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def copied(path: Path, kind: str) -> Path:
    """Copy in this process; returns the folder of the copy."""
    source = source_at(path)
    assert source is not None
    assert source.kind == kind
    assert update(source) == ""
    return copy_root(source)


def series(root: Path, key: str) -> dict[int, float | None]:
    with closing(RunReader(RunFolder(root).database)) as reader:
        return {point.step: point.value for point in read_points(reader, key)}


def rows_of(root: Path) -> list[Rollout]:
    search = Search(RunFolder(root).database, scans=1)
    try:
        return rollouts_of(search.run, search.find("", "step").ids)
    finally:
        search.close()


def parquet(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    keys = dict.fromkeys(key for row in rows for key in row)
    pyarrow.parquet.write_table(pyarrow.table({key: [row.get(key) for row in rows] for key in keys}), path)


def rlprobe(folder: Path, reason: str = "random") -> Path:
    """Write a recording as rlprobe 0.1 does."""
    folder.mkdir()
    manifest = {
        "schema_version": 1,
        "run_id": "x",
        "algorithm": "grpo",
        "trainer_config": {"beta": 0.04, "lr": 1e-6},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    steps = [
        {
            "step": step, "reward_mean": 0.5, "kl_mean": 0.01, "clip_fraction": 0.5, "grad_norm": 0.3,
            "nan_count": int(step == 7), "repetition_rate": 0.1, "reward_component.correct": 0.4,
        }
        for step in range(STEPS)
    ]  # fmt: skip
    parquet(steps[:20], folder / "steps" / "part-00000.parquet")
    parquet(steps[20:], folder / "steps" / "part-00001.parquet")
    samples = [
        {
            "step": step, "group_id": f"g{step}", "prompt_text": "1+1?", "completion_text": f"two {n}",
            "reward_total": 2.0 * n, "reward_component.correct": float(n), "advantage": n - 0.5,
            "completion_len": 3, "truncated": n == 1, "capture_reason": reason,
        }
        for step in range(STEPS) for n in range(2)
    ]  # fmt: skip
    parquet(samples, folder / "samples" / "shard-00000.parquet")
    return folder


def test_a_recording_of_rlprobe_has_the_names_and_settings_of_trl(tmp_path: Path) -> None:
    root = copied(rlprobe(tmp_path / "probe"), "rlprobe")
    assert series(root, "reward")[STEPS - 1] == 0.5
    assert math.isnan(series(root, "grad_norm")[7] or 0.0)
    with closing(RunReader(RunFolder(root).database)) as reader:
        keys = set(metric_keys(reader))
        settings = settings_of(reader, logged=True)
        found = diagnose(reader)
    assert {"kl", "clip_ratio/region_mean", "rewards/correct/mean", "repetition_rate"} <= keys
    assert (settings.beta, settings.learning_rate, settings.names) == (0.04, 1e-6, ("correct",))
    assert [one.id for one in found.findings if one.severity != "info"] == ["policy.clipped"]
    assert found.unknown[-1] == "whole groups of completions", "of each only a selection was kept"
    rows = rows_of(root)
    assert len(rows) == 2 * STEPS
    assert [(row.completion, row.reward, row.rewards, row.advantage) for row in rows[2:4]] == [
        ("two 0", 0.0, {"correct": 0.0}, -0.5), ("two 1", 2.0, {"correct": 1.0}, 0.5),
    ]  # fmt: skip
    assert read_status(root).step == STEPS - 1


@pytest.mark.parametrize(("reason", "groups"), [("random", 0), ("all", STEPS - 1)])
def test_groups_of_which_only_some_completions_were_kept_are_not_judged(
    tmp_path: Path, reason: str, groups: int
) -> None:
    from grpo_tui.health.reading import begin

    root = copied(rlprobe(tmp_path / "probe", reason), "rlprobe")
    with closing(RunReader(RunFolder(root).database)) as reader:
        _, observations = begin(reader)
        assert sum(len(one.groups) for one in observations) == groups
        assert bool(import_notes(reader)) == (reason != "all")


def trackio(path: Path, *extra: str) -> Path:
    """Write a project file as trackio 0.43 does, with TRL's names as its report to trackio writes them."""
    rows = [
        (
            "mine",
            2 * step,
            {"train/reward": step / 10, "train/kl": 0.1, "train/global_step": step, "train/flag": True},
        )
        for step in range(1, STEPS)
    ]
    rows += [
        (
            "mine",
            99,
            {"train/global_step": 5, "train/loss": "NaN", "train/table": {"_type": "trackio.table"}},
        ),
        ("mine", 100, {"train/global_step": 5, "eval/reward": 0.7}),
        ("mine", 101, {"train/global_step": -1, "train/reward": 9}),
        ("other", 1, {"train/reward": 8}),
    ]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT,"
            " step INTEGER, metrics TEXT)"
        )
        db.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, config TEXT)")
        db.executemany(
            "INSERT INTO metrics (run_name, step, metrics) VALUES (?, ?, ?)",
            [(name, step, json.dumps(values)) for name, step, values in rows] + [("mine", 7, "not json")],
        )
        db.execute("INSERT INTO configs (run_name, config) VALUES ('mine', ?)", (json.dumps({"beta": 0.1}),))
        for statement in extra:
            db.execute(statement)
    return path


def test_a_run_in_a_project_of_trackio_is_named_by_its_path(tmp_path: Path) -> None:
    path = trackio(tmp_path / "sums.db")
    root = copied(path / "mine", "trackio")
    assert series(root, "reward") == {step: step / 10 for step in range(1, STEPS)}
    assert series(root, "eval_reward") == {5: 0.7}
    assert math.isnan(series(root, "loss")[5] or 0.0)
    with closing(RunReader(RunFolder(root).database)) as reader:
        assert {"table", "flag"}.isdisjoint(metric_keys(reader))
        assert settings_of(reader, logged=True).beta == 0.1
    source = source_at(path)
    assert source is not None
    with pytest.raises(LogFolderError, match=r"it holds 2 runs: mine, other. Name one, such as sums.db/RUN"):
        open_copy(source)
    missing = source_at(path / "third")
    assert missing is not None
    with pytest.raises(LogFolderError, match="it holds no run third"):
        open_copy(missing)


def test_a_project_file_with_a_program_is_not_read(tmp_path: Path) -> None:
    assert source_at(trackio(tmp_path / "a.db", "CREATE VIEW v AS SELECT 1")) is None
    (tmp_path / "b.db").write_bytes(b"not a database")
    assert source_at(tmp_path / "b.db") is None


def prime(folder: Path) -> Path:
    """Write rollouts as prime-rl does: rows of earlier versions, traces of newer ones."""
    flat = [
        {
            "example_id": example, "prompt": [{"role": "user", "content": f"1+{example}?"}],
            "completion": [{"role": "assistant", "content": str(n)}], "reward": float(n), "answer": "1",
            "metrics": {"turns": 1}, "is_truncated": n == 1,
        }
        for n in range(2) for example in range(2)
    ]  # fmt: skip
    user = {"role": "user", "content": "1+1?"}
    nodes: list[Any] = [{"parent": None, "message": user}, {"parent": 0, "sampled": True, "message": None}]
    traces = [
        {
            "task": {"key": "k", "data": {"answer": "2"}}, "stop_condition": None,
            "nodes": [nodes[0], nodes[1] | {"message": {"role": "assistant", "content": str(n)}}],
            "rewards": {"correct": {"score": float(n), "weight": 2.0}, "format": None},
        }
        for n in range(2)
    ]  # fmt: skip
    endless = {"nodes": [{"parent": 0, "sampled": True, "message": {"role": "assistant", "content": "loop"}}]}
    for step, lines in ((1, flat), (10, [*traces, endless, {"nodes": 3}, [1]])):
        path = folder / "rollouts" / f"step_{step}" / "train_rollouts.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    metrics = [{"step": step, "reward/all/mean": 0.5, "optim/lr": 1e-6, "time": 1.0} for step in range(3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics) + '{"step": ')
    return folder


def test_rollouts_and_metrics_of_prime_rl_are_read(tmp_path: Path) -> None:
    root = copied(prime(tmp_path / "prime"), "prime-rl")
    assert series(root, "reward") == {0: 0.5, 1: 0.5, 2: 0.5}
    rows = [row for row in rows_of(root) if row.step == 1]
    assert [(row.completion, row.reward, row.truncated) for row in rows] == [
        ("0", 0.0, False), ("1", 1.0, True), ("0", 0.0, False), ("1", 1.0, True),
    ]  # fmt: skip
    assert rows[0].columns == {"answer": "1"}
    traced = [row for row in rows_of(root) if row.step == 10]
    assert [(row.completion, row.reward) for row in traced] == [("0", 0.0), ("1", 2.0), ("loop", None)]
    with closing(RunReader(RunFolder(root).database)) as reader:
        assert "step_10/train_rollouts.jsonl" in import_notes(reader)[-1]
    assert [source.root.name for source in find_sources([tmp_path])] == ["prime"]
    assert read_status(root).step == 10


def test_a_recording_that_grows_is_read_again(tmp_path: Path) -> None:
    folder = prime(tmp_path / "prime")
    root = copied(folder, "prime-rl")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('3, "reward/all/mean": 0.9}\n')
    copied(folder, "prime-rl")
    assert series(root, "reward") == {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.9}
    assert len(rows_of(root)) == 7


def test_an_output_folder_of_trl_without_completions_is_judged_by_its_metrics(tmp_path: Path) -> None:
    history = [{"step": step, "reward": 0.5, "frac_reward_zero_std": 1.0} for step in range(1, STEPS)]
    for name, rows in (("checkpoint-30", history), ("plain/checkpoint-30", [{"step": 1, "loss": 2.0}])):
        (tmp_path / name).mkdir(parents=True)
        state = {"global_step": STEPS, "max_steps": STEPS, "log_history": rows}
        (tmp_path / name / "trainer_state.json").write_text(json.dumps(state))
    root = copied(tmp_path, "trl")
    with closing(RunReader(RunFolder(root).database)) as reader:
        found = diagnose(reader)
    assert [one.id for one in found.findings] == ["signal.equal"]
    assert found.unknown[-1] == "whole groups of completions"
    assert source_at(tmp_path / "plain") is None
