"""A run folder in place of a config: what it was started with, or a sentence why that is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.saved_run import saved_run


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (None, "no run here"),
        ("", "cannot be read"),
        ("[]", "is not a run specification"),
        ('{"config": []}', "is not a run specification"),
        ('{"config": {"grpo": []}}', "cannot be read"),
        ('{"config": {}, "launcher": 3}', "cannot be read"),
    ],
)
def test_a_folder_without_a_readable_run_is_told(tmp_path: Path, body: str | None, why: str) -> None:
    if body is not None:
        (tmp_path / "run.json").write_text(body)
    with pytest.raises(CommandError, match=why):
        saved_run(tmp_path)
