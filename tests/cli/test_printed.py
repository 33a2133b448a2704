"""What `score`, `probe` and the commands that steer print for values that are made here: no process runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from grpo_tui.cli import doctor, rewards, steer
from grpo_tui.cli.score import report_lines
from grpo_tui.core.commands import Outcome
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.health.reading import Diagnosis
from grpo_tui.rewards.answer_format import Form
from grpo_tui.rewards.probes import Aspect, KindReport, ProbeReport, ProbeVerdict
from grpo_tui.rewards.score_report import Failure
from tests.rewards.reports import made_report, samples


def test_the_table_of_scores_has_groups_functions_and_findings() -> None:
    finding = Finding("rewards.few", "info", None, None, "two rewards " + "many words " * 8)
    lines = list(report_lines(made_report(findings=[finding]), 90))
    assert lines[:5] == [
        "What is 0 + 7?   mean 1.33  std 1.53",
        "    #  kind   correctness   format  incremental    total  advantage  completion",
        "    1  gold          1.00     1.00         1.00     3.00       1.09  <think>⏎I work it ou…",
        "    2  wrong         0.00     1.00         1.00     1.00      -0.22  <think>⏎I work it ou…",
        "    3                0.00     0.00         none     0.00      -0.87  I think 7 [/INST] [@…",
    ]
    assert lines[8].startswith("    4  gold "), "the numbers are those of all samples"
    assert lines[12:16] == [
        "function      weight  scored    share     time",
        "correctness        2   100 %     71 %     4 ms",
        "format           0.5   100 %     14 %     8 ms",
        "incremental      0.5    67 %     14 %    12 ms",
    ]
    assert [line[:12] for line in lines[17:]] == ["info     two", "         man"]
    assert lines[-1].endswith(" [rewards.few]")


def test_the_table_says_what_failed_what_is_flat_and_what_is_left_out() -> None:
    failed = list(report_lines(made_report(failure=Failure("raised", "ValueError", "no judge")), 100))
    assert failed[2].split()[:5] == ["1", "gold", "failed", "1.00", "1.00"]
    assert failed[13].endswith("0 ms  ValueError: no judge")
    assert failed[14].strip() == "printed: before it fell"
    assert failed[-1] == "no findings"
    flat = list(report_lines(made_report(scores=[[1.0] * 6] * 3), 100))
    assert flat[0] == "What is 0 + 7?   mean 3.00  std 0.00  zero std: nothing to learn"
    assert flat[13].split()[3:5] == ["%", "–"]
    alone = made_report([sample for sample in samples() if sample.kind == "gold"])
    assert "flat" not in "".join(report_lines(alone, 100)), "one completion has nothing to be flat with"
    assert "… 2 more groups; --json prints all" in list(report_lines(made_report(samples(42)), 100))


FORM = Form("tags", "think", "answer")
RIGHT = Aspect(answer=True, form=True, reversed=False)


def _kind(function: str, fault: str, kind: str) -> KindReport:
    verdict = ProbeVerdict(function, kind, fault, 0.75, 1.0, 0.0, "it names both", 0, "4 or\n5")
    return KindReport(function, kind, fault, 2, 3, verdict)


def test_a_probe_is_told_by_function_and_by_what_is_wrong_with_it() -> None:
    functions = made_report(failure=Failure("raised", "ValueError", "no judge")).scored.functions
    kinds = (
        _kind("format", "fooled", "hedged"),
        _kind("format", "unfair", "unit"),
        _kind("total", "fooled", "x"),
    )
    aspects = {"format": RIGHT, "incremental": Aspect(answer=False, form=False, reversed=False)}
    found = ProbeReport(FORM, 3, 60, functions, aspects, kinds, ())
    assert list(rewards.probe_lines(found)) == [
        "60 completions for 3 rows of the dataset; answers as <answer>…</answer> after <think>…</think>",
        "\ncorrectness: failed: ValueError: no judge",
        "\nformat: looks at the answer and the format",
        "  accepts by mistake",
        "    hedged                       2 of 3 rows     0.75 of 1.00   it names both",
        "  rejects by mistake",
        "    unit                         2 of 3 rows     0.75 of 1.00   it names both",
        "\nincremental: gives correct, wrong and unformatted answers the same score",
        "\nthe weighted total: gives correct, wrong and unformatted answers the same score",
        "  accepts by mistake",
        "    x                            2 of 3 rows     0.75 of 1.00   it names both",
    ]
    good = replace(found, kinds=(), aspects={"format": RIGHT}, made_up=True)
    shown = list(rewards.probe_lines(replace(good, form=Form("boxed")), show=True))
    assert shown[0] == "60 completions for 3 built-in questions; answers in \\boxed{}"
    assert shown[2] == "\nformat: looks at the answer and the format; no probe fooled it"
    assert "      4 or⏎5" in list(rewards.probe_lines(found, show=True))


SAMPLED = {
    "before": "40 steps",
    "completions": [
        {"tokens": 9, "truncated": True, "text": "a\x1b[1m"},
        {"tokens": 2, "truncated": False, "text": "b"},
    ],
}


@pytest.mark.parametrize(
    ("kind", "applied", "reason", "result", "out", "err"),
    [
        ("stop_now", True, "", {}, "stop now applied at step 7\n", ""),
        ("set", True, "from step 8", {}, "set applied at step 7: from step 8\n", ""),
        ("set", True, "waits", {"scheduled": {"9": {}}}, "set scheduled at step 7: waits\n", ""),
        ("set", True, "now", {"beta": 1, "scheduled": {"9": {}}}, "set applied at step 7: now\n", ""),
        ("abort_reward", False, "no call", {}, "", "grpo-tui: abort reward rejected at step 7: no call\n"),
        (
            "sample", True, "", SAMPLED,
            "asked after 40 steps of training\n--- 9 tokens, truncated\na␛[1m\n--- 2 tokens\nb\n", "",
        ),
    ],
)  # fmt: skip
def test_the_outcome_of_a_command_is_said_and_its_exit_code_is_3_when_refused(
    kind: str,
    applied: bool,
    reason: str,
    result: Mapping[str, Any],
    out: str,
    err: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = Outcome(applied, 7, reason, result, 0.0)
    assert steer._report(kind, outcome, as_json=False) == (0 if applied else 3)
    assert capsys.readouterr() == (out, err)
    assert steer._report(kind, outcome, as_json=True) == (0 if applied else 3)
    body = {"applied": applied, "step": 7, "reason": reason, "result": result}
    assert json.loads(capsys.readouterr().out) == body


def test_a_diagnosis_has_steps_remedies_completions_and_what_was_not_judged() -> None:
    error = Finding(
        "a.rule", "error", None, None, "The reward\nfell", first_step=3, last_step=9,
        evidence={"completions": "step>=3 and reward<1"}, remedies=(Remedy("raise it"), Remedy("lower it")),
    )  # fmt: skip
    warning = Finding("b.rule", "warning", None, None, "Odd", first_step=4, last_step=4)
    info = replace(warning, id="c.rule", severity="info")

    def said(*findings: Finding, **more: tuple[str, ...]) -> list[str]:
        return list(doctor._lines(Diagnosis(findings, 1_200, **{"unknown": (), **more}), "runs/first", 60))

    assert said(error, warning, warning, info, unknown=("kl", "entropy"), off=("d.rule",)) == [
        "error: steps 3 to 9: The reward⏎fell [a.rule]",
        "  fix: raise it",
        "  fix: lower it",
        "  see: grpo-tui completions runs/first --where 'step>=3 and reward<1'",
        "",
        *["warning: step 4: Odd [b.rule]", ""] * 2,
        "info: step 4: Odd [c.rule]",
        "",
        "not recorded, so not judged: kl, entropy",
        "turned off by the config: d.rule",
        "1,200 steps: 1 error, 2 warnings",
    ]
    assert said(info)[-1:] == ["1,200 steps: no errors or warnings"]
    assert said() == ["1,200 steps: no findings"]
