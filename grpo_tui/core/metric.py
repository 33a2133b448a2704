"""What is known of one metric, in words.

Knows the shape of an entry; which metrics there are stands in `core.metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as a person is told of it. The key is TRL's unless `computed`."""

    key: str
    title: str
    """What stands over its chart, with the unit after a comma."""
    short: str
    """The title in a word or two, for a narrow column."""
    meaning: str
    """What is measured, in one to three sentences."""
    healthy: str
    """The shape it has in a run that learns, with numbers where a source gives them."""
    unit: str = ""
    group: str = "other"
    """`reward`, `completions`, `policy`, `optimisation`, `time`, `sampling` or `other`."""
    better: str = ""
    """`up`, `down`, or empty when neither direction is good in itself."""
    progress: bool = False
    """True when it tells whether the policy gets better at the task."""
    computed: bool = False
    """True when this program works it out of what was recorded; no trainer logs it under this key."""
