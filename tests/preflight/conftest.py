"""What the tests of the pre-flight share: the processes that look at data and rewards, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grpo_tui.preflight.run import Children


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    with Children() as kept:
        yield kept
