"""Every option of every command changes what is printed, or reaches what it is for just as it was typed."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from grpo_tui.cli import main
from grpo_tui.cli.parser import joined
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.rewards import consent
from grpo_tui.rewards.baseline import BaselineOptions
from grpo_tui.rewards.sample_sources import Origin
from grpo_tui.rewards.scoring import ScoreOptions
from grpo_tui.ship.compare import CompareOptions
from grpo_tui.store.saved_views import SavedView, SavedViews
from tests.cli.test_every_option import COMMANDS, PARSER, options, taking
from tests.ui.recorded_run import RecordedRun

FILE = "model_name_or_path: gpt2\ndataset_name: d\nreward_funcs: [accuracy_reward]\nlearning_rate: 1.0e-6\n"

SHOWN = r"""
log RUN | --level warning | -'loss'
log RUN | --search usERwarning | -'loss'
log RUN | --regex ^User | -'loss'
log RUN | --tail 1 | -'loss'
runs | EMPTY | -first
runs | --filter state:finished | +no match
runs | --json | +"state"
status RUN | --json | +"state"
replay RUN | --at 3 | +step 3 of
replay RUN | --json | +"state"
metrics RUN | --keys loss | -entropy
metrics RUN | --format csv | +step,at
metrics RUN | --explain entropy | +Healthy:
metrics --explain entropy | RUN | +first:
metrics RUN --format csv | --steps 3:5 | -\n6,
metrics RUN --format csv | --every 4 | -\n6,
completions | RUN | +"step": 1
completions | --views | +late: step>5
completions RUN | --count | +192 completions in 24 groups
completions RUN | --over-steps | +32 of 32
completions RUN | --limit 1 | -"step": 2
completions RUN --count | --step 2:3 | +64 of 192
completions RUN --count | --where step>5 | +32 of 192
completions RUN --count | --view late | +32 of 192
completions RUN --count | --search think | + of 192
completions RUN --count | --regex ^I | + of 192
completions RUN --count | --superseded | +256 completions
completions RUN --limit 1 | --sort -step | +"step": 6
completions RUN --limit 1 | --format csv | +step,mode,
completions RUN --limit 1 | --all | +"attempt"
course RUN | --prompt 1 | +What is
course RUN | --json | +"stretches"
course RUN --json | --stretches 2 | -"first_step": 2
prompts RUN | --class never | -What is
prompts RUN | --limit 1 | +more; --limit
prompts RUN --limit 1 | --sort -step | +6–6
prompts RUN | --json | +"counts"
prompts RUN | --csv | +hash,class,
prompts RUN | --export done.jsonl | +exclude:
seeds RUN | --json | +"sets"
doctor RUN | --json | +"findings"
doctor RUN | --audit | +compared with the attacks
config diff my.yaml | other.yaml | +beta
config diff my.yaml other.yaml | --text | +-beta: 0.1
config diff my.yaml other.yaml | --json | +"rows"
config fields | --all | +adam_epsilon
config fields | clip | -Optimization
config fields | --json | +"origin"
config fields | --markdown | +\n##
config fields learning_rate | --config my.yaml | +line 4
card RUN | --output out.py | -# first
export DEMO | --output out.py | +lines. Train with
export DEMO | --set learning_rate=7e-05 | +7e-05
export DEMO | --format config | +takes a run folder
set RUN a=1 | --undo | +--undo takes no setting
set RUN | --history | +no setting was changed
set RUN --undo | --history | +--history takes no setting
gpus | --json | +{
new | --list | +gsm8k
plan DEMO | --json | +"world_size": 1
plan DEMO --json | --world-size 3 | +"world_size": 3
plan DEMO --json | --set "grpo_tui.launcher=accelerate launch --num_processes 3" | +"world_size": 3
plan DEMO --json | --rows 77 | +"rows": 77
plan DEMO --json | --prompt-tokens 21 | +3904
plan DEMO --json | --set max_steps=31 | +"total_steps": 31
plan DEMO --json --set use_cpu=false | --gpu 24GB | +a GPU of 24GB
check DEMO --quick | --json | +"findings"
check DEMO --quick --json | --world-size 2 | +"generation_batch_size": 128
check DEMO --quick --json | --set max_steps=31 | +"total_steps": 31
"""
"""A command, an option more, and what is printed only with it (+) or only without it (-)."""

ELSEWHERE = {
    "demo": ("test_summary.py", "--headless --steps --run-dir --device --seed --fault"),
    "data": ("test_data.py", "--row --search --no-rewards --set --json"),
    "check": ("test_check.py", "--fix"),
    "replay": ("test_replay.py", "--headless --speed"),
    "doctor": ("test_doctor.py", "--gate --apply --next --output --because --wait"),
    "reload": ("test_reload.py", "--because --check --force --groups --timeout --wait --json"),
    "config set": ("test_config_command.py", "--dry-run"),
    "checkpoints": ("test_checkpoints.py", "--delete --yes --json"),
    "push": ("../ship/test_push.py", "--private --update --dry-run --yes --json"),
    "merge": ("../ship/test_merge.py", "--dtype --json --progress"),
    "card": ("../ship/test_card.py", "--write"),
    "report": ("../ship/test_report.py", "--format --output"),
    "export": ("../ship/test_bundle.py", "--format --with-model"),
    "reproduce": ("../processes/test_reproduce.py", "--run-dir --verify --steps"),
    "new config": ("../config/test_presets.py", "--preset"),
    "new rewards": ("../rewards/test_templates.py", "--config --write --next"),
}
"""Options whose effect other tests see, and the file of these tests."""
BARE: dict[str, str] = {}
"""What a command prints without the option, which several rows compare with."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose last two steps were superseded, and two configs."""
    root = tmp_path_factory.mktemp("place")
    run = RecordedRun(root / "runs" / "first")
    run.advance(8)
    run.log(3)
    run.end("failed")
    run.write(r.AttemptStarted(2, run.at(9), "here", run.pid, 6, 120))
    run.write(r.AttemptEnded(2, run.at(10), "failed", 6))
    run.close()
    (root / "empty").mkdir()
    (root / "my.yaml").write_text(FILE)
    (root / "other.yaml").write_text(f"{FILE}beta: 0.1\n")
    (root / "samples.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    return root


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("GRPO_TUI_CONFIG_DIR", str(tmp_path))
    SavedViews(tmp_path).save(SavedView("late", "step>5"))


def words_of(line: str) -> list[str]:
    names = {"RUN": "runs/first", "EMPTY": "empty", "DEMO": str(DEMO_CONFIG), "MODEL": str(DEMO_MODEL)}
    return [names.get(word, word) for word in shlex.split(line)]


def told(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    try:
        code = main(words_of(line))
    except SystemExit as left:
        code = int(left.code or 0)
    shown = capsys.readouterr()
    return f"exit {code}\n{shown.out}{shown.err}"


@pytest.mark.parametrize("row", SHOWN.strip().splitlines())
def test_an_option_is_seen_in_what_is_printed(row: str, capsys: pytest.CaptureFixture[str]) -> None:
    line, option, mark = row.split(" | ")
    sign, mark = mark[0], mark[1:].replace("\\n", "\n")
    without, with_it = BARE.get(line) or told(line, capsys), told(f"{line} {option}", capsys)
    BARE[line] = without
    assert (mark in with_it, mark in without) == (sign == "+", sign == "-"), (
        f"{with_it[:2000]}\n{without[:2000]}"
    )
    Path("out.py").unlink(missing_ok=True)


# -- options that are handed on ---------------------------------------------------------------------------


class Taken(BaseException):
    """What a command called, with what."""

    def __init__(self, args: Sequence[Any], named: dict[str, Any]) -> None:
        self.args, self.named = tuple(args), named


class NoLab:
    """A lab that calls no function."""

    functions = (1, 2, 3)

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.config: Any = None

    def __enter__(self) -> NoLab:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        """Nothing is to be closed."""

    def load(self, config: Any) -> tuple[Any, ...]:
        self.config = config
        return ()


class Shown(SimpleNamespace):
    """The report of whatever was asked."""

    findings = functions = samples = kinds = notes = ()
    failed = False
    prompt = "THE PROMPT"

    def to_json(self) -> dict[str, Any]:
        return {"notes": []}


FOUND = Shown()
LABS = ("rewards", "score", "what_if", "data", "new", "compare", "chat")
ROW = SimpleNamespace(group=1, index=0, step=1)
OUTCOME = SimpleNamespace(applied=True, step=1, reason="", result={})
STEERED = "steer.Mailbox.submit"
UNSAID = ("pause", "resume", "checkpoint", "abort-reward", "evaluate")
STEERING = (*(f"{name} RUN" for name in UNSAID), "stop RUN", "set RUN a=1", "sample RUN")
ONCE = ScoreOptions(weights=[1.0, 2.0, 3.0], gold=False, repeat=False)
HANDED: tuple[tuple[str, str, Callable[[Taken], Any], Any], ...] = (
    ("log RUN --follow --level error", "log._follow", lambda t: t.args[2]["level"], "error"),
    ("completions RUN --where step>5 --sort -step --save-view x", "completions.SavedViews.save",
     lambda t: t.args[1], SavedView("x", "step>5", "-step")),
    ("baseline DEMO --rows 3 --group 4 --correct x>=1 --held --seed 5", "rewards.ask_baseline",
     lambda t: t.args[2], BaselineOptions(3, 4, 5, True, "x>=1")),
    ("baseline DEMO", "rewards.ask_baseline", lambda t: (t.args[0].limit_s, t.args[2]),
     (60.0, BaselineOptions(16, None, None, False, None))),
    ("baseline DEMO --timeout 7 --set seed=9", "rewards.ask_baseline",
     lambda t: (t.args[0].limit_s, t.args[0].config.grpo["seed"], t.args[1].grpo["seed"]), (7.0, 9, 9)),
    ("baseline DEMO --save x.jsonl", "rewards.save_jsonl", lambda t: t.args, ((), Path("x.jsonl"))),
    ("baseline DEMO --json", "rewards.print_json", lambda t: t.args, ({"notes": []},)),
    ("compare MODEL --config DEMO --rows 3 --samples 2 --held --seed 5 --correct x>=1",
     "compare.ship.compare",
     lambda t: t.args[3], CompareOptions(3, 2, 5, True, "x>=1")),
    ("compare MODEL --config DEMO", "compare.ship.compare",
     lambda t: (t.args[0].limit_s, [p.name for p in t.args[2]], t.args[3], t.args[4]),
     (60.0, ["base", str(DEMO_MODEL)], CompareOptions(100, 4), None)),
    ("compare MODEL base --config DEMO --timeout 7 --set seed=9", "compare.ship.compare",
     lambda t: (t.args[0].limit_s, t.args[1].grpo["seed"], t.args[2][1].name), (7.0, 9, "base")),
    ("compare MODEL --config DEMO --prompts samples.jsonl", "compare.ship.compare",
     lambda t: (t.args[3].prompts, Path(t.args[1].section.dataset).name, t.args[1].section.holdout),
     ("samples.jsonl", "samples.jsonl", 0)),
    ("compare MODEL --config DEMO --probes", "compare.ship.compare", lambda t: t.args[3].probes, True),
    ("compare MODEL --config DEMO --progress", "compare.tell_progress", lambda t: t.args,
     ("loading torch…",)),
    ("compare MODEL --config DEMO --json", "compare.print_json", lambda t: t.args, ({"verdict": []},)),
    ("chat MODEL --config DEMO --with base --seed 5 --timeout 7 --set seed=9", "chat.Chat",
     lambda t: (t.args[0].limit_s, t.args[1].grpo["seed"], [p.name for p in t.args[2]], t.args[3]),
     (7.0, 9, [str(DEMO_MODEL), "base"], 5)),
    ("chat MODEL --config DEMO", "chat.Chat",
     lambda t: ([p.name for p in t.args[2]], t.args[3], type(t.args[4].__self__).__name__),
     ([str(DEMO_MODEL)], None, "_Plain")),
    ("chat MODEL --config DEMO --json", "chat.Chat", lambda t: type(t.args[4].__self__).__name__, "_Json"),
    ("chat MODEL --config DEMO --events", "chat._sent", lambda t: t.args, ()),
    ("chat MODEL --config DEMO --prompt hello", "chat.Chat.ask", lambda t: t.args[1], "hello"),
    ("score DEMO --timeout 7 --set seed=9", "score.dataset_rows",
     lambda t: (t.args[0].limit_s, t.args[1].grpo["seed"], t.args[2]), (7.0, 9, 0)),
    ("score DEMO --rows 3", "score.dataset_rows", lambda t: t.args[2], 3),
    ("score DEMO --rows 3", "score.samples_from", lambda t: t.args[3], Origin("gold", 3)),
    ("score DEMO --samples samples.jsonl", "score.samples_from", lambda t: t.args[3],
     Origin("file", file=Path("samples.jsonl"))),
    ("score DEMO --run RUN --step 3", "score.run_samples", lambda t: (t.args[0].name, t.args[1]),
     ("first", 3)),
    ("score DEMO --run RUN --step worst", "score.run_samples", lambda t: t.args[1], "worst"),
    ("score DEMO --run RUN --where step>5", "score.found_samples", lambda t: t.args[1], "step>5"),
    ("score DEMO --tag good", "score.report", lambda t: [s.tags for s in t.args[1]], [("good",)]),
    ("score DEMO --weights 1,2,3 --once", "score.report", lambda t: t.args[3], ONCE),
    ("score DEMO", "score.report", lambda t: t.args[3], ScoreOptions()),
    ("score DEMO --json", "score.print_json", lambda t: t.args, ({"notes": []},)),
    ("probe DEMO --rows 5 --timeout 7 --set seed=9", "rewards.dataset_rows",
     lambda t: (t.args[0].limit_s, t.args[1].grpo["seed"], t.args[2]), (7.0, 9, 5)),
    ("probe DEMO --rows 5", "rewards.rows_with_gold", lambda t: t.args[3], 5),
    ("probe DEMO --show", "rewards.probe_lines", lambda t: t.named, {"show": True}),
    ("probe DEMO", "rewards.probe_lines", lambda t: t.named, {"show": False}),
    ("probe DEMO --json", "rewards.print_json", lambda t: t.args, ({"notes": []},)),
    ("cases run my.yaml --rewards DEMO", "rewards.wanted_config", lambda t: t.args[0], [str(DEMO_CONFIG)]),
    ("cases run my.yaml", "rewards.wanted_config", lambda t: t.args[0], ["its own"]),
    ("cases run my.yaml --rewards DEMO --timeout 7", "rewards.Lab", lambda t: t.named, {"limit_s": 7.0}),
    ("cases run my.yaml --rewards DEMO --json", "rewards.print_json", lambda t: t.args[0]["ok"], True),
    ("whatif RUN DEMO --timeout 7 --set seed=9", "what_if.what_if_of_run",
     lambda t: (t.args[0].limit_s, t.args[0].config.grpo["seed"], t.named["recorded"], t.named["weights"]),
     (7.0, 9, False, None)),
    ("whatif RUN DEMO --groups 2 --where step<4", "what_if.what_if_of_run", lambda t: t.args[2], [9, 10]),
    ("whatif RUN --recorded --weights 1,2,3", "what_if.what_if_of_run",
     lambda t: (t.named["recorded"], t.named["weights"]), (True, [1.0, 2.0, 3.0])),
    ("whatif RUN DEMO --limit 3", "what_if.what_if_lines", lambda t: t.args[2], 3),
    ("whatif RUN DEMO", "what_if.what_if_lines", lambda t: t.args[2], 20),
    ("whatif RUN DEMO --json", "what_if.print_json", lambda t: t.args, ({"notes": []},)),
    ("tokens RUN --group 3 --index 2", "tokens.completion_of", lambda t: t.args[1:], (3, 2)),
    ("tokens RUN --group 3 --from live", "tokens._policy", lambda t: t.args[1], "live"),
    ("tokens RUN --group 3 --wait 7 --base", "tokens.TokenAsker.ask",
     lambda t: (t.args[0]._patience_s, t.named), (7.0, {"base": True})),
    ("tokens RUN --group 3 --wait 0", "tokens.TokenAsker.ask", lambda t: t.args[0]._patience_s, 0.0),
    ("tokens RUN --group 3", "tokens.TokenAsker.ask",
     lambda t: (t.args[0]._patience_s, t.named), (60.0, {"base": False})),
    ("tokens RUN --group 3 --prompt", "tokens.safe", lambda t: t.args, ("THE PROMPT",)),
    ("tokens RUN --group 3 --limit 5", "tokens.surprising_lines", lambda t: t.args[2], 5),
    ("tokens RUN --group 3", "tokens.surprising_lines", lambda t: t.args[2], 20),
    ("tokens RUN --group 3 --json", "tokens.print_json", lambda t: t.args[0]["group"], 1),
    ("data DEMO --random", "data.Checker.any_row", lambda t: Path(t.args[1].model).name, "model"),
    ("data DEMO --random --timeout 7", "data.Lab", lambda t: t.named, {"limit_s": 7.0}),
    ("new rewards new.py --config DEMO --timeout 7", "new.Lab", lambda t: t.named, {"limit_s": 7.0}),
    ("rewards a.py:f b.py:g --samples samples.jsonl", "rewards.show",
     lambda t: (t.named["rewards"].title, t.named["rewards"].origin),
     ("a.py:f and 1 more", Origin("file", file=Path("samples.jsonl")))),
    ("rewards DEMO --set seed=9", "rewards.show",
     lambda t: (w := t.named["rewards"]) and (w.config().grpo["seed"], w.overrides, w.file, w.origin),
     (9, ("seed=9",), DEMO_CONFIG, None)),
    ("DEMO --set seed=9 --run-dir new --launcher 'torchrun --nproc_per_node 2'", "start.show",
     lambda t: (w := t.named["config"]) and (w.path, w.overrides, w.run_dir, w.launcher),
     (DEMO_CONFIG, ("seed=9",), Path("new"), "torchrun --nproc_per_node 2")),
    ("check DEMO --run-dir new", "check.lines", lambda t: FOUND.start.root, Path("new")),
    ("check DEMO --quick", "check.lines", lambda t: FOUND.parts, ("static", "plan")),
    ("check DEMO", "check.lines", lambda t: FOUND.parts, ("static", "model", "data", "rewards", "plan")),
    ("plan DEMO --count --world-size 3", "plan._counted", lambda t: t.args[2].world_size, 3),
    ("train DEMO --quick-check", "check.before_start", lambda t: (t.named["quick"], t.named["force"]),
     (True, False)),
    ("train DEMO --force", "check.before_start", lambda t: (t.named["quick"], t.named["force"]),
     (False, True)),
    ("train DEMO --seeds 4,3", "series.Series",
     lambda t: [(job.name, job.root.name[-7:], job.prepare.args[0].overrides) for job in t.args[0]],
     [("seed 4", "-seed-4", ["seed=4"]), ("seed 3", "-seed-3", ["seed=3"])]),
    ("train DEMO --seeds 4 --detach", "series._again", lambda t: t.args[0].seeds, [4]),
    (("race RUN@4 --steps 9 --branch a=1 --branch 'b: c=2' --branches f.yaml --no-control --gpus 0,1 "
     "--rows 7 --samples 3 --correct c --detach --timeout 7"), "race.branches_of",
     lambda t: (w := vars(t.args[0])) and [w[name] for name in (
         "checkpoint", "steps", "branch", "branches", "no_control", "gpus", "rows", "samples", "correct",
         "detach", "timeout")],
     ["RUN@4", 9, ["a=1", "b: c=2"], Path("f.yaml"), True, "0,1", 7, 3, "c", True, 7.0]),
    ("race RUN --steps 9 --json", "race.branches_of", lambda t: t.args[0].json, True),
    ("train DEMO --gpus 1,2", "start.placed", lambda t: t.args[2], "1,2"),
    ("train DEMO --resume 4", "start._resumed", lambda t: t.args[1:], ("4",)),
    ("train DEMO --resume", "start._resumed", lambda t: t.args[1:], ("",)),
    ("train DEMO --resume --optimizer new", "start._resumed", lambda t: t.args[0].optimizer, "new"),
    ("train DEMO --smoke --keep", "smoke.smoke", lambda t: t.args[0].keep, True),
    ("train DEMO --drill all --json", "drill.drill", lambda t: (t.args[0].drill, t.args[0].json),
     (["hung-reward", "kill", "full-disk", "nan"], True)),
    ("train DEMO --drill nan,kill", "drill.drill", lambda t: (t.args[0].drill, t.args[0].json),
     (["kill", "nan"], False)),
    ("train DEMO --smoke", "smoke.smoke", lambda t: t.args[0].keep, False),
    ("train DEMO --set seed=9 --run-dir new --launcher 'torchrun --nproc_per_node 2'", "start._go",
     lambda t: (s := t.args[0]) and (s.config.grpo["seed"], s.folder.root.name, s.spec.launcher[0]),
     (9, "new", "torchrun")),
    ("train DEMO --run-dir new", "start._go", lambda t: t.named, {"headless": False, "detach": False}),
    ("train DEMO --run-dir new --headless", "start._go", lambda t: t.named["headless"], True),
    ("train DEMO --run-dir new --detach", "start._go", lambda t: t.named["detach"], True),
    ("stop RUN", STEERED, lambda t: t.args[1:], ("stop", {})),
    ("stop RUN --now", STEERED, lambda t: t.args[1:], ("stop_now", {})),
    ("sample RUN", STEERED, lambda t: t.args[1:], ("sample", {"count": 4})),
    ("sample RUN hi --count 2 --temperature 0.5", STEERED, lambda t: t.args[1:],
     ("sample", {"prompt": "hi", "count": 2, "temperature": 0.5})),
    ("set RUN probe_prompts+=Say=1 a=1 probe_prompts+=b@5 probe_prompts-=c probe_prompts-=d@step:9", STEERED,
     lambda t: t.args[1:],
     ("set", {"a": 1, "probe_prompts": {"add": ["Say=1", "b@5"], "remove": ["c"]},
              "schedule": {"9": {"probe_prompts": {"remove": ["d"]}}}})),
    ("set RUN a=1 b=[2]", STEERED, lambda t: t.args[1:], ("set", {"a": 1, "b": [2]})),
    ("set RUN a=1 --yes --because 'it rose'", STEERED, lambda t: t.args[1:],
     ("set", {"a": 1, "because": "it rose", "yes": True})),
    ("set RUN a=1 b=2@step:5 c=x@step:5 b=3@step:9", STEERED, lambda t: t.args[1:],
     ("set", {"a": 1, "schedule": {"5": {"b": 2, "c": "x"}, "9": {"b": 3}}})),
    ("set RUN --undo", STEERED, lambda t: t.args[1:], ("undo", {"count": 1})),
    ("set RUN --undo=3 --because no", STEERED, lambda t: t.args[1:], ("undo", {"count": 3, "because": "no"})),
    *((f"{name} RUN", STEERED, lambda t: t.args[1:], (name.replace("-", "_"), {}))
      for name in UNSAID),
    *((f"{line} --wait {s:g}", "steer.Mailbox.wait", lambda t: t.args[2], s)
      for line in STEERING for s in (7.0, 0.0)),
    *((f"{line} --json", "steer.print_json", lambda t: t.args[0]["applied"], True) for line in STEERING),
)  # fmt: skip
"""A command, what it calls in a module of the command line, and what it says there of what was typed."""


@pytest.fixture
def _nothing_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a process or a model answers at once."""
    sample = SimpleNamespace(tags=("good",))
    stands: dict[str, Any] = {
        **{f"{name}.Lab": NoLab for name in LABS},
        "rewards.ask_baseline": (FOUND, FOUND),
        "compare.ship.compare": {"verdict": []},
        "rewards.heading": [], "rewards.lines": [], "score.report_lines": [],
        "score.dataset_rows": None, "score.samples_from": [sample, SimpleNamespace(tags=("bad",))],
        "score.report": FOUND,
        "rewards.dataset_rows": None, "rewards.rows_with_gold": ([], None), "rewards.probe": FOUND,
        "rewards.probe_lines": [],
        "rewards.read_cases": SimpleNamespace(rewards=["its own"], cases=[], path=Path("x")),
        "rewards.judge_cases": [], "what_if.what_if_of_run": FOUND, "what_if.what_if_lines": [],
        "tokens.completion_of": ROW, "tokens.policies": [SimpleNamespace(kind="live")],
        "tokens.TokenAsker.ask": FOUND, "tokens.head_lines": [], "tokens.heat_lines": [],
        "tokens.surprising_lines": [],
        "data.Checker.any_row": SimpleNamespace(answer_column="a", prompt="p"),
        "rewards.has_screen": True, "start.has_screen": True, "check.before_start": (),
        "steer.read_status": SimpleNamespace(live=True), "steer.Mailbox.submit": "1",
        "steer.Mailbox.wait": OUTCOME,
    }  # fmt: skip
    for name, value in stands.items():
        stand = value if isinstance(value, type) else lambda *_, value=value, **__: value
        monkeypatch.setattr(f"grpo_tui.cli.{name}", stand)
    scored = SimpleNamespace(functions=(), totals=())
    for name in ("score", "aggregate"):
        monkeypatch.setattr(NoLab, name, lambda *_, **__: scored, raising=False)

    def check(inspected: Any, start: Any, *, progress: Any, parts: Sequence[str]) -> Shown:
        FOUND.start, FOUND.parts = start, tuple(parts)
        return FOUND

    monkeypatch.setattr("grpo_tui.preflight.run.check", check)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, fileno=lambda: 0))


def take(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def taken(*args: Any, **named: Any) -> None:
        raise Taken(args, named)

    monkeypatch.setattr(place, taken)


@pytest.mark.usefixtures("_nothing_heavy")
@pytest.mark.parametrize("row", HANDED, ids=lambda row: f"{row[0]}, {row[1]}")
def test_an_option_reaches_what_it_is_for(
    row: tuple[str, str, Callable[[Taken], Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    line, name, read, expected = row
    take(monkeypatch, f"grpo_tui.cli.{name}")
    with pytest.raises(Taken) as found:
        main(words_of(line))
    assert read(found.value) == expected


def least(words: tuple[str, ...]) -> list[str]:
    """A command with no more than it cannot do without."""
    said = list(words) if words != ("open",) else []
    for action in options(words):
        if action.required and action.nargs != "*":
            value = str(next(iter(action.choices))) if action.choices else "4"
            said += [*action.option_strings[:1], "a.yaml" if words == ("open",) else value]
    return said


@pytest.mark.parametrize("words", taking("trust"), ids=" ".join)
def test_trust_is_said_before_anything_runs(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, f"{consent.__name__}.trust_all")
    with pytest.raises(Taken):
        main([*least(words), "--trust"])


def test_a_default_is_the_one_that_the_help_names() -> None:
    said = {
        (words, action.dest): (re.findall(r"\(default ([\d.]+)", action.help or ""), action.default)
        for words in COMMANDS
        for action in options(words)
        if action.default is not None
    }
    numbers = {key: float(default) for key, (found, default) in said.items() if found}
    assert numbers == {key: float(found[0]) for key, (found, _) in said.items() if found}
    assert len(numbers) > 15


# -- no option is left out --------------------------------------------------------------------------------


def given(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The command that some words name, and its arguments."""
    parsed = vars(PARSER.parse_args([*(["open"] if words[0].endswith(".yaml") else []), *words]))
    names = [parsed["command"], parsed.get("kind"), parsed.get("verb")]
    return tuple(name for name in names if name), parsed


def test_no_option_of_any_command_is_without_such_a_row() -> None:
    lines = [line for line, *_ in HANDED] + [
        f"{line} {option}" for line, option, _ in (row.split(" | ") for row in SHOWN.strip().splitlines())
    ]
    seen = set()
    for line in lines:
        words, parsed = given(joined(words_of(line)))
        defaults = {action.dest: action.default for action in options(words)}
        seen |= {(words, dest) for dest, default in defaults.items() if parsed[dest] != default}
    for command, (file, names) in ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert all(f'"{name}"' in text for name in names.split())
        words = tuple(command.split())
        seen |= {
            (words, action.dest)
            for action in options(words)
            if set(action.option_strings) & set(names.split())
        }
    known = {
        (words, action.dest)
        for words in COMMANDS
        for action in options(words)
        if action.dest != "trust" and not (action.required and action.nargs != "*")
        if len(action.choices or "ab") > 1  # else only the default can be given
    }
    assert known - seen == set()
