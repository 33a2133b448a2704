"""A config to open in the pane, and an app on it whose machine is always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_tui.preflight.machine import Machine
from grpo_tui.ui.app import GrpoApp
from grpo_tui.ui.requests import ConfigRequest
from grpo_tui.ui.screens.config import ConfigScreen
from grpo_tui.ui.widgets.config_form import ConfigForm
from tests.ui.conftest import shown, until
from tests.ui.recorded_run import NOW

FREE = 410 * 10**9
REWARDS = """\
def correct(completions, answer, **kwargs):
    return [1.0 if right in completion else 0.0 for completion, right in zip(completions, answer)]
"""
CONFIG = """\
# Trains a toy that never was.
model_name_or_path: acme/toy-0.5b   # 1 GB
dataset_name: acme/sums
use_cpu: true
bf16: false

num_generations: 8
per_device_train_batch_size: 8      # one prompt
learning_rate: 1.0e-6
max_steps: 20
output_dir: runs/toy

grpo_tui:
  holdout: 4
  rewards:
    - {name: correct, source: rewards.py:correct, weight: 2.0}
"""


@pytest.fixture
def still_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, a disk that does not change."""
    monkeypatch.setattr(
        "grpo_tui.preflight.machine.this_machine", lambda env=None: Machine(free=lambda path: FREE)
    )


def config_file(text: str = CONFIG, name: str = "toy.yaml") -> Path:
    """A config in the current folder, with its rewards beside it."""
    Path("rewards.py").write_text(REWARDS)
    path = Path(name).absolute()
    path.write_text(text)
    return path


def app_with(path: Path | None, **more: Any) -> GrpoApp:
    """The app as `grpo-tui CONFIG` opens it."""
    request = ConfigRequest(path, **more) if path is not None else None
    return GrpoApp([Path("runs")], None, config=request, clock=lambda: NOW)


def pane(app: GrpoApp) -> ConfigScreen:
    """The pane, which must be on top."""
    assert isinstance(app.screen, ConfigScreen)
    return app.screen


async def looked_at(pilot: Any) -> ConfigScreen:
    """Wait until what stands in the editor was looked at in full."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
    screen = pane(app)
    await until(
        pilot,
        lambda: (
            screen.state is not None
            and screen.state.snapshot.number == screen.number
            and screen.state.whole
            and "checking …" not in shown(app)
        ),
    )
    return screen


async def on_field(pilot: Any, name: str) -> ConfigScreen:
    """Put the cursor on a field."""
    screen = await looked_at(pilot)
    screen.to_form(name)
    await pilot.pause()
    assert screen.query_one(ConfigForm).has_focus
    assert screen.chosen_name() == name
    return screen


async def typed(pilot: Any, text: str) -> None:
    """Type a text, a key at a time."""
    names = {" ": "space", ".": "full_stop", ":": "colon", "-": "minus", "/": "slash", "_": "underscore",
             "\n": "enter", "[": "left_square_bracket", "#": "number_sign"}  # fmt: skip
    await pilot.press(*(names.get(character, character) for character in text))
