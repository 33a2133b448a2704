"""`grpo-tui config`: fields with advice, differences, and single keys set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.meant import explain
from grpo_tui.config.resolve import load_config
from grpo_tui.config.section import SECTION_KEYS
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec

TEXT = """\
# mine
model_name_or_path: gpt2
dataset_name: d
reward_funcs: [accuracy_reward]
learning_rate: 1.0e-6   # the rate
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my.yaml"
    path.write_text(TEXT)
    return path


def run(*words: object) -> int:
    return main(["config", *map(str, words)])


def test_set_changes_the_lines_of_its_keys_and_shows_them(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("set", file, "learning_rate=5e-6", "grpo_tui.holdout=8") == 0
    assert file.read_text() == TEXT.replace("1.0e-6", "5.0e-6") + "grpo_tui:\n  holdout: 8\n"
    assert capsys.readouterr().out.splitlines() == [
        "-learning_rate: 1.0e-6   # the rate",
        "+learning_rate: 5.0e-6   # the rate",
        "+grpo_tui:",
        "+  holdout: 8",
    ]
    assert run("set", file, "grpo_tui.holdout=", "learning_rate=1e-6") == 0
    assert file.read_text() == TEXT


def test_set_says_what_is_wrong_now_and_writes_nothing_on_trial(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("set", file, "num_generations=7", "--dry-run") == 0
    assert "not a multiple of num_generations 7" in capsys.readouterr().out
    assert file.read_text() == TEXT
    file.write_text(TEXT + "num_generations: 7\n")
    assert run("set", file, "learning_rate=5e-6") == 0
    assert "not a multiple" not in capsys.readouterr().out, "it was wrong before"
    assert run("set", file, "learning_rate=5e-6") == 0
    assert capsys.readouterr().out == f"{file} already has these values\n"


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("learning_rate=fast", "learning_rate must be a number"),
        ("loss_type=gpro", "unknown value 'gpro'"),
        ("num_generation=4", "Did you mean num_generations?"),
        ("group_size=4", "TRL calls it num_generations"),
        ("learning_rate", "write it as KEY=VALUE"),
        ("learning_rate.x=1", "is a single value and has no x"),
    ],
)
def test_set_refuses_what_does_not_fit_and_writes_nothing(
    file: Path, pair: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("set", file, "beta=0.1", pair) == 2
    assert said in capsys.readouterr().err
    assert file.read_text() == TEXT


def test_diff_against_the_defaults_a_preset_a_file_and_a_run(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(TEXT + "beta: 0.1\n")
    folder = tmp_path / "run"
    folder.mkdir()
    RunSpec(load_config(file, ["max_steps=5"]).to_json()).write(RunFolder(folder).spec)

    assert run("diff", file, "--json") == 1
    assert "model_name_or_path" in [row["field"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert run("diff", file, other) == 1
    assert "beta  0.0  ←  0.1  (default here)" in capsys.readouterr().out
    assert run("diff", other, file) == 1
    assert "beta  0.1  ←  0.0  (default there)" in capsys.readouterr().out
    assert run("diff", file, other, "--text") == 1
    assert "-beta: 0.1" in capsys.readouterr().out.splitlines()
    assert run("diff", folder, file) == 1
    assert "max_steps  5  ←  -1" in capsys.readouterr().out
    assert run("diff", file, "preset:gsm8k") == 1
    assert "dataset_name" in capsys.readouterr().out
    assert run("diff", file, file) == 0
    assert "give the same run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diff", "none.yaml"), ": no such file"),
        (("diff", "my.yaml", "preset:none"), "unknown preset none"),
        (("diff", "my.yaml", "."), "no run here"),
        (("diff", "broken.yaml"), "broken.yaml: line 2"),
        (("fields", "--config", "none.yaml"), ": no such file"),
        ((), "config needs diff, fields or set"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    file: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "broken.yaml").write_text("a: [1\nb: 2\n")
    assert run(*words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) <= 2


def test_fields_lists_searches_and_explains(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run("fields") == 0
    listed = capsys.readouterr().out
    assert "Optimization" in listed
    assert "adam_epsilon" not in listed
    assert max(map(len, listed.splitlines())) < 80
    assert run("fields", "--all") == 0
    assert "adam_epsilon" in capsys.readouterr().out
    assert run("fields", "loss_type") == 0
    told = capsys.readouterr().out
    for words in ("one of 8", "default  dapo", "choose", "cispo", "arXiv 2506.13585", "epsilon_high: 5.0"):
        assert words in told
    assert run("fields", "--config", file, "learning_rate") == 0
    assert "now      1.0e-6 (file, line 5)" in capsys.readouterr().out
    assert run("fields", "xyzzy") == 1
    assert "no field matches xyzzy" in capsys.readouterr().err
    for word, said in (("max_lora_rank", "Unsloth"), ("vllm_device", "Remove `vllm_device`")):
        assert run("fields", word) == 1
        told = capsys.readouterr().err
        assert said in told
        assert explain(word, None, list(load_fields()), SECTION_KEYS)[0] in told


def test_fields_as_json_have_all_there_is_to_say(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fields", "--json", "--all", "--config", file) == 0
    fields = {field["name"]: field for field in json.loads(capsys.readouterr().out)}
    assert len(fields) > 220
    assert fields["learning_rate"]["origin"] == "file"
    assert fields["learning_rate"]["line"] == 5
    assert "sapo" in fields["loss_type"]["choices"]
    assert all({"type", "default", "help", "advice", "group"} <= set(field) for field in fields.values())
