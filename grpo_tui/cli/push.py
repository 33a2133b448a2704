"""`grpo-tui push`: upload a model to the Hugging Face Hub."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from grpo_tui.cli.errors import OK, REFUSED, CommandError, reported
from grpo_tui.cli.plain import print_json, print_text
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import from_here, plural, size
from grpo_tui.ship.policies import PolicyError, resolve
from grpo_tui.ship.push import PushError, Upload, plan, upload

CARDS = {
    "file": "README.md in the folder",
    "record": "made from the record of the run",
    "": "none. A run has one: `grpo-tui card RUN`",
}


def push(parsed: Any) -> int:
    """`grpo-tui push MODEL REPO [--private] [--update] [--dry-run | --yes] [--json]`."""
    if parsed.dry_run:
        refuse_unused(parsed, "with --dry-run", "--yes", "--update")
    with reported(PolicyError, PushError):
        planned = plan(resolve(parsed.policy), parsed.repo, private=parsed.private)
    if not parsed.json:
        print_text(_lines(planned))
    url = None
    if not parsed.dry_run:
        if not parsed.yes:
            _ask(planned)
        with reported(PushError):
            url = upload(planned, update=parsed.update)
    if parsed.json:
        print_json(_json(planned, url))
    else:
        print("Nothing was uploaded" if url is None else f"uploaded: {one_line(url)}")
    return OK


def _lines(planned: Upload) -> Iterator[str]:
    yield f"from    {from_here(planned.folder)}"
    yield f"to      {planned.repo} ({'private' if planned.private else 'public'})"
    yield f"card    {CARDS[planned.card]}"
    yield f"files   {plural(len(planned.files), 'file')}, {size(planned.size_bytes)}"
    for file in planned.files:
        yield f"  {size(file.size_bytes):>8}  {one_line(file.name)}"
    if planned.left_out:
        yield "left out"
        for one in planned.left_out:
            yield f"            {one_line(one.name)} ({one.why})"


def _ask(planned: Upload) -> None:
    """Return if the user confirms, else raise CommandError."""
    what = f"{plural(len(planned.files), 'file')} to {planned.repo}"
    if not sys.stdin.isatty():
        raise CommandError(f"stdin is not a terminal, so you cannot be asked. Add --yes to upload {what}")
    who = "only you and its members can see" if planned.private else "everyone can see"
    print(f"Upload {what}, which {who}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was uploaded", REFUSED)


def _json(planned: Upload, url: str | None) -> dict[str, Any]:
    return {
        "folder": str(planned.folder),
        "repo": planned.repo,
        "private": planned.private,
        "card": planned.card or None,
        "files": [{"name": file.name, "size_bytes": file.size_bytes} for file in planned.files],
        "left_out": [{"name": one.name, "why": one.why} for one in planned.left_out],
        "size_bytes": planned.size_bytes,
        "url": url,
    }
