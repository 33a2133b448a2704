"""Consent before code that is not the user's own runs.

A run is foreign unless this user started it on this machine. So is a config or a code file that another
login owns, or that lies inside a foreign run folder. Code that these name runs only with the user's consent.
Consent is kept in the user's state folder for one file with one content, so a changed file needs it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grpo_tui.config.paths import split_file_source
from grpo_tui.config.presets import shipped
from grpo_tui.config.resolve import inspect_stage
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.trl_fields import TRL_NAMES
from grpo_tui.core.text import one_line
from grpo_tui.store.json_file import write_json
from grpo_tui.store.layout import BUNDLE, RunFolder, is_known, own_folder
from grpo_tui.store.mailbox import login_of
from grpo_tui.store.spec import read_spec

Need = Literal["rewards", "data", "model"]
EVERYTHING: tuple[Need, ...] = ("rewards", "data", "model")
LIBRARY = "grpo_tui.rewards.library"
RUNS_OTHERS = ("AdaptiveWeight", "Clip", "Gate", "PassesTests", "ScheduledWeight")
"""Library rewards that run code from their parameters or from the data."""
MOST_BYTES = 16_000_000
"""A larger code file is not read, so the user cannot consent to it."""
_INSTALLED = tuple(
    {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, Path(__file__).parents[1])}
)
"""Code in these folders is part of this program's own environment."""
NOT_RUN = "consent.needed"
"""Id of the finding that a check was skipped for lack of consent."""
_trusting = False
_named: dict[str, Path] = {}
"""Resolved config files, mapped to the run whose record named them."""
_given: set[str] = set()
"""Keys consented to in this process, in case the state folder cannot be written."""


@dataclass(frozen=True, slots=True)
class Code:
    """Piece of code that would run. `key` hashes it and its content; it is empty if that cannot be read."""

    what: str
    why: str
    key: str


class ConsentError(RuntimeError):
    """Code that is not the user's own would run without consent."""

    def __init__(self, codes: Sequence[Code]) -> None:
        self.codes = tuple(codes)
        super().__init__(f"Not run, because it is not your code: {sentence(codes)}")


def lines(codes: Iterable[Code]) -> list[str]:
    """Return the code that would run as lines, grouped under each reason."""
    return [
        line
        for why, whats in _by_reason(codes).items()
        for line in (f"{why}:", *(f"  {what}" for what in whats))
    ]


def sentence(codes: Iterable[Code]) -> str:
    """Return the code that would run, on one line."""
    return "; ".join(f"{', '.join(whats)} ({why})" for why, whats in _by_reason(codes).items())


def _by_reason(codes: Iterable[Code]) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for code in codes:
        found.setdefault(one_line(code.why, 300), {})[one_line(code.what, 300)] = None
    return found


def not_run(what: str, codes: Sequence[Code]) -> str:
    """Return a sentence on what was skipped, and why."""
    return f"{what} was not looked at: it would run {sentence(codes)}"


def required(config: RunConfig, *needs: Need) -> None:
    """Check that all code of a config is the user's own or has consent.

    Raises:
        ConsentError: consent is missing. It names all such code of the config, so one question is enough.
    """
    if needed(config, *needs):
        _ask(needed(config))


def required_to_start(
    config: RunConfig, folder: Path, launcher: Sequence[str] = (), checkpoint: str | None = None
) -> None:
    """Check that a start runs only the user's own code or code with consent; see `needed_to_start`.

    Raises:
        ConsentError: consent is missing.
    """
    if codes := needed_to_start(config, folder, launcher, checkpoint):
        _ask(codes)


def needed_to_resume(run: Path) -> tuple[Code, ...]:
    """Return the code without consent that resuming a run would execute. Empty if the run cannot be read."""
    try:
        spec = read_spec(RunFolder(run).spec)
        config = spec.stage.base if spec.stage is not None else spec.config
        return needed_to_start(RunConfig.from_json(config, run), run, spec.launcher)
    except (OSError, ValueError):
        return ()


def _ask(codes: Sequence[Code]) -> None:
    if not _trusting:
        raise ConsentError(codes)
    give(codes)
    if unreadable := [code for code in codes if not code.key]:
        raise ConsentError(unreadable)


def note_named(file: Path, run: Path) -> None:
    """Note that a run's record named a config file, so that the file is as foreign as the run."""
    _named[os.path.realpath(file)] = run


def trust_all() -> None:
    """Consent to everything asked about from now on in this process (`--trust`)."""
    global _trusting
    _trusting = True


def give(codes: Iterable[Code]) -> None:
    """Record consent, only for this process if the state folder cannot be written."""
    for code in codes:
        if not code.key:
            continue
        _given.add(code.key)
        note = _note(code.key)
        with contextlib.suppress(OSError):
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json(note, {"what": code.what, "why": code.why, "at": time.time()}, mode=0o600)


def needed(config: RunConfig, *needs: Need) -> tuple[Code, ...]:
    """Return code of a config, or of some parts, that is not the user's own and has no consent."""
    why = _why_foreign(config)
    found = [code for need, code in _codes(config, why) if not needs or need in needs]
    return unanswered(found)


