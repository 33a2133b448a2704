"""Choose which metrics get a chart, their order and titles, and summarize a run's health in one line.

The health line gives the state, the cause of a failure and whether the reward moves. `core.metrics` describes
the metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from grpo_tui.core.evaluations import GAIN, HIGH, LOW, WITHOUT_GAIN, Evaluations
from grpo_tui.core.findings import Finding
from grpo_tui.core.metrics import EVAL, EVALUATED, GROUPS, METRICS, describe, is_computed
from grpo_tui.core.statistics import mean, std
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.evaluation_text import verdict
from grpo_tui.present.formatting import (
    IN_SCRIPT,
    compact,
    digits_apart,
    digits_for,
    figure,
    fixed,
    from_here,
    percent,
    plural,
)
from grpo_tui.present.series import FLAT, FLAT_BOTTOM, FLAT_TOP, SPREAD, Recent, Series, band_around
from grpo_tui.present.series import MASKED as MASKED_SHARE
from grpo_tui.present.train_view import ChartView, Span
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_health import resume_options
from grpo_tui.store.read_series import TOKENS_PER_SECOND, SeriesBucket
from grpo_tui.store.status import ENDED, MASKED, Status

WINDOW = 20
FEWEST = 8
LOST = 3
"""Consecutive steps without a signal to report while it is too early for a trend."""
CERTAIN = 2.0
"""Standard errors between two means that count as a difference."""


def trend(recent: Sequence[Recent]) -> str | None:
    """Return `rises`, `falls` or `flat` for the last 40 values, newer half against older; None for too few.

    The halves differ when their means are more than two standard errors apart (Welch's statistic).
    """
    values = [r.value for r in recent][-2 * WINDOW :]
    if len(values) < FEWEST:
        return None
    half = len(values) // 2
    older, newer = values[:half], values[-half:]
    moved = (mean(newer) or 0.0) - (mean(older) or 0.0)
    error = math.hypot(std(older) or 0.0, std(newer) or 0.0) / math.sqrt(half)
    if abs(moved) <= max(CERTAIN * error, 1e-9):
        return "flat"
    return "rises" if moved > 0 else "falls"


def health_spans(
    status: Status,
    folder: str,
    reward: Series,
    *,
    kl_logged: bool,
    beta: float | None,
    no_signal: Series | None = None,
    evaluations: Evaluations | None = None,
) -> tuple[Span, ...]:
    """Return the health line, most important part first: what does not fit is dropped from the end."""
    state = status.state
    if state in ("failed", "crashed"):
        return _broken(status, folder)
    spans: list[Span] = [(f"⚠ {one_line(alert['message'], 300)}. ", "attention") for alert in status.alerts]
    if state == "stalled" and not status.alerts:
        name = one_line(status.reward_func or "", 30)
        where = f"in reward {name}. Press A to abort" if name else "for many times the usual step time"
        spans.append((f"⚠ No progress {where}. ", "attention"))
    elif not status.supervised:
        spans.append(("⚠ The supervisor is gone: abort and stop now do not work. ", "attention"))
    elif state == "stopped":
        spans.append((f"◼ Stopped at step {status.step}. ", "strong"))
        spans.append((f"{way_on(status, folder)} ", "dim"))
    if status.dropped:
        spans.append((f"⚠ {plural(status.dropped, 'record')} could not be saved. ", "attention"))
    if not any(alert["id"] == MASKED for alert in status.alerts):  # the reward is meaningless then
        worst = _worst_words(status.findings)
        if worst:
            return (*spans, *worst)
        spans += _reward_words(status, reward, no_signal or Series())
        spans += _evaluation_words(evaluations)
    if reward.rows and not kl_logged:
        because = "because beta is 0" if not beta else "yet"
        spans.append((f"KL is not computed {because}.", "dim"))
    return tuple(spans)


def _broken(status: Status, folder: str) -> tuple[Span, ...]:
    error = status.error or {}
    cause = one_line(str(error.get("cause") or error.get("message") or "unknown cause"), 300).strip()
    sentence = cause if cause.endswith((".", "!", "?")) else cause + "."
    word = "Failed" if status.state == "failed" else "Crashed"
    return ((f"✗ {word}: {sentence} ", "bad"), (way_on(status, folder), "text"))


def way_on(status: Status, folder: str) -> str:
    """Return a sentence with the command that restarts an ended run, as typed in this folder."""
    run = shell_word(from_here(Path(folder)))
    fresh = f"`grpo-tui train {run} --run-dir NEW` starts a new run."
    saved = any(checkpoint.complete for checkpoint in status.checkpoints)
    if RunFolder(Path(folder)).of_script:
        return f"Start its script again{f' with `{IN_SCRIPT}`' if saved else ''} to continue."
    if saved:
        for first, options in ((one.first_step, resume_options(one)) for one in status.findings):
            if options:
                return f"`grpo-tui train {run} {options}` continues from before step {first:,}."
            if options is not None:
                return f"There is no checkpoint from before step {first:,}; {fresh}"
        return f"`grpo-tui train {run} --resume` continues from the newest checkpoint."
    if status.step:
        return f"There is no checkpoint to resume from; {fresh}"
    fixed = "Fix the cause first, then " if status.state in ("failed", "crashed") else ""
    return f"It completed no step. {fixed}`grpo-tui train {run}` starts it again."


def _worst_words(findings: Sequence[Finding]) -> list[Span]:
    worst = next((finding for finding in findings if finding.severity != "info"), None)
    if worst is None:
        return []
    title, _, rest = one_line(worst.message, 400).partition(". ")
    sign, role = ("✗", "bad") if worst.severity == "error" else ("⚠", "attention")
    return [(f"{sign} {title} (since step {worst.first_step:,}). ", role), (f"{rest} ", "text")]


def _reward_words(status: Status, reward: Series, no_signal: Series) -> list[Span]:
    if not reward.rows:
        if status.state == "starting":
            return [("◌ Loading the model. ", "dim")]
        if status.step:
            return [(f"No reward {'was recorded' if status.state in ENDED else 'is logged yet'}. ", "dim")]
        if status.state == "stopped":  # how to start it again says so
            return []
        waits = "It completed no step. " if status.state in ENDED else "Waiting for the first step. "
        return [(waits, "dim")]
    if reward.gap:
        steps = "the newest step" if reward.gap == 1 else f"the newest {reward.gap:,} steps"
        what = "is infinite" if reward.infinite else "is missing"
        why = "so nothing is learned" if reward.infinite else "every completion got None or NaN"
        return [(f"⚠ The reward {what} in {steps}: {why}. ", "attention")]
    moves = trend(reward.recent)
    lost = [recent.value for recent in no_signal.recent][-LOST:]
    if moves is None and len(lost) == LOST and min(lost) == 1:
        return [(f"⚠ No group in the newest {LOST} steps has a signal. ", "attention")]
    if moves is None:
        return [(f"● {plural(reward.count, 'step')} so far: too early to see a trend. ", "dim")]
    if moves == "flat":
        newest = [r.value for r in reward.recent][-WINDOW:]
        began, level = mean(reward.opening) or 0.0, mean(newest) or 0.0
        if reward.count > 2 * WINDOW and abs(level - began) > max(2 * (std(newest) or 0.0), 1e-9):
            sign, word, role = ("▲", "rose", "good") if level > began else ("▼", "fell", "bad")
            since = _level_since(reward, level, 0.1 * abs(level - began))
            before, after = _apart(began, level)
            recent = since >= reward.recent[-len(newest)].step  # the newest steps alone say little
            when = f"over the last {plural(len(newest), 'step')}" if recent else f"since step {since:,}"
            course = f" from {before} to {after}, level {when}. "
            return [(f"{sign} Reward {word}", role), (course, "text")]
        around = f" at about {figure(level)} over the last {plural(len(newest), 'step')}. "
        return [("● Reward is level", "attention"), (around, "dim")]
    sign, role = ("▲", "good") if moves == "rises" else ("▼", "bad")
    rose, fell = ("rose", "fell") if status.state in ENDED else ("is up", "is down")
    word = rose if moves == "rises" else fell
    known = [(b.smooth, b.middle) for b in reward.buckets if b.smooth is not None]
    value, step = min(known) if moves == "rises" else max(known)
    before, after = _apart(value, known[-1][0])
    course = f" since step {round(step):,}: {before} → {after}. "
    return [(f"{sign} Reward {word}", role), (course, "text")]


def _evaluation_words(evaluations: Evaluations | None) -> list[Span]:
    """Say what the newest evaluation shows; empty before the second one."""
    word, sentence = verdict(evaluations) if evaluations is not None else ("", "")
    if not word:
        return []
    roles = {"better": "good", "worse": "bad", "not shown": "dim"}
    short, bracket, rest = sentence.partition(" (")  # the figures go first where the line is too short
    said = f"{short[0].upper()}{short[1:]}"
    return [(said, roles[word]), (f"{bracket}{rest}. ", "dim")] if rest else [(f"{said}. ", roles[word])]


def _apart(one: float, other: float) -> tuple[str, str]:
    digits = digits_apart([one, other])
    return fixed(one, digits), fixed(other, digits)


def _level_since(reward: Series, level: float, band: float) -> int:
    """Return the first step after which the smoothed reward stays within `band` of `level`."""
    since = reward.last_step or 0
    for bucket in reversed(reward.buckets):
        if bucket.smooth is not None:
            if abs(bucket.smooth - level) > band:
                break
            since = bucket.first
    return since


CHANGE_STEPS = 20

EVALUATIONS = (f"{EVALUATED}pass@1", f"{EVALUATED}total")
"""Measures that decide which policy is better, the preferred one first."""
FIRST = (
    "reward",
    *EVALUATIONS,
    "completions/mean_length",
    "entropy",
    "kl",
    "step_time",
    "grad_norm",
    FLAT,
    TOKENS_PER_SECOND,
    "learning_rate",
    "loss",
)
"""The first charts, in order. Other keys follow in the order of the catalogue."""

_SHARES = frozenset({FLAT, MASKED_SHARE, FLAT_TOP, FLAT_BOTTOM, "frac_reward_zero_std"})
"""Fractions of a few groups jump between 0 and 1, so only their mean over a stretch is meaningful."""
_PLACES = {metric.key: place for place, metric in enumerate(METRICS)}
_GAINS = (GAIN, LOW, HIGH)
"""Drawn as the band around the measure of an evaluation."""
_NO_CHART = frozenset({WITHOUT_GAIN, "epoch", "total_flos", "train_loss", "train_runtime"})
_NO_CHART_PREFIXES = ("train_", "eval_runtime", "eval_samples_per", "eval_steps_per")


def chart_keys(keys: Iterable[str]) -> list[str]:
    """Return the keys that get a chart, in display order."""
    known = list(keys)
    rest = [
        k
        for k in known
        if k not in FIRST
        and k not in _NO_CHART
        and not k.startswith(_NO_CHART_PREFIXES)
        and not (k.startswith(EVALUATED) and k.endswith(_GAINS))
    ]
    main = [k for k in FIRST if k in known]
    if set(EVALUATIONS) <= set(main):  # one of them is enough beside the reward
        main.remove(EVALUATIONS[1])
        rest.append(EVALUATIONS[1])
    return main + sorted(rest, key=_place)


@lru_cache(maxsize=1024)
def _place(key: str) -> tuple[bool, int, int, str]:
    """Return the sort key: training before evaluation, catalogue order, then a run's own metrics by name."""
    metric = describe(key)
    plain = key.removeprefix(EVAL)
    return plain != key, GROUPS.index(metric.group), _PLACES.get(plain, len(_PLACES)), key


@lru_cache(maxsize=1024)
def _title(key: str) -> str:
    return one_line(describe(key).title, 48)


def chart_view(
    key: str, series: Mapping[str, Series], marks: Sequence[tuple[int, str]], end: int, stage: int = 0
) -> ChartView:
    """Return one metric as a chart. Changes are those since `stage`, the last step of earlier stages."""
    own = series.get(key) or Series()
    judged = own.since(stage) if stage else own
    change, change_text = judged.change(CHANGE_STEPS), ""
    if change is not None:
        tiny = own.last is not None and 0 < abs(own.last) < 0.001
        change_text = compact(abs(change)) if tiny else fixed(abs(change), digits_for([own.last]))
    note, short = _note(key, series)
    buckets = own.buckets
    if key.startswith(EVALUATED):  # few values, each already a mean over prompts: a smoothed line would lag
        buckets = tuple(replace(bucket, smooth=bucket.mean) for bucket in buckets)
    return ChartView(
        key=key,
        title=_title(key),
        value=compact(own.last),
        change=change,
        change_text=change_text,
        moves=trend(judged.recent) != "flat",
        note=note,
        note_short=short,
        buckets=buckets,
        band=_band(key, buckets, series),
        raw=key not in _SHARES,
        marks=tuple(marks),
        end=end,
    )


def _band(
    key: str, buckets: Sequence[SeriesBucket], series: Mapping[str, Series]
) -> tuple[tuple[float, float] | None, ...]:
    if key == "reward" and SPREAD in series:
        return band_around(buckets, series[SPREAD].buckets)
    if not key.startswith(EVALUATED) or key + GAIN not in series:
        return ()
    gain, low, high = ({b.first: b.mean for b in series[key + end].buckets} for end in _GAINS)
    band: list[tuple[float, float] | None] = []
    for bucket in buckets:
        parts = bucket.mean, gain.get(bucket.first), low.get(bucket.first), high.get(bucket.first)
        known = [part for part in parts if part is not None]
        band.append(
            (known[0] - known[1] + known[2], known[0] - known[1] + known[3]) if len(known) == 4 else None
        )
    return tuple(band)


def _note(key: str, series: Mapping[str, Series]) -> tuple[str, str]:
    if key == "loss":
        return "not a measure of progress: near 0 is healthy", "not a measure of progress"
    if key == "completions/mean_length":
        cut = _last(series, "completions/clipped_ratio")
        return ("", "") if cut is None else (f"truncated {percent(cut)}", f"truncated {percent(cut)}")
    if key == FLAT:
        top, bottom = _last(series, FLAT_TOP), _last(series, FLAT_BOTTOM)
        if top is None or bottom is None:
            return "", ""
        return (
            f"{percent(top)} at the highest total, {percent(bottom)} at the lowest",
            f"{percent(top)} at top",
        )
    if key.startswith(EVALUATED) and _last(series, key + GAIN) is not None:
        return "band: 95 % interval of the gain over the first evaluation", "95 % interval"
    return ("computed here", "") if is_computed(key) else ("", "")


def _last(series: Mapping[str, Series], key: str) -> float | None:
    return series[key].last if key in series else None


def axis_end(step: int, total: int | None, *, live: bool) -> int:
    """Return the last step of the axis.

    In a live run it is slightly ahead and moves rarely. A chart that shifted with every step would be
    restless, and all of it would be sent over the connection each time.
    """
    if not live or step <= 0:
        return step
    unit = max(4, 2 ** (step.bit_length() - 3))
    ahead = (step // unit + 1) * unit
    return max(step, min(ahead, total)) if total else ahead
