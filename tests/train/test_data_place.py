"""After a change of the batch shape, the rest of an epoch is the prompts that were not seen yet."""

from __future__ import annotations

from itertools import product

import pytest

from grpo_tui.train.data_place import Place, Shape, continued, seen_at, shape_of, unseen_last


def prompts_after(step: int, place: Place, shape: Shape, order: list[int]) -> tuple[list[int], list[int]]:
    """Return the prompts of the current epoch before this step and after it, as TRL would draw them."""
    epoch, done = divmod(step + place.offset, shape.steps)
    if place.seen and place.epoch == epoch:
        order = unseen_last(place.seen, order, shape.prompts)
    order = order[: shape.batches * shape.prompts]
    first = done * shape.accumulation // shape.micro_steps * shape.prompts
    return order[:first], order[first:]


SHAPES = [
    Shape(24, 4, 2, 2), Shape(24, 2, 2, 2), Shape(24, 5, 2, 2), Shape(24, 4, 4, 2), Shape(24, 3, 4, 4),
    Shape(24, 7, 1, 1), Shape(24, 1, 2, 2),
]  # fmt: skip


@pytest.mark.parametrize("first", SHAPES)
def test_no_prompt_comes_again_and_none_is_left_out(first: Shape) -> None:
    order = list(range(24))
    for second, third, step, more in product(SHAPES, SHAPES, range(1, first.steps), (1, 2)):
        epoch, seen = seen_at(step, Place(), first)
        place, left_out = continued(step, epoch, seen, second)
        assert not left_out
        if place.epoch > epoch:
            assert 24 - seen < second.prompts, "the rest is less than a batch, which TRL drops"
            continue
        _, rest = prompts_after(step, place, second, order)
        assert rest == order[seen : seen + (24 - seen) // second.prompts * second.prompts]
        if step + more + place.offset >= second.steps:
            continue
        epoch, now = seen_at(step + more, place, second)  # a fork of the fork
        again, _ = continued(step + more, epoch, now, third)
        if again.epoch == epoch:
            _, rest = prompts_after(step + more, again, third, order)
            assert rest == order[now : now + (24 - now) // third.prompts * third.prompts]


def test_prompts_are_left_out_where_a_step_would_be_cut() -> None:
    two_batches_a_step = Shape(24, 4, 1, 2)
    place, left_out = continued(3, 0, 4, two_batches_a_step)
    assert (place, left_out) == (Place(-2, 0, 4), 4)
    assert seen_at(3, place, two_batches_a_step) == (0, 8), "those left out count as seen"
    assert continued(3, 0, 23, two_batches_a_step)[0] == Place(0, 1)


def test_what_was_seen_before_a_change_of_the_batch_counts_on_in_that_epoch_only() -> None:
    place, left_out = continued(1, 0, 4, Shape(24, 5, 2, 2))
    assert (place, left_out) == (Place(-1, 0, 4), 0)
    seen = [seen_at(step, place, Shape(24, 5, 2, 2)) for step in range(1, 7)]
    order = unseen_last(4, range(24), 5)
    assert (len(order), len(set(order)), order[-20:]) == (20, 20, list(range(4, 24)))
    order = unseen_last(12, range(24), 5)
    assert (len(order), len(set(order)), order[-10:]) == (20, 20, list(range(12, 22)))
    assert seen == [(0, 4), (0, 9), (0, 14), (0, 19), (1, 0), (1, 5)]


def test_the_shape_comes_from_the_arguments_of_trl() -> None:
    settings = {"generation_batch_size": 16, "num_generations": 4, "steps_per_generation": 2}
    settings |= {"num_iterations": 2, "gradient_accumulation_steps": 2}
    assert shape_of(24, settings) == Shape(24, 4, 4, 2)
    assert shape_of(3, settings) is None, "not one batch"
    assert shape_of(24, {}) is None
    for name in settings:
        assert shape_of(24, {**settings, name: 0}) is None