def needed_to_start(
    config: RunConfig, folder: Path, launcher: Sequence[str] = (), checkpoint: str | None = None
) -> tuple[Code, ...]:
    """Return code of a start that is not the user's own and has no consent.

    Args:
        config: The config of the whole run, of which each stage is looked at too.
    """
    why = _why_foreign(config)
    parts = [config, *(inspect_stage(config, place).config for place in range(len(config.section.stages)))]
    found = list(dict.fromkeys(code for one in parts if one is not None for _, code in _codes(one, why)))
    runs = [run for run in (config.origin, folder) if run is not None and _is_foreign_run(run)]
    for run in dict.fromkeys(runs):
        record = RunFolder(run).spec
        found.append(Code(f"{run}: its record and checkpoints", _of_run(run), _key("run", record)))
    words = " ".join(launcher)
    if words and (why or runs):
        found.append(Code(f"the launcher {words}", why or _of_run(runs[0]), _key("launcher", None, words)))
    notify = config.section.notify
    if notify is not None and (why or runs):
        told = {"command": notify.command, "webhook": notify.masked().webhook}
        what = ", ".join(f"{name} {value}" for name, value in told.items() if value)
        key = _key("notify", None, [notify.command, notify.webhook])
        found.append(Code(f"grpo_tui.notify: {what}", why or _of_run(runs[0]), key))
    if checkpoint is not None and not runs:
        state = Path(checkpoint) / "trainer_state.json"
        if whose := _why_file(state):
            found.append(Code(checkpoint, whose, _key("checkpoint", state)))
    return unanswered(found)


def unanswered(codes: Iterable[Code]) -> tuple[Code, ...]:
    """Return the code without consent, without duplicates."""
    return tuple(code for code in dict.fromkeys(codes) if not _is_given(code.key))


def _is_given(key: str) -> bool:
    if not key or key in _given:
        return bool(key)
    try:
        found = os.lstat(_note(key))
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _note(key: str) -> Path:
    return own_folder("state") / "trusted" / f"{key}.json"


# -- code of a config --------------------------------------------------------------------------------


def _codes(config: RunConfig, why: str) -> Iterator[tuple[Need, Code]]:
    """Yield code that is not the user's own. `why` is the reason why the config is foreign, or empty."""
    rewards: list[tuple[str, Any]] = [(str(source), {}) for source in config.script.get("reward_funcs") or ()]
    rewards += [(entry.source, entry.params) for entry in config.section.rewards]
    for source, params in rewards:
        for code in _callable_code(source, params, config.cwd, why):
            yield "rewards", code
    section = config.section
    probes = section.probe_prompts.source if section.probe_prompts is not None else None
    names = [section.dataset, section.eval_dataset, probes, config.script.get("dataset_name")]
    names += [
        entry.get("path") for entry in config.mixture.get("datasets") or () if isinstance(entry, Mapping)
    ]
    for name in names:
        for code in _data_code(name, why):
            yield "data", code
    for code in _model_code(config, why):
        yield "model", code
    if why and config.env:
        names_set = ", ".join(sorted(config.env))
        yield "model", Code(f"environment variables {names_set}", why, _key("env", None, config.env))


def _callable_code(source: str, params: Any, cwd: str, why: str) -> Iterator[Code]:
    for text in _texts(params):  # a wrapper names its inner reward in its params
        if (inner := split_file_source(text)) is not None:
            yield from _file_code(Path(cwd, inner[0]), why, text)
    parts = split_file_source(source)
    if parts is not None:
        yield from _file_code(Path(cwd, parts[0]), why, source, params)
    elif source in TRL_NAMES or _is_plain(source):
        return
    elif ":" in source or ("." in source and "/" not in source):
        module = source.partition(":")[0] if ":" in source else source.rpartition(".")[0]
        file = _module_file(module, cwd)
        if whose := why or (_why_file(file) if file is not None else ""):
            what = f"{source} in {file}" if file is not None else source
            yield Code(what, whose, _key("call", file, [source, params]))


def _is_plain(source: str) -> bool:
    """Whether a source is a library reward that runs only its own code."""
    place, _, name = source.replace(":", ".").rpartition(".")
    return place == LIBRARY and name not in RUNS_OTHERS


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in inner:
        yield from _texts(item)


def _module_file(module: str, cwd: str) -> Path | None:
    """Return the file of a module in the working folder, which takes precedence over installed packages."""
    base = Path(cwd or os.curdir).joinpath(*module.split("."))
    places = (base.with_name(f"{base.name}.py"), base / "__init__.py")
    return next((place for place in places if place.is_file()), None)


def _file_code(file: Path, why: str, *call: Any) -> Iterator[Code]:
    if os.path.lexists(file) and (whose := why or _why_file(file)):
        yield Code(str(file), whose, _key("file", file, call))


