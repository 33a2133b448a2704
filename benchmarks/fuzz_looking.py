"""Look at hostile run folders with every viewing command, for as long as wanted.

The cases are those of `tests/processes/fuzz.py`:

python benchmarks/fuzz_looking.py --minutes 20 --seed 1
python benchmarks/fuzz_looking.py --seed 1 --case 17
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.processes.fuzz import Fuzz


def main() -> int:
    """Run cases and print what came of them; 0 when nothing hung, died or was executed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="only this one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        os.chdir(folder)
        os.environ |= {f"GRPO_TUI_{name}_DIR": f"{folder}/{name}" for name in ("STATE", "CONFIG")}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the figures are printed all the same
        fuzz = Fuzz(Path(folder), asked.seed)
        end = time.monotonic() + 60 * asked.minutes
        numbers = itertools.count() if asked.case is None else iter([asked.case])
        try:
            for number in numbers:
                fuzz.case(number)
                if time.monotonic() > end:
                    break
        finally:
            fuzz.close()
            found = fuzz.outcome
            print(f"seed {asked.seed}: {found.files} files, {found.commands} commands")
            print(
                f"hangs: {len(found.hangs)}, executions: {len(found.executions)}, deaths: {len(found.deaths)}"
            )
            print(f"exceptions without a sentence of their own: {sum(found.surprises.values())}")
            for line in (*found.hangs, *found.deaths, *found.executions, *found.surprises):
                print(f"  {line}")
    return 1 if found.hangs or found.deaths or found.executions else 0


if __name__ == "__main__":
    raise SystemExit(main())
