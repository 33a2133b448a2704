"""Try values of every numeric field on the real TRL, and write `grpo_tui/config/limits.json`.

`python -m tests.config.trl_judge [FIELD …]` builds the config and the trainer on the shipped model and trains
two steps, for each value of a ladder; all fields take half an hour on one core. A value is refused when
that raises, when a weight or a logged number is not finite afterwards, or when no weight has changed. Each
try runs in a forked process.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from grpo_tui.config import ranges
from grpo_tui.config.batch import BATCH_KEYS
from grpo_tui.config.coerce import kinds_of
from grpo_tui.config.trl_fields import FieldInfo, load_fields

LIMIT_S = 30
"""Seconds of one try; a value that trains longer is not refused."""

LADDER = (
    *(-math.inf, -1000, -1, -0.5, -1e-6, 0, 1e-6, 0.5, 1, 1 + 1e-6, 2),
    *(1000, 2**31, 2**32 - 1, 2**32, 2**63, 1e300, math.inf),
)
"""Values that are tried, in order; a whole-number field gets the whole ones."""

MOST = {
    "dataloader_num_workers": 2,
    "dataloader_prefetch_factor": 100,
    "lora_r": 100,
    "max_completion_length": 100,
    "num_iterations": 10,
    "pad_to_multiple_of": 100,
}
"""The largest value that is tried, where larger ones cost memory or time in proportion."""

PLAIN: Mapping[str, Any] = {
    "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 4,
    "num_generations": 2,
    "max_completion_length": 4,
    "max_steps": 2,
    "logging_steps": 1,
    "learning_rate": 1e-3,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "seed": 7,
}

_LORA = {"use_peft": True}
READ_WITH: Mapping[str, Mapping[str, Any]] = {
    "num_train_epochs": {"max_steps": -1},
    "eval_steps": {"eval_strategy": "steps"},
    "eval_delay": {"eval_strategy": "steps", "eval_steps": 1},
    "eval_accumulation_steps": {"eval_strategy": "steps", "eval_steps": 1},
    "save_steps": {"save_strategy": "steps"},
    "save_total_limit": {"save_strategy": "steps", "save_steps": 1},
    "dataloader_prefetch_factor": {"dataloader_num_workers": 1},
    "delta": {"loss_type": "grpo"},
    "sapo_temperature_neg": {"loss_type": "sapo"},
    "sapo_temperature_pos": {"loss_type": "sapo"},
    "vespo_k_pos": {"loss_type": "vespo"},
    "vespo_lambda_pos": {"loss_type": "vespo"},
    "vespo_k_neg": {"loss_type": "vespo"},
    "vespo_lambda_neg": {"loss_type": "vespo"},
    "ref_model_mixup_alpha": {"beta": 0.1, "sync_ref_model": True, "ref_model_sync_steps": 1},
    "ref_model_sync_steps": {"beta": 0.1, "sync_ref_model": True},
    "entropy_coef_min": {"use_adaptive_entropy": True},
    "entropy_coef_max": {"use_adaptive_entropy": True},
    "entropy_coef_delta": {"use_adaptive_entropy": True},
    "entropy_target": {"use_adaptive_entropy": True},
    "num_completions_to_print": {"log_completions": True},
    "lora_r": _LORA,
    "lora_alpha": _LORA,
    "lora_dropout": _LORA,
}
"""Settings without which a field is not read."""


def _row(least: float, most: float = math.inf, **more: Any) -> dict[str, Any]:
    return {"least": least, **({"most": most} if math.isfinite(most) else {}), **more}


_VLLM = {"use_vllm": True}
_PORT = _row(1, 65535, when={**_VLLM, "vllm_mode": "server"})
UNTRIED: Mapping[str, list[dict[str, Any]]] = {
    "top_p": [_row(0, 1, above=True, when=_VLLM)],
    "top_k": [_row(0, also=[-1], when=_VLLM)],
    "min_p": [_row(0, 1, when=_VLLM)],
    "repetition_penalty": [_row(0, above=True, when=_VLLM)],
    "max_completion_length": [_row(1, when=_VLLM)],
    "temperature": [_row(0, 2, above=True, when=_VLLM)],
    "vllm_server_port": [_PORT],
    "vllm_group_port": [_PORT],
    "vllm_server_timeout": [_row(0, above=True, when={**_VLLM, "vllm_mode": "server"})],
    "vllm_gpu_memory_utilization": [_row(0, 1, above=True, when=_VLLM)],
    "vllm_max_model_length": [_row(1, when=_VLLM)],
    "vllm_tensor_parallel_size": [_row(1, when=_VLLM)],
    "vllm_importance_sampling_clip_max": [_row(0, above=True, when=_VLLM)],
    "vllm_importance_sampling_clip_min": [_row(0, when=_VLLM)],
    "vllm_importance_sampling_cap": [_row(0, above=True, when=_VLLM)],
}
"""What needs a GPU: from the checks of vLLM's `SamplingParams` and of its engine (releases 0.24 to 0.31)."""


