"""`grpo-tui completions`: what it prints, in each format, on a run and on somebody else's logs."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import main
from grpo_tui.core import records as r
from grpo_tui.present.rollout_export import _inline
from grpo_tui.store.connection import open_writer
from grpo_tui.store.saved_views import SavedView, SavedViews
from grpo_tui.store.writer import Writer

HOSTILE = '=1+1\x1b]52;c;aGk=\x07,"q"\n```\n````text [bold]\x9b é\u202e'
KEYS = [
    "step", "mode", "group", "index", "prompt", "completion", "rewards", "reward", "advantage", "tokens",
    "truncated",
]  # fmt: skip


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPO_TUI_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten steps of two groups; a wrong word appears from step 6."""
    root = tmp_path_factory.mktemp("run")
    writer = Writer(open_writer(root / "run.db"))
    writer.write([r.AttemptStarted(1, 0.0, "here", 2**22 - 3)])
    writer.write([r.RewardFunctionInfo(1, i, name, 1.0) for i, name in enumerate(("format", "my reward"))])
    for step in range(1, 11):
        groups = []
        for number in range(2):
            completions = tuple(
                r.Completion(
                    i,
                    HOSTILE if (step, i) == (3, 1) else f"{step} {number} {i}{' oops' if step > 5 else ''}",
                    (float(i), None if i else float("nan")),
                    float(i), i - 0.5, 10 * step + i, i == 1, {"x": step} if i else {},
                )
                for i in range(2)
            )  # fmt: skip
            prompt: Any = f"say {step}" if number else [{"role": "user", "content": f"say `{step}`"}]
            groups.append(r.Group(number, prompt, {"answer": str(step)}, completions))
        writer.write([r.GenerationBatch(1, step, 0, "train", step, step, float(step), tuple(groups))])
    writer.close()
    return root


