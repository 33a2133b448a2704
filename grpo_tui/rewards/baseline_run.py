"""Ask the baseline of a config: choose rows, let its model answer, score the answers, say what follows.

The way of the command and the pane; blocks, tells how far it is, and can be cancelled from another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.rewards.baseline import Baseline, baseline_of
from grpo_tui.rewards.baseline_findings import with_findings
from grpo_tui.rewards.checks.together import seconds_per_batch
from grpo_tui.rewards.generating import CancelledError, Generated, Generator, Progress, Row, Tell
from grpo_tui.rewards.lab import Lab, Scored
from grpo_tui.rewards.right_answers import find_forms, find_judge, measured
from grpo_tui.rewards.scoring import GOLD_LIMIT_S, gold_column_of

ROWS = 16
SCORING = "scoring"
"""What is told when generating has ended."""
MADE_UP = 80
"""About how many completions the functions are asked about to see what they look at."""


@dataclass(frozen=True, slots=True)
class BaselineWish:
    """What a person wants of a baseline.

    Attributes:
        rows: rows of the dataset.
        group: completions of each; `num_generations` of the config when None.
        seed: of the choice of rows and of the sampling; the config's when None.
        held: rows of the hold-out instead of training rows.
        correct: `NAME` or `NAME>=SCORE` of the function that says what is right; found when None.
    """

    rows: int = ROWS
    group: int | None = None
    seed: int | None = None
    held: bool = False
    correct: str | None = None


def ask_baseline(
    lab: Lab,
    config: RunConfig,
    wish: BaselineWish,
    tell: Tell | None = None,
    cancel: threading.Event | None = None,
) -> tuple[Baseline, Generated]:
    """Ask it; the completions come with it.

    Args:
        lab: with the config's rewards loaded.
        config: one that names a model.
        wish: rows, group, seed.
        tell: called with what goes on.
        cancel: when set, nothing is left running and `CancelledError` is raised.

    Raises:
        GenerateError: the model cannot be loaded, the data not be used, or it was cancelled.
        LabError: the rewards cannot be called at all; one that fails does not raise.
        JudgeError: no function has the name in `wish.correct`.
    """
    seed = wish.seed if wish.seed is not None else int(_setting(config, "seed"))
    count = wish.group or group_size(config)
    with Generator(config, tell, cancel) as generator:
        rows, notes = generator.rows(wish.rows, seed, held=wish.held)
        generated = generator.answers(rows, count, seed)
    if tell is not None:
        tell(Progress(SCORING, len(generated.samples), len(generated.samples)))
    if cancel is not None and cancel.is_set():
        raise CancelledError("cancelled")
    return score_baseline(lab, config, wish, rows, generated, seed, _notes(config, wish, rows, notes))


def score_baseline(
    lab: Lab,
    config: RunConfig,
    wish: BaselineWish,
    rows: Sequence[Row],
    generated: Generated,
    seed: int,
    notes: Sequence[str] = (),
) -> tuple[Baseline, Generated]:
    """Score completions that are there and compute the baseline.

    Raises:
        LabError: the rewards cannot be called at all.
        JudgeError: no function has the name in `wish.correct`.
    """
    scored = lab.score(generated.samples, repeat_limit_s=0.0)
    column = gold_column_of(config, list(rows[0].columns))
    measures = measured(lab, config, rows, column, _quick(scored))
    found = baseline_of(
        generated,
        scored.functions,
        lab.aggregate(scored),
        find_judge(measures, scored.functions, wish.correct),
        find_forms(measures),
        model=config.model,
        seed=seed,
        notes=notes,
    )
    return with_findings(found), generated


def group_size(config: RunConfig) -> int:
    """Return how many completions of a prompt the run compares: `num_generations`."""
    return int(_setting(config, "num_generations"))


def _quick(scored: Scored) -> list[int]:
    """Functions that work, and fast enough to be asked about made-up completions too."""
    return [
        r.info.index
        for r in scored.functions
        if r.failure is None and seconds_per_batch(r, MADE_UP) <= GOLD_LIMIT_S
    ]


def _notes(config: RunConfig, wish: BaselineWish, rows: Sequence[Row], data: Sequence[str]) -> list[str]:
    notes = list(data)
    if len(rows) < wish.rows:
        notes.append(f"there are only {len(rows)} rows")
    if config.grpo.get("use_vllm"):
        notes.append("use_vllm is set, but transformers generated these completions, with the same settings")
    if config.model_args.get("use_peft"):
        notes.append("the adapter was left out: a new LoRA adapter changes nothing before the first step")
    return notes


def _setting(config: RunConfig, name: str) -> Any:
    return config.grpo[name] if name in config.grpo else load_fields()[name].default
