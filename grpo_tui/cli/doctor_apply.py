"""`grpo-tui doctor RUN --apply ID`: apply the remedies of a finding, or write them into a config."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.export_config import config_as_ended, home_of
from grpo_tui.cli.prompts import write_filter
from grpo_tui.cli.saved_run import launcher_of_run, saved_run, world_size
from grpo_tui.cli.steer import send
from grpo_tui.config.draft_file import DraftFileError, write_text
from grpo_tui.config.resolve import inspect_saved
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.core.records import SettingChanged
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line, safe, shell_word
from grpo_tui.health.remedies import EXCLUDE, SOLVED, with_tried
from grpo_tui.present.prompt_memory import chosen
from grpo_tui.present.run_findings import for_config
from grpo_tui.store.layout import RunFolder, is_known
from grpo_tui.store.prompt_memory import prompt_memories
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status

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


@dataclass(slots=True)
class _Next:
    """What the config of the next run changes."""

    changes: list[SettingChanged] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)


def _write(parsed: Any, root: Path, finding: Finding, wanted: Sequence[Remedy]) -> None:
    folder, spec, saved = saved_run(root)
    target = parsed.output or _free(folder, saved)
    if os.path.lexists(target):  # also a link to nowhere
        raise CommandError(f"{target} already exists and was left unchanged. Choose another file")
    listed = target.with_name(f"{target.stem}-solved.jsonl")
    with closing(RunReader(folder.database)) as reader:
        new = _next(reader, finding, wanted, listed.name)
        filters = any(one.field == EXCLUDE for one in wanted)
        if filters and os.path.lexists(listed):
            raise CommandError(f"{listed} already exists and was left unchanged. Choose another file")
        if filters:
            write_filter(reader, chosen(prompt_memories(reader).prompts, SOLVED.split(","), ""), listed)
    try:
        size = world_size(launcher_of_run(spec, saved, ()))
        new.overrides += _whole_groups(saved, new.overrides, size)
        how = f"with the remedies of {finding.id}"
        text = config_as_ended(root, new.overrides, target, new.changes, how)
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


def _next(reader: RunReader, finding: Finding, wanted: Sequence[Remedy], listed: str) -> _Next:
    """Return the remedies as changes made after the last step, or as overrides of the config."""
    functions = reader.reward_functions()
    weights = [one.weight if is_number(one.weight) else 1.0 for one in functions]
    for change in reader.lasting_settings():
        if change.name == "reward_weights" and isinstance(change.new, list):
            weights = change.new
    cause, found = finding.evidence.get("cause"), _Next()
    for one in wanted:
        name, value = str(one.field), one.value
        if name.startswith(WEIGHT):
            names = [function.name for function in functions]
            if name.removeprefix(WEIGHT) not in names:
                raise CommandError(f"{one_line(name, 80)}: the run has no such reward function")
            place = names.index(name.removeprefix(WEIGHT))
            weights = [value if n == place else weight for n, weight in enumerate(weights)]
            found.changes += _changed("reward_weights", None, weights)
        elif isinstance(cause, dict) and cause["setting"] == name:  # a rate is scaled back, not set
            found.changes += _changed(name, cause["to"], cause["from"])
        else:
            found.overrides.append(f"{name}={json.dumps(listed if name == EXCLUDE else value)}")
    return found


def _changed(name: str, old: Any, new: Any) -> Iterator[SettingChanged]:
    yield SettingChanged(0, 0, time.time(), name, old, new)


def _whole_groups(saved: RunConfig, overrides: Sequence[str], size: int | None) -> list[str]:
    """Return what makes a batch hold whole groups of the new size."""
    if not any(one.startswith("num_generations=") for one in overrides):
        return []
    found = inspect_saved(saved, overrides, world_size=size).findings
    fixes = [one.fix for one in found if one.id in ("batch.indivisible", "batch.eval-indivisible")]
    return [f"{fix.field}={json.dumps(fix.value)}" for fix in fixes if fix is not None]
