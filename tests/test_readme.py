"""Commands, links and examples in README and docs work as written."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import shlex
import sqlite3
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli.main import main
from grpo_tui.cli.parser import build_parser
from grpo_tui.config.meant import REMOVED
from grpo_tui.config.resolve import load_config
from grpo_tui.config.section import ANSWER_KINDS, SECTION_KEYS
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.core.metrics import COMPUTED
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.status import ENDED, Status
from grpo_tui.ui.actions import ACTIONS, action

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
COMMANDS_PAGE = ROOT / "docs" / "commands.md"
FIRST_RUN_PAGE = ROOT / "docs" / "first-run.md"
PAGES = [README, CONTRIBUTING, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
MOST_README_LINES = 120


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language, dedented; without a language those that name none."""
    found: list[str] = []
    inside: list[str] | None = None
    named = ""
    for line in page.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.startswith("```"):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside, named = [], line.strip("`\n")
        else:
            if named == language:
                found.append(textwrap.dedent("".join(inside)))
            inside = None
    return found


# -- commands --------------------------------------------------------------------------------------


def named_commands() -> Iterator[tuple[str, str]]:
    """Every `grpo-tui …` that a page or a config's header tells the user to type, with its place."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        inline = re.findall(r"`((?:\w+=\S+ )?grpo-tui(?: [^`]*)?)`", text)
        typed = [
            line
            for block in blocks(page, "")
            for line in block.splitlines()
            if re.match(r"(\w+=\S+ )?grpo-tui (?!.* {2,}[^ #])", line)  # a drawing has columns
        ]
        for command in [*inline, *typed]:
            yield label(page), command
    for config in CONFIGS:
        for line in re.findall(r"^#.*?(grpo-tui train .*)$", config.read_text(encoding="utf-8"), re.M):
            yield label(config), line


COMMANDS = [(place, command) for place, command in named_commands() if not command.startswith("grpo-tui: ")]


def subcommands() -> set[str]:
    chosen = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return set(chosen.choices)


def as_typed(command: str) -> list[str]:
    """The words of a command: without comment and environment, `RUN…` and `K=V…` as one of each."""
    words = shlex.split(command.replace("…", ""), comments=True)
    words = words[words.index("grpo-tui") + 1 :]
    if words and words[0] not in subcommands() and not words[0].startswith("-"):
        assert words[0] in ("CONFIG", "RUN") or words[0].endswith(".yaml"), f"no such command: {words[0]}"
        words.insert(0, "attach" if words[0] == "RUN" else "open")
    return words


def test_the_pages_name_commands() -> None:
    assert len(COMMANDS) > 30


@pytest.mark.parametrize(("place", "command"), COMMANDS, ids=[f"{p}: {c}" for p, c in COMMANDS])
def test_a_command_named_in_a_page_can_be_typed(place: str, command: str) -> None:
    words = as_typed(command)
    if len(words) == 1 and words[0] in subcommands() - {"demo", "runs"}:
        return  # named, not spelled out
    parsed = build_parser(with_open=True).parse_args(words)
    for change in getattr(parsed, "changes", []):
        assert "=" in change


def test_the_page_of_commands_names_every_command() -> None:
    text = COMMANDS_PAGE.read_text(encoding="utf-8")
    missing = [name for name in subcommands() - {"open"} if f"grpo-tui {name}" not in text]
    assert not missing


# -- keys ------------------------------------------------------------------------------------------

# Key's action to the command that does the same.
SAME = {
    "run.pause": "pause",
    "run.resume": "resume",
    "run.checkpoint": "checkpoint",
    "run.sample": "sample",
    "run.evaluate": "evaluate",
    "run.set": "set",
    "run.undo": "set",
    "run.reload": "reload",
    "run.abort": "abort-reward",
    "run.stop": "stop",
    "run.stop_now": "stop",
    "pane.train": "attach",
    "view.log": "log",
    "pane.runs": "runs",
    "pane.rewards": "rewards",
    "pane.config": "check",
    "results.fork": "train",
    "results.race": "race",
}


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the page of commands, without its head."""
    text = COMMANDS_PAGE.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_the_steering_table_pairs_keys_and_commands_as_the_program_does() -> None:
    told = [
        (re.findall(r"`([^`]+)`", keys)[0], as_typed(command.strip("`"))[0])
        for keys, command, _ in rows_of("Steering a run")
        if keys
    ]
    assert sorted(told) == sorted((action(name).key_shown, command) for name, command in SAME.items())


