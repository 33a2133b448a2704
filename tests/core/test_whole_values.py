"""What the functions of the core make of values, texts and groups: one table each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from grpo_tui.core import answers, exchange, metrics, paired, probe_changes, prompt_memory, seed_noise, text
from grpo_tui.core import statistics as numbers
from grpo_tui.core.conditions import parse
from tests.stable import stable

Stored = Callable[[str, str], None]
NAN, INF = math.nan, math.inf
VALUES: tuple[list[float | None], ...] = (
    [], [None], [NAN], [1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.5, 1.0], [None, 0.5, 1.0], [NAN, 0.0, 1.0],
    [INF, 0.0],
    [1e-9, 0.0], [1e-4, 0.0], [-1.0, 2.0, 5.0, 5.0], [1e9, 1e9 + 1], [0.0] * 4, [1.0] * 4,
)  # fmt: skip
TEXTS = (
    "", " ", "a", "a\nb", "a\r\nb\tc", "\x1b[31mred\x1b[0m", "\u202eabc", "zero\u200bwidth", "e\u0301",
    "数学です", "👩\u200d👩",
    "\ud800", "a" * 50, "word " * 12, "=1+1", "-3", "-x", "+4", "@a", "it's", "a b", "\u2028line",
    "\ufeffx", "\uffa0",
    "[b]x[/b]", "１２", "−4", "a\u00a0b", "\x00", "\x7f", "\x85",
)  # fmt: skip


def said(function: Callable[..., Any], *rows: tuple[Any, ...], **options: Any) -> Iterator[str]:
    for row in rows:
        try:
            found = function(*row, **options)
        except (ValueError, ZeroDivisionError, TypeError, IndexError) as error:
            found = f"{type(error).__name__}: {error}"
        yield f"{function.__name__}{row!a}{options or ''} = {found!a}"


def test_what_is_computed_of_values_is_what_is_stored(stored: Stored) -> None:
    one = [(values,) for values in VALUES]
    pairs = [(a, b) for a, b in product(VALUES, VALUES) if len(a) == len(b) and len(a) > 1]
    whole = [(a, b) for a, b in pairs if None not in a and None not in b]
    told = [
        *said(numbers.mean, *one), *said(numbers.std, *one), *said(numbers.is_flat, *one),
        *said(numbers.scored, *one), *said(numbers.all_finite, *one),
        *said(numbers.standardized, *((v,) for v in VALUES if v and None not in v)),
        *said(numbers.signal_of, *((v, None) for v in VALUES), *((v, [0.0] * len(v)) for v in VALUES)),
        *said(numbers.signal_of, *((v, [0.5] * len(v), [True] * len(v)) for v in VALUES)),
        *said(numbers.signal_of, *((v, [0.5] * len(v), [True, *[False] * len(v)][: len(v)]) for v in VALUES)),
        *(line for signal in ("mixed", "equal", "none", "masked", "unscored", "zero") for line in said(
            numbers.kind_of_group, *((v, t, signal) for v in VALUES for t in (None, (0.0, 1.0), (1.0, 1.0),
            (0.0, 5.0)))
        )),
        *said(numbers.correlation, *whole), *said(numbers.both_finite, *((a, b, range(len(a))) for a,
        b in pairs)),
        *said(numbers.within_groups, ([[0.0, 1.0], [2.0, 5.0]], [[1.0, 0.0], [3.0, 9.0]]), ([[1.0]],
        [[1.0]])),
        *said(numbers.repeated_share, *((t,) for t in (*TEXTS, "a b c d " * 5, "数学" * 9))),
        *said(numbers.repeated_share, *((t, 2) for t in (*TEXTS, "a b " * 5))),
        *said(numbers.distinct_share, ([],), (["a"],), (["a", "a", "b"],)),
        *said(numbers.is_number, *((v,) for v in (1, 1.5, True, NAN, INF, "1", None, 10**400))),
        *said(numbers.finite, *((v,) for v in (1, 1.5, True, NAN, INF, "1", None, 10**400))),
    ]  # fmt: skip
    group: list[list[float | None]] = [[1.0, 0.0, 3.0], [0.0, 0.0, 1.0], [1.0, 1.0, None], [0.0, 1.0, 2.0]]
    for normalized in (False, True):
        told += said(
            numbers.variance_shares, ([group, group[::-1]], [1.0, 2.0, 0.5]), ([group], [1.0, 0.0, -1.0]),
            ([], [1.0]),
            normalized=normalized,
        )  # fmt: skip
        told += said(numbers.group_covariances, (group, [1.0, 2.0, 0.5]), normalized=normalized)
        told += said(
            numbers.column_covariances,
            (list(zip(*group, strict=True)), [1.0, 1.0, 0.5]),
            normalized=normalized,
        )
    stored("statistics", stable("\n".join(told) + "\n"))


def test_what_is_told_of_pairs_seeds_and_visits_is_what_is_stored(stored: Stored) -> None:
    rows = [(list(a), list(b)) for a, b in zip(VALUES, reversed(VALUES), strict=True) if len(a) == len(b)]
    rows += [
        ([0.0, 0.5, 1.0, None], [1.0, 0.5, 1.0, 1.0]),
        ([0.0] * 9, [0.1 * n for n in range(9)]),
        ([1.0, 2.0], [1.0, 2.0]),
    ]
    seeds = {1: 0.5, 2: 0.7, 3: 0.6}
    others = (
        {1: 0.6, 2: 0.9, 3: 0.7},
        {4: 0.6, 5: 0.9, 6: 0.7},
        {1: 0.6},
        {1: 0.6, 2: 0.7},
        {1: 0.5, 2: 0.7, 3: 0.6, 4: 1.0},
    )
    visits = [
        [(0, 4)], [(0, 4)] * 3, [(0, 4)] * 4, [(4, 4)] * 4, [(1, 4)] * 6, [(0, 4), (0, 4), (4, 4), (4, 4)],
        [(4, 4), (4, 4), (0, 4), (0, 4)], [(1, 4), (2, 4), (3, 4), (4, 4)], [(2, 4), (2, 4), (3, 4), (3, 4)],
        [(0, 8), (1, 8), (0, 8), (1, 8), (7, 8), (8, 8)], [(1, 2), (0, 2), (2, 2), (1, 2)],
    ]  # fmt: skip
    prompts = (
        "a",
        [{"role": "user", "content": "a"}],
        [{"content": "a", "role": "user", "name": None}],
        3,
        None,
    )
    told = [
        *said(paired.difference, *rows), *said(paired.wins, *rows),
        *said(paired.t_quantile, *((n,) for n in (1, 2, 3, 4, 4.5, 5, 8, 30, 1e6))),
        *said(paired.pass_at, *((k, right, of) for of in (1,
        4) for right in range(of + 1) for k in range(1, of + 1))),
        *said(paired.sizes_of, *((n,) for n in (1, 2, 3, 4, 7, 8))),
        *said(seed_noise.pairs_of, *((seeds, other) for other in others)),
        *said(seed_noise.seed_difference, *((seeds, other) for other in others)),
        *said(seed_noise.interval, ([1.0],), ([1.0, 2.0],), ([1.0, 2.0, 4.0],)),
        *said(seed_noise.read_seeds, ("1",), ("1,2, 3",), ("1,1",), ("",), ("x",), ("-1",), ("1-3",)),
        *said(prompt_memory.classify, *((v,) for v in visits)),
        *said(prompt_memory.prompt_hash, *((p,) for p in prompts)),
        *said(probe_changes.typed, *((w,) for w in ("probe_prompts+=a", "probe_prompts-=a=b",
        "probe_prompts=a", "a+=b"))),
        *said(probe_changes.with_prompt, ([], "a"), (["-a"], "a"), (["+a"], "a")),
        *said(probe_changes.without_prompt, ([], "a"), (["+a"], "a"), (["-a"], "a")),
        *said(probe_changes.difference, (["+a"], ["-b"]), (["+a", "-b"], ["+a"]), ([], ["+a"])),
    ]  # fmt: skip
    stored("comparing", stable("\n".join(told) + "\n"))


def test_what_is_made_of_texts_is_what_is_stored(stored: Stored) -> None:
    one = [(t,) for t in TEXTS]
    long = [(t, width) for t in TEXTS for width in (0, 1, 5, 12)]
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
    ]
    calls = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}],
        }
    ]
    said_in = ("a", turns, calls, [], [{"role": "tool", "name": "f", "content": "1"}])
    told = [
        *said(text.safe, *one), *said(text.csv_text, *one), *said(text.one_line, *one, *long),
        *said(text.shell_word, *one), *said(text.filled, *long), *said(text.filled, *long, right=True),
        *said(text.shorten, *long), *said(text.ending, *long), *said(text.wrapped, *long),
        *said(text.told_apart, (("abcdef", "abcdeg"), 4), (("a", "b"), 4), (("same", "same"), 3), ((), 3)),
        *(line for f in (text.completion_text, text.whole_text, text.written_text, text.transcript,
        text.prompt_text)
          for line in said(f, *((one,) for one in said_in))),
        *said(text.message_text, *((c,) for c in ("a", None, 3, [{"type": "image"}], [{"type": "text",
        "text": "b"}], {}))),
        *said(answers.plain_characters, *one),
        *(line for t in (
            "#### 4", "a #### $1,200", "####", "\\boxed{a{b}c} \\boxed{d}", "\\boxed{a", "<answer>a</answer>",
            "<answer>a<answer>b</answer>", "no", "x=4, y=5",
        ) for kind in ("gsm8k", "boxed", "tag", "regex", "whole") for line in said(
            answers.extract, (t, kind, "answer", r"x=(\d)"))),
        *said(answers.boxed_spans, ("\\boxed{a{b}c} \\boxed{d}",), ("\\boxed{a",)),
        *said(exchange.to_json, ({"a": NAN, "b": (1, 2), "c": {3}},), ("\ud800",), ([INF],)),
        *said(exchange.finite_json, ({"a": NAN, "b": [INF, 1.0]},), ((1, NAN),)),
        *said(exchange.mapping, ({"a": 1},), ([],), (None,)),
    ]  # fmt: skip
    shown: list[list[int]] = []
    for code in range(0x110000):
        if text.safe(chr(code)) != chr(code):
            shown[-1:] = (
                [[shown[-1][0], code]] if shown and shown[-1][1] == code - 1 else [*shown[-1:], [code, code]]
            )
    told.append("made visible: " + " ".join(f"{first:X}-{last:X}" for first, last in shown))
    stored("texts", "\n".join(told) + "\n")


def test_what_is_known_of_metrics_and_conditions_is_what_is_stored(stored: Stored) -> None:
    keys = (
        "reward", "reward_std", "loss", "kl", "entropy", "eval_reward", "rewards/f/mean", "rewards/f/std",
        "eval_rewards/f/mean",
        "completions/mean_length", "step_time", "tools/search/calls", "sampling/x", "unknown",
        "profiling/Time taken: a",
        "clip_ratio/region_mean", "frac_reward_zero_std", "num_tokens", "epoch", "grad_norm",
        "learning_rate", "system/gpu",
    )  # fmt: skip
    conditions = (
        "reward > 1", "reward>=1 for 5", "kl > 0.1 for 20 steps", "reward", "a <",
        "entropy < 0.01 and reward < 1", "",
        "reward > x", "rewards/f/mean == 1", "step_time > 2 for 0", "reward is nan",
    )  # fmt: skip
    told = [
        *said(metrics.describe, *((key,) for key in keys)),
        *said(metrics.is_computed, *((key,) for key in keys)),
        *said(parse, *((line,) for line in conditions)),
    ]
    stored("metrics", stable("\n".join(told) + "\n"))
