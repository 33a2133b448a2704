"""`grpo-tui metrics` says every metric of a run, exports all points, and explains what a metric means."""

from __future__ import annotations

import csv
import io
import json
import math
from contextlib import closing
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from grpo_tui.present.metric_rows import figures, in_groups
from grpo_tui.store.connection import open_writer
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer

ODD = "own/\x1b[31m=1+1"


def make(root: Path, steps: int, start: float = 0.0) -> Path:
    root.mkdir()
    writer = Writer(open_writer(root / "run.db"))
    for step in range(1, steps + 1):
        values = {"reward": start + step / 10, "loss": 0.0, "num_tokens": step * 50.0, "step_time": 0.5}
        if step == 3:
            values |= {"reward": None, ODD: math.inf}
        completions = tuple(r.Completion(i, "x", (i,), i, 0.0, 3, False) for i in (0.0, 1.0))
        group = r.Group(0, "p", {}, completions)  # type: ignore[arg-type]
        if step % 2:
            writer.write([r.GenerationBatch(1, step, 0, "train", step, step, 0.0, (group,))])
        writer.write([r.MetricRow(1, step, 1000.0 + step, values)])
    writer.close()
    return root


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("runs") / "one", 20)


def said(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    try:
        found = main(["metrics", *map(str, words)])
    except SystemExit as stop:
        found = int(stop.code or 0)
    out = capsys.readouterr()
    assert found == code, out.err
    return out.out if code == 0 else out.err


def test_the_table_has_newest_change_ends_and_curve_of_each_metric(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *rows = said(capsys, run, "--keys", "reward,loss,grpo_tui/tokens*").splitlines()
    assert head.split() == ["metric", "newest", "change", "lowest", "highest", "curve"]
    reward, loss, tokens = rows
    assert reward.split()[:5] == ["reward", "2.00", "+1.80", "0.10", "2.00"]
    assert reward.endswith("1 of 20 rows no number")
    assert loss.split()[:5] == ["loss", "0.00", "0.00", "0.00", "0.00"]
    assert tokens.split()[:2] == ["grpo_tui/tokens_per_second", "100.0"]
    assert "▁" in reward
    assert "\x1b" not in said(capsys, run)


def test_the_reward_and_its_functions_come_before_the_loss() -> None:
    keys = ["loss", "num_tokens", "rewards/format/mean", "reward", "own/figure"]
    assert in_groups(keys) == ["rewards/format/mean", "reward", "num_tokens", "loss", "own/figure"]


def test_the_table_is_of_the_steps_asked_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (_, row) = said(capsys, run, "--keys", "reward", "--steps", "5:14").splitlines()
    assert row.split()[1:5] == ["1.40", "+0.90", "0.50", "1.40"]
    assert said(capsys, run, "--steps", "90:").strip() == "no metric was logged in these steps"


def test_the_change_is_between_the_values_that_are_known(tmp_path: Path) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    for step in range(1, 401):
        # Of the last 40 steps 11 are known: ten times 0.0 in one stretch, and 11.0 alone in another.
        value = 11.0 if step == 385 else None if step > 370 else 0.0
        writer.write([r.MetricRow(1, step, 0.0, {"own": value, "none": None if step > 300 else 1.0})])
    writer.close()
    with closing(RunReader(tmp_path / "run.db")) as reader:
        found, none = figures(reader, "own"), figures(reader, "none")
        short = figures(reader, "own", 1, 9)
    assert found is not None
    assert (found.change, found.missing, found.count) == (pytest.approx(1.0), 29, 400)
    assert (none and none.change, short and short.change) == (None, None)


def test_several_runs_get_a_column(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = make(tmp_path / "two", 5, start=7.0)
    lines = said(capsys, run, other, "--keys", "rew*").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["reward", "one", "2.00"],
        ["reward", "two", "7.50"],
    ]
    rows = list(csv.DictReader(io.StringIO(said(capsys, run, other, "--format", "csv"))))
    assert [row["run"] for row in rows] == ["one"] * 20 + ["two"] * 5


def test_csv_holds_every_row_and_says_what_is_no_number(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, run, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 20
    assert "\x1b" not in text
    odd = next(key for key in rows[0] if key.startswith("own/"))
    assert list(rows[0]) == ["step", "at", "reward", "loss", "num_tokens", "step_time", odd]
    assert (rows[2]["reward"], rows[2][odd], rows[3][odd]) == ("", "inf", "")
    assert [float(row["num_tokens"]) for row in rows] == [step * 50.0 for step in range(1, 21)]
    assert (rows[0]["step"], rows[0]["at"]) == ("1", "1001.000")


def test_jsonl_is_json_and_thinned_by_steps(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, run, "--format", "jsonl", "--every", "3", "--steps", "3:9")
    rows = [json.loads(line, parse_constant=lambda word: pytest.fail(word)) for line in text.splitlines()]
    assert [row["step"] for row in rows] == [3, 6, 9]
    assert rows[0]["reward"] is None
    assert rows[0][ODD] is None
    assert ODD not in rows[1]


def test_what_is_computed_here_is_exported_when_it_is_named(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (run, "--format", "jsonl", "--keys", "reward,grpo_tui/spread,grpo_tui/tokens_per_second")
    rows = [json.loads(line) for line in said(capsys, *words).splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 21))
    assert [row["step"] for row in rows if "grpo_tui/spread" in row] == list(range(1, 21, 2))
    assert rows[0]["grpo_tui/spread"] == pytest.approx(math.sqrt(0.5))
    assert "grpo_tui/tokens_per_second" not in rows[0]
    assert rows[1]["grpo_tui/tokens_per_second"] == pytest.approx(100.0)


def test_a_step_that_was_skipped_is_a_metric_of_the_runs_that_have_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = make(tmp_path / "one", 4)
    assert r.SKIPPED not in said(capsys, run)
    writer = Writer(open_writer(run / "run.db"))
    writer.write([r.MetricRow(1, 4, 1.0, {"grad_norm": math.nan, r.SKIPPED: 1.0})])
    writer.close()
    assert said(capsys, run).count(r.SKIPPED) == 1
    assert said(capsys, run, "--keys", r.SKIPPED, "--format", "csv").endswith("1.0\n")


def test_a_group_at_a_step_that_logged_no_row_has_a_row_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = make(tmp_path / "seldom", 2)
    writer = Writer(open_writer(root / "run.db"))
    completions = (r.Completion(0, "x", (1.0,), 1.0, 0.0, 3, False),)
    groups = (r.Group(0, "p", {}, completions),)
    for step in (4, 5, 8, 9, 10):  # the first two come before a logged row, the others after the last one
        writer.write([r.GenerationBatch(1, step, 0, "train", step, step, 5.0, groups)])
    writer.write([r.MetricRow(1, 6, 1006.0, {"loss": 0.5})])
    writer.close()

    def exported(*words: str) -> list[tuple[int, float | None]]:
        text = said(capsys, root, "--format", "csv", "--keys", "loss,grpo_tui/flat_share", *words)
        rows = csv.DictReader(io.StringIO(text))
        return [(int(row["step"]), float(row["loss"]) if row["loss"] else None) for row in rows]

    assert exported() == [
        (1, 0.0),
        (2, 0.0),
        (4, None),
        (5, None),
        (6, 0.5),
        (8, None),
        (9, None),
        (10, None),
    ]
    assert exported("--every", "2", "--steps", "2:9") == [(2, 0.0), (4, None), (6, 0.5), (8, None)]


def test_a_metric_is_explained_with_and_without_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--explain", "loss")
    assert "Not a measure of progress" in text
    assert "Healthy:" in text
    with_run = said(capsys, run, "--explain", "reward")
    assert "shows progress" in with_run
    assert "one: 2.00 at step 20, 0.10 to 2.00" in with_run
    assert said(capsys, "--explain", "clip_ratio/*").count("Healthy:") == 5
    assert "fmt gave" in said(capsys, "--explain", "rewards/fmt/mean").replace("\n  ", " ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a run"),
        (("--explain", "entrpy"), "unknown metric entrpy. Did you mean entropy"),
        (("{run}", "--keys", "rewrd"), "unknown metric rewrd. Did you mean reward"),
        (("{run}", "--every", "2"), "--every only applies"),
        (("{run}", "--steps", "9:3"), "is not a range of steps"),
        (("{run}", "--steps", "x"), "is not a range of steps"),
        (("{run}/none",), "no such folder"),
    ],
)
def test_wrong_words_are_answered_with_what_is_right(
    run: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in said(capsys, *[word.format(run=run) for word in words], code=2)


def test_a_run_without_a_row_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = make(tmp_path / "new", 0)
    assert said(capsys, root).strip() == "no metric was logged yet"
    assert said(capsys, root, "--keys", "reward", "--format", "csv").strip() == "step,at"
