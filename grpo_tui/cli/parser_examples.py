"""Lines to begin with at the end of a command's help, for the commands whose parsers bring none.

Each line is parsed by a test. Knows the words of the commands; knows nothing of what a command does.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_tui.cli.words import Commands

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("grpo-tui demo", "grpo-tui demo --fault first-digit --steps 40"),
    "train": (
        "grpo-tui train my.yaml",
        "grpo-tui train my.yaml --set learning_rate=2.0e-6 --set max_steps=50",
        "grpo-tui train my.yaml --smoke                     two steps, saved and reloaded, as a trial",
        "grpo-tui train runs/first --resume --detach        goes on from the newest complete checkpoint",
    ),
    "attach": ("grpo-tui attach runs/first",),
    "runs": ("grpo-tui runs", "grpo-tui runs experiments --filter 'state:failed step>=100'"),
    "status": ("grpo-tui status runs/first", "grpo-tui status runs/first --json"),
    "log": ("grpo-tui log runs/first --level warning", "grpo-tui log runs/first --search nan --tail 20"),
    "metrics": (
        "grpo-tui metrics runs/first runs/second",
        "grpo-tui metrics runs/first --keys 'reward,rewards/*/mean' --format csv",
        "grpo-tui metrics --explain clip_ratio/high_mean",
    ),
    "course": ("grpo-tui course runs/first", "grpo-tui course runs/first --prompt 313"),
    "pause": ("grpo-tui pause runs/first",),
    "resume": ("grpo-tui resume runs/first",),
    "checkpoint": ("grpo-tui checkpoint runs/first",),
    "abort-reward": ("grpo-tui abort-reward runs/first",),
    "stop": ("grpo-tui stop runs/first", "grpo-tui stop runs/first --now"),
    "set": ("grpo-tui set runs/first learning_rate=2e-6 temperature=0.9",),
    "sample": ("grpo-tui sample runs/first 'What is 7 + 15?' --count 2",),
    "data": ("grpo-tui data my.yaml", "grpo-tui data my.yaml --search fraction"),
    "score": (
        "grpo-tui score my.yaml --rows 8                     gold answer and a wrong one of 8 rows",
        "grpo-tui score rewards.py:correct --samples samples.jsonl",
        "grpo-tui score my.yaml --run runs/first --where 'reward<1 and truncated'",
    ),
    "baseline": ("grpo-tui baseline my.yaml --rows 32",),
    "probe": ("grpo-tui probe rewards.py:correct --show", "grpo-tui probe my.yaml"),
    "cases": ("grpo-tui cases run my.cases.yaml",),
    "rewards": ("grpo-tui rewards my.yaml", "grpo-tui rewards rewards.py:correct --samples samples.jsonl"),
    "whatif": (
        "grpo-tui whatif runs/first",
        "grpo-tui whatif runs/first better.py:correct --where 'step>100 and all_wrong'",
        "grpo-tui whatif runs/first --recorded --weights 2,1,0.5",
    ),
    "new": ("grpo-tui new --list", "grpo-tui new rewards rewards.py"),
    "config": ("grpo-tui config fields loss_type", "grpo-tui config set my.yaml learning_rate=5e-6"),
}
"""By command."""


def add_examples(commands: Commands) -> None:
    """Put each command's lines behind what its help ends with."""
    for name, lines in EXAMPLES.items():
        command = commands.choices[name]
        said = command.epilog or ""
        if said and command.formatter_class is argparse.HelpFormatter:
            said = textwrap.fill(said, 100)
        examples = "\n".join(["examples:", *(f"  {line}" for line in lines)])
        command.epilog = f"{examples}\n{said}" if said else examples
        command.formatter_class = argparse.RawDescriptionHelpFormatter
