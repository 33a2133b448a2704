"""Make a run of very many completions of 2 KB, through the store's own writer.

Knows how such rollouts look: words that nearly every text holds, words that few hold, numbers, tags, rewards
that rise over the steps. The same seed gives the same file.
"""

from __future__ import annotations

import random
from pathlib import Path

from grpo_tui.core import records as r
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.writer import Writer

TEXT_CHARACTERS = 2_000
GROUPS, GROUP_SIZE = 8, 8
"""A step of 64 completions."""
RARE_SHARE = 0.001
WORDS = (
    *("the", "answer", "is", "we", "can", "see", "that", "so", "therefore", "let", "us", "compute", "step"),
    *("by", "first", "second", "sum", "product", "of", "numbers", "equals", "x", "y", "z", "because", "12"),
    *("7", "345", "plus", "minus", "carry", "digit", "hundred", "ten", "unit", "which", "gives", "finally"),
    *("check", "again", "wait"),
)


def make(root: Path, completions: int) -> RunFolder:
    """Write the run unless it is there already, whole."""
    folder, whole = RunFolder(root), root / "whole"
    if whole.exists():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    for stale in root.glob("run.db*"):
        stale.unlink()
    numbers = random.Random(7)
    sentences = [
        " ".join(numbers.choices(WORDS, k=numbers.randint(6, 16))) + numbers.choice((". ", ".\n", ", "))
        for _ in range(4_000)
    ]
    writer = Writer(open_writer(folder.database))
    steps = -(-completions // (GROUPS * GROUP_SIZE))
    writer.write(
        [
            r.AttemptStarted(1, 0.0, "here", 2**22 - 3, total_steps=steps),
            *[r.RewardFunctionInfo(1, i, name, 1.0) for i, name in enumerate(("correct", "format"))],
        ]
    )
    for first in range(1, steps + 1, 20):
        last = min(first + 20, steps + 1)
        writer.write([batch(step, step / steps, numbers, sentences) for step in range(first, last)])
    writer.write([r.AttemptEnded(1, float(steps), "finished", steps, 0)])
    writer.close()
    whole.write_text("", encoding="utf-8")
    return folder


def batch(step: int, skill: float, numbers: random.Random, sentences: list[str]) -> r.GenerationBatch:
    """The completions of a step; `skill` of them are right."""
    groups = []
    for index in range(GROUPS):
        first, second = numbers.randint(1, 999), numbers.randint(1, 999)
        prompt = [
            {"role": "user", "content": f"What is {first} + {second}? " + "Think before you answer. " * 8}
        ]
        members = tuple(completion(i, skill, numbers, sentences) for i in range(GROUP_SIZE))
        groups.append(r.Group(index, prompt, {"answer": str(first + second)}, members))
    return r.GenerationBatch(1, step, 0, "train", step, step, float(step), tuple(groups))


def completion(index: int, skill: float, numbers: random.Random, sentences: list[str]) -> r.Completion:
    """One completion; one in a thousand holds the word zebra."""
    text = "<think>" + "".join(numbers.choices(sentences, k=TEXT_CHARACTERS // 40))[: TEXT_CHARACTERS - 60]
    if numbers.random() < RARE_SHARE:
        text += " zebra"
    text += f"</think> <answer>{numbers.randint(0, 999)}</answer>"
    right = float(numbers.random() < skill)
    form = None if numbers.random() < 0.01 else float(numbers.random() < 0.8)
    total = right + (form or 0.0)
    extra = {"parsed": numbers.randint(0, 99)}
    return r.Completion(
        index,
        text,
        (right, form),
        total,
        total - 1.0,
        numbers.randint(200, 600),
        numbers.random() < 0.1,
        extra,
    )
