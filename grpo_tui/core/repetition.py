"""How much a text repeats itself, and how alike the texts of a group are. Pure; knows no reward."""

from __future__ import annotations

from collections.abc import Sequence


def repeated_share(text: str, ngram: int = 4) -> float:
    """Share of the runs of `ngram` words that come again, `1 - distinct / all`, between 0 and 1.

    As in the repetition penalty of Yeo et al. 2025 (arXiv:2502.03373). A text without spaces is looked at
    letter by letter; one of fewer than two runs repeats nothing.
    """
    words: Sequence[str] = text.lower().split()
    if len(words) <= ngram < len(text):
        words = text  # "!!!!!!!!" is one word, and all repetition
    runs = [tuple(words[i : i + ngram]) for i in range(len(words) - ngram + 1)]
    return 1 - len(set(runs)) / len(runs) if len(runs) >= 2 else 0.0


def distinct_share(texts: Sequence[str]) -> float:
    """Share of different texts, 1 when no two are the same or there is none."""
    return len(set(texts)) / len(texts) if texts else 1.0
