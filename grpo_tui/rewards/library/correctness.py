r"""Correctness rewards: exact, numeric, mathematical, multiple choice, JSON schema.

Each extracts the answer from the completion and logs what it compared (`log_extra` columns `<name>_extracted`
and `<name>_gold`), so that its scores can be verified. A reference answer that cannot be read gives None,
because it says nothing about the completion. Numbers may be written in the usual ways: `1,000`, `$5`, `1/2`,
`\frac{1}{2}`, `5 %`, `-3 apples`. Arithmetic is exact, with fractions, so 0.1 + 0.2 is 0.3.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from grpo_tui.core.answers import extract, plain_characters
from grpo_tui.core.text import completion_text
from grpo_tui.rewards.library.base import Reward, column, require

_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*([^{}]+?)\s*\}\s*\{\s*([^{}]+?)\s*\}")
_DECORATION = re.compile(r"\\(?:text|mathrm|mbox)\s*\{([^{}]*)\}")
_SPACES = re.compile(r"\\[,;:! ]|~|\s+")
_DASHES = str.maketrans({"–": "-"})
_VALUE = r"[+-]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+)?(?:[eE][+-]?\d{1,2})?"
_NUMBER = re.compile(rf"(?P<value>{_VALUE})(?:/(?P<below>{_VALUE}))?(?P<rest>.*)", re.DOTALL)
_IN_TEXT = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?|[+-]?\.\d+")
_UNIT = re.compile(r"[^\W\d_]+(?:\^\d|[²³])?(?:(?: ?/ ?| |\.)[^\W\d_]+(?:\^\d|[²³])?){0,2}")
_SIGNS = ("%", "°", "$", "€", "£")
_NO_UNITS = {"or", "and", "to", "but", "not"}
MOST_DIGITS = 400
"""Longer texts are not numbers, because exact arithmetic on them takes too long."""


def parse_number(text: str, *, units: bool = True) -> Fraction | None:
    """Return the number that a text represents, or None.

    Args:
        text: one answer, not a sentence: `$1,200`, `-1/2`, `50 %` (which is 50), `3 km`.
        units: whether to accept any word after the number.
    """
    if len(text) > MOST_DIGITS:
        return None
    plain = _DECORATION.sub(r" \1", plain_characters(text).translate(_DASHES)).strip()
    plain = plain.strip("$").removeprefix("\\$").strip().rstrip(".").strip()
    plain = _LATEX_FRACTION.sub(r"\1/\2", plain)
    spaced = _SPACES.sub(" ", plain).strip()
    found = _NUMBER.match(re.sub(r"\s*/\s*", "/", re.sub(r"^([+-])\s+", r"\1", spaced)))
    if found is None or not any(map(str.isdigit, found["value"])):
        return None
    rest = found["rest"].replace("\\%", "%").removeprefix(" ")
    if rest and rest not in _SIGNS and not (units and _is_unit(rest)):
        return None
    below = found["below"]
    try:
        value = _fraction(found["value"])
        return value / _fraction(below) if below is not None else value
    except (ValueError, ZeroDivisionError):
        return None


def last_number(text: str) -> str | None:
    """Return the last number in a text, as written there, or None."""
    found = _IN_TEXT.findall(plain_characters(text).translate(_DASHES))
    return found[-1] if found else None


def _is_unit(text: str) -> bool:
    """Accept `km/h` and `square metres`, but not `or 5`, which is another answer."""
    return _UNIT.fullmatch(text) is not None and not _NO_UNITS & set(text.lower().split())


def _fraction(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


_BOLD = re.compile(r"(\*\*|__|`)(.*)\1", re.DOTALL)
_BOX = re.compile(r"\$?\s*\\(?:boxed|fbox)\s*\{(.*)\}\s*\$?", re.DOTALL)
WAYS = ("tag", "boxed", "gsm8k", "regex", "last_number", "whole")


class AnswerReward(Reward):
    r"""Reward that compares the answer in a completion with a dataset column.

    Args:
        column: dataset column with the reference answer.
        answer_in: place of the answer in a completion: `tag` (`<answer>…</answer>`), `boxed` (`\boxed{…}`),
            `gsm8k` (after `####`), `regex` (first group of `pattern`), `last_number`, or `whole`.
        tag: name of the tag, for `tag`.
        pattern: regular expression, for `regex`.
        single: whether several answers in a completion count as none, so that listing all candidates does not
            pay. Only for `tag` and `boxed`.
        right, wrong: the two values. A completion without an answer gets `wrong`.

    Range: `right` or `wrong`, None where the reference answer cannot be read.
    """

    def __init__(
        self,
        *,
        column: str = "answer",
        answer_in: str = "tag",
        tag: str = "answer",
        pattern: str | None = None,
        single: bool = True,
        right: float = 1.0,
        wrong: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        require(answer_in in WAYS, f"answer_in is one of {', '.join(WAYS)}, not {answer_in!r}")
        require(answer_in != "regex" or pattern is not None, "answer_in='regex' needs a pattern")
        self.column, self.answer_in, self.tag, self.single = column, answer_in, tag.strip("<>"), single
        self.pattern = re.compile(pattern, re.DOTALL) if pattern is not None else None
        self.right, self.wrong = right, wrong

    def extracted(self, text: str) -> str | None:
        """Return the answer in a completion's text, or None."""
        if self.answer_in == "whole":
            return text.strip() or None
        if self.answer_in == "last_number":
            return last_number(text)
        if self.pattern is not None and self.answer_in == "regex":
            return extract(text, "regex", pattern=self.pattern.pattern)
        if self.single and self._count(text) > 1:
            return None
        return extract(text, self.answer_in, tag=self.tag)

    def _count(self, text: str) -> int:
        if self.answer_in == "tag":
            return max(text.count(f"<{self.tag}>"), text.count(f"</{self.tag}>"))
        return len(re.findall(r"\\boxed\s*\{", text)) if self.answer_in == "boxed" else 1

    @abstractmethod
    def equal(self, answer: str, gold: Any) -> bool | None:
        """Return whether the answer is right, None if the reference answer cannot be read."""

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        golds = column(self.column, kwargs, self.__name__)
        answers = [self.extracted(completion_text(completion)) for completion in completions]
        keep: Callable[[str, list[Any]], None] | None = kwargs.get("log_extra")
        if keep is not None:
            keep(f"{self.__name__}_extracted", ["none" if answer is None else answer for answer in answers])
            keep(f"{self.__name__}_gold", [str(gold) for gold in golds])
        return [self._value(answer, gold) for answer, gold in zip(answers, golds, strict=True)]

    def _value(self, answer: str | None, gold: Any) -> float | None:
        same = None if gold is None else self.equal("" if answer is None else answer, gold)
        if same is None:
            return None
        return self.right if same and answer is not None else self.wrong


