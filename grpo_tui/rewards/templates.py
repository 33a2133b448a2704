r"""A rewards file to begin with: one simple function, then one more at a time, as Python of the person's own.

Texts and where they go in a file; the weights are those that one who starts is advised to take: what is
right weighs most, the form less, length and style least. Which one comes next is `next_reward`'s to say.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_tui.rewards.answer_format import Form

DEFAULT_FORM = Form("tags", "think", "answer")
DEFAULT_WORDS = 300
"""Words that a completion may have, when no config says how many tokens."""
WORDS_PER_TOKEN = 0.75
"""English words a token, roughly."""


class TemplateError(ValueError):
    """A file cannot take another reward; the message is for a person."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One reward of the template.

    Attributes:
        role: what it looks at: `correctness`, `format`, `partial`, `length` or `style`.
        name: its function's.
        weight: in the total.
        says: what it is for, in a sentence.
        source: its text, of top-level statements.
    """

    role: str
    name: str
    weight: float
    says: str
    source: str


@dataclass(frozen=True, slots=True)
class Task:
    """What the template is written for.

    Attributes:
        form: how a completion is to be written.
        column: the dataset column with the gold answer.
        words: words that a completion may have.
        asked: whether the prompts ask for the form; else a system prompt must.
    """

    form: Form = DEFAULT_FORM
    column: str = "answer"
    words: int = DEFAULT_WORDS
    asked: bool = False


HEAD = '''\
"""Rewards for GRPO. Begin with one; add the next with `grpo-tui new rewards {file} --next` when it works.

A reward gets the completions of one batch and every column of the dataset as a keyword, each a list of the
same length, and returns one number per completion (None abstains). A chat prompt gives completions
`[{{"role", "content"}}]`, a text prompt gives texts; `text_of` takes both. `**kwargs` takes what a reward
does not use: leave it in. `log_extra` keeps a column beside the completions: you see what was compared.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any
'''

TEXT_OF = '''\
def text_of(completion: str | list[dict[str, str]]) -> str:
    """Return the text of a completion in either of TRL's two forms."""
    return completion if isinstance(completion, str) else completion[-1]["content"]
'''

CORRECTNESS = r'''
# A completion is to have the form {shown}; a number looks like `-3`, `1,250`, `7/2`, `3 apples`.
ANSWER = re.compile(r"{pattern}", re.DOTALL)
NUMBER = re.compile(r"([-−]?\d[\d,]*(?:\.\d+)?)(?:/([1-9１-９]\d*))?(?: ?[^\W\d_]+)?")
FRACTION = re.compile(r"\\frac\{{(\d+)\}}\{{(\d+)\}}")
GROUPED = re.compile(r"(?<=\d)\u00a0(?=\d{{3}}(?!\d))")  # 1 250 with a non-breaking space


def plain(answer: str) -> str | float:
    """Return an answer as it is compared: `**$1,200.**` and `1200.0` are one number, `Paris.` is `paris`."""
    answer = GROUPED.sub("", unicodedata.normalize("NFC", answer)).replace("\u00a0", " ")
    bare = FRACTION.sub(r"\1/\2", answer).strip(" \n\t$*").removeprefix("\\boxed{{").rstrip(" \n\t$*}}.")
    number = NUMBER.fullmatch(bare)
    if number is None:
        return bare.casefold()
    return float(number[1].replace(",", "").replace("−", "-")) / float(number[2] or 1)


def correctness(
    completions: list[Any], {column}: list[str], log_extra: Any = None, **kwargs: Any
) -> list[float | None]:
    """1 for the right answer {where}, else 0; two answers count as none. No gold answer: None."""
    found = [ANSWER.findall(text_of(completion)) for completion in completions]
    given = [answers[0].strip() if len(answers) == 1 else "" for answers in found]
    gold = [str(answer).rpartition("####")[2].strip() for answer in {column}]  # GSM8K writes it behind ####
    if log_extra is not None:
        log_extra("extracted", [answer or "none" for answer in given])
        log_extra("gold", gold)
    return [
        float(bool(answer) and plain(answer) == plain(right)) if right else None
        for answer, right in zip(given, gold, strict=True)
    ]
