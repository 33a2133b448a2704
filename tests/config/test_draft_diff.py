"""What differs between two configs: by what a start would use, and by lines."""

from __future__ import annotations

from pathlib import Path

from grpo_tui.config.config_diff import Side, diff
from grpo_tui.config.draft import Draft
from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig

TEXT = """\
model_name_or_path: gpt2
dataset_name: d
reward_funcs: [accuracy_reward]
learning_rate: 1e-5   # text for YAML 1.1
beta: 0.0
grpo_tui:
  holdout: 8
  rewards:
    - {name: a, source: m.a, weight: 2.0}
    - {name: b, source: m.b}
"""


def rows(draft: Draft, side: Side) -> list[tuple[object, ...]]:
    return [(row.field, row.here, row.there, row.kind) for row in diff(draft, side).rows]


def opened(folder: Path, text: str = TEXT, name: str = "a.yaml") -> Draft:
    (folder / name).write_text(text)
    return Draft.open(folder / name)


def test_an_unchanged_draft_differs_in_nothing(tmp_path: Path) -> None:
    draft = opened(tmp_path)
    found = diff(draft, Side.saved(draft))
    assert found.same
    assert found.lines == ()


def test_against_the_saved_file_by_value_and_by_line(tmp_path: Path) -> None:
    draft = opened(tmp_path)
    draft.set("learning_rate", 1e-5)  # the same number, written otherwise
    draft.set("grpo_tui.rewards.0.weight", 3.0)
    draft.set("max_steps", 10)
    draft.unset("grpo_tui.holdout")
    assert rows(draft, Side.saved(draft)) == [
        ("grpo_tui.holdout", 0, 8, "removed"),
        ("grpo_tui.rewards.0.weight", 3.0, 2.0, "changed"),
        ("max_steps", 10, -1, "added"),
    ]
    lines = diff(draft, Side.saved(draft)).lines
    assert "-learning_rate: 1e-5   # text for YAML 1.1" in lines
    assert "+max_steps: 10" in lines
    assert lines[0] == "--- the saved file"


def test_against_the_defaults_a_written_default_says_nothing(tmp_path: Path) -> None:
    found = {row[0]: row[1:] for row in rows(opened(tmp_path), Side.defaults())}
    assert "beta" not in found
    assert found["learning_rate"] == (1e-5, 1e-6, "added")
    assert found["grpo_tui.holdout"] == (8, 0, "added")


def test_against_its_preset_and_another_file(tmp_path: Path) -> None:
    preset = opened(tmp_path, TEXT.replace("8", "16"), "preset.yaml")
    draft = Draft.open(opened(tmp_path).path, preset=preset.path)
    side = Side.preset(draft)
    assert side is not None
    assert side.title == "the preset preset"
    wanted = [("grpo_tui.holdout", 8, 16, "changed")]
    assert rows(draft, side) == wanted
    assert rows(draft, Side.of(preset)) == wanted
    assert Side.preset(Draft.new(TEXT)) is None


def test_a_draft_knows_the_shipped_preset_that_its_text_names() -> None:
    draft = Draft.new("# preset: gsm8k\nlearning_rate: 2.0e-6\n")
    assert draft.preset is not None
    assert draft.preset.name == "gsm8k.yaml"
    assert Draft.new("# preset: none-of-ours\n").preset is None


def test_against_what_a_run_was_started_with(tmp_path: Path) -> None:
    draft = opened(tmp_path)
    kept = load_config(draft.path, ["max_steps=7", "grpo_tui.rewards.1.weight=0.5"])
    side = Side.run("run first", RunConfig.from_json(kept.to_json()))
    assert rows(draft, side) == [
        ("grpo_tui.rewards.1.weight", None, 0.5, "removed"),
        ("max_steps", -1, 7, "removed"),
    ]
    assert "max_steps: 7" in side.text
    assert diff(draft, side).lines


def test_rows_are_plain_data_in_the_order_of_the_form(tmp_path: Path) -> None:
    found = diff(opened(tmp_path), Side.defaults()).to_json()
    fields = [row["field"] for row in found["rows"]]
    assert fields.index("model_name_or_path") < fields.index("dataset_name") < fields.index("learning_rate")
    assert set(found) == {"here", "there", "rows"}
