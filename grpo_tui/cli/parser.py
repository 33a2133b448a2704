"""Parser of the command line. Commands about configs, rewards and finished runs are in `parser_*.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from grpo_tui import __version__
from grpo_tui.cli.parser_config import CHECKING, WRITING
from grpo_tui.cli.parser_rewards import REWARDS
from grpo_tui.cli.parser_ship import COMPARING, SHIPPING
from grpo_tui.cli.words import (
    Commands,
    Lines,
    Parser,
    add_command,
    drill_list,
    factor,
    flag,
    path,
    positive,
    seconds,
    seed_list,
    shared,
    steps,
)  # fmt: skip

RUN_OR_LOGS = "run folder, or a folder of logs"
EVALUATION_WAIT_S = 600.0
DESCRIPTION = "A terminal workbench for GRPO with TRL: train, watch every generation live, steer."
EPILOG = "Without a command, grpo-tui opens the runs of this folder; RUN attaches, CONFIG.yaml opens it."


def build_parser(
    only: str = "", *, with_faults: bool = True, with_open: bool = False
) -> argparse.ArgumentParser:
    """Build the parser.

    Args:
        only: Command that was typed. Building only its parser saves some 30 ms. Any other word builds all.
        with_faults: Whether `demo` lists its faults, which imports the demo.
        with_open: Whether to add the internal command behind `grpo-tui CONFIG.yaml`.
    """
    parser = Parser(prog="grpo-tui", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"grpo-tui {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    adds: dict[str, Callable[[Commands], None]] = {"demo": partial(_demo, with_faults=with_faults)}
    adds |= (
        WATCHING
        | STEERING
        | CHECKING
        | REWARDS
        | COMPARING
        | WRITING
        | SHIPPING
        | ({"open": _open} if with_open else {})
    )
    for add in [adds[only]] if only in adds else adds.values():
        add(commands)
    _add_examples(commands)
    return parser


def _demo(commands: Commands, with_faults: bool) -> None:
    faults: dict[str, str] = {}
    if with_faults:
        from grpo_tui.demo.faults import FAULTS

        faults = {name: fault.teaches for name, fault in FAULTS.items()}
    about = "a real GRPO run of the shipped model, live, on the CPU in a minute"
    listed = "\n".join(f"  {name:17}{teaches}" for name, teaches in faults.items())
    epilog = f"faults to practice on, each explained in docs/faults.md:\n{listed}"
    demo = add_command(commands, "demo", about, epilog)
    add = demo.add_argument
    flag(demo, "--headless", "no screen: a line per step")
    add("--steps", type=positive, metavar="N", help="optimizer steps (default 120)")
    shared(demo, "--run-dir", help="run folder (default: outputs/demo, or the next free name)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default cpu: a shared GPU may be busy")
    add("--seed", type=int, metavar="S", help="random seed of the run")
    add("--fault", choices=tuple(faults), metavar="NAME", help="break one thing on purpose; see below")


def _train(commands: Commands) -> None:
    train = add_command(commands, "train", "start or resume a run from a TRL YAML config or a run folder")
    add = train.add_argument
    shared(train, "config", metavar="CONFIG_OR_RUN")
    shared(train, "--set", help="override a key of the config")
    shared(train, "--run-dir")
    add(
        "--launcher",
        metavar="WORDS",
        help='several ranks: "accelerate launch --num_processes 2 …" or "torchrun --nproc_per_node 2 …"',
    )
    shape = train.add_mutually_exclusive_group()
    flag(shape, "--headless", "no screen: print a line per step; the exit code tells the outcome")
    flag(shape, "--detach", "start and return at once")
    add(
        "--resume",
        nargs="?",
        const="",
        metavar="CKPT",
        help="continue from the newest complete checkpoint, or from CKPT (a folder or a step); with "
        "--run-dir NEW, fork the run there",
    )
    add(
        "--optimizer",
        choices=("kept", "new"),
        help="for a fork: keep the optimizer's state (default), or start with an empty one",
    )
    add(
        "--seeds",
        type=seed_list,
        metavar="N,N",
        help="one run for each seed, one after the other or one on each GPU, in FOLDER-seed-N; complete ones "
        "are skipped",
    )
    add("--gpus", metavar="N,N", help="the GPUs to use, as numbered by `grpo-tui gpus` (or UUIDs)")
    about = "a trial: two steps on the longest prompts, saved and reloaded, in a folder that is removed"
    flag(train, "--smoke", about)
    add(
        "--drill",
        type=drill_list,
        metavar="NAMES",
        help="before a long run, try what can go wrong, each in a trial: hung-reward, kill, full-disk, nan, "
        "or all",
    )
    flag(train, "--keep", "with --smoke or --drill: keep the folder of the trial")
    shared(train, "--json", help="with --drill: the results as JSON")
    shared(train, "--trust")
    flag(train, "--force", "start despite the errors that the check found; the run's record notes it")
    flag(train, "--quick-check", "before the start check only the config, not model, data and rewards")


def _open(commands: Commands) -> None:
    """Add the internal command behind `grpo-tui CONFIG.yaml`."""
    config = commands.add_parser("open")
    add = config.add_argument
    add("config", type=path, metavar="CONFIG")
    shared(config, "--set")
    add("--run-dir", type=path, help="folder of the run that R starts")
    add("--launcher", metavar="WORDS", help="as in train")
    shared(config, "--trust")
    config.set_defaults(gpus=None, force=False)


def _log(commands: Commands) -> None:
    log = add_command(commands, "log", "the output of a run, by level and words")
    add = log.add_argument
    shared(log, "run")
    add(
        "--level",
        choices=("all", "warning", "error"),
        default="all",
        help="warning: warnings and errors; a traceback counts as one error",
    )
    words = log.add_mutually_exclusive_group()
    words.add_argument("--search", metavar="TEXT", help="only lines that contain TEXT, ignoring case")
    words.add_argument("--regex", metavar="RE", help="only lines that match RE, as in Python's re")
    add("--tail", type=positive, metavar="N", help="only the last N of these lines")
    flag(log, "--follow", "keep printing until the run ends")


def _attach(commands: Commands) -> None:
    shared(add_command(commands, "attach", "watch a run"), "run")


def _runs(commands: Commands) -> None:
    runs = add_command(commands, "runs", "list the runs under a folder")
    add = runs.add_argument
    add("roots", type=path, nargs="*", metavar="ROOT", help="default: outputs/ and this folder")
    about = "only some: words, -word, state:failed, model:qwen, 'reward>1', 'step>=100', 'age<2h'"
    add("--filter", metavar="WORDS", help=about)
    shared(runs, "--json", help="one JSON list")


def _status(commands: Commands) -> None:
    shared(add_command(commands, "status", "one look at a run"), "run", "--json")


def _replay(commands: Commands) -> None:
    replay = add_command(
        commands, "replay", "show a run as it was after a step, on the screen or as text; writes nothing"
    )
    add = replay.add_argument
    shared(replay, "run", help=RUN_OR_LOGS)
    add("--at", type=int, metavar="STEP", help="begin with STEP (default: the first one)")
    add("--speed", type=factor, metavar="X", help="play X times as fast as the run trained (default 10)")
    flag(replay, "--headless", "no screen: print the status and the findings of that step")
    flag(replay, "--json", "the same as one JSON object")


def _metrics(commands: Commands) -> None:
    metrics = add_command(
        commands,
        "metrics",
        "every metric of runs as a table, CSV or JSON lines, and what a metric means",
        "change: mean over the last tenth of the steps minus mean over the first tenth. Keys that "
        "begin with grpo_tui/ are computed here; csv and jsonl contain them only when --keys names "
        "them. See docs/metrics.md.",
    )
    add = metrics.add_argument
    add("runs", type=path, nargs="*", metavar="RUN", help="run folders")
    add("--keys", metavar="GLOB,…", help="only these: 'reward,rewards/*/mean,clip_ratio/*'")
    add("--steps", type=steps, default=(None, None), metavar="A:B", help="only steps A to B; A: and :B too")
    add("--every", type=positive, metavar="N", help="csv, jsonl: only every Nth step")
    add("--format", choices=("table", "csv", "jsonl"), help="default table")
    add("--explain", metavar="KEY", help="what a metric means and what is healthy; a glob explains several")


def _steer(
    commands: Commands, name: str, text: str, more: Callable[..., None] | None = None, wait: float = 60.0
) -> None:
    command = commands.add_parser(name, help=text, description=text)
    about = f"seconds to wait for the outcome (default {wait:g})"
    shared(command, "run")
    command.add_argument("--wait", type=seconds, default=wait, metavar="S", help=about)
    shared(command, "--json", help="the outcome as JSON")
    if more is not None:
        more(command)


def _stop(command: argparse.ArgumentParser) -> None:
    flag(command, "--now", "end at once, without a checkpoint")


def _set(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "changes",
        nargs="*",
        metavar="K=V[@step:N]",
        help="such as learning_rate=2e-4, reward_weights=[2,1]; beta=0.04@step:500 schedules a change; "
        "probe_prompts+=TEXT adds a probe prompt, probe_prompts-=TEXT removes one",
    )
    about = "take the last change back; =N the last N"
    add("--undo", nargs="?", type=positive, const=1, metavar="N", help=about)
    shared(command, "--because")
    flag(command, "--history", "print what was changed: when, by whom and why")
    flag(command, "--yes", "also apply a number that is 100 times the current one or 1/100 of it")


def _sample(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("prompt", nargs="?", metavar="PROMPT", help="default: the newest prompt of the run")
    add("--count", type=positive, default=4, metavar="N", help="number of completions (default 4)")
    add("--temperature", type=float, metavar="T", help="default: that of the run")


def _reload(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Loads edited reward files, and adds, removes and renames rewards as the run's config file says now. "
        "Checks the contract, saved cases, probes and recorded groups first. `set RUN --undo` goes back. "
        "Exit codes: 0 reloaded, 2 usage error, 3 a check failed or the run rejected it, 4 timed "
        "out. See docs/rewards.md."
    )
    shared(command, "--because")
    flag(command, "--check", "only check the files; the run may have ended")
    flag(command, "--force", "reload even if a check failed, and note it in the record")
    about = "score the newest N groups (default 200)"
    command.add_argument("--groups", type=positive, default=200, metavar="N", help=about)
    shared(command, "--timeout", "--trust")


STEERED: tuple[tuple[Any, ...], ...] = (
    ("pause", "pause training after the current step; GPU memory stays allocated"),
    ("resume", "end a pause"),
    ("checkpoint", "save a checkpoint after the current step; rotation never deletes it"),
    ("abort-reward", "abort the running reward call; its rewards count as None for the batch"),
    ("stop", "finish the step, save a checkpoint, end the run", _stop),
    ("set", "change settings while the run trains", _set),
    ("reload", "load edited rewards into a live run, after checking them", _reload),
    ("sample", "sample completions from the current policy", _sample),
    ("evaluate", "evaluate the policy after the step, on the rows of grpo_tui.evaluate or TRL's dataset",
     None, EVALUATION_WAIT_S),
)  # fmt: skip
"""Commands that steer a run: name, help, what adds more arguments, and seconds to wait."""
STEERING = {name: partial(_steer, name=name, **dict(zip(("text", "more", "wait"), rest, strict=False)))
            for name, *rest in STEERED}  # fmt: skip


COMPLETIONS_EPILOG = """\
examples:
  grpo-tui completions RUN --where 'reward<0.2 and tokens>400' --sort -tokens --limit 20
  grpo-tui completions RUN --search "wait" --over-steps       when did this begin?
  grpo-tui completions RUN --regex '\\\\boxed\\{.*\\}' --count
  grpo-tui completions RUN --where 'rewards.format is none' --format md > issue.md
