"""Merge an adapter in a child process: `python -m grpo_tui.ship.merge_child FOLDER REQUESTS ANSWERS`.

Runs on the CPU in float32: base and adapter are loaded, each layer is merged, and the sum is rounded once to
the requested dtype. The written model is loaded again and compared with the adapter on its base. An adapter
trained on a quantized base is merged into the base as stored, and compared with the quantized one too.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from grpo_tui.children.serving import Send, serve_alone
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.exchange import mapping
from grpo_tui.core.text import one_line
from grpo_tui.data.transformers_import import import_transformers
from grpo_tui.preflight.child.model import on_meta
from grpo_tui.rewards.lab_child.loaded import init_arguments
from grpo_tui.ship.merging import BITS, DTYPES, DifferentError, MergeError, refuse_no_room

TEXTS = (
    "Question: What is 12 + 30? Answer: 12 + 30 = 42.",
    "The capital of France is Paris, and the capital of Japan is Tokyo.",
    "def add(a, b):\n    return a + b\n",
)
MOST_TOKENS = 64
"""Tokens compared per text. Each has a row of logits as wide as the vocabulary."""
LARGEST_DIFFERENCE = 1e-3
"""Largest accepted difference of a logit in float32. Merging itself causes about 1e-4."""
LARGEST_RATIO = 3.0
"""Largest accepted ratio of a rounded model's KL to that of the rounded base."""
LEAST_KL = 1e-3
"""KL in nats per token that a rounded model may always lose. The base is a poor guide for a policy that is
less certain. Correct merges of 60 random adapters of the demo's model lost 0.0001 to 0.0008 in bfloat16, up
to 6.6 times what the base lost.
"""
OF_TRAINING = ("dtype", "torch_dtype", "attn_implementation", "quantization_config", "use_cache")
"""Loading arguments that affect how a model runs, not which model it is."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two models on the same tokens; see `merging.Merged`."""

    tokens: int
    max_difference: float
    kl: float
    top1: float


