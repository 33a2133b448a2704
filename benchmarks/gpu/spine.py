"""The whole program on a GPU: check, try, train, steer and look at runs, and what recording costs.

    python benchmarks/gpu/spine.py                       every scenario, SmolLM2-135M-Instruct from the Hub
    python benchmarks/gpu/spine.py --model FOLDER        the same model from a folder
    python benchmarks/gpu/spine.py --only generate,ddp   some of them
    python benchmarks/gpu/spine.py --cpu                 the shipped demo model on the CPU, without vLLM

Prints a row as each check ends, then a table; `--out DIR` also gets `spine.json` and `spine.txt`, which ends
with the logs of what failed. Exit 0 when nothing failed. Scenarios with vLLM are skipped where it is not
installed, those for two GPUs where there are fewer. Nothing it starts outlives it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import step_ratio
from looking import look
from program import ROOT, Run, Server, environment
from report import Abandoned, CheckFailed, Report, Row, as_json, table
from setups import LOOKED_AT, NAMES, PORT, Setup, setups, visible_gpus, write_config
from steering import steer

from grpo_tui import __version__

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets", "vllm")
FEWEST_PAIRS = 20


class Scenario:
    """One scenario on its way: what it started, and what it found."""

    def __init__(self, setup: Setup, folder: Path, options: argparse.Namespace) -> None:
        self.setup, self.folder, self.options = setup, folder, options
        self.report = Report(setup.name, setup.limit_s)
        self.logs: dict[str, str] = {}

    def play(self) -> None:
        """Run it; it ends with nothing left running, whatever happened."""
        if why := self._missing():
            self.report.skip("all", why)
            return
        config = write_config(self.setup, self.folder, self.options.model, self.options.cpu)
        gpus = visible_gpus()
        changes = dict(self.setup.changes)
        if not self.options.cpu:
            # One process that sees two GPUs would spread each batch over both.
            changes["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[: self.setup.ranks])
        env = environment(**changes)
        try:
            if self.setup.name.startswith("ratio"):
                self._ratio(config, env)
            elif self.setup.server:
                self._with_server(config, env, gpus[1])
            else:
                self._steer(config, env)
        except Abandoned as reason:
            print(f"{self.setup.name}: abandoned: {reason}", flush=True)
            if not any(row.outcome == "failed" for row in self.report.rows):
                self.report.rows.append(Row(self.setup.name, "in time", "failed", str(reason), 0.0))
        self._keep_logs()

    def _missing(self) -> str:
        if self.setup.needs and importlib.util.find_spec(self.setup.needs) is None:
            return f"{self.setup.needs} is not installed"
        if not self.options.cpu and len(visible_gpus()) < self.setup.gpus:
            return f"needs {self.setup.gpus} GPUs"
        return ""

    def _steer(self, config: Path, env: dict[str, str]) -> None:
        run = Run(self.folder / "run", self.report, env)
        try:
            if self.setup.name in LOOKED_AT:
                look(run, self.report, self.setup, config, rounded=not self.options.cpu)
            else:
                steer(run, self.report, self.setup, config, self.folder / "hang")
        finally:
            self.logs["train.log"] = run.log_tail()
            run.end()

    def _with_server(self, config: Path, env: dict[str, str], gpu: str) -> None:
        server = Server(
            self.options.model, PORT, self.folder / "server.log", {**env, "CUDA_VISIBLE_DEVICES": gpu}
        )
        try:
            with self.report.check("trl vllm-serve answers", needed=True) as detail:
                self.report.until(server.ready, "an answer of the server", 180)
                detail.append(f"on GPU {gpu}")
            self._steer(config, env)
        finally:
            server.end()

    def _ratio(self, config: Path, env: dict[str, str]) -> None:
        with self.report.check("step time, recorded ÷ plain TRL") as detail:
            pairs = step_ratio.measure(
                config, self.folder, self.options.ratio_seconds, env, self.report.left_s
            )
            if len(pairs) < FEWEST_PAIRS:
                raise CheckFailed(f"only {len(pairs)} pairs in {self.options.ratio_seconds:.0f} s")
            detail.append(step_ratio.describe(pairs))

    def _keep_logs(self) -> None:
        for path in sorted(self.folder.glob("*.log")):
            self.logs[path.name] = path.read_text(errors="replace")[-12_000:]
        if all(row.outcome != "failed" for row in self.report.rows):
            self.logs.clear()


def about(options: argparse.Namespace) -> dict[str, Any]:
    """Versions, cards and the command line."""
    versions = {"python": platform.python_version(), "grpo-tui": __version__}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return {
        "command": shlex.join(["python", *sys.argv]),
        "began": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "cards": _output(query).splitlines(),
        "visible": visible_gpus(),
        "commit": _output(commit).strip(),
        "model": "the demo's" if options.cpu else options.model,
        "versions": versions,
    }


def _output(words: list[str]) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False).stdout
    except OSError:
        return ""


def save(out: Path | None, facts: dict[str, Any], rows: list[Row], logs: dict[str, str]) -> None:
    """Write what is known so far, so that a run that is cut off leaves something."""
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    body = {**facts, "rows": as_json(rows)}
    (out / "spine.json").write_text(json.dumps(body, indent=1, ensure_ascii=False), encoding="utf-8")
    text = json.dumps(facts, indent=1) + "\n\n" + table(rows) + "\n"
    text += "".join(f"\n==== {name}\n{log}\n" for name, log in logs.items())
    (out / "spine.txt").write_text(text, encoding="utf-8")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL, help=f"model id or folder (default {MODEL})")
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of {','.join(NAMES)}")
    parser.add_argument("--cpu", action="store_true", help="prove the script itself without a GPU")
    parser.add_argument("--out", type=Path, help="folder for spine.json and spine.txt")
    parser.add_argument("--ratio-seconds", type=float, default=240.0, help="time of the pairs (default 240)")
    options = parser.parse_args()
    options.only = options.only.split(",")
    for name in options.only:
        if name not in NAMES:
            parser.error(f"no scenario {name}; there are {', '.join(NAMES)}")
    return options


def main() -> int:
    """Run the scenarios; 0 when nothing failed."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    facts = about(options)
    print(json.dumps(facts, indent=1), flush=True)
    rows: list[Row] = []
    logs: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="grpo-tui-gpu-") as temporary:
        for name in options.only:
            scenario = Scenario(setups(options.cpu)[name], Path(temporary) / name, options)
            try:
                scenario.play()
            finally:
                rows += scenario.report.rows
                logs.update({f"{name} {file}": text for file, text in scenario.logs.items()})
                save(options.out, facts, rows, logs)
    print("\n" + table(rows))
    for name, log in logs.items():
        print(f"\n==== {name}\n{log[-3000:]}")
    return int(any(row.outcome == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