RUN is a run folder, or what TRL, verl, prime-rl, rlprobe or trackio logged (docs/completions.md).
Exit codes: 0 done, 1 search incomplete, 2 usage error. The language of --where is in docs/completions.md.
"""


_VALUES = ("--sort", "--search", "--regex")


def joined(words: Sequence[str]) -> list[str]:
    """Return the arguments of `completions` and `prompts` with `--sort -reward` as `--sort=-reward`.

    argparse would take a value that begins with a dash for an option.
    """
    found: list[str] = []
    for word in words:
        dashed = len(word) > 1 and word[0] == "-" and word[1] != "-"
        if dashed and not {"completions", "prompts"}.isdisjoint(found) and found[-1] in _VALUES:
            found[-1] = f"{found[-1]}={word}"
        else:
            found.append(word)
    return found


def _completions(commands: Commands) -> None:
    command = add_command(
        commands,
        "completions",
        "find, count and export the completions of a run by query, text or pattern",
        COMPLETIONS_EPILOG,
    )
    add = command.add_argument
    add("run", type=path, nargs="?", metavar="RUN", help="run folder, or a folder of logs")
    add("--step", type=steps, default=(None, None), metavar="A:B", help="only steps A to B; A:, :B and A too")
    add("--where", metavar="EXPR", default="", help="a query, see below")
    words = command.add_mutually_exclusive_group()
    words.add_argument("--search", metavar="TEXT", help="only completions that contain TEXT, ignoring case")
    words.add_argument(
        "--regex", metavar="RE", help="only completions that match RE, in the syntax of Python's re"
    )
    add("--sort", metavar="KEY,…", help="a field, -field for the largest first (default step)")
    add("--limit", type=positive, metavar="N", help="only the first N")
    add("--format", choices=("jsonl", "csv", "md"), help="default jsonl")
    flag(command, "--all", "every recorded field, columns and extras too")
    flag(command, "--superseded", "also steps that were repeated after a resume")
    shape = command.add_mutually_exclusive_group()
    flag(shape, "--count", "only how many there are")
    flag(shape, "--over-steps", "only the count, by step")
    add("--view", metavar="NAME", help="a saved view: its query, and its order without --sort")
    add("--save-view", metavar="NAME", help="save --where and --sort under a name")
    flag(command, "--views", "list the saved views")


def _course(commands: Commands) -> None:
    command = add_command(
        commands,
        "course",
        "trends over a run: group kinds, lengths, variety, reward contributions",
        "GROUP is the number that `grpo-tui completions` gives. See docs/generations.md.",
    )
    add = command.add_argument
    shared(command, "run", help=RUN_OR_LOGS)
    add(
        "--prompt",
        type=positive,
        metavar="GROUP",
        help="instead: every time this group's prompt was answered",
    )
    add("--stretches", type=positive, metavar="N", help="at most N stretches of steps (default 48)")
    flag(command, "--json", "one JSON object")


def _prompts(commands: Commands) -> None:
    command = add_command(
        commands,
        "prompts",
        "prompts never solved, always solved, learned or forgotten, and a filter file of them",
        "GROUP is the number for `grpo-tui course RUN --prompt GROUP`. See docs/generations.md.",
    )
    add = command.add_argument
    shared(command, "run", help=RUN_OR_LOGS)
    add(
        "--class",
        dest="classes",
        metavar="CLASS,…",
        help="only never, always, learned, forgotten, unstable or few (seen too few times)",
    )
    add(
        "--sort",
        metavar="KEY",
        choices=[
            f"{sign}{key}" for key in ("step", "visits", "first", "last", "change") for sign in ("", "-")
        ],
        help="step, visits, first, last or change; -KEY for the largest first (default step)",
    )
    add("--limit", type=positive, metavar="N", help="only the first N")
    shape = command.add_mutually_exclusive_group()
    flag(shape, "--json", "one JSON object")
    flag(shape, "--csv", "a line for each prompt")
    shape.add_argument(
        "--export", type=path, metavar="FILE", help="write a filter file for `grpo_tui.filters`"
    )


def _doctor(commands: Commands) -> None:
    command = add_command(
        commands,
        "doctor",
        "what is wrong with a run, since when, and what to do",
        "Exit codes: 0 no finding at or above the gate, 1 findings, 2 usage error. With --apply: 0 "
        "applied, 3 rejected by the run, 4 timed out. docs/diagnosis.md explains every finding.",
    )
    add = command.add_argument
    shared(command, "run", help=RUN_OR_LOGS)
    flag(command, "--json", "one JSON object")
    add("--gate", choices=("error", "warning"), help="lowest severity that exits 1 (default error)")
    flag(
        command,
        "--audit",
        "list completions that look like attacks, and top rewards that a second opinion refuses",
    )
    add(
        "--apply",
        metavar="ID",
        help="apply the remedies of a finding to the run while it trains, and write the others into a config",
    )
    flag(command, "--next", "with --apply: do not change the run; write all remedies into the config")
    add(
        "-o",
        "--output",
        type=path,
        metavar="FILE",
        help="with --apply: the config to write (default: RUN-next.yaml)",
    )
    add("--because", metavar="TEXT", help="with --apply: the reason, for the history of the run")
    add("--wait", type=seconds, metavar="S", help="with --apply: seconds to wait for the run (default 60)")


TOKENS_EPILOG = """\
examples:
  grpo-tui tokens RUN --group 412 --index 3              the newest checkpoint, else the live policy
  grpo-tui tokens RUN --group 412 --from live            the current policy, at the end of the step
  grpo-tui tokens RUN --group 412 --from checkpoint=200 --base
  grpo-tui tokens RUN --group 412 --from base --prompt   with the prompt as the model sees it