class Child:
    """Serves one parent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._model_args: Mapping[str, Any] = {}

    def merge(
        self,
        base: str,
        adapter: str,
        tokenizer: str,
        dtype: str,
        texts: Sequence[str],
        config: Mapping[str, Any] | None,
        folder: str,
    ) -> dict[str, Any]:
        """Merge, write the model into an empty folder, and check it, with results as in `merging.Merged`.

        Args:
            texts: Texts to check it on, besides `TEXTS`.
            config: Config of the adapter's run.

        Raises:
            MergeError: It cannot be merged.
            DifferentError: The written model is not the same policy.
        """
        arguments = _prepared(config)
        self._model_args = mapping(mapping(config).get("model_args"))
        try:
            with _quiet():
                return self._merge(base, adapter, tokenizer, dtype, (*texts, *TEXTS), arguments, Path(folder))
        except MergeError:
            raise
        except Exception as error:
            raise MergeError(_sentence(error)) from error

    def _merge(
        self,
        base: str,
        adapter: str,
        tokenizer: str,
        dtype: str,
        texts: Sequence[str],
        arguments: Mapping[str, Any],
        folder: Path,
    ) -> dict[str, Any]:
        self._tell(f"looking at {os.path.basename(base)}")
        _refuse_other_adapter(adapter)
        dtype = _refuse_base(base, dtype, arguments, folder)
        processor = _processor(tokenizer, arguments)
        ids = _ids(processor, texts)
        self._tell(f"loading {os.path.basename(base)}")
        rounded_base = None
        if dtype != "float32":
            rounded_base = _logits(_load(base, dtype, arguments), ids)
        model = _load(base, "float32", arguments)
        plain = _logits(model, ids)
        self._tell("merging")
        model = _with_adapter(model, adapter)
        expected = _logits(model, ids)
        model, rounded_away = _merged(model, dtype)
        refuse_different(difference(expected, _logits(model, ids)), 0.0, "float32")
        self._tell("writing")
        _save(model, processor, dtype, folder)
        del model
        gc.collect()
        self._tell("checking")
        found = difference(expected, _logits(_load(str(folder), dtype, arguments), ids))
        base_kl = difference(plain, rounded_base).kl if rounded_base is not None else 0.0
        refuse_different(found, base_kl, dtype)
        as_trained, not_compared = self._compared_as_trained(base, adapter, arguments, ids, folder, dtype)
        return {
            "dtype": dtype,
            "size_bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
            **asdict(found),
            "base_kl": base_kl,
            "rounded_away": rounded_away,
            "as_trained": as_trained,
            "not_compared": not_compared,
        }

    def _compared_as_trained(
        self,
        base: str,
        adapter: str,
        arguments: Mapping[str, Any],
        ids: Sequence[list[int]],
        folder: Path,
        dtype: str,
    ) -> tuple[dict[str, Any] | None, str]:
        """Compare the written model with the adapter on its quantized base, which is what was trained.

        Return the difference, None for a base that was not quantized, and why it could not be found.
        """
        if not any(map(self._model_args.get, BITS)):
            return None, ""
        self._tell("comparing with the quantized base")
        try:
            given = {**arguments, "quantization_config": _quantization(self._model_args)}
            trained = _logits(_with_adapter(_load(base, "float32", given), adapter), ids)
        except Exception as error:  # without bitsandbytes, or where it cannot quantize on the CPU
            return None, _sentence(error)
        return asdict(difference(trained, _logits(_load(str(folder), dtype, arguments), ids))), ""

    def _tell(self, what: str) -> None:
        self._send({"event": "at", "what": what})


def difference(expected: Sequence[Any], found: Sequence[Any]) -> Difference:
    """Compare logits; each text has a tensor of shape (tokens, vocabulary)."""
    import torch

    tokens, agreed, largest, divergence = 0, 0, 0.0, 0.0
    for one, other in zip(expected, found, strict=True):
        width = min(one.shape[-1], other.shape[-1])  # a vocabulary is sometimes padded
        a, b = one[:, :width].double(), other[:, :width].double()
        tokens += len(a)
        agreed += int((a.argmax(-1) == b.argmax(-1)).sum())
        distance = (a - b).abs().max()
        largest = float(torch.maximum(torch.tensor(largest, dtype=a.dtype), distance))
        log_a, log_b = a.log_softmax(-1), b.log_softmax(-1)
        divergence += float((log_a.exp() * (log_a - log_b)).sum())
    return Difference(tokens, largest, divergence / tokens, agreed / tokens)


def refuse_different(found: Difference, base_kl: float, dtype: str) -> None:
    """Refuse a merged model that does not answer as the adapter on its base in float32 does.

    Args:
        base_kl: KL of the base alone caused by rounding it to the dtype.

    Raises:
        DifferentError: It differs by more than rounding explains.
    """
    if dtype == "float32" and not found.max_difference <= LARGEST_DIFFERENCE:
        raise DifferentError(
            "the merged model does not answer as the adapter does, and was not kept: a logit differs by "
            f"{found.max_difference:.2g}, and rounding explains at most {LARGEST_DIFFERENCE:g}"
        )
    most = max(LARGEST_RATIO * base_kl, LEAST_KL)
    if dtype != "float32" and not found.kl <= most:
        raise DifferentError(
            f"the merged model loses too much in {dtype}, and was not kept: its KL from the adapter in "
            f"float32 is {found.kl:.2g} per token, and rounding explains at most {most:.2g}. "
            "--dtype float32 loses nothing"
        )


def _prepared(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Apply the run's environment and return the arguments that select the model. Only the CPU is used."""
    known = RunConfig.from_json(config) if config is not None else None
    if known is not None:
        os.environ.update(known.env)  # before torch and transformers, which read it when they are imported
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    arguments = init_arguments(known) if known is not None else {}
    return {name: value for name, value in arguments.items() if name not in OF_TRAINING}


def _quiet() -> Any:
    """Silence warnings and progress bars: if this child dies, its output becomes the error message."""
    import warnings

    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return warnings.catch_warnings(action="ignore")


def _refuse_other_adapter(adapter: str) -> None:
    from peft import PeftConfig

    kind = str(getattr(PeftConfig.from_pretrained(adapter).peft_type, "value", ""))
    if kind != "LORA":
        raise MergeError(f"only LoRA adapters can be merged, and {adapter} is of the kind {kind}")


def _refuse_base(base: str, dtype: str, arguments: Mapping[str, Any], folder: Path) -> str:
    """Check the base's config and the free space. Return the dtype to write."""
    found = _model_config(base, arguments)
    if getattr(found, "quantization_config", None) is not None:
        raise MergeError(
            f"{base} is stored quantized, so an adapter cannot be merged into it exactly. Set "
            "base_model_name_or_path in adapter_config.json to the model it was made from"
        )
    if not dtype:
        stored = str(getattr(found, "dtype", None)).removeprefix("torch.")
        dtype = stored if stored in DTYPES else "float32"
    model, _ = on_meta(found, bool(arguments.get("trust_remote_code")))
    if model is not None:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        free = shutil.disk_usage(folder).free
        refuse_no_room(parameters, dtype, psutil.virtual_memory().available, free)
    return dtype


