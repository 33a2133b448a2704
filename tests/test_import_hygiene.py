"""Prove in fresh processes that each layer loads only what it may.

Import contracts read the source and cannot tell a deferred import from an eager one; `sys.modules` can.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ui.recorded_run import RecordedRun

ML_STACK = frozenset({"torch", "transformers", "trl", "datasets", "accelerate", "peft", "vllm"})
SCREEN = frozenset({"textual", "textual_plot"})

SHOW_LOADED = (
    "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps(list(sys.modules)))"
)


def loaded_by(module: str) -> set[str]:
    """Names of the top-level packages that importing `module` brings into a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW_LOADED, module],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(
    "module",
    [
        "grpo_tui",
        "grpo_tui.cli",
        "grpo_tui.ui.app",
        "grpo_tui.present",
        "grpo_tui.supervisor",
        "grpo_tui.store",
        "grpo_tui.config",
        "grpo_tui.rewards",
        "grpo_tui.ship.policies",
        "grpo_tui.cli.compare",
        "grpo_tui.cli.merge",
        "grpo_tui.cli.card",
        "grpo_tui.cli.checkpoints",
        "grpo_tui.health.reading",
        "grpo_tui.core",
    ],
)
def test_the_ml_stack_stays_out_of(module: str) -> None:
    assert not loaded_by(module) & ML_STACK


@pytest.mark.parametrize(
    "module",
    [
        "grpo_tui",
        "grpo_tui.cli",
        "grpo_tui.core",
        "grpo_tui.store",
        "grpo_tui.config",
        "grpo_tui.supervisor",
        "grpo_tui.present",
        "grpo_tui.rewards",
        "grpo_tui.data",
        "grpo_tui.train",
        "grpo_tui.ship.policies",
    ],
)
def test_the_screen_stays_out_of(module: str) -> None:
    assert not loaded_by(module) & SCREEN


def test_core_needs_the_standard_library_and_the_widths_of_cells_alone() -> None:
    foreign = loaded_by("grpo_tui.core") - sys.stdlib_module_names - {"grpo_tui"}
    bare = loaded_by("json") - sys.stdlib_module_names
    assert not foreign - bare - {"rich"}  # of which the import contract allows `rich.cells`


def test_the_first_paint_needs_neither_the_store_nor_the_view_of_a_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW_LOADED, "grpo_tui.ui.app"], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1])) - {"json"}  # the probe's own
    later = {
        "grpo_tui.store", "grpo_tui.present.series", "grpo_tui.present.train_view", "grpo_tui.rewards",
        "grpo_tui.config", "psutil", "sqlite3", "yaml", "ruamel", "importlib.metadata",
    }  # fmt: skip
    assert not loaded & later


def test_the_first_numbers_of_a_run_need_neither_its_config_nor_dialogs(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.advance(3)
    run.close()
    code = (
        "import json, sys; from pathlib import Path; from grpo_tui.ui.poller import Poller\n"
        "import grpo_tui.ui.app, grpo_tui.ui.screens.train\n"
        "def post(message): print(message.view.step); print(json.dumps(list(sys.modules))); follow.stop()\n"
        "follow = Poller(Path(sys.argv[1]), post); follow.run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.folder.root)], capture_output=True, text=True, check=True
    )
    step, loaded = done.stdout.splitlines()
    assert step == "3"
    assert not {"grpo_tui.config", "grpo_tui.ui.screens.dialogs", "yaml"} & set(json.loads(loaded))


def test_a_package_of_which_threads_import_parts_imports_none_itself() -> None:
    package = "grpo_tui.config"
    # Two threads that first import different parts of one that does may find it half made.
    done = subprocess.run(
        [sys.executable, "-c", SHOW_LOADED, package], capture_output=True, text=True, check=True
    )
    assert not [name for name in json.loads(done.stdout) if name.startswith(f"{package}.")]


def test_doctor_does_not_load_what_ships_a_run() -> None:
    code = [sys.executable, "-c", SHOW_LOADED, "grpo_tui.cli.doctor"]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert not [name for name in json.loads(done.stdout) if name.startswith("grpo_tui.ship.")]


def test_the_probe_sees_what_is_loaded() -> None:
    assert "textual" in loaded_by("textual.app")
