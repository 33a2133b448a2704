"""What a key may ask for next is loaded while no key comes, and nothing heavy with it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from threading import Event

import pytest

from grpo_tui.ui import preload
from tests import PATIENCE_S

HEAVY = ("torch", "trl", "transformers", "datasets", "tokenizers")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is loaded, without a wait."""
    names: list[str] = []
    monkeypatch.setattr(preload, "AFTER_S", 0.0)
    monkeypatch.setattr(preload, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(importlib, "import_module", names.append)
    return names


def test_each_waits_until_it_is_quiet(loaded: list[str]) -> None:
    looks = iter([False, False, True, False, True])
    seen: list[int] = []

    def quiet() -> bool:
        seen.append(len(loaded))
        return next(looks)

    preload.preload(quiet, Event(), ["a", "b"])
    assert loaded == ["a", "b"]
    assert seen == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("when", ["before", "while it is not quiet", "between two"])
def test_it_ends_with_the_screen(when: str, loaded: list[str]) -> None:
    ended = Event()

    def quiet() -> bool:
        ended.set()
        return when == "between two"

    if when == "before":
        ended.set()
    preload.preload(quiet, ended, ["a", "b"])
    assert loaded == (["a"] if when == "between two" else [])


def test_what_is_loaded_exists_and_is_light() -> None:
    program = (
        "import sys, threading\nfrom grpo_tui.ui import preload\npreload.AFTER_S = 0\n"
        "preload.preload(lambda: True, threading.Event())\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], all(m in sys.modules for m in preload.MODULES))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "[] True\n", done.stderr
