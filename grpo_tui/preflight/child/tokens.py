"""The policy's tokenizer: its facts, rendered prompts, and token counts.

Prompts are rendered and counted as in `GRPOTrainer._tokenize_prompts` of TRL 1.16: messages with the chat
template, texts with the tokenizer's own special tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import ModelFacts, TokenizerFacts

_OPENS_THINK = re.compile(r"<think>\s*$")
_AT_ONCE = 1000


class RenderError(ValueError):
    """The chat template rejects a prompt. The message is one sentence."""


class LoadedTokenizer:
    """Loaded tokenizer of a config's model."""

    def __init__(self, config: RunConfig, model: ModelFacts) -> None:
        from transformers import AutoProcessor, AutoTokenizer, ProcessorMixin

        source = model.adapter or model.where.path or model.where.name
        options = {
            "revision": config.model_args.get("model_revision", "main"),
            "padding_side": "left",
            "truncation_side": "left",
            "trust_remote_code": bool(config.grpo.get("trust_remote_code", False)),
        }
        try:
            processor = AutoProcessor.from_pretrained(source, **options)
        except Exception:
            processor = AutoTokenizer.from_pretrained(source, **options)
        self.processor: Any = processor
        self.tokenizer: Any = getattr(processor, "tokenizer", processor)
        self.sees_images = isinstance(processor, ProcessorMixin)  # as GRPOTrainer decides
        self._template = dict(config.grpo.get("chat_template_kwargs") or {})
        self._folder = model.where.path
        self._backend = getattr(self.tokenizer, "backend_tokenizer", None)

    def facts(self) -> TokenizerFacts:
        """Return the facts that do not need a prompt."""
        tokenizer = self.tokenizer
        ends = [*_generation_ends(self._folder)]
        if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
            ends.insert(0, int(tokenizer.eos_token_id))
        return TokenizerFacts(
            name=type(tokenizer).__name__,
            fast=bool(getattr(tokenizer, "is_fast", False)),
            size=len(tokenizer),
            has_template=bool(getattr(self.processor, "chat_template", None) or tokenizer.chat_template),
            pad=_token(tokenizer.pad_token),
            eos=_token(tokenizer.eos_token),
            bos=_token(tokenizer.bos_token),
            pad_id=tokenizer.pad_token_id,
            eos_id=tokenizer.eos_token_id,
            padding_side=str(_stored_side(self._folder) or "not stored"),
            ends=tuple(ends),
            sees_images=self.sees_images,
        )

    def facts_of(self, prompt: Any) -> TokenizerFacts:
        """Return the facts, including the rendered prompt."""
        facts = self.facts()
        try:
            text = self.rendered(prompt)
        except RenderError as error:
            return replace(facts, problem=str(error) if facts.has_template else "")
        return replace(
            facts,
            rendered=text,
            rendered_tokens=self.counts([self.written([prompt])[0]], messages=not isinstance(prompt, str))[0],
            special=self._special_in(text),
            opens_think=_OPENS_THINK.search(text) is not None,
        )

    def written(self, prompts: Sequence[Any]) -> list[str]:
        """Return prompts as texts, rendering messages with the chat template.

        Raises:
            RenderError: the template rejects one.
        """
        if prompts and all(isinstance(prompt, str) for prompt in prompts):
            return list(prompts)
        if self.sees_images:
            prompts = [_as_parts(prompt) for prompt in prompts]
        try:
            texts = self.processor.apply_chat_template(
                list(prompts), add_generation_prompt=True, tokenize=False, **self._template
            )
        except Exception as error:
            raise RenderError(f"the chat template rejects the prompt: {one_line(str(error), 200)}") from error
        return [str(text) for text in texts]

    def rendered(self, prompt: Any) -> str:
        """Return a prompt as the model receives it, including special tokens added before a text.

        Raises:
            RenderError: the template rejects it.
        """
        text = self.written([prompt])[0]
        if not isinstance(prompt, str):
            return text
        ids = self.tokenizer(text)["input_ids"]
        special = set(self.tokenizer.all_special_ids)
        before: list[str] = []
        for token in ids:
            if token not in special:
                break
            before.append(str(self.tokenizer.convert_ids_to_tokens(token)))
        start = "".join(before)
        return text if text.startswith(start) else start + text

    def counts(self, texts: Sequence[str], *, messages: bool) -> list[int]:
        """Return the number of tokens of each text.

        Args:
            messages: whether they were rendered by a template, and so include special tokens.
        """
        if self._backend is None:
            ids = self.tokenizer(list(texts), add_special_tokens=not messages)["input_ids"] if texts else []
            return [len(one) for one in ids]
        self._backend.no_truncation()
        self._backend.no_padding()
        encode = getattr(self._backend, "encode_batch_fast", self._backend.encode_batch)
        found: list[int] = []
        for start in range(0, len(texts), _AT_ONCE):
            part = list(texts[start : start + _AT_ONCE])
            found += [len(encoding) for encoding in encode(part, add_special_tokens=not messages)]
        return found

    def _special_in(self, text: str) -> tuple[str, ...]:
        """Return the distinct special tokens in a text, in order."""
        names = sorted(
            {t.content for t in self.tokenizer.added_tokens_decoder.values() if t.special}
            | set(self.tokenizer.all_special_tokens),
            key=len,
            reverse=True,
        )
        if not names:
            return ()
        pattern = re.compile("|".join(map(re.escape, names)))
        return tuple(dict.fromkeys(match[0] for match in pattern.finditer(text)))


def _as_parts(prompt: Any) -> Any:
    """Return messages as TRL passes them to a processor, with each text as a content part."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message.get("content"), str)
        else message
        for message in prompt
    ]


def _token(value: Any) -> str | None:
    return None if value is None else str(value)


def _stored(folder: str | None, file: str) -> dict[str, Any]:
    if folder is None:
        return {}
    try:
        found = json.loads((Path(folder) / file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _stored_side(folder: str | None) -> str | None:
    return _stored(folder, "tokenizer_config.json").get("padding_side")


def _generation_ends(folder: str | None) -> list[int]:
    ends = _stored(folder, "generation_config.json").get("eos_token_id")
    return [ends] if isinstance(ends, int) else [int(e) for e in ends or ()]
