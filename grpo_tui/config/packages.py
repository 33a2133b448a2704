"""Packages a config asks for that are not installed here: told before the model is loaded, not after.

TRL finds them missing only when it builds the trainer. It looks up whether a package can be imported and
imports none.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix

TRACKERS: Mapping[str, tuple[str, ...]] = {
    "wandb": ("wandb",),
    "trackio": ("trackio",),
    "tensorboard": ("tensorboard", "tensorboardX"),
    "mlflow": ("mlflow",),
    "comet_ml": ("comet_ml",),
    "neptune": ("neptune",),
    "clearml": ("clearml",),
    "swanlab": ("swanlab",),
    "dvclive": ("dvclive",),
    "codecarbon": ("codecarbon",),
}
"""What `report_to` can name, and the packages of which one must be there."""


def installed(name: str) -> bool:
    """True when a top-level package can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def version_of(distribution: str) -> str | None:
    """Return the installed version of a package, None when it is not there."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def versions_of(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are there."""
    found = {name: version_of(name) for name in distributions}
    return {name: version for name, version in found.items() if version is not None}


def package_findings(
    parts: Mapping[str, Mapping[str, Any]],
    document: YamlDocument,
    is_installed: Callable[[str], bool] = installed,
) -> list[Finding]:
    """Return an error for every package that is needed and missing.

    Args:
        parts: coerced arguments by dataclass.
        document: the file, for lines.
        is_installed: says whether a package is there.
    """
    grpo, model = parts["GRPOConfig"], parts["ModelConfig"]
    asked: list[tuple[str, Any, str, Sequence[str], str]] = []
    if grpo.get("use_vllm"):
        asked.append(("use_vllm", False, "vLLM", ("vllm",), 'pip install "trl[vllm]"'))
    if model.get("use_peft"):
        asked.append(("use_peft", False, "PEFT", ("peft",), "pip install peft"))
    asked += [
        (key, False, "bitsandbytes", ("bitsandbytes",), "pip install bitsandbytes")
        for key in ("load_in_4bit", "load_in_8bit")
        if model.get(key)
    ]
    if grpo.get("use_liger_kernel"):
        asked.append(("use_liger_kernel", False, "Liger", ("liger_kernel",), "pip install liger-kernel"))
    if grpo.get("deepspeed"):
        asked.append(("deepspeed", None, "DeepSpeed", ("deepspeed",), "pip install deepspeed"))
    named = grpo.get("report_to") or ()
    for tracker in [named] if isinstance(named, str) else named:
        if tracker in TRACKERS:
            packages = TRACKERS[tracker]
            asked.append(("report_to", "none", tracker, packages, f"pip install {packages[0]}"))
    return [
        Finding(
            "config.not-installed",
            "error",
            key,
            document.line(key),
            f"{key} needs {what}, which is not installed. Run `{install}`",
            Fix(key, instead),
        )
        for key, instead, what, packages, install in asked
        if not any(is_installed(package) for package in packages)
    ]
