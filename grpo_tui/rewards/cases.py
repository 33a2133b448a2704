"""Case files: the scores or the order that rewards should give, so that a change of a reward shows.

    rewards: gsm8k.yaml          # a config, or a list such as [rewards.py:correct, think_format_reward]
    cases:
      - name: right
        prompt: What is 2+2?
        completion: <answer>4</answer>
        columns: {answer: "4"}
        expect: {correct: 1.0, think_format_reward: {at_most: 0.5}, total: 1.0}
      - name: wrong
        ...
        below: right             # by the total; {right: correct} by one function

Paths are relative to the file. A scored sample becomes a case that expects its current scores.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_tui.config.meant import nearest
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.yaml_lines import YamlDocument, YamlError, parse_mapping
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import completion_text, one_line, prompt_text
from grpo_tui.rewards.consent import left_alone
from grpo_tui.rewards.samples import Sample, is_messages, tags_of
from grpo_tui.rewards.scoring import Report

CASE_KEYS = ("name", "prompt", "completion", "columns", "expect", "above", "below", "tags", "note")
FILE_KEYS = ("rewards", "cases", "tolerance")
BOUND_KEYS = ("at_least", "at_most")
TOTAL = "total"
TOLERANCE = 1e-4
"""Scores that differ by less are equal: TRL computes in float32."""


class CaseFileError(ValueError):
    """A case file cannot be used. The message names the file, the line and the fix."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected score of one function, or of the total. Bounds are inclusive, and equal for an exact value."""

    low: float = -math.inf
    high: float = math.inf
    abstains: bool = False

    def holds(self, score: float | None, tolerance: float) -> bool:
        """Return whether the score is as expected."""
        if score is None or self.abstains:
            return score is None and self.abstains
        return self.low - tolerance <= score <= self.high + tolerance

    def __str__(self) -> str:
        if self.abstains:
            return "none"
        if self.low == self.high:
            return f"{self.low:g}"
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        return f"at most {self.high:g}" if math.isinf(self.low) else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class Case:
    """One completion with its expected scores. `above` and `below` map other cases to what compares them."""

    name: str
    sample: Sample
    expect: Mapping[str, Expected] = field(default_factory=dict)
    above: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None


@dataclass(frozen=True, slots=True)
class CaseFile:
    """Contents of a case file.

    Attributes:
        rewards: path of a config alone, or sources of reward functions. Empty where the command names them.
        tolerance: largest difference between two equal scores.
    """

    path: Path
    rewards: tuple[str, ...]
    cases: tuple[Case, ...]
    tolerance: float = TOLERANCE


@dataclass(frozen=True, slots=True)
class Miss:
    """Expectation of a function, or of `total`, that does not hold."""

    case: str
    function: str
    wanted: str
    got: str
    line: int | None


