"""When the parts of a training process act, asked without a training: at which step, of what, and who."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.core.evaluations import Evaluation, Evaluations
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.train import compat, sampling, worker
from grpo_tui.train.capture import Capture
from grpo_tui.train.controller import Controller
from grpo_tui.train.evaluation import Evaluator
from grpo_tui.train.rate_schedule import counted_from, schedule_from

STAND: Any = SimpleNamespace()


def test_what_replaced_a_method_since_is_left_when_a_trainer_gets_its_own_back() -> None:
    def later() -> str:
        return "of other code"

    class Trainer:
        def log(self) -> str:
            return "own"

        def save(self) -> str:
            return "own"

    trainer = Trainer()
    trainer.stop = before = lambda: "before"  # type: ignore[attr-defined]
    for name in ("log", "save", "stop"):
        assert compat.wrap(trainer, name, lambda original: lambda: f"around {original()}")
    assert not compat.wrap(trainer, "absent", lambda original: original)
    assert [trainer.log(), trainer.save(), trainer.stop()] == ["around own", "around own", "around before"]  # type: ignore[attr-defined]
    trainer.save = later  # type: ignore[method-assign]
    compat.unwrap(trainer)
    assert (trainer.log(), trainer.save, vars(trainer)["stop"]) == ("own", later, before)
    assert vars(trainer).keys() == {"save", "stop"}


def test_a_look_samples_as_the_run_does_and_with_vllm_by_the_runs_own_values() -> None:
    from transformers import GenerationConfig

    tokenizer = SimpleNamespace(pad_token_id=1, eos_token_id=2)
    own = GenerationConfig(max_new_tokens=5)
    trainer: Any = SimpleNamespace(
        _tokenizer=tokenizer,
        generation_config=own,
        max_completion_length=9,
        temperature=0.5,
        top_p=0.8,
        top_k=3,
    )
    found = sampling.generation_config(trainer)
    assert (found.max_new_tokens, found is own) == (5, False)
    trainer.generation_config = None
    found = sampling.generation_config(trainer)
    assert (found.max_new_tokens, found.do_sample, found.temperature, found.top_p, found.top_k) == (
        9, True, 0.5, 0.8, 3,
    )  # fmt: skip
    assert (found.pad_token_id, found.eos_token_id, found.disable_compile) == (1, 2, True)


def test_a_message_between_the_models_tokens_has_no_special_tokens() -> None:
    def decode(ids: list[int], skip_special_tokens: bool) -> str:
        return " ".join(str(i) for i in ids if not skip_special_tokens or i < 90)

    holder: Any = SimpleNamespace(_trainer=SimpleNamespace(_tokenizer=SimpleNamespace(decode=decode)))
    text, parts = Capture._parted(holder, ("1 2 3", None), [1, 99, 2, 3], [True, True, False, True])
    assert parts == [
        {"role": "assistant", "content": "1"},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "3"},
    ]
    assert Capture._parted(holder, ("1", None), [1], [True]) == ("1", None)
    several = [{"role": "assistant", "content": "a"}] * 2
    assert Capture._parted(holder, ("1", several), [1, 2], [True, False]) == ("1", several)
    assert text


def evaluations(*steps: int) -> Evaluations:
    done = tuple(Evaluation(step, float(step), (float(step),)) for step in steps)
    return Evaluations("k", "total", None, "", 0.0, (1.0,), 1, (), done)


@pytest.mark.parametrize(
    ("known", "step", "evaluates", "best"),
    [
        (None, 0, True, None),
        (None, 7, True, None),
        ((0,), 5, True, 0),
        ((0,), 7, False, 0),
        ((0, 5), 5, False, 5),
        ((0, 5), 10, True, 5),
        ((0, 5, 10), 10, False, 10),
    ],
)
def test_a_start_evaluates_only_what_is_missing(
    known: tuple[int, ...] | None, step: int, evaluates: bool, best: int | None
) -> None:
    """Every 5 steps."""
    told: list[Any] = []
    evaluator: Any = SimpleNamespace(
        _trainer=SimpleNamespace(state=SimpleNamespace(global_step=step)),
        _found=None if known is None else evaluations(*known),
        _every=5,
        _checkpoints=SimpleNamespace(best_is=told.append),
        _ranks=SimpleNamespace(from_first=lambda value: value),
        _evaluate=lambda step: told.append(("evaluates", step)),
    )
    Evaluator.at_start(evaluator)
    assert told == [best, *([("evaluates", step)] if evaluates else [])]


@pytest.mark.parametrize(
    ("stop_after", "step", "more", "stops"),
    [
        (None, 8, False, False),
        (4, 3, False, False),
        (4, 4, False, True),
        (4, 5, False, True),
        (8, 8, False, False),
        (9, 8, False, False),
        (8, 8, True, True),
        (9, 8, True, False),
    ],
)
def test_a_run_that_stops_after_a_step_finishes_if_it_is_the_last_of_the_last_stage(
    stop_after: int | None, step: int, more: bool, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 8 steps, with `more` stages after them."""
    state = SimpleNamespace(global_step=step, max_steps=8)
    phases = SimpleNamespace(step=step - 1, step_ended=lambda now: setattr(phases, "step", now))
    trainer = SimpleNamespace(state=state)
    controller = Controller(trainer, STAND, phases, STAND, STAND, STAND, STAND)  # type: ignore[arg-type]
    controller.stop_after, controller.closed, controller.more_stages = stop_after, True, more
    monkeypatch.setattr(controller, "until_written", lambda write, what: None)
    assert controller._around_step_end(lambda: "logged")() == "logged"
    assert (controller.stop_wanted, phases.step) == (stops, step)


