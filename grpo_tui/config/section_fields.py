"""The keys of the section `grpo_tui:` told as fields, with type, default and help, as TRL's own are.

What the section means is `section.py`'s business; this is what a form and a search say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from grpo_tui.config.section import SECTION_KEYS
from grpo_tui.config.trl_fields import FieldInfo

SECTION = "grpo_tui"


def _key(annotation: str, default: object, text: str) -> tuple[str, object, str]:
    return annotation, default, text


_KEYS: Mapping[str, tuple[str, object, str]] = {
    "columns": _key(
        "dict[str, str] | None",
        None,
        "Renames columns of the dataset: wanted name to its name there, as {prompt: question}. GRPO reads "
        "prompt; every other column reaches the rewards under its name.",
    ),
    "system_prompt": _key(
        "str | None",
        None,
        "Text put before every prompt. It makes message lists of the prompts, so that the model's chat "
        "template is used.",
    ),
    "few_shot": _key(
        "list[dict] | None",
        None,
        "Worked examples between system prompt and prompt, each {user, assistant}.",
    ),
    "answer": _key(
        "dict[str, str] | None",
        None,
        "Cuts the gold answer out of a longer text before training: {from, kind, to, tag, pattern}; kind is "
        "gsm8k, boxed, tag or regex.",
    ),
    "dataset": _key(
        "str | None",
        None,
        "The training rows: a csv, tsv, jsonl, json or parquet file beside the config, or file.py:function.",
    ),
    "eval_dataset": _key(
        "str | None",
        None,
        "The rows of an evaluation, as dataset; read when eval_strategy is not no.",
    ),
    "filters": _key(
        "dict[str, Any] | None",
        None,
        "Rows left out and counted: {min_prompt_tokens, max_prompt_tokens, drop_null, drop_duplicates}.",
    ),
    "probe_prompts": _key(
        "dict[str, Any] | None",
        None,
        "Prompts answered and scored every so many steps, beside training: {source, every, prompts, count, "
        "temperature}; source is holdout, a data file, file.py:function, or a list of texts.",
    ),
    "holdout": _key(
        "int",
        0,
        "Rows set aside by seed and never trained on; they show before and after.",
    ),
    "chat": _key(
        "bool | None",
        None,
        "Whether string prompts become message lists; by default when there is a "
        "system prompt or an example.",
    ),
    "rewards": _key(
        "list[dict] | None",
        None,
        "Reward functions that TRL's command cannot name: a list of {name, source, weight, params}; "
        "source is file.py:function, a dotted path, a name of TRL or a reward model.",
    ),
    "launcher": _key(
        "str | None",
        None,
        "The words that start several ranks, as accelerate launch --num_processes 2 or torchrun.",
    ),
    "gpus": _key(
        "list[str] | None",
        None,
        "The GPUs the run is put on, by number or UUID of nvidia-smi, as [2, 3].",
    ),
}

ENV_FIELD = FieldInfo(
    "env",
    SECTION,
    "dict[str, str] | None",
    None,
    "Environment variables of the training process, set before anything else, as {WANDB_PROJECT: maths}.",
)


def section_fields() -> Mapping[str, FieldInfo]:
    """Return the keys of the section by their dotted names, and `env`, in the section's order."""
    fields = {}
    for key in SECTION_KEYS:
        annotation, default, text = _KEYS.get(key, ("Any", None, ""))
        fields[f"{SECTION}.{key}"] = FieldInfo(f"{SECTION}.{key}", SECTION, annotation, default, text)
    return MappingProxyType({**fields, "env": ENV_FIELD})
