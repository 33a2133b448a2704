"""Every user action, in one table that feeds the key bindings, the palette, the footer and the help.

Rows are in the order of the help: by group, frequent ones first. The screen (or the app) implements an action
as `action_<id with _ for .>`. Keys follow three rules, checked by `tests/ui/test_keys.py`:

1. Capitals, `=` and ctrl act: only they change a run or a file, or start work on a GPU. Each has one verb.
2. The core keys have one verb wherever they are bound: `? q 1-6 [ ] , . n N j k g G s y e space enter esc
   tab m z > ctrl+p`.
3. Any other lower-case letter opens or toggles something in its pane.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

from grpo_tui.ui.needs import Listed, refusal
from grpo_tui.ui.panes import PANES

if TYPE_CHECKING:
    from grpo_tui.present.train_view import TrainView

COMMANDING = ("process", "live", "running", "paused", "reward")
"""What an action needs that sends a command to the run."""


def _is_acting(key: str) -> bool:
    capital = len(key) == 1 and key.isupper() and key not in "NG"
    return capital or key in ("=", "equals_sign", "m") or key.startswith("ctrl+")


@dataclass(frozen=True, slots=True)
class Action:
    """One user action and the places where it appears."""

    id: str
    key: str
    """Textual's name of the key; empty when the action is only in the palette."""
    label: str
    """One or two words, for the footer."""
    title: str
    """Name in the palette, at most six words."""
    help: str
    """One or two sentences for the help and the palette."""
    pane: str
    """`all`, a pane's name in lower case, or a screen opened on top of a pane (`hardware`, `chart`, …).
    `zoom` holds what `chart` and `overlay` share.
    """
    group: str
    needs: str = ""
    """Required state; empty for none.

    Of the open run: `open`, `process` (has a process), `live` (accepts commands), `running`, `paused`,
    `reward` (a reward call is running), `replay` (is shown as it was).
    In Runs: `chosen`, `steps` (has some), `ended`, `marked`.
    """
    footer: int = 0
    """Rank in the footer, 1 first; 0 keeps the action out of the footer."""
    dangerous: bool = False
    """Asks for confirmation once."""
    part: str = ""
    """Comma-separated parts; the footer lists the action only while one of them applies.

    A part is what is shown, focused or true in a screen (`log`, `chart`, `reader`, `busy`, …; each screen
    passes its own to `for_footer`), or a state of the open run.
    """
    shown: str = ""
    """The key as written, if it differs from its name. In the footer together with its partner: `[ ]`."""

    does: str = ""
    """The Textual action, if it differs from the id."""
    unkeyed: bool = False
    """Whether it acts although no key says so, because it is only in the palette."""

    @property
    def acts(self) -> bool:
        """Whether it changes a run or a file, or runs a model, as its key says. A replay refuses it."""
        keys = (self.key or self.shown).split(",")
        acts = self.unkeyed or self.needs in COMMANDING or all(map(_is_acting, keys))
        return acts and self.pane != "all"

    @property
    def method(self) -> str:
        return self.does or self.id.replace(".", "_")

    @property
    def target(self) -> str:
        """The Textual action with its namespace, for clicks and the palette."""
        return f"{'app' if self.pane == 'all' else 'screen'}.{self.method}"

    @property
    def key_shown(self) -> str:
        return self.shown or self.key

    @property
    def key_alone(self) -> str:
        """The key without its partner in the footer."""
        pair = self.key_shown.split()
        return self.key if self.key in pair else pair[-1] if pair else ""


GO_TO_PANES: tuple[Action, ...] = (
    *(
        Action(
            f"pane.{p.id}", p.key, p.name, f"Go to {p.name}", p.help, "all", "panes", does=f"pane('{p.id}')"
        )
        for p in PANES
    ),
    Action("app.next_part", "tab", "", "Next part", "Focus the next part of the pane.", "all", "panes"),
)

EVERYWHERE: tuple[Action, ...] = (
    Action("app.help", "question_mark", "help", "Help",
           "Show keys and terms. On a chart, explain its metric.", "all", "program",
           footer=20, shown="?"),
    Action("app.palette", "ctrl+p", "", "Find an action", "Find an action by name.", "all", "program"),
    Action("app.leave", "q", "leave", "Leave grpo-tui", "Leave grpo-tui. Training continues.",
           "all", "program", footer=21),
    Action("app.suspend", "ctrl+z", "", "Suspend to the shell",
           "Suspend to the shell. `fg` returns; training continues.", "all", "program"),
    Action("app.theme", "", "theme", "Toggle light and dark theme",
           "Switch between light and dark colors.", "all", "program"),
    Action("app.bell", "", "bell", "Toggle the bell",
           "Ring once when a run ends or fails.", "all", "program"),
    Action("app.title", "", "title", "Toggle the terminal title",
           "Show the run's name in the terminal title.", "all", "program"),
)  # fmt: skip


