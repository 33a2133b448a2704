"""Child process that generates: `python -m grpo_tui.rewards.generate_child FOLDER REQUESTS ANSWERS`.

Reads requests and answers with events and a reply, one JSON object per line. It uses transformers, or vLLM if
the config trains with it and it can run here. The loaded model is kept, completions are not. The parent may
kill it at any time, and it ends when the parent is gone.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from grpo_tui.children.serving import Send, serve_alone
from grpo_tui.config.run_config import RunConfig
from grpo_tui.rewards.generate_child import engine
from grpo_tui.rewards.generate_child.policy import (
    Policy,
    answered,
    at_once,
    generation_settings,
    load_policy,
)


class Child:
    """Request handlers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._policy: Policy | None = None

    def rows(self, config: Mapping[str, Any], count: int, seed: int, held: bool | None) -> dict[str, Any]:
        """Choose random rows of the config's dataset.

        Args:
            held: whether to choose held-out rows. None for held-out rows if the config has any.

        Returns:
            `{"rows": [{"number", "prompt", "columns"}], "total", "notes", "held"}`. Numbers start at 1.
        """
        from grpo_tui.data.load import DataError, load_prompts

        known = self._config(config)
        self._send({"event": "at", "what": "reading the dataset"})
        prompts = load_prompts(known)
        aside = prompts.holdout if prompts.holdout is not None else prompts.eval
        if held and aside is None:
            raise DataError("the config has no held-out rows. Set grpo_tui.holdout")
        held = aside is not None if held is None else held
        data: Any = aside if held else prompts.train
        if not hasattr(data, "select"):
            chosen = list(enumerate(data.take(count)))  # a stream has no known length
        else:
            places = sorted(random.Random(seed).sample(range(len(data)), min(count, len(data))))
            chosen = list(zip(places, data.select(places), strict=True))
        rows = [
            {
                "number": place + 1,
                "prompt": row["prompt"],
                "columns": {key: value for key, value in row.items() if key != "prompt"},
            }
            for place, row in chosen
        ]
        total = len(data) if hasattr(data, "select") else None
        return {"rows": rows, "total": total, "notes": list(prompts.notes), "held": held}

    def answers(
        self,
        config: Mapping[str, Any],
        prompts: list[Any],
        count: int,
        seed: int | None,
        adapter: str = "",
        tokenizer: str = "",
    ) -> dict[str, Any]:
        """Generate completions and send each batch as an event.

        Text prompts become messages where the config does that with the dataset.

        Returns:
            `{"load_s", "device", "temperature", "max_tokens", "engine"}`.
        """
        known = self._config(config)
        start = time.monotonic()
        if self._policy is None:
            self._send({"event": "at", "what": f"loading {_short(adapter or known.model)}"})
            load = engine.load_policy if engine.wanted(known) else load_policy
            self._policy = load(known, adapter, tokenizer)
        policy, setting = self._policy, known.setting
        load_s = time.monotonic() - start
        from transformers import set_seed

        from grpo_tui.data.mapping import as_messages

        if known.section.wants_chat:
            prompts = [as_messages(p, known.section) if isinstance(p, str) else p for p in prompts]
        seed = int(setting("seed")) if seed is None else seed
        set_seed(seed)
        settings = generation_settings(known, policy)
        template = setting("chat_template_kwargs") or {}
        self._send({"event": "at", "what": "generating"})
        for batch in answered(policy, prompts, count, settings, template, at_once(known), seed):
            answers = [asdict(answer) for answer in batch.answers]
            self._send({"event": "generated", "answers": answers, "seconds": batch.seconds})
        return {
            "load_s": load_s,
            "device": policy.device,
            "temperature": settings["temperature"],
            "max_tokens": settings["max_new_tokens"],
            "engine": policy.engine,
        }

    def _config(self, config: Mapping[str, Any]) -> RunConfig:
        known = RunConfig.from_json(config)
        os.environ.update(known.env)  # torch and transformers read it when imported
        return known


def _short(model: str) -> str:
    return f"the model in {os.path.basename(model)}/" if os.path.isabs(model) else model


if __name__ == "__main__":
    serve_alone(Child)
