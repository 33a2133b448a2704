"""The words of `grpo-tui new`: files to begin with, a kind each. Knows not what they do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_time_limit, add_trust, path

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_new_command(commands: Commands) -> None:
    """Add `new` with a word for each kind of file."""
    new = commands.add_parser(
        "new", help="begin a file: a config from a preset, or rewards one at a time; --list shows the presets"
    )
    new.add_argument("--list", action="store_true", help="the presets: what each trains and on which GPU")
    kinds = new.add_subparsers(dest="kind", metavar="KIND")
    _config(kinds)
    _rewards(kinds)


def _config(kinds: Commands) -> None:
    config = kinds.add_parser(
        "config",
        help="a config copied from a preset, with its rewards and data beside it",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  grpo-tui new --list                                      the presets\n"
        "  grpo-tui new config trial/my.yaml --preset json_task     a copy, with json_rewards.py and data\n"
        "  grpo-tui check trial/my.yaml                             what this machine says to it\n"
        "Nothing is overwritten. See docs/config.md.",
    )
    config.add_argument("file", type=path, metavar="FILE.yaml", help="the config to write; never overwritten")
    config.add_argument("--preset", metavar="NAME", required=True, help="see `grpo-tui new --list`")


def _rewards(kinds: Commands) -> None:
    rewards = kinds.add_parser(
        "rewards",
        help="a rewards file with one simple function; --next adds one more when these work",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  grpo-tui new rewards rewards.py                    correctness alone\n"
        "  grpo-tui new rewards rewards.py --config my.yaml   in the form and with the columns of a config\n"
        "  grpo-tui new rewards rewards.py --next             tries what is there, adds what is missing\n"
        "  grpo-tui new rewards rewards.py --next length      adds this one; known are correctness,\n"
        "                                                     format, partial, length, style\n"
        "Exit 0: written; 1: --next found something to mend first, or nothing missing. See docs/rewards.md.",
    )
    rewards.add_argument("file", type=path, metavar="FILE.py", help="never overwritten; --next adds to it")
    rewards.add_argument(
        "--config", type=path, metavar="CONFIG", help="whose prompts and columns they are for"
    )
    rewards.add_argument(
        "--write", action="store_true", help="name it in CONFIG too; only the lines of the rewards change"
    )
    rewards.add_argument(
        "--next", nargs="?", const="", metavar="NAME", help="add the next reward, or the one of this name"
    )
    add_time_limit(rewards)
    add_trust(rewards)
    rewards.set_defaults(timeout=None)
