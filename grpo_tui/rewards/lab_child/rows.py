"""Rows for the lab: pages of the config's dataset as training sees it, and parquet files.

The data is mapped by `data.load`, the code that training uses. It knows no reward.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.stamps import stamps_of
from grpo_tui.data.load import load_prompts
from grpo_tui.data.mapping import as_messages

MOST_ROWS = 100_000
MOST_LOOKED_AT = 20_000
"""Rows of a dataset that are mapped for a look; training maps all of them."""


class DatasetRows:
    """Keeps the dataset that was loaded last, for the next page of it."""

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
        """Return whether this config's dataset is known to have lists of messages as prompts."""
        return self._chat and _data_key(config) == self._key


def chat_maker(config: RunConfig, rows: DatasetRows) -> Callable[[Any], Any] | None:
    """Return what makes messages of a text prompt, None when the run's prompts are texts."""
    if config.section.wants_chat or rows.chat_for(config):
        return lambda prompt: as_messages(prompt, config.section)
    return None


def read_parquet(path: str) -> list[dict[str, Any]]:
    """Return the rows of a parquet file as mappings.

    Raises:
        ValueError: it cannot be read, or is too large for a look.
    """
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}") from error
    if table.num_rows > MOST_ROWS:
        raise ValueError(f"{path} has {table.num_rows:,} rows; the lab takes {MOST_ROWS:,} at most")
    return table.to_pylist()


def _data_key(config: RunConfig) -> str:
    """What the rows depend on, the state of the files among it."""
    whole = config.to_json()
    parts = {name: whole[name] for name in ("script", "mixture", "cwd")}
    section = {k: v for k, v in whole["section"].items() if k != "rewards"}
    stamps = stamps_of(config, rewards=False)
    return json.dumps([parts, section, config.grpo.get("seed"), stamps], sort_keys=True, default=str)
