"""A checked config as the training process receives it, and the error that lists everything wrong with one.

`RunConfig` is plain data and goes through JSON unchanged. How it is made from a file is `resolve`'s business.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.paths import run_root, split_file_source
from grpo_tui.config.section import Section, masked_url
from grpo_tui.config.trl_fields import NoDefault, load_fields
from grpo_tui.config.yaml_edit_values import inline
from grpo_tui.core.findings import Finding, errors_first
from grpo_tui.core.text import safe

_PAIRS = "__pairs__"
_SECRET_WORDS = ("token", "key", "secret", "password", "credential")


class ConfigError(ValueError):
    """A config that cannot start a run; `findings` holds everything found, errors first."""

    def __init__(self, findings: Sequence[Finding], path: Path | None = None) -> None:
        self.findings = tuple(errors_first(findings))
        self.path = path
        super().__init__("\n".join(describe(f, path) for f in self.findings if f.severity == "error"))


def describe(finding: Finding, path: Path | None) -> str:
    """Return one or two lines for a person: place and message, then the fix."""
    place = path.name if path is not None else "config"
    if finding.line is not None:
        place = f"{place}:{finding.line}"
    text = f"{place}: {finding.message}"
    if finding.fix is not None:
        value = finding.fix.value
        change = f"remove {finding.fix.field}" if value is None else f"{finding.fix.field}: {inline(value)}"
        text += f"\n  fix: {change}"
    return safe(text)  # keys and values come from a file, and may hold what a terminal would obey


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything a run is made of.

    Attributes:
        path: the config file, absolute; None when the config came from elsewhere.
        model: model id or absolute folder of the policy.
        grpo: GRPOConfig arguments that were set explicitly, coerced. Without `output_dir` when none was set.
        model_args: ModelConfig arguments that were set (with `model_name_or_path`).
        script: GRPOScriptArguments that were set.
        mixture: DatasetMixtureConfig arguments that were set.
        section: the section `grpo_tui:`.
        findings: notices and warnings; never an error.
        raw: the file's values after overrides, before coercion.
        env: environment variables of the file's `env:`, which the training process sets before anything else.
        cwd: the folder the config was loaded in; dotted reward paths are imported from there, as TRL does.
        origin: the run folder it was read from, or another file that names what it holds; None when it comes
            from `path`. It is not stored: only who reads a config knows where it lay.
    """

    path: Path | None
    model: str
    grpo: dict[str, Any]
    model_args: dict[str, Any]
    script: dict[str, Any]
    mixture: dict[str, Any]
    section: Section
    findings: tuple[Finding, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    origin: Path | None = None

    def setting(self, name: str) -> Any:
        """Return the value of a GRPOConfig field, TRL's default where none is set; None where it is computed.

        Raises:
            FieldsUnavailableError: TRL is not installed.
        """
        if name in self.grpo:
            return self.grpo[name]
        default = load_fields()[name].default
        return None if isinstance(default, NoDefault) else default

    @property
    def reward_count(self) -> int:
        """How many rewards the run has: the reward model, `reward_funcs` and `grpo_tui.rewards`."""
        return (
            bool(self.script.get("reward_model_name_or_path"))
            + len(self.script.get("reward_funcs") or ())
            + len(self.section.rewards)
        )

    @property
    def run_root(self) -> Path:
        """The folder of its run unless a person names another."""
        return run_root(self.grpo.get("output_dir"), self.path)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `json.dumps` and `from_json`; it may hold tokens, see `to_record`."""
        return {
            "path": str(self.path) if self.path is not None else None,
            "model": self.model,
            "grpo": _pack(self.grpo),
            "model_args": _pack(self.model_args),
            "script": _pack(self.script),
            "mixture": _pack(self.mixture),
            "section": _pack(self.section.to_json()),
            "findings": [finding.to_json() for finding in self.findings],
            "raw": _pack(self.raw),
            "env": dict(self.env),
            "cwd": self.cwd,
        }

    def to_record(self) -> dict[str, Any]:
        """Return `to_json` without keys, tokens and webhooks, for what is kept beside the run."""
        notify = self.section.notify
        if notify is None:
            data = self.to_json()
        else:
            section, raw = replace(self.section, notify=notify.masked()), _without_webhook(self.raw)
            data = replace(self, section=section, raw=raw).to_json()
        for part in ("grpo", "raw", "env"):
            data[part] = redacted(data[part])
        return data

    @classmethod
    def from_json(cls, saved: Mapping[str, Any] | str, origin: Path | None = None) -> RunConfig:
        """Rebuild a config from what `to_json` gave, or from its text.

        Args:
            saved: the JSON.
            origin: the run folder it was read from.

        Raises:
            ValueError: it is no config; a run.json that somebody edited may hold anything.
        """
        try:
            return cls._rebuilt(json.loads(saved) if isinstance(saved, str) else saved, origin)
        except KeyError as error:
            raise ValueError(f"its config has no {error.args[0]}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"its config is none: {error}") from error

    @classmethod
    def _rebuilt(cls, data: Mapping[str, Any], origin: Path | None) -> RunConfig:
        return cls(
            path=Path(data["path"]) if data["path"] is not None else None,
            model=data["model"],
            grpo=_unpack(data["grpo"]),
            model_args=_unpack(data["model_args"]),
            script=_unpack(data["script"]),
            mixture=_unpack(data["mixture"]),
            section=Section.from_json(_unpack(data["section"])),
            findings=tuple(Finding.from_json(item) for item in data["findings"]),
            raw=_unpack(data["raw"]),
            env=dict(data["env"]),
            cwd=data["cwd"],
            origin=origin,
        )


def _without_webhook(raw: dict[str, Any]) -> dict[str, Any]:
    """The file's values with the webhook of `grpo_tui.notify` masked."""
    section = raw.get("grpo_tui")
    notify = section.get("notify") if isinstance(section, dict) else None
    if not isinstance(section, dict) or not isinstance(notify, dict) or not notify.get("webhook"):
        return raw
    masked = {**notify, "webhook": masked_url(str(notify["webhook"]))}
    return {**raw, "grpo_tui": {**section, "notify": masked}}


def _pack(value: Any) -> Any:
    """Keep keys that are not text (`max_memory: {0: 20GB}`), which JSON would turn into text."""
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and _PAIRS not in value:
            return {key: _pack(item) for key, item in value.items()}
        return {_PAIRS: [[key, _pack(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_pack(item) for item in value]
    return value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {_PAIRS}:
            return {key: _unpack(item) for key, item in value[_PAIRS]}
        return {key: _unpack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    return value


def redacted(value: Any) -> Any:
    """Return plain data without keys and tokens."""
    if isinstance(value, dict):
        return {key: "(not kept)" if _is_secret(key, item) else redacted(item) for key, item in value.items()}
    return value


def _is_secret(key: str, value: Any) -> bool:
    words = key.lower().split("_")
    return isinstance(value, str) and bool(value) and any(word in _SECRET_WORDS for word in words)


Stamp = tuple[int, int, int]
GONE: Stamp = (0, 0, 0)


def stamp(file: str | Path) -> Stamp:
    """When a file was written, when it was touched at all, and its size; `GONE` when there is none.

    The second tells of a file that is copied over with the older one's time.
    """
    try:
        status = os.stat(file)
    except OSError:
        return GONE
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def files_of(config: RunConfig, *, rewards: bool = True) -> Iterator[Path]:
    """The files that a check of a config reads: data, the model's, rewards with the modules beside them.

    Args:
        config: the run's.
        rewards: whether the rewards count; without, a saved reward changes nothing of the data.
    """
    sources = [config.section.dataset, config.section.eval_dataset]
    if rewards:
        sources += [entry.source for entry in config.section.rewards]
    for source in filter(None, sources):
        parts = split_file_source(source)
        file = Path(parts[0] if parts is not None else source)
        if file.suffix == ".py" and rewards:
            yield from sorted(file.parent.glob("*.py"))
        elif os.path.isdir(file):
            yield from sorted(child for child in file.iterdir() if child.is_file())
        elif os.path.isfile(file):
            yield file
    for name in (config.script.get("dataset_name"), config.model):
        folder = Path(str(name or ""))
        if name and os.path.isdir(folder):
            yield from sorted(file for file in folder.iterdir() if file.is_file())
        elif name and os.path.isfile(folder):
            yield folder


def stamps_of(config: RunConfig, *, rewards: bool = True) -> list[tuple[str, Stamp]]:
    """Name and stamp of each of these files, by which a change is known."""
    found = [(str(file), stamp(file)) for file in files_of(config, rewards=rewards)]
    return [(name, known) for name, known in found if known != GONE]
