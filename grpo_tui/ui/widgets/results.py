"""Parts of the Results pane: verdict, measures, prompts and models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_tui.core.text import one_line, shell_word, wrapped
from grpo_tui.present.formatting import fixed, from_here, size
from grpo_tui.present.results_view import ROOMY, measure_table
from grpo_tui.ui.kit.table import Column, Listing
from grpo_tui.ui.needs import NO_RUN
from grpo_tui.ui.paint import Line, LinePane, Span, headed, ruled, width_of

if TYPE_CHECKING:
    from grpo_tui.present.results_view import Model, PromptPair, Results
    from grpo_tui.ui.comparing import Work

LOW = 30
"""In a terminal with fewer rows, the details of a comparison are cut to one line."""
EVERY = 1000
"""Height at which no table is cut."""
SIGNS = {"better": ("✓", "good"), "worse": ("✗", "bad"), "not shown": ("●", "attention")}
MARKS_AT = 34
"""First cell of a model's marks, after its figures."""
CHANGES = {1: ("▲", "good"), -1: ("▼", "bad"), 0: ("·", "dim")}


class ResultsSummary(LinePane):
    """The verdict and what was compared; if nothing was, how to compare."""

    run = ""
    replayed = False
    """Whether a replay is shown, in which nothing can be compared."""
    results: Results | None = None
    trouble = ""
    work: Work | None = None
    """The comparison or merge under way."""
    failure = stopped = ""
    """Why the last comparison failed, or what is left of it. Empty once another one begins."""

    def lines(self, width: int, height: int) -> list[Line]:
        return [*self._work(width), *self._known(width)]

    def _work(self, width: int) -> list[Line]:
        if self.work is not None:
            stop = [Span("   S", "key", "screen.results_stop"), Span(" stops it", "dim")]
            stop = stop if width >= ROOMY else []  # the footer shows the key too
            text = one_line(self.work.line, max(20, width - 3 - width_of(stop)))
            return [[Span(f" ◌ {text}", "attention"), *stop]]
        said = f"The comparison failed: {self.failure}" if self.failure else self.stopped
        sign, role = ("✗", "bad") if self.failure else ("◌", "attention")
        rows = [row for row in wrapped(said, width - 4) if row]
        return [[Span(f" {' ' if number else sign} {row}", role)] for number, row in enumerate(rows)]

    def _known(self, width: int) -> list[Line]:
        if not self.run:
            return [[Span(f" {NO_RUN}", "dim")]]
        if self.trouble:
            return [[Span(f" ✗ {row}", "bad")] for row in wrapped(one_line(self.trouble), width - 4)]
        if self.results is None:
            return [[Span(" Reading what is kept of the run …", "dim")]]
        shown = self.results.shown
        if shown is None:
            return self._empty(self.results, width)
        sign, role = SIGNS.get(shown.verdict, ("·", "dim"))
        room = max(20, width - 4)
        first, *more = wrapped(shown.sentence, room)
        lines: list[Line] = [[Span(f" {sign} ", role), Span(first, f"strong {role}")]]
        lines += [[Span(f"   {row}", role)] for row in more]
        if self.app.size.height < LOW:  # leave the rows to prompts and models
            words = one_line(shown.about[0], room)
            about = [words if words == shown.about[0] else words.rpartition(", ")[0] or words]
        else:
            said = self.results.evaluation
            evaluated = (f"Evaluated while training: {said[1]}",) if said is not None else ()
            about = [row for text in (*shown.about, *evaluated) for row in wrapped(text, room)]
        if len(self.results.comparisons) > 1:
            about[:0] = [f"comparison {self.results.at + 1} of {len(self.results.comparisons)}, newest first"]
        return [*lines, *([Span(f"   {row}", "dim")] for row in about)]

    def _empty(self, results: Results, width: int) -> list[Line]:
        if not any(one.usable for one in results.models):
            words = "No model to compare: the run has neither a final model nor a complete checkpoint."
            return [[Span(f" {row}", "strong")] for row in wrapped(words, width - 2)]
        said: list[Line] = [[Span(" Not compared with the base model yet.", "strong")]]
        if results.evaluation is not None:
            word, sentence = results.evaluation
            sign, role = SIGNS.get(word, ("·", "text"))
            first, *more = wrapped(f"{sentence[0].upper()}{sentence[1:]}", max(20, width - 4))
            said = [[Span(f" {sign} ", role), Span(first, f"strong {role}")]]
            said += [[Span(f"   {row}", role)] for row in more]
        if self.replayed:
            return said
        how = [
            Span(" D", "key", "screen.results_compare"),
            Span(" compares a model with the base", "dim"),
        ]
        like = [Span(", like ", "dim"), Span(f"grpo-tui compare {shell_word(self.run)}")]
        return [*said, [*how, *like] if width_of([*how, *like]) <= width else how]