def printed(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert main(["completions", *map(str, words)]) == code
    return capsys.readouterr().out


def rows(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(capsys, *words).splitlines()]


def test_steps_done_again_are_left_out_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    for attempt, resumed_from in ((1, None), (2, 1)):
        writer.write([r.AttemptStarted(attempt, float(attempt), "here", 2**22 - 3, resumed_from)])
        writer.write([r.RewardFunctionInfo(attempt, 0, "format", 1.0)])
        for step in range((resumed_from or 0) + 1, 3):
            completions = (r.Completion(0, f"{attempt} {step}", (1.0,), 1.0, 0.0, 3, False),)
            group = r.Group(0, "say", {}, completions)
            writer.write([r.GenerationBatch(attempt, step, 0, "train", step, step, float(step), (group,))])
    writer.close()
    assert [row["completion"] for row in rows(capsys, tmp_path, "--sort", "step")] == ["1 1", "2 2"]
    every = rows(capsys, tmp_path, "--sort", "step", "--superseded")
    assert {row["completion"] for row in every} == {"1 1", "1 2", "2 2"}
    assert printed(capsys, tmp_path, "--superseded", "--count") != printed(capsys, tmp_path, "--count")


def test_rows_have_exactly_the_documented_keys(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, run)
    assert len(found) == 40
    assert list(found[0]) == KEYS
    assert found[1] == {
        "step": 1, "mode": "train", "group": 1, "index": 1,
        "prompt": [{"role": "user", "content": "say `1`"}],
        "completion": "1 0 1", "rewards": {"format": 1.0, "my reward": None}, "reward": 1.0, "advantage": 0.5,
        "tokens": 11, "truncated": True,
    }  # fmt: skip
    assert found[0]["rewards"] == {"format": 0.0, "my reward": None}, "standard JSON has no NaN"
    more = rows(capsys, run, "--all", "--limit", 1)[0]
    assert list(more)[: len(KEYS)] == KEYS
    assert (more["columns"], more["attempt"], more["group_mean"]) == ({"answer": "1"}, 1, 0.5)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 40),
        (("--step", "3:4"), 8),
        (("--step", "9:"), 8),
        (("--where", "truncated and step<=2"), 4),
        (("--where", "truncated or reward<1", "--step", "2"), 4),
        (("--search", "OOPS"), 20),
        (("--regex", r"^\d 1 .*oops$", "--where", "not truncated"), 4),
        (("--where", 'rewards."my reward" is nan'), 20),
        (("--search", "nothing"), 0),
        (("--limit", "3"), 3),
    ],
)
def test_the_words_narrow_what_is_found(
    words: tuple[str, ...], count: int, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(rows(capsys, run, *words)) == count
    if "--limit" not in words:
        assert printed(capsys, run, *words, "--count").split()[0] == str(count)


def test_order_and_limit(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["tokens"] for row in rows(capsys, run, "--sort", "-tokens", "--limit", 3)] == [101, 101, 100]
    assert [row["step"] for row in rows(capsys, run, "--limit", 5)] == [1, 1, 1, 1, 2]
    assert [row["step"] for row in rows(capsys, run, "--sort", "-step,-index", "--limit", 1)] == [10]


def test_csv_comes_back_through_a_reader_of_csv(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = list(csv.DictReader(io.StringIO(printed(capsys, run, "--format", "csv", "--step", "3"))))
    assert list(table[0]) == [
        *(key for key in KEYS if key != "rewards"),
        "rewards.format",
        "rewards.my reward",
    ]
    assert [row["completion"] for row in table if row["index"] == "0"] == ["3 0 0", "3 1 0"]
    assert table[1]["completion"] == "'" + HOSTILE.translate(  # which begins as a formula does
        {0x1B: "\u241b", 0x07: "\u2407", 0x9B: "\u241b[", 0x202E: "<U+202E>"}
    )
    assert json.loads(table[0]["prompt"]) == [{"role": "user", "content": "say `3`"}]
    assert (table[0]["truncated"], table[0]["rewards.format"], table[1]["rewards.my reward"]) == (
        "false",
        "0.0",
        "",
    )
    nothing = printed(capsys, run, "--format", "csv", "--search", "nothing")
    assert nothing.startswith("step,mode,group,index,prompt,completion,reward,")


def test_markdown_fences_are_longer_than_any_in_the_text(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, run, "--format", "md", "--step", "3", "--all")
    assert text.count("### Step 3 · group") == 4
    assert "- reward 1.00: format 1.00, my reward" in text
    assert "- column answer: 3" in text
    assert "\x1b" not in text
    open_fence = ""
    bodies: list[list[str]] = []
    for line in text.splitlines():
        if not open_fence and (match := re.fullmatch(r"(`{3,})text", line)):
            open_fence = match[1]
            bodies.append([])
        elif open_fence and line == open_fence:
            open_fence = ""
        elif open_fence:
            bodies[-1].append(line)
    assert not open_fence
    assert sorted(len(body) for body in bodies) == [1, 1, 1, 1, 1, 1, 3, 3]
    assert any("````text [bold]" in line for body in bodies for line in body)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, 1.5-2", "plain, 1.5-2"),
        ("__init__", "`__init__`"),
        ("<b>", "`<b>`"),
        ("a`b", "``a`b``"),
        ("a``b`c", "```a``b`c```"),
        ("`x", "`` `x ``"),
        ("x``", "``` x`` ```"),
    ],
)
def test_a_text_within_a_line_of_markdown_has_ticks_that_it_does_not_hold(text: str, shown: str) -> None:
    assert _inline(text) == shown


