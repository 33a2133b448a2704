"""What the real TRL takes for each number, read from `limits.json`.

`tests/config/trl_judge.py` writes that file: it tries values of every numeric field on the installed TRL and
notes what fails or trains nothing. What TRL takes and nobody means is added in `ranges`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
SIZES = (
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
    "num_generations",
    "num_generations_eval",
)
"""Numbers that must fit each other, which `batch` looks after."""
FAR = 2**31


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`; `above` leaves `least` itself out, `below` `most`.

    Attributes:
        also: single values taken beside.
        infinite: whether infinity is taken.
        when: settings under which the field is read and the range holds.
        low: what is wrong with a value under the range.
        high: what is wrong with one over it.
    """

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False
    also: tuple[float, ...] = ()
    infinite: bool = False
    when: Mapping[str, Any] = field(default_factory=dict)
    low: str = ""
    high: str = ""

    def holds(self, value: float) -> bool:
        """True when the value can be used."""
        if value in self.also:
            return True
        if math.isnan(value) or math.isinf(value):
            return self.infinite and value > 0
        if (self.above and value == self.least) or (self.below and value == self.most):
            return False
        return self.least <= value <= self.most

    def words(self, value: float) -> str:
        """Return the range in words for a value that is not in it; a far end is left out."""
        low, high = math.isfinite(self.least), math.isfinite(self.most)
        high = high and (value >= self.most or self.most < FAR)
        parts = []
        if low and high and not (self.above or self.below):
            parts.append(f"from {_plain(self.least)} to {_plain(self.most)}")
        else:
            if low:
                parts.append(f"above {self.least:g}" if self.above else f"{self.least:g} or more")
            if high:
                parts.append(f"{'below' if self.below else 'at most'} {_plain(self.most)}")
        said = " and ".join(parts) or "finite"
        return said + "".join(f", or {number:g}" for number in self.also)

    def why(self, value: float) -> str:
        """Return what is wrong with a value, empty where nothing is known."""
        return self.low if value <= self.least else self.high if value >= self.most else ""


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) and 1e6 <= number < 1e10 else f"{number:g}"


@lru_cache(maxsize=1)
def limits() -> Mapping[str, tuple[Range, ...]]:
    """Return the ranges of each numeric field that was tried; none where TRL takes every number."""
    read = json.loads(FILE.read_text(encoding="utf-8"))["fields"]
    return {
        name: tuple(Range(**{**row, "also": tuple(row.get("also", ()))}) for row in rows)
        for name, rows in read.items()
    }
