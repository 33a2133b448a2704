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
    Action("pane.runs", "1", "Runs", "Show the list of runs.", "all"),
    Action("pane.config", "2", "Config", "Show the open config as a form or as text.", "all"),
    Action("pane.rewards", "3", "Rewards", "Score completions with the rewards of the config.", "all"),
    Action("pane.train", "4", "Train", "Watch and steer the open run.", "all"),
    Action("pane.generations", "5", "Generations",
           "Read the completions of the open run and why each got its reward.", "all"),
)  # fmt: skip

EVERYWHERE: tuple[Action, ...] = (
    Action("app.next_part", "tab", "", "Focus the next part of the pane.", "all"),
    Action("app.theme", "T", "theme", "Switch between light and dark colors.", "all"),
    Action("app.bell", "", "bell", "Toggle the bell when a run ends or fails.", "all"),
    Action("app.title", "", "title", "Toggle the run's name in the terminal title.", "all"),
    Action("app.palette", "ctrl+p", "", "Find an action by name.", "all"),
    Action("app.help", "question_mark", "help",
           "Show keys and terms. On a chart, explain its metric.", "all", footer=20, shown="?"),
    Action("app.suspend", "ctrl+z", "",
           "Suspend to the shell. `fg` returns; training continues.", "all"),
    Action("app.leave", "q", "leave", "Leave grpo-tui. Training continues.", "all", footer=21),
)  # fmt: skip


