"""Everything a person can do, in one table: it feeds the key bindings, the palette, the footer and the help.

The rows are in the order of the help. What an action does is in the screen (or the app) as
`action_<id with _>`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from grpo_tui.present.runs_view import RunRow
    from grpo_tui.present.train_view import TrainView


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do."""

    id: str
    key: str
    """As Textual names it; empty when only the palette has it."""
    label: str
    """A word or two, for the footer."""
    help: str
    """One sentence, for the help and the palette."""
    pane: str
    """`all`, `runs`, `config`, `rewards`, `train`, or a screen that opens over them: `hardware`, `probes`,
    `data`, `chart`, `overlay`, and `zoom` for what the last two share."""
    needs: str = ""
    """What the open run must be: `open`, `process` (it has one), `live` (and takes commands), `running`,
    `paused` or `reward`; in the list of runs
    `chosen`, `ended` or `marked`; empty for nothing."""
    footer: int = 0
    """Rank in the footer, 1 first; 0 for not there."""
    dangerous: bool = False
    """Asks once before it is done."""
    part: str = ""
    """What must show, or have the focus, for the footer to name it: a lower part of Train, `large`, `chart`;
    in Rewards `scored`, `weights` or `busy`; in the data view
    `matches`; in Config `form`, `text`, `search`, `empty`, `edited`, `found`
    or `fixable`; `typing` where a letter is no key; or a state of the open run. Several are parted by
    commas."""
    shown: str = ""
    """How the key is written, when not as it is named; in the footer with its partner, `[ ]`."""

    does: str = ""
    """The Textual action, when it is not named as this one is."""

    @property
    def method(self) -> str:
        """The Textual action."""
        return self.does or self.id.replace(".", "_")

    @property
    def target(self) -> str:
        """The Textual action with its owner, for a click or the palette."""
        return f"{'app' if self.pane == 'all' else 'screen'}.{self.method}"

    @property
    def key_shown(self) -> str:
        """The key as the footer names it."""
        return self.shown or self.key

    @property
    def key_alone(self) -> str:
        """The key without the one it shares a name with in the footer."""
        pair = self.key_shown.split()
        return self.key if self.key in pair else pair[-1] if pair else ""


@dataclass(frozen=True, slots=True)
class Listed:
    """What the list of runs has to act on: the run under the cursor, and how many are marked."""

    row: RunRow | None = None
    marked: int = 0


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


