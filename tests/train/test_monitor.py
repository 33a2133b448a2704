"""What `grpo_tui.monitor` refuses before anything is trained, and how it records the training."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.supervisor import RunFolderBusy, take_lock
from grpo_tui.train import monitor as module
from grpo_tui.train.monitor import monitor


class Trainer:
    """What is asked of a trainer before its `train()`."""

    def __init__(self, folder: Path, *, jit: bool = False) -> None:
        self.args = SimpleNamespace(output_dir=str(folder), enable_jit_checkpoint=jit)
        self.reward_funcs = [print]

    def train(self) -> Path:
        return monitor(self)


def test_what_cannot_be_recorded_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="takes a built GRPOTrainer, not PosixPath"):
        monitor(tmp_path)
    with pytest.raises(ValueError, match="enable_jit_checkpoint takes over signals"):
        monitor(Trainer(tmp_path / "run", jit=True))
    assert list(tmp_path.iterdir()) == []


def test_a_trainer_is_recorded_in_one_folder_by_default_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = Trainer(tmp_path / "its own")
    assert monitor(trainer) == monitor(trainer) == tmp_path / "its own"
    assert capsys.readouterr().out.count(f"grpo-tui attach '{tmp_path / 'its own'}'") == 1
    with pytest.raises(ValueError, match=r"its own\. Use one run folder"):
        monitor(trainer, tmp_path / "other")
    assert monitor(Trainer(tmp_path / "its own"), tmp_path / "other") == tmp_path / "other"
    assert monitor(Trainer(tmp_path / "new" / "deep")).is_dir()


def test_a_folder_in_which_another_process_trains_is_refused_and_the_trainer_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAVING_S", 0.0)
    trainer = Trainer(tmp_path)
    lock = take_lock(RunFolder(tmp_path))
    try:
        with pytest.raises(RunFolderBusy, match="another run is training in this folder"):
            monitor(trainer)
    finally:
        os.close(lock)
    assert "train" not in vars(trainer)
    monitor(trainer)
    assert "train" in vars(trainer)


def test_a_trainer_that_trains_already_is_said_to_be_unrecorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = Trainer(tmp_path / "run")
    assert trainer.train() == tmp_path / "run"
    assert "this trainer is already training without a record" in capsys.readouterr().out
    assert "train" not in vars(trainer)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def handler() -> Iterator[None]:
    """Leave the handler of SIGTERM as it was."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def own(*_: Any) -> None:
    """What a script does at SIGTERM."""


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize(
    ("before", "ranks", "saves"),
    [(signal.SIG_DFL, 1, True), (own, 1, False), (signal.SIG_IGN, 1, False), (signal.SIG_DFL, 2, False)],
    ids=["default", "handler of the script", "ignored", "two ranks"],
)
def test_sigterm_saves_unless_the_script_handles_it_or_a_launcher_sends_it(
    before: Any, ranks: int, saves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "world_size", lambda: ranks)
    session: Any = SimpleNamespace(controller=SimpleNamespace(stop_wanted=False))
    signal.signal(signal.SIGTERM, before)
    with module._saving_at_sigterm(session) as asked:
        assert (signal.getsignal(signal.SIGTERM) == before) != saves
        if saves:
            signal.raise_signal(signal.SIGTERM)
        assert (asked.is_set(), session.controller.stop_wanted) == (saves, saves)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.usefixtures("handler")
def test_a_training_in_another_thread_leaves_sigterm_alone() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    found: list[Any] = []

    def train() -> None:
        with module._saving_at_sigterm(SimpleNamespace()):  # type: ignore[arg-type]
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


class Joined:
    """The session of a recorded training, in place of one that writes."""

    made: list[Joined]

    def __init__(self, folder: RunFolder, resumed_from: int | None) -> None:
        self.attempt, self.resumed_from, self.told = 3, resumed_from, list[Any]()
        self.recorder, self.controller = None, SimpleNamespace(stop_wanted=False)
        self.made.append(self)

    def join(self, trainer: Any, sources: Any) -> None:
        self.told.append(("join", [one.name for one in sources]))

    def fact(self, name: str, value: Any) -> None:
        self.told.append(name)

    def close(self, state: str) -> None:
        self.told.append(state)

    def failed(self, error: BaseException) -> None:
        self.told.append(error)

    def ended_state(self) -> str:
        return "finished"


BROKEN = ValueError("of the script")


@pytest.mark.parametrize(
    ("checkpoint", "raises", "ends"),
    [
        (None, None, ["finished"]),
        ("checkpoint-4", None, ["resume checkpoint-4", "finished"]),
        (None, KeyboardInterrupt(), ["stopped"]),
        (None, BROKEN, [BROKEN]),
    ],
)
def test_a_training_of_a_script_is_recorded_from_its_checkpoint_to_its_end(
    checkpoint: str | None,
    raises: BaseException | None,
    ends: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Joined, "made", [], raising=False)
    monkeypatch.setattr("grpo_tui.train.session.Session", Joined)
    monkeypatch.setattr("grpo_tui.train.session.reproduction_record", lambda trainer, folder: {})
    monkeypatch.setattr("grpo_tui.train.own.keep", lambda: None)
    monkeypatch.setattr(
        "grpo_tui.train.resume.resume", lambda session, trainer, where: session.told.append(f"resume {where}")
    )
    trainer = SimpleNamespace(
        model=SimpleNamespace(config=SimpleNamespace(_name_or_path="m")),
        args=SimpleNamespace(to_dict=dict),
        reward_funcs=[own, 4],
        reward_func_names=["own", "odd"],
    )

    def train() -> str:
        print("of the script")
        if raises is not None:
            raise raises
        return "trained"

    run = RunFolder(tmp_path)
    where = None if checkpoint is None else Path(checkpoint)
    if raises is None:
        assert module._recorded(trainer, run, where, train) == "trained"
    else:
        with pytest.raises(type(raises)):
            module._recorded(trainer, run, where, train)
    (session,) = Joined.made
    assert session.resumed_from == (None if checkpoint is None else 4)
    assert session.told == [("join", ["own", "odd"]), "config", "reproduction", *ends]
    assert "of the script" in run.log.read_text()
    os.close(take_lock(run))  # it is free again


def test_the_sources_of_a_scripts_rewards_are_those_that_can_be_read() -> None:
    trainer = SimpleNamespace(reward_funcs=[own, 4], reward_func_names=["own", "odd"])
    found = module._sources(trainer, 3)
    assert [(one.attempt, one.index, one.name, one.weight) for one in found] == [
        (3, 0, "own", 1.0), (3, 1, "odd", 1.0),
    ]  # fmt: skip
    assert found[0].text.startswith("def own(")
    assert found[0].source == f"{__file__}:{own.__code__.co_firstlineno}"
    assert (found[1].text, found[1].source) == ("", "")


@pytest.mark.parametrize(
    ("asked", "found"), [(None, None), ("a/checkpoint-3", "a/checkpoint-3"), (True, "newest")]
)
def test_a_script_resumes_from_what_it_names_or_the_newest_checkpoint(
    asked: Any, found: str | None, tmp_path: Path
) -> None:
    for step in (2, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    trainer = SimpleNamespace(args=SimpleNamespace(output_dir=str(tmp_path)))
    wanted = tmp_path / "checkpoint-10" if found == "newest" else found and Path(found)
    assert module._checkpoint(trainer, asked) == wanted
