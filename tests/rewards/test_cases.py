"""A cases file: what it may say, what does not hold, and what is added to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.rewards.cases import TOLERANCE, CaseFileError, add_case, judge_cases, keep_case, read_cases
from grpo_tui.rewards.score_report import Failure
from grpo_tui.rewards.scoring import config_of_functions
from tests.rewards.reports import made_report, samples

TEXT = """\
# what must stay so
rewards: [rewards.py:correct, think_format_reward]
cases:
  - name: right
    prompt: 2+2?
    completion: <answer>4</answer>   # as asked
    columns: {answer: "4"}
    tags: [hard, odd]
    expect: {correct: 1.0, total: {at_least: 1}}
  - name: wrong
    completion: <answer>5</answer>
    expect: {correct: 0}
    below: right
  - name: no gold
    completion: x
    expect: {correct: null}
    below: {right: correct}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cases.yaml"
    path.write_text(TEXT)
    (tmp_path / "rewards.py").write_text("")
    return path


def test_a_file_is_read_with_its_rewards_beside_it(file: Path) -> None:
    read = read_cases(file)
    assert read.rewards == (f"{file.parent / 'rewards.py'}:correct", "think_format_reward")
    assert [(case.name, case.line) for case in read.cases] == [("right", 4), ("wrong", 10), ("no gold", 14)]
    assert [case.sample.tags for case in read.cases] == [("hard", "odd"), (), ()]
    assert read.cases[0].sample.columns == {"answer": "4"}


def test_rewards_are_looked_for_beside_the_file_or_in_the_home_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine.py").write_text("")
    (home / "mine.yaml").write_text("")
    monkeypatch.setenv("HOME", str(home))
    for source, found in (
        ("~/mine.py:correct", f"{home}/mine.py:correct"),
        ("~/mine.yaml", f"{home}/mine.yaml"),
        ("~/none.py:correct", "~/none.py:correct"),
        ("rewards.py:correct", f"{tmp_path}/rewards.py:correct"),
    ):
        file.write_text(TEXT.replace("rewards.py:correct", source, 1))
        assert read_cases(file).rewards[0] == found


@pytest.mark.parametrize(("order", "holds"), [("above", (0.0, 1.0)), ("below", (1.0, 0.0))])
def test_a_case_that_only_names_others_is_one(order: str, holds: tuple[float, float], tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    others = f"expect: {{}}, {order}: b"
    cases = f"  - {{name: a, completion: x, {others}}}\n  - {{name: b, completion: y, expect: {{f: 1}}}}"
    file.write_text(f"rewards: [rewards.py:f]\ncases:\n{cases}\n")
    read = read_cases(file)
    b, a = holds
    assert judge_cases(read, {"f": [0.0, 1.0]}, [a, b]) == []
    (missed,) = judge_cases(read, {"f": [0.0, 1.0]}, [b, a])
    assert (missed.case, missed.function, missed.wanted) == ("a", "total", f"{order} “b”")
    file.write_text(file.read_text().replace(f", {order}: b", ""))
    with pytest.raises(CaseFileError, match="expects nothing"):
        read_cases(file)


@pytest.mark.parametrize(
    ("rewards", "found"),
    [("", ()), ("rewards:\n", ()), ("rewards: a.py:f\n", ("a.py:f",)), ("rewards: []\n", ())],
)
def test_a_file_may_leave_its_rewards_to_the_command(
    rewards: str, found: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(f"{rewards}cases:\n  - {{name: a, completion: x, expect: {{f: 1}}}}\n")
    assert tuple(one.removeprefix(f"{tmp_path}/") for one in read_cases(file).rewards) == found


def test_what_holds_is_silent(file: Path) -> None:
    read = read_cases(file)
    missed = judge_cases(read, {"correct": [1.0, 0.0, None]}, [1.5, 0.5, None])
    assert [(miss.case, miss.function) for miss in missed] == [("no gold", "correct")]


def test_scores_within_the_tolerance_are_the_same_for_values_bounds_and_orders(file: Path) -> None:
    read = read_cases(file)
    near, far = 0.9 * TOLERANCE, 1.1 * TOLERANCE

    def missed(right: float, wrong: float, total: float) -> list[tuple[str, str]]:
        found = judge_cases(read, {"correct": [right, wrong, None]}, [total, 0.0, None])
        return [(miss.case, miss.function) for miss in found if miss.case != "no gold"]

    assert missed(1 - near, near, 1 - near) == missed(1 + near, -near, 5.0) == []
    assert missed(1 + far, -far, 1 - far) == [("right", "correct"), ("right", "total"), ("wrong", "correct")]
    file.write_text(
        TEXT.replace("below: right", "above: right").replace("cases:", "tolerance: 0.5\ncases:", 1)
    )
    read = read_cases(file)
    assert missed(1.4, 0.4, 0.6) == [("wrong", "total")]
    assert not any(
        m.function == "total" for m in judge_cases(read, {"correct": [1, 0, None]}, [1, 1.6, None])
    )
    assert judge_cases(read, {"correct": [1, 0, None]}, [1, 1.4, None])[0].function == "total"


def test_what_does_not_hold_is_told_with_both_sides(file: Path) -> None:
    missed = judge_cases(read_cases(file), {"correct": [0.0, 0.0, 1.0]}, [0.0, 0.0, 0.0])
    assert [(m.case, m.function, m.wanted, m.got) for m in missed] == [
        ("right", "correct", "1", "0"),
        ("right", "total", "at least 1", "0"),
        ("wrong", "total", "below “right”", "0, and “right” 0"),
        ("no gold", "correct", "none", "1"),
        ("no gold", "correct", "below “right”", "1, and “right” 0"),
    ]
    assert missed[0].line == 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("completion: x", "complation: x", r":14: there is no key complation; did you mean completion"),
        ("completion: x", "completion: 4", r':14: completion is a text .*, not 4; quote it: completion: "4"'),
        ("completion: x", "completion: [x]", r":14: completion is a text or a list of"),
        ("below: right", "below: wrong", r":10: “wrong” is listed above or below itself"),
        ("below: right", "below: rihgt", r":10: no case is called “rihgt”; did you mean “right”"),
        ("name: wrong", "name: right", r":10: two cases are called “right”"),
        ("correct: 0}", "correct: [0]}", r":10: correct must be a number"),
        ("{at_least: 1}", "{over: 1}", r":4: over: bounds are"),
        ("cases:", "tests:", r"no key tests"),
        ("    completion: x\n", "", r":14: the case has no completion"),
        ("[rewards.py:correct, think_format_reward]", "{a: 1}", r":2: rewards must be a config or a list"),
    ],
)
def test_a_fault_is_told_with_its_line(file: Path, old: str, new: str, said: str) -> None:
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(CaseFileError, match=said):
        read_cases(file)