'''

STRICT = r'''
# `.` must match line breaks, or a reasoning of two lines scores 0 for ever: hence DOTALL.
WHOLE = re.compile(r"{whole}", re.DOTALL)
TAGS = {tags}


def strict_format(completions: list[Any], **kwargs: Any) -> list[float]:
    """1 for {shown} and nothing {outside} it, else 0; each tag once."""
    scores = []
    for completion in completions:
        text = {read}
        once = all(text.count(tag) == 1 for tag in TAGS)
        scores.append(float(once and WHOLE.fullmatch(text) is not None))
    return scores
'''

PARTIAL = r'''
def incremental_format(completions: list[Any], **kwargs: Any) -> list[float]:
    """The share of the tags that stand once, in their order and with something in them; trailing text costs.

    A model that never meets the whole format has nothing to climb with `strict_format` alone; here it has.
    """
    tags = {tags}
    scores = []
    for completion in completions:
        text, counted, reached = {read}, 0, 0
        for tag in tags:
            place = text.find(tag)
            empty = tag.startswith("</") and not text[reached:place].strip()
            if text.count(tag) == 1 and place >= reached and not empty:
                counted, reached = counted + 1, place + len(tag)
        trailing = text.rpartition(tags[-1])[2].strip() if tags[-1] in text else ""
        scores.append(counted / len(tags) - min(0.5, 0.001 * len(trailing)))
    return scores
'''

LENGTH = r'''
# Set it to about three quarters of max_completion_length, which counts tokens.
MOST_WORDS = {words}


def not_too_long(completions: list[Any], **kwargs: Any) -> list[float]:
    """0 up to four fifths of MOST_WORDS, then down in a line to -1 at MOST_WORDS."""
    free = 0.8 * MOST_WORDS
    counts = [len(text_of(completion).split()) for completion in completions]
    return [-min(1.0, max(0.0, (count - free) / (MOST_WORDS - free))) for count in counts]
'''

STYLE = r'''
def no_repetition(completions: list[Any], **kwargs: Any) -> list[float]:
    """Minus the share of runs of four words that have stood before: 0 for none, towards -1 for a loop."""
    scores = []
    for completion in completions:
        text = text_of(completion).lower()
        words = text.split()
        if len(words) < 5 and len(text) > 200:  # "!!!!!!!!" is one word, and all repetition
            words = list(text)
        runs = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
        scores.append(len(set(runs)) / len(runs) - 1.0 if runs else 0.0)
    return scores
