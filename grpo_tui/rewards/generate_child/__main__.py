"""Child process that generates: `python -m grpo_tui.rewards.generate_child FOLDER REQUESTS ANSWERS`.

Reads requests and answers with events and a reply, one JSON object per line. It uses transformers, or vLLM if
the config trains with it and it can run here. The loaded model is kept, completions are not. The parent may
kill it at any time, and it ends when the parent is gone.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from grpo_tui.children.serving import Send, serve_alone
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Filters
from grpo_tui.rewards.generate_child import engine
from grpo_tui.rewards.generate_child.policy import (
    Policy,
    answered,
    at_once,
    generation_settings,
    load_policy,
    sentence,
    streamed,
)


class Child:
    """Request handlers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._policy: Policy | None = None
        self._stopped = False
        self._rows: list[Any] = []
        self._places: dict[str, tuple[int, int]] | None = None
        """Where the rows with each prompt are: which part of the data, and the place in it."""

    def rows(
        self, config: Mapping[str, Any], count: int, seed: int, held: bool | None, probes: bool = False
    ) -> dict[str, Any]:
        """Choose random rows of the config's dataset, or of its probe prompts.

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
        if probes:
            wanted = known.section.probe_prompts
            if wanted is None or prompts.probes is None:
                raise DataError("the config has no probe prompts. Set grpo_tui.probe_prompts")
            held = wanted.source == "holdout" and not wanted.add
            places = sorted(
                random.Random(seed).sample(range(len(prompts.probes)), min(count, len(prompts.probes)))
            )
            chosen = [(place, prompts.probes[place]) for place in places]
        elif not hasattr(data, "select"):
            chosen = list(enumerate(data.take(count)))  # a stream has no known length
        else:
            places = sorted(random.Random(seed).sample(range(len(data)), min(count, len(data))))
            chosen = list(zip(places, data.select(places), strict=True))
        rows = [{"number": place + 1, **_row(row)} for place, row in chosen]
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
        load_s = self._load(known, adapter, tokenizer)
        policy = self._policy
        assert policy is not None
        from grpo_tui.data.mapping import as_messages

        if known.section.wants_chat:
            prompts = [as_messages(p, known.section) if isinstance(p, str) else p for p in prompts]
        seed, settings, template = self._sampling(known, policy, seed)
        self._send({"event": "at", "what": "generating"})
        for batch, seconds in answered(policy, prompts, count, settings, template, at_once(known), seed):
            self._send({"event": "generated", "answers": list(map(asdict, batch)), "seconds": seconds})
        return {
            "load_s": load_s,
            "device": policy.device,
            "temperature": settings["temperature"],
            "max_tokens": settings["max_new_tokens"],
            "engine": policy.engine,
        }

    def opening(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what training puts before a question, and remember the rows for `row`.

        Returns:
            `{"chat", "before", "note"}`: whether prompts are messages, those that all prompts begin with, and
            why the dataset could not be read, or an empty text.
        """
        from grpo_tui.data.load import load_prompts
        from grpo_tui.data.mapping import as_messages, shared_beginning, some_prompts

        known = self._config(config)
        known = replace(known, section=replace(known.section, filters=Filters()))  # filters count tokens
        self._send({"event": "at", "what": "reading the dataset"})
        try:
            prompts = load_prompts(known)
        except Exception as error:
            before = as_messages("", known.section)[:-1] if known.section.wants_chat else []
            return {"chat": known.section.wants_chat, "before": before, "note": sentence(error)}
        self._rows = [part for part in (prompts.train, prompts.holdout, prompts.eval) if part is not None]
        if known.section.wants_chat:
            return {"chat": True, "before": as_messages("", known.section)[:-1], "note": ""}
        some = some_prompts(prompts.train)
        chat = bool(some) and not isinstance(some[0], str)
        return {"chat": chat, "before": shared_beginning(some) if chat else [], "note": ""}

    def row(self, prompt: Any) -> dict[str, Any]:
        """Return the columns of the dataset row with a prompt, or the row of a number from 1.

        Returns:
            `{"prompt", "columns"}`, both None without such a row.
        """
        if isinstance(prompt, int):
            train = self._rows[0] if self._rows else ()
            return _row(train[prompt - 1] if hasattr(train, "select") and prompt <= len(train) else None)
        if self._places is None:
            self._places = {}
            for part, rows in enumerate(self._rows):
                for place, known in enumerate(rows["prompt"] if hasattr(rows, "select") else ()):
                    self._places.setdefault(_key(known), (part, place))
        at = self._places.get(_key(prompt))
        return _row(self._rows[at[0]][at[1]] if at is not None else None)

    def chat(
        self, config: Mapping[str, Any], prompt: Any, seed: int | None, adapter: str = "", tokenizer: str = ""
    ) -> dict[str, Any]:
        """Generate one completion with transformers, and send its text as it grows. SIGUSR1 stops it.

        Every event `text` says how much of the text before it is kept, and what comes after that.

        Returns:
            `{"completion", "tokens", "truncated", "text", "stopped", "seed", "device", "temperature",
            "max_tokens", "seconds"}`.
        """
        known = self._config(config)
        self._stopped, told = False, ""
        signal.signal(signal.SIGUSR1, self._stop)
        self._load(known, adapter, tokenizer, streams=True)
        policy = self._policy
        assert policy is not None

        def tell(text: str) -> None:
            nonlocal told
            pairs = enumerate(zip(told, text, strict=False))
            kept = next((at for at, (was, now) in pairs if was != now), min(len(told), len(text)))
            told = text
            self._send({"event": "text", "kept": kept, "text": text[kept:]})

        seed, settings, template = self._sampling(known, policy, seed)
        self._send({"event": "text", "kept": 0, "text": ""})  # from here on, the signal stops it
        start = time.monotonic()
        answer, text, stopped = streamed(policy, prompt, settings, template, tell, lambda: self._stopped)
        return {
            **{name: getattr(answer, name) for name in ("completion", "tokens", "truncated")},
            "text": text,
            "stopped": stopped,
            "seed": seed,
            "device": policy.device,
            "temperature": settings["temperature"],
            "max_tokens": settings["max_new_tokens"],
            "seconds": time.monotonic() - start,
        }

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def _load(self, known: RunConfig, adapter: str, tokenizer: str, *, streams: bool = False) -> float:
        """Load the policy unless it is loaded, and return the seconds that took."""
        start = time.monotonic()
        if self._policy is None:
            self._send({"event": "at", "what": f"loading {_short(adapter or known.model)}"})
            load = engine.load_policy if engine.wanted(known) and not streams else load_policy
            self._policy = load(known, adapter, tokenizer)
        return time.monotonic() - start

    def _sampling(
        self, known: RunConfig, policy: Policy, seed: int | None
    ) -> tuple[int, dict[str, Any], Mapping[str, Any]]:
        """Set the seed, the config's when None, and return it with settings and template arguments."""
        from transformers import set_seed

        seed = int(known.setting("seed")) if seed is None else seed
        set_seed(seed)
        template = known.setting("chat_template_kwargs") or {}
        return seed, generation_settings(known, policy), template

    def _config(self, config: Mapping[str, Any]) -> RunConfig:
        known = RunConfig.from_json(config)
        os.environ.update(known.env)  # torch and transformers read it when imported
        return known


def _key(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    given = [{key: value for key, value in one.items() if value is not None} for one in prompt]
    return json.dumps(given, sort_keys=True, default=str)


def _row(row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {"prompt": None, "columns": None}
    return {"prompt": row["prompt"], "columns": {key: value for key, value in row.items() if key != "prompt"}}


def _short(model: str) -> str:
    return f"the model in {os.path.basename(model)}/" if os.path.isabs(model) else model


if __name__ == "__main__":
    serve_alone(Child)