TRAIN: tuple[Action, ...] = (
    Action("run.pause", "P", "pause", "Pause the run",
           "Pause after the current step, or resume a paused run. GPU memory stays allocated.",
           "train", "steer", needs="running", footer=1, does="pause_or_resume"),
    Action("run.resume", "", "resume", "Resume the paused run", "Continue training.", "train", "steer",
           needs="paused", footer=1, shown="P", does="pause_or_resume"),
    Action("run.checkpoint", "C", "checkpoint", "Save a checkpoint",
           "Save a checkpoint after the current step. Rotation never removes it.", "train", "steer",
           needs="live", footer=3),
    Action("run.set", "equals_sign", "set", "Change a setting",
           "Change the learning rate, temperature, reward weights or another setting.", "train", "steer",
           needs="live", footer=5, shown="="),
    Action("run.undo", "U", "undo", "Undo the last change",
           "Put back the settings that the last change replaced.", "train", "steer", needs="live", footer=15),
    Action("run.reload", "L", "reload rewards", "Reload edited reward files",
           "Check edited reward files and the config's list of rewards, and load them. U goes back.",
           "train", "steer", needs="live", footer=16),
    Action("run.sample", "m", "sample", "Ask the model a prompt",
           "Sample a prompt from the current policy.", "train", "steer", needs="live", footer=8),
    Action("run.evaluate", "V", "evaluate", "Evaluate the policy now",
           "Use the rows of grpo_tui.evaluate, or TRL's dataset.", "train", "steer", needs="live"),
    Action("live.chat", "", "chat", "Ask the paused model",
           "Chat with the current policy while the run is paused.", "train", "steer", needs="paused"),
    Action("run.abort", "A", "abort reward", "Abort the reward call",
           "Abort the running reward call. Its rewards become None.", "train", "steer",
           needs="reward", footer=2),
    Action("run.stop", "S", "stop", "Stop the run",
           "Finish the current step, save a checkpoint and exit, or exit without saving.",
           "train", "steer", needs="live", footer=4, dangerous=True),
    Action("run.stop_now", "", "stop now", "Stop without saving", "Exit immediately, without saving.",
           "train", "steer", needs="process", dangerous=True, footer=1, part="starting", shown="S"),
    Action("view.log", "l", "log", "Toggle the log", "Toggle the log.", "train", "show",
           needs="open", footer=7),
    Action("view.large", "z", "large", "Toggle the large lower part",
           "Toggle the lower part over the whole pane.", "train", "show", needs="open", footer=10),
    Action("view.events", "v", "events", "Toggle the events", "Toggle the run's events.", "train", "show",
           needs="open", footer=12),
    Action("view.findings", "f", "findings", "List the run's findings",
           "List the findings of the run. Enter shows one with its steps, completions and remedies.",
           "train", "show", needs="open", footer=2, part="findings"),
    Action("view.hold", "space", "hold view", "Hold the view",
           "Freeze or unfreeze the view. Training continues. A replay is paused or continued.",
           "train", "show", needs="open", footer=9),
    Action("hardware.open", "u", "machine", "Show the machine",
           "Show GPUs, processes, CPU, memory and ranks.", "train", "show", needs="open", footer=10),
    Action("groups.inspect", "o", "inspect", "Open the group in Generations",
           "Open the selected group in Generations.", "train", "show", needs="open", footer=11),
    Action("groups.score", "greater_than_sign", "", "Score the group in Rewards",
           "Score the selected group in Rewards.", "train", "show", needs="open", shown=">"),
    Action("view.groups", "", "groups", "Toggle the newest groups",
           "Toggle the newest groups over the whole pane.", "train", "show", needs="open"),
    Action("view.back", "escape", "back", "Back to the small part",
           "End the search, shrink the part, or return to the groups.", "train", "show",
           needs="open", footer=4, part="large", shown="esc"),
    Action("chart.next", "right_square_bracket", "chart", "Next charts", "Show the next charts.",
           "train", "charts", needs="open", footer=6, shown="]", does="chart_turn(1)"),
    Action("chart.previous", "left_square_bracket", "", "Previous charts", "Show the previous charts.",
           "train", "charts", needs="open", shown="[", does="chart_turn(-1)"),
    Action("chart.open", "enter", "enlarge", "Open the chart",
           "Open the focused chart in full screen.", "train", "charts",
           needs="open", footer=1, part="chart"),
    Action("chart.pick", "x", "metrics", "Choose a metric", "Choose a metric for the focused chart.",
           "train", "charts", needs="open", footer=11),
    Action("chart.log", "", "log scale", "Toggle the log scale",
           "Toggle a logarithmic y axis for the focused chart, or for all charts.", "train", "charts",
           needs="open"),
    Action("view.settings", "t", "settings", "Toggle the settings",
           "Toggle the run's settings beside the charts.", "train", "charts", needs="open"),
    Action("log.search", "slash", "search", "Search the log", "Search the whole log.", "train", "find",
           needs="open", footer=1, part="log", shown="/"),
    Action("log.next", "n", "next", "Next match in the log", "Go to the next match in the log.",
           "train", "find", needs="open", footer=2, part="log", does="log_hit(True)"),
    Action("log.previous", "N", "", "Previous match in the log", "Go to the previous match in the log.",
           "train", "find", needs="open", does="log_hit(False)"),
    Action("log.level", "w", "levels", "Cycle the log level",
           "Cycle the log: folded, warnings and errors, errors, all lines.", "train", "find",
           needs="open", footer=3, part="log"),
    Action("part.end", "", "newest", "Go to the newest",
           "Go to the newest group, line or event and follow it.", "train", "find", needs="open"),
    Action("part.copy", "y", "copy", "Copy",
           "Copy the selected completion, log line, event or chart value. Works over SSH.",
           "train", "copy", needs="open", footer=13),
    Action("replay.turn", "", "pause or play", "Pause or continue the replay",
           "Pause the replay, or continue it. At the end, play it again.", "train", "replay",
           needs="replay", footer=1, part="replay", shown="space", does="view_hold"),
    Action("replay.after", "full_stop", "step", "Next step of the replay",
           "Pause the replay and go to the next recorded step.", "train", "replay",
           needs="replay", footer=2, part="replay", shown=", .", does="replay_move(1)"),
    Action("replay.before", "comma", "", "Previous step of the replay",
           "Pause the replay and go to the previous recorded step.", "train", "replay",
           needs="replay", shown=",", does="replay_move(-1)"),
    Action("replay.faster", "plus", "speed", "Play faster", "Play the replay faster.", "train", "replay",
           needs="replay", footer=3, part="replay", shown="+ -", does="replay_speed(True)"),
    Action("replay.slower", "minus", "", "Play slower", "Play the replay slower.", "train", "replay",
           needs="replay", shown="-", does="replay_speed(False)"),
    Action("replay.go", "colon", "go to step", "Go to a step", "Show the run as it was at a step.",
           "train", "replay", needs="replay", footer=4, part="replay", shown=":"),
    Action("replay.open", "", "replay", "Replay this run", "Show the run step by step, as it was.",
           "train", "replay", needs="open"),
    Action("hardware.back", "escape", "back", "Back to the run", "Return to the run.", "hardware", "show",
           footer=1, shown="esc", does="close"),
    Action("hardware.close", "u", "", "Back to the run", "Return to the run.", "hardware", "show",
           does="close"),
    Action("hardware.down", "j", "scroll", "Scroll down", "Scroll down.", "hardware", "show",
           footer=2, shown="j k", does="scroll(1)"),
    Action("hardware.up", "k", "", "Scroll up", "Scroll up.", "hardware", "show", does="scroll(-1)"),
    Action("zoom.back", "escape", "back", "Back to the pane", "Close the chart.", "zoom", "move",
           footer=1, shown="esc"),
    Action("zoom.left", "left", "", "Cursor left", "Move the cursor to an earlier value.", "zoom", "move",
           shown="←", does="move(-1)"),
    Action("zoom.right", "right", "cursor", "Cursor right", "Move the cursor to a later value.",
           "zoom", "move", footer=2, shown="← →", does="move(1)"),
    Action("zoom.far_left", "shift+left,ctrl+left", "", "Cursor ten left",
           "Move the cursor ten values back.", "zoom", "move", shown="shift+←", does="move(-10)"),
    Action("zoom.far_right", "shift+right,ctrl+right", "", "Cursor ten right",
           "Move the cursor ten values forward.", "zoom", "move", shown="shift+→", does="move(10)"),
    Action("zoom.oldest", "g,home", "", "First value", "Move the cursor to the first value.",
           "zoom", "move", shown="g"),
    Action("zoom.newest", "G,end", "", "Last value", "Go to the newest value and follow it.",
           "zoom", "move", shown="G"),
    Action("zoom.earlier", "h", "", "Pan left", "Pan back by a quarter of the width.", "zoom", "move",
           does="pan(-1)"),
    Action("zoom.later", "l", "pan", "Pan right", "Pan forward by a quarter of the width.", "zoom", "move",
           footer=8, shown="h l", does="pan(1)"),
    Action("zoom.in", "plus", "zoom", "Zoom in", "Zoom in around the cursor.", "zoom", "move",
           footer=3, shown="+", does="zoom(1)"),
    Action("zoom.out", "minus", "", "Zoom out", "Zoom out around the cursor.", "zoom", "move",
           shown="-", does="zoom(-1)"),
    Action("zoom.whole", "0", "whole run", "Reset the zoom", "Show the whole run and follow it.",
           "zoom", "move", footer=4),
    Action("zoom.next", "right_square_bracket", "metric", "Next metric", "Show the next metric.",
           "zoom", "metric", footer=5, shown="[ ]", does="turn(1)"),
    Action("zoom.previous", "left_square_bracket", "", "Previous metric", "Show the previous metric.",
           "zoom", "metric", shown="[", does="turn(-1)"),
    Action("zoom.pick", "x", "metrics", "Choose a metric", "Choose another metric of the run.",
           "zoom", "metric", footer=7),
    Action("zoom.smooth", "f", "smooth", "Cycle smoothing", "Cycle smoothing: off, light, strong.",
           "zoom", "metric", footer=6),
    Action("zoom.time", "t", "steps or time", "Toggle the time axis",
           "Switch the x axis between steps and time.", "zoom", "metric", footer=9),
    Action("zoom.log", "o", "log scale", "Toggle the log scale", "Toggle a logarithmic y axis.",
           "zoom", "metric", footer=10),
    Action("chart.completions", "enter", "completions", "Open this step in Generations",
           "Open the completions of this step in Generations.", "chart", "show", footer=8),
    Action("chart.together", "d", "eval", "Compare training with evaluation",
           "Cycle training and evaluation: both, training, evaluation.", "chart", "show", footer=11),
    Action("overlay.table", "d", "settings", "Compare the settings",
           "Toggle all settings that differ.", "overlay", "show", footer=8),
)  # fmt: skip


