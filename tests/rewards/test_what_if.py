"""Recorded rollouts scored again: nothing turns when nothing has changed, and what turns is told."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.core import records as r
from grpo_tui.present.what_if_lines import what_if_lines
from grpo_tui.rewards.lab import Aggregation, Lab, LabError
from grpo_tui.rewards.samples import samples_of_groups
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.rewards.what_if import IN_PART, WhatIf, _reordered, rank_correlation, what_if, what_if_of_run
from grpo_tui.store.reader import RunReader, StoredGroup
from tests.rewards.labs import write
from tests.ui.recorded_run import RecordedRun

NAMES = ("right", "short")
WEIGHTS = (2.0, 0.5)
RECORDED = dict(zip(NAMES, WEIGHTS, strict=True))
REWARDS = """
def right(completions, answer, **kwargs):
    return [float(text.strip() == gold) for text, gold in zip(completions, answer)]

def short(completions, **kwargs):
    return [1.0 if len(text) < 4 else 0.0 for text in completions]
"""
GROUPS = (("2 + 2?", "4", ("4", "5", "four", "4 ")), ("3 + 3?", "6", ("7", "8", "9", "1")))


def _completion(index: int, text: str) -> r.Completion:
    return r.Completion(index, text, (), 0.0, 0.0, 3, False)


def _stored(group: r.Group) -> StoredGroup:
    where = (0, 2, 1, 0, group.index, "train", 1, 1, 0.0)
    return StoredGroup(*where, group.prompt, "", group.columns, None, None, group.completions)


@pytest.fixture
def run(tmp_path: Path, lab: Lab) -> Iterator[RecordedRun]:
    """A run whose totals and advantages are those of REWARDS, as the trainer would have stored them."""
    made = RecordedRun(tmp_path / "run")
    write(tmp_path, REWARDS)
    functions = enumerate(zip(NAMES, WEIGHTS, strict=True))
    made.write(*[r.RewardFunctionInfo(2, i, name, weight) for i, (name, weight) in functions])
    blank = [
        r.Group(number, prompt, {"answer": gold}, tuple(_completion(*one) for one in enumerate(texts)))
        for number, (prompt, gold, texts) in enumerate(GROUPS)
    ]
    stored = [_stored(group) for group in blank]
    lab.load(config_of_functions([f"{tmp_path}/rewards.py:{name}" for name in NAMES]))
    scored = lab.score(samples_of_groups(stored), repeat_limit_s=0.0)
    found = lab.aggregate(scored, WEIGHTS, Aggregation())
    advantages = {i: a for g in found.groups for i, a in zip(g.indices, g.advantages, strict=True)}
    at = itertools.count()
    groups = []
    for group in blank:
        rows = []
        for c in group.completions:
            n = next(at)
            rewards = tuple(f.scores[n] for f in scored.functions)
            rows.append(r.Completion(c.index, c.text, rewards, found.totals[n], advantages[n], 3, False))
        groups.append(r.Group(group.index, group.prompt, group.columns, tuple(rows)))
    made.write(r.GenerationBatch(2, 1, 0, "train", 1, 1, made.at(1), tuple(groups)))
    yield made
    made.close()


def _tried(run: RecordedRun, lab: Lab, file: Path, weights: Sequence[float] = WEIGHTS) -> WhatIf:
    lab.load(config_of_functions([f"{file}:{name}" for name in NAMES]))
    reader = RunReader(run.folder.database)
    try:
        return what_if(lab, reader.groups(), weights=weights)
    finally:
        reader.close()


def test_nothing_turns_while_nothing_has_changed(run: RecordedRun, lab: Lab, tmp_path: Path) -> None:
    found = _tried(run, lab, tmp_path / "rewards.py")
    assert (found.changed, found.reordered, found.alive, found.dead) == (0, 0, 0, 0)
    assert found.correlation == pytest.approx(1.0)
    assert found.to_json()["groups"] == []
    for group in found.groups:
        assert group.advantages_now == pytest.approx(group.advantages_before, abs=1e-6)
    assert "No group changes." in what_if_lines(found, 80)[-1][0][0]


def test_probe_prompts_count_in_no_advantage(run: RecordedRun, lab: Lab, tmp_path: Path) -> None:
    reader = RunReader(run.folder.database)
    stored = reader.groups()[0]
    reader.close()
    rows = tuple(replace(c, advantage=0.0) for c in stored.completions)  # as they are recorded
    probes = r.Group(0, stored.prompt, stored.columns, rows)
    run.write(r.GenerationBatch(2, 2, 0, "probe", 1, 1, run.at(1), (probes,)))
    found = _tried(run, lab, tmp_path / "rewards.py")
    assert found.correlation == pytest.approx(1.0)
    assert found.to_json()["groups"] == []


def test_probe_prompts_are_scored_only_when_no_other_group_is_asked_for(
    run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They have no columns, so a reward that needs one fails on them, and with them on all."""
    rows = tuple(_completion(*one) for one in enumerate(("4", "5")))
    run.write(r.GenerationBatch(2, 2, 0, "probe", 1, 1, run.at(1), (r.Group(0, "2 + 2?", {}, rows),)))
    words = ["whatif", str(run.folder.root), f"{tmp_path}/rewards.py:right", "--json"]
    for more, code, completions in (
        (["--groups", "1"], 0, 4), (["--where", "tokens>0"], 0, 8), (["--where", "mode==probe"], 1, 2),
    ):  # fmt: skip
        assert main([*words, *more]) == code
        assert json.loads(capsys.readouterr().out)["completions"] == completions


