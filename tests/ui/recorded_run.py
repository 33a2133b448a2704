"""Build run folders through the real writer, with the same numbers every time, for tests and pictures.

The texts hold what a terminal must never obey: control sequences, markup, actions.
"""

from __future__ import annotations

import copy
import math
import os
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.evaluations import FACT, Evaluation, Evaluations
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, write_heartbeat
from grpo_tui.store.writer import Writer

NOW = 1_770_000_000.0
"""The moment of every picture, seconds since the epoch."""
STEP_S = 0.26
HOSTILE = "[/INST] [@click=app.quit]x[/] \x1b]52;c;x\x07"
FUNCTIONS = (("correctness", 2.0), ("format_reward", 0.5), ("incremental_format", 0.5))
GROUPS, SIZE = 4, 8


class RecordedRun:
    """A run folder under construction; the process that trains is this one."""

    def __init__(
        self,
        root: Path,
        *,
        total: int = 120,
        pid: int | None = None,
        began_at: float | None = None,
        step_s: float = STEP_S,
    ) -> None:
        self.folder = RunFolder(root)
        self.total, self.step, self.step_s = total, 0, step_s
        self.pid = os.getpid() if pid is None else pid
        self.began_at = NOW - 60 if began_at is None else began_at
        self._random = random.Random(7)
        self.writer = Writer(open_writer(self.folder.database))
        self.write(
            r.AttemptStarted(1, self.began_at, "here", self.pid, total_steps=total),
            r.Fact(
                "config",
                {
                    "path": "/tasks/demo.yaml",
                    "model": "/models/adder-0.8M",
                    "grpo": {"temperature": 0.9, "beta": 0.0},
                },
            ),
            *[r.RewardFunctionInfo(1, i, name, weight) for i, (name, weight) in enumerate(FUNCTIONS)],
        )

    def copied(self, root: Path, database: bytes) -> RecordedRun:
        """This run in another folder, to go on there, with what its run.db held."""
        run = copy.deepcopy(self, {id(self.writer): None})
        run.folder = RunFolder(root)
        root.mkdir(parents=True, exist_ok=True)
        run.folder.database.write_bytes(database)
        run.folder.spec.write_text("{}", encoding="utf-8")  # as started by `grpo-tui train`
        run.writer = Writer(open_writer(run.folder.database))
        return run

    def write(self, *records: Any) -> None:
        """Write records at once."""
        self.writer.write(records)

    def close(self) -> None:
        """Fold everything into run.db."""
        self.writer.close()

    def at(self, step: float) -> float:
        """When a step ended."""
        return self.began_at + 2.0 + step * self.step_s

    def advance(self, steps: int, *, missing: tuple[int, ...] = ()) -> None:
        """Train so many steps on; rows of `missing` hold None and infinities."""
        for _ in range(steps):
            self.step += 1
            batch = self._batch(self.step)
            self.write(batch, *self._phases(), self._row(batch, self.step in missing))

    def events(self) -> None:
        """A checkpoint, a changed setting, and commands with their outcomes."""
        self.write(
            r.CheckpointSaved(1, 40, "checkpoint-40", self.at(40), True, False, 3_200_000),
            r.SettingChanged(1, 50, self.at(50), "learning_rate", 5e-4, 2e-4),
            (
                Command("1", "set", {"learning_rate": 2e-4}, self.at(49)),
                Outcome(True, 50, "", {}, self.at(50)),
            ),
            (
                Command("2", "set", {"temperature": 0.5}, self.at(52)),
                Outcome(False, 52, f"temperature cannot change here {HOSTILE}", {}, self.at(52)),
            ),
        )

    def log(self, count: int = 30) -> None:
        """Lines of output."""
        self.write(*[r.LogLine(self.at(i), f"{{'loss': {i / 100:.2f}}} {HOSTILE}") for i in range(count)])
        self.write(r.LogLine(self.at(count), "UserWarning: something to look at", "warning"))

    def now(self, phase: str, *, since: float = 0.1, reward_function: str | None = None) -> None:
        """Say what the process does now."""
        rank = RankFile(self.folder.rank(0), self.pid)
        rank.update(
            phase=phase, phase_since=NOW - since, step=self.step, progress_at=time.time(), attempt=1,
            step_time_s=self.step_s, reward_function=reward_function,
        )  # fmt: skip
        rank.close()
        write_heartbeat(self.folder.heartbeat, os.getpid(), self.pid)

    def end(self, state: str, error: dict[str, Any] | None = None) -> None:
        """End the attempt."""
        self.write(r.AttemptEnded(1, self.at(self.step), state, self.step, 0, error))

    def _batch(self, step: int) -> r.GenerationBatch:
        skill = 1 / (1 + math.exp(-(step - 30) / 9))
        groups = []
        for index in range(GROUPS):
            a, b = self._random.randint(1, 20), self._random.randint(1, 20)
            groups.append(self._group(index, a, b, skill))
        return r.GenerationBatch(1, step, 0, "train", step, step, self.at(step), tuple(groups))

    def _group(self, index: int, a: int, b: int, skill: float) -> r.Group:
        rows = []
        for _ in range(SIZE):
            right = self._random.random() < 0.15 + 0.7 * skill
            whole = self._random.random() < 0.4 + 0.58 * skill
            answer = a + b if right else a + b + self._random.choice((-1, 1, 2, 10))
            text = (
                f"<think>{a}+{b}={answer}</think><answer>{answer}</answer>" if whole else f"I think {answer}"
            )
            rows.append((text, (float(right and whole), float(whole), 1.0 if whole else 0.25)))
        if index == 1:
            rows[0] = (f"{HOSTILE}\nline two", (0.0, None, 0.0))
        totals = [
            sum(w * (v or 0.0) for (_, w), v in zip(FUNCTIONS, values, strict=True)) for _, values in rows
        ]
        mean = sum(totals) / len(totals)
        std = math.sqrt(sum((t - mean) ** 2 for t in totals) / (len(totals) - 1))
        completions = tuple(
            r.Completion(
                i, text, values, totals[i], (totals[i] - mean) / (std + 1e-4), 4 + len(text) // 4, i == 5
            )
            for i, (text, values) in enumerate(rows)
        )
        prompt = [{"role": "user", "content": f"What is {a} + {b}?"}]
        return r.Group(index, prompt, {"answer": str(a + b)}, completions)

    def _phases(self) -> list[r.PhaseSpan]:
        at = self.at(self.step)
        return [
            r.PhaseSpan(1, 0, phase, self.step, at, seconds)
            for phase, seconds in (("generate", 0.14), ("reward", 0.003), ("update", 0.11))
        ]

    def _row(self, batch: r.GenerationBatch, missing: bool) -> r.MetricRow:
        done = [c for g in batch.groups for c in g.completions]
        wave = self._random.random()
        values: dict[str, Any] = {
            "loss": 0.01 * (wave - 0.6),
            "grad_norm": 0.4 + 0.3 * wave,
            "learning_rate": 5e-4 if self.step < 50 else 2e-4,
            "num_tokens": 4096.0 * self.step,
            "completions/mean_length": sum(c.tokens for c in done) / len(done),
            "completions/clipped_ratio": 0.125,
        }
        for k, (name, _) in enumerate(FUNCTIONS):
            known = [c.rewards[k] for c in done if c.rewards[k] is not None]
            values[f"rewards/{name}/mean"] = sum(known) / len(known)
        values |= {
            "reward": sum(c.total for c in done) / len(done),
            "reward_std": 1.1,
            "frac_reward_zero_std": 0.0,
            "entropy": 0.42 * math.exp(-self.step / 25) + 0.03 * wave + 0.05,
            "step_time": self.step_s + 0.02 * wave,
            "epoch": self.step / 100,
        }
        if missing:
            values |= {"entropy": None, "grad_norm": math.inf, "reward": math.nan}
        return r.MetricRow(1, self.step, self.at(self.step), values)


