"""`grpo-tui course`: trends of groups, lengths, variety and reward shares, or one prompt over the run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any

from grpo_tui.cli.errors import OK, CommandError
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_lines, terminal_width
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.present.course import course, course_lines, probe_course, probe_lines, visit_lines
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader

STRETCHES = 48


def show_course(parsed: Any) -> int:
    """`grpo-tui course RUN [--prompt GROUP] [--json]`."""
    if parsed.prompt is not None:
        refuse_unused(parsed, "with --prompt", "--stretches")
    root = readable_folder(parsed.run)
    with closing(RunReader(RunFolder(root).database)) as reader:
        return _prompt(parsed, reader) if parsed.prompt is not None else _run(parsed, reader)


def _run(parsed: Any, reader: RunReader) -> int:
    functions = reader.reward_functions()
    stretches = course(
        reader, [function.weight for function in functions], stretches=parsed.stretches or STRETCHES
    )
    names = [function.name for function in functions]
    probes = probe_course(reader, len(functions))
    if parsed.json:
        rows = [
            {**asdict(s), "mixed": s.mixed, "shares": dict(zip(names, s.shares, strict=False))}
            for s in stretches
        ]
        asked = [{**asdict(p), "rewards": dict(zip(names, p.rewards, strict=True))} for p in probes]
        print_json({"stretches": rows, "probes": asked})
        return OK
    print_lines(course_lines(stretches, names, terminal_width()))
    if probes:
        print("\nprobe prompts")
        print_lines(probe_lines(probes, names, terminal_width()))
    return OK


def _prompt(parsed: Any, reader: RunReader) -> int:
    groups = reader.groups_by_id([parsed.prompt])
    if not groups:
        raise CommandError(
            f"--prompt: there is no group {parsed.prompt}; `grpo-tui completions RUN` numbers them"
        )
    visits = reader.visits(groups[0].prompt_key)
    if parsed.json:
        print_json({"visits": [asdict(visit) for visit in visits]})
    else:
        print(one_line(prompt_text(groups[0].prompt).strip(), terminal_width()))
        print_lines(visit_lines(visits, groups[0].id, terminal_width()))
    return OK
