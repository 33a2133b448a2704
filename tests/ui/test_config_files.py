"""Config files: opened once however they are named, watched for changes, begun from a preset."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from grpo_tui.config.presets import presets
from grpo_tui.ui.config_worker import ConfigWorker
from grpo_tui.ui.requests import ConfigRequest
from grpo_tui.ui.screens.config import ConfigScreen
from tests import PATIENCE_S
from tests.ui.conftest import until
from tests.ui.open_configs import app_with, config_file, looked_at, pane, still_machine

pytestmark = pytest.mark.usefixtures(still_machine.__name__)
SIZE = (120, 40)


def test_a_followed_file_is_told_once_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_tui.ui.config_worker.LOOK_S", 0.01)
    posted: SimpleQueue[Any] = SimpleQueue()
    worker = ConfigWorker(posted.put)
    path, other = config_file(), config_file(name="other.yaml")
    watching = threading.Thread(target=worker.watch)
    watching.start()
    try:
        worker.follow(other)
        worker.follow(path)
        other.write_text("max_steps: 1")
        other.replace(path)  # as a whole: a file that is written in parts changes more than once
        told = posted.get(timeout=PATIENCE_S)
        assert (told.file, told.gone) == (path, False)
        path.unlink()
        told = posted.get(timeout=PATIENCE_S)
        assert (told.file, told.gone) == (path, True)
    finally:
        worker.stop()
        watching.join()
    assert posted.empty()


async def test_a_file_that_is_open_stays_open_however_its_place_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    path = config_file()
    app = app_with(Path("~/toy.yaml"))
    async with app.run_test(size=SIZE) as pilot:
        screen = await looked_at(pilot)
        draft = screen.draft
        assert draft is not None
        assert screen.request == ConfigRequest(path)
        for written in (Path("~/toy.yaml"), Path("toy.yaml"), path):
            screen.files.open_request(ConfigRequest(written))
            assert screen.draft is draft
        screen.files.open_request(ConfigRequest(path, ("max_steps=3",)))
        assert screen.draft is not draft, "with other values it is another config"


@pytest.mark.parametrize(("name", "said"), [("dapo", "Wrote mine.yaml."), ("demo", " and 5 other files.")])
async def test_what_a_preset_wrote_is_named_as_far_as_there_is_room(name: str, said: str) -> None:
    app = app_with(None)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        pane(app).files._write_new(next(one for one in presets() if one.name == name), Path("mine.yaml"))
        screen = await looked_at(pilot)
        told = [note.message for note in app._notifications if note.message.startswith("Wrote mine.yaml")]
        assert [words.endswith(said) for words in told] == [True]
        assert screen.request == ConfigRequest(Path("mine.yaml").absolute())