'''


def stages(task: Task) -> tuple[Stage, ...]:
    """The rewards of the template, in the order in which they are added.

    The two of the form are there only where answers are written between tags.
    """
    tags = _tags(task.form)
    correctness = CORRECTNESS.format(
        pattern=_pattern(task.form), column=task.column, where=_where(task.form), shown=_shown(task.form)
    )
    found = [Stage("correctness", "correctness", 2.0, "is the answer right?", correctness)]
    if task.form.style == "tags":
        whole = {
            "whole": _whole(task.form),
            "read": _read(task.form),
            "tags": _tuple(tags),
            "shown": _shown(task.form),
            "outside": "after" if task.form.think is None else "outside",
        }
        found += [
            Stage("format", "strict_format", 0.5, "is the whole form kept, and nothing but it?",
                  STRICT.format(**whole)),
            Stage("partial", "incremental_format", 0.5, "how much of the form is kept? partial credit",
                  PARTIAL.format(tags=_tuple(tags), read=_read(task.form))),
        ]  # fmt: skip
    return (
        *found,
        Stage("length", "not_too_long", 0.2, "does it end before it is cut off?",
              LENGTH.format(words=task.words)),
        Stage("style", "no_repetition", 0.2, "does it say each thing once?", STYLE),
    )  # fmt: skip


def begun_with(stage: Stage, task: Task, file: str) -> str:
    """The text of a new rewards file with one function.

    Args:
        file: its name, for the words in it.
    """
    return f"{HEAD.format(file=file)}\n\n{TEXT_OF}\n{stage.source}"


def with_stage(text: str, stage: Stage) -> str:
    """A rewards file with one more function at its end, and what that needs.

    Raises:
        TemplateError: the file is no Python, or has one of the names already.
    """
    tree = parsed(text)
    known = _names(tree)
    new = _names(parsed(stage.source)) - {"TAGS"}
    if taken := sorted(new & known):
        raise TemplateError(f"the file has {', '.join(taken)} already, which {stage.name} would replace")
    parts = [text.rstrip("\n")]
    if "text_of" not in known:
        parts.append(TEXT_OF.rstrip("\n"))
    parts.append(stage.source.strip("\n"))
    whole = "\n\n\n".join(part for part in parts if part) + "\n"
    return _with_imports(whole, tree, known)


def parsed(text: str) -> ast.Module:
    """The file as Python reads it.

    Raises:
        TemplateError: it cannot.
    """
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f" in line {line}" if line else ""
        raise TemplateError(f"the file is no Python{at}: {getattr(error, 'msg', error)}") from error


def reward_names(text: str) -> list[str]:
    """Names of a file's reward functions: what stands at its top level and takes `completions`.

    Raises:
        TemplateError: it is no Python.
    """
    return [
        node.name
        for node in parsed(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and "completions" in {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
    ]


def _with_imports(text: str, tree: ast.Module, known: set[str]) -> str:
    composing = [("unicodedata", "import unicodedata")] if "unicodedata." in text else []
    wanted = [("re", "import re"), *composing, ("Any", "from typing import Any")]
    missing = [line for name, line in wanted if name not in known]
    future = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    if not any(alias.name == "annotations" for node in future for alias in node.names):
        missing.insert(0, "from __future__ import annotations")
    if not missing:
        return text
    first = tree.body[0] if tree.body else None
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    after = max([first.end_lineno or 0 if docstring and first else 0, *(n.end_lineno or 0 for n in future)])
    lines = text.split("\n")
    block = [*([""] if after else []), *missing, *([] if after < len(lines) and not lines[after] else [""])]
    return "\n".join([*lines[:after], *block, *lines[after:]])


def _names(tree: ast.Module) -> set[str]:
    """Names that a module defines or imports at its top level."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for t in targets for name in ast.walk(t) if isinstance(name, ast.Name)}
    return found


def _tags(form: Form) -> tuple[str, ...]:
    think = () if form.think is None else (f"<{form.think}>", f"</{form.think}>")
    return (*think, f"<{form.answer}>", f"</{form.answer}>")


def _read(form: Form) -> str:
    """What a function of the form looks at; a tag that the chat template has written counts as there."""
    return f'"<{form.think}>" + text_of(completion)' if form.prefilled else "text_of(completion)"


def _tuple(tags: Sequence[str]) -> str:
    return "(" + ", ".join(f'"{tag}"' for tag in tags) + ")"


def _pattern(form: Form) -> str:
    if form.style == "boxed":
        return r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}"
    return r"####\s*([^\n]*)" if form.style == "hashes" else rf"<{form.answer}>(.*?)</{form.answer}>"


def _where(form: Form) -> str:
    where = {"boxed": "in \\boxed{}", "hashes": "behind `####`"}
    return where.get(form.style, f"inside `<{form.answer}>`").replace("\\", "")


def _whole(form: Form) -> str:
    answer = rf"<{form.answer}>\s*\S.*?</{form.answer}>\s*"
    if form.think is None:
        return f".*?{answer}"
    return rf"\s*<{form.think}>\s*\S.*?</{form.think}>\s*{answer}"


def _shown(form: Form) -> str:
    think = "" if form.think is None else f"<{form.think}>…</{form.think}>"
    if form.style != "tags":
        return f"`{think}{'… #### …' if form.style == 'hashes' else '… boxed …'}`"
    return f"`{think}<{form.answer}>…</{form.answer}>`"
