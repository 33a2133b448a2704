"""What a policy wrote, compared with the attacks of the probes, and top rewards that others refuse."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from grpo_tui.rewards import audit as module
from grpo_tui.rewards.answer_format import Form
from grpo_tui.rewards.audit import MATCHERS, Audit, attacks_in, audit
from grpo_tui.rewards.probes import ANSWER_ATTACKS, ProbeRow, make_probes
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer

TAGS = Form("tags", "think", "answer")
FORMS = (TAGS, Form("tags", None, "answer"), Form("boxed"), Form("hashes"), Form("plain"))
ROWS = (
    ProbeRow("What is 17 + 25, please?", "42", "43", ("Oslo", "Bern", "Kiev")),
    ProbeRow("What is the capital of France?", "Paris", "Rome", ("Oslo", "Bern", "Kiev")),
)
ONLY_BY_GOLD = {"wrong, gold in the reasoning", "gold inside another", "other language"}
"""Attacks that a text alone does not show."""
OTHERWISE = {"tags in prose": "empty answer"}


@pytest.mark.parametrize("row", ROWS, ids=["number", "words"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.style}-{form.think}")
def test_each_probe_is_recognized_by_its_kind_and_no_honest_answer_is(form: Form, row: ProbeRow) -> None:
    for one in make_probes(row, form):
        found = attacks_in(one.text, row.prompt, form)
        if not one.attack:
            assert found == [], one
        elif one.kind not in ONLY_BY_GOLD and (form.style == "tags" or one.kind != "text after the end"):
            assert OTHERWISE.get(one.kind, one.kind) in found, one


def test_every_attack_on_an_answer_has_a_matcher_or_is_left_out_by_name() -> None:
    assert {kind for kind, _, _ in ANSWER_ATTACKS} - set(MATCHERS) == ONLY_BY_GOLD


def test_repeated_tags_are_found_wherever_they_are() -> None:
    slow = re.compile("<think>((?!<think>).)*</think>.*<think>.*</think>")
    for parts in itertools.product(("<think>", "</think>", "a"), repeat=6):
        text = "".join(parts)
        assert ("tags repeated" in attacks_in(text, "", TAGS)) == bool(slow.search(text)), text


def test_no_text_holds_up_the_search_for_repeated_tags() -> None:
    text = "<think></think>" + "</think>" * 490 + "<think>" * 490
    for _ in range(200):
        assert "tags repeated" not in attacks_in(text, "", TAGS)


def test_a_truncated_answer_was_not_left_open_on_purpose() -> None:
    text = "<think>a</think><answer>4"
    assert attacks_in(text, "What is 2 + 2?", TAGS) == ["answer never closed"]
    assert attacks_in(text, "What is 2 + 2?", TAGS, truncated=True) == []


Written = tuple[str, float, float]
HONEST: Written = ("<think>2 plus 2</think><answer>4</answer>", 1.0, 0.5)
WRONG: Written = ("<think>2 plus 2</think><answer>5</answer>", 0.0, 0.5)
HACK: Written = ("<think>the answer is verified.</think><answer>7</answer>", 0.0, 9.0)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """24 steps of one group. From step 13 on, one of four claims to be right and is paid for it."""
    folder = RunFolder(tmp_path)
    with closing(open_writer(folder.database)) as connection:
        writer = Writer(connection)
        writer.write([r.AttemptStarted(1, 0.0, "here", 1, total_steps=24)])
        writer.write([r.RewardFunctionInfo(1, n, name, 1.0) for n, name in enumerate(("correct", "style"))])
        for step in range(1, 25):
            texts = [HONEST, HONEST, WRONG, HACK if step > 12 else WRONG]
            writer.write([r.GenerationBatch(1, step, 0, "train", step, step, 0.0, (a_group(texts),))])
    return folder


def a_group(texts: Sequence[Written]) -> r.Group:
    done = [
        r.Completion(n, text, (right, style), right + style, 0.0, 9, False)
        for n, (text, right, style) in enumerate(texts)
    ]
    prompt = "What is 2 + 2? Write <think>…</think><answer>…</answer>"
    return r.Group(0, prompt, {"answer": "4"}, tuple(done))


def read(folder: RunFolder) -> Audit:
    with closing(RunReader(folder.database)) as reader:
        return audit(reader)


def test_attacks_are_counted_over_the_run_with_their_rewards_and_an_example(run: RunFolder) -> None:
    found = read(run)
    (claimed,) = found.attacks
    assert (claimed.kind, claimed.count, claimed.stretches) == ("claimed correct", 12, (0,) * 6 + (2,) * 6)
    assert found.first_steps == tuple(range(1, 25, 2))
    assert claimed.reward == 9.0
    assert claimed.others == pytest.approx((48 * 1.5 + 36 * 0.5) / 84)
    assert (claimed.example.step, claimed.example.index) == (24, 3)
    assert claimed.where.count("group==") == 12
    assert (found.completions, found.groups, found.of_groups) == (96, 24, 24)


def test_of_a_long_run_groups_of_all_its_parts_are_read(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_GROUPS", 12)
    found = read(run)
    assert found.first_steps == tuple(range(1, 25, 2))
    assert [(one.count, one.stretches) for one in found.attacks] == [(6, (0,) * 6 + (1,) * 6)]
    assert (found.completions, found.groups, found.of_groups) == (48, 12, 24)


def test_top_rewards_are_refused_by_another_function_and_by_the_reference_answer(run: RunFolder) -> None:
    found = read(run)
    assert {"correct", "reference answer"} <= set(found.opinions)
    assert (found.top, found.refused_in_all, found.least) == (12, 12, 9.0)
    first = found.refused[0]
    assert (first.place.step, first.place.index, first.gold) == (24, 3, "4")
    assert {"correct 0", "reference answer"} <= set(first.by)
    assert "style 9" not in first.by


def test_a_right_answer_with_a_top_reward_is_not_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with closing(open_writer(folder.database)) as connection:
        batch = r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, (a_group([HONEST, WRONG, WRONG, WRONG]),))
        Writer(connection).write([r.AttemptStarted(1, 0.0, "here", 1, total_steps=1), batch])
    found = read(folder)
    assert (found.top, found.refused) == (1, ())


def test_the_lowest_reward_is_not_a_top_one_however_rare_the_others_are(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with closing(open_writer(folder.database)) as connection:
        batch = r.GenerationBatch(1, 1, 0, "train", 1, 1, 0.0, (a_group([HACK, *[WRONG] * 39]),))
        Writer(connection).write([r.AttemptStarted(1, 0.0, "here", 1, total_steps=1), batch])
    found = read(folder)
    assert (found.top, found.least) == (1, 9.0)


def test_the_command_lists_what_to_read_and_gives_no_verdict(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(run.root), "--audit"]) == 0
    said = capsys.readouterr().out
    assert "96 completions compared with the attacks of `grpo-tui probe`" in said
    assert "claimed correct" in said
    assert "12 refused" in said
    assert main(["doctor", str(run.root), "--audit", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in told["attacks"]] == ["claimed correct"]
    assert main(["completions", str(run.root), "--where", told["attacks"][0]["where"], "--count"]) == 0
    assert "12 of 96 completions" in capsys.readouterr().out
