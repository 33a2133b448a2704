"""What the rules say of rlprobe's synthetic runs, beside what rlprobe says of them.

    pip install --target /tmp/rlprobe rlprobe
    PYTHONPATH=/tmp/rlprobe python benchmarks/beside_rlprobe.py [--steps 500] [--into FOLDER]

rlprobe makes one run for each of its 14 faults and a healthy one, with scalars for every step and a selection
of made-up completions. Both tools read the same files. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import closing
from importlib import import_module
from pathlib import Path

from grpo_tui.health.reading import diagnose
from grpo_tui.store.importers.copies import open_copy, source_at
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader


def ours(folder: Path) -> list[str]:
    """Return the findings of a recording, as id and first step; of those that have ended too."""
    source = source_at(folder)
    assert source is not None
    with closing(RunReader(RunFolder(open_copy(source)).database)) as reader:
        found = diagnose(reader).findings
    return [f"`{one.id}` ({one.first_step})" for one in found]


def main() -> None:
    """Make the runs, judge them, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--into", type=Path, help="keep the recordings here")
    given = parser.parse_args()
    theirs = import_module("rlprobe.doctor").diagnose
    made = import_module("rlprobe.testing.synth")
    into = given.into or Path(tempfile.mkdtemp(prefix="grpo-tui-rlprobe-"))
    os.environ.setdefault("GRPO_TUI_CACHE_DIR", str(into / "cache"))
    print("| Run | rlprobe | grpo-tui (first step) |", "|---|---|---|", sep="\n")
    for name in (None, *made.PATHOLOGIES):
        folder = into / (name or "healthy")
        if not folder.exists():
            made.generate_run(folder, name, n_steps=given.steps)
        named = dict.fromkeys(f"`{one.signature_id}`" for one in theirs(folder))
        print(f"| `{folder.name}` | {', '.join(named) or 'none'} | {', '.join(ours(folder)) or 'none'} |")


if __name__ == "__main__":
    main()
