"""Load the model of a config as training would, and generate completions in batches.

Follows `GRPOTrainer` of TRL 1.16 without vLLM: dtype (float32 unless the config says otherwise), attention,
quantization, device map, padding, end tokens, mixed precision. An adapter is loaded if its folder is given.
The config's new adapter is left out: its second matrix is zero before the first step, so it changes nothing.
A completion ends at the first end token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line
from grpo_tui.data.transformers_import import import_transformers
from grpo_tui.rewards.lab_child.loaded import init_arguments, mixed_of
from grpo_tui.store.json_file import read_object

MOST_AT_ONCE = 64
"""Number of completions per batch, unless `per_device_train_batch_size` is larger."""
MOST_FOR_VLLM = 256
"""Number of completions per request to vLLM."""
TELL_S = 0.05
"""Shortest time between two reports of an unfinished completion."""


class PolicyError(RuntimeError):
    """The model cannot be loaded. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Model that can generate.

    Attributes:
        processor: the tokenizer, or the processor of a vision model.
        ends: ids of the tokens that end a completion.
        mixed: `bfloat16` or `float16` for mixed precision, else empty.
        lora: vLLM's request for the adapter. With transformers the adapter is part of the model.
    """

    model: Any
    processor: Any
    tokenizer: Any
    ends: tuple[int, ...]
    device: str
    mixed: str
    engine: str = "transformers"
    lora: Any = None


def load_policy(config: RunConfig, adapter: str = "", tokenizer: str = "") -> Policy:
    """Load model and tokenizer on the first visible GPU, or on the CPU without one.

    Args:
        adapter: folder of a LoRA adapter, or empty.

    Raises:
        PolicyError: they cannot be loaded.
    """
    import torch

    setting = config.setting
    on_gpu = torch.cuda.is_available() and not setting("use_cpu")
    if adapter and for_megatron(adapter):
        raise PolicyError(f"{adapter} is an adapter for Megatron, which is not supported")
    try:
        model = _model(config, on_gpu)
        processor = processor_of(config, tokenizer or model.config._name_or_path)
        device = "cuda:0" if on_gpu else "cpu"
        if adapter:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, adapter)
        if not hasattr(model, "hf_device_map"):
            model = model.to(device)
    except Exception as error:
        what = f"the adapter {adapter} on {config.model}" if adapter else f"the model {config.model}"
        raise PolicyError(f"{what} cannot be loaded: {sentence(error)}") from error
    known = getattr(processor, "tokenizer", processor)
    if known.pad_token is None:
        known.pad_token = known.eos_token
    model.config.get_text_config().pad_token_id = known.pad_token_id
    model.generation_config.pad_token_id = known.pad_token_id
    ends = ends_of(model.generation_config.eos_token_id, known)
    return Policy(model.eval(), processor, known, ends, device, mixed_of(config))


def for_megatron(adapter: str) -> bool:
    """Return whether an adapter is for Megatron. PEFT would import any module that such an adapter names."""
    return bool((read_object(Path(adapter, "adapter_config.json")) or {}).get("megatron_config"))


def generation_settings(config: RunConfig, policy: Policy) -> dict[str, Any]:
    """Return the keyword arguments of the GenerationConfig that `GRPOTrainer` would use.

    With vLLM, `generation_kwargs` are vLLM's own arguments and stay a separate key.
    """
    setting = config.setting
    values: dict[str, Any] = {
        "max_new_tokens": setting("max_completion_length"),
        "do_sample": True,
        "pad_token_id": policy.tokenizer.pad_token_id,
        "bos_token_id": policy.tokenizer.bos_token_id,
        "eos_token_id": list(policy.ends),
    }
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "cache_implementation"):
        values[name] = setting(name)
    own = setting("generation_kwargs") or {}
    if policy.engine == "vllm":
        return {**values, "generation_kwargs": own}
    if policy.processor is not policy.tokenizer and hasattr(policy.model.config, "image_token_id"):
        values["suppress_tokens"] = [policy.model.config.image_token_id]
    return {**values, **own}


def at_once(config: RunConfig) -> int:
    """Return the number of completions per batch: as in training, but at most `MOST_AT_ONCE`."""
    setting = config.setting
    per_device = int(setting("per_device_train_batch_size"))
    steps = setting("steps_per_generation") or setting("gradient_accumulation_steps")
    return max(per_device, min(MOST_AT_ONCE, per_device * int(steps)))


def _model(config: RunConfig, on_gpu: bool) -> Any:
    import torch

    import_transformers()
    import transformers

    arguments = init_arguments(config)
    given = config.grpo.get("model_init_kwargs") or {}
    arguments["device_map"] = given.get("device_map", "auto" if on_gpu else None)
    if arguments["dtype"] in ("bfloat16", "float16", "float32"):
        arguments["dtype"] = getattr(torch, arguments["dtype"])
    quantization = _quantization(config.model_args)
    if quantization is not None:
        arguments["quantization_config"] = quantization
    trusted = bool(arguments.get("trust_remote_code"))
    found = transformers.AutoConfig.from_pretrained(
        config.model, revision=arguments.get("revision"), trust_remote_code=trusted
    )
    own = getattr(transformers, (found.architectures or [""])[0], None)
    return (own or transformers.AutoModelForCausalLM).from_pretrained(config.model, **arguments)


def _quantization(model_args: Mapping[str, Any]) -> Any:
    if not (model_args.get("load_in_4bit") or model_args.get("load_in_8bit")):
        return None
    from trl import ModelConfig, get_quantization_config

    return get_quantization_config(ModelConfig(**model_args))


def processor_of(config: RunConfig, name: str) -> Any:
    """Load the processor or tokenizer that renders prompts."""
    from transformers import AutoProcessor

    arguments = init_arguments(config)
    return AutoProcessor.from_pretrained(
        name,
        revision=arguments.get("revision"),
        truncation_side="left",
        padding_side="left",
        trust_remote_code=bool(config.grpo.get("trust_remote_code", False)),
    )


def ends_of(declared: int | Sequence[int] | None, tokenizer: Any) -> tuple[int, ...]:
    """Return the end tokens that the model declares and the tokenizer's own, as TRL uses them."""
    ends = [] if declared is None else [declared] if isinstance(declared, int) else list(declared)
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
        ends.insert(0, tokenizer.eos_token_id)
    return tuple(ends)


