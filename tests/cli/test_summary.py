"""A config given alone says what it would run before it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.cli import main, start
from grpo_tui.cli.start import Start, summary
from grpo_tui.config.resolve import load_config
from grpo_tui.config.section import Evaluate
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.store.layout import RunFolder, remember


def test_the_summary_names_model_rewards_batch_and_folder(tmp_path: Path) -> None:
    assert summary(load_config(DEMO_CONFIG), tmp_path / "run", 1) == [
        f"model    {DEMO_MODEL}",
        "rewards  correctness × 2, format × 0.5, incremental × 0.5",
        "batch    64 completions = 8 prompts × 8; 120 steps",
        f"folder   {tmp_path / 'run'}",
    ]


def test_epochs_and_ranks_are_counted(tmp_path: Path) -> None:
    config = load_config(DEMO_CONFIG, ["max_steps=-1", "num_train_epochs=2"], world_size=2)
    assert (
        summary(config, tmp_path, 2)[2] == "batch    128 completions = 16 prompts × 8, on 2 ranks; 2 epochs"
    )


def test_the_demo_and_a_run_folder_do_not_tell_where_their_model_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Start] = []
    monkeypatch.setattr(start, "_go", lambda one, **_: started.append(one) or 0)
    assert [finding.id for finding in load_config(DEMO_CONFIG).findings] == ["config.beside"]
    assert main(["demo", "--headless", "--run-dir", str(tmp_path / "demo")]) == 0
    (tmp_path / "demo").mkdir(exist_ok=True)
    started[0].spec.write(RunFolder(tmp_path / "demo").spec)
    remember(tmp_path / "demo")
    again = ["train", str(tmp_path / "demo"), "--run-dir", str(tmp_path / "b"), "--set", "max_steps=5"]
    assert main([*again, "--quick-check"]) == 0
    assert [one.config.findings for one in started] == [(), ()]


def test_the_words_of_a_demo_reach_its_config_and_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Start] = []
    monkeypatch.setattr(start, "_go", lambda one, **how: started.append(one) or how["headless"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs" / "demo").mkdir(parents=True)
    assert main(["demo"]) == 0
    words = ["--steps", "30", "--seed", "7", "--device", "cuda", "--fault", "lr-too-high", "--headless"]
    assert main(["demo", *words]) == 1
    plain, wished = started
    assert [one.folder.root.relative_to(tmp_path / "outputs") for one in started] == [
        Path("demo-2"), Path("demo-lr-too-high"),
    ]  # fmt: skip
    assert [one.config.section.evaluate for one in started] == [Evaluate(40, 32, 2), None]
    asked = ("max_steps", "seed", "use_cpu", "bf16", "learning_rate")
    assert [wished.config.grpo.get(key) for key in asked] == [30, 7, False, True, 5e-3]
    assert plain.config.grpo["max_steps"] == 120
    assert plain.spec.notes == ()
    assert wished.spec.notes[0].startswith("fault lr-too-high: the learning rate is 25 times")


def test_a_start_inspects_its_config_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspected: list[object] = []
    original = start.inspect_config
    monkeypatch.setattr(start, "inspect_config", lambda *a, **k: inspected.append(a) or original(*a, **k))
    monkeypatch.setattr(start, "_go", lambda one, **_: 0)
    assert main(["train", str(DEMO_CONFIG), "--run-dir", str(tmp_path / "a"), "--quick-check"]) == 0
    assert len(inspected) == 1
