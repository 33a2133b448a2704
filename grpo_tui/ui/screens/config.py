"""Pane 2, Config: a config as form and text, with findings, help and the plan of a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.css.query import QueryType
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line, shell_word, wrapped
from grpo_tui.present.config_view import (
    NO_FIELD,
    FieldHelp,
    FieldRow,
    GroupRow,
    Snapshot,
    field_of,
    form_rows,
    notes,
)
from grpo_tui.present.formatting import from_here
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.config_worker import ConfigWorker
from grpo_tui.ui.messages import ConfigEvaluated, DiskChanged
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.requests import ConfigRequest, config_of_run, recorded_path
from grpo_tui.ui.screens.config_dialogs import FindingsScreen, ValueDialog
from grpo_tui.ui.screens.config_files import ConfigFiles
from grpo_tui.ui.screens.config_start import ConfigStart
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog
from grpo_tui.ui.screens.reading import TextScreen
from grpo_tui.ui.shell import Shell
from grpo_tui.ui.textual_private import KeepsStyles
from grpo_tui.ui.widgets.bars import Footer, Header
from grpo_tui.ui.widgets.config_form import (
    ORIGIN_W,
    WIDEST_VALUE,
    ConfigForm,
    ConfigSummary,
    FormField,
    HelpStrip,
    PlanStrip,
)
from grpo_tui.ui.widgets.yaml_area import SIGNS, YamlArea

if TYPE_CHECKING:
    from textual.timer import Timer

    from grpo_tui.config.draft import Draft
    from grpo_tui.config.fields import FieldValue
    from grpo_tui.present.config_view import OpenConfig
    from grpo_tui.present.train_view import TrainView

LOOK_S = 0.5
EMPTY: list[Line] = [
    (),
    [Span("   ctrl+n ", "key", "screen.config_new"), Span("creates a config from a preset", "dim")],
    [Span("   o      ", "key", "screen.config_open"), Span("opens a file; or ", "dim"),
     Span("grpo-tui CONFIG.yaml", "key"), Span(" from the shell", "dim")],
    (),
    [Span("   A config is a TRL YAML file: the one that `trl grpo --config` takes.", "dim")],
]  # fmt: skip

OF_SCRIPT: list[Line] = [
    (),
    [Span("   A script of your own started the open run, so it has no config file.", "attention")],
    [Span("   t", "key"), Span(" in Train shows its settings.", "attention")],
]
UNREAD: list[Line] = [(), [Span("   Fix the text to see the fields: ", "dim"),
                          Span("tab", "key", "screen.config_other")]]  # fmt: skip


def gone_lines(root: Path, path: Path) -> list[Line]:
    """Say that the config file of a run is gone, and how to get it back from the run's record."""
    said = f"The open run was started from {from_here(path)}, which is gone. Its record holds the config:"
    back = f"grpo-tui export {shell_word(from_here(root))} --format config -o {shell_word(path.name)}"
    rows = [(row, "attention") for row in wrapped(one_line(said), 74)]
    rows += [(row, "key") for row in wrapped(one_line(back), 74)]
    return [(), *([Span(f"   {row}", role)] for row, role in rows)]


