"""`grpo-tui doctor`: what is wrong with a run, since when, in which completions, and what helps."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from grpo_tui.cli.errors import FAILED, OK
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_text, terminal_width
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.findings import SEVERITIES, Finding
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.health.reading import Diagnosis, diagnose
from grpo_tui.health.remedies import with_tried
from grpo_tui.present.formatting import from_here, plural
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_health import with_checkpoint
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import Status, read_status

WIDEST = 110


def doctor(parsed: Any) -> int:
    """`grpo-tui doctor RUN [--json] [--gate error|warning]`. Exit 1 when a finding reaches the gate.

    `--audit` lists completions to read instead.
    `--apply ID [--next] [-o FILE] [--because TEXT] [--wait S]` applies the remedies of a finding instead.
    """
    if parsed.audit:
        from grpo_tui.cli.audit import audit

        refuse_unused(parsed, "with --audit", "--apply", "--gate")
        return audit(parsed)
    if parsed.apply is None:
        refuse_unused(parsed, "without --apply", "--next", "--output", "--because", "--wait")
    else:
        refuse_unused(parsed, "with --apply", "--json", "--gate")
    root = readable_folder(parsed.run)
    with closing(RunReader(RunFolder(root).database)) as reader:
        found, look = diagnose(reader), read_status(root, reader)
        complete = [one.step for one in look.checkpoints if one.complete]
        told = (with_checkpoint(reader, one, complete) for one in with_tried(reader, found.findings))
        found = replace(found, findings=(*_ended_badly(look), *told))
    if parsed.apply is not None:
        from grpo_tui.cli.doctor_apply import apply

        return apply(parsed, root, found.findings)
    if parsed.json:
        print_json(
            {"findings": [finding.to_alert() for finding in found.findings]}, ascii_only=True, indent=1
        )
    else:
        print_text(_lines(found, shell_word(from_here(parsed.run)), min(terminal_width(), WIDEST)))
    gate = SEVERITIES.index(parsed.gate or "error")
    return FAILED if any(SEVERITIES.index(one.severity) <= gate for one in found.findings) else OK


def _ended_badly(status: Status) -> Iterator[Finding]:
    """Yield a finding for a run that failed, which takes precedence over its metrics."""
    if status.state in ("failed", "crashed"):
        error = status.error or {}
        cause = error.get("cause") or error.get("message") or "its process left no message"
        message = f"The run {status.state}: {cause}"
        yield Finding("run.failed", "error", None, None, message, None, status.step, status.step)


def _lines(found: Diagnosis, run: str, width: int) -> Iterator[str]:
    for finding in found.findings:
        yield from finding_lines(finding, run, width)
        yield ""
    if found.unknown:
        yield f"not recorded, so not judged: {', '.join(found.unknown)}"
    if found.off:
        yield f"turned off by the config: {', '.join(found.off)}"
    counts = {one: sum(finding.severity == one for finding in found.findings) for one in SEVERITIES}
    quiet = "no errors or warnings" if found.findings else "no findings"
    told = ", ".join(plural(count, word) for word, count in counts.items() if count and word != "info")
    yield f"{plural(found.steps, 'step')}: {told or quiet}"


def finding_lines(finding: Finding, run: str, width: int) -> Iterator[str]:
    """Yield a finding, its remedies, and the command that lists its completions."""
    first, last = finding.first_step, finding.last_step
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    said = one_line(f"{finding.severity}: {steps}: {finding.message} [{finding.id}]")
    yield from textwrap.wrap(said, width, subsequent_indent="  ")
    for remedy in finding.remedies:
        yield from textwrap.wrap(
            one_line(f"fix: {remedy.text}"), width, initial_indent="  ", subsequent_indent="       "
        )
    if "completions" in finding.evidence:
        where = shell_word(str(finding.evidence["completions"]))
        yield f"  see: grpo-tui completions {run} --where {one_line(where)}"
