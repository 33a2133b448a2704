"""Locate a model or dataset: in a folder, in the cache, or on the Hub.

The Hub is asked once per name and with a time limit. If it cannot be reached, this process works offline
until the next check, so that nothing waits twice. Only repository information is downloaded.
"""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from grpo_tui.config.paths import LONGEST_HUB_NAME
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import Whereabouts
from grpo_tui.store.checkpoints import whole_safetensors

T = TypeVar("T")

ASK_S = 5.0
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_CONFIGS = ("config.json", "adapter_config.json")


class Hub:
    """Client of the Hub with at most one request per name and check, and none once it was unreachable."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Whereabouts] = {}
        self._silent = ""
        self._offline = ExitStack()

    def renew(self) -> None:
        """Forget all answers, and whether the Hub was unreachable."""
        self._known.clear()
        self._silent = ""
        self._offline.close()

    def model(self, name: str, revision: str = "main") -> Whereabouts:
        """Locate a model."""
        if os.path.isdir(name):
            return _in_folder(name, Path(name))
        return self._once("model", name, revision, lambda: _cached_model(name, revision))

    def dataset(self, name: str, revision: str = "main") -> Whereabouts:
        """Locate a dataset that is not a file."""
        if os.path.isdir(name):
            return Whereabouts(name, "folder", name, _size(Path(name), everything=True), 0)
        return self._once("dataset", name, revision, lambda: _cached_dataset(name))

    def _once(
        self, kind: str, name: str, revision: str, cached: Callable[[], Whereabouts | None]
    ) -> Whereabouts:
        if name.startswith(("/", "./", "../", "~")) or name.count("/") > 1:
            what = "folder" if kind == "model" else "file or folder"
            return Whereabouts(name, "missing", problem=f"no such {what}: {name}")
        if len(name) > LONGEST_HUB_NAME:
            return Whereabouts(name, "missing", problem=_no_name(one_line(name, 80)))
        key = (kind, name, revision)
        if key not in self._known:
            self._known[key] = cached() or self._asked(kind, name, revision)
        return self._known[key]

    def _asked(self, kind: str, name: str, revision: str) -> Whereabouts:
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE and not self._silent:
            self._silent = "HF_HUB_OFFLINE is set, so the hub was not asked"
        if self._silent:
            return self._unreachable(name)
        try:
            return _within(ASK_S, lambda: _ask(kind, name, revision))
        except Exception as error:
            told = _refusal(kind, name, error)
            if told is not None:
                return told
            late = isinstance(error, TimeoutError | queue.Empty)
            why = f" within {ASK_S:.0f} s" if late else f": {_sentence(error)}"
            self._silent = f"{constants.ENDPOINT} could not be reached{why}"
            self._offline.enter_context(offline())
            return self._unreachable(name)

    def _unreachable(self, name: str) -> Whereabouts:
        problem = f"{name} is not on this machine; {self._silent}"
        return Whereabouts(name, "unreachable", free_bytes=_free(), problem=problem)


@contextmanager
def offline() -> Iterator[None]:
    """Make every library of this process work offline."""
    from huggingface_hub import constants

    places: list[Any] = [constants]
    datasets = sys.modules.get("datasets")
    if datasets is not None:
        places.append(datasets.config)
    before = [place.HF_HUB_OFFLINE for place in places]
    named = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"  # for later imports
    for place in places:
        place.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value
        if datasets is None and "datasets" in sys.modules:  # its import has read the variable
            sys.modules["datasets"].config.HF_HUB_OFFLINE = before[0]
        if named is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = named


def _in_folder(name: str, folder: Path) -> Whereabouts:
    size = _size(folder)
    if not any((folder / mark).is_file() for mark in _CONFIGS):
        problem = f"{folder} has no config.json, so it is not a model"
        return Whereabouts(name, "broken", str(folder), size, 0, problem=problem)
    lacking = _lacking(folder)
    problem = f"{folder} lacks {lacking}" if lacking else ""
    files = () if problem else sorted(folder.glob("*.safetensors"))
    if cut := next((file.name for file in files if not whole_safetensors(file.resolve())), ""):
        problem = f"{cut} in {folder} is incomplete: writing or downloading it did not finish"
    return Whereabouts(name, "broken" if problem else "folder", str(folder), size, 0, _free(folder), problem)


def _cached_model(name: str, revision: str) -> Whereabouts | None:
    """Return the snapshot in the Hub's cache, None unless it is complete."""
    from huggingface_hub import try_to_load_from_cache

    for mark in _CONFIGS:
        try:
            found = try_to_load_from_cache(name, mark, revision=revision)
        except Exception:
            return Whereabouts(name, "missing", problem=_no_name(name))
        if isinstance(found, str):
            folder = Path(found).parent
            if not _lacking(folder):
                return Whereabouts(name, "cached", str(folder), _size(folder), 0, _free(folder))
    return None


