"""The supervisor: watch one training process, run urgent commands, record how it ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from grpo_tui.children.forker import adopt_orphans
from grpo_tui.config.accelerate_file import on_a_port
from grpo_tui.core.commands import CONTROLLER_KINDS, SUPERVISOR_KINDS, Command, Outcome
from grpo_tui.core.stages import DONE
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.json_file import append_regular, write_bytes
from grpo_tui.store.layout import RunFolder, hold, where
from grpo_tui.store.live import (
    Gpu,
    Hardware,
    RankState,
    process_alive,
    process_started,
    read_rank,
    read_ranks,
    remove_hardware,
    write_hardware,
    write_heartbeat,
)
from grpo_tui.store.mailbox import Mailbox, Outbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec, read_spec
from grpo_tui.supervisor import leftovers
from grpo_tui.supervisor.gpus import GpuProbe, NoGpus
from grpo_tui.supervisor.last_word import Ended, conclude, starvation_kills
from grpo_tui.supervisor.notify import Notifier, notify_of
from grpo_tui.supervisor.ports import unused_port
from grpo_tui.supervisor.run_processes import RunProcesses
from grpo_tui.supervisor.start import LEAVING_S, RunFolderBusy, take_lock

TICK_S = 0.1
HEARTBEAT_S = 1.0
ABORT_LIMIT_S = 5.0
"""An aborted reward call still running after this long is reported as uninterruptible."""
STOP_NOW_LIMIT_S = 3.0
"""Time for a trainer to write its last records before it is killed."""


@dataclass(slots=True)
class _Abort:
    """An abort in progress: the reward call to end per rank, its start, and when signals were last sent."""

    command: Command
    calls: dict[int, int]
    since: float
    signalled: float = 0.0


class Supervisor:
    """Watches one training process until it ends."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        lock: int | None = None,
        trainer: int | None = None,
        started: float | None = None,
    ) -> None:
        self._name: Path | None = folder.root
        # Hold the folder itself, not its name: a new folder under the same name is not this run.
        self._folder, self._lock = RunFolder(hold(folder.root)), lock
        self._mark = leftovers.mark_of(self._folder.root)
        self._mailbox = Mailbox(self._folder.commands)
        self._outbox = Outbox(self._mailbox)
        self._hardware = HardwareWatch(self._folder)
        self._notifier: Notifier | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._trainer = trainer
        if trainer is not None and started is None:  # a script that started this supervisor itself
            started = process_started(trainer)
        self._trainer_started = started
        self._is_sidecar = trainer is not None and not _is_worker(trainer)
        self._beat_at = 0.0
        self._said: set[str] = set()
        self._started_at = time.time()
        self._starved_before = starvation_kills()
        self._abort: _Abort | None = None
        self._stop_now: tuple[Command, float] | None = None

    def run(self) -> int:
        """Start the training process unless there is one to watch, and stay until it has ended."""
        if self._trainer is None:
            self._refuse_leftovers("the run had ended before this command was read")
            self._start_trainer()
        self._hardware.start(self._trainer)
        self._watch()
        while self._stage_done():
            self._start_trainer()
            self._watch()
        self._hardware.stop()
        self._after_end()
        return 0

    def _watch(self) -> None:
        self._beat(force=True)
        while self._trainer_lives():
            self._beat()
            with self._unharmed("serving the run"):
                self._serve()
            time.sleep(TICK_S)

    def _stage_done(self) -> bool:
        """Return whether the ended process completed a stage and left the next one in `run.json`."""
        done = False
        with self._unharmed("looking for the next stage"), closing(RunReader(self._folder.database)) as known:
            last = known.attempts()[-1]
            # An attempt from before this process means that the process recorded nothing.
            own = self._child is None or last.started_at >= self._started_at
            done = own and last.state == DONE and self._stop_now is None
        if done:
            self._end_processes()
        return done and (self._lock is not None or self._take_lock())

    def _take_lock(self) -> bool:
        """Lock the folder for the next process. A supervisor that joined later did not inherit the lock."""
        with contextlib.suppress(RunFolderBusy):
            self._lock = take_lock(self._folder, LEAVING_S)
        return self._lock is not None

    @contextlib.contextmanager
    def _unharmed(self, what: str) -> Iterator[None]:
        """Keep watching after any error, and report each distinct error once."""
        try:
            yield
        except Exception as error:
            said = f"grpo-tui: the supervisor failed while {what}: {type(error).__name__}: {error}"
            if said not in self._said:
                self._said.add(said)
                print(said, flush=True)

    def _start_trainer(self) -> None:
        adopt_orphans()
        environment = dict(os.environ)
        environment["PYTHONUNBUFFERED"] = "1"
        environment[leftovers.MARK] = self._mark
        # By default torch elastic stops its ranks on SIGHUP.
        environment.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGQUIT")
        self._started_at = time.time()
        spec = read_spec(self._folder.spec)
        if spec.gpus:
            environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order of NVML and nvidia-smi
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(spec.gpus)
        with append_regular(self._folder.log) as log:
            self._child = subprocess.Popen(
                [*_launcher(spec), "-m", "grpo_tui.train.worker", str(self._name)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                pass_fds=() if self._lock is None else (self._lock,),
            )
        self._trainer = self._child.pid
        self._trainer_started = process_started(self._child.pid)
        # Only for a run this supervisor starts: consent to run the command was asked for at the start.
        if self._notifier is None and (notify := notify_of(spec)) is not None:
            self._notifier = Notifier(self._folder, notify)
            self._notifier.start()

    def _trainer_lives(self) -> bool:
        if self._child is not None:  # not reaped before its group is killed, so that its pid is not reused
            ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._child.pid, ended) is None
        if self._is_sidecar and self._closed_by_itself():
            return False
        return process_alive(self._trainer, self._trainer_started)

    def _closed_by_itself(self) -> bool:
        """Return whether a script joined with `monitor` has finished training but is still running."""
        rank = read_rank(self._folder.rank(0))
        return rank is not None and rank.pid == self._trainer and rank.closed

    def _beat(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._beat_at >= HEARTBEAT_S:
            self._beat_at = now
            self._look_where()
            try:
                write_heartbeat(self._folder.heartbeat, os.getpid(), self._trainer)
            except OSError:
                return  # a full disk or a deleted folder must not end the watch

    def _look_where(self) -> None:
        """Log that the folder was renamed. The run continues in it."""
        name = where(self._folder.root)
        if name is not None and name != self._name:
            print(f"grpo-tui: the run folder is now {name}; the run continues there", flush=True)
        self._name = name

    # -- commands --------------------------------------------------------------------------------

    def stop_gently(self, *_: Any) -> None:
        """Handle SIGTERM: ask the trainer to save and stop, and keep watching it."""
        try:
            self._mailbox.submit("stop", by="SIGTERM")
        except OSError:
            self._send(signal.SIGTERM, self._trainer, self._trainer_started)

    def _serve(self) -> None:
        self._follow_abort()
        if self._stop_now is not None:
            command, since = self._stop_now
            late = time.monotonic() - since > STOP_NOW_LIMIT_S
            if late and not self._kill_trainer() and self._trainer_lives():
                self._stop_now = None
                self._finish(command, False, f"process {self._trainer} is not proved to be of this run")
            return
        self._outbox.send()
        for command in self._outbox.pending():
            if command.kind not in SUPERVISOR_KINDS:
                if command.kind not in CONTROLLER_KINDS:
                    self._finish(command, False, f"unknown command {command.kind}")
                continue
            if command.kind == "stop_now":
                # The recorder reads the same command, writes its last records and exits, or is killed later.
                self._stop_now = (command, time.monotonic())
            elif self._abort is None:
                self._begin_abort(command)

    def _begin_abort(self, command: Command) -> None:
        calls = {rank.rank: rank.reward_call for rank in self._ranks() if rank.reward_call is not None}
        if not calls:
            self._finish(command, False, "no reward function is running")
            return
        try:
            for number, call in calls.items():
                write_bytes(self._folder.abort(number), str(call).encode())
        except OSError as error:
            self._finish(command, False, f"the call cannot be named to its rank: {error.strerror}")
            return
        self._abort = _Abort(command, calls, time.monotonic())
        self._follow_abort()

    def _ranks(self) -> list[RankState]:
        return [state for state in read_ranks(self._folder) if state.alive]

    def _follow_abort(self) -> None:
        abort = self._abort
        if abort is None:
            return
        ranks = [rank for rank in self._ranks() if rank.rank in abort.calls]
        gave_way = [rank for rank in ranks if rank.aborted_call == abort.calls[rank.rank]]
        still = [rank for rank in ranks if rank.reward_call == abort.calls[rank.rank]]
        now = time.monotonic()
        if not still:
            reason = (
                "the call was aborted; its rewards count as None for this batch"
                if gave_way
                else "the call finished before it was aborted"
            )
            self._finish(abort.command, True, reason)
            self._abort = None
        elif now - abort.since > ABORT_LIMIT_S:
            self._finish(abort.command, False, f"cannot be interrupted; stop at once, {self._way_on()}")
            self._abort = None
        elif now - abort.signalled >= 1.0:
            abort.signalled = now
            for rank in still:
                self._send(leftovers.ABORT_SIGNAL, rank.pid, rank.started)

    def _way_on(self) -> str:
        best, _ = newest_usable(self._folder)
        return (
            "there is no checkpoint to resume from" if best is None else f"resume from checkpoint {best.step}"
        )

    def _finish(self, command: Command, applied: bool, reason: str) -> None:
        rank = read_rank(self._folder.rank(0))
        self._outbox.finish(command, Outcome(applied, rank.step if rank else 0, reason))

    def _kill_trainer(self) -> bool:
        if self._child is None:
            return self._send(signal.SIGKILL, self._trainer, self._trainer_started)
        leftovers.kill_session(self._child.pid)
        return True

    def _send(self, number: int, pid: int | None, started: float | None) -> bool:
        return pid is not None and leftovers.send(number, pid, started, self._folder)

    # -- the end ---------------------------------------------------------------------------------

    def _end_processes(self) -> int | None:
        """End what the training process left behind, and return its exit code."""
        code = None
        if self._child is not None:  # children of rewards must not outlive the run
            leftovers.kill_session(self._child.pid)
            code = self._child.wait()
            leftovers.kill_descendants(() if self._notifier is None else self._notifier.senders())
        leftovers.kill_marked(self._mark)
        return code

    def _after_end(self) -> None:
        code = self._end_processes()
        with self._unharmed("answering"):
            # The trainer reads the mailbox too, and may have exited before this process saw the command.
            asked = [command for command in self._outbox.pending() if command.kind == "stop_now"]
            self._stop_now = self._stop_now or ((asked[0], 0.0) if asked else None)
            if self._stop_now is not None:
                self._finish(self._stop_now[0], True, f"ended at once; {self._way_on()}")
            self._refuse_leftovers("the run has ended")
        began = None if self._child is None else self._started_at
        starved = (starvation_kills() or 0) > (self._starved_before or 0)
        conclude(Ended(self._folder, code, self._stop_now is not None, began, self._trainer, starved))
        if self._notifier is not None:
            self._notifier.end()

    def _refuse_leftovers(self, reason: str) -> None:
        for command in self._outbox.pending():
            self._finish(command, False, reason)


def _is_worker(pid: int) -> bool:
    """Return whether this program started the process. If so it leads a session, unlike a joined script."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return os.getpgid(pid) == pid and b"grpo_tui.train.worker" in command
    except OSError:
        return False


def _launcher(spec: RunSpec) -> list[str]:
    """Return the command in front of `-m`. Known launchers run as modules of this interpreter."""
    words = list(on_a_port(spec.launcher, unused_port())) if spec.launcher else []
    if words[:2] == ["accelerate", "launch"]:
        return [sys.executable, "-m", "accelerate.commands.launch", *words[2:]]
    if words[:1] == ["torchrun"]:
        return [sys.executable, "-m", "torch.distributed.run", *words[1:]]
    return words or [sys.executable]


SAMPLE_S = 2.0
FIRST_S = 0.5
"""Time before the first sample, because CPU use is measured over an interval."""
SLOW_S = 0.5
BACK_OFF_S = 60.0
"""Pause before asking a driver again that is missing, slow or failing."""


class HardwareWatch:
    """Samples the machine of a run every two seconds, until stopped. `log` is called once per distinct error.

    A hanging driver blocks only this thread. `hardware.json` then gets old, and readers notice that.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        probe: GpuProbe | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._folder, self._probe = folder, probe or GpuProbe()
        self._log = log or (lambda text: print(f"grpo-tui: {text}", flush=True))
        self._said: set[str] = set()
        self._stopped = threading.Event()
        self._processes = RunProcesses()
        self._trainer: int | None = None
        self._gpus: tuple[Gpu, ...] = ()
        self._gpus_at: float | None = None
        self._gpu_trouble = ""
        self._ask_again_at = 0.0

    def start(self, trainer: int | None) -> None:
        """Start the thread, after removing the file of an earlier run."""
        self._trainer = trainer
        remove_hardware(self._folder.hardware)
        threading.Thread(target=self._run, name="hardware", daemon=True).start()

    def stop(self) -> None:
        """Stop without waiting, and remove the file, because an ended run has no hardware figures."""
        self._stopped.set()
        remove_hardware(self._folder.hardware)

    def sample(self) -> Hardware:
        """Return the current state of the machine. Takes milliseconds, unless the driver is slow."""
        began = time.perf_counter()
        self._processes.follow(self._roots())
        self._ask_gpus()
        cores = tuple(round(percent, 1) for percent in psutil.cpu_percent(None, percpu=True))
        memory = psutil.virtual_memory()
        limit, used_of_limit = memory_limit()
        limited = limit is not None and limit < memory.total
        run_cpu, run_rss = self._processes.figures()
        return Hardware(
            at=time.time(),
            host=socket.gethostname(),
            cpu_percent=round(sum(cores) / len(cores), 1) if cores else None,
            cpu_count=psutil.cpu_count() or None,
            cores_percent=cores,
            load=tuple(round(value, 2) for value in psutil.getloadavg()),
            ram_used_bytes=used_of_limit if limited else memory.total - memory.available,
            ram_total_bytes=limit if limited else memory.total,
            run_cpu_percent=run_cpu,
            run_rss_bytes=run_rss,
            disk_free_bytes=_free(self._folder.root),
            gpus=self._gpus,
            gpus_at=self._gpus_at,
            gpu_trouble=self._gpu_trouble,
            sample_ms=round((time.perf_counter() - began) * 1000, 2),
        )

    def _run(self) -> None:
        with contextlib.suppress(Exception):
            psutil.cpu_percent(None, percpu=True)
            self._processes.follow(self._roots())
        wait_s = FIRST_S
        while not self._stopped.wait(wait_s):
            wait_s = SAMPLE_S
            try:
                hardware = self.sample()
                if not self._stopped.is_set():
                    write_hardware(self._folder.hardware, hardware)
                if self._stopped.is_set():
                    remove_hardware(self._folder.hardware)  # the run ended while it was written
            except OSError:
                continue  # a full disk or a deleted folder is reported elsewhere
            except Exception as error:
                self._say_once(f"the machine cannot be sampled: {type(error).__name__}: {error}")
                wait_s = BACK_OFF_S

    def _ask_gpus(self) -> None:
        now = time.monotonic()
        if now < self._ask_again_at:
            return
        try:
            self._probe.open()
            began = time.monotonic()
            self._gpus = self._probe.sample(self._processes.describe)
            took_s = time.monotonic() - began
        except NoGpus as error:
            self._gpus, self._gpus_at, self._gpu_trouble = (), None, str(error)
            self._ask_again_at = now + BACK_OFF_S
        except Exception as error:
            self._say_once(f"the GPUs cannot be sampled: {type(error).__name__}: {error}")
            self._gpus, self._gpus_at = (), None
            self._gpu_trouble = f"NVML failed: {type(error).__name__}: {error}"
            self._ask_again_at = now + BACK_OFF_S
        else:
            self._gpus_at, self._gpu_trouble = time.time(), ""
            if took_s > SLOW_S:
                self._say_once("the GPU driver responds slowly, so it is read only once a minute")
                self._ask_again_at = now + BACK_OFF_S

    def _roots(self) -> list[int]:
        """Return the roots of the run's process trees: the trainer and every rank on this machine."""
        pids = [rank.pid for rank in read_ranks(self._folder) if rank.alive]
        return pids if self._trainer is None else [self._trainer, *pids]

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            with contextlib.suppress(Exception):
                self._log(text)


def memory_limit(
    groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> tuple[int | None, int | None]:
    """Return the tightest memory limit of this process's cgroups and the memory used of it, in bytes.

    Reclaimable page cache does not count as used. (None, None) without a limit. Reads cgroups v2
    (cgroups(7)).
    """
    tightest: tuple[int | None, int | None] = (None, None)
    try:
        lines = groups.read_text().splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), "/")
        place = (mount / own.lstrip("/")).resolve()
        while place == mount.resolve() or mount.resolve() in place.parents:
            text = _read(place / "memory.max").strip()
            if text.isdigit() and (tightest[0] is None or int(text) < tightest[0]):
                used = int(_read(place / "memory.current").strip() or 0)
                tightest = (int(text), max(0, used - _reclaimable(_read(place / "memory.stat"))))
            if place == mount.resolve():
                break
            place = place.parent
    except (OSError, ValueError):
        return None, None
    return tightest


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _reclaimable(stat: str) -> int:
    # Pages of a file that was read again, such as a checkpoint, are active. `MemAvailable` counts both too.
    values = (line.split(" ") for line in stat.splitlines())
    return sum(int(value) for name, value in values if name in ("active_file", "inactive_file"))


def _free(root: Path) -> int | None:
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None