TRAIN: tuple[Action, ...] = (
    Action("run.pause", "p", "pause", "Pause after the step; memory is kept.", "train",
           needs="running", footer=1, does="pause_or_go_on('pause')"),
    Action("run.resume", "r", "resume", "Go on after a pause.", "train", needs="paused", footer=1,
           does="pause_or_go_on('resume')"),
    Action("run.abort", "a", "abort reward",
           "Abort the reward call that runs; its rewards become None.", "train",
           needs="reward", footer=2),
    Action("run.checkpoint", "c", "checkpoint",
           "Save a checkpoint after the step; it is never removed.", "train",
           needs="live", footer=3),
    Action("run.stop", "s", "stop", "Finish the step, save a checkpoint, exit.", "train",
           needs="live", footer=4, dangerous=True),
    Action("run.stop_now", "S", "stop now", "Stop at once, without saving.", "train",
           needs="process", dangerous=True, footer=1, part="starting"),
    Action("run.set", "equals_sign", "set", "Change learning rate, temperature or reward weights.", "train",
           needs="live", footer=5, shown="="),
    Action("run.sample", "m", "sample", "Sample a prompt from the policy as it is now.", "train",
           needs="live", footer=8),
    Action("chart.previous", "left_square_bracket", "", "Show the charts before these.", "train",
           needs="open", shown="["),
    Action("chart.next", "right_square_bracket", "chart", "Show the next charts.", "train",
           needs="open", footer=6, shown="]"),
    Action("view.log", "l", "log", "Show the log, and go back to the newest groups.", "train",
           needs="open", footer=7),
    Action("log.search", "slash", "search", "Find words in the whole log.", "train",
           needs="open", footer=1, part="log", shown="/"),
    Action("log.next", "n", "next", "Next line of the log that holds the words.", "train",
           needs="open", footer=2, part="log"),
    Action("log.previous", "N", "", "Line before that holds the words.", "train", needs="open"),
    Action("log.level", "w", "levels", "Log: all lines, warnings and errors, errors, in turn.", "train",
           needs="open", footer=3, part="log"),
    Action("view.events", "e", "events", "Show everything that happened to the run, or go back.", "train",
           needs="open", footer=12),
    Action("view.groups", "g", "groups", "Show the newest groups over the whole pane, or go back.", "train",
           needs="open", footer=10),
    Action("view.large", "z", "", "Give the lower part the whole pane, or make it small again.", "train",
           needs="open"),
    Action("view.back", "escape", "back", "End the search, make the part small, go to the groups.", "train",
           needs="open", footer=4, part="large", shown="esc"),
    Action("part.end", "", "newest", "Go to the newest group, line or event, and follow.", "train",
           needs="open"),
    Action("part.copy", "y", "copy",
           "Copy what is chosen (completion, log line, event, value of a chart), over SSH too.", "train",
           needs="open", footer=13),
    Action("view.hold", "v", "hold view",
           "Hold the view still, or let it go on; training always goes on.", "train",
           needs="open", footer=9),
    Action("hardware.open", "u", "machine", "Show GPUs, processes, processor, memory and ranks.", "train",
           needs="open", footer=10),
    Action("groups.score", "greater_than_sign", "",
           "Score the completions of the chosen group in Rewards.", "train", needs="open", shown=">"),
    Action("groups.inspect", "G", "inspect", "Show the chosen group in Generations.", "train",
           needs="open", footer=11),
    Action("hardware.back", "escape", "back", "Back to the run.", "hardware", footer=1, shown="esc",
           does="close"),
    Action("hardware.down", "j", "scroll", "A line on.", "hardware", footer=2, shown="j k", does="scroll(1)"),
    Action("hardware.up", "k", "", "A line back.", "hardware", does="scroll(-1)"),
    Action("hardware.close", "u", "", "Back to the run, by the key that opened it.", "hardware",
           does="close"),
    Action("chart.open", "enter", "enlarge",
           "Show the chart over the whole screen that has the focus by tab or a click.", "train",
           needs="open", footer=1, part="chart"),
    Action("chart.pick", "x", "metrics", "Choose a metric for the focused chart, among all of the run.",
           "train", needs="open", footer=11),
    Action("zoom.back", "escape", "back", "Back to where the chart was opened.", "zoom",
           footer=1, shown="esc"),
    Action("zoom.in", "plus,equals_sign", "zoom", "Half the width, around the cursor.", "zoom",
           footer=3, shown="+"),
    Action("zoom.out", "minus", "", "Twice the width, around the cursor.", "zoom", shown="-"),
    Action("zoom.whole", "0", "whole run", "Show the whole run and follow it.", "zoom", footer=4),
    Action("zoom.left", "left", "", "Move the cursor back; its values stand below.", "zoom", shown="←",
           does="move(-1)"),
    Action("zoom.right", "right", "cursor", "Move the cursor on.", "zoom", footer=2, shown="← →",
           does="move(1)"),
    Action("zoom.far_left", "shift+left,ctrl+left", "", "Move the cursor ten places back.", "zoom",
           shown="shift+←", does="move(-10)"),
    Action("zoom.far_right", "shift+right,ctrl+right", "", "Move the cursor ten places on.", "zoom",
           shown="shift+→", does="move(10)"),
    Action("zoom.oldest", "home", "", "Put the cursor on the first value.", "zoom"),
    Action("zoom.newest", "end", "", "Go to the newest value and along with it.", "zoom"),
    Action("zoom.earlier", "h", "", "Pan back by a quarter.", "zoom", does="pan(-1)"),
    Action("zoom.later", "l", "pan", "Pan on by a quarter.", "zoom", footer=8, shown="h l", does="pan(1)"),
    Action("zoom.smooth", "f", "smooth", "Smooth the line: off, light, strong, in turn.", "zoom", footer=6),
    Action("zoom.time", "t", "steps or time", "Steps or time along the axis.", "zoom", footer=9),
    Action("zoom.log", "y", "log scale", "A linear or a logarithmic axis of values.", "zoom", footer=10),
    Action("zoom.previous", "left_square_bracket", "", "Show the metric before.", "zoom", shown="[",
           does="turn(-1)"),
    Action("zoom.next", "right_square_bracket", "metric", "Show the next metric.", "zoom",
           footer=5, shown="[ ]", does="turn(1)"),
    Action("zoom.pick", "x", "metrics", "Choose among all metrics of the run.", "zoom", footer=7),
    Action("chart.together", "i", "eval", "Show training and evaluation together, or one alone.", "chart",
           footer=11),
    Action("chart.completions", "g", "completions",
           "Show the completions of the step under the cursor in Generations.", "chart", footer=8),
    Action("overlay.table", "d", "settings", "Show more of the settings that differ, or fewer.", "overlay",
           footer=8),
)  # fmt: skip


