"""The current state of a run, from the database, the live files and the processes.

Every interface asks here, so that the screen and `grpo-tui status` never disagree.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.core.evaluations import WITHOUT_GAIN
from grpo_tui.core.findings import Finding
from grpo_tui.core.schedule import FACT as SCHEDULE
from grpo_tui.core.schedule import scheduled_from, waiting_in
from grpo_tui.core.stages import DONE, stage_from
from grpo_tui.core.stages import FACT as STAGE
from grpo_tui.store.checkpoints import judge, weights_fault
from grpo_tui.store.connection import DamagedError, NewerError, RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import (
    Hardware,
    Heartbeat,
    RankState,
    process_alive,
    read_hardware,
    read_heartbeat,
    read_rank,
    read_ranks,
)
from grpo_tui.store.read_health import open_findings, with_checkpoint
from grpo_tui.store.read_series import last_training_row, newest_signals
from grpo_tui.store.reader import Attempt, RunReader
from grpo_tui.store.replay import Moment, replay_of

ENDED = frozenset({"finished", "stopped", "failed", "crashed"})
STALL_FACTOR = 20.0
"""A run is stalled after this many usual durations of its phase without a finished step."""
STALL_AT_LEAST_S = 30.0
STALL_UNKNOWN_S = 300.0
PAUSED_ITSELF = "run.paused-itself"
"""Id of an alert: the run, or a rule of its config, has paused it."""
MASKED = "loss.masked"
"""Id of an alert: the loss leaves out every completion of the newest step."""
REPLACED = "replaced"
"""Key of a fact: standard-library functions that user code replaced, with the attempt and by whom."""
NEWEST_CHECKED = 16
MOST_NAMED = 4
MOST_REPLACED = 12
START_TIME_EARLY_S = 1.0
"""How far a process's start time can be too early: the boot time is in whole seconds."""


@dataclass(frozen=True, slots=True)
class RankNow:
    """One rank, as `status` reports it."""

    rank: int
    pid: int
    phase: str
    phase_s: float = 0.0
    step: int = 0
    gpu: str | None = None
    """PCI bus id or UUID of its GPU; None on the CPU."""
    reward_func: str | None = None
    phase_since: float = 0.0
    """When its phase began. Not in the JSON, which has `phase_s`."""
    reward_since: float = 0.0
    """When its reward call began, or the last one ended. Not in the JSON."""


@dataclass(frozen=True, slots=True)
class CheckpointNow:
    """One checkpoint folder, as `status` reports it."""

    step: int
    path: str
    complete: bool


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a run at one moment. Other programs may rely on the shape of `to_json`."""

    state: str
    step: int = 0
    total_steps: int | None = None
    phase: str = "wait"
    phase_s: float = 0.0
    reward_func: str | None = None
    heartbeat_age_s: float | None = None
    pid: int | None = None
    ranks: tuple[RankNow, ...] = ()
    attempt: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    dropped: int = 0
    checkpoints: tuple[CheckpointNow, ...] = ()
    scheduled: tuple[Mapping[str, Any], ...] = ()
    """Changes of settings that wait for their step."""
    error: Mapping[str, Any] | None = None
    alerts: tuple[Mapping[str, Any], ...] = ()
    """Problems with its process or its record."""
    stage: Mapping[str, Any] | None = None
    """Name, number and count; None for a run without stages."""
    findings: tuple[Finding, ...] = ()
    """Problems with its training, worst first. In the JSON they are alerts too."""
    hardware: Hardware | None = None
    """The machine of a live run, with the age of the sample; None when it is not sampled."""
    progress_at: float | None = None
    started_at: float | None = None
    supervised: bool = True
    """False when the supervisor is gone while the trainer runs."""

    @property
    def live(self) -> bool:
        """Whether the training process exists."""
        return self.state not in ENDED and self.state not in ("empty", "broken")

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON shape."""
        body = asdict(self)
        for name in ("progress_at", "started_at", "supervised", "findings"):
            del body[name]
        body["alerts"] += tuple(finding.to_alert() for finding in self.findings)
        for rank in body["ranks"]:
            del rank["phase_since"], rank["reward_since"]
        return body


def read_status(root: Path, reader: RunReader | None = None) -> Status:
    """Return the state of a run.

    Raises:
        RunDatabaseError: The folder holds no run.
    """
    folder = RunFolder(root)
    replayed = replay_of(folder.database) is not None
    rank = None if replayed else read_rank(folder.rank(0))
    heartbeat = None if replayed else read_heartbeat(folder.heartbeat)
    own = reader is None
    try:
        reader = reader or RunReader(folder.database)
    except RunDatabaseError as error:
        return _before_database(folder, heartbeat, rank, error)
    try:
        return _from_database(folder, reader, heartbeat, rank)
    finally:
        if own:
            reader.close()


