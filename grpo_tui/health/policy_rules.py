"""Rules about the policy and its updates: reward, entropy, length, texts, KL, gradient, learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from grpo_tui.core.findings import Remedy, Severity
from grpo_tui.core.records import EFFECTIVE, LEFT_OUT, SKIPPED
from grpo_tui.core.statistics import SAME
from grpo_tui.health.course import EARLY, NORMAL, RECENT
from grpo_tui.health.signal_rules import CORRECT, FORMAT
from grpo_tui.health.state import CAPPED, CLIPPED, Found, Limits, RunState, number, percent

REWARD, ENTROPY, KL, GRADIENT, RATE = "reward", "entropy", "kl", "grad_norm", "learning_rate"
LENGTH, TRUNCATED = "completions/mean_length", "completions/clipped_ratio"
MISMATCH = "sampling/sampling_logp_difference/mean"
WORST = "sampling/sampling_logp_difference/max"
WEIGHT = "sampling/importance_sampling_ratio/mean"
HIGHEST_ENTROPY = 20.0
"""In nats: that of 485 million equally likely tokens. More is logged of something else."""
HIGHEST = 5.0
"""`epsilon_high` that TRL recommends with CISPO."""


def _broke(state: RunState, limits: Limits) -> Found | None:
    reward, steps = state.course(REWARD), limits["steps"]
    if reward.count < steps + 1:
        return None
    before, level = max(reward.first, reward.best), reward.level(steps)
    lowest = min(state.low, reward.low)
    lowest = max(lowest, before - limits["deepest"] * state.spread) if state.spread else lowest
    if max(reward.newest(steps)) > before - limits["drop"] * (before - lowest):
        return None
    least = max(limits["spread"] * state.spread, limits["errors"] * reward.error(steps), SAME)
    if before - level < least:
        return None
    signs: dict[str, object] = {}
    told = []
    for key, title, unit in (
        (TRUNCATED, "truncated", percent),
        (LENGTH, "length", number),
        (ENTROPY, "entropy", number),
    ):
        then, now = _then(state, key), state.course(key).level(steps)
        if (
            (key == TRUNCATED and now >= limits["truncated"] and then < limits["truncated"] / 2)
            or (key == LENGTH and now >= limits["length"] * then)
            or (key == ENTROPY and (now < limits["low"] * then or now > limits["high"] * then))
        ):
            signs |= {f"{title}_start": then, title: now}
            told.append(f"{title} from {unit(then)} to {unit(now)}")
    if not told:
        return None
    said = f"The reward went from {number(before)} to {number(level)}, {', '.join(told)}."
    evidence = {"reward_start": before, REWARD: level, **signs}
    return Found(said, evidence, remedies=_lower_rate(state, by=10), changed=reward, before=before)


def _then(state: RunState, key: str) -> float:
    """A metric when the reward was at its best, if that is above its first steps; else at the first step."""
    reward = state.course(REWARD)
    return state.at_best.get(key, math.nan) if reward.best > reward.first else state.course(key).opening


def _lower_rate(state: RunState, by: float = 3) -> tuple[Remedy, ...]:
    rate = state.course(RATE).high if state.course(RATE).count else state.settings.learning_rate
    if not rate:
        return ()
    value = float(f"{rate / by:.2g}")
    return (Remedy(f"learning_rate {value:g} instead of {rate:g}", RATE, value, live=True),)


def _fallen(state: RunState, limits: Limits) -> tuple[float, float] | None:
    """Return the best mean of the reward and the current one, when they are far apart."""
    reward, steps = state.course(REWARD), limits["steps"]
    if reward.count < 3 * steps:
        return None
    level = reward.level(steps)
    drop = reward.best - level
    least = max(limits["drop"] * reward.span, limits["spread"] * state.spread)
    if drop < least or drop <= limits["errors"] * reward.error(steps):
        return None
    # The best of many means of a noisy reward lies above its level: the values just before are compared too.
    earlier = reward.newest(RECENT)[: -int(steps)]
    fell = bool(earlier) and _mean(earlier) - level > limits["errors"] * reward.error(steps)
    lasts = reward.best - reward.level(RECENT) >= least
    return (reward.best, level) if fell or lasts else None


def _reward_fell(state: RunState, limits: Limits) -> Found | None:
    fallen = _fallen(state, limits)
    if fallen is None:
        return None
    best, level = fallen
    step = state.course(REWARD).best_step
    said = f"The reward fell from {number(best)} around step {step} to {number(level)}."
    since = max(step + 1, state.course(REWARD).turned(best, 0.25) or 0)
    evidence = {"best": best, "best_step": step, REWARD: level}
    return Found(said, evidence, remedies=_lower_rate(state), since=since)


def _collapse(state: RunState, limits: Limits) -> Found | None:
    entropy, steps = state.course(ENTROPY), limits["steps"]
    level, reward = entropy.level(steps), state.course(REWARD)
    if min(entropy.count, reward.count) < limits["least"] or not level < limits["share"] * entropy.start:
        return None
    if state.causes(steps)["all-correct"] * 2 >= max(1, state.causes(steps).total()):
        return None
    fell = {"steps": steps, "errors": 4, "drop": 0.25, "spread": 0.3}
    flat = level < limits["deep"] * entropy.start and state.stood_still(limits["flat"], steps)
    if state.gained(limits["gain"]) and _fallen(state, fell) is None and not flat:
        return None
    said = (
        f"Entropy fell from {number(entropy.start)} to {number(level)}, while the reward went from "
        f"{number(reward.start)} to {number(reward.level(steps))}."
    )
    evidence = {"entropy_start": entropy.start, ENTROPY: level, "reward_start": reward.start,
                REWARD: reward.level(steps)}  # fmt: skip
    return Found(said, evidence, remedies=_lower_rate(state), changed=entropy)


def _noise(state: RunState, limits: Limits) -> Found | None:
    entropy, reward, steps = state.course(ENTROPY), state.course(REWARD), limits["steps"]
    level = entropy.level(steps)
    if min(entropy.count, reward.count) < limits["least"] or not limits["level"] <= level <= HIGHEST_ENTROPY:
        return None
    if state.gained(limits["gain"], steps):
        return None
    hot = state.settings.temperature or 0.0
    said = (
        f"Entropy is {number(level)} nats, as if each token were one of {math.exp(level):,.0f} equally "
        f"likely ones, while the reward went from {number(reward.start)} to {number(reward.level(steps))}."
    )
    fix = (Remedy(f"temperature 1 instead of {hot:g}", "temperature", 1.0, live=True),) if hot > 1 else ()
    evidence = {ENTROPY: level, "temperature": hot or None, "reward_start": reward.start,
                REWARD: reward.level(steps)}  # fmt: skip
    early = entropy.start >= limits["level"]
    return Found(said, evidence, remedies=fix, since=1 if early else None, changed=None if early else entropy)


def _truncation(state: RunState, limits: Limits) -> Found | None:
    course = state.course(TRUNCATED)
    level = course.level(limits["steps"])
    if course.count < limits["steps"] or not level >= limits["share"]:
        return None
    limit = state.settings.max_completion_length
    at = f" at {limit} tokens" if limit else ""
    said = f"{percent(level)} of the completions of the last {limits['steps']:g} steps are truncated{at}."
    fix = (Remedy(f"max_completion_length {2 * limit}", "max_completion_length", 2 * limit),) if limit else ()
    evidence = {"truncated": level, "max_completion_length": limit}
    return Found(said, evidence, "truncated", fix, changed=course)


def _length_runaway(state: RunState, limits: Limits) -> Found | None:
    length, reward, steps = state.course(LENGTH), state.course(REWARD), limits["steps"]
    level = length.level(steps)
    if min(length.count, reward.count) < limits["least"] or not level >= limits["ratio"] * length.start:
        return None
    if state.gained(limits["gain"], steps):
        return None
    said = (
        f"Mean length grew from {number(length.start)} to {number(level)} tokens, while the reward went from "
        f"{number(reward.start)} to {number(reward.level(steps))}."
    )
    evidence = {"length_start": length.start, "length": level, "reward_start": reward.start,
                REWARD: reward.level(steps)}  # fmt: skip
    return Found(said, evidence, changed=length)


def _length_bought(state: RunState, limits: Limits) -> Found | None:
    length, reward, steps = state.course(LENGTH), state.course(REWARD), limits["steps"]
    level = length.level(steps)
    if length.count < limits["least"] or not level >= limits["ratio"] * length.start:
        return None
    slope, correlation = state.by_length(steps)
    gain, bought = reward.level(steps) - reward.start, slope * (level - length.start)
    if not state.gained(limits["gain"], steps) or not correlation >= limits["correlation"]:
        return None
    used = [(name, one) for name, _, one in state.used]
    others = [(name, one) for name, one in used if not FORMAT.search(name)]
    correct = [one for name, one in others or used if CORRECT.search(name)]
    if bought < (1 - limits["earned"]) * gain or any(one.rose(limits["correct"], steps) for one in correct):
        return None
    said = (
        f"The reward rose from {number(reward.start)} to {number(reward.level(steps))} and mean length from "
        f"{number(length.start)} to {number(level)} tokens. Within groups, longer completions earn more "
        f"(correlation {number(correlation)}), which explains {percent(min(1.0, bought / gain))} of the rise."
    )
    evidence = {"reward_start": reward.start, REWARD: reward.level(steps), "length_start": length.start,
                "length": level, "correlation": correlation, "explained": bought / gain}  # fmt: skip
    severity: Severity | None = None if correct or len(others) != 1 else "info"  # it may be of correctness
    return Found(said, evidence, severity=severity, changed=length)


def _repetition(state: RunState, limits: Limits) -> Found | None:
    course, steps = state.course("repeated"), limits["steps"]
    level = course.level(steps)
    if not (level >= limits["share"] and level - course.opening >= limits["rise"]):
        return None
    if state.texts(steps).known < limits["groups"]:
        return None
    said = (
        f"The share of repeated runs of four words went from {percent(course.opening)} to {percent(level)}."
    )
    evidence = {"repeated_start": course.opening, "repeated": level}
    return Found(said, evidence, changed=course, before=course.opening)


def _no_end_token(state: RunState, limits: Limits) -> Found | None:
    if not state.settings.has_tokens:
        return None
    texts = state.texts(limits["steps"])
    if texts.groups < limits["groups"] or not texts.truncated:
        return None
    truncated, answered = texts.truncated / texts.size, texts.answered / texts.truncated
    if truncated < limits["share"] or answered < limits["answered"]:
        return None
    said = (
        f"{percent(truncated)} of the completions are truncated, and "
        f"{percent(answered)} of these hold a final answer in their first half."
    )
    evidence = {"truncated": truncated, "answered": answered}
    return Found(said, evidence, "truncated", changed=state.course(TRUNCATED))


def _kl(state: RunState, limits: Limits) -> Found | None:
    kl, reward = state.course(KL), state.course(REWARD)
    if state.settings.beta == 0 or min(kl.count, reward.count) < limits["least"]:
        return None
    level = kl.middle(limits["steps"])
    if not level > max(limits["level"], limits["ratio"] * kl.start):
        return None
    below = reward.best - reward.level(limits["steps"]) >= limits["spread"] * state.spread
    if not below and level < limits["extreme"] and state.gained(0.0, limits["steps"]):
        return None
    now, best = reward.level(limits["steps"]), reward.best
    said = (
        f"kl went from {number(kl.start)} to {number(level)}, while the reward is {number(now)} "
        f"and its best was {number(best)}."
    )
    evidence = {"kl_start": kl.start, KL: level, REWARD: now, "best": best}
    return Found(said, evidence, remedies=_lower_rate(state), changed=kl)


def _clipped(state: RunState, limits: Limits) -> Found | None:
    course, steps, by_sequence = state.course(CLIPPED), limits["steps"], state.settings.by_sequence
    level = course.level(steps)
    if course.count < steps or not level >= limits["sequences" if by_sequence else "share"]:
        return None
    what = "sequences" if by_sequence else "tokens"
    said = f"On average {percent(level)} of the {what} of the last {steps:g} steps were clipped."
    return Found(said, {"clipped": level}, remedies=_lower_rate(state), changed=course)


def _capped(state: RunState, limits: Limits) -> Found | None:
    course, steps, high = state.course(CAPPED), limits["steps"], state.settings.epsilon_high
    level = course.level(steps)
    if course.count < steps or not level >= limits["share"]:
        return None
    at = "" if high is None else f", {high:g}"
    said = (
        f"On average {percent(level)} of the tokens of the last {steps:g} steps were above epsilon_high{at}."
    )
    fix = Remedy(f"epsilon_high {HIGHEST:g}", "epsilon_high", HIGHEST, live=True)
    remedies = (fix,) if high is not None and high < HIGHEST else ()
    return Found(said, {"capped": level, "epsilon_high": high}, remedies=remedies, changed=course)


def _mismatch(state: RunState, limits: Limits) -> Found | None:
    steps = limits["steps"]
    course, weights, lost, effective = (state.course(key) for key in (MISMATCH, WEIGHT, LEFT_OUT, EFFECTIVE))
    level, weight, part, size = (one.middle(steps) for one in (course, weights, lost, effective))
    other = level >= limits["other"]
    parted = level >= limits["level"] and (
        other or weight <= limits["weight"] or level >= limits["ratio"] * course.start
    )
    wasted = lost.count >= steps and (part >= limits["left_out"] or size <= limits["effective"])
    if not (wasted or (parted and course.count >= steps)):
        return None
    said = f"On average, vLLM and the trainer differ by {number(level)} in the log-probability of a token"
    said += f", and the mean importance weight is {number(weight)}." if weights.count else "."
    if lost.count:
        said += (
            f" {percent(part)} of the weights are 0, and the effective sample size is {percent(size)} of "
            "the batch."
        )
    worst = max(state.course(WORST).newest(steps), default=math.nan)
    if not math.isnan(worst):
        said += f" The worst token of these {steps:g} steps differs by {number(worst)}."
    told = {MISMATCH: level, WORST: worst, WEIGHT: weight, LEFT_OUT: part, EFFECTIVE: size}
    evidence = {key: value for key, value in told.items() if not math.isnan(value)}
    changed = course if parted else lost if part >= limits["left_out"] else effective
    return Found(said, evidence, severity="error" if other else None, changed=changed)


def _gradient_nan(state: RunState, limits: Limits) -> Found | None:
    count = state.course(GRADIENT).missing(limits["steps"])
    if count < limits["count"]:
        return None
    said = f"grad_norm was NaN or infinite in {count} of the last {limits['steps']:g} steps."
    if state.course(SKIPPED).count:
        said += " Such steps are skipped, so the weights are not affected."
    return Found(said, {"steps": count}, remedies=_lower_rate(state), since=state.step)


def _gradient_spikes(state: RunState, limits: Limits) -> Found | None:
    newest = state.course(GRADIENT).newest(limits["steps"])
    if max(newest, default=0.0) <= limits["level"]:
        return None
    newest = [value for value in newest if value > SAME]
    if len(newest) < limits["least"]:
        return None
    usual = median(newest)
    high = [value for value in newest if value > max(limits["level"], limits["ratio"] * usual)]
    if len(high) < limits["count"]:
        return None
    said = (
        f"grad_norm was above {number(limits['ratio'] * usual)} in {len(high)} of the last "
        f"{limits['steps']:g} steps. The highest is {number(max(high))}, the median {number(usual)}."
    )
    fix = Remedy("max_grad_norm 0.2", "max_grad_norm", 0.2)
    return Found(
        said,
        {"spikes": len(high), "highest": max(high), "median": usual},
        remedies=(fix, *_lower_rate(state)),
        since=state.course(GRADIENT).above(max(limits["level"], limits["ratio"] * usual), limits["steps"]),
    )


def _gradient_zero(state: RunState, limits: Limits) -> Found | None:
    newest = state.course(GRADIENT).newest(limits["steps"])
    if len(newest) < limits["steps"] or max(newest) > 0:
        return None
    share = state.signal_share(limits["steps"])
    if not share >= limits["share"]:
        return None
    last = f"No gradient in the last {limits['steps']:g} steps"
    said = f"{last}, while {percent(share)} of the groups have a signal."
    return Found(said, {"signal_share": share}, changed=state.course(GRADIENT))


def _rate_ended(state: RunState, limits: Limits) -> Found | None:
    rate, total = state.course(RATE), state.settings.total_steps
    if rate.count < limits["steps"] or not total:
        return None
    if (
        state.step > (1 - limits["remaining"]) * total
        or max(rate.newest(limits["steps"])) > limits["share"] * rate.high
    ):
        return None
    now = f"{number(rate.level(1))} at step {state.step} of {total}"
    said = f"learning_rate is {now}. Its highest value was {number(rate.high)}."
    return Found(said, {RATE: rate.level(1), "highest": rate.high, "steps_left": total - state.step})


def _rate_low(state: RunState, limits: Limits) -> Found | None:
    steps, reward = limits["steps"], state.course(REWARD)
    if not reward.count or state.observations < limits["least"]:
        return None
    if not state.signal_share(steps) >= limits["share"]:
        return None
    for course in (reward, state.course(LENGTH)):
        moved = abs(course.level(steps) - course.start)
        if course.count and not moved <= 2 * (course.error(steps) + course.error(EARLY)):
            return None
    entropy = state.course(ENTROPY)
    noise = 2 * (entropy.error(steps) + entropy.error(EARLY))
    if not abs(entropy.level(steps) - entropy.start) <= max(limits["change"] * entropy.start, noise):
        return None
    rate = state.course(RATE).high if state.course(RATE).count else state.settings.learning_rate
    said = (
        f"After {state.step} steps the reward is {number(reward.level(steps))}, "
        f"{number(reward.start)} at the start. Entropy is {number(entropy.level(steps))}, "
        f"{number(entropy.start)} at the start."
    )
    higher = float(f"{3 * rate:.2g}") if rate else 0.0
    fix = (Remedy(f"learning_rate {higher:g}", RATE, higher, live=True),) if higher else ()
    return Found(said, {REWARD: reward.level(steps), "reward_start": reward.start}, "mixed", fix, since=1)


def _held_out(state: RunState, limits: Limits) -> Found | None:
    held, reward = state.evaluations, state.course(REWARD)
    if len(held) < max(2, limits["evaluations"]) or state.spread == 0:
        return None
    best = max(held[:-1], key=lambda one: one[1])
    now = _mean([one[1] for one in held[-2:]])
    then, level, noise = best[2], reward.level(10), limits["errors"] * reward.error(10) * 2**0.5
    if best in held[-2:] or best[1] - now < limits["spread"] * state.spread:
        return _held_out_flat(state, limits, now, noise)
    if not level - then > noise:
        return None
    said = (
        f"eval_reward fell from {number(best[1])} at step {best[0]} to {number(now)}, while the training "
        f"reward rose from {number(then)} to {number(level)}."
    )
    evidence = {"eval_best": best[1], "best_step": best[0], "eval_reward": now, REWARD: level}
    return Found(said, evidence, since=best[0] + 1)


def _held_out_flat(state: RunState, limits: Limits, now: float, noise: float) -> Found | None:
    """Compare the newest two evaluations with the first two, and with the first two of the newest few."""
    held, count = state.evaluations, max(4, int(limits["flat"]))
    if len(held) < count:
        return None
    level = _mean([one[2] for one in held[-2:]])
    # Two means of two evaluations differ by as much as two evaluations do.
    own = limits["errors"] * _differ([one[1] for one in held[-count:]])
    least = max(math.hypot(noise, own), limits["gap"] * state.spread)
    best = max(held, key=lambda one: one[1])
    for pair in (held[:2], held[-count:][:2]):
        start, then = _mean([one[1] for one in pair]), _mean([one[2] for one in pair])
        rise, gain = level - then, now - start
        if now < level and gain <= limits["earned"] * rise and rise - gain > least:
            said = (
                f"eval_reward went from {number(start)} around step {pair[0][0]} to {number(now)}, while the "
                f"training reward rose from {number(then)} to {number(level)}."
            )
            evidence = {"eval_start": start, "eval_reward": now, "reward_start": then, REWARD: level}
            return Found(said, evidence, since=1 + (best if best[1] - start > own else pair[0])[0])
    return None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _differ(values: Sequence[float]) -> float:
    """Return the standard deviation of a value about its trend, from consecutive differences."""
    return median(abs(after - before) for before, after in pairwise(values)) / NORMAL


RULES = {
    "policy.broke": _broke,
    "policy.reward-fell": _reward_fell,
    "policy.collapse": _collapse,
    "policy.noise": _noise,
    "policy.truncation": _truncation,
    "policy.length-runaway": _length_runaway,
    "policy.length-bought": _length_bought,
    "policy.repetition": _repetition,
    "policy.no-end-token": _no_end_token,
    "policy.kl": _kl,
    "policy.clipped": _clipped,
    "policy.capped": _capped,
    "policy.mismatch": _mismatch,
    "policy.gradient-nan": _gradient_nan,
    "policy.gradient-spikes": _gradient_spikes,
    "policy.gradient-zero": _gradient_zero,
    "policy.learning-rate-ended": _rate_ended,
    "policy.learning-rate-low": _rate_low,
    "policy.held-out": _held_out,
}
