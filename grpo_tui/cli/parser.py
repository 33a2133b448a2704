"""Parser of the command line. Commands about configs, rewards and finished runs are in `parser_*.py`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from grpo_tui import __version__
from grpo_tui.cli.parser_config import (
    add_check_command,
    add_config_command,
    add_data_command,
    add_export_command,
    add_new_command,
    add_placing,
    add_plan_commands,
    add_start_check,
)
from grpo_tui.cli.parser_rewards import add_reward_commands
from grpo_tui.cli.parser_ship import (
    add_card_command,
    add_chat_command,
    add_checkpoints_command,
    add_compare_command,
    add_merge_command,
    add_push_command,
    add_race_command,
    add_report_command,
    add_reproduce_command,
    add_seeds_command,
)
from grpo_tui.cli.words import (
    add_overrides,
    add_time_limit,
    add_trust,
    factor,
    path,
    positive,
    seconds,
    seed_list,
    steps,
)

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands

STEERING = ("pause", "resume", "checkpoint", "abort-reward", "stop", "set", "reload", "sample", "evaluate")
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
    parser = argparse.ArgumentParser(prog="grpo-tui", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"grpo-tui {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    families: dict[tuple[str, ...], Callable[[Commands], None]] = {
        ("demo",): partial(_demo_command, with_faults=with_faults),
        ("train",): _train_command,
        ("attach", "runs", "status"): _look_commands,
        ("replay",): _replay_command,
        ("log",): _log_command,
        ("metrics",): _metrics_command,
        ("completions",): _completions_command,
        ("course",): _course_command,
        ("prompts",): _prompts_command,
        ("doctor",): _doctor_command,
        ("tokens",): _tokens_command,
        STEERING: _steer_commands,
        ("check",): add_check_command,
        ("plan", "gpus"): add_plan_commands,
        ("data",): add_data_command,
        ("score", "baseline", "probe", "cases", "rewards", "whatif"): add_reward_commands,
        ("compare",): add_compare_command,
        ("seeds",): add_seeds_command,
        ("race",): add_race_command,
        ("chat",): add_chat_command,
        ("new",): add_new_command,
        ("config",): add_config_command,
        ("export",): add_export_command,
        ("checkpoints",): add_checkpoints_command,
        ("merge",): add_merge_command,
        ("push",): add_push_command,
        ("card",): add_card_command,
        ("report",): add_report_command,
        ("reproduce",): add_reproduce_command,
    }
    if with_open:
        families[("open",)] = _open_command
    wanted = [add for names, add in families.items() if only in names]
    for add in wanted or families.values():
        add(commands)
    _add_examples(commands)
    return parser


def _faults(wanted: bool) -> dict[str, str]:
    if not wanted:
        return {}
    from grpo_tui.demo.faults import FAULTS

    return {name: fault.teaches for name, fault in FAULTS.items()}


def _demo_command(commands: Commands, with_faults: bool) -> None:
    faults = _faults(with_faults)
    demo = commands.add_parser(
        "demo",
        help="a real GRPO run of the shipped model, live, on the CPU in a minute",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            ["faults to practice on, each explained in docs/faults.md:"]
            + [f"  {name:14} {teaches}" for name, teaches in faults.items()]
        ),
    )
    demo.add_argument("--headless", action="store_true", help="no screen: a line per step")
    demo.add_argument("--steps", type=positive, help="optimizer steps (default 120)")
    demo.add_argument(
        "--run-dir", type=path, help="run folder (default: outputs/demo, or the next free name)"
    )
    demo.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="default cpu: a shared GPU may be busy"
    )
    demo.add_argument("--seed", type=int, help="random seed of the run")
    demo.add_argument(
        "--fault", choices=tuple(faults), metavar="NAME", help="break one thing on purpose; see below"
    )


def _train_command(commands: Commands) -> None:
    train = commands.add_parser("train", help="start or resume a run from a TRL YAML config or a run folder")
    train.add_argument("config", type=path, metavar="CONFIG_OR_RUN", help="TRL YAML config, or a run folder")
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="K=V",
        dest="overrides",
        help="override a key of the config",
    )
    train.add_argument("--run-dir", type=path, help="run folder (default: output_dir, else outputs/CONFIG)")
    train.add_argument(
        "--launcher",
        metavar="WORDS",
        help='several ranks: "accelerate launch --num_processes 2 …" or "torchrun --nproc_per_node 2 …"',
    )
    shape = train.add_mutually_exclusive_group()
    shape.add_argument(
        "--headless",
        action="store_true",
        help="no screen: print a line per step; the exit code tells the outcome",
    )
    shape.add_argument("--detach", action="store_true", help="start and return at once")
    train.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="CKPT",
        help="continue from the newest complete checkpoint, or from CKPT (a folder or a step); with "
        "--run-dir NEW, fork the run there",
    )
    train.add_argument(
        "--optimizer",
        choices=("kept", "new"),
        help="for a fork: keep the optimizer's state (default), or start with an empty one",
    )
    train.add_argument(
        "--seeds",
        type=seed_list,
        metavar="N,N",
        help="one run for each seed, one after the other or one on each GPU, in FOLDER-seed-N; complete ones "
        "are skipped",
    )
    add_placing(train)
    add_start_check(train)


def _open_command(commands: Commands) -> None:
    """Add the internal command behind `grpo-tui CONFIG.yaml`."""
    config = commands.add_parser("open")
    config.add_argument("config", type=path, metavar="CONFIG")
    add_overrides(config)
    config.add_argument("--run-dir", type=path, help="folder of the run that R starts")
    config.add_argument("--launcher", metavar="WORDS", help="as in train")
    add_trust(config)
    config.set_defaults(gpus=None)


def _log_command(commands: Commands) -> None:
    log = commands.add_parser("log", help="the output of a run, by level and words")
    log.add_argument("run", type=path, metavar="RUN", help="run folder")
    log.add_argument(
        "--level",
        choices=("all", "warning", "error"),
        default="all",
        help="warning: warnings and errors; a traceback counts as one error",
    )
    words = log.add_mutually_exclusive_group()
    words.add_argument("--search", metavar="TEXT", help="only lines that contain TEXT, ignoring case")
    words.add_argument("--regex", metavar="RE", help="only lines that match RE, as in Python's re")
    log.add_argument("--tail", type=positive, metavar="N", help="only the last N of these lines")
    log.add_argument("--follow", action="store_true", help="keep printing until the run ends")


def _look_commands(commands: Commands) -> None:
    attach = commands.add_parser("attach", help="watch a run")
    attach.add_argument("run", type=path, metavar="RUN", help="run folder")

    runs = commands.add_parser("runs", help="list the runs under a folder")
    runs.add_argument("roots", type=path, nargs="*", metavar="ROOT", help="default: outputs/ and this folder")
    runs.add_argument(
        "--filter",
        metavar="WORDS",
        help="only some: words, -word, state:failed, model:qwen, 'reward>1', 'step>=100', 'age<2h'",
    )
    runs.add_argument("--json", action="store_true", help="one JSON list")

    status = commands.add_parser("status", help="one look at a run")
    status.add_argument("run", type=path, metavar="RUN", help="run folder")
    status.add_argument("--json", action="store_true", help="the documented JSON object")


def _replay_command(commands: Commands) -> None:
    replay = commands.add_parser(
        "replay",
        help="show a run as it was after a step, on the screen or as text; writes nothing",
    )
    replay.add_argument("run", type=path, metavar="RUN", help="run folder, or a folder of logs")
    replay.add_argument("--at", type=int, metavar="STEP", help="begin with STEP (default: the first one)")
    replay.add_argument(
        "--speed", type=factor, metavar="X", help="play X times as fast as the run trained (default 10)"
    )
    replay.add_argument(
        "--headless", action="store_true", help="no screen: print the status and the findings of that step"
    )
    replay.add_argument("--json", action="store_true", help="the same as one JSON object")


def _metrics_command(commands: Commands) -> None:
    metrics = commands.add_parser(
        "metrics",
        help="every metric of runs as a table, CSV or JSON lines, and what a metric means",
        epilog=(
            "change: mean over the last tenth of the steps minus mean over the first tenth. Keys that "
            "begin with grpo_tui/ are computed here; csv and jsonl contain them only when --keys names "
            "them. See docs/metrics.md."
        ),
    )
    metrics.add_argument("runs", type=path, nargs="*", metavar="RUN", help="run folders")
    metrics.add_argument("--keys", metavar="GLOB,…", help="only these: 'reward,rewards/*/mean,clip_ratio/*'")
    metrics.add_argument(
        "--steps", type=steps, default=(None, None), metavar="A:B", help="only steps A to B; A: and :B too"
    )
    metrics.add_argument("--every", type=positive, metavar="N", help="csv, jsonl: only every Nth step")
    metrics.add_argument("--format", choices=("table", "csv", "jsonl"), help="default table")
    metrics.add_argument(
        "--explain", metavar="KEY", help="what a metric means and what is healthy; a glob explains several"
    )


def _steer_commands(commands: Commands) -> None:
    for name, text in (
        ("pause", "pause training after the current step; GPU memory stays allocated"),
        ("resume", "end a pause"),
        ("checkpoint", "save a checkpoint after the current step; rotation never deletes it"),
        ("abort-reward", "abort the running reward call; its rewards count as None for the batch"),
    ):
        _run_command(commands, name, text)
    stop = _run_command(commands, "stop", "finish the step, save a checkpoint, end the run")
    stop.add_argument("--now", action="store_true", help="end at once, without a checkpoint")
    change = _run_command(commands, "set", "change settings while the run trains")
    change.add_argument(
        "changes",
        nargs="*",
        metavar="K=V[@step:N]",
        help="such as learning_rate=2e-4, reward_weights=[2,1]; beta=0.04@step:500 schedules a change; "
        "probe_prompts+=TEXT adds a probe prompt, probe_prompts-=TEXT removes one",
    )
    change.add_argument(
        "--undo",
        nargs="?",
        type=positive,
        const=1,
        metavar="N",
        help="take the last change back; =N the last N",
    )
    change.add_argument("--because", metavar="TEXT", help="why, for the history of the run")
    change.add_argument(
        "--history", action="store_true", help="print what was changed: when, by whom and why"
    )
    change.add_argument(
        "--yes",
        action="store_true",
        help="also apply a number that is 100 times the current one or 1/100 of it",
    )
    _reload_command(commands)
    sample = _run_command(commands, "sample", "sample completions from the current policy")
    sample.add_argument("prompt", nargs="?", metavar="PROMPT", help="default: the newest prompt of the run")
    sample.add_argument("--count", type=positive, default=4, help="number of completions (default 4)")
    sample.add_argument("--temperature", type=float, help="default: that of the run")
    text = "evaluate the policy on the held-out rows of grpo_tui.evaluate after the current step"
    _run_command(commands, "evaluate", text, wait=EVALUATION_WAIT_S)


def _reload_command(commands: Commands) -> None:
    reload = _run_command(commands, "reload", "load edited rewards into a live run, after checking them")
    reload.epilog = (
        "Loads edited reward files, and adds, removes and renames rewards as the run's config file says now. "
        "Checks the contract, saved cases, probes and recorded groups first. `set RUN --undo` goes back. "
        "Exit codes: 0 reloaded, 2 usage error, 3 a check failed or the run rejected it, 4 timed "
        "out. See docs/rewards.md."
    )
    reload.add_argument("--because", metavar="TEXT", help="why, for the history of the run")
    reload.add_argument("--check", action="store_true", help="only check the files; the run may have ended")
    reload.add_argument(
        "--force", action="store_true", help="reload even if a check failed, and note it in the record"
    )
    reload.add_argument(
        "--groups", type=positive, default=200, metavar="N", help="score the newest N groups (default 200)"
    )
    add_time_limit(reload)
    add_trust(reload)


def _run_command(commands: Commands, name: str, text: str, wait: float = 60.0) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--wait",
        type=seconds,
        default=wait,
        metavar="S",
        help=f"seconds to wait for the outcome (default {wait:g})",
    )
    parser.add_argument("--json", action="store_true", help="the outcome as JSON")
    return parser


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


def _completions_command(commands: Commands) -> None:
    command = commands.add_parser(
        "completions",
        help="find, count and export the completions of a run by query, text or pattern",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=COMPLETIONS_EPILOG,
    )
    command.add_argument("run", type=path, nargs="?", metavar="RUN", help="run folder, or a folder of logs")
    command.add_argument(
        "--step", type=steps, default=(None, None), metavar="A:B", help="only steps A to B; A:, :B and A too"
    )
    command.add_argument("--where", metavar="EXPR", default="", help="a query, see below")
    words = command.add_mutually_exclusive_group()
    words.add_argument("--search", metavar="TEXT", help="only completions that contain TEXT, ignoring case")
    words.add_argument(
        "--regex", metavar="RE", help="only completions that match RE, in the syntax of Python's re"
    )
    command.add_argument(
        "--sort", metavar="KEY,…", help="a field, -field for the largest first (default step)"
    )
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    command.add_argument("--format", choices=("jsonl", "csv", "md"), help="default jsonl")
    command.add_argument("--all", action="store_true", help="every recorded field, columns and extras too")
    command.add_argument(
        "--superseded", action="store_true", help="also steps that were repeated after a resume"
    )
    shape = command.add_mutually_exclusive_group()
    shape.add_argument("--count", action="store_true", help="only how many there are")
    shape.add_argument("--over-steps", action="store_true", help="only the count, by step")
    command.add_argument(
        "--view", metavar="NAME", help="a saved view: its query, and its order without --sort"
    )
    command.add_argument("--save-view", metavar="NAME", help="save --where and --sort under a name")
    command.add_argument("--views", action="store_true", help="list the saved views")


def _course_command(commands: Commands) -> None:
    command = commands.add_parser(
        "course",
        help="trends over a run: group types, lengths, variety, reward contributions",
        epilog="GROUP is the number that `grpo-tui completions` gives. See docs/generations.md.",
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder, or a folder of logs")
    command.add_argument(
        "--prompt",
        type=positive,
        metavar="GROUP",
        help="instead: every time this group's prompt was answered",
    )
    command.add_argument(
        "--stretches", type=positive, metavar="N", help="at most N stretches of steps (default 48)"
    )
    command.add_argument("--json", action="store_true", help="one JSON object")


def _prompts_command(commands: Commands) -> None:
    command = commands.add_parser(
        "prompts",
        help="prompts never solved, always solved, learned or forgotten, and a filter file of them",
        epilog="GROUP is the number for `grpo-tui course RUN --prompt GROUP`. See docs/generations.md.",
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder, or a folder of logs")
    command.add_argument(
        "--class",
        dest="classes",
        metavar="CLASS,…",
        help="only never, always, learned, forgotten, unstable or few (seen too few times)",
    )
    command.add_argument(
        "--sort",
        metavar="KEY",
        choices=[
            f"{sign}{key}" for key in ("step", "visits", "first", "last", "change") for sign in ("", "-")
        ],
        help="step, visits, first, last or change; -KEY for the largest first (default step)",
    )
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    shape = command.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="one JSON object")
    shape.add_argument("--csv", action="store_true", help="a line for each prompt")
    shape.add_argument(
        "--export", type=path, metavar="FILE", help="write a filter file for `grpo_tui.filters`"
    )


def _doctor_command(commands: Commands) -> None:
    command = commands.add_parser(
        "doctor",
        help="what is wrong with a run, since when, and what to do",
        epilog="Exit codes: 0 no finding at or above the gate, 1 findings, 2 usage error. With --apply: 0 "
        "applied, 3 rejected by the run, 4 timed out. docs/diagnosis.md explains every finding.",
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder, or a folder of logs")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command.add_argument(
        "--gate",
        choices=("error", "warning"),
        help="lowest severity that exits 1 (default error)",
    )
    command.add_argument(
        "--audit",
        action="store_true",
        help="list completions that look like attacks, and top rewards that a second opinion refuses",
    )
    command.add_argument(
        "--apply",
        metavar="ID",
        help="apply the remedies of a finding to the run while it trains, and write the others into a config",
    )
    command.add_argument(
        "--next",
        action="store_true",
        help="with --apply: do not change the run; write all remedies into the config",
    )
    command.add_argument(
        "-o",
        "--output",
        type=path,
        metavar="FILE",
        help="with --apply: the config to write (default: RUN-next.yaml)",
    )
    command.add_argument(
        "--because", metavar="TEXT", help="with --apply: the reason, for the history of the run"
    )
    command.add_argument(
        "--wait", type=seconds, metavar="S", help="with --apply: seconds to wait for the run (default 60)"
    )


TOKENS_EPILOG = """\
examples:
  grpo-tui tokens RUN --group 412 --index 3              the newest checkpoint, else the live policy
  grpo-tui tokens RUN --group 412 --from live            the current policy, at the end of the step
  grpo-tui tokens RUN --group 412 --from checkpoint=200 --base
  grpo-tui tokens RUN --group 412 --from base --prompt   with the prompt as the model sees it
