"""The child that looks at tokens holds no more models than two."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.train import token_child


def test_the_base_and_one_checkpoint_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load(config: RunConfig, checkpoint: str) -> Any:
        loaded.append(checkpoint)
        return object()

    monkeypatch.setattr(token_child, "_load", load)
    child = token_child.Child(lambda event: None)
    config = load_config(DEMO_CONFIG)
    held = []
    for checkpoint in ("", "a", "a", "b", "", "a"):
        child._policy(config, checkpoint)
        held.append(set(child._loaded))
    assert held == [{""}, {"", "a"}, {"", "a"}, {"", "b"}, {"", "b"}, {"", "a"}]
    assert loaded == ["", "a", "b", "a"]
