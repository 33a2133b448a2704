"""The keys of the data view. Knows names and words."""

from __future__ import annotations

from grpo_tui.ui.action import Action

DATA: tuple[Action, ...] = (
    Action("data.back", "escape", "back", "End the search; back to where the data was opened.", "data",
           footer=1, shown="esc"),
    Action("data.next", "right_square_bracket,right", "row", "Show the next row.", "data",
           footer=2, shown="[ ]"),
    Action("data.previous", "left_square_bracket,left", "", "Show the row before.", "data", shown="["),
    Action("data.random", "r", "random", "Show a row by chance.", "data", footer=4),
    Action("data.go", "g", "go to", "Type the number of a row.", "data", footer=6),
    Action("data.search", "slash", "search", "Find the rows that hold words, anywhere in them.", "data",
           footer=3, shown="/"),
    Action("data.next_match", "n", "next match", "Show the next row that holds the words.", "data",
           footer=2, part="matches"),
    Action("data.previous_match", "N", "", "Show the row before that holds the words.", "data"),
    Action("data.figures", "f", "all rows", "Show all rows in figures and what was found, or one row.",
           "data", footer=5),
    Action("data.down", "j", "", "A line on.", "data"),
    Action("data.up", "k", "", "A line back.", "data"),
    Action("data.copy", "y", "copy", "Copy the row as JSON, over SSH too.", "data", footer=8),
    Action("data.again", "R", "", "Read the data again, when its file has changed.", "data"),
)  # fmt: skip
