"""The parent of a training process: heartbeat, log, out-of-band commands, and the last word on its end.

Runs in a session of its own, so no hang-up reaches it, and stays responsive when a regular expression
or a C library holds the trainer's interpreter. `start` starts one, `watch` is what it does. It
never imports the ML stack.
"""

from __future__ import annotations

from grpo_tui.supervisor.start import RunFolderBusy, adopt, launch, start_sidecar, take_lock

__all__ = ["RunFolderBusy", "adopt", "launch", "start_sidecar", "take_lock"]
