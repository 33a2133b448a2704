"""The lab survives what rewards do, names it, and follows the files it was loaded from."""

from __future__ import annotations

import os
import py_compile
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.children.pipe import ChildPipe
from grpo_tui.config.section import RewardEntry, Section
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import Aggregation
from grpo_tui.rewards.scoring import Report, config_of_functions, report, reweighed, unchecked
from tests import PATIENCE_S
from tests.family import everywhere, gone
from tests.processes.runs import until
from tests.rewards.labs import rows, scored, write

SAMPLES = rows(("2+2?", "4"), ("2+2?", "five"), ("3+4?", "7"), answer="4")

LASTS = f"1234.{os.getpid()}"
"""By which the processes of these very tests are known."""

AWKWARD = """
import os, subprocess, sys, time

def fine(completions, **kw):
    print("scored", len(completions))
    os.write(2, b"and from C\\n")
    return [1.0 / (1 + len(c)) for c in completions]

def hang(completions, **kw):
    subprocess.Popen(["sleep", "LASTS"], start_new_session=True)
    print("waiting for a judge")
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass

def late(completions, **kw):
    return [float(len(c)) for c in completions]

def leave(completions, **kw):
    sys.exit(2)

def strict(completions, **kw):
    return [float({"4": 1, "7": 2}[c]) for c in completions]

def ids(completions, completion_ids, **kw):
    return [float(len(i)) for i in completion_ids]
""".replace("LASTS", LASTS)


def test_a_hung_function_is_named_killed_with_its_children_and_the_others_are_scored(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, AWKWARD)
    told: list[tuple[str, str]] = []
    lab.load(config_of_functions([f"{file}:{name}" for name in ("fine", "hang", "late")]))
    monkeypatch.setattr(lab, "limit_s", 3.0)
    pid = lab._pipe.pid if lab._pipe else 0
    scored = lab.score(SAMPLES, tell=lambda name, what: told.append((name, what)))
    fine, hang, late = scored.functions
    assert fine.scores == (0.5, 0.2, 0.5)
    assert fine.output == "scored 3\nand from C\n"
    assert hang.failure is not None
    assert hang.failure.kind == "hung"
    assert "no answer within 3 s" in hang.failure.message
    assert "waiting for a judge" in hang.failure.message
    assert hang.scores == (None, None, None)
    assert late.scores == (1.0, 4.0, 1.0)
    assert ("hang", "scoring") in told
    assert gone(pid)
    until(lambda: not everywhere("sleep", LASTS), "the end of what it started in a session of its own")
    assert lab.aggregate(scored).totals == pytest.approx((1.5, 4.2, 1.5))


def test_a_function_that_exits_or_breaks_on_a_sample_is_told_with_its_place(lab: Lab, tmp_path: Path) -> None:
    file = write(tmp_path, AWKWARD)
    lab.load(config_of_functions([f"{file}:leave", f"{file}:strict"]))
    leave, strict = lab.score(SAMPLES).functions
    assert leave.failure is not None
    assert "it called exit(2), which would end training" in leave.failure.message
    assert strict.failure is not None
    assert (strict.failure.type, strict.failure.sample) == ("KeyError", 1)
    assert (strict.failure.file, strict.failure.line) == (str(file), 25)


def test_without_a_tokenizer_only_a_function_that_looks_at_token_ids_fails(lab: Lab, tmp_path: Path) -> None:
    file = write(tmp_path, AWKWARD)
    lab.load(config_of_functions([f"{file}:ids", f"{file}:fine"]))
    ids, fine = lab.score(SAMPLES).functions
    assert ids.failure is not None
    assert "completion_ids needs the tokenizer of the model" in ids.failure.message
    assert fine.failure is None


