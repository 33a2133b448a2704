"""The exported script: rows, rewards and numbers as our own run has them, and nothing of this package."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.export_script import (
    NoSourceError,
    SourceParts,
    _model_kwargs,
    import_lines,
    write_script,
)
from grpo_tui.config.export_stages import write_scripts
from grpo_tui.config.presets import presets
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.prompt_memory import prompt_hash
from grpo_tui.data.load import load_prompts
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.rewards import library
from grpo_tui.rewards.loading import callable_name, load_rewards

ROWS = [{"q": f"What is {n} + 1?", "why": f"I add.\n#### {n + 1}", "level": n % 3} for n in range(12)]
ROWS += [{"q": "What is 3 + 1?", "why": "I add.\n#### 4", "level": 0}, {"q": "", "why": "", "level": None}]

MINE = """
import functools

def short(completions, **kwargs):
    return [1.0 / (1 + len(str(c))) for c in completions]

def above(completions, least, level, **kwargs):
    return [float(len(str(c)) > least + l) for c, l in zip(completions, level)]

async def slow(completions, **kwargs):
    return [0.5] * len(completions)

class Judge:
    def __init__(self, bonus=0):
        self.bonus = bonus
    def __call__(self, completions, **kwargs):
        return [self.bonus + len(str(c)) for c in completions]

made = functools.partial(short)

def rows():
    return [{"prompt": f"Say {n}", "answer": str(n)} for n in range(6)]
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def config_of(folder: Path, section: str, base: str = "") -> RunConfig:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "plain.csv").write_text("prompt,answer\n" + "".join(f"Say {n},{n}\n" for n in range(8)))
    (folder / "mine.py").write_text(MINE)
    text = f"model_name_or_path: {DEMO_MODEL}\n{base}"
    text += "" if "rewards:" in section else "reward_funcs: [think_format_reward]\n"
    text += "grpo_tui:\n" + "".join(f"  {line}\n" for line in section.splitlines())
    (folder / "my.yaml").write_text(text)
    return load_config(folder / "my.yaml")


def as_module(config: RunConfig, folder: Path) -> ModuleType:
    """The script of a config, loaded without starting it; what it says must not lead back to this package."""
    file = folder / "train.py"
    text = write_script(config, file)
    file.write_text(text)
    imported = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert not [node for node in imported if "grpo_tui" in ast.unparse(node)]
    spec = importlib.util.spec_from_file_location("exported", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(rows) -> list[dict] | None:
    return None if rows is None else [dict(sorted(row.items())) for row in rows]


FROM_WHY = "columns: {prompt: q, answer: why}\nanswer: {from: why, kind: gsm8k, to: answer}"


SWAPPED = """dataset: rows.jsonl
columns: {prompt: q, why: level, level: why}
system_prompt: |
  Think.
  Then say.
answer: {from: level, kind: regex, pattern: '#### (\\d+)', to: gold}
filters: {drop_null: [level], max_prompt_tokens: 36, min_prompt_tokens: 2}"""
COPIED = """dataset: rows.jsonl
columns: {prompt: q, level: q}
filters: {drop_null: [level]}
few_shot:
  - {user: a, assistant: 'b "c"'}"""
EVERY = f"dataset: rows.jsonl\n{FROM_WHY}\nfilters: {{drop_null: true, drop_duplicates: true}}\nholdout: 3"


@pytest.mark.parametrize(
    ("section", "base"),
    [
        ("dataset: plain.csv", ""),
        ("dataset: mine.py:rows\nholdout: 2", "eval_strategy: steps\neval_steps: 1\nseed: 5\n"),
        (EVERY, ""),
        (COPIED, ""),
        (SWAPPED, ""),
        ("dataset: plain.csv\neval_dataset: mine.py:rows\nchat: true", "eval_strategy: epoch\n"),
    ],
    ids=["plain", "function", "every step", "copied", "swapped", "evaluated"],
)
def test_the_script_makes_the_rows_that_training_gets(tmp_path: Path, section: str, base: str) -> None:
    config = config_of(tmp_path, section, base)
    ours = load_prompts(config)
    train, evaluation = as_module(config, tmp_path).prompts()
    assert plain(train) == plain(ours.train)
    assert plain(evaluation) == plain(ours.eval)
    assert len(plain(train)) > 2


@pytest.mark.parametrize("splits", [False, True])
def test_the_script_loads_a_folder_that_datasets_has_saved(tmp_path: Path, splits: bool) -> None:
    from datasets import Dataset, DatasetDict

    rows = Dataset.from_list([{"prompt": f"Say {n}"} for n in range(3)])
    saved = DatasetDict(easy=rows, hard=rows.select([1])) if splits else rows
    saved.save_to_disk(str(tmp_path / "saved"))
    named = "dataset_train_split: easy\ndataset_test_split: hard\neval_strategy: epoch\n" if splits else ""
    config = config_of(tmp_path, "system_prompt: Think.", f"dataset_name: saved\n{named}")
    ours = load_prompts(config)
    train, evaluation = as_module(config, tmp_path).prompts()
    assert (plain(train), plain(evaluation)) == (plain(ours.train), plain(ours.eval))
    assert (len(train), evaluation is not None) == (3, splits)


def test_the_script_mixes_the_datasets_that_training_mixes(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"prompt": name}) + "\n")
    mixed = "datasets:\n  - {path: json, data_files: a.jsonl}\n  - {path: json, data_files: b.jsonl}\n"
    (tmp_path / "my.yaml").write_text(
        f"model_name_or_path: {DEMO_MODEL}\nreward_funcs: [think_format_reward]\n{mixed}"
    )
    config = load_config(tmp_path / "my.yaml")
    rows, test = as_module(config, tmp_path).prompts()
    assert (plain(rows), test) == ([{"prompt": "a"}, {"prompt": "b"}], None)