CONFIG: tuple[Action, ...] = (
    Action("config.edit", "enter", "edit", "Open the field",
           "Edit the field. On a title, toggle all fields of its section.", "config", "edit",
           footer=1, part="form"),
    Action("config.apply", "", "apply", "Apply the value", "Put the typed value into the config.",
           "config", "edit", footer=1, part="field", shown="enter"),
    Action("config.unset", "backspace,delete", "to default", "Restore the default",
           "Remove the field from the file, which restores TRL's default.", "config", "edit",
           footer=9, part="form", shown="del"),
    Action("config.undo", "u", "undo", "Undo", "Undo the last change.", "config", "edit",
           footer=8, part="edited"),
    Action("config.redo", "ctrl+r", "", "Redo", "Redo the last undone change.", "config", "edit"),
    Action("config.fix", "f", "fix", "Fix this field", "Apply the suggested fix for the field.",
           "config", "edit", footer=1, part="fixable"),
    Action("config.fix_all", "ctrl+f", "fix all", "Fix all errors",
           "Apply the fixes of all errors at once. u undoes it.", "config", "edit",
           footer=2, part="fixables"),
    Action("config.check", "c", "check", "Check the config",
           "Check model, tokenizer, data, rewards, servers and disk.", "config", "run",
           footer=6, part="form"),
    Action("config.trial", "T", "trial", "Trial of two steps",
           "Train two steps on the longest prompts, save and reload, and correct the plan with the result.",
           "config", "run", footer=16, part="form"),
    Action("config.drills", "", "drills", "Drills before a long run",
           "Try a hung reward, a kill, a full disk and a NaN gradient in trials, and see what to change.",
           "config", "run", unkeyed=True),
    Action("config.start", "R", "start", "Start training",
           "Start training with this config. Asks for confirmation; errors prevent it.",
           "config", "run", footer=5, part="form", dangerous=True),
    Action("config.baseline", "B", "baseline", "Baseline in Rewards",
           "Measure the base model: sample 16 rows and score them in Rewards.", "config", "run"),
    Action("config.save", "W,ctrl+s", "save", "Write the file", "Save the file. In the text, use ctrl+s.",
           "config", "file", footer=2, part="edited,new", shown="W"),
    Action("config.save_text", "", "save", "Write the file", "Save the file.", "config", "file",
           footer=2, part="text", shown="ctrl+s", does="config_save"),
    Action("config.save_as", "ctrl+o", "", "Write under another name",
           "Save under another name and continue with that file.", "config", "file"),
    Action("config.open", "o", "open a file", "Open a config", "Open another config.", "config", "file",
           footer=1, part="empty"),
    Action("config.new", "ctrl+n", "new from a preset", "New config from a preset",
           "Create a config from a preset.", "config", "file", footer=2, part="empty"),
    Action("config.export", "E", "export", "Export as a script",
           "Export a train.py that needs only TRL and trains the same.", "config", "file",
           footer=15, part="form"),
    Action("config.copy", "y", "", "Copy the field", "Copy the field and its value. Works over SSH.",
           "config", "file"),
    Action("config.search", "slash", "find", "Find a field", "Search field names and help.",
           "config", "find", footer=4, part="form", shown="/"),
    Action("config.findings", "l", "findings", "List the findings",
           "List all findings. Enter goes to the field or line.", "config", "find",
           footer=7, part="found"),
    Action("config.next_finding", "right_square_bracket", "", "Next finding", "Go to the next finding.",
           "config", "find", shown="]", does="step_finding(1)"),
    Action("config.previous_finding", "left_square_bracket", "", "Previous finding",
           "Go to the previous finding.", "config", "find", shown="[", does="step_finding(-1)"),
    Action("config.end_search", "", "end search", "End the search", "End the search.", "config", "find",
           footer=1, part="search", shown="esc"),
    Action("config.other", "", "text", "Switch form and text", "Switch between the form and the text.",
           "config", "show", footer=3, part="form,unread", shown="tab"),
    Action("config.back", "escape", "form", "Back to the form",
           "Return to the form, leave the value as it was, or end the search.",
           "config", "show", footer=1, part="text,field", shown="esc"),
    Action("config.all", "a", "all fields", "Toggle all fields",
           "Toggle between all fields and the important ones.", "config", "show", footer=11, part="form"),
    Action("config.whole", "v", "whole help", "View the whole help", "Show the whole help of the field.",
           "config", "show", footer=14, part="form"),
    Action("config.data", "i", "data", "Input rows", "Browse the rows as training will see them.",
           "config", "show", footer=10, part="form"),
    Action("config.diff", "d", "compare", "Compare with another config",
           "Compare with the saved file, the preset, TRL's defaults or another run.", "config", "show",
           footer=12, part="form"),
    Action("config.gpu", "p", "plan for", "Plan for another GPU",
           "Plan memory for a GPU of this machine or another card.", "config", "show",
           footer=13, part="form"),
)  # fmt: skip


