"""The shipped rewards score as they say, and TRL's parser reads texts as we do."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import sys
import types
from pathlib import Path

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.rewards.answer_format import Form, wrong_answer
from grpo_tui.rewards.cases import judge_cases, read_cases
from grpo_tui.rewards.loading import load_rewards
from grpo_tui.rewards.probes import ProbeRow, judge, make_probes

CONFIGS = Path(__file__).parents[2] / "configs"


def trl_parser():
    from trl.scripts.grpo import make_parser

    return make_parser()


def test_trls_parser_and_ours_agree_on_texts_that_yaml_left_as_texts(tmp_path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "model_name_or_path: m\ndataset_name: d\nreward_funcs: [accuracy_reward]\nlearning_rate: 1e-5\n"
        'log_completions: "no"\nnum_generations: "4"\nscale_rewards: false\nmin_p: null\n'
    )
    ours = load_config(file).grpo
    arguments = ["--config", str(file), "--use_cpu", "true", "--bf16", "false", "--output_dir", str(tmp_path)]
    _, grpo, _, _ = trl_parser().parse_args_and_config(arguments)
    for name, value in ours.items():
        assert getattr(grpo, name) == value, name


def shipped_rewards(name: str = "rewards"):
    spec = importlib.util.spec_from_file_location(f"shipped_{name}", CONFIGS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD = "<think>\n6 times 12\nis 72\n</think>\n<answer>\n72\n</answer>"


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize(
    ("text", "correct", "strict", "steps", "number"),
    [
        (GOOD, 1.0, 1.0, 1.0, 1.0),
        (GOOD.replace("72", "71"), 0.0, 1.0, 1.0, 1.0),
        (GOOD.replace("\n72\n</answer>", "$72.00</answer>"), 1.0, 1.0, 1.0, 0.0),
        ("The answer is 72", 0.0, 0.0, 0.0, 0.0),
        ("<think></think><answer> </answer>", 0.0, 0.0, 0.5, 0.0),
        (GOOD + " and that is all", 1.0, 0.0, 1.0 - 0.015, 1.0),
        ("<answer>72</answer>", 1.0, 0.0, 0.5, 1.0),
        (GOOD + GOOD, 0.0, 0.0, 0.0, 1.0),
        (GOOD.replace("\n72\n</answer>", "not 72</answer>"), 0.0, 1.0, 1.0, 0.0),
    ],
)
def test_the_shipped_rewards_score_as_they_say(
    chat: bool, text: str, correct: float, strict: float, steps: float, number: float
) -> None:
    rewards = shipped_rewards()
    completion = [{"role": "assistant", "content": text}] if chat else text
    assert rewards.correct([completion], answer=["72"], prompts=["q"]) == [correct]
    assert rewards.strict_format([completion]) == [strict]
    assert rewards.steps_to_format([completion]) == pytest.approx([steps])
    assert rewards.answer_is_a_number([completion]) == [number]


def test_correctness_abstains_when_the_gold_answer_is_no_number() -> None:
    assert shipped_rewards().correct([GOOD, GOOD], answer=["", "72"]) == [None, 1.0]


@pytest.mark.parametrize("gold", ["42", "2500", "1,250", "-8", "3.5", "0.5", "1/3", "6 * 12 = 72\n#### 72"])
def test_no_probe_of_the_answer_fools_the_shipped_correctness_and_none_finds_it_unfair(gold: str) -> None:
    answer = gold.rpartition("####")[2].strip()
    row = ProbeRow(f"What is {answer}?", answer, wrong_answer(answer), ("7", "9"))
    probes = make_probes(row, Form("tags", "think"))
    scores = shipped_rewards().correct([probe.text for probe in probes], answer=[gold] * len(probes))
    assert judge(probes, {"correct": scores}) == []


@pytest.mark.parametrize("gold", ["Paris", "Au", "1440", "Shakespeare"])
def test_no_probe_of_the_answer_fools_same_words_and_none_finds_it_unfair(gold: str) -> None:
    row = ProbeRow("What is it?", gold, "Rome", ("Oslo", "9"))
    probes = make_probes(row, Form("tags", "think"))
    scores = shipped_rewards().same_words([probe.text for probe in probes], answer=[gold] * len(probes))
    assert judge(probes, {"correct": scores}) == []


@pytest.mark.parametrize("function", ["strict_format", "steps_to_format"])
def test_no_probe_of_the_form_fools_the_shipped_format_rewards(function: str) -> None:
    probes = make_probes(ProbeRow("What is 42?", "42", "43", ("7", "9")), Form("tags", "think"))
    scores = getattr(shipped_rewards(), function)([probe.text for probe in probes])
    assert judge(probes, {function: scores}) == []


@pytest.mark.parametrize("name", ["json_task", "code_task"])
def test_the_cases_beside_a_preset_hold(name: str) -> None:
    file = read_cases(CONFIGS / f"{name}.cases.yaml")
    assert [Path(source) for source in file.rewards] == [CONFIGS / f"{name}.yaml"]
    rewards = load_rewards(load_config(file.rewards[0]))

    def scores(reward) -> list[float]:
        samples = [case.sample for case in file.cases]
        return [
            reward.func(completions=[s.completion], **{k: [v] for k, v in s.columns.items()})[0]
            for s in samples
        ]

    found = {reward.name: scores(reward) for reward in rewards}
    totals = [sum(r.weight * found[r.name][i] for r in rewards) for i in range(len(file.cases))]
    assert judge_cases(file, found, totals) == []


def rows_of(file: str) -> list[dict]:
    return [json.loads(line) for line in (CONFIGS / "data" / file).read_text().splitlines()]


def test_every_order_has_the_four_keys_and_gets_full_marks() -> None:
    rows = rows_of("orders.jsonl")
    rewards = shipped_rewards("json_rewards")
    golds = [row["answer"] for row in rows]
    assert len({row["order"] for row in rows}) == len(rows) >= 20
    assert {tuple(json.loads(gold)) for gold in golds} == {("customer", "item", "quantity", "day")}
    wanted = ["customer", "item", "quantity", "day"]
    assert rewards.values(golds, answer=golds) == rewards.keys(golds, wanted) == [1.0] * len(rows)
    assert max(rewards.values(golds[1:] + golds[:1], answer=golds)) < 1.0
    for row in rows:
        order = json.loads(row["answer"])
        assert order["customer"] in row["order"]
        assert all(word in row["order"] for word in order["item"].split())


def test_every_solution_passes_its_own_tests_and_no_other_rows() -> None:
    rows = rows_of("functions.jsonl")
    assert len({row["function"] for row in rows}) == len(rows) >= 20
    solutions = [row["solution"] for row in rows]
    rewards = shipped_rewards("code_rewards")
    names = [row["function"] for row in rows]
    assert rewards.one_block(solutions) == rewards.defines(solutions, function=names) == [1.0] * len(rows)
    codes = [re.search(r"```python\n(.*)```", text, re.DOTALL)[1] for text in solutions]
    for row, code, other in zip(rows, codes, codes[1:] + codes[:1], strict=True):
        for test in row["tests"]:
            exec(code + test, {})
        with pytest.raises(NameError):
            exec(other + row["tests"][0], {})


def test_every_fact_has_one_short_answer() -> None:
    with (CONFIGS / "data" / "knowledge.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["question"] for row in rows}) == len(rows) >= 30
    assert all(row["question"].endswith("?") and len(row["answer"].split()) == 1 for row in rows)


class Gym(types.ModuleType):
    """Stands for reasoning-gym: sums, marked as it marks them, with a part for an answer among others."""

    def __init__(self) -> None:
        super().__init__("reasoning_gym")

    def create_dataset(self, task: str, size: int, seed: int, **settings):
        assert seed == 42
        entries = [f"{task} {n}" for n in range(size)]
        return [
            {"question": text, "answer": str(n), "metadata": {"of": [n]}} for n, text in enumerate(entries)
        ]

    def get_score_answer_fn(self, task: str):
        def score(answer: str, entry: dict) -> float:
            assert entry["question"].startswith(task)
            return 1.0 if answer == entry["answer"] else 0.5 * (entry["answer"] in answer)

        return score


def real_gym() -> types.ModuleType:
    return pytest.importorskip("reasoning_gym")


@pytest.mark.parametrize("gym", [Gym, real_gym])
def test_procedural_rows_are_made_and_marked_by_the_task_that_made_them(
    gym, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", gym())
    task = shipped_rewards("procedural")
    monkeypatch.setattr(task, "SIZE", 4)
    rows = task.rows()
    assert [row["task"] for row in rows] == list(task.TASKS) * 4
    assert rows == task.rows()

    def marks(form: str, chat: bool = False) -> list[float]:
        texts = [form.replace("GOLD", row["answer"]) for row in rows]
        given = [[{"role": "assistant", "content": text}] for text in texts] if chat else texts
        return task.verified(given, task=[row["task"] for row in rows], entry=[row["entry"] for row in rows])

    whole = "<think>so</think><answer>\nGOLD\n</answer>"
    assert marks(whole) == marks(whole, chat=True) == [1.0] * len(rows)
    assert (
        marks("<answer>**GOLD**</answer>") == marks("<answer>$\\boxed{GOLD}$.</answer>") == [1.0] * len(rows)
    )
    assert set(marks("GOLD") + marks("<answer>GOLD</answer><answer>GOLD</answer>")) == {0.0}
    assert set(marks("<answer>GOLD or Zanzibar</answer>")) == {0.0}
    monkeypatch.setattr(task, "WHOLE_MARKS_ONLY", False)
    assert max(marks("<answer>GOLD or Zanzibar</answer>")) > 0