def _model_config(model: str, arguments: Mapping[str, Any]) -> Any:
    import_transformers()
    from transformers import AutoConfig

    names = ("revision", "trust_remote_code")
    given = {name: arguments[name] for name in names if name in arguments}
    if Path(model).is_dir():
        given.pop("revision", None)
    return AutoConfig.from_pretrained(model, **given)


def _load(model: str, dtype: str, arguments: Mapping[str, Any]) -> Any:
    """Load a model in evaluation mode, with the class that training uses."""
    import torch
    import transformers

    found = _model_config(model, arguments)
    own = getattr(transformers, (found.architectures or [""])[0], None)
    kind = own or transformers.AutoModelForCausalLM
    return kind.from_pretrained(model, dtype=getattr(torch, dtype), **arguments).eval()


def _quantization(model_args: Mapping[str, Any]) -> Any:
    from trl import ModelConfig, get_quantization_config

    return get_quantization_config(ModelConfig(**model_args))


def _processor(name: str, arguments: Mapping[str, Any]) -> Any:
    from transformers import AutoProcessor

    given = {} if Path(name).is_dir() else {"revision": arguments.get("revision")}
    return AutoProcessor.from_pretrained(
        name, trust_remote_code=bool(arguments.get("trust_remote_code")), **given
    )


def _ids(processor: Any, texts: Sequence[str]) -> list[list[int]]:
    tokenizer = getattr(processor, "tokenizer", processor)
    found = [list(tokenizer(text)["input_ids"])[:MOST_TOKENS] for text in texts]
    ids = [one for one in found if len(one) > 1]
    if not ids:
        raise MergeError("its tokenizer gives no tokens, so the merged model cannot be checked")
    return ids


def _logits(model: Any, ids: Sequence[list[int]]) -> list[Any]:
    import torch

    with torch.inference_mode():
        return [model(input_ids=torch.tensor([one])).logits[0].float() for one in ids]


def _with_adapter(model: Any, adapter: str) -> Any:
    from peft import PeftModel

    return PeftModel.from_pretrained(model, adapter, torch_device="cpu").eval()


def _merged(model: Any, dtype: str) -> tuple[Any, float | None]:
    """Return the merged model in float32, and the fraction of changed weights that rounding undoes."""
    import torch
    from peft.tuners.tuners_utils import BaseTunerLayer

    tied = _tied(model.get_base_model())
    _untie(model)
    changed = lost = 0
    with torch.no_grad():
        for layer in [module for module in model.modules() if isinstance(module, BaseTunerLayer)]:
            weights = dict(layer.get_base_layer().named_parameters(recurse=False))
            before = {name: weight.detach().clone() for name, weight in weights.items()}
            layer.merge(safe_merge=True)
            for name, weight in layer.get_base_layer().named_parameters(recurse=False):
                differs = weight != before[name]
                changed += int(differs.sum())
                rounded = getattr(torch, dtype)
                lost += int((differs & (weight.to(rounded) == before[name].to(rounded))).sum())
        merged = model.merge_and_unload()
    _tie(merged, tied)
    return merged, (lost / changed if changed else 0.0) if dtype != "float32" else None


def _untie(model: Any) -> None:
    """Give each module its own weights: a change to one embedding must not affect a tied one."""
    import torch

    seen: set[int] = set()
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) in seen:
                copy = torch.nn.Parameter(parameter.detach().clone(), requires_grad=False)
                module.register_parameter(name, copy)
            seen.add(id(parameter))


def _tied(model: Any) -> list[Any]:
    configs = {id(config): config for config in (model.config, model.config.get_text_config())}
    return [config for config in configs.values() if getattr(config, "tie_word_embeddings", False)]


def _tie(model: Any, tied: Sequence[Any]) -> None:
    """Tie the embeddings again if they are still equal. Otherwise note in the config that they differ."""
    import torch

    given, output = model.get_input_embeddings(), model.get_output_embeddings()
    if output is None:
        return
    equal = torch.equal(given.weight, output.weight)
    if tied and equal:
        output.weight = given.weight
    for config in tied:
        config.tie_word_embeddings = equal


def _save(model: Any, processor: Any, dtype: str, folder: Path) -> None:
    import torch

    model.to(getattr(torch, dtype))
    try:
        model.generation_config.validate(strict=True)
    except ValueError:  # sampling settings without do_sample: transformers loads but does not save them
        model.generation_config.do_sample = True
    model.save_pretrained(folder, max_shard_size="5GB")
    processor.save_pretrained(folder)


def _sentence(error: Exception) -> str:
    first = str(error).strip().split("\n\n")[0]
    return one_line(" ".join(first.split()) or type(error).__name__, 400)


if __name__ == "__main__":
    serve_alone(Child)
