"""Lines as wide as without a terminal, wherever the tests run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def wide_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what the width of printed lines is taken from."""
    monkeypatch.setenv("COLUMNS", "120")
