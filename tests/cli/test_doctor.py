"""What `doctor` exits with, and the remedies it applies to a run or writes into a config."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli import doctor
from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.core.findings import Finding, Remedy
from grpo_tui.core.prompt_memory import prompt_hash
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.health.reading import Diagnosis
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder, remember
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.status import read_status
from grpo_tui.store.writer import Writer
from tests.cli.test_every_option import PARSER
from tests.ui.recorded_run import recorded


@pytest.mark.parametrize("severity", ["error", "warning", "info"])
def test_a_finding_at_or_above_the_gate_is_exit_1(
    severity: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path, "finished").close()
    found = Diagnosis((Finding("a.b", severity, None, None, "odd", first_step=1, last_step=2),), 2, ())
    monkeypatch.setattr(doctor, "diagnose", lambda _: found)
    monkeypatch.setattr(doctor, "read_status", lambda *_: SimpleNamespace(state="finished", checkpoints=()))
    codes = [
        main(["doctor", str(tmp_path), *gate]) for gate in ([], ["--gate", "error"], ["--gate", "warning"])
    ]
    assert codes == {"error": [1, 1, 1], "warning": [0, 0, 1], "info": [0, 0, 0]}[severity]


@pytest.mark.parametrize(("kind", "code"), [("failed", 1), ("finished", 0)])
def test_a_run_that_failed_is_no_run_without_findings(
    kind: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, kind).close()
    assert main(["doctor", str(tmp_path), "--json"]) == code
    told = json.loads(capsys.readouterr().out)["findings"]
    assert [one["id"] for one in told if one["severity"] == "error"] == ["run.failed"] * code
    cause = (read_status(tmp_path).error or {}).get("cause", "")
    assert all(f"The run failed: {cause}" == one["message"] for one in told if one["id"] == "run.failed")


REWARDS = [
    {"name": "correct", "source": "rewards.py:correctness", "weight": 1.0},
    {"name": "penalty", "source": "rewards.py:correctness", "weight": -1.0},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a copy of the demo."""
    for name in ("demo.yaml", "task.py", "rewards.py", "model"):
        (tmp_path / name).symlink_to(DEMO_CONFIG.parent / name)
    return tmp_path


def a_run(home: Path, weights: tuple[float, ...], scores: dict[str, float]) -> Path:
    """A run of 40 steps whose prompts are solved at these rates, scored alike by each function."""
    folder = RunFolder(home / "run")
    folder.root.mkdir()
    changed = [f"grpo_tui.rewards={json.dumps(REWARDS[: len(weights)])}", "per_device_train_batch_size=8"]
    RunSpec(load_config(home / "demo.yaml", changed).to_json()).write(folder.spec)
    remember(folder.root)
    chance, made = random.Random(1), list[r.Record]()
    made.append(r.AttemptStarted(1, 0.0, "here", 1, total_steps=40))
    for n, weight in enumerate(weights):
        made.append(r.RewardFunctionInfo(1, n, str(REWARDS[n]["name"]), weight))
    for step in range(1, 41):
        groups = []
        for place, (prompt, rate) in enumerate(scores.items()):
            given = [float(chance.random() < rate) for _ in range(8)]
            totals = [sum(weights) * one for one in given]
            middle = sum(totals) / 8
            groups.append(r.Group(place, prompt, {}, tuple(
                r.Completion(n, f"{n}", (one,) * len(weights), total, total - middle, 3, False)
                for n, (one, total) in enumerate(zip(given, totals, strict=True))
            )))  # fmt: skip
        made.append(r.GenerationBatch(1, step, 0, "train", step, step, 0.0, tuple(groups)))
    with closing(open_writer(folder.database)) as connection:
        Writer(connection).write(made)
    return folder.root


