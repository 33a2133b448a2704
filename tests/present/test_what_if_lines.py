"""What would turn, in lines that fit the narrowest screen."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from grpo_tui.present.what_if_lines import what_if_lines
from grpo_tui.rewards.what_if import FunctionTurn, GroupTurn, WhatIf

NOTE = "the file of correctness has changed since the run, and the dataset that it reads is not here any more"


@pytest.mark.parametrize("width", [78, 118])
def test_every_sentence_is_said_whole(width: int) -> None:
    turned = GroupTurn(
        12_345, 99_999, "long " * 40, (1.0, None), (0.5, 0.5), (1.0, -1.0), (0.0, 0.0), (0,), True, ""
    )
    functions = (FunctionTurn("correctness", 2_560, 0.5, 0.75), FunctionTurn("new", 3, None, 1.0))
    lines = what_if_lines(
        WhatIf(functions, (turned,), 99_999, 99_999, 12_345, 12_345, 12_345, 0.5, (NOTE,)), width
    )
    texts = ["".join(text for text, _ in line) for line in lines]
    assert max(map(cell_len, texts)) <= width
    said = " ".join(" ".join(texts).split())
    assert "scores that change" in said
    assert "12,345 groups would start to teach, 12,345 would stop" in said
    assert "1: same order, 0: unrelated" in said
    assert NOTE in said
