"""The words of the command line and their help texts; knows nothing of what a command does."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from grpo_tui import __version__

DESCRIPTION = "A terminal workbench for GRPO with TRL: train, watch every generation live, steer."
EPILOG = "Without a command, grpo-tui opens the runs of this folder; RUN attaches, CONFIG.yaml starts."


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
    _steer_commands(commands)
    _reward_commands(commands)
    _baseline_command(commands)
    _probe_commands(commands)
    _rewards_command(commands)
    return parser


def _faults(wanted: bool) -> dict[str, str]:
    """Names of the faults and what each teaches."""
    if not wanted:
        return {}
    from grpo_tui.demo.faults import FAULTS

    return {name: fault.teaches for name, fault in FAULTS.items()}


def _start_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser], with_faults: bool) -> None:
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
    demo.add_argument("--steps", type=_positive, help="optimizer steps (default 120)")
    demo.add_argument(
        "--run-dir", type=Path, help="run folder (default: outputs/demo, or the next free name)"
    )
    demo.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="default cpu: a shared GPU may be busy"
    )
    demo.add_argument("--seed", type=int, help="random seed of the run")
    demo.add_argument(
        "--fault", choices=tuple(faults), metavar="NAME", help="break one thing on purpose; see below"
    )

    train = commands.add_parser("train", help="start or resume a run from a TRL YAML config or a run folder")
    train.add_argument("config", type=Path, metavar="CONFIG_OR_RUN", help="TRL YAML config, or a run folder")
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="K=V",
        dest="overrides",
        help="override a key of the config",
    )
    train.add_argument("--run-dir", type=Path, help="run folder (default: output_dir, else outputs/CONFIG)")
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


def _open_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """What `grpo-tui CONFIG.yaml` stands for."""
    config = commands.add_parser("open")
    config.add_argument("config", type=Path, metavar="CONFIG")
    config.set_defaults(overrides=[], run_dir=None, launcher=None)


def _log_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    log = commands.add_parser("log", help="the output of a run, by level and words")
    log.add_argument("run", type=Path, metavar="RUN", help="run folder")
    log.add_argument(
        "--level",
        choices=("all", "warning", "error"),
        default="all",
        help="warning: warnings and errors; a traceback counts as one error",
    )
    words = log.add_mutually_exclusive_group()
    words.add_argument("--search", metavar="TEXT", help="only lines that hold TEXT, in any case")
    words.add_argument("--regex", metavar="RE", help="only lines that match RE, as in Python's re")
    log.add_argument("--tail", type=_positive, metavar="N", help="only the last N of these lines")
    log.add_argument("--follow", action="store_true", help="go on until the run has ended")


def _look_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    attach = commands.add_parser("attach", help="watch a run")
    attach.add_argument("run", type=Path, metavar="RUN", help="run folder")

    runs = commands.add_parser("runs", help="list the runs under a folder")
    runs.add_argument("roots", type=Path, nargs="*", metavar="ROOT", help="default: outputs/ and this folder")
    runs.add_argument(
        "--filter",
        metavar="WORDS",
        help="only some: words, -word, state:failed, model:qwen, 'reward>1', 'step>=100', 'age<2h'",
    )
    runs.add_argument("--json", action="store_true", help="one JSON list")

    status = commands.add_parser("status", help="one look at a run")
    status.add_argument("run", type=Path, metavar="RUN", help="run folder")
    status.add_argument("--json", action="store_true", help="the documented JSON object")


def _metrics_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    metrics = commands.add_parser(
        "metrics",
        help="every metric of runs as a table, CSV or JSON lines, and what a metric means",
        epilog="change: mean over the last tenth of the steps less that over the first. Keys that begin with"
        " grpo_tui/ are computed here; csv and jsonl hold them when --keys names them. See docs/metrics.md.",
    )
    metrics.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="run folders")
    metrics.add_argument("--keys", metavar="GLOB,…", help="only these: 'reward,rewards/*/mean,clip_ratio/*'")
    metrics.add_argument(
        "--steps", type=_steps, default=(None, None), metavar="A:B", help="only steps A to B; A: and :B too"
    )
    metrics.add_argument("--every", type=_positive, metavar="N", help="csv, jsonl: only every Nth step")
    metrics.add_argument("--format", choices=("table", "csv", "jsonl"), default="table")
    metrics.add_argument(
        "--explain", metavar="KEY", help="what a metric means and its healthy shape; a glob explains several"
    )


def _steer_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    sample.add_argument("--count", type=_positive, default=4, help="number of completions (default 4)")
    sample.add_argument("--temperature", type=float, help="default: that of the run")


def _reward_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    score = commands.add_parser(
        "score",
        help="what rewards give for samples, and what is wrong with them; no GPU, no training",
        epilog="Exit 0: every function scored; 1: one failed. See docs/rewards.md.",
    )
    _rewards_argument(score, "*")
    origin = score.add_mutually_exclusive_group()
    origin.add_argument(
        "--samples", type=Path, metavar="FILE", help="JSONL of prompt, completion, columns; or TRL's parquet"
    )
    origin.add_argument(
        "--rows", type=_positive, metavar="N", help="N rows of the dataset: the gold answer and a wrong one"
    )
    origin.add_argument("--run", type=Path, metavar="RUN", help="completions of a recorded run")
    score.add_argument("--step", metavar="N|best|worst", type=_step, help="with --run; default the newest")
    _time_limit(score)
    score.add_argument("--weights", metavar="W,W,…", help="instead of the config's, in the functions' order")
    _overrides(score)
    score.add_argument("--once", action="store_true", help="call each function once, and try no gold answers")
    score.add_argument("--json", action="store_true", help="the documented JSON object")


def _baseline_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    baseline = commands.add_parser(
        "baseline",
        help="what the model does before any training: pass rate, mixed groups, and what follows",
        epilog="Exit 0: worth training; 1: nothing right, all right, or another error; 2: it cannot be asked."
        " See docs/rewards.md.",
    )
    baseline.add_argument("config", type=Path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    baseline.add_argument("--rows", type=_positive, default=16, metavar="N", help="rows to ask (default 16)")
    baseline.add_argument(
        "--group", type=_group, metavar="G", help="completions of each (default num_generations)"
    )
    baseline.add_argument(
        "--correct", metavar="NAME[>=X]", help="the reward that says what is right, and from which score on"
    )
    baseline.add_argument(
        "--held", action="store_true", help="rows that grpo_tui.holdout sets aside, not training rows"
    )
    baseline.add_argument("--seed", type=int, metavar="S", help="of rows and sampling (default the config's)")
    baseline.add_argument("--save", type=Path, metavar="FILE", help="JSONL for `grpo-tui score --samples`")
    _time_limit(baseline)
    _overrides(baseline)
    baseline.add_argument("--json", action="store_true", help="the documented JSON object")


def _rewards_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    rewards = commands.add_parser(
        "rewards",
        help="open the pane Rewards: what rewards give, anew with every save; no GPU, no training",
        epilog="Without a terminal `grpo-tui score` prints what the pane shows. See docs/rewards.md.",
    )
    _rewards_argument(rewards, "+")
    rewards.add_argument(
        "--samples", type=Path, metavar="FILE", help="JSONL of prompt, completion, columns; or TRL's parquet"
    )
    _overrides(rewards)


def _probe_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    probe = commands.add_parser(
        "probe",
        help="try to fool rewards with some fifty completions a row, and see which right answers they refuse",
        epilog="Exit 0: nothing fools them; 1: something does, or a function failed. See docs/rewards.md.",
    )
    _rewards_argument(probe, "+")
    probe.add_argument("--rows", type=_positive, default=3, metavar="N", help="rows to try (default 3)")
    probe.add_argument("--show", action="store_true", help="print the completions too")
    _time_limit(probe)
    _overrides(probe)
    probe.add_argument("--json", action="store_true", help="the documented JSON object")

    cases = commands.add_parser("cases", help="completions with the rewards they should get, as tests")
    verbs = cases.add_subparsers(dest="verb", metavar="VERB", required=True)
    run = verbs.add_parser(
        "run",
        help="score the cases of a file",
        epilog="Exit 0: all of them hold; 1: one does not. See docs/rewards.md for the form of the file.",
    )
    run.add_argument("files", type=Path, nargs="+", metavar="FILE", help="YAML of cases")
    run.add_argument(
        "--rewards",
        action="append",
        default=[],
        metavar="CONFIG_OR_FUNC",
        help="instead of what the file names; may be given several times",
    )
    _time_limit(run)
    run.add_argument("--json", action="store_true", help="the documented JSON object")


def _rewards_argument(command: argparse.ArgumentParser, count: str) -> None:
    command.add_argument(
        "sources",
        nargs=count,
        metavar="CONFIG_OR_FUNC",
        help="a config, a run folder, or functions: file.py:function, a name of TRL, a dotted path",
    )


def _time_limit(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="S", help="seconds a call may take (default 60)"
    )


def _overrides(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="K=V", dest="overrides", help="as in train"
    )


def _step(text: str) -> int | str:
    return text if text in ("best", "worst") else _positive(text)


def _steps(text: str) -> tuple[int | None, int | None]:
    first, colon, last = text.partition(":")
    try:
        bounds = (int(first) if first else None, int(last) if last else None)
    except ValueError:
        bounds = None
    if bounds is not None and not colon:
        bounds = (bounds[0], bounds[0])
    if bounds is None or not text.strip(":") or (None not in bounds and bounds[0] > bounds[1]):  # type: ignore[operator]
        raise argparse.ArgumentTypeError(f"{text!r} names no steps; 100:200, 100:, :200 and 100 do")
    return bounds


def _run_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--wait", type=_seconds, default=60.0, metavar="S", help="wait so long for it (default 60)"
    )
    parser.add_argument("--json", action="store_true", help="the outcome as JSON")
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _group(text: str) -> int:
    if (size := _positive(text)) < 2:
        raise argparse.ArgumentTypeError("a group is at least 2 completions that are compared")
    return size


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number
