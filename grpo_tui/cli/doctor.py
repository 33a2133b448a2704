"""`grpo-tui doctor` and `prompts`: what is wrong with a run and what helps; which prompts it learned."""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.export import config_as_ended, home_of, is_home
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_text, terminal_width
from grpo_tui.cli.saved_run import launcher_of_run, saved_run, world_size
from grpo_tui.cli.steer import send
from grpo_tui.cli.words import refuse_unused
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.config.resolve import inspect_saved
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.findings import SEVERITIES, Finding, Remedy
from grpo_tui.core.prompt_memory import CLASSES, PromptMemory
from grpo_tui.core.records import SettingChanged
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import csv_text, filled, one_line, prompt_text, safe, shell_word
from grpo_tui.health.reading import Diagnosis, diagnose
from grpo_tui.health.remedies import EXCLUDE, SOLVED, with_tried
from grpo_tui.present.formatting import compact, from_here, percent, plural
from grpo_tui.present.glyphs import spark
from grpo_tui.present.prompt_memory import ROW, chosen, prompt_row, right_line, table_head, table_line
from grpo_tui.present.run_findings import for_config
from grpo_tui.rewards.audit import Attack, Audit, Refused
from grpo_tui.rewards.audit import audit as audit_of
from grpo_tui.store.layout import RunFolder, is_known
from grpo_tui.store.prompt_memory import PromptMemories, prompt_memories, with_prompts
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


WAIT_S = 60.0
WEIGHT = "reward_weights."


def apply(parsed: Any, root: Path, findings: Sequence[Finding]) -> int:
    """Apply the remedies of one finding. Exit 0 applied, 3 rejected by the run, 4 timed out."""
    finding = _finding(root, parsed.apply, findings)
    if finding is None:
        ids = ", ".join(dict.fromkeys(one.id for one in findings))
        known = f"not a finding of this run; it has: {ids}" if ids else "this run has no findings"
        raise CommandError(f"--apply {one_line(parsed.apply, 60)}: {known}")
    wanted = list(for_config(finding))
    if not wanted:
        raise CommandError(f"{finding.id} offers no setting. `grpo-tui doctor` says what to do")
    live = [one for one in wanted if one.live] if read_status(root).live and not parsed.next else []
    code = OK
    if live:
        because = parsed.because or f"{finding.id}: {live[0].text}"
        first = {str(live[0].field): live[0].value}
        print(safe(f"set {', '.join(f'{name}={json.dumps(value)}' for name, value in first.items())}"))
        args = {**first, "because": because, "yes": True}
        code = send(root, "set", args, WAIT_S if parsed.wait is None else parsed.wait, as_json=False)
    if code == OK and (not live or len(wanted) > len(live)):
        _write(parsed, root, finding, wanted)
    return code


def _finding(root: Path, rule: str, findings: Sequence[Finding]) -> Finding | None:
    """Return a finding of `doctor`, or else one that was recorded while training."""
    found = next((one for one in findings if one.id == rule), None)
    if found is not None:
        return found
    with closing(RunReader(RunFolder(root).database)) as reader:
        stored = [one for one in read_status(root, reader).findings if one.id == rule]
        return next(iter(with_tried(reader, stored)), None)


def _write(parsed: Any, root: Path, finding: Finding, wanted: Sequence[Remedy]) -> None:
    folder, spec, saved = saved_run(root)
    target = parsed.output or _free(folder, saved)
    if os.path.lexists(target):  # also a link to nowhere
        raise CommandError(f"{target} already exists and was left unchanged. Choose another file")
    listed = target.with_name(f"{target.stem}-solved.jsonl")
    beside = listed.name if is_home(target, saved) else str(listed.absolute())
    with closing(RunReader(folder.database)) as reader:
        changes, overrides = _next(reader, finding, wanted, beside)
        filters = any(one.field == EXCLUDE for one in wanted)
        if filters and os.path.lexists(listed):
            raise CommandError(f"{listed} already exists and was left unchanged. Choose another file")
        if filters:
            write_filter(reader, chosen(prompt_memories(reader).prompts, SOLVED.split(","), ""), listed)
    try:
        size = world_size(launcher_of_run(spec, saved, ()))
        overrides += _whole_groups(saved, overrides, size)
        how = f"with the remedies of {finding.id}"
        text = config_as_ended(root, overrides, target, changes, how)
        with reported(DraftFileError):
            write_text(target, text)
    except CommandError:
        if filters:
            listed.unlink(missing_ok=True)
        raise
    print(safe(f"{target}: {'; '.join(one.text.partition(':')[0] for one in wanted)}"))
    print(f"Train with `grpo-tui train {shell_word(target)}`")


