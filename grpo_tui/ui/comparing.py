"""Run `grpo-tui compare` or `grpo-tui merge` in a child process, and say how far it is.

Answers of a comparison are saved as they are generated, so a stopped one continues when started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from grpo_tui.config.run_config import RunConfig
from grpo_tui.present.baseline_text import PROGRESS
from grpo_tui.present.comparison_text import sentence
from grpo_tui.present.formatting import duration
from grpo_tui.present.results_view import MALFORMED
from grpo_tui.rewards.consent import Code, needed, unanswered
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import read_spec
from grpo_tui.ui.starting import Child, Ended, read_object


def code_to_compare(root: Path, model: Path) -> tuple[Code, ...]:
    """Return the code a comparison would run that is not the user's own and was not approved."""
    try:
        config = RunConfig.from_json(read_spec(RunFolder(root).spec).config, root)
    except (OSError, ValueError):
        return ()  # the command reports what is wrong
    return unanswered([*needed(config), *needed(replace(config, model=str(model.absolute())))])


class Work:
    """A command under way. Call `follow` in a thread.

    Args:
        what: What it does, for the user.
        words: The command, without the option `--progress`, by which it tells its stages.
    """

    def __init__(self, what: str, words: Sequence[str]) -> None:
        self._what, self.stage = what, "starting"
        self._began = time.monotonic()
        self._child = Child([*words, "--progress"], PROGRESS)

    @property
    def line(self) -> str:
        """Current stage and elapsed time, for the user."""
        doing = "stopping" if self.cancelled else self.stage
        return f"{self._what}, {duration(time.monotonic() - self._began)}: {doing}"

    @property
    def cancelled(self) -> bool:
        return self._child.cancelled()

    def follow(self, tell: Callable[[], object]) -> Ended:
        """Wait for the command to end. `tell` is called after each change of stage, from this thread."""

        def told(line: str) -> None:
            self.stage = line.removeprefix(PROGRESS)
            tell()

        return self._child.run(told)

    def cancel(self) -> None:
        """Stop it as ctrl+c does. Safe from any thread."""
        self._child.cancel()


class Comparing(Work):
    """One comparison of `name` as `grpo-tui compare` accepts it. Call `run` in a thread."""

    def __init__(self, name: str) -> None:
        super().__init__(f"comparing {Path(name).name}", ["compare", name, "--json"])
        self.name = name

    def run(self, tell: Callable[[], object]) -> tuple[bool, str]:
        """Wait for the comparison to end, as `follow` does.

        Return whether it has a result, and the verdict or what went wrong.
        """
        done = self.follow(tell)
        if done.code in (0, 1):
            try:
                body = read_object(done.printed) or {}
                return True, sentence(body, body["verdict"][0])
            except MALFORMED:
                pass  # exit code 1 without a result is a failure
        if self.cancelled:
            return False, "Stopped. What was generated is kept: D continues."
        return False, done.trouble