CONFIG: tuple[Action, ...] = (
    Action("config.edit", "enter", "edit",
           "Change the field; on a title, show all of its fields, or the few that matter.",
           "config", footer=1, part="form"),
    Action("config.search", "slash", "find", "Find fields by words in their names and helps.", "config",
           footer=4, part="form", shown="/"),
    Action("config.all", "a", "all fields", "Show every field, or the few that matter.", "config",
           footer=11, part="form"),
    Action("config.unset", "backspace,x", "to default", "Take the field out of the file: TRL's default.",
           "config", footer=9, part="form", shown="x"),
    Action("config.undo", "u", "undo", "Undo the last change.", "config", footer=8, part="edited"),
    Action("config.redo", "U,ctrl+r", "", "Do again what was undone.", "config", shown="U"),
    Action("config.fix", "f", "fix", "Apply the fix of what was found of the field.", "config",
           footer=1, part="fixable"),
    Action("config.findings", "F", "findings", "List all that was found; enter goes to the field or line.",
           "config", footer=7, part="found"),
    Action("config.next_finding", "right_square_bracket", "", "Go to the next finding.", "config", shown="]",
           does="step_finding(1)"),
    Action("config.previous_finding", "left_square_bracket", "", "Go to the finding before.", "config",
           shown="[", does="step_finding(-1)"),
    Action("config.save", "w,ctrl+s", "save", "Save the file; on the text side ctrl+s.", "config",
           footer=2, part="edited,new", shown="w"),
    Action("config.save_text", "", "save", "Save the file, from the text side.", "config", footer=2,
           part="text", shown="ctrl+s"),
    Action("config.save_as", "W", "save as", "Save under another name and go on with that.", "config"),
    Action("config.start", "S", "start", "Start training with this config; asks once, errors hold it back.",
           "config", footer=5, part="form", dangerous=True),
    Action("config.trial", "t", "try",
           "Train two steps on the longest prompts, saved and reloaded; what they take corrects the plan.",
           "config", footer=16, part="form"),
    Action("config.check", "c", "check",
           "Check everything before a start: model, tokenizer, data, rewards, servers, disk.", "config",
           footer=6, part="form"),
    Action("config.diff", "D", "differences",
           "What differs from the saved file, the preset, TRL's defaults or another run.", "config",
           footer=12, part="form"),
    Action("config.baseline", "b", "baseline",
           "To Rewards with this config: let the model answer 16 rows before any training.", "config"),
    Action("config.data", "d", "data", "Look at the rows as training will see them.", "config", footer=10,
           part="form"),
    Action("config.gpu", "g", "plan for", "Plan the memory for a GPU of this machine or for another card.",
           "config", footer=13, part="form"),
    Action("config.whole", "v", "whole help", "Show all that is known of the field, to be read and copied.",
           "config", footer=14, part="form"),
    Action("config.export", "e", "export",
           "Write the config as a train.py that needs TRL alone and trains the same.", "config", footer=15,
           part="form"),
    Action("config.copy", "y", "", "Copy the field with its value, over SSH too.", "config"),
    Action("config.open", "o", "open a file", "Open another config: one of those below this folder, or any.",
           "config", footer=1, part="empty"),
    Action("config.new", "n", "new from a preset", "Begin a config from one of the presets.", "config",
           footer=2, part="empty"),
    Action("config.back", "escape", "form", "From the text to the form; end the search.", "config",
           footer=1, part="text", shown="esc"),
    Action("config.end_search", "", "end search", "Show the usual fields again.", "config", footer=1,
           part="search", shown="esc"),
    Action("config.other", "", "text", "From the form to the text and back.", "config", footer=3,
           part="form", shown="tab"),
)  # fmt: skip


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
    Action("data.down", "j", "", "A line on.", "data", does="scroll(1)"),
    Action("data.up", "k", "", "A line back.", "data", does="scroll(-1)"),
    Action("data.copy", "y", "copy", "Copy the row as JSON, over SSH too.", "data", footer=8),
    Action("data.again", "R", "", "Read the data again, when its file has changed.", "data"),
)  # fmt: skip


