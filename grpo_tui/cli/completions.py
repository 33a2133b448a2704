"""`grpo-tui completions` and `course`: search, count and export completions; trends over a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_lines, print_text, terminal_width
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.present.course import course, course_lines, probe_course, probe_lines, visit_lines
from grpo_tui.present.formatting import plural
from grpo_tui.present.rollout_export import write_rows, write_steps
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.query import And, Between, Field, Has, Matches, Query, QueryError, read_query
from grpo_tui.store.reader import RunReader
from grpo_tui.store.rollouts import all_function_names, import_notes, iter_rollouts
from grpo_tui.store.saved_views import SavedView, SavedViews
from grpo_tui.store.search import OLDEST, Found, Search, SortKey, read_sort

COMPLETION = Field("completion")
LONGEST_S = 600.0
"""A command may search longer than a screen does."""
BAR = 30
_ROWS = ("--sort", "--limit", "--format", "--all")
_QUERY = ("--step", "--where", "--search", "--regex")


def completions(parsed: Any) -> int:
    """`grpo-tui completions RUN [--step A:B] [--where EXPR] [--search TEXT|--regex RE] [--sort KEY] …`."""
    from grpo_tui.ui.preferences import config_folder

    views = SavedViews(config_folder())
    _refuse_unused(parsed)
    if parsed.views:
        return _list(views)
    if parsed.run is None:
        raise CommandError(
            "completions: name a run. `grpo-tui runs` lists them. Only --views works without one"
        )
    root = readable_folder(parsed.run)
    with closing(Search(RunFolder(root).database)) as search:
        query, sort = _asked(parsed, views, all_function_names(search.run))
        if parsed.save_view:
            trouble = views.save(SavedView(parsed.save_view, parsed.where, parsed.sort or ""))
            if trouble:
                raise CommandError(trouble)
        try:
            found = search.find(
                query,
                sort,
                superseded=parsed.superseded,
                limit=None if parsed.count or parsed.over_steps else parsed.limit,
                limit_s=LONGEST_S,
            )
        except QueryError as error:
            raise CommandError(f"--where: {one_line(str(error), 300)}") from error
        for note in (*import_notes(search.run), *filter(None, [found.hint])):
            print(f"grpo-tui: {one_line(note)}", file=sys.stderr)
        _print(parsed, search, found)
    if found.trouble:
        print(f"grpo-tui: {one_line(found.trouble)}", file=sys.stderr)
        return FAILED
    return OK


def _refuse_unused(parsed: Any) -> None:
    if parsed.views:
        kept = ("--view", "--save-view", "--superseded", "--count", "--over-steps", *_ROWS, *_QUERY)
        refuse_unused(parsed, "with --views", *kept)
    rows = [option for option in _ROWS if option != "--sort" or not parsed.save_view]
    if parsed.count:
        refuse_unused(parsed, "with --count", *rows)
    if parsed.over_steps:
        refuse_unused(parsed, "with --over-steps", *(option for option in rows if option != "--format"))
        if parsed.format == "md":
            raise CommandError("--over-steps writes csv or jsonl, not md. Without --format it prints a chart")


def _list(views: SavedViews) -> int:
    known, trouble = views.read()
    if trouble:
        print(f"grpo-tui: {one_line(trouble)}", file=sys.stderr)
    for view in known:
        order = f"  sorted by {view.sort}" if view.sort else ""
        print(f"{one_line(view.name, 40)}: {one_line(view.query or 'everything')}{one_line(order)}")
    if not known:
        print("no saved views yet; --save-view NAME keeps --where and --sort under a name")
    return OK


def _asked(parsed: Any, views: SavedViews, functions: Sequence[str]) -> tuple[Query, tuple[SortKey, ...]]:
    """Combine the options into a query and a sort order."""
    parts: list[Query] = []
    sort = parsed.sort
    if parsed.view is not None:
        view = views.named(parsed.view)
        if view is None:
            raise CommandError(
                f"--view: no saved view is called {one_line(parsed.view, 60)}. --views lists them"
            )
        parts.append(_read("--view", view.query, functions))
        sort = sort or view.sort
    parts.append(_read("--where", parsed.where, functions))
    first, last = parsed.step
    if (first, last) != (None, None):
        parts.append(Between(Field("step"), first, last))
    if parsed.search:
        parts.append(Has(COMPLETION, parsed.search))
    if parsed.regex is not None:
        try:
            re.compile(parsed.regex)
        except (re.error, RecursionError, OverflowError) as error:
            raise CommandError(f"--regex: {error}") from error
        parts.append(Matches(COMPLETION, parsed.regex))
    try:
        return And(tuple(parts)), read_sort(sort, functions) if sort else OLDEST
    except QueryError as error:
        raise CommandError(f"--sort, {one_line(error.sentence, 300)}") from error


def _read(option: str, line: str, functions: Sequence[str]) -> Query:
    try:
        return read_query(line, functions)
    except QueryError as error:
        raise CommandError(f"{option}, {one_line(error.sentence, 300)}") from error


def _print(parsed: Any, search: Search, found: Found) -> None:
    if parsed.count:
        total = "" if found.count == found.of else f" of {found.of:,}"
        groups = plural(found.groups, "group")
        print(f"{found.count}{total} {'completion' if found.of == 1 else 'completions'} in {groups}")
        return
    if parsed.over_steps:
        if parsed.format in ("csv", "jsonl"):
            write_steps(sys.stdout, found, parsed.format)
        else:
            _chart(found)
        return
    if not found.ids and found.of and found.complete:
        print(f"grpo-tui: no match in {found.of:,} completions", file=sys.stderr)
    rows = iter_rollouts(search.run, found.ids[: parsed.limit])
    names = all_function_names(search.run)
    write_rows(sys.stdout, rows, names, parsed.format or "jsonl", everything=parsed.all)


def _chart(found: Found) -> None:
    if not found.over_steps:
        print("the run has no completions yet")
        return
    labels = [
        f"{bucket.first_step:,}" if bucket.first_step == bucket.last_step
        else f"{bucket.first_step:,} to {bucket.last_step:,}"
        for bucket in found.over_steps
    ]  # fmt: skip
    wide = max(map(len, labels))
    most = max(max(bucket.hits / bucket.of for bucket in found.over_steps), 1e-9)
    for label, bucket in zip(labels, found.over_steps, strict=True):
        share = bucket.hits / bucket.of
        bar = "█" * round(BAR * share / most)
        line = f"step {label:>{wide}}  {bucket.hits:>7,} of {bucket.of:<7,} {share:>6.1%}  {bar}"
        print_text([line.rstrip()])
    began = found.began
    if began is None:
        print("no match")
    elif began is not found.over_steps[0]:
        several = "" if began.first_step == began.last_step else "s"
        print(f"first found in step{several} {labels[found.over_steps.index(began)]}")


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
