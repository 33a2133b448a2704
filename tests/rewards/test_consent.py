"""Code of a run or config that is not the user's own runs only after a yes, in every command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.preflight.checker import Checker
from grpo_tui.rewards import consent
from grpo_tui.rewards.generating import Generator
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.store.layout import own_folder, remember
from grpo_tui.store.spec import RunSpec, read_spec
from grpo_tui.ui.requests import config_of_run
from tests.foreign import MARKED, ForeignRun, foreign_run

OTHER = 54321
"""A login that nobody has."""
pytestmark = pytest.mark.usefixtures("no_yes")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another login")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> ForeignRun:
    base = tmp_path_factory.mktemp("foreign")
    return foreign_run(base / "run", base / "marks")


@pytest.fixture
def foreign(there: ForeignRun) -> ForeignRun:
    there.ran()
    return there


@pytest.fixture(scope="module")
def remote_there(tmp_path_factory: pytest.TempPathFactory) -> ForeignRun:
    base = tmp_path_factory.mktemp("remote")
    return foreign_run(base / "run", base / "marks", remote_code=True, data_file=True)


@pytest.fixture
def remote(remote_there: ForeignRun) -> ForeignRun:
    remote_there.ran()
    return remote_there


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What is said with exit code 3."""
    code = main([str(word) for word in words])
    said = capsys.readouterr().err
    assert code == 3, said
    assert "--trust" in said
    assert "Traceback" not in said
    return said


WORDS = {
    "score a run": "score RUN --rows 1",
    "score completions of a run": "score --run RUN",
    "score by a config inside it": "score RUN/task.yaml --rows 1",
    "score functions inside it": "score RUN/rewards.py:format_reward --run RUN",
    "probe": "probe RUN --rows 1",
    "cases": "cases run RUN/my.cases.yaml",
    "whatif": "whatif RUN --groups 2",
    "baseline": "baseline RUN --rows 1 --group 2",
    "data": "data RUN/task.yaml --row 1",
    "figures of the data": "data RUN/task.yaml",
    "plan": "plan RUN --count",
    "new rewards": "new rewards RUN/rewards.py --next",
    "train": "train RUN --run-dir NEW --detach",
    "train a config inside it": "train RUN/task.yaml --run-dir NEW --detach",
    "smoke": "train RUN --smoke",
    "drill": "train RUN --drill nan",
    "resume": "train RUN --resume --set max_steps=5 --detach",
    "resume by its folder": "train OWN --run-dir RUN --resume --set max_steps=5 --detach",
}