def _free(folder: RunFolder, saved: RunConfig) -> Path:
    if not is_known(folder.root):
        raise CommandError(
            f"{folder.root}: you did not start this run on this machine, so no file is written where its "
            "config says. Choose one: -o FILE"
        )
    names = (f"{folder.root.name}-next{f'-{n}' if n > 1 else ''}.yaml" for n in itertools.count(1))
    return next(path for path in map(home_of(saved).joinpath, names) if not os.path.lexists(path))


def _next(
    reader: RunReader, finding: Finding, wanted: Sequence[Remedy], listed: str
) -> tuple[list[SettingChanged], list[str]]:
    """Return the remedies as changes made after the last step, or as overrides of the config."""
    functions = reader.reward_functions()
    weights = [one.weight if is_number(one.weight) else 1.0 for one in functions]
    for change in reader.lasting_settings():
        if change.name == "reward_weights" and isinstance(change.new, list):
            weights = change.new
    cause, changes, overrides = finding.evidence.get("cause"), list[SettingChanged](), list[str]()
    for one in wanted:
        name, value = str(one.field), one.value
        if name.startswith(WEIGHT):
            names = [function.name for function in functions]
            if name.removeprefix(WEIGHT) not in names:
                raise CommandError(f"{one_line(name, 80)}: the run has no such reward function")
            place = names.index(name.removeprefix(WEIGHT))
            weights = [value if n == place else weight for n, weight in enumerate(weights)]
            changes.append(SettingChanged(0, 0, time.time(), "reward_weights", None, weights))
        elif isinstance(cause, dict) and cause["setting"] == name:  # a rate is scaled back, not set
            changes.append(SettingChanged(0, 0, time.time(), name, cause["to"], cause["from"]))
        else:
            overrides.append(f"{name}={json.dumps(listed if name == EXCLUDE else value)}")
    return changes, overrides


def _whole_groups(saved: RunConfig, overrides: Sequence[str], size: int | None) -> list[str]:
    """Return what makes a batch hold whole groups of the new size."""
    if not any(one.startswith("num_generations=") for one in overrides):
        return []
    found = inspect_saved(saved, overrides, world_size=size).findings
    fixes = [one.fix for one in found if one.id in ("batch.indivisible", "batch.eval-indivisible")]
    return [f"{fix.field}={json.dumps(fix.value)}" for fix in fixes if fix is not None]


SHOWN = 10
"""Refused completions to print."""


def audit(parsed: Any) -> int:
    """Print the audit. Always exit 0, because it is not a verdict."""
    with closing(RunReader(RunFolder(readable_folder(parsed.run)).database)) as reader:
        found = audit_of(reader)
    if parsed.json:
        print_json(found.to_json(), ascii_only=True)
    else:
        print_text(_audit_lines(found, shell_word(from_here(parsed.run)), terminal_width()))
    return OK


def _audit_lines(found: Audit, run: str, width: int) -> Iterator[str]:
    part = f" of {found.groups:,} of {found.of_groups:,} groups" if found.groups < found.of_groups else ""
    yield f"{plural(found.completions, 'completion')}{part} compared with the attacks of `grpo-tui probe`"
    if not found.attacks:
        yield "  none looks like one of them"
    else:
        yield "  attack                    completions   over the run   mean reward   of the others"
    for attack in found.attacks:
        yield from _attack(attack, run, width)
    yield ""
    if not found.opinions:
        why = "there is no reference answer and no second reward" if found.top else "all rewards are equal"
        yield f"no second opinion on the top rewards: {why}"
        return
    names = ", ".join(one_line(name, 40) for name in found.opinions)
    top = f"{plural(found.top, 'completion')} of the newest groups"
    top += f" with a reward of at least {compact(found.least)}"
    yield f"{top}, checked by {names}: {found.refused_in_all:,} refused"
    for one in found.refused[:SHOWN]:
        yield from _refused(one, width)
    if len(found.refused) > SHOWN:
        yield f"  … one of each group; --json has {len(found.refused):,} of them"


