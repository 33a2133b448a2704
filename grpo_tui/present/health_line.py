"""One line in plain words: how the run is, and what a reader of the numbers should know.

It tells the state, the cause of a failure and whether the reward moves. Judging a run (why it does not
learn) is no business of this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import fixed, from_here, plural
from grpo_tui.present.series import Recent, Series
from grpo_tui.present.train_view import Span
from grpo_tui.store.status import ENDED, MASKED, Status

WINDOW = 20
"""Rows that are compared with as many before them."""
FEWEST = 8
CERTAIN = 2.0
"""How many standard errors apart two means must be to be called different."""


def trend(recent: Sequence[Recent]) -> str | None:
    """`rises`, `falls` or `flat`: the newer half of the last 40 values against the older; None when too few.

    The two halves differ when their means are more than two standard errors apart (Welch's statistic).
    """
    values = [r.value for r in recent][-2 * WINDOW :]
    if len(values) < FEWEST:
        return None
    half = len(values) // 2
    older, newer = values[:half], values[-half:]
    moved = _mean(newer) - _mean(older)
    error = math.sqrt((_variance(older) + _variance(newer)) / half)
    if abs(moved) <= max(CERTAIN * error, 1e-9):
        return "flat"
    return "rises" if moved > 0 else "falls"


def health_spans(
    status: Status, folder: str, reward: Series, *, kl_logged: bool, beta: float | None
) -> tuple[Span, ...]:
    """The health line: what matters most first, for what does not fit is left out from the end."""
    state = status.state
    if state in ("failed", "crashed"):
        return _broken(status, folder)
    spans: list[Span] = [(f"⚠ {one_line(alert['message'], 300)}. ", "attention") for alert in status.alerts]
    if state == "stalled" and not status.alerts:
        name = one_line(status.reward_func or "", 30)
        where = f"in the reward {name}; a aborts it" if name else "for many times the usual step"
        spans.append((f"⚠ No progress {where}. ", "attention"))
    elif not status.supervised:
        spans.append(("⚠ The supervisor is gone: abort and stop at once do not work. ", "attention"))
    elif state == "stopped":
        spans.append((f"◼ Stopped at step {status.step}. ", "strong"))
        spans.append((f"{way_on(status, folder)} ", "dim"))
    if status.dropped:
        spans.append((f"⚠ {plural(status.dropped, 'record')} could not be kept. ", "attention"))
    if not any(alert["id"] == MASKED for alert in status.alerts):  # the reward is of no use then
        spans += _reward_words(state, reward)
    if reward.rows and not kl_logged:
        because = "because beta is 0" if not beta else "yet"
        spans.append((f"KL is not computed {because}.", "dim"))
    return tuple(spans)


def _broken(status: Status, folder: str) -> tuple[Span, ...]:
    error = status.error or {}
    cause = one_line(str(error.get("cause") or error.get("message") or "the cause is not known"), 300).strip()
    sentence = cause if cause.endswith((".", "!", "?")) else cause + "."
    word = "Failed" if status.state == "failed" else "Crashed"
    return ((f"✗ {word}: {sentence} ", "bad"), (way_on(status, folder), "text"))


def way_on(status: Status, folder: str) -> str:
    """What starts an ended run again, in a sentence, as one would type it here."""
    run = shell_word(from_here(Path(folder)))
    if any(checkpoint.complete for checkpoint in status.checkpoints):
        return f"`grpo-tui train {run} --resume` goes on from its newest checkpoint."
    if status.step:
        return f"There is no checkpoint to resume from; `grpo-tui train {run} --run-dir NEW` starts anew."
    fixed = "Fix the cause first, then " if status.state in ("failed", "crashed") else ""
    return f"It made no step. {fixed}`grpo-tui train {run}` starts it again."


def _reward_words(state: str, reward: Series) -> list[Span]:
    if not reward.rows:
        if state == "starting":
            return [("◌ Loading the model; the first step will show here. ", "dim")]
        return [("Waiting for the first step. " if state not in ENDED else "It made no step. ", "dim")]
    if reward.gap:
        rows = "the newest row" if reward.gap == 1 else f"the newest {reward.gap:,} rows"
        what = "is infinite" if reward.infinite else "is missing"
        why = "so nothing is learned" if reward.infinite else "every completion got None or NaN"
        return [(f"⚠ The reward {what} in {rows}: {why}. ", "attention")]
    moves = trend(reward.recent)
    if moves is None:
        rows_so_far = plural(reward.count, "row")
        return [(f"● {rows_so_far} so far: too early to say whether the reward moves. ", "dim")]
    if moves == "flat":
        newest = [r.value for r in reward.recent][-WINDOW:]
        around = f", around {fixed(_mean(newest))} in the last {plural(len(newest), 'row')}. "
        return [("● Reward is flat", "attention"), (around, "dim")]
    sign, role = ("▲", "good") if moves == "rises" else ("▼", "bad")
    return [(f"{sign} Reward {moves}", role), (f" since step {_turned(reward, moves):,}. ", "text")]


def _turned(reward: Series, moves: str) -> int:
    """The step from which the smoothed reward rises (its lowest place) or falls (its highest)."""
    known = [(b.smooth, b.middle) for b in reward.buckets if b.smooth is not None]
    place = min(known) if moves == "rises" else max(known)
    return round(place[1])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    centre = _mean(values)
    return sum((v - centre) ** 2 for v in values) / (len(values) - 1)
