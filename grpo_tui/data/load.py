"""`load_prompts`: the rows a config names, mapped to the prompts that TRL trains on.

Column mapping, answer extraction, system prompt and few-shot examples, hold-out. Training, lab and checker
share it, so that what is previewed is what is trained on. It knows no tokenizer and no reward.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.data.mapping import map_rows
from grpo_tui.data.sources import DataError, Rows, as_dataset, load_rows, read_source

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["DataError", "Prompts", "load_prompts"]

_DEFAULT_SEED = 42  # TrainingArguments.seed


@dataclass(frozen=True, slots=True)
class Prompts:
    """Data ready for GRPOTrainer.

    Attributes:
        train: rows to train on, with a column `prompt`.
        eval: rows to evaluate on, None when `eval_strategy` is `no`.
        holdout: rows set aside by `grpo_tui.holdout`, None when it is 0.
        notes: sentences for a person about what was left out.
    """

    train: Dataset
    eval: Dataset | None
    holdout: Dataset | None
    notes: tuple[str, ...] = ()


def load_prompts(config: RunConfig) -> Prompts:
    """Load and map the data of a run. The same config and files give the same rows in the same order.

    Raises:
        DataError: the data does not fit; the message names the file, the row and the fix.
    """
    rows = load_rows(config)
    train = map_rows(rows.train, config.section, rows.origin)
    holdout = None
    notes: tuple[str, ...] = ()
    if config.section.holdout:
        seed = config.grpo.get("seed", _DEFAULT_SEED)
        train, holdout, notes = set_aside(train, config.section.holdout, int(seed), rows.origin)
    return Prompts(train, _evaluation(config, rows, holdout), holdout, notes)


def set_aside(rows: Dataset, count: int, seed: int, origin: str) -> tuple[Dataset, Dataset, tuple[str, ...]]:
    """Split rows into those trained on and `count` held out, chosen by the seed, both in their old order.

    A training row with the same prompt as a held-out one is left out too, else the hold-out would be
    trained on.

    Raises:
        DataError: nothing would be left to train on, or the rows are streamed.
    """
    if not hasattr(rows, "select"):
        raise DataError(f"grpo_tui.holdout needs all rows; {origin} is streamed (dataset_streaming)")
    if count >= len(rows):
        raise DataError(
            f"grpo_tui.holdout is {count}, but {origin} has {len(rows)} rows: one must be left to train on"
        )
    chosen = set(random.Random(seed).sample(range(len(rows)), count))
    texts = [json.dumps(prompt, sort_keys=True, default=str) for prompt in rows["prompt"]]
    held = {texts[index] for index in chosen}
    kept = [index for index in range(len(rows)) if index not in chosen and texts[index] not in held]
    if not kept:
        raise DataError(
            f"{origin}: every row has the same prompt as one of the {count} held out; lower grpo_tui.holdout"
        )
    doubles = len(rows) - count - len(kept)
    notes = (f"{doubles} rows have the prompt of a held-out row and are not trained on",) if doubles else ()
    return rows.select(kept), rows.select(sorted(chosen)), notes


def _evaluation(config: RunConfig, rows: Rows, holdout: Dataset | None) -> Dataset | None:
    if str(config.grpo.get("eval_strategy", "no")) == "no":
        return None
    source = config.section.eval_dataset
    if source is not None:
        found: Any = read_source(source)
        split = str(config.script.get("dataset_test_split", "test"))
        if isinstance(found, dict):
            found = found.get(split, found)
        return map_rows(as_dataset(found, source), config.section, source)
    if rows.test is not None:
        return map_rows(rows.test, config.section, rows.origin)
    if holdout is not None:
        return holdout
    split = config.script.get("dataset_test_split", "test")
    raise DataError(
        f"eval_strategy is {config.grpo['eval_strategy']}, but {rows.origin} has no split {split}. Set "
        "grpo_tui.eval_dataset, grpo_tui.holdout, dataset_test_split, or eval_strategy: 'no'"
    )
