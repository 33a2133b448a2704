"""Train several runs that belong together: one after the other, or at the same time with one on each GPU.

Running the command again continues the series: complete runs are skipped, a live one is followed to its end,
and one that ended early is resumed. A run is recognized by its record.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from grpo_tui.cli import start
from grpo_tui.cli.errors import FAILED, OK, REFUSED, CommandError
from grpo_tui.cli.headless import POLL_S, Follower, leave, say, until_left
from grpo_tui.cli.plain import complain
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.cli.words import sets
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.seed_sets import read_seed_run, settings_apart
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder, own_folder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_health import rule_that_stopped
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import spec_or_none
from grpo_tui.store.status import read_status
from grpo_tui.supervisor import RunFolderBusy

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a series.

    Attributes:
        name: Such as `seed 1`.
        prepare: Returns its checked start, or a resume if it ended early. Called with the GPU to name in
            `--gpus`, or None, and with whether to check only the config.
        complete: Returns whether nothing is left to train.
    """

    name: str
    root: Path
    prepare: Callable[[str | None, bool], start.Start]
    complete: Callable[[], bool]

    @property
    def begun(self) -> bool:
        """Whether its folder has a record."""
        return RunFolder(self.root).exists()

    @property
    def live(self) -> bool:
        """Whether its training process exists."""
        return self.begun and read_status(self.root).live


@dataclass(frozen=True, slots=True)
class Places:
    """Where the runs of a series train at the same time.

    Attributes:
        gpus: One entry for each run; `("",)` when one run follows the other.
        asked: Whether `--gpus` names them. Otherwise they come from the environment.
    """

    gpus: tuple[str, ...] = ("",)
    asked: bool = False


def places_of(asked: str | None, config: RunConfig, launcher: Sequence[str]) -> Places:
    """Return a place for each GPU of `--gpus`, else of `CUDA_VISIBLE_DEVICES`.

    There is only one place if a run has several ranks, chooses its GPUs itself or does not use any, and if it
    generates with a vLLM server, whose weights only one run can set.
    """
    named = asked or os.environ.get(VISIBLE, "")
    gpus = tuple(name.strip() for name in named.split(",") if name.strip())
    chosen = launcher or (not asked and (config.section.gpus or config.setting("use_cpu")))
    if chosen or serves(config) or len(gpus) < 2:
        return Places()
    return Places(gpus, bool(asked))


def serves(config: RunConfig) -> bool:
    """Return whether a vLLM server generates. It draws samples from a random state of its own."""
    return bool(config.setting("use_vllm")) and config.setting("vllm_mode") == "server"


