"""Word what the evaluations of a run show: is the policy better than before training, and by how much."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from grpo_tui.core.evaluations import FACT, Evaluations
from grpo_tui.core.statistics import FEWEST_PROMPTS
from grpo_tui.core.text import one_line
from grpo_tui.present.comparison_text import interval_words
from grpo_tui.present.formatting import fixed, plural
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader

WORDS = ("better", "worse", "not shown")


def read_evaluations(root: Path) -> Evaluations | None:
    """Return the evaluations of the run in a folder; None without any."""
    try:
        with closing(RunReader(RunFolder(root).database)) as reader:
            return Evaluations.from_json(reader.fact(FACT))
    except RunDatabaseError:
        return None


def verdict(found: Evaluations) -> tuple[str, str]:
    """Return one of `WORDS`, empty before the second evaluation, and a sentence with the figures."""
    newest, first = found.done[-1], found.done[0]
    prompts = plural(len([value for value in newest.by_prompt if value is not None]), "prompt")
    measure = one_line(found.deciding, 30)
    start = "before training" if first.step == 0 else f"at step {first.step:,}"
    if newest is first:
        return "", f"evaluated {start}: {measure} {fixed(first.value, 3)} on {prompts}"
    gain = found.gain(newest)
    if gain is None:
        return "not shown", f"not shown: no prompt was scored both {start} and at step {newest.step:,}"
    by = interval_words(gain.mean, gain.low, gain.high)
    figures = f"{measure} {by} on {plural(gain.prompts, 'prompt')} at step {newest.step:,}"
    if gain.word != "not shown":
        return gain.word, f"{gain.word} than {start}: {figures}"
    why = "the difference is the same on every prompt. " if gain.low == gain.high else ""
    if gain.prompts < FEWEST_PROMPTS:
        why = f"at least {FEWEST_PROMPTS} prompts are needed. "
    since = "since training began" if first.step == 0 else f"since step {first.step:,}"
    return gain.word, f"no gain shown {since}: {why}{figures}"
