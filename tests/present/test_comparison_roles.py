"""Whether a difference between two models is good or bad depends on the measure."""

from __future__ import annotations

import pytest

from grpo_tui.present.comparison_text import measures_of

ROLES = {
    "pass@1": ("good", "bad"),
    "pass@k": ("good", "bad"),
    "total": ("good", "bad"),
    "reward": ("good", "bad"),
    "format": ("good", "bad"),
    "length": ("text", "text"),
    "truncated": ("bad", "good"),
}
"""The role of an increase and of a decrease, for every kind of measure."""


@pytest.mark.parametrize("kind", ROLES)
@pytest.mark.parametrize(
    ("ends", "role"),
    [((0.1, 0.3), 0), ((-0.3, -0.1), 1), ((-0.1, 0.3), "text"), ((0.0, 0.0), "dim"), ((None, None), "text")],
)
def test_more_is_better_except_of_truncated_completions_and_tokens(
    kind: str, ends: tuple[float | None, float | None], role: int | str
) -> None:
    low, high = ends
    one = {"policy": "mine", "mean": 0.0, "low": low, "high": high}
    measure = {"name": "m", "kind": kind, "values": [0.5, 0.5], "differences": [one]}
    (found,) = measures_of({"policies": [{"name": "base"}, {"name": "mine"}], "measures": [measure]})
    first, change = found.changes
    assert first is None
    assert change is not None
    assert change.role == (ROLES[kind][role] if isinstance(role, int) else role)
