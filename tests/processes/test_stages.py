"""`grpo_tui.stages`: one run trains its stages one after the other, and a resume goes on in the right one."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_tui.core.stages import DONE, stage_from
from grpo_tui.demo import DEMO_CONFIG, DEMO_DIR, DEMO_MODEL
from grpo_tui.health.reading import begin
from grpo_tui.present.events import whole_history
from grpo_tui.present.formatting import setting
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import read_heartbeat
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import read_spec
from grpo_tui.store.status import read_status
from tests import forked
from tests.processes.runs import SMALL, at_step, command, end, grpo_tui, kill_all, left, state, until

pytestmark = pytest.mark.slow

FORMAT = [{"name": "format", "source": "rewards.py:format_reward"}]
RATE = 1e-4
ADAPTER = ("use_peft=true", "lora_target_modules=[all-linear]", "lora_dropout=0.0")


def settings(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    stages = [
        {"name": "format", "set": {"grpo_tui.rewards": FORMAT}, **first},
        {"name": "correctness", "set": {"learning_rate": RATE}, **second},
    ]
    short = ("max_completion_length=8", "lr_scheduler_type=linear")
    words = (*SMALL, *short, f"grpo_tui.stages={json.dumps(stages)}")
    return [word for pair in words for word in ("--set", pair)]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    end(tmp_path / "run")


def starts(run: Path) -> tuple[int, ...]:
    with closing(RunReader(run / "run.db")) as reader:
        now = stage_from(reader.fact("stage"))
    assert now is not None
    return now.starts


def test_a_stage_ends_by_its_condition_and_the_next_trains_with_its_own_settings(run: Path) -> None:
    first = {"until": "rewards/format/mean > -9 over 2 steps", "at_most": 60}
    done = grpo_tui(
        "train", DEMO_CONFIG, "--run-dir", run, *settings(first, {"steps": 2}), "--headless"
    ).stdout
    begin_1, begin_2 = starts(run)
    assert begin_1 == 0
    assert 2 <= begin_2 < 60
    last = begin_2 + 2
    assert done.index("stage 1 of 2: format") < done.index("stage 2 of 2: correctness")
    assert f"finished at step {last}" in done
    assert f"(step {begin_2 + 1})   last mean reward" in done, "the gain is that of one stage"

    with closing(RunReader(run / "run.db")) as reader:
        attempts = [(one.state, one.step, one.resumed_from) for one in reader.attempts()]
        rows = {step: values for _, step, values in metric_rows(reader) if "learning_rate" in values}
        told = [row.text for row in whole_history(reader, live=False)]
        observed, stage_2 = next(begin(reader)[1]), begin_2 + 1
        assert observed.first_step == stage_2
    assert attempts == [(DONE, begin_2, None), ("finished", last, begin_2)]
    assert "rewards/correctness/mean" not in rows[begin_2]
    assert "rewards/correctness/mean" in rows[stage_2]
    assert [rows[step]["learning_rate"] for step in (stage_2, last)] == pytest.approx([RATE, RATE / 2])
    (why,) = (text for text in told if text.startswith("stage format → correctness"))
    assert "rewards/format/mean is " in why
    assert f"; learning_rate {setting(0.0002)} → {setting(RATE)}, rewards)" in why
    assert not [text for text in told if text.startswith(("learning_rate", "max_steps", "reward_weights"))]

    look = read_status(run)
    assert (look.state, look.step, look.total_steps) == ("finished", last, last)
    assert look.stage == {"name": "correctness", "number": 2, "count": 2}
    assert "stage 2 of 2: correctness" in grpo_tui("status", run).stdout
    assert (run / f"checkpoint-{begin_2}").is_dir()
    assert (run / "model.safetensors").is_file()


def test_a_killed_run_goes_on_in_the_stage_it_was_in(run: Path) -> None:
    long = settings({"steps": 3}, {"steps": 40})
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--detach", *long, "--set", "save_steps=2")
    assert at_step(run, 8).total_steps == 43
    kill_all(run)
    look = state(run, "crashed")
    assert look.stage is not None
    assert look.stage["number"] == 2
    short = ("--set", "grpo_tui.stages.1.steps=9")
    resumed = grpo_tui("train", run, "--resume", "--headless", *short)
    assert "stage 2 of 2: correctness" in resumed.stdout
    assert "finished at step 12" in resumed.stdout
    assert starts(run) == (0, 3)

    again = grpo_tui("train", run, "--resume", "2", "--headless")
    assert "finished at step 12" in again.stdout
    with closing(RunReader(run / "run.db")) as reader:
        last = [(one.state, one.step, one.resumed_from) for one in reader.attempts()[-2:]]
    assert last == [(DONE, 3, 2), ("finished", 12, 3)]
    over = grpo_tui("train", run, "--resume", check=2)
    assert "--set grpo_tui.stages.1.steps=18" in over.stderr


def test_the_stage_after_one_that_was_shortened_live_has_its_own_length(run: Path) -> None:
    first, second = {"steps": 70}, {"steps": 30}  # with 40 steps of the first, both end at step 70
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--detach", *settings(first, second))
    at_step(run, 2)
    grpo_tui("set", run, "max_steps=40")
    until(lambda: read_status(run).step > 42, "a step of the second stage")
    kill_all(run)
    resumed = grpo_tui("train", run, "--resume", "--headless")
    assert "stage 2 of 2: correctness" in resumed.stdout
    assert "finished at step 70" in resumed.stdout
    assert starts(run) == (0, 40)


@pytest.mark.parametrize("adapter", [(), ADAPTER])
def test_a_stage_measures_the_kl_from_its_start_also_after_a_resume(
    run: Path, adapter: tuple[str, ...]
) -> None:
    how = {"reference": "stage start", "optimizer": "new", "set": {"learning_rate": RATE, "beta": 0.05}}
    words = settings({"steps": 3}, {"steps": 30, **how})
    more = ("learning_rate=1e-3", "save_total_limit=1", *adapter)
    words += [word for setting in more for word in ("--set", setting)]
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--detach", *words)
    at_step(run, 5)
    saved = command(run, "checkpoint")["step"]
    at_step(run, saved + 2)
    kill_all(run)
    before = rows(run)
    assert before[4]["kl"] == pytest.approx(0.0, abs=1e-9)
    assert before[saved + 1]["kl"] > 1e-6
    assert before[4]["learning_rate"] == pytest.approx(RATE)

    grpo_tui("train", run, "--resume", "--headless")
    assert f"resuming at step {saved} from" in (run / "train.log").read_text()
    again = rows(run)
    assert max(again) == 33
    assert again[saved + 1] == before[saved + 1]
    assert (run / "checkpoint-3").is_dir(), "rotation keeps the reference"
    assert not (run / "checkpoint-33" / "ref").exists()
    state = torch.load(run / "checkpoint-33" / "optimizer.pt", weights_only=True)["state"]
    assert {int(one["step"]) for one in state.values()} == {30}, "the optimizer began with the stage"

    shutil.rmtree(run / "checkpoint-3")
    gone = grpo_tui("train", run, "--resume", "--set", "grpo_tui.stages.1.steps=60", check=2)
    assert "stage correctness measures the KL from checkpoint-3, but it is gone" in gone.stderr


def rows(run: Path) -> dict[int, dict[str, Any]]:
    """Return the logged values by step, without timings."""
    with closing(RunReader(run / "run.db")) as reader:
        found = {step: values for _, step, values in metric_rows(reader) if "learning_rate" in values}
    return {
        step: {key: value for key, value in values.items() if "time" not in key and "runtime" not in key}
        for step, values in found.items()
    }


def test_a_stage_that_ends_without_a_supervisor_is_followed_by_the_next_at_a_resume(run: Path) -> None:
    words = settings({"steps": 30}, {"steps": 2})
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--detach", *words)
    at_step(run, 2)
    beat = read_heartbeat(RunFolder(run).heartbeat)
    assert beat is not None
    os.kill(beat.supervisor, signal.SIGKILL)

    look = state(run, "crashed")
    assert look.error is not None
    assert look.error["message"] == "the run ended after a stage, before the next one began"
    left(run)
    spec = read_spec(RunFolder(run).spec)
    assert spec.stage is not None
    assert spec.stage.starts == (0, 30)
    assert "finished at step 32" in grpo_tui("train", run, "--resume", "--headless").stdout
    assert starts(run) == (0, 30)


def test_a_stage_that_cannot_start_fails_and_a_resume_tries_it_again(tmp_path: Path, run: Path) -> None:
    rewards = tmp_path / "late.py"
    rewards.write_text("def late(completions, **kwargs):\n    return [1.0] * len(completions)\n")
    second = {"steps": 1, "set": {"grpo_tui.rewards": [f"{rewards}:late"]}}
    words = settings({"steps": 20}, second)
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, "--detach", *words)
    at_step(run, 2)
    kept = rewards.read_text()
    rewards.unlink()
    assert state(run, "failed").step == 20
    left(run)
    rewards.write_text(kept)
    assert "finished at step 21" in grpo_tui("train", run, "--resume", "--headless").stdout


def test_every_stage_is_checked_before_the_first_starts(tmp_path: Path, run: Path) -> None:
    nothing = {"steps": 1, "set": {"grpo_tui.rewards": ["rewards.py:nothing"]}}
    words = settings({"steps": 1}, nothing)
    done = grpo_tui("train", DEMO_CONFIG, "--run-dir", run, *words, check=2, full_check=True)
    assert "stage correctness: " in done.stderr
    assert "nothing" in done.stderr
    assert not run.exists()

    seeds = grpo_tui("train", DEMO_CONFIG, "--run-dir", run, *words, "--seeds", "1,2", check=2)
    assert "--seeds does not train stages" in seeds.stderr


@pytest.mark.parametrize("adapter", [(), ADAPTER])
def test_the_scripts_of_the_stages_train_as_the_run_does(
    tmp_path: Path, run: Path, adapter: tuple[str, ...]
) -> None:
    how = {"reference": "stage start", "optimizer": "new"} if adapter else {}
    condition = {"until": "rewards/format/mean > -9 over 2 steps", "at_most": 60}
    own = {"learning_rate": RATE, "beta": 0.05, "grpo_tui.rewards": FORMAT}
    stages = [
        {"name": "first", "steps": 4, "set": {"grpo_tui.rewards": FORMAT}},
        {"name": "second", "steps": 4, "set": {"learning_rate": RATE, "beta": 0.05}, **how},
        {"name": "third", "set": own, **condition},
    ]
    theirs = tmp_path / "theirs"
    pairs = (*SMALL, "lr_scheduler_type=linear", f"grpo_tui.stages={json.dumps(stages)}", *adapter)
    given = [word for pair in pairs for word in ("--set", pair)]
    grpo_tui("export", DEMO_CONFIG, *given, "--set", f"output_dir={theirs}", "-o", tmp_path / "train.py")
    scripts = [str(tmp_path / f"train_{number}.py") for number in (1, 2, 3)]
    for script in scripts:
        done = forked.run([script])
        assert done.returncode == 0, done.stderr[-3000:]
    logged = [
        json.loads((theirs / f"stage-{number}" / f"checkpoint-{step}" / "trainer_state.json").read_text())
        for number, step in ((1, 4), (2, 8), (3, 10))
    ]
    history = {row["step"]: row for row in logged[-1]["log_history"]}
    assert list(history) == list(range(1, 11)), "a condition ends the last stage"

    two = [word.replace(json.dumps(stages), json.dumps(stages[:2])) for word in given]
    grpo_tui("train", DEMO_CONFIG, "--run-dir", run, *two, "--headless")
    for step, ours in rows(run).items():
        assert {"loss", "reward", "rewards/format/mean", "learning_rate"} <= set(ours)
        assert ("kl" in ours) is (step > 4)
        assert {key: history[step][key] for key in ours if key in history[step]} == pytest.approx(
            {key: value for key, value in ours.items() if key in history[step]}, nan_ok=True
        )


def test_a_reward_that_is_added_in_a_stage_scores_in_the_next_one_too(run: Path, tmp_path: Path) -> None:
    """Also after a resume within the stage."""
    text = DEMO_CONFIG.read_text().replace("model_name_or_path: model", f"model_name_or_path: {DEMO_MODEL}")
    for name in ("task.py", "rewards.py"):
        text = text.replace(f" {name}:", f" {DEMO_DIR / name}:")
    stages = [{"name": "one", "steps": 400}, {"name": "two", "steps": 3, "set": {"learning_rate": RATE}}]
    lines = text.splitlines()
    place = lines.index("grpo_tui:") + 1
    config = tmp_path / "my.yaml"
    config.write_text("\n".join([*lines[:place], f"  stages: {json.dumps(stages)}", *lines[place:]]) + "\n")
    sets = [word for pair in (*SMALL, "save_steps=1") for word in ("--set", pair)]
    grpo_tui("train", config, "--run-dir", run, "--detach", *sets)
    at_step(run, 3)
    (tmp_path / "brief.py").write_text(
        "def brief(completions, **kwargs):\n    return [0.5 for one in completions]\n"
    )
    config.write_text(f"{config.read_text()}    - {{name: short, source: 'brief.py:brief'}}\n")
    applied = grpo_tui("reload", run, "--force", "--json")
    step = json.loads(applied.stdout)["step"]
    command(run, "pause")  # the step that the stage is to end at must not be over
    first = read_status(run).step + 5
    grpo_tui("set", run, f"max_steps={first}")
    command(run, "resume")
    state(run, "finished")

    def scores() -> dict[int, Any]:
        with closing(RunReader(run / "run.db")) as reader:
            rows = {at: values for _, at, values in metric_rows(reader) if "reward" in values}
        return {at: values.get("rewards/short/mean") for at, values in rows.items()}

    assert starts(run) == (0, first)
    assert {at: score for at, score in scores().items() if score is not None} == dict.fromkeys(
        range(step + 1, first + 4), 0.5
    )
    short = f"grpo_tui.stages.0.steps={step + 4}"
    grpo_tui("train", run, "--resume", str(step + 2), "--headless", "--set", short)
    assert starts(run) == (0, step + 4)
    assert [scores()[at] for at in range(step + 1, step + 8)] == [0.5] * 7
