"""Keep comparisons of made-up answers as `grpo-tui compare` does: file, figures and verdict are real."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

from grpo_tui.rewards.comparison import Answers, Asked, compared
from grpo_tui.rewards.generating import ChosenRows, DatasetRow
from grpo_tui.rewards.right_answers import Judge
from grpo_tui.ship.kept import KeptComparison
from grpo_tui.ui.starting import Child

PROMPTS, SAMPLES = 40, 4
JUDGE = Judge(0, "correctness", 1.0, "as the config's rewards give it for right answers")
SAMPLING = {"engine": "transformers", "device": "cpu", "temperature": 1.0, "max_tokens": 32}


WAITS = """
import sys, time
print("progress: base (1 of 2): generating: 40 of 160 completions", file=sys.stderr, flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("grpo-tui: interrupted", file=sys.stderr)
    raise SystemExit(130)
"""
"""A comparison that goes on until it is interrupted."""


def child_of(program: str) -> Any:
    """Return what makes a child with a program of its own, which gets the words of the command."""

    def make(words: list[str], stages: str) -> Child:
        child = Child(words, stages)
        child.words = [sys.executable, "-c", program, *words]
        return child

    return make


waiting_child = child_of(WAITS)


def keep_comparison(
    root: Path,
    name: str = "kept",
    *,
    at: float | None = None,
    folder: Path | None = None,
    skill: tuple[float, ...] = (0.2, 0.8),
    judged: bool = True,
    path: str | None = None,
) -> Path:
    """Keep a finished comparison of a run with its base.

    Args:
        root: the run folder.
        name: of the file.
        at: when it was written.
        folder: that holds it; the run folder's own when None.
        skill: how often the base and the trained model are right, or the base and several checkpoints.
        judged: whether a reward says what is right.
        path: where the trained model is; the run folder when None.
    """
    rng = random.Random(7)
    rows = [
        DatasetRow(n + 1, [{"role": "user", "content": f"What is {n} + {2 * n}?"}], {"answer": str(3 * n)})
        for n in range(PROMPTS)
    ]
    answers = [[_answers(rng, n, share) for n in range(PROMPTS)] for share in skill]
    steps = [57] if len(skill) == 2 else [20 * n for n in range(1, len(skill))]
    policies = ["base", *([str(root)] if len(skill) == 2 else [f"{root}@{step}" for step in steps])]
    judge = JUDGE if judged else None
    asked = Asked(policies, rows, answers, ["correctness", "format"], [2.0, 0.5], judge, [])
    folder = root / "compare" if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    file, notes = folder / f"{name}.jsonl", ("use_vllm is set, but transformers generated",)
    listed = [
        {"name": "base", "path": "/models/adder-0.8M", "step": None},
        *(
            {"name": name, "path": path or str(root.absolute()), "step": step}
            for name, step in zip(policies[1:], steps, strict=True)
        ),
    ]
    with KeptComparison(file, {"comparison": 1, "key": name, "policies": policies}) as kept:
        kept.choose(ChosenRows(tuple(rows), True, notes))
        for policy, found in enumerate(answers):
            kept.add(policy, dict(enumerate(found)), SAMPLING)
        kept.finish("", {**_options(), "policies": listed, **compared(asked), "notes": list(notes)})
    if at is not None:
        os.utime(file, (at, at))
    return file


def _options() -> dict[str, Any]:
    about = {"rows": PROMPTS, "samples": SAMPLES, "seed": 42, "held": True, "prompts": None}
    return {**about, "sampling": SAMPLING}


def _answers(rng: random.Random, n: int, skill: float) -> Answers:
    said = [3 * n if rng.random() < skill else 3 * n + rng.randint(1, 2) for _ in range(SAMPLES)]
    texts = tuple(f"<think>{n}+{2 * n}={one}</think>\n<answer>{one}</answer>" for one in said)
    scores = tuple((float(one == 3 * n), 1.0) for one in said)
    return Answers(texts, (14,) * SAMPLES, (False,) * SAMPLES, scores)