DATA: tuple[Action, ...] = (
    Action("data.next", "right_square_bracket,right", "row", "Next row", "Show the next row.",
           "data", "move", footer=2, shown="[ ]"),
    Action("data.previous", "left_square_bracket,left", "", "Previous row", "Show the previous row.",
           "data", "move", shown="["),
    Action("data.random", "r", "random", "Random row", "Show a random row.", "data", "move", footer=4),
    Action("data.go", "colon", "go to", "Go to a row", "Go to a row by its number.", "data", "move",
           footer=6, shown=":"),
    Action("data.down", "j", "", "Scroll down", "Scroll down.", "data", "move", does="scroll(1)"),
    Action("data.up", "k", "", "Scroll up", "Scroll up.", "data", "move", does="scroll(-1)"),
    Action("data.back", "escape", "back", "Back", "End the search, or close the data.", "data", "move",
           footer=1, shown="esc"),
    Action("data.search", "slash", "search", "Search all rows", "Search the text of all rows.",
           "data", "find", footer=3, shown="/"),
    Action("data.next_match", "n", "next match", "Next matching row", "Go to the next matching row.",
           "data", "find", footer=2, part="matches", does="match(1)"),
    Action("data.previous_match", "N", "", "Previous matching row", "Go to the previous matching row.",
           "data", "find", does="match(-1)"),
    Action("data.figures", "a", "all rows", "Toggle statistics of all rows",
           "Toggle the statistics and findings of all rows.", "data", "show", footer=5),
    Action("data.copy", "y", "copy", "Copy the row", "Copy the row as JSON. Works over SSH.",
           "data", "show", footer=8),
    Action("data.again", "ctrl+l", "", "Reload the data", "Reload the data from its file.", "data", "show"),
)  # fmt: skip