def test_a_change_in_the_file_or_in_what_it_imports_is_seen_and_loaded(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__init__.py").write_text("")
    deep = write(tmp_path / "inner", "WORTH = 1.0\n", "worth.py")
    file = write(
        tmp_path,
        "def f(completions, **kw):\n"
        "    from inner.worth import WORTH\n"
        "    return [WORTH for _ in completions]\n",
    )
    lab.load(config_of_functions([f"{file}:f"]))
    assert lab.score(SAMPLES).functions[0].scores == (1.0, 1.0, 1.0)
    package = tmp_path / "inner" / "__init__.py"
    assert set(lab.files) == {str(file), str(package), str(deep)}, (
        "those of this config, also what scoring imported"
    )
    at = os.stat(deep).st_mtime_ns
    deep.write_text("WORTH = 2.0\n")
    os.utime(deep, ns=(at, at))  # as large and as old as before
    lab.reload()
    assert lab.score(SAMPLES).functions[0].scores == (2.0, 2.0, 2.0)
    file.write_text("def f(completions, **kw):\n    return [3.0 for _ in completions\n")
    (broken,) = lab.reload()
    assert broken.failure is not None
    assert broken.failure.kind == "load"
    assert (broken.failure.file, broken.failure.line) == (str(file), 2)
    assert lab.score(SAMPLES).functions[0].failure == broken.failure


def test_one_reward_that_cannot_be_loaded_spares_the_others(lab: Lab, tmp_path: Path) -> None:
    file = write(tmp_path, AWKWARD)
    broken = write(tmp_path, "import nowhere_at_all\ndef f(**kw): ...\n", "broken.py")
    lab.load(config_of_functions([f"{broken}:f", f"{file}:fine", "think_format_rewrad"]))
    first, fine, misspelt = lab.score(SAMPLES).functions
    assert first.failure is not None
    assert "it imports nowhere_at_all, which is not installed" in first.failure.message
    assert fine.scores == (0.5, 0.2, 0.5)
    assert misspelt.failure is not None
    assert "Did you mean think_format_reward?" in misspelt.failure.message


def test_a_file_that_hangs_or_ends_while_it_is_imported_is_named_and_spares_the_others(
    tmp_path: Path,
) -> None:
    hangs = write(tmp_path, "import time\ntime.sleep(600)\n", "hangs.py")
    leaves = write(tmp_path, "import os\nos._exit(5)\n", "leaves.py")
    fine = write(tmp_path, AWKWARD)
    with Lab(limit_s=1.0) as own:
        first, second, third = own.load(config_of_functions([f"{hangs}:f", f"{fine}:fine", f"{leaves}:f"]))
        assert first.failure is not None
        assert first.failure.kind == "hung"
        assert "loading it hung: no answer within 1 s" in first.failure.message
        assert "runs something while it is imported" in first.failure.message
        assert second.failure is None
        assert third.failure is not None
        assert third.failure.message == "loading it ended the process: exit code 5"
        own.limit_s = PATIENCE_S
        found = report(own, SAMPLES)
        assert found.scored.functions[1].scores == (0.5, 0.2, 0.5)
        ids = {finding.id for finding in found.findings}
        assert {"rewards.hangs", "rewards.ends-process"} <= ids
        for file in (hangs, leaves):
            file.write_text("def f(completions, **kw): return [1.0 for _ in completions]\n")
        assert [function.failure for function in own.reload()] == [None] * 3
        assert own.score(SAMPLES).functions[0].scores == (1.0, 1.0, 1.0)


def test_weights_and_muted_functions_change_the_totals_without_a_call(lab: Lab, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "calls = []\n"
        "def a(completions, log_metric, **kw):\n"
        "    calls.append(1)\n    log_metric('calls', len(calls))\n"
        "    return [float(c == '4') for c in completions]\n"
        "def b(completions, **kw): return [None if c == '7' else 0.5 for c in completions]\n",
    )
    lab.load(config_of_functions([f"{file}:a", f"{file}:b"]))
    scored = lab.score(SAMPLES, repeat_limit_s=0.0)
    assert lab.aggregate(scored).totals == (1.5, 0.5, 0.0)
    assert lab.aggregate(scored, [2.0, -1.0]).totals == (1.5, -0.5, 0.0)
    assert lab.aggregate(scored, muted=[0]).totals == (0.5, 0.5, None)
    assert lab.aggregate(scored, [2.0, -1.0], muted=[0]).totals == (-0.5, -0.5, None)
    assert [f.metrics for f in scored.functions] == [{"calls": [1]}, {}]
    assert [f.coverage for f in scored.functions] == [1.0, pytest.approx(2 / 3)]


def test_other_weights_change_what_is_said_of_weights_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "def right(completions, **kw): return [float(c[0] in 'ae') for c in completions]\n"
        "def wrong(completions, **kw): return [2.0 - 2 * float(c[0] in 'ae') for c in completions]\n"
        "def short(completions, **kw): return [0.1 * (len(c) % 5) for c in completions]\n"
        "def flat(completions, **kw): return [1.0] * len(completions)\n",
    )
    samples = rows(*((f"p{n // 4}", letter + "." * (3 * n % 7)) for n, letter in enumerate("abcdefgh")))
    asked = scored(lab, file, ["right", "wrong", "short", "flat"], samples, weights=[2.0, 1.0, 1.0, 1.0])

    def ids(report: Report) -> set[str]:
        return {finding.id for finding in report.findings} & {"rewards.cancel", "rewards.constant"}

    assert ids(asked) == {"rewards.cancel", "rewards.constant"}
    for weights, muted, found in (
        ([2.0, 0.1, 1.0, 1.0], (), {"rewards.constant"}),
        ([2.0, 1.0, 1.0, 1.0], (1,), {"rewards.constant"}),
        ([2.0, 1.0, 1.0, 1.0], (), {"rewards.cancel", "rewards.constant"}),
    ):
        now = reweighed(lab, asked, weights, muted)
        assert ids(now) == found
        assert now.weights == tuple(weights)
        assert now.aggregate == lab.aggregate(asked.scored, weights, muted=muted)
        assert (now.shares[1] == 0.0) is (1 in muted)
    unweighed = reweighed(lab, asked, [1.0] * 4, aggregation=Aggregation("none"))
    assert unweighed.aggregation.scale_rewards == "none"
    first = unchecked(lab, asked.scored, [2.0, 0.1, 1.0, 1.0], asked.findings)
    again = reweighed(lab, asked, [2.0, 0.1, 1.0, 1.0])
    assert (first.aggregate, first.shares, first.weights) == (again.aggregate, again.shares, again.weights)
    assert first.findings == asked.findings