def _attack(one: Attack, run: str, width: int) -> Iterator[str]:
    curve = filled(spark([float(count) for count in one.stretches], len(one.stretches), low=0.0), 12)
    yield (
        f"  {one.kind:26}{one.count:>11,}   {curve}   {compact(one.reward):>11}   {compact(one.others):>13}"
    )
    yield f"    {one.why}: {one_line(one.example.text, max(20, width - len(one.why) - 8))}"
    place = f"group=={one.example.group} and index=={one.example.index}"
    yield f"    grpo-tui completions {run} --where {shell_word(place)}"


def _refused(one: Refused, width: int) -> Iterator[str]:
    place = one.place
    yield (
        f"  step {place.step:,}, group {place.group:,}, completion {place.index}: reward "
        f"{compact(place.reward)}, refused by {one_line(', '.join(one.by), 80)}"
    )
    yield f"    {one_line(one.prompt, max(20, width - 4))}"
    gold = f"   (reference answer {one_line(one.gold, 30)})" if one.gold else ""
    yield f"    {one_line(place.text, max(20, width - 4 - len(gold)))}{gold}"


TABLE_ROWS = 40
EXCERPT = 200


def prompts(parsed: Any) -> int:
    """`grpo-tui prompts RUN [--class …] [--sort KEY] [--limit N] [--json|--csv] [--export FILE]`."""
    kinds = _kinds(parsed.classes)
    root = readable_folder(parsed.run)
    with closing(RunReader(RunFolder(root).database)) as reader:
        found = prompt_memories(reader)
        rows = chosen(found.prompts, kinds, parsed.sort or "")
        kept = rows[: parsed.limit] if parsed.limit else rows
        if parsed.export is not None:
            return _export(reader, kept, parsed.export)
        if parsed.json:
            listed = [prompt_row(one, prompt) for one, prompt in with_prompts(reader, kept)]
            print_json({"right": found.right, "counts": found.counts(), "prompts": listed})
        elif parsed.csv:
            _write_csv(reader, kept)
        else:
            shown = kept if parsed.limit else rows[:TABLE_ROWS]
            print_text(_table(reader, found, shown, len(rows)))
    return OK


def _kinds(text: str | None) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    for kind in kinds:
        if kind not in CLASSES:
            raise CommandError(
                f"--class: there is no class {one_line(kind, 40)}; the classes are {', '.join(CLASSES)}"
            )
    return kinds


def _table(reader: RunReader, found: PromptMemories, shown: Sequence[PromptMemory], of: int) -> Iterator[str]:
    yield right_line(found)
    if found.right is None:
        return
    for kind, count in found.counts().items():
        share = percent(count / max(1, len(found.prompts)))
        yield f"  {kind:10}{count:>7,}  {share:>6}  {CLASSES[kind]}"
    if not shown:
        return
    width = terminal_width()
    yield ""
    yield table_head()
    for one, prompt in with_prompts(reader, shown):
        yield table_line(one, prompt_text(prompt), width)
    if of > len(shown):
        yield f"… {of - len(shown):,} more; --limit {of} shows all"


def _write_csv(reader: RunReader, rows: Sequence[PromptMemory]) -> None:
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(ROW)
    for one, prompt in with_prompts(reader, rows):
        table.writerow([*list(prompt_row(one, prompt).values())[:-1], csv_text(prompt_text(prompt))])


def _export(reader: RunReader, rows: Sequence[PromptMemory], file: Path) -> int:
    """Write a filter file, and say how to use it."""
    if not rows:
        raise CommandError("--export: no prompt is of these classes, so there is nothing to filter by")
    if os.path.lexists(file):
        raise CommandError(f"{file} already exists and was left unchanged. Choose another file")
    write_filter(reader, rows, file)
    name = shell_word(file)
    print(f"wrote {plural(len(rows), 'prompt')} to {name}. In the config of the next run, one of:")
    print(f"  grpo_tui.filters: {{exclude: {name}}}   trains without them")
    print(f"  grpo_tui.filters: {{only: {name}}}      trains on nothing else")
    return OK


def write_filter(reader: RunReader, rows: Sequence[PromptMemory], file: Path) -> None:
    """Write a filter file: a JSON line for each prompt."""
    lines = [
        {**prompt_row(one, prompt), "prompt": one_line(prompt_text(prompt), EXCERPT)}
        for one, prompt in with_prompts(reader, rows)
    ]
    with reported(DraftFileError):  # written whole or not at all: half a file would filter too little
        write_text(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
