"""Texts that a terminal must never obey, a run folder full of them, and a strict reading of what was painted.

Every text begins with a mark of its own, so that a test can see on the screen that it was shown.
"""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import Any

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.evaluations import FACT, Evaluation, Evaluations
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile, write_heartbeat
from grpo_tui.store.writer import Writer

NASTY = (
    "[/INST]", "[@click=app.quit]x[/]", "[bold", "[red]r[/red]", "\\[x]", "{0}%s",
    "\x1b[2J\x1b[H", "\x1b]52;c;aGk=\x07", "\x1b]0;owned\x07", "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\",
    "\x1bP+q\x1b\\", "\x1b[?1049l", "\x1bc", "\x1b(0", "\x1b[6n", "\x1b_G\x1b\\",
    "\x9b2J", "\x9d52;c;eA==\x9c", "\x90q\x9c", "\x85", "\x07", "\x00", "\r", "\x08\x08\x08", "\x7f",
    "\x0b\x0c\x0e\x0f",
    "\u202e", "\u2066\u2069", "\u200f\u061c", "\u200b\u2060\ufeff\u00ad", "\u2028\u2029",
    "\U000e0041\U000e007f",
    "e" + "\u0301" * 200, "日本語", "🙂👩\u200d👩\u200d👧⚠\ufe0f", "\ud800", "\udfff\udcff", "\ufffe",
)  # fmt: skip
"""What is woven into every text."""
LONG_LINE = 100_000
MANY_LINES = 3_000
STEPS = 12