def test_every_key_that_steers_stands_in_the_steering_table() -> None:
    steering = {a.id for a in ACTIONS if a.id.startswith("run.")}
    assert steering <= set(SAME), "a new action: give it a row in docs/commands.md and a line here"


def test_every_key_of_the_question_table_is_a_key_of_the_program() -> None:
    keys = {a.key_shown for a in ACTIONS}
    told = {key for row in rows_of("Where to look") for key in re.findall(r"`([^`]+)`", row[-1])}
    assert len(told) > 8
    assert told <= keys


def test_the_keys_of_the_demo_do_what_the_readme_says() -> None:
    text = README.read_text(encoding="utf-8")
    for word, name in (
        ("pauses training and resumes it", "run.pause"),
        ("pauses training and resumes it", "run.resume"),
        ("saves a checkpoint", "run.checkpoint"),
        ("explains", "app.help"),
        ("leaves", "app.leave"),
    ):
        assert f"`{action(name).key_shown}` {word}" in text


# -- links -----------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{label(page)} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{label(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_code_paths_named_in_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:grpo_tui|tests|configs|docs|benchmarks)/[\w./]+)`", text):
        assert name in COMPUTED or (ROOT / name).exists(), name
    packages = "|".join(p.name for p in (ROOT / "grpo_tui").iterdir() if p.is_dir())
    for name in re.findall(rf"`((?:{packages})/\w+\.py)`", text):
        assert (ROOT / "grpo_tui" / name).exists(), name


def test_the_file_tree_names_every_package_and_nothing_else() -> None:
    told = set(re.findall(r"^[├└]── (\w+)/", CONTRIBUTING.read_text(encoding="utf-8"), re.M))
    assert told == {path.parent.name for path in (ROOT / "grpo_tui").glob("*/__init__.py")}


def test_the_readme_stays_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_README_LINES


# -- examples --------------------------------------------------------------------------------------


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The page's config, rewards and the dataset row it shows, in a folder."""
    config = blocks(FIRST_RUN_PAGE, "yaml")[0]
    (tmp_path / "first.yaml").write_text(config)
    code = next(block for block in blocks(FIRST_RUN_PAGE, "python") if "rewards.py" in block)
    (tmp_path / "rewards.py").write_text(code)
    shown = json.loads(re.search(r"\{\"question.*?\}", config).group())
    rows = [{**shown, "question": f"What is {n} + 15?", "gold": str(n + 15)} for n in range(12)]
    (tmp_path / "sums.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return tmp_path


def test_the_first_runs_config_loads_without_any_finding(example: Path) -> None:
    config = load_config(example / "first.yaml")
    assert config.findings == ()
    assert [entry.name for entry in config.section.rewards] == ["correct", "tagged", "near"]


def test_the_first_runs_data_and_rewards_work_together(example: Path) -> None:
    from grpo_tui.data.load import load_prompts
    from grpo_tui.rewards.loading import load_rewards

    config = load_config(example / "first.yaml")
    prompts = load_prompts(config)
    assert len(prompts.train) == 10
    row = prompts.train[0]
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    texts = [f"<answer>{row['gold']}</answer>", "<answer>0</answer>", row["gold"]]
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    scores = [
        reward.func(completions=completions, gold=[row["gold"]] * 3, prompts=[row["prompt"]] * 3)
        for reward in load_rewards(config)
    ]
    near = 1 / (1 + int(row["gold"]))
    assert scores == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, near, 0.0]]


