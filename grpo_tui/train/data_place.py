"""Find a run's place in its data by the prompts it has seen, so that a resume may change the batch shape.

transformers finds the place by the number of steps alone, which with other batches is another place.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Place(NamedTuple):
    """How a run came to its place in the data, if by another batch shape than its current one."""

    offset: int = 0
    """Steps to add to the number of steps; then steps and epochs are those of the current shape."""
    epoch: int = 0
    """The epoch in which the shape changed."""
    seen: int = 0
    """Prompts of that epoch seen before."""


class Shape(NamedTuple):
    """How a dataset becomes steps."""

    rows: int
    prompts: int
    """Prompts of one generated batch."""
    micro_steps: int
    """Forward passes for which a generated batch is used."""
    accumulation: int

    @property
    def batches(self) -> int:
        """Generated batches of an epoch. TRL drops an incomplete one."""
        return self.rows // self.prompts

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return max(1, math.ceil(self.batches * self.micro_steps / self.accumulation))

    def batches_before(self, seen: int) -> int:
        """Return how many batches an epoch has less when so many of its prompts were seen."""
        return self.batches - (self.rows - seen) // self.prompts


def shape_of(rows: int, settings: Mapping[str, Any]) -> Shape | None:
    """Return the shape that TRL's arguments give to a dataset; None for one without a full batch."""
    names = ("generation_batch_size", "num_generations", "steps_per_generation", "num_iterations")
    found = [settings.get(name) for name in (*names, "gradient_accumulation_steps")]
    values = [value for value in found if isinstance(value, int) and value > 0]
    if len(values) < len(found):
        return None
    size, group, steps, iterations, accumulation = values
    shape = Shape(rows, max(1, size // group), steps * iterations, accumulation)
    return shape if shape.batches else None


def seen_at(step: int, place: Place, shape: Shape) -> tuple[int, int]:
    """Return the epoch after so many steps, and its prompts that were generated for by then."""
    epoch, done = divmod(step + place.offset, shape.steps)
    batches = min(shape.batches, math.ceil(done * shape.accumulation / shape.micro_steps))
    if place.seen and epoch == place.epoch:
        return epoch, place.seen + (batches - shape.batches_before(place.seen)) * shape.prompts
    return epoch, batches * shape.prompts


def continued(step: int, epoch: int, seen: int, shape: Shape) -> tuple[Place, int]:
    """Return the place with a new shape, and how many prompts are left out so that steps stay whole."""
    first = batch = shape.batches_before(seen)
    while batch < shape.batches and batch * shape.micro_steps % shape.accumulation:
        batch += 1
    left_out = (batch - first) * shape.prompts
    if batch == shape.batches:
        return Place((epoch + 1) * shape.steps - step, epoch + 1), left_out
    return Place(
        epoch * shape.steps + batch * shape.micro_steps // shape.accumulation - step, epoch, seen
    ), left_out


def unseen_last(seen: int, order: Sequence[int], prompts: int) -> list[int]:
    """Return the order of an epoch such that its last batches are exactly the prompts not seen yet."""
    batches = (len(order) - seen) // prompts * prompts
    before = len(order) // prompts * prompts - batches
    return [*[*order[:seen], *order[seen + batches :]][:before], *order[seen : seen + batches]]


def without_seen(sampler: Any, seen: int) -> Any:
    """Return TRL's sampler such that what is left of its first epoch are the prompts not seen yet."""
    import torch

    class Reordered(torch.utils.data.Sampler):
        generator = getattr(sampler, "generator", None)
        first = True

        def __len__(self) -> int:
            return len(sampler)

        def __iter__(self) -> Any:
            if not self.first:
                return iter(sampler)
            self.first = False
            rows = sampler.num_samples
            plain = copy.copy(sampler)
            plain.shuffle = False
            shuffled = torch.randperm(rows, generator=self.generator).tolist() if sampler.shuffle else None
            order = unseen_last(seen, shuffled or range(rows), sampler.batch_size)
            return (order[place] for place in plain)

    return Reordered()
