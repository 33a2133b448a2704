"""Edited reward files are loaded into a run: equal to a resume with them, undone, and refused whole."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.reward_list import listed_in
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import RewardEntry
from grpo_tui.core.commands import Outcome
from grpo_tui.present.events import setting_row
from grpo_tui.rewards.reload_check import file_hash
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.search import Search
from grpo_tui.store.spec import RunSpec, read_spec
from grpo_tui.train.session import Session
from tests.train.tiny import FIRST_LAYER, run_recorded

pytestmark = pytest.mark.slow

OLD = """\
from helper import divisor

def variety(completions, **kwargs):
    return [len(set(str(completion))) / divisor() for completion in completions]
"""
NEW = """\
import random

from helper import divisor

random.seed(0)

def variety(completions, **kwargs):
    return [sum(map(ord, str(completion))) % 7 / divisor() for completion in completions]
"""
LETTERS = """\
class Letters:
    def __init__(self):
        self.calls = 0

    def __call__(self, completions, **kwargs):
        self.calls += 1
        return [str(completion).count("e") / self.calls for completion in completions]

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]
"""
BASE: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "steps_per_generation": 2,
    "num_iterations": 2,
    "max_completion_length": 8,
    "learning_rate": 3e-3,
    "model_init_kwargs": FIRST_LAYER,
    "max_steps": 8,
    "save_strategy": "steps",
    "save_steps": 2,
}
"""Four steps a generation: steps 1 to 4, and 5 to 8."""

Rows = list[tuple[int, dict[str, Any]]]
Ask = tuple[str, dict[str, Any]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a reward function, one with a state, and a module that the first imports."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "variety.py").write_text(OLD)
    (folder / "letters.py").write_text(LETTERS)
    (folder / "helper.py").write_text("def divisor():\n    return 10\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    return folder


def _config(files: Path) -> RunConfig:
    return config_of_functions([f"{files}/variety.py:variety", f"{files}/letters.py:Letters"])


def _wanted(files: Path) -> dict[str, Any]:
    names = ("variety.py", "letters.py", "helper.py")
    return {"files": {str((files / name).resolve()): file_hash(str(files / name)) for name in names}}


def _asking(folder: Path, asks: dict[int, list[Callable[[], Ask]]]) -> Callable[[Session, Any], None]:
    def at_safe_point(session: Session, trainer: Any) -> None:
        for ask in asks.pop(trainer.state.global_step, ()):
            Mailbox(RunFolder(folder).commands).submit(*ask())

    return at_safe_point


def _edited(files: Path, name: str, text: str, **more: Any) -> Callable[[], Ask]:
    def ask() -> Ask:
        (files / name).write_text(text)
        return "reload", _wanted(files) | more

    return ask


def _outcomes(folder: Path) -> list[Outcome]:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        return [outcome for _, outcome in reader.commands() if outcome is not None]


def _steps(rows: Rows, after: int) -> list[Any]:
    return [(step, repr(row)) for step, row in rows if step > after and "loss" in row]


def test_a_reload_in_mid_cycle_waits_and_then_equals_a_resume_with_the_new_file(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, again, before = tmp_path / "run", tmp_path / "again", tmp_path / "before"
    plain, _, _ = run_recorded(before, config=_config(files), **BASE)
    asks = {2: [_edited(files, "variety.py", NEW, because="it paid for length", what_if="3 of 9 groups")]}
    rows, weights, _ = run_recorded(
        folder, config=_config(files), at_safe_point=_asking(folder, asks), **BASE
    )
    (outcome,) = _outcomes(folder)
    assert (outcome.applied, outcome.step) == (True, 4), outcome.reason
    old, new = (sha256(text.encode()).hexdigest()[:8] for text in (OLD, NEW))
    assert f"variety.py@{old} → " in outcome.reason
    assert f"variety.py@{new}" in outcome.reason
    with closing(RunReader(RunFolder(folder).database)) as reader:
        (change,) = reader.settings()
        assert (change.name, change.step) == ("rewards", 4)
        assert "it paid for length; 3 of 9 groups" in setting_row(change).text
        assert [(one.index, one.since_step) for one in reader.reloaded_functions()] == [(0, 5), (1, 5)]
        assert [one.text for one in reader.reward_functions()] == [NEW, LETTERS]
        assert [one.name for one in reader.reward_functions()] == ["variety", "Letters"]
    assert _steps(rows, 4) != _steps(plain, 4)
    assert _steps(rows, 0)[:4] == _steps(plain, 0)[:4], "the batch under way keeps its advantages"
    shutil.copytree(before / "checkpoint-4", again / "checkpoint-4")
    resumed, same, _ = run_recorded(again, config=_config(files), resume=again / "checkpoint-4", **BASE)
    assert _steps(rows, 4) == _steps(resumed, 4)
    assert weights == same
    assert "the reward functions are not those that checkpoint-4 was made with" in capsys.readouterr().out
    inside = tmp_path / "inside"
    shutil.copytree(folder / "checkpoint-6", inside / "checkpoint-6")
    resumed, same, _ = run_recorded(inside, config=_config(files), resume=inside / "checkpoint-6", **BASE)
    assert (weights, _steps(rows, 6)) == (same, _steps(resumed, 6)), "with the batch in the checkpoint"
    assert "not those" not in capsys.readouterr().out


def test_a_reload_is_undone_from_memory_and_forgotten_by_a_resume(files: Path, tmp_path: Path) -> None:
    folder, plain = tmp_path / "run", tmp_path / "plain"
    small = BASE | {"steps_per_generation": 1, "num_iterations": 1, "max_steps": 6}
    wanted, _, _ = run_recorded(plain, config=_config(files), **small)
    helper = "def divisor():\n    return 3\n"
    asks: dict[int, list[Callable[[], Ask]]] = {
        2: [_edited(files, "variety.py", NEW), lambda: ("undo", {"count": 1})],
        3: [
            _edited(files, "helper.py", helper),
            lambda: ("set", {"max_grad_norm": 0.5}),
            lambda: ("undo", {"count": 2}),
        ],
        4: [lambda: ("set", {"rewards": "variety.py"})],
        5: [_edited(files, "variety.py", OLD)],
    }
    rows, _, _ = run_recorded(folder, config=_config(files), at_safe_point=_asking(folder, asks), **small)
    said = _outcomes(folder)
    assert [outcome.applied for outcome in said] == [True, True, True, True, True, False, True]
    assert "helper.py@" in said[2].reason
    assert "`grpo-tui reload RUN`" in said[5].reason
    assert _steps(rows, 0)[:5] == _steps(wanted, 0)[:5], (
        "back to the functions of before, without their files"
    )
    with closing(RunReader(RunFolder(folder).database)) as reader:
        assert [one.text for one in reader.reward_functions()] == [OLD, LETTERS]
        assert [one.undoes for one in reader.settings() if one.name == "rewards"] == [0, 1, 0, 2, 0]
    (files / "variety.py").write_text(OLD)
    asks = {5: [lambda: ("undo", {"count": 1})]}
    run_recorded(
        folder,
        config=_config(files),
        resume=folder / "checkpoint-4",
        at_safe_point=_asking(folder, asks),
        **small,
    )
    assert "there is no change to undo" in _outcomes(folder)[-1].reason


BREVITY = """\
async def brevity(completions, **kwargs):
    return [-len(str(completion)) / 32 for completion in completions]
