"""No test depends on the preferences of the person who runs it, or on the width of a terminal."""

from __future__ import annotations

import gc
import itertools
import signal
import time
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from tests import forked

# A shell without job control starts what it puts in the background deaf to ctrl+c, and every program that is
# started from there stays so: the tests that press it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def state_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for what is remembered about runs, never the developer's; one for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRPO_TUI_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def preference_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New empty folders, without the search for a free name that thousands of them would slow down."""
    parent = tmp_path_factory.mktemp("preferences")
    return (parent / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def preferences_of_their_own(preference_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder for preferences, also for the programs a test starts."""
    folder = next(preference_folders)
    folder.mkdir()
    monkeypatch.setenv("GRPO_TUI_CONFIG_DIR", str(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, so that no core is left alone with one at the end."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)


# Garbage is looked for less often, from the first import on, and never in what is loaded: a fifth of what
# imports, the collection and a screen's test take.
gc.set_threshold(50_000, 20, 50)


def pytest_collection_finish() -> None:
    """Leave what is loaded out of the search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def stored(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file in `stored/` beside the test. `--snapshot-update` writes the file."""

    def compare(name: str, text: str) -> None:
        file = request.path.parent / "stored" / f"{name}.txt"
        if request.config.getoption("update_snapshots"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        told = file.read_text(encoding="utf-8") if file.exists() else ""
        changed = "\n".join(
            unified_diff(told.splitlines(), text.splitlines(), "stored", "now", lineterm="", n=1)
        )
        assert not changed, f"{file.name} (--snapshot-update renews it):\n{changed[:6000]}"

    return compare


PRINTING = ("cli", "rewards")
"""Folders whose tests read what a command prints."""


@pytest.fixture(autouse=True)
def wide_lines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints is as wide as without a terminal, wherever the tests run."""
    if request.path.parent.name in PRINTING:
        monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def utc() -> Iterator[None]:
    """The time zone is the same everywhere, for the length of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(scope="module")
def forked_commands() -> Iterator[None]:
    """Commands of `tests.processes.runs` are forks of a process that has imported TRL."""
    forked.wanted = True
    yield
    forked.wanted = False


@pytest.fixture
def no_yes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has said yes to code yet, neither in a state folder nor in this process."""
    from grpo_tui.rewards import consent

    monkeypatch.setenv("GRPO_TUI_STATE_DIR", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr(consent, "_trusting", False)
    monkeypatch.setattr(consent, "_given", set())
    monkeypatch.setattr(consent, "_named", {})
