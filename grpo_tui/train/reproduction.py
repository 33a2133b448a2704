"""Gather what is needed to do a run again: versions, code state, GPUs, seed, data fingerprint.

Never the environment: keys and tokens live there. Knows nothing of where the record is kept.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "trl",
    "transformers",
    "accelerate",
    "datasets",
    "peft",
    "vllm",
    "bitsandbytes",
    "grpo-tui",
)
DIFF_LIMIT = 200_000
"""Characters kept of the difference to the last commit."""


def reproduction_record(trainer: Any, folder: Path) -> dict[str, Any]:
    """Everything about this process and trainer that decides the numbers.

    Args:
        trainer: The GRPOTrainer, built.
        folder: The user's folder, whose git state is kept.
    """
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _versions(),
        "git": _git(folder),
        "gpus": _gpus(),
        "seed": trainer.args.seed,
        "data_seed": trainer.args.data_seed,
        "world_size": trainer.accelerator.num_processes,
        "dataset_fingerprint": getattr(trainer.train_dataset, "_fingerprint", None),
        "dataset_rows": len(trainer.train_dataset) if hasattr(trainer.train_dataset, "__len__") else None,
        "arguments": sys.argv,
        "folder": str(folder),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _gpus() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [{"name": p.name, "memory_bytes": p.total_memory} for p in properties]


def _git(folder: Path) -> dict[str, Any] | None:
    commit = _run(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    difference = _run(folder, "diff", "HEAD") or ""
    return {
        "commit": commit.strip(),
        "diff": difference[:DIFF_LIMIT],
        "diff_cut": len(difference) > DIFF_LIMIT,
    }


def _run(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
