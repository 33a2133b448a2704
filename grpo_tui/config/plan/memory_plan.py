"""The memory of one device by part, and when it is needed: the shape of the answer, without its formulas.

A step has five moments. It generates; it has gone forward and is at the LM head (`loss`); it goes back
through the last layer (`layers`); through the first, with all gradients made (`backward`); the optimizer
steps. A part lives at some of them, so the peak is not the sum of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Moment = Literal["generate", "loss", "layers", "backward", "step"]
MOMENTS: tuple[Moment, ...] = ("generate", "loss", "layers", "backward", "step")
ALWAYS = MOMENTS
WORDS: Mapping[Moment, str] = {
    "generate": "while it generates",
    "loss": "at the LM head",
    "layers": "as the backward pass begins",
    "backward": "as the backward pass ends",
    "step": "at the optimizer's step",
}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part.

    Attributes:
        name: stable name, such as `weights`.
        title: what a person calls it.
        bytes: on one device.
        moments: when it is there.
        formula: the sum written out.
        movable: whether it can move to the host's memory; it does not count against the device then.
    """

    name: str
    title: str
    bytes: int
    moments: tuple[Moment, ...]
    formula: str
    movable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "bytes": self.bytes,
            "moments": list(self.moments),
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
        free_bytes: what other processes leave of it, None when nobody looked.
        held_by: those processes, in words.
    """

    name: str
    memory_bytes: int
    kind: Literal["cuda", "cpu"] = "cuda"
    free_bytes: int | None = None
    held_by: str = ""

    @property
    def room_bytes(self) -> int:
        """What a run may take: the memory that is free, all of it when nobody else holds any."""
        return self.memory_bytes if self.free_bytes is None else min(self.memory_bytes, self.free_bytes)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one device of a run.

    Attributes:
        parts: each part.
        device: the device it is held against, None when none was named or found.
        exact: whether the model's parameters were counted rather than computed.
        correction: measured ÷ planned of a trial on this machine, 1 without one.
        notes: what was assumed, in sentences.
        most_generations: the largest `num_generations` that fits when the batch grows with it; None when
            the smallest does not, or no device is known.
        most_length: the largest `max_completion_length` that fits; None likewise.
        most_per_device: the largest `per_device_train_batch_size` up to the config's that fits and leaves
            groups whole, everything else as it is; None likewise.
    """

    parts: tuple[MemoryPart, ...]
    device: Device | None = None
    exact: bool = False
    correction: float = 1.0
    notes: tuple[str, ...] = ()
    most_generations: int | None = None
    most_length: int | None = None
    most_per_device: int | None = None

    def bytes_at(self, moment: Moment) -> int:
        """Bytes in use at a moment, corrected; what can move to the host is not counted."""
        planned = sum(p.bytes for p in self.parts if moment in p.moments and not p.movable)
        return round(planned * self.correction)

    @property
    def peak_moment(self) -> Moment:
        """The moment that needs most."""
        return max(MOMENTS, key=self.bytes_at)

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once."""
        return self.bytes_at(self.peak_moment)

    @property
    def fits(self) -> bool | None:
        """Whether it fits beside what others hold of the device; None when no device is known."""
        return None if self.device is None else self.peak_bytes <= self.device.room_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        device = self.device
        return {
            "peak_bytes": self.peak_bytes,
            "peak_moment": self.peak_moment,
            "parts": [part.to_json() for part in self.parts],
            "device": None
            if device is None
            else {
                "name": device.name,
                "memory_bytes": device.memory_bytes,
                "free_bytes": device.free_bytes,
                "held_by": device.held_by,
            },
            "fits": self.fits,
            "largest_num_generations": self.most_generations,
            "largest_max_completion_length": self.most_length,
            "largest_per_device_train_batch_size": self.most_per_device,
            "parameters_exact": self.exact,
            "correction": self.correction,
            "notes": list(self.notes),
        }
