"""Commands that judge exit 1 for an error, and for nothing less."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli import data as of_data
from grpo_tui.cli import drill as of_drill
from grpo_tui.cli import merge as of_merge
from grpo_tui.cli import rewards as of_baseline
from grpo_tui.cli import score as of_score
from grpo_tui.cli import seeds as of_seeds
from grpo_tui.cli import what_if as of_what_if
from grpo_tui.cli.main import main
from grpo_tui.core.findings import Finding
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.preflight import run as of_check
from grpo_tui.preflight.report import Preflight
from grpo_tui.rewards.cases import Miss
from grpo_tui.ship.merging import DifferentError, MergeError
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.trials import DRILLS

Findings = tuple[Finding, ...]


def _baseline(found: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(findings=found, to_json=dict), SimpleNamespace(samples=())
    monkeypatch.setattr(of_baseline, "_load", lambda lab, config: None)
    monkeypatch.setattr(of_baseline, "ask_baseline", lambda *words: answer)


def _check(found: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_check, "check", lambda *words, **more: Preflight(None, found))


def _data(found: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(findings=found, facts=SimpleNamespace(data=None))
    monkeypatch.setattr(of_data.Checker, "check", lambda self, config, settings: answer)


COMMANDS: dict[str, tuple[list[str], Callable[[Findings, pytest.MonkeyPatch], None]]] = {
    "baseline": (["--json"], _baseline),
    "check": ([], _check),
    "data": ([], _data),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("severities", "code"),
    [((), 0), (("info",), 0), (("warning",), 0), (("error",), 1), (("warning", "error", "info"), 1)],
)
def test_only_an_error_makes_a_command_fail(
    command: str, severities: tuple[str, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, prepared = COMMANDS[command]
    found = tuple(Finding(f"a.{severity}", severity, None, None, "said") for severity in severities)
    prepared(found, monkeypatch)
    assert main([command, str(DEMO_CONFIG), *words]) == code


# -- commands that judge several things ------------------------------------------------------------


def _seeds(bad: Sequence[bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A set is judged by the first difference from it; a later one says the opposite."""

    def difference(place: int, worse: bool) -> Any:
        word = SimpleNamespace(word="worse" if worse else "better")
        return SimpleNamespace(other=SimpleNamespace(name=str(place)), difference=word)

    found = [difference(n, one) for n, one in enumerate(bad)]
    found += [difference(n, not one) for n, one in enumerate(bad)]
    for name in ("folder_named", "readable_folder", "seed_sets.sets_of", "seed_sets.to_json"):
        monkeypatch.setattr(f"grpo_tui.cli.seeds.{name}", lambda given: given)
    monkeypatch.setattr(of_seeds, "run_names", lambda roots: dict.fromkeys(roots, "r"))
    monkeypatch.setattr(of_seeds.seed_sets, "read_seed_run", lambda root, name: name)
    monkeypatch.setattr(of_seeds.seed_sets, "compared", lambda sets: found)
    return ["seeds", "a", "b", "--json"]


