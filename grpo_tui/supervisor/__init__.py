"""The parent of a training process: heartbeat, log, aborts and kills, and the record of how it ended.

It runs in a session of its own, so a terminal hang-up does not reach it. It never imports the ML stack, and
keeps responding when a regular expression or a C library blocks the trainer's interpreter.
"""

from __future__ import annotations

from grpo_tui.supervisor.start import RunFolderBusy, adopt, launch, start_sidecar, take_lock

__all__ = ["RunFolderBusy", "adopt", "launch", "start_sidecar", "take_lock"]
