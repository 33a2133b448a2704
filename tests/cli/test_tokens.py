"""`grpo-tui tokens`: which policy of a run is asked."""

from __future__ import annotations

import pytest

from grpo_tui.cli.errors import REFUSED, CommandError
from grpo_tui.cli.tokens import _policy
from grpo_tui.rewards.token_asking import AskedPolicy

LIVE, BASE = AskedPolicy("live", "live"), AskedPolicy("base", "adder")
NEW, OLD = (AskedPolicy("checkpoint", f"checkpoint-{step}", "x", step) for step in (40, 20))
ALL = (LIVE, NEW, OLD, BASE)


@pytest.mark.parametrize(
    ("known", "wanted", "asked"),
    [
        (ALL, None, NEW),
        ((LIVE, BASE), None, LIVE),
        (ALL, "live", LIVE),
        (ALL, "base", BASE),
        (ALL, "checkpoint", NEW),
        (ALL, "checkpoint=20", OLD),
    ],
)
def test_the_policy_that_is_named_is_asked_else_the_newest_checkpoint(
    known: tuple[AskedPolicy, ...], wanted: str | None, asked: AskedPolicy
) -> None:
    assert _policy(known, wanted) is asked


@pytest.mark.parametrize(
    ("known", "wanted", "code", "said"),
    [
        (ALL, "checkpoint=30", REFUSED, "the run is live and has checkpoints 40, 20"),
        ((NEW, BASE), "live", REFUSED, "the run is not live and has checkpoints 40"),
        ((BASE,), None, REFUSED, "no usable checkpoint. Use --from base for the model"),
        (ALL, "live=20", 2, "--from live=20: give live, checkpoint, checkpoint=STEP or base"),
        (ALL, "newest", 2, "--from newest: give live"),
    ],
)
def test_a_policy_that_is_not_there_is_told_with_those_that_are(
    known: tuple[AskedPolicy, ...], wanted: str | None, code: int, said: str
) -> None:
    with pytest.raises(CommandError, match=said) as refused:
        _policy(known, wanted)
    assert refused.value.code == code
