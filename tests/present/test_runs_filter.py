"""The line above the list of runs: what it asks for, and what is said when it is not understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.present.runs_filter import read_filter
from grpo_tui.present.runs_view import RunRow

NOW = 1_770_000_000.0


def row(name: str, state: str, **values: object) -> RunRow:
    live = state in ("training", "paused")
    return RunRow(Path("/runs") / name, name, state, live=live, **values)  # type: ignore[arg-type]


ROWS = (
    row("gsm8k-big", "training", model="Qwen3-4B", step=120, reward=1.5, seen_at=NOW),
    row("gsm8k-small", "failed", model="Qwen3-0.6B", step=40, reward=0.25, seen_at=NOW - 7000),
    row("math old", "crashed", model="llama", step=0, config="math.yaml", seen_at=NOW - 90_000),
)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", ["gsm8k-big", "gsm8k-small", "math old"]),
        ("GSM8K", ["gsm8k-big", "gsm8k-small"]),
        ("gsm8k -small", ["gsm8k-big"]),
        ("-gsm8k", ["math old"]),
        ('"math old"', ["math old"]),
        ("state:failed", ["gsm8k-small"]),
        ("state:failed,crashed", ["gsm8k-small", "math old"]),
        ("state:live", ["gsm8k-big"]),
        ("state:ended", ["gsm8k-small", "math old"]),
        ("model:qwen", ["gsm8k-big", "gsm8k-small"]),
        ("config:math", ["math old"]),
        ("path:runs", ["gsm8k-big", "gsm8k-small", "math old"]),
        ("reward>1", ["gsm8k-big"]),
        ("reward<=0.25", ["gsm8k-small"]),
        ("step>=40 model:qwen", ["gsm8k-big", "gsm8k-small"]),
        ("age<2h", ["gsm8k-big", "gsm8k-small"]),
        ("age>1d", ["math old"]),
        ("-age>1d", ["gsm8k-big", "gsm8k-small"]),
        # Half typed: nothing is asked yet.
        ("state:", ["gsm8k-big", "gsm8k-small", "math old"]),
        ("reward>", ["gsm8k-big", "gsm8k-small", "math old"]),
        ("-", ["gsm8k-big", "gsm8k-small", "math old"]),
    ],
)
def test_a_line_shows_the_runs_it_asks_for(line: str, names: list[str]) -> None:
    asked = read_filter(line)
    assert asked.trouble == ""
    assert [r.name for r in asked.of(ROWS, NOW)] == names


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("stat:failed", "“stat:” is not a field. Fields: name: state: model: config: path:"),
        ("loss<1", "“loss” is not a number of a run. Numbers: reward, step, age"),
        ("reward>high", "“high” is not a number"),
        ("age<soon", "“soon” is not an age. Write 90s, 10m, 2h or 3d"),
        ("a:\x1b[31mb", "“a:” is not a field. Fields: name: state: model: config: path:"),
    ],
)
def test_what_is_not_understood_is_said_and_hides_no_run(line: str, said: str) -> None:
    asked = read_filter(line)
    assert asked.trouble == said
    assert len(asked.of(ROWS, NOW)) == len(ROWS)
    assert [r.name for r in read_filter(f"{line} small").of(ROWS, NOW)] == ["gsm8k-small"]


def test_a_run_without_a_reward_is_neither_above_nor_below() -> None:
    for line in ("reward>0", "reward<=0", "reward=0"):
        assert "math old" not in [r.name for r in read_filter(line).of(ROWS, NOW)]
