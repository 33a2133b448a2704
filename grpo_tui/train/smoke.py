"""The data of a trial run: the longest prompts first, so that two steps show what the longest batch takes.

Knows the rows and the tokenizer; how the trial is started and judged is for the command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpo_tui.core.text import prompt_text
from grpo_tui.data.prompt_tokens import NoTokenizerError, load_tokenizer, prompt_lengths

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.data.load import Prompts
    from grpo_tui.train.session import Session

FACT = "smoke"
"""The fact: `prompt_tokens` of the longest prompt, and how many `rows` there are."""
MOST_TOKENIZED = 2_000
"""Rows whose tokens are counted: the longest by their characters."""


def longest_first(session: Session, config: RunConfig, prompts: Prompts) -> Prompts:
    """The prompts with the longest in front; a stream stays as it is, for nobody knows its longest."""
    if not hasattr(prompts.train, "select"):
        print("grpo-tui: the rows are streamed; the trial takes the first ones, not the longest", flush=True)
        session.fact(FACT, {"prompt_tokens": None, "rows": None})
        return prompts
    template = config.grpo.get("chat_template_kwargs")
    try:
        tokenizer = load_tokenizer(config)
        order, most = by_length(
            list(prompts.train["prompt"]), lambda part: prompt_lengths(tokenizer, part, template)
        )
    except NoTokenizerError as error:
        print(f"grpo-tui: {error}; prompts are ordered by their characters", flush=True)
        order, most = by_length(list(prompts.train["prompt"]), None)
    session.fact(FACT, {"prompt_tokens": most, "rows": len(order)})
    return replace(prompts, train=prompts.train.select(order))


def by_length(
    prompts: list[Any], measure: Callable[[list[Any]], list[int]] | None
) -> tuple[list[int], int | None]:
    """Rows by length, longest first, and the tokens of the longest.

    Args:
        prompts: (N,) prompts.
        measure: Gives the tokens of each of some prompts; None to go by characters alone.
    """
    characters = [len(prompt_text(prompt)) for prompt in prompts]
    order = sorted(range(len(prompts)), key=lambda row: -characters[row])
    if measure is None or not order:
        return order, None
    front = order[:MOST_TOKENIZED]
    tokens = dict(zip(front, measure([prompts[row] for row in front]), strict=True))
    front.sort(key=lambda row: -tokens[row])
    return front + order[len(front) :], tokens[front[0]]