REWARDS: tuple[Action, ...] = (
    Action("rewards.edit", "enter", "edit", "Open the completion",
           "Edit the completion. In the weights, type a value.", "rewards", "samples",
           footer=3, part="scored,weights"),
    Action("rewards.whole", "v", "view", "View the whole sample",
           "Show the whole sample: text, columns and what the rewards saw.", "rewards", "samples",
           footer=10, part="scored"),
    Action("rewards.add", "a", "add", "Add a completion",
           "Add a completion for the row under the cursor.", "rewards", "samples",
           footer=2, part="scored"),
    Action("rewards.samples", "f", "samples from", "Fetch samples",
           "Load samples: reference and wrong answers, the open run, a file, probes.",
           "rewards", "samples", footer=7, part="scored"),
    Action("rewards.model", "m", "ask model", "Ask the model", "Let the base model answer this row.",
           "rewards", "samples", footer=9, part="model"),
    Action("rewards.keep", "K", "keep as case", "Keep as a case",
           "Save the sample as a test case with its current scores.", "rewards", "samples",
           footer=4, part="scored"),
    Action("rewards.duplicate", "c", "duplicate", "Duplicate the sample", "Duplicate the sample.",
           "rewards", "samples", footer=11, part="scored"),
    Action("rewards.remove", "delete,backspace", "", "Remove the sample",
           "Remove the sample from the list.", "rewards", "samples", shown="del"),
    Action("rewards.tags", "t", "tags", "Tag the sample", "Edit the tags of the sample.",
           "rewards", "samples", footer=13, part="scored"),
    Action("rewards.data", "i", "", "Input rows", "Browse the rows as training will see them.",
           "rewards", "samples"),
    Action("rewards.write", "W", "", "Write the samples",
           "Write the samples with their tags to a JSONL file.", "rewards", "samples"),
    Action("rewards.copy", "y", "", "Copy the sample", "Copy the whole sample. Works over SSH.",
           "rewards", "samples"),
    Action("rewards.sort", "s", "sort", "Sort the samples",
           "Sort by total, advantage, a reward or prompt. The same choice again reverses the order.",
           "rewards", "find", footer=8, part="scored"),
    Action("rewards.filter", "slash", "filter", "Filter the samples",
           "Show only samples with these words. #hard matches a tag.", "rewards", "find",
           footer=13, part="scored", shown="/"),
    Action("rewards.left", "left", "", "Previous reward",
           "Select the previous reward. In the weights, lower this one.", "rewards", "find",
           shown="←", does="step(-1)"),
    Action("rewards.right", "right", "change", "Next reward",
           "Select the next reward. In the weights, raise this one.", "rewards", "find",
           footer=1, part="weights", shown="← →", does="step(1)"),
    Action("rewards.back", "escape", "end the call", "Back to the samples",
           "End the running call, or return to the samples.", "rewards", "find",
           footer=1, part="busy", shown="esc"),
    Action("rewards.probe", "p", "probes", "Probe the rewards",
           "Try to fool the rewards, and find correct answers that they reject.", "rewards", "rewards",
           footer=5, part="loaded"),
    Action("rewards.source", "e", "source", "Edit the source in $EDITOR",
           "Open the reward's source in $EDITOR.", "rewards", "rewards", footer=9, part="scored"),
    Action("rewards.score", "ctrl+l", "score again", "Score again",
           "Reload the rewards and score again. Saving a reward file does this too.",
           "rewards", "rewards", footer=12, part="scored"),
    Action("rewards.next", "ctrl+n", "new reward", "New reward",
           "Add the next reward, or create a rewards file.", "rewards", "rewards",
           footer=6, part="scored,empty"),
    Action("rewards.new", "", "", "New rewards file", "Create a rewards file with one simple reward.",
           "rewards", "rewards", unkeyed=True),
    Action("rewards.baseline", "B", "baseline", "Baseline of the base model",
           "Measure the base model on 16 rows: pass rate, mixed groups and advice.",
           "rewards", "rewards", footer=8, part="model"),
    Action("rewards.weights", "o", "weights", "Change the weights",
           "Change weights or mute rewards and see the advantages.", "rewards", "weights",
           footer=6, part="scored"),
    Action("rewards.mute", "space", "mute", "Mute the reward", "Mute or unmute this reward.",
           "rewards", "weights", footer=4, part="weights"),
    Action("rewards.alone", "h", "solo", "Solo the reward", "Solo this reward, or unmute all.",
           "rewards", "weights", footer=5, part="weights"),
    Action("rewards.scale", "b", "scale", "Cycle advantage scaling",
           "Cycle advantage scaling: group std, batch std, none.", "rewards", "weights",
           footer=7, part="weights"),
    Action("rewards.combine", "", "combine", "Switch how rewards are combined",
           "Switch between sum-then-normalize and normalize-then-sum.", "rewards", "weights"),
    Action("rewards.reset", "0", "reset", "Reset the weights",
           "Reset weights and modes to the config's.", "rewards", "weights", footer=6, part="weights"),
    Action("probes.back", "escape", "back", "Back to the samples", "Return to the samples.",
           "probes", "show", footer=1, shown="esc", does="close"),
    Action("probes.whole", "v", "whole examples", "View whole examples", "Toggle whole examples.",
           "probes", "show", footer=3),
    Action("probes.down", "j", "scroll", "Scroll down", "Scroll down.", "probes", "show",
           footer=2, shown="j k", does="scroll(1)"),
    Action("probes.up", "k", "", "Scroll up", "Scroll up.", "probes", "show", does="scroll(-1)"),
)  # fmt: skip


