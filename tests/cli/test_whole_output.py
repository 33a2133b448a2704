"""What the commands that only look print about one record, whole: as text and as JSON."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from grpo_tui.cli import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store import layout
from grpo_tui.store.saved_views import SavedView, SavedViews
from grpo_tui.store.spec import RunSpec
from tests.cli.test_every_option import COMMANDS, options
from tests.preflight.machines import machine
from tests.ship.folders import checkpoint
from tests.stable import as_lines, stable
from tests.ui.recorded_run import NOW, RecordedRun, evaluated

LINES = {
    "runs": """
        runs
        runs --json
        runs --filter state:failed
        runs --filter reward>2
        runs --filter step<9
        runs --filter steps<9
        runs runs/first
        seeds runs/seeds/a/1 runs/seeds/a/2 runs/seeds/a/3
        seeds runs/seeds/a/1 runs/seeds/a/2 runs/seeds/a/3 runs/seeds/b/1 runs/seeds/b/2 runs/seeds/b/3
        seeds runs/seeds/a/1 runs/seeds/a/2 runs/seeds/b/1 runs/seeds/b/2 --json
    """,
    "status": """
        status runs/first
        status runs/first --json
        status runs/failed
        status runs/failed --json
        status runs/lost
        status runs/lost --json
        status runs/live
        status runs/live --json
        checkpoints runs/first
        checkpoints runs/first --json
        set runs/first --history
    """,
    "replay": """
        replay runs/first --at 1
        replay runs/first --at 41
        replay runs/first --at 41 --json
        replay runs/first --at 60
        replay runs/failed --at 57
    """,
    "metrics": """
        metrics runs/first
        metrics runs/first --keys loss,reward,entropy
        metrics runs/first --keys reward --steps 18:24 --format csv
        metrics runs/first --keys reward,grad_norm --steps 18:24 --format jsonl
        metrics runs/first --keys loss --every 20 --format csv
        metrics runs/first --explain entropy
        metrics --explain kl
        metrics --explain frac_reward_zero_std
        log runs/first
        log runs/first --tail 2
        log runs/first --level warning
        log runs/first --search 0.1
        log runs/first --regex ^.*0.2[0-4]
    """,
    "completions": """
        completions runs/first --limit 2
        completions runs/first --limit 2 --all
        completions runs/first --limit 3 --format csv
        completions runs/first --limit 1 --format md
        completions runs/first --limit 2 --sort -reward
        completions runs/first --limit 2 --where "correctness=1 and step>50"
        completions runs/first --count
        completions runs/first --count --where truncated
        completions runs/first --count --step 3:5
        completions runs/first --over-steps --where zero_std
        completions runs/first --over-steps --where reward>2
        completions runs/first --count --view late
        completions runs/first --views
        completions runs/first --where nonsense>1
        completions runs/first --where reward>>1
        course runs/first
        course runs/first --stretches 3
        course runs/first --stretches 2 --json
        course runs/first --prompt 1
        course runs/first --prompt 1 --json
        prompts runs/first --limit 4
        prompts runs/first --limit 2 --sort -visits
        prompts runs/first --limit 2 --json
        prompts runs/first --class never --csv
    """,
    "doctor": """
        doctor runs/first
        doctor runs/first --json
        doctor runs/failed
        doctor runs/failed --json
        doctor runs/lost --json
        doctor runs/bad
        doctor runs/bad --json
        doctor runs/bad --gate warning
    """,
    "documents": """
        card runs/first
        card runs/seeds/a/1
        report runs/first --format md
        report runs/seeds/a/1 runs/seeds/a/2 --format md
        report runs/first runs/failed --format md
        export runs/first --format config
        export my.yaml --format script
    """,
    "config": """
        config diff my.yaml other.yaml
        config diff my.yaml other.yaml --text
        config diff my.yaml other.yaml --json
        config diff my.yaml runs/first
        config fields clip
        config fields learning_rate --config my.yaml
        config fields learning_rate --json
        config fields
        new --list
        new config made/small.yaml --preset small_gpu
        new config made/small.yaml --preset smal
        new rewards made/first.py
        new rewards made/first.py --next
        plan my.yaml
        plan my.yaml --gpu 24GB --set use_cpu=false --set bf16=true --rows 640 --prompt-tokens 30
        plan my.yaml --gpu 24GB --set use_cpu=false --set bf16=true --json
        plan my.yaml --world-size 4 --gpu 80GB --set use_cpu=false --rows 640
        plan my.yaml --gpu 16GB --set use_cpu=false --set use_peft=true --set load_in_4bit=true
        check wrong.yaml --quick
        check my.yaml --quick
        check my.yaml --quick --json
        check my.yaml --quick --set use_cpu=false --set use_vllm=true
        config diff runs/seeds/b/1 runs/seeds/a/2
    """,
}
MY = """\
model_name_or_path: model
learning_rate: 1.0e-5
num_generations: 8
per_device_train_batch_size: 8
max_completion_length: 64
max_steps: 40
save_steps: 10
use_cpu: true
bf16: false
grpo_tui:
  dataset: rows.jsonl
  rewards: [{name: right, source: rewards.py:correctness}]