def test_an_interrupt_from_another_thread_ends_the_call_and_the_next_one_works(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, AWKWARD)
    lab.load(config_of_functions([f"{file}:hang", f"{file}:fine"]))
    begun = threading.Event()

    def stop() -> None:
        begun.wait(PATIENCE_S)
        lab.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    monkeypatch.setattr(lab, "limit_s", 1e6)  # no limit ends the call instead
    with pytest.raises(LabError, match="interrupted"):
        lab.score(SAMPLES, tell=lambda name, what: begun.set())
    thread.join()
    until(lambda: not everywhere("sleep", LASTS), "the end of what it started")
    monkeypatch.setattr(lab, "limit_s", 0.5)
    hung = lab.score(SAMPLES, only=[0]).functions[0].failure
    assert hung is not None
    assert hung.kind == "hung", "what ends now is not taken for the interrupt before"
    monkeypatch.setattr(lab, "limit_s", 60)
    lab.load(config_of_functions([f"{file}:fine"]))
    assert lab.score(SAMPLES).functions[0].scores == (0.5, 0.2, 0.5)


def test_a_child_that_leads_no_session_yet_is_ended_too(tmp_path: Path) -> None:
    class SlowStarter:
        """What it starts has not come to `setsid` when it is killed."""

        def fork(self, folder: str, requests: int, answers: int, output: int) -> int:
            self.process = subprocess.Popen(["sleep", "60"])
            return self.process.pid

        def exit_code(self, pid: int) -> int:
            return self.process.wait(PATIENCE_S)

    starter = SlowStarter()
    ChildPipe(starter, str(tmp_path)).close()
    assert starter.process.returncode == -signal.SIGKILL


def test_the_state_that_functions_see_has_the_step(lab: Lab, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "def f(trainer_state, completions, **kw):\n"
        "    return [float(trainer_state.global_step), float(trainer_state.max_steps), 0.0]\n",
    )
    config = replace(config_of_functions([f"{file}:f"]), grpo={"max_steps": 50})
    lab.load(config, step=7)
    assert lab.score(SAMPLES).functions[0].scores == (7.0, 50.0, 0.0)


def test_a_child_that_was_ended_from_outside_is_replaced_without_a_word(lab: Lab, tmp_path: Path) -> None:
    file = write(tmp_path, AWKWARD)
    lab.load(config_of_functions([f"{file}:fine"]))
    assert lab._pipe is not None
    os.kill(lab._pipe.pid, signal.SIGKILL)
    scored = lab.score(SAMPLES)
    assert scored.functions[0].scores == (0.5, 0.2, 0.5)
    lab.interrupt()
    assert lab.aggregate(scored).totals == pytest.approx((0.5, 0.2, 0.5))
    assert lab.score(SAMPLES).functions[0].scores == (0.5, 0.2, 0.5)


