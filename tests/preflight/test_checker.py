"""The checker and its child process: parts as they come, rows, a child that hangs, dies or is not wanted."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.preflight.checker import CheckCancelledError, Checked, Checker, CheckerError
from grpo_tui.rewards.score_report import FunctionInfo
from tests.family import gone

DEMO = Path(__file__).parents[2] / "grpo_tui" / "demo"


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    """One child for all tests that leave it alive."""
    with Checker() as made:
        yield made


@pytest.fixture(scope="module")
def demo() -> RunConfig:
    return load_config(DEMO / "demo.yaml")


def with_rows(folder: Path, body: str) -> RunConfig:
    (folder / "rows.py").write_text(f"import os, time\n\n\ndef rows():\n    {body}\n")
    (folder / "run.yaml").write_text(
        f"model_name_or_path: {DEMO / 'model'}\nreward_funcs: [accuracy_reward]\n"
        "grpo_tui:\n  dataset: rows.py:rows\n"
    )
    return load_config(folder / "run.yaml")


def test_each_part_is_told_as_soon_as_it_is_known(checker: Checker, demo: RunConfig) -> None:
    told: list[Checked] = []
    found = checker.check(demo, tell=told.append)
    parts = [[name for name in ("data", "model", "tokenizer") if getattr(t.facts, name)] for t in told]
    assert parts == [["data"], ["data", "model"], ["data", "model", "tokenizer"]] + [parts[-1]] * (
        len(parts) - 3
    )
    assert (found.findings, found.done) == ((), True)
    facts = found.facts
    assert facts.model is not None
    assert facts.tokenizer is not None
    assert facts.data is not None
    assert facts.model.shape is not None
    assert facts.model.shape.parameters == 801_152
    assert facts.tokenizer.tail == "<|user|>What is 8 + 11?<|end|><|assistant|>"[-40:]
    assert (facts.data.train_rows, facts.data.held) == (360, 40)
    assert facts.data.prompt_tokens is not None
    assert told[0].facts.data is not None
    assert told[0].facts.data.prompt_tokens is None


def test_the_parent_imports_nothing_heavy() -> None:
    heavy = {"torch", "transformers", "datasets", "trl", "peft"}
    code = "import json, sys, grpo_tui.preflight.checker; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(json.loads(done.stdout))


def test_rows_are_served_while_the_child_lives(checker: Checker, demo: RunConfig) -> None:
    row = checker.row(demo, 3)
    assert (row.number, row.total, row.fate) == (3, 400, "train")
    assert row.tokens == 17
    assert row.rendered.endswith("<|assistant|>")
    assert checker.any_row(demo, seed=1).number == checker.any_row(demo, seed=1).number
    assert 3 in checker.holding(demo, "1 + 7")


def test_rows_shown_and_searched_are_those_of_the_config_that_asks(
    checker: Checker, demo: RunConfig, tmp_path: Path
) -> None:
    other = with_rows(tmp_path, "return [{'prompt': f'{n} apples', 'answer': '1'} for n in range(3)]")
    for _ in range(2):
        assert (checker.row(demo, 1).total, checker.holding(demo, "apples")) == (400, ())
        assert checker.any_row(other, seed=1).total == 3
        assert (checker.row(other, 2).source["prompt"], checker.holding(other, "2 a")) == ("1 apples", (3,))


def test_the_rows_shown_as_held_out_are_those_of_the_seed_that_asks(
    checker: Checker, demo: RunConfig
) -> None:
    def held(seed: int) -> list[int]:
        config = replace(demo, grpo={**demo.grpo, "seed": seed})
        return [n for n in range(1, 61) if checker.row(config, n).fate != "train"]

    first, second = held(42), held(7)
    assert first
    assert second
    assert first != second
    assert held(42) == first


def test_a_rewards_missing_column_is_found_when_its_function_is_given(
    checker: Checker, demo: RunConfig
) -> None:
    def correct(completions: list[str], solution: list[str], **kwargs: object) -> list[float]:
        return []

    takes = tuple(inspect.signature(correct).parameters.values())
    info = FunctionInfo(0, "correct", 1.0, "function", "r.py:correct", parameters=takes)
    found = checker.check(demo, rewards=[info], parts=["data"])
    assert [finding.id for finding in found.findings] == ["rewards.missing-column"]
    assert "solution" in found.findings[0].message


def test_a_change_of_lora_alone_reads_no_row_again(checker: Checker, tmp_path: Path) -> None:
    log = tmp_path / "read"
    config = with_rows(
        tmp_path, f"open({str(log)!r}, 'a').write('x'); return [{{'prompt': 'hi', 'answer': '1'}}]"
    )
    first = checker.check(config)
    other = replace(
        config, model_args={**config.model_args, "use_peft": True, "lora_target_modules": ["no", "x"]}
    )
    second = checker.check(other)
    assert log.read_text() == "x"
    assert "model.lora-targets" in {finding.id for finding in second.findings}
    assert second.facts.data == first.facts.data
    assert second.facts.tokenizer == first.facts.tokenizer
    (tmp_path / "rows.py").write_text("def rows():\n    return [{'prompt': 'another', 'answer': '1'}] * 2\n")
    changed = checker.check(other)
    assert changed.facts.data is not None
    assert (changed.facts.data.total, changed.facts.data.duplicates) == (2, 1)


def test_a_child_that_is_killed_is_told_and_comes_back(
    checker: Checker, demo: RunConfig, tmp_path: Path
) -> None:
    config = with_rows(tmp_path, "os.kill(os.getpid(), 9)")
    found = checker.check(config)
    assert [finding.id for finding in found.findings] == ["checker.failed"]
    assert "ended while reading the dataset: killed by SIGKILL" in found.findings[0].message
    assert checker.row(demo, 1, rendered=False).number == 1


def test_a_child_that_hangs_is_ended(checker: Checker, tmp_path: Path) -> None:
    config = with_rows(tmp_path, "time.sleep(600)")
    checker.row(load_config(DEMO / "demo.yaml"), 1, rendered=False)  # its imports are done
    checker._child.quiet_s, before = 1.0, checker._child.quiet_s
    try:
        with pytest.raises(
            CheckerError, match="did not respond for 1 s while reading the dataset, and was stopped"
        ):
            checker.row(config, 1)
    finally:
        checker._child.quiet_s = before


def test_nothing_is_left_running_after_a_cancel(tmp_path: Path) -> None:
    config = with_rows(
        tmp_path, f"open({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}.'); time.sleep(600)"
    )
    cancel = threading.Event()

    def watch() -> None:
        file = tmp_path / "pid"
        while not (file.is_file() and file.read_text().endswith(".")):
            time.sleep(0.02)
        cancel.set()

    threading.Thread(target=watch, daemon=True).start()
    with Checker(cancel=cancel) as alone:
        with pytest.raises(CheckCancelledError):
            alone.check(config)
        pid = int((tmp_path / "pid").read_text().rstrip("."))
        assert gone(pid)


def test_what_the_data_lacks_is_one_sentence(checker: Checker, tmp_path: Path) -> None:
    config = with_rows(tmp_path, "raise RuntimeError('no \\x1b[31m rows today')")
    with pytest.raises(
        CheckerError, match=r"rows.py:5: rows\(\) failed: RuntimeError: no .* rows today"
    ) as told:
        checker.row(config, 1)
    assert "\x1b" not in str(told.value)
    assert "\n" not in str(told.value)
