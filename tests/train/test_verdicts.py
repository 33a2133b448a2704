"""Whether a group teaches is what the loss gets from it, in every face of the program alike."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import main
from grpo_tui.present.course import course
from grpo_tui.present.run_state import DeltaReader, RunState
from grpo_tui.present.train_view import TrainView
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import series_window, step_stats
from grpo_tui.store.search import Search
from grpo_tui.store.status import read_status
from tests.train.tiny import run_recorded

FLAT, MASKED = "grpo_tui/flat_share", "grpo_tui/masked_share"


def even(completions: Any, **kwargs: Any) -> list[float]:
    return [float(len(c[0]["content"]) % 2 == 0) for c in completions]


def odd(completions: Any, **kwargs: Any) -> list[float]:
    return [2.0 - 2 * value for value in even(completions)]


@pytest.fixture(scope="module")
def normalized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Totals are always 2, and still most groups have advantages."""
    folder = tmp_path_factory.mktemp("normalized")
    modes = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": [2.0, 1.0]}
    config = {"grpo": modes}
    run_recorded(
        folder,
        rewards=[even, odd],
        max_steps=2,
        before_train=lambda session, trainer: session.fact("config", config),
        **modes,
    )
    return folder


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every completion is truncated, and the loss leaves truncated ones out."""
    folder = tmp_path_factory.mktemp("masked")
    modes = {"mask_truncated_completions": True, "max_completion_length": 3}
    run_recorded(
        folder,
        rewards=[even],
        max_steps=2,
        before_train=lambda session, trainer: session.fact("config", {"grpo": modes}),
        **modes,
    )
    return folder


def shown(folder: Path) -> TrainView:
    search = Search(RunFolder(folder).database)
    state, deltas = RunState("run", str(folder)), DeltaReader(search.run)
    while (delta := deltas.read()).more or delta.fresh:
        state.fold(delta)
    state.fold(delta)
    search.close()
    return state.view(read_status(folder), 0.0)


def exported(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["completions", str(folder), *words]) == 0
    return capsys.readouterr().out


def test_equal_totals_with_advantages_teach(normalized: Path) -> None:
    search = Search(RunFolder(normalized).database)
    groups = search.run.groups()
    dead = [group for group in groups if max(abs(c.advantage) for c in group.completions) < 1e-3]
    assert len(groups) > len(dead)
    assert {c.total for group in groups for c in group.completions} == {2.0}

    assert {group.id for group in groups if group.signal == "none"} == {group.id for group in dead}
    for line, wanted in (("zero_std", len(dead)), ("mixed", len(groups) - len(dead)), ("all_right", 0)):
        assert search.find(line).count == 4 * wanted
    by_step = {step: [g for g in groups if g.step == step] for step in (1, 2)}
    shares = {step: sum(g in dead for g in own) / len(own) for step, own in by_step.items()}
    assert {stat.step: stat.flat for stat in step_stats(search.run)} == shares
    assert [s.mixed for s in course(search.run, [2.0, 1.0])] == [1 - share for share in shares.values()]
    search.close()

    view = shown(normalized)
    assert view.flat_share == shares[2]
    assert {row.id for row in view.groups if row.signal == "none"} == {group.id for group in dead}
    assert [f.share for f in view.functions] == pytest.approx([2.0, -1.0], abs=1e-3)
    assert read_status(normalized).to_json()["metrics"][FLAT] == shares[2]


def test_what_the_loss_leaves_out_is_marked_everywhere(
    masked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = Search(RunFolder(masked).database)
    groups = search.run.groups()
    assert any(c.advantage for group in groups for c in group.completions), "TRL gives them advantages"
    assert {group.signal for group in groups} == {"masked"}
    counts = {line: search.find(line).count for line in ("masked", "not masked", "zero_std", "mixed")}
    assert counts == {"masked": 32, "not masked": 0, "zero_std": 0, "mixed": 0}
    assert [(stat.flat, stat.masked) for stat in step_stats(search.run)] == [(1.0, 1.0)] * 2
    assert [b.mean for b in series_window(search.run, MASKED)] == [1.0, 1.0]
    assert [(s.masked, s.mixed, s.flat) for s in course(search.run, [1.0])] == [(1.0, 0.0, 0.0)] * 2
    search.close()

    view = shown(masked)
    words = "".join(text for text, _ in view.health)
    assert "Every completion of step 2 is masked: all were truncated at 3 tokens" in words
    assert "Raise max_completion_length" in words
    assert "Reward" not in words
    assert (view.masked_share, view.flat_share) == (1.0, 1.0)
    assert all(row.masked for group in view.groups for row in group.completions)
    (alert,) = read_status(masked).to_json()["alerts"]
    assert alert["id"] == "loss.masked"

    rows = [json.loads(line) for line in exported(masked, capsys).splitlines()]
    assert {row["masked"] for row in rows} == {True}
    table = list(csv.DictReader(io.StringIO(exported(masked, capsys, "--format", "csv"))))
    assert {row["masked"] for row in table} == {"true"}
    assert ", truncated, masked" in exported(masked, capsys, "--format", "md")


def test_a_run_that_masks_nothing_has_no_key_for_it(
    normalized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in exported(normalized, capsys).splitlines()]
    assert {"masked" in row for row in rows} == {False}
    assert shown(normalized).masked_share == 0.0
    search = Search(RunFolder(normalized).database)
    assert series_window(search.run, MASKED) == []
    search.close()
