"""Dataset rows and token ids for scoring.

Dataset rows are mapped by `data.load`, as training sees them. Completions that no model generated get the ids
of the policy's own tokenizer if it is on this machine: nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from grpo_tui.config.run_config import RunConfig, stamps_of
from grpo_tui.core.text import completion_text
from grpo_tui.data.load import load_prompts
from grpo_tui.data.mapping import as_messages

MOST_ROWS = 100_000
MOST_LOOKED_AT = 20_000
"""Rows of a dataset that are mapped here. Training maps all of them."""


class DatasetRows:
    """Cache of the last dataset."""

    def __init__(self) -> None:
        self._key = ""
        self._train: Any = None
        self._notes: tuple[str, ...] = ()
        self._chat = False

    def page(self, config: RunConfig, count: int, first: int) -> dict[str, Any]:
        """Return `{"rows": [{"prompt", "columns"}], "columns", "total", "notes"}`.

        Raises:
            DataError: the data cannot be used as the config says.
        """
        key = _data_key(config)
        if key != self._key or self._train is None:
            prompts = load_prompts(config, fetch=False, most=MOST_LOOKED_AT)
            self._key, self._train, self._notes = key, prompts.train, prompts.notes
        streamed = not hasattr(self._train, "select")
        if streamed:
            rows = list(self._train.skip(first).take(count))
        else:
            rows = list(self._train.select(range(first, min(first + count, len(self._train)))))
        self._chat = bool(rows) and not isinstance(rows[0]["prompt"], str)
        plain = [
            {"prompt": row["prompt"], "columns": {k: v for k, v in row.items() if k != "prompt"}}
            for row in rows
        ]
        names = list(rows[0]) if rows else list(self._train.column_names or ())
        total = None if streamed else len(self._train)
        return {"rows": plain, "columns": names, "total": total, "notes": list(self._notes)}

    def chat_for(self, config: RunConfig) -> bool:
        """Return whether the cached dataset belongs to this config and has messages as prompts."""
        return self._chat and _data_key(config) == self._key


def chat_maker(config: RunConfig, rows: DatasetRows) -> Callable[[Any], Any] | None:
    """Return a function that turns a text prompt into messages, None if the run's prompts are texts."""
    if config.section.wants_chat or rows.chat_for(config):
        return lambda prompt: as_messages(prompt, config.section)
    return None


def read_parquet(path: str) -> list[dict[str, Any]]:
    """Return the rows of a parquet file as mappings.

    Raises:
        ValueError: it cannot be read, or is too large.
    """
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}") from error
    if table.num_rows > MOST_ROWS:
        raise ValueError(f"{path} has {table.num_rows:,} rows; at most {MOST_ROWS:,} can be scored")
    return table.to_pylist()


def _data_key(config: RunConfig) -> str:
    """Return everything that the rows depend on, including the state of the files."""
    whole = config.to_json()
    parts = {name: whole[name] for name in ("script", "mixture", "cwd")}
    section = {k: v for k, v in whole["section"].items() if k != "rewards"}
    stamps = stamps_of(config, rewards=False)
    return json.dumps([parts, section, config.grpo.get("seed"), stamps], sort_keys=True, default=str)


class NoTokenIds:
    """`completion_ids` without a tokenizer. Reading it raises with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self) -> RuntimeError:
        return RuntimeError(f"completion_ids needs the tokenizer of the model: {self._reason}")

    def __iter__(self) -> Iterator[Any]:
        raise self._refuse()

    def __getitem__(self, key: Any) -> Any:
        raise self._refuse()

    def __len__(self) -> int:
        raise self._refuse()


class Tokens:
    """Token ids of completions, cached by text.

    Attributes:
        tokenizer: the policy's, or None.
    """

    def __init__(self, model: str) -> None:
        self.tokenizer: Any = None
        self.reason = "no model is named; score with a config that has model_name_or_path"
        self._known: dict[tuple[str, bool], list[int]] = {}
        if not model:
            return
        from transformers import AutoTokenizer

        try:
            self.tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            self.reason = f"{model} has none on this machine ({type(error).__name__}: {first[:200]})"

    def ids(self, completions: list[Any], truncated: list[bool]) -> list[list[int]] | NoTokenIds:
        """Return ids as the model would have generated them, with the end token unless truncated."""
        if self.tokenizer is None:
            return NoTokenIds(self.reason)
        keys = [(completion_text(c), t) for c, t in zip(completions, truncated, strict=True)]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            encoded = self.tokenizer([text for text, _ in new], add_special_tokens=False)["input_ids"]
            end = self.tokenizer.eos_token_id
            for key, ids in zip(new, encoded, strict=True):
                self._known[key] = [*ids, *([] if key[1] or end is None else [end])]
        return [list(self._known[key]) for key in keys]

    def prompt_tail(self, prompt: Any) -> str:
        """Return the end of a prompt as the chat template writes it, empty without a template."""
        if self.tokenizer is None or isinstance(prompt, str) or not self.tokenizer.chat_template:
            return ""
        try:
            text = self.tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        except Exception:
            return ""  # the check of the config reports it
        return str(text)[-60:]
