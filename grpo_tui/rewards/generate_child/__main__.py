"""The child that generates: `python -m grpo_tui.rewards.generate_child FOLDER REQUESTS ANSWERS`.

Reads requests, answers with events and a reply, a JSON object a line. It is killed when its parent has had
enough, and ends when the parent is gone. vLLM is not used, even when the config trains with it: the model and
the settings are the same, the engine is transformers'. It keeps the model that it loaded, and no completion.
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
from grpo_tui.rewards.generate_child.policy import (
    Policy,
    answered,
    at_once,
    generation_settings,
    load_policy,
)


class Child:
    """Serves one parent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._policy: Policy | None = None

    def rows(self, config: Mapping[str, Any], count: int, seed: int, held: bool) -> dict[str, Any]:
        """Choose rows of the config's dataset by a seed.

        Returns:
            `{"rows": [{"number", "prompt", "columns"}], "total", "notes"}`; numbers count from 1.
        """
        from grpo_tui.data.load import DataError, load_prompts

        known = self._config(config)
        self._send({"event": "at", "what": "reading the dataset"})
        prompts = load_prompts(known)
        data = prompts.holdout if held else prompts.train
        if data is None:
            raise DataError("the config has no held-out rows. Set grpo_tui.holdout")
        if not hasattr(data, "select"):
            chosen = list(enumerate(data.take(count)))  # streamed: how many there are is not known
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
        return {"rows": rows, "total": total, "notes": list(prompts.notes)}

    def answers(
        self, config: Mapping[str, Any], prompts: list[Any], count: int, seed: int | None
    ) -> dict[str, Any]:
        """Generate; completions go out as events, a batch at a time.

        A text becomes messages where the config makes messages of texts, as it does for the dataset.

        Returns:
            `{"load_s", "device", "temperature", "max_tokens"}`.
        """
        known = self._config(config)
        start = time.monotonic()
        if self._policy is None:
            self._send({"event": "at", "what": f"loading {_short(known.model)}"})
            self._policy = load_policy(known)
        policy, setting = self._policy, known.setting
        load_s = time.monotonic() - start
        from transformers import set_seed

        from grpo_tui.data.mapping import as_messages

        if known.section.wants_chat:
            prompts = [as_messages(p, known.section) if isinstance(p, str) else p for p in prompts]
        set_seed(int(setting("seed")) if seed is None else seed)
        settings = generation_settings(known, policy)
        template = setting("chat_template_kwargs") or {}
        self._send({"event": "at", "what": "generating"})
        for batch in answered(policy, prompts, count, settings, template, at_once(known)):
            answers = [asdict(answer) for answer in batch.answers]
            self._send({"event": "generated", "answers": answers, "seconds": batch.seconds})
        return {
            "load_s": load_s,
            "device": policy.device,
            "temperature": settings["temperature"],
            "max_tokens": settings["max_new_tokens"],
        }

    def _config(self, config: Mapping[str, Any]) -> RunConfig:
        known = RunConfig.from_json(config)
        os.environ.update(known.env)  # before torch and transformers, which read it when they are imported
        return known


def _short(model: str) -> str:
    """A folder's name, or a model's whole id."""
    return f"the model in {os.path.basename(model)}/" if os.path.isabs(model) else model


if __name__ == "__main__":
    serve_alone(Child)
