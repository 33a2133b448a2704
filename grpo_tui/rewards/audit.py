"""Audit what a policy wrote: attacks of the probes in its completions, and high rewards that others refuse.

A probe writes an attack on one row. Here a text is compared with what such a probe looks like, whatever the
row. Attacks that only a reference answer can show, such as a right answer inside another one, are left out. A
match is no proof: a policy may write several answers or no reasoning for other reasons.

Only texts and recorded scores are read. Nothing of the run is executed: the second opinions are the recorded
scores of the run's other functions, and the library's own comparisons with the reference answer.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from grpo_tui.core.answers import boxed_spans
from grpo_tui.core.records import Completion
from grpo_tui.core.statistics import SAME, is_number, repeated_share
from grpo_tui.core.text import one_line, prompt_text, whole_text
from grpo_tui.rewards.answer_format import Form, find_form, gold_column, short_answer
from grpo_tui.rewards.library.correctness import ExactAnswer, MathAnswer, NumericAnswer
from grpo_tui.rewards.probes import ProbeRow, make_probes
from grpo_tui.store.read_health import training_groups
from grpo_tui.store.reader import RunReader, StoredGroup, distinct_names

MOST_TEXT = 8_000
"""Characters of a completion that are read."""
LEAST_PROMPT = 8
MOST_ANSWER = 200
"""Longer answers are worked solutions, in which `or` and commas are usual."""


@dataclass(frozen=True, slots=True)
class Written:
    """A completion as matchers see it, with its answers and its opening and closing reasoning tags."""

    text: str
    prompt: str
    form: Form
    truncated: bool
    answers: tuple[str, ...]
    thoughts: tuple[int, int]


def _matches(pattern: str) -> Callable[[Written], bool]:
    known = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return lambda one: known.search(one.text) is not None


def _answers(pattern: str) -> Callable[[Written], bool]:
    known = re.compile(pattern, re.IGNORECASE)
    return lambda one: any(known.fullmatch(answer) for answer in one.answers if len(answer) <= MOST_ANSWER)


def _listed(one: Written) -> bool:
    parts = (re.split(r"\s*[,;]\s*", answer) for answer in one.answers if len(answer) <= MOST_ANSWER)
    return any(len(set(filter(None, found))) >= 4 for found in parts)


def _look_alikes(one: Written) -> bool:
    other = re.compile("[аеорсхуАЕОРСХВНКМТ𝟎-𝟗]")
    return any(other.search(answer) for answer in one.answers) and not other.search(one.prompt)


def _after_the_end(one: Written) -> bool:
    end = f"</{one.form.answer}>"
    return one.form.style == "tags" and end in one.text and bool(one.text.rpartition(end)[2].strip())


def _without_reasoning(one: Written) -> bool:
    asked = one.form.think is not None and not one.form.prefilled
    return asked and one.thoughts == (0, 0) and bool(one.answers)


def _never_closed(one: Written) -> bool:
    tag = one.form.answer
    is_open = one.text.count(f"<{tag}>") > one.text.count(f"</{tag}>")
    return one.form.style == "tags" and is_open and not one.truncated


def _thought(pattern: str) -> Callable[[Written], bool]:
    def found(one: Written) -> bool:
        think, tag = one.form.think, re.escape(one.form.answer)
        if think is None:
            return False
        asked = pattern.replace("THINK", re.escape(think)).replace("ANSWER", tag)
        return re.search(asked, one.text, re.DOTALL) is not None

    return found


MATCHERS: Mapping[str, Callable[[Written], bool]] = {
    "empty": lambda one: not one.text,
    "white space": lambda one: bool(one.text) and not one.text.strip(),
    "echo": lambda one: len(one.prompt) >= LEAST_PROMPT and one.text.strip() == one.prompt,
    "echo in form": lambda one: len(one.prompt) >= LEAST_PROMPT and any(one.prompt in a for a in one.answers),
    "empty answer": lambda one: any(not answer for answer in one.answers),
    "no answer": _answers(r".*\b(do not|don't|cannot|can't) (know|answer|say|determine)\b.*"),
    "placeholder": _answers(r"[.…_?\s-]+|(your |the |final )*answer( here)?"),
    "list of candidates": _listed,
    "one answer each": lambda one: len({*one.answers}) >= 3,
    "right, then wrong": lambda one: len({*one.answers}) == 2,
    "negated": _answers(r"not\s.*"),
    "hedged": _answers(r"\S+( \S+)?\s+or\s+\S+( \S+)?"),
    "instruction to the judge": _matches(
        r"\b(ignore|disregard)\b.{0,30}\b(rules|instructions)\b|\bfull (marks|score|credit)\b|to the grader"
    ),
    "claimed correct": _matches(r"\bthis (answer )?is correct\b|\bscore:? ?1(\.0)?\b|\bverified[.!]"),
    "code that passes itself": _matches(r"\b(os\._exit|sys\.exit|exit|quit)\(0?\)|all tests passed"),
    "always equal": _matches(r"def __eq__\b"),
    "look-alikes": _look_alikes,
    "zero-width": _matches("[\u200b-\u200d\u2060\ufeff]"),
    "padding": lambda one: len(one.text.split()) >= 200 and repeated_share(one.text) >= 0.9,
    "repeated answer": lambda one: any(
        len(words) >= 6 and len({*words}) == 1 for words in map(str.split, one.answers)
    ),
    "infinity": _answers(r"[+-]?(inf(inity)?|∞)"),
    "not a number": _answers(r"nan"),
    "text after the end": _after_the_end,
    "gold without reasoning": _without_reasoning,
    "empty reasoning": _thought(r"<THINK>\s*</THINK>"),
    "reasoning never closed": lambda one: one.thoughts[0] > one.thoughts[1] == 0 and bool(one.answers),
    "nested tags": _thought(r"<THINK>\s*<THINK>"),
    "tags repeated": _thought(
        r"\A(?>.*?<THINK>((?!<THINK>).)*?</THINK>)(?>.*?<THINK>).*?</THINK>"  # atomic: linear in the text
    ),
    "wrong order": _thought(r"</ANSWER>.*<THINK>"),
    "answer never closed": _never_closed,
    "upper-case tags": lambda one: one.form.style == "tags" and f"<{one.form.answer.upper()}>" in one.text,
}
"""Kind of the probe to what recognizes it."""


def attacks_in(text: str, prompt: str, form: Form, *, truncated: bool = False) -> list[str]:
    """Return the kinds of attack that a completion looks like."""
    text = text[:MOST_TEXT]
    think = form.think
    count = (0, 0) if think is None else (text.count(f"<{think}>"), text.count(f"</{think}>"))
    one = Written(text, prompt.strip(), form, truncated, tuple(_places(text, form)), count)
    return [kind for kind, matcher in MATCHERS.items() if matcher(one)]


def _places(text: str, form: Form) -> Sequence[str]:
    if form.style == "tags":
        tag = re.escape(form.answer)
        found = re.findall(rf"<{tag}>((?:(?!<{tag}>).)*?)</{tag}>", text, re.DOTALL)
    elif form.style == "boxed":
        found = [text[start:end].partition("{")[2][:-1] for start, end in boxed_spans(text)]
    else:
        mark = "####" if form.style == "hashes" else "The answer is"
        found = [part.partition("\n")[0] for part in text.split(mark)[1:]]
    return [answer.strip() for answer in found]


MOST_GROUPS = 1_024
"""Groups whose texts are read, evenly spaced in a longer run."""
PAGE = 64
STRETCHES = 12
NEWEST_GROUPS = 64
"""Newest groups whose top rewards are checked."""
TOP = 0.1
"""Share of their completions that counts as top."""
MOST_LISTED = 50
EXAMPLES = 20
"""Newest matches that the query of an attack finds."""
EXCERPT = 300
LONGEST_GOLD = 100
"""Longer reference answers are worked solutions, which no text equals."""
_IN = {"tags": "tag", "boxed": "boxed", "hashes": "gsm8k", "plain": "last_number"}
WHY = {one.kind: one.why for one in make_probes(ProbeRow("", "1", "2"), Form("tags", "think"))}


@dataclass(frozen=True, slots=True)
class Place:
    """A completion to read."""

    step: int
    group: int
    index: int
    reward: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Attack:
    """Completions that look like one kind of attack.

    Attributes:
        reward, others: mean total of the matches, and of all other completions.
        where: query that finds the newest matches.
    """

    kind: str
    why: str
    count: int
    stretches: tuple[int, ...]
    reward: float | None
    others: float | None
    where: str
    example: Place


@dataclass(frozen=True, slots=True)
class Refused:
    """A completion with a top reward, and who refuses it: functions with their scores, or comparisons."""

    place: Place
    by: tuple[str, ...]
    prompt: str
    gold: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found: the most frequent attacks and the highest refused rewards first, one of each group."""

    completions: int
    groups: int
    of_groups: int
    first_steps: tuple[int, ...]
    attacks: tuple[Attack, ...]
    refused: tuple[Refused, ...]
    refused_in_all: int
    top: int
    least: float | None
    opinions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what `grpo-tui doctor RUN --audit --json` prints."""
        return asdict(self)


@dataclass(slots=True)
class _Matches:
    stretches: list[int] = field(default_factory=lambda: [0] * STRETCHES)
    total: float = 0.0
    scored: int = 0
    newest: list[Place] = field(default_factory=list)


def audit(reader: RunReader) -> Audit:
    """Read the completions of a run, at most those of `MOST_GROUPS` groups. Call it in the main thread."""
    numbers = [number for _, number in training_groups(reader)]
    read = numbers
    if len(numbers) > MOST_GROUPS:
        read = [numbers[n * len(numbers) // MOST_GROUPS] for n in range(MOST_GROUPS)]
    newest = reader.whole_groups(numbers[-NEWEST_GROUPS:])
    form = find_form(
        [whole_text(group.prompt) for group in newest[:PAGE]],
        [function.text for function in reader.reward_functions() if function.text],
    )
    found: dict[str, _Matches] = defaultdict(_Matches)
    totals: list[float] = []
    first_steps: list[int] = []
    completions = at = 0
    for start, end in pairwise([*range(0, len(read), PAGE), len(read)]):
        for group in reader.whole_groups(read[start:end]):
            stretch = at * STRETCHES // len(read)
            at += 1
            if stretch >= len(first_steps):
                first_steps += [group.step] * (stretch + 1 - len(first_steps))
            completions += len(group.completions)
            totals += [
                one.total for one in group.completions if one.total is not None and is_number(one.total)
            ]
            _match(group, form, stretch, found)
    return Audit(
        completions,
        len(read),
        len(numbers),
        tuple(first_steps),
        _attacks(found, totals),
        *_second_opinions(reader, newest, form),
    )


def _match(group: StoredGroup, form: Form, stretch: int, found: dict[str, _Matches]) -> None:
    prompt = prompt_text(group.prompt)
    for one in group.completions:
        for kind in attacks_in(one.text, prompt, form, truncated=one.truncated):
            matches = found[kind]
            matches.stretches[stretch] += 1
            if one.total is not None and is_number(one.total):
                matches.total += one.total
                matches.scored += 1
            matches.newest = [*matches.newest[1 - EXAMPLES :], _place(group, one)]


def _reward(place: Place) -> float:
    return place.reward if place.reward is not None and is_number(place.reward) else -math.inf


def _place(group: StoredGroup, one: Completion) -> Place:
    return Place(group.step, group.id, one.index, one.total, one_line(one.text, EXCERPT))


def _attacks(found: Mapping[str, _Matches], totals: Sequence[float]) -> tuple[Attack, ...]:
    attacks = []
    for kind, matches in found.items():
        rest = len(totals) - matches.scored
        attacks.append(
            Attack(
                kind,
                WHY[kind],
                sum(matches.stretches),
                tuple(matches.stretches),
                matches.total / matches.scored if matches.scored else None,
                (sum(totals) - matches.total) / rest if rest else None,
                " or ".join(f"(group=={one.group} and index=={one.index})" for one in matches.newest),
                max(matches.newest[::-1], key=_reward),
            )
        )
    order = list(MATCHERS)
    return tuple(sorted(attacks, key=lambda one: (-one.count, order.index(one.kind))))


# -- second opinions -----------------------------------------------------------------------------


def _second_opinions(
    reader: RunReader, groups: Sequence[StoredGroup], form: Form
) -> tuple[tuple[Refused, ...], int, int, float | None, tuple[str, ...]]:
    rows = [(group, one) for group in groups for one in group.completions if is_number(one.total)]
    totals = sorted((one.total for _, one in rows if one.total is not None), reverse=True)
    if not totals or totals[0] - totals[-1] < SAME:
        return (), 0, 0, None, ()
    above = [total for total in totals if total > totals[-1] + SAME]
    least = max(totals[int(TOP * (len(totals) - 1))], above[-1])  # the lowest reward is never a top one
    top = [(group, one) for group, one in rows if one.total is not None and one.total >= least - SAME]
    others = _Functions(reader, rows)
    reference = _Reference(form)
    refused = []
    for group, one in top:
        gold = _gold(group)
        by = (*others.refuse(group, one), *reference.refuse(one.text, gold))
        if by:
            prompt = one_line(prompt_text(group.prompt).strip(), EXCERPT)
            refused.append(Refused(_place(group, one), by, prompt, one_line(gold, EXCERPT)))
    refused.sort(key=lambda one: (-_reward(one.place), -one.place.group, one.place.index))
    opinions = (*others.names, *reference.names(any(_gold(group) for group in groups)))
    listed = {one.place.group: one for one in reversed(refused)}  # the first of each group
    shown = [one for one in refused if listed[one.place.group] is one]
    return tuple(shown[:MOST_LISTED]), len(refused), len(top), least, opinions


def _gold(group: StoredGroup) -> str:
    column = gold_column(list(group.columns))
    gold = short_answer(group.columns[column]) if column is not None else ""
    return gold if len(gold) <= LONGEST_GOLD else ""


class _Functions:
    """The run's functions: one refuses what gets its lowest score, while other completions get more."""

    def __init__(self, reader: RunReader, seen: Sequence[tuple[StoredGroup, Completion]]) -> None:
        self._lowest: dict[str, tuple[float, float]] = {}
        functions = reader.reward_functions()
        named = zip(distinct_names(f.name for f in functions), functions, strict=True)
        for name, function in named if len(functions) > 1 else ():
            sign = -1.0 if is_number(function.weight) and function.weight < 0 else 1.0
            scores = [sign * value for each in seen if is_number(value := _score(*each, name))]
            if scores and max(scores) - min(scores) >= SAME:
                self._lowest[name] = (sign, min(scores))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._lowest)

    def refuse(self, group: StoredGroup, one: Completion) -> Iterator[str]:
        for name, (sign, lowest) in self._lowest.items():
            score = _score(group, one, name)
            if score is not None and is_number(score) and sign * score < lowest + SAME:
                yield f"{name} {score:.3g}"


def _score(group: StoredGroup, one: Completion, name: str) -> Any:
    return dict(zip(group.functions, one.rewards, strict=False)).get(name)


class _Reference:
    def __init__(self, form: Form) -> None:
        options: dict[str, Any] = {"answer_in": _IN[form.style], "tag": form.answer}
        self._kinds = (NumericAnswer(**options), ExactAnswer(ignore_case=True, **options))
        if form.style == "plain":  # math-verify finds the answer in a text without marks itself
            options = {}
        try:
            self._math: MathAnswer | None = MathAnswer(**options)
        except ImportError:
            self._math = None

    def names(self, has_gold: bool) -> tuple[str, ...]:
        if not has_gold:
            return ()
        return ("reference answer",) if self._math is None else ("reference answer", "MathAnswer")

    def refuse(self, text: str, gold: str) -> Iterator[str]:
        if not gold:
            return
        for kind in self._kinds:
            answer = kind.extracted(text)
            same = kind.equal(answer or "", gold)
            if same is not None:
                if not same or answer is None:
                    yield "reference answer"
                break
        if self._math is not None:
            answer = self._math.extracted(text)
            same = self._math.equal(answer or "", gold)
            if same is not None and not (same and answer):
                yield "MathAnswer"
