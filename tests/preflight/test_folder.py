"""A config that asks to go on with a run, and what its folder holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_tui.config.resolve import inspect_config
from grpo_tui.preflight.static import Launch, static_check
from tests.ship.folders import weights


def ids_of(folder: Path, line: str, *, resume: bool = False) -> dict[str, object]:
    """What `check` finds of the run folder, with its fix."""
    file = folder / "c.yaml"
    file.write_text(f"model_name_or_path: m\n{line}\n")
    found = static_check(inspect_config(file), Launch(root=folder / "run", resume=resume)).findings
    return {f.id: f.fix and f.fix.to_json() for f in found if f.id.startswith("folder.")}


def with_run(folder: Path, *, complete: bool) -> Path:
    """A run folder with one checkpoint."""
    checkpoint = folder / "run" / "checkpoint-4"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"")
    if complete:
        (checkpoint / "trainer_state.json").write_text('{"global_step": 4}')
    return checkpoint


@pytest.mark.parametrize("made", ["nothing", "incomplete"])
def test_nothing_to_resume_is_an_error_before_the_start(tmp_path: Path, made: str) -> None:
    if made == "incomplete":
        with_run(tmp_path, complete=False)
    found = ids_of(tmp_path, "resume_from_checkpoint: true")
    assert found["folder.no-checkpoint"] == {"field": "resume_from_checkpoint", "value": None}
    assert "folder.run" not in found
    assert "folder.no-checkpoint" not in ids_of(tmp_path, "resume_from_checkpoint: false")


@pytest.mark.parametrize(
    ("lines", "saved", "field", "value"),
    [
        ("use_peft: true\nlora_r: 8", {"r": 4}, "lora_r", 4),
        (
            "use_peft: true\nlora_r: 4\nlora_target_modules: [k_proj, o_proj]",
            {"r": 4, "target_modules": ["q_proj"]},
            "lora_target_modules",
            ["q_proj"],
        ),
        ("use_peft: false", {"r": 4}, "use_peft", True),
        ("use_peft: true", None, "use_peft", False),
    ],
)
def test_a_checkpoint_of_another_shape_is_told_with_its_own(
    lines: str, saved: dict[str, object] | None, field: str, value: object, tmp_path: Path
) -> None:
    checkpoint = weights(with_run(tmp_path, complete=True))
    if saved is not None:
        (checkpoint / "adapter_config.json").write_text(json.dumps({"lora_alpha": 32, **saved}))
    for asked in (checkpoint, checkpoint.name, "true"):
        wanted = f"{lines}\nresume_from_checkpoint: {asked}"
        assert ids_of(tmp_path, wanted)["folder.adapter"] == {"field": field, "value": value}, asked
    assert ids_of(tmp_path, lines, resume=True) == {"folder.adapter": {"field": field, "value": value}}
    assert "folder.adapter" not in ids_of(tmp_path, lines), "a new run has no shape to keep"


def test_a_folder_that_no_file_system_takes_is_told(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("model_name_or_path: m\nlearning_rate: fast\n")
    found = static_check(inspect_config(file), Launch(root=tmp_path / ("x" * 300))).findings
    assert {"folder.unusable", "config.type"} <= {f.id for f in found}


def test_a_file_where_the_run_would_be_and_a_run_that_trains_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").write_text("")
    assert ids_of(tmp_path, "max_steps: 3") == {"folder.file": None}
    (tmp_path / "run").unlink()
    checkpoint = with_run(tmp_path, complete=True)
    (tmp_path / "run-2").mkdir()
    beside = {"field": "output_dir", "value": str(tmp_path / "run-3")}
    assert ids_of(tmp_path, "max_steps: 3")["folder.run"] == beside
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.setattr("grpo_tui.preflight.folder.is_live", lambda root: root == tmp_path / "run")
    assert ids_of(tmp_path, "max_steps: 3")["folder.live"] == beside
    assert "folder.no-checkpoint" not in ids_of(tmp_path, "resume_from_checkpoint: true")
    assert "folder.checkpoint" in ids_of(tmp_path, f"resume_from_checkpoint: {checkpoint}")


def test_a_run_is_no_obstacle_to_a_config_that_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_run(tmp_path, complete=True)
    assert "folder.run" in ids_of(tmp_path, "max_steps: 3")
    best = (
        "grpo_tui.preflight.folder.newest_usable",
        lambda folder: (type("C", (), {"step": 4, "path": tmp_path}), ()),
    )
    monkeypatch.setattr(*best)
    assert not {"folder.run", "folder.no-checkpoint"} & set(ids_of(tmp_path, "resume_from_checkpoint: true"))
