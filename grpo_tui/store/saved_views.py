"""Named queries, in one small JSON file that is replaced whole at each change.

A file that cannot be read yields no views and a message, never an error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.store.json_file import write_json

FILE = "views.json"


@dataclass(frozen=True, slots=True)
class SavedView:
    """A query with its order, under a name."""

    name: str
    query: str
    sort: str = ""
    """As read by `search.read_sort`; empty for newest first."""


class SavedViews:
    """The file of views."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def read(self) -> tuple[tuple[SavedView, ...], str]:
        """Return all views by name, and a message about what could not be read."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return (), ""
        except (OSError, ValueError, RecursionError) as error:
            return (), f"{self.path} cannot be read ({error}), so there are no saved views"
        views = []
        for name, value in sorted(found.items()) if isinstance(found, dict) else ():
            query, sort = (
                (value.get("query"), value.get("sort", "")) if isinstance(value, dict) else (None, "")
            )
            if isinstance(query, str) and isinstance(sort, str):
                views.append(SavedView(name, query, sort))
        whole = isinstance(found, dict) and len(views) == len(found)
        return tuple(views), "" if whole else f"{self.path}: skipped an invalid view"

    def named(self, name: str) -> SavedView | None:
        """Return the view of that name, or None."""
        return next((view for view in self.read()[0] if view.name == name), None)

    def save(self, view: SavedView) -> str:
        """Add or replace a view. Return why it could not be written, or an empty string."""
        return self._change(view.name, view)

    def remove(self, name: str) -> str:
        """Remove a view. Return why the file could not be written, or an empty string."""
        return self._change(name, None)

    def _change(self, name: str, view: SavedView | None) -> str:
        views, trouble = self.read()
        if trouble:
            return f"not saved: {trouble}"
        kept = {one.name: {"query": one.query, "sort": one.sort} for one in views if one.name != name}
        if view is not None:
            kept[name] = {"query": view.query, "sort": view.sort}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, dict(sorted(kept.items())), indent=1)
        except OSError as error:
            return f"not saved: {self.path} cannot be written ({error.strerror or error})"
        return ""
