"""Judge checkpoint folders without loading them: which can a run resume from, and why not the others."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from grpo_tui.core.stages import StageNow
from grpo_tui.store.json_file import open_regular, read_object, write_json
from grpo_tui.store.layout import RunFolder

MARKER = "grpo_tui.json"
"""Written last into a checkpoint. Lists the files and their sizes."""
BEST = "best"
"""Key in the marker: True for the checkpoint of the best evaluation, which rotation keeps."""
OPTIMIZER = "optimizer"
"""Key in the marker: "new" in a fork that left out the optimizer's state."""
OF_OPTIMIZER = ("optimizer*", "scheduler.pt")
DEEPSPEED = "latest"
TRAINER_STATE = "trainer_state.json"
WEIGHTS_INDEX = "model.safetensors.index.json"
WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
STATE_FILE = "grpo_tui_state_{rank}.pt"
"""What TRL's own files lack for an exact resume, per rank."""
HEADER_BYTES = 100_000_000
"""The longest header that safetensors itself accepts."""
PICKLED = frozenset({".pt", ".pth", ".bin"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of one checkpoint found."""

    path: Path
    step: int
    usable: bool
    reason: str = ""
    """Why it cannot be used, or what is missing for an exact resume."""


def judge(path: Path) -> Verdict:
    """Check one checkpoint folder. The rotation of a live run may remove it meanwhile."""
    step = int(path.name.split("-")[-1])
    try:
        return _judged(path, step)
    except FileNotFoundError:
        return Verdict(path, step, False, "it has just been removed")


def _judged(path: Path, step: int) -> Verdict:
    if read_object(path / TRAINER_STATE, below=path.parent) is None:
        return Verdict(
            path, step, False, f"{TRAINER_STATE} is missing or incomplete, so the save did not finish"
        )
    files = (read_object(path / MARKER, below=path.parent) or {}).get("files")
    if isinstance(files, dict):
        for name, size in files.items():
            found = _size(path / Path(name).name)  # in this folder, whatever path the marker names
            if found is None:
                return Verdict(path, step, False, f"{name} is missing")
            if found != size:
                shown = f"{size:,}" if isinstance(size, int) else size
                return Verdict(path, step, False, f"{name} holds {found:,} of {shown} bytes")
        return Verdict(path, step, True)
    if fault := weights_fault(path):
        return Verdict(path, step, False, fault)
    for file in sorted(path.iterdir()):
        if file.suffix in PICKLED and not _whole_archive(file):
            return Verdict(path, step, False, f"{file.name} is incomplete")
    if not (path / "optimizer.pt").exists() and not (path / "optimizer.bin").exists():
        return Verdict(path, step, True, "it contains no optimizer state, so momentum starts from zero")
    if (path / STATE_FILE.format(rank=0)).exists():
        return Verdict(path, step, True, f"{MARKER} cannot be read, so no sizes could be compared")
    return Verdict(
        path, step, True, "saved without grpo-tui: an unfinished generation batch is generated again"
    )


def weights_fault(path: Path, *, links: bool = False) -> str:
    """Return why the weights of a model or an adapter are incomplete; empty when nothing is missing.

    With `links`, files may be links, as in the cache of the Hub.
    """

    def there(name: str) -> Path:
        return (path / name).resolve() if links else path / name

    index = read_object(there(WEIGHTS_INDEX))
    named = index.get("weight_map") if index is not None else None
    for name in sorted({str(file) for file in named.values()}) if isinstance(named, dict) else ():
        if _size(there(Path(name).name)) is None:
            return f"{name} is missing"
    weights = [file for pattern in WEIGHTS for file in path.glob(pattern)]
    if not weights:
        return "it contains no weights"
    for file in weights:
        if file.suffix == ".safetensors" and not whole_safetensors(there(file.name)):
            return f"{file.name} is incomplete"
    return ""


ADAMW = ("adamw_torch", "adamw_torch_fused")
"""Optimizers that can continue from each other's state."""
SHARDED = ("deepspeed", "fsdp")
"""Settings that shard a model and save it in their own format."""
BY_METRIC = ("reduce_lr_on_plateau", "greedy")
"""Schedules that count evaluations instead of steps."""


def reference_of(folder: RunFolder, stage: StageNow | None) -> Path | None:
    """Return the checkpoint that the KL of a stage is measured from, None for the base model.

    Raises:
        LookupError: It is gone or incomplete. The message says what to do.
    """
    if stage is None or not stage.reference:
        return None
    path = folder.root / f"checkpoint-{stage.reference}"
    fault = weights_fault(path) if path.is_dir() else "it is gone"
    if fault:
        key = f"grpo_tui.stages.{stage.place}.reference"
        raise LookupError(
            f"stage {stage.name} measures the KL from {path.name}, but {fault}. Restore that folder, or "
            f"measure the KL from the base model with --set {key}=base"
        )
    return path


def has_new_optimizer(checkpoint: Path) -> bool:
    """Return whether a fork left the optimizer's state out of this checkpoint."""
    return (read_object(checkpoint / MARKER) or {}).get(OPTIMIZER) == "new"


def refused_at_resume(checkpoint: Path, asked: Mapping[str, Any], *, new_optimizer: bool = False) -> str:
    """Return why changed settings prevent a resume from this checkpoint; empty when they do not."""
    if new_optimizer and (checkpoint / DEEPSPEED).exists():
        return "DeepSpeed loads the optimizer together with the model. Leave out --optimizer new"
    found = (read_object(checkpoint / MARKER) or {}).get("settings")
    saved = found if isinstance(found, dict) else {}
    for name in SHARDED:
        if name in saved and name in asked and bool(saved[name]) != bool(asked[name]):
            how = "with" if saved[name] else "without"
            return (
                f"{name} cannot change at a resume: {checkpoint.name} was saved {how} it. Restore the "
                "earlier value"
            )
    kept = not new_optimizer and not has_new_optimizer(checkpoint)
    for name in ("optim", "lr_scheduler_type") if kept else ():
        old, new = saved.get(name), asked.get(name)
        if old == new or old is None or new is None:
            continue
        fits = {old, new} <= set(ADAMW) if name == "optim" else not {old, new} & set(BY_METRIC)
        if not fits:
            return (
                f"{name} cannot change from {old} to {new} at a resume: {checkpoint.name} holds the state "
                f"of {old}. Restore it, or fork the run with --run-dir FOLDER --optimizer new"
            )
    return ""


def newest_usable(folder: RunFolder, before: int | None = None) -> tuple[Verdict | None, list[Verdict]]:
    """Return the newest checkpoint to resume from (`before` a step), and the newer ones that were skipped."""
    passed: list[Verdict] = []
    for path in reversed(folder.checkpoints()):
        verdict = judge(path)
        if before is not None and verdict.step >= before:
            continue
        if verdict.usable:
            return verdict, passed
        passed.append(verdict)
    return None, passed


@contextmanager
def held(checkpoint: Path) -> Iterator[IO[str] | None]:
    """Keep a checkpoint from the rotation of a live run meanwhile, if its folder can be written to.

    Yields the file that is locked. A process that gets it as its stdin, and holds the checkpoint too, goes on
    holding it: close it then. The lock of a process that was killed is gone with it.
    """
    path = _hold_of(checkpoint)
    try:
        file = _locked(path)
    except OSError:  # of another user, or without locks
        yield None
        return
    with file:
        try:
            yield file
        finally:
            if not file.closed:
                with suppress(BlockingIOError):  # another process holds it too
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink(missing_ok=True)


def _locked(path: Path) -> IO[str]:
    """Open and lock a file, and return it once it still has its name: another holder may have removed it."""
    if (given := _identity(0)) is not None and given == _identity(path):
        return os.fdopen(os.dup(0))  # with the lock of the process that started this one
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        fcntl.flock(file, fcntl.LOCK_SH)
        if _identity(file.fileno()) == _identity(path):
            return file
        file.close()


def _identity(file: int | Path) -> tuple[int, int] | None:
    """Return device and inode of a file, None when it is gone."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_held(checkpoint: Path) -> bool:
    """Return whether a process holds a checkpoint."""
    try:
        with open_regular(_hold_of(checkpoint)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _hold_of(checkpoint: Path) -> Path:
    """Return the file beside a checkpoint that is locked while it is held."""
    return checkpoint.with_name(f".{checkpoint.name}.held")


def remove(checkpoint: Path) -> None:
    """Delete a checkpoint's folder. If interrupted, what is left is recognizably incomplete.

    Raises:
        OSError: It cannot be deleted.
    """
    (checkpoint / TRAINER_STATE).unlink(missing_ok=True)
    shutil.rmtree(checkpoint)


def copy(checkpoint: Path, folder: Path, *, optimizer: bool = True) -> Path:
    """Copy a checkpoint into another run's folder, whole or not at all, and return its path.

    An earlier copy of it there is replaced. Files are hard-linked where possible, because a complete
    checkpoint is never written to.

    Args:
        optimizer: False to leave out the state of the optimizer and its schedule.

    Raises:
        OSError: There is no space for it, or it already exists.
    """
    folder.mkdir(parents=True, exist_ok=True)
    beside, there = folder / f".{checkpoint.name}.copying", folder / checkpoint.name
    shutil.rmtree(beside, ignore_errors=True)
    if is_copy(there, checkpoint):  # of a start that was killed
        there.rename(beside)
        shutil.rmtree(beside)
    left_out = None if optimizer else shutil.ignore_patterns(*OF_OPTIMIZER)
    try:
        shutil.copytree(checkpoint, beside, symlinks=True, copy_function=_link, ignore=left_out)
    except shutil.Error as error:  # lists (source, destination, reason) of every file
        shutil.rmtree(beside, ignore_errors=True)
        raise OSError(errno.EIO, f"{checkpoint.name} cannot be copied: {error.args[0][0][2]}") from error
    marker = read_object(beside / MARKER)
    if marker is not None and not optimizer:
        files = marker.get("files")
        if isinstance(files, dict):
            marker["files"] = {name: size for name, size in files.items() if (beside / name).exists()}
        write_json(beside / MARKER, marker | {OPTIMIZER: "new"})
    beside.rename(there)
    return there


def is_copy(checkpoint: Path, other: Path) -> bool:
    """Return whether a checkpoint was copied from another one, which is still there. A link is not a copy."""
    if checkpoint.is_symlink():
        return False
    states = [read_object(path / TRAINER_STATE) for path in (checkpoint, other)]
    return states[0] is not None and states[0] == states[1]


def _link(source: str, destination: str) -> None:
    try:
        os.link(source, destination, follow_symlinks=False)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, destination, follow_symlinks=False)


def _size(path: Path) -> int | None:
    """Return the size of a regular file, or None. A link does not count."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _whole_archive(path: Path) -> bool:
    """Return False for a torch file, which is a zip archive, whose end is missing."""
    import zipfile

    try:
        with open_regular(path) as file:
            begins = file.read(2)
            return bool(begins) and (begins != b"PK" or zipfile.is_zipfile(file))
    except OSError:
        return False


def whole_safetensors(path: Path) -> bool:
    """Return whether the file is as long as its header says (8-byte header length, JSON, data)."""
    try:
        with open_regular(path) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length) if length <= HEADER_BYTES else b"")
            size = os.fstat(file.fileno()).st_size
        end = max((t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"), default=0)
        return bool(size >= 8 + length + end)
    except (OSError, ValueError, struct.error, LookupError, TypeError, AttributeError, RecursionError):
        return False
