"""The policy is evaluated on held-out rows while it trains; no later number changes, and a resume goes on."""

from __future__ import annotations

import math
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_tui.config.resolve import load_config
from grpo_tui.config.section import Evaluate, OnRule
from grpo_tui.core.evaluations import FACT, Evaluations
from grpo_tui.core.paired import difference, pass_at
from grpo_tui.core.text import one_line
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.demo.rewards import correctness
from grpo_tui.demo.task import all_rows
from grpo_tui.present.before_after import read_before_after
from grpo_tui.present.evaluation_text import verdict
from grpo_tui.present.events import whole_history
from grpo_tui.rewards.library import AdaptiveWeight
from grpo_tui.store.checkpoints import BEST, MARKER
from grpo_tui.store.json_file import read_object
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.train import compat
from grpo_tui.train.evaluation import Evaluator
from grpo_tui.train.session import Session
from tests.train.test_steering_changes_nothing import CYCLE
from tests.train.tiny import run_plain, run_recorded

pytestmark = pytest.mark.slow

ROWS = all_rows()[:40:8]
WANTED = Evaluate(every=2, rows=5, samples=4, k=2)


def noisy(completions: list[Any], **kwargs: Any) -> list[float]:
    return [random.random() for _ in completions]


async def slow(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(len(completion[0]["content"])) for completion in completions]


def rewards() -> list[Any]:
    return [correctness, noisy, slow, AdaptiveWeight(correctness, name="adaptive")]


def evaluating(wanted: Evaluate = WANTED, rows: list[Any] = ROWS) -> Any:
    def before(session: Session, trainer: Any) -> None:
        session.evaluate_while_training(rows, wanted, load_config(DEMO_CONFIG, []))

    return before


def evaluated(folder: Path) -> Evaluations:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        found = Evaluations.from_json(reader.fact(FACT))
    assert found is not None
    return found


def logged(folder: Path) -> dict[int, dict[str, Any]]:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        return {step: row for _, step, row in metric_rows(reader) if "evaluate/pass@1" in row}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str, Path]:
    folder = tmp_path_factory.mktemp("runs") / "evaluated"
    random.seed(3)
    rows, weights, _ = run_recorded(folder, before_train=evaluating(), rewards=rewards(), max_steps=5)
    return rows, weights, folder


def test_no_later_number_changes_also_with_a_reward_that_learns(run: Any, tmp_path: Path) -> None:
    random.seed(3)
    plain_rows, plain_weights = run_plain(tmp_path / "plain", rewards=rewards(), max_steps=5)
    assert repr(run[0]) == repr(plain_rows)
    assert run[1] == plain_weights


def test_no_later_number_changes_within_a_generation_cycle(tmp_path: Path) -> None:
    plain_rows, plain_weights = run_plain(tmp_path / "plain", **CYCLE)
    every = Evaluate(every=3, rows=5, samples=2)
    rows, weights, _ = run_recorded(tmp_path / "run", before_train=evaluating(every), **CYCLE)
    assert (repr(rows), weights) == (repr(plain_rows), plain_weights)
    assert [one.step for one in evaluated(tmp_path / "run").done] == [0, 3, 6, 9, 12, 14]


def test_it_evaluates_before_training_at_the_interval_and_at_the_end(run: Any) -> None:
    assert [one.step for one in evaluated(run[2]).done] == [0, 2, 4, 5]
    assert list(logged(run[2])) == [0, 2, 4, 5]


