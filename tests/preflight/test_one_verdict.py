"""Every way to ask gives one verdict: quick or full, first mistake or all, `check` or the start itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_tui.cli.check import before_start
from grpo_tui.cli.errors import CommandError
from grpo_tui.config.resolve import inspect_config
from grpo_tui.config.rules import yaml_said
from grpo_tui.config.section import Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix, errors_of
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight import run
from grpo_tui.preflight.facts import Facts, ModelFacts, Whereabouts
from grpo_tui.preflight.model_findings import facts_findings
from grpo_tui.preflight.static import Launch, static_check
from tests.preflight.machines import A100, machine, shape
from tests.preflight.test_rules import BASE

GPU = machine(A100, A100)


def found(folder: Path, text: str, world: int = 1) -> list[Finding]:
    (folder / "rows.jsonl").write_text('{"prompt": "q", "solution": "1"}\n' * 40)
    file = folder / "c.yaml"
    file.write_text(text)
    inspected = inspect_config(file, world_size=world)
    return errors_of(static_check(inspected, Launch(root=folder / "run"), GPU).findings)


def test_an_adapter_folder_is_refused_by_the_quick_check_in_the_words_of_the_full_one(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(DEMO_MODEL)}))
    text = yaml.safe_dump({**BASE, "model_name_or_path": str(adapter)})
    (quick,) = found(tmp_path, text)
    assert (quick.id, quick.line) == ("model.adapter", 4)
    source, start = inspect_config(tmp_path / "c.yaml"), Launch(root=tmp_path / "run")
    full = run.check(source, start, machine=GPU, parts=("static", "model"))
    assert [f for f in full.findings if f.id == "model.adapter"] == [quick]


def test_a_key_given_twice_hides_no_other_mistake(tmp_path: Path) -> None:
    text = yaml.safe_dump(BASE) + "beta: 0.1\nlearning_rte: 1.0e-5\nbeta: 0.2\ntop_p: 7\nseed: 1\nseed: 2\n"
    assert {(f.id, f.field) for f in found(tmp_path, text)} == {
        ("config.unreadable", "beta"),
        ("config.unreadable", "seed"),
        ("config.unknown-key", "learning_rte"),
        ("config.range", "top_p"),
    }


def test_a_start_tells_every_error_that_check_tells(tmp_path: Path) -> None:
    """Mistakes of the file hide neither each other nor those of the data."""
    text = yaml.safe_dump({**BASE, "use_cpu": True, "bf16": False}) + "learning_rte: 1\nbeta: -1\n"
    found(tmp_path, text.replace("learning_rte: 1\n", "reward_weights: [1, 2]\n"))
    (tmp_path / "rows.jsonl").write_text('{"question": "q", "solution": "1"}\n' * 40)
    source, start = inspect_config(tmp_path / "c.yaml"), Launch(root=tmp_path / "run")
    errors = errors_of(run.check(source, start).findings)
    assert {f.field for f in errors} >= {"beta", "reward_weights", "grpo_tui.dataset"}
    with pytest.raises(CommandError) as refused:
        before_start(source, start, tmp_path / "c.yaml", quick=False, force=False)
    assert f"{len(errors)} errors" in str(refused.value)


NINE_HEADS = "HuggingFaceTB/SmolLM2-135M-Instruct"


@pytest.mark.parametrize(
    ("change", "world", "fix"),
    [
        ({"vllm_tensor_parallel_size": 2}, 2, 1),
        ({"vllm_tensor_parallel_size": 3}, 3, None),
        ({"vllm_tensor_parallel_size": 2, "model_name_or_path": "Qwen/Qwen2.5-0.5B-Instruct"}, 2, None),
        ({"vllm_tensor_parallel_size": 4, "model_name_or_path": "Qwen/Qwen2.5-0.5B-Instruct"}, 4, 2),
        ({"vllm_tensor_parallel_size": 2, "vllm_mode": "server"}, 2, None),
    ],
)
def test_vllm_has_to_split_the_heads_of_the_model(
    tmp_path: Path, change: dict[str, Any], world: int, fix: int | None
) -> None:
    text = yaml.safe_dump({**BASE, "model_name_or_path": NINE_HEADS, "use_vllm": True, **change})
    heads = [f for f in found(tmp_path, text, world) if f.id == "vllm.heads"]
    assert [f.fix.value for f in heads if f.fix is not None] == ([] if fix is None else [fix])


def test_a_model_that_only_the_checker_knows_is_held_against_vllm_too() -> None:
    where = Whereabouts("org/x", "hub")
    facts = Facts(model=ModelFacts(where, architecture="LlamaForCausalLM", shape=shape(heads=9, kv_heads=3)))
    grpo = {"use_vllm": True, "vllm_tensor_parallel_size": 2}
    settings = Settings({"GRPOConfig": grpo}, Section(), load_fields(), YamlDocument({}), 2)
    assert [f.id for f in facts_findings(settings, facts)] == ["vllm.heads"]


def test_a_number_worked_out_is_shown_without_the_noise_of_arithmetic() -> None:
    assert Fix("learning_rate", 8e-5 / 10).to_json()["value"] == 8e-6
    assert Fix("x", 0.1 + 0.2).value == 0.3
    assert yaml_said(8e-5 / 10) == "8e-06"
