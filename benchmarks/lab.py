"""How long it takes from a saved reward file to 1,000 completions scored by 4 functions, with findings.

    python benchmarks/lab.py [--rounds N]

The median over rounds in which the file and a module that it imports are rewritten and everything is loaded
and scored anew in the warm lab. The budget is 0.5 s.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.scoring import ScoreOptions, config_of_functions, report

REWARDS = """
import re
from words import WEIGHT

TAGS = re.compile(r"<think>.+?</think>\\s*<answer>(.+?)</answer>", re.DOTALL)

def correct(completions, answer, log_extra=None, **kwargs):
    found = [TAGS.search(c) for c in completions]
    log_extra("extracted", [m[1] if m else "" for m in found])
    return [float(bool(m) and m[1].strip() == a) for m, a in zip(found, answer)]

def form(completions, **kwargs):
    return [WEIGHT * float(TAGS.fullmatch(c) is not None) for c in completions]

def short(completions, **kwargs):
    return [-min(len(c), 2000) / 2000 for c in completions]

def words(completions, **kwargs):
    return [len(set(c.split())) / max(len(c.split()), 1) for c in completions]
"""


def samples() -> list[Sample]:
    """1,000 completions of some 400 characters, in groups of 8."""
    found = []
    for i in range(1000):
        thought = " ".join(f"step {k} gives {k * i % 97}" for k in range(20 + i % 13))
        text = f"<think>{thought}</think>\n<answer>{i % 8}</answer>" if i % 3 else thought
        found.append(Sample(f"What is {i // 8} + 1?", text, {"answer": str(i // 8 + 1)}))
    return found


def main() -> None:
    """Print the median and the slowest round."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, Lab() as lab:
        file, neighbour = Path(folder) / "rewards.py", Path(folder) / "words.py"
        file.write_text(REWARDS)
        neighbour.write_text("WEIGHT = 1.0\n")
        names = ("correct", "form", "short", "words")
        start = time.perf_counter()
        lab.load(config_of_functions([f"{file}:{name}" for name in names]))
        print(f"first load (torch is imported)   {time.perf_counter() - start:6.2f} s")
        batch = samples()
        scored, checked = [], []
        for number in range(rounds):
            neighbour.write_text(f"WEIGHT = {1.0 + number}\n")
            start = time.perf_counter()
            lab.reload()
            plain = lab.score(batch, repeat_limit_s=0.0)
            lab.aggregate(plain)
            scored.append(time.perf_counter() - start)
            start = time.perf_counter()
            lab.reload()
            found = report(lab, batch, options=ScoreOptions())
            checked.append(time.perf_counter() - start)
            assert max(s or 0 for s in found.scored.functions[1].scores) == 1.0 + number
        for what, values in (("saved -> scored", scored), ("saved -> scored and checked", checked)):
            print(f"{what:32} {statistics.median(values):6.3f} s median, {max(values):.3f} s at most")


if __name__ == "__main__":
    main()
