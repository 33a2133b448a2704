"""Content of the Results pane: a run's comparisons, prompt by prompt, and its models.

A comparison has the shape that `grpo-tui compare --json` prints. Others are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_tui.core.text import filled, one_line, prompt_text, shell_word
from grpo_tui.present.checkpoint_list import CheckpointList, list_checkpoints
from grpo_tui.present.comparison_text import (
    Change,
    Measure,
    asked,
    chosen_columns,
    digits_of,
    head,
    judged,
    measures_of,
    sentence,
    side_by_side,
)
from grpo_tui.present.evaluation_text import read_evaluations, verdict
from grpo_tui.present.formatting import MISSING, fixed, from_here
from grpo_tui.present.train_view import Span
from grpo_tui.store.comparisons import kept_results, marks, read_lines
from grpo_tui.store.status import read_status

MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration)
"""Errors raised by a result or an answer that does not have the documented shape."""
EPSILON = 1e-6
"""Tolerance with which `rewards.right_answers` compares a score with the lowest passing one."""
TIE = 1e-9
NAME_W, VALUE_W, BAR_W = 15, 12, 21
ROOMY = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion that occurred `count` times; `right` is None when no reward decides."""

    text: str
    count: int
    right: bool | None


@dataclass(frozen=True, slots=True)
class PromptPair:
    """Both models' answers to a prompt.

    Attributes:
        change: How far the trained model is above the base in the deciding measure.
        words: Both values, such as `1/8 → 0/8`.
        base: Completions of the base, those first that differ most from the other model's in that measure.
    """

    number: int
    prompt: str
    change: float
    words: str
    base: tuple[Answer, ...]
    policy: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model against the first one of a stored comparison. `counts` are better, same and worse prompts."""

    file: Path
    at: int
    policy: str
    verdict: str
    sentence: str
    about: tuple[str, ...]
    names: tuple[str, str]
    measures: tuple[Measure, ...]
    counts: tuple[int, int, int]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """A loadable model, or a checkpoint that cannot be loaded. An `adapter` needs its base.

    The policy in the memory of a paused run is `live`.
    """

    step: int
    path: Path
    name: str
    size_bytes: int
    reward: float | None
    marks: str
    usable: bool
    adapter: bool
    live: bool = False

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands to use it."""
        if not self.usable:
            return ()
        if self.live:
            return (f"grpo-tui checkpoint {shell_word(from_here(self.path))}",)
        if not self.adapter:
            return (f"vllm serve {shell_word(from_here(self.path))}",)
        merged = shell_word(f"{self.name.replace('@', '-')}-merged")
        return (f"grpo-tui merge {shell_word(self.name)} {merged}", f"vllm serve {merged}")


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that the pane shows of a run, newest first, with the verdict of its newest evaluation."""

    comparisons: tuple[Comparison, ...]
    at: int
    prompts: tuple[PromptPair, ...]
    models: tuple[Model, ...]
    disk_bytes: int
    free_bytes: int
    evaluation: tuple[str, str] | None = None

    @property
    def shown(self) -> Comparison | None:
        """The comparison that is shown."""
        return self.comparisons[self.at] if self.comparisons else None


def fingerprint(root: Path) -> object:
    """Return a value that changes when `read_results` would, apart from the state of the run."""
    evaluations = read_evaluations(root)
    done = (len(evaluations.done), evaluations.done[-1].step) if evaluations is not None else None
    return marks(root), done, tuple(sorted(path.name for path in root.glob("checkpoint-*/*")))


def read_results(root: Path, wanted: tuple[Path, int] | None = None) -> Results:
    """Read the results of a run.

    Raises:
        RunDatabaseError: The folder holds no run.
    """
    found = list_checkpoints(root)
    comparisons = tuple(one for file, body in kept_results(root) for one in _comparisons(file, body))
    at = next((n for n, one in enumerate(comparisons) if (one.file, one.at) == wanted), 0)
    prompts = _prompts(comparisons[at]) if comparisons else ()
    evaluations = read_evaluations(root)
    return Results(
        comparisons,
        at,
        prompts,
        tuple(_models(root, found)),
        found.disk_bytes,
        found.free_bytes,
        verdict(evaluations) if evaluations is not None else None,
    )


# -- models ------------------------------------------------------------------------------------------


def _models(root: Path, found: CheckpointList) -> Iterable[Model]:
    name = from_here(root)
    if found.final is not None:
        final = found.final
        yield Model(
            final.step, root, name, final.size_bytes, None, "final model", usable=True, adapter=_adapter(root)
        )
    for one in reversed(found.checkpoints):
        held = one.marks
        if one.evaluation is not None:
            held.append(f"{one_line(found.deciding, 20)} {fixed(one.evaluation, 3)}")
        marks = ", ".join(held)
        yield Model(
            one.step,
            Path(one.path),
            f"{name}@{one.step}",
            one.size_bytes,
            one.reward,
            marks if one.complete else f"incomplete: {one.reason}",
            usable=one.complete,
            adapter=_adapter(Path(one.path)),
        )
    if found.live and (status := read_status(root)).state == "paused":
        marks = "in the memory of the paused run"
        yield Model(status.step, root, f"{name}@live", 0, None, marks, usable=True, adapter=False, live=True)


def _adapter(folder: Path) -> bool:
    return (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file()


# -- comparisons -------------------------------------------------------------------------------------


def _comparisons(file: Path, body: Mapping[str, Any]) -> list[Comparison]:
    try:
        steps = [one["step"] or -1 for one in body["policies"]]
        order = sorted(range(1, len(steps)), key=lambda at: (steps[at], at), reverse=True)
        return [_comparison(file, body, at) for at in order]
    except MALFORMED:
        return []


def _comparison(file: Path, body: Mapping[str, Any], at: int) -> Comparison:
    policy = body["policies"][at]["name"]
    verdict = next(one for one in body["verdict"] if one["policy"] == policy)
    won = next(one for one in body["wins"] if one["policy"] == policy)
    return Comparison(
        file,
        at,
        policy,
        verdict["word"],
        sentence(body, verdict),
        (asked(body), judged(body), *(f"Note: {one_line(note)}" for note in body["notes"])),
        (one_line(head(body["policies"][0]), VALUE_W), one_line(head(body["policies"][at]), VALUE_W)),
        measures_of(body),
        (int(won["win"]), int(won["tie"]), int(won["loss"])),
        body,
    )


def measure_table(shown: Comparison, width: int, height: int) -> list[list[Span]]:
    """Return the rows of the table of measures that fit, heading first. Measures that do not fit are counted.

    With more than two models, a measure has a second row with intervals. In a low terminal only the deciding
    one has.
    """
    if len(shown.body["policies"]) == 2:
        rows = [_heading(shown, width), *(_measure_line(one, shown.at, width) for one in shown.measures)]
    else:
        chosen = chosen_columns(shown.body, width - 2, shown.at)
        rows = side_by_side(shown.body, chosen, shown.at)
        if len(rows) > height:
            rows = side_by_side(shown.body, chosen, shown.at, brief=True)
        rows = [[("  ", "text"), *row] for row in rows]
    if (left := len(rows) - height) > 0:
        rows = [*rows[: height - 1], [(f"  … {left + 1} more in a taller terminal", "dim")]]
    return rows


def _heading(shown: Comparison, width: int) -> list[Span]:
    base, policy = (filled(name, VALUE_W, right=True) for name in shown.names)
    bar = [(f"   {'0':^{BAR_W}}", "dim")] if width >= ROOMY else []
    ends: list[Span] = [("   difference", "dim"), ("   95 % interval", "dim")]
    return [(f"  {'measure':{NAME_W}}", "title"), (base, "dim"), (f"  {policy}", "dim"), *bar, *ends]


def _measure_line(one: Measure, at: int, width: int) -> list[Span]:
    values, change = (one.values[0], one.values[at]), one.changes[at]
    digits = digits_of(values)
    cells = "".join(f"{fixed(value, digits):>{VALUE_W}}  " for value in values)
    line: list[Span] = [(f"  {filled(one.name, NAME_W)}", "strong"), (cells, "text")]
    if width >= ROOMY:
        line += [(" ", "text"), *_bar(change), ("  ", "text")]
    middle, ends = change.words if change is not None else (MISSING, "")
    role = change.role if change is not None else "dim"
    return [*line, (f"{middle:>11}", role), *([(f"   {ends}", "dim")] if ends else [])]


def _bar(change: Change | None) -> list[Span]:
    cells, half = [" "] * BAR_W, BAR_W // 2
    cells[half] = "│"
    ends = (change.low, change.mean, change.high) if change is not None else ()
    known = [value for value in ends if value is not None]
    most = max(map(abs, known), default=0.0)
    if len(known) == 3 and most > 0:
        low, middle, high = (half + round(value / most * half) for value in known)
        cells[low : high + 1] = "─" * (high + 1 - low)
        cells[low], cells[high] = "├", "┤"
        cells[middle] = "●"
    role = change.role if change is not None else "text"
    return [("".join(cells), role if role != "text" else "dim")]


# -- prompts -----------------------------------------------------------------------------------------


def _prompts(shown: Comparison) -> tuple[PromptPair, ...]:
    """Return the prompts ordered by how much the models differ; without a judge, those listed as worst."""
    try:
        judge = shown.body["judge"]
        pairs = (
            _listed(shown) if judge is None else list(_answered(shown, int(judge["index"]), judge["least"]))
        )
    except (OSError, *MALFORMED):
        return ()
    worse = sorted((one for one in pairs if one.change < -TIE), key=lambda one: one.change)
    better = sorted((one for one in pairs if one.change > TIE), key=lambda one: -one.change)
    return (*worse, *better, *(one for one in pairs if abs(one.change) <= TIE))


def _listed(shown: Comparison) -> list[PromptPair]:
    found = []
    for one in shown.body["worst"]:
        if one["name"] == shown.policy:
            before, after = one["values"]
            digits = digits_of([before, after])
            words = f"{fixed(before, digits)} → {fixed(after, digits)}"
            base, policy = (Answer(str(one[key]), 1, None) for key in ("base", "policy"))
            found.append(PromptPair(one["row"], one["prompt"], after - before, words, (base,), (policy,)))
    return found


def _answered(shown: Comparison, judge: int, least: float) -> Iterable[PromptPair]:
    rows: list[Mapping[str, Any]] = []
    answers: dict[tuple[int, int], Mapping[str, Any]] = {}
    for line in read_lines(shown.file):
        if "rows" in line:
            rows = line["rows"]
        elif line.get("policy") in (0, shown.at):
            answers[line["policy"], line["row"]] = line
    for at, row in enumerate(rows):
        sides = []
        given = [one for policy in (0, shown.at) for one in answers[policy, at]["scores"]]
        if not row["columns"] and all(one[judge] is None for one in given):
            continue  # a prompt without a reference answer
        for policy in (0, shown.at):
            one = answers[policy, at]
            right = [s[judge] is not None and s[judge] >= least - EPSILON for s in one["scores"]]
            sides.append(list(zip(map(str, one["texts"]), right, strict=True)))
        (before, most), (after, count) = ((sum(right for _, right in s), len(s)) for s in sides)
        change = after / count - before / most
        yield PromptPair(
            row["number"],
            prompt_text(row["prompt"]),
            change,
            f"{before}/{most} → {after}/{count}",
            _distinct(sides[0], right_first=change <= 0),
            _distinct(sides[1], right_first=change > 0),
        )


def _distinct(answers: Iterable[tuple[str, bool]], *, right_first: bool) -> tuple[Answer, ...]:
    found = [Answer(text, count, right) for (text, right), count in Counter(answers).items()]
    return tuple(sorted(found, key=lambda one: (one.right is not right_first, -one.count)))
