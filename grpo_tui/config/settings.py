"""A config as rules and plans read it: values with TRL's defaults, and findings about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.section import Section
from grpo_tui.config.trl_fields import FieldInfo, NoDefault, load_fields
from grpo_tui.config.yaml_lines import YamlDocument, YamlError, parse_mapping
from grpo_tui.core.findings import Finding, Fix, Severity
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import safe

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig

Change = tuple[str, Any]
"""A key and its new value."""
REMOVE = None
"""Value of a fix that removes the key."""
OPTIM = "adamw_torch_fused"
"""Default optimizer of transformers 5 with torch 2.8 and later, which its source computes at import time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A config, as rules and plans see it.

    Attributes:
        parts: Converted arguments by dataclass.
        document: The text's values and lines, empty where no text is known.
        world_size: Number of training processes, None if unknown.
    """

    parts: Mapping[str, Mapping[str, Any]]
    section: Section
    fields: Mapping[str, FieldInfo]
    document: YamlDocument = field(default_factory=lambda: YamlDocument({}))
    world_size: int | None = 1

    @classmethod
    def of_config(cls, config: RunConfig, world_size: int | None = None, *, lines: bool = False) -> Settings:
        """Create the settings of a checked config, with the lines of its file if wanted."""
        parts = {
            "GRPOConfig": config.grpo,
            "ModelConfig": config.model_args,
            "GRPOScriptArguments": config.script,
            "DatasetMixtureConfig": config.mixture,
        }
        document = _written(config.path) if lines else YamlDocument({})
        return cls(parts, config.section, load_fields(), document, world_size)

    def get(self, name: str) -> Any:
        """Return the value of a key or its default, None for a computed default."""
        info = self.fields.get(name)
        if info is None:
            return None
        written = self.parts.get(info.owner, {})
        return written[name] if name in written else self._default(name)

    def _default(self, name: str) -> Any:
        info = self.fields.get(name)
        return None if info is None or isinstance(info.default, NoDefault) else info.default

    def whole(self, name: str, least: int = 1) -> int:
        """Return an integer of at least `least`. An invalid value counts as the default."""
        for value in (self.get(name), self._default(name), least):
            if is_number(value) and int(value) >= least:
                return int(value)
        return least

    def optional(self, name: str) -> int | None:
        """Return an integer of at least 1, None when not set."""
        value = self.get(name)
        return int(value) if is_number(value) and value >= 1 else None

    def number(self, name: str) -> float:
        """Return a finite number. An invalid value counts as the default, else as 0."""
        for value in (self.get(name), self._default(name)):
            if is_number(value):
                return float(value)
        return 0.0

    def flag(self, name: str) -> bool:
        """Return whether a field is true."""
        return self.get(name) is True

    def written(self, name: str) -> bool:
        """Return whether the config sets the key to something other than TRL's default."""
        info = self.fields.get(name)
        if info is None or name not in self.parts.get(info.owner, {}):
            return False
        return bool(self.parts[info.owner][name] != info.default)

    @property
    def checkpointing(self) -> bool:
        """Whether gradient checkpointing is on. The newer of its two keys wins."""
        newer = self.get("activation_checkpointing")
        return bool(self.get("gradient_checkpointing") if newer is None else newer)

    @property
    def recomputes(self) -> bool:
        """Whether layers are recomputed in the backward pass, by gradient checkpointing or FSDP's own."""
        own = self.mapping("fsdp_config") if self.get("fsdp") else {}
        return self.checkpointing or any(
            own.get(name) for name in ("activation_checkpointing", "fsdp_activation_checkpointing")
        )

    @property
    def model(self) -> str:
        """Hub id or folder of the model, empty when not set yet."""
        return str(self.get("model_name_or_path") or "")

    @property
    def streaming(self) -> bool:
        """Whether the dataset is streamed, so its length is unknown."""
        return bool(self.get("dataset_streaming") or self.get("streaming"))

    @property
    def optim(self) -> str:
        """Name of the optimizer."""
        return str(self.get("optim") or OPTIM)

    @property
    def dtype(self) -> str:
        """Dtype in which the weights are loaded, `auto` when the model decides.

        `model_init_kwargs` takes precedence over `dtype` (trl/scripts/grpo.py).
        """
        asked = self.mapping("model_init_kwargs").get("dtype")
        return str(asked or self.get("dtype") or "auto").removeprefix("torch.")

    @property
    def autocast(self) -> str | None:
        """Dtype of matrix products under autocast, None without autocast.

        TRL turns `bf16` on unless `fp16` is on (trl/trainer/base_config.py).
        """
        if self.flag("fp16"):
            return "float16"
        return "bfloat16" if self.get("bf16") in (True, None) else None

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return the value of a key if it is a mapping, else an empty one."""
        value = self.get(name)
        return value if isinstance(value, dict) else {}

    def strategy(self, name: str) -> str:
        """Return one of transformers' strategies (`eval_strategy`) as a string."""
        return str(self.get(name) or "no")

    @property
    def data_key(self) -> str:
        """The key that names the dataset."""
        if self.section.dataset is not None:
            return "grpo_tui.dataset"
        return "datasets" if self.get("datasets") else "dataset_name"

    def line(self, dotted: str) -> int | None:
        """Return the line of a dotted key, or of its nearest parent."""
        return self.document.line(*_path(dotted))

    def finding(
        self, rule: str, severity: Severity, field: str | None, message: str, *fix: Change | None
    ) -> Finding:
        """Create a finding about a key.

        Args:
            rule: Name of the rule, `domain.what`.
            message: The reason, with numbers. It may contain untrusted text.
            fix: `(key, value)` of the smallest change. None as the value removes the key.
        """
        first = fix[0] if fix else None
        change = Fix(first[0], first[1]) if first is not None else None
        line = self.line(field) if field is not None else None
        return Finding(rule, severity, field, line, safe(message), change)

    def error(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Create a finding: the run would fail, or train nothing."""
        return self.finding(rule, "error", field, message, *fix)

    def warning(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Create a finding: the run would not do what the config says."""
        return self.finding(rule, "warning", field, message, *fix)

    def info(self, rule: str, field: str, message: str, *fix: Change | None) -> Finding:
        """Create a finding: another value would be better."""
        return self.finding(rule, "info", field, message, *fix)

    def unused(self, field: str, why: str, *fix: Change) -> Finding:
        """Create a finding: nothing reads the key. The fix removes it by default."""
        return self.warning(
            "config.unused", field, f"{field} is not used: {why}", *(fix or ((field, REMOVE),))
        )

    def unused_together(self, names: Sequence[str], why: str, *fix: Change) -> Finding:
        """Create one finding for several keys that nothing reads."""
        more = f" and {len(names) - 1} more of its keys" if len(names) > 1 else ""
        verb = "are" if len(names) > 1 else "is"
        return self.warning("config.unused", names[0], f"{names[0]}{more} {verb} not used: {why}", *fix)


def _written(path: Path | None) -> YamlDocument:
    """Read a config file, empty if it cannot be read."""
    try:
        return parse_mapping(path.read_text(encoding="utf-8")) if path is not None else YamlDocument({})
    except (OSError, UnicodeDecodeError, YamlError):
        return YamlDocument({})


def _path(dotted: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))
