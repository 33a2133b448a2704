"""The part of Config that opens, saves, compares and exports files, and asks before anything is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import from_here, moment, path_text, plural
from grpo_tui.ui import preferences
from grpo_tui.ui.config_worker import ConfigWorker
from grpo_tui.ui.messages import DiskChanged
from grpo_tui.ui.requests import ConfigRequest, RewardsRequest
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog, PathDialog
from grpo_tui.ui.screens.reading import DiffScreen
from grpo_tui.ui.widgets.config_form import ConfigForm
from grpo_tui.ui.widgets.yaml_area import YamlArea

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from grpo_tui.config.draft import Draft
    from grpo_tui.config.presets import Preset
    from grpo_tui.ui.screens.config import ConfigScreen

MOST_RUNS = 40


class ConfigFiles:
    """The files of the pane. Asks before unsaved changes are lost."""

    def __init__(self, screen: ConfigScreen) -> None:
        self.screen = screen
        self._thrown_away = False
        """The user chose to discard the unsaved changes."""

    def start_threads(self) -> None:
        """Start the worker, which reads TRL's fields while the user decides what to open."""
        self.screen.worker = ConfigWorker(self.screen.post_message, self.screen.shell.roots)
        self.screen.in_thread("config", self.screen.worker.run)
        self.screen.in_thread("config file", self.screen.worker.watch)
        self.screen.shell.before_leaving = self.before_leaving

    # -- opening ---------------------------------------------------------------------------------

    def open_request(self, request: ConfigRequest) -> None:
        """Open a file unless it is open already. Asks about unsaved changes first."""
        request = replace(request, path=request.path.expanduser().absolute())
        draft = self.screen.draft
        if draft is None or draft.path != request.path or self.screen.request != request:
            self.unless_unsaved(lambda: self._open(request))

    def _open(self, request: ConfigRequest) -> None:
        from grpo_tui.config.draft import Draft
        from grpo_tui.config.draft_file import DraftFileError
        from grpo_tui.present import config_compare

        try:
            draft = Draft.open(request.path, overrides=request.overrides)
            draft.preset = config_compare.preset_file(draft.text)
        except DraftFileError as error:
            self._refuse(error)
            return
        self.take_draft(draft, request)
        self.offer_kept(draft, request.path)

    def _refuse(self, error: Exception, severity: SeverityLevel = "error") -> None:
        self.screen.app.notify(one_line(str(error), 300), severity=severity, timeout=15)

    def take_draft(self, draft: Draft, request: ConfigRequest) -> None:
        self.screen.draft, self.screen.request, self.screen.state = draft, request, None
        self._thrown_away = False
        self.screen.worker.run_dir, self.screen.worker.checked = request.run_dir, None
        folder = self.screen.shell.run_folder
        self.screen.worker.open_run = folder.root if folder is not None and request.of_run else None
        self.screen.worker.follow(draft.path if draft.saved_text is not None else None)
        self.screen.query_one(YamlArea).load_text("")
        self.screen.changed()
        if not (request.in_rewards or request.of_run):  # Rewards shows what the run recorded
            self.offer_rewards()
        self.screen.query_one(ConfigForm).focus()

    def stop(self) -> None:
        """End the threads. Unsaved changes are kept unless the user discarded them."""
        draft = self.screen.draft
        if draft is not None and draft.path is not None and draft.edited and not self._thrown_away:
            preferences.keep_unsaved(draft.path, draft.text)
        self.screen.worker.stop()

    def offer_rewards(self) -> None:
        """Set what Rewards loads the next time it is shown to the rewards of this file."""
        request = self.rewards_request()
        if request is not None:
            self.screen.shell.offer_rewards(request)

    def rewards_request(self) -> RewardsRequest | None:
        """Return the rewards of this file; None while it is not saved."""
        draft, request = self.screen.draft, self.screen.request
        if draft is None or request is None or draft.saved_text is None:
            return None

        def read() -> Any:
            from grpo_tui.config.resolve import load_config

            return load_config(request.path, request.overrides, world_size=None)

        return RewardsRequest(request.path.name, read)

    # -- saving ----------------------------------------------------------------------------------

    def save(self, then: Callable[[], None] | None = None, *, force: bool = False) -> None:
        """Save the draft and call `then`. Asks if the file has changed on disk."""
        from grpo_tui.config.draft import ChangedOnDiskError
        from grpo_tui.config.draft_file import DraftFileError

        draft = self.screen.draft
        if draft is None:
            return
        if draft.path is None or draft.saved_text is None:
            self._save_as(then)
            return
        try:
            draft.save(force=force)
        except ChangedOnDiskError as error:
            self._ask_disk(error.theirs, then)
            return
        except DraftFileError as error:
            self._refuse(error)
            return
        self._saved(then)

    def _saved(self, then: Callable[[], None] | None) -> None:
        draft = self.screen.draft
        assert draft is not None
        assert draft.path is not None
        self.screen.worker.follow(draft.path)
        preferences.forget_unsaved(draft.path)
        self.screen.app.notify(f"Saved {path_text(draft.path, 60)}.")
        self.screen.changed()
        self.offer_rewards()
        if then is not None:
            then()

    def save_as(self) -> None:
        if self.screen.draft is not None:
            self._save_as(None)

    def _save_as(self, then: Callable[[], None] | None) -> None:
        from grpo_tui.present import config_compare

        draft, request = self.screen.draft, self.screen.request
        assert draft is not None
        assert request is not None
        begin = from_here(draft.path if draft.path is not None else request.path)
        hint = "relative paths in the config start from its folder"
        dialog = PathDialog("save as", begin, config_compare.not_writable, hint, does="save")
        self.screen.ask(dialog, lambda path: self._write_as(path, then))

    def _write_as(self, path: Path, then: Callable[[], None] | None, *, force: bool = False) -> None:
        from grpo_tui.config.draft import ChangedOnDiskError
        from grpo_tui.config.draft_file import DraftFileError

        draft, request = self.screen.draft, self.screen.request
        assert draft is not None
        assert request is not None
        try:
            draft.save_as(path, force=force)
        except ChangedOnDiskError:
            choices = [
                Choice(
                    "overwrite", "the existing file is lost", partial(self._write_as, path, force=True), "y"
                ),
                Choice("another name", "", self._save_as, "n"),
            ]
            title = f"{one_line(path.name, 30)} already exists"
            self.screen.ask(MenuDialog(title, choices, at=1), lambda go_on: go_on(then=then))
            return
        except DraftFileError as error:
            self._refuse(error)
            return
        assert draft.path is not None
        self.screen.request = replace(request, path=draft.path)
        self._saved(then)

    # -- changes on disk -------------------------------------------------------------------------

    def disk_changed(self, message: DiskChanged) -> None:
        """Reload the file if there are no unsaved changes, else ask."""
        draft = self.screen.draft
        if draft is None or draft.path != message.file or not draft.changed_on_disk():
            return
        name = one_line(message.file.name, 40)
        if message.gone:
            self.screen.app.notify(
                f"{name} was deleted on disk. Press W to write it again.", severity="warning"
            )
        elif draft.edited:
            if self.screen.app.screen is self.screen:
                self._ask_disk(draft.disk_text(), None)
            else:
                self.screen.app.notify(
                    f"{name} changed on disk. Saving asks which version to keep.", severity="warning"
                )
        else:
            self._reload(f"{name} changed on disk and was reloaded. Press u for your version.")

    def _reload(self, word: str = "") -> None:
        from grpo_tui.config.draft_file import DraftFileError

        assert self.screen.draft is not None
        try:
            self.screen.draft.reload()
        except DraftFileError as error:
            self.screen.app.notify(one_line(str(error), 300), severity="warning")
            return
        if word:
            self.screen.app.notify(word)
        self.screen.changed()
        self.offer_rewards()

    def _ask_disk(self, theirs: str | None, then: Callable[[], None] | None) -> None:
        draft = self.screen.draft
        assert draft is not None
        assert draft.path is not None
        later = Choice("decide later", "nothing is written", None, "n")
        what, sentence = "is gone", "The file was deleted or became unreadable after you opened it."
        choices = [Choice("keep mine", "write the file again", "mine", "m"), later]
        if theirs is not None:
            what = "is changed on disk"
            sentence = "The file has changed on disk since you opened it, and you have unsaved changes."
            choices = [
                Choice("show the difference", "compare theirs with mine", "diff", "d"),
                Choice("keep mine", "overwrite the file on disk", "mine", "m"),
                Choice("take theirs", "reload the file; u restores mine", "theirs", "t"),
                later,
            ]

        def answered(answer: str) -> None:
            if answer == "diff":
                from grpo_tui.present.config_compare import texts

                compared = texts(theirs or "", "the file on disk", draft)
                self.screen.app.push_screen(DiffScreen(compared), lambda _: self._ask_disk(theirs, then))
            elif answer == "mine":
                self.save(then, force=True)
            else:
                self._reload()

        title = f"{one_line(draft.path.name, 30)} {what}"
        self.screen.ask(MenuDialog(title, choices, [sentence]), answered)

    # -- leaving ---------------------------------------------------------------------------------

    def unless_unsaved(self, go_on: Callable[[], None]) -> None:
        """Call `go_on`, after the user has decided about unsaved changes if there are any."""
        draft = self.screen.draft
        if draft is None or not draft.edited:
            go_on()
            return
        choices = [
            Choice("save", "and continue", "save", "w"),
            Choice("discard the changes", "", "drop", "d"),
            Choice("stay", "", None, "n"),
        ]

        def answered(answer: str) -> None:
            if answer == "save":
                self.save(then=go_on)
                return
            if draft.path is not None:
                preferences.forget_unsaved(draft.path)
            self._thrown_away = True
            go_on()

        state = self.screen.state
        name = one_line(state.snapshot.path.name if state is not None else "the config", 40)
        sentences = [f"{name} has unsaved changes."]
        self.screen.ask(MenuDialog("unsaved changes", choices, sentences), answered)

    def before_leaving(self, leave: Callable[[], None]) -> bool:
        """Ask about unsaved changes. Return False if there are none; else the answer calls `leave` or not."""
        if self.screen.draft is None or not self.screen.draft.edited:
            return False
        self.unless_unsaved(leave)
        return True

    # -- comparing -------------------------------------------------------------------------------

    def diff(self) -> None:
        draft, state = self.screen.draft, self.screen.state
        if draft is None or state is None or not self.screen.readable():
            return
        choices: list[Choice] = []
        if draft.saved_text is not None:
            choices.append(Choice("the saved file", "what would be written", "saved"))
        if draft.preset is not None:
            choices.append(Choice("the preset", draft.preset.name, "preset"))
        choices.append(Choice("TRL's defaults", "fields that differ", "defaults"))
        choices += [
            Choice(one_line(row.name, 40), "a run", row.path) for row in self.screen.shell.rows[:MOST_RUNS]
        ]
        self.screen.ask(MenuDialog("compare with", choices), lambda with_: self._compare(with_, draft))

    def _compare(self, with_: Any, draft: Draft) -> None:
        from grpo_tui.present.config_compare import against

        try:
            self.screen.app.push_screen(DiffScreen(against(with_, draft)))
        except (OSError, ValueError) as error:
            self._refuse(error, "warning")

    def open(self) -> None:
        """Choose from the configs below the current folder, or type a name."""
        from grpo_tui.present import config_compare

        choices = [Choice(from_here(file), "", file) for file in config_compare.configs_below(Path.cwd())]
        choices.append(Choice("another file", "type its name", Path()))
        self.screen.ask(MenuDialog("open a config", choices), self._chosen_file)

    def new(self) -> None:
        from grpo_tui.config.presets import presets

        about = "Trains {0.title} What to expect: {0.expects}"
        choices = [Choice(one.name, one.gpu, one, about=about.format(one)) for one in presets()]
        self.screen.ask(MenuDialog("new from a preset", choices), self._chosen_preset)

    def _chosen_preset(self, preset: Preset) -> None:
        from grpo_tui.present import config_compare

        hint = "its rewards and data go into the same folder"
        dialog = PathDialog(f"new from {preset.name}", f"{preset.name}.yaml", config_compare.not_new, hint)
        self.screen.ask(dialog, lambda path: self._write_new(preset, path))

    def _write_new(self, preset: Preset, path: Path) -> None:
        from grpo_tui.config.presets import PresetError, copy_preset

        try:
            written = copy_preset(preset, path)
        except (PresetError, OSError) as error:
            self._refuse(error)
            return
        names = ", ".join(path_text(file, 40) for file in written[:4])
        more = f" and {plural(len(written) - 4, 'other file')}" if len(written) > 4 else ""
        self.screen.app.notify(f"Wrote {names}{more}.")
        self.open_request(ConfigRequest(path))

    def _chosen_file(self, file: Path) -> None:
        from grpo_tui.present import config_compare

        if file == Path():
            dialog = PathDialog("open a config", "", config_compare.not_readable, does="open")
            self.screen.ask(dialog, self._chosen_file)
        else:
            self.open_request(ConfigRequest(file))

    def export(self) -> None:
        from grpo_tui.present import config_compare

        draft, request = self.screen.draft, self.screen.request
        if draft is None or request is None or not self.screen.readable():
            return
        text = draft.text
        hint = "it needs only TRL and trains the same"
        dialog = PathDialog("export as a script", "train.py", config_compare.not_script, hint)

        def given(path: Path) -> None:
            self.screen.in_thread("export", partial(_write_script, path, request, text), self._exported)

        self.screen.ask(dialog, given)

    def _exported(self, written: list[Path] | Exception) -> None:
        if isinstance(written, Exception):
            self._refuse(written)
            return
        names = [one_line(from_here(one), 60) for one in written]
        commands = " && ".join(f"python {shell_word(name)}" for name in names)
        self.screen.app.notify(f"Wrote {', '.join(names)}: `{commands}` trains with TRL alone.")

    def offer_kept(self, draft: Draft, path: Path) -> None:
        found = preferences.unsaved(path)
        if found is None or found.text == draft.text:
            preferences.forget_unsaved(path)
            return
        choices = [
            Choice("restore them", "u goes back to the file", "take", "t"),
            Choice("discard them", "", "drop", "d"),
            Choice("show the difference", "compare the changes with the file", "diff", "v"),
        ]

        def answered(answer: str) -> None:
            if answer == "take":
                draft.replace_text(found.text)
                self.screen.changed()
            elif answer == "diff":
                from grpo_tui.present.config_compare import texts

                compared = texts(draft.text, "the file", Draft(found.text, path))
                self.screen.app.push_screen(DiffScreen(compared), lambda _: self.offer_kept(draft, path))
            else:
                preferences.forget_unsaved(path)

        from grpo_tui.config.draft import Draft

        when = moment(found.at, self.screen.shell.clock())
        said = f"The screen closed {when} before they were saved."
        self.screen.ask(MenuDialog("unsaved changes found", choices, [said]), answered)


def _write_script(path: Path, request: ConfigRequest, text: str) -> list[Path] | Exception:
    """Return the scripts written, or the error. Runs in a thread: TRL's fields may have to be read first."""
    from grpo_tui.config.draft_file import DraftFileError, write_text
    from grpo_tui.config.export_script import NoSourceError, exportable, installed_versions
    from grpo_tui.config.export_stages import write_scripts
    from grpo_tui.config.resolve import inspect_config
    from grpo_tui.config.run_config import ConfigError

    try:
        found = inspect_config(request.path, request.overrides, world_size=None, text=text)
        texts = write_scripts(exportable(found), path, installed_versions())
        for one, written in texts.items():
            write_text(one, written)
    except (ConfigError, NoSourceError, DraftFileError, OSError) as error:
        return error
    return list(texts)
