"""What is printed of a baseline, a course, a what-if and tokens, line by line, every figure another one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, replace

import pytest

from grpo_tui.core.findings import Finding
from grpo_tui.core.records import Completion
from grpo_tui.core.token_scores import Token, TokenScores
from grpo_tui.present.baseline_text import heading, lines, progress, whole
from grpo_tui.present.course import ProbeStep, Stretch, course_lines, probe_lines, visit_lines
from grpo_tui.present.group_card import GroupFold, bars, gold_of, group_card, group_view
from grpo_tui.present.token_lines import head_lines, heat_lines, surprising_lines
from grpo_tui.present.what_if_lines import what_if_lines
from grpo_tui.rewards.baseline import Baseline, FormShare, Mixed, RowResult
from grpo_tui.rewards.generating import Generated, Progress
from grpo_tui.rewards.right_answers import Judge
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.what_if import FunctionTurn, GroupTurn, WhatIf
from grpo_tui.store.reader import StoredGroup, Visit


def said(found: Iterable[Iterable[tuple[str, str]]]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in found]


# -- baseline ---------------------------------------------------------------------------------------------

BASELINE = Baseline(
    model="org/model", device="cuda:1", rows=3, group=4, seed=5, temperature=0.75, max_tokens=1_024,
    judge=Judge(0, "correct", 0.5, "what gold gets"), pass_rate=0.25, mixed=1 / 3, all_right=0.11,
    all_wrong=0.56, flat=0.67, truncated=0.08,
    forms=(FormShare("tags", 1.0, 0.91), FormShare("boxed", 1.0, 0.83)),
    reward=1.25, reward_std=0.62, group_std=0.41, tokens=312.0, tokens_most=999, seconds=130.0, load_s=7.5,
    tokens_per_s=88.0, distinct=0.97, group_sizes=(Mixed(4, 0.68, 0.34), Mixed(8, 0.9, None)),
    results=(
        RowResult("row 1", "one?", 0, 4, 0.5, 0.1, True, 1),
        RowResult("row 2", "two?", 3, 4, 1.5, 0.2, False, 0),
        RowResult("row 3", "three?", 4, 4, 2.0, 0.3, True, 0),
    ),
    notes=("a note",), findings=(Finding("baseline.few", "warning", None, None, "few are right"),),
)  # fmt: skip
GENERATED = Generated(
    tuple(Sample(f"q {row}", f"answer {n}", {}, f"row {row}") for row in (1, 2, 3) for n in range(4)),
    (9,) * 12, 4, 130.0, 7.5, "cuda:1", 0.75, 1_024,
)  # fmt: skip


HEADING = [
    "org/model before training",
    "3 rows × 4, temperature 0.75, at most 1,024 tokens, seed 5, on cuda:1",
]
FIGURES = [
    "  right         25 %   7 of 12 by correct ≥ 0.50 (what gold gets)",
    "  mixed         33 %   of the groups, 11 % all right, 56 % all wrong",
    "  zero std      67 %   of the groups: all totals equal, nothing to learn",
    "  format        83 %   tags 91 %, boxed 83 %",
    "  truncated      8 %   at 1,024 tokens",
    "  total         1.25   ± 0.62, group std 0.41",
    "  length       312.0   tokens, longest 999; in a group 97 % differ",
    "  time         2m10s   88.0 tokens/s; the model took 7.5 s to load",
    "",
    "  groups of             4       8",
    "  mixed, by rate     68 %    90 %",
    "  mixed, as seen     34 %       –",
    "  by rate: 1 - p^G - (1-p)^G, p = 0.25; as seen: drawn from these",
    "",
    "  q 2   3 of 4 right",
    "    answer 0",
    "    answer 1",
    "    answer 2",
    "    … 1 more",
    "  note: a note",
]
BARE = [
    "  right            –   no reward separates right from wrong; give --correct NAME>=SCORE",
    "  zero std      67 %   of the groups: all totals equal, nothing to learn",
    "  format           –   no reward checks only the format",
    "  truncated      8 %   at 1,024 tokens",
    "  total         1.25   ± 0.62, group std 0.41",
    "  length       312.0   tokens, longest 999; in a group 97 % differ",
    "  time         2m10s   88.0 tokens/s; the model took 7.5 s to load",
    "",
    "  q 1",
    "    answer 0",
    "    answer 1",
    "    answer 2",
    "    … 1 more",
]


def test_a_baseline_says_what_was_asked_and_every_figure() -> None:
    assert list(heading(BASELINE, 120)) == HEADING
    assert list(lines(BASELINE, GENERATED, 100)) == FIGURES
    bare = replace(BASELINE, judge=None, pass_rate=None, group_sizes=(), forms=(), notes=(), results=tuple(
        replace(result, right=None) for result in BASELINE.results[:1]
    ))  # fmt: skip
    assert list(lines(bare, GENERATED, 100)) == BARE
    text = whole(BASELINE, GENERATED, 120).splitlines()
    assert text[:4] == [*HEADING, "", "  ⚠ few are right"]
    assert text[5:] == list(lines(BASELINE, GENERATED, 120))
    assert "  ✓ no problems found" in whole(replace(BASELINE, findings=()), GENERATED, 120).splitlines()


def test_what_a_figure_of_a_baseline_means_goes_on_below_itself_where_it_does_not_fit() -> None:
    printed = list(lines(BASELINE, GENERATED, 50))
    at = next(place for place, line in enumerate(printed) if line.startswith("  mixed"))
    assert printed[at : at + 3] == [
        "  mixed         33 %   of the groups, 11 % all right,",
        "                       56 % all wrong",
        "  zero std      67 %   of the groups: all totals",
    ]
    told = " ".join(" ".join(printed).split())
    assert all(" ".join(line.split()) in told for line in FIGURES[:8])


def test_how_far_a_baseline_is_is_one_line() -> None:
    told = (
        Progress("loading org/model"),
        Progress("scoring", of=1),
        Progress("generating", 1_000, 2_000),
        Progress("generating", 10, 20, 500, 4.0),
    )
    assert [progress(now) for now in told] == [
        "loading org/model",
        "scoring 1 completion",
        "generating: 1,000 of 2,000 completions",
        "generating: 10 of 20 completions, 125.0 tokens/s",
    ]


# -- course -----------------------------------------------------------------------------------------------

STRETCHES = (
    Stretch(1, 10, 0.0, 0.5, 0.125, 6, 0.99, 0.02, 100.0, 120.0, (0.75, 0.25), 0.0),
    Stretch(11, 20, 0.25, 0.25, 0.0, 6, 0.95, 0.05, 140.0, 160.0, (0.6, None), 0.125),
    Stretch(21, 1_030, 0.75, 0.0, 0.0, 6, 0.91, 0.08, 180.0, 200.0, (0.5,), 0.0),
)
PROBED = (
    ProbeStep(0, 4, 0.25, (0.1, None), 0.5),
    ProbeStep(50, 4, 0.5, (0.3, 0.4), 0.25),
    ProbeStep(1_000, 8, 2.75, (0.9, 0.8), 0.0),
)
VISITS = (
    Visit(3, 1, 1, "train", 0.25, 0.1, "first text", 0.5),
    Visit(9, 1_200, 1, "eval", 1.75, 0.2, None, None),
    Visit(7, 30, 1, "train", None, None, "a\nb", 3.0),
)


COURSE = [
    "  groups by kind   ▲ all right   ░ mixed: teaches   · zero std   ✂ masked   ▼ all wrong",
    " 100 % ░░░▲▲▲▲▲▲",
    "       ░░░▲▲▲▲▲▲",
    "       ░░░░░░▲▲▲",
    "       ···░░░▲▲▲",
    "  50 % ▼▼▼░░░▲▲▲",
    "       ▼▼▼✂✂✂▲▲▲",
    "       ▼▼▼▼▼▼░░░",
    "   0 % ▼▼▼▼▼▼░░░",
    "       step 1 step 1,030",
    "",
    "                                     first     last   over the run",
    "  different texts in a group          99 %     91 %   ▇▇▆",
    "  repeated runs of 4 words             2 %      8 %   ▁▁▁",
    "  tokens, advantage above 0          100.0    180.0   ▁▄▇",
    "  tokens, advantage below 0          120.0    200.0   ▁▄▇",
    "  correct, contribution               75 %     50 %   ▅▅▄",
    "  form, contribution                  25 %     25 %   ▃",
]
PROBES = [
    "  8 answers at each of 3 steps, 0 to 1,000",
    "                                     first     last   over the run",
    "  mean total                          0.25     2.75   ▁▂▇",
    "  correct                             0.10     0.90   ▁▂▇",
    "  form                                0.40     0.80    ▁▇",
    "  truncated                           50 %      0 %   ▄▃▁",
]
VISITED = [
    "       step    mean    best  best completion",
    "         30       –    3.00  a⏎b",
    "  ❙   1,200    1.75       –  – eval",
    "          1    0.25    0.50  first text",
]


def test_a_course_has_a_column_for_each_stretch_and_a_line_for_each_figure() -> None:
    assert said(course_lines(STRETCHES, ["correct", "form"], 100)) == COURSE
    unmasked = [replace(stretch, masked=None) for stretch in STRETCHES]
    assert "masked" not in said(course_lines(unmasked, [], 100))[0]
    assert said(course_lines([replace(STRETCHES[0], flat=None)], [], 100))[0].endswith("which groups teach.")
    narrow = said(course_lines(STRETCHES, ["correct"], 60))
    assert narrow[0] == "  groups   ▲ all right   ░ mixed   · zero std   ✂ masked   ▼ all wrong"
    assert said(probe_lines(PROBED, ["correct", "form"], 100)) == PROBES
    assert said(visit_lines(VISITS, 9, 60)) == VISITED


# -- what if ----------------------------------------------------------------------------------------------

TURNED = WhatIf(
    (
        FunctionTurn("same", 0, 1.0, 1.0), FunctionTurn("moved", 1, 0.25, 0.75),
        FunctionTurn("gone", 2, 0.5, None),
        FunctionTurn("fresh", 3, None, 0.125), FunctionTurn("broken", 4, 0.3, None, "ValueError: no"),
    ),
    (
        GroupTurn(11, 1_001, "alive?", (1.0, 2.0), (3.0, 4.0), (0.0,), (1.0,), (0, 1), False, "alive"),
        GroupTurn(12, 2, "dead?", (1.0, None), (0.25, 0.25), (1.0, -1.0), (0.0, 0.0), (), True, "dead"),
        GroupTurn(13, 3, "turned?", (1.0, 2.0), (2.0, 1.5), (1.0, -1.0), (-1.0, 1.0), (0,), True, ""),
        GroupTurn(14, 4, "moved?", (1.0, 2.0), (1.0, 2.5), (1.0, -1.0), (1.0, -1.0), (1,), False, ""),
        GroupTurn(15, 5, "quiet?", (1.0, 2.0), (1.0, 2.0), (1.0, -1.0), (1.0, -1.0), (), False, ""),
    ),
    1_500, 21, 32, 43, 54, 0.875, ("a note " * 16,),
)  # fmt: skip


WHAT_IF = [
    "  function                             then      now   scores that change",
    "  same                                 1.00     1.00   0 scores",
    "  moved                                0.25     0.75   1 score",
    "  gone                                 0.50        –   only in the run",
    "  fresh                                   –     0.12   is new",
    "  broken                               0.30        –   ValueError: no",
    "",
    "  21 of 1,500 completions change their total",
    "  32 of 5 groups change order",
    "  43 groups would start to teach, 54 would stop",
    "  rank correlation of the advantages 0.875   1: same order, 0: unrelated",
    "  ⚠ a note a note a note a note a note a note a note a note a note a note a note a note a note a",
    "    note a note a note",
    "",
    "     group    step    then     now  prompt",
    "        11   1,001    1.50    3.50  alive?   ▲ would teach",
    "        12       2    1.00    0.25  dead?   ▼ would teach nothing",
    "        13       3    1.50    1.75  turned?   new order",
    "        14       4    1.50    1.75  moved?",
]


def test_what_would_turn_is_told_by_function_in_sum_and_by_group() -> None:
    assert said(what_if_lines(TURNED, 100)) == WHAT_IF
    assert said(what_if_lines(TURNED, 100, 3))[-2:] == [WHAT_IF[-2], "  and 1 more"]
    still = said(what_if_lines(replace(TURNED, groups=TURNED.groups[4:], correlation=None), 100))
    assert still[-1] == "  No group changes."
    assert "  rank correlation of the advantages –   1: same order, 0: unrelated" in still
    assert said(what_if_lines(TURNED, 68))[0].endswith("now   scores that change")


# -- tokens -----------------------------------------------------------------------------------------------

TOKENS = TokenScores(
    (
        Token(1, "So", False, -0.05, 0.25, 1, "So", -0.05, -0.5, 0.0125),
        Token(2, " two", False, -3.0, 1.5, 12, " one", -0.75, -1.0, 0.5),
        Token(3, "\n", False, -9.5, 2.5, 4_321, "!", -1.25, -4.0, 1.75),
    ),
    "the policy at step 57", "the reference model", 5, 6, True, "the count differs", "PROMPT", 9, 0.9,
    "float32", "cuda:1", 130.0,
)  # fmt: skip


HEAD = [
    " the policy at step 57 against the reference model",
    " mean log p -4.183, entropy 1.417, KL 0.7542  nats a token",
    " 5 tokens, log p at temperature 1; the run samples at 0.9; float32, cuda:1, 2m10s",
    " ⚠ only the first 2,048 of 5 tokens were scored",
    " ⚠ these may differ from the generated tokens: the count differs",
]
HEAT = ["So│ two│⏎│", "   3    +"]
SURPRISING = [
    "     at  token                          p   log p   rank  entropy      KL  more likely",
    "      3  ⏎                           7e-5   -9.50  4,321     2.50    1.75  ! 28.7 %",
    "      2   two                         5 %   -3.00     12     1.50    0.50   one 47.2 %",
    "      1  So                        95.1 %   -0.05      1     0.25    0.01",
]
ALONE = [
    " mean log p -4.183, entropy 1.417  nats a token",
    " 3 tokens, log p at temperature 1; the run samples at 0.9; float32, cuda:1, 2m10s",
]


def test_tokens_have_a_head_their_surprise_and_the_most_surprising_ones() -> None:
    assert said(head_lines(TOKENS, 100)) == HEAD
    assert said(heat_lines(TOKENS, 40)) == HEAT
    assert said(surprising_lines(TOKENS, 100)) == SURPRISING
    alone = replace(TOKENS, base="", of=3, retokenized=False, tokens=tuple(
        replace(token, kl=None, base_logprob=None) for token in TOKENS.tokens
    ))  # fmt: skip
    assert said(head_lines(alone, 100)) == [" the policy at step 57", *ALONE]
    assert "KL" not in said(surprising_lines(alone, 100))[0]
    # Where there is no base, its column leaves its room to the tokens.
    long = replace(
        alone, tokens=tuple(replace(token, text="abcdefghijklmnopqrstuvw") for token in alone.tokens)
    )
    for scores, shown in ((replace(long, base="x"), "abcdef…"), (long, "abcdefghijklmn…")):
        assert f"  {shown} " in said(surprising_lines(scores, 74))[1]
    assert math.isnan(replace(TOKENS, tokens=()).mean_logprob)


@pytest.mark.parametrize("width", [24, 40])
def test_the_name_of_a_long_policy_fills_its_line_and_leaves_a_cell_at_its_end(width: int) -> None:
    lines = said(head_lines(replace(TOKENS, policy="p" * 99), width))
    assert lines[0] == f" {'p' * (width - 3)}…"
    assert max(map(len, lines[2:])) < width


# -- a group ----------------------------------------------------------------------------------------------

GROUP = StoredGroup(
    7, 2, 3, 1, 4, "eval", 5, 6, 8.5, [{"role": "user", "content": " What?\n"}], "key",
    {"answer": 42, "level": [1, "é"]}, 0.75, 0.25,
    (
        Completion(0, "same", (1.0, None), 0.5, -0.5, 11, False, {"why": "a"}),
        Completion(1, "same", (0.25, 0.75), 1.5, 0.5, 12, True, masked=True),
        Completion(2, "other", (0.0, 0.5), None, 0.0, 13, False, messages=[{"content": "m"}]),
    ),
    ("right", "form"),
)  # fmt: skip


CARD = {
    "id": 7,
    "attempt": 2,
    "step": 5,
    "last_step": 6,
    "mode": "eval",
    "prompt": " What?\n",
    "prompt_key": "key",
    "messages": (("user", " What?\n"),),
    "gold": "42",
    "columns": (("answer", "42"), ("level", '[1, "é"]')),
    "mean": 0.75,
    "spread": 0.25,
    "kind": "mixed",
    "distinct": 0.6666666666666666,
    "truncated": 1,
    "best": 1,
    "worst": 0,
    "functions": ("right", "form"),
    "rows": (
        {
            "index": 0,
            "text": "same",
            "total": 0.5,
            "advantage": -0.5,
            "tokens": 11,
            "truncated": False,
            "rewards": (1.0, None),
            "same_as": None,
            "extra": (("why", "a"),),
            "masked": False,
        },
        {
            "index": 1,
            "text": "same",
            "total": 1.5,
            "advantage": 0.5,
            "tokens": 12,
            "truncated": True,
            "rewards": (0.25, 0.75),
            "same_as": 0,
            "extra": (),
            "masked": True,
        },
        {
            "index": 2,
            "text": "m",
            "total": None,
            "advantage": 0.0,
            "tokens": 13,
            "truncated": False,
            "rewards": (0.0, 0.5),
            "same_as": None,
            "extra": (),
            "masked": False,
        },
    ),
}


def test_a_group_is_shown_with_everything_that_was_recorded_of_it() -> None:
    card = group_card(GROUP, (0.0, 2.0))
    assert asdict(card) == CARD
    absent = group_card(GROUP, None, ("tokens", "truncated"))
    assert [(row.tokens, row.truncated) for row in absent.rows] == [(None, None)] * 3
    assert absent.truncated == 0
    assert group_card(replace(GROUP, prompt="plain"), None).messages == (("", "plain"),)
    assert (len(bars(card, (0.0, 2.0))), bars(card, None)) == (2, "▄▄")
    shown = tuple(replace(one, extra={}, messages=None) for one in GROUP.completions)
    slim = group_view(GROUP)
    assert slim == replace(GROUP, prompt="What?", completions=shown, columns=slim.columns)
    assert (gold_of(slim.columns), len(slim.columns)) == ("42", 1), "many are kept, so nothing more is"


def test_figures_of_the_newest_step_leave_older_ones_and_evaluations_out() -> None:
    fold = GroupFold()
    assert (fold.newest_prompt, fold.newest_step(), fold.spread_now()) == (None, [], None)
    train = replace(GROUP, mode="train", id=8)
    flat = tuple(replace(c, total=1.0, advantage=0.0, masked=False) for c in GROUP.completions)
    other = replace(train, id=9, index=1, std=0.75, prompt="newest", completions=flat)
    fold.add([replace(train, id=1, batch=2, step=4, std=9.0), train, other, GROUP])
    assert [group.id for group in fold.newest_step()] == [8, 9]
    assert fold.newest_prompt == "newest"
    assert (fold.spread_now(), fold.flat_share(), fold.masked_share()) == (0.5, 0.5, 1 / 6)
    assert fold.function_means(("right", "form")) == [(1.25 * 2) / 6, 1.25 / 2]
    assert fold.function_means(("right", "style")) == [None, None], "other functions scored these"
    assert [view.id for view in fold.views()] == [9, 8, 1]
