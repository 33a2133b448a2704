"""Finding completions in a run of 100,000 of 2 KB: opening, paging, text, patterns, queries, memory.

    python benchmarks/completions.py [--completions 100000] [--rounds 5] [--folder DIR]

The run is written once, through the real writer, and kept in a folder under the temporary one (about 280 MB
for 100,000, some ten seconds; ten times as much for a million). Everything is asked of the engine that the
pane and `grpo-tui completions` use, in a process without a screen, with the file in the system's cache.

Prints medians over the rounds: until the first hits are there, until the search is done, processor time of
this process and its children, and resident memory beside that of a process that has only imported the engine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _completions_folder import make

from grpo_tui.store.rollouts import rollouts_of
from grpo_tui.store.search import Found, Search

PAGE = 50
QUESTIONS = (
    ("text, in one of a thousand", '"zebra"', ""),
    ("text, in none", '"quagga"', ""),
    ("text, in nearly all", '"hundred"', ""),
    ("regex, with a word in it", r'text ~ "zebra</think> <answer>\d+<"', ""),
    ("regex, with a common word in it", r'text ~ "wait\W+wait\W+wait"', ""),
    ("regex, without any word in it", r'text ~ "[A-Z]{3}"', ""),
    ("query", "reward<0.2 and tokens>400", ""),
    ("query, sorted", "advantage>0.5", "-advantage,tokens"),
    ("a reward function", "rewards.format is none", ""),
    ("kind of group", "zero_std", ""),
    ("prompt", 'prompt has "+ 22?"', ""),
    ("column of the dataset", 'column.answer == "1024"', ""),
    ("what log_extra gave", "extra.parsed == 23", ""),
    ("everything, sorted", "", "-reward,tokens"),
)


def resident_mb() -> float:
    """Megabytes of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def processor_s() -> float:
    """Processor seconds of this process and its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def opening(path: Path, rounds: int) -> None:
    """Open, newest page."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        search = Search(path)
        found = search.find("", limit=PAGE)
        assert len(rollouts_of(search.run, found.ids[:PAGE])) == PAGE
        taken.append(time.perf_counter() - began)
        search.close()
    print(f"opened, first {PAGE} rows: {1000 * statistics.median(taken):.0f} ms")


def paging(search: Search, rounds: int) -> None:
    """A page from anywhere in the run."""
    ids = search.find("", "step").ids
    taken = []
    for number in range(20 * rounds):
        first = number * 7_919 % max(1, len(ids) - PAGE)
        began = time.perf_counter()
        rollouts_of(search.run, ids[first : first + PAGE])
        taken.append(time.perf_counter() - began)
    print(f"a page of {PAGE} rows: {1000 * statistics.median(taken):.1f} ms")


def question(search: Search, line: str, sort: str) -> tuple[float, float, Found]:
    """Seconds to the first hits and to the end."""
    first: list[float] = []
    began = time.perf_counter()
    found = search.find(line, sort, on_part=lambda _: first.append(time.perf_counter() - began))
    whole = time.perf_counter() - began
    return (first[0] if first else whole), whole, found


def questions(path: Path, rounds: int) -> None:
    """Each question in turn, each with a search of its own, so that children count as processor time."""
    print(f"{'':34}{'hits':>8}{'first':>9}{'whole':>9}{'processor':>11}")
    for name, line, sort in QUESTIONS:
        search = Search(path)
        question(search, line, sort)  # starts what it needs
        in_children = (
            "~" in line or "extra" in line
        )  # their time counts when they end, the first question's too
        before = processor_s()
        taken = [question(search, line, sort) for _ in range(rounds)]
        search.close()
        each = (processor_s() - before) / (rounds + 1 if in_children else rounds)
        first, whole = (statistics.median(column) for column in list(zip(*taken, strict=True))[:2])
        ended = "" if taken[-1][2].complete else "  ended at its limit"
        times = f"{1000 * first:6.0f} ms{1000 * whole:6.0f} ms{1000 * each:8.0f} ms"
        print(f"{name:34}{taken[-1][2].count:8,}{times}{ended}", flush=True)


def memory(path: Path) -> None:
    """What opening, the largest result and a page add."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; import completions as c; print(c.memory_of(sys.argv[3]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent), str(Path(__file__).parents[1]), str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    print(done.stdout.strip())


def memory_of(path: str) -> str:
    """Measure this process, which must be fresh."""
    bare = resident_mb()
    search = Search(Path(path))
    rollouts_of(search.run, search.find("", limit=PAGE).ids[:PAGE])
    opened = resident_mb()
    search.find('"hundred"')
    search.find("", "-reward,tokens")
    found = search.find('"zebra"')
    rollouts_of(search.run, found.ids[:PAGE])
    searched = resident_mb()
    search.close()
    return (
        f"memory: {bare:.0f} MB before, {opened - bare:.0f} MB more with the first rows,"
        f" {searched - bare:.0f} MB more after searches that find all"
    )


def main() -> None:
    """Make the run, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--completions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folder = make(options.folder / f"grpo-tui-completions-{options.completions}", options.completions)
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    size = folder.database.stat().st_size / 1e6
    print(f"{options.completions:,} completions, run.db {size:.0f} MB; load {load:.1f} on {cores} cores")
    opening(folder.database, options.rounds)
    search = Search(folder.database)
    paging(search, options.rounds)
    search.close()
    questions(folder.database, options.rounds)
    memory(folder.database)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