GENERATIONS: tuple[Action, ...] = (
    Action("generations.open", "enter", "open", "Open the group or completion",
           "Open the group, then the completion.", "generations", "read",
           needs="open", footer=1, part="list"),
    Action("generations.back", "escape", "back", "Back to the list",
           "Return to the group, to the list, or end the query.", "generations", "read",
           footer=1, part="card,reader", shown="esc"),
    Action("generations.diff", "d", "compare", "Compare completions",
           "Cycle the comparison: best of the group, worst, the prompt's previous appearance.",
           "generations", "read", needs="open", footer=3),
    Action("generations.mark", "space", "", "Mark for comparison",
           "Compare other completions with this one.", "generations", "read", needs="open"),
    Action("generations.prompt", "i", "prompt", "Input row and prompt",
           "Toggle the prompt and its dataset row.", "generations", "read",
           needs="open", footer=11, does="turn('prompt')"),
    Action("generations.tokens", "t", "tokens", "Token probabilities",
           "Show each token's probability under the policy, a checkpoint or the base model.",
           "generations", "read", needs="open", footer=13, part="card,reader"),
    Action("generations.fold", "f", "fold", "Fold the text",
           "Cycle folding: reasoning, every block, nothing.", "generations", "read",
           needs="open", footer=10),
    Action("generations.raw", "r", "raw", "Toggle raw text", "Toggle visible white space and line breaks.",
           "generations", "read", needs="open", footer=12, does="turn('raw')"),
    Action("generations.large", "z", "", "Toggle the large part",
           "Toggle the focused part over the whole pane.", "generations", "read", needs="open"),
    Action("generations.query", "slash", "query", "Find completions",
           "Find completions: reward<0.2 and tokens>400, zero_std, text ~ \"wait\", step 40..60.",
           "generations", "find", needs="open", footer=2, shown="/"),
    Action("generations.sort", "s", "sort", "Sort the list",
           "Sort the list by any field. The same choice again reverses the order.",
           "generations", "find", needs="open", footer=6, part="list"),
    Action("generations.kind", "c", "completions", "Toggle groups and completions",
           "Toggle between groups and single completions.", "generations", "find",
           needs="open", footer=5, part="list"),
    Action("generations.views", "v", "saved queries", "View saved queries",
           "Open a saved query, or save this one.", "generations", "find", needs="open", footer=17),
    Action("generations.visit_after", "n", "same prompt", "Next appearance of the prompt",
           "Go to the prompt's next appearance.", "generations", "move",
           needs="open", footer=4, shown="n N", does="other_visit(1)"),
    Action("generations.visit_before", "N", "", "Previous appearance of the prompt",
           "Go to the prompt's previous appearance.", "generations", "move",
           needs="open", does="other_visit(-1)"),
    Action("generations.later", "right_square_bracket", "step", "Next step", "Go to the next step.",
           "generations", "move", needs="open", footer=7, shown="[ ]", does="other_step(1)"),
    Action("generations.earlier", "left_square_bracket", "", "Previous step", "Go to the previous step.",
           "generations", "move", needs="open", shown="[", does="other_step(0)"),
    Action("generations.group_after", "full_stop", "next", "Next line of the list",
           "Go to the next line of the list.", "generations", "move",
           needs="open", footer=8, part="card,reader", shown=", .", does="move_group(1)"),
    Action("generations.group_before", "comma", "", "Previous line of the list",
           "Go to the previous line of the list.", "generations", "move",
           needs="open", shown=",", does="move_group(-1)"),
    Action("generations.right", "right", "completion", "Next completion", "Go to the next completion.",
           "generations", "move", needs="open", footer=9, part="reader", shown="← →",
           does="move_completion(1)"),
    Action("generations.left", "left", "", "Previous completion", "Go to the previous completion.",
           "generations", "move", needs="open", shown="←", does="move_completion(-1)"),
    Action("generations.newest", "", "newest", "Go to the newest group",
           "Go to the newest group and follow it.", "generations", "move", needs="open"),
    Action("generations.course", "o", "over time", "Trends over time",
           "Show trends over the run: groups, lengths, variety, reward contributions, and this prompt.",
           "generations", "analyze", needs="open", footer=13),
    Action("generations.prompts", "p", "prompts", "Prompts solved, learned or forgotten",
           "List the prompts that were never solved, always solved, learned or forgotten over the run.",
           "generations", "analyze", needs="open"),
    Action("generations.audit", "a", "audit", "Completions to audit",
           "List completions that look like attacks, and top rewards that a second opinion refuses.",
           "generations", "analyze", needs="open"),
    Action("generations.what_if", "w", "what if", "What if",
           "Score the listed groups again with the current reward files or other weights.",
           "generations", "analyze", needs="open", footer=14),
    Action("generations.score", "greater_than_sign", "to Rewards", "Score the group in Rewards",
           "Score the group in Rewards with the current reward files.", "generations", "analyze",
           needs="open", footer=14, shown=">"),
    Action("generations.copy", "y", "copy", "Copy the completion",
           "Copy the completion. Works over SSH.", "generations", "copy", needs="open", footer=15),
    Action("generations.export", "E", "export", "Export the matches",
           "Export the matches as JSONL, CSV or Markdown.", "generations", "copy", needs="open", footer=16),
    Action("course.back", "escape", "back", "Back to Generations", "Return to Generations.",
           "course", "show", footer=1, shown="esc", does="close"),
    Action("course.down", "j", "scroll", "Scroll down", "Scroll down.", "course", "show",
           footer=2, shown="j k", does="scroll(1)"),
    Action("course.up", "k", "", "Scroll up", "Scroll up.", "course", "show", does="scroll(-1)"),
    Action("what_if.back", "escape", "back", "Back to Generations", "End scoring and return to Generations.",
           "what-if", "show", footer=1, shown="esc", does="close"),
    Action("what_if.weights", "o", "other weights", "Other weights", "Reweight the recorded scores.",
           "what-if", "show", footer=2),
    Action("what_if.again", "ctrl+l", "current rewards", "Reload the rewards",
           "Score again with the current reward files.", "what-if", "show", footer=3),
    Action("what_if.down", "j", "scroll", "Scroll down", "Scroll down.", "what-if", "show",
           footer=4, shown="j k", does="scroll(1)"),
    Action("what_if.up", "k", "", "Scroll up", "Scroll up.", "what-if", "show", does="scroll(-1)"),
    Action("tokens.back", "escape", "back", "Back to Generations",
           "End the running pass, or return to Generations.", "tokens", "show", footer=1, shown="esc"),
    Action("tokens.policy", "p", "policy", "Choose the policy",
           "Choose the model: live policy, a checkpoint or the base.", "tokens", "show", footer=2),
    Action("tokens.base", "d", "KL to base", "Compare with the base model",
           "Toggle the comparison with the base or reference model.", "tokens", "show", footer=4),
    Action("tokens.prompt", "i", "prompt", "Input as the model gets it",
           "Toggle the input as the model gets it.", "tokens", "show", footer=5),
    Action("tokens.right", "right", "completion", "Next completion",
           "Go to the next completion of the group.", "tokens", "show",
           footer=3, shown="← →", does="move(1)"),
    Action("tokens.left", "left", "", "Previous completion", "Go to the previous completion.",
           "tokens", "show", shown="←", does="move(-1)"),
    Action("tokens.copy", "y", "copy", "Copy the tokens",
           "Copy every token with its figures. Works over SSH.", "tokens", "show", footer=6),
)  # fmt: skip


