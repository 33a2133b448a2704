"""The answers of two evaluations are read by prompt, also from a record that somebody else has written."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.evaluations import FACT, Evaluations
from grpo_tui.present.before_after import read_before_after
from grpo_tui.store.reader import RunReader
from tests.ui.recorded_run import NOW, PAIRS, SAMPLES, recorded


@pytest.mark.parametrize(("judge", "right"), [(0, SAMPLES), (None, None), (-1, 0), (-9, 0), (99, 0)], ids=str)
def test_right_completions_are_counted_by_the_reward_that_decides(
    tmp_path: Path, judge: int | None, right: int | None
) -> None:
    run = recorded(tmp_path / "run", "evaluated")
    answer = r.Completion(0, "beside", (0.0, 0.0, 0.0), 0.0, 0.0, 3, False)
    prompts = [[{"role": "user", "content": text}] for text in ("What is 3 + 4?", "What is new?")]
    asked = tuple(r.Group(index, prompt, {}, (answer,)) for index, prompt in enumerate(prompts))
    for step in (0, 60):  # probe prompts, one of which is a held-out prompt too
        run.write(r.GenerationBatch(1, 950 + step, 0, "probe", step, step, NOW, asked))
    run.close()
    with closing(RunReader(run.folder.database)) as reader:
        found = Evaluations.from_json(reader.fact(FACT))
        assert found is not None
        shown = read_before_after(reader, replace(found, judge=judge))
        assert shown is not None
        assert len(shown.pairs) == PAIRS
        assert "beside" not in {one.text for pair in shown.pairs for one in (pair.before, pair.after)}
        assert (shown.pairs[0].gold, shown.pairs[0].after.right) == ("7", right)
        older = replace(found, done=tuple(replace(one, batch=None) for one in found.done))
        assert read_before_after(reader, older) is None
        assert read_before_after(reader, replace(found, done=found.done[:1])) is None
        assert read_before_after(reader, None) is None
