"""Runs that differ only by seed are one set, recognized from their records. Sets are compared in words."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import main
from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.evaluations import FACT, Evaluation, Evaluations
from grpo_tui.core.schedule import BY_RESUME, BY_SCHEDULE, Scheduled, to_json
from grpo_tui.core.schedule import FACT as SCHEDULED
from grpo_tui.core.stages import SETTING, START
from grpo_tui.present.seed_sets import SeedSet, compared, measures_of, read_seed_run, sentences, sets_of
from grpo_tui.present.window_load import RunSource
from grpo_tui.ship.run_facts import read_facts
from grpo_tui.store.spec import RunSpec
from tests.ui.recorded_run import RecordedRun

CONFIG: dict[str, Any] = {
    "model": "gpt2",
    "grpo": {"learning_rate": 1e-6, "output_dir": "x", "run_name": "x"},
    "model_args": {},
    "script": {"dataset_name": "sums"},
    "section": {"gpus": []},
}


def made(
    root: Path, seed: int, reward: float, *, steps: int = 20, state: str = "finished", **other: Any
) -> Path:
    """A run with a constant reward. `other` changes keys of GRPOConfig, or a part of the config."""
    grpo = {**CONFIG["grpo"], "seed": seed, "output_dir": str(root), "run_name": root.name}
    config = {**CONFIG, "grpo": grpo}
    for key, value in other.items():
        (config if key in config else grpo)[key] = value
    run = RecordedRun(root)
    run.write(r.Fact("config", config))
    for step in range(1, steps + 1):
        run.write(
            r.MetricRow(1, step, run.at(step), {"reward": reward, "rewards/correctness/mean": reward / 2})
        )
    run.end(state)
    run.close()
    return root


def sets(*roots: Path) -> tuple[SeedSet, ...]:
    return sets_of([read_seed_run(root, root.name) for root in roots])


def changed(root: Path, *records: Any) -> Path:
    """The run with more in its record."""
    from grpo_tui.store.connection import open_writer
    from grpo_tui.store.layout import RunFolder
    from grpo_tui.store.writer import Writer

    writer = Writer(open_writer(RunFolder(root).database))
    writer.write(records)
    writer.close()
    return root


def test_only_seed_folder_and_gpus_may_differ_within_a_set(tmp_path: Path) -> None:
    same = [made(tmp_path / f"a-seed-{seed}", seed, 0.5) for seed in (1, 2)]
    elsewhere = made(tmp_path / "other-place", 3, 0.5, section={"gpus": [1]}, data_seed=7)
    others = [
        made(tmp_path / "rate", 4, 0.5, learning_rate=2e-6),
        made(tmp_path / "model", 5, 0.5, model="gpt3"),
        made(tmp_path / "data", 6, 0.5, script={"dataset_name": "products"}),
        changed(made(tmp_path / "steered", 7, 0.5), r.SettingChanged(1, 5, 1.0, "beta", 0.0, 0.1)),
        changed(
            made(tmp_path / "reward", 8, 0.5), r.RewardFunctionInfo(1, 0, "correctness", 2.0, "", "other")
        ),
        made(tmp_path / "again", 1, 0.5),
    ]
    found = sets(*same, elsewhere, *others)
    assert [one.seeds for one in found] == [(1, 2, 3), (4,), (5,), (6,), (7,), (8,), (1,)]
    assert [one.label for one in sets(*same)] == ["a, 2 seeds"]
    for fork in others[:2]:
        shutil.copy(same[0] / "run.db", fork / "run.db")
        config = {**CONFIG, "grpo": {**CONFIG["grpo"], "seed": 50 + len(fork.name)}}
        changed(fork, r.Fact("config", config))
        RunSpec({}, forked_from=str(same[0] / "checkpoint-10")).write(fork / "run.json")
    assert [one.seeds for one in sets(*same, *others[:2])] == [(1, 2), (54, 55)], "forks share steps with it"
    assert sets(tmp_path / "none")[0].runs[0].state == "broken"


@pytest.mark.parametrize(
    ("names", "called"),
    [
        (("lr1e-4-seed-1", "lr1e-4-seed-12"), "lr1e-4"),
        (("demo", "demo-2"), "demo"),
        (("one", "two"), "one"),
        (("x_seed=1", "x_seed=2"), "x"),
        (("1", "12"), "1"),
    ],
)
def test_a_set_is_named_by_what_its_folders_share(
    tmp_path: Path, names: tuple[str, str], called: str
) -> None:
    runs = [made(tmp_path / name, seed, 0.5) for seed, name in enumerate(names)]
    assert [one.name for one in sets(*runs)] == [called]


def two(tmp_path: Path, base: dict[int, float], other: dict[int, float], **more: Any) -> tuple[SeedSet, ...]:
    roots = [made(tmp_path / f"a-seed-{seed}", seed, reward) for seed, reward in base.items()]
    roots += [
        made(tmp_path / f"b-seed-{seed}", seed, reward, learning_rate=2e-6, **more)
        for seed, reward in other.items()
    ]
    return sets(*roots)


NOTHING = "Seed noise cannot be estimated:"
BY, OVER = "0.207 (95 %: 0.178 to 0.235)", "final total reward over 3 seeds, paired by seed"
LOW, HIGH = {1: 0.5, 2: 0.6, 3: 0.55}, {1: 0.7, 2: 0.82, 3: 0.75}
SAID: tuple[tuple[dict[int, float], dict[int, float], tuple[str, ...]], ...] = (
    (LOW, HIGH, ("b is better than a by", f"{BY}:", OVER)),
    (HIGH, LOW, ("b is worse than a by", f"{BY}:", OVER)),
    (LOW, {4: 0.6, 5: 0.5}, ("The difference between a and b is within seed noise: final total",
                             "reward +0.000 (95 %: -0.299 to +0.299) over 3 and 2 seeds, not paired")),
    ({1: 0.5, 2: 0.6}, {1: 0.7}, (NOTHING, "b-seed-1 has 1 complete run. b-seed-1 against a:",
                                  "final total reward +0.150")),
    ({1: 0.5, 2: 0.5}, {3: 0.75, 4: 0.75}, (NOTHING, "the value of each set is the same for every seed",
                                            "(final total reward +0.250)")),
    ({1: 0.25, 2: 0.5}, {1: 0.5, 2: 0.75}, (NOTHING, "the difference is the same for every seed",
                                            "(final total reward +0.250)")),
    ({1: 0.5, 2: 0.6}, {}, ("a: final total reward 0.550 (95 %: -0.085 to 1.185),",
                            "0.500 to 0.600 over 2 seeds")),
)  # fmt: skip


@pytest.mark.parametrize(("base", "other", "said"), SAID)
def test_two_sets_are_compared_in_a_sentence(
    tmp_path: Path, base: dict[int, float], other: dict[int, float], said: tuple[str, ...]
) -> None:
    assert sentences(two(tmp_path, base, other)) == [" ".join(said)]


def test_every_other_set_is_compared_with_the_first(tmp_path: Path) -> None:
    rewards = {"a": 0.5, "b": 0.7, "c": 0.6}
    roots = [
        made(tmp_path / f"{name}-seed-{seed}", seed, reward + seed / 100, learning_rate=reward)
        for name, reward in rewards.items()
        for seed in (1, 2)
    ]
    found = [one for one in compared(sets(*roots)) if one.measure == measures_of(sets(*roots))[0]]
    assert [(one.base.name, one.other.name) for one in found] == [("a", "b"), ("a", "c")]
    assert [one.difference.mean for one in found if one.difference] == pytest.approx([0.2, 0.1])


def test_runs_without_a_set_are_not_judged(tmp_path: Path) -> None:
    assert sentences(two(tmp_path, {1: 0.5}, {1: 0.9})) == []


def test_only_complete_runs_count_and_a_rule_that_stopped_one_completes_it(tmp_path: Path) -> None:
    roots = [made(tmp_path / f"a-seed-{seed}", seed, 0.5, state="finished") for seed in (1, 2)]
    roots += [made(tmp_path / f"a-seed-{seed}", seed, 0.75, state="stopped") for seed in (3, 4)]
    for root, by in zip(roots[2:], ("grpo_tui.on", "you"), strict=True):
        changed(root, (Command("1", "stop", {}, 1.0, by), Outcome(True, 20)))
    (one,) = sets(*roots)
    assert [run.complete for run in one.runs] == [True, True, True, False]
    assert one.final("reward") == {1: 0.5, 2: 0.5, 3: 0.75}
    (failed,) = sets(*[made(tmp_path / f"f-{seed}", seed, 0.9, state="failed") for seed in (1, 2)])
    assert sentences((failed,)) == ["Seed noise cannot be estimated: f has no complete run"]
    assert sentences((one, failed)) == ["Nothing can be compared yet: f has no complete run"]


def evaluated(root: Path, key: str, value: float) -> Path:
    done = (Evaluation(0, 0.1, (0.1,)), Evaluation(20, value, (value,)))
    found = Evaluations(key, "pass@1", 0, "correctness", 1.0, (1.0,), 4, (), done)
    return changed(root, r.Fact(FACT, found.to_json()))


def test_an_evaluation_of_the_same_prompts_decides_and_rewards_must_weigh_the_same(tmp_path: Path) -> None:
    found = two(tmp_path, {1: 0.5, 2: 0.6}, {1: 0.7, 2: 0.85})
    assert measures_of(found) == ["reward", "rewards/correctness/mean"]
    for one, key in ((found[0], "k"), (found[1], "k")):
        for at, run in enumerate(one.runs):
            evaluated(run.root, key, 0.2 + at / 10 if one is found[0] else 0.4 + at / 9)
    both = sets(*[run.root for one in found for run in one.runs])
    assert measures_of(both)[0] == "evaluation"
    assert sentences(both)[0].startswith(
        "b is better than a by 0.206 (95 %: 0.135 to 0.276): pass@1 of the last"
    )
    for run in both[1].runs:
        evaluated(run.root, "other prompts", 0.4)
        changed(run.root, r.RewardFunctionInfo(1, 0, "correctness", 9.0))
    apart = sets(*[run.root for one in found for run in one.runs])
    assert measures_of(apart) == ["rewards/correctness/mean"]
    assert [one.measure for one in compared(apart)] == ["rewards/correctness/mean"]


def test_other_training_data_are_told(tmp_path: Path) -> None:
    found = two(tmp_path, {1: 0.5, 2: 0.6}, {1: 0.7, 2: 0.85}, script={"dataset_name": "products"})
    assert sentences(found)[0].endswith("paired by seed. Their training data differ")


def test_the_command_prints_sets_and_exits_1_for_a_worse_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = two(tmp_path, {1: 0.5, 2: 0.6, 3: 0.55}, {1: 0.7, 2: 0.82, 3: 0.75})
    better, base = ([str(run.root) for run in one.runs] for one in (found[1], found[0]))
    assert main(["seeds", *base, *better]) == 0
    text = capsys.readouterr().out
    assert text.startswith("b is better than a by 0.207")
    assert "total reward" in text
    assert "0.550 (0.500 to 0.600)" in text
    assert main(["seeds", *better, *base, "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [one["seeds"] for one in body["sets"]] == [[1, 2, 3], [1, 2, 3]]
    (first, _) = body["comparisons"]
    assert (first["word"], first["paired"], first["measure"]) == ("worse", True, "reward")
    assert main(["seeds", better[0]]) == 0
    assert "No two of these runs differ only by seed" in capsys.readouterr().out
    assert main(["seeds", str(tmp_path / "none")]) == 2


def test_a_scheduled_change_that_a_resume_left_is_no_change_of_the_run(tmp_path: Path) -> None:
    kept = made(tmp_path / "a-seed-1", 1, 0.5)
    waits = Scheduled(15, {"beta": 0.1}, 1.0, left=(9.0,))
    left = changed(
        made(tmp_path / "a-seed-2", 2, 0.5),
        r.SettingChanged(1, 15, 9.0, "beta", 0.0, 0.1, BY_SCHEDULE),
        r.Fact(SCHEDULED, to_json([waits])),
    )
    assert [one.seeds for one in sets(kept, left)] == [(1, 2)]
    assert read_facts(left, "left").changes == ()
    with closing(RunSource(left)) as source:
        source.look()
        assert [one for one in source.happenings("step") if one.kind == "setting"] == []


def test_a_resume_that_continues_a_change_does_not_part_a_set(tmp_path: Path) -> None:
    by_hand = r.SettingChanged(1, 5, 1.0, "temperature", 1.0, 0.9)
    whole = changed(made(tmp_path / "a-seed-1", 1, 0.5), by_hand)
    later, earlier = (
        changed(
            made(tmp_path / f"a-seed-{step}", step, 0.5),
            by_hand,
            r.SettingChanged(2, step, 2.0, "temperature", 1.0, 0.9, BY_RESUME),
        )
        for step in (8, 3)
    )
    assert [one.seeds for one in sets(whole, later)] == [(1, 8)]
    assert [one.seeds for one in sets(whole, earlier)] == [(1,), (3,)]  # it had the value from step 3 on


def test_a_stage_may_begin_at_another_step_for_each_seed(tmp_path: Path) -> None:
    section = {"gpus": [], "stages": [{"name": "one", "until": "reward > 1"}, {"name": "two", "steps": 5}]}

    def staged(seed: int, begins: int, rate: float) -> Path:
        return changed(
            made(tmp_path / f"a-seed-{seed}", seed, 0.5, section=section, max_steps=begins + 5),
            r.SettingChanged(1, begins, 1.0, SETTING, "one", "two", "config"),
            r.SettingChanged(1, begins, 1.0, START, 0, begins, "config"),
            r.SettingChanged(1, begins, 1.0, "learning_rate", rate, 1e-6, "config"),
        )

    assert [one.seeds for one in sets(staged(1, 10, 1e-4), staged(2, 12, 1e-4))] == [(1, 2)]
    assert [one.seeds for one in sets(tmp_path / "a-seed-1", staged(3, 10, 2e-4))] == [(1,), (3,)]
    without = [made(tmp_path / f"b-seed-{seed}", seed, 0.5, max_steps=seed) for seed in (1, 2)]
    assert [one.seeds for one in sets(*without)] == [(1,), (2,)]