"""


def _relisted(files: Path, count: int = 2) -> RunConfig:
    """The run's config with `variety` renamed, `Letters` removed, and unless `count` is 1 an async reward."""
    config = _config(files)
    rewards = (
        RewardEntry("spread", f"{files}/variety.py:variety", 0.5),
        RewardEntry("brevity", f"{files}/brevity.py:brevity"),
    )
    return replace(config, section=replace(config.section, rewards=rewards[:count]))


def _list(files: Path, count: int = 2) -> Callable[[], Ask]:
    def ask() -> Ask:
        names = ("variety.py", "helper.py", "brevity.py")[: count + 1]
        hashes = {str((files / name).resolve()): file_hash(str(files / name)) for name in names}
        return "reload", {"files": hashes, "listed": listed_in(_relisted(files, count))}

    return ask


def _with_spec(folder: Path, config: RunConfig) -> Path:
    folder.mkdir()
    RunSpec(config.to_json()).write(folder / "run.json")
    return folder


def test_another_list_of_rewards_waits_for_the_cycle_and_then_equals_a_resume_with_it(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "brevity.py").write_text(BREVITY)
    old, new = _config(files), _relisted(files)
    folder, before, again = _with_spec(tmp_path / "run", old), tmp_path / "before", tmp_path / "again"
    plain, _, _ = run_recorded(before, config=old, log_completions=True, **BASE)
    asks = {2: [_list(files)]}
    rows, weights, _ = run_recorded(
        folder, config=old, at_safe_point=_asking(folder, asks), log_completions=True, **BASE
    )
    (outcome,) = _outcomes(folder)
    assert (outcome.applied, outcome.step) == (True, 4), outcome.reason
    assert "spread×0.5, brevity" in outcome.reason
    assert _steps(rows, 4) != _steps(plain, 4)
    assert _steps(rows, 0)[:4] == _steps(plain, 0)[:4], "the batch under way keeps its advantages"
    shutil.copytree(before / "checkpoint-4", again / "checkpoint-4")
    weighted = BASE | {"reward_weights": [0.5, 1.0], "log_completions": True}
    resumed, same, _ = run_recorded(again, config=new, resume=again / "checkpoint-4", **weighted)
    assert _steps(rows, 4) == _steps(resumed, 4)
    assert weights == same
    with closing(RunReader(RunFolder(folder).database)) as reader:
        series = {key for _, row in rows if "loss" in row for key in row if key.endswith("/mean")}
        assert {f"rewards/{name}/mean" for name in ("variety", "Letters", "spread", "brevity")} <= series
        by_step = {group.step: group.functions for group in reader.iter_groups()}
        assert by_step == {1: ("variety", "Letters"), 5: ("spread", "brevity")}
        assert [one.name for one in reader.reward_functions()] == ["spread", "brevity"]
        assert reader.rewards_began() == 4
        changed = {one.name: (one.old, one.new) for one in reader.settings()}
        assert changed["reward_weights"] == ([1.0, 1.0], [0.5, 1.0])
        assert RunConfig.from_json(reader.fact("config")).section.rewards == new.section.rewards
    assert RunConfig.from_json(read_spec(folder / "run.json").config).section.rewards == new.section.rewards
    with closing(Search(RunFolder(folder).database)) as search:
        found = {query: {search.run.groups_by_id([g])[0].step for g in search.find(query).group_of}
                 for query in ("rewards.Letters >= 0", "rewards.brevity <= 0")}  # fmt: skip
        assert found == {"rewards.Letters >= 0": {1}, "rewards.brevity <= 0": {5}}
    inside = tmp_path / "inside"
    shutil.copytree(folder / "checkpoint-6", inside / "checkpoint-6")
    capsys.readouterr()
    resumed, same, _ = run_recorded(inside, config=new, resume=inside / "checkpoint-6", **weighted)
    assert (weights, _steps(rows, 6)) == (same, _steps(resumed, 6)), "with the batch in the checkpoint"
    said = capsys.readouterr().out
    assert "not those" not in said
    assert "as the config says" not in said