BY_BACKEND = ("top_p", "top_k", "min_p", "repetition_penalty", "max_completion_length")
"""Sampling settings, which the one that generates checks: transformers or vLLM."""


def numeric_fields() -> list[FieldInfo]:
    """Return the fields that take a number."""
    return [info for info in load_fields().values() if kinds_of(info.annotation) & {"int", "float"}]


def ladder(info: FieldInfo, usual: object) -> Iterator[float]:
    """Give the values that are tried for a field, its usual one among them."""
    known = [usual] if isinstance(usual, int | float) and not isinstance(usual, bool) else []
    whole = "int" in kinds_of(info.annotation)
    for value in sorted({*LADDER, *known}):
        if value > MOST.get(info.name, math.inf) or (info.name.endswith("_steps") and 1 < value < 2):
            continue  # a part of a step is `rules_training`'s
        if info.name == "learning_rate" and value == 0:
            continue  # a run that only records; `rules_training` warns
        if not whole:
            yield float(value)
        elif isinstance(value, int):
            yield value


class Judge:
    """Tries settings in forked processes on a model loaded once."""

    def __init__(self) -> None:
        import torch
        import trl  # noqa: F401
        from datasets import Dataset
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from trl import GRPOTrainer  # noqa: F401

        from grpo_tui.demo import DEMO_MODEL

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
        self.rows = Dataset.from_list([{"prompt": f"What is {n} + 1?"} for n in range(8)])

    def refuses(self, settings: Mapping[str, Any]) -> str | None:
        """Return why TRL cannot train with these settings; None when it can or is slow."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            signal.alarm(LIMIT_S)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                said = self._try(settings)
            os.write(writing, pickle.dumps(said))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            written = answer.read()
        _, status = os.waitpid(pid, 0)
        if written:
            said: str | None = pickle.loads(written)
            return said
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return None if number == signal.SIGALRM else f"the process dies (signal {number})"

    def _try(self, settings: Mapping[str, Any]) -> str | None:
        if "test_split_size" in settings:
            try:
                self.rows.train_test_split(test_size=settings["test_split_size"])
            except Exception as error:
                return _said(error)
            return None
        try:
            trainer = self._train(settings)
        except (Exception, SystemExit) as error:
            return _said(error)
        import torch

        if trainer.moved == 0:
            return "In a trial no weight changed in two steps"
        for row in trainer.state.log_history:
            for name, value in row.items():
                if isinstance(value, float) and not math.isfinite(value):
                    return f"In a trial {name} was {value} after step {row['step']}"
        if not all(torch.isfinite(weight).all() for weight in trainer.model.parameters()):
            return "In a trial the weights were not finite after two steps"
        return None

    def _train(self, settings: Mapping[str, Any]) -> Any:
        from transformers import TrainerCallback
        from trl import GRPOConfig, GRPOTrainer, ModelConfig, get_peft_config

        class Stop(TrainerCallback):  # type: ignore[misc]
            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                control.should_training_stop |= state.global_step >= 2

        fields = load_fields()
        parts: dict[str, dict[str, Any]] = {"GRPOConfig": {}, "ModelConfig": {}}
        for name, value in settings.items():
            parts[fields[name].owner][name] = value
        trainer = GRPOTrainer(
            model=self.model,
            processing_class=self.tokenizer,
            reward_funcs=lambda completions, **kwargs: [float(i % 2) for i in range(len(completions))],
            args=GRPOConfig(output_dir="run", **parts["GRPOConfig"]),
            train_dataset=self.rows,
            eval_dataset=self.rows.select(range(4)) if "eval_strategy" in settings else None,
            peft_config=get_peft_config(ModelConfig(**parts["ModelConfig"])),
            callbacks=[Stop()],
        )
        trained = [weight for weight in trainer.model.parameters() if weight.requires_grad]
        before = [weight.detach().clone() for weight in trained]
        trainer.train()
        trainer.moved = sum(float((new - old).abs().sum()) for new, old in zip(trained, before, strict=True))
        return trainer


def _said(error: BaseException) -> str:
    """Return the first sentence of an error, without the value that was tried."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return (
        "TRL: "
        + re.split(r",? (?:but|and)? ?(?:is|got|the value passed|instead)\b|\. |: -?\d", text)[0].strip()
    )


