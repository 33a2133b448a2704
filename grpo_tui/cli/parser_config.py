"""The words of `grpo-tui config`: what a config says, how two differ, and single keys set. Runs nothing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grpo_tui.cli.words import path

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands

_SIDES = """\
A and B are config files, run folders, names of presets as preset:gsm8k, or the word `defaults`. Without B,
A is compared with the preset it came from, else with TRL's defaults. Exit 0 when nothing differs, 1 when
something does.

examples:
  grpo-tui config diff my.yaml                      against its preset, or the defaults
  grpo-tui config diff my.yaml outputs/first        against what a run was started with
  grpo-tui config diff my.yaml preset:gsm8k --text  line by line"""

_FIELDS = """\
examples:
  grpo-tui config fields                 the few that matter, by group
  grpo-tui config fields loss_type       one field: help, advice, every choice explained
  grpo-tui config fields clip            all that have to do with clipping
  grpo-tui config fields --config my.yaml batch   with the values of a file, and where each came from"""

_SET = """\
Only the lines of these keys change; comments, order and quoting of the file stay. `K=` removes a key. Values
are read as their field's type; when one does not fit, nothing is written.

examples:
  grpo-tui config set my.yaml learning_rate=5e-6 max_steps=300
  grpo-tui config set my.yaml grpo_tui.rewards.0.weight=1.5 beta=
  grpo-tui config set my.yaml use_peft=true --dry-run"""


def add_config_command(commands: Commands) -> None:
    """Add `config` with its words."""
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
        help="what differs between two configs, by what a start would use",
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
    fields.add_argument("words", metavar="WORDS", nargs="*", help="all have to be found")
    fields.add_argument("--all", action="store_true", help="every field, not only those that matter")
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
