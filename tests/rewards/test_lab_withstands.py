"""What rewards do to their process is named, the others are scored, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.score_report import FunctionScore
from grpo_tui.rewards.scoring import Report
from tests import PATIENCE_S
from tests.family import everywhere
from tests.processes.runs import until
from tests.rewards.labs import rows, scored, write

SAMPLES = rows(("2+2?", "4"), ("2+2?", "five"), ("3+4?", "7"), answer="4")

LASTS = f"4321.{os.getpid()}"
"""By which the processes of these very tests are known."""

HOSTILE = """
import asyncio, json, os, signal, subprocess, sys, threading, time

def lengths(completions, **kw):
    return [float(len(c)) for c in completions]

def empties(completions, answer, **kw):
    count = len(completions)
    completions.clear()
    answer[:] = ["gone"] * count
    return [0.0, 1.0, 2.0]

def shortens(prompts, completions, **kw):
    prompts.pop()
    return lengths(completions)

def sees_answer(prompts, answer, **kw):
    return [float(a == "gone") for a in answer]

def too_large(completions, **kw):
    return [1e39 if len(c) > 1 else 0.0 for c in completions]

def forks_and_dies(completions, **kw):
    if os.fork() == 0:
        time.sleep(4321.25)
    subprocess.Popen(["sleep", "LASTS"], start_new_session=True)
    os.kill(os.getpid(), signal.SIGKILL)

def changes_json(completions, **kw):
    json.dumps = lambda *args, **kwargs: "nonsense"
    return lengths(completions)

def closes_output(completions, **kw):
    os.close(1)
    return lengths(completions)

async def leaves(completions, **kw):
    await asyncio.sleep(0)
    sys.exit(4)

async def interrupts(completions, **kw):
    raise KeyboardInterrupt

def leaves_a_generator(completions, **kw):
    raise GeneratorExit

def exits(completions, **kw):
    sys.exit()

def interrupts_itself(completions, **kw):
    raise KeyboardInterrupt

def ends_at_once(completions, **kw):
    os._exit(0)

def closes_everything(completions, **kw):
    os.closerange(0, 256)
    return lengths(completions)

def becomes_another(completions, **kw):
    os.execvp("sleep", ["sleep", "LASTS"])

def thread(completions, **kw):
    threading.Thread(target=time.sleep, args=(4321,), name="mine").start()
    return lengths(completions)

def handler(completions, **kw):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return lengths(completions)

def closes_stdout(completions, **kw):
    sys.stdout.close()
    return lengths(completions)

def goes_elsewhere(completions, **kw):
    os.chdir("/")
    return lengths(completions)

def prints(completions, **kw):
    print("said")
    print("aloud", file=sys.stderr)
    return lengths(completions)

def reads_beside(completions, **kw):
    return [float(os.path.exists("rewards.py"))] * len(completions)
""".replace("LASTS", LASTS)
LENGTHS = (1.0, 4.0, 1.0)
NAMES = (
    "forks_and_dies",
    "changes_json",
    "closes_output",
    "leaves",
    "interrupts",
    "too_large",
    "leaves_a_generator",
    "exits",
    "interrupts_itself",
    "ends_at_once",
    "closes_everything",
    "becomes_another",
    "thread",
    "handler",
    "goes_elsewhere",
    "closes_stdout",
    "lengths",
)


@pytest.fixture(scope="module")
def found(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return scored(lab, write(tmp_path_factory.mktemp("hostile"), HOSTILE), NAMES, SAMPLES)


def _of(report: Report, name: str) -> FunctionScore:
    return next(result for result in report.scored.functions if result.info.name == name)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("forks_and_dies", "died", "killed by SIGKILL"),
        ("leaves", "raised", "it called exit(4), which would end training"),
        ("interrupts", "raised", "KeyboardInterrupt"),
        ("leaves_a_generator", "raised", "GeneratorExit, without a message (rewards.py:"),
        ("exits", "raised", "it called exit(), which would end training"),
        ("interrupts_itself", "raised", "KeyboardInterrupt, without a message (rewards.py:"),
        ("ends_at_once", "died", "ended the process: exit code 0"),
        ("closes_everything", "died", "ended the process"),
        ("becomes_another", "died", "it closed its connection to grpo-tui, and was killed"),
    ],
)
def test_what_ends_the_process_or_its_loop_is_named(found: Report, name: str, kind: str, words: str) -> None:
    failure = _of(found, name).failure
    assert failure is not None
    assert (failure.kind, words in failure.text) == (kind, True), failure


def test_the_others_are_scored_all_the_same(found: Report) -> None:
    names = ("changes_json", "closes_output", "lengths")
    assert [_of(found, name).scores for name in names] == [LENGTHS] * 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("thread", "leaves a thread running (mine), and training cannot end before that thread does"),
        ("handler", "replaces the handler of SIGTERM, which grpo-tui needs to stop"),
        ("goes_elsewhere", "changes the current folder to /, which would affect training too"),
        ("closes_stdout", "closes sys.stdout, so nothing printed after that reaches the log"),
        ("lengths", ""),
    ],
)
def test_what_it_leaves_changed_in_the_process_is_told_though_it_scores(
    found: Report, name: str, words: str
) -> None:
    assert _of(found, name).scores == LENGTHS
    told = [f for f in found.findings if f.field == name and f.id == "rewards.changes-process"]
    assert [f.severity for f in told] == (["warning"] if words else [])
    assert words in "".join(f.message for f in told)


def test_what_it_started_is_gone_though_its_parent_was_gone_before(found: Report) -> None:
    assert found is not None
    until(lambda: not everywhere("sleep", LASTS), "the end of what it started")


FAMILIES = """
import subprocess
import psutil
from grpo_tui.children.forker import _end_orphans, adopt_orphans

