"""A LoRA checkpoint and a config that does not fit it are told apart before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.adapters import adapter_mismatch

SAVED = {
    "r": 4,
    "lora_alpha": 32,
    "target_modules": ["v_proj", "q_proj"],
    "use_rslora": False,
    "use_dora": False,
}
FITS = {"use_peft": True, "lora_r": 4, "lora_target_modules": ["q_proj", "v_proj"]}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-4"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(SAVED))
    return folder


@pytest.mark.parametrize("more", [{}, {"lora_target_modules": None}, {"lora_target_modules": ["all-linear"]}])
def test_an_adapter_of_the_same_shape_fits(checkpoint: Path, more: dict[str, Any]) -> None:
    assert adapter_mismatch(checkpoint, {**FITS, **more}) is None


@pytest.mark.parametrize("saved", [{}, {"use_dora": None, "use_rslora": None, "modules_to_save": None}])
def test_an_option_that_the_adapter_does_not_name_was_off(checkpoint: Path, saved: dict[str, Any]) -> None:
    """An adapter of an older PEFT lacks the options of a newer one."""
    named = {key: SAVED[key] for key in ("r", "lora_alpha", "target_modules")}
    (checkpoint / "adapter_config.json").write_text(json.dumps(named | saved))
    off = {"use_dora": False, "use_rslora": False, "lora_modules_to_save": []}
    assert adapter_mismatch(checkpoint, FITS | off) is None
    for name, asked, was in (("use_dora", True, "false"), ("lora_modules_to_save", ["lm_head"], "null")):
        assert f"--set {name}={was}" in (adapter_mismatch(checkpoint, FITS | off | {name: asked}) or "")


def test_modules_that_the_adapter_saved_whole_must_be_named_again(checkpoint: Path) -> None:
    (checkpoint / "adapter_config.json").write_text(json.dumps({**SAVED, "modules_to_save": ["lm_head"]}))
    assert adapter_mismatch(checkpoint, {**FITS, "lora_modules_to_save": ["lm_head"]}) is None
    for none in ({}, {"lora_modules_to_save": None}, {"lora_modules_to_save": []}):
        assert "--set lora_modules_to_save=[lm_head]" in (adapter_mismatch(checkpoint, FITS | none) or "")


@pytest.mark.parametrize(
    ("change", "fix"),
    [
        ({"lora_r": 8}, "To resume: --set lora_r=4"),
        ({"lora_target_modules": ["k_proj"]}, "To resume: --set lora_target_modules=[q_proj,v_proj]"),
        ({"lora_alpha": 8}, "--set lora_alpha=32"),
        ({"use_dora": True}, "--set use_dora=false"),
        ({"use_peft": False}, "To resume, add --set use_peft=true"),
    ],
)
def test_an_adapter_of_another_shape_is_refused_with_what_resumes_it(
    checkpoint: Path, change: dict[str, Any], fix: str
) -> None:
    assert fix in (adapter_mismatch(checkpoint, {**FITS, **change}) or "")


def test_a_whole_model_does_not_go_on_as_an_adapter(tmp_path: Path) -> None:
    assert "--set use_peft=false" in (adapter_mismatch(tmp_path, FITS) or "")
    assert adapter_mismatch(tmp_path, {}) is None
