"""The checks of a steered run, one after the other, on one run folder.

Start, reward thread, pause, sample, set, checkpoint, resume, abort, stop, `--resume`: each by its command,
each judged by what the record says afterwards. Knows nothing of models or GPUs.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from program import Run
from report import CheckFailed, Report
from setups import Setup, gpus_of

from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import StoredGroup

STEP_S = 90.0
COOL = 0.1
"""The temperature that is set; runs start at 1."""
OPENING = 40
"""Characters of a completion that are compared: what follows varies even when cool."""
MOST_LOGP_DIFFERENCE = 0.2
"""Most that vLLM and the trainer may differ in a token's log-probability; two temperatures give several times
as much."""
IN_MAIN_THREAD, PATIENT = 1, 2
"""Places of the two reward functions in TRL's order."""


def steer(run: Run, report: Report, setup: Setup, config: Path, hang_file: Path) -> None:
    """Run every check of a scenario; a failed one does not keep the next from being tried."""
    with report.check("starts, reaches step 2", needed=True):
        launcher = ("--launcher", setup.launcher) if setup.launcher else ()
        run.program("train", config, "--run-dir", run.folder, "--detach", *launcher)
        run.at_step(2, setup.load_s)
    with report.check("rewards ran in the main thread") as detail:
        groups = _groups(run, last_step=1)
        if {c.rewards[IN_MAIN_THREAD] for g in groups for c in g.completions} != {1.0}:
            raise CheckFailed("the reward says it ran in another thread")
        detail.append(_ranks_recorded(groups, setup.ranks))
    held = _pause_and_change(run, report, setup)
    if setup.ranks > 1 and setup.gpus > 1:
        _one_gpu_each(run, report, setup.ranks)
    with report.check("resume"):
        run.command("resume")
        run.at_step(held + 3, STEP_S)
    with report.check("temperature changed everywhere") as detail:
        detail += _compare_temperatures(run, held, vllm=bool(setup.settings.get("use_vllm")))
    with report.check(f"abort of a hang on rank {setup.ranks - 1}") as detail:
        detail.append(_abort(run, report, setup.ranks - 1, hang_file))
    last = _stop(run, report)
    if last is not None:
        _continue(run, report, setup, last)


def _pause_and_change(run: Run, report: Report, setup: Setup) -> int:
    """Pause, and everything that is done while paused; returns the step it is held at."""
    with report.check("pause", needed=True) as detail:
        run.command("pause")
        held = run.in_state("paused", STEP_S).step
        time.sleep(min(setup.pause_s, report.left_s()))
        look = run.in_state("paused", 5)
        if look.step != held:
            raise CheckFailed(f"a paused run went from step {held} to {look.step}")
        detail.append(f"held at step {held} for {look.phase_s:.0f} s")
        if timeout := setup.settings.get("ddp_timeout"):
            detail.append(f"ddp_timeout {timeout}")
    with report.check("sample while paused") as detail:
        outcome = run.command("sample", "--count", "4")
        texts = [completion["text"] for completion in outcome["result"]["completions"]]
        if len(texts) != 4 or not any(text.strip() for text in texts) or outcome["step"] != held:
            raise CheckFailed(f"at step {outcome['step']}: {texts}")
        detail.append(f"{len(set(texts))} different of 4, the first {texts[0][:30]!r}")
    with report.check("set temperature, learning_rate") as detail:
        result = run.command("set", f"temperature={COOL}", "learning_rate=2e-5")["result"]
        detail += [f"{name} {change['old']:g} to {change['new']:g}" for name, change in result.items()]
    with report.check("checkpoint") as detail:
        path = Path(run.command("checkpoint")["result"]["path"])

        def recorded() -> bool:
            look = run.status()
            return look is not None and any(c.step == held and c.complete for c in look.checkpoints)

        report.until(recorded, f"the record of {path.name} as complete", 10)
        states = len(list(path.glob("grpo_tui_state*")))
        detail.append(f"{path.name}, {sum(f.stat().st_size for f in path.rglob('*')) / 1e6:.1f} MB")
        if states < setup.ranks:
            raise CheckFailed(f"{states} of {setup.ranks} ranks left their state in {path.name}")
    return held


def _one_gpu_each(run: Run, report: Report, ranks: int) -> None:
    """A rank that also holds memory on another's GPU computes something in the wrong place."""
    name = "each rank holds one GPU"
    pids = [state.pid if (state := run.rank(number)) else 0 for number in range(ranks)]
    held = gpus_of(pids)
    if not any(held.values()):
        report.skip(name, "nvidia-smi does not say which process uses which GPU")
        return
    with report.check(name) as detail:
        detail += [f"rank {rank}: {', '.join(held[pid]) or 'none'}" for rank, pid in enumerate(pids)]
        if any(len(held[pid]) != 1 for pid in pids) or len({*map(tuple, held.values())}) != ranks:
            raise CheckFailed("; ".join(detail))


