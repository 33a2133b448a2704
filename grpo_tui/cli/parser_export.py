"""The words of `grpo-tui export`. Knows not what they do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import add_overrides, path

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands


def add_export_command(commands: Commands) -> None:
    """Add `export`."""
    export = commands.add_parser(
        "export",
        help="a config as a train.py that needs TRL alone",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  grpo-tui export my.yaml --format script                    prints it\n"
        "  grpo-tui export my.yaml --format script -o train.py        writes it; nothing is overwritten\n"
        "  grpo-tui export runs/first --format script -o train.py     what a run was started with\n"
        "Rewards and data stay where they are and are named from where the script lies. See docs/config.md.",
    )
    export.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config, or a run folder")
    export.add_argument("--format", choices=("script",), required=True, help="script: a train.py")
    export.add_argument("-o", "--output", type=path, metavar="FILE", help="default: the terminal")
    add_overrides(export)
