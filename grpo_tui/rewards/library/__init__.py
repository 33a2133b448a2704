"""Reward functions for any TRL script and for `grpo_tui.rewards` in a config.

Create each with its parameters and pass it to TRL:

    from grpo_tui.rewards.library import NumericAnswer, TagFormat
    GRPOTrainer(..., reward_funcs=[NumericAnswer(column="solution"), TagFormat()])

They take (B*G,) completions, texts or lists of messages, and return one float for each, or None to abstain.
Importing them does not import torch, transformers or TRL.
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
