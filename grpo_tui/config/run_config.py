"""A checked config, as the training process receives it.

`RunConfig` is plain data and round-trips through JSON. `resolve` creates it from a file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.paths import run_root, split_file_source
from grpo_tui.config.section import Section, masked_url
from grpo_tui.config.trl_fields import NoDefault, load_fields
from grpo_tui.config.yaml_edit_values import inline
from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.findings import Finding, errors_first
from grpo_tui.core.text import safe

_PAIRS = "__pairs__"
_ARGUMENTS = ("grpo", "model_args", "script", "mixture")
_SECRET_WORDS = ("token", "key", "apikey", "secret", "password", "credential")
_KEY_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""Words of a key in any style: `hub_token`, `api-key`, `hfToken`, `HF_TOKEN`."""


class ConfigError(ValueError):
    """A config cannot start a run. `findings` has all findings, errors first."""

    def __init__(self, findings: Sequence[Finding], path: Path | None = None) -> None:
        self.findings = tuple(errors_first(findings))
        self.path = path
        super().__init__("\n".join(describe(f, path) for f in self.findings if f.severity == "error"))


def describe(finding: Finding, path: Path | None) -> str:
    """Return one or two lines for the user: place and message, then the fix."""
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
    """The complete configuration of a run.

    The arguments of the dataclasses are converted and include only those set explicitly.

    Attributes:
        path: The absolute path of the config file, None if the config is not from a file.
        model: Model id or absolute folder of the policy.
        grpo: GRPOConfig arguments. No `output_dir` if none was set.
        model_args: ModelConfig arguments, with `model_name_or_path`.
        findings: All findings. Errors can be among them, which `--force` overrides.
        raw: Values of the file after overrides, before conversion.
        env: Environment variables, which the training process sets before anything else.
        cwd: Folder where the config was loaded. Dotted reward paths are imported from there, as in TRL.
        origin: Run folder or other file that the config was read from, None if it was `path`. Not stored.
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
        """Return the value of a GRPOConfig field or TRL's default, None for a computed default."""
        if name in self.grpo:
            return self.grpo[name]
        default = load_fields()[name].default
        return None if isinstance(default, NoDefault) else default

    @property
    def reward_count(self) -> int:
        """Number of rewards: the reward model, `reward_funcs` and `grpo_tui.rewards`."""
        return (
            bool(self.script.get("reward_model_name_or_path"))
            + len(self.script.get("reward_funcs") or ())
            + len(self.section.rewards)
        )

    @property
    def run_root(self) -> Path:
        """The default run folder."""
        return run_root(self.grpo.get("output_dir"), self.path)

    def to_json(self) -> dict[str, Any]:
        """Return data for `json.dumps` and `from_json`. It may contain secrets, see `to_record`."""
        return {
            "path": str(self.path) if self.path is not None else None,
            "model": self.model,
            **{name: _pack(getattr(self, name)) for name in _ARGUMENTS},
            "section": _pack(self.section.to_json()),
            "findings": [finding.to_json() for finding in self.findings],
            "raw": _pack(self.raw),
            "env": dict(self.env),
            "cwd": self.cwd,
        }

    def to_record(self) -> dict[str, Any]:
        """Return `to_json` without keys, tokens and webhooks, for the run folder."""
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
        """Rebuild a config from the data of `to_json` or its JSON text.

        Raises:
            ValueError: The data is not a config, as in a run.json edited by hand.
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
            **{name: _unpack(data[name]) for name in _ARGUMENTS},
            section=Section.from_json(_unpack(data["section"])),
            findings=tuple(rebuilt(Finding, item) for item in data["findings"]),
            raw=_unpack(data["raw"]),
            env=dict(data["env"]),
            cwd=data["cwd"],
            origin=origin,
        )


def _without_webhook(raw: dict[str, Any]) -> dict[str, Any]:
    section = raw.get("grpo_tui")
    notify = section.get("notify") if isinstance(section, dict) else None
    if not isinstance(section, dict) or not isinstance(notify, dict) or not notify.get("webhook"):
        return raw
    masked = {**notify, "webhook": masked_url(str(notify["webhook"]))}
    return {**raw, "grpo_tui": {**section, "notify": masked}}


def _pack(value: Any) -> Any:
    """Keep keys that are not strings (`max_memory: {0: 20GB}`), which JSON would convert."""
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
    """Return JSON data without keys and tokens."""
    if isinstance(value, dict):
        return {key: "(not kept)" if is_secret(key, item) else redacted(item) for key, item in value.items()}
    return value


def is_secret(key: str, value: Any) -> bool:
    """Return whether a value is a key, token or password by the name of its setting."""
    words = {word.lower() for word in _KEY_WORDS.findall(key)}
    return isinstance(value, str) and bool(value) and not words.isdisjoint(_SECRET_WORDS)


Stamp = tuple[int, int, int]
GONE: Stamp = (0, 0, 0)


def stamp(file: str | Path) -> Stamp:
    """Return modification time, change time and size of a file, `GONE` if it does not exist.

    The change time reveals a file that was replaced by a copy with the old modification time.
    """
    try:
        status = os.stat(file)
    except OSError:
        return GONE
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def files_of(config: RunConfig, *, rewards: bool = True) -> Iterator[Path]:
    """Yield the local files that checks of a config read: data, model, rewards and modules next to them.

    Args:
        rewards: Whether to include the rewards, which do not affect checks of the data.
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
    """Return path and stamp of each of these files, to detect changes."""
    found = [(str(file), stamp(file)) for file in files_of(config, rewards=rewards)]
    return [(name, known) for name, known in found if known != GONE]