TRAIN: tuple[Action, ...] = (
    Action("run.pause", "p", "pause", "Pause after the current step. GPU memory stays allocated.", "train",
           needs="running", footer=1, does="pause_or_go_on('pause')"),
    Action("run.resume", "r", "resume", "Resume a paused run.", "train", needs="paused", footer=1,
           does="pause_or_go_on('resume')"),
    Action("run.abort", "a", "abort reward",
           "Abort the running reward call. Its rewards become None.", "train",
           needs="reward", footer=2),
    Action("run.checkpoint", "c", "checkpoint",
           "Save a checkpoint after the current step. Rotation never removes it.", "train",
           needs="live", footer=3),
    Action("run.stop", "s", "stop", "Finish the current step, save a checkpoint and exit.", "train",
           needs="live", footer=4, dangerous=True),
    Action("run.stop_now", "S", "stop now", "Stop immediately, without saving.", "train",
           needs="process", dangerous=True, footer=1, part="starting"),
    Action("run.set", "equals_sign", "set",
           "Change the learning rate, temperature or reward weights.", "train",
           needs="live", footer=5, shown="="),
    Action("run.sample", "m", "sample", "Sample a prompt from the current policy.", "train",
           needs="live", footer=8),
    Action("chart.previous", "left_square_bracket", "", "Show the previous charts.", "train",
           needs="open", shown="["),
    Action("chart.next", "right_square_bracket", "chart", "Show the next charts.", "train",
           needs="open", footer=6, shown="]"),
    Action("view.log", "l", "log", "Toggle the log.", "train",
           needs="open", footer=7),
    Action("log.search", "slash", "search", "Search the whole log.", "train",
           needs="open", footer=1, part="log", shown="/"),
    Action("log.next", "n", "next", "Go to the next match in the log.", "train",
           needs="open", footer=2, part="log"),
    Action("log.previous", "N", "", "Go to the previous match in the log.", "train", needs="open"),
    Action("log.level", "w", "levels",
           "Cycle the log level: all lines, warnings and errors, errors.", "train",
           needs="open", footer=3, part="log"),
    Action("view.events", "e", "events", "Toggle the run's events.", "train",
           needs="open", footer=12),
    Action("view.groups", "g", "groups", "Toggle the newest groups over the whole pane.", "train",
           needs="open", footer=10),
    Action("view.large", "z", "", "Toggle the lower part over the whole pane.", "train",
           needs="open"),
    Action("view.back", "escape", "back",
           "End the search, shrink the part, or return to the groups.", "train",
           needs="open", footer=4, part="large", shown="esc"),
    Action("part.end", "", "newest", "Go to the newest group, line or event and follow it.", "train",
           needs="open"),
    Action("part.copy", "y", "copy",
           "Copy the selected completion, log line, event or chart value. Works over SSH.", "train",
           needs="open", footer=13),
    Action("view.hold", "v", "hold view",
           "Freeze or unfreeze the view. Training continues.", "train",
           needs="open", footer=9),
    Action("hardware.open", "u", "machine", "Show GPUs, processes, CPU, memory and ranks.", "train",
           needs="open", footer=10),
    Action("groups.score", "greater_than_sign", "",
           "Score the selected group in Rewards.", "train", needs="open", shown=">"),
    Action("groups.inspect", "G", "inspect", "Open the selected group in Generations.", "train",
           needs="open", footer=11),
    Action("hardware.back", "escape", "back", "Return to the run.", "hardware", footer=1, shown="esc",
           does="close"),
    Action("hardware.down", "j", "scroll",
           "Scroll down.", "hardware", footer=2, shown="j k", does="scroll(1)"),
    Action("hardware.up", "k", "", "Scroll up.", "hardware", does="scroll(-1)"),
    Action("hardware.close", "u", "", "Return to the run.", "hardware",
           does="close"),
    Action("chart.open", "enter", "enlarge",
           "Open the focused chart in full screen.", "train",
           needs="open", footer=1, part="chart"),
    Action("chart.pick", "x", "metrics", "Choose a metric for the focused chart.",
           "train", needs="open", footer=11),
    Action("zoom.back", "escape", "back", "Close the chart.", "zoom",
           footer=1, shown="esc"),
    Action("zoom.in", "plus,equals_sign", "zoom", "Zoom in around the cursor.", "zoom",
           footer=3, shown="+"),
    Action("zoom.out", "minus", "", "Zoom out around the cursor.", "zoom", shown="-"),
    Action("zoom.whole", "0", "whole run", "Show the whole run and follow it.", "zoom", footer=4),
    Action("zoom.left", "left", "", "Move the cursor to an earlier value.", "zoom", shown="←",
           does="move(-1)"),
    Action("zoom.right", "right", "cursor",
           "Move the cursor to a later value.", "zoom", footer=2, shown="← →",
           does="move(1)"),
    Action("zoom.far_left", "shift+left,ctrl+left", "", "Move the cursor ten values back.", "zoom",
           shown="shift+←", does="move(-10)"),
    Action("zoom.far_right", "shift+right,ctrl+right", "", "Move the cursor ten values forward.", "zoom",
           shown="shift+→", does="move(10)"),
    Action("zoom.oldest", "home", "", "Move the cursor to the first value.", "zoom"),
    Action("zoom.newest", "end", "", "Go to the newest value and follow it.", "zoom"),
    Action("zoom.earlier", "h", "", "Pan back by a quarter of the width.", "zoom", does="pan(-1)"),
    Action("zoom.later", "l", "pan",
           "Pan forward by a quarter of the width.", "zoom", footer=8, shown="h l", does="pan(1)"),
    Action("zoom.smooth", "f", "smooth", "Cycle smoothing: off, light, strong.", "zoom", footer=6),
    Action("zoom.time", "t", "steps or time", "Switch the x axis between steps and time.", "zoom", footer=9),
    Action("zoom.log", "y", "log scale", "Toggle a logarithmic y axis.", "zoom", footer=10),
    Action("zoom.previous", "left_square_bracket", "", "Show the previous metric.", "zoom", shown="[",
           does="turn(-1)"),
    Action("zoom.next", "right_square_bracket", "metric", "Show the next metric.", "zoom",
           footer=5, shown="[ ]", does="turn(1)"),
    Action("zoom.pick", "x", "metrics", "Choose another metric of the run.", "zoom", footer=7),
    Action("chart.together", "i", "eval",
           "Cycle training and evaluation: both, training, evaluation.", "chart",
           footer=11),
    Action("chart.completions", "g", "completions",
           "Open the completions of this step in Generations.", "chart", footer=8),
    Action("overlay.table", "d", "settings", "Toggle all settings that differ.", "overlay",
           footer=8),
)  # fmt: skip