def test_a_function_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(CaseFileError, match=r":4: no function is called correct; did you mean corect"):
        judge_cases(read_cases(file), {"corect": [1.0, 0.0, None]}, [1.0, 0.0, None])


def test_a_case_is_added_and_the_rest_stays_as_it_was(file: Path) -> None:
    add_case(file, {"name": "new", "completion": "a: b\nc", "expect": {"correct": 0.0}})
    assert file.read_text().startswith(TEXT)
    assert read_cases(file).cases[-1].sample.completion == "a: b\nc"
    with pytest.raises(CaseFileError, match="already"):
        add_case(file, {"name": "new", "completion": "x", "expect": {"correct": 0.0}})


def test_a_new_file_names_its_rewards(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("")
    add_case(tmp_path / "new.yaml", {"name": "a", "completion": "b", "expect": {"total": 1}}, "run.yaml")
    assert read_cases(tmp_path / "new.yaml").rewards == (str(tmp_path / "run.yaml"),)


@pytest.mark.parametrize(("written", "wanted"), [("0", 0.0), ("0.0", 0.0), ("{total: 0}", 0.0), ("1", 1.0)])
def test_a_bare_number_is_the_total_that_is_expected_nothing_among_them(
    tmp_path: Path, written: str, wanted: float
) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(f"rewards: [rewards.py:correct]\ncases:\n  - {{completion: x, expect: {written}}}\n")
    (case,) = read_cases(path).cases
    assert case.expect["total"].holds(wanted, 1e-6)
    assert not case.expect["total"].holds(wanted + 0.5, 1e-6)


def test_a_kept_sample_expects_what_it_got_with_the_weights_of_the_config(tmp_path: Path) -> None:
    config = replace(config_of_functions(["rewards.py:correct"]), path=tmp_path / "my.yaml")
    batch = [replace(sample, tags=("hard",)) for sample in samples()]
    path, name = keep_case(config, made_report(batch), 2)
    assert (path, name) == (tmp_path / "my.cases.yaml", "What is 0 + 7?")
    assert keep_case(config, made_report(batch), 2)[1] == "What is 0 + 7? 2"
    assert keep_case(config, made_report(batch, weights=(1.0, 1.0, 1.0)), 0)[1] == "What is 0 + 7? (gold)"
    (tmp_path / "my.yaml").touch()
    kept = read_cases(path)
    assert kept.rewards == (str(tmp_path / "my.yaml"),)
    plain, _, gold = kept.cases
    assert (plain.sample.prompt, plain.sample.text) == (batch[2].prompt, batch[2].text)
    assert (plain.sample.columns, plain.sample.tags) == (batch[2].columns, ("hard",))
    assert {key: str(value) for key, value in plain.expect.items()} == {
        "correctness": "0", "format": "0", "incremental": "none", "total": "0",
    }  # fmt: skip
    assert set(gold.expect) == {"correctness", "format", "incremental"}, "the config has other weights"
    failed = made_report(failure=Failure("died", "", "it ended"))
    with pytest.raises(CaseFileError, match="correctness gave no scores"):
        keep_case(config, failed, 0)
    assert len(read_cases(path).cases) == 3


def test_no_case_is_added_beside_a_config_of_the_program_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpo_tui.config.presets._PACKAGE", tmp_path)
    config = replace(config_of_functions(["rewards.py:correct"]), path=tmp_path / "presets" / "qlora.yaml")
    (tmp_path / "presets").mkdir()
    with pytest.raises(CaseFileError, match=r"new config my\.yaml --preset qlora` copies it"):
        keep_case(config, made_report(), 0)
    assert not list((tmp_path / "presets").iterdir())


def test_a_missing_file_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(CaseFileError) as error:
        read_cases(tmp_path / "none.yaml")
    assert str(error.value) == f"{tmp_path / 'none.yaml'}: no such file"
