"""Record how a training process ended, and restore `run.json` if needed.

At that point the supervisor is the only writer. A process that could not report its end is judged by its exit
code and the kernel's count of out-of-memory kills.
"""

from __future__ import annotations

import re
import signal
import socket
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.records import AttemptEnded, AttemptStarted, Dropped, Fact
from grpo_tui.store.connection import RunDatabaseError, open_writer
from grpo_tui.store.layout import RunFolder, where
from grpo_tui.store.live import RankState, read_errors, read_ranks
from grpo_tui.store.log_lines import LogTail
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import may_pass, remove, take_spooled
from grpo_tui.store.spec import RESTORED, settle_earlier
from grpo_tui.store.writer import LOG_POSITION, Writer
from grpo_tui.supervisor.ports import port_trouble

PATIENCE_S = 30.0
"""How long to retry recording the end. A later look at the run tries again."""
RETRY_S = 1.0
LAST_LINES = 200
"""Lines of the log searched for the reason a launcher failed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A training process that is gone."""

    folder: RunFolder
    code: int | None
    """Exit code; None when it was not a child of this process."""
    stopped_now: bool
    started_at: float | None
    """When it was started; None when it ran before its supervisor did."""
    pid: int | None
    starved: bool = False
    """The kernel killed some process for lack of memory meanwhile."""


def conclude(ended: Ended, patience_s: float = PATIENCE_S) -> None:
    """Restore `run.json` if needed and record the end. Do nothing if the folder was deleted."""
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
    """Restore the previous `run.json` if a resume died before its first step."""
    try:
        died = not ended.stopped_now and not _made_a_step(ended)
        if settle_earlier(ended.folder, restore=died):
            print(f"grpo-tui: {RESTORED}", flush=True)
    except (OSError, RunDatabaseError) as error:
        print(f"grpo-tui: run.json keeps what this attempt changed: {error}", flush=True)


def _made_a_step(ended: Ended) -> bool:
    """Return whether the ended attempt completed a step of its own, or ended normally."""
    with closing(RunReader(ended.folder.database)) as reader:
        last = reader.attempts()[-1:]
    if not last or (ended.started_at is not None and last[0].started_at < ended.started_at):
        return False  # it ended before it could record its own start
    if last[0].state not in (None, "failed", "crashed"):
        return True
    told = _ranks(ended.folder, last[0].attempt)
    step = max(last[0].step or 0, told[0].step if told else 0)
    return step > (last[0].resumed_from or 0)


def _ranks(folder: RunFolder, attempt: int) -> list[RankState]:
    """Return the last state reported by each rank of an attempt, rank 0 first."""
    return [state for state in read_ranks(folder) if state.attempt in (attempt, 0)]


def _record(ended: Ended) -> None:
    """Write the rest of the log, outcomes, losses, and the end unless the trainer wrote it."""
    folder = ended.folder
    named = where(folder.root)
    if named is None:
        return
    with closing(Writer(open_writer(RunFolder(named).database))) as writer:
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


def _how(ended: Ended, ranks: list[RankState], said: str) -> tuple[str, dict[str, Any] | None]:
    """Return state and error from the best source. If a launcher failed, the reason is only in the log."""
    first = ranks[0] if ranks and ranks[0].rank == 0 else None
    if not ended.stopped_now:
        if first is not None and first.ended:
            # It ended normally but could not write that, for example on a full disk.
            cause = first.ended_cause
            return first.ended, {"type": "", "message": cause, "cause": cause} if cause else None
        if (told := read_errors(ended.folder, causes=True)) is not None:
            return "failed", told
    if ended.stopped_now:
        return "stopped", None
    if not ranks and (trouble := port_trouble(said)):
        cause = f"the launcher failed: {trouble}. Choose another port with --main_process_port or MASTER_PORT"
        return "failed", {"type": "", "message": trouble, "cause": cause}
    launched = first is not None and first.pid != ended.pid
    code = ended.code
    if launched and code and (told_signal := _SIGNAL.search(said)):
        code, launched = -int(told_signal[1]), False
    return verdict(code, first, starved=ended.starved, launched=launched, log=ended.folder.log.name)


def _lost(attempt: int, ranks: list[RankState]) -> list[Dropped]:
    """Return the counts of records the ranks' recorders could not write before exiting."""
    counts: Counter[str] = Counter()
    for rank in ranks:
        counts.update(rank.lost)
    return [Dropped(attempt, kind, count) for kind, count in counts.items()]


# -- how it ended -----------------------------------------------------------------------------------

VMSTAT = Path("/proc/vmstat")
_SIGNAL = re.compile(r"exitcode *: -(\d+)")
"""How torch's launcher logs that a signal ended a rank. The first line is of the rank that ended first."""

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


def verdict(
    code: int | None,
    last: RankState | None = None,
    *,
    starved: bool = False,
    launched: bool = False,
    log: str = "train.log",
) -> tuple[str, dict[str, Any]]:
    """Return state and error of an attempt whose trainer could not record its own end.

    Args:
        code: Exit code, negative for a signal; None when it was not a child of this process.
        last: Last state it reported.
        starved: The kernel killed some process for lack of memory while it ran.
        launched: The code is that of a launcher, which ends after the first rank did.
    """
    doing, where = doing_of(last), f"see {log}"
    if code is not None and code < 0:
        number = -code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        why = _WHY.get(name, f"ended by {name}")
        if name == "SIGKILL" and starved:
            why = _STARVED
        message = f"the training process was {why}" if why.startswith(("killed", "ended")) else why
        return "crashed", {"type": name, "message": message, "cause": f"{why}{doing}; {where}"}
    if launched and code:
        gone = f"the launcher ended with code {code}, and rank 0 without an error message{doing}"
        return "crashed", {"type": "", "message": gone, "cause": f"{gone}; {where}"}
    gone = f"the training process ended with code {code}"
    if code is None:
        gone = "the training process is gone"
        doing += ", most likely killed by the out-of-memory killer" if starved else ""
    return "crashed", {
        "type": "",
        "message": gone,
        "cause": f"{gone}{doing}{',' if doing else ''} and did not say why; {where}",
    }


def doing_of(last: RankState | None) -> str:
    """Return `, while …` with the phase or reward function a process died in; empty when unknown."""
    if last is None:
        return ""
    if last.reward_function:
        return f", while reward function '{last.reward_function}' ran"
    said = _DOING.get(last.phase, "")
    return f", {said}" if said else ""


def starvation_kills(source: Path = VMSTAT) -> int | None:
    """Return how many processes the kernel has killed for lack of memory since boot; None when unknown.

    Includes kills due to a container's limit (`oom_kill` in proc(5), since Linux 4.13).
    """
    try:
        lines = source.read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
    except (OSError, ValueError, IndexError):
        return None