def test_what_params_bind_is_no_parameter_that_stays_empty(lab: Lab, tmp_path: Path) -> None:
    file = write(tmp_path, "def f(completions, judge=None, **kw): return [float(judge is None)] * 3\n")
    entry = RewardEntry("named", f"{file}:f", params={"judge": None})
    lab.load(replace(config_of_functions([]), section=Section(rewards=(entry,))))
    found = report(lab, SAMPLES)
    assert [f.info.name for f in found.scored.functions] == ["named"]
    assert "rewards.unfilled-default" not in [finding.id for finding in found.findings]


def test_the_ids_of_a_truncated_completion_have_no_end_token(lab: Lab, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "def count(completion_ids, **kw): return [float(len(ids)) for ids in completion_ids]\n"
        "def last(completion_ids, **kw): return [float(ids[-1]) for ids in completion_ids]\n",
    )
    lab.load(replace(config_of_functions([f"{file}:count", f"{file}:last"]), model=str(DEMO_MODEL)))
    count, last = lab.score([Sample("p", "4", truncated=cut) for cut in (False, True, False)]).functions
    assert (count.failure, last.failure) == (None, None)
    ended, cut, again = (score or 0.0 for score in count.scores)
    assert (ended, again) == (cut + 1, cut + 1)
    assert last.scores[0] == last.scores[2] != last.scores[1]


def test_reserved_columns_never_reach_a_reward_and_a_taken_name_is_refused(lab: Lab, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "def f(completions, log_extra, **kw):\n"
        "    log_extra('names', [sorted(kw)] * len(completions))\n"
        "    return [type(kw['trainer_state']).__name__ == 'TrainerState' for _ in completions]\n",
    )
    lab.load(config_of_functions([f"{file}:f"]))
    odd = rows(("p", "a"), ("p", "b"), answer="4", completion="gold", prompt="p", trainer_state="mine")
    (result,) = lab.score(odd).functions
    assert result.scores == (1.0, 1.0)
    assert result.log_extra["names"][0] == [
        "answer",
        "completion_ids",
        "log_metric",
        "prompts",
        "trainer_state",
    ]
    with pytest.raises(LabError, match="a column completions, under which TRL passes something else"):
        lab.score(rows(("p", "a"), completions="x"))


POOLED = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

@dataclass(frozen=True)
class Item:
    text: str

def size(item):
    from beside import FACTOR

    return FACTOR * float(len(item.text))

def pooled(completions, **kw):
    items = [Item(text) for text in completions]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        scores = list(pool.map(size, items))
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        assert pool.map(size, items) == scores
    return scores

if __name__ == "__main__":
    raise SystemExit("this is no script")
"""


def test_a_function_sends_classes_of_its_file_to_processes_of_its_own(lab: Lab, tmp_path: Path) -> None:
    for factor, name in ((1, "my-rewards.py"), (1, "json.py"), (2, "json.py")):
        file = write(tmp_path, POOLED, name)
        write(tmp_path, f"FACTOR = {factor}\n", "beside.py")
        os.utime(tmp_path / "beside.py", (1e9, 1e9))  # as old and as long as the one before
        if factor == 1:
            py_compile.compile(str(tmp_path / "beside.py"))
        lab.load(config_of_functions([f"{file}:pooled"]))
        (result,) = lab.score(SAMPLES).functions
        assert result.failure is None, result.failure
        assert result.scores == (1.0 * factor, 4.0 * factor, 1.0 * factor)


def test_the_files_are_those_of_every_function_and_none_of_the_dataset(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = write(
        tmp_path,
        "def f(completions, **kw):\n    import late_worth\n    return [late_worth.W for _ in completions]\n",
        "first.py",
    )
    second = write(
        tmp_path,
        "N = []\ndef g(completions, **kw):\n    N.append(1)\n    return [1.0 * len(N)] * len(completions)\n",
        "second.py",
    )
    worth = write(tmp_path, "W = 1.0\n", "late_worth.py")
    write(tmp_path, "TEXT = 'a'\n", "row_text.py")
    write(tmp_path, "import row_text\ndef rows():\n    return [{'prompt': row_text.TEXT}]\n", "mine.py")
    config = config_of_functions([f"{first}:f", f"{second}:g"])
    config = replace(config, section=replace(config.section, dataset=str(tmp_path / "mine.py") + ":rows"))
    lab.load(config)
    assert lab.rows(config, 1)["total"] == 1
    lab.score(SAMPLES)
    assert lab.files == tuple(sorted(str(file) for file in (first, second, worth)))
