"""The parts of a check: told as they come, remembered while nothing changes, ended on purpose."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import inspect_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry, Section
from grpo_tui.core.findings import Finding, Severity
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight import run
from grpo_tui.preflight.checker import Checked, Checker
from grpo_tui.preflight.facts import DataFacts, Facts
from grpo_tui.preflight.report import Preflight
from grpo_tui.preflight.rewards import RewardLook, split_models
from grpo_tui.preflight.run import Children, Memory, check
from grpo_tui.preflight.static import Launch
from grpo_tui.rewards.consent import NOT_RUN
from tests.preflight.machines import A100, machine

SLOW = Finding("rewards.slow", "warning", "grpo_tui.rewards.0", 9, "takes long")
FEW = Finding("data.duplicates", "warning", "grpo_tui.dataset", 8, "two rows are the same")


class Asked:
    """Stands in for the processes; says how often each was asked."""

    def __init__(self) -> None:
        self.data = self.rewards = 0
        self.cancelled = False

    def checked(self, checker: Checker, config: Any, **kw: Any) -> Checked:
        self.data += 1
        found = Checked(Facts(data=DataFacts("rows.jsonl", looked_at=3, train_rows=3)), (FEW,), True)
        kw["tell"](found)
        return found

    def look(self, config: Any, *rest: Any) -> RewardLook:
        self.rewards += 1
        return RewardLook((SLOW,), 8, ("right",), True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    stand_in = Asked()
    monkeypatch.setattr(Checker, "check", lambda self, config, **kw: stand_in.checked(self, config, **kw))
    monkeypatch.setattr(run, "look_at_rewards", stand_in.look)
    return stand_in


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "q", "answer": "1"}\n' * 60)
    (tmp_path / "own.py").write_text(
        "def right(completions, answer, **kw): return [0.0 for _ in completions]\n"
    )
    file = tmp_path / "c.yaml"
    file.write_text(
        f"model_name_or_path: {DEMO_MODEL}\nuse_cpu: true\nbf16: false\nmax_steps: 20\nsave_steps: 10\n"
        "max_completion_length: 40\n"
        "grpo_tui:\n  dataset: rows.jsonl\n  rewards: [{name: right, source: own.py:right}]\n"
    )
    return file


def test_each_part_is_told_with_all_that_was_known_before(asked: Asked, source: Path, tmp_path: Path) -> None:
    told: list[Preflight] = []
    found = check(
        inspect_config(source), Launch(root=tmp_path / "run"), tell=told.append, machine=machine(A100)
    )
    assert set(told[0].done) == {"static", "plan"}
    assert {f.id for f in told[0].findings} == set()
    assert {f.id for f in found.findings} == {"rewards.slow", "data.duplicates"}
    assert found.done == ("static", "model", "data", "rewards", "plan")
    assert all(set(a.done) <= set(b.done) for a, b in pairwise(told))
    assert told[-1].to_json() == found.to_json()


def test_what_was_found_is_remembered_until_a_file_changes(
    asked: Asked, source: Path, tmp_path: Path
) -> None:
    memory, start = Memory(), Launch(root=tmp_path / "run")

    def again() -> tuple[int, int]:
        found = check(inspect_config(source), start, machine=machine(A100), memory=memory)
        assert {f.id for f in found.findings} == {"rewards.slow", "data.duplicates"}
        return asked.data, asked.rewards

    assert again() == (1, 1)
    assert again() == (1, 1)
    (tmp_path / "own.py").write_text("def right(completions, **kw): return [1.0 for _ in completions]\n")
    assert again() == (2, 2)
    with (tmp_path / "rows.jsonl").open("a") as rows:
        rows.write('{"prompt": "new", "answer": "2"}\n')
    assert again() == (3, 3)
    source.write_text(source.read_text() + "  holdout: 4\n")
    assert again() == (4, 4)


def test_a_tip_on_the_rewards_is_advice_and_no_finding(
    asked: Asked, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = Finding("rewards.flat", "info", "grpo_tui.rewards.0", 9, "few distinct values")
    monkeypatch.setattr(run, "look_at_rewards", lambda *args: RewardLook((SLOW, tip), 8, ("right",), True))
    found = check(inspect_config(source), Launch(root=tmp_path / "run"), machine=machine(A100))
    assert [f for f in found.findings if f.id.startswith("rewards.")] == [SLOW]
    assert [f for f in found.advice if f.id.startswith("rewards.")] == [tip]


@pytest.mark.parametrize(
    ("rule", "severity", "told"),
    [
        ("data.bad-prompt", "error", False),
        ("checker.failed", "error", False),
        ("data.bad-prompt", "warning", True),
        ("model.missing", "error", True),
    ],
)
def test_rewards_that_could_not_be_tried_are_told_unless_an_error_of_the_rows_says_why(
    rule: str,
    severity: Severity,
    told: bool,
    asked: Asked,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cause = Checked(Facts(), (Finding(rule, severity, "grpo_tui.dataset", 8, "it is so"),), True)
    untried = Finding("rewards.not-tried", "warning", "grpo_tui.rewards", 9, "they were not tried")
    monkeypatch.setattr(Checker, "check", lambda *args, **kw: cause)
    monkeypatch.setattr(run, "look_at_rewards", lambda *args: RewardLook((untried, SLOW)))
    found = check(inspect_config(source), Launch(root=tmp_path / "run"), machine=machine(A100))
    assert {f.id for f in found.findings} == {rule, "rewards.slow"} | (
        {"rewards.not-tried"} if told else set()
    )


@pytest.mark.parametrize("rule", [NOT_RUN, "checker.failed"])
def test_what_could_not_be_looked_at_is_looked_at_by_the_next_check(
    rule: str, asked: Asked, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlooked = Finding(rule, "error", "grpo_tui.dataset", 8, "the data was not looked at")
    results = iter([Checked(Facts(), (unlooked,), False), Checked(Facts(), (), True)])
    looks = iter([RewardLook((SLOW,)), RewardLook((), 8, ("right",), True)])
    monkeypatch.setattr(Checker, "check", lambda *args, **kw: next(results))
    monkeypatch.setattr(run, "look_at_rewards", lambda *args: next(looks))
    memory, start = Memory(), Launch(root=tmp_path / "run")
    for found in ({rule, "rewards.slow"}, set(), set()):
        now = check(inspect_config(source), start, machine=machine(A100), memory=memory)
        assert {f.id for f in now.findings} == found


def test_a_part_that_is_not_wanted_is_not_looked_at(asked: Asked, source: Path, tmp_path: Path) -> None:
    found = check(
        inspect_config(source),
        Launch(root=tmp_path / "run"),
        machine=machine(A100),
        parts=("static", "data", "plan"),
    )
    assert (asked.data, asked.rewards) == (1, 0)
    assert found.done == ("static", "data", "plan")
    assert [item.mark for item in found.checklist][1] == "idle"


def test_the_processes_are_not_asked_when_no_config_is_left(
    asked: Asked, source: Path, tmp_path: Path
) -> None:
    source.write_text("learning_rte: 1.0\n" + source.read_text())
    found = check(inspect_config(source), Launch(root=tmp_path / "run"), machine=machine(A100))
    assert not found.ok
    assert not found.can_be_forced
    assert (asked.data, asked.rewards) == (0, 0)


@pytest.mark.parametrize("why", ["no config is left", "it was ended"])
def test_no_stage_is_checked_when(
    why: str, asked: Asked, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "learning_rte: 1.0\n" if why == "no config is left" else ""
    stages = "  stages:\n    - {name: a, steps: 5}\n    - {name: b, steps: 5}\n"
    source.write_text(head + source.read_text().replace("max_steps: 20\n", "") + stages)
    cancel, checked, told = threading.Event(), list[Any](), list[Preflight]()
    whole = run._check

    def once(inspected: Any, *given: Any, **more: Any) -> Preflight:
        checked.append(inspected)
        found = whole(inspected, *given, **more)
        if why == "it was ended":
            cancel.set()
        return found

    monkeypatch.setattr(run, "_check", once)
    start = Launch(root=tmp_path / "run")
    found = check(inspect_config(source), start, tell=told.append, cancel=cancel, machine=machine(A100))
    assert len(checked) == 1
    assert (checked[0].config is None) is bool(head)
    assert told[-1].findings == found.findings


def test_an_end_on_purpose_ends_the_real_processes(source: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import time\ntime.sleep(600)\n")
    cancel = threading.Event()
    said: list[str] = []

    def hear(what: str) -> None:
        said.append(what)
        if what == "loading the rewards":
            threading.Timer(0.2, cancel.set).start()

    with Children() as kept:
        found = check(
            inspect_config(source),
            Launch(root=tmp_path / "run"),
            machine=machine(A100),
            cancel=cancel,
            progress=hear,
            children=kept,
        )
    assert "rewards" not in found.done
    assert "loading the rewards" in said


def test_reward_models_are_parted_from_functions_with_their_weights() -> None:
    entries = (
        RewardEntry("right", "/x/own.py:right"),
        RewardEntry("judge", "organisation/judge"),
        RewardEntry("short", "my_package.rewards.short"),
        RewardEntry("math", "accuracy_reward"),
    )
    script = {"reward_model_name_or_path": "models/rm", "reward_funcs": ["think_format_reward"]}
    grpo = {"reward_weights": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    config = RunConfig(None, "m", grpo, {}, script, {}, Section(rewards=entries))
    kept, keys, models = split_models(config)
    assert keys == ["reward_funcs", "grpo_tui.rewards.0", "grpo_tui.rewards.2", "grpo_tui.rewards.3"]
    assert models == [("reward_model_name_or_path", "rm"), ("grpo_tui.rewards.1", "judge")]
    assert kept.grpo["reward_weights"] == [2.0, 3.0, 5.0, 6.0]
    assert kept.reward_count == 4
    assert split_models(kept)[0] == kept


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_stage_is_checked_as_the_whole_is(
    ranks: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the ranks, the GPUs and the parts of the start, and in the processes that are there already."""
    stages = "  stages:\n    - {name: a, set: {learning_rate: 1.0e-5}, steps: 5}\n    - {name: b, steps: 5}\n"
    text = source.read_text().replace("max_steps: 20\n", "")
    source.write_text(text + stages)
    found: list[tuple[int | None, Any]] = []
    more: list[dict[str, Any]] = []
    machines: list[str | None] = []

    def static(inspected: Any, start: Launch, machine: Any) -> Preflight:
        found.append((inspected.settings.world_size, inspected.settings.get("learning_rate")))
        return Preflight(None, ())

    whole = run._check

    def checked(inspected: Any, start: Any, **given: Any) -> Preflight:
        given.pop("tell", None)
        more.append(given)
        return whole(inspected, start, **given)

    monkeypatch.setattr(run, "static_check", static)
    monkeypatch.setattr(run, "_check", checked)
    monkeypatch.setattr(run, "reach_findings", lambda *words: [])
    monkeypatch.setattr(run, "this_machine", lambda env: machines.append(env.get("CUDA_VISIBLE_DEVICES")))
    start = Launch(root=tmp_path / "run", gpus=("3", "GPU-a"))
    check(inspect_config(source, world_size=ranks), start, parts=("static",))
    (_, rate), *_ = found
    assert found == [(ranks, rate), (ranks, 1e-5), (ranks, rate)]
    assert more[0] == more[1] == more[2]
    assert machines == ["3,GPU-a"] * 3
