"""What a reward makes of the probes: what it takes that it should not, and refuses that it should not.

A function is judged by what it tells apart on the row's own measures. One that gives more for the right
answer than for the wrong one looks at the answer: it is fooled by a probe without a right answer that gets at
least half of the way, and unfair to a right answer that gets less. One that gives more for the form than for
the formless answer looks at the form: it is fooled by a broken form that gets all of it. Knows scores, not
functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grpo_tui.rewards.probes import Probe

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Verdict:
    """One function's answer to one probe, when it is not what it should be.

    Attributes:
        function: name of the function, or `total`.
        kind: the probe's kind.
        fault: `fooled` or `unfair`.
        score: what it gave.
        right: what it gives the right answer as asked.
        wrong: what it gives the wrong answer, or for a question of form the formless answer.
        why: what is wrong with the completion, or right about it.
        row: which row the probe was made from, from 0.
        text: the completion.
    """

    function: str
    kind: str
    fault: str
    score: float
    right: float
    wrong: float
    why: str
    row: int
    text: str


@dataclass(frozen=True, slots=True)
class Aspect:
    """What one function looks at, by its scores of a row's three measures.

    Attributes:
        answer: it gives the right answer more than the wrong one.
        form: it gives the form more than the same answer without it.
        reversed: it gives the wrong answer more.
    """

    answer: bool
    form: bool
    reversed: bool

    @property
    def nothing(self) -> bool:
        """True when it tells none of the three apart."""
        return not (self.answer or self.form or self.reversed)


def aspect(right: float | None, wrong: float | None, formless: float | None) -> Aspect:
    """What a function looks at; an abstention tells nothing apart."""
    if right is None or wrong is None:
        return Aspect(False, False, False)
    return Aspect(
        answer=right > wrong + EPSILON,
        form=formless is not None and right > formless + EPSILON,
        reversed=wrong > right + EPSILON,
    )


def judge(
    probes: Sequence[Probe], scores: Mapping[str, Sequence[float | None]], row: int = 0
) -> list[Verdict]:
    """The verdicts on one row.

    Args:
        probes: the row's probes, with the kinds `right`, `wrong` and `formless` among them.
        scores: what each function gave, by name, in the order of the probes.
        row: number of the row, for the verdicts.
    """
    place = {probe.kind: number for number, probe in enumerate(probes)}
    found = []
    for name, given in scores.items():
        right, wrong, formless = (given[place[kind]] for kind in ("right", "wrong", "formless"))
        looks = aspect(right, wrong, formless)
        for probe, score in zip(probes, given, strict=True):
            if score is None or right is None or wrong is None:
                continue
            fault, against = _fault(probe, looks, score, right, wrong, formless)
            if fault:
                found.append(
                    Verdict(name, probe.kind, fault, score, right, against, probe.why, row, probe.text)
                )
    return found


def _fault(
    probe: Probe, looks: Aspect, score: float, right: float, wrong: float, formless: float | None
) -> tuple[str, float]:
    if looks.answer:
        half = (right + wrong) / 2
        if probe.answer != "right" and probe.kind != "wrong" and score >= half - EPSILON:
            return "fooled", wrong
        if not probe.attack and probe.answer == "right" and probe.form == "whole" and score < half - EPSILON:
            return "unfair", wrong
        return "", wrong
    if looks.form and formless is not None:
        if probe.attack and probe.form == "broken" and score >= right - EPSILON:
            return "fooled", formless
        fair = not probe.attack and not probe.spelling and probe.form == "whole"
        if fair and score < (right + formless) / 2 - EPSILON:
            return "unfair", formless
    return "", wrong


@dataclass(frozen=True, slots=True)
class KindReport:
    """One kind of probe against one function, over all rows."""

    function: str
    kind: str
    fault: str
    rows: int
    of: int
    example: Verdict


def by_kind(verdicts: Iterable[Verdict], rows: int) -> list[KindReport]:
    """Verdicts counted by function, fault and kind; what happens on most rows first."""
    grouped: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        grouped.setdefault((verdict.function, verdict.fault, verdict.kind), []).append(verdict)
    reports = [
        KindReport(function, kind, fault, len({v.row for v in found}), rows, found[0])
        for (function, fault, kind), found in grouped.items()
    ]
    return sorted(reports, key=lambda report: (report.fault, -report.rows))