REWARDS: tuple[Action, ...] = (
    Action("rewards.back", "escape", "end the call",
           "End the call that runs; else back to the samples, to their groups.", "rewards",
           footer=1, part="busy", shown="esc"),
    Action("rewards.left", "left", "", "Choose the function before; on the weights, lower this one.",
           "rewards", shown="←", does="step(-1)"),
    Action("rewards.right", "right", "change", "Choose the next function; on the weights, raise this one.",
           "rewards", footer=1, part="weights", shown="← →", does="step(1)"),
    Action("rewards.add", "a", "add", "Write a completion for the row under the cursor.", "rewards",
           footer=2, part="scored"),
    Action("rewards.edit", "enter", "edit", "Edit the completion; on the weights, type this one.", "rewards",
           footer=3, part="scored,weights"),
    Action("rewards.duplicate", "d", "duplicate", "Put the sample there once more.", "rewards",
           footer=11, part="scored"),
    Action("rewards.remove", "delete,backspace", "", "Take the sample out of the list.", "rewards",
           shown="del"),
    Action("rewards.keep", "space", "keep as case",
           "Keep the sample as a case that expects what it gets now.", "rewards", footer=4, part="scored"),
    Action("rewards.probe", "x", "probes",
           "Try to fool the rewards, and see which right answers they refuse.", "rewards",
           footer=5, part="scored"),
    Action("rewards.weights", "o", "weights", "Move weights, mute functions; the advantages follow.",
           "rewards", footer=6, part="scored"),
    Action("rewards.samples", "f", "samples from",
           "Fetch samples: gold and wrong answers, the open run, a file, probes.", "rewards",
           footer=7, part="scored"),
    Action("rewards.baseline", "b", "baseline",
           "Let the model answer 16 rows before any training: pass rate, mixed groups, what follows.",
           "rewards", footer=8, part="scored"),
    Action("rewards.model", "m", "ask model", "Let the model of the config answer this row, untrained.",
           "rewards", footer=9, part="scored"),
    Action("rewards.sort", "s", "sort", "Sort by total, advantage, each function, or by prompt, in turn.",
           "rewards", footer=8, part="scored"),
    Action("rewards.turn", "S", "", "Worst or best on top.", "rewards"),
    Action("rewards.source", "e", "source", "Open the source of the chosen function in $EDITOR.", "rewards",
           footer=9, part="scored"),
    Action("rewards.whole", "v", "view", "Show the whole sample: text, columns, what the functions saw.",
           "rewards", footer=10, part="scored"),
    Action("rewards.next", "n", "next reward",
           "Try the rewards and add the next one; without any, begin a rewards file.", "rewards",
           footer=6, part="scored"),
    Action("rewards.new", "N", "", "Begin a rewards file with one simple reward.", "rewards"),
    Action("rewards.tags", "t", "tags", "Give the sample tags, or take them away.", "rewards",
           footer=13, part="scored"),
    Action("rewards.filter", "slash", "filter", "Show only samples with these words; #hard is a tag.",
           "rewards", footer=13, part="scored", shown="/"),
    Action("rewards.write", "w", "", "Write the samples to a JSONL file, tags and all.", "rewards"),
    Action("rewards.scale", "g", "scale", "Scale advantages by the group's spread, the batch's, or not.",
           "rewards", footer=7, part="weights"),
    Action("rewards.combine", "c", "combine", "Normalize the sum of the rewards, or sum what was normalized.",
           "rewards", footer=8, part="weights"),
    Action("rewards.mute", "u", "mute", "Leave the chosen function out, or hear it again.", "rewards",
           footer=4, part="weights"),
    Action("rewards.alone", "h", "hear alone", "Hear the chosen function alone, or all again.", "rewards",
           footer=5, part="weights"),
    Action("rewards.reset", "0", "as in the config", "The weights and modes of the config again.", "rewards",
           footer=6, part="weights"),
    Action("rewards.score", "r", "score again",
           "Load the rewards and score again; saving a file does it too.", "rewards",
           footer=12, part="scored"),
    Action("rewards.copy", "y", "", "Copy the whole sample, over SSH too.", "rewards"),
    Action("rewards.data", "D", "", "Look at the rows of the dataset as training will see them.", "rewards"),
    Action("probes.back", "escape", "back", "Back to the samples.", "probes", footer=1, shown="esc",
           does="close"),
    Action("probes.down", "j", "scroll", "A line on.", "probes", footer=2, shown="j k", does="scroll(1)"),
    Action("probes.up", "k", "", "A line back.", "probes", does="scroll(-1)"),
    Action("probes.whole", "v", "whole examples", "Show the examples in full, or their beginnings.", "probes",
           footer=3),
)  # fmt: skip


