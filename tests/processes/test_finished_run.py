"""A run of a plain TRL config, followed without a terminal to its end: what it prints, holds and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_tui.demo import DEMO_MODEL
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from tests.processes.runs import SMALL, end, grpo_tui, state
from tests.processes.test_configs import BASE

pytestmark = pytest.mark.slow

ROWS = [{"prompt": f"{a}+1=?", "solution": str(a + 1)} for a in range(1, 20)]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run of a plain TRL config, and what following it printed, line by line."""
    folder = tmp_path_factory.mktemp("finished")
    run = folder / "a run, ünïcode"
    (folder / "data").mkdir()
    (folder / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "own_judges.py").write_text(
        "def right(completions, solution, **kwargs):\n"
        "    assert isinstance(completions[0], str), 'string prompts give string completions'\n"
        "    return [float(s in c) for c, s in zip(completions, solution)]\n"
    )
    config = folder / "plain.yaml"
    config.write_text(
        BASE.format(model=DEMO_MODEL)
        + f"dataset_name: {folder / 'data'}\nreward_funcs: own_judges.right\nmax_steps: 3\nlogging_steps: 1\n"
    )
    words = [word for pair in SMALL for word in ("--set", pair)]
    grpo_tui("train", config, "--run-dir", run, "--detach", *words, cwd=folder)
    yield run, grpo_tui("attach", run).stdout
    end(run)


def test_without_a_terminal_attach_follows_line_by_line(followed: tuple[Path, str]) -> None:
    run, printed = followed
    assert state(run, "finished").step == 3
    steps = [line.split()[1] for line in printed.splitlines() if line.startswith("step")]
    assert steps == ["1", "2", "3"]
    assert "first mean reward" in printed
    assert "finished at step 3" in printed


def test_a_plain_trl_config_trains_with_a_dotted_reward_of_the_working_folder(
    followed: tuple[Path, str],
) -> None:
    reader = RunReader(RunFolder(followed[0]).database)
    assert [f.name for f in reader.reward_functions()] == ["right"]
    assert reader.reward_functions()[0].source.endswith("own_judges.py:1")
    assert {g.prompt for g in reader.iter_groups()} <= {row["prompt"] for row in ROWS}
    assert all("solution" in g.columns for g in reader.iter_groups())
    record = reader.fact("reproduction")
    assert record["packages"]["trl"]
    assert record["dataset_rows"] == len(ROWS)


def test_an_ended_run_refuses_commands_and_names_the_way_on(followed: tuple[Path, str]) -> None:
    run, _ = followed
    refused = grpo_tui("resume", run, check=3)
    assert "train" in refused.stderr
    assert "--resume" in refused.stderr
    assert "nothing is left to pause" in grpo_tui("pause", run, check=3).stderr


def test_status_prints_the_documented_shape(followed: tuple[Path, str]) -> None:
    run, _ = followed
    body = json.loads(grpo_tui("status", run, "--json").stdout)
    assert set(body) == {
        "state", "step", "total_steps", "phase", "phase_s", "reward_func", "heartbeat_age_s", "pid", "ranks",
        "attempt", "metrics", "dropped", "checkpoints", "scheduled", "stage", "error", "alerts", "hardware",
        "forced", "forked_from",
    }  # fmt: skip
    assert (body["state"], body["step"], body["total_steps"], body["dropped"]) == ("finished", 3, 3, 0)
