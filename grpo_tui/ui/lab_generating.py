"""What the lab's thread does with the model of the config: the baseline, and completions for one row.

Mixed into the lab's worker. The model is loaded for each, by a child process that ends with it: a pane that
is only open must not hold a GPU. Knows messages, and no widget.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from grpo_tui.present.baseline_text import progress
from grpo_tui.rewards.baseline import SCORING, BaselineWish, ask_baseline, group_size
from grpo_tui.rewards.generating import Progress, Row, generate
from grpo_tui.rewards.samples import Sample, SampleError
from grpo_tui.rewards.sources import Origin
from grpo_tui.ui.lab_messages import BaselineDone, LabBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.message import Message

    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.rewards.lab import Lab
    from grpo_tui.rewards.scoring import Report

MODEL = "model"
"""The kind of a sample that the model wrote, and what is said to be at work."""


class Generating:
    """The jobs that need the model."""

    _lab: Lab
    _config: RunConfig | None
    _samples: list[Sample]
    _origin: Origin
    _before: Report | None
    _good: Report | None
    _edited: bool
    _ask: Callable[..., None]
    _post: Callable[[Message], object]
    _score: Callable[[str, float], None]
    _cancel: threading.Event | None = None
    """Set to end the generating that goes on; None while none does."""

    # -- asked by the screen; returns at once ------------------------------------------------------

    def baseline(self) -> None:
        """Let the model answer some rows, show the answers as samples, and say what follows."""
        self._ask("baseline", self._baseline)

    def generate(self, index: int) -> None:
        """Let the model answer the row of a sample; its answers come behind the group's samples."""
        self._ask("generate", lambda: self._generate(index))

    def end_generating(self) -> bool:
        """End the generating that goes on; False when none does."""
        cancel = self._cancel
        if cancel is not None:
            cancel.set()
        return cancel is not None

    # -- in the thread ---------------------------------------------------------------------------

    def _baseline(self) -> None:
        config = self._with_model()
        cancel = self._cancel = threading.Event()
        try:
            found, generated = ask_baseline(self._lab, config, BaselineWish(), self._teller(), cancel)
        finally:
            self._cancel = None
        self._samples, self._origin, self._edited = list(generated.samples), Origin(MODEL), False
        self._before = self._good = None
        self._score("", time.monotonic())
        self._post(BaselineDone(found, generated))

    def _generate(self, index: int) -> None:
        config, samples = self._with_model(), list(self._samples)
        if index >= len(samples):
            return
        asked = samples[index]
        cancel = self._cancel = threading.Event()
        row = Row(1, asked.prompt, asked.columns)
        try:
            made = generate(config, [row], group_size(config), self._teller(), cancel)
        finally:
            self._cancel = None
        self._samples, self._edited = behind_group(samples, index, made), True
        self._before = self._good = None
        self._score(f"{len(made)} answers of the model", time.monotonic())

    def _with_model(self) -> RunConfig:
        if self._config is None or not self._config.model:
            raise SampleError("functions alone have no model; open a config: grpo-tui rewards CONFIG.yaml")
        return self._config

    def _teller(self) -> Callable[[Progress], None]:
        since = time.monotonic()
        return lambda now: self._tell_progress(now, since)

    def _tell_progress(self, now: Progress, since: float) -> None:
        if now.what == SCORING:
            self._cancel = None  # from here on it is the lab that has to be interrupted
        self._post(LabBusy(progress(now), MODEL, since))


def behind_group(samples: Sequence[Sample], index: int, made: Sequence[Sample]) -> list[Sample]:
    """Return samples with the model's answers behind the last one of a sample's group, and in that group.

    Args:
        samples: in their order.
        index: the sample whose row was answered.
        made: the answers.
    """
    asked = samples[index]
    key = (asked.group, asked.prompt_key)
    place = max(i for i, s in enumerate(samples) if (s.group, s.prompt_key) == key) + 1
    fresh = [replace(sample, group=asked.group, kind=MODEL) for sample in made]
    return [*samples[:place], *fresh, *samples[place:]]
