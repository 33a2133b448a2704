"""What ranks hand over reads back exactly as it was, and nothing in the spool is ever run."""

from __future__ import annotations

import datetime
import json
import math
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_tui.core import records as r
from grpo_tui.core.exchange import to_json
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.recorder import SpoolRecorder, take_spooled


def _batch(**changes: Any) -> r.GenerationBatch:
    odd = r.Completion(1, "\ud800 \x1b[31m ü", (None, math.nan, True), math.inf, -0.0, 7, True, {"seen": [1]})
    ends = r.Completion(0, "4", (0.1 + 0.2, 5e-324, 1), -math.inf, 1 / 3, 2, False, {}, [{"role": "tool"}])
    group = r.Group(0, [{"role": "user", "content": "2+2"}], {"answer": "4", "n": 2**70}, (ends, odd))
    return replace(r.GenerationBatch(3, 5, 1, "train", 6, 7, 1234.5, (group,)), **changes)


def _handed_over(folder: RunFolder, *records: Any) -> list[Any]:
    spool = SpoolRecorder(folder, 1)
    spool.start()
    for record in records:
        spool.put(record)
    spool.close()
    found, files = take_spooled(folder, 3)
    assert len(files) == 1
    return found


def test_every_kind_of_record_reads_back_as_it_was(tmp_path: Path) -> None:
    call = r.RewardCall(3, 5, 0, 1.0, 0.25, "error", "ValueError: no", rank=1)
    given = (_batch(), call, r.PhaseSpan(3, 1, "update", 6, 1.0, 2.0), r.Dropped(3, "texts", 2))
    found = _handed_over(RunFolder(tmp_path), *given)
    assert repr(found) == repr(list(given)), "NaN is not equal to itself"


def test_more_records_than_one_file_takes_are_handed_over_in_their_order(tmp_path: Path) -> None:
    spool, folder = SpoolRecorder(RunFolder(tmp_path), 1), RunFolder(tmp_path)
    given = [r.PhaseSpan(3, 1, "update", step, 1.0, 2.0) for step in range(600)]
    for record in given:
        spool.put(record)
    spool.start()
    spool.close()
    found, files = take_spooled(folder, 3)
    assert (found, len(files)) == (given, 2)


def test_columns_of_any_type_reach_the_database_as_they_do_from_the_first_rank(tmp_path: Path) -> None:
    group = _batch().groups[0]
    columns = {
        "at": datetime.date(2026, 1, 2),
        "array": np.arange(3),
        "set": {"b", "a"},
        "n": np.float32(0.5),
    }
    unusual = {"keys": {(1, 2): 3}, "plain": 1}
    given = [_batch(groups=(replace(group, columns=each),)) for each in (columns, unusual)]
    first, second = _handed_over(RunFolder(tmp_path), *given)
    assert to_json(first.groups[0].columns) == to_json(columns)
    assert second.groups[0].columns["plain"] == 1


class _Acts:
    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)


BATCH = {"attempt": 1, "batch": 0, "rank": 1, "step": 1, "last_step": 1, "at": 0}


def _file(kind: str, /, **fields: Any) -> bytes:
    return json.dumps([{"kind": kind, "record": fields}]).encode()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([_Acts()]),
        b"",
        b"7",
        b"[7, null]",
        b"[" * 100_000,
        _file("Fact", key="config", value={}),
        _file("Dropped", attempt=1, kind="texts", count="2"),
        _file("Dropped", attempt=1, kind="texts", count=True),
        _file("Dropped", attempt=1, kind=["texts"], count=2),
        _file("Dropped", attempt=1, kind="texts"),
        _file(
            "GenerationBatch", attempt=1, batch=0, rank=1, mode="any", step=1, last_step=1, at=0, groups=[]
        ),
        _file(
            "GenerationBatch", attempt=1, batch=0, rank=1, mode="eval", step=1, last_step=1, at=0, groups=[1]
        ),
    ],
)
def test_what_is_not_a_record_is_counted_and_never_run(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path)
    folder.spool.mkdir()
    path = folder.spool / "1-9-00000001.records"
    path.write_bytes(content)
    records, files = take_spooled(folder, 1)
    assert files == [path]
    assert {type(record) for record in records} == {r.Dropped}
    assert all(record.kind == "records" for record in records if isinstance(record, r.Dropped))
    assert not Path("ran").exists()


def test_links_and_pipes_in_the_spool_are_left_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.spool.mkdir()
    os.mkfifo(folder.spool / "1-1-1.records")
    (folder.spool / "1-1-2.records").symlink_to("/dev/zero")
    assert take_spooled(folder, 1) == ([], [])
    elsewhere = tmp_path / "elsewhere"
    folder.spool.rename(elsewhere)
    (elsewhere / "1-1-3.records").write_bytes(_file("Dropped", attempt=1, kind="texts", count=2))
    folder.spool.symlink_to(elsewhere)
    assert take_spooled(folder, 1) == ([], [])
