"""Faults to practise on: `demo --fault NAME` runs the demonstration with one thing broken.

A fault is a few keys of the demonstration's config and, where needed, a misbehaving reward function from
this file. The rest is real: a killed process is really killed. A resumed run is spared the kill and the full
disk, as if the user had fixed the cause.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.demo.rewards import completion_text, correctness, extracted_answer

HANG_AT, RAISE_FROM, CRASH_AT = 10, 15, 20
"""Steps at which a fault occurs, counted from 1 as the run does."""
DISK_FULL_FROM, DISK_FULL_MET_AT = 8, 12
RATE_ENDS_AT = 40
JUDGE_TAKES_S = 3.0
FILE_LIMIT_BYTES = 3_000_000
"""File size limit of the simulated full disk. The weights take 3.2 MB; the record is still smaller then."""
ROOM_POLL_S = 0.5
BALLAST = "delete-me-to-make-room"
"""Name of the file in the run folder that represents what fills the disk."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing broken on purpose."""

    name: str
    teaches: str
    """One line for the help."""
    expect: str
    """Shown to the user at the start: what will happen, and where to look."""
    overrides: tuple[str, ...]
    """`K=V` for the demonstration's config."""
    comes_at: int = 1
    """First step at which the fault can show."""
    needs_ballast: bool = False
    """Whether its reward takes the path of the file that fills the disk."""

    def overrides_in(self, root: Path) -> tuple[str, ...]:
        """Return the overrides for a run in this folder."""
        if not self.needs_ballast:
            return self.overrides
        return (*self.overrides, f"grpo_tui.rewards.0.params={json.dumps({'ballast': str(root / BALLAST)})}")

    def expected_in(self, root: Path) -> str:
        """Return the text shown at the start of a run in this folder."""
        return self.expect.replace("{ballast}", str(root / BALLAST))


def _instead_of_correctness(name: str, function: str) -> tuple[str, ...]:
    return (f"grpo_tui.rewards.0.name={name}", f"grpo_tui.rewards.0.source=faults.py:{function}")


