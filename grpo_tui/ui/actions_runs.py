"""The keys of the list of runs. Knows names and words."""

from __future__ import annotations

from grpo_tui.ui.action import Action

RUNS: tuple[Action, ...] = (
    Action("runs.open", "enter", "open", "Open the run in Train.", "runs", needs="chosen", footer=1),
    Action("runs.resume", "r", "resume",
           "Resume an ended run from its newest complete checkpoint.", "runs",
           needs="ended", footer=2, dangerous=True),
    Action("runs.filter", "slash", "filter",
           "Show only some runs: words, state:failed, model:qwen, reward>1, age<2h.", "runs",
           footer=4, shown="/"),
    Action("runs.config", "c", "config", "Open the config that the run was started with.", "runs",
           needs="chosen", footer=7),
    Action("runs.mark", "space", "mark", "Mark the run, or take its mark away.", "runs",
           needs="chosen", footer=5),
    Action("runs.copy", "y", "", "Copy the command that opens the run, over SSH too.", "runs",
           needs="chosen"),
    Action("runs.overlay", "o", "overlay", "Show the marked runs over each other on one chart.", "runs",
           needs="marked", footer=3),
    Action("runs.sort", "s", "sort", "Sort by last sign of life, reward, name or state, in turn.", "runs",
           footer=6),
    Action("runs.down", "j", "", "Next run.", "runs"),
    Action("runs.up", "k", "", "Previous run.", "runs"),
    Action("runs.clear", "escape", "", "Clear the filter, then the marks.", "runs", shown="esc"),
)  # fmt: skip
