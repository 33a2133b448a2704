"""Step time of a recorded run ÷ plain TRL on a GPU: pairs of steps until the time is up.

Started by `spine.py`; `--child` is one of the two sides. Knows the pairing of `_paired_steps` and how to
wait for a GPU; which config is trained is the caller's business.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import _paired_steps as paired_steps
from _paired_steps import WARM_UP, Pair, Side, interval, pair, ratio


def measure(
    config: Path, folder: Path, seconds: float, env: dict[str, str], left_s: Callable[[], float]
) -> list[Pair]:
    """Pair steps for so long, after the warm-up; both sides are ended, whatever happens.

    Args:
        config: What both sides train.
        folder: Where both keep their files and logs.
        seconds: How long to go on.
        env: The environment of both.
        left_s: Seconds until both are killed, whatever they do; raises when there are none.
    """
    sides: list[Side] = []
    try:
        for name in ("plain", "recorded"):
            words = [__file__, "--child", name, "--config", str(config), "--folder", str(folder / name)]
            sides.append(Side(words, log=folder / f"{name}.log", env=env, limit_s=left_s()))
        pairs: list[Pair] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            left_s()
            pairs.append(pair(*sides))
        return pairs[WARM_UP:]
    finally:
        for side in sides:
            side.end()


def describe(pairs: list[Pair]) -> str:
    """The ratio with its interval, in words."""
    low, high = interval(pairs)
    return (
        f"recorded ÷ plain {ratio(pairs):.4f}, 95 % interval {low:.4f} to {high:.4f}, median of pairs "
        f"{statistics.median(r / p for p, r in pairs):.4f}, {len(pairs)} pairs, plain median "
        f"{1000 * statistics.median(p for p, _ in pairs):.0f} ms"
    )


def _child(name: str, config: Path, folder: Path) -> None:
    from grpo_tui.config.resolve import load_config

    def settle() -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()

    paired_steps.train(load_config(config, []), folder, recorded=name == "recorded", settle=settle)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", choices=("plain", "recorded"), required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    _child(options.child, options.config, options.folder)
