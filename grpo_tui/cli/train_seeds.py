"""`grpo-tui train --seeds 1,2,3`: train one config with several seeds.

Running the command again continues the series: complete runs are skipped, a live one is followed to its end,
and one that ended early is resumed. A run is recognized by its record.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from grpo_tui.cli import start
from grpo_tui.cli.errors import FAILED, OK, CommandError
from grpo_tui.cli.headless import leave
from grpo_tui.cli.series import Job, Series, only_one, places_of, refuse_other
from grpo_tui.cli.words import sets
from grpo_tui.core.text import shell_word
from grpo_tui.present.seed_sets import read_seed_run
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.layout import RunFolder


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