class Weaver:
    """Makes hostile texts from a seed, each with its mark; `marks` maps a mark to the place of its text."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.marks: dict[str, str] = {}

    def text(self, place: str, pieces: int = 4) -> str:
        """A mark and some nasty pieces between ordinary words."""
        mark = f"Zq{len(self.marks):03d}"
        self.marks[mark] = place
        words = [mark]
        for _ in range(pieces):
            words += [self._random.choice(NASTY), self._random.choice(("", " ", "ok", self._any()))]
        return "".join(words)

    def name(self, place: str) -> str:
        """One that a file system takes: no slash, no NUL, at most 200 bytes."""
        text = self.text(place, 3).replace("/", "|").replace("\x00", "")
        kept = os.fsencode("".join(c for c in text if not 0xD800 <= ord(c) < 0xDC80 and ord(c) != 0xDFFF))[
            :200
        ]
        return os.fsdecode(kept)

    def _any(self) -> str:
        return chr(
            self._random.choice((self._random.randrange(1, 0x3000), self._random.randrange(1, 0x110000)))
        )


class HostileRun:
    """A run folder in which every text is hostile, written by the real writer."""

    def __init__(self, root: Path, weave: Weaver, state: str = "") -> None:
        self.folder, self.weave, self.state = RunFolder(root), weave, state
        self.now = time.time()
        self.pid = os.getpid()
        self.functions = [weave.text("reward function") for _ in range(2)]
        self.writer = Writer(open_writer(self.folder.database))
        self.writer.write(self._head())
        for step in range(1, STEPS + 1):
            self.writer.write(self._step(step))
        self.writer.write(self._events())
        if state:
            error = {
                "type": weave.text("type"), "message": weave.text("message"), "cause": weave.text("cause")
            }  # fmt: skip
            self.writer.write([r.AttemptEnded(1, self.now, state, STEPS, 1, error)])
        else:
            self._live()

    def close(self) -> None:
        """Fold everything into run.db."""
        self.writer.close()

    def _head(self) -> list[Any]:
        text = self.weave.text
        config = {
            "path": "/tasks/" + text("config"),
            "model": "/models/" + text("model"),
            "grpo": {"temperature": text("value"), text("key"): text("value"), "beta": 0.1},
        }
        infos = [
            r.RewardFunctionInfo(1, i, name, 1.0, text("source"), "0", text("code"))
            for i, name in enumerate(self.functions)
        ]
        started = r.AttemptStarted(1, self.now - 60, text("host"), self.pid, 4, total_steps=40)
        return [
            started,
            r.Fact("config", config),
            r.Fact("reproduction", {text("fact"): text("fact")}),
            *infos,
        ]

    def _step(self, step: int) -> list[Any]:
        text, at = self.weave.text, self.now - 60 + step
        last = step == STEPS
        texts = [text("completion", 8) for _ in range(3)] if last else ["plain"] * 3
        completions = [
            r.Completion(
                i, t, (float(i), None), float(i), i - 1.0, 9, i == 2, {text("x"): text("y")} if last else {}
            )
            for i, t in enumerate(texts)
        ]
        if last:
            long = text("long line", 2) + "y[/b]\x1b[2J" * (LONG_LINE // 10)
            many = text("many lines", 1) + "\n[i]\x1b]0;x\x07\r" * MANY_LINES
            completions += [
                r.Completion(i, t, (1.0, 0.5), 1.5, 0.5, 9, False) for i, t in ((3, long), (4, many))
            ]
        prompt = [{"role": text("role"), "content": "s"}, {"role": "user", "content": text("prompt", 2)}]
        columns = {"answer": text("gold", 1), text("column"): text("value")} if last else {"answer": "1"}
        groups = (r.Group(0, prompt if last else "plain", columns, tuple(completions)),)
        values: dict[str, Any] = {
            "reward": 1.0 + step / 10, "loss": 0.0, "reward_std": 0.5, "kl": 0.01, "step_time": 0.5,
            "completions/mean_length": 9.0, "entropy": 0.3, "odd": "\x1b[2J[/x]",
        }  # fmt: skip
        values |= {f"rewards/{name}/mean": 0.5 for name in self.functions}
        values |= {f"Zm{i}\x1b[2J[@click=app.quit]\u202e{i}": float(step) for i in range(3)}
        return [
            r.GenerationBatch(1, step, 0, "train", step, step, at, groups),
            r.PhaseSpan(1, 0, text("phase") if last else "update", step, at, 0.2),
            r.MetricRow(1, step, at, values),
        ]

    def _events(self) -> list[Any]:
        text, at = self.weave.text, self.now - 3
        lines = [r.LogLine(at, text("log line", 5), level) for level in ("info", "warning", "error")]
        lines += [r.LogLine(at, "\x1b[2J[/x]\x9b" * (LONG_LINE // 8)), r.LogLine(at, "\r\x08" * 50)]
        return [
            r.CheckpointSaved(1, 4, text("checkpoint"), at, True, True, 3),
            r.SettingChanged(1, 6, at + 1, text("setting"), text("old"), text("new"), text("by")),
            (
                Command("1", "set", {text("arg"): text("arg")}, at, text("by")),
                Outcome(False, 6, text("reason"), {}, at),
            ),
            (Command("2", text("kind"), {}, at, "x"), Outcome(True, 7, "", {text("r"): text("r")}, at)),
            r.RewardCall(1, STEPS, 0, at, 0.1, "error", text("call error")),
            r.Dropped(1, "log", 2),
            *[r.LogLine(at, f"line {i} \x1b[{i}m") for i in range(MANY_LINES)],
            *lines,
            *self._evaluated(0, 90),
            *self._evaluated(STEPS, 91),
            r.Fact(FACT, self._evaluations().to_json()),
        ]

    def _evaluated(self, step: int, batch: int) -> list[Any]:
        text = self.weave.text
        answer = r.Completion(0, text("answer", 2), (1.0, None), 1.0, 0.0, 9, False)
        prompt = [{"role": "user", "content": "asked \x1b[2J[@click=app.quit]"}]
        group = r.Group(0, prompt, {"answer": text("right answer")}, (answer,))
        return [r.GenerationBatch(1, batch, 0, "probe", step, step, self.now, (group,))]

    def _evaluations(self) -> Evaluations:
        text, done = self.weave.text, [Evaluation(0, 0.0, (0.0,), 90), Evaluation(STEPS, 1.0, (1.0,), 91)]
        return Evaluations("k", text("measure"), 0, text("judge"), 1.0, (1.0, 1.0), 1, (), tuple(done))

    def _live(self) -> None:
        rank = RankFile(self.folder.rank(0), self.pid)
        rank.update(
            phase="reward", phase_since=self.now - 5, step=STEPS, progress_at=self.now, attempt=1,
            step_time_s=0.5, reward_function=self.weave.text("reward call", 2), reward_call=1,
            note=self.weave.text("note", 2), trouble=self.weave.text("trouble", 2),
        )  # fmt: skip
        rank.close()
        write_heartbeat(self.folder.heartbeat, self.pid, self.pid)


# -- what was painted ------------------------------------------------------------------------------

_KNOWN = re.compile(
    r"""\x1b\[[0-9;]*m                      # colours
      | \x1b\[[0-9;]*[HABCDJK]              # the cursor, and erasing
      | \x1b\[\?[0-9;]+[hl]                 # modes: other screen, mouse, focus, paste, synchronised output
      | \x1b\[\?[0-9]+\$p                   # asking for a mode
      | \x1b\[[<>=][0-9;]*[um]              # keys of kitty
      | \x1b\[[0-9]*\ q                     # shape of the cursor
      | \x1b\[[0-9;]*[cnt]                  # asking what the terminal is
      | \x1b\](?:0|2|22);[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\)   # title, shape of the pointer
      | \x1b[78=>]
    """,
    re.VERBOSE,
)
_CLIPBOARD = re.compile(r"\x1b\]52;c;[A-Za-z0-9+/=]*(?:\x07|\x1b\\)")
_NEVER = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_PILE = re.compile("[\u0300-\u036f]{9,}")


def obeyed(painted: bytes, copies: int = 0) -> list[str]:
    """Everything in the bytes that a terminal would obey or misread, beside what the program itself writes.

    Args:
        painted: What the program wrote.
        copies: How often a person asked for a copy, which is an OSC 52 of its own.
    """
    text = painted.decode("utf-8")  # strict: no character is cut in its middle
    if copies:
        text = _CLIPBOARD.sub(lambda copy: copy[0] if copy[0] in NASTY else "", text, count=copies)
    text = _KNOWN.sub("", text).replace("\r\n", "\n")  # the terminal's own way to the next line
    found = [f"{m.start()}: {text[max(0, m.start() - 30) : m.end() + 30]!r}" for m in _NEVER.finditer(text)]
    return found + [repr(m[0]) for m in _PILE.finditer(text)]
