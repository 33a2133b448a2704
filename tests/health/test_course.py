"""The figures of one metric over a run, as they change with every value."""

from __future__ import annotations

import math

import pytest

from grpo_tui.health.course import RECENT, Course


def test_noise_span_and_ends_are_those_of_all_values_so_far() -> None:
    course = Course()
    assert (course.count, course.noise, course.span) == (0, 0.0, 0.0)
    for step in range(4):
        course.add(step, float(step))
    calm = course.noise
    assert calm > 0
    course.add(4, math.nan)
    assert (course.noise, course.count, course.low, course.high) == (calm, 4, 0.0, 3.0)
    for step in range(5, 5 + RECENT):
        course.add(step, 10.0 * (step % 2))
        assert course.noise >= calm
    assert course.noise == pytest.approx(10 * calm)
    assert (course.count, course.low, course.high, course.span) == (4 + RECENT, 0.0, 10.0, 10.0)
