"""Child process of the checker: `python -m grpo_tui.preflight.child FOLDER REQUESTS ANSWERS`.

Reads requests and answers with events and a reply, one JSON object per line: facts part by part, and rows by
number. It keeps what it has read of the last config. The parent may kill it at any time, and it ends when the
parent is gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from grpo_tui.children.serving import Send, serve_alone
from grpo_tui.config.run_config import RunConfig
from grpo_tui.data.sources import DataError
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.child.session import CheckSession, data_key
from grpo_tui.preflight.facts import RowView


class Child:
    """Request handlers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._hub = Hub()
        self._session: CheckSession | None = None
        self._key = ""

    def facts(self, config: Mapping[str, Any], parts: list[str]) -> dict[str, Any]:
        """Collect the requested facts, and send each part as an event once it is known.

        Args:
            parts: of `data`, `model`, `tokenizer`.
        """
        if self._session is not None and not self._session.all_here:
            self._session = None  # missing files and the Hub may be available now
        self._hub.renew()
        session = self._of(config)
        if "data" in parts:
            self._send({"event": "part", "part": "data", "facts": asdict(session.data())})
        if "model" not in parts and "tokenizer" not in parts:
            return {}
        model = session.model()
        self._send({"event": "part", "part": "model", "facts": asdict(model)})
        if "tokenizer" not in parts:
            return {}
        self._send({"event": "part", "part": "tokenizer", "facts": asdict(session.tokenizer(model))})
        if "data" in parts:
            measured = session.measured()
            if measured is not None:
                self._send({"event": "part", "part": "data", "facts": asdict(measured)})
        return {}

    def row(self, config: Mapping[str, Any], number: int, rendered: bool) -> dict[str, Any]:
        """Return a row by its number.

        Args:
            number: from 1.
            rendered: whether to load the tokenizer if needed.
        """
        return self._shown(config, rendered, lambda session: session.row(number))

    def any_row(self, config: Mapping[str, Any], rendered: bool, seed: int | None) -> dict[str, Any]:
        """Return a random row."""
        return self._shown(config, rendered, lambda session: session.random_row(seed))

    def holding(self, config: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return `{"rows"}`: the numbers of the available rows that contain a text."""
        return {"rows": self._of(config).holding(text)}

    def _shown(
        self, config: Mapping[str, Any], rendered: bool, ask: Callable[[CheckSession], RowView]
    ) -> dict[str, Any]:
        session = self._of(config)
        if (problem := session.data().problem) and session.table is None:
            raise DataError(problem)
        if rendered and session.tokens is None:
            session.tokenizer(session.model())
        return asdict(ask(session))

    def _of(self, config: Mapping[str, Any]) -> CheckSession:
        known = RunConfig.from_json(config)
        os.environ.update(known.env)  # transformers and datasets read it when imported
        key = data_key(known)
        if self._session is None or key != self._key:
            self._session, self._key = CheckSession(known, self._hub, self._tell), key
        self._session.turn_to(known)
        return self._session

    def _tell(self, what: str) -> None:
        self._send({"event": "at", "what": what})


if __name__ == "__main__":
    serve_alone(Child)
