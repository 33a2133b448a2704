"""The record of a run whose list of rewards changed: each completion keeps the names that scored it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from grpo_tui.core import records as r
from grpo_tui.health.live import LiveVerdict
from grpo_tui.health.reading import settings_of
from grpo_tui.present.group_card import GroupFold
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.rollouts import all_function_names, rollouts_of
from grpo_tui.store.search import Search
from grpo_tui.store.writer import Writer


def _batch(attempt: int, step: int, rewards: tuple[float, ...], first: int = 0) -> r.GenerationBatch:
    one = r.Completion(0, f"text {step}", rewards, sum(rewards), 0.0, 3, False)
    groups = (r.Group(0, "?", {}, (one,)),)
    return r.GenerationBatch(attempt, step, 0, "train", step, step, float(step), groups, first)


def _listed(first: int, since: int, at: float, *names: str) -> list[r.RewardFunctionInfo]:
    return [
        r.RewardFunctionInfo(1, first + n, name, 0.5, f"{name}.py:1", "", "", since, at)
        for n, name in enumerate(names)
    ]


STARTED = r.AttemptStarted(1, 0.0, "host", 1, None)
FIRST = [r.RewardFunctionInfo(1, n, name, 1.0) for n, name in enumerate(("right", "form"))]
OTHER = _listed(2, 3, 3.5, "style", "right", "right")
RECORDS = [
    STARTED, *FIRST, _batch(1, 1, (1.0, 0.25)), _batch(1, 2, (0.0, 0.5)), *OTHER,
    _batch(1, 3, (0.75, 1.0, 1.0), 2),
]  # fmt: skip


def _written(root: Path, *records: r.Record) -> RunFolder:
    folder = RunFolder(root)
    with closing(Writer(open_writer(folder.database))) as writer:
        writer.write(records)
    return folder


def test_old_completions_keep_their_names_and_new_ones_have_the_new(tmp_path: Path) -> None:
    folder = _written(tmp_path, *RECORDS)
    with closing(Search(folder.database)) as search:
        groups = list(search.run.iter_groups())
        assert [g.functions for g in groups] == [("right", "form")] * 2 + [("style", "right", "right#2")]
        assert groups[-1].completions[0].rewards == (0.75, 1.0, 1.0)
        rewards = [one.rewards for one in rollouts_of(search.run, [1, 2, 3])]
        assert rewards[0] == {"right": 1.0, "form": 0.25}
        assert rewards[2] == {"style": 0.75, "right": 1.0, "right#2": 1.0}
        assert all_function_names(search.run) == ("right", "form", "style", "right#2")
        for query, steps in {
            "rewards.right >= 1": {1, 3},
            "rewards.form > 0": {1, 2},
            "style > 0": {3},
        }.items():
            found = search.run.groups_by_id(list(search.find(query).group_of))
            assert {group.step for group in found} == steps, query
        names = [(one.index, one.name, one.weight) for one in search.run.reward_functions()]
        assert names == [(2, "style", 0.5), (3, "right", 0.5), (4, "right", 0.5)]
        assert search.run.rewards_began() == 2
        assert settings_of(search.run, logged=True).first_function == 2
        fold = GroupFold()
        fold.add(groups)
        assert fold.function_means(("style", "right", "right#2")) == [0.75, 1.0, 1.0]
        assert fold.function_means(("right", "form")) == [None, None]


def test_the_list_that_a_resume_begins_with_counts_from_its_checkpoint(tmp_path: Path) -> None:
    again = [r.RewardFunctionInfo(2, n, one.name, 0.5) for n, one in enumerate(OTHER)]
    folder = _written(tmp_path, *RECORDS, r.AttemptStarted(2, 9.0, "host", 2, 3), *again)
    with closing(RunReader(folder.database)) as reader:
        assert reader.rewards_began() == 2, "the same list"
    _written(tmp_path, r.AttemptStarted(3, 10.0, "host", 3, 1), *(replace(one, attempt=3) for one in again))
    with closing(RunReader(folder.database)) as reader:
        assert reader.rewards_began() == 1, "from before the change, with the new list"
    _written(tmp_path, r.AttemptStarted(4, 11.0, "host", 4, 5), *(replace(one, attempt=4) for one in FIRST))
    with closing(RunReader(folder.database)) as reader:
        assert reader.rewards_began() == 5
        assert [one.name for one in reader.reward_functions()] == ["right", "form"]


def test_the_diagnosis_of_a_live_run_begins_again_with_another_list(tmp_path: Path) -> None:
    verdict, folder = LiveVerdict(RunFolder(tmp_path)), RunFolder(tmp_path)
    with closing(Writer(open_writer(folder.database))) as writer:
        for step in (RECORDS[:4], RECORDS[4:5], RECORDS[5:9], [_batch(1, 4, (0.75, 1.0, 1.0), 2)]):
            writer.write(step)
            verdict(step)
    assert verdict._doctor is not None
    state = verdict._doctor.state
    assert (state.settings.names, state.first_step) == (("style", "right", "right"), 3)


def test_a_file_from_before_lists_could_change_is_read_and_resumed(tmp_path: Path) -> None:
    folder = _written(tmp_path, STARTED, *FIRST, _batch(1, 1, (1.0, 0.25)))
    with closing(open_writer(folder.database)) as database:
        database.executescript(
            "DROP TABLE reloaded_function; CREATE TABLE reloaded_function (attempt INTEGER NOT NULL,"
            " since_step INTEGER NOT NULL, idx INTEGER NOT NULL, at REAL NOT NULL, source TEXT NOT NULL,"
            " sha256 TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (attempt, since_step, idx))"
            " WITHOUT ROWID; INSERT INTO reloaded_function VALUES"
            " (1, 2, 0, 2.0, 'a.py:1', '', 'new'), (1, 2, 1, 2.0, '', '', '')"
        )
    with closing(RunReader(folder.database)) as reader:
        first = reader.reward_functions()[0]
        assert (first.name, first.weight, first.text) == ("right", 1.0, "new")
        assert reader.rewards_began() == 0
    _written(tmp_path, *OTHER)
    with closing(RunReader(folder.database)) as reader:
        assert [one.name for one in reader.reward_functions()] == ["style", "right", "right"]
