"""`L` in Train checks edited reward files in a real child process, and loads them after a yes."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.store.spec import RunSpec
from grpo_tui.ui.screens.train import TrainScreen
from grpo_tui.ui.screens.train_dialogs import ReloadScreen
from tests.ui.conftest import app_on, opened, sent, shown, until
from tests.ui.recorded_run import FUNCTIONS, RecordedRun

pytestmark = pytest.mark.slow

OLD = """\
import re

def correctness(completions, answer, **kwargs):
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    found = [re.findall(r"<answer>\\s*(.*?)\\s*</answer>", text, re.DOTALL) for text in texts]
    return [float(len(one) == 1 and one[0] == gold) for one, gold in zip(found, answer)]

format_reward = incremental_format = correctness
"""
NEW = OLD.replace("float(", "2.0 * (")


async def test_what_was_checked_is_shown_and_loaded_after_a_yes(run: RecordedRun) -> None:
    file = Path("rewards.py").absolute()
    file.write_text(NEW)
    config = config_of_functions([f"{file}:{name}" for name, _ in FUNCTIONS])
    RunSpec(config.to_json()).write(run.folder.spec)
    run.write(
        *[
            r.RewardFunctionInfo(2, i, name, weight, f"{file}:1", "", OLD)
            for i, (name, weight) in enumerate(FUNCTIONS)
        ]
    )
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("L")
        await until(pilot, lambda: isinstance(app.screen, ReloadScreen))
        screen = app.screen
        await until(pilot, lambda: "checking contract, cases, probes and recorded groups" in shown(app))
        await pilot.press("y")
        assert app.screen is screen, "nothing has been checked yet"
        checked = screen
        await until(pilot, lambda: checked.found is not None or bool(checked.trouble))
        assert checked.passed, checked.trouble or checked.found
        await until(pilot, lambda: "+++ rewards.py (edited)" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))
        await until(pilot, lambda: bool(sent(run)))
        ((kind, args),) = sent(run)
        assert kind == "reload"
        assert list(args["files"]) == [str(file.resolve())]
        assert args["what_if"].endswith("groups change order")

        file.write_text("def correctness(\n")
        await pilot.press("L")
        await until(pilot, lambda: isinstance(app.screen, ReloadScreen))
        assert isinstance(app.screen, ReloadScreen)
        checked = app.screen
        await until(pilot, lambda: checked.found is not None or bool(checked.trouble))
        await until(pilot, lambda: "Not loaded. Fix the files and press L again" in shown(app))
        assert "rewards.py:1" in shown(app)
        await pilot.press("y")
        assert isinstance(app.screen, ReloadScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))
        assert len(sent(run)) == 1
