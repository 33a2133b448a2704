"""What a reward does to the process that trains: it may start processes, and cannot touch the record."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_MODEL
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests.processes.runs import SMALL, grpo_tui
from tests.processes.test_configs import BASE

pytestmark = pytest.mark.slow

REWARDS = """
import builtins, json, math, multiprocessing, os, sqlite3, sys, time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

@dataclass(frozen=True)
class Item:
    text: str

def size(item):
    return float(len(item.text))

pooled_once = []

def pooled(completions, **kwargs):
    if pooled_once:
        return [1.0] * len(completions)
    pooled_once.append(True)
    assert sys.dont_write_bytecode, "what is imported now would be cut short on a full disk"
    items = [Item(text) for text in completions[:2]]
    scores = []
    for method in ("spawn", "forkserver"):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            scores.append(list(pool.map(size, items)))
    assert scores[0] == scores[1]
    return scores[0] + [1.0] * (len(completions) - 2)

def refusing(real):
    def call(*args, **kwargs):
        if any(word in str(args[:2]) for word in ("run.db", "run.json", "rank-", "heartbeat", "commands")):
            raise RuntimeError("replaced")
        return real(*args, **kwargs)
    return call

def hostile(completions, **kwargs):
    json.dumps = lambda *args, **kwargs: "rubbish"
    json.loads = lambda *args, **kwargs: {}
    time.time = lambda: 0.0
    os.replace, os.rename, os.open = refusing(os.replace), refusing(os.rename), refusing(os.open)
    math.isnan = math.isfinite = lambda value: False
    sqlite3.connect, builtins.open = refusing(sqlite3.connect), refusing(builtins.open)
    return [float(len(text)) for text in completions]

if __name__ == "__main__":
    raise SystemExit("this is no script")
"""


def test_a_reward_starts_processes_and_replaces_functions_and_the_record_is_whole(
    run: Path, tmp_path: Path
) -> None:
    rows = [{"prompt": f"{a}+1=?", "solution": str(a + 1)} for a in range(1, 20)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "my-rewards.py").write_text(REWARDS)
    config = tmp_path / "own.yaml"
    config.write_text(
        BASE.format(model=DEMO_MODEL)
        + f"dataset_name: {tmp_path / 'data'}\nmax_steps: 3\nsave_strategy: 'no'\ngrpo_tui:\n  rewards:\n"
        + "    - {name: pooled, source: my-rewards.py:pooled}\n"
        + "    - {name: hostile, source: my-rewards.py:hostile}\n"
    )
    began = time.time()
    words = [word for pair in SMALL for word in ("--set", pair)]
    grpo_tui("train", config, "--run-dir", run, "--headless", *words)
    reader = RunReader(run / "run.db")
    assert reader.unreadable(10_000) == {}
    groups = list(reader.iter_groups())
    assert {group.step for group in groups} == {1, 2, 3}
    for group in groups:
        assert began < group.at < time.time()
        assert {group.prompt} | {group.columns["solution"]} <= {v for row in rows for v in row.values()}
        for completion in group.completions:
            assert completion.rewards[1] == len(completion.text)
    assert [step for _, step, _ in metric_rows(reader)] == [3]
    assert [attempt.state for attempt in reader.attempts()] == ["finished"]
    assert all(a.ended_at is not None and a.ended_at > began for a in reader.attempts())
    messages = [alert["message"] for alert in read_status(run).alerts]
    assert len(messages) == 1
    assert messages[0].startswith("reward hostile replaced open, json.dumps, json.loads, ")
    replaced = reader.fact("replaced")["by"]
    assert {"json.dumps", "json.loads", "time.time", "os.replace", "open", "sqlite3.connect"} <= set(replaced)
    assert set(replaced.values()) == {"reward hostile"}
    assert "reward hostile replaced open (my-rewards.py:" in (run / "train.log").read_text()
