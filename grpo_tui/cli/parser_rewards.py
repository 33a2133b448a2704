"""The words of the commands about rewards: score, baseline, probe, cases, rewards, whatif."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, add_time_limit, add_trust, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_reward_commands(commands: Commands) -> None:
    """Add them in the order of the help."""
    _score_command(commands)
    _baseline_command(commands)
    _probe_commands(commands)
    _rewards_command(commands)
    _what_if_command(commands)


def _score_command(commands: Commands) -> None:
    score = commands.add_parser(
        "score",
        help="what rewards give for samples, and what is wrong with them; no GPU, no training",
        epilog="Exit 0: every function scored; 1: one failed. See docs/rewards.md.",
    )
    _rewards_argument(score, "*")
    origin = score.add_mutually_exclusive_group()
    _samples(origin)
    origin.add_argument(
        "--rows", type=positive, metavar="N", help="N rows of the dataset: the gold answer and a wrong one"
    )
    origin.add_argument("--run", type=path, metavar="RUN", help="completions of a recorded run")
    place = score.add_mutually_exclusive_group()
    place.add_argument("--step", metavar="N|best|worst", type=_step, help="with --run; default the newest")
    place.add_argument(
        "--where", metavar="EXPR", help="with --run: groups with such a completion, as in completions"
    )
    score.add_argument("--tag", metavar="TAG", help="only the samples that have this tag")
    add_time_limit(score)
    score.add_argument("--weights", metavar="W,W,…", help="instead of the config's, in the functions' order")
    add_overrides(score)
    add_trust(score)
    score.add_argument("--once", action="store_true", help="call each function once, and try no gold answers")
    score.add_argument("--json", action="store_true", help="the documented JSON object")


def _baseline_command(commands: Commands) -> None:
    baseline = commands.add_parser(
        "baseline",
        help="what the model does before any training: pass rate, mixed groups, and what follows",
        epilog="Exit 0: worth training; 1: nothing right, all right, or another error; 2: it cannot be asked."
        " See docs/rewards.md.",
    )
    baseline.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    baseline.add_argument("--rows", type=positive, default=16, metavar="N", help="rows to ask (default 16)")
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
    baseline.add_argument("--save", type=path, metavar="FILE", help="JSONL for `grpo-tui score --samples`")
    add_time_limit(baseline)
    add_overrides(baseline)
    add_trust(baseline)
    baseline.add_argument("--json", action="store_true", help="the documented JSON object")


def _probe_commands(commands: Commands) -> None:
    probe = commands.add_parser(
        "probe",
        help="try to fool rewards with some fifty completions a row, and see which right answers they refuse",
        epilog="Exit 0: nothing fools them; 1: something does, or a function failed. See docs/rewards.md.",
    )
    _rewards_argument(probe, "+")
    probe.add_argument("--rows", type=positive, default=3, metavar="N", help="rows to try (default 3)")
    probe.add_argument("--show", action="store_true", help="print the completions too")
    add_time_limit(probe)
    add_overrides(probe)
    add_trust(probe)
    probe.add_argument("--json", action="store_true", help="the documented JSON object")

    cases = commands.add_parser("cases", help="completions with the rewards they should get, as tests")
    verbs = cases.add_subparsers(dest="verb", metavar="VERB", required=True)
    run = verbs.add_parser(
        "run",
        help="score the cases of a file",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  grpo-tui cases run my.cases.yaml\n"
        "Exit 0: all of them hold; 1: one does not. See docs/rewards.md for the form of the file.",
    )
    run.add_argument("files", type=path, nargs="+", metavar="FILE", help="YAML of cases")
    run.add_argument(
        "--rewards",
        action="append",
        default=[],
        metavar="CONFIG_OR_FUNC",
        help="instead of what the file names; may be given several times",
    )
    add_time_limit(run)
    add_trust(run)
    run.add_argument("--json", action="store_true", help="the documented JSON object")


def _rewards_command(commands: Commands) -> None:
    rewards = commands.add_parser(
        "rewards",
        help="open the pane Rewards: what rewards give, anew with every save; no GPU, no training",
        epilog="Without a terminal `grpo-tui score` prints what the pane shows. See docs/rewards.md.",
    )
    _rewards_argument(rewards, "+")
    _samples(rewards)
    add_overrides(rewards)
    add_trust(rewards)


def _what_if_command(commands: Commands) -> None:
    command = commands.add_parser(
        "whatif",
        help="recorded rollouts scored again: what would turn with these rewards, or with other weights?",
        epilog="Without CONFIG_OR_FUNC the run's own rewards are taken, from the files as they are now."
        " Exit 1: one gives no scores. See docs/generations.md.",
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder")
    _rewards_argument(command, "*")
    command.add_argument(
        "--where", metavar="EXPR", default="", help="only groups that hold what a query finds"
    )
    command.add_argument(
        "--groups", type=positive, default=200, metavar="N", help="the newest N of them (default 200)"
    )
    command.add_argument(
        "--weights", metavar="W,W,…", help="instead of the config's, in the functions' order"
    )
    command.add_argument(
        "--recorded", action="store_true", help="call no function: weigh the recorded scores anew"
    )
    command.add_argument("--limit", type=positive, metavar="N", help="print at most N groups (default 20)")
    add_time_limit(command)
    add_overrides(command)
    add_trust(command)
    command.add_argument("--json", action="store_true", help="the documented JSON object")


def _rewards_argument(command: argparse.ArgumentParser, count: str) -> None:
    command.add_argument(
        "sources",
        nargs=count,
        metavar="CONFIG_OR_FUNC",
        help="a config, a run folder, or functions: file.py:function, a name of TRL, a dotted path",
    )


def _samples(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--samples",
        type=path,
        metavar="FILE",
        help="JSONL of prompt, completion, columns; or TRL's parquet; or a YAML of cases",
    )


def _step(text: str) -> int | str:
    return text if text in ("best", "worst") else positive(text)


def _group(text: str) -> int:
    if (size := positive(text)) < 2:
        raise argparse.ArgumentTypeError("a group is at least 2 completions that are compared")
    return size
