"""The part of the pane Config that changes fields: chosen from a list, toggled, typed; and undone."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.screen import Screen

from grpo_tui.core.text import one_line
from grpo_tui.present.config_view import FieldRow, GroupRow
from grpo_tui.ui.config_worker import ConfigWorker
from grpo_tui.ui.screens.choosing import Choice, MenuDialog
from grpo_tui.ui.screens.config_dialogs import ValueDialog
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.switching import KeepsStyles
from grpo_tui.ui.widgets.config_form import ORIGIN_W, WIDEST_VALUE, ConfigForm
from grpo_tui.ui.widgets.form_field import FormField
from grpo_tui.ui.widgets.yaml_area import YamlArea

if TYPE_CHECKING:
    from textual.timer import Timer

    from grpo_tui.config.draft import Draft
    from grpo_tui.config.fields import FieldValue
    from grpo_tui.present.config_evaluate import Evaluation, Snapshot
    from grpo_tui.present.config_view import ConfigView
    from grpo_tui.ui.config_wish import ConfigWish

TYPED_S = 0.2
"""After the last key in the text, the form follows."""
LEAST_FIELD = 14
"""Cells of a field that is typed in, however short the value."""


class ConfigEditing(KeepsStyles, Screen[None], Shell):
    """What a screen needs to change the fields of its draft."""

    def __init__(self) -> None:
        super().__init__()
        self.draft: Draft | None = None
        self.wish: ConfigWish | None = None
        self.worker: ConfigWorker | None = None
        self.evaluation: Evaluation | None = None
        self.number = 0
        self._typing: Timer | None = None

    def show(self) -> None:
        """Paint everything that depends on the config."""
        raise NotImplementedError

    def show_chosen(self, refusal: str = "") -> None:
        """Paint the help of the chosen field."""
        raise NotImplementedError

    def toggle_group(self, row: GroupRow) -> None:
        """Show all fields of a group, or the few."""
        raise NotImplementedError

    def to_form(self, name: str | None = None) -> None:
        """Give the form the focus, its cursor on a field."""
        raise NotImplementedError

    def chosen_name(self) -> str | None:
        """The field under the cursor."""
        raise NotImplementedError

    def action_config_other(self) -> None:
        """To the other side."""
        raise NotImplementedError

    @property
    def view(self) -> ConfigView | None:
        """What the text means, as far as it was looked at."""
        return self.evaluation.view if self.evaluation is not None else None

    def changed(self, *, typed: bool = False) -> None:
        """Show the draft's text, and have it looked at."""
        if self.draft is None or self.worker is None:
            return
        if not typed:
            self.query_one(YamlArea).show_text(self.draft.text)
        self.number += 1
        self.worker.evaluate(self.snapshot())

    def snapshot(self) -> Snapshot:
        """The config as it stands, for the thread."""
        from grpo_tui.present.config_evaluate import Snapshot

        draft, wish = self.draft, self.wish
        assert draft is not None
        assert wish is not None
        return Snapshot(
            number=self.number,
            text=draft.text,
            path=wish.path,
            saved=draft.saved_text,
            preset=draft.preset,
            overrides=wish.overrides,
            launcher=tuple(shlex.split(wish.launcher or "")),
        )

    # -- typing in the text ----------------------------------------------------------------------

    def on_yaml_area_typed(self, event: YamlArea.Typed) -> None:
        """The draft takes each key; the form follows once the keys rest."""
        if self.draft is None:
            return
        self.draft.replace_text(self.query_one(YamlArea).config_text)
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(TYPED_S, self._rested)

    def _rested(self) -> None:
        self._typing = None
        self.changed(typed=True)

    # -- changing a field ------------------------------------------------------------------------

    def action_config_edit(self) -> None:
        """What the line under the cursor offers."""
        row = self.query_one(ConfigForm).chosen
        if isinstance(row, GroupRow):
            self.toggle_group(row)
        elif row is not None and self.readable():
            self.edit(row)

    def readable(self) -> bool:
        """Whether fields can be changed; says why not."""
        view = self.view
        if view is None or view.broken is None:
            return view is not None
        line = f" (line {view.broken.line})" if view.broken.line is not None else ""
        self.app.notify(f"The text cannot be read{line}: tab goes there.", severity="warning", markup=False)
        return False

    def edit(self, row: FieldRow) -> None:
        """Ask for a value in the way that fits the field."""
        from grpo_tui.present.config_evaluate import in_lines, refusal, way_of

        value = self.value_of(row.name)
        if value is None:  # a key that nobody knows is mended in the text
            self.action_config_other()
            return
        if row.origin == "set":
            self.app.notify(f"{row.name} was given with --set, which wins over the file.", markup=False)
        way = way_of(value)

        def take(words: str | None) -> None:
            if words is not None:
                self.put_words(row.name, words)

        def take_lines(text: str | None) -> None:
            take(in_lines(text) if text else text)

        if way.kind == "toggle":
            self.put_words(row.name, "false" if value.value is True else "true")
        elif way.kind == "choose":
            listed = [
                Choice(word, "now" if word == way.text else "", word, about=_told(row.name, word))
                for word in way.choices
            ]
            at = next((n for n, choice in enumerate(listed) if choice.name == way.text), 0)
            self.app.push_screen(MenuDialog(row.name, listed, at=at), take)
        elif way.kind == "line":
            self._open_field(row, way.text)
        else:
            yaml = way.kind == "yaml"
            check = partial(refusal, row.name, kind=way.kind)
            dialog = ValueDialog(row.name, value.kind, way.text, check, yaml=yaml)
            self.app.push_screen(dialog, take_lines if yaml else take)

    def value_of(self, name: str) -> FieldValue | None:
        """A field as it is now; None for a key that nobody knows."""
        return self.evaluation.values.get(name) if self.evaluation is not None else None

    def put_words(self, name: str, words: str) -> None:
        """Set a field to what was typed or chosen; nothing at all is the default."""
        self.do(lambda draft: draft.set_words(name, words))

    def drop_value(self, name: str) -> None:
        """Take a field out of the file."""
        self.do(lambda draft: draft.unset(name))

    def do(self, change: Callable[[Draft], object]) -> None:
        """Change the draft, or say why it cannot be changed so."""
        from grpo_tui.config.coerce import CoerceError
        from grpo_tui.config.yaml_edit import EditError

        if self.draft is None:
            return
        try:
            change(self.draft)
        except (EditError, CoerceError) as error:
            self.app.notify(one_line(str(error), 300), severity="warning", timeout=10, markup=False)
        self.changed()

    def action_config_unset(self) -> None:
        """TRL's default again."""
        row = self.query_one(ConfigForm).chosen
        if isinstance(row, FieldRow) and self.readable():
            if row.origin == "default":
                self.app.notify(f"{row.name} is not in the file.", markup=False)
            elif row.origin == "set":
                self.app.notify(f"{row.name} was given with --set; the file does not hold it.", markup=False)
            else:
                self.drop_value(row.name)

    def action_config_undo(self) -> None:
        """The text before."""
        self._step(lambda draft: draft.undo(), "Nothing is left to undo.")

    def action_config_redo(self) -> None:
        """The text after."""
        self._step(lambda draft: draft.redo(), "Nothing is left to do again.")

    def _step(self, step: Callable[[Draft], bool], otherwise: str) -> None:
        if self.draft is not None:
            if step(self.draft):
                self.changed()
            else:
                self.app.notify(otherwise, markup=False)

    # -- the field that is typed in --------------------------------------------------------------

    def _open_field(self, row: FieldRow, text: str) -> None:
        form, field = self.query_one(ConfigForm), self.query_one(FormField)
        place = form.region
        y = place.y + form.cursor - form.scroll_offset.y
        left = place.x + form.name_w
        room = place.width - form.name_w - ORIGIN_W - 4
        width = max(LEAST_FIELD, min(WIDEST_VALUE, room))
        field.open(row.name, text, Region(left, y, width, 1))

    def close_field(self) -> None:
        """Leave the value as it was."""
        field = self.query_one(FormField)
        if field.name_edited:
            field.close()
            self.query_one(ConfigForm).focus()

    def on_form_field_tried(self, event: FormField.Tried) -> None:
        """Say at once what does not fit."""
        self.show_chosen(self._refusal())

    def on_form_field_given(self, event: FormField.Given) -> None:
        """Take it, or say why not."""
        field = self.query_one(FormField)
        refusal = self._refusal()
        if refusal:
            self.show_chosen(refusal)
            return
        name, text = field.name_edited, field.text
        self.close_field()
        self.put_words(name, text)
        self.show_chosen()

    def on_form_field_left(self, event: FormField.Left) -> None:
        """As it was."""
        self.close_field()
        self.show_chosen()

    def _refusal(self) -> str:
        from grpo_tui.present.config_evaluate import refusal

        field = self.query_one(FormField)
        return refusal(field.name_edited, field.text) if field.name_edited else ""


def _told(name: str, choice: str) -> str:
    """What a choice does, and how it is computed."""
    from grpo_tui.config.advice import choice_advice

    said = choice_advice(name, choice)
    return " ".join(part for part in (said.text, said.formula, said.source) if part) if said else ""