CONFIG: tuple[Action, ...] = (
    Action("config.edit", "enter", "edit",
           "Edit the field. On a title, toggle all fields of its section.",
           "config", footer=1, part="form"),
    Action("config.search", "slash", "find", "Search field names and help.", "config",
           footer=4, part="form", shown="/"),
    Action("config.all", "a", "all fields", "Toggle between all fields and the important ones.", "config",
           footer=11, part="form"),
    Action("config.unset", "backspace,x", "to default",
           "Remove the field from the file, which restores TRL's default.",
           "config", footer=9, part="form", shown="x"),
    Action("config.undo", "u", "undo", "Undo the last change.", "config", footer=8, part="edited"),
    Action("config.redo", "U,ctrl+r", "", "Redo the last undone change.", "config", shown="U"),
    Action("config.fix", "f", "fix", "Apply the suggested fix for the field.", "config",
           footer=1, part="fixable"),
    Action("config.fix_all", "ctrl+f", "fix all", "Apply the fixes of all errors at once. u undoes it.",
           "config", footer=2, part="fixables"),
    Action("config.findings", "F", "findings", "List all findings. Enter goes to the field or line.",
           "config", footer=7, part="found"),
    Action("config.next_finding", "right_square_bracket", "", "Go to the next finding.", "config", shown="]",
           does="step_finding(1)"),
    Action("config.previous_finding", "left_square_bracket", "", "Go to the previous finding.", "config",
           shown="[", does="step_finding(-1)"),
    Action("config.save", "w,ctrl+s", "save", "Save the file. In the text, use ctrl+s.", "config",
           footer=2, part="edited,new", shown="w"),
    Action("config.save_text", "", "save", "Save the file.", "config", footer=2,
           part="text", shown="ctrl+s"),
    Action("config.save_as", "W", "save as",
           "Save under another name and continue with that file.", "config"),
    Action("config.start", "S", "start",
           "Start training with this config. Asks for confirmation; errors prevent it.",
           "config", footer=5, part="form", dangerous=True),
    Action("config.trial", "t", "try",
           "Train two steps on the longest prompts, save and reload, and correct the plan with the result.",
           "config", footer=16, part="form"),
    Action("config.check", "c", "check",
           "Check model, tokenizer, data, rewards, servers and disk.", "config",
           footer=6, part="form"),
    Action("config.diff", "D", "differences",
           "Compare with the saved file, the preset, TRL's defaults or another run.", "config",
           footer=12, part="form"),
    Action("config.baseline", "b", "baseline",
           "Measure the base model: sample 16 rows and score them in Rewards.", "config"),
    Action("config.data", "d", "data", "Browse the rows as training will see them.", "config", footer=10,
           part="form"),
    Action("config.gpu", "g", "plan for", "Plan memory for a GPU of this machine or another card.",
           "config", footer=13, part="form"),
    Action("config.whole", "v", "whole help", "Show the whole help of the field.",
           "config", footer=14, part="form"),
    Action("config.export", "e", "export",
           "Export a train.py that needs only TRL and trains the same.", "config", footer=15,
           part="form"),
    Action("config.copy", "y", "", "Copy the field and its value. Works over SSH.", "config"),
    Action("config.open", "o", "open a file", "Open another config.",
           "config", footer=1, part="empty"),
    Action("config.new", "n", "new from a preset", "Create a config from a preset.", "config",
           footer=2, part="empty"),
    Action("config.back", "escape", "form", "Return to the form, or end the search.", "config",
           footer=1, part="text", shown="esc"),
    Action("config.end_search", "", "end search", "End the search.", "config", footer=1,
           part="search", shown="esc"),
    Action("config.other", "", "text", "Switch between the form and the text.", "config", footer=3,
           part="form,unread", shown="tab"),
)  # fmt: skip


DATA: tuple[Action, ...] = (
    Action("data.back", "escape", "back", "End the search, or close the data.", "data",
           footer=1, shown="esc"),
    Action("data.next", "right_square_bracket,right", "row", "Show the next row.", "data",
           footer=2, shown="[ ]"),
    Action("data.previous", "left_square_bracket,left", "", "Show the previous row.", "data", shown="["),
    Action("data.random", "r", "random", "Show a random row.", "data", footer=4),
    Action("data.go", "g", "go to", "Go to a row by its number.", "data", footer=6),
    Action("data.search", "slash", "search", "Search the text of all rows.", "data",
           footer=3, shown="/"),
    Action("data.next_match", "n", "next match", "Go to the next matching row.", "data",
           footer=2, part="matches"),
    Action("data.previous_match", "N", "", "Go to the previous matching row.", "data"),
    Action("data.figures", "f", "all rows", "Toggle the statistics and findings of all rows.",
           "data", footer=5),
    Action("data.down", "j", "", "Scroll down.", "data", does="scroll(1)"),
    Action("data.up", "k", "", "Scroll up.", "data", does="scroll(-1)"),
    Action("data.copy", "y", "copy", "Copy the row as JSON. Works over SSH.", "data", footer=8),
    Action("data.again", "R", "", "Reload the data from its file.", "data"),
)  # fmt: skip