def test_the_figures_are_those_of_the_recorded_completions(run: Any) -> None:
    rows = logged(run[2])
    by_step: dict[int, list[Any]] = {}
    with closing(RunReader(RunFolder(run[2]).database)) as reader:
        for group in reader.groups(mode="probe", limit=100):
            by_step.setdefault(group.step, []).append(group)
    first = None
    for step, groups in by_step.items():
        assert [group.prompt for group in groups] == [row["prompt"] for row in ROWS]
        right, waited, cut, two = [], [], [], []
        for group in groups:
            texts = [[{"role": "assistant", "content": one.text}] for one in group.completions]
            assert len(texts) == 4
            said = correctness(texts, [group.columns["answer"]] * 4)
            right.append(sum(value == 1.0 for value in said) / 4)
            two.append(pass_at(2, sum(value == 1.0 for value in said), 4))
            waited.append(sum(len(one.text) for one in group.completions) / 4)
            cut.append(sum(one.truncated for one in group.completions) / 4)
        row = rows[step]
        assert row["evaluate/pass@1"] == pytest.approx(sum(right) / 5)
        assert row["evaluate/pass@2"] == pytest.approx(sum(two) / 5)
        assert row["evaluate/reward/slow"] == pytest.approx(sum(waited) / 5)
        assert row["evaluate/truncated"] == pytest.approx(sum(cut) / 5)
        first = right if first is None else first
        gain = difference(first, right)
        if step:
            assert gain is not None
            assert row["evaluate/pass@1/gain"] == pytest.approx(gain.mean)
            assert row["evaluate/pass@1/gain_low"] == pytest.approx(gain.low)
            assert row["evaluate/pass@1/gain_high"] == pytest.approx(gain.high)
        else:
            assert "evaluate/pass@1/gain" not in row
    assert len({row["evaluate/reward/slow"] for row in rows.values()}) > 1


def test_the_answers_of_the_first_and_the_newest_evaluation_are_found_beside_probe_prompts(
    tmp_path: Path,
) -> None:
    def before(session: Session, trainer: Any) -> None:
        def row_of(text: str) -> Any:
            raise AssertionError(text)

        session.ask_while_training(ROWS[:2], every=1, count=3, temperature=None, row_of=row_of)
        evaluating()(session, trainer)

    folder = tmp_path / "run"
    run_recorded(folder, before_train=before, rewards=[correctness], max_steps=2)
    with closing(RunReader(RunFolder(folder).database)) as reader:
        found = evaluated(folder)
        shown = read_before_after(reader, found)
        asked = {step: reader.groups(first_step=step, last_step=step, mode="probe") for step in (0, 2)}
    assert shown is not None
    assert [pair.gold for pair in shown.pairs] == [row["answer"] for row in ROWS]
    assert shown.said == verdict(found)[1]
    for step, one in ((0, "before"), (2, "after")):
        answers = [getattr(pair, one) for pair in shown.pairs]
        mine = [group for group in asked[step] if len(group.completions) == WANTED.samples]
        assert len(asked[step]) == len(ROWS) + 2
        assert [answer.text for answer in answers] == [one_line(group.completions[0].text) for group in mine]
        assert [answer.right for answer in answers] == [
            sum(member.rewards[0] == 1.0 for member in group.completions) for group in mine
        ]


def test_a_resume_continues_the_series_and_asks_with_the_same_seed(tmp_path: Path) -> None:
    whole = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "before_train": evaluating()}
    rows, weights, _ = run_recorded(tmp_path / "whole", **whole)
    folder = tmp_path / "parts"
    run_recorded(folder, at_safe_point=_stop_at(folder, 3), **whole)
    stopped = evaluated(folder)
    assert [one.step for one in stopped.done] == [0, 2, 3]  # 3: a clean stop is evaluated too
    resumed, final, _ = run_recorded(folder, resume=folder / "checkpoint-3", **whole)
    assert [one.step for one in evaluated(folder).done] == [0, 2, 3, 4, 6]
    assert final == weights
    assert repr(resumed) == repr([row for row in rows if row[0] > 3])
    same = {one.step: one for one in evaluated(tmp_path / "whole").done}
    assert [one for one in evaluated(folder).done if one.step != 3] == list(same.values())
    assert evaluated(folder).first == stopped.first


