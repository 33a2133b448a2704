"""The words of the command line and their help texts; knows nothing of what a command does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui import __version__
from grpo_tui.cli.parser_check import add_check_command, add_start_check
from grpo_tui.cli.parser_completions import add_completions_command, add_course_command
from grpo_tui.cli.parser_config import add_config_command
from grpo_tui.cli.parser_data import add_data_command
from grpo_tui.cli.parser_examples import add_examples
from grpo_tui.cli.parser_export import add_export_command
from grpo_tui.cli.parser_new import add_new_command
from grpo_tui.cli.parser_plan import add_placing, add_plan_commands
from grpo_tui.cli.parser_rewards import add_reward_commands
from grpo_tui.cli.parser_tokens import add_tokens_command
from grpo_tui.cli.words import add_overrides, add_trust, path, positive, seconds, steps

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands

DESCRIPTION = "A terminal workbench for GRPO with TRL: train, watch every generation live, steer."
EPILOG = "Without a command, grpo-tui opens the runs of this folder; RUN attaches, CONFIG.yaml opens it."


def build_parser(*, with_faults: bool = True, with_open: bool = False) -> argparse.ArgumentParser:
    """The whole command line.

    Args:
        with_faults: Whether `demo` lists its faults; without them nothing of the demonstration is imported.
        with_open: Whether the word behind `grpo-tui CONFIG.yaml` is known; nobody types it.
    """
    parser = argparse.ArgumentParser(prog="grpo-tui", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"grpo-tui {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _start_commands(commands, with_faults)
    if with_open:
        _open_command(commands)
    _look_commands(commands)
    _log_command(commands)
    _metrics_command(commands)
    add_completions_command(commands)
    add_course_command(commands)
    add_tokens_command(commands)
    _steer_commands(commands)
    add_check_command(commands)
    add_plan_commands(commands)
    add_data_command(commands)
    add_reward_commands(commands)
    add_new_command(commands)
    add_config_command(commands)
    add_export_command(commands)
    add_examples(commands)
    return parser


def _faults(wanted: bool) -> dict[str, str]:
    """Names of the faults and what each teaches."""
    if not wanted:
        return {}
    from grpo_tui.demo.faults import FAULTS

    return {name: fault.teaches for name, fault in FAULTS.items()}


def _start_commands(commands: Commands, with_faults: bool) -> None:
    faults = _faults(with_faults)
    demo = commands.add_parser(
        "demo",
        help="a real GRPO run of the shipped model, live, on the CPU in a minute",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            ["faults to practise on, each met and explained in docs/faults.md:"]
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
        "--headless", action="store_true", help="no screen: a line per step, exit code by outcome"
    )
    shape.add_argument("--detach", action="store_true", help="start and return at once")
    train.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="CKPT",
        help="continue from the newest complete checkpoint, or from CKPT (a folder or a step)",
    )
    add_placing(train)
    add_start_check(train)


def _open_command(commands: Commands) -> None:
    """What `grpo-tui CONFIG.yaml` stands for."""
    config = commands.add_parser("open")
    config.add_argument("config", type=path, metavar="CONFIG")
    add_overrides(config)
    config.add_argument("--run-dir", type=path, help="folder of the run that S starts")
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
    words.add_argument("--search", metavar="TEXT", help="only lines that hold TEXT, in any case")
    words.add_argument("--regex", metavar="RE", help="only lines that match RE, as in Python's re")
    log.add_argument("--tail", type=positive, metavar="N", help="only the last N of these lines")
    log.add_argument("--follow", action="store_true", help="go on until the run has ended")


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


def _metrics_command(commands: Commands) -> None:
    metrics = commands.add_parser(
        "metrics",
        help="every metric of runs as a table, CSV or JSON lines, and what a metric means",
        epilog="change: mean over the last tenth of the steps less that over the first. Keys that begin with"
        " grpo_tui/ are computed here; csv and jsonl hold them when --keys names them. See docs/metrics.md.",
    )
    metrics.add_argument("runs", type=path, nargs="*", metavar="RUN", help="run folders")
    metrics.add_argument("--keys", metavar="GLOB,…", help="only these: 'reward,rewards/*/mean,clip_ratio/*'")
    metrics.add_argument(
        "--steps", type=steps, default=(None, None), metavar="A:B", help="only steps A to B; A: and :B too"
    )
    metrics.add_argument("--every", type=positive, metavar="N", help="csv, jsonl: only every Nth step")
    metrics.add_argument("--format", choices=("table", "csv", "jsonl"), help="default table")
    metrics.add_argument(
        "--explain", metavar="KEY", help="what a metric means and its healthy shape; a glob explains several"
    )


def _steer_commands(commands: Commands) -> None:
    for name, text in (
        ("pause", "pause training at the next safe point; memory is kept"),
        ("resume", "end a pause"),
        ("checkpoint", "save a checkpoint at the next safe point; it is never rotated away"),
        ("abort-reward", "abort the reward call that runs now; its rewards count as None for the batch"),
    ):
        _run_command(commands, name, text)
    stop = _run_command(commands, "stop", "finish the step, save a checkpoint, end the run")
    stop.add_argument("--now", action="store_true", help="end at once, without a checkpoint")
    change = _run_command(commands, "set", "change learning_rate, temperature or reward_weights in mid-run")
    change.add_argument(
        "changes", nargs="+", metavar="K=V", help="such as learning_rate=2e-4, reward_weights=[2,1]"
    )
    sample = _run_command(commands, "sample", "sample completions from the current policy")
    sample.add_argument("prompt", nargs="?", metavar="PROMPT", help="default: the newest prompt of the run")
    sample.add_argument("--count", type=positive, default=4, help="number of completions (default 4)")
    sample.add_argument("--temperature", type=float, help="default: that of the run")


def _run_command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--wait", type=seconds, default=60.0, metavar="S", help="wait so long for it (default 60)"
    )
    parser.add_argument("--json", action="store_true", help="the outcome as JSON")
    return parser
