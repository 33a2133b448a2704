"""What is usual for a phase, told from the phases a rank has been through."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grpo_tui.core.records import PhaseSpan
from grpo_tui.store.live import RankFile, read_rank
from grpo_tui.train import phases
from grpo_tui.train.phases import PhaseClock


def test_the_usual_duration_of_a_phase_passes_over_rests_and_a_call_that_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(phases.time, "time", lambda: now)
    spans: list[PhaseSpan] = []
    file = RankFile(tmp_path / "rank-0.json", os.getpid())
    clock = PhaseClock(file, spans.append, 1)  # type: ignore[arg-type]
    told: list[float | None] = []
    for step in range(12):
        clock.enter("generate")
        now += 10.0
        with clock.during("reward"):
            told.append(read_rank(tmp_path / "rank-0.json").usual_s)  # type: ignore[union-attr]
            now += 3_000.0 if step == 5 else 2.0
        now += 0.01  # advantages
        clock.enter("update")
        now += 4.0
        clock.step_ended(step + 1)
    file.close()
    assert told == [None] * 3 + [2.0] * 9
    assert clock.usual_s("generate") == 10.0
    assert clock.usual_s("update") == 4.0
    assert clock.usual_s("save") is None


def test_the_time_of_a_step_leaves_pauses_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(phases.time, "time", lambda: now)
    file = RankFile(tmp_path / "rank-0.json", os.getpid())
    clock = PhaseClock(file, lambda record: None, 1)
    told: list[float | None] = []
    for step, paused_s in enumerate((0.0, 0.0, 500.0, 0.0)):
        clock.enter("wait")
        now += paused_s
        clock.enter("update")
        now += 10.0
        clock.step_ended(step)
        told.append(read_rank(tmp_path / "rank-0.json").step_time_s)  # type: ignore[union-attr]
    file.close()
    assert told == [None, 10.0, 10.0, 10.0]


def test_a_step_that_ends_without_a_generation_before_it_was_an_update(tmp_path: Path) -> None:
    """A resume within a generation cycle updates before it generates."""
    spans: list[PhaseSpan] = []
    file = RankFile(tmp_path / "rank-0.json", os.getpid())
    clock = PhaseClock(file, spans.append, 1)  # type: ignore[arg-type]
    assert read_rank(tmp_path / "rank-0.json").phase == "load"  # type: ignore[union-attr]
    clock.step_ended(8)
    assert read_rank(tmp_path / "rank-0.json").phase == clock.phase == "update"  # type: ignore[union-attr]
    assert [span.phase for span in spans] == ["load"]
    clock.enter("save")
    clock.step_ended(9)
    assert clock.phase == "save", "any other phase is left alone"
    file.close()


def test_an_exception_carries_the_innermost_phase_it_was_raised_in(tmp_path: Path) -> None:
    file = RankFile(tmp_path / "rank-0.json", os.getpid())
    clock = PhaseClock(file, lambda record: None, 1)
    clock.enter("update")

    def save() -> None:
        with clock.during("eval"), clock.during("save"):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone") as caught:
        save()
    file.close()
    assert getattr(caught.value, phases.BROKE_IN) == "save"
    assert clock.phase == "update", "who goes on after it is where it was"
