r"""Template of a rewards file that grows by one function at a time.

The weights are the usual advice for beginners: correctness weighs most, format less, length and style least.
`next_reward` decides which function comes next.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.core.text import named_texts
from grpo_tui.rewards.answer_format import Form

DEFAULT_FORM = Form("tags", "think", "answer")
DEFAULT_WORDS = 300
"""Maximum words per completion when the config does not set a token limit."""
WORDS_PER_TOKEN = 0.75
"""Roughly, for English."""


class TemplateError(ValueError):
    """A file cannot take another reward. The message is for the user."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One reward of the template.

    Attributes:
        role: `correctness`, `format`, `partial`, `length` or `style`.
        source: top-level Python statements.
    """

    role: str
    name: str
    weight: float
    says: str
    source: str


@dataclass(frozen=True, slots=True)
class Task:
    """Task that the template is written for.

    Attributes:
        column: dataset column with the reference answer.
        asked: whether the prompts ask for the format. Otherwise a system prompt must.
    """

    form: Form = DEFAULT_FORM
    column: str = "answer"
    words: int = DEFAULT_WORDS
    asked: bool = False


_TEXTS = named_texts(Path(__file__).with_suffix(".txt"))


def stages(task: Task) -> tuple[Stage, ...]:
    """Return the rewards of the template, in the order in which they are added.

    The two format rewards exist only for answers between tags.
    """
    tags = _tags(task.form)
    correctness = _TEXTS["CORRECTNESS"].format(
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
            Stage("format", "strict_format", 0.5, "does the completion match the format exactly?",
                  _TEXTS["STRICT"].format(**whole)),
            Stage("partial", "incremental_format", 0.5, "partial credit: how much of the format is there?",
                  _TEXTS["PARTIAL"].format(tags=_tuple(tags), read=_read(task.form))),
        ]  # fmt: skip
    return (
        *found,
        Stage("length", "not_too_long", 0.2, "does it end before it is truncated?",
              _TEXTS["LENGTH"].format(words=task.words)),
        Stage("style", "no_repetition", 0.2, "does it avoid repeating itself?", _TEXTS["STYLE"]),
    )  # fmt: skip


def begun_with(stage: Stage, task: Task, file: str) -> str:
    """Return the text of a new rewards file with one function."""
    return f"{_TEXTS['HEAD'].format(file=file)}\n\n{_TEXTS['TEXT_OF']}\n{stage.source}"


def with_stage(text: str, stage: Stage) -> str:
    """Return the text of a rewards file with one more function and its imports.

    Raises:
        TemplateError: the file is not valid Python, or already uses one of the names.
    """
    tree = parsed(text)
    known = _names(tree)
    new = _names(parsed(stage.source)) - {"TAGS"}
    if taken := sorted(new & known):
        raise TemplateError(f"the file has {', '.join(taken)} already, which {stage.name} would replace")
    parts = [text.rstrip("\n")]
    if "text_of" not in known:
        parts.append(_TEXTS["TEXT_OF"].rstrip("\n"))
    parts.append(stage.source.strip("\n"))
    whole = "\n\n\n".join(part for part in parts if part) + "\n"
    return _with_imports(whole, tree, known)


def parsed(text: str) -> ast.Module:
    """Parse a rewards file.

    Raises:
        TemplateError: it is not valid Python.
    """
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f" in line {line}" if line else ""
        raise TemplateError(f"the file is not valid Python{at}: {getattr(error, 'msg', error)}") from error


def reward_names(text: str) -> list[str]:
    """Return the names of a file's reward functions: top-level functions that take `completions`.

    Raises:
        TemplateError: it is not valid Python.
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
    """Return the text that a format reward looks at, including a tag written by the chat template."""
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
