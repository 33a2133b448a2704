"""Filters for rows: missing values, duplicate prompts, prompt length, listed prompts.

A note counts the rows that each filter removed. Streams are filtered as they are read, without a count.
Prompt tokens are counted as in training, including chat template, generation prompt and special tokens.

A filter file of `grpo-tui prompts RUN --export FILE` holds a JSON object per line, with the prompt's `hash`.
The hold-out is split off before, so that it is the same as in the run that the file comes from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import AnswerSpec, Filters
from grpo_tui.core.answers import extract
from grpo_tui.core.prompt_memory import prompt_hash
from grpo_tui.data.sources import DataError
from grpo_tui.data.transformers_import import import_transformers

if TYPE_CHECKING:
    from datasets import Dataset

_AGAIN = "Export it again: `grpo-tui prompts RUN --export FILE`"


def filter_files(filters: Filters) -> list[tuple[str, frozenset[str], Path]]:
    """Read the filter files. Return key, hashes and file of each.

    Raises:
        DataError: a file cannot be read, or lists no prompts.
    """
    named = (("exclude", filters.exclude), ("only", filters.only))
    return [(key, _hashes(key, Path(file)), Path(file)) for key, file in named if file is not None]


def _hashes(key: str, file: Path) -> frozenset[str]:
    found = set()
    try:
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                found.add(_hash(line, f"grpo_tui.filters.{key}: {file}, line {number}"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise DataError(f"grpo_tui.filters.{key}: {file} cannot be read: {why}. {_AGAIN}") from error
    if not found:
        raise DataError(f"grpo_tui.filters.{key}: {file} lists no prompts. {_AGAIN}")
    return frozenset(found)


def _hash(line: str, where: str) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    found = row.get("hash") if isinstance(row, dict) else None
    if not isinstance(found, str) or len(found) != 16:
        raise DataError(f"{where}: this is not a prompt with its hash. {_AGAIN}")
    return found


def stale(key: str, file: Path, origin: str) -> str:
    """Say that a filter file belongs to other data."""
    return (
        f"grpo_tui.filters.{key}: none of the prompts in {file} is in the training rows of {origin}. Its run "
        f"had other data, another system prompt or other examples. Export a file from a run of this config, "
        f"or remove {key}"
    )


def by_files(rows: Dataset, filters: Filters, origin: str, *, whole: bool) -> tuple[Dataset, list[str]]:
    """Return the rows that the filter files leave, and what was removed.

    Args:
        rows: training rows, with prompts as the trainer gets them.
        whole: whether these are all rows, so that a file without any of them is an error.

    Raises:
        DataError: a file cannot be used, or no row is left.
    """
    notes: list[str] = []
    for key, hashes, file in filter_files(filters):
        if not hasattr(rows, "select"):
            rows = rows.filter(
                lambda row, key=key, hashes=hashes: (prompt_hash(row["prompt"]) in hashes) == (key == "only")
            )
            continue
        keys = [prompt_hash(prompt) for prompt in rows["prompt"]]
        here = hashes & set(keys)
        if whole and not here:
            raise DataError(stale(key, file, origin))
        kept = [place for place, one in enumerate(keys) if (one in hashes) == (key == "only")]
        if not kept:
            raise DataError(f"{origin}: no rows left after grpo_tui.filters.{key}: {file}")
        absent = f"; {len(hashes) - len(here):,} of its prompts are not here" if here != hashes else ""
        notes.append(f"{len(keys) - len(kept):,} of {len(keys):,} rows removed by {key}: {file}{absent}")
        rows = rows.select(kept)
    return rows, notes


_KEY = "grpo_tui.filters"


def answer_of(value: Any, spec: AnswerSpec) -> str | None:
    """Return the reference answer in a value, None if there is none."""
    return None if value is None else extract(str(value), spec.kind, spec.tag, spec.pattern)


def is_missing(value: Any) -> bool:
    """Return whether a value is null, NaN, a blank text, or an empty list or mapping."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value != value or (isinstance(value, (list, dict)) and not value)


def drop_nulls(
    rows: Dataset, filters: Filters, answer: AnswerSpec | None, columns: Sequence[str], origin: str
) -> tuple[Dataset, list[int] | None, list[str]]:
    """Remove rows with missing values, or without an extractable answer.

    Args:
        rows: with columns already renamed.
        answer: with its source under the current column name.

    Returns:
        The rows left, their numbers in the source from 1 (None for a stream), and notes.

    Raises:
        DataError: a named column does not exist, or no rows are left.
    """
    looked_at = ["prompt", *(filters.null_columns or [name for name in columns if name != "prompt"])]
    absent = [name for name in looked_at if name not in columns]
    if absent:
        raise DataError(
            f"{_KEY}.drop_null names the column {absent[0]}, which {origin} does not have; it has "
            f"{', '.join(columns)}"
        )

    def lacks(row: dict[str, Any]) -> str | None:
        missing = next((name for name in looked_at if is_missing(row[name])), None)
        if missing is None and answer is not None and answer_of(row[answer.source], answer) is None:
            return f"{answer.source} (no {answer.kind} answer in it)"
        return missing

    if not hasattr(rows, "select"):
        return rows.filter(lambda row: lacks(row) is None), None, []
    needed = dict.fromkeys([*looked_at, *([answer.source] if answer is not None else [])])
    reasons = [lacks(row) for row in rows.select_columns(list(needed))]
    kept = [index for index, reason in enumerate(reasons) if reason is None]
    numbers = [index + 1 for index in kept]
    if len(kept) == len(reasons):
        return rows, numbers, []
    counts = Counter(reason for reason in reasons if reason is not None)
    where = ", ".join(f"{count} in {name}" for name, count in counts.most_common())
    _refuse_nothing(kept, f"drop_null: every row has missing values ({where})", origin)
    first = next(index for index, reason in enumerate(reasons) if reason is not None) + 1
    note = _note(reasons, kept, f"missing values ({where}; the first is row {first})", "drop_null")
    return rows.select(kept), numbers, [note]


