"""Keep a scored sample as a case, with what it gets now as what it shall get.

Knows where the file of cases of a config lies; the file itself is `rewards.cases`'s.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import completion_text, one_line, prompt_text
from grpo_tui.rewards.cases import TOTAL, CaseFileError, add_case, read_cases
from grpo_tui.rewards.scoring import Report
from grpo_tui.store.values import finite_json


def cases_file(config: RunConfig) -> Path:
    """Where the cases of a config are kept: beside it, or in the working folder for functions alone."""
    if config.path is not None:
        return config.path.with_name(f"{config.path.stem}.cases.yaml")
    return Path(config.cwd or ".") / "cases.yaml"


def keep_case(config: RunConfig, report: Report, index: int) -> tuple[Path, str]:
    """Add a sample to the file of cases.

    Args:
        config: whose rewards scored it.
        report: the scoring.
        index: the sample.

    Returns:
        The file, and the name of the case in it.

    Raises:
        CaseFileError: the file cannot be used, or nothing can be expected of the sample.
    """
    path, sample = cases_file(config), report.scored.samples[index]
    failed = [r.info.name for r in report.scored.functions if r.failure is not None]
    if failed:
        raise CaseFileError(f"not kept: {failed[0]} gave no scores, so there is nothing to expect")
    expect: dict[str, Any] = {}
    for result in report.scored.functions:
        score = result.scores[index]
        if score is None or math.isfinite(score):
            expect[result.info.name] = _rounded(score)
    total = report.aggregate.totals[index]
    if total is not None and math.isfinite(total) and _plain_weights(report):
        expect[TOTAL] = _rounded(total)
    if not expect:
        raise CaseFileError("not kept: no function gave this sample a finite score")
    name = _name(path, prompt_text(sample.prompt), sample.kind)
    case: dict[str, Any] = {"name": name, "prompt": sample.prompt, "completion": sample.completion}
    if isinstance(sample.completion, list) and isinstance(sample.prompt, str):
        case["completion"] = completion_text(sample.completion)
    columns = finite_json({key: value for key, value in sample.columns.items() if _is_plain(value)})
    if columns:
        case["columns"] = columns
    if sample.tags:
        case["tags"] = list(sample.tags)
    case["expect"] = expect
    add_case(path, case, _rewards(config, path))
    return path, name


def _plain_weights(report: Report) -> bool:
    """Whether the total is the one that the config's own weights give."""
    return all(r.info.weight == w for r, w in zip(report.scored.functions, report.weights, strict=True))


def _rounded(score: float | None) -> float | None:
    return None if score is None else float(f"{score:.6g}")


def _name(path: Path, prompt: str, kind: str) -> str:
    """A name that the file has not yet."""
    words = one_line(prompt, 40).strip() or "case"
    base = f"{words} ({kind})" if kind else words
    known = {case.name for case in read_cases(path).cases} if path.exists() else set()
    name, number = base, 2
    while name in known:
        name, number = f"{base} {number}", number + 1
    return name


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool | list | dict)


def _rewards(config: RunConfig, path: Path) -> str | list[str]:
    """What the file says of the rewards: the config beside it, or the functions."""
    if config.path is not None:
        return config.path.name
    sources = []
    for entry in config.section.rewards:
        parts = split_file_source(entry.source)
        if parts is None:
            sources.append(entry.source)
        else:
            sources.append(f"{os.path.relpath(parts[0], path.parent)}:{parts[1]}")
    return sources