def _data_code(name: Any, why: str) -> Iterator[Code]:
    """Yield functions that return rows, and loading scripts. Plain data files run no code."""
    if not isinstance(name, str) or not name:
        return
    parts = split_file_source(name)
    if parts is not None:
        yield from _file_code(Path(parts[0]), why, name)
        return
    path = Path(name)
    script = path if path.suffix == ".py" else path / f"{path.name}.py"
    if script.is_file():
        yield from _file_code(script, why)


def _model_code(config: RunConfig, why: str) -> Iterator[Code]:
    parts = (config.grpo, config.model_args, config.script)
    if any(_flagged(part, "trust_remote_code") for part in parts):
        models = [config.model, str(config.script.get("reward_model_name_or_path") or "")]
        for model in filter(None, models):
            folder = Path(model)
            files = [*sorted(folder.glob("*.py")), *folder.glob("*config.json")] if folder.is_dir() else []
            if whose := why or next(filter(None, map(_why_file, files)), ""):
                content = {file.name: _digest(file) for file in files}
                key = _key("remote code", None, [os.path.realpath(model) if files else model, content])
                yield Code(f"the code of the model {model} (trust_remote_code)", whose, key)
    for kernel in {str(value) for part in parts for value in _values(part, "attn_implementation")}:
        if why and "/" in kernel:
            yield Code(f"attn_implementation: {kernel}", why, _key("kernel", None, kernel))


def _flagged(part: Any, name: str) -> bool:
    return any(value not in (None, False, "false", "False") for value in _values(part, name))


def _values(part: Any, name: str) -> Iterator[Any]:
    for key, value in part.items() if isinstance(part, Mapping) else ():
        if key == name:
            yield value
        yield from _values(value, name)


# -- ownership ---------------------------------------------------------------------------------------


def left_alone(config: RunConfig) -> str:
    """Return why no file is written where a config says, or an empty text if it may be.

    The record of a foreign run can name any path. Files of grpo-tui itself are not changed either.
    """
    if (run := _foreign_run(config)) is not None:
        return (
            f"{run}: you did not start this run on this machine, so no file is written where its config "
            "says. Use a config of your own"
        )
    return shipped(config.path) if config.path is not None else ""


def _foreign_run(config: RunConfig) -> Path | None:
    if _from_run(config.origin):
        return None if config.origin is None or _is_own_run(config.origin) else config.origin
    file = config.origin or config.path
    run = _named.get(os.path.realpath(file)) if file is not None else None
    return run if run is not None and _is_foreign_run(run) else None


def _from_run(origin: Path | None) -> bool:
    return origin is not None and (origin.is_dir() or not origin.exists())


def _why_foreign(config: RunConfig) -> str:
    """Return why a config is not the user's own, or an empty text."""
    if (run := _foreign_run(config)) is not None:
        return _of_run(run)
    file = config.origin or config.path
    if file is None or _from_run(config.origin) or not (whose := _why_file(file)):
        return ""
    return f"named by {file}, {whose}"


def _why_file(file: Path) -> str:
    """Return why a file is not the user's own. Empty if it is, or if there is no such file."""
    real = Path(os.path.realpath(file))
    try:
        owner = os.stat(real).st_uid
    except OSError:
        return ""
    installed = any(real.is_relative_to(place) for place in _INSTALLED)
    if installed or (owner == 0 and real.is_relative_to("/usr")):
        return ""
    if owner != os.geteuid():
        return f"owned by {login_of(owner)}"
    run = next((folder for folder in real.parents if _is_foreign_run(folder)), None)
    return f"inside {_named_run(run)}" if run is not None else ""


def _is_own_run(run: Path) -> bool:
    """Whether the user started a run and its record is still the user's."""
    with contextlib.suppress(OSError):
        if os.stat(RunFolder(run).spec).st_uid != os.geteuid():
            return False
    return is_known(run)


def _is_foreign_run(folder: Path) -> bool:
    return _is_bundle(folder) or (RunFolder(folder).exists() and not _is_own_run(folder))


def _is_bundle(folder: Path) -> bool:
    """Whether a folder is a bundle. Its manifest does not prove who wrote it, so all bundles are foreign."""
    return os.path.lexists(folder / BUNDLE)


def _of_run(run: Path) -> str:
    return f"from {_named_run(run)}"


def _named_run(run: Path) -> str:
    kind = "bundle" if _is_bundle(run) else "run"
    started = "may not be your own" if kind == "bundle" else "you did not start on this machine"
    return f"the {kind} {os.path.abspath(run)}, which {started}"


# -- identity ----------------------------------------------------------------------------------------


def _key(kind: str, file: Path | None, more: Any = None) -> str:
    """Return a hash of a file, its content and how it is called. Empty if the file cannot be read."""
    digest = _digest(file) if file is not None else "-"
    if not digest:
        return ""
    body = [kind, os.path.realpath(file) if file is not None else "", digest, more]
    text = json.dumps(body, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(file: Path) -> str:
    """Return the hash of a file. Empty if it is not a regular file, too large, or not readable."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        content = opened.read(MOST_BYTES + 1)
    return hashlib.sha256(content).hexdigest() if len(content) <= MOST_BYTES else ""
