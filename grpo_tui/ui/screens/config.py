"""Pane 2: is this config right, will it fit, what will a step be?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.css.query import QueryType
from textual.widget import Widget
from textual.widgets import Input

from grpo_tui.core.text import one_line
from grpo_tui.present.config_view import FieldRow, GroupRow, form_rows, notes
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.config_wish import ConfigWish, config_of_run
from grpo_tui.ui.messages import ConfigEvaluated
from grpo_tui.ui.paint import Line, Span
from grpo_tui.ui.screens.config_start import ConfigStart
from grpo_tui.ui.screens.text import TextScreen
from grpo_tui.ui.widgets.config_form import ConfigForm
from grpo_tui.ui.widgets.config_lines import ConfigSummary, HelpStrip, PlanStrip
from grpo_tui.ui.widgets.footer import Footer
from grpo_tui.ui.widgets.form_field import FormField
from grpo_tui.ui.widgets.header import Header
from grpo_tui.ui.widgets.yaml_area import YamlArea

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView

LOOK_S = 0.5
EMPTY: list[Line] = [
    (),
    [Span("   n ", "key", "screen.config_new"), Span("begins a config from a preset", "dim")],
    [Span("   o ", "key", "screen.config_open"), Span("opens a file; or ", "dim"),
     Span("grpo-tui CONFIG.yaml", "key"), Span(" from the shell", "dim")],
    (),
    [Span("   A config is a TRL YAML file: the one that `trl grpo --config` takes.", "dim")],
]  # fmt: skip


class ConfigScreen(ConfigStart):
    """A config as form and as text."""

    AUTO_FOCUS = "#config-form"
    BINDINGS = bindings("config")
    PANE = "config"

    def __init__(self) -> None:
        super().__init__()
        self._opened: set[str] = set()
        self._words = ""
        self._found: set[str] | None = None

    def compose(self) -> ComposeResult:
        """Header, summary, form and text side by side, help, plan, footer."""
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
        """Follow the open run's header; nothing is read yet."""
        self.query_one("#config-search", Input).display = False
        self.query_one(ConfigForm).waits = EMPTY
        self.shell.view_signal.subscribe(self, self._on_view)
        self.set_interval(LOOK_S, self._look)
        self.start_threads()
        self.show()

    def on_unmount(self) -> None:
        """End the threads."""
        self.stop()

    def on_screen_resume(self) -> None:
        """Take what the app was asked for; with nothing open, the config of the open run."""
        self._on_view(self.shell.view)
        wish, folder = self.shell.take_config_wish(), self.shell.run_folder
        if wish is None and self.draft is None and folder is not None:
            of_run = config_of_run(folder.root)
            wish = ConfigWish(of_run) if of_run is not None else None
        if wish is not None:
            self.open_wish(wish)

    def _look(self) -> None:
        """The seconds of what goes on."""
        if self.is_active and self.busy_line():
            self.show_state()

    def _on_view(self, view: TrainView | None) -> None:
        if self.is_attached:
            self.query_one(Header).show(view)
            self.tell_keys()

    # -- showing ---------------------------------------------------------------------------------

    def on_config_evaluated(self, message: ConfigEvaluated) -> None:
        """Show what the text means now; an answer to an older text is passed over."""
        if message.evaluation.snapshot.number == self.number:
            self.evaluation = message.evaluation
            self.show()
            if self.query_one(ConfigForm).has_focus:
                self.on_config_form_chosen()

    def show(self) -> None:
        """Paint everything that depends on the config."""
        self._fit()
        view = self.view
        self.show_state()
        self.query_one(YamlArea).note(notes(view.findings) if view is not None else {})
        self.show_form()
        self.query_one(PlanStrip).show(self.plan_rows())

    def show_state(self) -> None:
        """Paint which file it is, how it stands and what goes on."""
        summary = self.query_one(ConfigSummary)
        summary.view, summary.busy, summary.state = self.view, self.busy_line(), self.state_line()
        summary.changed()

    def show_form(self, keep: str | None = None) -> None:
        """Paint the form, the cursor on the field `keep`."""
        form, view = self.query_one(ConfigForm), self.view
        form.words = self._words
        form.show(form_rows(view.fields, self._opened, self._found) if view is not None else (), keep)
        self.show_chosen()

    def show_chosen(self, refusal: str = "") -> None:
        """Help for the field under the cursor, in the form or in the text."""
        name, view = self.chosen_name(), self.view
        if view is not None and view.broken is not None:
            refusal = f"{one_line(view.broken.words(), 200)}; tab goes to the text"
        self.query_one(HelpStrip).show(self.help_of(name) if name is not None else None, refusal)
        self.tell_keys()

    def chosen_name(self) -> str | None:
        """The field under the cursor of the side that has the focus."""
        view, area = self.view, self.query_one(YamlArea)
        if view is None:
            return None
        if not area.has_focus:
            row = self.query_one(ConfigForm).chosen
            return row.name if isinstance(row, FieldRow) else None
        line = area.cursor_location[0] + 1
        above = [(at, name) for name, at in view.lines.items() if at <= line]
        if not above:
            return None
        nearest = max(at for at, _ in above)
        names = {field.name for field in view.fields}
        inside = next(name for at, name in above if at == nearest)
        while inside and inside not in names:
            inside = inside.rpartition(".")[0]
        return inside or None

    def tell_keys(self) -> None:
        """Which keys the footer names."""
        footer, view = self.query_one(Footer), self.view
        parts: list[str] = []
        if self.query_one(YamlArea).has_focus:
            parts = ["text", "typing"]
        elif self.query_one("#config-search", Input).has_focus:
            parts = ["search", "typing"]
        elif view is None:
            parts = ["empty"]
        else:
            parts = ["form"]
            parts += ["search"] if self._found is not None else []
            parts += ["edited"] if view.unsaved else []
            parts += ["found"] if view.findings else []
            parts += ["fixable"] if self.chosen_fix() is not None else []
        footer.parts = tuple(parts)
        footer.show(self.shell.view)

    def _fit(self) -> None:
        """One side at a time on a narrow screen; the lower parts take what the height allows."""
        narrow = self.app.size.width < 100
        text = self.query_one(YamlArea)
        on_text = text.has_focus
        text.display = self.view is not None and (not narrow or on_text)
        self.query_one(ConfigForm).display = not narrow or not on_text
        height = self.app.size.height
        self.query_one(HelpStrip).display = self.view is not None and height >= 16
        self.query_one(PlanStrip).display = self.view is not None and height >= 20
        self.query_one(HelpStrip).styles.height = 5 if height < 30 else 7 if height < 46 else 10

    def on_resize(self) -> None:
        """Sides and lower parts depend on the size."""
        self.close_field()
        self.call_after_refresh(self.show)

    # -- moving ----------------------------------------------------------------------------------

    def on_config_form_chosen(self) -> None:
        """Another field: its help, and its line in the text."""
        name, view = self.chosen_name(), self.view
        if name is not None and view is not None and name in view.lines:
            self.query_one(YamlArea).go_to(view.lines[name])
        self.show_chosen()

    def on_yaml_area_moved(self, event: YamlArea.Moved) -> None:
        """Another line of the text: the help of its field."""
        if self.query_one(YamlArea).has_focus:
            self.show_chosen()

    def focus_next(self, selector: str | type[QueryType] = "*") -> Widget | None:
        """There are two sides, of which a narrow screen shows one."""
        self.action_config_other()
        return self.focused

    def focus_previous(self, selector: str | type[QueryType] = "*") -> Widget | None:
        """The other one of two."""
        return self.focus_next()

    def action_config_other(self) -> None:
        """To the other side."""
        area, form = self.query_one(YamlArea), self.query_one(ConfigForm)
        if self.view is None:
            return
        if area.has_focus:
            self.action_config_back()
            return
        area.display = True
        area.focus()
        form.changed()
        self.call_after_refresh(self.show)

    def action_config_back(self) -> None:
        """From the text to the form, at the same field; else end the search."""
        if self.query_one(YamlArea).has_focus:
            self.to_form(self.chosen_name())
        elif self.end_work():
            return
        elif self._found is not None or self.query_one("#config-search", Input).display:
            self.action_config_end_search()

    def to_form(self, name: str | None = None) -> None:
        """Give the form the focus, its cursor on a field, which shows even where its group is not open."""
        form, view = self.query_one(ConfigForm), self.view
        form.display = True
        form.focus()
        if name is not None and view is not None:
            row = next((f for f in view.fields if f.name == name), None)
            if row is not None and row not in form_rows(view.fields, self._opened, self._found):
                self._opened.add(row.group)
                self._found, self._words = None, ""
        self.show_form(name)
        self.on_config_form_chosen()
        self.call_after_refresh(self.show)

    def action_config_all(self) -> None:
        """Every field, or the few that matter."""
        view = self.view
        if view is not None:
            groups = {field.group for field in view.fields}
            self._opened = set() if self._opened >= groups else groups
            self.show_form()

    def toggle_group(self, row: GroupRow) -> None:
        """Show all fields of a group, or the few."""
        self._opened ^= {row.title}
        self.show_form()

    # -- searching -------------------------------------------------------------------------------

    def action_config_search(self) -> None:
        """Type words."""
        if self.view is not None:
            search = self.query_one("#config-search", Input)
            search.display = True
            search.focus()
            self.call_after_refresh(self.tell_keys)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Find while typing."""
        if event.input.id == "config-search" and event.input.display:
            self._words = event.value.strip()
            found = self.found_by(self._words) if self._words else []
            self._found = set(found) if self._words else None
            self.show_form(found[0] if found else None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """To what was found."""
        if event.input.id == "config-search":
            event.input.display = False
            self.query_one(ConfigForm).focus()
            self.tell_keys()

    def action_config_end_search(self) -> None:
        """The usual fields, the cursor where it is."""
        name = self.chosen_name()
        search = self.query_one("#config-search", Input)
        search.value, search.display = "", False
        self._words, self._found = "", None
        self.to_form(name)

    # -- reading ---------------------------------------------------------------------------------

    def action_config_whole(self) -> None:
        """All that is known of the field."""
        name = self.chosen_name()
        if name is not None:
            self.app.push_screen(TextScreen(name, self.whole_help(name), prose=True))

    def action_config_copy(self) -> None:
        """The field with its value."""
        name = self.chosen_name()
        if name is not None:
            self.shell.copy(name, self.written(name))