class ResultsMeasures(LinePane):
    """Figures of the models, the differences from the first and their confidence intervals."""

    results: Results | None = None

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        shown = self.results.shown if self.results is not None else None
        return len(measure_table(shown, width, EVERY)) if shown is not None else 0

    def lines(self, width: int, height: int) -> list[Line]:
        shown = self.results.shown if self.results is not None else None
        if shown is None:
            return []
        heads, *rows = measure_table(shown, width, height)
        words, at = [], 0
        for text, role in heads:
            at += cell_len(text)
            words.append((at - cell_len(text.lstrip()), text.strip(), role))
        return [headed(words, width), *([Span(*part) for part in row] for row in rows)]


class PromptList(Listing["PromptPair"]):
    """The prompts, ordered by how much the models differ."""

    ALWAYS_MARKED = False

    def columns(self, width: int) -> list[Column[PromptPair]]:
        room = max((len(one.words) for one in self.rows), default=0)
        left = max(10, width - room - 6)
        return [
            Column("", 2, lambda one: Span(*CHANGES[(one.change > 0) - (one.change < 0)]), gap=1),
            Column("", room, lambda one: Span(one.words, "strong")),
            Column("", left + 3, lambda one: Span(f"  {one_line(one.prompt.strip(), left)}"), gap=1),
        ]


class ModelList(Listing["Model"]):
    """The final model and the checkpoints."""

    ALWAYS_MARKED = False

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return self.count

    def columns(self, width: int) -> list[Column[Model]]:
        def figures(one: Model) -> Span:
            reward = fixed(one.reward) if one.reward is not None else ""
            return Span(f"{one.step:>11,}{'' if one.live else size(one.size_bytes):>9}{reward:>9}")

        return [
            Column("", 2, lambda one: Span("◆", "mark") if one.usable else Span("⚠", "attention"), gap=1),
            Column("", MARKS_AT - 3, figures, gap=2),
            Column("", max(1, width - MARKS_AT),
                   lambda one: Span(one.marks, "dim" if one.usable else "attention"), gap=1),
        ]  # fmt: skip


class PromptsTitle(LinePane):
    """Number of prompts on which the trained model is better, the same or worse."""

    results: Results | None = None

    def lines(self, width: int, height: int) -> list[Line]:
        shown = self.results.shown if self.results is not None else None
        if shown is None:
            return []
        win, tie, loss = shown.counts
        counts = [
            Span(f"better {win:,}", "good" if win else "dim"),
            Span(f"   same {tie:,}   ", "dim"),
            Span(f"worse {loss:,}", "bad" if loss else "dim"),
        ]
        worst: list[Line] = [[Span("the worst", "dim")]] if shown.body["judge"] is None else []
        return [ruled([[Span("prompts", "title")], counts, *worst], width)]


class ModelsTitle(LinePane):
    """Column headings of the models. Empty before any are known."""

    results: Results | None = None

    def lines(self, width: int, height: int) -> list[Line]:
        if self.results is None:
            return []
        words = [(10, "step"), (19, "size"), (26, "reward")]
        return [headed([(2, "models", "title"), *((at, word, "dim") for at, word in words)], width)]


class ModelDetail(LinePane):
    """Where the selected model is, and commands that use it."""

    model: Model | None = None
    results: Results | None = None
    live = False

    def lines(self, width: int, height: int) -> list[Line]:
        one, results = self.model, self.results
        if results is None:
            return []
        if one is None:
            saves = "None yet. C in Train saves a checkpoint." if self.live else "The run saved no model."
            return [[Span(f"  {saves}", "dim")]]
        room = max(20, width - 8)
        path = wrapped(one_line(from_here(one.path)), room)
        lines = [_labelled("at" if not number else "", row) for number, row in enumerate(path)]
        if one.usable:
            lines += [_labelled("run", command, "key") for command in one.commands]
        else:
            lines += [_labelled("", row, "attention") for row in wrapped(one.marks, room)]
        disk = f"{size(results.disk_bytes)} for all models, {size(results.free_bytes)} free"
        return [*lines, _labelled("disk", disk, "dim")]


def _labelled(label: str, text: str, role: str = "text") -> Line:
    return [Span(f"  {label:6}", "dim"), Span(text, role)]