def test_another_list_is_undone_with_its_weights_and_a_resume_forgets_it(files: Path, tmp_path: Path) -> None:
    old, folder, plain = _config(files), _with_spec(tmp_path / "run", _config(files)), tmp_path / "plain"
    small = BASE | {"steps_per_generation": 1, "num_iterations": 1, "max_steps": 5}
    wanted, _, _ = run_recorded(plain, config=old, **small)
    asks: dict[int, list[Callable[[], Ask]]] = {
        2: [
            lambda: ("set", {"reward_weights": [2.0, 1.0]}),
            _list(files, 1),
            lambda: ("set", {"reward_weights": {"spread": 3}}),
            lambda: ("undo", {"count": 3}),
        ],
        3: [_list(files, 1), lambda: ("set", {"reward_weights": [3.0]})],
    }
    rows, _, _ = run_recorded(folder, config=old, at_safe_point=_asking(folder, asks), **small)
    said = _outcomes(folder)
    assert [outcome.applied for outcome in said] == [True] * 6, [one.reason for one in said]
    assert _steps(rows, 0)[:3] == _steps(wanted, 0)[:3]
    assert _steps(rows, 3) != _steps(wanted, 3)
    assert said[3].result["reward_weights"]["new"] == [1.0, 1.0]
    asks = {5: [lambda: ("undo", {"count": 1}), lambda: ("undo", {"count": 1})]}
    new, checkpoint = _relisted(files, 1), folder / "checkpoint-4"
    small["reward_weights"] = [0.5]
    _, _, session = run_recorded(
        folder, config=new, resume=checkpoint, at_safe_point=_asking(folder, asks), **small
    )
    assert session.settings.value("reward_weights") == [0.5]
    assert "there is no change to undo" in _outcomes(folder)[-1].reason
    with closing(RunReader(RunFolder(folder).database)) as reader:
        assert (reader.rewards_began(), reader.reward_functions()[0].name) == (3, "spread")


