"""`run.json`: what a run starts from, written by whoever starts it, read by the training process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.stages import StageNow, stage_from
from grpo_tui.store.json_file import read_regular, write_bytes, write_json
from grpo_tui.store.layout import RunFolder

LARGEST_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One start of a run."""

    config: Mapping[str, Any]
    resume: str | None = None
    """Checkpoint folder to continue from; None for a fresh start."""
    notes: tuple[str, ...] = ()
    """Lines for the user in the log, such as checkpoints that were skipped."""
    launcher: tuple[str, ...] = ()
    """Command that starts the training process instead of this interpreter, such as `accelerate launch`."""
    overridden: tuple[str, ...] = ()
    """Settings given again at a resume. They win over changes made while training."""
    forced: tuple[str, ...] = ()
    """Errors of the pre-start check that the user overrode, as `id: message`."""
    gpus: tuple[str, ...] = ()
    """GPUs to use, as `CUDA_VISIBLE_DEVICES` names them in bus order; empty when none were chosen."""
    forked_from: str | None = None
    """Checkpoint of another run that this one started from."""
    new_optimizer: bool = False
    """Whether it started from there without the optimizer's state."""
    smoke: bool = False
    """Whether this is a trial of a few steps, which takes the longest prompts first."""
    drill: str = ""
    """What is broken on purpose in this trial; empty for nothing."""
    stop_after: int | None = None
    """Step after which to save and stop, without changing the schedule as fewer `max_steps` would."""

    rewards_set: tuple[str, ...] = ()
    """`K=V` texts of `--set` about rewards, which hold also for the config file when it is read again."""

    stage: StageNow | None = None
    """The stage that trains, whose settings `config` has; None for a run without stages."""

    attempts_before: int = 0
    """Newest attempt of the run before this start."""

    def write(self, path: Path) -> None:
        """Write the file whole or not at all, readable by its owner only: a config can contain tokens."""
        write_json(path, asdict(self), indent=1, mode=0o600)


def keep_earlier(folder: RunFolder) -> None:
    """Keep a copy of `run.json`, in case the changes of a resume do not work.

    Raises:
        OSError: There is no space for it.
    """
    if folder.spec.exists():
        write_bytes(folder.earlier_spec, read_regular(folder.spec), mode=0o600)


RESTORED = "this attempt completed no step, so run.json was restored"


def settle_earlier(folder: RunFolder, *, restore: bool) -> bool:
    """Restore the earlier `run.json`, or delete the copy. Return True when it was restored.

    A failing training process does this before it reports the failure; otherwise its supervisor does.

    Raises:
        OSError: It could not be restored.
    """
    if not restore:
        folder.earlier_spec.unlink(missing_ok=True)
        return False
    try:
        os.replace(folder.earlier_spec, folder.spec)
    except FileNotFoundError:
        return False
    return True


def checkpoint_forked(folder: RunFolder) -> Path | None:
    """Return the checkpoint of another run that a run was forked from; None for a run that is no fork."""
    spec = spec_or_none(folder)
    return Path(os.path.realpath(spec.forked_from)) if spec is not None and spec.forked_from else None


def spec_or_none(folder: RunFolder) -> RunSpec | None:
    """Return how a run was last started; None if its folder does not say."""
    try:
        return read_spec(folder.spec)
    except (OSError, ValueError):
        return None


def read_spec(path: Path) -> RunSpec:
    """Read `run.json`.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not a run specification.
    """
    try:
        body = json.loads(read_regular(path, largest=LARGEST_BYTES))
    except RecursionError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("config"), dict):
        raise ValueError(f"{path} is not a run specification")
    try:
        given = {key: value for key, value in body.items() if value not in (None, "")}  # edited by hand
        return rebuilt(RunSpec, given, stage=stage_from(body.get("stage")))
    except ValueError as error:
        raise ValueError(f"{path} is not a run specification: {error}") from error
