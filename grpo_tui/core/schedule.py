"""Changes of settings that a run makes by itself at a step.

The run stores them as one fact, `scheduled`, from which a resume continues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.records import SettingChanged

FACT = "scheduled"
BY_SCHEDULE, BY_RESUME = "schedule", "resume"
"""Who made a change, in the history: the schedule, or the resume that restored an earlier one."""
State = Literal["waiting", "applied", "rejected", "canceled"]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One scheduled change.

    Attributes:
        step: It is applied at the safe point after this step.
        changes: Name to value, as given.
        decided_at: When it was applied, rejected or canceled; 0 while it waits.
        reason: Why it was rejected.
        left: When it was applied in steps that a resume has left since.
    """

    step: int
    changes: dict[str, Any]
    asked_at: float
    by: str = "you"
    because: str = ""
    state: State = "waiting"
    decided_at: float = 0.0
    reason: str = ""
    left: tuple[float, ...] = ()


def scheduled_from(value: Any) -> tuple[Scheduled, ...]:
    """Rebuild the changes from the fact. Entries that are not valid are left out."""
    found = []
    for entry in value if isinstance(value, list) else ():
        try:
            found.append(rebuilt(Scheduled, entry))
        except ValueError:
            continue
    return tuple(found)


def to_json(known: Iterable[Scheduled]) -> list[dict[str, Any]]:
    """Return JSON data for `scheduled_from`."""
    return [asdict(one) for one in known]


def waiting_in(known: Iterable[Scheduled]) -> list[Scheduled]:
    """Return the changes that still wait, by step."""
    return sorted((one for one in known if one.state == "waiting"), key=lambda one: one.step)


def without_left(history: Iterable[SettingChanged], known: Iterable[Scheduled]) -> list[SettingChanged]:
    """Return the history without scheduled changes that a resume has left, since they wait again."""
    left = {at for one in known for at in one.left}
    return [change for change in history if change.by != BY_SCHEDULE or change.at not in left]


def resumed_at(
    step: int, known: Sequence[Scheduled], history: Collection[SettingChanged]
) -> tuple[Scheduled, ...]:
    """Return the changes as a resume from this step continues them.

    A change that was applied later than the step waits again, unless you changed the same settings since.
    """
    newest: Mapping[str, float] = {
        change.name: change.at for change in history if change.by != BY_SCHEDULE or change.step <= step
    }
    made = {change.at: change.step for change in history if change.by == BY_SCHEDULE}
    again = []
    for one in known:
        names = [change.name for change in history if change.at == one.decided_at]
        later = one.state == "applied" and made.get(one.decided_at, 0) > step
        if later and all(newest.get(name, 0.0) <= one.decided_at for name in names):
            one = replace(one, state="waiting", decided_at=0.0, left=(*one.left, one.decided_at))
        again.append(one)
    return tuple(again)
