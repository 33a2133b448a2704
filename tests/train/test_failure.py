"""The first sentence about a failure is its cause, its place, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.data.load import DataError
from grpo_tui.train.failure import describe


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except type(error) as caught:
        return caught


CASES: list[tuple[BaseException, str, str]] = [
    (
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        "generate",
        "out of memory while in phase gen",
    ),
    (RuntimeError("probability tensor contains either `inf`, `nan`"), "generate", "lower learning rate"),
    (OSError("We couldn't connect to 'https://huggingface.co' to load"), "load", "Give a local folder"),
    (ConnectionError("Couldn't reach 'x/y' on the Hub (OfflineModeIsEnabled)"), "load", "grpo_tui.dataset"),
    (ImportError("vLLM is not available and `use_vllm` is True."), "load", "grpo-tui[vllm]"),
    (ValueError("GRPOTrainer does not support `nn.DataParallel`"), "load", "CUDA_VISIBLE_DEVICES"),
    (DataError("rows.jsonl has no column prompt"), "load", "rows.jsonl has no column prompt"),
    (ZeroDivisionError("division by zero"), "update", "the update failed (test_failure.py:"),
    (RuntimeError(" \n "), "save", "RuntimeError, without a message"),
    (RuntimeError("x" * 5_000), "save", f": RuntimeError: {'x' * 400}…"),
    (MemoryError(), "update", "MemoryError: the process ran out of memory"),
    (
        ExceptionGroup("several", [KeyError("gold"), ValueError("b")]),
        "reward",
        "ExceptionGroup: several (2 sub-exceptions), the first of them KeyError: 'gold'",
    ),
    (RuntimeError("Error(s) in loading Model:\n\tsize mismatch for q"), "load", "Model: size mismatch for q"),
]


@pytest.mark.parametrize(("error", "phase", "words"), CASES)
def test_the_cause_says_what_happened_and_the_way_on(error: BaseException, phase: str, words: str) -> None:
    described = describe(_raised(error), phase)
    assert words in described["cause"]
    assert "{" not in described["cause"]
    assert described["type"] == type(error).__name__


def test_a_reward_is_named_with_the_line_of_its_own_code(tmp_path: Path) -> None:
    file = tmp_path / "judges.py"
    file.write_text("def judge():\n    return {}['missing']\n")
    space: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    with pytest.raises(KeyError) as caught:
        space["judge"]()  # type: ignore[operator]
    described = describe(caught.value, "reward", "judge", 'completion "x" of prompt "p"')
    place = "reward function 'judge' failed (judges.py:2): KeyError: 'missing'"
    assert described["cause"] == f'{place}, on completion "x" of prompt "p"'


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        (
            ConnectionRefusedError("port 8000"),
            "RuntimeError: no judge (because of ConnectionRefusedError: port 8000)",
        ),
        (KeyError(), "RuntimeError: no judge (because of KeyError)"),
        (MemoryError(), "MemoryError: the process ran out of memory (no judge)"),
    ],
)
def test_what_an_exception_was_raised_from_in_the_end_is_told(behind: BaseException, said: str) -> None:
    error, between = RuntimeError("no judge"), ValueError("between")
    error.__cause__, between.__cause__ = between, behind
    behind.__cause__ = error  # a circle must not hold it up
    assert describe(error, "reward", "judge")["cause"].endswith(said)


def test_an_exception_that_cannot_be_shown_is_still_told() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert "a Broken that cannot be shown" in describe(_raised(Broken()), "update")["cause"]