def test_an_audit_is_json_of_plain_letters_or_lines(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(home, (1.0,), {"right": 1.0})
    found = SimpleNamespace(to_json=lambda: {"text": "\u202eé", "share": float("nan")})
    monkeypatch.setattr(doctor, "audit_of", lambda reader: found)
    assert main(["doctor", str(run), "--audit", "--json"]) == 0
    assert capsys.readouterr().out == '{"text": "\\u202e\\u00e9", "share": null}\n'


def test_a_tried_weight_is_written_into_a_config_that_trains(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(home, (1.0, -1.0), {"a": 0.5, "b": 0.5})
    assert main(["doctor", str(run)]) == 1
    assert "fix: Weight of penalty -0.5 instead of -1: 79 of the last 80 groups" in capsys.readouterr().out
    assert main(["doctor", str(run), "--apply", "signal.cancels"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{home / 'run-next.yaml'}: Weight of penalty -0.5 instead of -1\n")
    assert [one.weight for one in load_config(home / "run-next.yaml").section.rewards] == [1.0, -0.5]
    assert "with the remedies of signal.cancels" in (home / "run-next.yaml").read_text()
    assert main(["doctor", str(run), "--apply", "signal.cancels"]) == 0, "the next free name"
    assert (
        main(["doctor", str(run), "--apply", "signal.cancels", "--output", str(home / "run-next-2.yaml")])
        == 2
    )


@pytest.mark.parametrize("place", ["beside", "elsewhere"])
def test_larger_groups_and_a_filter_file_are_written_so_that_the_batch_fits(
    place: str, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    never = {f"never {n}": 0.0 for n in range(30)}
    run = a_run(home, (1.0,), never | {f"hard {n}": 0.06 for n in range(40)})
    folder = home if place == "beside" else tmp_path_factory.mktemp("other")
    target = folder / "new.yaml"
    assert main(["doctor", str(run), "--apply", "signal.prompts-unsolved", "-o", str(target)]) == 0
    config = load_config(target)
    assert (config.grpo["num_generations"], config.grpo["per_device_train_batch_size"]) == (16, 16)
    assert config.section.filters.exclude == str(folder / "new-solved.jsonl")
    listed = [json.loads(line)["hash"] for line in (folder / "new-solved.jsonl").read_text().splitlines()]
    assert {prompt_hash(prompt) for prompt in never} <= set(listed)
    assert set(listed) < {prompt_hash(prompt) for prompt in [*never, *(f"hard {n}" for n in range(40))]}


def test_a_live_run_is_asked_as_by_set_and_the_rest_waits_for_its_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = recorded(tmp_path / "live")
    remedies = (
        Remedy("a rate", "learning_rate", 1e-5, live=True),
        Remedy("longer", "max_completion_length", 9),
    )
    live.write(
        r.OpenFindings(1.0, (Finding("policy.kl", "error", None, None, "said", None, 1, 9, {}, remedies),))
    )
    words = ["doctor", str(live.folder.root), "--apply", "policy.kl", "--wait", "0"]
    assert main([*words, "--because", "KL"]) == 4
    sent = [json.loads(file.read_text()) for file in live.folder.commands.glob("*.json")]
    assert [(one["kind"], one["args"]) for one in sent] == [
        ("set", {"learning_rate": 1e-5, "because": "KL", "yes": True})
    ]
    assert not list(tmp_path.glob("*.yaml"))
    capsys.readouterr()
    assert main(["doctor", str(live.folder.root), "--apply", "policy.no"]) == 2
    assert "--apply policy.no: not a finding of this run" in capsys.readouterr().err
    live.close()


def test_no_file_is_written_where_the_config_of_a_strange_run_says(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(home, (1.0, -1.0), {"a": 0.5, "b": 0.5})
    (run / RunFolder(run).identity.name).unlink()
    assert main(["doctor", str(run), "--apply", "signal.cancels"]) == 2
    assert "you did not start this run on this machine" in capsys.readouterr().err
    assert not list(home.glob("*-next.yaml"))


def test_a_link_to_nowhere_is_not_written_through(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run(home, (1.0, -1.0), {"a": 0.5, "b": 0.5})
    (home / "new.yaml").symlink_to(home / "elsewhere.yaml")
    assert main(["doctor", str(run), "--apply", "signal.cancels", "-o", str(home / "new.yaml")]) == 2
    assert "new.yaml already exists and was left unchanged" in capsys.readouterr().err
    assert not (home / "elsewhere.yaml").exists()


def test_next_leaves_a_live_run_as_it_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    live = recorded(home / "live")
    RunSpec(load_config(home / "demo.yaml").to_json()).write(live.folder.spec)
    remedies = (Remedy("a rate", "learning_rate", 1e-5, live=True),)
    live.write(
        r.OpenFindings(1.0, (Finding("policy.kl", "error", None, None, "said", None, 1, 9, {}, remedies),))
    )
    words = ["doctor", str(live.folder.root), "--apply", "policy.kl", "--next"]
    assert main([*words, "--output", str(home / "new.yaml")]) == 0
    assert load_config(home / "new.yaml").grpo["learning_rate"] == 1e-5
    assert not list(live.folder.commands.glob("*.json"))
    assert main(["doctor", str(live.folder.root), "--next"]) == 2
    assert "--next has no effect without --apply" in capsys.readouterr().err
    live.close()


def test_a_run_without_findings_has_none_to_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, "finished").close()
    monkeypatch.setattr(doctor, "diagnose", lambda _: Diagnosis((), 2, ()))
    assert main(["doctor", str(tmp_path), "--apply", "policy.kl"]) == 2
    assert "--apply policy.kl: this run has no findings" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "waits"), [([], 60.0), (["--wait", "0"], 0.0), (["--wait", "7"], 7.0)])
@pytest.mark.parametrize(("code", "writes"), [(0, True), (3, False), (4, False)])
def test_the_run_is_waited_for_as_typed_and_a_file_is_written_only_if_it_agrees(
    words: list[str], waits: float, code: int, writes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedies = (Remedy("a rate", "learning_rate", 1e-5, live=True), Remedy("longer", "max_steps", 9))
    finding = Finding("policy.kl", "error", None, None, "said", None, 1, 9, {}, remedies)
    sent: list[tuple[str, dict[str, Any], float]] = []
    written: list[Any] = []

    def send(root: Path, kind: str, args: dict[str, Any], wait_s: float, *, as_json: bool) -> int:
        sent.append((kind, args, wait_s))
        return code

    monkeypatch.setattr(doctor, "send", send)
    monkeypatch.setattr(doctor, "read_status", lambda root: SimpleNamespace(live=True))
    monkeypatch.setattr(doctor, "_write", lambda parsed, root, finding, wanted: written.append(wanted))
    parsed = PARSER.parse_args(["doctor", "run", "--apply", "policy.kl", *words])
    assert doctor.apply(parsed, tmp_path, [finding]) == code
    because = "policy.kl: a rate"
    assert sent == [("set", {"learning_rate": 1e-5, "because": because, "yes": True}, waits)]
    assert bool(written) == writes
