"""Arguments of config, check, plan, gpus, data, new and export, and of the check before a start."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, add_time_limit, add_trust, drill_list, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands

_SIDES = """\
A and B are config files, run folders, names of presets as preset:gsm8k, or the word `defaults`. Without B,
A is compared with the preset it came from, else with TRL's defaults. Exit codes: 0 no
difference, 1 differences, 2 usage error.

examples:
  grpo-tui config diff my.yaml                      against its preset, or the defaults
  grpo-tui config diff my.yaml outputs/first        against what a run was started with
  grpo-tui config diff my.yaml preset:gsm8k --text  line by line"""

_FIELDS = """\
examples:
  grpo-tui config fields                 the most important ones, by group
  grpo-tui config fields loss_type       one field: help, advice, every choice explained
  grpo-tui config fields clip            everything about clipping
  grpo-tui config fields --config my.yaml batch   with the values of a file, and where each came from"""

_SET = """\
Only the lines of these keys change; comments, order and quoting are kept. `K=` removes a key. Values are
read as their field's type. If one does not fit, nothing is written.

examples:
  grpo-tui config set my.yaml learning_rate=5e-6 max_steps=300
  grpo-tui config set my.yaml grpo_tui.rewards.0.weight=1.5 beta=
  grpo-tui config set my.yaml use_peft=true --dry-run"""


def add_config_command(commands: Commands) -> None:
    """Add `config` and its subcommands."""
    config = commands.add_parser(
        "config", help="a config file: fields with help and advice, differences, single keys set"
    )
    kinds = config.add_subparsers(dest="kind", metavar="WHAT")
    _diff(kinds)
    _fields(kinds)
    _set(kinds)


def _diff(kinds: Commands) -> None:
    diff = kinds.add_parser(
        "diff",
        help="differences between two configs, by the values a run would use",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_SIDES,
    )
    diff.add_argument("first", metavar="A", help="a config file, a run folder, preset:NAME or `defaults`")
    diff.add_argument("second", metavar="B", nargs="?", help="the other side")
    shape = diff.add_mutually_exclusive_group()
    shape.add_argument("--text", action="store_true", help="a unified diff of the lines")
    shape.add_argument("--json", action="store_true", help="one JSON object")


def _fields(kinds: Commands) -> None:
    fields = kinds.add_parser(
        "fields",
        help="the keys of a config: search in names, help and advice",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_FIELDS,
    )
    fields.add_argument("words", metavar="WORDS", nargs="*", help="words that must all match")
    fields.add_argument("--all", action="store_true", help="every field, not only the most important ones")
    fields.add_argument("--config", type=path, metavar="FILE", help="show the values of a config")
    shape = fields.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="one JSON list")
    shape.add_argument("--markdown", action="store_true", help="all advice as one page")


def _set(kinds: Commands) -> None:
    put = kinds.add_parser(
        "set",
        help="set keys in a config file, changing only their lines",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_SET,
    )
    put.add_argument("file", type=path, metavar="FILE", help="the config file")
    put.add_argument("pairs", metavar="K=V", nargs="+", help="a key, dotted where nested, and its value")
    put.add_argument("--dry-run", action="store_true", help="show what would change and write nothing")


def add_check_command(commands: Commands) -> None:
    """Add `check`."""
    check = commands.add_parser(
        "check",
        help="find everything that would stop or spoil a run, without loading the model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            [
                "examples:",
                "  grpo-tui check my.yaml",
                "  grpo-tui check my.yaml --fix",
                "  grpo-tui check my.yaml --world-size 4 --set max_steps=50",
                "  grpo-tui check my.yaml --json | jq '.findings[] | select(.severity == \"error\")'",
                "Exit codes: 0 ready to start, 1 errors, 2 usage error. See docs/check.md.",
            ]
        ),
    )
    check.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    check.add_argument(
        "--world-size",
        type=positive,
        metavar="N",
        help="training processes to check for (default: what grpo_tui.launcher starts, else 1)",
    )
    add_overrides(check)
    add_trust(check)
    check.add_argument("--run-dir", type=path, help="run folder (default: output_dir, else outputs/CONFIG)")
    check.add_argument(
        "--quick", action="store_true", help="check only the config: no model, no data, no rewards"
    )
    check.add_argument(
        "--fix", action="store_true", help="fix wrong keys and values in the file first, and show the diff"
    )
    check.add_argument("--json", action="store_true", help="the documented JSON object")


def add_start_check(command: argparse.ArgumentParser) -> None:
    """Add the options of the check that runs before a start."""
    add_trust(command)
    command.add_argument(
        "--force",
        action="store_true",
        help="start despite the errors that the check found; the run's record notes it",
    )
    command.add_argument(
        "--quick-check",
        action="store_true",
        help="before the start check only the config, not model, data and rewards",
    )


def add_plan_commands(commands: Commands) -> None:
    """Add `plan` and `gpus`."""
    plan = commands.add_parser(
        "plan",
        help="what a config amounts to: prompts, steps, hours, checkpoints, memory; loads no model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            [
                "examples:",
                "  grpo-tui plan my.yaml",
                "  grpo-tui plan my.yaml --count",
                "  grpo-tui plan my.yaml --gpu 24GB --set use_peft=true",
                "  grpo-tui plan my.yaml --world-size 4 --gpu H100 --json",
                "See docs/plan.md.",
            ]
        ),
    )
    plan.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    plan.add_argument(
        "--world-size",
        type=positive,
        metavar="N",
        help="training processes (default: what grpo_tui.launcher starts, else 1)",
    )
    plan.add_argument(
        "--gpu",
        metavar="NAME|80GB",
        help="a card or an amount of memory to fit on (default: this machine's GPU)",
    )
    plan.add_argument("--rows", type=positive, metavar="N", help="number of training rows, if not counted")
    plan.add_argument(
        "--prompt-tokens", type=positive, metavar="N", help="tokens of the longest prompt (default 256)"
    )
    plan.add_argument(
        "--count", action="store_true", help="count rows, tokens and parameters first; takes seconds"
    )
    add_overrides(plan)
    add_trust(plan)
    plan.add_argument("--json", action="store_true", help="the documented JSON object")

    gpus = commands.add_parser(
        "gpus",
        help="the GPUs of this machine: free memory, and who uses the rest",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  grpo-tui gpus\n  grpo-tui train my.yaml --gpus 2",
    )
    gpus.add_argument("--json", action="store_true", help="the documented JSON object")


def add_placing(command: argparse.ArgumentParser) -> None:
    """Add the options for GPUs and for a trial."""
    command.add_argument(
        "--gpus", metavar="N,N", help="the GPUs to use, as numbered by `grpo-tui gpus` (or UUIDs)"
    )
    command.add_argument(
        "--smoke",
        action="store_true",
        help="a trial: two steps on the longest prompts, saved and reloaded, in a folder that is removed",
    )
    command.add_argument(
        "--drill",
        type=drill_list,
        metavar="NAMES",
        help="before a long run, try what can go wrong, each in a trial: hung-reward, kill, full-disk, nan, "
        "or all",
    )
    command.add_argument(
        "--keep", action="store_true", help="with --smoke or --drill: keep the folder of the trial"
    )
    command.add_argument("--json", action="store_true", help="with --drill: the results as JSON")


def add_data_command(commands: Commands) -> None:
    """Add `data`."""
    data = commands.add_parser(
        "data",
        help="the rows of a config as training will see them, and problems in them",
        epilog=(
            "Without an option: statistics of all rows. Exit codes: 0 ready to train, 1 errors, 2 usage "
            "error. See docs/config.md."
        ),
        formatter_class=argparse.HelpFormatter,
    )
    data.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config")
    which = data.add_mutually_exclusive_group()
    which.add_argument("--row", type=positive, metavar="N", help="row N of the source, from 1")
    which.add_argument("--search", metavar="TEXT", help="the first row that contains TEXT, and how many do")
    which.add_argument("--random", action="store_true", help="a random row")
    data.add_argument(
        "--no-rewards", action="store_true", help="with a row: do not score its reference answer"
    )
    add_time_limit(data)
    data.set_defaults(timeout=None)
    add_overrides(data)
    add_trust(data)
    data.add_argument("--json", action="store_true", help="facts and findings, or the row, as JSON")


def add_new_command(commands: Commands) -> None:
    """Add `new` with a subcommand for each kind of file."""
    new = commands.add_parser(
        "new", help="create a config from a preset, or a rewards file; --list shows the presets"
    )
    new.add_argument("--list", action="store_true", help="the presets: what each trains and on which GPU")
    kinds = new.add_subparsers(dest="kind", metavar="KIND")
    _new_config(kinds)
    _new_rewards(kinds)


def _new_config(kinds: Commands) -> None:
    config = kinds.add_parser(
        "config",
        help="a config copied from a preset, with its rewards and data files",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "examples:\n  grpo-tui new --list                                      the presets\n  "
            "grpo-tui new config trial/my.yaml --preset json_task     a copy, with json_rewards.py and "
            "data\n  grpo-tui check trial/my.yaml                             does it fit this "
            "machine?\nNothing is overwritten. See docs/config.md."
        ),
    )
    config.add_argument("file", type=path, metavar="FILE.yaml", help="the config to write; never overwritten")
    config.add_argument("--preset", metavar="NAME", help="see `grpo-tui new --list`")


def _new_rewards(kinds: Commands) -> None:
    rewards = kinds.add_parser(
        "rewards",
        help="a rewards file with one simple function; --next adds the next when these work",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "examples:\n  grpo-tui new rewards rewards.py                    correctness alone\n  grpo-tui "
            "new rewards rewards.py --config my.yaml   with the answer format and columns of a config\n  "
            "grpo-tui new rewards rewards.py --next             tests the existing ones, adds the next\n  "
            "grpo-tui new rewards rewards.py --next length      adds this one; known are correctness,\n     "
            "                                                format, partial, length, style\nExit codes: 0 "
            "written, 1 nothing added (something to fix first, or nothing missing), 2 usage error.\nSee "
            "docs/rewards.md."
        ),
    )
    rewards.add_argument("file", type=path, metavar="FILE.py", help="never overwritten; --next adds to it")
    rewards.add_argument(
        "--config", type=path, metavar="CONFIG", help="write them for this config's prompts and columns"
    )
    rewards.add_argument(
        "--write", action="store_true", help="also add it to CONFIG; only the lines of the rewards change"
    )
    rewards.add_argument(
        "--next", nargs="?", const="", metavar="NAME", help="add the next reward, or the one of this name"
    )
    add_time_limit(rewards)
    add_trust(rewards)
    rewards.set_defaults(timeout=None)


def add_export_command(commands: Commands) -> None:
    """Add `export`."""
    export = commands.add_parser(
        "export",
        help="a config as a train.py that needs only TRL, or a run as a bundle to train it again",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "examples:\n  grpo-tui export my.yaml                    print it\n  grpo-tui export my.yaml -o "
            "train.py        write it; nothing is overwritten\n  grpo-tui export runs/first -o train.py     "
            "what a run was started with\n  grpo-tui export runs/first --format config -o ended.yaml   "
            "what it ended with\n  grpo-tui export runs/first --format bundle -o first.zip      to train it "
            "again\nOnly a bundle copies rewards and data; the script refers to them by relative paths. See "
            "docs/config.md and docs/after-training.md."
        ),
    )
    export.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    export.add_argument(
        "--format",
        choices=("script", "config", "bundle"),
        default="script",
        help="script: a train.py, or one per stage; config: the config of a run with what was set while it "
        "trained; bundle: all that is needed to train a run again, as a folder or .zip",
    )
    export.add_argument(
        "-o",
        "--output",
        "--out",
        type=path,
        metavar="FILE",
        help="default: the terminal; for a bundle RUN-bundle, a folder",
    )
    export.add_argument(
        "--with-model", action="store_true", help="in a bundle: also a local base model above 3 MB"
    )
    export.add_argument(
        "--trust", action="store_true", help="a bundle of a run that you did not start on this machine"
    )
    add_overrides(export)