GENERATIONS: tuple[Action, ...] = (
    Action("generations.open", "enter", "open", "Go on to the completions of the group, then to the text.",
           "generations", needs="open", footer=1, part="list"),
    Action("generations.back", "escape", "back",
           "Back to the completions, to the list; then end the query.", "generations",
           footer=1, part="card,reader", shown="esc"),
    Action("generations.query", "slash", "query",
           "Find completions: reward<0.2 and tokens>400, zero_std, text ~ \"wait\", step 40..60.",
           "generations", needs="open", footer=2, shown="/"),
    Action("generations.kind", "c", "completions",
           "List what was found as single completions, or as groups again.", "generations",
           needs="open", footer=5, part="list"),
    Action("generations.sort", "s", "sort", "Sort the list by any field.", "generations",
           needs="open", footer=6, part="list"),
    Action("generations.turn", "S", "", "Turn the order of the list round.", "generations", needs="open"),
    Action("generations.earlier", "left_square_bracket", "", "The step before.", "generations",
           needs="open", shown="[", does="other_step(0)"),
    Action("generations.later", "right_square_bracket", "step", "The step after.", "generations",
           needs="open", footer=7, shown="[ ]", does="other_step(1)"),
    Action("generations.group_before", "comma", "", "The line of the list before, from anywhere.",
           "generations", needs="open", shown=",", does="move_group(-1)"),
    Action("generations.group_after", "full_stop", "next", "The next line of the list, from anywhere.",
           "generations", needs="open", footer=8, part="card,reader", shown=", .", does="move_group(1)"),
    Action("generations.left", "left", "", "The completion before, from anywhere.", "generations",
           needs="open", shown="←", does="move_completion(-1)"),
    Action("generations.right", "right", "completion", "The next completion, from anywhere.", "generations",
           needs="open", footer=9, part="reader", shown="← →", does="move_completion(1)"),
    Action("generations.visit_before", "p", "", "The same prompt, the time before.", "generations",
           needs="open", does="other_visit(-1)"),
    Action("generations.visit_after", "n", "same prompt", "The same prompt, the next time.", "generations",
           needs="open", footer=4, shown="p n", does="other_visit(1)"),
    Action("generations.diff", "d", "diff",
           "Compare with the best of the group, the worst, the same prompt before, in turn.", "generations",
           needs="open", footer=3),
    Action("generations.mark", "space", "", "Compare others with this completion from now on.",
           "generations", needs="open"),
    Action("generations.fold", "f", "fold", "Fold the reasoning away, every block, or nothing, in turn.",
           "generations", needs="open", footer=10),
    Action("generations.raw", "r", "raw", "Show white space and line breaks, or read again.", "generations",
           needs="open", footer=12, does="turn('raw')"),
    Action("generations.prompt", "i", "prompt", "Show the input: the prompt and the row of the dataset.",
           "generations", needs="open", footer=11, does="turn('prompt')"),
    Action("generations.large", "z", "", "Give the part with the focus the whole pane, or make it small.",
           "generations", needs="open"),
    Action("generations.course", "o", "over time",
           "How groups, lengths, variety and shares of the rewards change over the run, and this prompt.",
           "generations", needs="open", footer=13),
    Action("generations.what_if", "w", "what if",
           "Score the groups of the list again: the rewards as they are now, or other weights.",
           "generations", needs="open", footer=14),
    Action("generations.tokens", "t", "tokens",
           "How sure the policy, a checkpoint or the base model is of each token, and the rendered prompt.",
           "generations", needs="open", footer=13, part="card,reader"),
    Action("generations.score", "greater_than_sign", "to Rewards",
           "Score the group in Rewards, with the reward file as it is now.", "generations",
           needs="open", footer=14, shown=">"),
    Action("generations.copy", "y", "copy", "Copy the completion, over SSH too.", "generations",
           needs="open", footer=15),
    Action("generations.export", "e", "export", "Write what was found to a file: JSONL, CSV or Markdown.",
           "generations", needs="open", footer=16),
    Action("generations.views", "v", "queries by name",
           "Show a query that was kept, or keep this one under a name.", "generations",
           needs="open", footer=17),
    Action("generations.newest", "", "newest", "Go to the newest and follow.", "generations", needs="open"),
    Action("course.back", "escape", "back", "Back to the generations.", "course", footer=1, shown="esc",
           does="close"),
    Action("course.down", "j", "scroll", "A line on.", "course", footer=2, shown="j k", does="scroll(1)"),
    Action("course.up", "k", "", "A line back.", "course", does="scroll(-1)"),
    Action("what_if.back", "escape", "back", "Back to the generations; what runs is ended.", "what-if",
           footer=1, shown="esc", does="close"),
    Action("what_if.weights", "o", "other weights", "Weigh the recorded scores anew.", "what-if", footer=2),
    Action("what_if.again", "r", "rewards as they are now", "Score again with the files as they are now.",
           "what-if", footer=3),
    Action("what_if.down", "j", "scroll", "A line on.", "what-if", footer=4, shown="j k", does="scroll(1)"),
    Action("what_if.up", "k", "", "A line back.", "what-if", does="scroll(-1)"),
    Action("tokens.back", "escape", "back", "End what runs, else back to the generations.", "tokens",
           footer=1, shown="esc"),
    Action("tokens.left", "left", "", "The completion before.", "tokens", shown="←", does="move(-1)"),
    Action("tokens.right", "right", "completion", "The next completion of the group.", "tokens",
           footer=3, shown="← →", does="move(1)"),
    Action("tokens.policy", "t", "policy", "Choose whose probabilities: live, a checkpoint, the base model.",
           "tokens", footer=2),
    Action("tokens.base", "b", "KL to base", "Compare with the base or reference model, or no more.",
           "tokens", footer=4),
    Action("tokens.prompt", "i", "prompt", "Show the input as the model gets it, or the tokens again.",
           "tokens", footer=5),
    Action("tokens.copy", "y", "copy", "Copy every token with its figures, over SSH too.", "tokens",
           footer=6),
)  # fmt: skip


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
    Action("runs.down", "j", "", "Next run.", "runs", does="move(1)"),
    Action("runs.up", "k", "", "Previous run.", "runs", does="move(-1)"),
    Action("runs.clear", "escape", "", "Clear the filter, then the marks.", "runs", shown="esc"),
)  # fmt: skip