"""
WRONG = MY.replace("num_generations: 8", "num_generations: 3") + "learnin_rate: 2\nbeta: x\nloss_type: gpo\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of every state and their configs, as if made at one moment."""
    root = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in ("task.py", "rewards.py"):
            shutil.copy(DEMO_CONFIG.parent / name, name)
        Path("model").symlink_to(DEMO_CONFIG.parent / "model")
        Path("rows.jsonl").write_text('{"prompt": "What is 1 + 1?", "answer": "2"}\n' * 64)
        Path("my.yaml").write_text(MY)
        Path("other.yaml").write_text(MY.replace("1.0e-5", "2.0e-5") + "beta: 0.1\n")
        Path("wrong.yaml").write_text(WRONG)
        _runs(root / "runs")
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, (NOW, NOW), follow_symlinks=False)
    return root


def _spec(run: RecordedRun, **changed: object) -> RecordedRun:
    config = load_config(Path("my.yaml"), [f"{name}={value}" for name, value in changed.items()])
    RunSpec(config.to_json()).write(run.folder.spec)
    layout.remember(run.folder.root)
    return run


def _runs(root: Path) -> None:
    first = RecordedRun(root / "first", total=60, pid=5_000_001)
    first.advance(60, missing=(20, 21, 22))
    first.events()
    first.log()
    first.write(*evaluated())
    first.end("finished")
    _spec(first).close()
    checkpoint(first.folder.root, 40)
    checkpoint(first.folder.root, 50, whole=False)
    failed = RecordedRun(root / "failed", pid=5_000_002)
    failed.advance(57)
    failed.log(3)
    cause = "reward function 'correctness' failed (rewards.py:12): KeyError: 'answer'"
    failed.end("failed", {"type": "KeyError", "message": "'answer'", "cause": cause})
    _spec(failed).close()
    lost = RecordedRun(root / "lost", pid=5_000_003)
    lost.advance(5)
    _spec(lost).close()
    live = RecordedRun(root / "live")
    live.advance(12)
    live.write(r.CheckpointSaved(1, 10, "checkpoint-10", live.at(10), False, False, 3_200_000))
    live.now("reward", since=4.0, reward_function="correctness")
    _spec(live)
    for name, seed in product("ab", (1, 2, 3)):
        run = RecordedRun(root / "seeds" / name / str(seed), total=30, pid=5_000_003 + seed)
        run._random = random.Random(f"{name}{seed}")
        run.advance(30 - seed)
        run.write(*evaluated((0, 30), (900, 910)))
        run.end("finished")
        _spec(run, seed=seed, **({"beta": 0.04} if name == "b" else {})).close()
    bad = RecordedRun(root / "bad", total=60, pid=5_000_009)
    bad.advance(40)
    for step in range(41, 61):
        values = {"reward": 0.1, "entropy": 0.001, "grad_norm": float("nan"), "learning_rate": 5e-4,
                  "completions/clipped_ratio": 0.9, "completions/mean_length": 60.0,
                  "step_time": 2.0}  # fmt: skip
        bad.write(r.MetricRow(1, step, bad.at(step), values))
    bad.step = 60
    bad.end("finished")
    _spec(bad).close()


@pytest.fixture(autouse=True)
def _at_one_moment(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, utc: None) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("GRPO_TUI_CONFIG_DIR", str(tmp_path))
    for name in ("cli.plan", "preflight.static", "preflight.run"):
        monkeypatch.setattr(f"grpo_tui.{name}.this_machine", lambda env=None: machine())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=2 << 40, free=1 << 40))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=32 << 30))
    SavedViews(tmp_path).save(SavedView("late", "step>5"))


@pytest.mark.parametrize("name", LINES)
def test_a_look_prints_what_is_stored(
    name: str, place: Path, stored: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for line in filter(None, map(str.strip, LINES[name].splitlines())):
        try:
            code = main(shlex.split(line))
        except SystemExit as left:
            code = int(left.code or 0)
        out, err = capsys.readouterr()
        if out.startswith(("{", "[")) and out.count("\n") == 1:
            out = f"{as_lines(json.loads(out))}\n"
        error = f"stderr:\n{err}" if err else ""
        told.append(f"$ grpo-tui {line}\n{out}{error}exit {code}\n")
    stored(name, stable("\n".join(told), place))


def test_every_command_takes_what_is_stored(stored: Callable[[str, str], None]) -> None:
    told = []
    for words, parser in COMMANDS.items():
        told.append(f"grpo-tui {' '.join(words)}: {parser.description}\n{parser.epilog or ''}".rstrip())
        for action in options(words):
            name = ", ".join(action.option_strings) or action.dest
            kind = getattr(action.type, "__name__", action.type)
            given = f"nargs {action.nargs}, const {action.const}, default {action.default}, {kind}"
            said = f"{action.choices or ''} {'required ' * action.required}{action.help}"
            told.append(f"  {name} {action.metavar}: {given} {said}")
        told.append("")
    stored("options", stable("\n".join(told)))