PAIRS, SAMPLES = 32, 2
"""Prompts of the recorded evaluations, and completions per prompt."""


def evaluated(steps: tuple[int, int] = (0, 60), batches: tuple[int, int] = (900, 901)) -> list[Any]:
    """Records of two evaluations: nothing right at first, and all but one prompt right at last."""
    sums = [(3, 4), (12, 9), (20, 15), (7, 8), *((a, a + 2) for a in range(1, PAIRS - 3))]
    records: list[Any] = []
    done = []
    for step, batch, after in zip(steps, batches, (False, True), strict=True):
        groups, means = [], []
        for index, (a, b) in enumerate(sums):
            right = after and index != 3
            text = (
                f"<think>{a}+{b}={a + b}</think><answer>{a + b}</answer>" if right else f"I think {a + b + 1}"
            )
            scores = (1.0, 1.0, 1.0) if right else (0.0, 0.0, 0.25)
            total = sum(weight * score for (_, weight), score in zip(FUNCTIONS, scores, strict=True))
            members = [r.Completion(i, text, scores, total, 0.0, 9, False) for i in range(SAMPLES)]
            prompt = [{"role": "user", "content": f"What is {a} + {b}?"}]
            groups.append(r.Group(index, prompt, {"answer": str(a + b)}, tuple(members)))
            means.append(float(right))
        records.append(r.GenerationBatch(1, batch, 0, "probe", step, step, NOW, tuple(groups)))
        done.append(Evaluation(step, sum(means) / PAIRS, tuple(means), batch))
    weights = tuple(weight for _, weight in FUNCTIONS)
    found = Evaluations("k", "pass@1", 0, "correctness", 1.0, weights, SAMPLES, (), tuple(done))
    return [*records, r.Fact(FACT, found.to_json())]


_WHOLE: dict[str, tuple[RecordedRun, bytes]] = {}
"""A closed run of each kind and what its run.db holds, once written."""


def recorded(root: Path, kind: str = "training") -> RecordedRun:
    """A whole run of one kind: training, paused, failed, finished, evaluated, loading.

    The first of a kind is written record by record, and the others are copies of it.
    """
    if kind == "loading":
        run = RecordedRun(root)
        run.now("load", since=4.0)
        return run
    if kind not in _WHOLE:
        with TemporaryDirectory() as folder:
            first = _written(Path(folder), kind)
            first.close()
            _WHOLE[kind] = first, first.folder.database.read_bytes()
    first, database = _WHOLE[kind]
    run = first.copied(root, database)
    if kind in ("training", "paused"):
        run.now("wait" if kind == "paused" else "update", since=130.0 if kind == "paused" else 0.1)
    return run


def _written(root: Path, kind: str) -> RecordedRun:
    ended = kind in ("finished", "evaluated")
    run = RecordedRun(root, total=60 if ended else 120)
    run.advance(60 if ended else 57, missing=(20, 21, 22))
    run.events()
    run.log()
    if kind == "failed":
        cause = "reward function 'correctness' failed (rewards.py:12): KeyError: 'answer'"
        run.end("failed", {"type": "KeyError", "message": "'answer'", "cause": cause})
    elif kind == "finished":
        run.end("finished")
    elif kind == "evaluated":
        run.write(*evaluated())
        run.end("finished")
    return run