@pytest.mark.parametrize(
    ("base", "more"),
    [
        ("", {"dtype": "float32"}),
        ("dtype: bfloat16\nmodel_revision: v1\n", {"dtype": "bfloat16", "revision": "v1"}),
        ("attn_implementation: eager\n", {"dtype": "float32", "attn_implementation": "eager"}),
        ("trust_remote_code: true\n", {"dtype": "float32", "trust_remote_code": True}),
    ],
)
def test_the_script_loads_the_model_as_training_does(base: str, more: dict, tmp_path: Path) -> None:
    assert _model_kwargs(config_of(tmp_path, "dataset: plain.csv", base)) == more


@pytest.mark.parametrize("key", ["exclude", "only"])
def test_the_script_leaves_out_the_prompts_of_a_filter_file(tmp_path: Path, key: str) -> None:
    section = "dataset: mine.py:rows\nholdout: 2\nchat: true"
    every = plain(load_prompts(config_of(tmp_path, section, "")).train)
    some = every[:2] if key == "only" else every[:-2]
    lines = [json.dumps({"hash": prompt_hash(row["prompt"])}) for row in some]
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    config = config_of(tmp_path, f"{section}\nfilters: {{{key}: some.jsonl}}", "")
    train, _ = as_module(config, tmp_path).prompts()
    assert plain(train) == plain(load_prompts(config).train)
    assert len(plain(train)) == 2


REWARDS = """dataset: mine.py:rows
rewards:
  - mine.py:short
  - {name: brief, source: 'mine.py:short', weight: 2}
  - {name: above, source: 'mine.py:above', params: {least: 3}}
  - {source: 'mine.py:slow'}
  - {name: judge, source: 'mine.py:Judge', params: {bonus: 2}}
  - {source: 'mine.py:Judge'}
  - {name: partial, source: 'mine.py:made'}
  - {name: right, source: grpo_tui.rewards.library.NumericAnswer, params: {answer_in: last_number}}
  - {source: grpo_tui.rewards.library.JsonFormat}
  - {name: think, source: think_format_reward}
  - {name: over, source: get_soft_overlong_punishment, params: {max_completion_len: 8, soft_punish_cache: 4}}
  - name: gated
    source: grpo_tui.rewards.library.Gate
    params:
      reward: mine.py:short
      when: {source: grpo_tui.rewards.library.NumericAnswer, params: {answer_in: last_number}}
      otherwise: -1
"""


