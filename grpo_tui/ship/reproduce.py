"""Read a bundle, say what differs on this machine, and compare the values of two runs.

Nothing of the bundle is executed here. Its manifest can come from anyone, so its values may have any type.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from grpo_tui.config.packages import all_versions, processor
from grpo_tui.core.exchange import mapping
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import size
from grpo_tui.ship.bundle import CONFIG, LOCK, README, ROWS, START, VERSION, BundleError
from grpo_tui.ship.bundle_files import sha256_of
from grpo_tui.store.checkpoints import judge
from grpo_tui.store.json_file import open_regular, read_object
from grpo_tui.store.layout import BUNDLE

MOST_TIMES_LARGER, ALWAYS_BYTES = 100, 64 << 20
"""A zip file is unpacked up to this many times its size, and always up to this many bytes."""
ROUNDING = 1e-4
"""Relative difference up to which two values are equal to rounding."""
TIMES = ("time", "runtime", "per_second")
"""Endings of metrics that measure time, which are never compared."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """An unpacked bundle."""

    root: Path
    manifest: Mapping[str, Any]

    @property
    def machine(self) -> Mapping[str, Any]:
        """What the process that trained recorded about itself."""
        return mapping(self.manifest.get("machine"))

    @property
    def threads(self) -> int | None:
        """Number of torch's threads, None if it was not recorded."""
        threads = self.machine.get("threads")
        return threads if isinstance(threads, int) and threads > 0 else None

    @property
    def fork(self) -> tuple[Path, int, tuple[str, ...]] | None:
        """Checkpoint that a fork starts from, its step, and settings that win over those in it."""
        body = mapping(self.manifest.get("fork"))
        if not body:
            return None
        path = self.root / START / PurePosixPath(str(body.get("checkpoint"))).name
        verdict = judge(path) if path.is_dir() and path.name.partition("-")[2].isdecimal() else None
        if verdict is None or not verdict.usable:
            raise BundleError(f"{path} is missing or incomplete. Export the run again")
        return path, verdict.step, tuple(map(str, _items(body.get("overridden"))))

    @property
    def comparable_until(self) -> int | None:
        """Last step before a change or a resume, which a reproduction does not repeat. None without any."""
        changes = [mapping(one).get("step") for one in _items(self.manifest.get("changes"))]
        steps = [one for one in (*changes, *_items(self.manifest.get("resumed_at"))) if isinstance(one, int)]
        return min(steps, default=None)

    @property
    def changed_at_resumes(self) -> list[str]:
        """Settings that a resume changed in the config. The bundle holds the later config."""
        changes = [mapping(one) for one in _items(self.manifest.get("changes"))]
        return [str(one.get("name")) for one in changes if one.get("by") == "config"]


def open_bundle(path: Path) -> Bundle:
    """Read a bundle. A zip file is unpacked beside it, into a folder of its name.

    Raises:
        BundleError: It is not a bundle, or cannot be unpacked.
    """
    root = path.absolute()
    if root.is_file():
        root = _unpacked(root)
    manifest = read_object(root / BUNDLE)
    if manifest is None or not (root / CONFIG).is_file():
        raise BundleError(f"{path} is not a bundle. Write one with `grpo-tui export RUN --format bundle`")
    if manifest.get("version") != VERSION:
        raise BundleError(f"{path} was written by another version of grpo-tui. Update grpo-tui")
    return Bundle(root, manifest)


