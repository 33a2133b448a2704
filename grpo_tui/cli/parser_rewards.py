"""Arguments of the commands about rewards: score, baseline, probe, cases, rewards, whatif."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, add_time_limit, add_trust, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_reward_commands(commands: Commands) -> None:
    """Add the commands in the order of the help."""
    _score_command(commands)
    _baseline_command(commands)
    _probe_commands(commands)
    _rewards_command(commands)
    _what_if_command(commands)


def _score_command(commands: Commands) -> None:
    score = commands.add_parser(
        "score",
        help="score sample completions and find problems in rewards; no GPU, no training",
        epilog="Exit codes: 0 every function scored, 1 one failed, 2 usage error. See docs/rewards.md.",
    )
    _rewards_argument(score, "*")
    origin = score.add_mutually_exclusive_group()
    _samples(origin)
    origin.add_argument(
        "--rows",
        type=positive,
        metavar="N",
        help="N rows of the dataset: the reference answer and a wrong one",
    )
    origin.add_argument("--run", type=path, metavar="RUN", help="completions of a recorded run")
    place = score.add_mutually_exclusive_group()
    place.add_argument("--step", metavar="N|best|worst", type=_step, help="with --run; default the newest")
    place.add_argument(
        "--where", metavar="EXPR", help="with --run: groups with a matching completion, as in completions"
    )
    score.add_argument("--tag", metavar="TAG", help="only the samples that have this tag")
    add_time_limit(score)
    score.add_argument("--weights", metavar="W,W,…", help="instead of the config's, in the functions' order")
    add_overrides(score)
    add_trust(score)
    score.add_argument(
        "--once", action="store_true", help="call each function once, and skip the reference answers"
    )
    score.add_argument("--json", action="store_true", help="the documented JSON object")


def _baseline_command(commands: Commands) -> None:
    baseline = commands.add_parser(
        "baseline",
        help="what the base model can do: pass rate, mixed groups, and what to change",
        epilog=(
            "Exit codes: 0 worth training, 1 nothing right, all right, or another error, 2 usage error. "
            "See docs/rewards.md."
        ),
    )
    baseline.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    baseline.add_argument("--rows", type=positive, default=16, metavar="N", help="rows to ask (default 16)")
    baseline.add_argument(
        "--group", type=_group, metavar="G", help="completions of each (default num_generations)"
    )
    baseline.add_argument(
        "--correct",
        metavar="NAME[>=X]",
        help="the reward that decides what is right, and its lowest passing score",
    )
    baseline.add_argument(
        "--held", action="store_true", help="use the rows of grpo_tui.holdout instead of training rows"
    )
    baseline.add_argument(
        "--seed", type=int, metavar="S", help="seed of rows and sampling (default: the config's)"
    )
    baseline.add_argument("--save", type=path, metavar="FILE", help="JSONL for `grpo-tui score --samples`")
    add_time_limit(baseline)
    add_overrides(baseline)
    add_trust(baseline)
    baseline.add_argument("--json", action="store_true", help="the documented JSON object")


def _probe_commands(commands: Commands) -> None:
    probe = commands.add_parser(
        "probe",
        help=(
            "look for loopholes in rewards with about 50 completions per row, and for right answers "
            "they reject"
        ),
        epilog=(
            "Exit codes: 0 no loophole found, 1 one found, or a function failed, 2 usage error. See "
            "docs/rewards.md."
        ),
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
        epilog=(
            "examples:\n  grpo-tui cases run my.cases.yaml\nExit codes: 0 all passed, 1 one failed, 2 "
            "usage error. docs/rewards.md describes the file."
        ),
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
        help="open the Rewards pane: scores, updated at every save; no GPU, no training",
        epilog="Without a terminal, use `grpo-tui score`. See docs/rewards.md.",
    )
    _rewards_argument(rewards, "+")
    _samples(rewards)
    add_overrides(rewards)
    add_trust(rewards)


def _what_if_command(commands: Commands) -> None:
    command = commands.add_parser(
        "whatif",
        help="score recorded rollouts again: what would change with other rewards or weights?",
        epilog=(
            "Without CONFIG_OR_FUNC the run's own rewards are used, from the current files. Exit codes: "
            "0 done, 1 a function gave no scores, 2 usage error. See docs/generations.md."
        ),
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder")
    _rewards_argument(command, "*")
    command.add_argument(
        "--where", metavar="EXPR", default="", help="only groups with a completion that matches the query"
    )
    command.add_argument(
        "--groups", type=positive, default=200, metavar="N", help="only the newest N groups (default 200)"
    )
    command.add_argument(
        "--weights", metavar="W,W,…", help="instead of the config's, in the functions' order"
    )
    command.add_argument(
        "--recorded",
        action="store_true",
        help="call no function: only apply the weights to the recorded scores",
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
        raise argparse.ArgumentTypeError("a group needs at least 2 completions")
    return size
