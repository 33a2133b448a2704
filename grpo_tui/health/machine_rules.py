"""Rules about the cost of a step: its time, and the reward functions."""

from __future__ import annotations

from grpo_tui.health.state import Found, Limits, RunState, number, percent

PHASES = ("generate", "reward", "update")


def _slow_step(state: RunState, limits: Limits) -> Found | None:
    time, length, steps = state.course("step_time"), state.course("completions/mean_length"), limits["steps"]
    now = time.middle(steps)
    if time.count < limits["least"] or now < max(limits["seconds"], limits["ratio"] * time.start):
        return None
    if length.count and now / length.middle(steps) < limits["ratio"] * time.start / length.start:
        return None
    grown = {name: state.course(f"phase/{name}") for name in PHASES}
    phases = {f"{name}_s": course.middle(steps) for name, course in grown.items() if course.count}
    most = max((name for name in PHASES if grown[name].count), default="",
               key=lambda name: grown[name].middle(steps) - grown[name].start)  # fmt: skip
    others = [grown[name] for name in PHASES if name != most and grown[name].count]
    before, after = sum(one.start for one in others), sum(one.middle(steps) for one in others)
    alone = before > 0 and after < limits["others"] * before
    where = " Every phase became slower." if others else ""
    if alone:
        where = (
            f" Most of it is {most}: {number(grown[most].start)} to {number(grown[most].middle(steps))} s."
        )
    said = f"A step takes {number(now)} s, {number(time.start)} s at the start.{where}"
    evidence = {"step_time": now, "step_time_start": time.start, **phases}
    return Found(said, evidence, severity=None if alone else "info", changed=time)


def _slow_reward(state: RunState, limits: Limits) -> Found | None:
    reward, time = state.course("phase/reward"), state.course("step_time")
    seconds, whole = reward.middle(limits["steps"]), time.middle(limits["steps"])
    if min(reward.count, time.count) < limits["steps"] or whole <= 0:
        return None
    if seconds < limits["seconds"] or seconds < limits["share"] * whole:
        return None
    said = f"Rewards take {number(seconds)} s of a step of {number(whole)} s ({percent(seconds / whole)})."
    return Found(said, {"reward_s": seconds, "step_time": whole}, changed=reward)


def _reward_fails(state: RunState, limits: Limits) -> Found | None:
    failed = state.failed(limits["steps"])
    if failed.total() >= limits["count"]:
        index, count = failed.most_common(1)[0]
        name = state.settings.names[index] if index < len(state.settings.names) else f"function {index}"
        said = f"{count} calls of {name} failed or were aborted in the last {limits['steps']:g} steps."
        since = state.first(lambda seen: seen.failed, limits["steps"])
        return Found(said, {"function": name, "calls": count}, since=since)
    for name, function in zip(state.settings.names, state.functions, strict=True):
        if function.abstained.high < limits["share"]:
            continue
        share, start = function.abstained.level(limits["steps"]), function.abstained.start
        if (
            function.abstained.count >= limits["steps"]
            and share >= limits["share"]
            and share - start >= limits["rise"]
        ):
            told = f"{percent(share)} of the completions, {percent(start)} at the start"
            said = f"{name} returned None for {told}."
            evidence = {"function": name, "none": share, "none_start": start}
            return Found(said, evidence, changed=function.abstained)
    return None


RULES = {
    "machine.slow-step": _slow_step,
    "machine.slow-reward": _slow_reward,
    "machine.reward-fails": _reward_fails,
}