def _beside_correctness(reward: str) -> tuple[str, ...]:
    return (f"grpo_tui.rewards=[{{name: correctness, source: rewards.py:correctness}}, {reward}]",)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "hung-reward",
            "a judge stops answering at step 10: find which reward hangs, abort the call, continue",
            "the reward `judge` stops answering at step 10; `A` (or `abort-reward`) aborts the call",
            _instead_of_correctness("judge", "judge_that_hangs"),
            HANG_AT,
        ),
        Fault(
            "reward-raises",
            "a parser gets a completion it cannot read at step 15: read the cause, fix it, resume",
            "the reward `parser` raises from step 15 on, on an answer without its tag; the run fails and "
            "names it",
            (*_instead_of_correctness("parser", "parser_that_raises"), "save_steps=5"),
            RAISE_FROM,
        ),
        Fault(
            "crash",
            "the process is killed at step 20, as by the out-of-memory killer: resume exactly",
            "the training process is killed with SIGKILL at step 20, once; --resume continues from step 10",
            (
                *_instead_of_correctness("correctness", "correctness_until_killed"),
                "save_steps=10",
                "save_total_limit=3",
            ),
            CRASH_AT,
        ),
        Fault(
            "full-disk",
            "a checkpoint does not fit: see which one is complete, make room, resume",
            "after step 8 no file of the training process may grow beyond 3 MB, which simulates a full "
            "disk; the checkpoint of step 12 does not fit; deleting {ballast} makes room",
            (
                *_instead_of_correctness("correctness", "correctness_on_a_full_disk"),
                "save_steps=6",
                "save_total_limit=3",
            ),
            DISK_FULL_MET_AT,
            needs_ballast=True,
        ),
        Fault(
            "flat-rewards",
            "every completion of a group gets the same reward: nothing is learned, and no error appears",
            "the only reward scores the question instead of the answer: watch the zero-std groups, not the "
            "reward",
            ("grpo_tui.rewards=[{name: question, source: faults.py:scores_the_question}]",),
        ),
        Fault(
            "first-digit",
            "a reward reads one digit of each answer: find the right completions that it scores as wrong",
            "the reward `correctness` reads only the first digit of an answer: look at groups that are all "
            "wrong, and at what it extracted",
            _instead_of_correctness("correctness", "correctness_of_the_first_digit"),
        ),
        Fault(
            "truncated",
            "max_completion_length truncates every completion, and truncated ones are masked: the loss is 0",
            "3 tokens are too few for any answer and truncated completions are masked: watch the fraction "
            "truncated",
            ("max_completion_length=3", "mask_truncated_completions=true"),
        ),
        Fault(
            "lr-too-high",
            "a high learning rate destroys the policy within three steps: see it in reward, entropy and "
            "length",
            "the learning rate is 25 times the demonstration's: watch reward, entropy and length",
            ("learning_rate=5e-3",),
        ),
        Fault(
            "unscored",
            "a reward reads a column that the dataset lacks: it abstains on every completion",
            "the only reward reads the column `solution`, and the dataset calls it `answer`: look at the "
            "scores in Generations",
            ("grpo_tui.rewards=[{name: solution, source: faults.py:reads_the_solution}]",),
        ),
        Fault(
            "infinite-reward",
            "a reward divides by a distance of 0: one infinite score spoils its whole group",
            "the reward `closeness` is infinite for a correct answer: look at the advantages of its group",
            _instead_of_correctness("closeness", "inverse_distance"),
        ),
        Fault(
            "rewards-cancel",
            "a penalty takes back exactly what a reward gives: scores differ and totals do not",
            "`correctness` and `penalty` add up to 0: look at the totals of a group",
            _beside_correctness("{name: penalty, source: rewards.py:correctness, weight: -1.0}"),
        ),
        Fault(
            "drowned-reward",
            "a reward counts characters: beside its range, a correct answer makes no difference",
            "`brevity` counts characters and `correctness` is 0 or 1: compare their contributions in Rewards",
            _beside_correctness("{name: brevity, source: faults.py:fewer_characters}"),
        ),
        Fault(
            "long-answers",
            "a reward pays for length: the policy learns to write until it is truncated",
            "the reward `effort` grows with the length of an answer: watch length and truncation",
            ("grpo_tui.rewards=[{name: effort, source: faults.py:longer_is_better}]",),
        ),
        Fault(
            "no-end-token",
            "the end token is never sampled: completions continue after the answer to the length limit",
            "no completion can end before 40 tokens: read what follows the answer",
            ("generation_kwargs={min_new_tokens: 40}",),
        ),
        Fault(
            "low-temperature",
            "sampling has no variety: the completions of a group are the same text",
            "the temperature is 0.01: compare the completions of a group",
            ("temperature=0.01",),
        ),
        Fault(
            "lr-too-low",
            "the learning rate is far too small: groups have a signal and nothing changes",
            "the learning rate is 1e-9: compare reward, entropy and length with those of the start",
            ("learning_rate=1e-9",),
        ),
        Fault(
            "lr-ended",
            "the schedule reaches 0 before the run ends: the remaining steps change nothing",
            "the learning rate is 0 from step 40: watch it and the reward",
            (
                "lr_scheduler_type=warmup_stable_decay",
                "lr_scheduler_kwargs={num_stable_steps: 20, num_decay_steps: 20, min_lr_ratio: 0.0}",
            ),
            RATE_ENDS_AT,
        ),
        Fault(
            "slow-reward",
            "a judge takes three seconds per step: see which part of a step takes the time",
            "the reward `judge` takes 3 seconds per batch: look at the time of a step",
            _instead_of_correctness("judge", "slow_judge"),
        ),
    )
}


def judge_that_hangs(completions: Sequence[Any], trainer_state: Any = None, **kwargs: Any) -> list[float]:
    """Score as `correctness` does, but wait forever at one step, as for a server that never answers.

    Args:
        trainer_state: TRL's; `global_step` counts finished steps.
        **kwargs: Other columns, including `answer`.
    """
    while _step(trainer_state) == HANG_AT:
        try:
            time.sleep(60)  # the answer that never comes
        except Exception:  # a client that retries whatever happens
            continue
    return correctness(completions=completions, **kwargs)


def parser_that_raises(
    completions: Sequence[Any], answer: Sequence[str], trainer_state: Any = None, **kwargs: Any
) -> list[float]:
    """Score with a careless parser: from one step on it assumes that every answer has its tag.

    Raises:
        IndexError: A completion has no `<answer>`.
    """
    texts = [completion_text(completion) for completion in completions]
    if _step(trainer_state) < RAISE_FROM:
        texts = [text if "<answer>" in text else "<answer>" for text in texts]
    found = [text.split("<answer>")[1].split("</answer>")[0].strip() for text in texts]
    return [1.0 if number == gold else 0.0 for number, gold in zip(found, answer, strict=True)]


