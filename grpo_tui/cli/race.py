"""`grpo-tui race`: continue one checkpoint with different settings for some steps, and compare the results.

Every branch is a fork with the schedule of the whole run, and stops early without changing it. So any of them
can go on to the end of the plan.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from grpo_tui.cli import start
from grpo_tui.cli.compare import INTERRUPTED, run_comparison
from grpo_tui.cli.errors import FAILED, OK, REFUSED, USAGE, CommandError, reported
from grpo_tui.cli.headless import POLL_S, say
from grpo_tui.cli.plain import print_json, print_text, show_progress, terminal_width
from grpo_tui.cli.score import wanted_config
from grpo_tui.cli.series import Job, Series, only_one, places_of, refuse_other, serves
from grpo_tui.config.document import UnreadableError, read_document
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line
from grpo_tui.present.race_text import CONTROL, START, Branch, Race, report
from grpo_tui.ship.compare import CompareOptions
from grpo_tui.ship.policies import PolicyError, resolve
from grpo_tui.store.checkpoints import TRAINER_STATE, Verdict, held, judge, newest_usable
from grpo_tui.store.comparisons import kept_results
from grpo_tui.store.json_file import read_object
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.status import paused_itself, read_status

OPTIMIZER = "optimizer="
"""Begins the word for `--optimizer` among the settings of a branch."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One branch as it was asked for. `settings` are `K=V`, of which one may be `optimizer=new`."""

    name: str
    settings: tuple[str, ...]


def race(parsed: Any) -> int:
    """`grpo-tui race RUN[@STEP]`. Exit 0, 1 when a branch is worse than the control, 2 when one failed.

    Exit 3 when one was stopped.
    """
    if parsed.json and parsed.detach:
        raise CommandError("--json and --detach cannot be combined. Leave one out")
    wanted = branches_of(parsed)
    folder, verdict = _parent(parsed.checkpoint)
    parsed.checkpoint = f"{folder.root}@{verdict.step}"  # also in the background, if a newer one is saved
    given = start.read(_words(parsed, folder, verdict, ()))
    config = given.config
    if config.section.stages:
        raise CommandError("race does not fork stages. Fork the run with `grpo-tui train RUN --resume`")
    until = _until(config, verdict, parsed.steps)
    jobs = [_job(parsed, folder, verdict, one, until) for one in wanted]
    places = places_of(parsed.gpus, config, given.launcher)
    own = partial(print, file=sys.stderr, flush=True) if parsed.json else say
    # Nobody resumes a branch that paused itself while the race waits.
    series = Series(jobs, places, _stop, own, lambda root: paused_itself(read_status(root)))
    with held(verdict.path) as hold:
        with only_one(Path(f"{folder.root}@{verdict.step}"), "branches"):
            if not parsed.detach:
                series.train()
                return _told(parsed, series, Race(folder.root, verdict.step, until, ()), wanted, config)
        log = _root(folder, verdict, "race.log")
        return series.detach(_again(parsed, wanted), log, always=True, hold=hold)


# -- what was asked for ----------------------------------------------------------------------------------


def branches_of(parsed: Any) -> list[Wanted]:
    """Return the branches of `--branch` and `--branches`, after the control.

    Raises:
        CommandError: There is none, or one of them is not a branch.
    """
    found = [_read(text) for text in [*parsed.branch, *_of_file(parsed.branches)]]
    if not found:
        raise CommandError("Name the settings of a branch, such as --branch 'learning_rate=1e-5'")
    if not parsed.no_control:
        found.insert(0, Wanted(CONTROL, ()))
    names = [one.name for one in found]
    if twice := next((name for at, name in enumerate(names) if name in names[:at]), None):
        raise CommandError(f"two branches are called {twice}. Name one with --branch 'NAME: K=V'")
    return found