def read_cases(path: Path) -> CaseFile:
    """Read a case file.

    Raises:
        CaseFileError: it cannot be read, or has an invalid case.
    """
    try:
        document = parse_mapping(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CaseFileError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error  # the path is already named
        raise CaseFileError(f"{path}: cannot be read: {why}") from error
    except YamlError as error:
        raise CaseFileError(f"{path}{_at(error.line)}: {error}") from error
    values = document.values
    _known(path, values, FILE_KEYS, document.line())
    entries = values.get("cases")
    if not isinstance(entries, list) or not entries:
        raise CaseFileError(f"{path}: it has no cases; write them as a list under `cases:`")
    cases = tuple(_case(path, document, number, entry) for number, entry in enumerate(entries))
    _names(path, cases)
    tolerance = values.get("tolerance", TOLERANCE)
    if not is_number(tolerance) or tolerance < 0:
        raise CaseFileError(f"{path}{_at(document.line('tolerance'))}: tolerance must be a number, 0 or more")
    return CaseFile(path, _rewards(path, document), cases, float(tolerance))


def judge_cases(
    file: CaseFile, functions: Mapping[str, Sequence[float | None]], totals: Sequence[float | None]
) -> list[Miss]:
    """Return the expectations that do not hold, in the order of the cases.

    Raises:
        CaseFileError: a case names an unknown function.
    """
    scores = {**functions, TOTAL: totals}
    places = {case.name: number for number, case in enumerate(file.cases)}
    found = []
    for number, case in enumerate(file.cases):
        for name, expected in case.expect.items():
            score = _scores_of(file, case, name, scores)[number]
            if not expected.holds(score, file.tolerance):
                found.append(Miss(case.name, name, str(expected), _shown(score), case.line))
        for word, others in (("above", case.above), ("below", case.below)):
            for other, name in others.items():
                given = _scores_of(file, case, name, scores)
                mine, theirs = given[number], given[places[other]]
                if not _ordered(mine, theirs, word, file.tolerance):
                    got = f"{_shown(mine)}, and “{other}” {_shown(theirs)}"
                    found.append(Miss(case.name, name, f"{word} “{other}”", got, case.line))
    return found


def add_case(path: Path, case: Mapping[str, Any], rewards: str | Sequence[str] = ()) -> None:
    """Add a case to a file and keep the rest of it, comments included. Create the file if needed.

    Raises:
        CaseFileError: the file cannot be used or written, or has a case of that name.
    """
    import io

    from ruamel.yaml import YAML

    from grpo_tui.store.json_file import write_bytes

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    if path.exists():
        if any(known.name == case["name"] for known in read_cases(path).cases):
            raise CaseFileError(f"{path}: there is a case called “{case['name']}” already")
        document = yaml.load(path.read_text(encoding="utf-8"))
    else:
        document = {"rewards": rewards, "cases": []} if rewards else {"cases": []}
    document["cases"].append(dict(case))
    text = io.StringIO()
    yaml.dump(document, text)
    try:
        write_bytes(path, text.getvalue().encode())
    except OSError as error:
        raise CaseFileError(f"{path}: cannot be written: {error}") from error


def _case(path: Path, document: YamlDocument, number: int, entry: Any) -> Case:
    line = document.line("cases", number)
    place = f"{path}{_at(line)}"
    if not isinstance(entry, dict):
        raise CaseFileError(f"{place}: a case must be a mapping with `completion:` and `expect:`")
    _known(path, entry, CASE_KEYS, line)
    if "completion" not in entry:
        raise CaseFileError(f"{place}: the case has no completion")
    for key in ("prompt", "completion"):
        value = entry.get(key, "")
        if not isinstance(value, str) and not is_messages(value):
            quoted = f'; quote it: {key}: "{value}"' if isinstance(value, int | float) else ""
            raise CaseFileError(
                f"{place}: {key} is a text or a list of {{role, content}} messages, not {value!r}{quoted}"
            )
    columns = entry.get("columns") or {}
    if not isinstance(columns, dict):
        raise CaseFileError(f"{place}: columns must map dataset columns to values")
    expect = entry.get("expect")
    if expect is None:
        expect = {}
    elif not isinstance(expect, dict):
        expect = {TOTAL: expect}
    case = Case(
        name=str(entry.get("name") or f"case {number + 1}"),
        sample=Sample(
            entry.get("prompt", ""), entry["completion"], columns, group=str(number), tags=_tags(place, entry)
        ),
        expect={str(name): _expected(place, name, value) for name, value in expect.items()},
        above=_others(place, entry.get("above")),
        below=_others(place, entry.get("below")),
        line=line,
    )
    if not (case.expect or case.above or case.below):
        raise CaseFileError(f"{place}: the case expects nothing. Add expect, above or below")
    return case


def _tags(place: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    tags = entry.get("tags") or ()
    if isinstance(tags, str):
        return tags_of(tags)
    if not isinstance(tags, list | tuple):
        raise CaseFileError(f"{place}: tags must be a list of words, not {tags!r}")
    return tuple(str(tag) for tag in tags)


def _expected(place: str, name: Any, value: Any) -> Expected:
    if value is None:
        return Expected(abstains=True)
    if is_number(value):
        return Expected(float(value), float(value))
    if isinstance(value, dict) and value and all(is_number(bound) for bound in value.values()):
        if unknown := set(value) - set(BOUND_KEYS):
            raise CaseFileError(f"{place}: {', '.join(map(str, unknown))}: bounds are at_least and at_most")
        return Expected(float(value.get("at_least", -math.inf)), float(value.get("at_most", math.inf)))
    raise CaseFileError(f"{place}: {name} must be a number, null, or at_least and at_most, not {value!r}")


def _others(place: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {value: TOTAL}
    if isinstance(value, list):
        return {str(other): TOTAL for other in value}
    if isinstance(value, dict):
        return {str(other): str(name) for other, name in value.items()}
    raise CaseFileError(f"{place}: above and below must name another case, or map it to a function")


def _names(path: Path, cases: Sequence[Case]) -> None:
    known: dict[str, Case] = {}
    for case in cases:
        if case.name in known:
            raise CaseFileError(f"{path}{_at(case.line)}: two cases are called “{case.name}”")
        known[case.name] = case
    for case in cases:
        for other in (*case.above, *case.below):
            if other == case.name:
                raise CaseFileError(f"{path}{_at(case.line)}: “{other}” is listed above or below itself")
            if other not in known:
                near = nearest(other, known)
                hint = f"; did you mean “{near}”?" if near else ""
                raise CaseFileError(f"{path}{_at(case.line)}: no case is called “{other}”{hint}")


def _rewards(path: Path, document: YamlDocument) -> tuple[str, ...]:
    value = document.values.get("rewards") or ()
    sources = [value] if isinstance(value, str) else value
    if not isinstance(sources, list | tuple) or not all(isinstance(source, str) for source in sources):
        raise CaseFileError(
            f"{path}{_at(document.line('rewards'))}: rewards must be a config or a list of sources"
        )
    return tuple(_beside(path, source) for source in sources)


def _beside(path: Path, source: str) -> str:
    parts = split_file_source(source)
    file = Path(parts[0] if parts else source).expanduser()
    found = path.parent / file
    if not found.is_file():
        return source
    return f"{found}:{parts[1]}" if parts else str(found)


def _known(path: Path, entry: Mapping[str, Any], keys: Sequence[str], line: int | None) -> None:
    for key in entry:
        if key not in keys:
            near = nearest(str(key), keys)
            hint = f"; did you mean {near}?" if near else f"; known are {', '.join(keys)}"
            raise CaseFileError(f"{path}{_at(line)}: there is no key {key}{hint}")


def _scores_of(
    file: CaseFile, case: Case, name: str, scores: Mapping[str, Sequence[float | None]]
) -> Sequence[float | None]:
    if name not in scores:
        near = nearest(name, scores)
        hint = f"; did you mean {near}?" if near else f"; there are {', '.join(scores)}"
        raise CaseFileError(f"{file.path}{_at(case.line)}: no function is called {name}{hint}")
    return scores[name]


def _ordered(mine: float | None, theirs: float | None, word: str, tolerance: float) -> bool:
    if mine is None or theirs is None:
        return False
    return mine > theirs + tolerance if word == "above" else mine < theirs - tolerance


def _shown(score: float | None) -> str:
    return "none" if score is None else f"{score:g}"


def _at(line: int | None) -> str:
    return "" if line is None else f":{line}"


def cases_file(config: RunConfig) -> Path:
    """Return the case file of a config: beside it, or in the working folder for functions alone."""
    if config.path is not None:
        return config.path.with_name(f"{config.path.stem}.cases.yaml")
    return Path(config.cwd or ".") / "cases.yaml"


def keep_case(config: RunConfig, report: Report, index: int) -> tuple[Path, str]:
    """Add a sample to the case file.

    Returns:
        The file, and the name of the case in it.

    Raises:
        CaseFileError: the file cannot be used, or the sample has no usable scores.
    """
    if why := left_alone(config):
        raise CaseFileError(f"not kept: {why}")
    path, sample = cases_file(config), report.scored.samples[index]
    failed = [r.info.name for r in report.scored.functions if r.failure is not None]
    if failed:
        raise CaseFileError(f"not kept: {failed[0]} gave no scores, so there is nothing to expect")
    given = {r.info.name: r.scores[index] for r in report.scored.functions}
    total = report.aggregate.totals[index]
    if total is not None and all(
        r.info.weight == w for r, w in zip(report.scored.functions, report.weights, strict=True)
    ):
        given[TOTAL] = total  # by the config's own weights
    expect = {
        name: None if score is None else float(f"{score:.6g}")
        for name, score in given.items()
        if score is None or math.isfinite(score)
    }
    if not expect:
        raise CaseFileError("not kept: no function gave this sample a finite score")
    name = _name(path, prompt_text(sample.prompt), sample.kind)
    case: dict[str, Any] = {"name": name, "prompt": sample.prompt, "completion": sample.completion}
    if isinstance(sample.completion, list) and isinstance(sample.prompt, str):
        case["completion"] = completion_text(sample.completion)
    plain = str | int | float | bool | list | dict | None
    columns = finite_json({key: value for key, value in sample.columns.items() if isinstance(value, plain)})
    if columns:
        case["columns"] = columns
    if sample.tags:
        case["tags"] = list(sample.tags)
    case["expect"] = expect
    add_case(path, case, _rewards_of(config, path))
    return path, name


def _name(path: Path, prompt: str, kind: str) -> str:
    words = one_line(prompt, 40).strip() or "case"
    base = f"{words} ({kind})" if kind else words
    known = {case.name for case in read_cases(path).cases} if path.exists() else set()
    name, number = base, 2
    while name in known:
        name, number = f"{base} {number}", number + 1
    return name


def _rewards_of(config: RunConfig, path: Path) -> str | list[str]:
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
