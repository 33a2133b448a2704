"""Arguments of the commands about rewards: score, baseline, probe, cases, rewards, whatif."""

from __future__ import annotations

import argparse

from grpo_tui.cli.words import Commands, add_command, flag, path, positive, shared


def _score(commands: Commands) -> None:
    score = add_command(
        commands,
        "score",
        "score sample completions and find problems in rewards; no GPU, no training",
        "Exit codes: 0 every function scored, 1 one failed, 2 usage error. See docs/rewards.md.",
    )
    shared(score, "sources", nargs="*")
    origin = score.add_mutually_exclusive_group()
    shared(origin, "--samples")
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
    shared(score, "--timeout", "--weights", "--set", "--trust")
    flag(score, "--once", "call each function once, and skip the reference answers")
    shared(score, "--json")


def _baseline(commands: Commands) -> None:
    baseline = add_command(
        commands,
        "baseline",
        "what the base model can do: pass rate, mixed groups, and what to change",
        "Exit codes: 0 worth training, 1 nothing right, all right, or another error, 2 usage error. "
        "See docs/rewards.md.",
    )
    add = baseline.add_argument
    shared(baseline, "config")
    add("--rows", type=positive, default=16, metavar="N", help="rows to ask (default 16)")
    add("--group", type=_group, metavar="G", help="completions of each (default num_generations)")
    shared(baseline, "--correct")
    flag(baseline, "--held", "use the rows of grpo_tui.holdout instead of training rows")
    shared(baseline, "--seed")
    add("--save", type=path, metavar="FILE", help="JSONL for `grpo-tui score --samples`")
    shared(baseline, "--timeout", "--set", "--trust", "--json")


def _probe(commands: Commands) -> None:
    probe = add_command(
        commands,
        "probe",
        "look for loopholes in rewards with about 50 completions per row, and for right answers they reject",
        "Exit codes: 0 no loophole found, 1 one found, or a function failed, 2 usage error. See "
        "docs/rewards.md.",
    )
    shared(probe, "sources", nargs="+")
    probe.add_argument("--rows", type=positive, default=3, metavar="N", help="rows to try (default 3)")
    flag(probe, "--show", "print the completions too")
    shared(probe, "--timeout", "--set", "--trust", "--json")


def _cases(commands: Commands) -> None:
    cases = add_command(commands, "cases", "completions with the rewards they should get, as tests")
    verbs = cases.add_subparsers(dest="verb", metavar="VERB", required=True)
    run = add_command(
        verbs,
        "run",
        "score the cases of a file",
        "examples:\n  grpo-tui cases run my.cases.yaml\nExit codes: 0 all passed, 1 one failed, 2 "
        "usage error. docs/rewards.md describes the file.",
    )
    add = run.add_argument
    add("files", type=path, nargs="+", metavar="FILE", help="YAML of cases")
    add(
        "--rewards",
        action="append",
        default=[],
        metavar="CONFIG_OR_FUNC",
        help="instead of what the file names; may be given several times",
    )
    shared(run, "--timeout", "--trust", "--json")


def _rewards(commands: Commands) -> None:
    rewards = add_command(
        commands,
        "rewards",
        "open the Rewards pane: scores, updated at every save; no GPU, no training",
        "Without a terminal, use `grpo-tui score`. See docs/rewards.md.",
    )
    shared(rewards, "sources", nargs="+")
    shared(rewards, "--samples", "--set", "--trust")


def _what_if(commands: Commands) -> None:
    command = add_command(
        commands,
        "whatif",
        "score recorded rollouts again: what would change with other rewards or weights?",
        "Without CONFIG_OR_FUNC the run's own rewards are used, from the current files. Exit codes: "
        "0 done, 1 a function gave no scores, 2 usage error. See docs/generations.md.",
    )
    add = command.add_argument
    shared(command, "run")
    shared(command, "sources", nargs="*")
    add(
        "--where", metavar="EXPR", default="mode==train",
        help="only groups with a completion that matches the query (default mode==train)",
    )  # fmt: skip
    add("--groups", type=positive, default=200, metavar="N", help="only the newest N groups (default 200)")
    shared(command, "--weights")
    flag(command, "--recorded", "call no function: only apply the weights to the recorded scores")
    add("--limit", type=positive, metavar="N", help="print at most N groups (default 20)")
    shared(command, "--timeout", "--set", "--trust", "--json")


def _step(text: str) -> int | str:
    return text if text in ("best", "worst") else positive(text)


def _group(text: str) -> int:
    if (size := positive(text)) < 2:
        raise argparse.ArgumentTypeError("a group needs at least 2 completions")
    return size


REWARDS = {
    "score": _score, "baseline": _baseline, "probe": _probe, "cases": _cases, "rewards": _rewards,
    "whatif": _what_if,
}  # fmt: skip
