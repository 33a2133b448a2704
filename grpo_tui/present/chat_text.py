"""Text below an answer in a chat: length, rewards, and why there is no score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact, plural


def footing(answer: Mapping[str, Any]) -> str:
    """Return the figures of an answer of `grpo-tui chat --json` on one line."""
    parts = [plural(int(answer["tokens"]), "token")]
    if answer["stopped"]:
        parts.append("stopped")
    elif answer["truncated"]:
        parts.append("truncated")
    parts += [f"{one_line(name, 30)} {compact(score)}" for name, score in answer["rewards"].items()]
    if answer["rewards"]:
        parts.append(f"total {compact(answer['reward'])}")
    return " · ".join(parts)


def remarks(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on an exchange, and why rewards gave no scores."""
    yield from map(one_line, body["notes"])
    if body["errors"] and body["row"] is None:
        names = ", ".join(one_line(name, 30) for name in body["errors"])
        why = one_line(next(iter(body["errors"].values())), 300)
        asked = f"the prompt is not a row of the dataset, so it has no reference answer ({why})"
        yield f"no score from {names}: {asked}"
        return
    for name, why in body["errors"].items():
        yield f"{one_line(name, 30)} gave no score: {one_line(why, 300)}"
