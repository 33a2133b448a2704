"""Each item of the checklist is marked by what was found, and says on what it rests."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.config.plan.memory import Device, MemoryPart, MemoryPlan
from grpo_tui.core.findings import Finding
from grpo_tui.preflight.advice import FORMAT, GROUP, LENGTHS, LOGGING, REWARDS, checklist
from grpo_tui.preflight.facts import DataFacts, Facts, TokenizerFacts
from grpo_tui.preflight.rewards import RewardLook
from tests.preflight.test_borders import CLEAN, TOKENIZER, judged
from tests.preflight.test_borders import LENGTHS as TOKENS

CHATS, TEXTS = CLEAN, replace(CLEAN, form="text")
LOOKED = RewardLook((), 8, ("right", "short"), True)


def finding(rule: str, severity: str = "error", field: str = "a") -> Finding:
    return Finding(rule, severity, field, None, f"{rule} is wrong")


def told(
    item: str,
    *found: Finding,
    data: DataFacts | None = None,
    tokenizer: TokenizerFacts | None = None,
    rewards: RewardLook | None = None,
    plan: Any = None,
    **settings: Any,
) -> tuple[str, str]:
    facts = Facts(tokenizer=tokenizer, data=data)
    items = checklist(judged({}, settings), found, facts, rewards, plan)
    assert [one.text for one in items] == [FORMAT, REWARDS, LENGTHS, GROUP, LOGGING]
    return next((one.mark, one.evidence) for one in items if one.text == item)


BARE = replace(TOKENIZER, has_template=False)
QUOTED, STRINGS = finding("data.quoted-messages", "warning"), finding("tokenizer.string-prompts", "warning")
FORMATS: list[tuple[DataFacts | None, TokenizerFacts | None, list[Finding], str, str]] = [
    (None, None, [], "idle", "the data was not read"),
    (CHATS, None, [], "yes", "100 rows, all prompts are messages"),
    (replace(CHATS, sampled="at random", looked_at=10), None, [], "yes",
     "10 rows of 100, all prompts are messages"),
    (replace(CHATS, sampled="the first", total=None), None, [], "yes",
     "100 rows of a stream, all prompts are messages"),
    (replace(CHATS, problem="it is gone"), None, [], "no", "it is gone"),
    (replace(CHATS, problem="x"), None, [finding("data.unreadable")], "no", "data.unreadable is wrong"),
    (CHATS, None, [finding("tokenizer.refused")], "no", "tokenizer.refused is wrong"),
    (CHATS, None, [finding("data.nulls", "warning"), finding("rewards.return")], "yes",
     "100 rows, all prompts are messages"),
    (TEXTS, TOKENIZER, [QUOTED, STRINGS], "warning", "data.quoted-messages is wrong"),
    (TEXTS, TOKENIZER, [STRINGS], "warning",
     "100 rows, all prompts are plain text, and the model has a chat template"),
    (TEXTS, TOKENIZER, [], "yes",
     "100 rows, all prompts are text that already uses the template's markers"),
    (TEXTS, BARE, [], "yes",
     "100 rows, all prompts are plain text, which fits a model without a chat template"),
    (TEXTS, None, [], "yes",
     "100 rows, all prompts are plain text, which fits a model without a chat template"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "tokenizer", "found", "mark", "said"), FORMATS)
def test_the_format_of_the_prompts_is_told_with_the_rows_that_were_read(
    data: DataFacts | None, tokenizer: TokenizerFacts | None, found: list[Finding], mark: str, said: str
) -> None:
    assert told(FORMAT, *found, data=data, tokenizer=tokenizer) == (mark, said)


@pytest.mark.parametrize(
    ("look", "found", "mark", "said"),
    [
        (None, [], "idle", "the rewards were not called"),
        (None, [finding("rewards.return")], "idle", "the rewards were not called"),
        (RewardLook(), [], "idle", "the rewards were not called"),
        (RewardLook(), [finding("rewards.not-run")], "no", "rewards.not-run is wrong"),
        (LOOKED, [], "yes", "right, short: 8 completions with reference and wrong answers"),
        (LOOKED, [finding("rewards.slow", "warning"), finding("data.nulls")], "yes",
         "right, short: 8 completions with reference and wrong answers"),
        (LOOKED, [finding("rewards.return")], "no", "rewards.return is wrong"),
        (replace(LOOKED, scored=1), [], "yes",
         "right, short: 1 completion with reference and wrong answers"),
    ],
)  # fmt: skip
def test_rewards_are_tested_once_they_were_called(
    look: RewardLook | None, found: list[Finding], mark: str, said: str
) -> None:
    assert told(REWARDS, *found, rewards=look) == (mark, said)


@pytest.mark.parametrize(
    ("data", "found", "mark", "said"),
    [
        (None, [], "idle", "no prompt was counted"),
        (CHATS, [finding("data.too-long")], "idle", "no prompt was counted"),
        (replace(CHATS, prompt_tokens=TOKENS), [], "yes",
         "p50 40, p99 60, longest 100 tokens, beside max_completion_length 256"),
        (replace(CHATS, prompt_tokens=TOKENS), [finding("data.too-long", "warning")], "warning",
         "p50 40, p99 60, longest 100 tokens: data.too-long is wrong"),
        (replace(CHATS, prompt_tokens=TOKENS), [finding("data.no-room")], "no",
         "p50 40, p99 60, longest 100 tokens: data.no-room is wrong"),
    ],
)  # fmt: skip
def test_the_longest_prompt_is_told_beside_the_completions(
    data: DataFacts | None, found: list[Finding], mark: str, said: str
) -> None:
    assert told(LENGTHS, *found, data=data) == (mark, said)


def memory(room: int | None) -> Any:
    part = MemoryPart("weights", "weights", 30_000_000_000, ("generate", "loss"), "by hand")
    return MemoryPlan((part,), None if room is None else Device("a card", room))


@pytest.mark.parametrize(
    ("plan", "mark", "said"),
    [
        (None, "idle", "num_generations 8; not planned before the errors are fixed"),
        (SimpleNamespace(memory=None), "idle", "num_generations 8; the model's sizes are unknown"),
        (SimpleNamespace(memory=memory(None)), "idle",
         "num_generations 8; there is no GPU to fit it on"),
        (SimpleNamespace(memory=memory(80_000_000_000)), "yes",
         "num_generations 8: about 30.0 GB of 80.0 GB (a card)"),
        (SimpleNamespace(memory=memory(20_000_000_000)), "no",
         "num_generations 8: about 30.0 GB of 20.0 GB (a card)"),
    ],
)  # fmt: skip
def test_the_group_is_held_against_the_memory_of_the_card(plan: Any, mark: str, said: str) -> None:
    assert told(GROUP, plan=plan) == (mark, said)


@pytest.mark.parametrize(
    ("report_to", "found", "mark", "said"),
    [
        (None, [], "idle", "no tracker is set"),
        ("none", [], "idle", "no tracker is set"),
        (["none"], [], "idle", "no tracker is set"),
        ("wandb", [], "yes", "wandb every 10 steps"),
        (["wandb", "tensorboard"], [], "yes", "wandb, tensorboard every 10 steps"),
        ("wandb", [finding("packages.login", field="report_to")], "no", "packages.login is wrong"),
        ("wandb", [finding("training.trackers", "warning", "report_to")], "yes", "wandb every 10 steps"),
        ("wandb", [finding("config.type", field="beta")], "yes", "wandb every 10 steps"),
    ],
)
def test_logging_names_the_trackers_and_what_is_kept_anyway(
    report_to: Any, found: list[Finding], mark: str, said: str
) -> None:
    kept = "" if mark == "no" else "; every step and completion is kept in run.db"
    assert told(LOGGING, *found, report_to=report_to, logging_steps=10) == (mark, f"{said}{kept}")
