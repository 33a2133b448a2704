"""What the screen makes of how a child command ends, and how it starts one, without a model."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.store.replay import Replay
from grpo_tui.ui import comparing, starting
from grpo_tui.ui.comparing import Comparing
from grpo_tui.ui.paint import width_of
from grpo_tui.ui.replaying import SPEEDS, ReplayPoller
from grpo_tui.ui.screens.chat import Chatting, Turn
from grpo_tui.ui.widgets.results import ResultsSummary

RESULT = {"verdict": [{"policy": "mine", "word": "worse"}]}


@pytest.mark.parametrize(
    ("code", "printed", "cancelled", "found"),
    [
        (0, RESULT, False, (True, "mine is worse")),
        (1, RESULT, False, (True, "mine is worse")),
        (0, RESULT, True, (True, "mine is worse")),
        (1, None, False, (False, "it broke")),
        (0, {"verdict": []}, False, (False, "it broke")),
        (2, RESULT, False, (False, "it broke")),
        (None, None, False, (False, "it broke")),
        (130, None, True, (False, "Stopped. What was generated is kept: D continues.")),
    ],
)
def test_a_comparison_with_a_verdict_has_a_result_whatever_it_is(
    code: int | None, printed: Any, cancelled: bool, found: tuple[bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "sentence", lambda body, one: f"{one['policy']} is {one['word']}")
    made = Comparing("run@5")
    assert made._child.words[3:] == ["compare", "run@5", "--json", "--progress"]
    ended = starting.Ended(code, "" if printed is None else json.dumps(printed), "it broke")
    made._child = SimpleNamespace(run=lambda told: ended, cancelled=lambda: cancelled)  # type: ignore[assignment]
    assert made.run(lambda: None) == found


@pytest.mark.parametrize("closes", [False, True])
def test_a_chat_that_the_user_closed_did_not_break(closes: bool) -> None:
    chatting = Chatting(["model"])
    code = 'import sys\nprint(\'{"event": "at"}\', flush=True)\nsys.stdin.read()\nsys.exit("it broke")'
    chatting.words = [sys.executable, "-c", code]

    def told(event: Any) -> None:
        if closes:
            chatting.close()
        else:
            assert chatting._process is not None
            assert chatting._process.stdin is not None
            chatting._process.stdin.close()

    assert chatting.converse(told) == ("" if closes else "it broke")


def test_a_start_outlives_the_terminal_and_does_not_hold_the_screen_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def run(words: list[str], **how: Any) -> Any:
        asked.append((words[3:], how))
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    assert starting.resume_run(comparing.Path("a run")) == (True, "resumed")
    ((words, how),) = asked
    assert words == ["train", "a run", "--resume", "--detach"]
    assert (how["start_new_session"], how["stdin"]) == (True, subprocess.DEVNULL)
    assert how["timeout"] == starting.PATIENCE_S


@pytest.mark.parametrize(
    ("code", "stderr", "found"),
    [
        (0, "", (True, "started")),
        (0, "grpo-tui: one \n  \n\ngrpo-tui: two\n", (True, "one; two")),
        (2, "1\n2\n3\n \n4\ngrpo-tui: 5\n", (False, "2 3 4 5")),
        (2, " \n", (False, "it ended with exit code 2")),
    ],
)
def test_what_a_start_said_is_one_line(
    code: int, stderr: str, found: tuple[bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        subprocess, "run", lambda *words, **how: SimpleNamespace(returncode=code, stderr=stderr)
    )
    assert starting.start_run(["x"]) == found


# -- replay -----------------------------------------------------------------------------------------


def poller(place: int, *, playing: bool, speed: float = 10.0) -> Any:
    """A poller over the steps 1 to 5 whose thread does at once what it is asked."""
    replay = Replay(None, lambda reader: (), speed)
    replay.steps, replay.playing = (1, 2, 3, 4, 5), playing
    replay.go(place)
    made = object.__new__(ReplayPoller)
    made._replay, made._ask = replay, lambda move: move()  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize(
    ("place", "playing", "then"),
    [
        (4, False, (0, True)),
        (3, False, (3, True)),
        (0, False, (0, True)),
        (4, True, (4, False)),
        (2, True, (2, False)),
    ],
)
def test_playing_begins_again_only_at_the_end(place: int, playing: bool, then: tuple[int, bool]) -> None:
    made = poller(place, playing=playing)
    made.turn()
    assert (made._replay.place, made._replay.playing) == then


@pytest.mark.parametrize(("by", "place"), [(1, 3), (-1, 1), (9, 4), (-9, 0)])
def test_a_step_pauses_and_stays_within_the_run(by: int, place: int) -> None:
    made = poller(2, playing=True)
    made.move(by)
    assert (made._replay.place, made._replay.playing) == (place, False)


@pytest.mark.parametrize(("step", "place"), [(0, 0), (1, 0), (3, 2), (99, 4)])
def test_a_typed_step_is_the_newest_up_to_it(step: int, place: int) -> None:
    made = poller(2, playing=True)
    made.go(step)
    assert made._replay.place == place


@pytest.mark.parametrize(
    ("speed", "up", "then"),
    [
        (10.0, True, 20.0),
        (10.0, False, 5.0),
        (7.5, True, 10.0),
        (7.5, False, 5.0),
        (SPEEDS[0], False, SPEEDS[0]),
        (SPEEDS[-1], True, SPEEDS[-1]),
    ],
)
def test_the_speed_changes_to_the_next_in_the_list(speed: float, up: bool, then: float) -> None:
    made = poller(2, playing=True, speed=speed)
    made.change_speed(up)
    assert made._replay.speed == then


# -- what they say, in the room there is --------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_comparison_under_way_fills_its_line_beside_the_key_that_stops_it(width: int) -> None:
    summary = ResultsSummary()
    summary.work = SimpleNamespace(line="x" * 300)  # type: ignore[assignment]
    line = summary.lines(width, 9)[0]
    assert width_of(line) == width
    assert any(span.action for span in line) == (width >= 100)


@pytest.mark.parametrize(
    ("names", "width", "beside"), [(1, 120, False), (2, 120, True), (2, 98, False), (1, 60, False)]
)
def test_answers_stand_side_by_side_where_there_are_two_and_room(
    names: int, width: int, beside: bool
) -> None:
    turn = Turn("hi", ("mine", "base")[:names], asked=False)
    for place in range(names):
        turn.write(place, "word " * 60)
    lines = turn.lines(width)
    assert max(map(width_of, lines)) == width
    texts = ["".join(span.text for span in line) for line in lines]
    assert any("mine" in text and "base" in text for text in texts) is beside
    assert turn.lines(width) is lines, "laid out once"
    turn.end(None)
    assert turn.lines(width) is not lines
