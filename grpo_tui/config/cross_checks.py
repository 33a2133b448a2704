"""Rules about several keys of a config together, each checked before anything is loaded.

Missing model, dataset or rewards; rewards and their weights; batch arithmetic; settings that cannot work
here, on this machine or at all. It knows the values, not the data or the model.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.adapters import adapter_as_model
from grpo_tui.config.batch import BATCH_KEYS, batch_findings
from grpo_tui.config.packages import package_findings
from grpo_tui.config.paths import DATA_SUFFIXES, LONGEST_HUB_NAME
from grpo_tui.config.ranges import range_findings
from grpo_tui.config.removed import SECTION
from grpo_tui.config.section import Section
from grpo_tui.config.trl_fields import FieldInfo
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.text import one_line

MOST_SHOWN = 120
"""Characters of a name in a message."""

Parts = Mapping[str, Mapping[str, Any]]


def cross_findings(
    parts: Parts,
    section: Section,
    document: YamlDocument,
    fields: Mapping[str, FieldInfo],
    refused: Sequence[Finding],
    world_size: int | None,
) -> list[Finding]:
    """Check the keys against each other.

    Args:
        parts: coerced arguments by dataclass.
        section: the section `grpo_tui:`.
        document: the file, for lines and for what was written.
        fields: all fields of TRL, for defaults.
        refused: the errors of single keys; what they explain already is not reported as missing.
        world_size: number of training processes; None leaves the batch arithmetic out.
    """
    grpo = parts["GRPOConfig"]
    explained = {f.field for f in refused} | {f.fix.field for f in refused if f.fix is not None}
    found = _model_findings(parts["ModelConfig"], document)
    found += _dataset_findings(parts, section, document)
    found += _reward_findings(parts, section, document)
    if SECTION in explained:  # a section that is called otherwise: what is missing stands there
        explained |= {"dataset_name", "reward_funcs"}
    found = [f for f in found if f.field not in explained]
    found += _unsupported_findings(grpo, document)
    found += range_findings(parts, section, document, fields)
    found += package_findings(parts, document)
    if world_size is not None and not explained & set(BATCH_KEYS):
        defaults = {name: info.default for name, info in fields.items() if info.owner == "GRPOConfig"}
        found += batch_findings(grpo, defaults, document.line, world_size)
    return found


def _model_findings(model_args: Mapping[str, Any], document: YamlDocument) -> list[Finding]:
    found = []
    if not model_args.get("model_name_or_path"):
        found.append(
            Finding(
                "config.missing-model",
                "error",
                "model_name_or_path",
                document.line("model_name_or_path"),
                "no model: set model_name_or_path to a Hub id or a folder",
                Fix("model_name_or_path", "Qwen/Qwen2.5-0.5B-Instruct"),
            )
        )
    found += _local_model_findings(model_args, document)
    if model_args.get("load_in_8bit") and model_args.get("load_in_4bit"):
        found.append(
            Finding(
                "config.conflict",
                "error",
                "load_in_8bit",
                document.line("load_in_8bit"),
                "load_in_8bit and load_in_4bit are both true; a model is loaded in one of them",
                Fix("load_in_8bit", False),
            )
        )
    return found


def _local_model_findings(model_args: Mapping[str, Any], document: YamlDocument) -> list[Finding]:
    """A model written as a path must be a folder that holds one; anything else is a name of the Hub."""
    name = str(model_args.get("model_name_or_path") or "")
    path = Path(name).expanduser()
    if not name:
        return []
    shown = one_line(name, MOST_SHOWN)
    if os.path.isdir(path):
        if os.path.isfile(path / "config.json"):
            return []
        line = document.line("model_name_or_path")
        if (adapter := adapter_as_model(name)) is not None:
            return [Finding("model.adapter", "error", "model_name_or_path", line, adapter)]
        message = f"the folder {shown} holds no model (it has no config.json)"
    elif os.path.isfile(path):
        message = f"model_name_or_path is the file {shown}; it takes a folder with config.json, or a Hub id"
    elif name.startswith(("/", "./", "../", "~")):
        message = f"there is no folder {shown}"
    elif name.count("/") > 1 or " " in name or len(name) > LONGEST_HUB_NAME:
        message = f"'{shown}' is no folder here, and no name a model of the Hub can have"
    else:
        return []
    line = document.line("model_name_or_path")
    return [Finding("config.missing-model", "error", "model_name_or_path", line, message)]


def _dataset_findings(parts: Parts, section: Section, document: YamlDocument) -> list[Finding]:
    name = parts["GRPOScriptArguments"].get("dataset_name")
    mixture = parts["DatasetMixtureConfig"].get("datasets")
    in_section = document.values.get("grpo_tui")
    asked = isinstance(in_section, dict) and in_section.get("dataset")
    found = []
    if asked and (name or mixture):
        other = "dataset_name" if name else "datasets"
        found.append(
            Finding(
                "config.conflict",
                "error",
                other,
                document.line(other),
                f"the dataset is given twice: in {other} and in grpo_tui.dataset",
                Fix(other, None),
            )
        )
    elif not (asked or name or mixture):
        found.append(
            Finding(
                "config.missing-dataset",
                "error",
                "dataset_name",
                document.line("dataset_name"),
                "no dataset: set dataset_name (Hub name or folder), datasets, or grpo_tui.dataset (a csv, "
                "jsonl, json or "
                "parquet file, or file.py:function)",
            )
        )
    elif name and not mixture and _is_no_file(str(name)):
        found.append(_no_such_file(str(name), document))
    elif name and mixture:
        found.append(
            Finding(
                "config.unused",
                "warning",
                "dataset_name",
                document.line("dataset_name"),
                "datasets and dataset_name are both set; TRL takes datasets and ignores dataset_name",
                Fix("dataset_name", None),
            )
        )
    if section.eval_dataset is not None and parts["GRPOConfig"].get("eval_strategy", "no") == "no":
        found.append(
            Finding(
                "config.unused",
                "warning",
                "grpo_tui.eval_dataset",
                document.line("grpo_tui", "eval_dataset"),
                "grpo_tui.eval_dataset is not used: eval_strategy is no",
                Fix("eval_strategy", "steps"),
            )
        )
    return found


def _is_no_file(name: str) -> bool:
    """Whether a name is that of a data file, which no dataset of the Hub has, and is not there."""
    local = "/" not in name or name.startswith(("/", "./", "../", "~"))
    return local and name.lower().endswith(DATA_SUFFIXES) and not os.path.exists(Path(name).expanduser())


def _no_such_file(name: str, document: YamlDocument) -> Finding:
    folder = Path(name).expanduser().absolute().parent
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    near = difflib.get_close_matches(Path(name).name, names, n=1)
    hint = f". Did you mean {near[0]}?" if near else ""
    message = f"dataset_name: there is no file {one_line(str(folder / Path(name).name), 200)}{hint}"
    fix = Fix("dataset_name", str(Path(name).with_name(near[0]))) if near else None
    line = document.line("dataset_name")
    return Finding("config.missing-dataset", "error", "dataset_name", line, message, fix)


def _reward_findings(parts: Parts, section: Section, document: YamlDocument) -> list[Finding]:
    script = parts["GRPOScriptArguments"]
    names = [script["reward_model_name_or_path"]] if script.get("reward_model_name_or_path") else []
    names += list(script.get("reward_funcs") or ())
    names += [entry.name for entry in section.rewards]
    in_section = document.values.get("grpo_tui")
    if not names and not (isinstance(in_section, dict) and in_section.get("rewards")):
        message = (
            "no reward: name one in reward_funcs (as accuracy_reward or my_module.my_reward), in "
            "reward_model_name_or_path, or in grpo_tui.rewards (as source: rewards.py:correct)"
        )
        return [Finding("config.missing-reward", "error", "reward_funcs", None, message)]
    weights = parts["GRPOConfig"].get("reward_weights")
    if weights is None:
        return []
    line = document.line("reward_weights")
    weighted = [entry.name for entry in section.rewards if entry.weight is not None]
    if weighted:
        message = (
            f"weights are given twice: in reward_weights and for {', '.join(weighted)} in grpo_tui.rewards. "
            "Keep one place"
        )
        return [
            Finding("config.conflict", "error", "reward_weights", line, message, Fix("reward_weights", None))
        ]
    if len(weights) != len(names):
        message = (
            f"reward_weights has {len(weights)} weight{'s' * (len(weights) != 1)} for {len(names)} "
            f"reward{'s' * (len(names) != 1)}, in this order: {', '.join(names)}"
        )
        fitted = (list(weights) + [1.0] * len(names))[: len(names)]
        return [
            Finding("config.weights", "error", "reward_weights", line, message, Fix("reward_weights", fitted))
        ]
    return []


def _unsupported_findings(grpo: Mapping[str, Any], document: YamlDocument) -> list[Finding]:
    found = []
    if grpo.get("enable_jit_checkpoint"):
        message = (
            "enable_jit_checkpoint sets a signal handler, which works only in a main thread; the trainer "
            "here runs in its "
            "own. `grpo-tui stop` finishes the step, saves and exits, so it is not needed"
        )
        found.append(("enable_jit_checkpoint", message))
    if grpo.get("auto_find_batch_size"):
        message = (
            "auto_find_batch_size shrinks the batch when memory runs out, which breaks the groups of GRPO; "
            "TRL refuses it. "
            "Lower per_device_train_batch_size instead"
        )
        found.append(("auto_find_batch_size", message))
    return [
        Finding("config.unsupported", "error", key, document.line(key), message, Fix(key, False))
        for key, message in found
    ]
