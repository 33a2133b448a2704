"""Arguments of the commands for finished runs, from compare, chat and seeds to reproduce."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, add_time_limit, add_trust, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_compare_command(commands: Commands) -> None:
    """Add `compare`."""
    compare = commands.add_parser(
        "compare",
        help="is the trained model better than the base model, by how much, and on what",
        epilog=(
            "Exit codes: 0 better or not shown, 1 worse, 2 usage error or failure, 3 code to confirm first, "
            "130 interrupted. See docs/after-training.md."
        ),
    )
    compare.add_argument(
        "policies",
        nargs="+",
        metavar="POLICY",
        help="base, RUN, RUN@STEP, a model folder or an adapter folder; the first is what the others are "
        "compared with, and one alone is compared with base",
    )
    compare.add_argument(
        "--config",
        type=path,
        metavar="CONFIG_OR_RUN",
        help="where data, rewards and sampling settings come from (default: the first run named)",
    )
    compare.add_argument("--rows", type=positive, default=100, metavar="N", help="prompts (default 100)")
    compare.add_argument(
        "--samples", type=positive, default=4, metavar="N", help="completions per prompt (default 4)"
    )
    rows = compare.add_mutually_exclusive_group()
    rows.add_argument(
        "--held",
        action="store_true",
        help="fail instead of using training rows when no row is held out",
    )
    rows.add_argument(
        "--prompts", type=path, metavar="FILE", help="rows of another file, mapped as the config's dataset"
    )
    compare.add_argument(
        "--correct",
        metavar="NAME[>=X]",
        help="the reward that decides what is right, and its lowest passing score",
    )
    compare.add_argument(
        "--seed", type=int, metavar="S", help="seed of rows and sampling (default: the config's)"
    )
    add_time_limit(compare)
    add_overrides(compare)
    add_trust(compare)
    compare.add_argument("--json", action="store_true", help="the documented JSON object")
    compare.add_argument("--progress", action="store_true", help=argparse.SUPPRESS)  # for the screen


def add_race_command(commands: Commands) -> None:
    """Add `race`."""
    command = commands.add_parser(
        "race",
        help="continue one checkpoint with different settings for some steps: which change helps",
        epilog=(
            "Each branch is a fork in RUN-STEP-NAME with the schedule of the whole run, so it can go on. "
            "The same command continues a race. Exit codes: 0 better or not shown, 1 a branch is worse than "
            "the control, 2 usage error or failure, 3 code to confirm first or a branch was stopped, 130 "
            "interrupted. See docs/after-training.md."
        ),
    )
    command.add_argument(
        "checkpoint", metavar="RUN[@STEP]", help="where the branches start (default: the newest checkpoint)"
    )
    command.add_argument(
        "--steps", type=positive, required=True, metavar="N", help="optimizer steps of each branch"
    )
    command.add_argument(
        "--branch",
        action="append",
        default=[],
        metavar="'[NAME:] K=V …'",
        help="settings of one branch, with optimizer=new to empty the optimizer; repeat it for others",
    )
    command.add_argument(
        "--branches", type=path, metavar="FILE", help="YAML file that maps names of branches to settings"
    )
    command.add_argument(
        "--no-control", action="store_true", help="no unchanged branch: compare with the checkpoint instead"
    )
    command.add_argument("--rows", type=positive, default=100, metavar="N", help="prompts (default 100)")
    command.add_argument(
        "--samples", type=positive, default=4, metavar="N", help="completions per prompt (default 4)"
    )
    command.add_argument("--correct", metavar="NAME[>=X]", help="as in compare")
    command.add_argument("--gpus", metavar="N,N", help="train one branch on each of these GPUs")
    command.add_argument("--detach", action="store_true", help="start in the background, with a log file")
    add_time_limit(command)
    add_trust(command)
    command.add_argument("--json", action="store_true", help="the documented JSON object")


def add_seeds_command(commands: Commands) -> None:
    """Add `seeds`."""
    command = commands.add_parser(
        "seeds",
        help="compare sets of runs that differ only by seed: is a difference more than seed noise",
        epilog=(
            "The first run names the set that the others are compared with. Exit codes: 0 better or within "
            "seed noise, 1 worse, 2 usage error. See docs/after-training.md."
        ),
    )
    command.add_argument("runs", type=path, nargs="+", metavar="RUN", help="run folders")
    command.add_argument("--json", action="store_true", help="the documented JSON object")


def add_chat_command(commands: Commands) -> None:
    """Add `chat`."""
    chat = commands.add_parser(
        "chat",
        help="chat with a base model, a run or a checkpoint, or with two of them side by side",
        epilog=(
            "In a terminal, ctrl+c stops an answer, ctrl+d ends the chat, and /help lists the commands. "
            "Otherwise every line of stdin is a separate prompt. Exit codes: 0 done, 2 usage error "
            "or failure, 3 code to confirm first, 130 interrupted. See docs/after-training.md."
        ),
    )
    chat.add_argument(
        "policy",
        metavar="POLICY",
        help="base, RUN, RUN@STEP, RUN@live while it trains, a model folder or an adapter folder",
    )
    chat.add_argument("--with", metavar="POLICY", dest="beside", help="ask a second model the same prompts")
    chat.add_argument(
        "--config",
        type=path,
        metavar="CONFIG_OR_RUN",
        help="where system prompt, rewards and sampling settings come from (default: the first run named)",
    )
    chat.add_argument("--prompt", metavar="TEXT", help="ask this prompt and exit")
    chat.add_argument("--seed", type=int, metavar="S", help="seed of every answer (default: the config's)")
    add_time_limit(chat)
    add_overrides(chat)
    add_trust(chat)
    chat.add_argument("--json", action="store_true", help="the documented JSON object, one per prompt")
    chat.add_argument("--events", action="store_true", help=argparse.SUPPRESS)  # for the screen


def add_merge_command(commands: Commands) -> None:
    """Add `merge`."""
    command = commands.add_parser(
        "merge",
        help="merge a LoRA adapter into its base model, and check the result",
        epilog=(
            "Exit codes: 0 merged, 1 the merged model answers differently and was not kept, 2 usage error. "
            "See docs/after-training.md."
        ),
    )
    command.add_argument(
        "policy", metavar="RUN[@STEP]|ADAPTER", help="a run, one of its checkpoints, or an adapter's folder"
    )
    command.add_argument("destination", type=path, metavar="DEST", help="a new or empty folder")
    command.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="dtype of the merged weights (default: as the base is stored)",
    )
    add_trust(command)
    command.add_argument("--json", action="store_true", help="the documented JSON object")


def add_push_command(commands: Commands) -> None:
    """Add `push`."""
    command = commands.add_parser(
        "push",
        help="upload a model with its card to the Hugging Face Hub, after showing the files",
        epilog=(
            "Uploads only the files that a model needs. Exit codes: 0 done, 2 usage error or failure, "
            "3 not confirmed. See docs/after-training.md."
        ),
    )
    command.add_argument(
        "policy", metavar="MODEL", help="a run, RUN@STEP, or the folder of a model or an adapter"
    )
    command.add_argument("repo", metavar="REPO", help="OWNER/NAME on the Hub")
    command.add_argument("--private", action="store_true", help="create a private repository")
    command.add_argument("--update", action="store_true", help="add a commit to an existing repository")
    command.add_argument("--dry-run", action="store_true", help="list what would be uploaded, and exit")
    command.add_argument("--yes", action="store_true", help="upload without asking")
    command.add_argument("--json", action="store_true", help="the documented JSON object")


def add_checkpoints_command(commands: Commands) -> None:
    """Add `checkpoints`."""
    command = commands.add_parser(
        "checkpoints",
        help="list the checkpoints of a run with size and reward, and delete some",
        epilog=(
            "A live run keeps its newest checkpoint. Exit codes: 0 done, 2 usage error, 3 not "
            "confirmed. See docs/after-training.md."
        ),
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder")
    command.add_argument(
        "--delete", type=positive, nargs="+", metavar="STEP", help="delete these checkpoints, after asking"
    )
    command.add_argument("--yes", action="store_true", help="delete without asking")
    command.add_argument("--json", action="store_true", help="the documented JSON object")


def add_card_command(commands: Commands) -> None:
    """Add `card`."""
    command = commands.add_parser(
        "card",
        help="print a model card of a run from its record",
        epilog="No existing file is overwritten. See docs/after-training.md.",
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder")
    where = command.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=path, metavar="FILE", help="write to a new file")
    where.add_argument(
        "--write", action="store_true", help="write the run's README.md, replacing the one that TRL wrote"
    )


def add_report_command(commands: Commands) -> None:
    """Add `report`."""
    command = commands.add_parser(
        "report",
        help="one run or several in one file: results, settings that differ, charts",
        epilog="No existing file is overwritten. See docs/after-training.md.",
    )
    command.add_argument("runs", type=path, nargs="+", metavar="RUN", help="run folders")
    command.add_argument(
        "--format", choices=("md", "html"), help="of the text (default: html for FILE.html, else md)"
    )
    command.add_argument("-o", "--output", type=path, metavar="FILE", help="write to a new file")


def add_reproduce_command(commands: Commands) -> None:
    """Add `reproduce`."""
    command = commands.add_parser(
        "reproduce",
        help="train the run of a bundle again, and compare its values",
        epilog=(
            "A zip file is unpacked beside itself. Exit codes: 0 trained (with --verify: equal), 1 differs, "
            "2 usage error or failure, 3 code to confirm first, 130 interrupted. See docs/after-training.md."
        ),
    )
    command.add_argument(
        "bundle", type=path, metavar="BUNDLE", help="folder or .zip of `export --format bundle`"
    )
    command.add_argument(
        "--run-dir", type=path, help="run folder (default: outputs/NAME-reproduced, or the next free name)"
    )
    command.add_argument(
        "--verify", action="store_true", help="compare the logged values with those of the bundle"
    )
    command.add_argument(
        "--steps", type=positive, metavar="N", help="stop after N steps, with the schedule of the whole run"
    )
    add_trust(command)
