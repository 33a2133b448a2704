"""Write a bundle: everything that is needed to train a run again elsewhere, as a folder or a zip file.

It holds the config of the last start, the reward and data files, the rows that TRL logged, and in
`grpo-tui-bundle.json` the hashes, versions and the machine. It is written beside its place and renamed when
complete, so a killed export leaves no half bundle.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.core.exchange import mapping
from grpo_tui.core.schedule import BY_RESUME
from grpo_tui.core.stages import SETTING, one_per_stage
from grpo_tui.core.text import shell_word
from grpo_tui.ship.bundle_files import Packing, sha256_of
from grpo_tui.ship.push import secret_in
from grpo_tui.store.checkpoints import MARKER, OF_OPTIMIZER, OPTIMIZER, judge
from grpo_tui.store.json_file import open_regular, read_object, write_json
from grpo_tui.store.layout import BUNDLE, RunFolder
from grpo_tui.store.read_series import all_metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec, checkpoint_forked

CONFIG, ROWS, LOCK, README = "config.yaml", "rows.jsonl", "requirements.txt", "README.md"
VERSION = 1
START, ARGUMENTS = "start", "training_args.bin"
"""Folder of the checkpoint that a fork starts from, and its file that is left out."""
TEXTS = frozenset({".json", ".jinja", ".txt", ".md"})
"""Endings of its files in which access tokens are searched for."""
MOST_PARENTS = 20
MOST_NAMED = 5
"""Number of changed files that a note names."""
_MACHINE = ("python", "platform", "processor", "threads", "gpus", "seed", "data_seed", "world_size")
"""What a bundle says about the process that trained."""


class BundleError(ValueError):
    """A bundle cannot be written or read. The message is for the user."""


@dataclass(frozen=True, slots=True)
class Written:
    """A bundle that was written, with its unpacked size.

    Attributes:
        notes: What the user should know: files that changed since, settings that were left out.
    """

    path: Path
    files: int
    size_bytes: int
    notes: tuple[str, ...]


def write_bundle(
    folder: RunFolder, spec: RunSpec, config: RunConfig, target: Path, *, with_model: bool = False
) -> Written:
    """Write the bundle of a run into a new folder, or a new file that ends in .zip.

    Args:
        with_model: Whether to include a local model of any size, not only a small one.

    Raises:
        BundleError: It cannot be written. Nothing is left behind.
        RunDatabaseError: The run's record cannot be read.
    """
    if os.path.lexists(target):
        raise BundleError(f"{target} already exists and was left unchanged. Choose another name")
    if spec.stage is not None and spec.forked_from:
        raise BundleError(
            "this run was forked within its stages, and a bundle trains all of them from the first. Export "
            "the run that it was forked from"
        )
    started_from = _started_from(folder, spec)
    target = target.absolute()
    beside = target.with_name(f".{target.name}.bundling")
    try:
        packing = Packing(config, with_model=with_model)
        packing.pack(spec.launcher)
        shutil.rmtree(beside, ignore_errors=True)  # of an export that was killed
        beside.mkdir(parents=True)
        inside = beside / target.stem if target.suffix == ".zip" else beside
        inside.mkdir(exist_ok=True)
        notes = _fill(inside, folder, spec, packing, started_from)
        files = [file for file in inside.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        if target.suffix == ".zip":
            os.replace(_zipped(inside, files), target)
        else:
            os.rename(beside, target)
    except ConfigError as error:
        raise BundleError(str(error)) from error
    except OSError as error:
        raise BundleError(f"{error.filename or target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Written(target, len(files), size, notes)


def _zipped(inside: Path, files: list[Path]) -> Path:
    packed = inside.with_suffix(".packed")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(files):
            archive.write(file, file.relative_to(inside.parent))
    return packed


def _started_from(folder: RunFolder, spec: RunSpec) -> Path | None:
    """Return the checkpoint that a fork started from: its own copy, or that of its parent."""
    if not spec.forked_from:
        return None
    parent = Path(spec.forked_from)
    for path in (folder.root / parent.name, parent):
        if path.is_dir() and judge(path).usable:
            return path
    raise BundleError(
        f"this run started from {parent}, which is gone or incomplete, so nobody can train it again. "
        "Restore that checkpoint"
    )


def _copied(checkpoint: Path, inside: Path, *, optimizer: bool) -> list[str]:
    """Copy a checkpoint's regular files into a bundle, and return their names in it.

    The trainer's arguments, which can hold tokens, and files that its marker does not name are left out.

    Raises:
        BundleError: A file holds an access token.
    """
    there, marker = inside / START / checkpoint.name, read_object(checkpoint / MARKER)
    listed = mapping((marker or {}).get("files"))
    left_out = (ARGUMENTS, *(() if optimizer else OF_OPTIMIZER))
    for file in sorted(checkpoint.rglob("*")):
        name = file.relative_to(checkpoint)
        unnamed = file.parent == checkpoint and bool(listed) and file.name not in (MARKER, *listed)
        if unnamed or any(fnmatch(name.parts[0], pattern) for pattern in left_out):
            continue
        if file.is_symlink() or not file.is_file():
            continue
        if file.suffix in TEXTS and (why := secret_in(file)):
            raise BundleError(why)
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        with open_regular(file, below=checkpoint) as opened, (there / name).open("wb") as copy:
            shutil.copyfileobj(opened, copy)
    if marker is not None:
        marker["files"] = {name: size for name, size in listed.items() if (there / name).exists()}
        write_json(there / MARKER, marker if optimizer else marker | {OPTIMIZER: "new"})
    return sorted(file.relative_to(inside).as_posix() for file in there.rglob("*") if file.is_file())


def _fill(
    inside: Path, folder: RunFolder, spec: RunSpec, packing: Packing, started_from: Path | None
) -> tuple[str, ...]:
    with closing(RunReader(folder.database)) as reader:
        record = mapping(reader.fact("reproduction"))
        attempts = reader.attempts()
        changes = [
            {"step": one.step, "name": one.name, "old": one.old, "new": one.new, "by": one.by}
            for one in one_per_stage(reader.lasting_settings())
            if one.by != BY_RESUME and one.name != SETTING
        ]
        with (inside / ROWS).open("w", encoding="utf-8") as rows:
            for step, values in all_metric_rows(reader):
                rows.write(json.dumps({"step": step, "values": values}) + "\n")
    start: list[str] = []
    if started_from is not None:
        start = _copied(started_from, inside, optimizer=not spec.new_optimizer)
    first = judge(started_from).step if started_from is not None else 0
    if record.get("model_commit") and not packing.models:
        packing.values.setdefault("model_revision", record["model_commit"])
    for name, file in packing.files.items():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, inside / name)
        (inside / name).chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)
    versions = mapping(record.get("installed") or record.get("packages"))
    _write(inside / LOCK, "".join(f"{line}\n" for line in _requirements(versions)))
    text = yaml.safe_dump(packing.values, sort_keys=False, allow_unicode=True)
    _write(inside / CONFIG, text)
    began = min((attempt.started_at for attempt in attempts), default=0.0)
    changed = sorted(name for name, file in packing.files.items() if file.stat().st_mtime > began > 0)
    own = {0, first, *(spec.stage.starts if spec.stage is not None else ())}
    resumed = [one.resumed_from for one in attempts if one.resumed_from and one.resumed_from not in own]
    if started_from is not None:  # it began there, with the settings of the fork
        changes = [one for one in changes if one["step"] > first]
    body = {
        "version": VERSION,
        "run": folder.root.name,
        "command": f"grpo-tui train {CONFIG}",
        "fork": _fork(folder, spec, started_from),
        "launcher": packing.values.get("grpo_tui", {}).get("launcher"),
        "machine": {key: record.get(key) for key in _MACHINE},
        "packages": dict(versions),
        "changes": changes,
        "resumed_at": resumed,
        "left_out": packing.left_out,
        "changed_since": changed,
        "model": {
            "name": packing.values.get("model_name_or_path"),
            "revision": packing.values.get("model_revision"),
        },
        "model_files": _model_hashes(packing),
        "files": {name: sha256_of(inside / name) for name in (CONFIG, *sorted(packing.files), *start)},
    }
    _write(inside / BUNDLE, json.dumps(body, indent=1, ensure_ascii=False) + "\n")
    _write(inside / README, "\n".join(_readme(body)) + "\n")
    return tuple(_notes(changed, packing, record))


def _notes(changed: Sequence[str], packing: Packing, record: Mapping[str, Any]) -> Iterator[str]:
    if changed:
        some = ", ".join(changed[:MOST_NAMED]) + (", …" if len(changed) > MOST_NAMED else "")
        yield f"changed after the run began: {some}. The bundle holds the current content"
    yield from (f"left out {key}: {why}" for key, why in packing.left_out.items())
    if not record.get("threads"):
        yield "the run did not record its threads and processor, so it cannot be compared bit for bit"


def _fork(folder: RunFolder, spec: RunSpec, started_from: Path | None) -> dict[str, Any] | None:
    if started_from is None:
        return None
    checkpoint = f"{START}/{started_from.name}"
    return {"checkpoint": checkpoint, "overridden": list(spec.overridden), "parents": _parents(folder)}


def _parents(folder: RunFolder) -> list[str]:
    """Return the runs that a run was forked from as `RUN@STEP`, nearest first."""
    found: list[str] = []
    while (checkpoint := checkpoint_forked(folder)) is not None and len(found) < MOST_PARENTS:
        folder = RunFolder(checkpoint.parent)
        found.append(f"{folder.root.name}@{checkpoint.name.partition('-')[2]}")
    return found


def _requirements(versions: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for `pip install -r`."""
    if label := str(versions.get("torch") or "").partition("+")[2]:
        yield f"--extra-index-url https://download.pytorch.org/whl/{label}"  # PyPI has no such version
    for name, version in versions.items():
        line = f"{name}=={version}"
        yield f"# {line}, from its repository" if name == "grpo-tui" else line


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", errors="backslashreplace")