def _read(text: str) -> Wanted:
    shown = one_line(text, 80)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"--branch {shown}: {error}") from error
    name = words.pop(0)[:-1] if words and words[0].endswith(":") else None
    if wrong := next((word for word in words if "=" not in word), None):
        raise CommandError(f"--branch {shown}: {one_line(wrong, 40)} is not a setting. Write K=V")
    if not words:
        raise CommandError(f"--branch {shown}: no setting is changed. Write 'learning_rate=1e-5'")
    kinds = [word for word in words if word.startswith(OPTIMIZER)]
    if set(kinds) - {f"{OPTIMIZER}new", f"{OPTIMIZER}kept"}:
        raise CommandError(f"--branch {shown}: optimizer is new or kept")
    if name is None:
        name = re.sub(r"[^A-Za-z0-9._]+", "-", " ".join(words)).strip("-._")[:60]
    if not NAME.fullmatch(name) or name in (CONTROL, START):
        raise CommandError(f"--branch {shown}: {one_line(name, 60)} cannot be its name. Write 'NAME: K=V'")
    return Wanted(name, tuple(words))


def _of_file(path: Path | None) -> Iterator[str]:
    """Yield the branches of a YAML file, which maps names to settings, as `--branch` takes them."""
    if path is None:
        return
    with reported(UnreadableError, before=f"--branches {path}: "):
        body = read_document(path).values
    for name, settings in body.items():
        if not isinstance(settings, Mapping):
            raise CommandError(f"{path}: {one_line(str(name), 60)} is not a mapping of settings")
        values = {key: v if isinstance(v, str) else json.dumps(v) for key, v in settings.items()}
        yield shlex.join([f"{name}:", *(f"{key}={value}" for key, value in values.items())])


def _parent(word: str) -> tuple[RunFolder, Verdict]:
    """Return the run and the checkpoint that `RUN[@STEP]` names; without a step the newest one."""
    path, (run, _, step) = Path(word).expanduser(), word.rpartition("@")
    if not RunFolder(path).exists():
        path = Path(run).expanduser()
        if not run or not RunFolder(path).exists():
            raise CommandError(f"{one_line(word, 200)}: no such run. `grpo-tui runs` lists the runs")
    else:
        step = ""
    folder = RunFolder(path.absolute())
    return folder, start.checkpoint_of(folder, step)[0]


def _until(config: RunConfig, verdict: Verdict, steps: int) -> int:
    """Return the last step of the branches, which is at most the last one of the plan."""
    total = config.grpo.get("max_steps")
    if not isinstance(total, int) or total <= 0:
        total = (read_object(verdict.path / TRAINER_STATE) or {}).get("max_steps")
    if not isinstance(total, int) or total <= 0:
        return verdict.step + steps
    if total <= verdict.step:
        raise CommandError(
            f"the run ends at step {total}, so no step is left to race. Race from an earlier checkpoint"
        )
    return min(verdict.step + steps, total)


# -- the branches as runs ----------------------------------------------------------------------------------


def _root(folder: RunFolder, verdict: Verdict, name: str) -> Path:
    return folder.root.with_name(f"{folder.root.name}-{verdict.step}-{name}")


