"""How values become columns and come back: NaN, infinities, JSON with anything inside.

Knows encodings only.
"""

from __future__ import annotations

import json
import math
from typing import Any


def to_column(value: Any) -> Any:
    """A metric or reward value as SQLite can keep it without loss.

    None stays NULL, infinities are REAL, NaN becomes the text 'nan' because SQLite would store NULL.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        number = float(value) if isinstance(value, float) else value
        return "nan" if isinstance(number, float) and math.isnan(number) else number
    if hasattr(value, "item") and getattr(value, "size", None) in (1, None):
        return to_column(value.item())
    return to_json(value)


def from_column(value: Any) -> Any:
    """The value `to_column` was given."""
    return math.nan if value == "nan" else value


def to_json(value: Any) -> str:
    """JSON text of any value; what JSON cannot say is kept as its `repr`."""
    return json.dumps(value, ensure_ascii=False, default=_fallback, separators=(",", ":"))


def from_json(text: str | None) -> Any:
    """The value behind a JSON column, None for NULL."""
    return None if text is None else json.loads(text)


def _fallback(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return repr(value)[:1000]


def finite_json(value: Any) -> Any:
    """The value with what standard JSON cannot say made null: NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(item) for item in value]
    return value
