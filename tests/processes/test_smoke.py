"""A trial trains, saves and comes back, measures memory and rate, and leaves the real run alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_tui.cli import main, smoke
from grpo_tui.cli.plain import leaving_by_exit
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.trials import STAGES, read_trials
from grpo_tui.store.writer import Writer
from grpo_tui.train.build import by_length
from tests.family import everywhere, words_of
from tests.processes.runs import SMALL, grpo_tui, until

pytestmark = pytest.mark.slow


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder with its size and time."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_a_trial_trains_saves_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))
    real = tmp_path / "runs" / "real"
    real.mkdir(parents=True)
    (real / "run.json").write_text("{}")  # the real run is there already, and not to be touched
    before = snapshot(tmp_path)
    settings = [word for pair in SMALL for word in ("--set", pair)]
    done = grpo_tui("train", DEMO_CONFIG, "--smoke", "--run-dir", real, *settings, timeout_s=300)

    stages = [line for line in done.stderr.splitlines() if line.startswith(STAGES)]
    assert stages[0] == "trial: checking the config"
    assert {line.partition(": ")[0] for line in stages} == {"trial", "reload"}
    assert any("loading" in line for line in stages), stages
    said = done.stdout
    assert re.search(r"trained   2 steps on prompts of 19 tokens, completions up to \d+ of 20; ", said)
    assert re.search(r"checkpoint-1, and step 2 gave the same again \(reward [\d.]+, loss", said)
    ratio = re.search(r"memory    [\d.]+ [MG]B at the peak, planned .*: ([\d.]+) ×", said)
    assert ratio is not None, said
    assert 0.5 < float(ratio[1]) < 2
    assert re.search(r"rate      [\d.ms]+ ?s?/step in the second step", said)

    (trial,) = read_trials(tmp_path / "cache")
    assert trial.model == str(DEMO_CONFIG.parent / "model")
    assert (trial.kind, trial.completions, trial.device) == ("full", 16, "cpu")
    assert trial.step_s > 0
    assert 100_000_000 < trial.measured_bytes < 4_000_000_000
    cache = {path: entry for path, entry in snapshot(tmp_path).items() if "cache" not in path}
    assert cache == before
    assert os.listdir(real.parent) == ["real"]  # the trial's folder is gone

    plan = grpo_tui("plan", DEMO_CONFIG, "--json", *settings, cwd=tmp_path)
    found = json.loads(plan.stdout)
    assert found["memory"]["correction"] == pytest.approx(trial.ratio)
    assert found["duration"]["run"] == "a trial"
    assert found["duration"]["total_s"] == pytest.approx(120 * trial.step_s)


def test_a_trial_that_fails_says_why_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))

    def launch(folder: RunFolder, spec: RunSpec) -> int:
        assert spec.smoke
        assert RunConfig.from_json(spec.config).grpo["max_steps"] == 2
        writer = Writer(open_writer(folder.database))
        error = {"type": "ValueError", "message": "no 7", "cause": "rewards.py:3: no \x1b[2J7"}
        writer.write([AttemptStarted(1, 1.0, "here", 1), AttemptEnded(1, 2.0, "failed", 0, 1, error)])
        writer.close()
        return 1

    monkeypatch.setattr(smoke, "launch", launch)
    real = tmp_path / "runs" / "real"
    words = ["train", str(DEMO_CONFIG), "--smoke", "--quick-check", "--run-dir", str(real)]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "the trial failed: it did not train (failed)" in said
    assert "rewards.py:3: no" in said
    assert "\x1b" not in said
    assert not (tmp_path / "runs").exists()  # it was made for the trial alone
    assert main([*words, "--keep"]) == 1
    (kept,) = (tmp_path / "runs").iterdir()
    assert f"the trial is kept in {kept}" in capsys.readouterr().out
    assert read_trials(tmp_path / "cache") == ()


LEAVES_LATE = """
import sys, time
from pathlib import Path
from grpo_tui.store.layout import RunFolder
from grpo_tui.supervisor import take_lock
folder = RunFolder(Path(sys.argv[1]))
lock = take_lock(folder)
print("in", flush=True)
time.sleep(0.5)
sys.exit(not folder.root.exists())
"""


def test_a_trial_is_removed_when_its_supervisor_has_left(tmp_path: Path) -> None:
    place = tmp_path / "trial"
    words = [sys.executable, "-c", LEAVES_LATE, str(place)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as leaving:
        assert leaving.stdout is not None
        assert leaving.stdout.readline() == b"in\n"
        smoke._remove(RunFolder(place))
    assert leaving.returncode == 0
    assert not place.exists()


def test_rows_go_by_tokens_where_they_are_counted() -> None:
    prompts = ["a b c", "aaaaaaaaaaaaaaa", "a b c d e", ""]
    assert by_length(prompts, None) == ([1, 2, 0, 3], None)
    assert by_length(prompts, lambda part: [len(text.split()) for text in part]) == ([2, 0, 1, 3], 5)
    assert by_length([], lambda part: []) == ([], None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_trial_in_order(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as left, leaving_by_exit():
            signal.raise_signal(number)
        assert left.value.code == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN)
        with leaving_by_exit():
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)


def test_a_trial_whose_command_is_terminated_leaves_neither_folder_nor_process(tmp_path: Path) -> None:
    real = tmp_path / "runs" / "mine"
    words = ("train", str(DEMO_CONFIG), "--smoke", "--quick-check", "--run-dir", str(real))
    with subprocess.Popen([sys.executable, "-m", "grpo_tui", *words], stdout=subprocess.DEVNULL) as command:
        until(lambda: any(tmp_path.glob("runs/mine.trial-*/run.db")), "the trial's record")
        command.terminate()
    assert command.returncode == 128 + signal.SIGTERM
    assert not (tmp_path / "runs").exists()
    assert not [process for process in everywhere() if str(tmp_path) in " ".join(words_of(process))]