@pytest.mark.parametrize(
    ("more_stages", "ended", "step", "saves"),
    [(False, None, 8, False), (True, None, 7, False), (True, None, 8, True), (True, "it is so", 3, True)],
)
def test_the_end_of_a_stage_is_saved_for_the_next(
    more_stages: bool, ended: str | None, step: int, saves: bool
) -> None:
    saved: list[bool] = []
    state = SimpleNamespace(global_step=step, max_steps=8)
    phases = SimpleNamespace(step=step)
    checkpoints = SimpleNamespace(save=lambda requested: saved.append(requested))
    ranks = SimpleNamespace(any_of=lambda *asked: asked)
    trainer = SimpleNamespace(state=state)
    controller = Controller(trainer, STAND, phases, checkpoints, STAND, STAND, ranks)  # type: ignore[arg-type]
    controller.closed, controller.more_stages, controller.stage_ended = True, more_stages, ended
    controller._around_step_end(lambda: None)()
    assert saved == ([False] if saves else []), "not as one that the user asked for"


@pytest.mark.parametrize("trial", [False, True])
def test_what_a_config_asks_for_while_it_trains_is_set_up_and_not_in_a_trial(trial: bool) -> None:
    config = load_config(
        DEMO_CONFIG,
        [
            "grpo_tui.probe_prompts={source: [a], every: 3, count: 2, temperature: 0.5}",
            "grpo_tui.evaluate={every: 7}",
            "grpo_tui.on=[{when: reward < 0.1 over 5 steps, do: pause}]",
        ],
    )
    set_up: dict[str, Any] = {}
    session: Any = SimpleNamespace(
        ask_while_training=lambda rows, **more: set_up.update(probes=rows, **more),
        evaluate_while_training=lambda *words: set_up.update(evaluate=words),
        act_on=lambda rules: set_up.update(on=rules),
    )
    prompts: Any = SimpleNamespace(probes=["row"], evaluated=("held",), train=[])
    sources: Any = None if trial else ["sources"]
    worker._ask_while_training(session, config, prompts, sources)
    set_up.pop("row_of")
    asked = {"probes": ["row"], "every": 3, "count": 2, "temperature": 0.5}
    more = {"evaluate": (["held"], config.section.evaluate, config, sources), "on": config.section.on}
    assert set_up == asked | ({} if trial else more)
    assert config.section.on


@pytest.mark.parametrize("first", [0, 10])
def test_the_schedule_of_a_stage_is_as_long_as_the_stage(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 steps in all, it begins after step 10."""
    wrapped: list[Any] = []
    monkeypatch.setattr(compat, "wrap", lambda trainer, name, around: wrapped.append((name, around)))
    trainer = SimpleNamespace()
    schedule_from(trainer, first)
    if not first:
        assert not wrapped
        assert not vars(trainer)
        return
    ((name, around),) = wrapped
    asked: list[Any] = []

    def original(steps: int, optimizer: str) -> Any:
        asked.append((steps, optimizer))
        return SimpleNamespace(lr_lambdas=[lambda step: 1 - step / steps])

    made = around(original)(30, "adam")
    assert (name, asked) == ("create_scheduler", [(20, "adam")])
    assert [made.lr_lambdas[0](step) for step in (0, 10, 20, 30)] == [1.0, 1.0, 0.5, 0.0]
    plain = SimpleNamespace()
    assert around(lambda steps: plain)(30) is plain, "one that follows a metric has no shape"
    shapes = [lambda step: float(step)]
    assert counted_from(0, shapes) == shapes