def _drills(bad: Sequence[bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = DRILLS[: len(bad)]
    ends = {name: lambda one, passed=not end: (passed, "") for name, end in zip(names, bad, strict=True)}
    start = nullcontext(SimpleNamespace(folder=None, spec=RunSpec({})))
    monkeypatch.setattr(of_drill, "DOES", ends)
    monkeypatch.setattr(of_drill, "trial", lambda *words: start)
    monkeypatch.setattr(of_drill, "_Drill", lambda *words: None)
    return ["train", str(DEMO_CONFIG), "--drill", ",".join(names), "--json"]


def _what_if(bad: Sequence[bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    functions = [SimpleNamespace(failure="it raised" if one else "") for one in bad]
    found = SimpleNamespace(functions=functions, to_json=dict)
    monkeypatch.setattr(of_what_if, "readable_folder", lambda path: path)
    monkeypatch.setattr(of_what_if, "_groups", lambda search, parsed: [1])
    monkeypatch.setattr(of_what_if, "Search", lambda database: SimpleNamespace(close=bool))
    monkeypatch.setattr(of_what_if, "what_if_of_run", lambda *words, **more: found)
    return ["whatif", "run", str(DEMO_CONFIG), "--json"]


def _cases(bad: Sequence[bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first file that fails has a case that misses, the next one a reward that raises."""
    ways = itertools.cycle(((Miss("c", "f", "1", "0", 3), None), (None, "f: it raised")))
    ends = [next(ways) if one else (None, None) for one in bad]
    told = [
        (SimpleNamespace(path="x", cases=["c"]), [miss] if miss else [], [error] if error else [])
        for miss, error in ends
    ]
    monkeypatch.setattr(of_baseline, "_run", lambda path, parsed: told[int(path.name)])
    return ["cases", "run", *map(str, range(len(bad))), "--json"]


def _probe(bad: Sequence[bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A function fails first, and is fooled second."""
    found = SimpleNamespace(failed=bad[:1] == (True,), kinds=[n for n in bad[1:] if n], to_json=dict)
    monkeypatch.setattr(of_baseline, "dataset_rows", lambda *words: None)
    monkeypatch.setattr(of_baseline, "rows_with_gold", lambda *words: ([], None))
    monkeypatch.setattr(of_baseline, "probe", lambda *words, **more: found)
    return ["probe", str(DEMO_CONFIG), "--json"]


def _score(bad: Sequence[bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found = SimpleNamespace(failed=any(bad), to_json=lambda: {"notes": []})
    monkeypatch.setattr(of_score, "_dataset", lambda *words: (None, ""))
    monkeypatch.setattr(of_score, "_samples", lambda *words: ([], ""))
    monkeypatch.setattr(of_score, "report", lambda *words: found)
    return ["score", str(DEMO_CONFIG), "--json"]


JUDGES: dict[str, Callable[[Sequence[bool], pytest.MonkeyPatch], list[str]]] = {
    "seeds.show_seeds": _seeds,
    "drill.drill": _drills,
    "what_if.show_what_if": _what_if,
    "rewards.run_cases": _cases,
    "rewards.probe_rewards": _probe,
    "score.score": _score,
}
"""Command and how each of the things it judges ends, as its words."""
ELSEWHERE = {
    "check.check", "data._figures", "rewards.baseline",  # above
    "config._diff", "doctor.doctor", "series._told", "compare.compare", "race._told",
}  # fmt: skip
"""Functions whose exit code 1 a test of their own sees."""


class _Lab:
    """A lab that calls no function."""

    functions = ()

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s

    def __enter__(self) -> _Lab:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is to be closed."""

    def load(self, config: Any) -> tuple[Any, ...]:
        return ()


@pytest.mark.parametrize("command", JUDGES)
@pytest.mark.parametrize("bad", [(False,), (True,), (False, False), (True, False), (False, True)])
def test_one_bad_verdict_of_several_is_exit_1(
    command: str, bad: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (of_what_if, of_baseline, of_score):
        monkeypatch.setattr(module, "Lab", _Lab)
    words = JUDGES[command](bad, monkeypatch)
    assert main(words) == int(any(bad))


def test_no_command_that_judges_is_without_such_a_row() -> None:
    """Every function of the command line that returns 1 on a condition."""
    found = set()
    for file in Path(of_score.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            chosen = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
            ends = [end for one in chosen if isinstance(one, ast.IfExp) for end in (one.body, one.orelse)]
            if any(isinstance(end, ast.Name) and end.id == "FAILED" for end in ends):
                found.add(f"{file.stem}.{function.name}")
    assert found == {*JUDGES, *ELSEWHERE}


@pytest.mark.parametrize(("error", "code"), [(DifferentError("not kept"), 1), (MergeError("no room"), 2)])
def test_a_merge_that_answers_differently_is_a_verdict_and_another_error_is_none(
    error: MergeError, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(of_merge, "merged_model", fail)
    assert main(["merge", str(DEMO_MODEL), str(tmp_path / "new")]) == code
