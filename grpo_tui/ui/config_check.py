"""The full check of an open config, from a thread: model, tokenizer, data, rewards, servers, disk.

What was found is kept while neither the config nor a file it names changes, and so are the processes that
look. Knows messages, and no widget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

from grpo_tui.core.text import one_line
from grpo_tui.ui.config_messages import CheckAt, CheckFailed, ConfigChecked

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_tui.preflight.report import Preflight
    from grpo_tui.preflight.run import Children, Memory
    from grpo_tui.present.config_evaluate import Ranks, Snapshot


class ConfigCheck:
    """One check at a time; `run` is the body of a thread.

    Args:
        post: takes a message for the screen, from any thread.
    """

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._cancel = threading.Event()
        self._closed = False
        self._turn = threading.Lock()
        self._memory: Memory | None = None
        self._children: Children | None = None

    def run(self, snapshot: Snapshot, ranks: Ranks, root: Path | None) -> None:
        """Check a config; each part is told when it is known.

        Args:
            snapshot: the config as it stands in the editor.
            ranks: its processes.
            root: the run folder when a person named one.
        """
        from grpo_tui.preflight.run import Children, Memory, check
        from grpo_tui.preflight.static import Source, Start

        with self._turn:
            if self._closed:
                return
            self._cancel.clear()
            if self._memory is None:
                self._memory = Memory()
            if self._children is None:
                self._children = Children()

            def say(line: str) -> None:
                self._post(CheckAt(one_line(line, 100)))

            def tell(found: Preflight) -> None:
                self._post(ConfigChecked(snapshot, found, whole=False))

            try:
                found = check(
                    Source(snapshot.path, text=snapshot.text, overrides=snapshot.overrides),
                    Start(world_size=ranks.count, launcher=ranks.launcher, root=root),
                    tell=tell,
                    progress=say,
                    cancel=self._cancel,
                    memory=self._memory,
                    children=self._children,
                )
            except (OSError, ValueError, RuntimeError) as error:
                self._children.close()
                self._post(CheckFailed(one_line(str(error), 300)))
                return
            self._post(ConfigChecked(snapshot, found, whole=not self._cancel.is_set()))

    @property
    def cancelled(self) -> bool:
        """Whether somebody has had enough of it."""
        return self._cancel.is_set()

    def cancel(self) -> None:
        """End the check soon."""
        self._cancel.set()

    def close(self) -> None:
        """End it, and the processes that are kept."""
        self._closed = True
        self._cancel.set()
        with self._turn:
            if self._children is not None:
                self._children.close()
                self._children = None
