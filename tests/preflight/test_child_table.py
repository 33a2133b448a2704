"""Rows of many columns are read in one go."""

from __future__ import annotations

import datasets
import pytest

from grpo_tui.preflight.child.table import columns_of


@pytest.mark.parametrize("numbers", [[1, 2, 3], [2]])
def test_columns_are_read_whole_however_many_there_are(
    numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = datasets.Dataset.from_list([{f"c{i}": i * row for i in range(300)} for row in (1, 2, 3)])
    copies = []
    copy = datasets.Features.copy
    monkeypatch.setattr(datasets.Features, "copy", lambda self: copies.append(1) or copy(self))
    found = columns_of(rows, numbers)
    assert found == {f"c{i}": [i * number for number in numbers] for i in range(300)}
    assert len(copies) < 30


def test_what_is_only_seen_is_named_by_its_kind() -> None:
    features = datasets.Features({"prompt": datasets.Value("string"), "photo": datasets.Image()})
    rows = datasets.Dataset.from_dict({"prompt": ["a", "b"], "photo": [None, None]}, features=features)
    assert columns_of(rows, [1, 2]) == {"prompt": ["a", "b"], "photo": ["<Image>", "<Image>"]}
