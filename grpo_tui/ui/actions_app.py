"""The keys that work everywhere: the panes, then what every pane has. Knows names and words."""

from __future__ import annotations

from grpo_tui.ui.action import Action

PANES: tuple[Action, ...] = (
    Action("pane.runs", "1", "Runs", "Show the runs.", "all"),
    Action("pane.config", "2", "Config", "Show the open config, as form and as text.", "all"),
    Action("pane.rewards", "3", "Rewards", "Show what the rewards give, and on which completions.", "all"),
    Action("pane.train", "4", "Train", "Show the open run.", "all"),
    Action("pane.generations", "5", "Generations",
           "Show the completions of the open run, and why each got its reward.", "all"),
)  # fmt: skip

EVERYWHERE: tuple[Action, ...] = (
    Action("app.next_part", "tab", "", "Next part of the pane.", "all"),
    Action("app.theme", "T", "light or dark", "Change between light and dark colours.", "all"),
    Action("app.bell", "", "bell", "Ring when the open run ends or fails, or no more.", "all"),
    Action("app.title", "", "title", "Show the run in the terminal's title, or no more.", "all"),
    Action("app.palette", "ctrl+p", "", "Find an action by name.", "all"),
    Action("app.help", "question_mark", "help",
           "Keys, and what the words mean; on a chart, what its metric means.", "all", footer=20, shown="?"),
    Action("app.suspend", "ctrl+z", "",
           "Stop the screen for the shell; fg brings it back, a run goes on.", "all"),
    Action("app.leave", "q", "leave", "Leave; a run goes on without the screen.", "all", footer=21),
)  # fmt: skip
