"""`grpo-tui cases run FILE`: test rewards against saved cases. Exit 1 when one fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError
from grpo_tui.cli.plain import print_json
from grpo_tui.cli.score import told, wanted_config
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import plural
from grpo_tui.rewards.cases import CaseFile, CaseFileError, Miss, judge_cases, read_cases
from grpo_tui.rewards.lab import Lab, LabError, Scored


def run_cases(parsed: Any) -> int:
    """`grpo-tui cases run FILE…`."""
    missed = 0
    outcomes = []
    for path in parsed.files:
        file, misses, errors = _run(path, parsed)
        missed += len({miss.case for miss in misses}) + len(errors)
        outcomes.append((file, misses, errors))
    told("", "")
    if parsed.json:
        body = [
            {
                "file": str(file.path),
                "cases": len(file.cases),
                "misses": [asdict(miss) for miss in misses],
                "errors": errors,
            }
            for file, misses, errors in outcomes
        ]
        print_json({"ok": not missed, "files": body})
    else:
        for outcome in outcomes:
            _print(*outcome)
    return FAILED if missed else OK


def _run(path: Path, parsed: Any) -> tuple[CaseFile, list[Miss], list[str]]:
    try:
        file = read_cases(path)
        sources = list(parsed.rewards) or list(file.rewards)
        if not sources:
            raise CommandError(
                f"{path}: the file does not say which rewards to test. Add `rewards:` to it, or give "
                "--rewards"
            )
        config = wanted_config(sources, (), None)
        if not parsed.rewards and config.origin is None:
            config = replace(config, origin=path.absolute())
        with Lab(limit_s=parsed.timeout) as lab:
            told("", "loading torch…")
            lab.load(config)
            scored = lab.score([case.sample for case in file.cases], tell=told, repeat_limit_s=0.0)
            errors = _errors(scored)
            if errors:
                return file, [], errors
            totals = lab.aggregate(scored).totals
        given = {function.info.name: function.scores for function in scored.functions}
        return file, judge_cases(file, given, totals), []
    except (CaseFileError, LabError) as error:
        raise CommandError(str(error)) from error


def _errors(scored: Scored) -> list[str]:
    return [
        f"{one_line(function.info.name, 40)}: {one_line(function.failure.text)}"
        for function in scored.functions
        if function.failure is not None
    ]


def _print(file: CaseFile, misses: Sequence[Miss], errors: Sequence[str]) -> None:
    failed = {miss.case for miss in misses}
    for case in file.cases:
        if errors:
            break
        print(f"{'FAIL' if case.name in failed else 'ok  '}  {one_line(case.name, 70)}")
        for miss in (miss for miss in misses if miss.case == case.name):
            place = f"{file.path}:{miss.line}" if miss.line else str(file.path)
            print(f"      {place}: {one_line(miss.function, 40)} expected {miss.wanted}, got {miss.got}")
    for error in errors:
        print(f"FAIL  {error}")
    held = len(file.cases) - len(failed)
    outcome = "none could be scored" if errors else f"{held} passed, {len(failed)} failed"
    print(f"{file.path}: {plural(len(file.cases), 'case')}, {outcome}")