class ConfigScreen(KeepsStyles, Screen[None], Shell):
    """A config as form and text."""

    AUTO_FOCUS = "#config-form"
    BINDINGS = bindings("config")
    PANE = "config"

    def __init__(self) -> None:
        super().__init__()
        self._opened: set[str] = set()
        self._words = ""
        self._found: set[str] | None = None
        self._asked = False
        """The app was asked which file to open. Until then the pane stays empty."""
        self._gone: list[Line] = []
        """Says why the open run has no config file, if it has none."""
        self.files, self.start = ConfigFiles(self), ConfigStart(self)
        self.draft: Draft | None = None
        self.request: ConfigRequest | None = None
        self.worker: ConfigWorker
        self.state: OpenConfig | None = None
        self.number = 0
        self._typing: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Header("config")
        yield ConfigSummary(id="config-summary")
        yield Input(placeholder="words in names and helps", id="config-search")
        with Horizontal(id="config-sides"):
            yield ConfigForm(id="config-form")
            yield YamlArea(id="config-text", elsewhere=True)
        yield HelpStrip(id="config-help")
        yield PlanStrip(id="config-plan")
        yield FormField(id="config-field")
        yield Footer("config")

    def on_mount(self) -> None:
        self.query_one("#config-search", Input).display = False
        self.shell.view_signal.subscribe(self, self._on_view)
        self.set_interval(LOOK_S, self._look)
        self.files.start_threads()
        self.show()

    def on_unmount(self) -> None:
        self.files.stop()
        self.start.stop()

    def on_screen_resume(self) -> None:
        """Open what the app was asked for. If nothing is open, open the config of the open run."""
        from grpo_tui.store.reader import script_arguments

        self._on_view(self.shell.view)
        request, folder = self.shell.take_config_request(), self.shell.run_folder
        self._gone = []
        if request is None and self.draft is None and folder is not None:
            of_run = config_of_run(folder.root)
            request = ConfigRequest(of_run, of_run=True) if of_run is not None else None
            if of_run is None and (path := recorded_path(folder.root)) is not None:
                self._gone = gone_lines(folder.root, path)
            elif of_run is None and script_arguments(folder) is not None:
                self._gone = OF_SCRIPT
        self._asked = True
        if request is not None:
            self.files.open_request(request)
        if self.state is None:
            self.show()

    def _look(self) -> None:
        if self.is_active and self.start.busy_line():
            self.show_state()

    def _on_view(self, view: TrainView | None) -> None:
        if self.is_attached:
            self.query_one(Header).show(view)
            self.tell_keys()

    # -- showing ---------------------------------------------------------------------------------

    def on_config_evaluated(self, message: ConfigEvaluated) -> None:
        """Show the evaluation. Ignore one of an older text."""
        if message.state.snapshot.number == self.number:
            first, self.state = self.state is None, message.state
            broken = message.state.broken
            if first and broken is not None:
                self.to_line(broken.line or 1)
            self.show()
            if self.query_one(ConfigForm).has_focus:
                self.on_cursor_list_highlighted()
            self.start.go_on()

    def show(self) -> None:
        self._fit()
        state = self.state
        self.show_state()
        self.query_one(YamlArea).note(notes(state.findings) if state is not None else {})
        self.show_form()
        self.query_one(PlanStrip).show(self.start.plan_rows())

    def show_state(self) -> None:
        summary = self.query_one(ConfigSummary)
        summary.config, summary.busy, summary.state = (
            self.state,
            self.start.busy_line(),
            self.start.state_line(),
        )
        if self._asked:
            summary.opening = self.request.path.name if self.request is not None else ""
        summary.changed()

    def show_form(self, keep: str | None = None) -> None:
        """Update the form, with the cursor on the field `keep`."""
        form, state = self.query_one(ConfigForm), self.state
        form.words = self._words
        form.waits = self._waits()
        form.show(form_rows(state.fields, self._opened, self._found) if state is not None else (), keep)
        self.show_chosen()

    def show_chosen(self, refusal: str = "") -> None:
        """Show help for the field under the cursor of the form or the text."""
        name, state = self.chosen_name(), self.state
        if state is not None and state.broken is not None:
            edits = "" if self.query_one(YamlArea).has_focus else ". Press tab to edit the text"
            refusal = one_line(state.broken.words(), 200) + edits
        self.query_one(HelpStrip).show(self.help_of(name) if name is not None else None, refusal)
        self.tell_keys()

    def _waits(self) -> list[Line]:
        if self.draft is None:
            return [*self._gone, *EMPTY] if self._asked else []
        return UNREAD if self.state is not None else []

    def chosen_name(self) -> str | None:
        """Return the field under the cursor of the focused side; None if there is none."""
        state, area = self.state, self.query_one(YamlArea)
        if state is None:
            return None
        if not area.has_focus:
            row = self.query_one(ConfigForm).chosen
            return row.name if isinstance(row, FieldRow) else None
        line = area.cursor_location[0] + 1
        above = [(at, name) for name, at in state.lines.items() if at <= line]
        if not above:
            return None
        nearest = max(at for at, _ in above)
        names = {field.name for field in state.fields}
        inside = next(name for at, name in above if at == nearest)
        while inside and inside not in names:
            inside = inside.rpartition(".")[0]
        return inside or None

    def tell_keys(self) -> None:
        footer, state = self.query_one(Footer), self.state
        parts: list[str] = []
        if self.query_one(YamlArea).has_focus:
            parts = ["text", "typing"]
        elif self.query_one("#config-search", Input).has_focus:
            parts = ["search", "typing"]
        elif self.query_one(FormField).has_focus:
            parts = ["field", "typing"]
        elif state is None:
            parts = ["empty"] if self.draft is None else []
        elif not state.fields:
            parts = ["unread"]
        else:
            parts = ["form"]
            parts += ["search"] if self._found is not None else []
            parts += ["edited"] if state.unsaved else []
            parts += ["found"] if state.findings else []
            parts += ["fixable"] if self.chosen_fix() is not None else []
            parts += ["fixables"] if len(self._mendable()) > 1 else []
        footer.parts = tuple(parts)
        footer.show(None if self.beside_run else self.shell.view)

    @property
    def beside_run(self) -> bool:
        """Whether the user opened this file, so that it can be changed during a replay."""
        return self.request is not None and not self.request.of_run

    def _fit(self) -> None:
        """Show one side on a narrow screen, and the lower parts only if the height allows."""
        narrow = self.app.size.width < 100
        text = self.query_one(YamlArea)
        on_text = text.has_focus
        text.display = self.state is not None and (not narrow or on_text)
        self.query_one(ConfigForm).display = not narrow or not on_text
        height = self.app.size.height
        self.query_one(HelpStrip).display = self.state is not None and height >= 16
        self.query_one(PlanStrip).display = self.state is not None and height >= 20
        self.query_one(HelpStrip).styles.height = 5 if height < 30 else 7 if height < 46 else 10

    def on_resize(self) -> None:
        self.close_field()
        self.call_after_refresh(self.show)

    # -- moving ----------------------------------------------------------------------------------

    def on_cursor_list_highlighted(self) -> None:
        name, state = self.chosen_name(), self.state
        if name is not None and state is not None and name in state.lines:
            self.query_one(YamlArea).go_to(state.lines[name])
        self.show_chosen()

    def on_yaml_area_moved(self, event: YamlArea.Moved) -> None:
        if self.query_one(YamlArea).has_focus:
            self.show_chosen()

    def focus_next(self, selector: str | type[QueryType] = "*") -> Widget | None:
        """Switch between form and text, the only two parts that take the focus."""
        self.action_config_other()
        return self.focused

    def focus_previous(self, selector: str | type[QueryType] = "*") -> Widget | None:
        return self.focus_next()

    def action_config_other(self) -> None:
        area, form = self.query_one(YamlArea), self.query_one(ConfigForm)
        if self.state is None:
            return
        if area.has_focus:
            self.action_config_back()
            return
        area.focus()
        form.changed()
        self.call_after_refresh(self.show)

    def action_config_back(self) -> None:
        """Go back from a value or the text to the form, or stop the check or trial, or end the search."""
        if self.query_one(FormField).name_edited:
            self.close_field()
        elif self.query_one(YamlArea).has_focus:
            self.to_form(self.chosen_name())
        elif self.start.end_work():
            return
        elif self._found is not None or self.query_one("#config-search", Input).display:
            self.action_config_end_search()

    def to_form(self, name: str | None = None) -> None:
        """Focus the form with the cursor on a field, opening its group if needed."""
        form, state = self.query_one(ConfigForm), self.state
        form.display = True
        form.focus()
        if name is not None and state is not None:
            row = next((f for f in state.fields if f.name == name), None)
            if row is not None and row not in form_rows(state.fields, self._opened, self._found):
                self._opened.add(row.group)
                self._found, self._words = None, ""
        self.show_form(name)
        self.on_cursor_list_highlighted()
        self.call_after_refresh(self.show)

    def action_config_all(self) -> None:
        state = self.state
        if state is not None:
            groups = {field.group for field in state.fields}
            self._opened = set() if self._opened >= groups else groups
            self.show_form()

    # -- searching -------------------------------------------------------------------------------

    def action_config_search(self) -> None:
        if self.state is not None:
            search = self.query_one("#config-search", Input)
            search.display = True
            search.focus()
            self.call_after_refresh(self.tell_keys)

    def on_input_changed(self, event: Input.Changed) -> None:
        from grpo_tui.config.advice import search_fields

        if event.input.id == "config-search":
            self._words = event.value.strip()
            found = [one.name for one in search_fields(self._words)] if self._words and self.state else []
            self._found = set(found) if self._words else None
            self.show_form(found[0] if found else None)
        elif isinstance(event.input, FormField) and event.input.name_edited:
            self.show_chosen(event.input.refusal)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "config-search":
            event.input.display = False
            self.query_one(ConfigForm).focus()
            self.tell_keys()
        elif isinstance(event.input, FormField) and event.input.name_edited:
            self._take_field(event.input)

    def action_config_end_search(self) -> None:
        name = self.chosen_name()
        search = self.query_one("#config-search", Input)
        search.value, search.display = "", False
        self._words, self._found = "", None
        self.to_form(name)

    # -- reading ---------------------------------------------------------------------------------

    def action_config_whole(self) -> None:
        name = self.chosen_name()
        if name is not None:
            self.app.push_screen(TextScreen(name, self.whole_help(name), prose=True))

    def action_config_copy(self) -> None:
        name = self.chosen_name()
        if name is not None:
            self.shell.copy(name, self.written(name))

    def action_config_findings(self) -> None:
        state = self.state
        if state is not None and state.findings:
            self.ask(FindingsScreen(state.findings), self.chosen_finding)
        elif state is not None:
            self.app.notify("No findings.")

    def chosen_finding(self, answer: tuple[str, Finding]) -> None:
        what, finding = answer
        if what == "all":
            self.action_config_fix_all()
            return
        if what == "fix":
            self.apply(finding)
        self.go_to(finding)

    def go_to(self, finding: Finding) -> None:
        """Go to the finding's field, or to its line if it has no field."""
        state = self.state
        if state is None:
            return
        name = field_of(finding, {field.name for field in state.fields})
        if name is not None and state.broken is None:
            self.to_form(name)
        elif finding.line is not None:
            self.to_line(finding.line)

    def to_line(self, line: int) -> None:
        area = self.query_one(YamlArea)
        area.go_to(line)
        self.set_focus(area)  # at once: `show` hides a side without the focus on a narrow screen
        area.focus()  # and after a request for the form that still waits
        self.call_after_refresh(self.show)

    def action_step_finding(self, by: int) -> None:
        state = self.state
        if state is None:
            return
        names = [field.name for field in state.fields]
        row = self.query_one(ConfigForm).chosen
        marked = [n for n, field in enumerate(state.fields) if field.severity in ("error", "warning")]
        if not marked:
            self.app.notify("No field has a finding.")
            return
        if isinstance(row, FieldRow):
            at = names.index(row.name)
        else:
            at = next((n for n, f in enumerate(state.fields) if row is not None and f.group == row.title), 0)
            at -= by > 0
        beyond = [n for n in marked if (n > at if by > 0 else n < at)]
        self.to_form(names[(beyond or marked)[0 if by > 0 else -1]])

    # -- fixes -----------------------------------------------------------------------------------

    def chosen_fix(self) -> Finding | None:
        """Return the first finding of the selected field that has a fix, errors first."""
        name = self.chosen_name()
        if name is None:
            return None
        return next((finding for finding in self.findings_of(name) if finding.fix is not None), None)

    def findings_of(self, name: str) -> tuple[Finding, ...]:
        state = self.state
        if state is None:
            return ()
        names = {field.name for field in state.fields}
        return tuple(f for f in state.findings if field_of(f, names) == name)

    def action_config_fix(self) -> None:
        finding = self.chosen_fix()
        if finding is not None:
            self.apply(finding)
        elif (name := self.chosen_name()) is not None:
            wrong = any(found.severity != "info" for found in self.findings_of(name))
            word = "there is no single value that fixes it" if wrong else "nothing to fix"
            self.app.notify(f"{one_line(name, 40)}: {word}.")

    def _mendable(self) -> list[Finding]:
        from grpo_tui.config.draft import mendable

        return [found for found in self.state.findings if mendable(found)] if self.state is not None else []

    def action_config_fix_all(self) -> None:
        found = self._mendable()
        if not found:
            self.app.notify("No error has a fix that can be applied without asking.")
        elif self.readable():
            self.do(lambda draft: draft.apply_all(found))

    def apply(self, finding: Finding) -> None:
        if finding.fix is not None and self.readable():
            self.do(lambda draft: draft.apply(finding))

    # -- field help ------------------------------------------------------------------------------

    def help_of(self, name: str) -> FieldHelp:
        value = self.value_of(name)
        found = self.findings_of(name)
        if value is None:
            return FieldHelp(name, (NO_FIELD,), found)
        return FieldHelp(
            name,
            (value.kind, f"default {value.default}"),
            tuple(f for f in found if f.severity != "info"),
            self._advice(name, value),
            " ".join(value.info.help.split()),
        )

    def _advice(self, name: str, value: FieldValue) -> tuple[str, ...]:
        from grpo_tui.config.advice import ADVICE, choice_advice

        advice = ADVICE.get(name)
        if advice is None:
            return ()
        sentences = [f"{advice.choose} {advice.why}"]
        now = choice_advice(name, str(value.value)) if isinstance(value.value, str) else None
        if now is not None:
            sentences.insert(0, f"{value.value}: {now.text}" + (f" {now.formula}" if now.formula else ""))
        sentences += [part for part in (advice.when, advice.cost, advice.older) if part]
        return tuple(sentences)

    def whole_help(self, name: str) -> str:
        shown = self.help_of(name)
        value = self.value_of(name)
        parts = [f"{name}\n{' · '.join(shown.facts)}", *shown.advice]
        parts += self._choices_told(name, value)
        parts += [f"{SIGNS[f.severity][0]} {f.message}" for f in self.findings_of(name)]
        return "\n\n".join([*parts, value.info.help if value is not None else ""])

    def _choices_told(self, name: str, value: FieldValue | None) -> list[str]:
        told = [(choice, _told(name, choice)) for choice in (value.choices if value is not None else ())]
        return ["\n".join(f"{choice}: {text}" if text else choice for choice, text in told)] if told else []

    def written(self, name: str) -> str:
        from grpo_tui.config.yaml_edit_values import entry

        value = self.value_of(name)
        now = value.value if value is not None else None
        return "\n".join(entry(f"{name.rpartition('.')[2]}:", now, 0, 2))

    def changed(self, *, typed: bool = False) -> None:
        """Show the draft's text and evaluate it. With `typed` the text area is left as it is."""
        if self.draft is None:
            return
        if not typed:
            self.query_one(YamlArea).show_text(self.draft.text)
        self.number += 1
        self.worker.evaluate(self.snapshot())

    def snapshot(self) -> Snapshot:
        draft, request = self.draft, self.request
        assert draft is not None
        assert request is not None
        return Snapshot(
            number=self.number,
            text=draft.text,
            path=request.path,
            saved=draft.saved_text,
            preset=draft.preset,
            overrides=request.overrides,
            launcher=tuple(shlex.split(request.launcher or "")),
        )

    # -- typing in the text ----------------------------------------------------------------------

    def on_yaml_area_typed(self, event: YamlArea.Typed) -> None:
        """Update the draft with each key. The form follows after a pause in typing."""
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
        row = self.query_one(ConfigForm).chosen
        if isinstance(row, GroupRow):  # all fields of the group, or the few that are shown by default
            self._opened ^= {row.title}
            self.show_form()
        elif row is not None and self.readable():
            self.edit(row)

    def readable(self) -> bool:
        """Return whether fields can be changed. If not, say why."""
        state = self.state
        if state is None or state.broken is None:
            return state is not None
        line = f" (line {state.broken.line})" if state.broken.line is not None else ""
        self.app.notify(f"The text cannot be read{line}. Press tab to edit it.", severity="warning")
        return False

    def edit(self, row: FieldRow) -> None:
        from grpo_tui.present.config_evaluate import in_lines, refusal, way_of

        value = self.value_of(row.name)
        if value is None:  # unknown keys are fixed in the text
            self.action_config_other()
            return
        if row.origin == "set":
            self.app.notify(f"{row.name} was given with --set, which overrides the file.")
        way = way_of(value)

        put = partial(self.put_words, row.name)
        if way.kind == "toggle":
            put("false" if value.value is True else "true")
        elif way.kind == "choose":
            listed = [
                Choice(word, "now" if word == way.text else "", word, about=_told(row.name, word))
                for word in way.choices
            ]
            at = next((n for n, choice in enumerate(listed) if choice.name == way.text), 0)
            self.ask(MenuDialog(row.name, listed, at=at), put)
        elif way.kind == "line":
            self._open_field(row, way.text)
        else:
            yaml = way.kind == "yaml"
            check = partial(refusal, row.name, kind=way.kind)
            dialog = ValueDialog(row.name, value.kind, way.text, check, yaml=yaml)
            self.ask(dialog, lambda text: put(in_lines(text) if yaml and text else text))

    def value_of(self, name: str) -> FieldValue | None:
        return self.state.values.get(name) if self.state is not None else None

    def put_words(self, name: str, words: str) -> None:
        """Set a field to what was typed or chosen. Empty input restores the default."""
        self.do(lambda draft: draft.set_words(name, words))

    def do(self, change: Callable[[Draft], object]) -> None:
        """Change the draft, or say why it cannot be changed."""
        from grpo_tui.config.coerce import CoerceError
        from grpo_tui.config.yaml_edit import EditError

        if self.draft is None:
            return
        try:
            change(self.draft)
        except (EditError, CoerceError) as error:
            self.app.notify(one_line(str(error), 300), severity="warning", timeout=10)
        self.changed()

    def action_config_unset(self) -> None:
        row = self.query_one(ConfigForm).chosen
        if isinstance(row, FieldRow) and self.readable():
            if row.origin == "default":
                self.app.notify(f"{row.name} is not in the file.")
            elif row.origin == "set":
                self.app.notify(f"{row.name} was given with --set and is not in the file.")
            else:
                self.do(lambda draft: draft.unset(row.name))

    def action_config_undo(self) -> None:
        self._step(lambda draft: draft.undo(), "Nothing to undo.")

    def action_config_redo(self) -> None:
        self._step(lambda draft: draft.redo(), "Nothing to redo.")

    def _step(self, step: Callable[[Draft], bool], otherwise: str) -> None:
        if self.draft is not None:
            if step(self.draft):
                self.changed()
            else:
                self.app.notify(otherwise)

    # -- the input of a value --------------------------------------------------------------------

    def _open_field(self, row: FieldRow, text: str) -> None:
        form, field = self.query_one(ConfigForm), self.query_one(FormField)
        place = form.region
        y = place.y + form.cursor - form.scroll_offset.y
        left = place.x + form.name_w
        room = place.width - form.name_w - ORIGIN_W - 4
        width = max(LEAST_FIELD, min(WIDEST_VALUE, room))
        field.open(row.name, text, Region(left, y, width, 1))
        self.call_after_refresh(self.tell_keys)

    def close_field(self) -> None:
        """Close the value's input without applying it."""
        field = self.query_one(FormField)
        if field.name_edited:
            field.close()
            self.query_one(ConfigForm).focus()
            self.call_after_refresh(self.tell_keys)

    async def action_config_apply(self) -> None:
        await self.query_one(FormField).action_submit()

    def _take_field(self, field: FormField) -> None:
        if refusal := field.refusal:
            self.show_chosen(refusal)
            return
        name, text = field.name_edited, field.text
        self.close_field()
        self.put_words(name, text)
        self.show_chosen()

    def on_form_field_left(self, event: FormField.Left) -> None:
        self.close_field()
        self.show_chosen()

    # -- delegated to files and start ------------------------------------------------------------

    def action_config_diff(self) -> None:
        self.files.diff()

    def action_config_export(self) -> None:
        self.files.export()

    def action_config_new(self) -> None:
        self.files.new()

    def action_config_open(self) -> None:
        self.files.open()

    def action_config_save(self) -> None:
        self.files.save()

    def action_config_save_as(self) -> None:
        self.files.save_as()

    def action_config_save_text(self) -> None:
        self.files.save()

    def action_config_baseline(self) -> None:
        self.start.baseline()

    def action_config_check(self) -> None:
        self.start.check()

    def action_config_data(self) -> None:
        self.start.data()

    def action_config_gpu(self) -> None:
        self.start.gpu()

    def action_config_start(self) -> None:
        self.start.begin()

    def action_config_trial(self) -> None:
        self.start.trial()

    def action_config_drills(self) -> None:
        self.start.trial(drills=True)

    def on_disk_changed(self, message: DiskChanged) -> None:
        self.files.disk_changed(message)


TYPED_S = 0.2
"""The form is updated this long after the last key typed in the text."""
LEAST_FIELD = 14


def _told(name: str, choice: str) -> str:
    from grpo_tui.config.advice import choice_advice

    said = choice_advice(name, choice)
    return " ".join(part for part in (said.text, said.formula, said.source) if part) if said else ""