def test_the_script_has_the_rewards_that_training_has(tmp_path: Path) -> None:
    config = config_of(tmp_path, REWARDS)
    module = as_module(config, tmp_path)
    ours, theirs = load_rewards(config), module.rewards()
    assert [callable_name(reward) for reward in theirs] == [reward.name for reward in ours]
    texts = ["", "4", "The answer is 7", "<think>so</think>\n\n7", '{"a": 1}']
    texts = [[{"role": "assistant", "content": text}] for text in texts]
    batch = {
        "prompts": ["p"] * 5, "completions": texts, "answer": ["7"] * 5, "level": [0, 1, 2, 3, 4],
        "completion_ids": [[1] * n for n in (0, 3, 6, 7, 12)],
    }  # fmt: skip
    for own, exported in zip(ours, theirs, strict=True):
        if own.name == "slow":
            continue
        assert exported(**batch) == own.func(**batch), own.name
    slow = theirs[3](**batch)
    with pytest.raises(StopIteration) as given:
        slow.send(None)
    assert given.value.value == [0.5] * 5


def keywords(text: str, *names: str) -> list[str]:
    """What a script gives for these keywords, in the order of the script."""
    found = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.keyword) and one.arg in names]
    return [ast.unparse(one.value) for one in found]


@pytest.mark.parametrize(
    ("base", "weights", "given"),
    [
        ("reward_funcs: [think_format_reward]\n", (2, None, 0.5), ["[1.0, 2.0, 1.0, 0.5]"]),
        ("", (None, 3), ["[1.0, 3.0]"]),
        ("reward_funcs: [think_format_reward]\n", (None, 1), []),
        ("reward_weights: [4, 5]\n", (None, None), ["[4, 5]"]),
    ],
)
def test_the_weights_of_the_script_are_in_the_order_of_its_rewards(
    base: str, weights: tuple[float | None, ...], given: list[str], tmp_path: Path
) -> None:
    entries = [{"name": f"r{n}", "source": "mine.py:short", "weight": w} for n, w in enumerate(weights)]
    rewards = [{key: value for key, value in one.items() if value is not None} for one in entries]
    config = config_of(tmp_path, f"dataset: plain.csv\nrewards: {json.dumps(rewards)}", base)
    assert keywords(write_script(config, tmp_path / "train.py"), "reward_weights") == given


@pytest.mark.parametrize("adapter", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("reference", ["base", "stage start"])
def test_the_script_of_a_stage_loads_the_checkpoint_before_it_as_policy_and_reference(
    reference: str, adapter: bool, tmp_path: Path
) -> None:
    """The checkpoint of a LoRA run is an adapter, which cannot be the base model."""
    stages = [{"name": "a", "steps": 3}, {"name": "b", "steps": 4, "reference": reference}]
    base = f"beta: 0.1\nuse_peft: {str(adapter).lower()}\n"
    config = config_of(tmp_path, f"dataset: plain.csv\nstages: {json.dumps(stages)}", base)
    first, second = write_scripts(config, tmp_path / "train.py").values()
    started = reference == "stage start"
    assert keywords(first, "model") == [repr(str(DEMO_MODEL))]
    assert keywords(second, "model") == ["start" if started and not adapter else repr(str(DEMO_MODEL))]
    assert ("add_reference(trainer, start)" in second) == (started and adapter)
    assert keywords(second, "resume_from_checkpoint", "max_steps") == ["first + 4", "start"]


def test_every_reward_of_the_library_can_be_copied_together() -> None:
    parts = SourceParts()
    for name in library.__all__:
        parts.add(f"grpo_tui.rewards.library.{name}")
    text = "from __future__ import annotations\n" + "\n".join([*import_lines(parts.imports), *parts.texts()])
    names: dict = {}
    exec(text, names)
    assert "grpo_tui" not in text
    scores = names["NumericAnswer"]()(["<answer>1,200</answer>"], answer=["1200"])
    assert scores == [1.0]
    with pytest.raises(NoSourceError, match="no Gone in"):
        parts.add("grpo_tui.rewards.library.Gone")


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_the_script_of_every_preset_is_python_with_readable_lines(preset) -> None:
    config = inspect_config(preset.path, world_size=None).config
    texts = write_scripts(config, preset.path.parent / "train.py")
    assert len(texts) == (len(config.section.stages) or 1)
    for text in texts.values():
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        assert {"GRPOTrainer", "GRPOConfig", "prompts", "rewards"} <= names
        assert str(Path(__file__).parents[2]) not in text.replace(str(DEMO_MODEL), "")
        assert max(len(line) for line in text.splitlines()) <= 125


def test_the_script_trains_as_our_own_run_does(tmp_path: Path) -> None:
    from grpo_tui.train.build import build_trainer

    small = ["max_steps=2", "save_steps=2", "per_device_train_batch_size=16", "disable_tqdm=true"]
    small += [f"output_dir={tmp_path / 'theirs'}", "grpo_tui.filters={max_prompt_tokens: 60}"]
    script = tmp_path / "train.py"
    words = [word for setting in small for word in ("--set", setting)]
    assert main(["export", str(DEMO_CONFIG), "--format", "script", "-o", str(script), *words]) == 0
    blocked = tmp_path / "blocked" / "grpo_tui"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('the script stands alone')\n")
    ran = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(blocked.parent)},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    state = json.loads((tmp_path / "theirs" / "checkpoint-2" / "trainer_state.json").read_text())

    config = load_config(DEMO_CONFIG, small)
    trainer = build_trainer(config, load_rewards(config), load_prompts(config), tmp_path / "ours")
    trainer.train()
    assert len(state["log_history"]) == 2
    for theirs, ours in zip(state["log_history"], trainer.state.log_history, strict=False):
        same = {key for key in ours if "time" not in key and "runtime" not in key}
        assert {"loss", "reward", "rewards/correctness/mean", "rewards/format/mean"} <= same
        assert {key: theirs[key] for key in same} == {key: ours[key] for key in same}
    assert (tmp_path / "theirs" / "model.safetensors").is_file()


