"""The checks of a run that is looked at: pre-flight, trial, probe prompts, tokens of the live policy.

Each by its command, each judged by what the command or the record says. Knows nothing of models or GPUs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from program import Run
from report import CheckFailed, Report
from setups import PROBES, Setup

STEP_S = 90.0
ALIKE = 1e-6
"""Most nats between a token's log-probability under the live policy and under its checkpoint, in float32."""
ALIKE_ROUNDED = 0.15
"""As `ALIKE` where the model computes in 16 bits: a batch of another shape is summed in another order."""
PROMPT = "Ada has 3 books and buys 4 more. How many books does she have now?"


def look(run: Run, report: Report, setup: Setup, config: Path, *, rounded: bool) -> None:
    """Run every check of a scenario; a failed one does not keep the next from being tried."""
    with report.check("check finds no error") as detail:
        found = json.loads(run.program("check", config, "--json").stdout)
        detail.append(_severities(found["findings"]))
    with report.check("train --smoke") as detail:
        words = ("train", config, "--run-dir", run.folder, "--smoke")
        said = run.program(*words, limit_s=2 * setup.load_s).stdout.splitlines()
        detail += [" ".join(line.split()) for line in said if line.startswith(("memory", "rate", "reloaded"))]
        if len(detail) != 3:
            raise CheckFailed("; ".join(said))
    with report.check("starts, reaches step 3", needed=True):
        run.program("train", config, "--run-dir", run.folder, "--detach")
        run.at_step(3, setup.load_s)
    with report.check("probe prompts asked before training and after", needed=True) as detail:
        run.command("pause")
        held = run.in_state("paused", STEP_S).step
        detail.append(_probed(run, held))
    with report.check("a typed prompt while paused") as detail:
        outcome = run.command("sample", PROMPT, "--count", "2")
        texts = [completion["text"] for completion in outcome["result"]["completions"]]
        detail.append(f"{texts[0][:60]!r}")
        if len(texts) != 2 or outcome["step"] != held:
            raise CheckFailed(f"at step {outcome['step']}: {texts}")
    group = max(g.id for g in run.reader().iter_groups() if g.mode == "train")
    live: dict[str, Any] = {}
    with report.check("tokens of the live policy, against the reference") as detail:
        live = _tokens(run, group, "live", "--base")
        detail.append(_described(live))
        if any(token["kl"] is None or token["kl"] < -ALIKE for token in live["tokens"]):
            raise CheckFailed("a token has no KL")
    with report.check("tokens of the same policy's checkpoint") as detail:
        run.command("checkpoint")
        kept = _tokens(run, group, f"checkpoint={held}")
        most = _furthest(live, kept)
        detail.append(f"{_described(kept)}; log-probabilities at most {most:.2g} nats from the live ones")
        if not most <= (ALIKE_ROUNDED if rounded else ALIKE):
            raise CheckFailed(detail[0])
    with report.check("stop --now leaves no process"):
        run.program("stop", run.folder, "--now")
        report.until(lambda: not run.processes(), "the end of every process", 60)


def _severities(findings: list[dict[str, Any]]) -> str:
    errors = [finding for finding in findings if finding["severity"] == "error"]
    if errors:
        raise CheckFailed("; ".join(f"{finding['id']}: {finding['message']}" for finding in errors))
    return ", ".join(finding["id"] for finding in findings) or "nothing at all"


def _probed(run: Run, held: int) -> str:
    """Every probe's step with its completions."""
    groups = [group for group in run.reader().iter_groups() if group.mode == "probe"]
    steps = sorted({group.step for group in groups})
    due = [step for step in range(held) if step % PROBES["every"] == 0]  # that of `held` waits for the resume
    counts = {len(group.completions) for group in groups}
    if steps != due or counts != {PROBES["count"]} or len(groups) != PROBES["prompts"] * len(due):
        raise CheckFailed(f"{len(groups)} groups of {counts} completions at steps {steps}, held at {held}")
    return f"{PROBES['prompts']} × {PROBES['count']} at steps {', '.join(map(str, steps))}"


def _tokens(run: Run, group: int, policy: str, *more: str) -> dict[str, Any]:
    words = ("--group", str(group), "--from", policy, *more, "--json")
    found: dict[str, Any] = json.loads(run.program("tokens", run.folder, *words).stdout)
    return found


def _described(found: dict[str, Any]) -> str:
    told = f"{found['of']} tokens, recorded {found['recorded']}, {found['precision']} on {found['device']}"
    return told + f", {found['seconds']:.2f} s"


def _furthest(one: dict[str, Any], other: dict[str, Any]) -> float:
    pairs = zip(one["tokens"], other["tokens"], strict=True)
    return max(abs(a["logprob"] - b["logprob"]) for a, b in pairs)
