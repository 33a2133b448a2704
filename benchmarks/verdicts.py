"""What the rules say of labelled runs: faults that are named, faults that are missed, and false alarms.

    python benchmarks/verdicts.py [--jobs 2] [--seeds 1 2 3] [--only NAME ...] [--into FOLDER]

Trains the demo with each fault and in each healthy shape, as real runs on the CPU with one thread each, and
reads their records. A run that ended before in FOLDER is judged again and not trained again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from _verdict_runs import FAULTS, HEALTHY, Run

from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.health.reading import begin
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_health import closed_findings, open_findings
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import ENDED, read_status

POLL_S = 0.5
CLI = (sys.executable, "-m", "grpo_tui")


@dataclass(frozen=True, slots=True)
class Named:
    """A finding of a run that is a warning or an error.

    Attributes:
        at: the step after which it was first known.
        first_step: the step that it says it began at.
    """

    rule: str
    at: int
    first_step: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say of one run; `begins` is the step at which its fault began."""

    run: Run
    seed: int
    named: tuple[Named, ...]
    live: frozenset[str]
    begins: int
    steps: int
    state: str

    @property
    def hit(self) -> Named | None:
        """The first finding that names the fault, in time or late."""
        return next((one for one in self.named if one.rule in self.run.expected), None)

    @property
    def after(self) -> int | None:
        """Steps with the fault until it was named."""
        return None if self.hit is None else self.hit.at - self.begins + 1

    @property
    def in_time(self) -> bool:
        """Whether the fault was named within the steps that it may take."""
        return self.after is not None and self.after <= self.run.within

    @property
    def others(self) -> tuple[Named, ...]:
        """Findings that do not name the fault; of a healthy run all are false alarms."""
        return tuple(one for one in self.named if one.rule not in self.run.expected)


