"""One sample of the pane Rewards in full: its completion, what each function saw in it and gave for it.

Folded from a report of the lab; it knows no widget.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.core.text import completion_text, one_line, prompt_text, safe
from grpo_tui.present.formatting import MISSING, compact, fixed
from grpo_tui.rewards.samples import Sample, sample_words
from grpo_tui.rewards.score_report import FunctionScore
from grpo_tui.rewards.scoring import Report

MOST_PRINTED = 20
"""Lines of a function's output that are kept, the last ones."""


@dataclass(frozen=True, slots=True)
class Saw:
    """One function and one sample.

    Attributes:
        name: the function.
        score: what it gave, as text.
        worth: the score times the weight, as text.
        compared: what it said about the sample with `log_extra`, as (column, value).
        failure: why it gave nothing, with file and line; empty when it did.
        blamed: whether it fails because of this sample.
        printed: the last lines it printed, for all samples together.
    """

    name: str
    score: str
    worth: str
    compared: tuple[tuple[str, str], ...] = ()
    failure: str = ""
    blamed: bool = False
    printed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleDetail:
    """A sample in full.

    Attributes:
        number: counted from 1.
        kind: what is known of it, and its tags.
        prompt: its last user message.
        completion: the whole text, safe, line breaks kept.
        total, advantage: as text.
        recorded: what the run gave it, as text; empty when it is from no run.
        saw: the functions.
        columns: the row's dataset columns, as (name, value).
    """

    number: int
    kind: str
    prompt: str
    completion: str
    total: str
    advantage: str
    recorded: str
    saw: tuple[Saw, ...]
    columns: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """All of it as plain text, to be read or copied whole."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"prompt: {self.prompt}"
        for name, value in self.columns:
            yield f"{name}: {value}"
        yield ""
        yield self.completion
        yield ""
        yield f"total {self.total}   advantage {self.advantage}" + (
            f"   in the run {self.recorded}" if self.recorded else ""
        )
        for saw in self.saw:
            yield f"{saw.name}: {saw.failure or f'{saw.score} (weighted {saw.worth})'}"
            for name, value in saw.compared:
                yield f"    {name}: {value}"
            for line in saw.printed:
                yield f"    printed: {line}"


def sample_detail(report: Report, index: int) -> SampleDetail:
    """Return one sample of a report in full."""
    sample = report.scored.samples[index]
    return SampleDetail(
        number=index + 1,
        kind=one_line(sample_words(sample), 60),
        prompt=safe(prompt_text(sample.prompt)),
        completion=safe(sample.text),
        total=compact(report.aggregate.totals[index]),
        advantage=fixed(report.aggregate.advantages()[index]),
        recorded=_recorded(sample),
        saw=tuple(_saw(r, report.weights[k], index) for k, r in enumerate(report.scored.functions)),
        columns=tuple((one_line(name, 40), _value(value)) for name, value in sample.columns.items()),
    )


def editable_text(sample: Sample) -> str:
    """The completion as a person edits it."""
    return completion_text(sample.completion)


def _saw(result: FunctionScore, weight: float, index: int) -> Saw:
    score = result.scores[index]
    worth = score * weight if score is not None and math.isfinite(score) else None
    failure = result.failure
    return Saw(
        name=one_line(result.info.name, 60),
        score="none" if score is None else compact(score),
        worth=MISSING if worth is None else compact(worth),
        compared=tuple(
            (one_line(str(name), 40), _value(values[index]))
            for name, values in result.log_extra.items()
            if _has(values, index)
        ),
        failure="" if failure is None else one_line(failure.text, 500),
        blamed=failure is not None and failure.sample == index,
        printed=tuple(one_line(line, 300) for line in result.output.strip().splitlines()[-MOST_PRINTED:]),
    )


def _has(values: Sequence[Any], index: int) -> bool:
    return not isinstance(values, str) and index < len(values)


def _recorded(sample: Sample) -> str:
    if sample.recorded is None:
        return ""
    total, advantage = sample.recorded.get("total"), sample.recorded.get("advantage")
    parts = [f"total {compact(total)}"] if total is not None else []
    return ", ".join([*parts, f"advantage {fixed(advantage)}"])


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, 400)
