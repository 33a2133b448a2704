"""No test reads or writes the preferences of the person who runs it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def preferences_of_their_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty folder for preferences, also for the programs a test starts."""
    monkeypatch.setenv("GRPO_TUI_CONFIG_DIR", str(tmp_path_factory.mktemp("preferences")))