def test_the_distribution_says_when_it_began(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, run, "--search", "oops", "--over-steps").splitlines()
    assert lines[0].split() == ["step", "1", "0", "of", "4", "0.0%"]
    assert lines[5].split()[:6] == ["step", "6", "4", "of", "4", "100.0%"]
    assert lines[-1] == "first found in step 6"
    assert rows(capsys, run, "--search", "oops", "--over-steps", "--format", "jsonl")[5] == {
        "first_step": 6, "last_step": 6, "hits": 4, "of": 4,
    }  # fmt: skip
    assert printed(capsys, run, "--over-steps", "--format", "csv").startswith(
        "first_step,last_step,hits,of\n1,1,4,4\n"
    )
    assert printed(capsys, run, "--search", "nothing", "--over-steps").splitlines()[-1] == "no match"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--where", "rewrd<1"), "--where, column 1: unknown field rewrd; did you mean reward?"),
        (("--where", "rewards.form==1"), "--where: unknown reward function form; there is format"),
        (("--regex", "("), "--regex: missing )"),
        (("--sort", "x"), "--sort, column 1: unknown field x"),
        (("--view", "none"), "--view: no saved view is called none. --views lists them"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: tuple[str, ...], sentence: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completions", str(run), *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("probes", [False, True])
def test_the_course_ends_with_the_probe_prompts_of_a_run_that_has_some(
    probes: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = Writer(open_writer(tmp_path / "run.db"))
    writer.write([r.RewardFunctionInfo(1, 0, "right", 1.0)])
    for step in (1, 2):
        done = tuple(r.Completion(i, "x", (float(i),), float(i), 0.0, 3, False) for i in range(step))
        for number, mode in enumerate(["train", *["probe"] * probes]):
            batch = 2 * step + number
            groups = (r.Group(0, "p", {}, done),)
            writer.write([r.GenerationBatch(1, batch, 0, mode, step, step, float(step), groups)])
    writer.close()
    assert main(["course", str(tmp_path)]) == 0
    _, told, after = capsys.readouterr().out.partition("\nprobe prompts\n")
    assert bool(told) == ("2 answers at each of 2 steps, 1 to 2" in after) == ("right " in after) == probes


def test_views_are_kept_and_used(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no saved views yet" in printed(capsys, "--views")
    printed(
        capsys, run, "--where", "truncated step>8", "--sort", "-step", "--save-view", "late cuts", "--count"
    )
    assert main(["completions", "--views"]) == 0
    assert capsys.readouterr() == ("late cuts: truncated step>8  sorted by -step\n", "")
    found = rows(capsys, run, "--view", "late cuts", "--where", "group 19..20")
    assert [(row["step"], row["truncated"]) for row in found] == [(10, True), (10, True)]
    beside = rows(capsys, run, "--view", "late cuts", "--sort", "step")
    assert (beside[0]["step"], beside[-1]["step"]) == (9, 10), "what is typed wins over the view"
    views = SavedViews(tmp_path / "config")
    assert views.named("late cuts") == SavedView("late cuts", "truncated step>8", "-step")
    assert views.remove("late cuts") == ""
    assert views.read() == ((), "")
    views.path.write_text("{", encoding="utf-8")
    assert "cannot be read" in views.read()[1]
    assert main(["completions", "--views"]) == 0
    assert capsys.readouterr().err == f"grpo-tui: {views.read()[1]}\n"
    assert "not saved" in views.save(SavedView("a", "b")), "a file that is not understood is not overwritten"
    assert views.path.read_text(encoding="utf-8") == "{"


def test_the_first_view_makes_the_folders_it_is_kept_in(tmp_path: Path) -> None:
    views = SavedViews(tmp_path / "home" / "config")
    assert views.save(SavedView("late", "step>8", "-step")) == ""
    assert views.save(SavedView("cut", "truncated")) == ""
    assert views.save(SavedView("late", "step>9")) == "", "a name is kept once"
    assert views.read() == ((SavedView("cut", "truncated"), SavedView("late", "step>9")), "")


def test_somebody_elses_logs_are_read_and_cannot_be_steered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "work" / "rollouts"
    folder.mkdir(parents=True)
    line = {"input": "p", "output": "a", "gts": "4", "score": 1.0, "step": 7}
    (folder / "7.jsonl").write_text((json.dumps(line) + "\n") * 2)
    found = rows(capsys, tmp_path / "work")
    assert [(row["step"], row["reward"], row["tokens"]) for row in found] == [(7, 1.0, None)] * 2
    assert main(["completions", str(folder), "--where", "tokens>3"]) == 2
    assert "tokens is not in these logs" in capsys.readouterr().err
    assert main(["runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "logs      step 7" in said
    assert "no runs here yet" not in said
    assert main(["runs", str(folder.parent), "--json"]) == 0
    assert [(row["state"], row["step"]) for row in json.loads(capsys.readouterr().out)] == [("logs", 7)]
    assert main(["runs", str(folder.parent), "--filter", "state:logs"]) == 0
    assert capsys.readouterr().out.startswith("no runs here yet"), "a filter asks for what logs do not say"
    assert main(["status", str(folder)]) == 0
    assert "Its files do not say whether the run has ended" in capsys.readouterr().out
    assert main(["stop", str(folder)]) == 2
    assert "not steered" in capsys.readouterr().err
    (tmp_path / "work" / "more").mkdir()
    (tmp_path / "work" / "more" / "1.jsonl").write_text(json.dumps(line) + "\n")
    assert main(["completions", str(tmp_path / "work")]) == 2
    assert (
        "several folders of logged completions are in it: more, rollouts; name one" in capsys.readouterr().err
    )
