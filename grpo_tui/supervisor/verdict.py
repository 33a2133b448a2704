"""How a training process ended, told from its exit code when it could not say so itself.

Knows signals and exit codes only.
"""

from __future__ import annotations

import signal
from typing import Any

from grpo_tui.store.layout import RunFolder


def verdict(code: int | None, stopped_now: bool, folder: RunFolder) -> tuple[str, dict[str, Any] | None]:
    """State and error of an attempt whose trainer could not write its own end."""
    if stopped_now:
        return "stopped", None
    where = f"see {folder.log.name}"
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        why = {
            "SIGKILL": "killed with SIGKILL, by a person or by the system when memory ran out",
            "SIGSEGV": "a native library crashed (SIGSEGV)",
            "SIGABRT": "a native library gave up (SIGABRT)",
        }.get(name, f"ended by {name}")
        return "crashed", {
            "type": name,
            "message": f"the training process was {why}",
            "cause": f"{why}; {where}",
        }
    cause = "the training process is gone" if code is None else f"the training process ended with code {code}"
    return "crashed", {"type": "", "message": cause, "cause": f"{cause} and did not say why; {where}"}