__all__ = ["ACTIONS", "Action", "Listed", "action", "bindings", "for_footer", "on_pane", "refusal"]

ACTIONS: tuple[Action, ...] = (*PANES, *TRAIN, *CONFIG, *DATA, *REWARDS, *GENERATIONS, *RUNS, *EVERYWHERE)

_BY_ID = {action.id: action for action in ACTIONS}


def action(action_id: str) -> Action:
    """The action of this name."""
    return _BY_ID[action_id]


def bindings(pane: str) -> list[BindingType]:
    """Key bindings of a pane, `all` for those of the app."""
    return [
        Binding(a.key, a.method, a.label or a.help, id=a.id, show=False)
        for a in ACTIONS
        if a.pane == pane and a.key
    ]


def on_pane(pane: str) -> list[Action]:
    """The actions of a pane and those that are everywhere."""
    own = (pane, "zoom") if pane in ("chart", "overlay") else (pane,)
    return [a for a in ACTIONS if a.pane in (*own, "all")]


def refusal(a: Action, view: TrainView | None, listed: Listed | None = None) -> str | None:
    """Why an action cannot be done now, in a sentence; None when it can."""
    if not a.needs:
        return None
    if a.pane == "runs":
        return _refusal_in_list(a.needs, listed or Listed())
    if view is None:
        return "No run is open: 1 shows the runs, enter opens one."
    if a.needs == "open":
        return None
    if view.state == "broken":
        return f"The run cannot be read, so nothing is sent to it: {view.trouble}"
    if view.state == "finished":
        return "The run is finished and takes no commands."
    if not view.live:
        return f"The run is {view.state}: nothing listens. {view.way_on}"
    if view.state == "starting" and a.needs != "process":
        return "The model is loading: possible after loading, once the first step is done. S stops at once."
    if a.needs == "running" and view.state == "paused":
        return "The run is paused already; r resumes."
    if a.needs == "paused" and view.state != "paused":
        return "The run is not paused."
    if a.needs == "reward" and view.phase != "reward":
        return f"No reward call runs now: the run is in {view.phase}."
    return None


def _refusal_in_list(needs: str, listed: Listed) -> str | None:
    row = listed.row
    if needs == "marked":
        return None if listed.marked >= 2 else "Mark two runs or more with space first."
    if row is None:
        return "No run is listed."
    if needs == "chosen":
        return None
    if row.trouble:
        return f"The run cannot be read: {row.trouble}"
    if row.state == "paused":
        return "The run is paused, not ended: open it with enter, there r goes on."
    if not row.ended:
        return f"The run is {row.state}: only a run that ended is resumed."
    if row.state == "finished":
        return "The run is finished; `grpo-tui train RUN --resume --set max_steps=N` adds steps."
    return None


def for_footer(
    pane: str, view: TrainView | None, listed: Listed | None = None, parts: Collection[str] = ()
) -> list[Action]:
    """What the footer names here and now, most important first, what belongs to the shown part before all."""
    shown = {*parts, view.state} if view is not None else set(parts)
    found: Iterable[Action] = (
        a
        for a in on_pane(pane)
        if a.footer
        and (not a.part or any(part in shown for part in a.part.split(",")))
        and refusal(a, view, listed) is None
    )
    return sorted(found, key=lambda a: (not a.part, a.footer))