def _cached_dataset(name: str) -> Whereabouts | None:
    """Return the dataset prepared by `datasets`, or its files in the Hub's cache."""
    from huggingface_hub import constants

    home = os.environ.get("HF_DATASETS_CACHE") or os.path.join(constants.HF_HOME, "datasets")
    prepared = Path(home) / name.replace("/", "___")
    fetched = Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}"
    found = prepared if prepared.is_dir() else fetched / "snapshots"
    if not found.is_dir() or not any(found.iterdir()):
        return None
    return Whereabouts(name, "cached", str(found), _size(found, everything=True), 0, _free(found))


def _lacking(folder: Path) -> str:
    """Return what a model's folder lacks, empty if it is complete."""
    import json

    for index in _INDEXES:
        try:
            shards = json.loads((folder / index).read_text(encoding="utf-8"))["weight_map"].values()
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            continue
        gone = sorted({str(s) for s in shards if not (folder / str(s)).is_file()})
        return f"{len(gone)} of its weight files ({gone[0]})" if gone else ""
    return "" if any(p.suffix in _WEIGHTS for p in folder.iterdir()) else "its weights (*.safetensors)"


def _size(folder: Path, *, everything: bool = False) -> int:
    """Return the size in bytes of a model's weights and tokenizer, or of the whole folder."""
    files = [p for p in (folder.rglob("*") if everything else folder.iterdir()) if p.is_file()]
    if not everything:
        kinds = {p.suffix for p in files}
        weights = next((kind for kind in _WEIGHTS if kind in kinds), "")
        apart = ("optimizer", "scheduler", "rng_state", "training_args")
        unread = set(_WEIGHTS) - {weights}
        files = [p for p in files if p.suffix not in unread and not p.name.startswith(apart)]
    return sum(p.stat().st_size for p in files)


def _free(folder: Path | None = None) -> int | None:
    """Return the free bytes for a folder, or for the Hub's cache. Neither needs to exist."""
    if folder is None:
        from huggingface_hub import constants

        folder = Path(constants.HF_HUB_CACHE)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _ask(kind: str, name: str, revision: str) -> Whereabouts:
    from huggingface_hub import HfApi

    api = HfApi()
    ask: Any = api.model_info if kind == "model" else api.dataset_info
    info = ask(name, revision=revision, files_metadata=True, timeout=ASK_S)
    if info.gated:
        api.auth_check(name, repo_type=kind)
    sizes = {s.rfilename: int(s.size or 0) for s in info.siblings or ()}
    if kind == "model" and any(file.endswith(".safetensors") for file in sizes):
        sizes = {file: n for file, n in sizes.items() if not file.endswith(_WEIGHTS[1:]) and "/" not in file}
    return Whereabouts(name, "hub", download_bytes=sum(sizes.values()), free_bytes=_free())


def _refusal(kind: str, name: str, error: Exception) -> Whereabouts | None:
    """Interpret an error that is the Hub's answer. None if the Hub did not answer."""
    from huggingface_hub import errors

    page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{name}"
    if isinstance(error, errors.GatedRepoError):
        problem = f"{name} is gated, and this account has no access: ask at {page}, then hf auth login"
        return Whereabouts(name, "gated", free_bytes=_free(), problem=problem)
    if isinstance(error, errors.RevisionNotFoundError):
        return Whereabouts(name, "missing", problem=f"{name} has no such revision on the hub")
    if isinstance(error, errors.RepositoryNotFoundError):
        problem = (
            f"the hub has no {kind} {name}, or it is private and no token is set (hf auth login); nor is it "
            "a local folder"
        )
        return Whereabouts(name, "missing", problem=problem)
    if isinstance(error, errors.HFValidationError):
        return Whereabouts(name, "missing", problem=_no_name(name))
    return None


def _no_name(name: str) -> str:
    return f"{name} is neither a local folder nor a valid name on the hub"


def _within(limit_s: float, call: Callable[[], T]) -> T:
    """Run a call with a time limit, because DNS lookups have none.

    Raises:
        queue.Empty: it took longer.
    """
    answers: queue.Queue[T | Exception] = queue.Queue()

    def work() -> None:
        try:
            answers.put(call())
        except Exception as error:
            answers.put(error)

    threading.Thread(target=work, daemon=True).start()
    answer = answers.get(timeout=limit_s + 1.0)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:200]
