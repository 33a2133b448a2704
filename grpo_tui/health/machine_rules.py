"""Rules about the cost of a step: its time, the reward functions, memory and ranks."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import median

from grpo_tui.core.records import TOOLS
from grpo_tui.health.state import EACH, FAILED, Found, Limits, RunState, number, percent

LENGTH, LONGEST = "completions/mean_length", "completions/max_length"
MEMORY, GPU_MEMORY = "memory", "gpu_memory"
"""Fraction in use of the memory of the machine or its container, and of the first rank's GPU."""
GPU_RETRIES = "cache_releases"
"""How often torch has released its cached GPU memory, since its process began."""
TOOLS_FAILED = "tools/failure_frequency"
PHASES = ("generate", "reward", "update")


def _slow_step(state: RunState, limits: Limits) -> Found | None:
    time, length, steps = state.course("step_time"), state.course(LENGTH), limits["steps"]
    now = time.middle(steps)
    if time.count < limits["least"] or now < max(limits["seconds"], limits["ratio"] * time.start):
        return None
    if length.count and now * length.start < limits["ratio"] * time.start * length.middle(steps):
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


def _tools(state: RunState, limits: Limits) -> Found | None:
    steps, named = limits["steps"], [key for key in state.courses if key.startswith(TOOLS)]
    for name in [key[len(TOOLS) : -len("/calls")] for key in named if key.endswith("/calls")]:
        calls, failed, spent, shares, times = (
            state.course(f"{TOOLS}{name}/{one}") for one in ("calls", "failed", "seconds", FAILED, EACH)
        )
        made, lost = sum(calls.newest(steps)), sum(failed.newest(steps))
        if calls.count < limits["least"] or made < limits["calls"]:
            continue
        share, before, usual = lost / made, shares.start, times.start
        each = sum(spent.newest(steps)) / (made - lost) if made - lost >= limits["calls"] else None
        evidence = {"tool": name, "failed": share, "failed_start": before, "seconds": each,
                    "seconds_start": None if each is None else usual}  # fmt: skip
        if share >= limits["share"] and share - before >= limits["rise"]:
            said = f"{percent(share)} of the calls of {name} in the last {steps:g} steps failed"
            return Found(f"{said}, {percent(before)} at first.", evidence, changed=shares)
        if each is not None and each >= limits["seconds"] and each >= limits["ratio"] * usual:
            said = f"A call of {name} takes {number(each)} s, {number(usual)} s at first."
            return Found(said, evidence, changed=times)
    total = state.course(TOOLS_FAILED)
    share, before = total.level(steps), total.start
    enough = total.count >= limits["least"] and share >= limits["share"]
    if named or not enough or share - before < limits["rise"]:
        return None
    said = f"{percent(share)} of the tool calls of the last {steps:g} steps failed"
    evidence = {"failed": share, "failed_start": before}
    return Found(f"{said}, {percent(before)} at the start.", evidence, changed=total)


def _throughput(state: RunState, limits: Limits) -> Found | None:
    steps, busy = limits["steps"], [state.course(f"phase/{name}") for name in ("generate", "update")]
    lengths = [one for one in (state.course(LENGTH), state.course(LONGEST)) if one.count]
    if min(one.count for one in (*busy, *lengths[:1])) < limits["least"] or not lengths:
        return None
    now, start = sum(one.middle(steps) for one in busy), sum(one.start for one in busy)
    if not start or now < max(limits["seconds"], limits["ratio"] * start):
        return None
    # Shorter completions do not make a step shorter in proportion, so only longer ones count.
    grown = max(1.0, *(one.middle(steps) / max(1.0, one.start) for one in lengths))
    if now < limits["ratio"] * grown * start:
        return None
    most = max(busy, key=lambda one: one.middle(steps) - one.start)
    said = f"Generating and updating take {number(now)} s a step, {number(start)} s at the start"
    said += f", while completions are {number(grown)} times as long." if grown > 1 else "."
    reward = state.course("phase/reward")
    everything = all(one.middle(steps) >= limits["ratio"] * one.start for one in (*busy, reward) if one.count)
    evidence = {
        "seconds": now,
        "seconds_start": start,
        "length_ratio": grown,
        "per_token": now / start / grown,
    }
    return Found(said, evidence, severity="info" if reward.count and everything else None, changed=most)


def _memory(state: RunState, limits: Limits) -> Found | None:
    steps, gpu, retries = limits["steps"], state.course(GPU_MEMORY), state.course(GPU_RETRIES)
    counts, level = retries.newest(steps + 1), gpu.middle(steps)
    released = sum(after > before for before, after in pairwise(counts))
    if released >= limits["retries"] and level >= limits["share"]:
        said = (
            f"{percent(level)} of the GPU's memory is in use, and in {released} of the last {steps:g} steps "
            "torch had to release its cache before it could allocate more."
        )
        return Found(said, {GPU_MEMORY: level, "steps": released}, since=retries.above(counts[0], steps))
    memory = state.course(MEMORY)
    level = memory.middle(steps)
    if memory.count < limits["least"] or level < limits["share"] or level - memory.start < limits["rise"]:
        return None
    said = f"{percent(level)} of the machine's memory is in use, {percent(memory.start)} at the start."
    return Found(said, {MEMORY: level, f"{MEMORY}_start": memory.start}, changed=memory)


def _lagging_rank(state: RunState, limits: Limits) -> Found | None:
    seen, time = state.ranks(limits["steps"]), state.course("step_time").middle(limits["steps"])
    if len(seen) < limits["least"]:
        return None
    rank, count = Counter(max(one, key=one.__getitem__) for one in seen).most_common(1)[0]
    if count < limits["share"] * len(seen):
        return None
    its = median(one[rank] for one in seen if rank in one)
    others = median(median(s for other, s in one.items() if other != rank) for one in seen)
    if its < limits["ratio"] * others or its - others < max(limits["seconds"], limits["part"] * time):
        return None
    said = (
        f"Rank {rank} generates for {number(its)} s a step, the others for {number(others)} s and then wait."
    )
    return Found(said, {"rank": rank, "seconds": its, "others": others, "step_time": time})


RULES = {
    "machine.slow-step": _slow_step,
    "machine.throughput": _throughput,
    "machine.slow-reward": _slow_reward,
    "machine.reward-fails": _reward_fails,
    "machine.tools": _tools,
    "machine.memory": _memory,
    "machine.lagging-rank": _lagging_rank,
}
