"""Store a comparison in a file while it runs, so that it survives a kill and can be shown again at once.

The file has one JSON object per line: a header, the rows, each policy's answers to each row, and the results.
An incomplete line is dropped when the file is opened again.
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
from grpo_tui.rewards.comparison import Answers
from grpo_tui.rewards.generating import ChosenRows, DatasetRow
from grpo_tui.store.comparisons import LARGEST_BYTES
from grpo_tui.store.json_file import append_regular, read_regular


class KeptError(RuntimeError):
    """The file cannot be used; the message is for the user."""


class KeptComparison(Closing):
    """Exclusive owner of a comparison's file; a context manager. A file with another header is started over.

    Attributes:
        rows: The chosen rows; None until they are chosen.
        answers: Stored answers by policy and row, both from 0.
        about: How the last answers were sampled.
        results: Results by the reward that was named as judge.

    Raises:
        KeptError: The file cannot be written, or another process uses it.
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
        """Release the file."""
        self._file.close()

    def choose(self, rows: ChosenRows) -> None:
        """Store the chosen rows."""
        self.rows = rows
        listed = [{"number": r.number, "prompt": r.prompt, "columns": dict(r.columns)} for r in rows.rows]
        self._write([{"rows": listed, "held": rows.held, "notes": rows.notes}])

    def add(self, policy: int, answers: Mapping[int, Answers], about: Mapping[str, Any]) -> None:
        """Store a policy's answers to some rows."""
        self.about = dict(about)
        self.answers |= {(policy, row): one for row, one in answers.items()}
        lines = [
            {"policy": policy, "row": row, "about": self.about, **_fields(one)}
            for row, one in answers.items()
        ]
        self._write(lines)

    def finish(self, judge: str, result: Mapping[str, Any]) -> None:
        """Store the result."""
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
        whole = 0
        for line in read_regular(self.path, largest=LARGEST_BYTES).splitlines(keepends=True):
            if not line.endswith(b"\n") or not self._take(line, header, first=whole == 0):
                break
            whole += len(line)
        os.ftruncate(self._file.fileno(), whole)
        if whole == 0:
            self._write([header])

    def _take(self, line: bytes, header: Mapping[str, Any], *, first: bool) -> bool:
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
