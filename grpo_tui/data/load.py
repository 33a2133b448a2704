"""Load the rows of a config as prompts for training.

Covers column mapping, answer extraction, filters, system prompt, few-shot examples and hold-out. Training,
reward scoring and checks all use it, so a preview shows what training sees.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Filters
from grpo_tui.core.text import one_line, prompt_text
from grpo_tui.data.filters import LengthFilter, by_files, prompt_key
from grpo_tui.data.mapping import map_rows, shared_beginning, some_prompts
from grpo_tui.data.sources import DataError, Rows, as_dataset, load_rows, read_source

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["DataError", "Prompts", "load_prompts"]

_DEFAULT_SEED = 42  # TrainingArguments.seed


@dataclass(frozen=True, slots=True)
class Prompts:
    """Data ready for GRPOTrainer.

    Attributes:
        train: with a column `prompt`.
        eval: None when `eval_strategy` is `no`.
        holdout: rows of `grpo_tui.holdout`, None when it is 0.
        probes: rows of `grpo_tui.probe_prompts`, None without it. Added prompts have no other column.
        evaluated: rows of `grpo_tui.evaluate`, None without it.
    """

    train: Dataset
    eval: Dataset | None
    holdout: Dataset | None
    notes: tuple[str, ...] = ()
    probes: tuple[dict[str, Any], ...] | None = None
    evaluated: Dataset | None = None


def load_prompts(config: RunConfig, *, fetch: bool = True, most: int | None = None) -> Prompts:
    """Load and map the data of a run. The same config and files give the same rows in the same order.

    Args:
        fetch: whether the tokenizer may be downloaded for filters that count tokens. If not, and the
            tokenizer is not on this machine, such a filter is skipped with a note.
        most: number of rows to read from the start of the source. All when None, as in training.

    Raises:
        DataError: the data does not fit. The message names the file, the row and the fix.
    """
    rows = load_rows(config)
    lengths = LengthFilter(config, fetch=fetch)
    cut: list[str] = []
    if most is not None and hasattr(rows.train, "select") and len(rows.train) > most:
        cut = [f"only the first {most:,} of {len(rows.train):,} rows were read"]
        rows = replace(rows, train=rows.train.select(range(most)))
    train, notes = _mapped(rows.train, config, rows.origin, lengths)
    notes += cut
    holdout = None
    if config.section.holdout:
        seed = config.grpo.get("seed", _DEFAULT_SEED)
        train, holdout, doubles = set_aside(train, config.section.holdout, int(seed), rows.origin)
        notes += doubles
    train, listed = by_files(train, config.section.filters, rows.origin, whole=not cut)
    notes += listed
    evaluation, more = _evaluation(config, rows, holdout, lengths)
    notes += [f"evaluation: {note}" for note in more]
    probes, gone = _probes(config, train, holdout, lengths)
    notes += gone
    evaluated = _evaluated(config, holdout, evaluation, lengths)
    return Prompts(train, evaluation, holdout, tuple(notes), probes, evaluated)


def _mapped(
    rows: Dataset, config: RunConfig, origin: str, lengths: LengthFilter
) -> tuple[Dataset, list[str]]:
    mapped, notes = map_rows(rows, config.section, origin)
    mapped, more = lengths(mapped, origin)
    return mapped, notes + more


def set_aside(rows: Dataset, count: int, seed: int, origin: str) -> tuple[Dataset, Dataset, list[str]]:
    """Split rows into training rows and `count` random held-out rows, both in their original order.

    Training rows with the prompt of a held-out row are removed, because otherwise the hold-out would be
    trained on.

    Raises:
        DataError: no training rows would be left, or the rows are streamed.
    """
    if not hasattr(rows, "select"):
        raise DataError(f"grpo_tui.holdout needs all rows; {origin} is streamed (dataset_streaming)")
    if count >= len(rows):
        raise DataError(
            f"grpo_tui.holdout is {count}, but {origin} has {len(rows)} rows: one must be left to train on"
        )
    split = split_off(rows["prompt"], count, seed)
    if not split.kept:
        raise DataError(
            f"{origin}: every row has the same prompt as one of the {count} held out; lower grpo_tui.holdout"
        )
    doubles = len(rows) - count - len(split.kept)
    notes = [f"{doubles} rows have the prompt of a held-out row and are not trained on"] if doubles else []
    return rows.select(split.kept), rows.select(split.held), notes


@dataclass(frozen=True, slots=True)
class Split:
    """Row indices for training and hold-out, from 0, both in their original order.

    A row in neither has the prompt of a held-out row.
    """

    kept: list[int]
    held: list[int]


def split_off(prompts: Sequence[Any], count: int, seed: int) -> Split:
    """Choose the held-out rows by the seed. `count` must be below the number of prompts."""
    chosen = set(random.Random(seed).sample(range(len(prompts)), count))
    texts = [prompt_key(prompt) for prompt in prompts]
    held = {texts[index] for index in chosen}
    kept = [index for index in range(len(texts)) if index not in chosen and texts[index] not in held]
    return Split(kept, sorted(chosen))


def _evaluation(
    config: RunConfig, rows: Rows, holdout: Dataset | None, lengths: LengthFilter
) -> tuple[Dataset | None, list[str]]:
    if str(config.grpo.get("eval_strategy", "no")) == "no":
        return None, []
    found = evaluation_source(config, rows)
    return (holdout, []) if found is None else _mapped(found[0], config, found[1], lengths)


def evaluation_source(config: RunConfig, rows: Rows) -> tuple[Dataset, str] | None:
    """Return unmapped evaluation rows and their origin. None without evaluation, or if it uses the hold-out.

    Raises:
        DataError: the config wants evaluation and there are no rows for it.
    """
    if str(config.grpo.get("eval_strategy", "no")) == "no":
        return None
    split, source = _test_split(config), config.section.eval_dataset
    if source is not None:
        return _own_evaluation(config, source), source
    if rows.test is not None:
        return rows.test, rows.origin
    if config.section.holdout:
        return None
    raise DataError(
        f"eval_strategy is {config.grpo['eval_strategy']}, but {rows.origin} has no split {split}. Set "
        "grpo_tui.eval_dataset, grpo_tui.holdout, dataset_test_split, or eval_strategy: 'no'"
    )


def _test_split(config: RunConfig) -> str:
    return str(config.script.get("dataset_test_split", "test"))


def _own_evaluation(config: RunConfig, source: str) -> Dataset:
    found: Any = read_source(source)
    return as_dataset(found.get(_test_split(config), found) if isinstance(found, dict) else found, source)


def prompt_rows(texts: Sequence[str], config: RunConfig, train: Dataset) -> list[dict[str, Any]]:
    """Return prompts given as texts as rows without other columns.

    They get the config's system prompt and examples, or what all training prompts begin with.
    """
    plain = replace(config.section, columns={}, answer=None, filters=Filters())
    given = [{"prompt": text} for text in texts]
    rows, _ = map_rows(as_dataset(given, "probe_prompts"), plain, "probe_prompts")
    others = some_prompts(train)
    if isinstance(rows[0]["prompt"], str) and others and not isinstance(others[0], str):
        before = shared_beginning(others)
        return [{"prompt": [*before, {"role": "user", "content": row["prompt"]}]} for row in rows]
    return list(rows)


def _probes(
    config: RunConfig, train: Dataset, holdout: Dataset | None, lengths: LengthFilter
) -> tuple[tuple[dict[str, Any], ...] | None, list[str]]:
    """Return the probe rows, with notes: rows spread evenly over the source, and then added ones."""
    wanted = config.section.probe_prompts
    if wanted is None:
        return None, []
    if wanted.texts:
        chosen = prompt_rows(wanted.texts, config, train)
    else:
        rows, source = holdout, wanted.source
        if source != "holdout":
            rows, _ = _mapped(as_dataset(read_source(source), source), config, source, lengths)
        if rows is None:
            raise DataError("grpo_tui.probe_prompts asks rows of the hold-out, and grpo_tui.holdout is 0")
        chosen = list(_spread(rows, wanted.prompts))
    there = {prompt_text(row["prompt"]) for row in chosen}
    notes = [
        f"grpo_tui.probe_prompts.remove: no probe prompt is {one_line(text, 60)!r}"
        for text in wanted.remove
        if text not in {*there, *wanted.add}
    ]
    left = [row for row in chosen if prompt_text(row["prompt"]) not in wanted.remove]
    there = {prompt_text(row["prompt"]) for row in left}
    added = [text for text in dict.fromkeys(wanted.add) if text not in there]
    return (*left, *(prompt_rows(added, config, train) if added else ())), notes


def _evaluated(
    config: RunConfig, holdout: Dataset | None, evaluation: Dataset | None, lengths: LengthFilter
) -> Dataset | None:
    """The rows to evaluate on while training: held-out ones, else those of the evaluation set."""
    wanted, source = config.section.evaluate, config.section.eval_dataset
    if wanted is None:
        return None
    rows = holdout if holdout is not None else evaluation
    if rows is None and source is not None:
        rows, _ = _mapped(_own_evaluation(config, source), config, source, lengths)
    if not hasattr(rows, "select"):
        raise DataError(
            "grpo_tui.evaluate asks held-out rows, and the config has none. Set grpo_tui.holdout to 40 or "
            "so, or grpo_tui.eval_dataset"
        )
    return _spread(rows, wanted.rows)


def _spread(rows: Dataset, count: int) -> Dataset:
    """As many rows as wanted, spread evenly over all of them."""
    count = min(count, len(rows))
    return rows.select([index * len(rows) // count for index in range(count)])
