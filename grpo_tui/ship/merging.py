"""Merge a LoRA adapter into its base and write the whole model to a folder: the parent's side.

A child process loads, merges, writes and checks, so that torch is not imported here. The model is written
beside its folder and renamed once it has passed the check, so a killed merge leaves the folder unchanged.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.children.asking import AskedChild, EndedError, RefusedError
from grpo_tui.children.pipe import ChildGoneError, ChildHungError, StartError
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import shell_word
from grpo_tui.rewards.consent import required
from grpo_tui.ship.policies import Policy, PolicyError, config_of
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader

DTYPES = ("float32", "bfloat16", "float16")
MOST_TEXTS = 4
MOST_CHARACTERS = 4000
BITS = ("load_in_4bit", "load_in_8bit")
BESIDE = ".{name}.merging"


class MergeError(RuntimeError):
    """Nothing was merged; the message is for the user."""


class DifferentError(MergeError):
    """The written model is not the same policy."""


class MergeCancelledError(MergeError):
    """The user cancelled."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged model and the results of its check.

    Attributes:
        tokens: Number of tokens compared with the adapter on its base in float32.
        kl: Mean KL divergence per token, in nats, from the adapter on its base in float32.
        base_kl: The same for the base alone in this dtype, from the base in float32.
        top1: Fraction of tokens at which both agree on the most probable token.
        rounded_away: Fraction of the weights changed by the adapter that rounding to the dtype resets to the
            base's value; None for float32.
        quantized: Whether the adapter was trained on a quantized base.
        as_trained: `tokens`, `max_difference`, `kl` and `top1` of the merged model from the adapter on its
            quantized base; None for another base, or if `not_compared` says why not.
    """

    path: str
    adapter: str
    base: str
    step: int | None
    dtype: str
    size_bytes: int
    tokens: int
    max_difference: float
    kl: float
    base_kl: float
    top1: float
    rounded_away: float | None
    as_trained: Mapping[str, Any] | None
    not_compared: str
    quantized: bool


def merge(
    policy: Policy,
    destination: Path,
    dtype: str = "",
    tell: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
) -> Merged:
    """Merge a policy's adapter into its base.

    Args:
        destination: A folder that does not exist, or is empty.
        dtype: One of `DTYPES`; empty for the dtype of the stored base.
        cancel: When set, the child is ended and `MergeCancelledError` raised.

    Raises:
        MergeError: It cannot be merged. Nothing is left behind. `DifferentError` when the merged model is not
            the same policy.
        ConsentError: It would run code that is not the user's own.
    """
    if policy.adapter is None:
        raise MergeError(
            f"{policy.name} is not an adapter: it is a whole model, which needs no merge. Serve it with "
            f"`vllm serve {shell_word(policy.model)}`"
        )
    config = _config(policy)
    if config is not None:
        required(config, "model")
    request = {
        "do": "merge",
        "base": policy.model,
        "adapter": policy.adapter,
        "tokenizer": policy.tokenizer,
        "dtype": dtype,
        "texts": _texts(policy),
        "config": config.to_json() if config is not None else None,
    }
    with _beside(destination) as beside:
        reply = _asked({**request, "folder": str(beside)}, tell, cancel or threading.Event())
        _put(beside, destination)
    quantized = config is not None and any(map(config.model_args.get, BITS))
    return Merged(
        path=str(destination.absolute()),
        adapter=policy.adapter,
        base=policy.model,
        step=policy.step,
        quantized=quantized,
        **reply,
    )


def refuse_no_room(parameters: int, dtype: str, memory_bytes: int, disk_bytes: int) -> None:
    """Refuse a merge for which this machine has too little memory or disk space.

    Parameters of the base that are shared count once.

    Raises:
        MergeError: One of them is not enough.
    """
    memory = parameters * 4 * 1.2 + 5e8
    disk = parameters * (4 if dtype == "float32" else 2) * 1.05 + 5e7
    for needed, there, what in ((memory, memory_bytes, "memory"), (disk, disk_bytes, "disk space")):
        if needed > there:
            raise MergeError(
                f"not enough {what}: merging {parameters / 1e9:.3g}B parameters needs about "
                f"{needed / 1e9:.1f} GB, and {there / 1e9:.1f} GB are free"
            )


def _config(policy: Policy) -> RunConfig | None:
    try:
        return config_of(policy.run) if policy.run is not None else None
    except PolicyError:
        return None


def _texts(policy: Policy) -> list[str]:
    if policy.run is None:
        return []
    texts = []
    with contextlib.suppress(RunDatabaseError):
        reader = RunReader(RunFolder(policy.run).database)
        with contextlib.closing(reader):
            for group in reader.groups(newest_first=True, limit=MOST_TEXTS):
                answer = group.completions[0].text if group.completions else ""
                texts.append(f"{_plain(group.prompt)}{answer}"[:MOST_CHARACTERS])
    return texts


def _plain(prompt: Any) -> str:
    if not isinstance(prompt, list):
        return str(prompt)
    return "".join(f"{message.get('content')}\n" for message in prompt if isinstance(message, Mapping))


@contextlib.contextmanager
def _beside(destination: Path) -> Iterator[Path]:
    """Provide an empty folder beside another one, removed at the end if it is still there.

    Raises:
        MergeError: The destination exists, is being written, or cannot be created.
    """
    _refuse_taken(destination)
    there = Path(os.path.abspath(destination))
    beside = there.with_name(BESIDE.format(name=there.name))
    try:
        beside.mkdir(parents=True, exist_ok=True)
        held = os.open(beside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise MergeError(f"{beside} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in beside.iterdir():  # left by a merge that was killed
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        try:
            yield beside
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except BlockingIOError as error:
        raise MergeError(f"another merge is writing {destination}") from error
    finally:
        os.close(held)


def _refuse_taken(destination: Path) -> None:
    if destination.is_symlink() or (destination.exists() and not destination.is_dir()):
        raise MergeError(f"{destination} exists and is not a folder. Name another one")
    path = destination.absolute()
    kind, _, step = path.name.partition("-")
    if kind == "checkpoint" and step.isdecimal() and RunFolder(path.parent).exists():
        raise MergeError(f"{destination} would be taken for a checkpoint of its run. Name another folder")
    if destination.is_dir() and any(destination.iterdir()):
        raise MergeError(f"{destination} exists and is not empty. Name another folder, or empty it first")


def _put(beside: Path, destination: Path) -> None:
    """Rename the written folder to its destination, replacing an empty one."""
    try:
        os.rename(beside, destination)
    except OSError as error:
        raise MergeError(f"{destination} cannot be written: {error.strerror}") from error


def _asked(
    request: Mapping[str, Any], tell: Callable[[str], None] | None, cancel: threading.Event
) -> dict[str, Any]:
    def told(event: Mapping[str, Any]) -> None:
        if tell is not None:
            tell(str(event["what"]))

    with AskedChild("grpo_tui.ship.merge_child") as child:
        try:
            return child.ask(request, told, cancel=cancel)
        except RefusedError as error:
            kind = DifferentError if error.type == DifferentError.__name__ else MergeError
            raise kind(str(error)) from error
        except EndedError as error:
            raise MergeCancelledError(str(error)) from error
        except (StartError, ChildGoneError, ChildHungError) as error:
            raise MergeError(f"the process that merges ended: {error}") from error