REWARDS: tuple[Action, ...] = (
    Action("rewards.back", "escape", "end the call",
           "End the running call, or return to the samples.", "rewards",
           footer=1, part="busy", shown="esc"),
    Action("rewards.left", "left", "", "Select the previous reward. In the weights, lower this one.",
           "rewards", shown="←", does="step(-1)"),
    Action("rewards.right", "right", "change", "Select the next reward. In the weights, raise this one.",
           "rewards", footer=1, part="weights", shown="← →", does="step(1)"),
    Action("rewards.add", "a", "add", "Add a completion for the row under the cursor.", "rewards",
           footer=2, part="scored"),
    Action("rewards.edit", "enter", "edit", "Edit the completion. In the weights, type a value.", "rewards",
           footer=3, part="scored,weights"),
    Action("rewards.duplicate", "d", "duplicate", "Duplicate the sample.", "rewards",
           footer=11, part="scored"),
    Action("rewards.remove", "delete,backspace", "", "Remove the sample from the list.", "rewards",
           shown="del"),
    Action("rewards.keep", "space", "keep as case",
           "Save the sample as a test case with its current scores.", "rewards", footer=4, part="scored"),
    Action("rewards.probe", "x", "probes",
           "Try to fool the rewards, and find correct answers that they reject.", "rewards",
           footer=5, part="scored"),
    Action("rewards.weights", "o", "weights", "Change weights or mute rewards and see the advantages.",
           "rewards", footer=6, part="scored"),
    Action("rewards.samples", "f", "samples from",
           "Load samples: reference and wrong answers, the open run, a file, probes.", "rewards",
           footer=7, part="scored"),
    Action("rewards.baseline", "b", "baseline",
           "Measure the base model on 16 rows: pass rate, mixed groups and advice.",
           "rewards", footer=8, part="scored"),
    Action("rewards.model", "m", "ask model", "Let the base model answer this row.",
           "rewards", footer=9, part="scored"),
    Action("rewards.sort", "s", "sort", "Cycle the sort: total, advantage, each reward, prompt.",
           "rewards", footer=8, part="scored"),
    Action("rewards.turn", "S", "", "Reverse the sort order.", "rewards"),
    Action("rewards.source", "e", "source", "Open the reward's source in $EDITOR.", "rewards",
           footer=9, part="scored"),
    Action("rewards.whole", "v", "view", "Show the whole sample: text, columns and what the rewards saw.",
           "rewards", footer=10, part="scored"),
    Action("rewards.next", "n", "next reward",
           "Add the next reward, or create a rewards file.", "rewards",
           footer=6, part="scored"),
    Action("rewards.new", "N", "", "Create a rewards file with one simple reward.", "rewards"),
    Action("rewards.tags", "t", "tags", "Edit the tags of the sample.", "rewards",
           footer=13, part="scored"),
    Action("rewards.filter", "slash", "filter", "Show only samples with these words. #hard matches a tag.",
           "rewards", footer=13, part="scored", shown="/"),
    Action("rewards.write", "w", "", "Write the samples with their tags to a JSONL file.", "rewards"),
    Action("rewards.scale", "g", "scale", "Cycle advantage scaling: group std, batch std, none.",
           "rewards", footer=7, part="weights"),
    Action("rewards.combine", "c", "combine", "Switch between sum-then-normalize and normalize-then-sum.",
           "rewards", footer=8, part="weights"),
    Action("rewards.mute", "u", "mute", "Mute or unmute this reward.", "rewards",
           footer=4, part="weights"),
    Action("rewards.alone", "h", "solo", "Solo this reward, or unmute all.", "rewards",
           footer=5, part="weights"),
    Action("rewards.reset", "0", "reset", "Reset weights and modes to the config's.", "rewards",
           footer=6, part="weights"),
    Action("rewards.score", "r", "score again",
           "Reload the rewards and score again. Saving a reward file does this too.", "rewards",
           footer=12, part="scored"),
    Action("rewards.copy", "y", "", "Copy the whole sample. Works over SSH.", "rewards"),
    Action("rewards.data", "D", "", "Browse the rows as training will see them.", "rewards"),
    Action("probes.back", "escape", "back", "Return to the samples.", "probes", footer=1, shown="esc",
           does="close"),
    Action("probes.down", "j", "scroll", "Scroll down.", "probes", footer=2, shown="j k", does="scroll(1)"),
    Action("probes.up", "k", "", "Scroll up.", "probes", does="scroll(-1)"),
    Action("probes.whole", "v", "whole examples", "Toggle whole examples.", "probes",
           footer=3),
)  # fmt: skip