def _unpacked(archive: Path) -> Path:
    """Unpack a zip file beside itself, or return the folder where it was unpacked before."""
    target = archive.with_suffix("")
    if target == archive:
        raise BundleError(f"{archive} is not a bundle: its name does not end in .zip")
    beside = target.with_name(f".{target.name}.unpacking")
    try:
        with zipfile.ZipFile(archive) as opened:
            _refuse_too_large(archive, opened.infolist())
            inner = {PurePosixPath(one.filename).parts[:1] for one in opened.infolist()}
            (top,) = inner.pop() if len(inner) == 1 else ("",)
            manifest = opened.read(f"{top}/{BUNDLE}")
            if target.exists():
                if (target / BUNDLE).is_file() and (target / BUNDLE).read_bytes() == manifest:
                    return target
                raise BundleError(
                    f"{target} exists and holds something else. Move it, or unpack {archive.name} yourself"
                )
            shutil.rmtree(beside, ignore_errors=True)
            for one in _listed(opened, top, json.loads(manifest)):
                file = Path(opened.extract(one, beside))
                if one.external_attr >> 16 & stat.S_IXUSR:  # extracting drops the mode
                    file.chmod(file.stat().st_mode | stat.S_IXUSR)
            os.rename(beside / top, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, RuntimeError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{archive} is not a bundle: {error}") from error
    except OSError as error:
        raise BundleError(f"{archive} cannot be unpacked: {error.strerror}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


def _refuse_too_large(archive: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse a zip file that would fill the disk, by the sizes that its entries state and cannot exceed."""
    needed, packed = sum(one.file_size for one in entries), archive.stat().st_size
    if needed > max(MOST_TIMES_LARGER * packed, ALWAYS_BYTES):
        raise BundleError(
            f"{archive} was not unpacked: its files would take {size(needed)}, more than {MOST_TIMES_LARGER} "
            "times the zip file. Unpack it yourself if you trust it, and name the folder"
        )
    free = shutil.disk_usage(archive.parent).free
    if needed > free:
        raise BundleError(f"{archive} was not unpacked: it needs {size(needed)}, and {size(free)} are free")


def _listed(opened: zipfile.ZipFile, top: str, manifest: Any) -> list[zipfile.ZipInfo]:
    """Return the entries of the files that a manifest lists. Links and anything else stay packed."""
    names = {*mapping(mapping(manifest).get("files")), CONFIG, BUNDLE, LOCK, README, ROWS}
    wanted = {f"{top}/{name}" for name in names}
    found = [one for one in opened.infolist() if one.filename in wanted and not one.is_dir()]
    return [one for one in found if not stat.S_ISLNK(one.external_attr >> 16)]


# -- what differs ------------------------------------------------------------------------------------------


def changed_files(bundle: Bundle) -> tuple[list[str], list[str]]:
    """Return the files that differ from their hash in the manifest, and those that are missing."""
    changed, missing = [], []
    listed = {**mapping(bundle.manifest.get("files")), **mapping(bundle.manifest.get("model_files"))}
    for name, digest in listed.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise BundleError(f"{one_line(name, 200)} leads out of the bundle")
        file = bundle.root / path
        if not file.is_file():
            missing.append(name)
        elif sha256_of(file) != digest:
            changed.append(name)
    return changed, missing


def machine_here() -> dict[str, Any]:
    """Return what `reproduction_record` would record about this machine, as far as numbers depend on it."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "python": platform.python_version(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "gpus": [{"name": torch.cuda.get_device_name(index)} for index in range(count)],
        "installed": all_versions(),
    }


def differences(bundle: Bundle, here: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what differs between the machine of a bundle and another, as subject → lines.

    `here` is as returned by `machine_here`, or the record of a run.
    """
    there, found = bundle.machine, {}
    for key in ("threads", "processor", "python"):
        if there.get(key) != here.get(key):
            found[key] = [f"{key}: {_said(there.get(key))} in the bundle, {_said(here.get(key))} here"]
    trained, now = _gpu_names(there.get("gpus")), _gpu_names(here.get("gpus"))
    if trained and trained != now:
        found["GPUs"] = [f"GPUs: {', '.join(trained)} in the bundle, {', '.join(now) or 'none'} here"]
    installed = mapping(here.get("installed"))
    versions = [
        f"{one_line(name, 60)}: {_said(version)} in the bundle, {_said(installed.get(name))} here"
        for name, version in mapping(bundle.manifest.get("packages")).items()
        if version != installed.get(name)
    ]
    if versions:
        found["versions"] = versions
    return found


def _said(value: Any) -> str:
    return "not installed or recorded" if value is None else one_line(str(value), 100)


def _gpu_names(gpus: Any) -> list[str]:
    return [one_line(str(mapping(gpu).get("name")), 60) for gpu in _items(gpus)]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- comparing values --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verified:
    """Number of steps and values compared, and what differs first: (step, key, in the bundle, here).

    The evaluation before training, at step 0, has values and is no step.
    """

    steps: int
    values: int
    differs: tuple[int, str, Any, Any] | None


def rows_of(bundle: Bundle) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the logged rows of a bundle as step and values.

    Raises:
        BundleError: They cannot be read.
    """
    try:
        with open_regular(bundle.root / ROWS) as lines:
            for line in lines:
                row = json.loads(line)
                yield int(row["step"]), mapping(row["values"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(f"{bundle.root / ROWS} cannot be read: {error}") from error


def verify(
    there: Iterable[tuple[int, Mapping[str, Any]]],
    here: Iterable[tuple[int, Mapping[str, Any]]],
    last_step: int | None,
    *,
    exact: bool,
) -> Verified:
    """Compare the values that two runs logged as (step, values), up to a step. Times are not compared.

    With `exact` every bit counts, else values are compared to rounding.
    """
    expected, found = _by_step(there, last_step), _by_step(here, last_step)
    count = values = 0
    for step, row in expected.items():
        count += step > 0
        for key, value in row.items():
            values += 1
            other = found.get(step, {}).get(key, "not logged")
            if not _equal(value, other, exact=exact):
                return Verified(count, values, (step, key, value, other))
    return Verified(count, values, None)


def _by_step(
    rows: Iterable[tuple[int, Mapping[str, Any]]], last_step: int | None
) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for step, values in rows:
        if last_step is None or step <= last_step:
            kept = {key: value for key, value in values.items() if not key.endswith(TIMES)}
            found.setdefault(step, {}).update(kept)
    return dict(sorted(found.items()))


def _equal(one: Any, other: Any, *, exact: bool) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    if exact or not isinstance(one, int | float) or not isinstance(other, int | float):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING / 100)
