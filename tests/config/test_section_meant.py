"""What does not fit in the section `grpo_tui:` comes with what was meant, and with it the section reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.config.draft import Draft
from grpo_tui.core.findings import errors_of
from grpo_tui.demo import DEMO_MODEL

HEAD = f"model_name_or_path: {DEMO_MODEL}\nbf16: false\nuse_cpu: true\n"
SECTION = "grpo_tui:\n  dataset: rows.jsonl\n"
REWARDS = "  rewards: [{name: right, source: own.py:right}]\n"

VALUES: dict[str, tuple[str, object]] = {
    "holdout: -1": ("grpo_tui.holdout", None),
    "holdout: 1.5": ("grpo_tui.holdout", 2),
    "holdout: 12 rows": ("grpo_tui.holdout", 12),
    "filters: [a]": ("grpo_tui.filters", None),
    "filters: 512": ("grpo_tui.filters", {"max_prompt_tokens": 512}),
    "filters: {drop_null: answer}": ("grpo_tui.filters.drop_null", ["answer"]),
    "filters: {max_prompt_tokens: 0}": ("grpo_tui.filters", None),
    "filters: {max_prompt_tokens: 5, min_prompt_tokens: 50}": (
        "grpo_tui.filters",
        {"max_prompt_tokens": 5},
    ),
    "columns: question": ("grpo_tui.columns", {"prompt": "question"}),
    "columns: prompt": ("grpo_tui.columns", None),  # it is read anyway
    "columns: [question]": ("grpo_tui.columns", {"prompt": "question"}),
    "columns: {prompt: 5}": ("grpo_tui.columns", {"prompt": "5"}),
    "columns: {prompt: null}": ("grpo_tui.columns", None),
    "system_prompt: [Think., Then answer.]": ("grpo_tui.system_prompt", "Think.\nThen answer."),
    "few_shot: {user: a, assistant: b}": ("grpo_tui.few_shot", [{"user": "a", "assistant": "b"}]),
    "answer: GSM8K": ("grpo_tui.answer", "gsm8k"),
    "answer: {kind: boxes}": ("grpo_tui.answer", {"kind": "boxed"}),
    "answer: 5": ("grpo_tui.answer", None),
    "answer: {kind: regex}": ("grpo_tui.answer", None),
    "answer: {kind: regex, pattern: '('}": ("grpo_tui.answer", None),
    "chat: 1": ("grpo_tui.chat", True),
    "chat: maybe": ("grpo_tui.chat", None),
    "gpus: [0, 0]": ("grpo_tui.gpus", [0]),
    "gpus: all": ("grpo_tui.gpus", None),
    "gpus: [{a: 1}]": ("grpo_tui.gpus", None),
    "launcher: [torchrun, --nproc_per_node, 2]": ("grpo_tui.launcher", "torchrun --nproc_per_node 2"),
    "launcher: accelerate --num_processes 2": (
        "grpo_tui.launcher",
        "accelerate launch --num_processes 2",
    ),
    "holdout: 4\n  probe_prompts: 20": ("grpo_tui.probe_prompts", {"every": 20}),
    "holdout: 40\n  evaluate: 20": ("grpo_tui.evaluate", {"every": 20}),
    "holdout: 40\n  evaluate: {k: 8}": ("grpo_tui.evaluate", {"k": 8, "samples": 8}),
    "evaluate: {rows: 60}": ("grpo_tui.holdout", 60),
    "evaluate: {rows: 39}": ("grpo_tui.holdout", 40),
    "holdout: 4\n  probe_prompts: {every: 0}": ("grpo_tui.probe_prompts", None),
    "learning_rate: 1.0e-6": ("learning_rate", 1e-6),
    "bf16: true": ("bf16", False),  # the one at the left margin stays
    "hold_out: 4": ("grpo_tui.holdout", 4),
}
ENTRIES: dict[str, object] = {
    "own.py:right": ["own.py:right"],
    "own.py:right, own.py:other": ["own.py:right", "own.py:other"],
    "{name: right, source: own.py:right}": [{"name": "right", "source": "own.py:right"}],
    "{right: own.py:right}": [{"name": "right", "source": "own.py:right"}],
    "[{func: own.py:right}]": [{"source": "own.py:right"}],
    "[{source: own.py:right, coef: 2}]": [{"source": "own.py:right", "weight": 2}],
    "[{source: own.py:right, params: [1]}]": [{"source": "own.py:right"}],
    "[{source: own.py:right, weight: .inf}]": [{"source": "own.py:right", "weight": 1.0}],
    "[own.py:right, own.py:right]": ["own.py:right", {"name": "right_2", "source": "own.py:right"}],
    "[{source: own.py:right}, {source: own.py:right}]": [
        {"source": "own.py:right"},
        {"source": "own.py:right", "name": "right_2"},
    ],
    "[{source: oven.py:right}]": [{"source": "own.py:right"}],
}


def opened(folder: Path, text: str) -> Draft:
    (folder / "rows.jsonl").write_text('{"prompt": "1 + 1?", "answer": "2"}\n')
    (folder / "own.py").write_text("def right(completions, **kwargs):\n    return [1.0] * len(completions)\n")
    (folder / "my.yaml").write_text(text)
    return Draft.open(folder / "my.yaml")


def put_right(draft: Draft) -> int:
    """Apply the fix of every error, once; return how many there were."""
    found = errors_of(draft.findings)
    for finding in found:
        assert finding.line is not None
        draft.apply(finding)
    return len(found)


@pytest.mark.parametrize("body", VALUES)
def test_a_key_of_the_section_is_put_right_by_its_fix(body: str, tmp_path: Path) -> None:
    draft = opened(tmp_path, f"{HEAD}{SECTION}{REWARDS}  {body}\n")
    assert put_right(draft) == 1
    assert not errors_of(draft.findings)
    key, value = VALUES[body]
    assert draft.get(key) == value


@pytest.mark.parametrize("body", ENTRIES)
def test_the_list_of_rewards_is_put_right_by_its_fix(body: str, tmp_path: Path) -> None:
    draft = opened(tmp_path, f"{HEAD}{SECTION}  rewards: {body}\n")
    assert put_right(draft) == 1
    assert not errors_of(draft.findings)
    assert draft.get("grpo_tui.rewards") == ENTRIES[body]


@pytest.mark.parametrize(
    ("name", "meant"), [("row.jsonl", "rows.jsonl"), ("./rows.json", "rows.jsonl"), ("elsewhere.csv", None)]
)
def test_a_data_file_that_is_not_there_is_no_dataset_of_the_hub(
    name: str, meant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draft = opened(tmp_path, f"{HEAD}dataset_name: {name}\ngrpo_tui:\n{REWARDS}")
    (found,) = errors_of(draft.findings)
    assert (found.id, found.field, found.line) == ("config.missing-dataset", "dataset_name", 4)
    assert (found.fix.value if found.fix is not None else None) == meant


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("  dataset: row.json\n" + REWARDS, ("grpo_tui.dataset", "rows.jsonl")),
        (f"{SECTION[9:]}  rewards: [{{name: right, source: owns.py:right}}]\n",
         ("grpo_tui.rewards.0.source", "own.py:right")),
        (f"{SECTION[9:]}  rewards: [{{name: right, source: b_owns.py:right}}]\n",
         ("grpo_tui.rewards.0.source", "own.py:right")),
    ],
)  # fmt: skip
def test_a_file_that_is_not_there_is_taken_for_one_of_its_kind(
    body: str, fix: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "b_owns.yaml").write_text("a: 1\n")
    draft = opened(tmp_path, f"{HEAD}grpo_tui:\n{body}")
    found = next(f for f in draft.findings if f.id == "section.missing-file")
    assert (found.fix and (found.fix.field, found.fix.value)) == fix


def test_an_address_is_no_data_file(tmp_path: Path) -> None:
    draft = opened(tmp_path, f"{HEAD}grpo_tui:\n  dataset: https://a.example/rows.jsonl\n{REWARDS}")
    (found,) = errors_of(draft.findings)
    assert (found.id, found.field) == ("section.address", "grpo_tui.dataset")


@pytest.mark.parametrize("name", ["grpo-tui", "grpotui", "Grpo_Tui", "grpo tui"])
def test_the_section_under_another_name_is_one_error_alone(name: str, tmp_path: Path) -> None:
    draft = opened(tmp_path, f"{HEAD}{SECTION}{REWARDS}".replace("grpo_tui:", f"{name}:", 1))
    assert put_right(draft) == 1
    assert not errors_of(draft.findings)
    assert draft.text == f"{HEAD}{SECTION}{REWARDS}"
