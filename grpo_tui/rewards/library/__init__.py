"""Reward functions to build on, for any TRL script and for `grpo_tui.rewards` in a config.

Each is an object made with its parameters and handed to TRL as it is:

    from grpo_tui.rewards.library import NumericAnswer, TagFormat
    GRPOTrainer(..., reward_funcs=[NumericAnswer(column="solution"), TagFormat()])

They take completions as texts or as message lists, (B*G,) of them, and return one float each, or None where
they have nothing to say. Importing them imports nothing of the ML stack.
"""

from __future__ import annotations

from grpo_tui.rewards.library.base import MissingColumnError, Reward, TextReward
from grpo_tui.rewards.library.code import PassesTests
from grpo_tui.rewards.library.correctness import (
    ExactAnswer,
    JsonSchema,
    MathAnswer,
    MultipleChoice,
    NumericAnswer,
)
from grpo_tui.rewards.library.shape import (
    ForbiddenWords,
    FullPattern,
    GroupDiversity,
    IncrementalTags,
    JsonFormat,
    Repetition,
    SoftLengthLimit,
    TagFormat,
    TargetLength,
)
from grpo_tui.rewards.library.wrappers import AdaptiveWeight, Clip, Gate, ScheduledWeight

__all__ = [
    "AdaptiveWeight",
    "Clip",
    "ExactAnswer",
    "ForbiddenWords",
    "FullPattern",
    "Gate",
    "GroupDiversity",
    "IncrementalTags",
    "JsonFormat",
    "JsonSchema",
    "MathAnswer",
    "MissingColumnError",
    "MultipleChoice",
    "NumericAnswer",
    "PassesTests",
    "Repetition",
    "Reward",
    "ScheduledWeight",
    "SoftLengthLimit",
    "TagFormat",
    "TargetLength",
    "TextReward",
]
