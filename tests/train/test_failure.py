"""The first sentence about a failure is its cause, its place, and what to do."""

from __future__ import annotations

import importlib
import py_compile
from pathlib import Path

import pytest

from grpo_tui.cli import main
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


def test_a_compiled_module_that_a_full_disk_cut_short_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "cut_by_a_full_disk.py"
    source.write_text("VALUE = 'x' * 1000\n")
    compiled = Path(py_compile.compile(str(source)) or "")
    compiled.write_bytes(compiled.read_bytes()[:-4])
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EOFError) as caught:
        importlib.import_module(source.stem)
    cause = describe(caught.value, "load")["cause"]
    assert cause.startswith(f"{compiled} is incomplete, probably because the disk was full. Delete it")
    assert "incomplete" not in describe(_raised(EOFError("end of input")), "load")["cause"]
    command = importlib.import_module("grpo_tui.cli.main")
    monkeypatch.setattr(command, "import_module", lambda name: importlib.import_module(source.stem))
    assert main(["runs"]) == 2
    assert capsys.readouterr().err.endswith(f"{cause}\n")