def is_live(root: Path) -> bool:
    """Return whether the training process of a run exists; False when there is no readable run."""
    try:
        return read_status(root).live
    except RunDatabaseError:
        return False


def final_step(root: Path, status: Status | None = None) -> int | None:
    """Return the step of a finished run's final model; None without a complete one.

    A model that an earlier start of the run left there does not count.
    """
    if weights_fault(root):
        return None
    try:
        status = status or read_status(root)
    except RunDatabaseError:
        return None
    return status.step if status.state == "finished" else None


def paused_itself(status: Status) -> str:
    """Return why a run has paused itself, or a rule has; empty when it has not."""
    reasons = [alert["message"] for alert in status.alerts if alert["id"] == PAUSED_ITSELF]
    return str(reasons[0]) if reasons and status.state == "paused" else ""


def _before_database(
    folder: RunFolder, heartbeat: Heartbeat | None, rank: RankState | None, unreadable: RunDatabaseError
) -> Status:
    if rank is not None and rank.phase != "load" and not folder.database.exists() and rank.alive:
        return _without_database(folder, heartbeat, rank)
    if heartbeat is not None and heartbeat.supervisor_alive:
        return Status("starting", phase="load", **_now(folder, heartbeat, None))
    if not folder.exists():
        raise RunDatabaseError(f"{folder.root}: no run here. `grpo-tui runs` lists the runs it can find.")
    if rank is not None and rank.ended and not rank.attempt:  # it could not start a record
        cause = rank.ended_cause
        return Status(state=rank.ended, error={"type": "", "message": cause, "cause": cause})
    if isinstance(unreadable, DamagedError | NewerError):
        raise unreadable
    error = {"type": "", "message": "the run ended before it recorded anything", "cause": f"see {folder.log}"}
    return Status(state="crashed", error=error)


def _without_database(folder: RunFolder, heartbeat: Heartbeat | None, rank: RankState) -> Status:
    """Return the status of a run that continues although its run.db was removed."""
    message = (
        "run.db was removed: nothing recorded from now on is kept. Stop the run; this saves a checkpoint"
    )
    return Status(
        state=_state_of_rank(rank),
        step=rank.step,
        ranks=_ranks_now(folder),
        attempt=rank.attempt,
        alerts=(_alert("store.removed", message, "stop the run", rank.step),),
        progress_at=rank.progress_at or None,
        supervised=heartbeat is not None and heartbeat.supervisor_alive,
        **_now(folder, heartbeat, rank),
    )


def _now(folder: RunFolder, heartbeat: Heartbeat | None, rank: RankState | None) -> dict[str, Any]:
    """Return what the supervisor and the first rank of a live run report."""
    alive = heartbeat is not None and heartbeat.supervisor_alive
    found: dict[str, Any] = {
        "heartbeat_age_s": None if heartbeat is None else round(heartbeat.age_s, 3),
        "pid": heartbeat.supervisor if heartbeat is not None and alive else None,
        "hardware": read_hardware(folder.hardware),
    }
    if rank is not None:
        phase_s = _since(rank.phase_since, time.time())
        found |= {"phase": rank.phase, "phase_s": phase_s, "reward_func": rank.reward_function}
    return found


def _from_database(
    folder: RunFolder, reader: RunReader, heartbeat: Heartbeat | None, rank: RankState | None
) -> Status:
    attempts, moment = reader.attempts(), reader.moment
    attempt = attempts[-1] if attempts else None
    if rank is not None and attempt is not None and rank.attempt not in (0, attempt.attempt):
        rank = None
    newest = last_training_row(reader)
    evaluated = last_training_row(reader, key=WITHOUT_GAIN)
    state = _state(attempt, heartbeat, rank)
    supervisor_alive = heartbeat is not None and heartbeat.supervisor_alive
    shown_rank = rank if state not in ENDED else None
    here = heartbeat is not None and heartbeat.same_host
    gone = state == "stopping" and here and (rank is None or not rank.alive)
    step = max(rank.step if rank else 0, newest[0] if newest else 0)
    if attempt is not None and attempt.step is not None:
        step = attempt.step
    ranks = _ranks_now(folder) if shown_rank else ()
    # The first rank may have finished its reward and wait for another rank's, which hangs.
    running = next((one.reward_func for one in ranks if one.reward_func), None)
    now = {"phase": "load" if state == "starting" else "wait", **_now(folder, heartbeat, shown_rank)}
    now["reward_func"] = now.get("reward_func") or running
    if state in ENDED:
        now["hardware"] = None
    masked, computed = _signals(reader)
    checkpoints = _checkpoints(None if moment is not None else folder, reader)
    complete = [one.step for one in checkpoints if one.complete]
    found = Status(
        state=state,
        step=step,
        total_steps=next((a.total_steps for a in reversed(attempts) if a.total_steps), None),
        ranks=ranks,
        attempt=attempt.attempt if attempt else 0,
        metrics={**(evaluated[1] if evaluated else {}), **newest[1], **computed} if newest else {},
        dropped=sum(reader.dropped().values()) + (sum(rank.lost.values()) if rank and _open(attempt) else 0),
        checkpoints=checkpoints,
        scheduled=_scheduled(reader),
        stage=_stage(reader),
        error=_error(attempt, state, folder),
        alerts=(*_alerts(shown_rank, step, gone=gone), *_record_alerts(reader, attempt, step), *masked),
        findings=tuple(with_checkpoint(reader, one, complete) for one in open_findings(reader)),
        progress_at=rank.progress_at if rank and rank.progress_at else None,
        started_at=attempt.started_at if attempt else None,
        supervised=supervisor_alive or state in ENDED,
        **now,
    )
    return found if moment is None or not _open(attempt) else _then(found, reader, moment)


