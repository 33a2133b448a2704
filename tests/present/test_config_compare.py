"""What the pane Config says of two configs that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.config.draft import Draft
from grpo_tui.config.resolve import load_config
from grpo_tui.present.config_compare import against, texts
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec

TEXT = """\
model_name_or_path: gpt2
dataset_name: d
reward_funcs: [accuracy_reward]
learning_rate: 2.0e-6
beta: 0.0
"""


@pytest.fixture
def draft(tmp_path: Path) -> Draft:
    path = tmp_path / "a.yaml"
    path.write_text(TEXT)
    draft = Draft.open(path)
    draft.set("max_steps", 5)
    return draft


def test_against_the_saved_file_by_lines(draft: Draft) -> None:
    compared = against("saved", draft)
    assert compared.lines == (
        ("@", "line 3"),
        (" ", "reward_funcs: [accuracy_reward]"), (" ", "learning_rate: 2.0e-6"),
        ("+", "max_steps: 5"),
        (" ", "beta: 0.0"),
    )  # fmt: skip


def test_against_a_text_of_somebody_else(draft: Draft) -> None:
    compared = texts(TEXT.replace("2.0e-6", "3.0e-6") + "max_steps: 5\n", "the file on disk", draft)
    assert compared.theirs == "the file on disk"
    assert ("-", "learning_rate: 3.0e-6") in compared.lines


def test_against_the_defaults_by_fields_that_say_something_else(draft: Draft) -> None:
    lines = against("defaults", draft).lines
    assert ("-", "learning_rate: 1.0e-6") in lines
    assert ("+", "learning_rate: 2.0e-6") in lines
    assert not [text for _, text in lines if text.startswith("beta")]


def test_against_what_a_run_was_started_with(draft: Draft, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    RunSpec(load_config(draft.path, ["beta=0.1"]).to_json()).write(RunFolder(folder).spec)
    compared = against(folder, draft)
    assert compared.theirs == "the run run"
    assert compared.lines == (
        ("-", "max_steps: -1"), ("+", "max_steps: 5"), ("-", "beta: 0.1"), ("+", "beta: 0.0"),
    )  # fmt: skip
