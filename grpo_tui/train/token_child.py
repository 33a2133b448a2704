"""Score tokens in a child process: `python -m grpo_tui.train.token_child FOLDER REQUESTS ANSWERS`.

Loads the base model of a config, or one of its checkpoints (an adapter on its base), and renders the prompt
as `GRPOTrainer` does. Reads requests and answers with events and a reply, one JSON object per line. Keeps
what it has loaded until its parent cancels.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.children.serving import Send, serve_alone, stand_back
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.token_scores import TokenScores
from grpo_tui.rewards.generate_child.policy import Policy, load_policy, mixed_precision, prompt_ids
from grpo_tui.train.tokens import (
    TokensError,
    end_token,
    figures,
    logits_of,
    precision,
    refuse_images,
    refused,
    tokenized,
    tokens_of,
)

ADAPTER = "adapter_config.json"


class Child:
    """Serves one parent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loaded: dict[str, Policy] = {}
        """By checkpoint: the newest one requested, and the base model under an empty name."""
        self._beside = False

    def tokens(
        self,
        config: Mapping[str, Any],
        checkpoint: str,
        prompt: Any,
        text: str,
        truncated: bool,
        recorded: int | None,
        base: bool,
        beside: bool,
    ) -> dict[str, Any]:
        """Score the tokens of one completion.

        Args:
            checkpoint: A folder; empty for the run's base model.
            base: Whether to compare with the run's base model.
            beside: Whether the run is training, and needs the GPU and the CPU.

        Returns:
            `TokenScores.to_wire`.
        """
        self._stand(beside)
        known = _prepared(RunConfig.from_json(config), beside)
        refuse_images(prompt)
        policy = self._policy(known, checkpoint)
        before = _rendered(policy, prompt, known.setting("chat_template_kwargs") or {})
        end = None if truncated else end_token(policy.tokenizer, policy.ends)
        found = tokenized(policy.tokenizer, text, end, recorded)
        against = _short(known.model) if base and checkpoint else ""
        self._tell("scoring the tokens")
        start = time.monotonic()
        logits = self._logits(policy, before, found.ids)
        other = self._base_logits(known, policy, before, found.ids) if against else None
        columns = figures(logits, found.ids, other)
        return TokenScores(
            tokens=tokens_of(policy.tokenizer, before, found.ids, columns),
            policy=Path(checkpoint).name if checkpoint else _short(known.model),
            base=against,
            of=found.of,
            recorded=recorded,
            retokenized=bool(found.note),
            note=found.note,
            prompt=policy.tokenizer.decode(before),
            prompt_tokens=len(before),
            temperature=float(known.setting("temperature")),
            precision=precision(policy.model, policy.mixed),
            device=policy.device,
            seconds=time.monotonic() - start,
        ).to_wire()

    def _stand(self, beside: bool) -> None:
        """Drop loaded models once the run trains again: they may be on its GPU."""
        if beside and not self._beside:
            self._forget(list(self._loaded))
        self._beside = beside

    def _policy(self, config: RunConfig, checkpoint: str) -> Policy:
        if checkpoint not in self._loaded:
            if checkpoint:
                self._forget([name for name in self._loaded if name])
            self._tell(f"loading {Path(checkpoint).name if checkpoint else _short(config.model)}")
            self._loaded[checkpoint] = _load(config, checkpoint)
        return self._loaded[checkpoint]

    def _forget(self, names: Sequence[str]) -> None:
        """Free models before the next one is loaded. They contain reference cycles."""
        for name in names:
            del self._loaded[name]
        if names:
            gc.collect()

    def _base_logits(self, config: RunConfig, policy: Policy, prompt: list[int], ids: list[int]) -> Any:
        if hasattr(policy.model, "disable_adapter"):
            with policy.model.disable_adapter():
                return self._logits(policy, prompt, ids)
        base = self._policy(config, "")
        self._tell("scoring the tokens with the base model")
        return self._logits(base, prompt, ids)

    def _logits(self, policy: Policy, prompt: list[int], ids: list[int]) -> Any:
        import torch

        try:
            with mixed_precision(policy):
                return logits_of(policy.model, prompt, ids, policy.model.device)
        except torch.cuda.OutOfMemoryError as error:
            raise TokensError(
                f"{len(prompt) + len(ids):,} tokens do not fit into the memory of {policy.device}"
            ) from error

    def _tell(self, what: str) -> None:
        self._send({"event": "at", "what": what})


def _prepared(config: RunConfig, beside: bool) -> RunConfig:
    """Apply the run's environment. Beside a training run, use only a quarter of the CPU's threads."""
    os.environ.update(config.env)  # before torch and transformers, which read it when they are imported
    if not beside:
        return config
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a quantized model would use the GPU whatever its settings
    import torch

    stand_back()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 4))
    given = config.grpo.get("model_init_kwargs") or {}
    placed = {name: value for name, value in given.items() if name != "device_map"}
    return replace(config, grpo={**config.grpo, "use_cpu": True, "model_init_kwargs": placed})


def _load(config: RunConfig, checkpoint: str) -> Policy:
    if not checkpoint:
        return load_policy(config)
    if (Path(checkpoint) / ADAPTER).exists():
        return load_policy(config, checkpoint)
    return load_policy(replace(config, model=checkpoint))


def _rendered(policy: Policy, prompt: Any, template: Mapping[str, Any]) -> list[int]:
    try:
        return prompt_ids(policy, prompt, template)
    except Exception as error:
        raise TokensError(f"the prompt cannot be rendered: {refused(error)}") from error


def _short(model: str) -> str:
    return f"the base model, {os.path.basename(model.rstrip('/'))}"


if __name__ == "__main__":
    serve_alone(Child)
