"""A finding says where the change began, which setting caused it, and which checkpoint is from before."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli.main import main
from grpo_tui.core.findings import Finding
from grpo_tui.core.records import SettingChanged
from grpo_tui.health.course import Course
from grpo_tui.health.doctor import Doctor
from grpo_tui.health.facts import Observation
from grpo_tui.health.reading import diagnose
from grpo_tui.present.charts import way_on
from grpo_tui.present.runs_view import RunRow, read_offer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_health import resume_options, with_checkpoint
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status
from tests.health.test_live import Training
from tests.health.test_rules import ONE, breaks
from tests.train.test_steering_changes_nothing import _ask
from tests.train.tiny import run_recorded

BROKE = "policy.broke"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run whose learning rate a user set to 5,000 times the present one at step 4."""
    run = tmp_path_factory.mktemp("broken") / "run"
    run_recorded(
        run,
        at_safe_point=_ask(run, 4, ("set", {"learning_rate": 1.0, "yes": True})),
        learning_rate=2e-4,
        lr_scheduler_type="constant",
        max_steps=14,
        save_strategy="steps",
        save_steps=1,
    )
    return run


def told(run: Path) -> Finding:
    """What was found while it trained."""
    (finding,) = (one for one in read_status(run).findings if one.id == BROKE)
    return finding