def test_a_policy_that_does_not_change_answers_the_same_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_recorded(folder, before_train=evaluating(), max_steps=4, learning_rate=0.0)
    found = evaluated(folder)
    assert [one.step for one in found.done] == [0, 2, 4]
    assert len({row["evaluate/length"] for row in logged(folder).values()}) == 1
    assert {one.by_prompt for one in found.done} == {found.done[0].by_prompt}


def test_vllm_answers_from_the_same_seed_each_time_and_no_later_number_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that draws from the random state of this process, as colocated vLLM does."""
    asked: list[tuple[int, int]] = []
    answers = Evaluator._answers

    def generate(trainer: Any, prompts: list[list[int]], count: int) -> list[list[int]]:
        asked.append((len(prompts), count))
        found: list[list[int]] = torch.randint(5, 60, (len(prompts) * count, 7)).tolist()
        return found

    def with_vllm(self: Evaluator, prompts: list[list[int]], config: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._trainer, "use_vllm", True)
            return answers(self, prompts, config)

    monkeypatch.setattr(compat, "generate_with_vllm", generate)
    monkeypatch.setattr(Evaluator, "_answers", with_vllm)
    plain_rows, plain_weights = run_plain(tmp_path / "plain", max_steps=4)
    rows, weights, _ = run_recorded(tmp_path / "run", before_train=evaluating(), max_steps=4)
    assert (repr(rows), weights) == (repr(plain_rows), plain_weights)
    assert asked == [(5, 4)] * 3
    with closing(RunReader(RunFolder(tmp_path / "run").database)) as reader:
        groups = reader.groups(mode="probe", limit=100)
    texts = {
        step: [one.text for g in groups if g.step == step for one in g.completions] for step in (0, 2, 4)
    }
    assert len(set(texts[0])) > 10
    assert texts[0] == texts[2] == texts[4]


def _stop_at(folder: Path, step: int) -> Any:
    asked: list[int] = []

    def at_safe_point(session: Session, trainer: Any) -> None:
        if int(trainer.state.global_step) == step and not asked:
            asked.append(step)
            Mailbox(RunFolder(folder).commands).submit("stop", {})

    return at_safe_point


def test_a_resume_from_before_an_evaluation_makes_it_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    how = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2, "before_train": evaluating()}
    run_recorded(folder, **how)
    before = evaluated(folder)
    run_recorded(folder, resume=folder / "checkpoint-2", **how)
    assert evaluated(folder) == before


def test_an_evaluation_that_was_cut_short_is_made_when_the_run_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    how: dict[str, Any] = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}

    def broken(session: Session, trainer: Any) -> None:
        evaluating()(session, trainer)
        put = session.controller.on_safe_point

        def on_safe_point() -> None:
            if int(trainer.state.global_step) == 2:  # saved by TRL, and not evaluated yet
                raise KeyboardInterrupt("killed")
            put()

        session.controller.on_safe_point = on_safe_point

    with pytest.raises(KeyboardInterrupt):
        run_recorded(folder, before_train=broken, **how)
    assert [one.step for one in evaluated(folder).done] == [0]
    run_recorded(folder, before_train=evaluating(), resume=folder / "checkpoint-2", **how)
    assert [one.step for one in evaluated(folder).done] == [0, 2, 4]


def test_other_rows_begin_a_series_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    how: dict[str, Any] = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    run_recorded(folder, before_train=evaluating(), **how)
    other = evaluating(Evaluate(every=2, rows=3, samples=4, k=2), ROWS[:3])
    run_recorded(folder, before_train=other, resume=folder / "checkpoint-2", **how)
    assert [one.step for one in evaluated(folder).done] == [2, 4]
    assert "a new series of evaluations begins" in capsys.readouterr().err


def picky(completions: list[Any], **kwargs: Any) -> list[float]:
    if len(completions) != 16:
        raise ValueError("not that many")
    return [0.5] * len(completions)


def test_a_reward_that_fails_in_an_evaluation_is_unknown_there_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [correctness, picky]
    plain = run_plain(tmp_path / "plain", rewards=both, max_steps=2)
    rows, weights, session = run_recorded(
        tmp_path / "run", before_train=evaluating(), rewards=both, max_steps=2
    )
    assert session.ended_state() == "finished"
    assert (repr(rows), weights) == (repr(plain[0]), plain[1])
    said = capsys.readouterr().err
    assert said.count("picky does not score the evaluation: ValueError: not that many") == 1
    for row in logged(tmp_path / "run").values():
        assert row["evaluate/reward/picky"] is None
        assert row["evaluate/pass@1"] is not None


def test_a_policy_that_cannot_be_evaluated_is_told_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr("grpo_tui.train.evaluation.generate", fail)
    plain = run_plain(tmp_path / "plain", max_steps=2)
    rows, weights, session = run_recorded(tmp_path / "run", before_train=evaluating(), max_steps=2)
    assert session.ended_state() == "finished"
    assert (repr(rows), weights) == (repr(plain[0]), plain[1])
    assert "the policy cannot be evaluated: RuntimeError: CUDA out of memory" in capsys.readouterr().err
    with closing(RunReader(RunFolder(tmp_path / "run").database)) as reader:
        assert reader.fact(FACT) is None


def test_prompts_of_different_lengths_are_completed_as_each_would_be_alone(tmp_path: Path) -> None:
    from grpo_tui.train.sampling import generate, generation_config
    from tests.train.tiny import make_trainer

    trainer = make_trainer(tmp_path)
    config = generation_config(trainer)
    config.do_sample, config.temperature, config.top_p = False, 1.0, 1.0
    texts = ["7+15=", "What is 7 + 15?", "1+1="]
    prompts = [trainer._tokenizer(text, add_special_tokens=False).input_ids for text in texts]
    assert len({len(ids) for ids in prompts}) > 1
    together = generate(trainer, prompts, config)
    alone = [generate(trainer, [ids], config) for ids in prompts]
    assert together == ([one[0][0] for one in alone], [one[1][0] for one in alone])


def test_the_best_evaluation_is_saved_and_kept_and_the_former_best_is_not(tmp_path: Path) -> None:
    """Also when the run's folder is renamed after it."""
    begun, folder = tmp_path / "begun", tmp_path / "run"

    def at_safe_point(session: Session, trainer: Any) -> None:
        if trainer.state.global_step == 4 and begun.exists():
            begun.rename(folder)

    values = {0: 0.5, 1: 0.6, 2: 0.4, 3: 0.7, 4: 0.1, 5: 0.1, 6: 0.1}
    reward = ByStep(values)
    run_recorded(
        begun,
        at_safe_point=at_safe_point,
        before_train=evaluating(Evaluate(every=1, rows=5, samples=1)),
        rewards=[reward],
        max_steps=6,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=1,
    )
    assert [one.value for one in evaluated(folder).done] == pytest.approx(list(values.values()))
    there = {path.name: (read_object(path / MARKER) or {}).get(BEST) for path in folder.glob("checkpoint-*")}
    assert there == {"checkpoint-3": True, "checkpoint-6": False}


