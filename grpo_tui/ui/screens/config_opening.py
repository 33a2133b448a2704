"""The part of the pane Config that finds something to open: a file, a preset, changes that were not saved."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import from_here, moment
from grpo_tui.ui import config_unsaved
from grpo_tui.ui.config_wish import ConfigWish
from grpo_tui.ui.screens.choosing import Choice, MenuDialog, PathDialog
from grpo_tui.ui.screens.config_diff import DiffScreen
from grpo_tui.ui.screens.config_files import ConfigFiles

if TYPE_CHECKING:
    from grpo_tui.config.draft import Draft
    from grpo_tui.config.presets import Preset


class ConfigOpening(ConfigFiles):
    """What a screen needs to find a config to open."""

    def action_config_open(self) -> None:
        """Choose among the configs below this folder, or type a name."""
        from grpo_tui.present import config_paths

        here = Path.cwd()
        files = config_paths.configs_below(here)
        choices = [Choice(from_here(file), "", file) for file in files]
        choices.append(Choice("another file", "type its name", Path()))
        self.app.push_screen(MenuDialog("open a config", choices), self._chosen_file)

    def action_config_new(self) -> None:
        """Choose a preset, then a name."""
        from grpo_tui.config.presets import presets

        known = presets()
        choices = [
            Choice(preset.name, preset.gpu, preset, about=f"Trains {preset.title} {preset.expects}")
            for preset in known
        ]
        self.app.push_screen(MenuDialog("new from a preset", choices), self._chosen_preset)

    def _chosen_preset(self, preset: Preset | None) -> None:
        if preset is None:
            return
        from grpo_tui.present import config_paths

        hint = "its rewards and data are put beside it"
        dialog = PathDialog(f"new from {preset.name}", f"{preset.name}.yaml", config_paths.not_new, hint)
        self.app.push_screen(dialog, lambda path: self._write_new(preset, path))

    def _write_new(self, preset: Preset, path: Path | None) -> None:
        from grpo_tui.config.presets import PresetError, copy_preset

        if path is None:
            return
        try:
            written = copy_preset(preset, path)
        except (PresetError, OSError) as error:
            self.app.notify(one_line(str(error), 300), severity="error", timeout=15, markup=False)
            return
        names = ", ".join(one_line(from_here(file), 40) for file in written[:4])
        self.app.notify(f"Wrote {names}.", markup=False)
        self.open_wish(ConfigWish(path))

    def _chosen_file(self, file: Path | None) -> None:
        if file is None:
            return
        from grpo_tui.present import config_paths

        if file == Path():
            self.app.push_screen(
                PathDialog("open a config", "", config_paths.not_readable, does="open"), self._chosen_file
            )
        else:
            self.open_wish(ConfigWish(file))

    def action_config_export(self) -> None:
        """Write the config as it stands, saved or not, as a script."""
        from grpo_tui.present import config_paths

        draft, wish = self.draft, self.wish
        if draft is None or wish is None or not self.readable():
            return
        text = draft.text
        hint = "it needs TRL alone, and trains the same"
        dialog = PathDialog("export as a script", "train.py", config_paths.not_script, hint)

        def given(path: Path | None) -> None:
            if path is not None:
                job = partial(self._write_script, path, wish, text)
                self.run_worker(job, thread=True, group="export", exit_on_error=False)

        self.app.push_screen(dialog, given)

    def _write_script(self, path: Path, wish: ConfigWish, text: str) -> None:
        """In a thread: TRL's fields may have to be read first."""
        from grpo_tui.config.draft_file import DraftFileError, write_text
        from grpo_tui.config.export_script import exportable, installed_versions, write_script
        from grpo_tui.config.export_sources import NoSourceError
        from grpo_tui.config.resolve import inspect_config
        from grpo_tui.config.run_config import ConfigError

        say = partial(self.app.notify, markup=False)
        try:
            found = inspect_config(wish.path, wish.overrides, world_size=None, text=text)
            write_text(path, write_script(exportable(found), path, installed_versions()))
        except (ConfigError, NoSourceError, DraftFileError, OSError) as error:
            word = one_line(str(error), 300)
            self.app.call_later(partial(say, word, severity="error", timeout=15))
            return
        name = one_line(from_here(path), 60)
        self.app.call_later(
            partial(say, f"Wrote {name}: `python {shell_word(name)}` trains, with TRL alone.")
        )

    def offer_kept(self, draft: Draft, path: Path) -> None:
        """Ask what becomes of changes that were not saved when the screen was taken away."""
        found = config_unsaved.kept(path)
        if found is None or found.text == draft.text:
            config_unsaved.forget(path)
            return
        choices = [
            Choice("take them", "u brings back what stands in the file", "take", "t"),
            Choice("throw them away", "", "drop", "d"),
            Choice("show the difference", "the file against the changes", "diff", "v"),
        ]

        def answered(answer: str | None) -> None:
            if answer == "take":
                draft.replace_text(found.text)
                self.changed()
            elif answer == "diff":
                from grpo_tui.present.config_compare import texts

                compared = texts(draft.text, "the file", Draft(found.text, path))
                self.app.push_screen(DiffScreen(compared), lambda _: self.offer_kept(draft, path))
            elif answer == "drop":
                config_unsaved.forget(path)

        from grpo_tui.config.draft import Draft

        said = f"The screen was taken away {moment(found.at, self.shell.clock())}, before they were saved."
        self.app.push_screen(MenuDialog("changes that were not saved", choices, [said]), answered)
