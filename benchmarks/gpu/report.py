"""What the checks found: one row each, printed as they end; a time limit; waiting that ends.

Knows nothing of runs or GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

POLL_S = 0.1


class CheckFailed(Exception):
    """Something that should hold does not; the message is the reason in the table."""


class Abandoned(Exception):
    """The rest of a scenario makes no sense any more."""


@dataclass(frozen=True, slots=True)
class Row:
    """One check and what became of it; `detail` holds what was measured, or why it failed."""

    scenario: str
    check: str
    outcome: str
    detail: str
    seconds: float


class Report:
    """Collects the rows of one scenario and keeps its time limit."""

    def __init__(self, scenario: str, limit_s: float) -> None:
        self.scenario, self.rows = scenario, list[Row]()
        self._deadline = time.monotonic() + limit_s
        self._limit_s = limit_s

    def left_s(self) -> float:
        """Seconds left.

        Raises:
            Abandoned: There are none.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Abandoned(f"the scenario's limit of {self._limit_s:.0f} s is over")
        return left

    @contextmanager
    def check(self, name: str, *, needed: bool = False) -> Iterator[list[str]]:
        """One check: it fails with the exception that leaves the block; what it appends is its detail.

        Args:
            name: What is checked.
            needed: Without it the rest of the scenario is abandoned.
        """
        begun, detail = time.monotonic(), list[str]()
        try:
            yield detail
        except Exception as error:
            text = (
                str(error)
                if isinstance(error, CheckFailed | Abandoned)
                else f"{type(error).__name__}: {error}"
            )
            self._add(name, "failed", " ".join(text.split())[:500], begun)
            if needed or isinstance(error, Abandoned):
                raise Abandoned(text) from error
        else:
            self._add(name, "ok", "; ".join(detail), begun)

    def skip(self, name: str, why: str) -> None:
        """Record that something was not tried."""
        self._add(name, "skipped", why, time.monotonic())

    def until(self, question: Callable[[], Any], what: str, limit_s: float) -> Any:
        """Ask until the answer is true; returns the answer.

        Raises:
            CheckFailed: It was not within `limit_s`.
            Abandoned: The scenario's time is over.
        """
        deadline = time.monotonic() + limit_s
        while not (answer := question()):
            self.left_s()
            if time.monotonic() > deadline:
                raise CheckFailed(f"{what} did not happen within {limit_s:.0f} s")
            time.sleep(POLL_S)
        return answer

    def _add(self, check: str, outcome: str, detail: str, begun: float) -> None:
        row = Row(self.scenario, check, outcome, detail, round(time.monotonic() - begun, 1))
        self.rows.append(row)
        print(line(row), flush=True)


def line(row: Row) -> str:
    """One row as text."""
    return f"{row.scenario:14} {row.check:34} {row.outcome:8} {row.seconds:7.1f}  {row.detail}"


def table(rows: list[Row]) -> str:
    """All rows as a Markdown table."""
    lines = ["| scenario | check | outcome | seconds | measured |", "|---|---|---|---|---|"]
    lines += [
        f"| {r.scenario} | {r.check} | {r.outcome} | {r.seconds:.1f} | {r.detail.replace('|', '/')} |"
        for r in rows
    ]
    return "\n".join(lines)


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """All rows as plain data."""
    return [asdict(row) for row in rows]
