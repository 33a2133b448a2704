"""One key, one verb: in the table of actions and in every widget's own bindings.

Capitals, `=` and ctrl act, the core keys have one verb wherever they are bound, and any other lower-case
letter opens or toggles something of its pane.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.dom import DOMNode
from textual.widget import Widget
from textual.widgets import Input, TextArea

import grpo_tui.ui
from grpo_tui.ui.actions import ACTIONS, MOVED, Action, on_pane
from grpo_tui.ui.paint import LineScroll
from grpo_tui.ui.screens.chart import ChartScreen, OverlayScreen
from grpo_tui.ui.screens.data import DataLines
from grpo_tui.ui.screens.hardware import HardwareScreen
from grpo_tui.ui.screens.reading import HelpScreen
from grpo_tui.ui.screens.tokens import TokenList
from tests.ui.conftest import app_on, opened
from tests.ui.recorded_run import RecordedRun

CORE = {
    "question_mark": "Help|meaning|all keys",
    "q": "Leave",
    **{str(number): "Go to " for number in range(1, 7)},
    "left_square_bracket": "Previous ",
    "right_square_bracket": "Next ",
    "comma": "Previous line|Previous step of the replay",
    "full_stop": "Next line|Next step of the replay",
    "n": "Next |no$",
    "N": "Previous ",
    "j": "Scroll down|Next |down",
    "k": "Scroll up|Previous |up",
    "g": "First |first",
    "G": "Last |last",
    "s": "Sort ",
    "y": "Copy|copy|yes$",
    "e": "Edit the source in .EDITOR",
    "space": "Hold |Mark |Mute ",
    "enter": "Open|open|apply|sample|score|add",
    "escape": "Back|back|form",
    "tab": "Next part",
    "m": "Ask the model",
    "z": "Toggle the large ",
    "greater_than_sign": "Score the group in Rewards",
    "ctrl+p": "Find an action",
    # Not core, and yet the same wherever they are bound.
    "d": "Compare ",
    "i": "Input ",
    "slash": "Find |Filter |Search ",
}
"""How a title or a widget's description begins that is bound to a core key."""
ACTING = {
    "P": "Pause ",
    "C": "Save a checkpoint",
    "D": "Compare ",
    "A": "Abort ",
    "S": "Stop ",
    "R": "Start training|Resume ",
    "T": "Trial ",
    "B": "Baseline ",
    "W": "Write ",
    "E": "Export ",
    "F": "Fork",
    "X": "Race ",
    "H": "Upload to the Hub",
    "M": "Merge ",
    "K": "Keep ",
    "U": "Undo the last change",
    "V": "Evaluate the policy now",
    "L": "Reload edited reward files",
    "equals_sign": "Change a setting",
}
"""The keys that change a run or a file, or start work on a GPU."""
CTRL = {
    "ctrl+s": "Write |apply",
    "ctrl+o": "Write under another name",
    "ctrl+n": "New ",
    "ctrl+l": "Reload |Score again",
    "ctrl+r": "Redo",
    "ctrl+d": "Delete ",
    "ctrl+f": "Fix all|fix all",
    "ctrl+z": "Suspend ",
    "ctrl+j": "new line",
    "ctrl+left": "Cursor ten left",
    "ctrl+right": "Cursor ten right",
    "ctrl+p": CORE["ctrl+p"],
}
ACTS = {
    *(
        "run.pause",
        "run.resume",
        "run.checkpoint",
        "run.abort",
        "run.stop",
        "run.stop_now",
        "run.set",
        "run.undo",
        "run.evaluate",
        "run.reload",
    ),
    *("runs.resume", "config.start", "config.trial", "config.drills", "config.baseline", "rewards.baseline"),
    *("config.save", "config.save_text", "config.save_as", "config.new", "config.export", "rewards.keep"),
    *("rewards.write", "rewards.next", "rewards.new", "generations.export"),
    *("results.compare", "results.stop", "results.fork", "results.race", "results.export", "results.card"),
    *("results.push", "results.merge", "results.delete"),
    *("chat.stop", "chat.new", "chat.keep"),
}
"""What changes a run or a file, or starts work on a GPU; asking the model is the core key `m`."""
LOOKS = {"N", "G"}


def widgets() -> set[type[DOMNode]]:
    """Every class of the package with bindings of its own."""
    for module in pkgutil.walk_packages(grpo_tui.ui.__path__, "grpo_tui.ui."):
        importlib.import_module(module.name)

    def below(cls: type[DOMNode]) -> Iterator[type[DOMNode]]:
        yield cls
        for sub in cls.__subclasses__():
            yield from below(sub)

    return {
        cls for cls in below(DOMNode) if cls.__module__.startswith("grpo_tui.") and "BINDINGS" in vars(cls)
    }


def bound() -> list[tuple[str, str, str]]:
    """Every key with what it is called and who binds it; a key that closes what it has opened is left out."""
    found = [(key, a.title, a.id) for a in ACTIONS if a.key for key in a.key.split(",")]
    known = {a.id for a in ACTIONS}
    for cls in widgets():
        own = [one for one in Binding.make_bindings(cls.BINDINGS) if one.id not in known]
        found += [
            (one.key, one.description, cls.__name__)
            for one in own
            if one.description != "close" and not one.action.startswith("moved(")
        ]
    return found


def test_core_keys_have_one_verb_in_the_table_and_in_every_widget() -> None:
    wrong = [one for one in bound() if one[0] in CORE and not re.match(CORE[one[0]], one[1])]
    assert not wrong