def test_scoring_the_first_runs_rewards_says_what_the_page_says(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(example)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["score", "first.yaml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.findall(r"(\w+) and (\w+) measure the same", said) == [("correct", "near")]
    page = " ".join(FIRST_RUN_PAGE.read_text(encoding="utf-8").split())
    assert "It says that `correct` and `near` measure the same" in page
    answers = [int(text) for text in re.findall(r"<answer>⏎(\d+)⏎</answer>", said)]
    assert len(answers) == 8
    assert all(wrong - right == 1 for right, wrong in zip(answers[::2], answers[1::2], strict=True))


def test_the_keys_the_first_run_changes_are_keys_of_its_config(example: Path) -> None:
    text = FIRST_RUN_PAGE.read_text(encoding="utf-8")
    keys = re.findall(r"grpo-tui train first.yaml --set (\w+)=(\S+)", text)
    assert keys
    for key, value in keys:
        assert load_config(example / "first.yaml", [f"{key}={value}"]).grpo[key] == float(value)


def test_the_monitor_example_calls_what_there_is() -> None:
    code = next(block for block in blocks(README, "python") if "monitor" in block)
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert calls
    assert len(code.strip().splitlines()) == 3
    for call in calls:
        module, _, name = ast.unparse(call.func).rpartition(".")
        function = getattr(importlib.import_module(module), name)
        inspect.signature(function).bind(*call.args, **{k.arg or "": k.value for k in call.keywords})


# -- docs/config.md --------------------------------------------------------------------------------

CONFIG_PAGE = ROOT / "docs" / "config.md"


def test_the_config_page_names_every_key_of_the_section_and_every_removed_key() -> None:
    text = CONFIG_PAGE.read_text(encoding="utf-8")
    whole = blocks(CONFIG_PAGE, "yaml")[0]
    assert not [key for key in SECTION_KEYS if not re.search(rf"^  {key}:", whole, re.M)]
    assert not [key for key in REMOVED if f"| `{key}` |" not in text]
    assert not [kind for kind in ANSWER_KINDS if f"| `{kind}` |" not in text]


def test_the_config_pages_whole_section_loads(tmp_path: Path) -> None:
    for name in ("train.jsonl", "test.jsonl", "rewards.py"):
        (tmp_path / name).touch()
    config = tmp_path / "whole.yaml"
    config.write_text(f"model_name_or_path: m\neval_strategy: epoch\n{blocks(CONFIG_PAGE, 'yaml')[0]}")
    section = load_config(config).section
    assert (section.holdout, section.chat, len(section.few_shot)) == (32, True, 1)
    assert section.rewards[0].params == {"strict": True}


@pytest.mark.parametrize(
    ("written", "field", "read"),
    [
        ("learning_rate: 1e-6", "learning_rate", 1e-6),
        ('num_generations: "8"', "num_generations", 8),
        ("num_generations: 8.0", "num_generations", 8),
        ('bf16: "yes"', "bf16", True),
        ("save_strategy: no", "save_strategy", "no"),
    ],
)
def test_values_are_read_as_the_config_page_says(written: str, field: str, read: Any, tmp_path: Path) -> None:
    text = CONFIG_PAGE.read_text(encoding="utf-8")
    assert written.split(": ")[1] in text
    config = tmp_path / "a.yaml"
    config.write_text(f"model_name_or_path: m\ndataset_name: d\nreward_funcs: [accuracy_reward]\n{written}\n")
    loaded = load_config(config)
    assert loaded.grpo[field] == read
    assert [finding.field for finding in loaded.findings] == [field], "every change is told"
    assert field in load_fields()


# -- docs/run-folder.md ----------------------------------------------------------------------------

RUN_PAGE = ROOT / "docs" / "run-folder.md"


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    return open_writer(tmp_path / "run.db")


def test_the_queries_of_the_run_page_run_on_the_real_tables(database: sqlite3.Connection) -> None:
    queries = blocks(RUN_PAGE, "sql")
    assert len(queries) == 3
    for query in queries:
        assert database.execute(query).description


def test_the_run_page_names_every_table(database: sqlite3.Connection) -> None:
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    text = RUN_PAGE.read_text(encoding="utf-8").split("## Three queries")[0].split("## run.db")[1]
    assert not [name for name in tables if f"`{name}`" not in text]


def test_the_run_page_names_every_file_of_a_run() -> None:
    folder = RunFolder(Path("run"))
    properties = [name for name, value in vars(RunFolder).items() if isinstance(value, property)]
    text = RUN_PAGE.read_text(encoding="utf-8")
    names = [found.name for name in properties if isinstance(found := getattr(folder, name), Path)]
    names += [
        folder.rank(0).name,
        folder.abort(0).name.replace("0", "N"),
        folder.error(0).name.replace("0", "N"),
    ]
    assert not [name for name in names if f"`{name}`" not in text and f"`{name}/`" not in text]


def test_the_status_shape_of_the_run_page_is_the_real_one() -> None:
    told = next(json.loads(block) for block in blocks(RUN_PAGE, "json") if '"phase_s"' in block)
    assert set(told) == {*Status(state="training").to_json(), "forced", "forked_from"}


def test_the_run_page_names_every_state() -> None:
    states = {*ENDED, "starting", "training", "paused", "stopping", "stalled"}
    text = RUN_PAGE.read_text(encoding="utf-8")
    assert not [state for state in states if f"| `{state}` |" not in text]
