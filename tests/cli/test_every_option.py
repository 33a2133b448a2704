"""No option of any command is dropped: it reaches what it is for, or it is refused with exit code 2."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import start
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.main import main
from grpo_tui.cli.parser import build_parser
from grpo_tui.cli.plan import _config as config_of_plan
from grpo_tui.cli.score import wanted_config
from grpo_tui.cli.words import sets
from grpo_tui.config.resolve import inspect_config, inspect_saved, load_config, startable
from grpo_tui.config.run_config import ConfigError
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer

PARSER = build_parser(with_open=True)
LAUNCHER = "accelerate launch --num_processes 2"


def commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Every command that takes no further command, with its parser."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested or words == ("new",):
        yield words, parser
    for action in nested:
        for name, inner in action.choices.items():
            yield from commands(inner, (*words, name))


COMMANDS = dict(commands(PARSER))


def options(words: tuple[str, ...]) -> list[argparse.Action]:
    """The options and positional arguments of a command."""
    skipped = argparse._HelpAction | argparse._SubParsersAction
    return [action for action in COMMANDS[words]._actions if not isinstance(action, skipped)]


def taking(destination: str) -> list[tuple[str, ...]]:
    """The commands that show an option."""
    return [words for words in COMMANDS if any(action.dest == destination for action in options(words))]


# -- what an option takes ------------------------------------------------------------------------------

NUMBERS = {"N", "S", "G", "I", "GROUP", "STEP"}
NAMES = {"RUN", "CONFIG", "CONFIG_OR_RUN", "FILE", "FILE.py", "FILE.yaml", "ROOT"}
UNNAMED = {"steps": "N", "seed": "N", "count": "N", "temperature": "N", "run_dir": "FILE"}
"""What the options without a placeholder in their help take."""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_option_takes_what_its_help_says_and_nothing_else(words: tuple[str, ...]) -> None:
    parser = COMMANDS[words]
    for action in options(words):
        sort = action.metavar or UNNAMED.get(action.dest)
        if action.nargs == 0 or sort not in NUMBERS | NAMES:
            continue
        given = "4" if sort in NUMBERS else "a/b"
        assert parser._get_value(action, given) == (4 if sort in NUMBERS else Path("a/b")), action.dest
        for wrong in ("", *(["x"] if sort in NUMBERS else [])):
            with pytest.raises(argparse.ArgumentError):
                parser._get_value(action, wrong)


# -- --set --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder as a start leaves it, with nothing recorded."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "first")
    folder.root.mkdir()
    launcher = ("torchrun", "--nproc_per_node", "4")
    RunSpec(load_config(DEMO_CONFIG).to_json(), launcher=launcher, gpus=("GPU-0",)).write(folder.spec)
    record(folder)
    return folder.root


def record(folder: RunFolder) -> None:
    """An empty record, so that the folder is a run to every command."""
    Writer(open_writer(folder.database)).close()


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command says that refuses its words."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as left:
        code = int(left.code or 0)
    shown = capsys.readouterr().err
    assert code == 2, shown
    assert "Traceback" not in shown
    return shown


def arguments(words: tuple[str, ...], source: object) -> tuple[object, ...]:
    """A command on a config or a run, with what it cannot do without."""
    more: dict[str, tuple[object, ...]] = {"export": ("--format", "script"), "check": ("--quick",)}
    return (*(word for word in words if word != "open"), source, *more.get(words[0], ()))


RUN_TOO = [words for words in taking("overrides") if words[0] not in ("open", "data")]


@pytest.mark.parametrize("words", taking("overrides"), ids=" ".join)
def test_set_reaches_the_config_of_every_command(
    words: tuple[str, ...], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [DEMO_CONFIG, run] if words in RUN_TOO else [DEMO_CONFIG]
    for source in sources:
        command = arguments(words, source)
        if words == ("whatif",):
            command = ("whatif", run) if source == run else ("whatif", run, source)
        if words == ("compare",):
            command = ("compare", "base", "--config", source)
        if words == ("chat",):
            command = ("chat", "base", "--prompt", "a", "--config", source)
        if words == ("check",):  # findings are its answer
            assert main([*map(str, command), "--set", "no_such_key=1"]) == 1
            assert "no_such_key" in capsys.readouterr().out
        else:
            assert "no_such_key" in said(capsys, *command, "--set", "no_such_key=1")


def test_set_reaches_the_config_of_the_run_that_samples_come_from(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no_such_key" in said(capsys, "score", "--run", run, "--set", "no_such_key=1")


def test_what_set_says_is_what_is_used(run: Path) -> None:
    assert wanted_config([str(run)], ["model_name_or_path=other"], None).model == "other"
    assert wanted_config([], ["seed=7"], run).grpo["seed"] == 7
    saved = load_config(DEMO_CONFIG)
    refused = ["per_device_train_batch_size=3"]
    inspected = inspect_saved(saved, refused, world_size=1)
    with pytest.raises(ConfigError):
        startable(inspected)
    assert startable(inspected, force=True).grpo["per_device_train_batch_size"] == 3
    for size, told in ((1, ["batch.indivisible"]), (8, []), (None, [])):
        forced = inspect_config(DEMO_CONFIG, refused, world_size=size).findings
        assert [finding.id for finding in forced if finding.severity == "error"] == told, size


@pytest.mark.parametrize("source", ["rewards.py:correct", "a reward model"])
@pytest.mark.parametrize("command", ["score", "probe", "rewards"])
def test_set_is_refused_where_there_is_no_config(
    command: str, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if source == "a reward model":
        (tmp_path / "config.json").write_text("{}")
        source = str(tmp_path)
    assert "only functions are named" in said(capsys, command, source, "--set", "seed=1")


@pytest.mark.parametrize(
    ("override", "there"),
    [
        ("grpo_tui.gpus=1", True),
        (" grpo_tui.gpus = 1", True),
        ("grpo_tui ={}", True),
        ("gpus=1", False),
        ("grpo_tui.gpus_more=1", False),
        ("run_name=grpo_tui.gpus", False),
    ],
)
def test_a_key_is_set_by_itself_or_by_the_section_around_it_however_it_is_spaced(
    override: str, there: bool
) -> None:
    assert sets(["seed=1", override], "grpo_tui.gpus") is there


def test_set_chooses_launcher_gpus_and_folder_of_a_run_as_the_options_do(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ["--set", f"output_dir={tmp_path / 'second'}"]
    launched = ["--set", f"grpo_tui.launcher={LAUNCHER}"]
    parsed = PARSER.parse_args(["train", str(run), *other])
    given = start.read(parsed)
    assert given.launcher == ("torchrun", "--nproc_per_node", "4")
    assert given.root == tmp_path / "second"
    parsed = PARSER.parse_args(["train", str(run), *launched])
    given = start.read(parsed)
    assert given.launcher == tuple(LAUNCHER.split())
    assert given.root == run
    assert config_of_plan(PARSER.parse_args(["plan", str(run), *launched]))[1] == tuple(LAUNCHER.split())
    asked: list[tuple[RunSpec, Any]] = []
    monkeypatch.setattr(start, "placed", lambda spec, config, gpus: asked.append((spec, config)) or spec)
    monkeypatch.setattr(
        start, "checkpoint_of", lambda *_: (start.Verdict(run / "checkpoint-5", 5, True, ""), [])
    )
    start._resumed(PARSER.parse_args(["train", str(run), "--set", "grpo_tui.gpus=[1]"]), "5")
    spec, config = asked[0]
    assert (spec.gpus, config.section.gpus) == ((), ("1",))
    start._resumed(PARSER.parse_args(["train", str(run), *launched]), "5")
    assert (asked[1][0].launcher, asked[1][0].gpus) == (tuple(LAUNCHER.split()), ("GPU-0",))
    with pytest.raises(CommandError, match="Leave out --set output_dir"):
        start._resumed(PARSER.parse_args(["train", str(run), *other]), "5")


# -- options that exclude each other -------------------------------------------------------------------

SAMPLES: dict[str, tuple[str, ...]] = {
    "completions RUN --views --limit 2": ("--limit", "--views"),
    "completions RUN --views --where reward>1": ("--where", "--views"),
    "completions RUN --count --limit 2": ("--limit", "--count"),
    "completions RUN --count --format csv": ("--format", "--count"),
    "completions RUN --count --all": ("--all", "--count"),
    "completions RUN --over-steps --sort reward": ("--sort", "--over-steps"),
    "completions RUN --over-steps --format md": ("--over-steps", "md"),
    "metrics RUN --explain reward --keys kl": ("--keys", "--explain"),
    "metrics RUN --explain reward --steps 1:2": ("--steps", "--explain"),
    "metrics RUN --explain reward --format csv": ("--format", "--explain"),
    "metrics RUN --every 2": ("--every", "table"),
    "course RUN --prompt 1 --stretches 4": ("--stretches", "--prompt"),
    "prompts RUN --class lost": ("--class", "lost", "forgotten"),
    "prompts RUN --class always --export x.jsonl": ("--export", "nothing"),
    "data CONFIG --no-rewards": ("--no-rewards", "--row"),
    "data CONFIG --timeout 3": ("--timeout", "--row"),
    "data CONFIG --row 1 --no-rewards --timeout 3": ("--timeout", "--no-rewards"),
    "tokens RUN --group 1 --json --limit 3": ("--limit", "--json"),
    "whatif RUN --json --limit 3": ("--limit", "--json"),
    "whatif RUN r.py:f --recorded": ("--recorded", "no other rewards"),
    "score r.py:f --where reward>1": ("--where", "--run"),
    "score r.py:f --step 3": ("--step", "--run"),
    "score r.py:f --rows 3": ("--rows", "dataset"),
    "new --list rewards r.py": ("--list", "rewards"),
    "new rewards r.py --timeout 3": ("--timeout", "--config"),
    "new rewards r.py --write": ("--write", "--config"),
    "config fields --markdown --all": ("--all", "--markdown"),
    "config fields clip --markdown": ("--markdown", "words"),
    "train CONFIG --keep": ("--keep", "--smoke"),
    "train CONFIG --json": ("--json", "--drill"),
    "train CONFIG --drill fire": ("fire", "hung-reward"),
    "train CONFIG --drill nan --smoke": ("--drill", "--smoke"),
    "train CONFIG --drill nan --detach": ("--drill", "--detach"),
    "race RUN --steps 4": ("--branch",),
    "race RUN --steps 4 --branch x": ("x is not a setting", "K=V"),
    "race RUN --steps 4 --branch a: --json": ("no setting",),
    "race RUN --steps 4 --branch a=1 --branch a=1": ("two branches", "NAME: K=V"),
    "race RUN --steps 4 --branch optimizer=old": ("optimizer", "new or kept"),
    "race RUN --steps 4 --branch a=1 --json --detach": ("--json", "--detach"),
    "race gone@4 --steps 4 --branch a=1": ("gone@4", "no such run"),
    "train CONFIG --seeds 1,2 --drill nan": ("--seeds", "--drill"),
    "train CONFIG --optimizer new --smoke": ("--optimizer", "--resume [STEP] --run-dir"),
    "train RUN --resume --optimizer kept": ("--optimizer", "--resume [STEP] --run-dir"),
    "train CONFIG --smoke --detach": ("--smoke", "--detach"),
    "train CONFIG --smoke --resume": ("--smoke", "--resume"),
    "train CONFIG --seeds 1,2 --smoke": ("--seeds", "--smoke"),
    "train CONFIG --seeds 1,2 --resume": ("--seeds", "--resume"),
    "train CONFIG --seeds 1,2 --set seed=3": ("--seeds", "--set seed"),
    "train CONFIG --seeds 1,1": ("--seeds", "twice"),
    "train CONFIG --seeds 1,x": ("--seeds", "1,2,3"),
    "train CONFIG --run-dir a --set output_dir=b": ("--run-dir", "output_dir"),
    "train CONFIG --gpus 0 --set grpo_tui.gpus=[1]": ("--gpus", "grpo_tui.gpus"),
    "train CONFIG --launcher torchrun --set grpo_tui.launcher=torchrun": ("--launcher", "grpo_tui.launcher"),
    "CONFIG --run-dir a --set output_dir=b": ("--run-dir", "output_dir"),
    "train CONFIG --run-dir a --resume 4": ("checkpoint 4",),
}


@pytest.mark.parametrize("line", SAMPLES)
def test_options_that_cannot_both_count_are_refused(
    line: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [{"RUN": str(run), "CONFIG": str(DEMO_CONFIG)}.get(word, word) for word in line.split()]
    shown = said(capsys, *words)
    for part in SAMPLES[line]:
        assert part in shown


def test_a_value_that_is_given_is_the_one_that_is_used(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options that only choose how much is shown keep their defaults when they are left out."""
    seen: list[Any] = []
    from grpo_tui.cli import completions

    monkeypatch.setattr(completions, "course", lambda *_, stretches: seen.append(stretches) or [])
    assert main(["course", str(run)]) == 0
    assert main(["course", str(run), "--stretches", "3"]) == 0
    assert seen == [48, 3]