def drop_duplicates(rows: Dataset, origin: str) -> tuple[Dataset, list[str]]:
    """Remove rows whose prompt appears in an earlier row.

    Raises:
        DataError: the rows are streamed.
    """
    if not hasattr(rows, "select"):
        raise DataError(f"{_KEY}.drop_duplicates needs all rows; {origin} is streamed (dataset_streaming)")
    seen: set[str] = set()
    kept = []
    texts = [prompt_key(prompt) for prompt in rows["prompt"]]
    for index, text in enumerate(texts):
        if text not in seen:
            kept.append(index)
            seen.add(text)
    if len(kept) == len(texts):
        return rows, []
    return rows.select(kept), [_note(texts, kept, "an earlier row has the same prompt", "drop_duplicates")]


def prompt_key(prompt: Any) -> str:
    """Return a text that is equal for equal prompts."""
    return json.dumps(prompt, sort_keys=True, default=str)


class LengthFilter:
    """Filter by prompt length in tokens. The tokenizer is loaded once, for training and evaluation rows."""

    def __init__(self, config: RunConfig, *, fetch: bool) -> None:
        self._config, self._fetch = config, fetch
        self._filters = config.section.filters
        self._tokenizer: Any = None

    def __call__(self, rows: Dataset, origin: str) -> tuple[Dataset, list[str]]:
        """Return the rows within the bounds, and notes.

        Raises:
            DataError: no tokenizer can be loaded although it may be downloaded, or no rows are left.
        """
        if not self._filters.needs_tokens:
            return rows, []
        try:
            return self._within(rows, origin)
        except NoTokenizerError as error:
            if self._fetch:
                raise DataError(f"{_KEY} counts tokens, and there is {error}") from error
            return rows, [f"{self._bounds()} not applied: {error}"]

    def _within(self, rows: Dataset, origin: str) -> tuple[Dataset, list[str]]:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self._config, fetch=self._fetch)
        template = self._config.grpo.get("chat_template_kwargs")
        if not hasattr(rows, "select"):
            return rows.filter(
                lambda row: self._fits(prompt_lengths(self._tokenizer, [row["prompt"]], template)[0])
            ), []
        lengths = prompt_lengths(self._tokenizer, rows["prompt"], template)
        kept = [index for index, length in enumerate(lengths) if self._fits(length)]
        if len(kept) == len(lengths):
            return rows, []
        span = f"prompts have {min(lengths):,} to {max(lengths):,} tokens"
        _refuse_nothing(kept, f"{self._bounds()}: {span}", origin)
        return rows.select(kept), [_note(lengths, kept, span, self._bounds())]

    def _fits(self, length: int) -> bool:
        least, most = self._filters.min_prompt_tokens, self._filters.max_prompt_tokens
        return (least is None or length >= least) and (most is None or length <= most)

    def _bounds(self) -> str:
        parts = ((name, getattr(self._filters, name)) for name in ("min_prompt_tokens", "max_prompt_tokens"))
        return ", ".join(f"{name} {value:,}" for name, value in parts if value is not None)


def _note(all_rows: Sequence[Any], kept: Sequence[int], why: str, rule: str) -> str:
    return f"{len(all_rows) - len(kept):,} of {len(all_rows):,} rows removed by {rule}: {why}"


def _refuse_nothing(kept: Sequence[int], why: str, origin: str) -> None:
    if not kept:
        raise DataError(f"{origin}: no rows left after {_KEY}.{why}")


# -- tokens -----------------------------------------------------------------------------------------

_AT_ONCE = 512


class NoTokenizerError(ValueError):
    """The policy's tokenizer is not available. The message says which and why."""


def load_tokenizer(config: RunConfig, *, fetch: bool = True) -> Any:
    """Load the policy's tokenizer, or processor, as GRPOTrainer does.

    Args:
        fetch: whether it may be downloaded from the Hub.

    Raises:
        NoTokenizerError: it is not available.
    """
    import_transformers()
    from transformers import AutoProcessor

    try:
        return AutoProcessor.from_pretrained(
            config.model,
            revision=config.model_args.get("model_revision", "main"),
            truncation_side="left",
            padding_side="left",
            trust_remote_code=bool(config.grpo.get("trust_remote_code", False)),
            local_files_only=not fetch,
        )
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        raise NoTokenizerError(f"no tokenizer of {config.model} ({why})") from error


def prompt_lengths(
    tokenizer: Any, prompts: Sequence[Any], template: dict[str, Any] | None = None
) -> list[int]:
    """Return the number of tokens of each prompt, (N,), as the model receives it.

    Args:
        prompts: (N,) texts, or lists of messages.
        template: `chat_template_kwargs` of the config.

    Raises:
        NoTokenizerError: the tokenizer has no chat template, or rejects the messages.
    """
    lengths: list[int] = []
    for start in range(0, len(prompts), _AT_ONCE):
        part = list(prompts[start : start + _AT_ONCE])
        if isinstance(part[0], str):
            ids = tokenizer(text=part)["input_ids"]
        else:
            try:
                ids = tokenizer.apply_chat_template(
                    conversation=part,
                    add_generation_prompt=True,
                    tokenize=True,
                    return_dict=True,
                    **(template or {}),
                )["input_ids"]
            except Exception as error:
                first = str(error).strip().partition("\n")[0][:200]
                raise NoTokenizerError(f"the chat template cannot write the prompts: {first}") from error
        lengths += [len(one) for one in ids]
    return lengths
