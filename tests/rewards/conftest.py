"""One warm lab for all tests of rewards: to import torch takes longer than to score."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grpo_tui.rewards.lab import Lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with Lab(limit_s=60) as warm:
        warm.start()  # while it lives, every other lab of this process starts at once
        yield warm
