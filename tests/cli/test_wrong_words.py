"""What a person typed wrong is answered with a sentence and exit code 2, before any process is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.cli.main import _with_implied_command, main
from grpo_tui.demo import DEMO_CONFIG


def _said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    try:
        code = main([str(word) for word in words])
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "Error" not in said
    return said


@pytest.mark.parametrize(
    "words",
    [
        ("train", DEMO_CONFIG, "--detach", "--run-dir", "n" * 300),
        ("status", "n" * 300),
        ("n" * 300,),
    ],
    ids=["as a run folder", "as a run", "alone"],
)
def test_a_name_too_long_for_the_file_system_is_said_to_be_so(
    words: tuple[object, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "the name is too long for this file system; choose a shorter one" in _said(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_word_leads_to_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, "zzzz")
    assert said == "grpo-tui: unknown command or run: zzzz. `grpo-tui --help` lists the commands\n"


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("status", "runs/x", "--nonsense"), "usage: grpo-tui status "),
        (("config", "fields", "--nonsense"), "usage: grpo-tui config fields "),
        (("cases", "run", "a.py:f", "--nonsense"), "usage: grpo-tui cases run "),
    ],
)
def test_an_unknown_option_shows_the_usage_of_its_command(
    words: tuple[str, ...], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(list(words))
    said = capsys.readouterr().err
    assert said.startswith(usage)
    assert said.endswith("error: unrecognized arguments: --nonsense\n")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("rewrads", "runs/x"), "unknown command or run: rewrads. Did you mean rewards?"),
        (("outputs/dmo",), "no such run: outputs/dmo. `grpo-tui runs` lists"),
        (("own.py:correct",), "To open rewards: `grpo-tui rewards own.py:correct`"),
        (("notes.md",), "cannot open notes.md: a config is a YAML file"),
    ],
)
def test_a_first_word_that_is_no_command_is_told_from_a_run_and_a_file(
    words: tuple[str, ...],
    answer: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    said = _said(capsys, *words)
    assert answer in said
    assert "usage:" not in said


def test_options_may_come_before_the_file_or_the_run(tmp_path: Path) -> None:
    for word, command in ((str(tmp_path), "attach"), ("my.yaml", "open"), ("my.yml", "open")):
        assert _with_implied_command(["--debug", word, "--json"]) == ["--debug", command, word, "--json"]
    assert _with_implied_command(["--debug", "runs"]) == ["--debug", "runs"]
    assert _with_implied_command(["--debug", "help", "train"]) == ["--debug", "train", "--help"]
    assert _with_implied_command(["--version"]) == ["--version"]


def test_help_as_a_word_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help"], ["help", "train"]):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 0
        assert ("usage: grpo-tui train" if "train" in words else "usage: grpo-tui") in capsys.readouterr().out


@pytest.mark.parametrize("words", [("train",), ()], ids=["train CONFIG", "CONFIG"])
def test_a_resume_that_the_config_asks_for_names_its_key_when_there_is_nothing_to_resume(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "own.yaml"
    text = DEMO_CONFIG.read_text().replace(
        "model_name_or_path: model", f"model_name_or_path: {DEMO_CONFIG.parent}/model"
    )
    text = text.replace("rewards.py:", f"{DEMO_CONFIG.parent}/rewards.py:")
    text = text.replace("task.py:", f"{DEMO_CONFIG.parent}/task.py:")
    config.write_text(f"output_dir: {tmp_path / 'run'}\nresume_from_checkpoint: true\n{text}")
    said = _said(capsys, *words, config)
    assert "no complete checkpoint in" in said
    assert "own.yaml: resume_from_checkpoint is true. Leave it out to start a new run" in said
    assert "--resume" not in said


@pytest.mark.parametrize("change", [("temperature=1", "temperature=2"), ('reward_weights={"a": 1, "a": 2}',)])
def test_a_setting_given_twice_is_asked_about(
    change: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "run.db").touch()
    assert "is given twice. Keep one of the values" in _said(capsys, "set", tmp_path, *change)


def test_a_run_folder_that_no_checkpoint_can_be_written_into_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = _said(capsys, "train", DEMO_CONFIG, "--quick-check", "--detach", "--run-dir", tmp_path / "\udcff")
    assert "the name is not valid UTF-8, and checkpoints cannot be written there" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("status", ""), ("train", DEMO_CONFIG, "--run-dir", "")])
def test_a_name_that_is_empty_names_nothing(
    words: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "the name is empty" in _said(capsys, *words)