RUNS: tuple[Action, ...] = (
    Action("runs.open", "enter", "open", "Open the run", "Open the run in Train.", "runs", "run",
           needs="chosen", footer=1),
    Action("runs.replay", "p", "replay", "Replay the run", "Show the run step by step, as it was.",
           "runs", "run", needs="steps", footer=8),
    Action("runs.resume", "R", "resume", "Resume the ended run",
           "Resume an ended run from its newest complete checkpoint.", "runs", "run",
           needs="ended", footer=2, dangerous=True),
    Action("runs.config", "c", "config", "Config of the run", "Open the config of the run.",
           "runs", "run", needs="chosen", footer=7),
    Action("runs.copy", "y", "", "Copy the attach command",
           "Copy the command that opens the run. Works over SSH.", "runs", "run", needs="chosen"),
    Action("runs.mark", "space", "mark", "Mark the run", "Mark or unmark the run.", "runs", "compare",
           needs="chosen", footer=5),
    Action("runs.overlay", "o", "overlay", "Overlay the marked runs",
           "Overlay the marked runs on one chart.", "runs", "compare", needs="marked", footer=3),
    Action("runs.filter", "slash", "filter", "Filter the runs",
           "Filter runs: words, state:failed, model:qwen, reward>1, age<2h.", "runs", "find",
           footer=4, shown="/"),
    Action("runs.sort", "s", "sort", "Sort the runs",
           "Cycle the sort: last heartbeat (forks under their run), reward, name, state.", "runs", "find",
           footer=6),
    Action("runs.clear", "escape", "", "Back to all runs", "Clear the filter, then the marks.",
           "runs", "find", shown="esc"),
    Action("runs.down", "j", "", "Next run", "Next run.", "runs", "find", does="move(1)"),
    Action("runs.up", "k", "", "Previous run", "Previous run.", "runs", "find", does="move(-1)"),
)  # fmt: skip