GENERATIONS: tuple[Action, ...] = (
    Action("generations.open", "enter", "open", "Open the group, then the completion.",
           "generations", needs="open", footer=1, part="list"),
    Action("generations.back", "escape", "back",
           "Return to the group, to the list, or end the query.", "generations",
           footer=1, part="card,reader", shown="esc"),
    Action("generations.query", "slash", "query",
           "Find completions: reward<0.2 and tokens>400, zero_std, text ~ \"wait\", step 40..60.",
           "generations", needs="open", footer=2, shown="/"),
    Action("generations.kind", "c", "completions",
           "Toggle between groups and single completions.", "generations",
           needs="open", footer=5, part="list"),
    Action("generations.sort", "s", "sort", "Sort the list by any field.", "generations",
           needs="open", footer=6, part="list"),
    Action("generations.turn", "S", "", "Reverse the sort order.", "generations", needs="open"),
    Action("generations.earlier", "left_square_bracket", "", "Go to the previous step.", "generations",
           needs="open", shown="[", does="other_step(0)"),
    Action("generations.later", "right_square_bracket", "step", "Go to the next step.", "generations",
           needs="open", footer=7, shown="[ ]", does="other_step(1)"),
    Action("generations.group_before", "comma", "", "Go to the previous line of the list.",
           "generations", needs="open", shown=",", does="move_group(-1)"),
    Action("generations.group_after", "full_stop", "next", "Go to the next line of the list.",
           "generations", needs="open", footer=8, part="card,reader", shown=", .", does="move_group(1)"),
    Action("generations.left", "left", "", "Go to the previous completion.", "generations",
           needs="open", shown="←", does="move_completion(-1)"),
    Action("generations.right", "right", "completion", "Go to the next completion.", "generations",
           needs="open", footer=9, part="reader", shown="← →", does="move_completion(1)"),
    Action("generations.visit_before", "p", "", "Go to the prompt's previous appearance.", "generations",
           needs="open", does="other_visit(-1)"),
    Action("generations.visit_after", "n", "same prompt",
           "Go to the prompt's next appearance.", "generations",
           needs="open", footer=4, shown="p n", does="other_visit(1)"),
    Action("generations.diff", "d", "diff",
           "Cycle the comparison: best of the group, worst, the prompt's previous appearance.", "generations",
           needs="open", footer=3),
    Action("generations.mark", "space", "", "Compare other completions with this one.",
           "generations", needs="open"),
    Action("generations.fold", "f", "fold", "Cycle folding: reasoning, every block, nothing.",
           "generations", needs="open", footer=10),
    Action("generations.raw", "r", "raw", "Toggle visible white space and line breaks.", "generations",
           needs="open", footer=12, does="turn('raw')"),
    Action("generations.prompt", "i", "prompt", "Toggle the prompt and its dataset row.",
           "generations", needs="open", footer=11, does="turn('prompt')"),
    Action("generations.large", "z", "", "Toggle the focused part over the whole pane.",
           "generations", needs="open"),
    Action("generations.course", "o", "over time",
           "Show trends over the run: groups, lengths, variety, reward contributions, and this prompt.",
           "generations", needs="open", footer=13),
    Action("generations.what_if", "w", "what if",
           "Score the listed groups again with the current reward files or other weights.",
           "generations", needs="open", footer=14),
    Action("generations.tokens", "t", "tokens",
           "Show each token's probability under the policy, a checkpoint or the base model.",
           "generations", needs="open", footer=13, part="card,reader"),
    Action("generations.score", "greater_than_sign", "to Rewards",
           "Score the group in Rewards with the current reward files.", "generations",
           needs="open", footer=14, shown=">"),
    Action("generations.copy", "y", "copy", "Copy the completion. Works over SSH.", "generations",
           needs="open", footer=15),
    Action("generations.export", "e", "export", "Export the matches as JSONL, CSV or Markdown.",
           "generations", needs="open", footer=16),
    Action("generations.views", "v", "saved queries",
           "Open a saved query, or save this one.", "generations",
           needs="open", footer=17),
    Action("generations.newest", "", "newest",
           "Go to the newest group and follow it.", "generations", needs="open"),
    Action("course.back", "escape", "back", "Return to Generations.", "course", footer=1, shown="esc",
           does="close"),
    Action("course.down", "j", "scroll", "Scroll down.", "course", footer=2, shown="j k", does="scroll(1)"),
    Action("course.up", "k", "", "Scroll up.", "course", does="scroll(-1)"),
    Action("what_if.back", "escape", "back", "End scoring and return to Generations.", "what-if",
           footer=1, shown="esc", does="close"),
    Action("what_if.weights", "o", "other weights", "Reweight the recorded scores.", "what-if", footer=2),
    Action("what_if.again", "r", "current rewards", "Score again with the current reward files.",
           "what-if", footer=3),
    Action("what_if.down", "j", "scroll", "Scroll down.", "what-if", footer=4, shown="j k", does="scroll(1)"),
    Action("what_if.up", "k", "", "Scroll up.", "what-if", does="scroll(-1)"),
    Action("tokens.back", "escape", "back", "End the running pass, or return to Generations.", "tokens",
           footer=1, shown="esc"),
    Action("tokens.left", "left", "", "Go to the previous completion.", "tokens", shown="←", does="move(-1)"),
    Action("tokens.right", "right", "completion", "Go to the next completion of the group.", "tokens",
           footer=3, shown="← →", does="move(1)"),
    Action("tokens.policy", "t", "policy", "Choose the model: live policy, a checkpoint or the base.",
           "tokens", footer=2),
    Action("tokens.base", "b", "KL to base", "Toggle the comparison with the base or reference model.",
           "tokens", footer=4),
    Action("tokens.prompt", "i", "prompt", "Toggle the input as the model gets it.",
           "tokens", footer=5),
    Action("tokens.copy", "y", "copy", "Copy every token with its figures. Works over SSH.", "tokens",
           footer=6),
)  # fmt: skip