def _abort(run: Run, report: Report, rank: int, hang_file: Path) -> str:
    """Let one call hang, abort it, and look for its None in the record."""
    hang_file.touch()
    try:
        report.until(lambda: not hang_file.exists(), "the hang", STEP_S)
    finally:
        hang_file.unlink(missing_ok=True)
    hanging = report.until(
        lambda: (r := run.rank(rank)) and r.reward_function == "patient" and r.reward_call, "its report", 5
    )
    begun = time.monotonic()
    run.command("abort-reward")
    took = time.monotonic() - begun
    look = run.status()
    run.at_step((look.step if look else 0) + 1, STEP_S)
    found = _groups(run)
    empty = {(g.rank, g.batch) for g in found if any(c.rewards[PATIENT] is None for c in g.completions)}
    if len(empty) != 1 or next(iter(empty))[0] != rank:
        raise CheckFailed(f"None stands in these (rank, batch): {sorted(empty)}")
    scored = {c.rewards[PATIENT] for g in found if (g.rank, g.batch) in empty for c in g.completions}
    if scored != {None}:
        raise CheckFailed("only a part of the batch counts as aborted")
    return f"call {hanging} gave way, command to outcome {took:.1f} s"


def _stop(run: Run, report: Report) -> int | None:
    with report.check("stop") as detail:
        path = run.command("stop")["result"]["path"]
        last = run.in_state("stopped", STEP_S).step
        if Path(path).name != f"checkpoint-{last}" or not Path(path).is_dir():
            raise CheckFailed(f"stopped at step {last} with {path}")
        detail.append(f"saved {Path(path).name}")
        return last
    return None


def _continue(run: Run, report: Report, setup: Setup, last: int) -> None:
    with report.check("train --resume to the end") as detail:
        run.program("train", run.folder, "--resume", "--detach", "--set", f"max_steps={last + 2}")
        look = run.in_state("finished", setup.load_s)
        if (look.step, look.attempt) != (last + 2, 2):
            raise CheckFailed(f"step {look.step} of {last + 2}, attempt {look.attempt}")
        again = [s.name for s in run.reader().settings() if s.by == "resume"]
        if "temperature" not in again:
            raise CheckFailed(f"settings that came back: {again}")
        detail.append(f"steps {last + 1} and {last + 2}; {' and '.join(again)} came back")
    with report.check("every step and completion is kept") as detail:
        rows = [(s, v) for _, s, v in metric_rows(run.reader(), limit=100_000) if "reward" in v]
        if [step for step, _ in rows] != list(range(1, last + 3)):
            raise CheckFailed(f"steps {[step for step, _ in rows]}")
        kept, dropped = run.reader().completion_count(), run.reader().dropped()
        detail.append(f"{len(rows)} steps, {kept} completions, dropped {sum(dropped.values())}")
        if kept % len(rows) or sum(dropped.values()):
            raise CheckFailed(detail[0])
        times = [v["step_time"] for step, v in rows[1:] if "step_time" in v]
        detail.append(f"median step {statistics.median(times):.2f} s")
    with report.check("no process is left") as detail:
        report.until(lambda: not run.processes(), "the end of every process", 30)


# -- reading the record ----------------------------------------------------------------------------


def _groups(run: Run, **bounds: Any) -> list[StoredGroup]:
    return list(run.reader().iter_groups(**bounds))


def _ranks_recorded(groups: list[StoredGroup], ranks: int) -> str:
    counts = {r: sum(len(g.completions) for g in groups if g.rank == r) for r in {g.rank for g in groups}}
    if set(counts) != set(range(ranks)):
        raise CheckFailed(f"the record holds ranks {sorted(counts)} of {ranks}")
    return "completions of step 1: " + ", ".join(f"{n} from rank {r}" for r, n in sorted(counts.items()))


def _compare_temperatures(run: Run, held: int, *, vllm: bool) -> list[str]:
    """What generation (texts) and the log-prob head (entropy) did before and after step `held`."""
    rows = [(step, values) for _, step, values in metric_rows(run.reader(), limit=100_000)]
    groups = _groups(run)

    def metric(name: str, *, after: bool) -> float:
        return _mean(v[name] for step, v in rows if name in v and (step > held) == after)

    def different(*, after: bool) -> float:
        return _mean(
            len({c.text[:OPENING] for c in g.completions}) / len(g.completions)
            for g in groups
            if (g.step > held) == after
        )

    texts = different(after=False), different(after=True)
    entropy = metric("entropy", after=False), metric("entropy", after=True)
    said = [
        f"different openings in a group {texts[0]:.2f} to {texts[1]:.2f}",
        f"entropy {entropy[0]:.3f} to {entropy[1]:.3f}",
    ]
    wrong = not texts[1] < 0.8 * texts[0] or not entropy[1] < 0.5 * entropy[0]
    if vllm:
        name = "sampling/sampling_logp_difference/mean"
        logp = metric(name, after=False), metric(name, after=True)
        said.append(f"log-prob difference to vLLM {logp[0]:.3f} to {logp[1]:.3f}")
        wrong = wrong or not logp[1] < MOST_LOGP_DIFFERENCE
    if wrong:
        raise CheckFailed("; ".join(said))
    return said


def _mean(values: Iterable[float | None]) -> float:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else math.nan
