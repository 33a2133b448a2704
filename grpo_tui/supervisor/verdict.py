"""How a training process ended, told from its exit code when it could not say so itself.

Knows signals, exit codes and the system's count of processes it killed for want of memory.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.store.live import RankState

VMSTAT = Path("/proc/vmstat")

_WHY = {
    "SIGKILL": "killed with SIGKILL, by a person or by the system when memory ran out",
    "SIGTERM": "ended by SIGTERM before it could save",
    "SIGSEGV": "a native library crashed (SIGSEGV)",
    "SIGABRT": "a native library gave up (SIGABRT)",
    "SIGFPE": "a native library crashed (SIGFPE)",
    "SIGBUS": "a native library crashed (SIGBUS), as when /dev/shm or the disk of a mapped file is full",
    "SIGILL": "a native library uses an instruction that this processor lacks (SIGILL)",
    "SIGXCPU": "its limit of processor time was reached (SIGXCPU; `ulimit -t`)",
}
_STARVED = "killed by the system because memory ran out (SIGKILL)"
_DOING = {
    "load": "while loading",
    "generate": "while generating",
    "reward": "while scoring",
    "update": "in the update",
    "save": "while saving",
    "eval": "in the evaluation",
    "wait": "while paused",
}


@dataclass(frozen=True, slots=True)
class Death:
    """What is known of the end of a training process that said nothing itself."""

    code: int | None
    """Its exit code, negative for a signal; None when it was not this process's child."""
    last: RankState | None = None
    """What it was doing, as far as it got to say it."""
    starved: bool = False
    """Whether the system has killed a process for want of memory while it ran."""
    log: str = "train.log"


def verdict(death: Death) -> tuple[str, dict[str, Any]]:
    """State and error of an attempt whose trainer could not write its own end."""
    doing, where = doing_of(death.last), f"see {death.log}"
    if death.code is not None and death.code < 0:
        number = -death.code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        why = _WHY.get(name, f"ended by {name}")
        if name == "SIGKILL" and death.starved:
            why = _STARVED
        message = f"the training process was {why}" if why.startswith(("killed", "ended")) else why
        return "crashed", {"type": name, "message": message, "cause": f"{why}{doing}; {where}"}
    gone = f"the training process ended with code {death.code}"
    if death.code is None:
        gone = "the training process is gone"
        doing += ", most likely killed by the system for want of memory" if death.starved else ""
    return "crashed", {
        "type": "",
        "message": gone,
        "cause": f"{gone}{doing}{',' if doing else ''} and did not say why; {where}",
    }


def doing_of(last: RankState | None) -> str:
    """`, while …`: the phase, or the reward function, a process died in; empty when it said nothing."""
    if last is None:
        return ""
    if last.reward_function:
        return f", while reward function '{last.reward_function}' ran"
    said = _DOING.get(last.phase, "")
    return f", {said}" if said else ""


def starvation_kills(source: Path = VMSTAT) -> int | None:
    """How many processes the kernel has killed for want of memory since it started; None when unknown.

    Counts those of a container's limit too (`oom_kill` in proc(5), since Linux 4.13).
    """
    try:
        lines = source.read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
    except (OSError, ValueError, IndexError):
        return None