def family():
    # The shell becomes a program that reaps nobody.
    words = ["sh", "-c", "sleep 4321.75 & exec sleep 4321.75"]
    head = psutil.Process(subprocess.Popen(words, start_new_session=True).pid)
    while not head.children():
        pass
    return head

adopt_orphans()
spared, other = family(), family()
_end_orphans([spared.pid])
print([child.pid == spared.pid for child in psutil.Process().children()], len(spared.children()))
_end_orphans()
print(psutil.Process().children())
"""


def test_families_are_ended_and_reaped_to_the_last_one_but_those_that_are_spared() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAMILIES], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stdout.splitlines() == ["[True] 1", "[]"], done.stderr


STEADY = {"nan": "float('nan')", "infinite": "float('inf')", "none": "None", "zero": "-0.0", "whole": "1"}


@pytest.mark.parametrize("name", STEADY)
def test_a_reward_that_says_the_same_again_is_not_called_random(name: str, lab: Lab, tmp_path: Path) -> None:
    code = f"def f(completions, **kw): return [{STEADY[name]}] + [float(len(c)) for c in completions[1:]]"
    found = scored(lab, write(tmp_path, code), ["f"], SAMPLES)
    (function,) = found.scored.functions
    assert function.repeat is not None
    assert function.repeat.differs == ()
    assert not {"rewards.not-deterministic", "rewards.keeps-state"} & {f.id for f in found.findings}


def test_what_float32_cannot_hold_is_infinite_as_for_trl(found: Report) -> None:
    assert _of(found, "too_large").scores == (0.0, float("inf"), 0.0)
    assert "rewards.infinite" in [f.id for f in found.findings if f.field == "too_large"]


def test_a_changed_argument_is_told_and_seen_by_the_next_function_alone(lab: Lab, tmp_path: Path) -> None:
    file = write(tmp_path, HOSTILE)
    report = scored(lab, file, ["empties", "sees_answer"], SAMPLES)
    empties, after = report.scored.functions
    assert (empties.scores, empties.changed) == ((0.0, 1.0, 2.0), ("completions", "answer"))
    assert after.scores == (1.0, 1.0, 1.0), "TRL hands all functions the same lists"
    assert after.repeat is not None
    assert after.repeat.differs == (), "it is called again with what it was given, so it is not by chance"
    told = [f.message for f in report.findings if f.id == "rewards.changes-arguments"]
    assert len(told) == 1
    assert "changes its arguments (completions, answer)" in told[0]
    assert lab.score(SAMPLES, only=[1]).functions[1].scores == (0.0, 0.0, 0.0), "the samples are as before"


def test_the_list_that_trl_counts_by_is_not_to_be_shortened(lab: Lab, tmp_path: Path) -> None:
    report = scored(lab, write(tmp_path, HOSTILE), ["shortens", "lengths"], SAMPLES)
    shortens, fine = report.scored.functions
    assert fine.scores == LENGTHS
    assert shortens.failure is not None
    assert "changed prompts, which held 3 before and 2 after" in shortens.failure.message


def test_a_load_begins_in_the_folder_of_the_run_again(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, HOSTILE)
    with Lab() as own:
        report = scored(own, file, ["goes_elsewhere", "reads_beside"], SAMPLES)
        assert report.scored.functions[1].scores == (0.0, 0.0, 0.0), "as in training"
        own.reload()
        assert own.score(SAMPLES, only=[1]).functions[1].scores == (1.0, 1.0, 1.0)


def test_a_load_gives_back_a_standard_output_that_was_closed(lab: Lab, tmp_path: Path) -> None:
    closing = HOSTILE.replace("sys.stdout.close()", "sys.stdout.close(); sys.stderr.close()")
    scored(lab, write(tmp_path, closing), ["closes_stdout"], SAMPLES)
    after = _of(scored(lab, write(tmp_path, HOSTILE), ["prints"], SAMPLES), "prints")
    assert after.failure is None
    assert after.output.split() == ["said", "aloud"]
