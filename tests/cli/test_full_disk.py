"""Commands that write onto a full disk: a sentence, and nothing half written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """\
model_name_or_path: some/model
dataset_name: some/data
reward_funcs: [accuracy_reward]
bf16: false
use_cpu: true
"""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("export c.yaml --format script -o t.py", "t.py cannot be written: File too large"),
        ("new config n/my.yaml --preset gsm8k", "cannot be written: File too large"),
        ("config fields --all", "the output cannot be written"),
    ],
)
def test_what_does_not_fit_is_told_and_nothing_is_left(tmp_path: Path, words: str, why: str) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
        "sys.dont_write_bytecode = True; "  # Python would keep modules cut short beside the program itself
        "from grpo_tui.cli import main; sys.exit(main())"
    )
    with (tmp_path / "out").open("wb") as out:
        told = subprocess.run(
            [sys.executable, "-c", limited, *words.split()],
            cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert told.returncode == 2
    assert why in told.stderr
    assert "Traceback" not in told.stderr
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["c.yaml", "out"]
