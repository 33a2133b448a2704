"""A config file becomes a RunConfig, or every fault in it is told with its line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grpo_tui.config.resolve import inspect_saved, load_config, startable
from grpo_tui.config.run_config import ConfigError, RunConfig, redacted

GOOD = "model_name_or_path: some/model\ndataset_name: some/data\nreward_funcs: [accuracy_reward]\n"


def write(folder: Path, text: str, name: str = "run.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def errors(folder: Path, text: str, overrides: tuple[str, ...] = ()) -> dict[str | None, object]:
    with pytest.raises(ConfigError) as caught:
        load_config(write(folder, text), overrides)
    return {finding.field: finding for finding in caught.value.findings if finding.severity == "error"}


def test_keys_are_sorted_into_trls_dataclasses_and_only_what_was_set_is_kept(tmp_path) -> None:
    config = load_config(write(tmp_path, GOOD + "learning_rate: 1.0e-5\nuse_peft: true\nlora_r: 4\n"))
    assert config.model == "some/model"
    assert config.grpo == {"learning_rate": 1e-5}
    assert config.model_args == {"model_name_or_path": "some/model", "use_peft": True, "lora_r": 4}
    assert config.script == {"dataset_name": "some/data", "reward_funcs": ["accuracy_reward"]}
    assert config.mixture == {}
    assert config.findings == ()


def test_a_number_on_the_command_line_is_read_without_a_notice_about_the_file(tmp_path) -> None:
    given = ("learning_rate=1e-6", "model_init_kwargs.rope_theta=1e4")
    config = load_config(write(tmp_path, GOOD + "learning_rate: 1e-5\n"), given)
    assert config.grpo["learning_rate"] == 1e-6
    assert config.findings == ()


def test_text_that_yaml_leaves_as_text_is_coerced_with_a_notice_and_its_line(tmp_path) -> None:
    text = GOOD + 'learning_rate: 1e-5\nlog_completions: "no"\nnum_generations: "8"\n'
    config = load_config(write(tmp_path, text))
    assert config.grpo == {"learning_rate": 1e-5, "log_completions": False, "num_generations": 8}
    assert [(f.severity, f.field, f.line) for f in config.findings] == [
        ("info", "learning_rate", 4),
        ("info", "log_completions", 5),
        ("info", "num_generations", 6),
    ]


def test_plain_numbers_inside_a_mapping_are_read_and_quoted_ones_left(tmp_path) -> None:
    text = GOOD + "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr: 1e-7, name: '1e-7'}\n"
    config = load_config(write(tmp_path, text))
    assert config.grpo["lr_scheduler_kwargs"] == {"min_lr": 1e-7, "name": "1e-7"}


def test_all_faults_are_reported_at_once_with_line_and_fix(tmp_path) -> None:
    found = errors(
        tmp_path,
        "learning_rte: 1.0e-5\nnum-generations: 4\ntrainer:\n  beta: 0.04\nmax_prompt_length: 512\n"
        "loss_type: bogus\nsystem_prompt: hi\nnum_processes: 2\nmodel: some/model\n",
    )
    assert (found["learning_rte"].line, found["learning_rte"].fix.field) == (1, "learning_rate")
    assert (found["num-generations"].line, found["num-generations"].fix.field) == (2, "num_generations")
    assert "not nested" in found["trainer"].message
    assert found["trainer"].fix.to_json() == {"field": "beta", "value": 0.04}
    assert "filter" in found["max_prompt_length"].message
    assert found["loss_type"].line == 6
    assert found["system_prompt"].fix.field == "grpo_tui.system_prompt"
    assert "accelerate" in found["num_processes"].message
    assert found["model"].fix.field == "model_name_or_path"
    assert "model_name_or_path" not in found  # explained by the key `model` already
    assert "dataset_name" in found
    assert "reward_funcs" in found


def test_a_key_of_trl_at_any_depth_of_an_unknown_one_is_told_to_stand_at_the_margin(tmp_path: Path) -> None:
    found = errors(tmp_path, "training: {args: {beta: 0.1}, other: [1]}\n")["training"]
    assert "Move beta to the top level" in found.message
    assert found.fix.to_json() == {"field": "beta", "value": 0.1}


@pytest.mark.parametrize("lines", ["lr: 1e-6\n", "trainer: {learning_rate: 1e-6}\n"])
def test_a_moved_value_that_yaml_leaves_as_text_is_a_number_where_one_belongs(
    lines: str, tmp_path: Path
) -> None:
    fix = errors(tmp_path, GOOD + lines)[lines.partition(":")[0]].fix
    assert fix.to_json() == {"field": "learning_rate", "value": 1e-6}


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ("max_prompt_length: 512", None),
        ("overwrite_output_dir: true", None),
        ("logging_dir: logs", None),
        ("vllm_device: auto", None),
        ("warmup_ratio: 0.1", ("warmup_steps", 0.1)),
        ("evaluation_strategy: steps", ("eval_strategy", "steps")),
        ("vllm_guided_decoding_regex: a+", ("vllm_structured_outputs_regex", "a+")),
        ("torch_dtype: bfloat16", ("dtype", "bfloat16")),
    ],
)
def test_a_removed_key_says_what_to_use(tmp_path, line: str, now: tuple | None) -> None:
    key = line.partition(":")[0]
    finding = errors(tmp_path, GOOD + line + "\n")[key]
    assert finding.id == "config.removed-key"
    assert f"`{key}`" in finding.message
    assert finding.message.startswith(("Remove ", "Rename ", "Use ", "Set "))
    assert (finding.fix.field, finding.fix.value) == (now or (key, None))


def test_no_key_that_the_installed_trl_still_has_is_called_removed() -> None:
    from grpo_tui.config.meant import LAUNCHER_KEYS, OTHER_NAMES, REMOVED
    from grpo_tui.config.trl_fields import load_fields

    fields = set(load_fields())
    assert not fields & set(REMOVED)
    assert not fields & LAUNCHER_KEYS
    assert not fields & set(OTHER_NAMES)
    assert set(OTHER_NAMES.values()) <= fields
    assert {gone.renamed_to for gone in REMOVED.values() if gone.renamed_to} <= fields


def test_torch_dtype_inside_model_init_kwargs_is_refused_since_it_is_silently_ignored(tmp_path) -> None:
    found = errors(tmp_path, GOOD + "model_init_kwargs:\n  torch_dtype: bfloat16\n")
    finding = found["model_init_kwargs.torch_dtype"]
    assert finding.line == 5
    assert finding.fix.to_json() == {"field": "model_init_kwargs.dtype", "value": "bfloat16"}


def test_a_fix_can_be_applied_as_an_override(tmp_path) -> None:
    file = write(tmp_path, GOOD + "per_device_train_batch_size: 6\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    fix = caught.value.findings[0].fix
    assert load_config(file, [f"{fix.field}={fix.value}"]).grpo[fix.field] == fix.value


def test_the_error_reads_as_a_line_with_file_and_place_and_a_fix(tmp_path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, GOOD + "learning_rte: 1.0e-5\n"))
    assert str(caught.value) == (
        "run.yaml:4: unknown key learning_rte. Did you mean learning_rate?\n  fix: learning_rate: 1.0e-5"
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("beta: 1\nbeta: 2\n", r"run.yaml:2: duplicate key beta \(lines 1 and 2\)"),
        ("grpo_tui:\n\tholdout: 1\n", "run.yaml:2: the line is indented with a tab"),
        ("just text\n", "run.yaml:1: the file must be a mapping"),
        ("a: " + "x" * 1_000_000, "larger than 1 MB, too big for a config"),
    ],
    ids=["key twice", "tab", "no mapping", "large"],
)
def test_a_file_that_is_no_config_is_refused_with_its_line(tmp_path, text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        load_config(write(tmp_path, text))


def test_a_missing_file_and_a_folder_are_refused_in_a_sentence(tmp_path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("gone.jsonl", True),
        ("./gone.csv", True),
        ("/nowhere/gone.parquet", True),
        ("org/rows.jsonl", False),
        ("org/rows", False),
        ("rows", False),
    ],
)
def test_a_dataset_is_a_missing_file_when_its_name_can_be_nothing_of_the_hub(tmp_path, name, missing) -> None:
    found = errors(tmp_path, f"model_name_or_path: m\ndataset_name: {name}\n")
    told = found.get("dataset_name")
    assert (told is not None and "there is no file" in told.message) is missing


def test_a_name_too_long_for_a_file_hides_no_other_fault(tmp_path) -> None:
    long = "x" * 5000
    text = f"model_name_or_path: {long}\ndataset_name: {long}\ndeepspeed: {long}\nlearning_rate: fast\n"
    text += f"grpo_tui:\n  rewards:\n    - source: {long}.py:f\n"
    found = errors(tmp_path, text)
    assert {"model_name_or_path", "learning_rate", "grpo_tui.rewards.0.source"} <= set(found)
    assert all(len(finding.message) < 400 for finding in found.values())


def test_overrides_are_yaml_may_be_dotted_and_have_no_line(tmp_path) -> None:
    write(tmp_path, "def f(completions, **kw): return [0.0] * len(completions)\n", "r.py")
    file = write(tmp_path, GOOD + "beta: 0.1\ngrpo_tui:\n  rewards:\n    - source: r.py:f\n")
    config = load_config(
        file,
        [
            "beta=0.2",
            "grpo_tui.holdout=8",
            "grpo_tui.rewards.0.weight=2",
            "model_init_kwargs.dtype=float32",
            "learning_rate=1e-6",
            "report_to=[tensorboard]",
        ],
    )
    assert config.grpo["beta"] == 0.2
    assert config.section.holdout == 8
    assert config.section.rewards[0].weight == 2.0
    assert config.grpo["model_init_kwargs"] == {"dtype": "float32"}
    assert config.grpo["learning_rate"] == 1e-6
    assert config.grpo["report_to"] == ["tensorboard"]
    assert config.raw["beta"] == 0.2
    with pytest.raises(ConfigError) as misspelt:
        load_config(file, ["loging_steps=2"])
    assert [(found.field, found.line) for found in misspelt.value.findings] == [("loging_steps", None)]


@pytest.mark.parametrize(
    ("override", "word"),
    [
        ("beta", "write it as KEY=VALUE"),
        ("beta=[1", "invalid YAML"),
        ("learning_rte=1", "Did you mean learning_rate"),
        ("dataset_name.x=1", "single value"),
        ("reward_funcs.7=x", "is a list of 1"),
        ("reward_funcs.1=x", "reward_funcs is a list of 1 and has no item 1"),
        ("reward_funcs.1.weight=2", "is a list of 1 and has no item 1"),
        ("reward_funcs.first=x", "is a list of 1 and has no item first"),
        ("reward_funcs.0.weight=2", "reward_funcs.0 is a single value and has no weight"),
    ],
)
def test_a_wrong_override_is_refused(tmp_path, override: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        load_config(write(tmp_path, GOOD), [override])


def test_the_config_survives_json_with_keys_that_are_not_text(tmp_path) -> None:
    write(tmp_path, "def f(completions, **kw): return [0.0] * len(completions)\n", "r.py")
    text = (
        "model_name_or_path: m\ndataset_name: d\nmodel_init_kwargs: {max_memory: {0: 20GB}}\nmin_p: null\n"
        "env: {A: 1}\ngrpo_tui:\n  system_prompt: hi\n  few_shot: [{user: a, assistant: b}]\n"
        "  answer: {kind: regex, pattern: '(\\d+)'}\n  columns: {prompt: q}\n  holdout: 3\n"
        "  rewards: [{name: g, source: 'r.py:f', weight: 2, params: {k: 1}}]\n"
    )
    config = load_config(write(tmp_path, text))
    assert config.grpo["model_init_kwargs"] == {"max_memory": {0: "20GB"}}
    assert RunConfig.from_json(json.dumps(config.to_json())) == config
    assert RunConfig.from_json(config.to_json()) == config


def test_the_record_holds_no_token(tmp_path) -> None:
    config = load_config(
        write(tmp_path, GOOD + "hub_token: hf_abc\nenv: {WANDB_API_KEY: w123, MODE: fast}\n")
    )
    text = json.dumps(config.to_record())
    assert "hf_abc" not in text
    assert "w123" not in text
    assert "fast" in text
    assert config.grpo["hub_token"] == "hf_abc"


@pytest.mark.parametrize(
    "key", ["hub_token", "api-key", "apikey", "apiKey", "hfToken", "HF_TOKEN", "password"]
)
def test_a_secret_is_known_by_its_key_in_any_style(key: str) -> None:
    assert redacted({"env": {key: "hf_abc"}}) == {"env": {key: "(not kept)"}}


@pytest.mark.parametrize("key", ["tokenizer", "max_tokens", "keyboard", "monkey", "keys_per_row"])
def test_a_key_that_only_resembles_one_is_kept(key: str) -> None:
    assert redacted({key: "text"}) == {key: "text"}


def test_models_and_data_beside_the_config_become_absolute_and_hub_names_stay(tmp_path, monkeypatch) -> None:
    away = tmp_path / "away"
    away.mkdir()
    monkeypatch.chdir(away)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    (tmp_path / "gpt2").mkdir()  # a run folder of that name is no model
    (tmp_path / "d").mkdir()
    text = "model_name_or_path: {}\ndataset_name: {}\nreward_funcs: [accuracy_reward]\n"
    config = load_config(write(tmp_path, text.format("m", "d")))
    assert config.model == str(tmp_path / "m")
    assert config.script["dataset_name"] == str(tmp_path / "d")
    config = load_config(write(tmp_path, text.format("gpt2", "openai/gsm8k")))
    assert config.model == "gpt2"
    assert config.script["dataset_name"] == "openai/gsm8k"


def test_a_folder_in_the_working_folder_means_what_it_means_to_trl(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").touch()
    (tmp_path / "configs").mkdir()
    config = load_config(write(tmp_path / "configs", GOOD.replace("some/model", "./m")))
    assert config.model == os.path.join(tmp_path, "m")
    assert config.cwd == str(tmp_path)


@pytest.mark.parametrize("value", ["true", "'true'"])
def test_resume_from_checkpoint_in_the_file_is_kept(tmp_path, value: str) -> None:
    assert load_config(write(tmp_path, GOOD + f"resume_from_checkpoint: {value}\n")).grpo == {
        "resume_from_checkpoint": True
    }


@pytest.mark.parametrize("key", ["enable_jit_checkpoint", "auto_find_batch_size"])
def test_settings_that_cannot_work_are_refused(tmp_path, key: str) -> None:
    assert errors(tmp_path, GOOD + f"{key}: true\n")[key].fix.value is False
    load_config(write(tmp_path, GOOD + f"{key}: false\n"))


def test_weights_must_fit_the_rewards_and_stand_in_one_place(tmp_path) -> None:
    write(tmp_path, "def f(completions, **kw): return [0.0] * len(completions)\n", "r.py")
    both = GOOD + "grpo_tui:\n  rewards: [{name: g, source: 'r.py:f'}]\n"
    assert load_config(write(tmp_path, both + "reward_weights: [1, 2]\n")).reward_count == 2
    found = errors(tmp_path, both + "reward_weights: [1]\n")["reward_weights"]
    assert "accuracy_reward, g" in found.message
    assert found.fix.value == [1, 1.0]
    twice = both.replace("'r.py:f'", "'r.py:f', weight: 3") + "reward_weights: [1, 2]\n"
    assert "set twice" in errors(tmp_path, twice)["reward_weights"].message


def test_a_mixture_is_checked_and_its_files_made_absolute(tmp_path) -> None:
    write(tmp_path, '{"prompt": "a"}\n', "a.jsonl")
    base = "model_name_or_path: m\nreward_funcs: [accuracy_reward]\ndatasets:\n  - path: json\n"
    config = load_config(write(tmp_path, base + "    data_files: a.jsonl\n"))
    assert config.mixture["datasets"] == [{"path": "json", "data_files": str(tmp_path / "a.jsonl")}]
    found = errors(tmp_path, base + "    data_file: a.jsonl\n")["datasets.0.data_file"]
    assert (found.line, found.fix.field) == (5, "datasets.0.data_files")


def test_environment_variables_of_the_file_are_kept_apart(tmp_path) -> None:
    config = load_config(write(tmp_path, GOOD + "env: {TOKENIZERS_PARALLELISM: false, N: 2}\n"))
    assert config.env == {"TOKENIZERS_PARALLELISM": "False", "N": "2"}


def test_batch_arithmetic_uses_the_planned_world_size(tmp_path) -> None:
    file = write(tmp_path, GOOD + "per_device_train_batch_size: 1\n")
    with pytest.raises(ConfigError, match="not a multiple of num_generations 8"):
        load_config(file)
    load_config(file, world_size=8)
    load_config(file, world_size=None)


def test_a_saved_config_is_reloaded_the_same_from_anywhere_without_its_file(tmp_path, monkeypatch) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    for folder in (home, home / "m", away, away / "m"):
        folder.mkdir()
    for folder in (home, away):
        (folder / "m" / "config.json").touch()
    monkeypatch.chdir(home)
    write(home, "def f(completions, **kw): return [0.0] * len(completions)\n", "r.py")
    text = (
        "model_name_or_path: m\ndataset_name: d\nlearning_rate: 1e-5\n"
        "lr_scheduler_kwargs: {min_lr: 1e-7, s: '1e-7'}\n"
        "grpo_tui:\n  rewards: [{source: 'r.py:f', params: {slope: 1e-2}}]\n"
    )
    file = write(home, text)
    saved = RunConfig.from_json(json.dumps(load_config(file).to_json()))
    file.unlink()
    monkeypatch.chdir(away)
    again = startable(inspect_saved(saved, ["beta=0.5"]))
    assert again.grpo == {**saved.grpo, "beta": 0.5}
    assert again.grpo["lr_scheduler_kwargs"] == {"min_lr": 1e-7, "s": "1e-7"}
    assert (again.model, again.cwd) == (str(home / "m"), str(home))
    assert again.section.rewards[0].params == {"slope": 0.01}
    with pytest.raises(ConfigError, match="Did you mean beta"):
        startable(inspect_saved(saved, ["betta=0.5"]))


def test_a_file_that_is_no_config_at_all_is_answered_at_once_and_shortly(tmp_path) -> None:
    found = errors(tmp_path, GOOD + "".join(f"key_{n}_of_something: {n}\n" for n in range(20_000)))
    assert "19980 more unknown keys" in str(found[None].message)
    assert len(found) == 21
    with pytest.raises(ConfigError, match="too big for a config"):
        load_config("/dev/zero")


def test_what_a_file_holds_reaches_no_terminal_as_control_bytes(tmp_path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(
            write(tmp_path, GOOD + '"\\x1b]52;c;QUFB\\x07": "\\x1b[31m\\x9b"\nloss_type: "\\x1b[2J"\n')
        )
    assert not any((ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 for char in str(caught.value))