def rows_of(info: FieldInfo, judge: Judge) -> list[dict[str, Any]]:
    """Return what one field takes: without other settings, and with those under which it is read."""
    usual = PLAIN.get(info.name, info.default)
    when, tried = READ_WITH.get(info.name, {}), list(ladder(info, usual))
    said = {value: judge.refuses({**PLAIN, **when, info.name: value}) for value in tried}
    refused = frozenset(value for value, why in said.items() if why)
    always = refused
    if when:
        plain = {value: judge.refuses({**PLAIN, info.name: value}) for value in refused}
        always = frozenset(value for value, why in plain.items() if why)
    rows = [_range(info, tried, always, said)] if always else []
    if info.name in BY_BACKEND:
        rows = [{**row, "when": {"use_vllm": False}} for row in rows]
    if refused - always:
        switches = {key: on for key, on in when.items() if isinstance(on, bool | str) or on == -1}
        rows.append({**_range(info, tried, refused, said), "when": switches})
    return rows


def _range(
    info: FieldInfo, tried: list[float], refused: frozenset[float], said: Mapping[float, str | None]
) -> dict[str, Any]:
    usual = PLAIN.get(info.name, info.default)
    taken = [value for value in tried if value not in refused]
    if not taken:
        raise ValueError(f"nothing is taken: {said}")
    runs: list[list[float]] = []
    for value in tried:
        if value in refused:
            runs.append([])
        else:
            if not runs:
                runs.append([])
            runs[-1].append(value)
    longest = next((run for run in runs if usual in run), max(runs, key=len))
    low, high = tried.index(longest[0]), tried.index(longest[-1])
    row: dict[str, Any] = {}
    row.update(_end("least", "above", longest[0], tried[low - 1] if low else None))
    row.update(_end("most", "below", longest[-1], tried[high + 1] if high + 1 < len(tried) else None))
    if math.inf in taken:
        row["infinite"] = True
    if info.default in taken and info.default not in longest:
        row["also"] = [info.default]
    for end, at in (("low", low - 1), ("high", high + 1)):
        why = said[tried[at]] if 0 <= at < len(tried) else None
        if why and math.isfinite(tried[at]):
            row[end] = why
    return row


def _end(name: str, without: str, last: float, refused: float | None) -> dict[str, Any]:
    """Return one end of a range: the last value taken, or the first refused where they lie apart."""
    if refused is None or math.isinf(refused):
        return {}
    beside = 1 if isinstance(last, int) and isinstance(refused, int) else 1e-5
    if abs(last - refused) > beside or (isinstance(last, float) and refused in (0, 1)):
        return {name: refused, without: True}
    return {name: last}


def words_refused(judge: Judge) -> list[str]:
    """Return the text fields in which TRL refuses a word it does not know."""
    paths = ("output_dir", "model_name_or_path", "reward_model_name_or_path", "reward_funcs")
    names = [
        info.name
        for info in load_fields().values()
        if "str" in info.annotation
        and info.owner in ("GRPOConfig", "ModelConfig")
        and info.name not in paths
        and not kinds_of(info.annotation) & {"int", "float"}
    ]
    word = "bogus"
    return [name for name in names if judge.refuses({**PLAIN, **READ_WITH.get(name, {}), name: word})]


def main() -> None:
    """Try everything and write the table."""
    judge = Judge()
    assert judge.refuses(PLAIN) is None
    only = sys.argv[1:]
    known = json.loads(ranges.FILE.read_text("utf-8")) if only else {"fields": {}, "words": []}
    fields = known["fields"]
    for info in numeric_fields():
        if (only and info.name not in only) or info.name in BATCH_KEYS:
            continue
        tried = [] if info.name.startswith(("vllm_", "ddp_")) else rows_of(info, judge)
        fields[info.name] = tried + list(UNTRIED.get(info.name, ()))
        print(info.name, json.dumps(fields[info.name]), file=sys.stderr, flush=True)
    found = {
        "versions": {name: version(name) for name in ("trl", "transformers", "peft")},
        "fields": fields,
        "words": known["words"] or words_refused(judge),
    }
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in fields.items())
    text = json.dumps(found | {"fields": "ROWS"}, indent=1).replace('"ROWS"', f"{{\n{rows}\n }}")
    ranges.FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
