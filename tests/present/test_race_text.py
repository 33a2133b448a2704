"""What a race says to do next is what its table shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.present.race_text import CONTROL, START, Branch, Race, report
from grpo_tui.rewards.comparison import Answers
from tests.rewards.test_comparison import RIGHT, WRONG, _asked, _body

SAME, BETTER, BEST = [WRONG] * 40, [RIGHT, WRONG] * 20, [RIGHT, RIGHT, RIGHT, WRONG] * 10
RUNS = Path("/runs")


@pytest.mark.parametrize(
    ("start", "others", "best", "continued"),
    [
        (CONTROL, (BETTER, BEST), "second", "second"),
        (CONTROL, (BEST, BETTER), "first", "first"),
        (CONTROL, (SAME, SAME), None, CONTROL),
        (START, (SAME, BEST), "second", "second"),
        (START, (SAME, SAME), None, None),
    ],
)
def test_the_command_continues_the_best_branch_or_else_the_control(
    start: str, others: tuple[list[Answers], ...], best: str | None, continued: str | None
) -> None:
    names = [start, "first", "second"]
    branches = tuple(Branch(name, (), RUNS / name, "complete") for name in names if name != START)
    race = Race(RUNS / "a", 2, 4, branches, _body(replace(_asked(SAME, *others), names=names)))
    command = f"grpo-tui train /runs/{continued} --resume" if continued else None
    told, *_, said, last = race.to_json(), *report(race, 200)
    assert (told["best"], told["next"]) == (best, command)
    if best:
        assert said == f"Continue {best} to the end of the run:"
    assert last == f"  {command}" if command else last.startswith("No branch is shown to be better than the")


@pytest.mark.parametrize("server", [False, True])
def test_a_race_with_a_server_is_not_said_to_end_the_same_again(server: bool) -> None:
    branches = tuple(Branch(name, (), RUNS / name, "complete") for name in (CONTROL, "first"))
    body = _body(replace(_asked(SAME, SAME), names=[CONTROL, "first"]))
    race = Race(RUNS / "a", 2, 4, branches, body, server=server)
    assert race.to_json()["reproducible"] is not server
    assert any("another race can end differently" in line for line in report(race, 400)) is server


def test_a_race_whose_control_failed_or_that_compared_nothing_names_no_command() -> None:
    failed = Branch(CONTROL, (), RUNS / CONTROL, "failed", "no memory")
    whole = Branch("first", (), RUNS / "first", "complete")
    body = _body(replace(_asked(SAME, SAME), names=[START, "first"]))
    for race in (Race(RUNS / "a", 2, 4, (failed, whole), body), Race(RUNS / "a", 2, 4, (failed, whole))):
        assert (race.to_json()["best"], race.to_json()["next"]) == (None, None)
        assert "control failed: no memory" in list(report(race, 200))
        assert not any("--resume" in line for line in report(race, 200))
