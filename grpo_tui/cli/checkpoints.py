"""`grpo-tui checkpoints`: list and delete a run's checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, REFUSED, CommandError
from grpo_tui.cli.look import run_folder
from grpo_tui.cli.plain import print_json, print_text
from grpo_tui.cli.words import refuse_unused
from grpo_tui.present.checkpoint_list import CheckpointList, lines, list_checkpoints
from grpo_tui.present.formatting import plural, size
from grpo_tui.store.checkpoints import remove


def checkpoints(parsed: Any) -> int:
    """`grpo-tui checkpoints RUN [--delete STEP… [--yes]] [--json]`."""
    if not parsed.delete:
        refuse_unused(parsed, "without --delete", "--yes")
    root = run_folder(parsed.run)
    found = list_checkpoints(root)
    steps = sorted(set(parsed.delete or ()))
    if steps:
        _delete(found, steps, yes=parsed.yes)
        found = list_checkpoints(root)
    if parsed.json:
        print_json({**found.to_json(), "deleted": steps})
    else:
        print_text(lines(found))
    return OK


def _delete(found: CheckpointList, steps: list[int], *, yes: bool) -> None:
    if kept := found.kept_from_deletion(steps):
        raise CommandError(f"nothing was deleted: {kept}")
    chosen = [one for one in found.checkpoints if one.step in steps]
    if not yes:
        _ask(found, steps, sum(one.size_bytes for one in chosen))
    for one in chosen:
        if kept := list_checkpoints(Path(found.run)).kept_from_deletion([one.step]):
            raise CommandError(f"not deleted: {kept}")  # the run may have continued during the question
        remove(Path(one.path))


def _ask(found: CheckpointList, steps: list[int], size_bytes: int) -> None:
    """Return if the user confirms, else raise CommandError."""
    named = ", ".join(map(str, steps))
    what = f"{plural(len(steps), 'checkpoint')} of {found.run} (step {named}; {size(size_bytes)})"
    if not sys.stdin.isatty():
        raise CommandError(f"add --yes to delete {what}")
    if not any(one.complete and one.step not in steps for one in found.checkpoints):
        print("No complete checkpoint will be left to resume from.", file=sys.stderr)
    print(f"Delete {what}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was deleted", REFUSED)
