"""The commands that try to fool rewards and that hold them to their cases, with the real lab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_tui.cli import main
from grpo_tui.rewards.lab import Lab

REWARDS = '''\
import re

def contains(completions, answer, **kwargs):
    return [float(gold in text) for text, gold in zip(completions, answer)]

def tagged(completions, answer, **kwargs):
    """Looks for <answer>."""
    found = [re.findall(r"<answer>\\s*(.*?)\\s*</answer>", text, re.DOTALL) for text in completions]
    return [float(len(one) == 1 and one[0] == gold) for one, gold in zip(found, answer)]
'''
CASES = """\
rewards: [rewards.py:tagged]
cases:
  - name: right
    prompt: 2+2?
    completion: <answer>4</answer>
    columns: {answer: "4"}
    expect: {tagged: 1}
  - name: wrong
    prompt: 2+2?
    completion: <answer>5</answer>
    columns: {answer: "4"}
    expect: {tagged: 0}
    below: right
"""


@pytest.fixture(scope="module", autouse=True)
def _nursery() -> Iterator[None]:
    """A lab that lives makes every other start at once."""
    with Lab() as lab:
        lab.start()
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "rewards.py").write_text(REWARDS)
    (tmp_path / "cases.yaml").write_text(CASES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_probe_names_what_fools_a_function_and_what_it_refuses(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "rewards.py:contains", "rewards.py:tagged", "--rows", "2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["made_up"]
    assert found["form"]["style"] == "tags"
    assert [function["looks_at"] for function in found["functions"]] == [["answer"], ["answer", "form"]]
    kinds = {(kind["function"], kind["fault"], kind["kind"]): kind["rows"] for kind in found["kinds"]}
    assert kinds["contains", "fooled", "hedged"] == 2
    assert kinds["contains", "fooled", "wrong, gold in the reasoning"] == 2
    assert ("tagged", "fooled", "hedged") not in kinds
    assert kinds["tagged", "unfair", "unit"] == 2
    assert ("contains", "unfair", "unit") not in kinds


def test_functions_that_read_messages_are_probed_in_messages(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "chat.py").write_text(
        "def chat(completions, answer, **kw):\n"
        "    return [float(gold in c[-1]['content']) for c, gold in zip(completions, answer)]\n"
        "def broken(completions, **kw): return completions[0]['content']\n"
    )
    words = ["probe", "rewards.py:contains", "chat.py:chat", "chat.py:broken", "--rows", "2", "--json"]
    assert main(words) == 1
    found = json.loads(capsys.readouterr().out)
    contains, chat, broken = found["functions"]
    assert chat["error"] is None
    assert chat["looks_at"] == contains["looks_at"]
    fooled = [{k["kind"] for k in found["kinds"] if k["function"] == name} for name in ("contains", "chat")]
    assert fooled[0] == fooled[1]
    assert "TypeError" in broken["error"]


def test_cases_run_holds_rewards_to_what_they_should_give(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cases", "run", "cases.yaml"]) == 0
    assert "2 cases, 2 passed, 0 failed" in capsys.readouterr().out


def test_a_case_that_does_not_hold_fails_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rewards.py").write_text(REWARDS.replace("one[0] == gold", "one[0] != gold"))
    assert main(["cases", "run", "cases.yaml"]) == 1
    said = capsys.readouterr().out
    assert "FAIL  right\n      cases.yaml:3: tagged expected 1, got 0" in said
    assert "cases.yaml:8: total expected below “right”, got 1, and “right” 0" in said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no key')", "FAIL  tagged: ValueError: no key (rewards.py:2)"),
        ("raise SystemExit", "FAIL  tagged: SystemExit: it called exit(), which would end training"),
        ("raise KeyboardInterrupt", "FAIL  tagged: KeyboardInterrupt, without a message (rewards.py:2)"),
        ("__import__('os')._exit(0)", "FAIL  tagged: ended the process: exit code 0"),
    ],
)
def test_cases_fail_when_a_reward_cannot_score(
    body: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rewards.py").write_text(f"def tagged(completions, answer, **kwargs):\n    {body}\n")
    assert main(["cases", "run", "cases.yaml"]) == 1
    printed = capsys.readouterr()
    assert said in printed.out
    assert "cases.yaml: 2 cases, none could be scored" in printed.out
    assert "Traceback" not in printed.out + printed.err


@pytest.mark.parametrize(
    "words", [("probe", "rewards.py:tagged", "--rows", "1"), ("cases", "run", "cases.yaml")], ids=" ".join
)
def test_what_is_asked_now_is_told_and_taken_back_before_the_report(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr("grpo_tui.cli.score.show_progress", said.append)
    main(list(words))
    assert [text for text in said if text.startswith("tagged: ")], said
    assert (said[0], said[-1]) == ("loading torch…", "")
