"""What the rules say of rldoctor's demonstration runs, beside what rldoctor says of them.

    pip install --target /tmp/rldoctor rldoctor
    PYTHONPATH=/tmp/rldoctor python benchmarks/beside_rldoctor.py [--steps 400] [--into FOLDER]

rldoctor makes one run for each of its 11 faults and a healthy one (`rl-doctor demo --list`), with scalars
under TRL's names. They are written as the `trainer_state.json` that TRL leaves in a checkpoint, and both
tools read that file. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from importlib import import_module
from pathlib import Path

from beside_rlprobe import ours

HELD_OUT = {"eval/accuracy": "eval_reward"}
"""rldoctor's name of the held-out score, and the one that TRL writes."""


def main() -> None:
    """Make the runs, judge them, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--into", type=Path, help="keep the logs here")
    given = parser.parse_args()
    theirs, made = import_module("rl_doctor"), import_module("rl_doctor.simulate")
    into = given.into or Path(tempfile.mkdtemp(prefix="grpo-tui-rldoctor-"))
    os.environ.setdefault("GRPO_TUI_CACHE_DIR", str(into / "cache"))
    print("| Run | rldoctor | grpo-tui (first step) |", "|---|---|---|", sep="\n")
    for name in made.SCENARIOS:
        folder = into / name
        log = folder / f"checkpoint-{given.steps}" / "trainer_state.json"
        log.parent.mkdir(parents=True, exist_ok=True)
        records, _ = made.simulate(name, n_steps=given.steps)
        rows = [
            {HELD_OUT.get(key, key): value for key, value in record.items()} | {"step": step}
            for step, record in enumerate(records, 1)
        ]
        state = {"global_step": given.steps, "max_steps": given.steps, "log_history": rows}
        log.write_text(json.dumps(state), encoding="utf-8")
        found = theirs.diagnose(theirs.load_run(str(log))).problems
        named = [f"`{one.detector}`" for one in found if one.severity.name != "INFO"]
        print(f"| `{name}` | {', '.join(named) or 'none'} | {', '.join(ours(folder)) or 'none'} |")


if __name__ == "__main__":
    main()