GROUP and INDEX are those of `grpo-tui completions`. See docs/generations.md, Tokens.
"""


def _tokens(commands: Commands) -> None:
    command = add_command(
        commands,
        "tokens",
        "log-probability, entropy, rank and KL of each token of a completion under a policy of the run",
        TOKENS_EPILOG,
    )
    add = command.add_argument
    shared(command, "run")
    add("--group", type=positive, required=True, metavar="N", help="the group")
    add("--index", type=int, default=0, metavar="I", help="which of its completions, from 0 (default 0)")
    add("--from", dest="source", metavar="WHO", help="live, checkpoint, checkpoint=STEP or base")
    flag(command, "--base", "compare with the base model, or the live run's reference: KL")
    flag(command, "--prompt", "print the rendered prompt too")
    add("--limit", type=positive, metavar="N", help="the N most surprising tokens (default 20)")
    add("--wait", type=seconds, default=60.0, metavar="S", help="seconds to wait for a live run (default 60)")
    shared(command, "--trust")
    flag(command, "--json", "one JSON object, with every token")


WATCHING = {
    "train": _train, "attach": _attach, "runs": _runs, "status": _status, "replay": _replay, "log": _log,
    "metrics": _metrics, "completions": _completions, "course": _course, "prompts": _prompts,
    "doctor": _doctor, "tokens": _tokens,
}  # fmt: skip

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("grpo-tui demo", "grpo-tui demo --fault first-digit --steps 40"),
    "train": (
        "grpo-tui train my.yaml",
        "grpo-tui train my.yaml --set learning_rate=2.0e-6 --set max_steps=50",
        "grpo-tui train my.yaml --seeds 1,2,3               three runs, one after the other",
        "grpo-tui train my.yaml --smoke                     trial: two steps, saved and reloaded",
        "grpo-tui train my.yaml --drill hung-reward,nan     two drills before a long run",
        "grpo-tui train runs/first --resume --detach        continues from the newest complete checkpoint",
        "grpo-tui train runs/first --resume 40 --run-dir runs/second --set learning_rate=1e-6    forks",
    ),
    "attach": ("grpo-tui attach runs/first",),
    "runs": ("grpo-tui runs", "grpo-tui runs experiments --filter 'state:failed step>=100'"),
    "replay": ("grpo-tui replay runs/first", "grpo-tui replay runs/first --at 42 --headless"),
    "status": ("grpo-tui status runs/first", "grpo-tui status runs/first --json"),
    "log": ("grpo-tui log runs/first --level warning", "grpo-tui log runs/first --search nan --tail 20"),
    "metrics": (
        "grpo-tui metrics runs/first runs/second",
        "grpo-tui metrics runs/first --keys 'reward,rewards/*/mean' --format csv",
        "grpo-tui metrics --explain clip_ratio/high_mean",
    ),
    "prompts": (
        "grpo-tui prompts runs/first",
        "grpo-tui prompts runs/first --class forgotten --sort change",
        "grpo-tui prompts runs/first --class never,always --export done.jsonl",
    ),
    "course": ("grpo-tui course runs/first", "grpo-tui course runs/first --prompt 313"),
    "doctor": (
        "grpo-tui doctor runs/first",
        "grpo-tui doctor runs/first --gate warning --json",
        "grpo-tui doctor runs/first --apply signal.cancels",
        "grpo-tui doctor runs/first --audit",
    ),
    "pause": ("grpo-tui pause runs/first",),
    "resume": ("grpo-tui resume runs/first",),
    "checkpoint": ("grpo-tui checkpoint runs/first",),
    "abort-reward": ("grpo-tui abort-reward runs/first",),
    "stop": ("grpo-tui stop runs/first", "grpo-tui stop runs/first --now"),
    "set": (
        "grpo-tui set runs/first learning_rate=2e-6 temperature=0.9",
        'grpo-tui set runs/first beta=0.02 --because "KL has doubled"',
        "grpo-tui set runs/first temperature=0.9@step:200 beta=0@step:500",
        "grpo-tui set runs/first lr_scheduler_start=now",
        "grpo-tui set runs/first 'probe_prompts+=What is 7 + 8?'",
        "grpo-tui set runs/first --undo",
    ),
    "sample": ("grpo-tui sample runs/first 'What is 7 + 15?' --count 2",),
    "evaluate": ("grpo-tui evaluate runs/first",),
    "reload": (
        'grpo-tui reload runs/first --because "near misses count too"',
        "grpo-tui reload runs/first --check",
    ),
    "check": (
        "grpo-tui check my.yaml",
        "grpo-tui check my.yaml --fix",
        "grpo-tui check my.yaml --world-size 4 --set max_steps=50",
        "grpo-tui check my.yaml --json | jq '.findings[] | select(.severity == \"error\")'",
    ),
    "plan": (
        "grpo-tui plan my.yaml",
        "grpo-tui plan my.yaml --count",
        "grpo-tui plan my.yaml --gpu 24GB --set use_peft=true",
        "grpo-tui plan my.yaml --world-size 4 --gpu H100 --json",
    ),
    "gpus": ("grpo-tui gpus", "grpo-tui train my.yaml --gpus 2"),
    "data": ("grpo-tui data my.yaml", "grpo-tui data my.yaml --search fraction"),
    "score": (
        "grpo-tui score my.yaml --rows 8                     the reference answer and a wrong one for 8 rows",
        "grpo-tui score rewards.py:correct --samples samples.jsonl",
        "grpo-tui score my.yaml --run runs/first --where 'reward<1 and truncated'",
    ),
    "baseline": ("grpo-tui baseline my.yaml --rows 32",),
    "chat": (
        "grpo-tui chat runs/first --with base",
        "grpo-tui chat runs/first@200 --prompt 'What is 7 + 15?' --json",
    ),
    "compare": (
        "grpo-tui compare runs/first",
        "grpo-tui compare base runs/first@200 runs/first --rows 200 --samples 8",
        "grpo-tui compare merged --config my.yaml --held --json",
    ),
    "race": (
        "grpo-tui race runs/first@200 --steps 50 --branch learning_rate=1e-6",
        "grpo-tui race runs/first --steps 50 --branch 'beta=0.04' --branch 'both: beta=0.04 temperature=0.8'",
    ),
    "seeds": (
        "grpo-tui seeds runs/first-seed-*",
        "grpo-tui seeds runs/first-seed-* runs/second-seed-* --json",
    ),
    "probe": ("grpo-tui probe rewards.py:correct --show", "grpo-tui probe my.yaml"),
    "cases": ("grpo-tui cases run my.cases.yaml",),
    "rewards": ("grpo-tui rewards my.yaml", "grpo-tui rewards rewards.py:correct --samples samples.jsonl"),
    "whatif": (
        "grpo-tui whatif runs/first",
        "grpo-tui whatif runs/first better.py:correct --where 'step>100 and all_wrong'",
        "grpo-tui whatif runs/first --recorded --weights 2,1,0.5",
    ),
    "new": ("grpo-tui new --list", "grpo-tui new rewards rewards.py"),
    "config": ("grpo-tui config fields loss_type", "grpo-tui config set my.yaml learning_rate=5e-6"),
    "checkpoints": ("grpo-tui checkpoints runs/first", "grpo-tui checkpoints runs/first --delete 20 40"),
    "merge": ("grpo-tui merge runs/first merged", "grpo-tui merge runs/first@200 merged --dtype bfloat16"),
    "push": ("grpo-tui push runs/first me/first --dry-run", "grpo-tui push merged me/first --private --yes"),
    "card": ("grpo-tui card runs/first", "grpo-tui card runs/first --write"),
    "report": ("grpo-tui report runs/first", "grpo-tui report runs/first runs/second -o report.html"),
    "reproduce": ("grpo-tui reproduce first.zip", "grpo-tui reproduce first-bundle --verify --steps 20"),
}


def _add_examples(commands: Commands) -> None:
    for name, command in commands.choices.items():
        if name not in EXAMPLES:
            continue
        said = command.epilog or ""
        examples = "\n".join(["examples:", *(f"  {line}" for line in EXAMPLES[name])])
        command.epilog = f"{examples}\n{said}" if said else examples
        command.formatter_class = Lines