@contextmanager
def only_one(root: Path, kind: str) -> Iterator[None]:
    """Keep a second command from training the same series, in which both would start the next run."""
    folder = own_folder("state") / "series"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(root).encode(errors="surrogateescape")).hexdigest()[:16]
    with (folder / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(
                f"Another command is training {kind} of {root}. Wait for it, or stop its run to end it"
            ) from None
        yield


def refuse_other(root: Path, wanted: RunConfig, advice: str, *also: str) -> None:
    """Refuse a folder whose run has other settings: it would be taken for one of this series.

    Args:
        advice: What to do instead.
        also: Other settings to compare, which a series of seeds does not share.
    """
    if not RunFolder(root).spec.exists():
        return
    found = saved_run(root)[2]
    apart = settings_apart(found.to_record(), wanted.to_record())
    apart = [key for key in also if found.grpo.get(key) != wanted.grpo.get(key)] + apart
    if apart:
        raise CommandError(
            f"{root} holds a run with other settings ({one_line(', '.join(apart), 120)}). {advice}"
        )


@dataclass(slots=True)
class Series:
    """Trains jobs until all have ended, one is stopped, or the user leaves.

    Attributes:
        leave: Called with the folders of live runs and the exit code when the user leaves.
        say: Prints a line.
        given_up: Returns why a live run is stopped and counts as failed; empty to wait for it.
        ends: How each job ended, by name. Jobs that were not started are missing.
        left: Exit code if a run was stopped or the user left, else 0.
        why: Why a job could not be started, was given up, or was stopped by a rule of its config, by name.
    """

    jobs: Sequence[Job]
    places: Places
    leave: Callable[[Sequence[Path], int], object]
    say: Callable[[str], None] = say
    given_up: Callable[[Path], str] = lambda root: ""
    ends: dict[str, str] = field(default_factory=dict)
    left: int = OK
    why: dict[str, str] = field(default_factory=dict)
    _checked: bool = False
    _waiting: list[Job] = field(default_factory=list)
    _running: dict[str, tuple[Job, Follower]] = field(default_factory=dict)

    def train(self) -> None:
        """Train the jobs.

        Raises:
            CommandError: The first one could not be started, for a reason that may stop every one.
        """
        self._waiting = sorted(self.jobs, key=lambda job: not job.live)  # what is live keeps its GPU
        code, left = until_left(self._train)
        if left:
            live = [job for job, _ in self._running.values()]
            self.leave([job.root for job in live if job.live], code)
            self.left = code
            for job in live:
                ended = "complete" if job.complete() else "not complete"
                self.ends[job.name] = "still training" if job.live else ended

    def _train(self) -> int:
        free = list(self.places.gpus)
        while self._waiting or self._running:
            while self._waiting and free:
                place = self._begin(self._waiting.pop(0), free)
                if place is not None:
                    free.remove(place)
            for place, (job, follower) in list(self._running.items()):
                try:
                    code = follower.poll()
                except CommandError as error:
                    code = self._not_trained(job, error)
                if code is None:
                    self._give_up(job)
                    continue
                del self._running[place]
                free.append(place)
                self._ended(job, code)
            if self._running:
                time.sleep(POLL_S)
        return OK

    def _begin(self, job: Job, free: Sequence[str]) -> str | None:
        """Start or follow a run. Return the place that it takes."""
        self.say(f"{job.name} ({self.jobs.index(job) + 1} of {len(self.jobs)}): {one_line(str(job.root))}")
        place = free[0]
        try:
            live = job.live  # asked first: one that ends meanwhile is complete, or followed to its end
            if job.complete():
                self.say("already complete: skipped")
                self.ends[job.name] = "complete"
                return None
            if live:
                self.say("already training: following it to its end")
                spec = spec_or_none(RunFolder(job.root))
                place = next((gpu for gpu in free if spec is not None and gpu in spec.gpus), place)
                known = start.known(RunFolder(job.root))
            else:
                known = self._launch(job, place)
        except CommandError as error:
            if not self._checked and not job.begun:  # an error of the config stops every run
                raise
            self._ended(job, self._not_trained(job, error))
            return None
        finally:
            self._checked = True
        say = self.say
        if len(self.places.gpus) > 1:
            say = partial(_marked, self.say, f"{job.name}: ")
        self._running[place] = job, Follower(job.root, *known, say)
        return place

    def _launch(self, job: Job, place: str) -> tuple[int, int]:
        with visible(place):
            asked = place if self.places.asked and place else None
            prepared = job.prepare(asked, self._checked)
            if place and not self.places.asked:
                prepared = replace(prepared, spec=replace(prepared.spec, gpus=(place,)))
            try:
                return start.launched(prepared)
            except CommandError as error:
                if not (isinstance(error.__cause__, RunFolderBusy) and job.live):
                    raise
                return start.known(RunFolder(job.root))  # of a start that was killed before it could say so

    def _not_trained(self, job: Job, error: CommandError) -> int:
        complain(str(error))
        self.why[job.name] = str(error)
        return FAILED

    def _give_up(self, job: Job) -> None:
        if job.begun and job.name not in self.why and (why := self.given_up(job.root)):
            self.why[job.name] = why
            Mailbox(RunFolder(job.root).commands).submit("stop_now")

    def _ended(self, job: Job, code: int) -> None:
        """Note how a run ended. One that the user stopped ends the series, unlike one that a rule stopped."""
        stopped = code == REFUSED and job.name not in self.why
        rule = _rule_that_stopped(job.root) if stopped else None
        self.ends[job.name] = "complete" if job.complete() else "stopped" if stopped else "failed"
        if self.ends[job.name] == "stopped":
            if rule is not None:
                self.why[job.name] = rule
                return
            self.left = code
            self._waiting.clear()

    def detach(
        self, words: Sequence[str], log: Path, *, always: bool = False, hold: IO[str] | None = None
    ) -> int:
        """Start the first run that is not complete, and leave the rest to a process of its own.

        Args:
            words: The same command for that process.
            log: File for its output.
            always: Start that process also when no other run is left to train.
            hold: Lock of `held`, which is handed on to that process.
        """
        live = [job.name for job in self.jobs if job.live]  # asked first, as in `_begin`
        waiting = [job for job in self.jobs if not job.complete()]
        for job in self.jobs:
            if job not in waiting:
                self.say(f"{job.name} is already complete: skipped")
        if waiting and waiting[0].name not in live:
            self._launch(waiting[0], self.places.gpus[0])
            run = shell_word(waiting[0].root)
            self.say(f"training in {one_line(str(waiting[0].root))}. Watch it with `grpo-tui attach {run}`")
        if not waiting[1:] and not always:
            return OK
        with log.open("ab") as output:
            subprocess.Popen(
                [sys.executable, "-m", "grpo_tui", *words],
                stdin=subprocess.DEVNULL if hold is None else hold,
                stdout=output,
                stderr=output,
                start_new_session=True,  # it outlives the terminal
            )
        if hold is not None:
            hold.close()
        several = len(self.places.gpus)
        how = "one after the other" if several < 2 else f"{several} at a time"
        if rest := ", ".join(job.name for job in waiting[1:]):
            self.say(f"Then {rest}, {how}. Output: {one_line(str(log))}")
        if waiting:
            run = shell_word(waiting[0].root)
            self.say(f"To end the series, stop the run that is training: `grpo-tui stop {run}`")
        return OK

    def told(self) -> None:
        """Print how each run ended, and what continues the series."""
        self.say("")
        for job in self.jobs:
            end = self.ends.get(job.name, "not started")
            self.say(f"{job.name}: {end}   {one_line(str(job.root))}")
        if len(self.ends) < len(self.jobs) or self.left:
            self.say("Run the same command again to continue.")


def _rule_that_stopped(root: Path) -> str | None:
    with suppress(RunDatabaseError), closing(RunReader(RunFolder(root).database)) as reader:
        return rule_that_stopped(reader)
    return None


def _marked(say: Callable[[str], None], mark: str, text: str) -> None:
    for line in text.splitlines():
        say(f"{mark}{line}")


@contextmanager
def visible(gpu: str) -> Iterator[None]:
    """Show only one GPU to what is started meanwhile. With an empty name, change nothing."""
    before = os.environ.get(VISIBLE)
    if gpu:
        os.environ[VISIBLE] = gpu
    try:
        yield
    finally:
        if gpu and before is None:
            del os.environ[VISIBLE]
        elif gpu and before is not None:
            os.environ[VISIBLE] = before


def train_seeds(parsed: Any) -> int:
    """Train every seed. Exit 0 if all are complete, 1 if one failed, 3 if one was stopped."""
    _refuse(parsed)
    root = start.read(parsed).root
    jobs = [_job(parsed, seed, root) for seed in parsed.seeds]
    for seed, job in zip(parsed.seeds, jobs, strict=True):
        given = start.read(_words(parsed, seed, job.root))
        wanted = given.config
        if wanted.section.stages:
            raise CommandError("--seeds does not train stages. Start a run for each seed with --set seed=N")
        if wanted.grpo.get("resume_from_checkpoint"):
            raise CommandError("The config sets resume_from_checkpoint. Remove it to train several seeds")
        refuse_other(job.root, wanted, "Choose another folder with --run-dir", "seed")
    series = Series(jobs, places_of(parsed.gpus, wanted, given.launcher), _leave)
    with only_one(root, "seeds"):
        if not parsed.detach:
            series.train()
            return _told(series)
    return series.detach(_again(parsed), root.with_name(f"{root.name}-seeds.log"))


def _refuse(parsed: Any) -> None:
    for option, given in (("--smoke", parsed.smoke), ("--drill", parsed.drill)):
        if given:
            raise CommandError(f"--seeds and {option} cannot be combined. Leave one out")
    if parsed.resume is not None:
        raise CommandError("Leave out --resume: with --seeds, runs that ended early are resumed anyway")
    if sets(parsed.overrides, "seed"):
        raise CommandError("--seeds and --set seed are both given. Leave one out")


def _job(parsed: Any, seed: int, root: Path) -> Job:
    folder = root.with_name(f"{root.name}-seed-{seed}")
    words = _words(parsed, seed, folder)
    return Job(f"seed {seed}", folder, partial(_prepared, words), partial(_complete, folder))


def _words(parsed: Any, seed: int, folder: Path) -> argparse.Namespace:
    """Return the arguments of `train` for one seed."""
    overrides = [*parsed.overrides, f"seed={seed}"]
    return argparse.Namespace(**{**vars(parsed), "seeds": None, "run_dir": folder, "overrides": overrides})


def _prepared(words: argparse.Namespace, gpu: str | None, quick: bool) -> start.Start:
    """Return a new start, or a resume if the run ended early."""
    placed = {"gpus": gpu or words.gpus, "quick_check": quick or words.quick_check}
    if newest_usable(RunFolder(words.run_dir))[0] is None:
        return start.prepared(argparse.Namespace(**{**vars(words), **placed}))
    # Its own settings are those of the config, so that it can be resumed from its folder.
    own = {"config": words.run_dir, "run_dir": None, "overrides": [], "resume": ""}
    return start.resumed(argparse.Namespace(**{**vars(words), **placed, **own}))


def _complete(root: Path) -> bool:
    return RunFolder(root).exists() and read_seed_run(root, root.name).complete


def _leave(live: Sequence[Path], code: int) -> None:
    for root in live:
        leave(root, code)


def _told(series: Series) -> int:
    """Print how each seed ended, and return the exit code of all."""
    series.told()
    done = [job for job in series.jobs if series.ends.get(job.name) == "complete"]
    if len(done) > 1:
        print(f"Compare them with `grpo-tui seeds {' '.join(shell_word(job.root) for job in done)}`")
    sys.stdout.flush()
    if series.left:
        return series.left
    return FAILED if "failed" in series.ends.values() else OK


def _again(parsed: Any) -> list[str]:
    """Return the same command for the background. Everything was checked before the first start."""
    words = ["train", str(parsed.config), "--seeds", ",".join(map(str, parsed.seeds))]
    words += ["--headless", "--quick-check"]
    for override in parsed.overrides:
        words += ["--set", override]
    for option, value in (
        ("--run-dir", parsed.run_dir),
        ("--launcher", parsed.launcher),
        ("--gpus", parsed.gpus),
    ):
        words += [option, str(value)] if value is not None else []
    return words + ["--force"] * parsed.force + ["--trust"] * parsed.trust
