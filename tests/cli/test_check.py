"""`grpo-tui check` as lines: what a person reads, on any terminal, whatever the files hold."""

from __future__ import annotations

import io
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli.check import _wanted, before_start, lines, verdict
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.main import main
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.preflight.report import ChecklistItem, Preflight, in_order
from grpo_tui.preflight.run import QUICK, check
from grpo_tui.preflight.static import Launch
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec

HOSTILE = "\x1b]52;c;aGk=\x07[red]\x9b31m"
FINDINGS = (
    Finding("a.b", "warning", "beta", 3, "beta is odd"),
    Finding("a.c", "error", None, None, f"no place {HOSTILE}", Fix(f"key{HOSTILE}", f"value{HOSTILE}")),
    Finding("a.d", "error", "seed", 2, "a sentence of many words " * 12, Fix(f"seed{HOSTILE}", None)),
)
FOUND = Preflight(
    None,
    in_order(FINDINGS),
    advice=(Finding("x.y", "info", "save_steps", 4, f"save earlier {HOSTILE}", Fix("save_steps", 50)),),
    checklist=(
        ChecklistItem("Look at the data", "yes", "40 rows"),
        ChecklistItem("Look at the rewards", "no", HOSTILE),
        ChecklistItem("Look at the memory", "idle", "nobody knows"),
    ),
    notes=(f"start the server: {HOSTILE}",),
    done=("static",),
)


@pytest.mark.parametrize("width", [40, 80, 110])
def test_a_result_is_read_at_any_width_and_obeys_nothing_that_a_file_holds(width: int) -> None:
    said = lines(FOUND, Path("my.yaml"), width)
    text = "\n".join(said)
    assert not any(sign in text for sign in "\x1b\x07\x9b")
    assert said[0].startswith("error: my.yaml:2: a sentence")
    assert max(len(line) for line in said if "fix:" not in line and "40 rows" in line) <= width
    assert (
        text.index("no place")
        < text.index("beta is odd")
        < text.index("before training")
        < text.index("advice")
    )
    assert "fix: remove seed" in text
    assert said[-1].startswith("not ready: 2 errors, 1 warning; not checked: model, data, rewards, plan")


@pytest.mark.parametrize("other", [{"id": "a.e"}, {"field": "epsilon"}, {"message": "beta is even"}])
def test_findings_that_differ_are_all_listed_and_one_that_is_found_twice_once(other: dict[str, str]) -> None:
    first, second = FINDINGS[0], replace(FINDINGS[0], **other)  # type: ignore[arg-type]
    assert in_order([first, second, first, replace(second)]) == (first, second)


def test_the_verdict_tells_whether_it_can_start() -> None:
    assert verdict(replace(FOUND, findings=FINDINGS[:1])).startswith("ready: 1 warning")
    assert verdict(replace(FOUND, findings=())).startswith("ready: no problems found")


def test_a_quick_check_prints_plan_and_checklist_and_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(DEMO_CONFIG), "--quick"]) == 0
    said = capsys.readouterr().out
    assert "plan  64 completions a step, 8 prompts" in said
    assert "120 steps" in said
    assert said.count("\n  · ") == 4, "what was not looked at is not ticked, nor a tracker that nobody named"
    assert said.rstrip().endswith("not checked: model, data, rewards")


