"""Numbers no run can use, packages that are not there and folders without a model are told before a start."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from grpo_tui.config.batch import BATCH_KEYS
from grpo_tui.config.packages import package_findings
from grpo_tui.config.ranges import FILE, RANGES, Range, limits
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.config.run_config import ConfigError
from grpo_tui.config.section import Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import load_fields
from grpo_tui.config.yaml_lines import parse_mapping
from grpo_tui.core.findings import Finding
from grpo_tui.preflight.static import Launch, static_check
from tests.config.trl_judge import PLAIN, READ_WITH, Judge, numeric_fields
from tests.preflight.machines import A100, machine

GOOD = "model_name_or_path: some/model\ndataset_name: some/data\nreward_funcs: [accuracy_reward]\n"


def faults(folder: Path, text: str) -> list[Finding]:
    file = folder / "run.yaml"
    file.write_text(text)
    try:
        return list(load_config(file).findings)
    except ConfigError as error:
        return list(error.findings)


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("max_steps", "0", -1),
        ("max_steps", "-5", -1),
        ("num_train_epochs", "0", 3.0),
        ("learning_rate", ".nan", 1e-6),
        ("learning_rate", "-1.0", 1e-6),
        ("temperature", "0", 1.0),
        ("temperature", ".inf", 1.0),
        ("max_completion_length", "0", 512),
        ("num_iterations", "0", 1),
        ("beta", "-0.1", 0.0),
        ("top_p", "7", 1.0),
        ("seed", "-1", 42),
        ("seed", "99999999999", 42),
        ("logging_steps", "0", 10),
        ("lora_r", "0", 16),
        ("reward_weights", "[.nan]", [1.0]),
    ],
)
def test_a_number_no_run_can_use_is_refused_with_its_line(
    tmp_path: Path, name: str, value: str, fix: float | None
) -> None:
    (found,) = faults(tmp_path, GOOD + f"{name}: {value}\n")
    assert (found.id, found.field, found.line) == ("config.range", name, 4)
    assert (found.fix.value if found.fix else None) == fix


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("temperature: 0.001", "temperature must be from 0.01 to 100; it is 0.001"),
        ("temperature: 0.001", "below it every completion of a prompt is identical"),
        ("temperature: 101", "above it completions are random tokens"),
        ("top_p: 0", "top_p must be above 0 and at most 1; it is 0"),
        ("top_p: 0", "every completion of a prompt would be identical"),
        ("max_steps: -5", "max_steps must be 1 or more, or -1; it is -5"),
        ("max_steps: -5", "-1 trains num_train_epochs epochs"),
    ],
)
def test_a_number_out_of_its_range_says_the_range_and_what_is_wrong_beyond_it(
    tmp_path: Path, line: str, says: str
) -> None:
    (found,) = faults(tmp_path, GOOD + line + "\n")
    assert says in found.message


@pytest.mark.parametrize(
    ("allowed", "value", "words"),
    [
        (Range(0, 1), 2, "from 0 to 1"),
        (Range(0, 1, above=True), 0, "above 0 and at most 1"),
        (Range(0, 1, below=True), 1, "0 or more and below 1"),
        (Range(1), 0, "1 or more"),
        (Range(0, above=True, also=(-1,)), 0, "above 0, or -1"),
        (Range(most=5), 6, "at most 5"),
        (Range(0, 2**32 - 1), -1, "0 or more"),  # nobody comes near the limit
        (Range(0, 2**32 - 1), 2**33, "from 0 to 4294967295"),
        (Range(), math.nan, "finite"),
    ],
)
def test_a_range_in_words_names_the_limits_that_matter(allowed: Range, value: float, words: str) -> None:
    assert not allowed.holds(value)
    assert allowed.words(value) == words


@pytest.mark.parametrize(
    "line",
    ["max_steps: -1", "max_grad_norm: .inf", "top_p: 1.0", "save_strategy: 'no'\nsave_steps: 0", "beta: 0.0"],
)
def test_numbers_with_a_meaning_pass(tmp_path: Path, line: str) -> None:
    assert faults(tmp_path, GOOD + line + "\n") == []


def test_a_number_that_fills_lines_is_told_in_short(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, GOOD + f"seed: 1{'0' * 40}\n")
    assert found.message.startswith("seed must be from 0 to 4294967295; it is 1e+40")


def test_a_weight_in_the_section_must_be_finite(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("def f(completions, **kw): return [0.0] * len(completions)\n")
    text = GOOD.replace("reward_funcs: [accuracy_reward]\n", "")
    (found,) = faults(tmp_path, text + "grpo_tui:\n  rewards:\n    - source: r.py:f\n      weight: .inf\n")
    assert (found.field, found.line) == ("grpo_tui.rewards.0.weight", 6)


def test_trls_own_defaults_lie_within_the_ranges() -> None:
    fields = load_fields()
    ranges = [*RANGES.items(), *((name, each) for name, rows in limits().items() for each in rows)]
    assert [name for name, _ in ranges if name not in fields] == []
    outside = [
        name
        for name, allowed in ranges
        if isinstance(fields[name].default, int | float) and not allowed.holds(fields[name].default)
    ]
    assert outside == []


def test_every_numeric_field_was_tried_on_trl() -> None:
    names = {info.name for info in numeric_fields()}
    assert names == {*limits(), *BATCH_KEYS} - {"eval_strategy"}


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


TRIED: list[tuple[str, float, bool]] = [
    ("top_k", -1, False),
    ("top_k", 0, True),
    ("min_p", 1.5, False),
    ("adam_beta2", 1.0, False),
    ("num_iterations", 0, False),
    ("warmup_steps", -2, False),
    ("repetition_penalty", 0.0, False),
    ("lora_dropout", 0.5, True),
    ("lora_dropout", 1.0, False),
    ("entropy_target", 2.0, True),
]


@pytest.mark.parametrize(("name", "value", "taken"), TRIED)
def test_a_value_of_the_table_is_taken_or_refused_by_trl_as_it_says(
    judge: Judge, tmp_path: Path, name: str, value: float, taken: bool
) -> None:
    settings = {**READ_WITH.get(name, {}), name: value}
    assert (judge.refuses({**PLAIN, **settings}) is None) == taken
    text = GOOD + "".join(f"{key}: {json.dumps(each)}\n" for key, each in settings.items())
    assert [f.field for f in faults(tmp_path, text) if f.id == "config.range"] == [name] * (not taken)


def test_who_generates_says_what_it_takes(tmp_path: Path) -> None:
    def said(text: str) -> list[str]:
        return [f.message for f in faults(tmp_path, GOOD + text) if f.id == "config.range"]

    assert "without vLLM" in said("top_k: -1\n")[0]
    assert "generation_kwargs.top_k" in said("generation_kwargs: {top_k: -1}\n")[0]
    assert said("top_k: -1\nuse_vllm: true\n") == []
    assert "at most 2 with vLLM" in said("temperature: 3\nuse_vllm: true\n")[0]
    assert said("num_train_epochs: 0\nmax_steps: 5\n") == []
    assert "is not a number" in said("eval_delay: .nan\n")[0]


@pytest.mark.parametrize("name", json.loads(FILE.read_text())["words"])
def test_a_word_that_trl_does_not_know_is_refused_before_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "c.yaml").write_text(GOOD + f"{name}: bogus\n")
    found = static_check(
        inspect_config(tmp_path / "c.yaml"), Launch(root=tmp_path / "run"), machine(A100)
    ).findings
    assert name in {f.field for f in found if f.severity == "error"}


@pytest.mark.parametrize(
    ("text", "field", "package"),
    [
        ("use_vllm: true", "use_vllm", "vllm"),
        ("report_to: [wandb]", "report_to", "wandb"),
        ("use_liger_kernel: true", "use_liger_kernel", "liger_kernel"),
    ],
)
def test_a_package_that_is_asked_for_and_missing_is_told_with_the_line_that_installs_it(
    text: str, field: str, package: str
) -> None:
    document = parse_mapping("a: 1\n" + text)
    owner = load_fields()[field].owner
    settings = Settings({owner: document.values}, Section(), load_fields(), document)
    (found,) = package_findings(settings, lambda name: False)
    assert (found.field, found.line, found.severity) == (field, 2, "error")
    assert "pip install" in found.message
    assert package_findings(settings, lambda name: name == package) == []


@pytest.mark.parametrize("name", ["/nope", "./nope", "~/nope-nope", "a b/c", "a/b/c", "empty", "file.bin"])
def test_a_model_that_is_neither_a_folder_with_one_nor_a_name_of_the_hub_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.bin").touch()
    (found,) = faults(tmp_path, GOOD.replace("some/model", name))
    assert (found.field, found.line) == ("model_name_or_path", 1)


def test_a_batch_too_large_to_count_through_is_answered_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, GOOD + "per_device_train_batch_size: 1000000000001\n")
    assert [f.id for f in found] == ["batch.indivisible"]
