"""`grpo-tui train --seeds 1,2,3`: train one config with several seeds, one run after the other.

Running the command again continues the series: complete runs are skipped, a live one is followed to its end,
and one that ended early is resumed. A run is recognized by its record.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.cli import start
from grpo_tui.cli.errors import FAILED, OK, REFUSED, CommandError
from grpo_tui.cli.headless import INTERRUPTED, READER_GONE, TERMINATED, follow
from grpo_tui.cli.plain import complain
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.cli.words import sets
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.seed_sets import read_seed_run, settings_apart
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.layout import RunFolder, state_folder
from grpo_tui.store.status import read_status

LEFT = (INTERRUPTED, READER_GONE, TERMINATED)
"""Exit codes of `follow` when the user left."""


@dataclass(frozen=True, slots=True)
class Job:
    """One seed: its run folder, and the arguments that train it."""

    seed: int
    root: Path
    parsed: argparse.Namespace


def train_seeds(parsed: Any) -> int:
    """Train every seed. Exit 0 if all are complete, 1 if one failed, 3 if one was stopped."""
    _refuse(parsed)
    root = start.root_of_new(parsed)
    jobs = [_job(parsed, seed, root) for seed in parsed.seeds]
    for job in jobs:
        if start.config_of_new(job.parsed).section.stages:
            raise CommandError("--seeds does not train stages. Start a run for each seed with --set seed=N")
        _refuse_other(job)
    with _only_one(root):
        if not parsed.detach:
            return _one_after_the_other(jobs)
    return _detached(parsed, jobs, root)


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Keep a second command from training the same series, in which both would start the next seed."""
    folder = state_folder() / "seeds"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(root).encode(errors="surrogateescape")).hexdigest()[:16]
    with (folder / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(
                f"Another command is training seeds of {root}. Wait for it, or stop its run to end it"
            ) from None
        yield


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
    words = {
        **vars(parsed),
        "seeds": None,
        "run_dir": folder,
        "overrides": [*parsed.overrides, f"seed={seed}"],
    }
    return Job(seed, folder, argparse.Namespace(**words))


def _refuse_other(job: Job) -> None:
    """Refuse a folder whose run has other settings: it would be taken for a run of this config."""
    wanted = start.config_of_new(job.parsed)
    if wanted.grpo.get("resume_from_checkpoint"):
        raise CommandError("The config sets resume_from_checkpoint. Remove it to train several seeds")
    if not RunFolder(job.root).spec.exists():
        return
    found = saved_run(job.root)[2]
    apart = settings_apart(found.to_record(), wanted.to_record())
    if found.grpo.get("seed") != wanted.grpo.get("seed"):
        apart = ["seed", *apart]
    if apart:
        raise CommandError(
            f"{job.root} holds a run with other settings ({one_line(', '.join(apart), 120)}). Choose another "
            "folder with --run-dir"
        )


def _one_after_the_other(jobs: Sequence[Job]) -> int:
    ends: dict[int, str] = {}
    checked, left = False, OK
    for number, job in enumerate(jobs, 1):
        print(f"seed {job.seed} ({number} of {len(jobs)}): {one_line(str(job.root))}", flush=True)
        try:
            code = _train(job, quick=checked)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except CommandError as error:
            if not checked and not _begun(job):  # an error of the config stops every seed
                raise
            complain(str(error))
            code = FAILED
        checked = True
        ends[job.seed] = _end(job, code)
        if code in LEFT or (code == REFUSED and ends[job.seed] == "stopped"):
            left = code
            break
    return _told(jobs, ends, left)


def _train(job: Job, *, quick: bool) -> int:
    """Train one seed to its end, and return its exit code as `follow` does."""
    if _complete(job):
        print("already complete: skipped", flush=True)
        return OK
    if not _live(job):
        job.parsed.quick_check = job.parsed.quick_check or quick
        return start.followed(_prepared(job))
    print("already training: following it to its end", flush=True)
    return follow(job.root, *start.known(RunFolder(job.root)))


def _live(job: Job) -> bool:
    return RunFolder(job.root).exists() and read_status(job.root).live


def _prepared(job: Job) -> start.Start:
    """Return a new start, or a resume if the run ended early."""
    if newest_usable(RunFolder(job.root))[0] is None:
        return start.prepared(job.parsed)
    # Its own settings are those of the config, so that it can be resumed from its folder.
    words = {**vars(job.parsed), "config": job.root, "run_dir": None, "overrides": [], "resume": ""}
    return start.resumed(argparse.Namespace(**words))


def _begun(job: Job) -> bool:
    return RunFolder(job.root).exists()


def _complete(job: Job) -> bool:
    return _begun(job) and read_seed_run(job.root, job.root.name).complete


def _end(job: Job, code: int) -> str:
    if code in LEFT:
        return "still training" if _live(job) else "not complete"
    if _complete(job):
        return "complete"
    return "stopped" if code == REFUSED else "failed"


def _told(jobs: Sequence[Job], ends: dict[int, str], left: int) -> int:
    """Print how each seed ended, and return the exit code of all."""
    print()
    for job in jobs:
        print(f"seed {job.seed}: {ends.get(job.seed, 'not started')}   {one_line(str(job.root))}")
    if len(ends) < len(jobs) or left:
        print("Run the same command again to continue.")
    done = [job for job in jobs if ends.get(job.seed) == "complete"]
    if len(done) > 1:
        print(f"Compare them with `grpo-tui seeds {' '.join(shell_word(job.root) for job in done)}`")
    sys.stdout.flush()
    if left:
        return left
    return FAILED if "failed" in ends.values() else OK


# -- in the background --------------------------------------------------------------------------------


def _detached(parsed: Any, jobs: Sequence[Job], root: Path) -> int:
    """Start the first seed that is not complete, and leave the others to a process of their own."""
    open_jobs = [job for job in jobs if not _complete(job)]
    for job in jobs:
        if job not in open_jobs:
            print(f"seed {job.seed} is already complete: skipped")
    if not open_jobs:
        return OK
    first = open_jobs[0]
    if not _live(first):
        start.detached(_prepared(first))
    if open_jobs[1:]:
        log = root.with_name(f"{root.name}-seeds.log")
        with log.open("ab") as output:
            subprocess.Popen(
                [sys.executable, "-m", "grpo_tui", *_words(parsed)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # it outlives the terminal
            )
        rest = ", ".join(str(job.seed) for job in open_jobs[1:])
        print(f"Then the seeds {rest}, one after the other. Output: {one_line(str(log))}")
        print(f"To end the series, stop the run that is training: `grpo-tui stop {shell_word(first.root)}`")
    return OK


def _words(parsed: Any) -> list[str]:
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
