"""Names that the installed transformers understands inside a config's mappings, read from its source.

What `generate`, `from_pretrained` and the schedules take, without importing them. An installation whose
source looks otherwise gives no names, and then nothing is said about a key.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from grpo_tui.config.trl_fields import FieldsUnavailableError, parse_source


@lru_cache(maxsize=1)
def generation_names() -> frozenset[str]:
    """Settings of transformers' GenerationConfig."""
    return frozenset(_popped("generation/configuration_utils.py", "GenerationConfig", "__init__"))


@lru_cache(maxsize=1)
def sampling_names() -> frozenset[str]:
    """Settings of vLLM's SamplingParams: of the installed one, else those of the releases TRL takes."""
    try:
        body = parse_source("vllm", "sampling_params.py").body
    except FieldsUnavailableError:
        return _SAMPLING
    found = next((n for n in body if isinstance(n, ast.ClassDef) and n.name == "SamplingParams"), None)
    fields = found.body if found is not None else []
    names = {n.target.id for n in fields if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return frozenset(name for name in names if not name.startswith("_")) or _SAMPLING


_SAMPLING = frozenset(
    {
        "allowed_token_ids",
        "bad_words",
        "detokenize",
        "extra_args",
        "flat_logprobs",
        "frequency_penalty",
        "ignore_eos",
        "include_stop_str_in_output",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "min_p",
        "min_tokens",
        "n",
        "output_kind",
        "presence_penalty",
        "prompt_logprobs",
        "repetition_penalty",
        "seed",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stop",
        "stop_token_ids",
        "structured_outputs",
        "temperature",
        "top_k",
        "top_p",
    }
)


@lru_cache(maxsize=1)
def loading_names() -> frozenset[str]:
    """Arguments of `from_pretrained` that are not settings of the model's own config."""
    found = set(_popped("modeling_utils.py", "PreTrainedModel", "from_pretrained"))
    for node in _methods("modeling_utils.py", "PreTrainedModel", "from_pretrained"):
        found |= {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    return frozenset(found - {"cls"}) | _LOADING if found else frozenset()


_LOADING = frozenset(
    {
        "attn_implementation",
        "cache_dir",
        "code_revision",
        "experts_implementation",
        "force_download",
        "local_files_only",
        "proxies",
        "quantization_config",
        "revision",
        "token",
        "trust_remote_code",
        "use_cache",
        "use_safetensors",
        "weights_only",
    }
)
"""Those that are read elsewhere than in its own body."""


@lru_cache(maxsize=1)
def accelerator_names() -> frozenset[str]:
    """Fields of transformers' AcceleratorConfig."""
    return frozenset(_annotated("trainer_pt_utils.py", "AcceleratorConfig"))


@lru_cache(maxsize=1)
def continuous_batching_names() -> frozenset[str]:
    """Fields of transformers' ContinuousBatchingConfig."""
    return frozenset(_annotated("generation/configuration_utils.py", "ContinuousBatchingConfig"))


@lru_cache(maxsize=1)
def schedules() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """What each learning rate schedule takes and what of it has no default, by its name in a config.

    Without the arguments that the trainer gives itself.
    """
    tree = _tree("optimization.py")
    if tree is None:
        return {}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and _named(node.targets[0]) == "TYPE_TO_SCHEDULER_FUNCTION"):
            continue
        assert isinstance(node.value, ast.Dict)
        for key, value in zip(node.value.keys, node.value.values, strict=True):
            function = functions.get(_named(value))
            if isinstance(key, ast.Attribute) and function is not None and function.args.kwarg is None:
                found[key.attr.lower()] = _arguments(function)
    return found


_GIVEN = {"optimizer", "num_warmup_steps", "num_training_steps", "last_epoch"}


def _arguments(function: ast.FunctionDef) -> tuple[frozenset[str], frozenset[str]]:
    names = [argument.arg for argument in function.args.args]
    required = names[: len(names) - len(function.args.defaults)]
    return frozenset(set(names) - _GIVEN), frozenset(set(required) - _GIVEN)


def _tree(relative: str) -> ast.Module | None:
    try:
        return parse_source("transformers", relative)
    except FieldsUnavailableError:
        return None


def _class(relative: str, name: str) -> ast.ClassDef | None:
    tree = _tree(relative)
    nodes = tree.body if tree is not None else []
    return next((node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name), None)


def _methods(relative: str, owner: str, name: str) -> Iterator[ast.FunctionDef]:
    found = _class(relative, owner)
    for node in found.body if found is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield node


def _popped(relative: str, owner: str, method: str) -> Iterator[str]:
    """Names in `kwargs.pop("name", …)`."""
    for function in _methods(relative, owner, method):
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("pop", "get")
                and _named(node.func.value) == "kwargs"
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                yield str(node.args[0].value)


def _annotated(relative: str, owner: str) -> Iterator[str]:
    found = _class(relative, owner)
    for node in found.body if found is not None else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
