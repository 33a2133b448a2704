"""Compare a model of a run with its base by running `grpo-tui compare` in a child process.

Answers are saved as they are generated, so a stopped comparison continues when started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
from grpo_tui.ui.starting import Child, read_object


def code_to_compare(root: Path, model: Path) -> tuple[Code, ...]:
    """Return the code a comparison would run that is not the user's own and was not approved."""
    try:
        config = RunConfig.from_json(read_spec(RunFolder(root).spec).config, root)
    except (OSError, ValueError):
        return ()  # the command reports what is wrong
    return unanswered([*needed(config), *needed(replace(config, model=str(model.absolute())))])


class Comparing:
    """One comparison of `name` as `grpo-tui compare` accepts it. Call `run` in a thread."""

    def __init__(self, name: str) -> None:
        self.name, self.stage = name, "starting"
        self._began = time.monotonic()
        self._child = Child(["compare", name, "--json", "--progress"], PROGRESS)

    @property
    def line(self) -> str:
        """Current stage and elapsed time, for the user."""
        doing = "stopping" if self.cancelled else self.stage
        return f"comparing {Path(self.name).name}, {duration(time.monotonic() - self._began)}: {doing}"

    @property
    def cancelled(self) -> bool:
        return self._child.cancelled()

    def run(self, tell: Callable[[], object]) -> tuple[bool, str]:
        """Wait for the comparison to end. `tell` is called after each change of stage, from this thread.

        Return whether it has a result, and the verdict or what went wrong.
        """

        def told(line: str) -> None:
            self.stage = line.removeprefix(PROGRESS)
            tell()

        done = self._child.run(told)
        if done.code in (0, 1):
            try:
                body = read_object(done.printed) or {}
                return True, sentence(body, body["verdict"][0])
            except MALFORMED:
                pass  # exit code 1 without a result is a failure
        if self.cancelled:
            return False, "Stopped. What was generated is kept: D continues."
        return False, done.trouble

    def cancel(self) -> None:
        """Stop it as ctrl+c does. Safe from any thread."""
        self._child.cancel()