def correctness_until_killed(
    completions: Sequence[Any], trainer_state: Any = None, **kwargs: Any
) -> list[float]:
    """Score as `correctness` does. At one step of a run that was not resumed, kill the process."""
    if _started_anew(trainer_state) and _step(trainer_state) == CRASH_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    return correctness(completions=completions, **kwargs)


def correctness_on_a_full_disk(
    completions: Sequence[Any], ballast: str, trainer_state: Any = None, **kwargs: Any
) -> list[float]:
    """Score as `correctness` does. At one step of a run that was not resumed, fill the disk.

    The kernel stops files of this process from growing beyond a limit and reports `File too large` where a
    full disk reports `No space left on device`. Deleting the ballast lifts the limit.

    Args:
        ballast: Path of the file to delete.
    """
    if _started_anew(trainer_state) and _step(trainer_state) == DISK_FULL_FROM:
        _fill_the_disk(Path(ballast))
    return correctness(completions=completions, **kwargs)


def _fill_the_disk(ballast: Path) -> None:
    ballast.write_text("Delete this file to make room for the checkpoints of the demonstration.\n")
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, hard))
    sys.stdout.write(f"fault full-disk: the disk is full now; delete {ballast} to make room\n")
    sys.stdout.flush()

    def wait_for_room() -> None:
        while ballast.exists():
            time.sleep(ROOM_POLL_S)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        sys.stdout.write("fault full-disk: there is room again\n")
        sys.stdout.flush()

    threading.Thread(target=wait_for_room, name="room", daemon=True).start()


def scores_the_question(completions: Sequence[Any], answer: Sequence[str], **kwargs: Any) -> list[float]:
    """Score the question instead of the answer: 1 for even sums, 0 for odd ones."""
    return [1.0 if int(gold) % 2 == 0 else 0.0 for gold in answer]


def correctness_of_the_first_digit(
    completions: Sequence[Any],
    answer: Sequence[str],
    log_extra: Callable[[str, list[Any]], None] | None = None,
    **kwargs: Any,
) -> list[float]:
    """Score with a pattern that lacks a `+`: it reads one digit, so no sum from 10 on is ever right."""
    matches = [re.search(r"<answer>(\d)", completion_text(completion)) for completion in completions]
    found = ["none" if match is None else match.group(1) for match in matches]
    if log_extra is not None:
        log_extra("extracted", found)
        log_extra("gold", list(answer))
    return [1.0 if number == gold else 0.0 for number, gold in zip(found, answer, strict=True)]


def reads_the_solution(
    completions: Sequence[Any], solution: Sequence[str] | None = None, **kwargs: Any
) -> list[float | None]:
    """Score as `correctness` does, by a column that the demonstration's dataset does not have."""
    if solution is None:
        return [None] * len(completions)
    return [*correctness(completions=completions, answer=solution)]


def inverse_distance(completions: Sequence[Any], answer: Sequence[str], **kwargs: Any) -> list[float]:
    """Score 1 / distance from the right sum: infinite at the right sum itself, 0 without a number."""
    found = (extracted_answer(completion_text(completion)) for completion in completions)
    distances = [
        math.inf if number is None else abs(int(number) - int(gold))
        for number, gold in zip(found, answer, strict=True)
    ]
    return [1 / distance if distance else math.inf for distance in distances]


def fewer_characters(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Score brevity in characters: -28 for 28 of them."""
    return [-float(len(completion_text(completion))) for completion in completions]


def longer_is_better(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Score length: 1 for 40 characters."""
    return [len(completion_text(completion)) / 40 for completion in completions]


def slow_judge(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """Score as `correctness` does, after the time that a call to a large model takes."""
    time.sleep(JUDGE_TAKES_S)
    return correctness(completions=completions, **kwargs)


_first_step: int | None = None


def _started_anew(trainer_state: Any) -> bool:
    """Return True in a process whose first rewards were those of step 1, False after a resume."""
    global _first_step
    if _first_step is None:
        _first_step = _step(trainer_state)
    return _first_step == 1


def _step(trainer_state: Any) -> int:
    """Return the step whose rewards are being computed; 0 outside training."""
    return 0 if trainer_state is None else int(trainer_state.global_step) + 1
