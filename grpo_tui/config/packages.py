"""Find packages that a config needs and that are not installed, and the versions of those that are.

None is imported. TRL notices only when it builds the trainer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import Finding

TRACKERS: Mapping[str, tuple[str, ...]] = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    **{
        name: (name,)
        for name in ("wandb", "trackio", "mlflow", "comet_ml", "neptune", "clearml", "swanlab", "dvclive")
    },
    "codecarbon": ("codecarbon",),
}
"""Values of `report_to`, and the packages of which one must be installed."""


def installed(name: str) -> bool:
    """Return whether a top-level package can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def version_of(distribution: str) -> str | None:
    """Return the installed version of a package, or None."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def versions_of(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {name: version_of(name) for name in distributions}
    return {name: version for name, version in found.items() if version is not None}


def all_versions() -> dict[str, str]:
    """Return the version of every installed package, by its lower-case name."""
    from importlib import metadata

    named = ((found.metadata["Name"], found.version) for found in metadata.distributions())
    return dict(sorted((name.lower(), version) for name, version in named if name and version))


def processor() -> str:
    """Return the name of this machine's processor."""
    import platform

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


ASKED: tuple[tuple[str, Any, str, str, str], ...] = (
    ("use_vllm", False, "vllm", "vLLM", '"trl[vllm]"'),
    ("use_peft", False, "peft", "PEFT", "peft"),
    ("load_in_4bit", False, "bitsandbytes", "bitsandbytes", "bitsandbytes"),
    ("load_in_8bit", False, "bitsandbytes", "bitsandbytes", "bitsandbytes"),
    ("use_liger_kernel", False, "liger-kernel", "Liger", "liger-kernel"),
    ("deepspeed", None, "deepspeed", "DeepSpeed", "deepspeed"),
)
"""Keys that need a package: key, value without it, distribution, display name, argument for pip."""


def package_findings(s: Settings, is_installed: Callable[[str], bool] = installed) -> list[Finding]:
    """Return an error for every required package that is missing."""
    asked = [
        (key, instead, name, [distribution.replace("-", "_")], wanted)
        for key, instead, distribution, name, wanted in ASKED
        if s.get(key)
    ]
    named = s.get("report_to") or ()
    for tracker in [named] if isinstance(named, str) else named:
        if tracker in TRACKERS:
            packages = list(TRACKERS[tracker])
            asked.append(("report_to", "none", tracker, packages, packages[0]))
    said = "{} needs {}, which is not installed. Run `pip install {}`"
    return [
        s.error("config.not-installed", key, said.format(key, name, wanted), (key, instead))
        for key, instead, name, packages, wanted in asked
        if not any(map(is_installed, packages))
    ]
