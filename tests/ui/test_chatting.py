"""A command that the screen talks to, and what else it prints."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from grpo_tui.ui.screens.chat import Chatting
from grpo_tui.ui.starting import read_object

TALKS = """
import json, sys
print("Loading weights: 100%")
print("{not json")
print(json.dumps({"loss": 1}))
print(json.dumps({"event": "at", "name": "", "what": "ready"}), flush=True)
print(json.dumps({"event": "said", "text": json.loads(sys.stdin.readline()) * 500}), flush=True)
print("grpo-tui: it broke", file=sys.stderr)
raise SystemExit(2)
"""


def test_events_arrive_whole_whatever_a_library_prints_between_them() -> None:
    chatting, events = Chatting(["model"]), list[Any]()
    chatting.words = [sys.executable, "-c", TALKS]
    chatting.say("/new")
    assert chatting.converse(events.append) == "it broke"
    assert [one["event"] for one in events] == ["at", "said"]
    assert events[1]["text"] == "/new" * 500


def test_a_closed_chat_does_not_start() -> None:
    chatting = Chatting(["model"])
    chatting.close()
    assert chatting.converse(lambda event: pytest.fail("it was started")) == ""


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Fetching {"b": 2}\n{\n "a": [1,\n 2]\n}\nbye\n', {"a": [1, 2]}),
        ('{broken\n{"a": 1}\n', {"a": 1}),
        ("[1]\nnothing", None),
        ("", None),
    ],
)
def test_the_object_that_a_command_prints_is_found(printed: str, found: dict[str, Any] | None) -> None:
    assert read_object(printed) == found