def _ask(folder: Path, asks: dict[int, list[tuple[str, dict[str, Any]]]]) -> Any:
    def at_safe_point(session: Session, trainer: Any) -> None:
        for kind, args in asks.pop(int(trainer.state.global_step), ()):
            Mailbox(RunFolder(folder).commands).submit(kind, args)

    return at_safe_point


def _outcomes(folder: Path) -> list[Any]:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        return [outcome for _, outcome in reader.commands()]


def test_an_evaluation_on_request_continues_the_series_and_changes_no_later_number(tmp_path: Path) -> None:
    plain_rows, plain_weights = run_plain(tmp_path / "plain", **CYCLE)
    folder = tmp_path / "run"
    asks = {5: [("evaluate", {}), ("evaluate", {})], 7: [("evaluate", {})]}  # 5: within a generation cycle
    every = Evaluate(every=7, rows=5, samples=2)
    rows, weights, _ = run_recorded(
        folder, before_train=evaluating(every), at_safe_point=_ask(folder, asks), **CYCLE
    )
    assert (repr(rows), weights) == (repr(plain_rows), plain_weights)
    found = evaluated(folder)
    assert [one.step for one in found.done] == [0, 5, 7, 14], "5 and 7 once each"
    assert list(logged(folder)) == [0, 5, 7, 14]
    first, again, due = _outcomes(folder)
    assert first.applied
    assert first.reason == again.reason
    assert "than before training: pass@1 " in first.reason or "no gain shown" in first.reason
    assert first.result["value"] == pytest.approx(found.done[1].value)
    assert due.result["value"] == pytest.approx(found.done[2].value)
    with closing(RunReader(RunFolder(folder).database)) as reader:
        assert any(row.text.startswith("evaluated by you: ") for row in whole_history(reader, live=False))


