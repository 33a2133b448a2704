"""Rewards for `code_task.yaml`: is there exactly one code block, and does it define the function?

They read the code without running it. `PassesTests` judges what it does. These rewards give partial credit on
the way there: a model that never writes runnable code learns nothing from tests alone.
"""

from __future__ import annotations

import ast
import re
from typing import Any

# One block and nothing around it. DOTALL, because `.` must match line breaks.
ONE_BLOCK = re.compile(r"\s*```python\n(?:(?!```).)+\n```\s*", re.DOTALL)
FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


def text_of(completion: str | list[dict[str, str]]) -> str:
    """Return the text of a completion in either of TRL's two forms."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def one_block(completions: list[Any], **kwargs: Any) -> list[float]:
    """1 for exactly one fenced Python block and nothing else."""
    return [float(ONE_BLOCK.fullmatch(text_of(completion)) is not None) for completion in completions]


def defines(completions: list[Any], function: list[str], **kwargs: Any) -> list[float]:
    """1 if the last block defines the function with a non-empty body, 0.5 if it only parses."""
    scores = []
    for completion, name in zip(completions, function, strict=True):
        blocks = FENCE.findall(text_of(completion))
        scores.append(_defines(blocks[-1], name) if blocks else 0.0)
    return scores


def _defines(code: str, name: str) -> float:
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0.0
    if not body:
        return 0.0
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
    return 1.0 if functions and any(not _is_empty(node) for node in functions[-1].body) else 0.5


def _is_empty(node: ast.stmt) -> bool:
    """Return whether a statement does nothing: `pass`, `...`, a string."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
