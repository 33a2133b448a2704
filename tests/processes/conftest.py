"""A run folder that leaves no process behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.runs import end

STARTED_ANEW = ("test_after_training", "test_failures", "test_odd_moments", "test_user_code")
"""Files about starting, ending or the environment of processes, whose commands are new processes."""


@pytest.fixture(scope="module", autouse=True)
def commands(request: pytest.FixtureRequest) -> None:
    """Commands are forked, but in `STARTED_ANEW`."""
    if request.path.stem not in STARTED_ANEW:
        request.getfixturevalue("forked_commands")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "a run, ünïcode"
    yield folder
    end(folder)