def test_the_processes_count_and_a_changed_key_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "per_device_train_batch_size=3", "--set", "num_generations=9"]
    assert main(["check", str(DEMO_CONFIG), "--quick", "--json", "--world-size", "3", *small]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["generation_batch_size"] == 9
    assert main(["check", str(DEMO_CONFIG), "--quick", "--json", "--world-size", "2", *small]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [f["id"] for f in body["findings"] if f["severity"] == "error"] == ["batch.indivisible"]
    assert body["plan"] is None


def test_a_start_is_stopped_by_errors_and_told_of_warnings_that_are_new(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    start = Launch(root=tmp_path / "run")

    def said(
        *overrides: str, force: bool = False, told: Sequence[Finding] = ()
    ) -> tuple[tuple[str, ...], str]:
        source = inspect_config(DEMO_CONFIG, overrides=overrides)
        forced = before_start(source, start, DEMO_CONFIG, quick=True, force=force, told=told)
        return forced, capsys.readouterr().err

    forced, warned = said("learning_rate=0.5")
    assert forced == ()
    assert warned.startswith("warning: demo.yaml: learning_rate 0.5 is far above")
    assert warned.endswith("  fix: learning_rate: 1.0e-6\n")
    source = inspect_config(DEMO_CONFIG, overrides=("learning_rate=0.5",))
    known = check(source, start, parts=QUICK).findings
    assert said("learning_rate=0.5", told=known) == ((), "")
    wrong = ("remove_unused_columns=true", "grpo_tui.rewards=[rewards.py:format_reward]")
    refusal = "1 error to fix before the run can start. --force starts anyway and notes it.*\nerror:"
    with pytest.raises(CommandError, match=f"{refusal} demo.yaml: remove_unused_columns"):
        said(*wrong)
    forced, warned = said(*wrong, force=True)
    assert [error.partition(": ")[0] for error in forced] == ["training.columns-removed"]
    assert "error: demo.yaml: remove_unused_columns" in warned


class Terminal(io.StringIO):
    """What is printed on a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_is_looked_at_is_told_on_a_terminal_and_gone_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def looks(*_: object, progress: Callable[[str], None], **__: object) -> Preflight:
        progress("reading the model")
        return replace(FOUND, findings=())

    monkeypatch.setattr("grpo_tui.preflight.run.check", looks)
    monkeypatch.setattr(sys, "stderr", Terminal())
    before_start(
        inspect_config(DEMO_CONFIG), Launch(root=tmp_path / "run"), DEMO_CONFIG, quick=False, force=False
    )
    assert sys.stderr.getvalue() == "\r\x1b[Kreading the model\r\x1b[K"
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(["check", str(DEMO_CONFIG)]) == 0
    assert sys.stderr.raw.getvalue() == "\r\x1b[Kreading the model\r\x1b[K"


def test_a_run_is_checked_as_its_resume_would_take_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    spec = RunSpec(
        load_config(DEMO_CONFIG, ["max_steps=7"]).to_json(), launcher=("torchrun", "--nproc_per_node", "2")
    )
    run.mkdir()
    spec.write(RunFolder(run).spec)

    def wanted(**words: object) -> tuple[int | None, Launch]:
        given = {"config": run, "overrides": [], "world_size": None, "run_dir": None, **words}
        inspected, start = _wanted(Namespace(**given))
        assert inspected.settings.get("max_steps") == (7 if given["config"] == run else 120)
        return inspected.settings.world_size, start

    assert wanted() == (2, Launch(spec.launcher, run, resume=True))
    assert wanted(world_size=4) == (4, Launch(spec.launcher, run, resume=True))
    other = tmp_path / "other"
    assert wanted(run_dir=other) == (2, Launch(spec.launcher, other, resume=False))
    assert wanted(overrides=["output_dir=elsewhere"]) == (2, Launch(spec.launcher, None, resume=False))
    assert wanted(config=DEMO_CONFIG, run_dir=other) == (1, Launch((), other))


def test_fix_mends_the_file_shows_the_diff_and_leaves_the_machine_s_errors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "old.yaml"
    kept = f"model_name_or_path: {DEMO_MODEL}\nmax_steps: 3\nuse_cpu: true\nbf16: false\n"
    old = kept + "max_prompt_length: 512  # as the course says\nno_cuda: true\nnum_iteration: 2\n"
    file.write_text(old)
    main(["check", str(file), "--quick", "--fix"])
    said = capsys.readouterr().out
    assert "-max_prompt_length: 512  # as the course says" in said
    assert "-num_iteration: 2\n+num_iterations: 2\n\n" in said
    assert file.read_text() == kept + "num_iterations: 2\n"
    assert "max_prompt_length" not in said.rpartition("num_iterations: 2")[2]
    main(["check", str(file), "--quick", "--fix"])
    assert "+++" not in capsys.readouterr().out


def test_fix_names_no_model_and_leaves_no_number_written_as_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "new.yaml"
    kept = "use_cpu: true\nbf16: false\n"
    file.write_text(f"{kept}learning_rate: 1e-5\nreward_weights: [1e-1]\ngrpo_tui:\n  holdout: '4'\n")
    main(["check", str(file), "--quick", "--fix"])
    said = capsys.readouterr().out
    fixed = f"{kept}learning_rate: 1.0e-5\nreward_weights: [0.1]\ngrpo_tui:\n  holdout: 4\n"
    assert file.read_text() == fixed
    assert "was the text" not in said
    assert "fix: model_name_or_path: " in said


def test_a_failure_is_told_once_and_the_list_points_to_it() -> None:
    wrong = Finding("data.no-room", "warning", "max_completion_length", 2, "no prompt has room")
    item = ChecklistItem("Calculate the longest prompt", "no", f"longest 19 tokens: {wrong.message}")
    text = "\n".join(lines(replace(FOUND, findings=(wrong,), checklist=(item,)), Path("my.yaml"), 100))
    assert text.count(wrong.message) == 1
    assert "longest 19 tokens: see the warning above" in text


def test_a_file_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check", str(tmp_path / "no.yaml")]) == 2
    assert ": no such file\n" in capsys.readouterr().err
    assert main(["check", str(tmp_path)]) == 2
    assert "no run here" in capsys.readouterr().err


def test_a_text_that_is_no_yaml_is_a_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("beta: [1\n")
    assert main(["check", str(file), "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [f["id"] for f in body["findings"]] == ["config.unreadable"]
    assert body["plan"] is None
