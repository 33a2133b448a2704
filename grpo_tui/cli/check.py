"""`grpo-tui check`, and the check before a start."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import print_json, show_progress, terminal_width
from grpo_tui.cli.saved_run import launcher_of_run, launcher_words, own_world_size, saved_run, world_size
from grpo_tui.cli.words import sets
from grpo_tui.config.plan.memory import WORDS
from grpo_tui.config.resolve import Inspected, inspect_config, inspect_saved
from grpo_tui.config.trl_fields import FieldsUnavailableError
from grpo_tui.config.yaml_edit_values import inline
from grpo_tui.core.findings import Finding, errors_of
from grpo_tui.core.text import one_line, safe
from grpo_tui.preflight.report import PARTS, ChecklistItem, Preflight
from grpo_tui.preflight.static import Launch
from grpo_tui.present.formatting import plural, size
from grpo_tui.rewards.consent import NOT_RUN

_MARKS = {"yes": "✓", "warning": "⚠", "no": "✗", "idle": "·"}
_PLAIN_MARKS = {"yes": "+", "warning": "!", "no": "x", "idle": "-"}
WIDEST = 110


def check(parsed: Any) -> int:
    """`grpo-tui check CONFIG [--json] [--world-size N] [--set K=V]`."""
    from grpo_tui.preflight import run

    inspected, start = _wanted(parsed)
    if parsed.fix and _fix(parsed.config, inspected, start, sys.stderr if parsed.json else sys.stdout):
        inspected, start = _wanted(parsed)
    parts = run.QUICK if parsed.quick else PARTS
    with reported(FieldsUnavailableError):
        result = run.check(inspected, start, progress=show_progress, parts=parts)
    show_progress("")
    if parsed.json:
        print_json(result.to_json())
    else:
        for line in lines(result, parsed.config, min(terminal_width(), WIDEST)):
            print(line)
    return OK if result.ok else FAILED


FIX_ROUNDS = 4
"""A fix can reveal another mistake, so check and fix repeat up to this often."""


def _fix(path: Path, inspected: Inspected, start: Launch, out: TextIO) -> bool:
    """Fix the mistakes in a config file and print the diff. Return whether the file changed."""
    import difflib

    from grpo_tui.config.draft import Draft
    from grpo_tui.config.draft_file import DraftFileError
    from grpo_tui.config.yaml_edit import EditError
    from grpo_tui.preflight.static import static_check

    if path.is_dir():
        raise CommandError("--fix changes a config file, and this is a run: name its config")
    with reported(DraftFileError, EditError):
        draft = Draft.open(path, world_size=inspected.settings.world_size)
        before = draft.text
        for _ in range(FIX_ROUNDS):
            if draft.problem is not None or not draft.apply_all(
                static_check(draft.inspected, start).findings
            ):
                break
        if not draft.edited:
            return False
        draft.save()
    name = one_line(str(path), 100)
    lines_before, lines_now = before.splitlines(), draft.text.splitlines()
    for line in difflib.unified_diff(lines_before, lines_now, name, f"{name}, fixed", lineterm=""):
        print(safe(line), file=out)
    print(file=out)
    return True


def _wanted(parsed: Any) -> tuple[Inspected, Launch]:
    path: Path = parsed.config
    if path.is_dir():  # as `train RUN --resume` would use it
        folder, spec, saved = saved_run(path)
        words = launcher_of_run(spec, saved, parsed.overrides)
        size = parsed.world_size or world_size(words)
        root = parsed.run_dir or (None if sets(parsed.overrides, "output_dir") else folder.root)
        inspected = inspect_saved(saved, parsed.overrides, world_size=size)
        return inspected, Launch(words, root, resume=root == folder.root)
    if not path.is_file():
        raise CommandError(f"{path}: no such file")
    if parsed.world_size is not None:
        inspected = inspect_config(path, parsed.overrides, world_size=parsed.world_size)
        return inspected, Launch(root=parsed.run_dir)
    inspected = inspect_config(path, parsed.overrides, world_size=own_world_size)
    return inspected, Launch(launcher_words(inspected.settings.section.launcher), parsed.run_dir)


def before_start(
    inspected: Inspected,
    start: Launch,
    path: Path,
    *,
    quick: bool,
    force: bool,
    told: Sequence[Finding] = (),
) -> tuple[str, ...]:
    """Check a config before its start, print findings to stderr, and return the overridden errors.

    Args:
        path: The config or run as the user named it.
        quick: Skip model, data and rewards.
        told: Findings that were already printed.
    """
    from grpo_tui.preflight import run

    result = run.check(inspected, start, progress=show_progress, parts=run.QUICK if quick else run.PARTS)
    show_progress("")
    known = {(finding.id, finding.message) for finding in told}
    refused = errors_of(result.findings)
    new = [f for f in result.findings if f.severity != "info" and (f.id, f.message) not in known]
    width = min(terminal_width(), WIDEST)
    if refused and not force:
        said = [line for finding in refused for line in finding_lines(finding, path, width)]
        head = f"{plural(len(refused), 'error')} to fix before the run can start"
        if result.can_be_forced:
            head += ". --force starts anyway and notes it in the run's record"
        raise CommandError("\n".join([head, *said]))
    for finding in new:
        for line in finding_lines(finding, path, width):
            print(line, file=sys.stderr)
    return tuple(f"{finding.id}: {one_line(finding.message, 300)}" for finding in refused)


def lines(result: Preflight, path: Path, width: int) -> list[str]:
    """Return a result as lines: findings, plan, checklist, advice, notes, verdict."""
    said: list[str] = []
    for finding in result.findings:
        said += finding_lines(finding, path, width)
    if result.plan is not None:
        said += ["", *_plan_lines(result.plan)]
    if result.checklist:
        said += ["", "before training"]
        for item in result.checklist:
            said += _item_lines(item, result.findings, width)
    if result.advice:
        said += ["", "advice"]
        for finding in result.advice:
            said += _wrapped(f"{safe(finding.message)}{_fix_words(finding)}", width, "  ")
    for note in result.notes:
        said += ["", safe(note)]
    if any(finding.id == NOT_RUN for finding in result.findings):
        said += ["", "--trust runs that code, and asks again only after it changes."]
    said += ["", verdict(result)]
    return said[1:] if said[0] == "" else said


def finding_lines(finding: Finding, path: Path, width: int) -> list[str]:
    """Return a finding as lines: severity, place and message, then the fix."""
    place = path.name if finding.line is None else f"{path.name}:{finding.line}"
    text = f"{finding.severity}: {one_line(place, 60)}: {safe(finding.message)}"
    found = _wrapped(text, width, "")
    fix = _fix_words(finding, arrow="")
    if fix:
        found.append(f"  fix: {fix}")
    return found


def _fix_words(finding: Finding, arrow: str = "; ") -> str:
    if finding.fix is None:
        return ""
    if finding.fix.value is None:
        return f"{arrow}remove {one_line(finding.fix.field, 80)}"
    return f"{arrow}{one_line(finding.fix.field, 80)}: {one_line(inline(finding.fix.value), 120)}"


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    found: list[str] = []
    for part in text.splitlines() or [""]:
        found += textwrap.wrap(
            part, max(40, width), initial_indent=indent, subsequent_indent=indent + "  ",
            break_long_words=False, break_on_hyphens=False,
        ) or [""]  # fmt: skip
    return found


def _item_lines(item: ChecklistItem, findings: Sequence[Finding], width: int) -> list[str]:
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    marks = _MARKS if encoding.startswith("utf") else _PLAIN_MARKS
    return _wrapped(f"{marks[item.mark]} {item.text}: {safe(item.evidence_beside(findings))}", width, "  ")


def _plan_lines(plan: Any) -> list[str]:
    steps = plan.get("total_steps")
    batch, prompts = plan["generation_batch_size"], plan["prompts_per_step"]
    counts = f"{plan['completions_per_step']} completions a step, {prompts:g} prompt{'s' * (prompts != 1)}"
    counts += f"; {batch} generated at once"
    length = plural(steps, "step") if steps is not None else "steps: unknown without the data"
    precision = f"{plan['dtype']} weights" + (
        f", {plan['autocast']} autocast" if plan.get("autocast") else ""
    )
    said = [f"plan  {counts}", f"      {length}, {precision}"]
    memory = plan.get("memory")
    if memory is not None:
        device = memory.get("device")
        where = f" of {size(device['memory_bytes'])} ({one_line(device['name'], 40)})" if device else ""
        if device and device["held_by"]:
            where += f", {size(device['free_bytes'])} of it free,"
        moment = WORDS[memory["peak_moment"]]
        said.append(f"      about {size(memory['peak_bytes'])}{where} at the peak, {moment}")
    duration = plan.get("duration")
    if duration is not None and duration.get("total_s") is not None:
        from grpo_tui.present.formatting import duration as spoken

        said.append(f"      about {spoken(duration['total_s'])}, by {one_line(duration['run'], 40)}")
    return said


def verdict(result: Preflight) -> str:
    """Return one line that says whether the run can start, with the number of findings."""
    errors, warnings = errors_of(result.findings), [f for f in result.findings if f.severity == "warning"]
    counts = [plural(len(errors), "error")] * bool(errors) + [plural(len(warnings), "warning")] * bool(
        warnings
    )
    said = ", ".join(counts) or "no problems found"
    left = [part for part in PARTS if part not in result.done]
    tail = f"; not checked: {', '.join(left)}" if left else ""
    return f"{'ready' if result.ok else 'not ready'}: {said}{tail}"
