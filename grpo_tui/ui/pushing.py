"""Upload a model to the Hub from the screen: ask for a name, show the dry run, upload in a child process."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import plural, size
from grpo_tui.ui.screens.dialogs import Choice, MenuDialog, WordsDialog
from grpo_tui.ui.starting import Child, Ended

if TYPE_CHECKING:
    from grpo_tui.ui.app import GrpoApp

CARDS = {
    "file": "The card is README.md of the folder.",
    "record": "The card is made from the record of the run.",
    None: "There is no model card.",
}
MOST_NAMED = 300
"""Characters for the names of files."""
CHOICES = (
    Choice("upload, public", "everyone can see it", ("--yes",), "y"),
    Choice("upload, private", "only you and your organization can see it", ("--yes", "--private"), "p"),
    Choice("add a commit", "to a repository that exists", ("--yes", "--update"), "u"),
    Choice("not yet", "nothing is uploaded", None, "n"),
)


class Pushing:
    """One upload, from the question to the notification.

    Args:
        model: As `grpo-tui push` takes it.
    """

    def __init__(self, app: GrpoApp, model: str) -> None:
        self._app, self._model = app, model
        self._child: Child | None = None
        self.over = False

    def ask(self) -> None:
        hint = "OWNER/NAME on the Hugging Face Hub. The files are shown before anything is uploaded"
        self._app.push_screen(WordsDialog("upload the model to", "", hint), self._named)

    def cancel(self) -> None:
        if self._child is not None:
            self._child.cancel()

    def _named(self, repo: str | None) -> None:
        if not repo or not repo.strip():
            self.over = True
            return
        self._run(repo.strip(), ("--dry-run", "--json"), self._looked)

    def _run(self, repo: str, words: tuple[str, ...], then: Any) -> None:
        self._child = child = Child(["push", self._model, *words, "--", repo], "note: ")
        self._app.in_thread("push", child.run, partial(then, repo))

    def _looked(self, repo: str, ended: Ended) -> None:
        if ended.code != 0:
            self._failed(ended)
            return
        body = json.loads(ended.printed)
        held = f"{plural(len(body['files']), 'file')}, {size(body['size_bytes'])}, to {repo}"
        sentences = [
            f"{held}: {_names(body['files'])}",
            CARDS[body["card"]],
            f"Left out: {_names(body['left_out']) or 'nothing'}",
        ]
        self._app.push_screen(
            MenuDialog("upload to the Hub?", CHOICES, sentences, at=len(CHOICES) - 1),
            partial(self._answered, repo),
        )

    def _answered(self, repo: str, words: tuple[str, ...] | None) -> None:
        if words is None:
            self.over = True
            return
        self._app.notify(f"Uploading to {one_line(repo, 60)} …")
        self._run(repo, words, self._uploaded)

    def _uploaded(self, repo: str, ended: Ended) -> None:
        if ended.code != 0:
            self._failed(ended)
            return
        self.over = True
        self._app.notify(one_line(ended.printed.strip().splitlines()[-1], 200), timeout=20)

    def _failed(self, ended: Ended) -> None:
        self.over = True
        self._app.notify(f"Not uploaded: {ended.trouble}", severity="error", timeout=20)


def _names(files: list[dict[str, Any]]) -> str:
    return one_line(", ".join(file["name"] for file in files), MOST_NAMED)
