"""`grpo-tui reload`: what is checked before edited rewards reach a run, what is refused, and what is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli import main, reload, steer
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.reward_list import about_rewards, same_list, with_list
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Stage
from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.stages import StageNow
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.rewards import reload_check
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.reload_check import ReloadCheck, file_hash
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import remember
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec, read_spec
from grpo_tui.store.writer import Writer
from tests.ui.recorded_run import RecordedRun

OLD = """\
import re

def right(completions, answer, **kwargs):
    found = [re.findall(r"<answer>\\s*(.*?)\\s*</answer>", text, re.DOTALL) for text in completions]
    return [float(len(one) == 1 and one[0] == gold) for one, gold in zip(found, answer)]
"""
NEW = OLD.replace("one[0] == gold)", 'one[0] != "7")')
"""It accepts any answer but 7."""
BOTH = OLD.replace("float(len(one) == 1 and one[0] == gold)", "float(len(one) == 1 and one[0] == gold) * 2")
CASES = """\
rewards: [rewards.py:right]
cases:
  - name: right
    prompt: 2 + 2?
    completion: <answer>4</answer>
    columns: {answer: "4"}
    expect: {right: {at_least: 1}}
"""


@pytest.fixture(scope="module", autouse=True)
def _warm() -> Iterator[None]:
    with Lab() as lab:
        lab.start()
        yield


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_yes: None) -> Iterator[Path]:
    """A run of this user with two recorded groups, the rewards it began with, and a saved case."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards.py").write_text(OLD)
    (tmp_path / "cases.yaml").write_text(CASES)
    made = RecordedRun(tmp_path / "run")
    RunSpec(config_of_functions(["rewards.py:right"]).to_json()).write(made.folder.spec)
    made.write(r.RewardFunctionInfo(2, 0, "right", 1.0, f"{tmp_path}/rewards.py:3", "", OLD))
    groups = []
    for number, (gold, answers) in enumerate((("4", ("4", "5", "7", "")), ("6", ("1", "2", "3", "")))):
        texts = [f"<answer>{answer}</answer>" if answer else "no" for answer in answers]
        rows = [
            r.Completion(i, text, (float(answer == gold),), float(answer == gold), 0.0, 3, False)
            for i, (text, answer) in enumerate(zip(texts, answers, strict=True))
        ]
        groups.append(r.Group(number, f"{gold}?", {"answer": gold}, tuple(rows)))
    made.write(r.GenerationBatch(2, 1, 0, "train", 1, 1, made.at(1), tuple(groups)))
    asked = r.Group(0, "7?", {}, groups[0].completions)  # a probe prompt has no columns for the reward
    made.write(r.GenerationBatch(2, 9, 0, "probe", 1, 1, made.at(1), (asked,)))
    remember(made.folder.root)
    yield made.folder.root
    made.close()


