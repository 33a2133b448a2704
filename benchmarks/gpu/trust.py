"""What a GPU must show of trust: temperature in full, memory that others hold, FSDP2 with vLLM, a clean end.

    python benchmarks/gpu/trust.py                        every scenario that fits this machine
    python benchmarks/gpu/trust.py --model FOLDER         SmolLM2-135M-Instruct from a folder
    python benchmarks/gpu/trust.py --only held,temperature
    python benchmarks/gpu/trust.py --cpu                  the shipped demo model: proves the script itself

One GPU: `temperature`, `held` (with a run out of memory). Two GPUs: `fsdp2` (vLLM colocated) and `fsdp1`.
Every row says ok, failed or skipped with what was measured; exit 0 when nothing failed. Nothing it starts
outlives it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo_tui.store.read_series import metric_rows

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import yaml
from program import ROOT, Run, environment
from report import Abandoned, CheckFailed, Report, Row, table
from setups import VLLM, Setup, visible_gpus, write_config

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
WARM = 1.7
STEP_S = 90.0
HOLDER = """\
import sys, time, torch
free, _ = torch.cuda.mem_get_info()
kept = torch.empty(max(0, free - int(float(sys.argv[1]) * 2**30)), dtype=torch.uint8, device="cuda").fill_(1)
print("held", flush=True)
time.sleep(600)
"""
"""Takes the memory of the GPU but for so many GiB."""
WHOLE = {"use_peft": False, "lr_scheduler_type": "constant", "bf16": True, "use_vllm": False}
FSDP = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
num_machines: 1
machine_rank: 0
num_processes: 2
main_process_port: 0
mixed_precision: 'bf16'
fsdp_config:
  fsdp_version: {version}
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: {reshard}
  fsdp_state_dict_type: FULL_STATE_DICT
  fsdp_cpu_ram_efficient_loading: false
  fsdp_offload_params: false
"""
DDP_CPU = (
    "accelerate launch --multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no "
    "--dynamo_backend no --main_process_port 0"
)
SCENARIOS = {"temperature": (1, 130.0), "held": (1, 200.0), "fsdp2": (2, 280.0), "fsdp1": (2, 320.0)}
"""GPUs that each needs, and its limit in seconds."""


