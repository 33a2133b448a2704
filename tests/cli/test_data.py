"""`grpo-tui data`, its words and its exit codes; one child serves all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import pytest

from grpo_tui.cli import data as command
from grpo_tui.cli.main import main
from grpo_tui.preflight.checker import Checker
from grpo_tui.preflight.rewards import GoldReward

MODEL = Path(__file__).parents[2] / "grpo_tui" / "demo" / "model"
EVIL = "\x1b]52;c;aGk=\x07[/INST]"


class Shared(Checker):
    """A checker whose child outlives the commands."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stay."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    checker = Shared()
    yield checker
    checker.close()


@pytest.fixture
def run(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command over some rows and gives code, output and errors."""
    monkeypatch.setattr(command, "Checker", lambda progress: shared)
    rows = [{"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(30)]
    rows[4]["question"] = f"5 + {EVIL}?"
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "config.yaml").write_text(
        f"model_name_or_path: {MODEL}\nreward_funcs: [accuracy_reward]\nnum_generations: 4\n"
        "per_device_train_batch_size: 8\nmax_completion_length: 32\n"
        "grpo_tui: {dataset: rows.jsonl, columns: {prompt: question}, answer: gsm8k, system_prompt: Think.}\n"
    )

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["data", str(tmp_path / "config.yaml"), *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_all_rows_in_figures(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    assert out.startswith("rows.jsonl   30 rows   prompts of 17 to 35 tokens")
    assert "from question, 30 different" in out
    assert "─ prompt, in tokens ── median" in out
    assert "─ answers ── 30 different ── each once" in out


def test_a_row_and_what_the_model_gets(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("--row", "3", "--no-rewards")
    assert code == 0
    assert "─ row 3 of 30" in out
    assert "<|system|>Think.<|end|><|user|>2 + 1?<|end|><|assistant|>" in out
    assert " answer  3" in out


def test_a_search_names_the_rows_and_shows_the_first(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("--search", "9 + 1", "--no-rewards")
    assert code == 0
    assert out.startswith("3 rows contain it: 10, 20, 30\n")
    assert "─ row 10 of 30" in out


def test_hostile_text_is_shown_and_not_obeyed(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = run("--row", "5", "--no-rewards")
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "␛]52;c;aGk=␇[/INST]" in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--row", "31"), 2, "--row 31: the dataset has 30 rows"),
        (("--search", "nothing like it"), 1, "no row contains 'nothing like it'"),
        (("--set", "grpo_tui.dataset=gone.jsonl"), 2, "gone.jsonl"),
        (("--row", "1", "--set", "grpo_tui.columns.prompt=quest"), 0, ""),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    words: tuple[str, ...], code: int, said: str, run: Callable[..., tuple[int, str, str]]
) -> None:
    found, _, err = run(*words)
    assert found == code
    assert said in err
    assert len(err.splitlines()) <= 2


def test_json_has_facts_findings_and_rows(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("--json", "--set", "grpo_tui.columns.prompt=quest")
    body = json.loads(out)
    assert code == 1
    assert set(body) == {"data", "tokenizer", "findings"}
    assert body["tokenizer"] is not None
    assert body["findings"][0]["id"] == "data.unusable"
    assert body["data"]["source_columns"] == ["question", "answer"]
    _, out, _ = run("--row", "2", "--json", "--no-rewards")
    row = json.loads(out)["row"]
    assert row["rewards"] == []
    assert (row["number"], row["tokens"], row["columns"]) == (2, len("Think.1 + 1?") + 5, {"answer": "2"})


def test_json_has_what_each_reward_gives_the_right_answer(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        GoldReward("right", 2.0, 1.0, 0.0, "#### 10"),
        GoldReward("judge", 1.0, None, None, "", "raised"),
    ]
    monkeypatch.setattr(command, "gold_rewards", lambda lab, view: found)
    monkeypatch.setattr(command.Lab, "load", lambda self, config: None)
    code, out, _ = run("--search", "9 + 1", "--json")
    body = json.loads(out)
    assert (code, body["note"], body["row"]["matches"]) == (0, "", [10, 20, 30])
    assert body["row"]["rewards"] == [asdict(one) for one in found]


def test_a_plain_locale_gets_plain_letters(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    _, out, _ = run()
    assert "- prompt, in tokens -- median" in out
    assert out.isascii()
