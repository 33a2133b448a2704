"""How a race ends: its exit code, by what became of the branches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli import race as of_race
from grpo_tui.cli.series import Job, Places, Series
from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.race_text import Race


@pytest.mark.parametrize(
    ("ends", "word", "left", "code"),
    [
        (("complete", "complete"), "better", 0, 0),
        (("complete", "complete"), "not shown", 0, 0),
        (("complete", "complete"), "worse", 0, 1),
        (("complete", "complete"), None, 0, 130),  # the comparison was interrupted
        (("complete", "failed"), None, 0, 2),
        (("failed", "complete"), "worse", 0, 2),
        (("complete", "stopped"), None, 3, 3),
        (("complete", "still training"), None, 130, 130),
    ],
)
def test_a_worse_branch_is_exit_1_and_one_that_failed_2(
    ends: tuple[str, str],
    word: str | None,
    left: int,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [of_race.Wanted("control", ()), of_race.Wanted("hot", ("temperature=2",))]
    jobs = [Job(one.name, tmp_path / one.name, lambda *_: None, bool) for one in wanted]  # type: ignore[arg-type, return-value]
    series = Series(jobs, Places(), lambda *_: None)
    series.ends, series.left = {one.name: end for one, end in zip(wanted, ends, strict=True)}, left
    body: Any = {"verdict": [{"policy": "hot", "word": word}]} if word is not None else None
    monkeypatch.setattr(of_race, "_compared", lambda *words: body)
    monkeypatch.setattr(Race, "to_json", lambda self: {})
    parsed = SimpleNamespace(json=True, no_control=False)
    found = Race(tmp_path, 2, 4, ())
    assert of_race._told(parsed, series, found, wanted, load_config(DEMO_CONFIG)) == code
