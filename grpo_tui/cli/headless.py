"""Follow a run without a screen: a line per logged step, and an exit code for the outcome.

Only reads the run folder, so leaving it does not affect the run.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from grpo_tui.cli.errors import FAILED, OK, REFUSED, CommandError
from grpo_tui.cli.plain import drop_output
from grpo_tui.core.evaluations import FACT, GAIN, HIGH, LOW, PREFIX, Evaluations
from grpo_tui.core.stages import stage_start
from grpo_tui.core.text import filled, one_line, shorten
from grpo_tui.present.before_after import read_before_after
from grpo_tui.present.charts import way_on
from grpo_tui.present.evaluation_text import verdict
from grpo_tui.present.formatting import LARGE, compact, stage_words
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder, hold, where
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader, lasting
from grpo_tui.store.status import ENDED, Status, read_status

POLL_S = 0.2
OF_A_STEP = ("reward", "eval_reward", "reward_std", "kl", "entropy", "completions/mean_length", "step_time")
SHOWN_PAIRS = 6
"""Number of evaluated prompts whose answers are printed at the end."""
INTERRUPTED, READER_GONE, TERMINATED = 130, 141, 143
"""Exit codes for leaving a running training: 128 + the signal's number, as is usual."""
EXIT = {"finished": OK, "stopped": REFUSED, "failed": FAILED, "crashed": FAILED}


def follow(root: Path, after_row: int = 0, after_attempt: int = 0) -> int:
    """Print progress until the run ends. Exit 0 finished, 1 failed, 3 stopped.

    When interrupted: 130 after Ctrl+C, 143 after SIGTERM, 141 when the reader of stdout is gone.

    Args:
        after_row: Logged rows up to this one are skipped.
        after_attempt: Notes on the resume of attempts up to this one are skipped.
    """
    follower = Follower(root, after_row, after_attempt)
    code, left = until_left(lambda: _follow(follower))
    return leave(root, code) if left else code


def until_left(work: Callable[[], int]) -> tuple[int, bool]:
    """Return the exit code of `work`, and whether it is that of a user who left instead."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if in_main else None
    try:
        return work(), False
    except KeyboardInterrupt:
        return INTERRUPTED, True
    except _Terminated:
        return TERMINATED, True
    except BrokenPipeError:
        drop_output()
        return READER_GONE, True
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


class _Terminated(BaseException):
    """Raised on SIGTERM."""


def _terminate(*_: Any) -> None:
    raise _Terminated


def leave(root: Path, code: int) -> int:
    """Say whether training continues. Return `code`, or the run's own if it ended and the reader is gone."""
    try:
        state = read_status(root).state
    except RunDatabaseError:  # it is still starting
        state = ""
    name = shlex.quote(str(root))
    if state in ENDED:
        said = f"the run has ended. See `grpo-tui status {name}`"
    else:
        said = (
            f"training continues. Watch it with `grpo-tui attach {name}`; save and end it with `grpo-tui "
            f"stop {name}`"
        )
    with contextlib.suppress(OSError):
        print(f"\n{said}" if code == INTERRUPTED else said, file=sys.stderr, flush=True)
    return EXIT[state] if state in ENDED and code == READER_GONE else code


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


class Follower:
    """Prints the progress of one run. `say` prints a line of it."""

    def __init__(
        self,
        root: Path,
        after_row: int = 0,
        after_attempt: int = 0,
        say: Callable[[str], None] = say,
    ) -> None:
        self.root, self._row, self._after_attempt, self._say = root, after_row, after_attempt, say
        self._reader: RunReader | None = None
        self._held: Any = None
        self._rewards: list[tuple[int, float]] = []
        self._standing = ""
        self._told: Sequence[Any] = ()
        self._stage: Any = None

    def poll(self) -> int | None:
        """Print what is new. Return the exit code when the run has ended.

        Raises:
            CommandError: It ended before it recorded anything.
        """
        if self._reader is None:
            self._reader = _database(self.root)
            if self._reader is None:
                return None
            self._held = hold(self.root)
        name = where(self._held)
        if name is None:
            gone = f"{self.root} was deleted, so the run can no longer be followed"
            print(gone, file=sys.stderr, flush=True)
            return FAILED
        if name != self.root.resolve():
            self.root = name
            print(f"the run folder is {one_line(str(name))} now", file=sys.stderr, flush=True)
        look = read_status(self.root, self._reader)
        self._look_at(look, self._reader)  # the state is read before the rows: none is missed at the end
        if look.state not in ENDED:
            return None
        for line in _summary(self.root, self._reader, look.state, self._rewards):
            self._say(line)
        return EXIT[look.state]

    def _look_at(self, look: Status, reader: RunReader) -> None:
        if look.state != "starting" and look.stage not in (None, self._stage):  # until then that of before
            self._stage = look.stage
            self._say(one_line(stage_words(look.stage)))
        notes = _resumed_notes(reader, self._after_attempt)
        if notes and notes != self._told:
            self._told = notes
            for note in notes:
                self._say(f"note: {one_line(str(note))}")
        for number, step, values in metric_rows(reader, after_row=self._row):
            self._row = number
            line = describe_row(step, values) or describe_evaluation(step, values)
            if line:
                self._say(line)
            reward = values.get("reward")
            if isinstance(reward, int | float) and math.isfinite(reward):
                self._rewards.append((step, float(reward)))
        now = _standstill(self.root, look) if look.state not in ENDED else ""
        self._standing, before = now.replace(f" at step {look.step}", "", 1), self._standing
        if now and self._standing != before:  # do not repeat the reason at every step
            self._say(now)


