"""Probe prompts are answered and scored every so many steps, kept as such, and change no later number."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.demo.rewards import correctness
from grpo_tui.demo.task import all_rows
from grpo_tui.rewards.library import AdaptiveWeight
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from tests.train.tiny import run_plain, run_recorded

pytestmark = pytest.mark.slow

ROWS = all_rows()[:3]


def noisy(completions: list[Any], **kwargs: Any) -> list[float]:
    return [random.random() for _ in completions]


def length(completions: list[Any], log_extra: Any, **kwargs: Any) -> list[float]:
    log_extra("first", [completion[0]["content"][:1] for completion in completions])
    return [float(len(completion[0]["content"])) for completion in completions]


async def slow(completions: list[Any], **kwargs: Any) -> list[float]:
    return [0.25] * len(completions)


def rewards() -> list[Any]:
    return [correctness, noisy, length, slow, AdaptiveWeight(correctness, name="adaptive")]


def asked(folder: Path, rows: list[dict[str, Any]], count: int = 2) -> tuple[Any, str, Any]:
    def before(session: Any, trainer: Any) -> None:
        session.ask_while_training(rows, every=2, count=count, temperature=0.7)

    return run_recorded(folder, before_train=before, rewards=rewards(), max_steps=4)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str, Path]:
    folder = tmp_path_factory.mktemp("runs") / "asked"
    random.seed(3)
    rows, weights, _ = asked(folder, ROWS)
    return rows, weights, folder


def test_no_later_number_changes(run: Any, tmp_path: Path) -> None:
    random.seed(3)
    plain_rows, plain_weights = run_plain(tmp_path / "plain", rewards=rewards(), max_steps=4)
    assert repr(run[0]) == repr(plain_rows)
    assert run[1] == plain_weights


def test_the_answers_are_kept_with_their_rewards_in_a_mode_of_their_own(run: Any) -> None:
    reader = RunReader(RunFolder(run[2]).database)
    groups = reader.groups(mode="probe", limit=100)
    assert [group.step for group in groups] == [0, 0, 0, 2, 2, 2, 4, 4, 4]
    assert [group.prompt for group in groups[:3]] == [row["prompt"] for row in ROWS]
    assert [group.columns for group in groups[:3]] == [{"answer": row["answer"]} for row in ROWS]
    assert {group.step for group in reader.groups(mode="train", limit=100)} == {1, 2, 3, 4}
    for group in groups:
        assert len(group.completions) == 2
        for one in group.completions:
            right, by_chance, long, waited, _ = one.rewards
            chat = [[{"role": "assistant", "content": one.text}]]
            assert right == correctness(chat, [group.columns["answer"]])[0]
            assert 0 <= by_chance < 1
            assert long == len(one.text)
            assert waited == 0.25
            assert one.total is not None
            assert one.tokens > 0
            assert one.extra["first"] == one.text[:1]
    reader.close()


def test_a_reward_that_fails_on_a_probe_abstains_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nineteen = {"prompt": [{"role": "user", "content": "What is 19 + 20?"}], "answer": "39"}
    too_long = {"prompt": [{"role": "user", "content": "1 + " * 400}], "answer": "400"}

    def before(session: Any, trainer: Any) -> None:
        session.ask_while_training([nineteen, too_long], every=1, count=1, temperature=None)

    folder = tmp_path / "run"
    run_recorded(folder, before_train=before, rewards=[correctness, picky_of_probes], max_steps=1)
    said = capsys.readouterr().err
    assert "picky_of_probes does not score probe prompts: ValueError: not that one" in said
    assert "a probe prompt cannot be answered: the prompt has" in said
    reader = RunReader(RunFolder(folder).database)
    groups = reader.groups(mode="probe", limit=9)
    assert [group.step for group in groups] == [0, 1]
    for group in groups:
        assert group.completions[0].rewards[1] is None
        assert group.completions[0].total == group.completions[0].rewards[0]
    reader.close()


def test_a_policy_that_cannot_be_asked_is_told_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []

    def fail(trainer: Any, prompt: Any, **how: Any) -> Any:
        drawn.append((prompt, how))
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr("grpo_tui.train.sampling.draw", fail)
    plain = run_plain(tmp_path / "plain", rewards=[correctness], max_steps=2)

    def before(session: Any, trainer: Any) -> None:
        session.ask_while_training(ROWS, every=1, count=3, temperature=0.5)

    rows, weights, session = run_recorded(
        tmp_path / "run", before_train=before, rewards=[correctness], max_steps=2
    )
    assert session.ended_state() == "finished"
    assert drawn == 3 * [(row["prompt"], {"count": 3, "temperature": 0.5}) for row in ROWS]
    assert (repr(rows), weights) == (repr(plain[0]), plain[1])
    assert "a probe prompt cannot be answered: RuntimeError: CUDA out of memory" in capsys.readouterr().err


def picky_of_probes(completions: list[Any], **kwargs: Any) -> list[float]:
    if len(completions) == 1:
        raise ValueError("not that one")
    return [0.0] * len(completions)