def test_a_changed_reward_turns_groups_and_each_is_told(run: RecordedRun, lab: Lab, tmp_path: Path) -> None:
    write(tmp_path, REWARDS.replace("text.strip() == gold", "int(text.strip() in '57')"))
    found = _tried(run, lab, tmp_path / "rewards.py")
    right, short = found.functions
    assert (right.changed, short.changed) == (4, 0)
    first = next(g for g in found.groups if g.prompt == "2 + 2?")
    second = next(g for g in found.groups if g.prompt == "3 + 3?")
    assert first.reordered
    assert second.fate == "alive"
    assert found.groups[0] is second
    assert (found.alive, found.dead, found.reordered) == (1, 0, 1)
    assert found.correlation is not None
    assert found.correlation < 0.9


def test_weights_alone_need_no_function(run: RecordedRun, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "rewards.py").unlink()
    reader = RunReader(run.folder.database)
    groups = reader.groups()
    reader.close()
    same = what_if(lab, groups, recorded_weights=RECORDED)
    assert (same.changed, same.correlation, same.notes) == (0, pytest.approx(1.0), ())
    mute = what_if(lab, groups, weights=(-1.0, 0.5), recorded_weights=RECORDED)
    assert [turn.fate for turn in mute.groups if turn.prompt == "3 + 3?"] == [""]
    assert mute.reordered == 1
    with pytest.raises(LabError, match="3 weights for 2"):
        what_if(lab, groups, weights=(1, 1, 1), recorded_weights=RECORDED)
    with pytest.raises(LabError, match="no completions"):
        what_if(lab, [])


def test_a_function_that_fails_is_a_note_and_new_and_gone_ones_are_told(
    run: RecordedRun, lab: Lab, tmp_path: Path
) -> None:
    text = """
def right(completions, **kwargs):
    raise ValueError('no')

def extra(completions, **kwargs):
    return [1.0] * len(completions)
"""
    file = write(tmp_path, text, "other.py")
    lab.load(config_of_functions([f"{file}:right", f"{file}:extra"]))
    reader = RunReader(run.folder.database)
    found = what_if(lab, reader.groups())
    reader.close()
    assert [turn.name for turn in found.functions] == ["right", "extra", "short"]
    assert "no" in found.functions[0].failure
    assert found.functions[1].before is None
    assert found.functions[2].now is None
    assert found.notes
    text = "\n".join("".join(part for part, _ in line) for line in what_if_lines(found, 80))
    assert "is new" in text
    assert "only in the run" in text


def _plainly(before: Sequence[float | None], now: Sequence[float | None]) -> bool:
    pairs = [(a, b) for a, b in zip(before, now, strict=True) if a is not None and b is not None]
    return any(a < c and b > d + 1e-6 for a, b in pairs for c, d in pairs)


def test_order_and_rank_correlation_are_what_they_are_called() -> None:
    chance = random.Random(2)
    for _ in range(500):
        size = chance.randrange(1, 7)
        before, now = ([chance.choice([None, 0.0, 1.0, 2.0]) for _ in range(size)] for _ in range(2))
        assert _reordered(before, now) == _plainly(before, now)
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486832980505138)  # scipy's
    assert rank_correlation([1, 1], [1, 2]) is None
    assert rank_correlation([1, math.nan, 2, 3], [1, 2, 2, 3]) == pytest.approx(1)


@pytest.mark.parametrize("place", [{"batch": 2}, {"attempt": 3}])
def test_scale_over_the_batch_is_taken_batch_by_batch(
    place: dict[str, int], run: RecordedRun, lab: Lab
) -> None:
    """A resumed run numbers its batches again, so a number alone does not tell two batches apart."""
    reader = RunReader(run.folder.database)
    groups = reader.groups()
    reader.close()
    other = [replace(group, **place) for group in groups]  # type: ignore[arg-type]
    assert lab.config is not None
    lab.config = replace(lab.config, grpo={**lab.config.grpo, "scale_rewards": "batch"})
    both = what_if(lab, [*groups, *other], recorded_weights=RECORDED)
    one = what_if(lab, groups, recorded_weights=RECORDED)
    half = [g.advantages_now for g in sorted(both.groups, key=lambda g: g.group)][::2]
    assert sorted(half) == sorted(g.advantages_now for g in one.groups)
    assert one.notes == (IN_PART,)
    assert (one.changed, one.reordered, one.alive, one.dead) == (0, 0, 0, 0)
    printed = one.to_json()["groups"]
    assert [group["prompt"] for group in printed] == ["2 + 2?"], "only its advantages change"


