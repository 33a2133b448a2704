"""Compare and chat with vLLM and with transformers: both must find the same pass rates, adapters included.

    python benchmarks/gpu/engines.py --model FOLDER     SmolLM2-135M-Instruct from a folder
    python benchmarks/gpu/engines.py --cpu              the shipped demo model: proves the script itself

Trains a LoRA adapter for some steps with vLLM in the process. Then base and adapter answer the same held-out
prompts with either engine. Sampling differs between the engines, so the pass rates may differ by chance only.
Every row says ok, failed or skipped with what was measured; exit 0 when nothing failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import Run, environment
from report import Abandoned, CheckFailed, Report, Row, table
from setups import VLLM, Setup, visible_gpus, write_config

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
ROWS, SAMPLES, STEPS = 64, 8, 6
LIMIT_S = 560.0
SIGMAS = 3.0
"""Chance alone exceeds this in less than 0.3 % of comparisons."""
PROMPT = "Tom has 3 apples, buys 4 more and is given 2. How many apples does Tom have now?"
OFF = ("--set", "use_vllm=false")


class Engines:
    """One run, and its answers with either engine."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.cpu, self.folder, self.model = options.cpu, folder, options.model
        self.report = Report("engines", LIMIT_S * (5.0 if self.cpu else 1.0))
        gpu = {} if self.cpu else {"CUDA_VISIBLE_DEVICES": ",".join(visible_gpus()[:1])}
        self.run = Run(folder / "run", self.report, environment(**gpu))

    def play(self) -> None:
        """Run every check."""
        engine = "transformers" if self.cpu else "vllm"
        if engine == "vllm" and importlib.util.find_spec("vllm") is None:
            self.report.skip("all", "vllm is not installed")
            return
        try:
            with self.report.check("trains an adapter", needed=True):
                self._train()
            found: dict[str, dict[str, Any]] = {}
            for name, words in ((engine, ()), ("transformers, use_vllm=false", OFF)):
                with self.report.check(f"compare with {name}", needed=True) as detail:
                    found[name] = self._compared(words)
                    self._generated_with(found[name], name.partition(",")[0])
                    detail.append(_shown(found[name]))
            first, second = found.values()
            for place, policy in enumerate(("base", "adapter")):
                with self.report.check(f"pass@1 of the {policy} agrees") as detail:
                    detail.append(_agree(first, second, place))
            with self.report.check("chat answers and scores") as detail:
                detail.append(self._chat())
        except Abandoned as reason:
            print(f"engines: abandoned: {reason}", flush=True)
        finally:
            self.run.end()

    def _train(self) -> None:
        settings = {
            **({} if self.cpu else VLLM),
            "max_steps": STEPS,
            "learning_rate": 1e-3,  # so that the adapter answers differently from its base
            "save_strategy": "steps",
            "save_steps": STEPS,
        }
        config = write_config(Setup("engines", 0, settings), self.folder, self.model, self.cpu)
        words = ("--set", f"grpo_tui.holdout={ROWS}", "--headless", "--quick-check")
        self.run.program("train", config, "--run-dir", self.run.folder, *words, limit_s=self.report.left_s())

    def _compared(self, words: tuple[str, ...]) -> dict[str, Any]:
        asked = ("--rows", str(ROWS), "--samples", str(SAMPLES), "--held", "--correct", "right", "--json")
        done = self.run.program(
            "compare", self.run.folder, *asked, *words, limit_s=self.report.left_s(), codes=(0, 1)
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @staticmethod
    def _generated_with(found: dict[str, Any], engine: str) -> None:
        if found["sampling"]["engine"] != engine:
            raise CheckFailed(f"{found['sampling']['engine']} generated: {found['notes']}")

    def _chat(self) -> str:
        words = ("--with", "base", "--prompt", PROMPT, "--json")
        answers = json.loads(self.run.program("chat", self.run.folder, *words, limit_s=120).stdout)["answers"]
        texts = [str(one["text"]) for one in answers]
        if len(texts) != 2 or not all(texts):
            raise CheckFailed(f"{texts}")
        return "; ".join(repr(text[:60]) for text in texts)


def _pass_rates(found: dict[str, Any]) -> list[float]:
    values: list[float] = next(one["values"] for one in found["measures"] if one["name"] == "pass@1")
    return values


def _shown(found: dict[str, Any]) -> str:
    rates = ", ".join(f"{value:.3f}" for value in _pass_rates(found))
    length = next(one["values"] for one in found["measures"] if one["kind"] == "length")
    return f"pass@1 of base and adapter {rates}; tokens {', '.join(f'{value:.1f}' for value in length)}"


def _agree(first: dict[str, Any], second: dict[str, Any], place: int) -> str:
    """Compare a pass rate found twice. Given the prompts, a completion is right or wrong by itself."""
    one, two = _pass_rates(first)[place], _pass_rates(second)[place]
    rate = max((one + two) / 2, 1 / (ROWS * SAMPLES))
    most = SIGMAS * math.sqrt(2 * rate * (1 - rate) / (ROWS * SAMPLES))
    said = f"{one:.3f} and {two:.3f}; they differ by {abs(one - two):.3f}, at most {most:.3f} by chance"
    if abs(one - two) > most:
        raise CheckFailed(said)
    return said


def main() -> int:
    """Run the checks; 0 when nothing failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL, help=f"model id or folder (default {MODEL})")
    parser.add_argument("--cpu", action="store_true", help="prove the script itself without a GPU")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    rows: list[Row] = []
    temporary = Path(tempfile.mkdtemp(prefix="grpo-tui-engines-"))
    try:
        engines = Engines(temporary, options)
        engines.play()
        rows = engines.report.rows
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        print("\n" + table(rows))
    failed = [row for row in rows if row.outcome == "failed"]
    print(f"\n{'FAIL' if failed else 'PASS'}: {len(rows) - len(failed)} of {len(rows)} rows hold")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