@pytest.mark.parametrize("line", WORDS.values(), ids=WORDS)
def test_a_command_runs_no_code_of_a_foreign_run_without_a_yes(
    line: str, foreign: ForeignRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(foreign.config.read_text().replace("rewards.py:", f"{tmp_path}/rewards.py:"))
    (tmp_path / "rewards.py").write_text("def correctness(completions, **kwargs):\n    return [1.0]\n")
    (tmp_path / "task.py").write_text((foreign.root / "task.py").read_text())
    words = line.replace("RUN", str(foreign.root)).replace("NEW", str(tmp_path / "new"))
    said = refused(capsys, *words.replace("OWN", str(own)).split())
    assert str(foreign.root) in said
    if "OWN" not in line:
        assert "rewards.py" in said or "task.py" in said
    assert foreign.ran() == set()
    assert not (tmp_path / "new").exists()


def test_what_only_reads_needs_no_yes(foreign: ForeignRun, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("status", "runs", "metrics", "log", "course"):
        assert main([words, str(foreign.root)]) == 0
    assert main(["completions", str(foreign.root), "--count"]) == 0
    assert main(["whatif", str(foreign.root), "--recorded", "--weights", "1,2,3", "--groups", "2"]) == 0
    assert main(["export", str(foreign.root), "--format", "script"]) == 0
    assert foreign.ran() == set()


def test_a_lab_starts_without_what_lies_in_the_working_folder(foreign: ForeignRun) -> None:
    fake = foreign.root / "torch.py"
    fake.write_text(MARKED.format(mark=str(foreign.marks / "torch")))
    words = ["grpo-tui", "whatif", ".", "--recorded", "--weights", "1,2,3", "--groups", "2"]
    words[0] = str(Path(sys.executable).with_name("grpo-tui"))
    try:
        done = subprocess.run(words, cwd=foreign.root, capture_output=True, text=True, check=False)
    finally:
        fake.unlink()
    assert done.returncode == 0, done.stderr
    assert foreign.ran() == set()


def test_a_config_that_a_foreign_record_names_is_foreign(foreign: ForeignRun, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(foreign.config.read_text().replace("rewards.py", str(tmp_path / "rewards.py")))
    for name in ("rewards.py", "task.py"):
        (tmp_path / name).write_text((foreign.root / name).read_text())
    assert consent.needed(load_config(own)) == ()
    spec = read_spec(foreign.root / "run.json")
    before = (foreign.root / "run.json").read_text()
    try:
        RunSpec({**spec.config, "path": str(own)}).write(foreign.root / "run.json")
        assert config_of_run(foreign.root) == own
        RunSpec({**spec.config, "path": str(tmp_path / "gone.yaml")}).write(foreign.root / "run.json")
        assert config_of_run(foreign.root) is None
    finally:
        (foreign.root / "run.json").write_text(before)
    assert {Path(code.what).name for code in consent.needed(load_config(own))} == {"rewards.py", "task.py"}


def test_a_check_reports_the_rest_and_says_what_it_did_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = foreign_run(tmp_path / "run", tmp_path / "marks", data_file=True)
    assert main(["check", str(foreign.root), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    unrun = [finding for finding in found["findings"] if finding["id"] == consent.NOT_RUN]
    assert [finding["field"] for finding in unrun] == ["grpo_tui.rewards"]
    assert str(foreign.root / "rewards.py") in unrun[0]["message"]
    assert any("12 rows" in item["evidence"] for item in found["checklist"])  # the data was read
    assert foreign.ran() == set()


def test_a_check_of_data_from_code_reads_no_row_before_the_yes(
    foreign: ForeignRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(foreign.root), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    unrun = {finding["field"] for finding in found if finding["id"] == consent.NOT_RUN}
    assert unrun == {"grpo_tui.dataset", "grpo_tui.rewards"}
    assert foreign.ran() == set()


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("name", ["score a run", "probe", "cases", "whatif", "data", "new rewards"])
def test_with_a_yes_the_command_runs_it_and_is_not_asked_again(
    name: str, foreign: ForeignRun, capsys: pytest.CaptureFixture[str]
) -> None:
    words = WORDS[name].replace("RUN", str(foreign.root)).split()
    refused(capsys, *words)
    before = (foreign.root / "rewards.py").read_text()
    try:
        assert main([*words, "--trust"]) in (0, 1)
        data = {"task.py"} if name in ("score a run", "probe", "data") else set()
        assert foreign.ran() >= {"rewards.py"} | data
        consent._trusting = False
        consent._given.clear()
        if name != "new rewards":  # which has changed the file
            assert main(words) in (0, 1)
            assert "rewards.py" in foreign.ran()
    finally:
        (foreign.root / "rewards.py").write_text(before)


def test_a_yes_is_kept_for_the_user_alone_and_for_one_content(
    foreign: ForeignRun, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(foreign.config)
    codes = consent.needed(config)
    assert [Path(code.what).name for code in codes] == ["rewards.py"] * 3 + ["task.py"]
    consent.give(codes)
    notes = list((own_folder("state") / "trusted").iterdir())
    assert {note.stat().st_mode & 0o777 for note in notes} == {0o600}
    monkeypatch.setattr(consent, "_given", set())
    assert consent.needed(config) == ()
    lab.load(config)
    file = foreign.root / "rewards.py"
    text = file.read_text()
    file.write_text(f"{text}\n")
    try:
        assert {code.what for code in consent.needed(config)} == {str(file)}
        with pytest.raises(consent.ConsentError):
            lab.load(config)
    finally:
        file.write_text(text)
    notes[0].chmod(0o666)
    assert len(consent.needed(config)) == 1


def test_the_children_are_guarded_whoever_asks_them(foreign: ForeignRun, lab: Lab) -> None:
    config = load_config(foreign.config)
    for ask in (
        lambda: lab.load(config),
        lambda: lab.rows(config, 1),
        lambda: Checker().row(config, 1),
        lambda: Generator(config).rows(1, 0),
    ):
        with pytest.raises(consent.ConsentError):
            ask()
    assert foreign.ran() == set()


def test_a_run_that_the_user_started_is_asked_about_nothing(tmp_path: Path) -> None:
    own = foreign_run(tmp_path / "run", tmp_path / "marks", remote_code=True)
    remember(own.root)
    saved = RunConfig.from_json(load_config(own.config).to_json(), own.root)
    assert consent.needed(saved) == ()
    assert consent.needed(load_config(own.config)) == ()
    assert consent.needed_to_start(saved, own.root, ("torchrun",), str(own.root / "checkpoint-3")) == ()


@as_root
def test_files_of_another_login_are_asked_about(tmp_path: Path) -> None:
    run = foreign_run(tmp_path / "run", tmp_path / "marks", remote_code=True)
    remember(run.root)
    config = load_config(run.config)
    os.chown(run.root / "rewards.py", OTHER, -1)
    codes = consent.needed(config)
    assert {(code.what, code.why) for code in codes} == {
        (str(run.root / "rewards.py"), f"owned by user {OTHER}")
    }
    os.chown(run.root / "model" / "own.py", OTHER, -1)
    assert any("trust_remote_code" in code.what for code in consent.needed(config, "model"))
    judge = Path(shutil.copytree(run.root / "model", run.root / "judge"))
    judged = replace(config, model="theirs/model", script={"reward_model_name_or_path": str(judge)})
    assert not consent.needed(judged, "model"), "all of it is the user's own"
    os.chown(judge / "own.py", OTHER, -1)
    assert [str(judge) in code.what for code in consent.needed(judged, "model")] == [True]
    os.chown(run.root / "run.json", OTHER, -1)  # a record put in the place of the user's own
    assert "task.py" in " ".join(code.what for code in consent.needed(config))
    os.chown(run.root / "run.json", os.geteuid(), -1)
    os.chown(run.config, OTHER, -1)
    whats = " ".join(code.what for code in consent.needed(config))
    assert "task.py" in whats
    assert "trust_remote_code" in whats


ONE = "dataset_name: x\ngrpo_tui: {rewards: [{name: a, source:"
LIBRARY = "grpo_tui.rewards.library"


def config_of(there: ForeignRun, text: str) -> RunConfig:
    """A config inside a foreign run."""
    file = there.root / "other.yaml"
    body = there.config.read_text()
    file.write_text(body[: body.index("grpo_tui:")] + text)
    return load_config(file)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("reward_funcs: [subprocess.Popen]\ndataset_name: x", "subprocess.Popen"),
        (f"{ONE} 'subprocess:Popen', params: {{args: [ls]}}}}]}}", "subprocess:Popen"),
        (f"{ONE} {LIBRARY}.Clip, params: {{low: 0.0, reward: 'HERE/rewards.py:f'}}}}]}}", "rewards.py"),
        (f"{ONE} {LIBRARY}.PassesTests}}]}}", "PassesTests"),
        ("reward_funcs: [accuracy_reward]\ndataset_name: x\nenv: {LD_PRELOAD: ./x.so}", "LD_PRELOAD"),
        ("reward_funcs: [accuracy_reward]\ndataset_name: HERE/task.py", "task.py"),
        (
            "reward_funcs: [accuracy_reward]\ndataset_name: x\nattn_implementation: someone/kernel",
            "someone/kernel",
        ),
        (
            "reward_funcs: [accuracy_reward]\ndataset_name: x\nmodel_init_kwargs: {trust_remote_code: true}",
            "trust_remote_code",
        ),
        (
            (
                "dataset_name: x\nmodel_init_kwargs: {trust_remote_code: true}\n"
                "reward_model_name_or_path: someone/judge"
            ),
            "the code of the model someone/judge (trust_remote_code)",
        ),
        ("reward_funcs: [accuracy_reward]\ngrpo_tui: {dataset: 'HERE/task.py:rows'}", "task.py"),
    ],
)
def test_everything_that_a_foreign_config_can_run_is_named(
    text: str, named: str, foreign: ForeignRun
) -> None:
    config = config_of(foreign, text.replace("HERE", str(foreign.root)))
    assert any(named in code.what for code in consent.needed(config))


def test_what_runs_no_code_is_not_asked_about(foreign: ForeignRun) -> None:
    text = (
        "reward_funcs: [accuracy_reward]\ngrpo_tui: {dataset: HERE/rows.jsonl, rewards: [{name: a, source:"
        " grpo_tui.rewards.library.NumericAnswer, params: {column: answer}}]}"
    )
    assert consent.needed(config_of(foreign, text.replace("HERE", str(foreign.root)))) == ()


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("grpo_tui.rewards.library.NumericAnswer", False),
        ("grpo_tui.rewards.library:NumericAnswer", False),
        ("grpo_tui.rewards.library.Gate", True),
        ("grpo_tui.rewards.library.code.PassesTests", True),
        ("grpo_tui.rewards.librar.NumericAnswer", True),
        ("grpo_tui.rewards.libraryNumericAnswer", True),
    ],
)
def test_only_a_reward_of_the_library_that_runs_no_other_code_is_not_asked_about(
    source: str, asked: bool, foreign: ForeignRun
) -> None:
    text = f"grpo_tui: {{dataset: {foreign.root}/rows.jsonl, rewards: [{{name: a, source: '{source}'}}]}}"
    assert any(source in code.what for code in consent.needed(config_of(foreign, text))) is asked


def test_a_yes_holds_for_the_same_parameters_in_any_order() -> None:
    def key(*params: tuple[str, int]) -> str:
        return consent._key("call", None, ["mine.f", {"nested": dict(params)}])

    assert key(("a", 1), ("b", 2)) == key(("b", 2), ("a", 1))
    assert key(("a", 1), ("b", 2)) != key(("a", 2), ("b", 1))


def test_a_launcher_and_a_checkpoint_of_a_foreign_run_are_part_of_the_question(
    foreign: ForeignRun, tmp_path: Path
) -> None:
    own = load_config(foreign.config)
    codes = consent.needed_to_start(own, foreign.root, ("accelerate", "launch", "--module", "x"))
    assert any("accelerate launch --module x" in code.what for code in codes)
    assert any("record and checkpoints" in code.what for code in codes)


def test_code_that_only_a_later_stage_names_is_part_of_the_question_of_a_start(
    foreign: ForeignRun, tmp_path: Path
) -> None:
    text = (
        "reward_funcs: [accuracy_reward]\ndataset_name: x\ngrpo_tui:\n  stages:\n    - {name: a, steps: 2}\n"
        f"    - {{name: b, steps: 2, set: {{reward_funcs: ['{foreign.root}/rewards.py:format_reward']}}}}\n"
    )
    config = config_of(foreign, text)
    (code,) = (code for code in consent.needed_to_start(config, tmp_path) if "rewards.py" in code.what)
    with pytest.raises(consent.ConsentError, match=r"rewards\.py"):
        consent.required_to_start(config, tmp_path)
    consent.give([code])
    assert code not in consent.needed_to_start(config, tmp_path)


def test_a_notification_of_a_foreign_config_is_part_of_the_question_of_a_start(
    foreign: ForeignRun, tmp_path: Path
) -> None:
    text = (
        "reward_funcs: [accuracy_reward]\ndataset_name: x\ngrpo_tui:\n  notify:\n    command: rm -r data\n"
        "    webhook: https://hooks.here/s3cret"
    )
    config = config_of(foreign, text)
    named = [code for code in consent.needed_to_start(config, tmp_path) if "notify" in code.what]
    assert [code.what for code in named] == [
        "grpo_tui.notify: command rm -r data, webhook https://hooks.here/…"
    ]
    consent.give(named)
    assert not consent.needed_to_start(config, tmp_path)
    assert not consent.needed(config), "what only scores runs none of it"
    other = config_of(foreign, text.replace("rm -r", "ls"))
    assert consent.needed_to_start(other, tmp_path)


def test_a_pipe_in_place_of_a_file_cannot_be_said_yes_to(foreign: ForeignRun) -> None:
    pipe = foreign.root / "pipe.py"
    os.mkfifo(pipe)
    try:
        consent.trust_all()
        with pytest.raises(consent.ConsentError, match=r"pipe\.py"):
            consent.required(config_of_functions([f"{pipe}:f"]))
    finally:
        pipe.unlink()


def test_remote_code_of_a_foreign_run_runs_after_the_yes_alone(
    remote: ForeignRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(remote.root)
    group = ["tokens", run, "--group", "1", "--from", "base"]
    assert "trust_remote_code" in refused(capsys, *group)
    assert "trust_remote_code" in refused(capsys, "baseline", run, "--rows", "1", "--group", "2")
    assert main(["check", run, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert sum(finding["id"] == consent.NOT_RUN for finding in found) == 2
    assert remote.ran() == set()
    assert main([*group, "--trust"]) == 0
    assert "model" in remote.ran()


def test_a_start_with_a_yes_trains_and_its_run_is_the_users_own(
    foreign: ForeignRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new"
    words = ["train", str(foreign.root), "--run-dir", str(new), "--headless", "--quick-check"]
    refused(capsys, *words)
    assert not new.exists()
    assert main([*words, "--trust"]) == 0
    assert foreign.ran() == {"rewards.py", "task.py"}
    assert consent.needed_to_resume(new) == tuple(
        code for code in consent.needed_to_resume(new) if "rewards.py" in code.what
    )