class Trust:
    """One scenario: a folder, a report, an environment."""

    def __init__(self, name: str, folder: Path, options: argparse.Namespace) -> None:
        self.name, self.folder, self.cpu, self.model = name, folder, options.cpu, options.model
        self.gpus, limit_s = SCENARIOS[name]
        self.slow = 5.0 if self.cpu else 1.0
        self.report = Report(name, limit_s * self.slow)
        self.visible = [] if self.cpu else visible_gpus()[: self.gpus]
        self.env = environment(**({} if self.cpu else {"CUDA_VISIBLE_DEVICES": ",".join(self.visible)}))
        self.run = Run(folder / "run", self.report, self.env)

    def play(self) -> None:
        """Run it, and leave nothing behind."""
        if not self.cpu and len(self.visible) < self.gpus:
            self.report.skip("all", f"needs {self.gpus} GPUs")
            return
        if self.name == "fsdp2" and not self.cpu and importlib.util.find_spec("vllm") is None:
            self.report.skip("all", "vllm is not installed")
            return
        try:
            {"temperature": self.temperature, "held": self.held}.get(self.name, self.sharded)()
        except Abandoned as reason:
            print(f"{self.name}: abandoned: {reason}", flush=True)
            if not any(row.outcome == "failed" for row in self.report.rows):
                self.report.rows.append(Row(self.name, "in time", "failed", str(reason), 0.0))
        finally:
            if any(row.outcome == "failed" for row in self.report.rows):
                print(f"==== {self.name} train.log\n{self.run.log_tail(6000)}", flush=True)
            self.run.end()

    def config(self, **settings: Any) -> Path:
        """The config of this scenario."""
        setup = Setup(self.name, 0, {**WHOLE, **settings})
        return write_config(setup, self.folder, self.model, self.cpu)

    # -- temperature ---------------------------------------------------------------------------------

    def temperature(self) -> None:
        """Full fine-tuning under bf16: the change counts, and equals a run configured so."""
        report, run = self.report, self.run
        with report.check("starts, reaches step 2", needed=True):
            run.program("train", self.config(), "--run-dir", run.folder, "--detach")
            run.at_step(2, 110 * self.slow)
        with report.check("pause, checkpoint", needed=True) as detail:
            run.command("pause")
            held = run.in_state("paused", STEP_S * self.slow).step
            run.command("checkpoint")
            detail.append(f"step {held}")
        with report.check("set temperature is applied", needed=True) as detail:
            change = run.command("set", f"temperature={WARM}")["result"]["temperature"]
            detail.append(f"{change['old']:g} to {change['new']:g}")
        with report.check("three steps after it", needed=True):
            run.command("resume")
            run.at_step(held + 3, STEP_S * self.slow)
            run.command("stop")
            run.in_state("stopped", STEP_S * self.slow)
            first = self._rows()
        with report.check("three steps of a run configured so", needed=True):
            words = ("--set", f"temperature={WARM}", "--set", f"max_steps={held + 3}")
            run.program("train", run.folder, "--resume", str(held), "--detach", *words)
            run.in_state("finished", 110 * self.slow)
        with report.check("both are equal") as detail:
            detail.append(self._both(first, self._rows(), held))

    def _rows(self) -> dict[int, dict[str, float]]:
        reader = self.run.reader()
        rows = metric_rows(reader, limit=10_000)
        reader.close()
        return {step: values for _, step, values in rows if "entropy" in values}

    def _both(
        self, first: dict[int, dict[str, float]], second: dict[int, dict[str, float]], held: int
    ) -> str:
        """Compare the steps after the change with those of the run that was configured so."""
        steps = [held + 1, held + 2, held + 3]
        same = sum(first[n][key] == second[n][key] for n in steps for key in ("loss", "entropy", "reward"))
        entropy = [" ".join(f"{rows[n]['entropy']:.3f}" for n in steps) for rows in (first, second)]
        said = (
            f"entropy {first[held]['entropy']:.3f} before, {entropy[0]} after, {entropy[1]} configured; "
            f"{same} of 9 figures are equal bit for bit"
        )
        # Another kernel may pick another token; a temperature that misses the gradient is off by far more.
        away = max(abs(first[n]["entropy"] / second[n]["entropy"] - 1) for n in steps)
        if (same < 9) if self.cpu else (away > 0.1):
            raise CheckFailed(said)
        return said

    # -- held ----------------------------------------------------------------------------

    def held(self) -> None:
        """A GPU that another process holds: refused before, named, and told with what fits when forced."""
        report, run = self.report, self.run
        config = self.config(max_steps=2, **({} if self.cpu else {"per_device_train_batch_size": 256}))
        with report.check("check on a free GPU") as detail:
            found = self._findings(config)
            if any(f["id"] == "plan.memory-held" for f in found):
                raise CheckFailed(str(found))
            detail.append(f"{len(found)} findings, none of held memory")
        if self.cpu:
            report.skip("a GPU that is held", "there is none")
            return
        with self._holder(2.0) as pid:
            with report.check("check names who holds the GPU") as detail:
                said = [f for f in self._findings(config) if f["id"] == "plan.memory-held"]
                if not said or said[0]["severity"] != "error":
                    raise CheckFailed(f"not found: {self._findings(config)}")
                detail.append(self._names(said[0]["message"], pid))
            with report.check("plan names it too") as detail:
                detail.append(self._names(run.program("plan", config).stdout, pid))
            with report.check("a start is refused") as detail:
                try:
                    run.program(
                        "train", config, "--run-dir", self.folder / "refused", "--quick-check", "--detach"
                    )
                except CheckFailed as error:
                    detail.append(self._names(str(error), pid))
                else:
                    raise CheckFailed("it started")
            with report.check("a forced start runs out of memory and says what fits") as detail:
                run.program("train", config, "--run-dir", run.folder, "--detach", "--force", "--quick-check")
                ended = report.until(self._ended, "the end of the run", 100)
                cause = str((ended.error or {}).get("cause"))
                if ended.state != "failed" or f"GPU {self.visible[0]} (" not in cause:
                    raise CheckFailed(f"{ended.state}: {cause}")
                if not re.search(r"per_device_train_batch_size from 256 to \d+|No batch size fits", cause):
                    raise CheckFailed(cause)
                detail.append(cause[:400])
        fits = re.search(r"per_device_train_batch_size from 256 to (\d+)", cause)
        if fits is None:
            report.skip("the batch that was named trains", "none fits what is free, and the run says so")
            return
        with report.check("the batch that was named trains") as detail, self._holder(2.0):
            smaller = self.folder / "smaller"
            words = (
                "--set",
                f"per_device_train_batch_size={fits[1]}",
                "--headless",
                "--force",
                "--quick-check",
            )
            done = run.program("train", config, "--run-dir", smaller, *words, limit_s=100)
            detail.append(f"{fits[1]} completions: {done.stdout.splitlines()[-1][:80]}")

    def _ended(self) -> Any:
        look = self.run.status()
        return look if look is not None and look.state in ("failed", "finished", "crashed") else None

    def _findings(self, config: Path) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "grpo_tui", "check", str(config), "--json"],
            capture_output=True, text=True, cwd=ROOT, env=self.env, timeout=100, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise CheckFailed(done.stderr)
        found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        return found

    @staticmethod
    def _names(said: str, pid: int) -> str:
        line = next((line.strip() for line in said.splitlines() if "held by" in line), said)
        if f"process {pid}" in line:
            return line[:300]
        if "not visible from here" in line:
            return f"the container hides process ids: {line[:250]}"
        raise CheckFailed(f"process {pid} is not named: {said[:400]}")

    @contextmanager
    def _holder(self, left_gib: float) -> Iterator[int]:
        words = [sys.executable, "-c", HOLDER, str(left_gib)]
        holder = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=self.env)
        try:
            if holder.stdout is None or holder.stdout.readline().strip() != "held":
                raise CheckFailed("the memory could not be taken")
            yield holder.pid
        finally:
            holder.kill()
            holder.wait()

    # -- fsdp2, fsdp1 ---------------------------------------------------------------------------------

    def sharded(self) -> None:
        """Two ranks that share the model: every command, steps after each, and a clean end."""
        report, run, fsdp = self.report, self.run, self.name[-1]
        launch = self._launcher(fsdp)
        settings: dict[str, Any] = {
            "per_device_train_batch_size": 8 if self.cpu else 32,
            "max_steps": 100_000,
        }
        if fsdp == "2" and not self.cpu:
            settings |= VLLM | {"vllm_gpu_memory_utilization": 0.2}
        if self.cpu:
            settings |= {"ddp_backend": "gloo", "bf16": False}
        config = self._probing(self.config(**settings))
        with report.check("starts, reaches step 2", needed=True):
            run.program("train", config, "--run-dir", run.folder, "--detach", "--launcher", launch)
            run.at_step(2, 200 * self.slow)
        with report.check("probe prompts were asked, training goes on") as detail:
            reader = run.reader()
            asked = reader.groups(mode="probe", limit=100)
            reader.close()
            if not asked:
                raise CheckFailed(f"none was kept; log: {run.log_tail(600)}")
            detail.append(f"{len(asked)} answered by step {run.at_step(4, STEP_S * self.slow).step}")
        asks: list[tuple[str, tuple[str, ...]]] = [
            ("sample", ("What is 3 + 4?", "--count", "2")),
            ("tokens", ("--group", "1", "--from", "live")),
            ("set", (f"temperature={WARM}", "learning_rate=2e-5")),
            ("checkpoint", ()),
        ]
        for kind, words in asks:
            with report.check(f"{kind}, then two more steps") as detail:
                before = run.at_step(0, 5).step
                detail.append(self._asked(kind, words))
                detail.append(f"step {run.at_step(before + 2, STEP_S * self.slow).step}")
        with report.check("a command that cannot be carried out is rejected, and two more steps"):
            before = run.at_step(0, 5).step
            try:
                run.command("sample", "x " * 40_000)
            except CheckFailed as error:
                if "tokens" not in str(error):
                    raise
            else:
                raise CheckFailed("it was applied")
            run.at_step(before + 2, STEP_S * self.slow)
        with report.check("stop", needed=True):
            run.command("stop")
            run.in_state("stopped", STEP_S * self.slow)
        with report.check("a clean stop leaves no traceback in the log") as detail:
            log = run.log_tail(200_000)
            bad = [word for word in ("ChildFailedError", "Traceback (most recent call last)") if word in log]
            if bad:
                raise CheckFailed(f"{bad}: {log[log.index(bad[0]) :][:300]}")
            detail.append(f"{len(log.splitlines())} lines")
        with report.check("no process is left"):
            report.until(lambda: not run.processes(), "the end of every process", 30)

    def _asked(self, kind: str, words: tuple[str, ...]) -> str:
        if kind == "tokens":  # it prints figures, not an outcome
            done = self.run.program("tokens", self.run.folder, *words, "--json")
            return f"{len(json.loads(done.stdout)['tokens'])} tokens"
        outcome = self.run.command(kind, *words)
        if not outcome["applied"]:
            raise CheckFailed(outcome["reason"])
        return str(outcome["reason"] or f"{len(outcome['result'].get('completions', ()))} completions")

    def _launcher(self, version: str) -> str:
        if self.cpu:
            return DDP_CPU
        path = self.folder / "fsdp.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FSDP.format(version=version, reshard="true" if version == "2" else "FULL_SHARD"))
        return f"accelerate launch --config_file {path}"

    @staticmethod
    def _probing(path: Path) -> Path:
        values = yaml.safe_load(path.read_text())
        values["grpo_tui"] |= {
            "holdout": 16,
            "probe_prompts": {"source": "holdout", "every": 2, "prompts": 2, "count": 2},
        }
        path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        return path


def main() -> int:
    """Run the scenarios; 0 when nothing failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL, help=f"model id or folder (default {MODEL})")
    parser.add_argument("--only", default=",".join(SCENARIOS), help=f"some of {','.join(SCENARIOS)}")
    parser.add_argument("--cpu", action="store_true", help="prove the script itself without a GPU")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    rows: list[Row] = []
    temporary = Path(tempfile.mkdtemp(prefix="grpo-tui-trust-"))
    try:
        for name in options.only.split(","):
            if name not in SCENARIOS:
                parser.error(f"no scenario {name}; there are {', '.join(SCENARIOS)}")
            scenario = Trust(name, temporary / name, options)
            scenario.play()
            rows += scenario.report.rows
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        print("\n" + table(rows))
    failed = [row for row in rows if row.outcome == "failed"]
    print(f"\n{'FAIL' if failed else 'PASS'}: {len(rows) - len(failed)} of {len(rows)} rows hold")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
