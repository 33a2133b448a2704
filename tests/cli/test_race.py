"""How a race ends: its exit code, by what became of the branches."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli import race as of_race
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.series import Job, Places, Series
from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present.race_text import Race
from grpo_tui.ship.kept import KeptComparison
from grpo_tui.store.checkpoints import TRAINER_STATE, Verdict, is_held
from grpo_tui.store.layout import RunFolder, remember
from tests.cli.test_every_option import PARSER, options


@pytest.mark.parametrize(
    ("ends", "word", "left", "code"),
    [
        (("complete", "complete"), "better", 0, 0),
        (("complete", "complete"), "not shown", 0, 0),
        (("complete", "complete"), "worse", 0, 1),
        (("complete", "complete"), None, 0, 130),  # the comparison was interrupted
        (("complete", "failed"), None, 0, 2),
        (("failed", "complete"), "worse", 0, 2),
        (("complete", "stopped"), None, 3, 3),
        (("complete", "still training"), None, 130, 130),
    ],
)
def test_a_worse_branch_is_exit_1_and_one_that_failed_2(
    ends: tuple[str, str],
    word: str | None,
    left: int,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [of_race.Wanted("control", ()), of_race.Wanted("hot", ("temperature=2",))]
    jobs = [Job(one.name, tmp_path / one.name, lambda *_: None, bool) for one in wanted]  # type: ignore[arg-type, return-value]
    series = Series(jobs, Places(), lambda *_: None)
    series.ends, series.left = {one.name: end for one, end in zip(wanted, ends, strict=True)}, left
    body: Any = {"verdict": [{"policy": "hot", "word": word}]} if word is not None else None
    monkeypatch.setattr(of_race, "_compared", lambda *words: body)
    monkeypatch.setattr(Race, "to_json", lambda self: {})
    parsed = SimpleNamespace(json=True, no_control=False)
    found = Race(tmp_path, 2, 4, ())
    assert of_race._told(parsed, series, found, wanted, load_config(DEMO_CONFIG)) == code


ALL = (
    "race r@4 --steps 9 --branch 'hot: temperature=2 optimizer=new' --branch '\"stop_strings=a b\"' "
    "--no-control --gpus 0,1 --rows 7 --samples 3 --correct right --timeout 7 --trust --detach"
)


@pytest.mark.parametrize(
    ("planned", "saved", "until"),
    [
        (20, None, 12),
        (10, 20, 10),
        (-1, 20, 12),
        (-1, 10, 10),
        (-1, -1, 12),
        (-1, None, 12),
    ],
    ids=["the plan lasts", "the config's end", "the state lasts", "the state's end", "no end", "no state"],
)
def test_the_branches_end_with_the_plan_at_the_latest(
    planned: int, saved: int | None, until: int, tmp_path: Path
) -> None:
    config = load_config(DEMO_CONFIG, [f"max_steps={planned}"])
    if saved is not None:
        (tmp_path / TRAINER_STATE).write_text(json.dumps({"max_steps": saved}))
    assert of_race._until(config, Verdict(tmp_path, 4, usable=True), 8) == until
    with pytest.raises(CommandError, match="no step is left to race"):
        of_race._until(load_config(DEMO_CONFIG, ["max_steps=4"]), Verdict(tmp_path, 4, usable=True), 8)


def test_a_branch_is_a_fork_with_its_own_settings_whose_data_is_not_checked_again(tmp_path: Path) -> None:
    folder, parsed = RunFolder(tmp_path / "r"), SimpleNamespace(gpus="0,1")
    verdict = Verdict(folder.root / "checkpoint-4", 4, usable=True)
    given = of_race._words(parsed, folder, verdict, ("beta=0.1", "optimizer=new", "temperature=2"))
    assert vars(given) == {
        "config": folder.root, "overrides": ["beta=0.1", "temperature=2"], "run_dir": None, "launcher": None,
        "gpus": "0,1", "resume": "4", "optimizer": "new", "quick_check": True, "force": False,
    }  # fmt: skip
    assert of_race._words(parsed, folder, verdict, ("beta=0.1",)).optimizer is None
    assert of_race._root(folder, verdict, "hot") == tmp_path / "r-4-hot"


def test_a_kept_comparison_is_shown_though_a_branch_has_removed_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, names = tmp_path / "first", ("control", "hot")
    (parent / "compare").mkdir(parents=True)
    remember(parent)
    for kept, step, known in (("mine", 4, names), ("later", 6, names), ("other", 4, ("control", "cold"))):
        roots = [tmp_path / f"first-2-{name}" for name in known]
        listed = [
            {"name": name, "path": str(root / f"checkpoint-{step}"), "step": step}
            for name, root in zip(known, roots, strict=True)
        ]
        with KeptComparison(parent / "compare" / f"{kept}.jsonl", {"key": kept}) as file:
            file.finish("", {"policies": listed, "notes": ["a note"]})
    monkeypatch.setattr(of_race, "wanted_config", lambda *given: None)

    def shown(step: int) -> Any:
        named = [(name, f"{tmp_path}/first-2-{name}@{step}") for name in names]
        return of_race._compared(SimpleNamespace(), parent, named)

    found = shown(4)
    assert found["file"] == str(parent / "compare" / "mine.jsonl")
    assert found["notes"][0] == "a note"
    assert found["notes"][1].startswith("shown as it was kept, because a model is gone: ")
    with pytest.raises(CommandError, match="no such run"):
        shown(5)


def test_the_race_in_the_background_is_the_one_that_was_typed(tmp_path: Path) -> None:
    """Each option is given with a value of its own."""
    file = tmp_path / "branches.yaml"
    file.write_text("flat: {beta: 0.1, generation_batch_size: null}\n")
    typed = PARSER.parse_args([*shlex.split(ALL), "--branches", str(file)])
    plain = PARSER.parse_args(["race", "r", "--steps", "8", "--branch", "beta=0"])
    known = {action.dest for action in options(("race",))}
    assert {name for name in known if vars(typed)[name] != vars(plain)[name]} == known - {"json"}
    for words in (typed, plain):
        wanted = of_race.branches_of(words)
        again = PARSER.parse_args(of_race._again(words, wanted))
        assert of_race.branches_of(again) == wanted
        listed = {"detach": False, "branch": again.branch, "branches": None}
        assert vars(again) == vars(words) | listed


def test_the_race_in_the_background_starts_where_the_first_branch_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent still trains, and may have saved a newer checkpoint by then, and removed an older one."""
    folder, words, holds = RunFolder(tmp_path), list[str](), list[Any]()
    verdict = Verdict(folder.root / "checkpoint-4", 4, usable=True)
    monkeypatch.setattr(of_race.start, "checkpoint_of", lambda *given: (verdict, []))
    monkeypatch.setattr(RunFolder, "exists", lambda self: self.root == folder.root)
    given = SimpleNamespace(config=load_config(DEMO_CONFIG), launcher=())
    monkeypatch.setattr(of_race.start, "read", lambda parsed: given)

    def detach(self: Series, again: list[str], *given: Any, hold: Any, **more: Any) -> int:
        words.extend(again)
        holds.append(hold and is_held(verdict.path))
        return 0

    monkeypatch.setattr(Series, "detach", detach)
    typed = PARSER.parse_args(["race", str(folder.root), "--steps", "8", "--branch", "beta=0", "--detach"])
    assert of_race.race(typed) == 0
    assert words[:2] == ["race", f"{folder.root}@4"]
    assert holds == [True]
