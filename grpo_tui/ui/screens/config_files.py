"""The part of the pane Config that opens, saves and compares files, and asks before anything is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import from_here
from grpo_tui.ui import config_unsaved
from grpo_tui.ui.config_wish import ConfigWish
from grpo_tui.ui.config_worker import ConfigWorker
from grpo_tui.ui.messages import DiskChanged
from grpo_tui.ui.screens.choosing import Choice, MenuDialog, PathDialog
from grpo_tui.ui.screens.config_diff import DiffScreen
from grpo_tui.ui.screens.config_finding import ConfigFindings
from grpo_tui.ui.widgets.config_form import ConfigForm
from grpo_tui.ui.widgets.yaml_area import YamlArea

if TYPE_CHECKING:
    from grpo_tui.config.draft import Draft
    from grpo_tui.ui.rewards_wish import RewardsWish

MOST_RUNS = 40
"""Runs that a config can be compared with, the newest ones."""


class ConfigFiles(ConfigFindings):
    """What a screen needs to open and save its draft."""

    _thrown_away = False
    """Whether a person wants none of the changes that are not saved."""

    def start_threads(self) -> None:
        """Begin to read what TRL knows, while a person decides what to open."""
        self.worker = ConfigWorker(self.post_message, self.shell.roots)
        self.run_worker(self.worker.run, thread=True, group="config", exit_on_error=False)
        self.run_worker(self.worker.watch, thread=True, group="config file", exit_on_error=False)
        self.shell.before_leaving = self.before_leaving

    # -- opening ---------------------------------------------------------------------------------

    def open_wish(self, wish: ConfigWish) -> None:
        """Open a file, unless it is open already; unsaved changes are asked for first."""
        if self.draft is not None and self.draft.path == wish.path.absolute() and self.wish == wish:
            return
        self.unless_unsaved(lambda: self._open(wish))

    def _open(self, wish: ConfigWish) -> None:
        from grpo_tui.config.draft import Draft
        from grpo_tui.config.draft_file import DraftFileError
        from grpo_tui.present import config_paths

        wish = replace(wish, path=wish.path.expanduser().absolute())
        try:
            draft = Draft.open(wish.path, overrides=wish.overrides)
            draft.preset = config_paths.preset_file(draft.text)
        except DraftFileError as error:
            self.app.notify(one_line(str(error), 300), severity="error", timeout=15, markup=False)
            return
        self.take_draft(draft, wish)
        self.offer_kept(draft, wish.path)

    def offer_kept(self, draft: Draft, path: Path) -> None:
        """Ask what becomes of changes that were not saved when the screen was taken away."""
        raise NotImplementedError

    def take_draft(self, draft: Draft, wish: ConfigWish) -> None:
        """Show a draft."""
        assert self.worker is not None
        self.draft, self.wish, self.evaluation, self._thrown_away = draft, wish, None, False
        self.worker.run_dir, self.worker.checked = wish.run_dir, None
        self.worker.follow(draft.path if draft.saved_text is not None else None)
        self.query_one(YamlArea).load_text("")
        self.changed()
        if not wish.in_rewards:
            self.offer_rewards()
        self.query_one(ConfigForm).focus()

    def stop(self) -> None:
        """End the threads; what was not saved is kept, unless somebody threw it away."""
        draft = self.draft
        if draft is not None and draft.path is not None and draft.edited and not self._thrown_away:
            config_unsaved.keep(draft.path, draft.text)
        if self.worker is not None:
            self.worker.stop()

    def offer_rewards(self) -> None:
        """Rewards shows those of this file when it is looked at next."""
        wish = self.rewards_wish()
        if wish is not None:
            self.shell.offer_rewards(wish)

    def rewards_wish(self) -> RewardsWish | None:
        """The rewards of this file; None while there is no file."""
        from grpo_tui.ui.rewards_wish import RewardsWish

        draft, wish = self.draft, self.wish
        if draft is None or wish is None or draft.saved_text is None:
            return None

        def read() -> Any:
            from grpo_tui.config.resolve import load_config

            return load_config(wish.path, wish.overrides, world_size=None)

        return RewardsWish(wish.path.name, read)

    # -- saving ----------------------------------------------------------------------------------

    def action_config_save(self) -> None:
        """Save."""
        self.save()

    def action_config_save_text(self) -> None:
        """Save, by a click in the footer."""
        self.save()

    def save(self, then: Callable[[], None] | None = None, *, force: bool = False) -> None:
        """Save, ask when the file has become another, and go on."""
        from grpo_tui.config.draft import ChangedOnDiskError
        from grpo_tui.config.draft_file import DraftFileError

        draft = self.draft
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
            self.app.notify(one_line(str(error), 300), severity="error", timeout=15, markup=False)
            return
        self._saved(then)

    def _saved(self, then: Callable[[], None] | None) -> None:
        draft = self.draft
        assert draft is not None
        assert draft.path is not None
        assert self.worker is not None
        self.worker.follow(draft.path)
        config_unsaved.forget(draft.path)
        self.app.notify(f"Saved {one_line(from_here(draft.path), 60)}.", markup=False)
        self.changed()
        self.offer_rewards()
        if then is not None:
            then()

    def action_config_save_as(self) -> None:
        """Save under another name."""
        if self.draft is not None:
            self._save_as(None)

    def _save_as(self, then: Callable[[], None] | None) -> None:
        from grpo_tui.present import config_paths

        draft, wish = self.draft, self.wish
        assert draft is not None
        assert wish is not None

        def given(path: Path | None) -> None:
            if path is not None:
                self._write_as(path, then, force=False)

        begin = from_here(draft.path if draft.path is not None else wish.path)
        hint = "names in the config are looked up beside it"
        dialog = PathDialog("save as", begin, config_paths.not_writable, hint, does="save")
        self.app.push_screen(dialog, given)

    def _write_as(self, path: Path, then: Callable[[], None] | None, *, force: bool) -> None:
        from grpo_tui.config.draft import ChangedOnDiskError
        from grpo_tui.config.draft_file import DraftFileError

        draft, wish = self.draft, self.wish
        assert draft is not None
        assert wish is not None
        try:
            draft.save_as(path, force=force)
        except ChangedOnDiskError:
            choices = [
                Choice("write over it", "what stands there is lost", True, "y"),
                Choice("another name", "", False, "n"),
            ]

            def answered(over: bool | None) -> None:
                if over:
                    self._write_as(path, then, force=True)
                elif over is False:
                    self._save_as(then)

            title = f"{one_line(path.name, 30)} is there already"
            self.app.push_screen(MenuDialog(title, choices, at=1), answered)
            return
        except DraftFileError as error:
            self.app.notify(one_line(str(error), 300), severity="error", timeout=15, markup=False)
            return
        assert draft.path is not None
        self.wish = replace(wish, path=draft.path)
        self._saved(then)

    # -- a file that changes ---------------------------------------------------------------------

    def on_disk_changed(self, message: DiskChanged) -> None:
        """Take the file anew when nothing of one's own is lost, else ask."""
        draft = self.draft
        if draft is None or draft.path != message.file or not draft.changed_on_disk():
            return
        name = one_line(message.file.name, 40)
        if message.gone:
            self.app.notify(
                f"{name} is gone from the disk; w writes it anew.", severity="warning", markup=False
            )
        elif draft.edited:
            if self.app.screen is self:
                self._ask_disk(draft.disk_text(), None)
            else:
                self.app.notify(f"{name} was changed on disk; saving asks what to keep.",
                                severity="warning", markup=False)  # fmt: skip
        else:
            self._reload(f"{name} was changed on disk and is read anew; u brings yours back.")

    def _reload(self, word: str = "") -> None:
        """Take what stands in the file now, or say why it cannot be read."""
        from grpo_tui.config.draft_file import DraftFileError

        assert self.draft is not None
        try:
            self.draft.reload()
        except DraftFileError as error:
            self.app.notify(one_line(str(error), 300), severity="warning", markup=False)
            return
        if word:
            self.app.notify(word, markup=False)
        self.changed()
        self.offer_rewards()

    def _ask_disk(self, theirs: str | None, then: Callable[[], None] | None) -> None:
        draft = self.draft
        assert draft is not None
        assert draft.path is not None
        choices = [
            Choice("show the difference", "theirs against mine", "diff", "d"),
            Choice("keep mine", "save over what stands there now", "mine", "m"),
            Choice("take theirs", "read the file; u brings mine back", "theirs", "t"),
            Choice("decide later", "nothing is written", None, "n"),
        ]
        if theirs is None:
            choices = [choice for choice in choices if choice.value in ("mine", None)]

        def answered(answer: str | None) -> None:
            if answer == "diff":
                from grpo_tui.present.config_compare import texts

                compared = texts(theirs or "", "the file on disk", draft)
                self.app.push_screen(DiffScreen(compared), lambda _: self._ask_disk(theirs, then))
            elif answer == "mine":
                self.save(then, force=True)
            elif answer == "theirs":
                self._reload()

        what = "gone" if theirs is None else "changed on disk"
        title = f"{one_line(draft.path.name, 30)} is {what}"
        sentence = "Somebody else has written the file since it was opened, and you have unsaved changes."
        self.app.push_screen(MenuDialog(title, choices, [sentence]), answered)

    # -- leaving ---------------------------------------------------------------------------------

    def unless_unsaved(self, go_on: Callable[[], None]) -> None:
        """Go on at once, or once a person has decided what becomes of unsaved changes."""
        draft = self.draft
        if draft is None or not draft.edited:
            go_on()
            return
        choices = [
            Choice("save", "then go on", "save", "w"),
            Choice("throw the changes away", "", "drop", "d"),
            Choice("stay", "", None, "n"),
        ]

        def answered(answer: str | None) -> None:
            if answer == "save":
                self.save(then=go_on)
            elif answer == "drop":
                self._throw_away()
                go_on()

        name = one_line(self.view.title if self.view is not None else "the config", 40)
        sentences = [f"{name} has changes that are not saved."]
        self.app.push_screen(MenuDialog("unsaved changes", choices, sentences), answered)

    def _throw_away(self) -> None:
        if self.draft is not None and self.draft.path is not None:
            config_unsaved.forget(self.draft.path)
        self._thrown_away = True

    def before_leaving(self, leave: Callable[[], None]) -> bool:
        """Whether leaving waits for an answer; the answer leaves, or stays."""
        if self.draft is None or not self.draft.edited:
            return False
        self.unless_unsaved(leave)
        return True

    # -- comparing -------------------------------------------------------------------------------

    def action_config_diff(self) -> None:
        """Against the saved file, the preset, TRL's defaults or a run."""
        draft, view = self.draft, self.view
        if draft is None or view is None or not self.readable():
            return
        choices: list[Choice] = []
        if draft.saved_text is not None:
            choices.append(Choice("the saved file", "what would be written", "saved"))
        if draft.preset is not None:
            choices.append(Choice("the preset", draft.preset.name, "preset"))
        choices.append(Choice("TRL's defaults", "fields that say something else", "defaults"))
        choices += [Choice(one_line(row.name, 40), "a run", row.path) for row in self.shell.rows[:MOST_RUNS]]
        self.app.push_screen(MenuDialog("compare with", choices), self._compare)

    def _compare(self, with_: Any) -> None:
        from grpo_tui.present.config_compare import against

        draft = self.draft
        if with_ is None or draft is None:
            return
        try:
            compared = against(with_, draft)
        except (OSError, ValueError) as error:
            self.app.notify(one_line(str(error), 300), severity="warning", timeout=15, markup=False)
            return
        self.app.push_screen(DiffScreen(compared))