def bare(answer: str) -> str:
    """Return an answer without bold, code or box marks around it."""
    for marks, inside in ((_BOLD, 2), (_BOX, 1)):
        found = marks.fullmatch(answer.strip())
        answer = found[inside] if found else answer
    return answer.strip()


class ExactAnswer(AnswerReward):
    """1 if the answer equals the reference answer, apart from white space and marks around both.

    Characters that only look different are equal (full-width, non-breaking spaces, decomposed accents).

    Args:
        ignore_case: whether `Paris` equals `paris`.
        **options: see `AnswerReward`.
    """

    def __init__(self, *, ignore_case: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.ignore_case = ignore_case

    def equal(self, answer: str, gold: Any) -> bool | None:
        """See `AnswerReward.equal`."""
        return self._plain(answer) == self._plain(str(gold)) if str(gold).strip() else None

    def _plain(self, text: str) -> str:
        plain = " ".join(plain_characters(bare(text)).split())
        return plain.casefold() if self.ignore_case else plain


class NumericAnswer(AnswerReward):
    """1 if the answer is the same number as the reference answer, however both are written.

    `1,000`, `$1000` and `1000.0` are equal, and so are `1/2` and `0.5`. In a worked solution in the style of
    GSM8K, the reference answer is the text after `####`.

    Args:
        tolerance: largest accepted difference, relative to the reference answer if that is above 1.
        units: whether to accept any word after the number in the completion.
        **options: see `AnswerReward`.
    """

    def __init__(self, *, tolerance: float = 1e-6, units: bool = True, **options: Any) -> None:
        super().__init__(**options)
        require(tolerance >= 0, f"tolerance is a distance, not {tolerance}")
        self.tolerance, self.units = Fraction(tolerance), units

    def equal(self, answer: str, gold: Any) -> bool | None:
        """See `AnswerReward.equal`."""
        text = str(gold)
        wanted = parse_number(extract(text, "gsm8k") or text, units=True)
        if wanted is None:
            return None
        found = parse_number(bare(answer), units=self.units)
        return found is not None and abs(found - wanted) <= self.tolerance * max(Fraction(1), abs(wanted))


class MathAnswer(AnswerReward):
    r"""1 if the answer is mathematically equal to the reference answer, judged by math-verify.

    Its parser uses SIGALRM and so needs the main thread, where training and reward scoring call rewards.

    Args:
        **options: see `AnswerReward`. `answer_in` is `whole` by default, as math-verify finds the answer.

    Raises:
        ImportError: math-verify is not installed.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"answer_in": "whole", **options})
        try:
            from math_verify import parse, verify
        except ImportError as error:
            raise ImportError("MathAnswer needs math-verify: pip install 'math-verify>=0.8'") from error
        self._parse, self._verify = parse, verify

    def equal(self, answer: str, gold: Any) -> bool | None:
        """See `AnswerReward.equal`."""
        text, answer = plain_characters(str(gold)), plain_characters(answer)
        wanted = self._parse(text if "\\boxed" in text or "$" in text else f"${text}$")
        if not wanted:
            return None
        if self.answer_in != "whole" and "\\boxed" not in answer:
            answer = f"${answer}$"
        return bool(self._verify(wanted, self._parse(answer)))


class MultipleChoice(AnswerReward):
    """1 if the chosen letter is the reference letter. `B`, `(b)`, `B.`, `B) because`, `answer: B` are equal.

    Args:
        letters: the choices. A reference answer that is an integer is an index into them, from 0.
        **options: see `AnswerReward`.
    """

    def __init__(self, *, letters: str = "ABCDE", **options: Any) -> None:
        super().__init__(**options)
        require(len(letters) > 1, "there is no choice with fewer than two letters")
        self.letters = letters.upper()

    def equal(self, answer: str, gold: Any) -> bool | None:
        """See `AnswerReward.equal`."""
        wanted = self._gold(gold)
        return None if wanted is None else self._choice(answer) == wanted

    def _gold(self, gold: Any) -> str | None:
        if isinstance(gold, int) and not isinstance(gold, bool):
            return self.letters[gold] if 0 <= gold < len(self.letters) else None
        return self._choice(str(gold))

    def _choice(self, text: str) -> str | None:
        text = plain_characters(text)
        found = set(re.findall(rf"(?<![^\W_])([{re.escape(self.letters)}])(?![^\W_])", text.upper()))
        # "A" is also a word. If the text starts with a choice, that one counts.
        first = re.match(rf"\W*([{re.escape(self.letters)}])(?![^\W_])", text.upper())
        if first is not None and (len(found) == 1 or re.match(r"\W*[A-Z]\s*[).:,]", text.upper())):
            return first[1]
        return found.pop() if len(found) == 1 else None


class JsonSchema(AnswerReward):
    """1 if the answer is JSON that matches a JSON schema.

    Args:
        schema: one schema for all rows. Without it, the column holds each row's schema as text or mapping.
        **options: see `AnswerReward`. By default, `column` is `schema` and `answer_in` is `whole`.

    Raises:
        ImportError: jsonschema is not installed.
    """

    def __init__(self, *, schema: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(**{"answer_in": "whole", "column": "schema", **options})
        try:
            import jsonschema
        except ImportError as error:
            raise ImportError("JsonSchema needs jsonschema: pip install 'jsonschema>=4.20'") from error
        self._make = jsonschema.Draft202012Validator
        self.schema = None if schema is None else dict(schema)

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        if self.schema is not None:
            kwargs = {**kwargs, self.column: [self.schema] * len(completions)}
        return super().__call__(completions, **kwargs)

    def equal(self, answer: str, gold: Any) -> bool | None:
        """See `AnswerReward.equal`. An invalid schema gives None."""
        try:
            schema = json.loads(gold) if isinstance(gold, str) else gold
            self._make.check_schema(schema)
        except Exception:  # an invalid schema says nothing about the completion
            return None
        try:
            return bool(self._make(schema).is_valid(json.loads(answer)))
        except (ValueError, RecursionError):
            return False