def test_capitals_equals_and_ctrl_have_one_verb_in_the_whole_program() -> None:
    verbs = ACTING | CTRL | {key: CORE[key] for key in LOOKS}
    acting = [one for one in bound() if one[0] in verbs or one[0].startswith("ctrl+") or one[0].isupper()]
    assert not [one for one in acting if not re.match(verbs.get(one[0], "(no verb)"), one[1])]


def test_what_acts_has_a_capital_equals_or_ctrl_and_no_other_action_has_one_of_those_capitals() -> None:
    for action in ACTIONS:
        keys = set(action.key.split(",")) if action.key else set()
        if action.id in ACTS:
            assert all(key in ACTING or key.startswith("ctrl+") for key in keys), action.id
        else:
            assert not keys & ACTING.keys(), action.id


def test_old_steering_keys_mean_nothing_else_in_train() -> None:
    assert not {old for old, _, _ in MOVED} & {a.key for a in on_pane("train")}
    assert {new for _, _, new in MOVED} <= {a.key for a in on_pane("train")}


NAMED = re.compile(
    r'Span\(\s*"\s*(\S+)\s*", "key", "(?:screen|app)\.(\w+)"|_keyed\("(\S+)", .*"screen\.(\w+)"\)'
)


def test_a_key_that_is_named_beside_a_click_is_the_one_of_its_action() -> None:
    keys = {a.method: {a.key_alone, *a.key.split(",")} for a in ACTIONS if not a.does}
    named = [
        (key, method)
        for file in Path(grpo_tui.ui.__path__[0]).rglob("*.py")
        for key, method in (
            [part for part in found if part] for found in NAMED.findall(file.read_text(encoding="utf-8"))
        )
        if method in keys
    ]
    assert len(named) > 10
    assert [(key, method) for key, method in named if key not in keys[method]] == []


PANES = sorted({a.pane for a in ACTIONS} - {"all", "zoom"})


@pytest.mark.parametrize("pane", PANES)
def test_no_key_is_bound_twice_in_a_pane(pane: str) -> None:
    keys = Counter(key for a in on_pane(pane) if a.key for key in a.key.split(","))
    keys.update(old for old, _, _ in MOVED if pane == "train")
    assert [key for key, times in keys.items() if times > 1] == []


def clashes(pane: str, cls: type[Widget]) -> set[str]:
    """Keys of a pane that a widget with the focus would take for something else."""
    taken = set(cls._merge_bindings().key_to_bindings)
    if issubclass(cls, LineScroll):  # it never scrolls sideways, and passes these on
        taken -= {"left", "right"}
    keys = {key for a in on_pane(pane) if a.key for key in a.key.split(",")}
    return (taken & keys) - CORE.keys()


async def test_no_widget_takes_a_key_of_its_pane(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        seen: list[tuple[str, type[Widget]]] = []

        def look(pane: str) -> None:
            found = [type(w) for w in app.screen.query("*") if w.can_focus and w.parent is not None]
            assert found, pane
            seen.extend((pane, cls) for cls in found if not issubclass(cls, Input | TextArea))

        for key, pane in (("4", "train"), ("1", "runs"), ("2", "config"), ("3", "rewards")):
            await pilot.press(key)
            look(pane)
        for key, pane in (("5", "generations"), ("6", "results")):
            await pilot.press(key)
            look(pane)
        folders = (run.folder.root, Path("runs") / "other")
        over = {
            "chart": ChartScreen(folders[0], "reward"),
            "overlay": OverlayScreen(folders),
            "hardware": HardwareScreen(),
        }
        for pane, screen in over.items():
            await app.push_screen(screen)
            look(pane)
        assert not [(pane, cls.__name__, keys) for pane, cls in seen if (keys := clashes(pane, cls))]


@pytest.mark.parametrize(
    ("pane", "cls"),
    [("data", DataLines), ("tokens", TokenList), *((p, LineScroll) for p in ("probes", "course", "what-if"))],
)
def test_no_list_takes_a_key_of_the_screen_it_is_read_in(pane: str, cls: type[Widget]) -> None:
    assert not clashes(pane, cls)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda a: a.id)
def test_every_action_has_a_short_title_and_a_help(action: Action) -> None:
    assert 1 <= len(action.title.split()) <= 6
    assert action.title[0].isupper() or action.title.startswith("grpo-tui")
    assert not action.title.endswith(".")
    assert action.help.endswith(".")
    assert action.group


@pytest.mark.parametrize("pane", PANES)
def test_every_action_is_in_the_palette_under_a_title_of_its_own(pane: str) -> None:
    by_title: dict[str, set[str]] = {}
    for a in on_pane(pane):
        by_title.setdefault(a.title, set()).add(a.target)
    assert [title for title, targets in by_title.items() if len(targets) > 1] == []


def test_the_help_lists_the_keys_of_a_pane_by_group_the_frequent_ones_first() -> None:
    lines = ["".join(span.text for span in line).split() for line in HelpScreen("train").lines(100)]
    first = [words[0] for words in lines if words]
    steer, show = first.index("steer"), first.index("show")
    assert first[steer + 1] == "P"
    assert first[show + 1] == "l"
    assert set(first[steer + 1 : show]) >= {"P", "C", "=", "m", "A", "S"}


@pytest.mark.parametrize("pane", [*PANES, "zoom", "all"])
def test_a_group_of_the_help_is_in_one_place(pane: str) -> None:
    groups = [a.group for a in ACTIONS if a.pane == pane]
    starts = [group for n, group in enumerate(groups) if not n or groups[n - 1] != group]
    assert len(starts) == len(set(starts))