GROUP and INDEX are those of `grpo-tui completions`. See docs/generations.md, Tokens.
"""


def _tokens_command(commands: Commands) -> None:
    command = commands.add_parser(
        "tokens",
        help="log-probability, entropy, rank and KL of each token of a completion under a policy of the run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=TOKENS_EPILOG,
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder")
    command.add_argument("--group", type=positive, required=True, metavar="N", help="the group")
    command.add_argument(
        "--index", type=int, default=0, metavar="I", help="which of its completions, from 0 (default 0)"
    )
    command.add_argument(
        "--from", dest="source", metavar="WHO", help="live, checkpoint, checkpoint=STEP or base"
    )
    command.add_argument(
        "--base", action="store_true", help="compare with the base model, or the live run's reference: KL"
    )
    command.add_argument("--prompt", action="store_true", help="print the rendered prompt too")
    command.add_argument(
        "--limit", type=positive, metavar="N", help="the N most surprising tokens (default 20)"
    )
    command.add_argument(
        "--wait", type=seconds, default=60.0, metavar="S", help="seconds to wait for a live run (default 60)"
    )
    add_trust(command)
    command.add_argument("--json", action="store_true", help="one JSON object, with every token")


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
        "grpo-tui set runs/first 'probe_prompts+=What is 7 + 8?'",
        "grpo-tui set runs/first --undo",
    ),
    "sample": ("grpo-tui sample runs/first 'What is 7 + 15?' --count 2",),
    "evaluate": ("grpo-tui evaluate runs/first",),
    "reload": (
        'grpo-tui reload runs/first --because "near misses count too"',
        "grpo-tui reload runs/first --check",
    ),
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
        if said and command.formatter_class is argparse.HelpFormatter:
            said = textwrap.fill(said, 100)
        examples = "\n".join(["examples:", *(f"  {line}" for line in EXAMPLES[name])])
        command.epilog = f"{examples}\n{said}" if said else examples
        command.formatter_class = argparse.RawDescriptionHelpFormatter
