"""Keep a comparison in a file while it is made, so that it continues after a kill and is shown again at once.

A JSON object a line: a header, the rows, what each policy answered to each row, and the results. A line that
was cut off is dropped when the file is opened again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from grpo_tui.core.closing import Closing
from grpo_tui.core.exchange import finite_json
from grpo_tui.rewards.generating import ChosenRows, DatasetRow
from grpo_tui.ship.comparison import Answers
from grpo_tui.store.comparisons import LARGEST_BYTES
from grpo_tui.store.json_file import append_regular, read_regular


class KeptError(RuntimeError):
    """The file cannot be used; the message is for the user."""


class KeptComparison(Closing):
    """Owns the file of one comparison, alone; a context manager.

    Args:
        path: the file, which is made when it is missing.
        header: says what is compared; a file with another one is begun again.

    Attributes:
        rows: that are asked, None while they are not chosen.
        answers: what is there by policy and row, both from 0.
        about: how the last answers were sampled.
        results: what the comparison says, by the reward that was named to judge it.

    Raises:
        KeptError: the file cannot be written, or another process is at it.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.rows: ChosenRows | None = None
        self.answers: dict[tuple[int, int], Answers] = {}
        self.about: dict[str, Any] = {}
        self.results: dict[str, dict[str, Any]] = {}
        try:
            self._file: BinaryIO = append_regular(path)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise KeptError(f"this comparison is already running; its results go to {path}") from None
        except OSError as error:
            raise KeptError(f"{path} cannot be written: {error.strerror}") from error
        self._read(header)

    def close(self) -> None:
        """Let another process have the file."""
        self._file.close()

    def choose(self, rows: ChosenRows) -> None:
        """Keep the rows that are asked."""
        self.rows = rows
        listed = [{"number": r.number, "prompt": r.prompt, "columns": dict(r.columns)} for r in rows.rows]
        self._write([{"rows": listed, "held": rows.held, "notes": rows.notes}])

    def add(self, policy: int, answers: Mapping[int, Answers], about: Mapping[str, Any]) -> None:
        """Keep what a policy answered to some rows."""
        self.about = dict(about)
        self.answers |= {(policy, row): one for row, one in answers.items()}
        lines = [
            {"policy": policy, "row": row, "about": self.about, **_fields(one)}
            for row, one in answers.items()
        ]
        self._write(lines)

    def finish(self, judge: str, result: Mapping[str, Any]) -> None:
        """Keep the result."""
        self.results[judge] = dict(result)
        self._write([{"result": result, "judged_by": judge}])

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(finite_json(line), ensure_ascii=True) + "\n" for line in lines)
        try:
            self._file.write(text.encode())
            self._file.flush()
        except OSError as error:
            raise KeptError(f"{self.path} cannot be written: {error.strerror}") from error

    def _read(self, header: Mapping[str, Any]) -> None:
        """Take in the whole lines that are there, and drop what follows them."""
        whole = 0
        for line in read_regular(self.path, largest=LARGEST_BYTES).splitlines(keepends=True):
            if not line.endswith(b"\n") or not self._take(line, header, first=whole == 0):
                break
            whole += len(line)
        os.ftruncate(self._file.fileno(), whole)
        if whole == 0:
            self._write([header])

    def _take(self, line: bytes, header: Mapping[str, Any], *, first: bool) -> bool:
        """Take in one line; False when it is not one of these."""
        try:
            body = json.loads(line)
            if first:
                return bool(body == header)
            if "rows" in body:
                rows = tuple(DatasetRow(r["number"], r["prompt"], r["columns"]) for r in body["rows"])
                self.rows = ChosenRows(rows, body["held"], tuple(body["notes"]))
            elif "result" in body:
                self.results[body["judged_by"]] = body["result"]
            else:
                self.answers[body["policy"], body["row"]] = Answers.from_json(body)
                self.about = body["about"]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False
        return True


def _fields(one: Answers) -> dict[str, Any]:
    return {"texts": one.texts, "tokens": one.tokens, "truncated": one.truncated, "scores": one.scores}
