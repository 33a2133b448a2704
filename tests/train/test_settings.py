"""What a person may set in mid-run, and what would break the run and is refused instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.records import Record, SettingChanged
from grpo_tui.data.mapping import shared_beginning
from grpo_tui.present.formatting import changed
from grpo_tui.train.sampling import sample
from grpo_tui.train.settings import LiveSettings, Refused
from tests.train.tiny import make_trainer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One for all tests that leave it as it was."""
    made = make_trainer(tmp_path_factory.mktemp("trainer"))
    made.create_optimizer_and_scheduler(num_training_steps=4)
    return made


def test_a_function_whose_name_has_points_is_weighed_by_its_name(
    trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "reward_func_names", ["correctness", "judge-1.5.b"])
    settings = LiveSettings(trainer, list[Record]().append, 1)
    before = settings.value("reward_weights")
    settings.apply({"reward_weights.judge-1.5.b": 3})
    assert settings.value("reward_weights") == [before[0], 3.0]
    settings.apply({"reward_weights": before})


def test_a_setting_that_has_this_value_already_is_neither_recorded_nor_undone(trainer: Any) -> None:
    records: list[Record] = []
    settings = LiveSettings(trainer, records.append, 1)
    same = settings.value("temperature")
    told = settings.apply({"temperature": same, "max_grad_norm": 0.5})
    assert changed("temperature", *told["temperature"].values()) == "temperature is already 1"
    assert [one.name for one in records if isinstance(one, SettingChanged)] == ["max_grad_norm"]
    assert list(settings.undo(1)) == ["max_grad_norm"]
    settings.apply({"temperature": same})
    with pytest.raises(Refused, match="there is no change to undo"):
        settings.undo(1)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("learning_rate", True, "takes a number"),
        ("learning_rate", 0, "To hold training, use `pause`"),
        ("learning_rate", -1, "above 0"),
        ("learning_rate", "1e400", "finite"),
        ("temperature", 1e30, "from 0.01 to 100"),
        ("temperature", 1e-40, "from 0.01 to 100"),
        ("temperature", False, "takes a number"),
        ("reward_weights", [True, 1], "takes a number"),
        ("reward_weights", [1, "nan"], "finite"),
        ("reward_weights", [1, 1e39], "finite"),
        ("reward_weights", [1], "takes 2 numbers"),
        ("reward_weights", {}, "does not name a reward function; there are correctness, format_reward"),
        ("reward_weights", {"corectness": 2}, "did you mean correctness"),
        ("reward_weights.correctness", 2, "given both as a list and by function"),
        (
            "beta",
            0.1,
            "in memory. Restart the run with it: `grpo-tui train '/runs/a b' --resume --set beta=0.1`",
        ),
        ("num_generations", 8, "num_generations cannot change while the run trains. Restart the run with it"),
        ("learning_rte", 0.1, "unknown setting learning_rte; did you mean learning_rate"),
        ("colour", 0.1, "unknown setting colour; the settings are"),
    ],
)
def test_a_value_that_would_break_the_run_is_refused_and_changes_nothing(
    trainer: Any, name: str, value: Any, reason: str
) -> None:
    names = list(trainer.reward_func_names)
    records: list[Record] = []
    settings = LiveSettings(trainer, records.append, 1, lambda: "grpo-tui train '/runs/a b' --resume")
    before = settings.current()
    trainer.reward_func_names = trainer.reward_func_names[:1]
    with pytest.raises(Refused, match="takes 1 number, in the order correctness"):
        settings.apply({"reward_weights": [1, 2]})
    trainer.reward_func_names = names
    with pytest.raises(Refused, match=reason):
        settings.apply({"reward_weights": [2, 2], name: value} if name != "reward_weights" else {name: value})
    assert settings.current() == before
    assert records == []


