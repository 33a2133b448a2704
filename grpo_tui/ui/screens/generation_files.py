"""Exports and saved queries of Generations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import from_here, plural
from grpo_tui.present.rollout_export import write_rows
from grpo_tui.store.rollouts import all_function_names, iter_rollouts
from grpo_tui.store.saved_views import SavedView, SavedViews
from grpo_tui.ui.preferences import config_folder
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog, PathDialog, WordsDialog

if TYPE_CHECKING:
    from grpo_tui.ui.pages import Stores
    from grpo_tui.ui.screens.generations import GenerationsScreen

KINDS = {".jsonl": "jsonl", ".csv": "csv", ".md": "md"}
KEEP = "keep"


def export(screen: GenerationsScreen) -> None:
    """Export the matches, the group or the completion, depending on the focused part."""
    query, what = _scope(screen)
    if query is None and not screen.found.ids:
        screen.app.notify("There is nothing to write.", severity="warning")
        return
    name = "completion.md" if query is not None else "completions.jsonl"
    hint = "The extension sets the format: .jsonl is complete, .csv is flat, .md suits an issue."
    dialog = PathDialog(f"export {what} to", name, _wrong, hint)
    screen.ask(dialog, lambda path: _write(screen, path, query, what))


def _scope(screen: GenerationsScreen) -> tuple[str | None, str]:
    """Return the query for the export (None for all matches), and a description."""
    card, row = screen.card, screen.row
    if screen.part == "list" or card is None:
        return None, plural(len(screen.found.ids), "completion")
    if screen.part == "reader" and row is not None:
        return f"group=={card.id} and index=={row.index}", f"completion {row.index + 1}"
    return f"group=={card.id}", f"the group of step {card.step:,}"


def _write(screen: GenerationsScreen, path: Path, query: str | None, what: str) -> None:
    found, kind = screen.found.ids, KINDS[path.suffix.lower()]

    def write(stores: Stores) -> str:
        try:
            search = stores.search
            ids = found if query is None else search.find(query, "index", superseded=True).ids
            with path.open("x", encoding="utf-8", newline="") as out:
                rows = iter_rollouts(search.run, ids)
                write_rows(out, rows, all_function_names(search.run), kind, everything=True)
        except OSError as error:
            return f"Not written: {from_here(path)}: {error.strerror or error}"
        except Exception as error:  # any error of the store: the user must be told about the file
            return f"Not written completely: {from_here(path)}: {error}"
        return ""

    def told(trouble: str) -> None:
        _say(screen, trouble or f"Wrote {what} to {from_here(path)}.", wrong=bool(trouble))

    if screen.searches is not None:
        screen.searches.ask("export", write, told, lambda why: told(f"Not written: {why}."))


def _say(screen: GenerationsScreen, words: str, *, wrong: bool = False) -> None:
    severity: Literal["warning", "information"] = "warning" if wrong else "information"
    screen.app.notify(one_line(words, 300), severity=severity)


def choose_view(screen: GenerationsScreen) -> None:
    """Open a saved query, or save the current one."""
    views = SavedViews(config_folder())
    known, trouble = views.read()
    choices = [
        Choice(one_line(v.name, 30), one_line(f"{v.query or 'everything'}, {order_words(v.sort)}", 60), v)
        for v in known
    ]
    if screen.line:
        choices.append(Choice("save this query", one_line(screen.line, 60), KEEP, key="w"))
    if not choices:
        word = trouble or "No saved queries yet. Search with /, then press v again to save the query."
        _say(screen, word)
        return

    def chosen(value: SavedView | str) -> None:
        if isinstance(value, SavedView):
            screen.show_query(value.query, order=value.sort)
        else:
            _keep(screen, views)

    screen.ask(MenuDialog("saved queries", choices), chosen)


def _keep(screen: GenerationsScreen, views: SavedViews) -> None:
    line, order = screen.line, screen.order

    def named(name: str) -> None:
        if not name.strip():
            return
        trouble = views.save(SavedView(name.strip(), line, order))
        word = trouble or f"Saved as “{one_line(name.strip(), 40)}”. Open it with v or --view."
        _say(screen, word, wrong=bool(trouble))

    screen.ask(WordsDialog("a name for the query", "", line), named)


def _wrong(path: Path) -> str:
    """Return why a file cannot be written under this name, or ""."""
    if path.suffix.lower() not in KINDS:
        return f"unknown format. Use {', '.join(KINDS)}"
    if path.exists():
        return f"{from_here(path)} already exists. Choose another name"
    return "" if path.parent.is_dir() else f"there is no folder {from_here(path.parent)}"


def order_words(sort: str) -> str:
    """Return a sort order in words."""
    if not sort:
        return "newest first"
    if sort == "step":
        return "oldest first"
    name, first = sort.lstrip("-"), "highest" if sort.startswith("-") else "lowest"
    return f"{first} {one_line(name.removeprefix('rewards.').strip(chr(34)), 24)} first"
