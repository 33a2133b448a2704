"""One open config: bytes, edits, undo, saving beside others, fixes, and values that are those of a start."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.coerce import CoerceError
from grpo_tui.config.draft import ChangedOnDiskError, Draft
from grpo_tui.config.draft_file import DraftFileError
from grpo_tui.config.resolve import load_config
from grpo_tui.config.yaml_edit import EditError

CONFIGS = Path(__file__).parents[2] / "configs"

WHOLE = (
    "# a head\nmodel_name_or_path: gpt2\ndataset_name: d\nreward_funcs: [accuracy_reward]\n"
    "learning_rate: 1.0e-6   # the rate\nuse_cpu: true\nbf16: false\n"
)

ODD_BYTES = {
    "nothing": b"",
    "comments": b"# only\n\n  # this",
    "Windows": b"a: 1\r\nb: |\r\n  x\r\n",
    "mixed line ends": b"a: 1\r\nb: 2\nc: 3\r",
    "byte order mark": b"\xef\xbb\xbfa: 1\n",
    "no last line end": b"a: 1\nb: 2",
    "blank lines and blanks": b"\n\n a: 1   \n\n\n",
    "tabs": b"a: |\n  x\ty\t\n",
    "other scripts": "名: 値 # ü\n".encode(),
    "anchors": b"a: &x {p: 1}\nb: *x\n",
    "no YAML": b"a: [1\n\tb: }\n",
}


def write(folder: Path, text: str, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("content", ODD_BYTES.values(), ids=ODD_BYTES)
def test_an_untouched_file_keeps_every_byte(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    draft = Draft.open(path)
    assert not draft.edited
    draft.save()
    assert path.read_bytes() == content
    draft.save_as(tmp_path / "b.yaml")
    assert (tmp_path / "b.yaml").read_bytes() == content


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_edit_of_a_shipped_config_and_its_undo(path: Path) -> None:
    draft = Draft.open(path)
    lines = draft.text.splitlines()
    draft.set("learning_rate", 3.3e-6)
    draft.set("adam_epsilon", 1e-7)
    after = draft.text.splitlines()
    assert [line for line in after if line not in lines and "learning_rate" not in line] == [
        "adam_epsilon: 1.0e-7"
    ]
    assert sum(line not in after for line in lines) <= 1
    while draft.undo():
        pass
    assert draft.text.encode() == path.read_bytes()


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(DraftFileError, match="not UTF-8 text"):
        Draft.open(tmp_path / "a.yaml")
    with pytest.raises(DraftFileError, match=r"b\.yaml: no such file"):
        Draft.open(tmp_path / "b.yaml")


# Saving


def test_saving_keeps_mode_and_link_and_leaves_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = write(tmp_path / "real", "a: 1\n")
    target.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(target)
    draft = Draft.open(link)
    draft.set("a", 2)
    draft.save()
    assert link.is_symlink()
    assert target.read_text() == "a: 2\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(target.parent) == ["a.yaml"]
    assert not draft.edited


def test_a_write_protected_file_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a: 1\n")
    path.chmod(0o444)
    draft = Draft.open(path)
    draft.set("a", 2)
    with pytest.raises(DraftFileError, match="write-protected"):
        draft.save(force=True)
    assert path.read_text() == "a: 1\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_somebody_else_stays_theirs(tmp_path: Path) -> None:
    path = write(tmp_path, "a: 1\n")
    os.chown(path, 12345, 12345)
    draft = Draft.open(path)
    draft.set("a", 2)
    draft.save()
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12345)


def test_a_value_that_is_no_plain_data_is_refused() -> None:
    draft = Draft.new("a: 1\n")
    with pytest.raises(EditError, match="cannot be written into a config"):
        draft.set("a", object())


def test_a_new_file_gets_the_mode_that_others_get(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        draft = Draft.new("a: 1\n", tmp_path / "a.yaml")
        assert draft.edited
        draft.save()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.yaml").stat().st_mode) == 0o640


def test_a_file_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path, "a: 1\n")
    draft = Draft.open(path)
    draft.set("a", 2)
    os.utime(path, (1, 1))
    assert not draft.changed_on_disk()  # its time is not its content
    path.write_text("a: 3\n")
    assert draft.changed_on_disk()
    with pytest.raises(ChangedOnDiskError, match="changed on disk since you opened it") as caught:
        draft.save()
    assert (caught.value.mine, caught.value.theirs) == ("a: 2\n", "a: 3\n")
    assert path.read_text() == "a: 3\n"
    draft.save(force=True)
    assert path.read_text() == "a: 2\n"
    assert not draft.changed_on_disk()


def test_a_deleted_file_is_noticed_and_a_file_that_appeared_too(tmp_path: Path) -> None:
    path = write(tmp_path, "a: 1\n")
    draft = Draft.open(path)
    path.unlink()
    with pytest.raises(ChangedOnDiskError, match="no longer exists"):
        draft.save()
    fresh = Draft.new("b: 1\n", path)
    write(tmp_path, "c: 1\n")
    with pytest.raises(ChangedOnDiskError):
        fresh.save()
    assert path.read_text() == "c: 1\n"


def test_save_as_overwrites_nothing_unasked_and_moves_the_draft(tmp_path: Path) -> None:
    draft = Draft.open(write(tmp_path, "a: 1\n"))
    other = write(tmp_path, "b: 1\n", "b.yaml")
    with pytest.raises(ChangedOnDiskError) as caught:
        draft.save_as(other)
    assert caught.value.theirs == "b: 1\n"
    draft.save_as(tmp_path / "c.yaml")
    assert draft.path == tmp_path / "c.yaml"
    draft.set("a", 5)
    draft.save()
    assert (tmp_path / "a.yaml").read_text() == "a: 1\n"
    assert (tmp_path / "c.yaml").read_text() == "a: 5\n"


def test_reading_the_file_anew_can_be_undone(tmp_path: Path) -> None:
    path = write(tmp_path, "a: 1\n")
    draft = Draft.open(path)
    draft.set("a", 2)
    path.write_text("a: 3\n")
    draft.reload()
    assert (draft.text, draft.edited) == ("a: 3\n", False)
    draft.undo()
    assert (draft.text, draft.edited) == ("a: 2\n", True)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    draft = Draft.new("a: 1\n", tmp_path / "none" / "a.yaml")
    with pytest.raises(DraftFileError, match="cannot write to"):
        draft.save()
    with pytest.raises(DraftFileError, match="no file yet"):
        Draft.new("a: 1\n").save()


def test_a_folder_that_goes_away_while_a_file_is_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some").mkdir()
    draft = Draft.new("a: 1\n", tmp_path / "some" / "a.yaml")
    monkeypatch.setattr("os.fsync", lambda handle: shutil.rmtree(tmp_path / "some"))
    with pytest.raises(DraftFileError, match=r"a\.yaml cannot be written: No such file"):
        draft.save()


# Undo


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def typed(draft: Draft, words: str, at: int | None = None) -> None:
    place = len(draft.text) if at is None else at
    for n, character in enumerate(words):
        draft.replace_text(draft.text[: place + n] + character + draft.text[place + n :])


def steps_back(draft: Draft) -> list[str]:
    seen = []
    while draft.undo():
        seen.append(draft.text)
    return seen


def test_a_word_typed_in_one_go_is_one_step() -> None:
    clock = Clock()
    draft = Draft("a: 1\n", None, clock=clock)
    typed(draft, "bc: 22")
    assert steps_back(draft) == ["a: 1\n"]
    assert draft.redo()
    assert draft.text == "a: 1\nbc: 22"


@pytest.mark.parametrize("between", ["a pause", "another place", "a line end", "an edit of the form", "undo"])
def test_a_step_of_typing_ends(between: str) -> None:
    clock = Clock()
    draft = Draft("a: 1\n", None, clock=clock)
    typed(draft, "b: 1")
    if between == "a pause":
        clock.now += 5
        typed(draft, "2")
        assert steps_back(draft) == ["a: 1\nb: 1", "a: 1\n"]
    elif between == "another place":
        typed(draft, "0", at=4)
        assert steps_back(draft) == ["a: 1\nb: 1", "a: 1\n"]
    elif between == "a line end":
        typed(draft, "\nc")
        assert steps_back(draft) == ["a: 1\nb: 1\n", "a: 1\nb: 1", "a: 1\n"]
    elif between == "an edit of the form":
        draft.set("b", 3)
        typed(draft, "4")
        assert steps_back(draft) == ["a: 1\nb: 3", "a: 1\nb: 1", "a: 1\n"]
    else:
        draft.undo()
        typed(draft, "z")
        assert not draft.redo()
        assert steps_back(draft) == ["a: 1\n"]


def test_backspaces_are_one_step_and_a_paste_is_its_own() -> None:
    draft = Draft("a: 1234\n", None, clock=Clock())
    for end in (6, 5, 4):
        draft.replace_text("a: 1234"[:end] + "\n")
    draft.replace_text("a: 199999\n")
    assert steps_back(draft) == ["a: 1\n", "a: 1234\n"]


# Text that is no YAML while it is typed


def test_an_unreadable_text_keeps_the_last_values_and_refuses_the_form() -> None:
    draft = Draft.new(WHOLE)
    assert draft.values()["learning_rate"].value == 1e-6
    draft.replace_text(WHOLE + "beta: [0.1\nmax_steps: 3\n")
    assert draft.problem is not None
    assert (draft.problem.line, draft.problem.column) == (9, 10)
    assert draft.values()["learning_rate"].value == 1e-6
    assert [finding.id for finding in draft.findings] == ["config.unreadable"]
    with pytest.raises(EditError, match=r"fix the YAML error first: line 9, column 10: "):
        draft.set("learning_rate", 2e-6)
    draft.replace_text(WHOLE + "beta: 0.1\n")
    assert draft.problem is None
    assert draft.values()["beta"].value == 0.1


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\n\tb: 2\n", 2), ("a: 1\na: 2\n", 2), ("- a\n", 1), ("a: \x07\n", 1), ("a: 'x\n", 1)],
)
def test_a_problem_has_its_line(text: str, line: int) -> None:
    problem = Draft.new(text).problem
    assert problem is not None
    assert problem.line in (line, line + 1)


# Words of a form

WORDS: dict[tuple[str, str], Any] = {
    ("learning_rate", "5e-6"): 5e-6,
    ("num_generations", " 16 "): 16,
    ("use_peft", "yes"): True,
    ("run_name", "no"): "no",
    ("run_name", "1e5"): "1e5",
    ("loss_type", "DR_GRPO"): "dr_grpo",
    ("scale_rewards", "false"): "none",
    ("save_strategy", "no"): "no",
    ("reward_weights", "1, 2.5"): [1.0, 2.5],
    ("lora_target_modules", "q_proj, v_proj"): ["q_proj", "v_proj"],
    ("model_init_kwargs", "{use_kernels: true}"): {"use_kernels": True},
    ("epsilon_high", "null"): None,
    ("grpo_tui.holdout", "8"): 8,
    ("grpo_tui.system_prompt", "yes"): "yes",
    ("grpo_tui.rewards.0.weight", "1e-1"): 0.1,
    ("grpo_tui.rewards.0.name", "on"): "on",
}


@pytest.mark.parametrize(("key", "words", "value"), [(*key, value) for key, value in WORDS.items()])
def test_what_is_typed_is_read_as_its_fields_type(key: str, words: str, value: Any) -> None:
    draft = Draft.new(WHOLE + "grpo_tui:\n  rewards:\n    - {name: a, source: b.c}\n")
    draft.set_words(key, words)
    read = draft.get(key)
    assert (read, type(read)) == (value, type(value))


def test_words_that_do_not_fit_are_refused_and_empty_ones_remove_the_key() -> None:
    draft = Draft.new(WHOLE)
    for key, words in (("learning_rate", "fast"), ("loss_type", "gpro"), ("num_generations", "8.5")):
        with pytest.raises(CoerceError):
            draft.set_words(key, words)
    assert draft.text == WHOLE
    assert draft.has("learning_rate")
    draft.set_words("learning_rate", " ")
    assert not draft.has("learning_rate")
    assert not draft.set_words("learning_rate", "")


# Fixes

FIXES = {
    "a wrong name, in place": ("num_generation: 4   # few\n", "num_generations: 4   # few\n"),
    "a removed name that has a new one": ("warmup_ratio: 0.1  # w\n", "warmup_steps: 0.1  # w\n"),
    "a removed name without one": ("max_prompt_length: 256\n", ""),
    "a wrong name beside the right one": ("lr: 2.0e-6\n", ""),
    "a key that belongs into the section": ("holdout: 4\n", "grpo_tui:\n  holdout: 4\n"),
    "a key that lies too deep": (
        "training:\n  max_steps: 5  # few\n  beta: 0.1\n", "training:\n  beta: 0.1\nmax_steps: 5\n",
    ),
    "a nested name": (
        "model_init_kwargs:\n  torch_dtype: bfloat16  # d\n", "model_init_kwargs:\n  dtype: bfloat16  # d\n",
    ),
    "a choice that is not known": ("loss_type: gpro  # l\n", "loss_type: grpo  # l\n"),
    "a number out of its range": ("top_p: 2  # t\n", "top_p: 1.0  # t\n"),
    "a dataset of the Hub in the section": (
        "grpo_tui:\n  dataset: openai/gsm8k\n  holdout: 2\n", "grpo_tui:\n  holdout: 2\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), FIXES.values(), ids=FIXES)
def test_a_findings_fix_is_made_where_it_belongs(before: str, after: str) -> None:
    whole = WHOLE.replace("dataset_name: d\n", "") if "openai" in before else WHOLE
    draft = Draft.new(whole + before)
    finding = next(f for f in draft.findings if f.fix is not None and f.line and f.line > whole.count("\n"))
    assert draft.apply(finding)
    if "openai" in before:
        assert draft.get("dataset_name") == "openai/gsm8k"
        assert draft.text.endswith(after)
    elif "max_steps" in before:
        assert sorted(draft.text.splitlines()) == sorted((whole + after).splitlines())
    else:
        assert draft.text == whole + after
    assert finding not in draft.findings
    draft.undo()
    assert draft.text == whole + before


def test_a_batch_that_does_not_fit_is_mended_step_by_step() -> None:
    draft = Draft.new(WHOLE + "num_generations: 6\nper_device_train_batch_size: 4\n")
    finding = next(f for f in draft.findings if f.id == "batch.indivisible")
    draft.apply(finding)
    assert not [f for f in draft.findings if f.severity == "error"]


# Values


def test_values_are_those_of_a_start(tmp_path: Path) -> None:
    path = write(
        tmp_path, WHOLE + 'num_generations: "4"\nscale_rewards: false\nsave_strategy: no\ndtype: BFloat16\n'
    )
    draft = Draft.open(path)
    config = load_config(path)
    values = draft.values()
    for part in (config.grpo, config.model_args, config.script, config.mixture):
        for name, value in part.items():
            assert values[name].value == value, name
            assert values[name].origin == "file"
    assert draft.findings == config.findings
    assert values["num_generations"].written == "4"


def test_a_value_says_where_it_came_from(tmp_path: Path) -> None:
    preset = write(tmp_path, "beta: 0.1\nmax_steps: 100\n", "preset.yaml")
    draft = Draft.new(WHOLE + "beta: 0.1\nmax_steps: 5\n", preset=preset)
    draft.override(["weight_decay=0.2", "grpo_tui.holdout=3"])
    values = draft.values()
    told = {name: (values[name].value, values[name].origin, values[name].line) for name in (
        "learning_rate", "beta", "max_steps", "weight_decay", "grpo_tui.holdout", "epsilon",
    )}  # fmt: skip
    assert told == {
        "learning_rate": (1e-6, "file", 5),
        "beta": (0.1, "preset", 8),
        "max_steps": (5, "file", 9),
        "weight_decay": (0.2, "--set", None),
        "grpo_tui.holdout": (3, "--set", None),
        "epsilon": (0.2, "default", None),
    }
    assert values["beta"].differs
    assert not values["learning_rate"].differs
    assert "weight_decay" not in draft.text


def test_a_field_knows_its_findings_choices_and_type() -> None:
    draft = Draft.new(
        WHOLE + "loss_type: gpro\ngrpo_tui:\n  rewards:\n    - {source: rewards.py:x, wight: 1}\n"
    )
    values = draft.values()
    assert [finding.id for finding in values["loss_type"].findings] == ["config.type"]
    assert values["loss_type"].value == "gpro"  # what is written, for it fits nothing
    assert "dapo" in values["loss_type"].choices
    assert values["loss_type"].kind == "one of 8"
    assert values["use_peft"].choices == ("true", "false")
    assert values["epsilon_high"].kind == "number, may be empty"
    assert values["steps_per_generation"].default.startswith("gradient_accumulation_steps")
    assert {f.id for f in values["grpo_tui.rewards"].findings} >= {"section.unknown-key"}


def test_values_are_computed_once_for_a_text_and_anew_after_an_edit() -> None:
    draft = Draft.new(WHOLE)
    first, version = draft.values(), draft.version
    assert draft.values() is first
    draft.set("beta", 0.04)
    assert draft.version > version
    assert draft.values()["beta"].value == 0.04
    assert not draft.set("beta", 0.04)
