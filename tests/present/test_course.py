"""How a run changes over its steps, against the same figures computed one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean

import pytest

from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from grpo_tui.core.statistics import kind_of_group, repeated_share
from grpo_tui.present.course import HEIGHT, course, course_lines, probe_course, probe_lines, visit_lines
from grpo_tui.store.connection import open_writer
from grpo_tui.store.importers.formats import advantages
from grpo_tui.store.read_series import total_range
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer
from tests.ui.recorded_run import FUNCTIONS, GROUPS, RecordedRun

WEIGHTS = [weight for _, weight in FUNCTIONS]
NAMES = [name for name, _ in FUNCTIONS]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedRun]:
    made = RecordedRun(tmp_path_factory.mktemp("course"))
    made.advance(30)
    yield made
    made.close()


def said(lines: Iterable[Iterable[tuple[str, str]]]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


@pytest.fixture
def reader(run: RecordedRun) -> Iterator[RunReader]:
    opened = RunReader(run.folder.database)
    yield opened
    opened.close()


def test_every_stretch_tells_what_its_groups_are(reader: RunReader) -> None:
    stretches = course(reader, WEIGHTS, stretches=100)
    totals = total_range(reader)
    assert [s.first_step for s in stretches] == list(range(1, 31))
    for stretch in stretches:
        groups = reader.groups(first_step=stretch.first_step, last_step=stretch.last_step)
        kinds = [kind_of_group([c.total for c in g.completions], totals, g.signal) for g in groups]
        assert stretch.right == pytest.approx(kinds.count("all right") / GROUPS)
        assert stretch.wrong == pytest.approx(kinds.count("all wrong") / GROUPS)
        assert stretch.mixed == pytest.approx(kinds.count("mixed") / GROUPS)
        done = [c for g in groups for c in g.completions]
        assert stretch.looked_at == GROUPS
        texts = [[c.text for c in g.completions] for g in groups]
        assert stretch.distinct == pytest.approx(fmean(len(set(each)) / len(each) for each in texts))
        assert stretch.repeated == pytest.approx(fmean(repeated_share(c.text) for c in done))
        assert stretch.better_tokens == pytest.approx(fmean(c.tokens for c in done if c.advantage > 0))
        assert stretch.worse_tokens == pytest.approx(fmean(c.tokens for c in done if c.advantage < 0))
        assert sum(share or 0.0 for share in stretch.shares) == pytest.approx(1.0)


def test_kinds_of_groups_are_told_apart_step_by_step(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    kinds = {"all right": (3.0, 3.0), "all wrong": (0.0, 0.0), "mixed": (0.0, 3.0), "flat": (1.0, 1.0)}
    steps = (("all right", "all wrong", "mixed", "flat"), ("all right", "all right", "mixed", "mixed"))
    for step, names in enumerate(steps, 1):
        groups = []
        for place, name in enumerate(names):
            values = zip(kinds[name], advantages(kinds[name], 1e-4), strict=True)
            done = tuple(r.Completion(i, "x", (t,), t, a, 3, False) for i, (t, a) in enumerate(values))
            groups.append(r.Group(place, name, {}, done))
        writer.write([r.GenerationBatch(1, step, 0, "train", step, step, float(step), tuple(groups))])
    writer.close()
    reader = RunReader(tmp_path / "run.db")
    stretches = course(reader, [1.0])
    reader.close()
    found = [(s.right, s.wrong, s.flat, s.mixed) for s in stretches]
    assert found == [(0.25, 0.25, 0.25, 0.25), (0.5, 0.0, 0.0, 0.5)]
    bars = [said([line])[0][7:] for line in course_lines(stretches, ["x"], 80)[1 : 1 + HEIGHT]]
    assert ["".join(bar[at] for bar in bars) for at in (0, 3)] == ["▲▲░░··▼▼", "▲▲▲▲░░░░"]


def test_a_long_run_is_looked_through_in_few_stretches_and_can_be_given_up(reader: RunReader) -> None:
    few = course(reader, WEIGHTS, stretches=5)
    assert len(few) <= 6
    assert few[-1].last_step == 30
    assert course(reader, WEIGHTS, given_up=lambda: True) == []


def test_columns_are_full_and_lines_fit(reader: RunReader) -> None:
    stretches = course(reader, WEIGHTS)
    for width in (60, 78, 118):
        lines = course_lines(stretches, NAMES, width)
        assert all(len("".join(text for text, _ in line)) <= width for line in lines)
        bars = lines[1 : 1 + HEIGHT]
        assert len({len("".join(text for text, _ in line)) for line in bars}) == 1
    assert "No training group" in course_lines([], NAMES, 80)[0][0][0]


def test_a_prompt_is_followed_through_its_visits(reader: RunReader) -> None:
    groups = reader.groups(limit=1000)
    by_prompt: dict[str, list[int]] = {}
    for group in groups:
        by_prompt.setdefault(group.prompt_key, []).append(group.id)
    key, ids = max(by_prompt.items(), key=lambda item: len(item[1]))
    visits = reader.visits(key)
    assert [visit.group for visit in visits] == ids
    best = max(reader.groups_by_id([ids[0]])[0].completions, key=lambda c: (c.total, -c.index))
    assert (visits[0].best, visits[0].best_total) == (best.text, best.total)
    lines = said(visit_lines(visits, ids[0], 80)[1:])
    assert [line.startswith("  ❙") for line in lines] == [group == ids[0] for group in reversed(ids)]
    assert not any(line.endswith(" train") for line in lines)
    assert len(reader.visits(key, limit=1)) == 1


def test_steps_before_and_after(reader: RunReader) -> None:
    first, second, last = (reader.groups(first_step=n, last_step=n)[0].id for n in (1, 2, 30))
    assert reader.groups_in_turn(first + 1) == (None, second)
    assert reader.groups_in_turn(second) == (first, second + GROUPS)
    assert reader.groups_in_turn(last)[1] is None
    assert reader.groups_in_turn(99_999) == (None, None)


def test_probe_prompts_are_followed_from_before_training_on(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path)
    for number, step in enumerate((0, 50, 100)):
        done = tuple(
            r.Completion(i, "x", (1.0 * number, None, 0.5), 2.0 * number, 0.0, 3, i == 0) for i in range(4)
        )
        group = r.Group(0, "held", {}, done)
        run.write(r.GenerationBatch(1, 900 + number, 0, "probe", step, step, run.at(step), (group,)))
    reader = RunReader(run.folder.database)
    steps = probe_course(reader, 3)
    assert [(p.step, p.answered, p.total, p.truncated) for p in steps] == [
        (0, 4, 0.0, 0.25), (50, 4, 2.0, 0.25), (100, 4, 4.0, 0.25),
    ]  # fmt: skip
    assert steps[2].rewards == (2.0, None, 0.5)
    assert [p.step for p in probe_course(reader, 3, most=2)] == [0, 100]
    text = "\n".join("".join(part for part, _ in line) for line in probe_lines(steps, NAMES, 80))
    assert "4 answers at each of 3 steps, 0 to 100" in text
    visits = reader.visits(reader.groups(mode="probe")[0].prompt_key)
    assert [line[4:11].strip() for line in said(visit_lines(visits, 0, 80)[1:])] == ["100", "50", "0"]
    assert all(line.endswith("  x probe") for line in said(visit_lines(visits, 0, 80)[1:]))
    reader.close()
    run.close()


def test_the_command_says_the_same(run: RecordedRun, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(run.folder.root)
    assert main(["course", root, "--json", "--stretches", "3"]) == 0
    found = json.loads(capsys.readouterr().out)["stretches"]
    assert found[0]["shares"].keys() == set(NAMES)
    assert main(["course", root]) == 0
    assert "different texts in a group" in capsys.readouterr().out
    assert main(["course", root, "--prompt", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["visits"][0]["step"] >= 1
    assert main(["course", root, "--prompt", "99999"]) == 2
    assert "there is no group 99999" in capsys.readouterr().err
    assert main(["course", str(Path(root) / "none")]) == 2