def _model_hashes(packing: Packing) -> dict[str, str]:
    """Return the hashes of the files of local models that are not included, by their name in the bundle."""
    return {
        f"{place}/{file.name}": sha256_of(file)
        for place, folder in packing.models.items()
        for file in sorted(folder.iterdir())
        if file.is_file() and f"{place}/{file.name}" not in packing.files
    }


def _readme(body: Mapping[str, Any]) -> Iterator[str]:
    machine, model = body["machine"], body["model"]
    gpus = ", ".join(str(mapping(gpu).get("name")) for gpu in machine["gpus"] or ())
    yield f"# {body['run']}"
    yield ""
    yield "Everything needed to train this run again with grpo-tui:"
    yield ""
    yield f"    pip install -r {LOCK}   # and grpo-tui itself, from its repository"
    yield "    grpo-tui reproduce . --verify"
    yield ""
    yield "`reproduce` lists what differs on your machine, sets the same number of threads, and trains in a"
    yield "new folder. `--verify` compares the logged values with those of this bundle. `--steps N` stops"
    yield "after N steps."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| Config | `{CONFIG}`, of the last start of the run |"
    yield f"| Command | `{body['command']}` |"
    yield f"| Model | {model['name']}{', revision ' + model['revision'] if model['revision'] else ''} |"
    told = {key: "not recorded" if machine[key] is None else machine[key] for key in _MACHINE}
    yield f"| Seed | {told['seed']} |"
    yield f"| Processor | {told['processor']}; threads: {told['threads']}{'; ' + gpus if gpus else ''} |"
    yield f"| Python | {told['python']}; packages in `{LOCK}` |"
    yield f"| Logged rows | `{ROWS}` |"
    yield f"| Hashes | SHA-256 of each file, in `{BUNDLE}` |"
    if body["model_files"]:
        yield ""
        place = shell_word(str(next(iter(body["model_files"]))).rpartition("/")[0])
        yield f"The base model is not included. Put its files into `{place}` (hashes in `{BUNDLE}`)."
    fork = body["fork"] or {}
    for title, lines in (
        ("The run was forked, and `reproduce` starts from the checkpoint in this bundle:",
         [f"from {parent}" for parent in fork.get("parents", ())]),
        ("Changes made during the run, which `reproduce` does not repeat:",
         [f"step {one['step']}: {one['name']} {one['old']} → {one['new']}" for one in body["changes"]]),
        ("The run was resumed, and the config is that of its last start:",
         [f"from step {step}" for step in body["resumed_at"]]),
        ("Left out:", [f"{key}: {why}" for key, why in body["left_out"].items()]),
        ("Changed after the run began:", body["changed_since"]),
    ):  # fmt: skip
        if lines:
            yield from ("", title, "", *(f"- {line}" for line in lines))
    yield ""
    yield "Files that the run's code opens by itself are not included."