def _follow(follower: Follower) -> int:
    while (code := follower.poll()) is None:
        time.sleep(POLL_S)
    return code


def _resumed_notes(reader: RunReader, after_attempt: int) -> Sequence[Any]:
    """Return the notes on the newest attempt's resume, such as changed settings."""
    newest = max((a.attempt for a in reader.attempts()), default=0)
    notes = reader.fact(f"resumed/{newest}") if newest > after_attempt else None
    return notes if isinstance(notes, list) else ()


def _standstill(root: Path, look: Status) -> str:
    """Return why a live run is paused or stalled, and what continues it. Empty while it trains."""
    name = shlex.quote(str(root))
    reasons = "".join(f": {one_line(alert['message'])}" for alert in look.alerts)
    if look.state == "paused":
        return f"paused at step {look.step}{reasons}; continue with `grpo-tui resume {name}`"
    if look.state == "stalled" and look.reward_func and not reasons:
        call = f"reward function {one_line(look.reward_func)} has not returned"
        return f"stalled at step {look.step}: {call}; abort the call with `grpo-tui abort-reward {name}`"
    return f"{look.state} at step {look.step}{reasons}" if reasons or look.state == "stalled" else ""


def _database(root: Path) -> RunReader | None:
    """Return the record of a run, None until its training process has begun it."""
    with contextlib.suppress(RunDatabaseError):
        reader = RunReader(RunFolder(root).database)
        if reader.attempts():
            return reader
        reader.close()
    look = read_status(root)
    if look.state in ENDED:
        cause = (look.error or {}).get("cause") or f"see {RunFolder(root).log}"
        raise CommandError(f"{root}: the run ended before it recorded anything: {cause}", FAILED)
    return None


def describe_row(step: int, values: dict[str, Any]) -> str:
    """Return a logged row as a line, empty if it has neither reward nor evaluation."""
    parts = []
    for key, value in values.items():
        if key in OF_A_STEP:
            parts.append(f"{key} {_number(value)}")
        elif key.startswith("rewards/") and key.endswith("/mean"):
            parts.append(f"{one_line(key[len('rewards/') : -len('/mean')])} {_number(value)}")
    told = any(part.startswith(("reward ", "eval_reward ")) for part in parts)
    return f"step {step:>5}  {'  '.join(parts)}" if told else ""


def describe_evaluation(step: int, values: dict[str, Any]) -> str:
    """Return a row of `grpo_tui.evaluate` as a line, empty for any other row."""
    measure = next((f"{PREFIX}{name}" for name in ("pass@1", "total") if f"{PREFIX}{name}" in values), None)
    if measure is None:
        return ""
    line = f"step {step:>5}  evaluation  {measure.removeprefix(PREFIX)} {_number(values[measure])}"
    gain, low, high = (values.get(f"{measure}{end}") for end in (GAIN, LOW, HIGH))
    if gain is None or low is None or high is None:
        return line
    return f"{line}  gain {gain:+.3f} (95 %: {low:+.3f} to {high:+.3f})"


def _summary(root: Path, reader: RunReader, state: str, rewards: list[tuple[int, float]]) -> Iterator[str]:
    start = stage_start(lasting(reader.settings(), reader.attempts()))
    rewards = [(step, reward) for step, reward in rewards if step > start]
    if rewards:
        newest = [reward for _, reward in rewards[-10:]]
        first, last = rewards[0][1], sum(newest) / len(newest)  # fmean would raise for huge rewards
        over = f"the last {len(newest)} steps" if len(newest) > 1 else "1 step"
        yield (
            f"first mean reward {first:.3f} (step {rewards[0][0]})   last mean reward {last:.3f} "
            f"(mean of {over})   gain {last - first:+.3f}"
        )
    evaluations = Evaluations.from_json(reader.fact(FACT))
    if evaluations is not None:
        yield verdict(evaluations)[1]
    answers = read_before_after(reader, evaluations)
    for pair in answers.pairs[:SHOWN_PAIRS] if answers else ():
        asked = f"  {filled(shorten(pair.prompt, 24), 24)} gold {pair.gold}   "
        yield f"{asked}before {shorten(pair.before.text, 60)}"
        yield f"{filled('', cell_len(asked))}after  {shorten(pair.after.text, 60)}"
    look = read_status(root, reader)
    yield f"{state} at step {look.step}; {one_line(str(root))}"
    if look.error:
        yield f"cause: {one_line(str(look.error.get('cause') or look.error.get('message')))}"
    if state in ("failed", "crashed", "stopped"):
        yield way_on(look, str(root))


def _number(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.3f}" if abs(value) < LARGE else compact(value)