def test_keys_are_left_out_and_named(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, "dataset: plain.csv", "hub_token: hf_abc\nenv: {WANDB_API_KEY: k123, LEVEL: '3'}\n"
    )
    text = write_script(config, tmp_path / "train.py")
    assert "hf_abc" not in text
    assert "k123" not in text
    assert "Left out because they are secrets: WANDB_API_KEY, hub_token." in text
    assert text.index('os.environ.update({"LEVEL": "3"})') < text.index("from trl")


def test_the_command_prints_writes_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_of(tmp_path, "dataset: plain.csv\nlauncher: torchrun --nproc_per_node 2\ngpus: 1,2")
    file, script = str(tmp_path / "my.yaml"), tmp_path / "t.py"
    assert main(["export", file, "--format", "script"]) == 0
    printed = capsys.readouterr().out
    assert "Start it:  CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc_per_node 2 train.py" in printed
    assert main(["export", file, "--format", "script", "-o", str(script)]) == 0
    assert main(["export", file, "--format", "script", "-o", str(script)]) == 2
    assert "already exists" in capsys.readouterr().err
    stages = ["--set", "grpo_tui.stages=[{name: a, steps: 1}, {name: b, steps: 2}]"]
    assert main(["export", file, *stages]) == 2
    assert "one script per stage. Name them with -o train.py" in capsys.readouterr().err
    (tmp_path / "s_2.py").write_text("mine")
    assert main(["export", file, *stages, "-o", str(tmp_path / "s.py")]) == 2
    assert "s_2.py already exists" in capsys.readouterr().err
    assert not (tmp_path / "s_1.py").exists()
    assert main(["export", str(tmp_path), "--format", "script"]) == 2
    assert "no run here" in capsys.readouterr().err


def test_what_this_machine_lacks_is_no_obstacle_to_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    preset = next(each for each in presets() if each.name == "vllm_server")
    assert main(["export", str(preset.path), "--format", "script"]) == 0
    printed = capsys.readouterr().out
    assert "Start the vLLM server first: trl vllm-serve --model Qwen/Qwen2.5-1.5B-Instruct --host" in printed
    assert main(["export", str(preset.path), "--format", "script", "--set", "learning_rate=fast"]) == 2
    assert "learning_rate must be a number" in capsys.readouterr().err


def test_a_split_of_any_name_is_written_as_python_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    split = "dataset_train_split: 'a\"b'\ndataset_test_split: 'c\"d'\neval_strategy: steps\n"
    file.write_text(f"model_name_or_path: m\nreward_funcs: [accuracy_reward]\ndataset_name: d\n{split}")
    config = inspect_config(file, world_size=None).config
    assert config is not None
    told = [
        node.value
        for node in ast.walk(ast.parse(write_script(config, tmp_path / "t.py")))
        if isinstance(node, ast.Constant)
    ]
    assert {'a"b', 'c"d'} <= set(told)
