"""Build a run folder as somebody else would hand it over. Its code leaves a mark when it runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.store.spec import RunSpec
from tests.ui.recorded_run import recorded

MARKED = "import pathlib\npathlib.Path({mark!r}).touch()\n"
REWARDS = """
def correctness(completions, answer, **kwargs):
    return [float(a in str(c)) for c, a in zip(completions, answer)]

def format_reward(completions, **kwargs):
    return [float("<answer>" in str(c)) for c in completions]

def incremental_format(completions, **kwargs):
    return [str(c).count("<") / 4 for c in completions]
"""
ROWS = """
def rows():
    return [{"prompt": f"What is {n} + 2?", "answer": str(n + 2)} for n in range(12)]
"""
MODEL = """
from transformers import LlamaConfig, LlamaForCausalLM

class OwnConfig(LlamaConfig):
    pass

class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""
CONFIG = """
model_name_or_path: {model}
trust_remote_code: {trust}
use_cpu: true
bf16: false
per_device_train_batch_size: 4
num_generations: 4
max_completion_length: 8
max_steps: 1
save_steps: 1
report_to: none
grpo_tui:
  dataset: {data}
  rewards:
    - {{name: correctness, source: 'rewards.py:correctness', weight: 2.0}}
    - {{name: format_reward, source: 'rewards.py:format_reward', weight: 0.5}}
    - {{name: incremental_format, source: 'rewards.py:incremental_format', weight: 0.5}}
"""
CASES = """
rewards: ['rewards.py:format_reward']
cases:
  - {name: whole, completion: '<answer>1</answer>', prompt: a, expect: {format_reward: 1.0}}
"""


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run that this user did not start.

    Attributes:
        root: the run folder, which holds the config and all code too.
        config: the config file.
        marks: where code leaves a mark when it runs.
    """

    root: Path
    config: Path
    marks: Path

    def ran(self) -> set[str]:
        """What has run since the last time this was asked."""
        found = {mark.name for mark in self.marks.iterdir()}
        for name in found:
            (self.marks / name).unlink()
        return found


def foreign_run(root: Path, marks: Path, *, remote_code: bool = False, data_file: bool = False) -> ForeignRun:
    """Record a run that has failed, with its config and code in its folder.

    Args:
        root: the run folder.
        marks: where code leaves a mark.
        remote_code: whether the model has code of its own, and the config trusts it.
        data_file: whether the rows are a file instead of a function's.
    """
    marks.mkdir(exist_ok=True)
    made = recorded(root, "failed")
    made.close()
    for name, text in (("rewards.py", REWARDS), ("task.py", ROWS)):
        (root / name).write_text(MARKED.format(mark=str(marks / name)) + text)
    (root / "rows.jsonl").write_text(
        "".join(json.dumps({"prompt": f"What is {n} + 2?", "answer": str(n + 2)}) + "\n" for n in range(12))
    )
    model = DEMO_MODEL
    if remote_code:
        model = Path(shutil.copytree(DEMO_MODEL, root / "model"))
        (model / "own.py").write_text(MARKED.format(mark=str(marks / "model")) + MODEL)
        body = json.loads((model / "config.json").read_text())
        body["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
        (model / "config.json").write_text(json.dumps(body))
    config = root / "task.yaml"
    data = "rows.jsonl" if data_file else "task.py:rows"
    config.write_text(CONFIG.format(model=model, trust=str(remote_code).lower(), data=data))
    (root / "my.cases.yaml").write_text(CASES)
    checkpoint = root / "checkpoint-3"
    checkpoint.mkdir()
    shutil.copy(DEMO_MODEL / "model.safetensors", checkpoint)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 3}')
    RunSpec(load_config(config).to_json()).write(root / "run.json")
    return ForeignRun(root, config, marks)
