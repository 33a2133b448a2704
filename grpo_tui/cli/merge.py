"""`grpo-tui merge`: merge a LoRA adapter into its base model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grpo_tui.cli.compare import tell_progress
from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import print_json, print_text, show_progress
from grpo_tui.core.text import shell_word
from grpo_tui.present.formatting import from_here, percent, plural, size
from grpo_tui.ship.merging import DifferentError, Merged, MergeError
from grpo_tui.ship.merging import merge as merged_model
from grpo_tui.ship.policies import Policy, PolicyError, resolve

MOST_LOST = 0.5
"""Share of an adapter's changes lost by rounding above which a warning is printed."""


def merge(parsed: Any) -> int:
    """`grpo-tui merge POLICY DEST [--dtype D] [--json]`. Exit 1 when the merged model answers differently."""
    with reported(PolicyError):
        policy = resolve(parsed.policy)
    say = tell_progress if parsed.progress else show_progress
    try:
        with reported(MergeError):
            found = merged_model(policy, parsed.destination, parsed.dtype or "", say)
    except CommandError as error:
        failed = isinstance(error.__cause__, DifferentError)
        raise CommandError(str(error), FAILED if failed else error.code) from error
    finally:
        show_progress("")
    if parsed.json:
        print_json(asdict(found))
    else:
        print_text(_lines(found, policy))
    return OK


def _lines(found: Merged, policy: Policy) -> Iterator[str]:
    where = from_here(Path(found.path))
    step = f" (step {found.step})" if found.step is not None else ""
    yield f"merged  {from_here(Path(found.adapter))}{step} into {found.base}"
    yield f"model   {where}  {size(found.size_bytes)}, {found.dtype}"
    yield f"checked {_check(found)}"
    if found.rounded_away is not None and found.rounded_away > MOST_LOST:
        yield (
            f"warning: rounding to {found.dtype} undoes {percent(found.rounded_away)} of the adapter's "
            "changes to the weights. --dtype float32 keeps them"
        )
    if found.quantized:
        yield (
            "note: the adapter was trained on a quantized base and is merged into the full-precision one, so "
            f"its logits cannot equal those of training. {_as_trained(found)}. Compare their rewards: "
            f"`grpo-tui compare {shell_word(policy.name)} {shell_word(where)}`"
        )
    yield f"serve   vllm serve {shell_word(where)}"


def _as_trained(found: Merged) -> str:
    if (one := found.as_trained) is None:
        return f"How far they differ is not known: {found.not_compared}"
    return (
        f"On {plural(one['tokens'], 'token')} they differ by at most {one['max_difference']:.2g}, KL "
        f"{one['kl']:.2g} per token, same top token {percent(one['top1'])}"
    )


def _check(found: Merged) -> str:
    tokens = plural(found.tokens, "token")
    if found.dtype == "float32":
        return f"on {tokens}: logits differ by at most {found.max_difference:.2g}"
    return (
        f"on {tokens} against float32: KL {found.kl:.2g} per token (the base in {found.dtype}: "
        f"{found.base_kl:.2g}), same top token {percent(found.top1)}"
    )