def start(run: Run, seed: int, root: Path) -> None:
    """Train one run to its end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    with root.with_name(f"{root.name}.log").open("w") as log:

        def follow(*words: str) -> None:
            command = [*CLI, *words, "--headless"]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
            _watch(run, root, process, environment)

        if run.fault:
            follow("demo", "--fault", run.fault, "--seed", str(seed), "--steps", str(run.steps),
                   "--run-dir", str(root))  # fmt: skip
            return
        settings = [f"seed={seed}", f"max_steps={run.stops or run.steps}", *run.settings]
        options = [word for setting in settings for word in ("--set", setting)]
        follow("train", str(DEMO_CONFIG), "--run-dir", str(root), "--quick-check", "--force", *options)
        if run.stops:
            follow("train", str(root), "--resume", "--set", f"max_steps={run.steps}")


def _watch(run: Run, root: Path, process: subprocess.Popen[bytes], environment: dict[str, str]) -> None:
    """Wait for the end; change what the run changes at its step, and stop it where it pauses."""
    due = run.sets
    while process.poll() is None:
        time.sleep(POLL_S)
        try:
            look = read_status(root)
        except RunDatabaseError:
            continue
        words: list[str] = []
        if due is not None and look.step >= due[0]:
            words, due = ["set", str(root), due[1]], None
        elif look.state == "paused":
            words = ["stop", str(root)]
        if words:
            subprocess.run([*CLI, *words], stdout=subprocess.DEVNULL, env=environment, check=False)


def judge(run: Run, seed: int, root: Path) -> Verdict:
    """Apply the rules to a recorded run, step by step."""
    look = read_status(root)
    found: dict[str, Named] = {}
    with closing(RunReader(RunFolder(root).database)) as reader:
        changes = [change.step + 1 for change in reader.settings()]
        doctor, observations = begin(reader)
        for observation in observations:
            doctor.see(observation)
            for one in doctor.open_findings():
                if one.severity != "info":
                    found.setdefault(one.id, Named(one.id, observation.step, one.first_step or 0))
        stored = [*open_findings(reader), *closed_findings(reader)]
    named = sorted(found.values(), key=lambda one: one.at)
    if look.state in ("failed", "crashed"):
        named.append(Named("run.failed", look.step + 1, look.step + 1))
    live = frozenset(one.id for one in stored if one.severity != "info")
    begins = changes[0] if run.sets and changes else run.begins
    return Verdict(run, seed, tuple(named), live, begins, look.step, look.state)


def table(verdicts: Iterable[Verdict]) -> list[str]:
    """Return the table of faults and the one of healthy runs, as Markdown."""
    by_name: dict[str, list[Verdict]] = {}
    for one in verdicts:
        by_name.setdefault(one.run.name, []).append(one)
    faults = [group for group in by_name.values() if group[0].run.expected]
    healthy = [group for group in by_name.values() if not group[0].run.expected]
    lines = [
        "| Fault | Steps | Named in | Finding | After steps | Also reported |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_fault_line(group) for group in faults]
    lines += ["", "| Healthy run | Steps | Seeds | Errors and warnings |", "|---|---|---|---|"]
    for group in healthy:
        lines.append(f"| `{group[0].run.name}` | {_steps(group)} | {len(group)} | {_told(group) or 'none'} |")
    runs, hits = (
        [one for group in faults for one in group],
        [one for group in faults for one in group if one.in_time],
    )
    late = [one for one in runs if one.hit is not None and not one.in_time]
    well = [one for group in healthy for one in group]
    alarms = [one for one in well if one.named]
    missed = len(runs) - len(hits) - len(late)
    lines.append("")
    lines.append(
        f"Of {len(runs)} runs with a fault, {len(hits)} were named in time, {len(late)} late, {missed} not. "
        f"{len(alarms)} of {len(well)} healthy runs got an error or a warning."
    )
    return lines


def _fault_line(group: Sequence[Verdict]) -> str:
    hits = [one for one in group if one.in_time]
    rules = sorted({one.hit.rule for one in group if one.hit is not None})
    after = sorted(one.after for one in group if one.after is not None)
    span = "" if not after else f"{after[0]}" if after[0] == after[-1] else f"{after[0]} to {after[-1]}"
    return (
        f"| `{group[0].run.name}` | {_steps(group)} | {len(hits)} of {len(group)} | "
        f"{', '.join(f'`{rule}`' for rule in rules) or '**none**'} | {span} | {_told(group)} |"
    )


def _steps(group: Sequence[Verdict]) -> str:
    return str(max(one.steps for one in group))


def _told(group: Sequence[Verdict]) -> str:
    count: dict[str, list[str]] = {}
    for verdict in group:
        for one in verdict.others:
            count.setdefault(one.rule, []).append(f"{one.at}")
    return ", ".join(f"`{rule}` (step {', '.join(steps)})" for rule, steps in count.items())


def train(wanted: Sequence[tuple[Run, int]], into: Path, jobs: int) -> None:
    """Train what has not ended in the folder, the longest first."""
    due = [(run, seed) for run, seed in wanted if not _ended(into / f"{run.name}-{seed}")]
    due.sort(key=lambda one: -one[0].steps)
    begun = time.monotonic()

    def one(place: tuple[Run, int]) -> None:
        run, seed = place
        start(run, seed, into / f"{run.name}-{seed}")
        print(f"{time.monotonic() - begun:6.0f} s  {run.name}-{seed}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, due))


def _ended(root: Path) -> bool:
    try:
        return read_status(root).state in ENDED
    except RunDatabaseError:
        return False


def main() -> None:
    """Train, judge, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these runs, or `faults`, or `healthy`")
    parser.add_argument("--into", type=Path, help="keep the run folders here")
    given = parser.parse_args()
    runs = [run for run in (*FAULTS, *HEALTHY) if _wanted(run, given.only)]
    if not runs:
        raise SystemExit(
            f"no run of that name; there are {', '.join(run.name for run in (*FAULTS, *HEALTHY))}"
        )
    wanted = [(run, seed) for run in runs for seed in given.seeds]
    into = given.into or Path(tempfile.mkdtemp(prefix="grpo-tui-verdicts-"))
    into.mkdir(parents=True, exist_ok=True)
    train(wanted, into, given.jobs)
    verdicts = [judge(run, seed, into / f"{run.name}-{seed}") for run, seed in wanted]
    print("\n".join(table(verdicts)))
    for one in verdicts:
        told = frozenset(found.rule for found in one.named) - {"run.failed"}
        if told != one.live:
            print(f"{one.run.name}-{one.seed}: live {sorted(one.live)}, by its record {sorted(told)}")
        if one.run.expected and not one.in_time:
            print(
                f"{one.run.name}-{one.seed}: {one.state} at step {one.steps}, not named in time: {one.named}"
            )


def _wanted(run: Run, only: Sequence[str] | None) -> bool:
    return not only or run.name in only or ("faults" if run.expected else "healthy") in only


if __name__ == "__main__":
    main()