def _words(parsed: Any, folder: RunFolder, verdict: Verdict, settings: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of `train` that fork the run."""
    changes = [word for word in settings if not word.startswith(OPTIMIZER)]
    kind = next((word.removeprefix(OPTIMIZER) for word in settings if word.startswith(OPTIMIZER)), None)
    return argparse.Namespace(
        config=folder.root, overrides=changes, run_dir=None, launcher=None,
        gpus=parsed.gpus, resume=str(verdict.step), optimizer=kind, quick_check=True, force=False,
    )  # fmt: skip


def _job(parsed: Any, folder: RunFolder, verdict: Verdict, one: Wanted, until: int) -> Job:
    root = _root(folder, verdict, one.name)
    words = _words(parsed, folder, verdict, one.settings)
    with reported(CommandError, before=f"branch {one.name}: " if one.settings else ""):
        refuse_other(root, start.read(words).config, "Delete it, or name this branch otherwise", "seed")
    words.run_dir = root
    return Job(one.name, root, partial(_prepared, words, until), partial(_complete, root, until))


def _prepared(words: argparse.Namespace, until: int, gpu: str | None, quick: bool) -> start.Start:
    """Return the fork, or its resume if it ended early."""
    words = argparse.Namespace(**{**vars(words), "gpus": gpu or words.gpus})
    folder = RunFolder(words.run_dir)
    if folder.spec.exists() and newest_usable(folder)[0] is not None:
        words.config, words.run_dir, words.overrides, words.resume = folder.root, None, [], ""
        words.optimizer = None
    prepared = start.resumed(words)
    return replace(prepared, spec=replace(prepared.spec, stop_after=until))


def _complete(root: Path, until: int) -> bool:
    """Return whether a branch has trained to its last step and saved there."""
    if not RunFolder(root).exists():
        return False
    look = read_status(root)
    if look.step != until or look.live:
        return look.step > until  # it has gone on since
    path = root / f"checkpoint-{until}"
    return look.state == "finished" or (path.is_dir() and judge(path).usable)


def _stop(live: Sequence[Path], code: int) -> None:
    """Save and stop the branches that train, and wait until they have ended."""
    for root in live:
        print(f"stopping {one_line(str(root))} after its step…", file=sys.stderr, flush=True)
        Mailbox(RunFolder(root).commands).submit("stop")
    while any(read_status(root).live for root in live):
        time.sleep(POLL_S)


def _again(parsed: Any, wanted: Sequence[Wanted]) -> list[str]:
    """Return the same command for the background."""
    words = ["race", str(parsed.checkpoint), "--steps", str(parsed.steps)]
    for one in wanted:
        words += ["--branch", shlex.join([f"{one.name}:", *one.settings])] if one.settings else []
    for option in ("gpus", "rows", "samples", "correct", "timeout"):
        value = getattr(parsed, option)
        words += [f"--{option}", str(value)] if value is not None else []
    return words + ["--no-control"] * parsed.no_control + ["--trust"] * parsed.trust


# -- the result ----------------------------------------------------------------------------------------------


def _told(parsed: Any, series: Series, found: Race, wanted: Sequence[Wanted], config: RunConfig) -> int:
    """Compare the branches that are complete, print the result, and return the exit code."""
    branches = [_ended(series, job, one) for job, one in zip(series.jobs, wanted, strict=True)]
    found = replace(found, branches=tuple(branches), server=serves(config))
    if series.left:
        series.told()
        return series.left
    named = [(one.name, f"{one.root}@{found.until}") for one in branches if one.end == "complete"]
    if CONTROL not in (name for name, _ in named):
        named.insert(0, (START, f"{found.parent}@{found.step}"))
    body = _compared(parsed, found.parent, named) if len(named) > 1 else None
    if body is None and len(named) > 1:
        return INTERRUPTED
    found = replace(found, body=body)
    if parsed.json:
        print_json(found.to_json())
    else:
        print_text(report(found, terminal_width()))
    for end, code in (("failed", USAGE), ("stopped", REFUSED)):
        if any(one.end == end for one in branches):
            return code
    return FAILED if any(one["word"] == "worse" for one in (body or {}).get("verdict", ())) else OK


def _ended(series: Series, job: Job, one: Wanted) -> Branch:
    end, why = series.ends.get(job.name, "not started"), series.why.get(job.name, "")
    if end == "failed" and job.begun:
        error = read_status(job.root).error or {}
        why = str(error.get("cause") or error.get("message") or why)
    return Branch(one.name, one.settings, job.root, end, why)


def _kept(parent: Path, named: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """Return the newest comparison of these models that is kept in the parent; None without one."""
    for file, body in kept_results(parent):
        listed = body["policies"] if len(body.get("policies", ())) == len(named) else []
        if listed and all(map(_is_of, listed, named)):
            return {**body, "file": str(file)}
    return None


def _is_of(policy: Mapping[str, Any], named: tuple[str, str]) -> bool:
    """Return whether a policy of a kept comparison is the model with this name and `RUN@STEP`."""
    name, (root, _, step) = named[0], named[1].rpartition("@")
    known = (policy.get("name"), str(policy.get("step"))) == (name, step)
    return known and Path(str(policy.get("path"))).is_relative_to(root)


def _compared(parsed: Any, parent: Path, named: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """Compare models, named with their `RUN@STEP`, with the first one on the parent's data and rewards."""
    config = wanted_config([str(parent)], (), None)
    try:
        policies = [replace(resolve(word), name=name) for name, word in named]
    except PolicyError as error:  # a branch that went on may have removed its checkpoint
        if (kept := _kept(parent, named)) is None:
            raise CommandError(str(error)) from error
        return {**kept, "notes": [*kept["notes"], f"shown as it was kept, because a model is gone: {error}"]}
    options = CompareOptions(parsed.rows, parsed.samples, correct=parsed.correct)
    return run_comparison(config, policies, options, parent, show_progress, parsed.timeout)