UNUSABLE = {
    "def variety(completions, **kwargs):\n    return [1\n": "variety.py:2",
    "raise SystemExit(3)\n": "SystemExit",
    "def variety(completions, gold, **kwargs):\n    return []\n": "needs gold",
    f"with open(__file__, 'a') as file:\n    file.write('# more')\n{NEW}": "is not the file that was checked",
    OLD: "no file of the rewards has changed",
}


def test_a_file_that_cannot_be_used_changes_nothing(files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def edited_later() -> Ask:
        kind, wanted = _edited(files, "variety.py", NEW)()
        (files / "variety.py").write_text(NEW + "# later\n")
        return kind, wanted

    def at_safe_point(session: Session, trainer: Any) -> None:
        if trainer.state.global_step == 1:
            for ask in (*(_edited(files, "variety.py", text) for text in UNUSABLE), edited_later):
                Mailbox(RunFolder(folder).commands).submit(*ask())
                session.controller._serve()

    small = BASE | {"max_steps": 2, "steps_per_generation": 1, "num_iterations": 1, "save_strategy": "no"}
    run_recorded(folder, config=_config(files), at_safe_point=at_safe_point, **small)
    said = _outcomes(folder)
    reasons = [*UNUSABLE.values(), "variety.py is not the file that was checked. Reload again"]
    for outcome, reason in zip(said, reasons, strict=True):
        assert not outcome.applied
        assert reason in outcome.reason
    with closing(RunReader(RunFolder(folder).database)) as reader:
        assert reader.settings() == reader.reloaded_functions() == []


def test_functions_of_a_script_cannot_be_reloaded(files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    asks: dict[int, list[Callable[[], Ask]]] = {1: [lambda: ("reload", {"files": {}})]}
    run_recorded(folder, at_safe_point=_asking(folder, asks), max_steps=2)
    (outcome,) = _outcomes(folder)
    assert (outcome.applied, outcome.reason) == (
        False,
        "the reward functions are objects of your script, so there is no file to reload",
    )


LAZY = """\
def variety(completions, **kwargs):
    import lazy_divisor
    return [len(set(str(completion))) / lazy_divisor.N for completion in completions]
"""


def test_a_module_imported_inside_a_function_is_loaded_again_and_comes_back_with_an_undo(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "lazy_divisor", raising=False)
    lazy, folder = files / "lazy_divisor.py", tmp_path / "run"
    (files / "variety.py").write_text(LAZY)
    lazy.write_text("N = 10\n")
    small = BASE | {"steps_per_generation": 1, "num_iterations": 1, "max_steps": 4, "save_strategy": "no"}

    def edited(value: int, reward: str = LAZY) -> Callable[[], Ask]:
        def ask() -> Ask:
            (files / "variety.py").write_text(reward)
            lazy.write_text(f"N = {value}\n")
            return "reload", {"files": _wanted(files)["files"] | {str(lazy.resolve()): file_hash(str(lazy))}}

        return ask

    seen: dict[int, Any] = {}

    def at_safe_point(session: Session, trainer: Any) -> None:
        seen[trainer.state.global_step] = trainer.reward_funcs[0](completions=["abcde"])
        _asking(folder, asks)(session, trainer)

    asks: dict[int, list[Callable[[], Ask]]] = {
        1: [edited(5)],
        2: [edited(2, f"{LAZY}# edited\n")],
        3: [lambda: ("undo", {"count": 2})],
    }
    run_recorded(folder, config=_config(files), at_safe_point=at_safe_point, **small)
    said = _outcomes(folder)
    assert [outcome.applied for outcome in said] == [True, True, True], [one.reason for one in said]
    assert "lazy_divisor.py@" in said[0].reason
    assert [seen[step] for step in (1, 2, 3, 4)] == [[0.5], [1.0], [2.5], [0.5]]