def test_a_rate_set_together_with_its_schedule_is_the_next_rate_and_can_be_taken_back(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    trainer.create_optimizer_and_scheduler(num_training_steps=8)
    trainer.state.max_steps, trainer.state.global_step = 8, 4
    for _ in range(4):
        trainer.lr_scheduler.step()
    settings = LiveSettings(trainer, list[Record]().append, 1)
    settings.apply({"learning_rate": 1e-4, "lr_scheduler_type": "constant"})
    assert settings.value("learning_rate") == pytest.approx(1e-4)
    settings.apply({"lr_scheduler_type": "linear", "learning_rate": 2e-4, "max_steps": 16})
    assert settings.value("learning_rate") == pytest.approx(2e-4)
    base = trainer.lr_scheduler.base_lrs[0]
    assert settings.rate_factor == pytest.approx(base / 5e-4), "a resume scales the configured rate by it"
    settings.undo(2)
    assert settings.value("learning_rate") == pytest.approx(5e-4 * 4 / 8)
    assert settings.rate_factor == pytest.approx(1)


class _Bare:
    """As DeepSpeed's optimizers are: no `defaults`."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups = optimizer.param_groups


def test_the_schedule_changes_and_restarts_with_an_optimizer_of_deepspeed(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    trainer.create_optimizer_and_scheduler(num_training_steps=8)
    trainer.state.max_steps, trainer.state.global_step = 8, 4
    for _ in range(4):
        trainer.lr_scheduler.step()
    trainer.optimizer = _Bare(trainer.optimizer)
    settings = LiveSettings(trainer, list[Record]().append, 1)
    settings.apply({"max_steps": 16})
    assert settings.value("learning_rate") == pytest.approx(5e-4 * 12 / 16)
    settings.apply({"lr_scheduler_start": "now"})
    assert settings.value("learning_rate") == pytest.approx(5e-4)


def test_a_change_that_fails_halfway_leaves_everything_as_it_was(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, lr_scheduler_type="constant")
    trainer.create_optimizer_and_scheduler(num_training_steps=4)
    trainer.state.max_steps = trainer.state.global_step = 4
    records: list[Record] = []
    settings = LiveSettings(trainer, records.append, 1)
    before = settings.current()
    with pytest.raises(ZeroDivisionError):  # the rate of the new schedule is 0 after its last step
        settings.apply({"lr_scheduler_type": "linear", "learning_rate": 1e-4})
    assert settings.current() == before
    assert records == []


def test_a_schedule_of_the_script_keeps_its_shape_when_max_steps_changes(tmp_path: Path) -> None:
    from torch.optim.lr_scheduler import LambdaLR

    trainer = make_trainer(tmp_path)
    trainer.create_optimizer()
    trainer.lr_scheduler = LambdaLR(trainer.optimizer, lambda step: 0.5**step)
    trainer.state.max_steps = 4
    for _ in range(3):
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
    settings = LiveSettings(trainer, list[Record]().append, 1)
    settings.apply({"max_steps": 8})
    assert settings.value("max_steps") == 8
    assert settings.value("learning_rate") == pytest.approx(5e-4 / 8)
    trainer.optimizer.step()
    trainer.lr_scheduler.step()
    assert settings.value("learning_rate") == pytest.approx(5e-4 / 16)
    told = "follows a schedule of the script's own. Set it in the script and start the script again"
    with pytest.raises(Refused, match=told):
        settings.apply({"lr_scheduler_type": "cosine"})


def test_a_temperature_that_vllm_refuses_is_refused(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer.args, "use_vllm", True)
    with pytest.raises(Refused, match="temperature must be above 0 and at most 2, not 3"):
        LiveSettings(trainer, print, 1).apply({"temperature": 3})


def test_a_temperature_that_cannot_reach_the_gradient_is_refused_with_what_hides_it(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, generation_kwargs={"temperature": 0.9})
    with pytest.raises(Refused, match="generation_kwargs sets temperature too"):
        LiveSettings(trainer, print, 1).apply({"temperature": 0.5})
    trainer = make_trainer(tmp_path)
    original = trainer.model.forward

    def of_a_plugin(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    trainer.model.forward = of_a_plugin
    with pytest.raises(Refused, match=r"forward of the model \(LlamaForCausalLM\) is .*of_a_plugin"):
        LiveSettings(trainer, print, 1).apply({"temperature": 0.5})
    assert trainer.temperature == trainer.generation_config.temperature == 1.0


@pytest.mark.parametrize(
    ("prompt", "more", "reason"),
    [
        ("x" * 100_000, {}, "tokens; 236 can be sampled from"),
        ("hi", {"count": 100_000}, "count must be from 1 to 64"),
        ("hi", {"count": 0}, "count must be"),
        ("hi", {"temperature": -1.0}, "temperature must be"),
        ("hi", {"temperature": float("nan")}, "temperature must be"),
        ("hi", {"temperature": 1e-40}, "temperature must be"),
    ],
)
def test_a_sample_that_would_hold_the_run_up_is_refused_at_once(
    trainer: Any, prompt: str, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        sample(trainer, prompt, **more)


def test_a_temperature_of_zero_samples_the_likeliest_answer(trainer: Any) -> None:
    drawn = sample(trainer, "2+2=?", count=3, temperature=0)
    assert len({c["text"] for c in drawn["completions"]}) == 1
    assert drawn["temperature"] == 0
    assert trainer.generation_config.do_sample


def _messages(*turns: str) -> list[dict[str, str]]:
    roles = ("system", "user", "assistant", "user", "assistant", "user")
    return [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]


@pytest.mark.parametrize(
    ("prompts", "shared"),
    [
        ([_messages("Be brief.", "1+1"), _messages("Be brief.", "2+2")], 1),
        ([_messages("Be brief.", "q", "a", "1+1"), _messages("Be brief.", "q", "a", "2+2")], 3),
        ([_messages("Be brief.", "q", "a", "1+1"), _messages("Be brief.", "r", "a", "2+2")], 1),
        ([_messages("Be brief.", "1+1"), _messages("Be long.", "2+2")], 0),
        ([_messages("Be brief.", "q", "a", "1+1")], 1),  # of a stream only the first is known
        ([_messages("Be brief.", "1+1"), _messages("Be brief.", "1+1", "2", "2+2")], 1),
    ],
)
def test_what_all_prompts_of_a_run_begin_with(prompts: list[Any], shared: int) -> None:
    assert shared_beginning(prompts) == prompts[0][:shared]


def test_a_typed_question_is_asked_as_in_training(tmp_path: Path) -> None:
    def framed(row: dict[str, Any]) -> dict[str, Any]:
        return {"prompt": [*_messages("Sum it.", "1+1", "2"), *row["prompt"]]}

    trainer = make_trainer(tmp_path)
    assert sample(trainer, "2+2=?", count=1)["before"] == ""
    trainer.train_dataset = trainer.train_dataset.map(framed)
    first = trainer.train_dataset[0]["prompt"]
    drawn = sample(trainer, first[-1]["content"], count=1)
    assert drawn["before"] == "the system prompt and 1 example"
    ids, _, _ = trainer._tokenize_prompts([first])
    assert drawn["rendered"] == trainer._tokenizer.decode(ids[0])
    assert sample(trainer, first, count=1)["before"] == "", "a whole prompt is taken as it is"
