"""How a training process ended, and what is left to do then: record its end, and put `run.json` right.

The supervisor is then the one writer. A process that could not say why it ended is judged by its exit code
and the system's count of processes it killed for want of memory.
"""

from __future__ import annotations

import signal
import socket
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.records import AttemptEnded, AttemptStarted, Dropped, Fact
from grpo_tui.store.connection import RunDatabaseError, open_writer
from grpo_tui.store.layout import RunFolder, where
from grpo_tui.store.live import RankState, read_errors, read_rank
from grpo_tui.store.log_lines import LogTail
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import may_pass, remove, take_spooled
from grpo_tui.store.spec import RESTORED, settle_earlier
from grpo_tui.store.writer import LOG_POSITION, Writer
from grpo_tui.supervisor.ports import port_trouble

PATIENCE_S = 30.0
"""How long the end of a run is tried to be recorded; a later look at the run tries again."""
RETRY_S = 1.0
LAST_LINES = 200
"""Lines of the log in which the reason of a launcher that failed is looked for."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A training process that is gone."""

    folder: RunFolder
    code: int | None
    """Its exit code, None when it was not this process's child."""
    stopped_now: bool
    """Whether a person had it ended at once."""
    started_at: float | None
    """When it was started, None when it ran before its supervisor did."""
    pid: int | None
    starved: bool = False
    """Whether the system killed a process for want of memory meanwhile."""


def conclude(ended: Ended, patience_s: float = PATIENCE_S) -> None:
    """Put `run.json` right and record the end; a deleted folder is left alone, and what took its name too."""
    if where(ended.folder.root) is None:
        return
    settle_spec(ended)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            _record(ended)
            return
        except Exception as error:
            if not may_pass(error) or time.monotonic() >= deadline:
                print(f"grpo-tui: could not record the end of the run: {error}", flush=True)
                return
        time.sleep(RETRY_S)


def settle_spec(ended: Ended) -> None:
    """Put the earlier `run.json` back when a resume died before its first step."""
    try:
        died = not ended.stopped_now and not _made_a_step(ended)
        if settle_earlier(ended.folder, restore=died):
            print(f"grpo-tui: {RESTORED}", flush=True)
    except (OSError, RunDatabaseError) as error:
        print(f"grpo-tui: run.json keeps what this attempt changed: {error}", flush=True)


def _made_a_step(ended: Ended) -> bool:
    """True when the attempt that has ended did a step of its own, or ended as it should."""
    reader = RunReader(ended.folder.database)
    try:
        last = reader.attempts()[-1:]
    finally:
        reader.close()
    if not last or (ended.started_at is not None and last[0].started_at < ended.started_at):
        return False  # it ended before it could record its own start
    if last[0].state not in (None, "failed", "crashed"):
        return True
    told = _ranks(ended.folder, last[0].attempt)
    step = max(last[0].step or 0, told[0].step if told else 0)
    return step > (last[0].resumed_from or 0)


def _ranks(folder: RunFolder, attempt: int) -> list[RankState]:
    """What the ranks of an attempt said last, the first one first."""
    states = [read_rank(folder.rank(number)) for number in folder.ranks()]
    return [state for state in states if state is not None and state.attempt in (attempt, 0)]


def _record(ended: Ended) -> None:
    """Write the rest of the log, outcomes, what was lost, and the end if the trainer did not write it."""
    folder = ended.folder
    named = where(folder.root)
    if named is None:
        return
    writer = Writer(open_writer(RunFolder(named).database))
    try:
        attempt = writer.next_attempt()
        records: list[Any] = []
        if ended.started_at is None or writer.last_start_at() >= ended.started_at:
            attempt -= 1
        else:  # it ended before it could record its own start
            records.append(AttemptStarted(attempt, ended.started_at, socket.gethostname(), ended.pid or 0))
        spooled, files = take_spooled(folder, attempt)
        tail = LogTail(folder.log, writer.log_position())
        lines = [*tail.read(1 << 24), *tail.flush()]
        ranks = _ranks(folder, attempt)
        state, error = _how(ended, ranks, "\n".join(line.text for line in lines[-LAST_LINES:]))
        step = ranks[0].step if ranks and ranks[0].rank == 0 else None
        records += [
            *lines,
            *spooled,
            Fact(LOG_POSITION, tail.position),
            *Mailbox(folder.commands).history(set()),
            *_lost(attempt, ranks),
            AttemptEnded(attempt, time.time(), state, step, ended.code, error),
        ]
        writer.write(records)
        remove(files)
    finally:
        writer.close()


def _how(ended: Ended, ranks: list[RankState], said: str) -> tuple[str, dict[str, Any] | None]:
    """State and error of the attempt, by whoever knows best; a launcher says what failed only in the log."""
    first = ranks[0] if ranks and ranks[0].rank == 0 else None
    if not ended.stopped_now:
        if first is not None and first.ended:
            # It came to its end and could only not write it, as on a full disk.
            cause = first.ended_cause
            return first.ended, {"type": "", "message": cause, "cause": cause} if cause else None
        if (told := read_errors(ended.folder)) is not None:
            return "failed", told
    if ended.stopped_now:
        return "stopped", None
    if not ranks and (trouble := port_trouble(said)):
        cause = f"the launcher failed: {trouble}. Choose another port with --main_process_port or MASTER_PORT"
        return "failed", {"type": "", "message": trouble, "cause": cause}
    return verdict(Death(ended.code, first, ended.starved, ended.folder.log.name))


def _lost(attempt: int, ranks: list[RankState]) -> list[Dropped]:
    """What the recorders of the ranks could not write before they had to leave."""
    counts: Counter[str] = Counter()
    for rank in ranks:
        counts.update(rank.lost)
    return [Dropped(attempt, kind, count) for kind, count in counts.items()]


# -- how it ended -----------------------------------------------------------------------------------

VMSTAT = Path("/proc/vmstat")

_WHY = {
    "SIGKILL": "killed with SIGKILL, by a user or by the out-of-memory killer",
    "SIGTERM": "ended by SIGTERM before it could save",
    "SIGSEGV": "a native library crashed (SIGSEGV)",
    "SIGABRT": "a native library gave up (SIGABRT)",
    "SIGFPE": "a native library crashed (SIGFPE)",
    "SIGBUS": "a native library crashed (SIGBUS), as when /dev/shm or the disk of a mapped file is full",
    "SIGILL": "a native library used an instruction that this processor does not have (SIGILL)",
    "SIGXCPU": "it reached its CPU time limit (SIGXCPU; `ulimit -t`)",
}
_STARVED = "killed by the out-of-memory killer (SIGKILL)"
_DOING = {
    "load": "while loading",
    "generate": "while generating",
    "reward": "while scoring",
    "update": "during the update",
    "save": "while saving",
    "eval": "during evaluation",
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
        doing += ", most likely killed by the out-of-memory killer" if death.starved else ""
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