def sentence(error: Exception) -> str:
    """Return the first paragraph of an exception's message on one line."""
    first = str(error).strip().split("\n\n")[0]
    return one_line(" ".join(first.split()) or type(error).__name__, 400)


@dataclass(frozen=True, slots=True)
class Answer:
    """One completion, a text or a list with one message, and its length including the end token."""

    row: int
    completion: Any
    tokens: int
    truncated: bool


def answered(
    policy: Policy,
    prompts: Sequence[Any],
    count: int,
    settings: Mapping[str, Any],
    template: Mapping[str, Any],
    size: int,
    seed: int,
) -> Iterator[tuple[list[Answer], float]]:
    """Generate `count` completions of each prompt, prompt by prompt. Yield each batch with its seconds.

    A batch that does not fit into GPU memory is halved and tried again.

    Args:
        prompts: texts or lists of messages.
        size: completions per batch. vLLM makes its own batches.
        seed: used by vLLM, one seed per completion. transformers is seeded by the caller.
    """
    import torch

    rendered = [prompt_ids(policy, prompt, template) for prompt in prompts]
    asked = [row for row in range(len(prompts)) for _ in range(count)]
    if policy.engine == "vllm":
        size = MOST_FOR_VLLM
    while asked:
        rows = asked[:size]
        start = time.monotonic()
        try:
            ids = _generate(policy, [rendered[row] for row in rows], settings, seed)
        except torch.cuda.OutOfMemoryError:
            if size == 1:
                raise
            torch.cuda.empty_cache()
            size = max(1, len(rows) // 2)
            continue
        seconds = time.monotonic() - start
        asked = asked[size:]
        seed += len(rows)
        yield [_answer(policy, prompts, rendered, r, i) for r, i in zip(rows, ids, strict=True)], seconds


def prompt_ids(policy: Policy, prompt: Any, template: Mapping[str, Any]) -> list[int]:
    """Return a prompt's token ids, rendered as in TRL."""
    if isinstance(prompt, str):
        return list(policy.processor(text=[prompt])["input_ids"][0])
    tokenized = policy.processor.apply_chat_template(
        conversation=[list(prompt)],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **template,
    )
    return list(tokenized["input_ids"][0])


def streamed(
    policy: Policy,
    prompt: Any,
    settings: Mapping[str, Any],
    template: Mapping[str, Any],
    tell: Callable[[str], None],
    stop: Callable[[], bool],
) -> tuple[Answer, str, bool]:
    """Generate one completion with transformers. The caller sets the seed.

    Returns:
        The completion, its text as it was last reported, and whether it was stopped before its end.

    Args:
        tell: called with the whole text so far, every few tokens and at the end.
    """
    rendered = prompt_ids(policy, prompt, template)
    stream = Stream(policy, tell, stop)
    try:
        _generate(policy, [rendered], settings, 0, stream)
        stopped = False
    except StoppedError:
        stopped = True
    stream.flush()
    return _answer(policy, [prompt], [rendered], 0, stream.ids), stream.text, stopped


class StoppedError(RuntimeError):
    """The completion was stopped."""


class Stream:
    """Receives one completion's tokens from `generate`, as a streamer of transformers.

    The text is decoded as a whole, because tokens can depend on those before them.
    """

    def __init__(self, policy: Policy, tell: Callable[[str], None], stop: Callable[[], bool]) -> None:
        self._policy, self._tell, self._stop = policy, tell, stop
        self._begun = False
        self._told_at = 0.0
        self.ids: list[int] = []
        self.text = ""

    def put(self, value: Any) -> None:
        """Take the next tokens. The first call brings the prompt."""
        if not self._begun:
            self._begun = True
            return
        self.ids += value.reshape(-1).tolist()
        if time.monotonic() - self._told_at >= TELL_S:
            self.flush()
        if self._stop():
            raise StoppedError

    def end(self) -> None:
        """Take the end of the completion."""

    def flush(self) -> None:
        """Report the text so far, unless it ends inside a character."""
        self._told_at = time.monotonic()
        text = self._policy.processor.batch_decode([self.ids], skip_special_tokens=True)[0]
        if text != self.text and not text.endswith("\ufffd"):
            self.text = text
            self._tell(text)


def _generate(
    policy: Policy,
    prompts: Sequence[list[int]],
    settings: Mapping[str, Any],
    seed: int,
    stream: Stream | None = None,
) -> list[list[int]]:
    """Return the completions' ids, each up to its first end token."""
    if policy.engine == "vllm":
        from grpo_tui.rewards.generate_child.engine import generate

        ids = generate(policy, prompts, settings, range(seed, seed + len(prompts)))
        return [until_end(row, policy.ends) for row in ids]
    import torch
    from transformers import GenerationConfig

    config = GenerationConfig(**settings, disable_compile=True)
    width = max(map(len, prompts))
    padding = policy.tokenizer.pad_token_id
    inputs = torch.tensor([[padding] * (width - len(p)) + p for p in prompts], device=policy.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=policy.device)
    with torch.no_grad(), mixed_precision(policy):
        whole = policy.model.generate(
            input_ids=inputs, attention_mask=mask, generation_config=config, streamer=stream
        )
    return [until_end(row, policy.ends) for row in whole[:, width:].tolist()]


def until_end(ids: list[int], ends: Sequence[int]) -> list[int]:
    """Return token ids up to and including the first end token."""
    end = next((place for place, token in enumerate(ids) if token in ends), None)
    return ids if end is None else ids[: end + 1]


def mixed_precision(policy: Policy) -> AbstractContextManager[Any]:
    """Return the autocast context that accelerate uses in training."""
    import torch

    if not policy.mixed:
        return nullcontext()
    return torch.autocast(policy.device.partition(":")[0], dtype=getattr(torch, policy.mixed))


def _answer(
    policy: Policy, prompts: Sequence[Any], rendered: Sequence[list[int]], row: int, ids: list[int]
) -> Answer:
    tokenizer = policy.tokenizer
    truncated = not ids or ids[-1] not in (*policy.ends, tokenizer.pad_token_id)
    if isinstance(prompts[row], str):
        completion: Any = policy.processor.batch_decode([ids], skip_special_tokens=True)[0]
    elif getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None):
        from trl.chat_template_utils import parse_response

        completion = [parse_response(tokenizer, ids, prefix=rendered[row], tools=None)]
    else:
        text = policy.processor.batch_decode([ids], skip_special_tokens=True)[0]
        completion = [{"role": "assistant", "content": text}]
    return Answer(row, completion, len(ids), truncated)
