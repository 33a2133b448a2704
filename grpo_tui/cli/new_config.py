"""`grpo-tui new config FILE.yaml --preset NAME` and `grpo-tui new --list`: begin with a shipped config.

Knows the command's words and prints; what a preset is and which files go with it is `config.presets`'s.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.config.meant import nearest
from grpo_tui.config.presets import PresetError, copy_preset, presets
from grpo_tui.core.text import shell_word

_WIDTH = 110


def list_presets() -> int:
    """`grpo-tui new --list`."""
    found = presets()
    indent = max(len(preset.name) for preset in found) + 2
    for preset in found:
        print(f"{preset.name:{indent}}" + _folded(preset.title, indent))
        print(" " * indent + _folded(re.split(r"[.:] ", preset.gpu)[0].rstrip("."), indent))
    print("\nA copy of one:  grpo-tui new config FILE.yaml --preset NAME")
    return OK


def new_config(parsed: Any) -> int:
    """`grpo-tui new config FILE.yaml --preset NAME`: exit 2 when something is in its way."""
    target: Path = parsed.file
    if target.suffix not in (".yaml", ".yml"):
        raise CommandError(f"{target}: a config is YAML; call it {target.with_suffix('.yaml')}")
    known = {preset.name: preset for preset in presets()}
    preset = known.get(parsed.preset)
    if preset is None:
        near = nearest(parsed.preset, known)
        hint = f"did you mean {near}?" if near else "`grpo-tui new --list` shows them"
        raise CommandError(f"there is no preset {parsed.preset}; {hint}")
    try:
        written = copy_preset(preset, target)
    except PresetError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error
    print(f"{written[0]}: a copy of {preset.name}" + "".join(f"\n{place}" for place in written[1:]))
    for label, text in (("Needs", preset.needs), ("Hardware", preset.gpu), ("Expect", preset.expects)):
        print(f"\n{label:10}" + _folded(text, 10))
    print(f"\nCheck it:  grpo-tui check {shell_word(target)}")
    print(f"Start it:  grpo-tui train {shell_word(target)}")
    return OK


def _folded(text: str, indent: int) -> str:
    lines = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines)