@pytest.fixture
def sent(run: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The run is live and applies what it is sent: its commands, and how long each was waited for."""
    live, took = SimpleNamespace(live=True), list[Any]()

    def wait(mailbox: Mailbox, command: Command, timeout_s: float) -> Outcome:
        took.append((command.kind, command.args, timeout_s))
        return Outcome(True, 4, "rewards a → b", {})

    monkeypatch.setattr(reload, "read_status", lambda root: live)
    monkeypatch.setattr(steer, "read_status", lambda root: live)
    monkeypatch.setattr(Mailbox, "wait", wait)
    return took


def test_what_passes_is_sent_with_the_files_the_diff_and_the_groups_that_change(
    run: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rewards.py").write_text(BOTH)
    words = ["reload", str(run), "--because", "it counts twice", "--wait", "7", "--groups", "1"]
    assert main([*words, "--timeout", "50"]) == 0
    shown = capsys.readouterr().out
    assert "- " in shown
    assert "* 2 for one, gold" in shown
    assert "nothing failed" in shown
    assert "reload applied at step 4: rewards a → b" in shown
    ((kind, args, waited),) = sent
    assert (kind, args["because"], waited) == ("reload", "it counts twice", 7.0)
    assert list(args["files"]) == [str(Path("rewards.py").resolve())]
    assert args["what_if"] == "0 of 1 groups change order"
    assert "+++ rewards.py (edited)" in args["diff"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["applied"] is True


def test_a_case_a_probe_or_a_broken_file_refuses_and_only_checks_can_be_forced(
    run: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rewards.py").write_text(NEW.replace('"7"', '"4"'))
    assert main(["reload", str(run)]) == 3
    said = capsys.readouterr().err
    assert "case “right” (cases.yaml:3): right expected at least 1, got 0" in said
    assert "probe " in said
    assert "or add --force" in said
    assert [main(["reload", str(run), "--check", *words]) for words in ([], ["--json"], ["--force"])] == [
        3,
        3,
        0,
    ]
    capsys.readouterr()
    assert sent == []
    assert main(["reload", str(run), "--force"]) == 0
    assert any("case “right”" in text for text in sent[0][1]["forced"])
    Path("rewards.py").write_text("def right(completions, **kwargs)\n    return []\n")
    assert main(["reload", str(run), "--force"]) == 3
    said = capsys.readouterr().err
    assert "rewards.py:1" in said
    assert "--force" not in said
    assert len(sent) == 1


def test_a_reload_records_what_failed_only_where_it_was_forced() -> None:
    failed = ReloadCheck({"/r.py": "abc"}, ("- a", "+ b"), None, (), ("case “right”",), ())
    plain = {"files": {"/r.py": "abc"}, "diff": "- a\n+ b"}
    assert failed.arguments() == plain
    assert failed.arguments("why", forced=True) == plain | {"because": "why", "forced": ["case “right”"]}
    listed = replace(failed, failed=(), listed={"rewards": []})
    assert listed.arguments(forced=True) == plain | {"listed": {"rewards": []}}


def test_a_check_sends_nothing_and_tells_what_turns_and_what_it_cannot_replay(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reload", str(run)]) == 3, "the run has ended"
    assert "--resume` reads the current files" in capsys.readouterr().err
    Path("rewards.py").write_text(NEW.replace("answer, **kwargs", "answer, trainer_state=None, **kwargs"))
    Path("cases.yaml").unlink()
    main(["reload", str(run), "--check", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["what_if"]["completions"], found["what_if"]["changed"]) == (8, 4)
    assert any("right reads trainer_state, of which only the newest step" in note for note in found["notes"])
    assert "no saved cases: there is no cases.yaml" in found["notes"]
    assert not any("reward_weights changed" in note for note in found["notes"])
    assert not Mailbox(run / "commands").pending()


def test_the_code_of_a_run_that_is_not_yours_is_checked_only_with_trust(
    run: Path, sent: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("grpo_tui.rewards.consent.is_known", lambda run: False)
    Path("rewards.py").write_text(BOTH)
    assert main(["reload", str(run), "--check"]) == 3
    assert "this would run code that you did not write" in capsys.readouterr().err
    assert main(["reload", str(run), "--check", "--trust"]) == 0


def test_a_file_imported_while_scoring_is_sent_too(
    run: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("doubling.py").write_text("def twice(score):\n    return score * 2\n")
    text = BOTH.replace("    found", "    import doubling\n    found", 1)
    Path("rewards.py").write_text(text)
    Path("cases.yaml").unlink()
    assert main(["reload", str(run)]) == 0, capsys.readouterr().err
    files = sent[0][1]["files"]
    assert files == {str(Path(name).resolve()): file_hash(name) for name in ("doubling.py", "rewards.py")}


def test_a_run_that_has_not_loaded_its_rewards_is_reloaded_after_its_first_step(
    run: Path, sent: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RunReader, "reward_functions", lambda self: [])
    assert main(["reload", str(run)]) == 3
    said = capsys.readouterr().err
    assert "the run has not loaded its rewards yet\nTry again after the run's first step" in said
    assert "Fix the files" not in said
    assert sent == []


ADDED = """
def brief(completions, **kwargs):
    return [-len(text) / 100 for text in completions]
"""


def _read(file: Path, override: str) -> RunConfig:
    config = inspect_config(file, [override], world_size=None).config
    assert config is not None
    return config


@pytest.fixture
def file(run: Path) -> Path:
    """The config file that the run was started from."""
    Path("rows.jsonl").write_text('{"prompt": "2 + 2?", "answer": "4"}\n' * 8)
    path = Path("my.yaml")
    path.write_text(
        f"model_name_or_path: {DEMO_MODEL}\nuse_cpu: true\nbf16: false\nper_device_train_batch_size: 8\n"
        "dataset_name: rows.jsonl\n"
        "grpo_tui:\n  rewards:\n    - {name: right, source: 'rewards.py:right'}\n"
    )
    started = _read(path, "grpo_tui.rewards.0.weight=2")
    set_so = about_rewards(["grpo_tui.rewards.0.weight=2", "max_steps=3"])
    RunSpec(started.to_json(), rewards_set=set_so).write(run / "run.json")
    return path


def test_another_list_in_the_config_is_checked_shown_and_sent(
    run: Path, file: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cases.yaml").unlink()
    Path("rewards.py").write_text(BOTH)
    assert main(["reload", str(run), "--force"]) == 0, capsys.readouterr().err
    assert "listed" not in sent[0][1], "the weight of --set is not an edit of the file"
    Path("rewards.py").write_text(OLD)
    Path("brief.py").write_text(ADDED)
    file.write_text(f"{file.read_text()}    - {{name: short, source: 'brief.py:brief', weight: 0.5}}\n")
    capsys.readouterr()
    assert main(["reload", str(run), "--force"]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "+- {name: short" in shown
    assert "+def brief(completions" in shown
    args = sent[1][1]
    assert {Path(name).name for name in args["files"]} == {"rewards.py", "brief.py"}
    read = RunConfig.from_json(read_spec(run / "run.json").config)
    config = with_list(read, json.loads(json.dumps(args["listed"])))
    assert [(e.name, e.weight) for e in config.section.rewards] == [("right", 2), ("short", 0.5)]
    assert same_list(config, _read(file, "grpo_tui.rewards.0.weight=2"))
    again = inspect_saved(config, ["grpo_tui.rewards.1.weight=1"]).settings.section.rewards
    assert [(e.name, e.source, e.weight) for e in again] == [
        ("right", config.section.rewards[0].source, 2),
        ("short", config.section.rewards[1].source, 1),
    ], "a resume with --set begins with what is written"
    main(["reload", str(run), "--check", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {turn["name"]: turn["before"] for turn in found["what_if"]["functions"]}["short"] is None
    assert found["what_if"]["changed"] == 8, "every total has the new part"


def test_a_list_that_cannot_be_loaded_or_read_is_refused_in_words(
    run: Path, file: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    text = file.read_text()
    file.write_text(f"{text}    - {{name: short, source: 'rewards.py:brief'}}\n")
    assert main(["reload", str(run)]) == 3
    assert "short: " in capsys.readouterr().err
    refused = "not reloaded: my.yaml cannot be read, so its list of rewards is not known:\n  my.yaml:"
    for broken, words in (("  rewards: 3", ["--check", "--json"]), ("    - 'gone.py:brief'", ["--force"])):
        file.write_text(f"{text}{broken}\n")
        assert main(["reload", str(run), *words]) == 3
        assert refused in (said := capsys.readouterr().err)
        assert ("gone.py" in said) == ("gone.py" in broken)
    Path("brief.py").write_text(ADDED)
    file.write_text(f"{text}    - {{name: short, source: 'brief.py:brief'}}\n")
    spec = read_spec(run / "run.json")
    config = RunConfig.from_json(spec.config)
    for own, why in (
        ({"grpo_tui.rewards.0.weight": 1}, "but stage one sets grpo_tui.rewards.0.weight. Stop the run"),
        ({}, "but stage two cannot train with them: grpo_tui.rewards"),
    ):
        later = Stage("two", {"grpo_tui.rewards.2.weight": 1}, steps=5)
        stages = (Stage("one", own, steps=5), later)
        base = replace(config, section=replace(config.section, stages=stages)).to_json()
        replace(spec, stage=StageNow(("one", "two"), (0,), 5, 5, base)).write(run / "run.json")
        assert main(["reload", str(run)]) == 3
        assert why in (said := capsys.readouterr().err)
        assert "my.yaml --run-dir" in said
    assert sent == []


def test_a_file_that_only_set_completed_is_read_for_its_list(
    run: Path, file: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its other keys are those of the run until a resume."""
    Path("cases.yaml").unlink()
    Path("rewards.py").write_text(BOTH)
    text = file.read_text().replace("model_name_or_path", "learning_rate: fast\n# ")
    file.write_text(text)
    assert main(["reload", str(run), "--force"]) == 0, capsys.readouterr().err
    assert "listed" not in sent[0][1]
    file.write_text(f"{text}    - {{name: short, source: 'brief.py:brief'}}\n")
    assert main(["reload", str(run)]) == 3
    assert "known:\n  my.yaml:" in (said := capsys.readouterr().err)
    assert "brief.py" in said
    Path("brief.py").write_text(ADDED)
    assert main(["reload", str(run), "--force"]) == 0, capsys.readouterr().err
    assert [one["name"] for one in sent[1][1]["listed"]["rewards"]] == ["right", "short"]


def test_it_is_judged_as_the_run_trains_now(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the rewards of the stage that trains, the weights set last, and the newest groups."""
    stage = StageNow(("a", "b"), (0, 1), 5, base=config_of_functions(["gone.py:other"]).to_json())
    RunSpec(config_of_functions(["rewards.py:right"]).to_json(), stage=stage).write(run / "run.json")
    with closing(open_writer(run / "run.db")) as connection:
        changes = [r.SettingChanged(2, n, float(n), "reward_weights", [n], [n + 1.0]) for n in (1, 2, 3)]
        rows = (r.Completion(0, "no", (0.0,), 0.0, 0.0, 3, False),)
        later = r.Group(0, "8?", {"answer": "8"}, rows)
        Writer(connection).write([*changes, r.GenerationBatch(2, 2, 0, "train", 2, 2, 9e9, (later,))])
    judged: dict[str, Any] = {}

    def what_if(lab: Lab, root: Path, groups: list[int], *, weights: list[float], tell: Any) -> Any:
        judged.update(groups=groups, weights=weights, names=[one.name for one in lab.functions])
        return real(lab, root, groups, weights=weights, tell=tell)

    real = reload_check.what_if_of_run
    monkeypatch.setattr(reload_check, "what_if_of_run", what_if)
    with closing(RunReader(run / "run.db")) as reader:
        newest = max(group.id for group in reader.groups(limit=10))
    main(["reload", str(run), "--check", "--groups", "1", "--json"])
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(note.endswith("totals are compared at the current weights") for note in notes)
    assert judged == {"groups": [newest], "weights": [4.0], "names": ["right"]}


def test_a_file_that_is_edited_during_the_check_is_not_loaded_even_with_force(
    run: Path, sent: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rewards.py").write_text(BOTH)

    def what_if(*_: Any, **__: Any) -> Any:
        Path("rewards.py").write_text(BOTH + "# later\n")
        return SimpleNamespace(functions=(), reordered=0, groups=())

    monkeypatch.setattr(reload_check, "what_if_of_run", what_if)
    assert main(["reload", str(run), "--force", "--json"]) == 3
    said = capsys.readouterr().err
    assert "rewards.py was edited while it was checked. Reload again" in said
    assert "--force" not in said
    assert sent == []