RESULTS: tuple[Action, ...] = (
    Action("results.compare", "D", "compare", "Compare with the base model",
           "Compare the selected model with the base on held-out prompts, or continue doing so.",
           "results", "compare", needs="open", footer=9, part="comparable"),
    Action("results.stop", "S", "stop", "Stop the comparison or merge",
           "Stop the comparison, whose answers are kept, or the merge.", "results", "compare",
           needs="open", footer=1, part="working"),
    Action("results.fork", "F", "fork", "Fork the run from a checkpoint",
           "Start a new run with the selected checkpoint, and with the settings that you change.",
           "results", "compare", needs="open", footer=4, part="list"),
    Action("results.race", "X", "race", "Race settings from a checkpoint",
           "Continue the selected checkpoint with different settings, and compare what they gain.",
           "results", "compare", needs="open", part="list"),
    Action("results.open", "enter", "open", "Open the answers or the model",
           "Open the answers of both models side by side, or what to do with the selected model.",
           "results", "read", needs="open", footer=3, part="list"),
    Action("results.chat", "m", "chat", "Ask the model in a chat",
           "Chat with the selected model and the base model, side by side.", "results", "read",
           needs="open", footer=10, part="usable"),
    Action("results.next", "right_square_bracket", "comparison", "Next kept comparison",
           "Show the next older comparison.", "results", "read", needs="open", footer=5,
           part="several", shown="[ ]", does="turn(1)"),
    Action("results.previous", "left_square_bracket", "", "Previous kept comparison",
           "Show the next newer comparison.", "results", "read", needs="open", shown="[", does="turn(-1)"),
    Action("results.copy", "y", "copy", "Copy the verdict or the command",
           "Copy the verdict, or the command that uses the selected model. Works over SSH.",
           "results", "copy", needs="open", footer=6),
    Action("results.merge", "M", "merge", "Merge the adapter into its base",
           "Write the selected adapter and its base as one model, and check it.", "results", "copy",
           needs="open", footer=7, part="adapter"),
    Action("results.delete", "ctrl+d", "delete", "Delete the checkpoint",
           "Delete the selected checkpoint.", "results", "copy", needs="open", footer=8, part="models",
           dangerous=True),
    Action("results.card", "W", "card", "Write the model card",
           "Write README.md in the run folder from the run's record, with its charts.",
           "results", "copy", needs="open"),
    Action("results.export", "E", "export", "Export a bundle",
           "Write what others need to train this run again, as a folder or a zip file.",
           "results", "copy", needs="open"),
    Action("results.push", "H", "hub", "Upload to the Hub",
           "Show the files of the selected model, and upload them once you confirm.",
           "results", "copy", needs="open"),
)  # fmt: skip

CHAT: tuple[Action, ...] = (
    Action("chat.send", "", "ask", "Send the prompt", "Send the prompt or command in the input.", "chat",
           "ask", footer=1, part="typing", shown="enter"),
    Action("chat.ask", "m", "type", "Ask the model", "Type a prompt.", "chat", "ask", footer=2,
           part="answers"),
    Action("chat.stop", "S", "stop", "Stop the answer", "Stop the answer. The models stay loaded.",
           "chat", "ask", footer=4, part="answers"),
    Action("chat.new", "ctrl+n", "new", "New conversation", "Begin a new conversation.", "chat", "ask",
           footer=4),
    Action("chat.base", "d", "base", "Compare with the base model",
           "Choose whether the base model answers the next prompts too.", "chat", "ask", footer=3,
           part="answers"),
    Action("chat.keep", "K", "keep", "Keep the exchange",
           "Keep the last answer as a case, or the last prompt as a probe prompt of the config.",
           "chat", "keep", footer=2, part="answers"),
    Action("chat.copy", "y", "copy", "Copy the answers",
           "Copy the last prompt and its answers. Works over SSH.", "chat", "keep", footer=5, part="answers"),
    Action("chat.down", "j", "scroll", "Scroll down", "Scroll down.", "chat", "show", footer=6,
           part="answers", shown="j k", does="scroll(1)"),
    Action("chat.up", "k", "", "Scroll up", "Scroll up.", "chat", "show", does="scroll(-1)"),
    Action("chat.back", "escape", "back", "Back to the pane",
           "End the running answer, leave the input, or return to the pane.", "chat", "show",
           footer=3, shown="esc"),
)  # fmt: skip

MOVED: tuple[tuple[str, str, str], ...] = (
    ("p", "Pause", "P"),
    ("r", "Resume", "P"),
    ("c", "Checkpoint", "C"),
    ("s", "Stop", "S"),
    ("a", "Abort reward", "A"),
)
"""Former steering keys of Train, as (old key, verb, new key). Pressing one only names its replacement."""

ACTIONS: tuple[Action, ...] = (
    *GO_TO_PANES,
    *TRAIN,
    *CONFIG,
    *DATA,
    *REWARDS,
    *GENERATIONS,
    *RESULTS,
    *CHAT,
    *RUNS,
    *EVERYWHERE,
)

ACTING = frozenset(action.method for action in ACTIONS if action.acts)
"""Textual actions that a replay refuses."""

_BY_ID = {action.id: action for action in ACTIONS}


def action(action_id: str) -> Action:
    """Return the action with this id."""
    return _BY_ID[action_id]


def bindings(pane: str) -> list[BindingType]:
    """Return the key bindings of a pane; `all` gives the app's."""
    return [
        Binding(a.key, a.method, a.label or a.help, id=a.id, show=False)
        for a in ACTIONS
        if a.pane == pane and a.key
    ]


def on_pane(pane: str) -> list[Action]:
    """Return the actions of a pane, followed by the global ones."""
    own = (pane, "zoom") if pane in ("chart", "overlay") else (pane,)
    return [a for a in ACTIONS if a.pane in (*own, "all")]


def for_footer(
    pane: str, view: TrainView | None, listed: Listed | None = None, parts: Collection[str] = ()
) -> list[Action]:
    """Return the footer's actions, most important first. Those of the shown part come before all others."""
    shown = {*parts, view.state} if view is not None else set(parts)
    shown |= {"replay"} if view is not None and view.replay is not None else set()
    found: Iterable[Action] = (
        a
        for a in on_pane(pane)
        if a.footer
        and (not a.part or any(part in shown for part in a.part.split(",")))
        and refusal(a, view, listed) is None
    )
    by_key: dict[str, Action] = {}
    for a in sorted(found, key=lambda a: (not a.part, a.footer)):
        by_key.setdefault(a.key_shown, a)
    return list(by_key.values())
