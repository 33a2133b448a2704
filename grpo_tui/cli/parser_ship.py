"""The words of the commands for after training: checkpoints, merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_trust, path, positive

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


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
        help="of the merged weights (default: as the base is stored)",
    )
    add_trust(command)
    command.add_argument("--json", action="store_true", help="the documented JSON object")


def add_checkpoints_command(commands: Commands) -> None:
    """Add `checkpoints`."""
    command = commands.add_parser(
        "checkpoints",
        help="list the checkpoints of a run with size and reward, and delete some",
        epilog=(
            "A live run keeps its newest checkpoint. Exit codes: 0 done, 2 usage error, 3 the question was "
            "not answered with yes. See docs/after-training.md."
        ),
    )
    command.add_argument("run", type=path, metavar="RUN", help="run folder")
    command.add_argument(
        "--delete", type=positive, nargs="+", metavar="STEP", help="delete these checkpoints, after asking"
    )
    command.add_argument("--yes", action="store_true", help="delete without asking")
    command.add_argument("--json", action="store_true", help="the documented JSON object")