def _then(ended: Status, reader: RunReader, moment: Moment) -> Status:
    """Return the status of a run that trained at the moment of a replay. A pause then is an event."""
    phase, since = reader.last_phase() or ("update", moment.at)
    return replace(
        ended,
        state="training",
        step=moment.step,
        phase=phase,
        phase_s=round(max(0.0, moment.now - since), 3),
        error=None,
        hardware=None,
        progress_at=moment.at,
        supervised=True,
    )


def _open(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.state is None


def _state(attempt: Attempt | None, heartbeat: Heartbeat | None, rank: RankState | None) -> str:
    supervisor_alive = heartbeat is not None and heartbeat.supervisor_alive
    if attempt is None or attempt.state == DONE:
        return "starting" if supervisor_alive else "crashed"
    if attempt.state is not None:
        return "starting" if _starts_anew(attempt, heartbeat) else attempt.state
    if heartbeat is not None and not heartbeat.same_host:
        alive = heartbeat.supervisor_alive
    else:
        started = heartbeat.trainer_started if heartbeat and heartbeat.trainer == attempt.pid else None
        started = rank.started if rank is not None and rank.pid == attempt.pid else started
        alive = process_alive(attempt.pid, started)
    if not alive:
        # A living supervisor is about to report how the run ended.
        return "stopping" if supervisor_alive else "crashed"
    if rank is None or rank.phase == "load":
        return "starting"
    return _state_of_rank(rank)


def _state_of_rank(rank: RankState) -> str:
    if rank.phase == "wait":
        return "paused"
    if rank.stopping:
        return "stopping"
    return "stalled" if _stalled(rank) or rank.stopped else "training"


def _starts_anew(attempt: Attempt, heartbeat: Heartbeat | None) -> bool:
    """Return whether a supervisor started after the attempt ended, and its process records nothing yet."""
    if heartbeat is None or not heartbeat.supervisor_alive or attempt.ended_at is None:
        return False
    younger = (heartbeat.supervisor_started or 0.0) + START_TIME_EARLY_S > attempt.ended_at
    return younger and (
        heartbeat.trainer is None or process_alive(heartbeat.trainer, heartbeat.trainer_started)
    )


def _stalled(rank: RankState) -> bool:
    if rank.usual_s is not None:
        patience = max(STALL_AT_LEAST_S, STALL_FACTOR * rank.usual_s)
    else:  # a first generation or save may take very long
        patience = max(STALL_UNKNOWN_S, STALL_FACTOR * (rank.step_time_s or 0.0))
    return time.time() - max(rank.progress_at, rank.phase_since) > patience


GONE = "the training process is gone; its supervisor ends what is left of it and records the cause"


def _alerts(rank: RankState | None, step: int, *, gone: bool = False) -> tuple[Mapping[str, Any], ...]:
    """Return what keeps a live run from continuing or from being recorded, in the shape of `doctor`.

    Args:
        gone: The training process was killed, and its supervisor has not recorded that yet.
    """
    found = []
    held = ""
    if rank is not None and rank.stopped:
        held = (
            "the training process was stopped by a signal (SIGSTOP). Continue it with `kill -CONT "
            f"{rank.pid}`"
        )
    for name, text, remedy in (
        ("process.gone", GONE if gone else "", "wait until the cause is recorded, then resume"),
        ("process.held", held, "continue the process"),
        (PAUSED_ITSELF, rank.note if rank else "", "put it right, then resume"),
        (
            "store.cannot-write",
            rank.trouble if rank else "",
            "make room; what waits in memory is written then",
        ),
        ("resume.differs", rank.differs if rank else "", "start again from the model of a checkpoint"),
    ):
        if text:
            found.append(_alert(name, text, remedy, step))
    return tuple(found)


def _signals(reader: RunReader) -> tuple[tuple[Mapping[str, Any], ...], dict[str, float]]:
    """Return an alert when the whole newest step is masked, and the fraction of groups without a signal."""
    step, signals = newest_signals(reader)
    if not signals:
        return (), {}
    flat = {"grpo_tui/flat_share": sum(signal != "some" for signal in signals) / len(signals)}
    if any(signal != "masked" for signal in signals):
        return (), flat
    limit = reader.config("grpo", "max_completion_length")
    at = f" at {limit} tokens" if limit else ""
    text = (
        f"Every completion of step {step} is masked: all were truncated{at} and mask_truncated_completions "
        "keeps them out of the loss, so nothing is learned. Raise max_completion_length"
    )
    return (_alert(MASKED, text, "start again with a larger max_completion_length", step),), flat


def _record_alerts(reader: RunReader, attempt: Attempt | None, step: int) -> Iterator[Mapping[str, Any]]:
    """Yield doubts about the record: values that cannot be read, replaced functions."""
    places = reader.unreadable(NEWEST_CHECKED)
    if places:
        named = [place if count == 1 else f"{place} ({count} times)" for place, count in places.items()]
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        message = f"run.db holds values that cannot be read: {', '.join(named[:MOST_NAMED])}{more}"
        remedy = "check that no reward replaces functions of the standard library"
        yield _alert("store.unreadable", message, remedy, step)
    fact = reader.fact(REPLACED)
    if isinstance(fact, dict) and attempt is not None and fact.get("attempt") == attempt.attempt:
        by = fact.get("by")
        whose: dict[str, list[str]] = {}
        for what, who in by.items() if isinstance(by, dict) else ():
            whose.setdefault(str(who), []).append(what)
        for who, names in list(whose.items())[:MOST_NAMED]:
            message = (
                f"{who} replaced {', '.join(names[:MOST_REPLACED])} in the training process. grpo-tui still "
                "uses the originals; TRL and other libraries call the replacements"
            )
            yield _alert("reward.replaces", message, "restore each function before the reward returns", step)


def _alert(name: str, text: str, remedy: str, step: int) -> Mapping[str, Any]:
    return {
        "id": name,
        "severity": "error",
        "first_step": step,
        "last_step": step,
        "message": text,
        "evidence": {},
        "remedies": [{"text": remedy, "field": None, "value": None, "live": True}],
    }


def _ranks_now(folder: RunFolder) -> tuple[RankNow, ...]:
    now = time.time()
    return tuple(
        RankNow(
            s.rank, s.pid, s.phase, round(_since(s.phase_since, now), 3), s.step, s.gpu, s.reward_function,
            s.phase_since, s.reward_since,
        )
        for s in read_ranks(folder)
        if s.alive
    )  # fmt: skip


def _since(began: float, now: float) -> float:
    """Return the seconds since a time; 0 when it is not known."""
    return max(0.0, now - began) if began else 0.0


def _checkpoints(folder: RunFolder | None, reader: RunReader) -> tuple[CheckpointNow, ...]:
    """Return the checkpoints in the folder, or in a replay, without one, those recorded by then."""
    known = {c.step: c for c in reader.checkpoints()}
    if folder is None:
        return tuple(CheckpointNow(one.step, one.path, one.complete) for one in known.values())
    found = []
    for path in folder.checkpoints():
        step = int(path.name.split("-")[-1])
        # Its files decide when run.db does not know it: saved by plain TRL, or run.db was lost.
        complete = known[step].complete if step in known else judge(path).usable
        found.append(CheckpointNow(step, str(path), complete))
    return tuple(found)


def _scheduled(reader: RunReader) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {"step": one.step, "changes": one.changes, "by": one.by, "because": one.because}
        for one in waiting_in(scheduled_from(reader.fact(SCHEDULE)))
    )


def _stage(reader: RunReader) -> Mapping[str, Any] | None:
    now = stage_from(reader.fact(STAGE))
    return {"name": now.name, "number": now.place + 1, "count": len(now.names)} if now is not None else None


def _error(attempt: Attempt | None, state: str, folder: RunFolder) -> Mapping[str, Any] | None:
    if attempt is not None and attempt.error is not None:
        return attempt.error
    if state != "crashed":
        return None
    if attempt is not None and attempt.state == DONE:
        message = "the run ended after a stage, before the next one began"
        return {"type": "", "message": message, "cause": message}
    message = "the training process is gone and did not say why"
    cause = f"killed from outside, or out of memory; see {folder.log}"
    return {"type": "", "message": message, "cause": cause}