def test_an_evaluation_on_request_answers_with_the_sampling_of_now(tmp_path: Path) -> None:
    evaluate, cooler = ("evaluate", {}), ("set", {"temperature": 0.1})
    before = evaluating(Evaluate(every=9, rows=2, samples=1), ROWS[:2])
    asks = {1: [evaluate, cooler, evaluate, evaluate]}
    run_recorded(tmp_path, before_train=before, at_safe_point=_ask(tmp_path, asks), max_steps=2)
    assert all(outcome.applied for outcome in _outcomes(tmp_path))
    assert [one.step for one in evaluated(tmp_path).done] == [1, 2], "in a series of its own"
    assert evaluated(tmp_path).sampling["temperature"] == 0.1


def test_an_evaluation_on_request_is_that_of_trl_without_rows_of_its_own(tmp_path: Path) -> None:
    plain_rows, plain_weights = run_plain(tmp_path / "plain", rewards=rewards(), **CYCLE)
    folder = tmp_path / "run"
    asks = {5: [("evaluate", {})], 14: [("evaluate", {})]}  # 5: within a generation cycle
    rows, weights, _ = run_recorded(
        folder, evaluate=True, rewards=rewards(), at_safe_point=_ask(folder, asks), **CYCLE
    )
    asked = {step: row["eval_reward"] for step, row in rows if "eval_reward" in row}
    assert list(asked) == [5, 14]
    assert repr([row for row in rows if "eval_reward" not in row[1]]) == repr(plain_rows)
    assert weights == plain_weights
    first, last = _outcomes(folder)
    assert first.result["eval_reward"] == asked[5]
    assert last.reason == f"eval_reward is {asked[14]:.3g} on the evaluation dataset"


def test_an_evaluation_on_request_needs_rows_and_says_what_to_add(tmp_path: Path) -> None:
    run_recorded(tmp_path, at_safe_point=_ask(tmp_path, {1: [("evaluate", {})]}), max_steps=1)
    (outcome,) = _outcomes(tmp_path)
    assert not outcome.applied
    assert "does not evaluate. Add `grpo_tui.evaluate: {every: 50}` to its config" in outcome.reason


def test_changed_sampling_begins_a_new_series_whose_first_evaluation_is_its_best_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    how: dict[str, Any] = {
        "before_train": evaluating(Evaluate(every=1, rows=5, samples=1)),
        "save_strategy": "steps",
        "save_steps": 6,
        "save_total_limit": 1,
        "max_steps": 6,
    }
    values = {0: 0.1, 1: 0.9, 2: 0.2, 3: 0.7, 4: 0.3, 5: 0.1, 6: 0.0}
    cooler = _ask(folder, {2: [("set", {"temperature": 0.7})]})
    run_recorded(folder, at_safe_point=cooler, rewards=[ByStep(values)], **how)
    found = evaluated(folder)
    assert [one.step for one in found.done] == [3, 4, 5, 6]
    assert found.sampling["temperature"] == 0.7
    said = capsys.readouterr().err
    assert said.count("temperature 1 → 0.7: sampling changed, so a new series of evaluations begins") == 1
    there = {path.name: (read_object(path / MARKER) or {}).get(BEST) for path in folder.glob("checkpoint-*")}
    assert there == {"checkpoint-3": True, "checkpoint-6": False}
    again = {**how, "resume": folder / "checkpoint-3"}
    run_recorded(folder, rewards=[ByStep(values)], **again)
    assert [one.step for one in evaluated(folder).done] == [3, 4, 5, 6], "the temperature is restored first"
    assert "sampling changed" not in capsys.readouterr().err