@pytest.mark.slow
def test_a_run_that_a_live_change_broke(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(RunReader(broken / "run.db")) as reader:
        rewards = {step: values["reward"] for _, step, values in metric_rows(reader) if "reward" in values}
        (found,) = (one for one in diagnose(reader).findings if one.id == BROKE)
    last_healthy = max(step for step, reward in rewards.items() if reward > 0)
    assert found.first_step == told(broken).first_step == last_healthy + 1 == 6
    assert found.evidence["cause"] == {"setting": "learning_rate", "from": 2e-4, "to": 1.0, "step": 4}

    assert main(["doctor", str(broken), "--json"]) == 1
    first, *others = json.loads(capsys.readouterr().out)["findings"][0]["remedies"]
    assert first == {"text": "Set learning_rate back to 0.0002", "field": "learning_rate", "value": 2e-4,
                     "live": True}  # fmt: skip
    assert "learning_rate" not in [other["field"] for other in others]
    assert others[-1]["value"] == "checkpoint-4", "checkpoint-5 was saved after the update that broke it"
    assert main(["doctor", str(broken)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Likely cause: learning_rate was changed from 0.0002 to 1 at step 4. The reward went" in said
    assert "`--resume 4 --set learning_rate=0.0002`" in said


def _started_by_us(broken: Path, folder: Path) -> Path:
    """Return a copy of the run as `grpo-tui train` leaves it. A script starts again itself."""
    run = Path(shutil.copytree(broken, folder / "run"))
    RunFolder(run).spec.write_text("{}", encoding="utf-8")
    return run


@pytest.mark.slow
def test_every_way_to_resume_leads_to_before_the_break(broken: Path, tmp_path: Path) -> None:
    run = _started_by_us(broken, tmp_path)
    options = "--resume 4 --set learning_rate=0.0002"
    assert f"train {run} {options}`" in way_on(read_status(run), str(run))
    offer = read_offer(RunRow(run, "run", "finished", step=14))
    assert offer.checkpoint == "checkpoint-14"
    assert "The policy broke at step 6, before this checkpoint was saved." in offer.lines
    assert offer.lines[-1].endswith(f" {options}")


@pytest.mark.slow
def test_the_last_checkpoint_before_the_break_is_offered_without_a_warning(
    broken: Path, tmp_path: Path
) -> None:
    run = _started_by_us(broken, tmp_path)
    for step in range(14, 3, -1):
        offer = read_offer(RunRow(run, "run", "finished", step=14))
        assert offer.checkpoint == f"checkpoint-{step}"
        warned = [line for line in offer.lines if "before this checkpoint was saved" in line]
        assert len(warned) == (step > 4), "checkpoint-5 was saved after the update that broke it"
        shutil.rmtree(run / f"checkpoint-{step}")


@pytest.mark.slow
def test_what_the_remedy_says_brings_the_run_back(broken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(broken, run)
    rows, _, _ = run_recorded(
        run, resume=run / "checkpoint-4", overridden=["learning_rate"], learning_rate=2e-4,
        lr_scheduler_type="constant", max_steps=8,
    )  # fmt: skip
    trained = [values for _, values in rows if "loss" in values]
    assert [values["learning_rate"] for values in trained] == [2e-4] * 4
    assert trained[-1]["reward"] > 0
    assert read_status(run).findings == ()


@pytest.mark.slow
def test_without_a_checkpoint_from_before_a_new_start_is_offered(broken: Path) -> None:
    with closing(RunReader(broken / "run.db")) as reader:
        (found,) = (one for one in diagnose(reader).findings if one.id == BROKE)
        advised = with_checkpoint(reader, found, [5, 6, 14])
    assert advised.remedies[-1].text == "Start again: there is no complete checkpoint from before step 6"
    assert resume_options(advised) == ""
    assert resume_options(found) is None


def changed(step: int, new: Any, old: Any = 2e-4, name: str = "learning_rate") -> SettingChanged:
    return SettingChanged(1, step, 0.0, name, old, new)


def judged(*changes: SettingChanged) -> Finding:
    """What is said of a run that breaks at step 3 of 12."""
    doctor = Doctor(ONE)
    doctor.changes += changes
    for step in range(1, 13):
        doctor.see(Observation(step, step, {"reward_std": 1.0, **breaks(step, None)}))  # type: ignore[arg-type]
    (finding,) = doctor.open_findings()
    return finding


@pytest.mark.parametrize(
    "change",
    [
        changed(2, 1e-5),
        changed(3, 1.0),
        changed(7, 1.0),
    ],
    ids=["a lowered rate", "a change at the step it began", "a later change"],
)
def test_what_cannot_have_caused_it_is_not_named(change: SettingChanged) -> None:
    finding = judged(change)
    assert finding.first_step == 3
    assert "cause" not in finding.evidence
    assert "Likely cause" not in finding.message


def test_a_setting_that_was_put_back_is_named_and_not_offered_again() -> None:
    finding = judged(changed(2, 1.0), changed(6, 2e-4, 1.0))
    assert "learning_rate was changed from 0.0002 to 1 at step 2." in finding.message
    assert not any(one.live for one in finding.remedies)


def test_weights_and_temperature_are_causes_too() -> None:
    finding = judged(changed(1, 0.1, 2.0, "temperature"), changed(2, [0.0], [1.0], "reward_weights"))
    assert "reward_weights was changed from [1.0] to [0.0] at step 2." in finding.message
    assert (finding.remedies[0].field, finding.remedies[0].value) == ("reward_weights", [1.0])


def test_a_change_that_a_resume_undid_is_no_cause(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.go("mixed", 12)
    training.write([changed(11, 1.0)])
    training.writer.close()
    again = Training(tmp_path, attempt=2, resumed_from=10)
    again.go("mixed", 1)
    again.go("equal", 14)
    again.end()
    assert again.ids() == ["signal.equal"]
    (finding,) = read_status(tmp_path).findings
    assert finding.first_step == 12
    assert "cause" not in finding.evidence
    with closing(sqlite3.connect(tmp_path / "run.db")) as database, database:
        database.execute("UPDATE setting SET step = 10")
    with closing(RunReader(tmp_path / "run.db")) as reader:
        assert "at step 10." in diagnose(reader).findings[0].message


def steps(values: list[float]) -> Iterator[tuple[int, float]]:
    return enumerate(values, 1)


@pytest.mark.parametrize(
    ("values", "turned"),
    [
        ([0.0] * 10 + [1.0] * 4, 11),
        ([1.0, 0.9, 1.1, 1.0, 0.0, 0.2, 0.1], 5),
        ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.4, 1.0, 1.0], 7),
        ([0.0] * 60 + [1.0] * 60, None),
        ([0.5] * 9, None),
    ],
    ids=["a rise", "a fall with noise", "single values on the other side", "long ago", "no change"],
)
def test_the_step_at_which_a_level_changed(values: list[float], turned: int | None) -> None:
    course = Course()
    for step, value in steps(values):
        course.add(step, value)
    course.add(len(values) + 1, math.nan)
    assert course.turned() == turned


def test_of_metrics_that_are_logged_seldom_the_step_after_the_last_healthy_one_counts() -> None:
    course = Course()
    for step, value in steps([0.0] * 10 + [1.0] * 4):
        course.add(10 * step, value)
    assert course.turned() == 101
    assert course.window(2) == 121
    assert course.above(0.5, 10) == 110
