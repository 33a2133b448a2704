"""How the lab's thread calls functions: all but one that a person ends, and the quick ones once more.

Mixed into the lab's worker. Knows no widget.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from grpo_tui.rewards.lab import REPEAT_LIMIT_S, Lab, LabError, Scored
from grpo_tui.rewards.score_report import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_tui.rewards.samples import Sample


class Calling:
    """Scores first, checks later."""

    _lab: Lab
    _samples: list[Sample]
    _interrupted: bool
    _superseded: bool
    _function: str
    _function_at: float
    _tell: Callable[[str, str], None]

    def _scored(self) -> Scored:
        """Score with every function; one that a person ends is named, the others are scored."""
        ended: dict[int, Failure] = {}
        while True:
            left = [f.index for f in self._lab.functions if f.index not in ended]
            try:
                scored = self._lab.score(
                    self._samples, only=left if ended else None, tell=self._tell, repeat_limit_s=0.0
                )
                break
            except LabError:
                index = next((f.index for f in self._lab.functions if f.name == self._function), None)
                if not self._interrupted or self._superseded or index is None or index in ended:
                    raise
                for_s = time.monotonic() - self._function_at
                ended[index] = Failure("hung", "", f"ended by you after {for_s:.1f} s without an answer")
                self._interrupted = False
        functions = tuple(
            f.with_failure(ended[f.info.index]) if f.info.index in ended else f for f in scored.functions
        )
        return replace(scored, functions=functions)

    def _checked(self, first: Scored) -> Scored:
        """Call the quick functions once more, for what only a second look can tell."""
        quick = [
            f.info.index
            for f in first.functions
            if f.seconds <= REPEAT_LIMIT_S and (f.failure is None or f.failure.kind in ("raised", "returned"))
        ]
        if not quick:
            return first
        again = self._lab.score(self._samples, only=quick, tell=self._tell)
        functions = tuple(
            new if new.info.index in quick else old
            for old, new in zip(first.functions, again.functions, strict=True)
        )
        return replace(first, functions=functions)