@pytest.mark.parametrize(
    ("settings", "in_part"),
    [
        ({"scale_rewards": "group"}, False),
        ({"scale_rewards": "none"}, False),
        ({"scale_rewards": "batch"}, True),
        ({"multi_objective_aggregation": "normalize_then_sum"}, True),
    ],
)
def test_what_needs_the_whole_batch_says_that_it_has_a_part(
    settings: dict[str, str], in_part: bool, run: RecordedRun, lab: Lab
) -> None:
    reader = RunReader(run.folder.database)
    groups = reader.groups()
    reader.close()
    assert lab.config is not None
    lab.config = replace(lab.config, grpo={**lab.config.grpo, **settings})
    found = what_if(lab, groups, recorded_weights=RECORDED)
    assert (IN_PART in found.notes) == in_part


def test_a_group_of_two_ranks_is_told_as_one(run: RecordedRun, lab: Lab) -> None:
    """TRL divides a group where a rank gets fewer completions: each part alone can be flat."""
    parts = [("6", 2.5), ("66666", 2.0), ("7", 0.5), ("77777", 0.0)]
    for rank in range(2):
        rows = tuple(
            r.Completion(
                2 * rank + n, text, (float(total >= 2), total % 2 * 2), total, total - 1.25, 3, False
            )
            for n, (text, total) in enumerate(parts[2 * rank : 2 * rank + 2])
        )
        group = r.Group(0, "3 + 3?", {"answer": "6"}, rows)
        run.write(r.GenerationBatch(2, 2, rank, "train", 2, 2, run.at(2), (group,)))
    reader = RunReader(run.folder.database)
    ids = [group.id for group in reader.groups(first_step=2)]
    whole = reader.whole_groups(ids[1:])
    both = reader.whole_groups([*ids, *ids])
    reader.close()
    assert len(ids) == 2
    assert [[c.index for c in group.completions] for group in whole] == [[0, 1, 2, 3]]
    assert (whole[0].id, whole[0].mean) == (ids[0], 1.25)
    assert both == whole
    # With the first function alone each rank's part is flat, and the group is not.
    found = what_if_of_run(lab, run.folder.root, ids, weights=(1.0, 0.0), recorded=True)
    assert [(turn.fate, turn.now) for turn in found.groups] == [("", (1.0, 1.0, 0.0, 0.0))]


def test_scores_go_by_the_names_of_their_own_attempt(run: RecordedRun, lab: Lab) -> None:
    """A resume had the functions in another order."""
    reader = RunReader(run.folder.database)
    groups = reader.groups()
    reader.close()
    found = what_if(lab, groups, recorded_weights=dict(reversed(RECORDED.items())))
    assert (found.changed, found.correlation) == (0, pytest.approx(1.0))


def test_noise_is_no_order() -> None:
    assert not _reordered((1.0, 1.0 + 1e-9), (2.0, 1.0))
    assert not _reordered((1.0, 2.0), (300.00001, 300.0))
    assert _reordered((1.0, 1.1), (2.0, 1.0))


def test_the_logs_of_others_are_scored_with_rewards_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))
    logs = tmp_path / "rollouts"
    logs.mkdir()
    rows = [{"input": "q", "output": text, "score": float(len(text))} for text in ("5", "77", "567")]
    (logs / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = write(tmp_path, "def score(completions, **kw): return [-float(len(c)) for c in completions]\n")
    assert main(["whatif", str(logs), f"{file}:score", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["correlation"] == pytest.approx(-1.0)
    assert main(["whatif", str(logs), "--recorded", "--weights", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["correlation"] == pytest.approx(1.0)
    assert main(["score", f"{file}:score", "--run", str(logs), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"] == [-1.0, -2.0, -3.0]
    assert main(["score", "--run", str(logs)]) == 2
    assert "logs of completions do not name their rewards" in capsys.readouterr().err


def test_the_command(run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [f"{tmp_path}/rewards.py:{name}" for name in NAMES]
    words = ["whatif", str(run.folder.root), *sources, "--weights", "2,0.5"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["changed"], found["completions"], found["groups"]) == (0, 8, [])
    for count, completions, changed in (("1", 4, 2), ("2", 8, 2)):  # in the second group none is right
        recorded = [*words[:2], "--recorded", "--weights=-1,0.5", "--groups", count, "--json"]
        assert main(recorded) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["completions"], found["changed"]) == (completions, changed)
    assert main([*words, "--where", "step>900"]) == 2
    assert "no completion matches" in capsys.readouterr().err
    assert main([*words, "--recorded"]) == 2
    broken = tmp_path / "broken.py"
    broken.write_text("def falls(completions, **kw): raise ValueError('no judge')\n")
    assert main(["whatif", str(run.folder.root), f"{broken}:falls"]) == 1
    assert "falls gives no scores: ValueError: no judge" in " ".join(capsys.readouterr().out.split())
