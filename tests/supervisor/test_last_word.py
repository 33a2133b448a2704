"""What a supervisor does once the training process has ended, with processes that are gone already."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from grpo_tui.core.records import AttemptEnded, AttemptStarted
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec, keep_earlier, read_spec
from grpo_tui.store.writer import Writer
from grpo_tui.supervisor.watch import Supervisor

GONE = 2**22 + 1
"""A pid no process has."""


def _resumed(root: Path, *ended: AttemptEnded) -> RunFolder:
    """A run resumed from step 4 with another config, whose training process is gone."""
    folder = RunFolder(root)
    writer = Writer(open_writer(folder.database))
    writer.write([AttemptStarted(1, 0.0, "here", GONE), AttemptEnded(1, 1.0, "stopped", 4)])
    writer.write([AttemptStarted(2, 2.0, "here", GONE, resumed_from=4), *ended])
    writer.close()
    RunSpec({"as": "before"}).write(folder.spec)
    keep_earlier(folder)
    RunSpec({"as": "changed"}, resume="checkpoint-4").write(folder.spec)
    return folder


@pytest.mark.parametrize(
    ("ended", "left"),
    [
        ((), "before"),
        ((AttemptEnded(2, 3.0, "failed", 4),), "before"),
        ((AttemptEnded(2, 3.0, "failed", 5),), "changed"),
        ((AttemptEnded(2, 3.0, "stopped", 4),), "changed"),
    ],
    ids=[
        "killed while loading",
        "failed before its first step",
        "failed after a step",
        "stopped by a person",
    ],
)
def test_a_resume_that_died_before_its_first_step_leaves_the_earlier_config(
    ended: tuple[AttemptEnded, ...], left: str, tmp_path: Path
) -> None:
    folder = _resumed(tmp_path, *ended)
    Supervisor(folder, trainer=GONE, started=1.0).run()
    assert read_spec(folder.spec).config == {"as": left}
    assert not folder.earlier_spec.exists()
    assert stat.S_IMODE(folder.spec.stat().st_mode) == 0o600
    assert RunReader(folder.database).attempts()[-1].state == (ended[0].state if ended else "crashed")