RUNS: tuple[Action, ...] = (
    Action("runs.open", "enter", "open", "Open the run in Train.", "runs", needs="chosen", footer=1),
    Action("runs.resume", "r", "resume",
           "Resume an ended run from its newest complete checkpoint.", "runs",
           needs="ended", footer=2, dangerous=True),
    Action("runs.filter", "slash", "filter",
           "Filter runs: words, state:failed, model:qwen, reward>1, age<2h.", "runs",
           footer=4, shown="/"),
    Action("runs.config", "c", "config", "Open the config of the run.", "runs",
           needs="chosen", footer=7),
    Action("runs.mark", "space", "mark", "Mark or unmark the run.", "runs",
           needs="chosen", footer=5),
    Action("runs.copy", "y", "", "Copy the command that opens the run. Works over SSH.", "runs",
           needs="chosen"),
    Action("runs.overlay", "o", "overlay", "Overlay the marked runs on one chart.", "runs",
           needs="marked", footer=3),
    Action("runs.sort", "s", "sort", "Cycle the sort: last heartbeat, reward, name, state.", "runs",
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
        return "No run is open. Press 1 for the list of runs, then enter to open one."
    if a.needs == "open":
        return None
    if view.state == "broken":
        return f"The run cannot be read, so nothing is sent to it: {view.trouble}"
    if view.state == "finished":
        return "The run is finished and takes no commands."
    if not view.live:
        return f"The run is {view.state}: it takes no commands. {view.way_on}"
    if view.state == "starting" and a.needs != "process":
        return "The model is still loading. Try again after the first step. S stops immediately."
    if a.needs == "running" and view.state == "paused":
        return "The run is already paused. Press r to resume it."
    if a.needs == "paused" and view.state != "paused":
        return "The run is not paused."
    if a.needs == "reward" and view.phase != "reward":
        return f"No reward call is running. Current phase: {view.phase}."
    return None


def _refusal_in_list(needs: str, listed: Listed) -> str | None:
    row = listed.row
    if needs == "marked":
        return None if listed.marked >= 2 else "Mark at least two runs with space first."
    if row is None:
        return "No run is listed."
    if needs == "chosen":
        return None
    if row.trouble:
        return f"The run cannot be read: {row.trouble}"
    if row.state == "paused":
        return "The run is paused. Press enter to open it, then r to resume it."
    if not row.ended:
        return f"The run is {row.state}: only an ended run can be resumed."
    if row.state == "finished":
        return "The run is finished. `grpo-tui train RUN --resume --set max_steps=N` adds steps."
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
