"""What earlier checks found, kept while neither the config nor a file it names has changed.

Model, data and rewards cost seconds, and most edits touch none of them. It judges nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.stamps import stamps_of
from grpo_tui.preflight.checker import Checked
from grpo_tui.preflight.rewards import RewardLook

MOST = 8
"""Configs that are remembered; the oldest goes first."""


class Memory:
    """Remembers facts and looks by config and file stamps; used from one thread at a time."""

    def __init__(self) -> None:
        self._checked: OrderedDict[str, Checked] = OrderedDict()
        self._rewards: OrderedDict[str, RewardLook] = OrderedDict()

    def key(self, config: RunConfig, world_size: int | None) -> str:
        """What stands for a config and the state of all files that it names."""
        body = config.to_json()
        for name in ("findings", "raw"):
            body.pop(name)
        text = json.dumps([body, world_size, stamps_of(config)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def checked(self, key: str) -> Checked | None:
        """What the checker found, None when it was not asked."""
        return self._checked.get(key)

    def rewards(self, key: str) -> RewardLook | None:
        """What the look at the rewards gave, None when there was none."""
        return self._rewards.get(key)

    def keep_checked(self, key: str, found: Checked) -> None:
        """Remember what the checker found."""
        _keep(self._checked, key, found)

    def keep_rewards(self, key: str, found: RewardLook) -> None:
        """Remember a look at the rewards that was not broken off."""
        _keep(self._rewards, key, found)


def _keep(known: OrderedDict[str, Any], key: str, found: Any) -> None:
    known[key] = found
    while len(known) > MOST:
        known.popitem(last=False)
