"""The memory of one device by part, and when it is needed: the shape of the answer, without its formulas.

A run goes through two phases: it generates, then it updates. Some parts are there always, others in one phase
only, so the peak is not the sum of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Phase = Literal["always", "generate", "update"]


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part.

    Attributes:
        name: stable name, such as `weights`.
        title: what a person calls it.
        bytes: on one device.
        phase: when it is there.
        formula: the sum written out.
        movable: whether it can move to the host's memory; it does not count against the device then.
    """

    name: str
    title: str
    bytes: int
    phase: Phase
    formula: str
    movable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "bytes": self.bytes,
            "phase": self.phase,
            "formula": self.formula,
            "movable": self.movable,
        }


@dataclass(frozen=True, slots=True)
class Device:
    """The device a plan is made for.

    Attributes:
        name: what a person calls it.
        memory_bytes: all of its memory.
        kind: `cuda` or `cpu`.
    """

    name: str
    memory_bytes: int
    kind: Literal["cuda", "cpu"] = "cuda"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one device of a run.

    Attributes:
        parts: each part, those that are always there first.
        device: the device it is held against, None when none was named or found.
        exact: whether the model's parameters were counted rather than computed.
        correction: measured ÷ planned of a trial on this machine, 1 without one.
        most_generations: the largest `num_generations` that fits beside the rest as it is, None when even
            the smallest does not or no device is known.
        most_length: the largest `max_completion_length` that fits, None likewise.
    """

    parts: tuple[MemoryPart, ...]
    device: Device | None = None
    exact: bool = False
    correction: float = 1.0
    most_generations: int | None = None
    most_length: int | None = None

    def phase_bytes(self, phase: Phase) -> int:
        """Bytes in use in a phase, what is always there included; what can move to the host is not."""
        return sum(p.bytes for p in self.parts if p.phase in ("always", phase) and not p.movable)

    @property
    def peak_phase(self) -> Phase:
        """The phase that needs most."""
        generate, update = self.phase_bytes("generate"), self.phase_bytes("update")
        return "generate" if generate > update else "update"

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once, corrected by what a trial measured."""
        return round(self.phase_bytes(self.peak_phase) * self.correction)

    @property
    def fits(self) -> bool | None:
        """Whether the device holds it; None when no device is known."""
        return None if self.device is None else self.peak_bytes <= self.device.memory_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        device = self.device
        return {
            "peak_bytes": self.peak_bytes,
            "peak_phase": self.peak_phase,
            "parts": [part.to_json() for part in self.parts],
            "device": None if device is None else {"name": device.name, "memory_bytes": device.memory_bytes},
            "fits": self.fits,
            "largest_num_generations": self.most_generations,
            "largest_max_completion_length": self.most_length,
            "parameters_exact": self.exact,
            "correction": self.correction,
        }