class ByStep:
    """Gives every completion what belongs to the step."""

    __name__ = "by_step"

    def __init__(self, values: dict[int, float]) -> None:
        self.values = values

    def __call__(self, completions: list[Any], trainer_state: Any, **kwargs: Any) -> list[float]:
        return [self.values[int(trainer_state.global_step)]] * len(completions)


def test_a_resume_from_before_the_best_evaluation_keeps_the_best_of_those_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    how: dict[str, Any] = {"max_steps": 4, "save_strategy": "steps", "save_steps": 1}
    evaluate = evaluating(Evaluate(every=1, rows=5, samples=1))
    first, again = ByStep({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.6, 4: 0.0}), ByStep({2: 0.3, 3: 0.0, 4: 0.0})
    run_recorded(folder, before_train=evaluate, rewards=[first], **how)
    how |= {"save_total_limit": 1, "resume": folder / "checkpoint-2"}
    run_recorded(folder, before_train=evaluate, rewards=[again], **how)
    there = {path.name: (read_object(path / MARKER) or {}).get(BEST) for path in folder.glob("checkpoint-*")}
    assert there == {"checkpoint-2": True, "checkpoint-4": False}


def test_a_rule_stops_the_run_after_evaluations_without_a_gain(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    mailbox = Mailbox(RunFolder(folder).commands)

    def wait_for_the_rule(session: Session, trainer: Any) -> None:
        # It is looked at in the recorder's thread, once the row of the evaluation at step 2 is written.
        while int(trainer.state.global_step) == 3 and not (mailbox.pending() or session.controller.stopped):
            time.sleep(0.01)

    def before(session: Session, trainer: Any) -> None:
        evaluating(Evaluate(every=1, rows=5, samples=1))(session, trainer)
        session.act_on([OnRule("2 evaluations without gain", "stop")])

    run_recorded(
        folder,
        before_train=before,
        at_safe_point=wait_for_the_rule,
        rewards=[ByStep(dict.fromkeys(range(9), 0.5))],
        max_steps=8,
    )
    assert [one.step for one in evaluated(folder).done][-1] in (2, 3)  # 2: it was quick
    with closing(RunReader(RunFolder(folder).database)) as reader:
        (attempt,) = reader.attempts()
        told = [row.text for row in whole_history(reader, live=False)]
    assert attempt.state == "stopped"
    assert any("stopping by grpo_tui.on (evaluate/without_gain is 2" in text for text in told)


def test_a_checkpoint_that_the_user_asked_for_stays_when_another_is_better(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def ask(session: Session, trainer: Any) -> None:
        if int(trainer.state.global_step) == 1:
            Mailbox(RunFolder(folder).commands).submit("checkpoint", {})

    run_recorded(
        folder,
        at_safe_point=ask,
        before_train=evaluating(Evaluate(every=1, rows=5, samples=1)),
        rewards=[ByStep({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.0, 4: 0.0})],
        max_steps=4,
        save_strategy="steps",
        save_steps=4,
        save_total_limit=1,
    )
    names = {path.name for path in folder.glob("checkpoint-*")}
    assert names == {"checkpoint-1", "checkpoint-2", "checkpoint-4"}
    asked, best = (read_object(folder / f"checkpoint-{step}" / MARKER) or {} for step in (1, 2))
    assert (asked["requested"], asked[BEST]) == (True, False)
    assert (best["requested"], best[BEST]) == (False, True)
    assert math.isclose(evaluated(folder).done[2].value or 0.0, 0.3, rel_tol=1e-6)
