"""What each rule says of a run in which it holds, and each of its limits: just inside, and just outside."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from grpo_tui.core.findings import RULES, Finding
from grpo_tui.core.records import EFFECTIVE, LEFT_OUT, TOOLS
from grpo_tui.health.doctor import COUNTS, Doctor
from grpo_tui.health.facts import GroupFacts, Observation, Settings
from grpo_tui.health.machine_rules import GPU_MEMORY, GPU_RETRIES, LENGTH, LONGEST, MEMORY, PHASES
from grpo_tui.health.policy_rules import MISMATCH, WEIGHT, WORST
from grpo_tui.health.reading import KEYS
from tests.health.test_rules import FAULTS, MIXED, NO_SIGNAL, ONE, TWO, Metrics, climbs, group, learns_form

Groups = Callable[[int], Sequence[GroupFacts]]
USUAL = {"reward": 0.5, "reward_std": 1.0, "learning_rate": 1e-5, "grad_norm": 0.3, "entropy": 0.5}
WRONG, RIGHT = group([(0.0,)] * 4), group([(1.0,)] * 4)
ALIKE, STUCK = group([(0.0,)] * 4, texts=["the"] * 4), group([(0.0, 0.0), (1.0, 0.0)] * 2, TWO)
LOUD = Settings(weights=(1.0, 1.0), names=("loud", "quiet"))
QUIET = group([(0.0, 1.0), (40.0, 0.0), (13.0, 0.0), (27.0, 1.0)], LOUD)
LOOPS = group([(0.0,), (1.0,)], texts=["one two three four " * 20] * 2)
PROSE = group([(0.0,), (1.0,)], texts=[" ".join(f"word{n}" for n in range(40))] * 2)
NO_END = group([(0.0,), (1.0,)] * 4, texts=["<answer>4</answer> " + "and so on " * 9] * 8, truncated=True)
JUDGED = Settings(weights=(1.0, 1.0), names=("judge", "correct"))
NOISY = group([(0.0,), (1.0,), (1.0,), (2.0,)], texts=["a", "a", "b", "b"])


@dataclass(frozen=True)
class Scene:
    """A run, step by step."""

    steps: int
    metrics: Metrics = lambda *_: {}
    groups: Groups = lambda _: (MIXED,) * 4
    settings: Settings = ONE
    seconds: Callable[[int], dict[str, float]] = lambda _: {}
    failed: Callable[[int], dict[int, int]] = lambda _: {}
    ranks: Callable[[int], dict[int, float]] = lambda _: {}

    def told(self, rule: str, **limits: float) -> Finding | None:
        """What one rule says at the end, with other limits."""
        found = self.judged({**dict.fromkeys(RULES), rule: limits})
        return next((one for one in found if "It ended at" not in one.message), None)

    def judged(self, limits: Any) -> list[Finding]:
        """What the rules say at the end with these limits."""
        doctor, chance = Doctor(self.settings, limits), random.Random(5)
        for step in range(1, self.steps + 1):
            values = USUAL | self.metrics(step, chance)
            missing = frozenset(key for key, value in values.items() if not math.isfinite(value))
            groups = tuple(self.groups(step))
            doctor.see(
                Observation(
                    step,
                    step,
                    values,
                    missing,
                    groups,
                    self.seconds(step),
                    self.failed(step),
                    self.ranks(step),
                )
            )
        return doctor.findings()


def each(facts: GroupFacts) -> Groups:
    """Four groups of this kind at each step."""
    return lambda _: (facts,) * 4


def visited(first: GroupFacts, prompts: int = 3) -> Groups:
    """Groups of some prompts of which each always gets the same, one with a signal, and one seen once."""
    always = [MIXED, *(replace(first, prompt=f"prompt {n}") for n in range(prompts))]
    return lambda step: [*always, replace(first, prompt="once")] if step == 1 else always


def falling_silent(step: int) -> list[GroupFacts]:
    none: list[tuple[float | None, ...]] = [(1.0, None), (0.0, None), (1.0, 1.0), (0.0, None)]
    return [group(none if step >= 30 else [(1.0, 1.0), (0.0, 0.0)] * 2, TWO)] * 4


def longer(step: int, earns: float = 0.01, correct: float = 0.0) -> list[GroupFacts]:
    """Lengths grow by 2 a step, a judge pays by length, and `correct` is what answers gain by step 80."""
    tokens = [100 + 2 * step + 20 * n for n in range(4)]
    rewards = [(earns * length, correct * step / 80) for length in tokens]
    return [group(rewards, JUDGED, tokens=tokens)] * 4


def paid(step: int, chance: random.Random) -> dict[str, float]:
    return {"reward": 1.3 + 0.02 * step + chance.gauss(0, 0.02), LENGTH: 130.0 + 2 * step}


def slow(step: int) -> float:
    return 5.0 if step >= 40 else 2.0


TRACKED = (*KEYS, TOOLS + "run/calls", TOOLS + "run/failed", TOOLS + "run/seconds")
MEANS = ("rewards/format/mean", "rewards/correct/mean")
COMMANDED = ("learning_rate", "epsilon_high", "temperature", "reward_weights")
"""Settings that a command changes while a run trains."""
SCENES: dict[str, Scene] = {
    **{
        cause: Scene(20, groups=each(facts), settings=TWO if len(facts.functions) == 2 else ONE)
        for cause, facts in NO_SIGNAL.items()
    },
    "signal.identical": Scene(20, groups=lambda step: [ALIKE if step > 2 else MIXED] * 4),
    "signal.prompt-only": Scene(20, groups=lambda _: (WRONG, RIGHT) * 2),
    "signal.all-wrong": Scene(20, groups=lambda step: [MIXED if step < 3 else WRONG] * 4),
    "signal.all-correct": Scene(9, groups=lambda step: [RIGHT, RIGHT, RIGHT, WRONG if step == 1 else RIGHT]),
    "signal.equal": Scene(20, groups=lambda step: [MIXED if step < 3 else group([(0.5,)] * 4)] * 4),
    "signal.reward-stuck": Scene(30, groups=each(STUCK), settings=TWO),
    "signal.reward-random": Scene(20, groups=each(NOISY)),
    "signal.reward-drowned": Scene(30, groups=each(QUIET), settings=LOUD),
    "signal.reward-saturated": Scene(60, groups=lambda step: [MIXED if step < 3 else RIGHT] * 4),
    "signal.format-only": Scene(
        150, groups=lambda step: [learns_form(step, answers=False)] * 4, settings=TWO
    ),
    "signal.prompts-unsolved": Scene(5, groups=visited(WRONG)),
    "signal.prompts-solved": Scene(5, groups=visited(RIGHT)),
    **{rule: Scene(steps, metrics) for rule, (steps, metrics) in FAULTS.items()},
    "policy.noise": Scene(20, lambda *_: {"entropy": 3.8}, settings=replace(ONE, temperature=3.0)),
    "policy.clipped": Scene(25, lambda *_: {"clip_ratio/region_mean": 0.4}),
    "policy.capped": Scene(25, lambda *_: {"cispo_clip_ratio": 0.5}, settings=replace(ONE, epsilon_high=0.2)),
    "policy.length-bought": Scene(80, paid, longer, JUDGED),
    "policy.repetition": Scene(30, groups=lambda step: [PROSE if step < 9 else LOOPS] * 4),
    "policy.no-end-token": Scene(15, groups=each(NO_END)),
    "machine.slow-step": Scene(
        80,
        lambda step, _: {"step_time": slow(step)},
        seconds=lambda step: {"generate": 1.0, "reward": slow(step) - 1.5, "update": 0.5},
    ),
    "machine.throughput": Scene(
        120,
        lambda step, _: {LENGTH: 100.0 + step / 4, LONGEST: 400.0},
        seconds=lambda step: {"generate": 1 + step / 40, "reward": 0.5, "update": 1.0},
    ),
    "machine.slow-reward": Scene(15, lambda *_: {"step_time": 5.0}, seconds=lambda _: {"reward": 3.0}),
    "machine.reward-fails": Scene(60, groups=falling_silent, settings=TWO),
    "machine.lagging-rank": Scene(
        30,
        lambda *_: {"step_time": 8.0},
        ranks=lambda step: {0: 4.0, 1: 4.1, 2: 6.0 if step % 10 else 3.0, 3: 4.2},
    ),
}

TOLD: dict[str, tuple[str, str]] = {
    "signal.masked": (
        "error: step 1..20 and masked",
        (
            "Every completion is truncated in 100 % of the groups of the last 10 steps, so nothing is "
            "learned from them."
        ),
    ),
    "signal.not-finite": (
        "error: step 1..20 and zero_std",
        "They leave 100 % of the groups of the last 10 steps without a signal.",
    ),
    "signal.unscored": (
        "error: step 1..20 and reward is none",
        "No reward function scored 100 % of the groups of the last 10 steps.",
    ),
    "signal.cancels": (
        "error: step 1..20 and zero_std",
        "Scores differ and totals do not in 100 % of the groups of the last 10 steps.",
    ),
    "signal.identical": (
        "error: step 3..20 and zero_std",
        "All completions are the same text in 100 % of the groups of the last 10 steps.",
    ),
    "signal.constant": (
        "error: step 1..20 and zero_std",
        "Every completion of the run got 0, so no group has a signal.",
    ),
    "signal.prompt-only": (
        "error: step 1..20 and zero_std",
        "Completions of one prompt always get the same score, although their texts differ.",
    ),
    "signal.all-wrong": (
        "error: step 3..20 and all_wrong",
        "All completions got the lowest total of the run, 0, in 100 % of the groups of the last 10 steps.",
    ),
    "signal.all-correct": (
        "warning: step 1..9 and all_right",
        "All completions got the highest total of the run, 1, in 88.9 % of the groups of the last 9 steps.",
    ),
    "signal.equal": (
        "warning: step 3..20 and zero_std",
        "Totals are equal in 100 % of the groups of the last 10 steps, so these have no signal.",
    ),
    "signal.reward-stuck": (
        "warning: step 1..30",
        "correct gave 0 to each of 480 completions.",
    ),
    "signal.reward-random": (
        "warning: step 1..20",
        (
            "correct gave different scores to 80 completions that repeat a text of their group. Their "
            "variance is 75 % of the variance within groups."
        ),
    ),
    "signal.reward-drowned": (
        "warning: step 1..30",
        "loud spans 40 after its weight, quiet only 1. quiet contributes 0 % of the variance.",
    ),
    "signal.reward-saturated": (
        "info: step 2..60",
        "correct is 1 on average, and its highest value is 1.",
    ),
    "signal.format-only": (
        "warning: step 40..150",
        "format rose from 0 to 1, correct stayed at 0.125.",
    ),
    "signal.prompts-unsolved": (
        "info: step 1..5",
        "3 of 4 prompts visited at least 4 times got the lowest total in every completion.",
    ),
    "signal.prompts-solved": (
        "info: step 1..5",
        "3 of 4 prompts visited at least 4 times got the highest total in every completion.",
    ),
    "policy.broke": (
        "error: step 3..12; learning_rate=1e-06",
        (
            "The reward went from 0.6 to 0.02, truncated from 0 % to 100 %, length from 90 to 400, "
            "entropy from 0.3 to 0.01."
        ),
    ),
    "policy.reward-fell": (
        "warning: step 74..120; learning_rate=3.3e-06",
        "The reward fell from 1.94 around step 64 to 0.588.",
    ),
    "policy.collapse": (
        "error: step 12..60; learning_rate=3.3e-06",
        "Entropy fell from 0.409 to 0.0126, while the reward went from 0.443 to 0.5.",
    ),
    "policy.noise": (
        "warning: step 1..20; temperature=1",
        (
            "Entropy is 3.8 nats, as if each token were one of 45 equally likely ones, while the reward went "
            "from 0.5 to 0.5."
        ),
    ),
    "policy.truncation": (
        "warning: step 1..15 and truncated",
        "70 % of the completions of the last 10 steps are truncated.",
    ),
    "policy.length-runaway": (
        "warning: step 22..80",
        "Mean length grew from 109 to 312 tokens, while the reward went from 0.385 to 0.538.",
    ),
    "policy.length-bought": (
        "warning: step 26..80",
        (
            "The reward rose from 1.33 to 2.72 and mean length from 136 to 271 tokens. Within groups, longer "
            "completions earn more (correlation 1), which explains 97.6 % of the rise."
        ),
    ),
    "policy.repetition": (
        "warning: step 9..30",
        "The share of repeated runs of four words went from 0 % to 94.8 %.",
    ),
    "policy.no-end-token": (
        "warning: step 1..15 and truncated",
        "100 % of the completions are truncated, and 100 % of these hold a final answer in their first half.",
    ),
    "policy.kl": (
        "warning: step 40..60; learning_rate=3.3e-06",
        "kl went from 0.0133 to 1.99, while the reward is 0.5 and its best was 0.529.",
    ),
    "policy.clipped": (
        "warning: step 1..25; learning_rate=3.3e-06",
        "On average 40 % of the tokens of the last 20 steps were clipped.",
    ),
    "policy.capped": (
        "info: step 1..25; epsilon_high=5",
        "On average 50 % of the tokens of the last 20 steps were above epsilon_high, 0.2.",
    ),
    "policy.mismatch": (
        "warning: step 29..60",
        (
            "On average, vLLM and the trainer differ by 0.717 in the log-probability of a token, and the "
            "mean importance weight is 1. The worst token of these 10 steps differs by 4."
        ),
    ),
    "policy.gradient-nan": (
        "error: step 19..20; learning_rate=3.3e-06",
        "grad_norm was NaN or infinite in 2 of the last 10 steps.",
    ),
    "policy.gradient-spikes": (
        "warning: step 15..60; max_grad_norm=0.2, learning_rate=3.3e-06",
        "grad_norm was above 3 in 4 of the last 50 steps. The highest is 40, the median 0.3.",
    ),
    "policy.gradient-zero": (
        "error: step 1..15",
        "No gradient in the last 10 steps, while 100 % of the groups have a signal.",
    ),
    "policy.learning-rate-ended": (
        "warning: step 80..100",
        "learning_rate is 0 at step 100 of 400. Its highest value was 9.88e-06.",
    ),
    "policy.learning-rate-low": (
        "warning: step 1..200 and mixed; learning_rate=3e-05",
        "After 200 steps the reward is 0.482, 0.385 at the start. Entropy is 0.5, 0.5 at the start.",
    ),
    "policy.held-out": (
        "warning: step 49..130",
        "eval_reward fell from 0.68 at step 48 to 0.32, while the training reward rose from 0.716 to 2.12.",
    ),
    "machine.slow-step": (
        "warning: step 40..80",
        "A step takes 5 s, 2 s at the start. Most of it is reward: 0.5 to 3.5 s.",
    ),
    "machine.throughput": (
        "warning: step 52..120",
        (
            "Generating and updating take 4.51 s a step, 2.08 s at the start, while completions are 1.24 "
            "times as long."
        ),
    ),
    "machine.slow-reward": (
        "warning: step 1..15",
        "Rewards take 3 s of a step of 5 s (60 %).",
    ),
    "machine.reward-fails": (
        "warning: step 30..60",
        "correct returned None for 75 % of the completions, 0 % at the start.",
    ),
    "machine.tools": (
        "warning: step 40..60",
        "75 % of the calls of search in the last 15 steps failed, 6.25 % at first.",
    ),
    "machine.memory": (
        "warning: step 5..40",
        (
            "97 % of the GPU's memory is in use, and in 4 of the last 20 steps torch had to release its "
            "cache before it could allocate more."
        ),
    ),
    "machine.lagging-rank": (
        "warning: step 1..30",
        "Rank 2 generates for 6 s a step, the others for 4.1 s and then wait.",
    ),
}
"""Severity, the completions concerned and the settings to change; then what is said after the title."""
LIMITS: dict[str, dict[str, tuple[float, float]]] = {
    "signal.masked": {"steps": (4, 3), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.not-finite": {"groups": (40, 41), "share": (1.0, 1.001)},
    "signal.unscored": {"steps": (4, 3), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.cancels": {"steps": (4, 3), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.identical": {"steps": (17, 18), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.constant": {"steps": (4, 3), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.prompt-only": {"steps": (10, 9), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.all-wrong": {"steps": (17, 18), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.all-correct": {"steps": (4, 3), "groups": (28, 29), "share": (1.0, 1.001)},
    "signal.equal": {"steps": (17, 18), "groups": (40, 41), "share": (1.0, 1.001)},
    "signal.reward-stuck": {"steps": (28, 29), "completions": (448, 449)},
    "signal.reward-random": {"steps": (3, 2), "repeats": (80, 81), "share": (0.75, 0.751)},
    "signal.reward-drowned": {
        "steps": (28, 29),
        "ratio": (40, 40.02),
        "moves": (1.0, 1.001),
        "contribution": (-0.01373, -0.01375),
    },
    "signal.reward-saturated": {"steps": (58, 59), "margin": (0, -0.001), "moves": (0, -0.001)},
    "signal.format-only": {
        "steps": (74, 75),
        "rise": (1.0, 1.001),
        "ceiling": (1.0, 1.001),
        "solved": (0.1252, 0.125),
    },
    "signal.prompts-unsolved": {"prompts": (3, 4), "visits": (5, 6)},
    "signal.prompts-solved": {"prompts": (3, 4), "visits": (5, 6)},
    "policy.broke": {"steps": (10, 11), "drop": (0.966, 0.967), "spread": (0.5798, 0.5806)},
    "policy.reward-fell": {
        "steps": (39, 40),
        "errors": (43.18, 43.24),
        "drop": (0.7388, 0.7402),
        "spread": (1.289, 1.291),
    },
    "policy.collapse": {"least": (58, 59), "share": (0.03516, 0.03511)},
    "policy.noise": {"least": (18, 19), "level": (3.8, 3.801)},
    "policy.truncation": {"steps": (13, 14), "share": (0.7, 0.701)},
    "policy.length-runaway": {"least": (78, 79), "ratio": (2.801, 2.804)},
    "policy.length-bought": {
        "least": (78, 79),
        "ratio": (1.963, 1.964),
        "gain": (1.341, 1.342),
        "correlation": (0.9999, 1.0001),
        "earned": (0.0239, 0.0237),
    },
    "policy.repetition": {
        "steps": (4, 3),
        "groups": (40, 41),
        "share": (0.9473, 0.9482),
        "rise": (0.948, 0.9498),
    },
    "policy.no-end-token": {
        "steps": (4, 3),
        "groups": (40, 41),
        "share": (1.0, 1.001),
        "answered": (1.0, 1.001),
    },
    "policy.kl": {"steps": (25, 26), "least": (58, 59), "level": (1.639, 1.642), "ratio": (123.1, 123.3)},
    "policy.clipped": {"steps": (23, 24), "share": (0.4, 0.401)},
    "policy.capped": {"steps": (23, 24), "share": (0.5, 0.501)},
    "policy.mismatch": {"steps": (58, 59), "level": (0.614, 0.618), "ratio": (48.6, 48.9)},
    "policy.gradient-nan": {"count": (2, 3)},
    "policy.gradient-spikes": {
        "steps": (36, 35),
        "least": (50, 51),
        "count": (3, 4),
        "ratio": (133.3, 133.5),
        "level": (39.98, 40),
    },
    "policy.gradient-zero": {"steps": (13, 14), "share": (1.0, 1.001)},
    "policy.learning-rate-ended": {"steps": (19, 20), "share": (0, -0.001), "remaining": (0.7719, 0.7729)},
    "policy.learning-rate-low": {"least": (198, 199), "share": (1.0, 1.001)},
    "policy.held-out": {"evaluations": (5, 6), "spread": (0.3599, 0.3601), "errors": (56.48, 56.49)},
    "machine.slow-step": {"least": (78, 79), "ratio": (2.5, 2.501), "seconds": (5.0, 5.005)},
    "machine.throughput": {"least": (118, 119), "ratio": (1.738, 1.739), "seconds": (4.462, 4.463)},
    "machine.tools": {
        "steps": (29, 30),
        "least": (58, 59),
        "calls": (120, 121),
        "share": (0.75, 0.751),
        "rise": (0.6875, 0.688),
    },
    "machine.memory": {"steps": (13, 12), "share": (0.97, 0.971), "retries": (4, 5)},
    "machine.lagging-rank": {
        "steps": (15, 14),
        "least": (20, 21),
        "share": (0.9, 0.901),
        "ratio": (1.463, 1.464),
        "seconds": (1.899, 1.901),
        "part": (0.2374, 0.2376),
    },
    "machine.reward-fails": {"share": (0.75, 0.751), "rise": (0.75, 0.751)},
    "machine.slow-reward": {"steps": (13, 14), "share": (0.6, 0.601), "seconds": (3.0, 3.004)},
}
"""By rule and limit: a value with which it still reports, and the next with which it does not."""


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_tells_its_numbers_its_completions_and_its_remedies(rule: str) -> None:
    found = SCENES[rule].told(rule)
    assert found is not None
    first, *others = found.remedies
    changes = ", ".join(f"{other.field}={other.value:g}" for other in others)
    head = f"{found.severity}: {found.evidence['completions']}" + (f"; {changes}" if changes else "")
    assert (head, found.message) == (TOLD[rule][0], f"{RULES[rule].title}. {TOLD[rule][1]}")
    assert first.text == RULES[rule].remedy
    assert [one.live for one in others] == [one.field in COMMANDED for one in others]
    assert f"step {found.first_step}..{found.last_step}" in head


@pytest.mark.parametrize("rule", LIMITS)
def test_each_limit_of_a_rule_parts_what_it_reports_from_what_it_does_not(rule: str) -> None:
    for limit, (inside, outside) in LIMITS[rule].items():
        assert SCENES[rule].told(rule, **{limit: inside}) is not None, f"{limit} {inside}"
        assert SCENES[rule].told(rule, **{limit: outside}) is None, f"{limit} {outside}"


@pytest.mark.parametrize("rule", RULES)
def test_a_limit_of_0_lets_no_rule_report_what_was_not_recorded(rule: str) -> None:
    few = Scene(3, lambda *_: {"step_time": 1.0, LENGTH: 5.0}, groups=lambda _: ())
    for limit in sorted(COUNTS & RULES[rule].limits.keys()):
        assert few.told(rule, **{limit: 0.0}) is None, limit


EXTREMES = (0.0, 5e-324, 1e308)
EMPTY = group([(0.0,)] * 4, texts=[""] * 4, tokens=[0] * 4)
NOTHING = Scene(
    60,
    lambda *_: dict.fromkeys(TRACKED, 0.0),
    groups=each(EMPTY),
    seconds=lambda _: dict.fromkeys(PHASES, 0.0),
    ranks=lambda _: {0: 0.0, 1: 0.0},
)
FADING = replace(
    NOTHING,
    metrics=lambda step, _: dict.fromkeys(TRACKED, float(step < 30)) | dict.fromkeys(MEANS, math.nan),
    groups=lambda _: (),
)
RUNS = (Scene(80, climbs), NOTHING, FADING)


@pytest.mark.parametrize("rule", RULES)
def test_no_limit_that_a_config_may_set_makes_a_rule_fail(rule: str) -> None:
    for limit in RULES[rule].limits:
        for value in (1.0, 50.0) if limit == "steps" else EXTREMES:
            for scene in (SCENES[rule], *RUNS):
                scene.told(rule, **{limit: value})


@pytest.mark.parametrize("value", EXTREMES)
def test_all_limits_at_once_make_no_rule_fail(value: float) -> None:
    limits = {name: dict.fromkeys(rule.limits, value) for name, rule in RULES.items()}
    for steps in (1.0, 50.0):
        for scene in (*SCENES.values(), *RUNS):
            scene.judged({name: {**one, "steps": steps} for name, one in limits.items()})


@pytest.mark.parametrize("value", [1e308, -1e308, 1e5, -1.0])
def test_no_value_that_a_run_may_log_makes_a_rule_fail(value: float) -> None:
    def logs(step: int, chance: random.Random) -> dict[str, float]:
        return dict.fromkeys(TRACKED, value * (0.5 if step < 20 else 1.0))

    for rule in RULES:
        replace(NOTHING, metrics=logs).told(rule)


def logged(scene: Scene, key: str, since: int) -> Scene:
    """The same run, in which a metric is logged from a step on."""

    def metrics(step: int, chance: random.Random) -> dict[str, float]:
        return scene.metrics(step, chance) | ({key: math.nan} if step < since else {})

    return replace(scene, metrics=metrics)


@pytest.mark.parametrize("rule", RULES)
def test_what_was_not_logged_is_never_told_as_a_number_or_taken_for_0(rule: str) -> None:
    scene = SCENES[rule]
    for key in USUAL | scene.metrics(24, random.Random(5)):
        for since in (2, 1 + scene.steps):
            found = logged(scene, key, since).told(rule)
            said = found.message.removeprefix(RULES[rule].title).split() if found is not None else []
            assert not {"nan", "-inf", "inf", "nan,", "nan."} & {*said}, (key, since, said)


@pytest.mark.parametrize("flat", [True, False])
def test_evaluations_before_the_first_training_reward_are_not_compared_with_it(flat: bool) -> None:
    def rises(step: int, chance: random.Random) -> dict[str, float]:
        reward = 0.8 if flat else 0.2 + step / 100
        logs = {"reward": reward + chance.gauss(0, 0.05) if step % 10 == 0 else math.nan}
        return logs | ({"eval_reward": 0.4 + chance.gauss(0, 0.02)} if step % 5 == 1 or step == 1 else {})

    assert (Scene(120, rises).told("policy.held-out") is None) == flat


def test_equal_texts_with_equal_scores_are_no_sign_of_a_random_reward() -> None:
    same = group([(0.0,), (0.0,), (1.0,), (1.0,)], texts=["a", "a", "b", "b"])
    judged = group([(0.0,), (0.1,), (1.0,), (0.9,)], texts=["a", "a", "b", "b"])
    for facts in (same, judged):
        assert Scene(20, groups=each(facts)).told("signal.reward-random") is None


def test_high_entropy_is_no_noise_while_the_reward_rises() -> None:
    rising = Scene(40, lambda step, _: {"entropy": 3.8, "reward": 0.1 + 0.05 * step})
    assert rising.told("policy.noise") is None


@pytest.mark.parametrize(
    ("key", "level", "by_sequence", "severity"),
    [
        ("clip_ratio/region_mean", 0.15, True, None),
        ("clip_ratio/region_mean", 0.799, True, None),
        ("clip_ratio/region_mean", 0.801, True, "warning"),
        ("clip_ratio/region_mean", 0.31, False, "warning"),
        ("cispo_clip_ratio", 0.45, False, None),
    ],
)
def test_shares_of_clipped_ratios_count_by_what_is_clipped(
    key: str, level: float, by_sequence: bool, severity: str | None
) -> None:
    scene = Scene(30, lambda *_: {key: level}, settings=replace(ONE, by_sequence=by_sequence))
    told = scene.told("policy.clipped")
    assert (told.severity if told is not None else None) == severity
    assert told is None or ("of the sequences of" in told.message) == by_sequence


def test_one_token_that_differs_much_is_no_mismatch() -> None:
    usual = {MISMATCH: 0.012, WORST: 14.0, WEIGHT: 0.98, LEFT_OUT: 0.02, EFFECTIVE: 0.97}
    assert Scene(60, lambda *_: usual).told("policy.mismatch") is None


@pytest.mark.parametrize(
    ("earns", "correct", "reward", "named"),
    [(0.01, 0.0, 0.02, True), (0.01, 0.5, 0.02, False), (0.003, 0.0, 0.02, False), (-0.01, 0.0, 0.02, False)],
    ids=["bought", "answers rise too", "length explains a third", "short ones earn more"],
)
def test_length_that_grows_with_the_reward_counts_only_when_it_earns_it_within_groups(
    earns: float, correct: float, reward: float, named: bool
) -> None:
    scene = Scene(80, paid, lambda step: longer(step, earns, correct), JUDGED)
    assert (scene.told("policy.length-bought") is not None) == named
    without = replace(scene, groups=lambda _: ())
    assert without.told("policy.length-bought") is None


@pytest.mark.parametrize(
    ("names", "severity"),
    [
        (("judge", "tag_format"), "info"),
        (("judge", "style"), "warning"),
        (("judge", "gsm8k"), "warning"),
        (("xml_count", "tag_format"), "warning"),
        (("judge", "gsm8k_format"), "info"),
    ],
)
def test_the_only_reward_of_answers_may_be_one_of_correctness_whatever_its_name(
    names: tuple[str, str], severity: str
) -> None:
    found = Scene(80, paid, longer, replace(JUDGED, names=names)).told("policy.length-bought")
    assert found is not None
    assert found.severity == severity


@pytest.mark.parametrize("names", [("judge", "math_reward"), ("tag_count", "percentage_correct")])
def test_a_function_of_correctness_that_rises_is_known_by_its_name(names: tuple[str, str]) -> None:
    settings = replace(JUDGED, names=names)
    rising = Scene(80, paid, lambda step: longer(step, correct=0.5), settings)
    assert rising.told("policy.length-bought") is None


@pytest.mark.parametrize("high", [5.0, None])
def test_the_cap_of_cispo_is_raised_where_it_is_known_to_be_low(high: float | None) -> None:
    scene = replace(SCENES["policy.capped"], settings=replace(ONE, epsilon_high=high))
    found = scene.told("policy.capped")
    assert found is not None
    assert [one.field for one in found.remedies] == [None]


@pytest.mark.parametrize(
    ("held_out", "named"),
    [
        (lambda step, chance: 0.2 + chance.gauss(0, 0.02), True),
        (lambda step, chance: min(0.8, 0.2 + step / 100) + chance.gauss(0, 0.02), True),
        (lambda step, chance: 0.1 + step / 120 + chance.gauss(0, 0.02), False),
        (lambda step, chance: 0.2 + step / 300 + chance.gauss(0, 0.02), False),
        (lambda step, chance: 3.0 + chance.gauss(0, 0.02), False),
        (lambda step, chance: 0.5 + chance.gauss(0, 1.0), False),
    ],
    ids=["stays", "stays later", "rises", "rises half as much", "is above", "is noise"],
)
def test_a_held_out_reward_that_stays_while_the_training_reward_rises_has_parted(
    held_out: Callable[[int, random.Random], float], named: bool
) -> None:
    def rises(step: int, chance: random.Random) -> dict[str, float]:
        reward = {"reward": 0.2 + step / 100 + chance.gauss(0, 0.05)}
        return reward | ({"eval_reward": held_out(step, chance)} if step % 10 == 0 else {})

    found = Scene(120, rises).told("policy.held-out")
    assert (found is not None) == named
    assert Scene(59, rises).told("policy.held-out") is None, "5 evaluations"


@pytest.mark.parametrize(
    ("limit", "inside", "outside"),
    [("flat", 12, 13), ("gap", 0.8967, 0.8969), ("errors", 28.01, 28.02), ("earned", 0.11315, 0.1131)],
)
def test_each_limit_of_a_held_out_reward_that_stays(limit: str, inside: float, outside: float) -> None:
    def stays(step: int, chance: random.Random) -> dict[str, float]:
        reward = {"reward": 0.2 + step / 100 + chance.gauss(0, 0.05)}
        return reward | ({"eval_reward": 0.2 + step / 1000 + chance.gauss(0, 0.02)} if step % 10 == 0 else {})

    scene = Scene(123, stays)
    assert scene.told("policy.held-out", **{limit: inside}) is not None
    assert scene.told("policy.held-out", **{limit: outside}) is None


def test_a_reward_that_rises_after_the_last_evaluation_has_not_parted() -> None:
    def late(step: int, chance: random.Random) -> dict[str, float]:
        reward = {"reward": 0.2 + max(0, step - 105) / 20 + chance.gauss(0, 0.05)}
        return reward | ({"eval_reward": 0.15 + chance.gauss(0, 0.02)} if step % 15 == 0 else {})

    assert Scene(119, late).told("policy.held-out") is None


def called(calls: float, failed: float, seconds: float) -> dict[str, float]:
    return {f"{TOOLS}run/calls": calls, f"{TOOLS}run/failed": failed, f"{TOOLS}run/seconds": seconds}


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (lambda step: called(8, 6, 1), ""),
        (lambda step: called(8, 6 if step < 40 else 1, 1), ""),
        (lambda step: called(1, float(step >= 40), 1), ""),
        (lambda step: called(8, 0, 1 if step < 40 else 3.9), ""),
        (lambda step: called(8, 0, 2 if step < 40 else 12),
         "A call of run takes 1.5 s, 0.25 s at first."),
        (lambda step: called(8, max(1.0, 8 - step // 6), 1.2 * min(7, step // 6)), ""),
        (lambda step: called(8, max(1.0, 8 - step // 6), min(7, step // 6) * (0.4 if step < 40 else 1.2)),
         "A call of run takes 1.2 s, 0.4 s at first."),
        (lambda step: called(8, 0, 9.6) if step > 20 else called(0, 0, 0), ""),
        (lambda step: called(8, 0, 2 if step < 50 else 12) if step > 20 else called(0, 0, 0),
         "A call of run takes 1.5 s, 0.25 s at first."),
        (lambda step: called(8, 0 if step < 50 else 6, 8) if step > 20 else called(0, 0, 0),
         "75 % of the calls of run in the last 15 steps failed, 0 % at first."),
        (lambda step: called(8, 0, 2) if step < 40 else called(8, 8, 0),
         "100 % of the calls of run in the last 15 steps failed, 0 % at first."),
        (lambda step: called(8, 0, 8 if step < 40 else 12), ""),
        (lambda step: called(8 if step < 40 else 0, 0, 2 if step < 40 else 0), ""),
        (lambda step: {"tools/failure_frequency": 0.1 if step < 40 else 0.7},
         "70 % of the tool calls of the last 15 steps failed, 10 % at the start."),
        (lambda step: {"tools/failure_frequency": 0.7}, ""),
        (lambda step: {"tools/failure_frequency": 0.1 if step < 40 else 0.7, **called(8, 0, 1)}, ""),
    ],
    ids=["always", "learns", "few", "fast", "slower", "learned and as slow", "learned and slower", "late",
         "late and slower", "late and failing", "fails at once", "half as slow", "no longer called", "logged",
         "logged always", "unknown names"],
)  # fmt: skip
def test_a_tool_counts_when_it_has_become_worse(
    metrics: Callable[[int], dict[str, float]], said: str
) -> None:
    found = Scene(70, lambda step, _: metrics(step)).told("machine.tools")
    assert (
        found.message.removeprefix(f"{RULES['machine.tools'].title}. ") if found is not None else ""
    ) == said


@pytest.mark.parametrize(
    ("difference", "weight", "severity"),
    [(0.3, 0.8, "warning"), (0.3, 0.81, None), (0.099, 0.5, None), (1.0, 1.0, "error"), (0.99, 1.0, None)],
)
def test_a_steady_difference_to_vllm_counts_by_the_weight_that_is_lost(
    difference: float, weight: float, severity: str | None
) -> None:
    values = {"sampling_logp_difference": difference, "importance_sampling_ratio": weight}
    found = Scene(30, lambda *_: {f"sampling/{key}/mean": value for key, value in values.items()})
    told = found.told("policy.mismatch")
    assert (told.severity if told is not None else None) == severity


@pytest.mark.parametrize(
    ("left_out", "effective", "named"),
    [(0.5, 0.5, True), (0.499, 0.5, False), (0.0, 0.3, True), (0.0, 0.301, False)],
)
def test_an_ordinary_difference_to_vllm_counts_when_its_weights_leave_out_the_batch(
    left_out: float, effective: float, named: bool
) -> None:
    values = {MISMATCH: 0.012, WEIGHT: 0.9, LEFT_OUT: left_out, EFFECTIVE: effective}
    before = values | {LEFT_OUT: 0.0, EFFECTIVE: 1.0}
    told = Scene(30, lambda step, _: values if step > 10 else before).told("policy.mismatch")
    assert (told is not None) == named
    if told is not None:
        assert (told.severity, told.first_step) == ("warning", 11)
        assert told.message.endswith(f"{100 * left_out:.3g} % of the weights are 0, and the effective sample "
                                     f"size is {100 * effective:.3g} % of the batch.")  # fmt: skip


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (lambda step: {MEMORY: 0.7 + step / 180}, True),
        (lambda step: {MEMORY: min(0.89, 0.7 + step / 200)}, False),
        (lambda step: {MEMORY: 0.85 + step / 500}, False),
        (lambda _: {MEMORY: 0.97, GPU_MEMORY: 0.99, GPU_RETRIES: 4.0}, False),
        (lambda step: {GPU_MEMORY: 0.89, GPU_RETRIES: float(step)}, False),
        (lambda step: {GPU_MEMORY: 0.99, GPU_RETRIES: float(step // 15)}, False),
    ],
)
def test_memory_that_is_full_counts_only_with_a_second_sign(
    values: Callable[[int], dict[str, float]], named: bool
) -> None:
    found = Scene(50, lambda step, _: values(step)).told("machine.memory")
    assert (found is not None) == named
    if found is not None:
        assert found.message.endswith("92.5 % of the machine's memory is in use, 71.7 % at the start.")


@pytest.mark.parametrize(
    ("grows", "severity"),
    [("generate", "warning"), ("update", "warning"), ("reward", None), ("generate update reward", "info")],
)
def test_only_generating_and_updating_count_as_throughput(grows: str, severity: str | None) -> None:
    def seconds(step: int) -> dict[str, float]:
        return {name: 1 + step / 20 * (name in grows) for name in ("generate", "reward", "update")}

    scene = Scene(120, lambda *_: {LENGTH: 100.0, LONGEST: 300.0}, seconds=seconds)
    found = scene.told("machine.throughput")
    assert (found.severity if found is not None else None) == severity


@pytest.mark.parametrize("longer", [LENGTH, LONGEST])
def test_completions_that_become_longer_or_shorter_do_not_lower_the_throughput(longer: str) -> None:
    usual = {LENGTH: 100.0, LONGEST: 300.0}
    grows = Scene(
        120,
        lambda step, _: usual | {longer: usual[longer] * (1 + step / 50)},
        seconds=lambda step: {"generate": 1 + step / 50, "update": 1 + step / 60},
    )
    assert grows.told("machine.throughput") is None
    shrinks = replace(
        grows, metrics=lambda step, _: {LENGTH: 200.0 - step}, seconds=lambda _: {"generate": 2, "update": 2}
    )
    assert shrinks.told("machine.throughput") is None


def test_a_rank_that_is_slowest_by_turns_does_not_lag() -> None:
    turns = Scene(60, ranks=lambda step: {n: 2.0 + 3.0 * (step % 4 == n) for n in range(4)})
    assert turns.told("machine.lagging-rank") is None
    short = Scene(60, ranks=lambda _: {0: 0.1, 1: 0.5})
    assert short.told("machine.lagging-rank") is None
    alone = Scene(60, ranks=lambda _: {0: 9.0})
    assert alone.told("machine.lagging-rank") is None


def level(step: int, chance: random.Random) -> dict[str, float]:
    """A reward that rises and levels off, and entropy that then falls to nothing."""
    fallen = math.exp(-(step - 60) / 15) if step > 60 else 1.0
    return {"entropy": 2 * fallen + 0.01, "reward": min(step, 60) / 60 + chance.gauss(0, 0.02)}


def test_entropy_that_falls_to_nothing_after_the_reward_has_levelled_off_is_a_collapse() -> None:
    assert Scene(180, level).told("policy.collapse") is not None
    converges = Scene(180, lambda step, chance: level(step, chance) | {"reward": step / 60})
    assert converges.told("policy.collapse") is None
    solved = Scene(180, level, groups=lambda step: [MIXED if step == 1 else RIGHT] * 4)
    assert solved.told("policy.collapse") is None


def test_extreme_kl_is_reported_also_while_the_reward_rises() -> None:
    def drift(step: int, most: float) -> dict[str, float]:
        return {"kl": 0.02 + most * (step / 60) ** 2, "reward": step / 60}

    for settings in (ONE, replace(ONE, beta=None)):
        assert Scene(60, lambda step, _: drift(step, 4), settings=settings).told("policy.kl") is not None
        assert Scene(60, lambda step, _: drift(step, 1.5), settings=settings).told("policy.kl") is None
    assert (
        Scene(60, lambda step, _: drift(step, 4), settings=replace(ONE, beta=0.0)).told("policy.kl") is None
    )


@pytest.mark.parametrize(("visits", "visited_so_often"), [(4, 4), (5, 4), (1, 5)])
def test_prompts_visited_exactly_as_often_as_asked_count(visits: int, visited_so_often: int) -> None:
    found = SCENES["signal.prompts-unsolved"].told("signal.prompts-unsolved", visits=visits, prompts=1)
    assert found is not None
    assert (found.evidence["visited"], found.evidence["prompts"]) == (visited_so_often, visited_so_often - 1)


def test_without_groups_the_logged_share_of_equal_groups_is_judged() -> None:
    def silent(share: float) -> Scene:
        return Scene(20, lambda *_: {"frac_reward_zero_std": share}, groups=lambda _: [])

    found = silent(0.95).told("signal.equal")
    assert found is not None
    assert found.message.endswith("frac_reward_zero_std is 95 % on average over the last 10 steps.")
    assert silent(0.85).told("signal.equal") is None
    mixed = replace(silent(0.95), groups=lambda _: (MIXED,) * 4)
    assert mixed.told("signal.equal") is None  # what was recorded of the groups counts
