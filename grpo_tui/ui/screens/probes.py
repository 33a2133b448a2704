"""Results of the probes: what each function accepts or rejects that it should not."""

from __future__ import annotations

from grpo_tui.core.text import one_line
from grpo_tui.core.text import wrapped as words_wrapped
from grpo_tui.present.formatting import compact, plural
from grpo_tui.present.rewards_view import fitted
from grpo_tui.rewards.probes import TOTAL, ProbeReport, described, looks_at
from grpo_tui.ui.actions import bindings
from grpo_tui.ui.kit.reading import FullReadingScreen
from grpo_tui.ui.paint import Line, Span, pad, ruled, width_of, wrapped

HEADINGS = {"fooled": "accepts what it should reject", "unfair": "rejects what it should accept"}
KIND_W = 28


def probed_word(report: ProbeReport) -> str:
    """Summarize the outcome in a few words."""
    kinds = {kind.kind for kind in report.kinds if kind.fault == "fooled"}
    unfair = {kind.kind for kind in report.kinds if kind.fault == "unfair"}
    if report.failed:
        return "⚠ probes failed"
    fooled = f"{plural(len(kinds), 'attack')} work{'s' * (len(kinds) == 1)}" if kinds else ""
    refused = f"{plural(len(unfair), 'correct variant')} rejected" if unfair else ""
    told = ", ".join(part for part in (fooled, refused) if part)
    return f"⚠ probes: {told}" if told else "✓ probes"


class ProbesScreen(FullReadingScreen):
    """Results of the probes."""

    BINDINGS = bindings("probes")
    PANE, OVER = "probes", "rewards"

    def __init__(self, report: ProbeReport) -> None:
        super().__init__()
        self._report, self.whole = report, False

    def action_probes_whole(self) -> None:
        self.whole = not self.whole
        self.body.changed()
        self.body.refresh()

    def lines(self, width: int) -> list[Line]:
        report = self._report
        where = "built-in questions" if report.made_up else "rows of the dataset"
        what = f"{report.probes} completions for {report.rows} {where}: attacks, and respelled right answers"
        lines: list[Line] = [[Span(f" {row}", "dim")] for row in words_wrapped(what, max(10, width - 2))]
        names = [function.info.name for function in report.functions]
        if any(kind.function == TOTAL for kind in report.kinds):
            names.append(TOTAL)
        failures = {f.info.name: f.failure for f in report.functions if f.failure is not None}
        for name in names:
            lines.append(())
            failure = failures.get(name)
            lines += self._function(name, "" if failure is None else failure.text, width)
        return lines

    def _function(self, name: str, failure: str, width: int) -> list[Line]:
        kinds = [kind for kind in self._report.kinds if kind.function == name]
        title = "the weighted total" if name == TOTAL else one_line(name, 40)
        aspect = self._report.aspects.get(name)
        if failure:
            return [
                ruled([[Span(title, "title")]], width),
                [Span(f" ✗ {one_line(failure, max(10, width - 4))}", "bad")],
            ]
        lines: list[Line] = [ruled([[Span(title, "title")], [Span(described(aspect))]], width)]
        if not kinds and looks_at(aspect):
            lines.append([Span(" ✓ nothing fools it", "good")])
        for fault, heading in HEADINGS.items():
            mine = [kind for kind in kinds if kind.fault == fault]
            if mine:
                sign, role = ("✗", "bad") if fault == "fooled" else ("⚠", "attention")
                lines.append([Span(f" {sign} {heading}", role)])
            for kind in mine:
                example = kind.example
                room = max(10, width - 8)
                line = [
                    Span("   " + pad(kind.kind, KIND_W), "strong"),
                    Span(f"{compact(example.score):>6} of {compact(example.right):<6}"),
                    Span(f"  {kind.rows} of {plural(kind.of, 'row')}", "dim"),
                ]
                why = Span(f"   {example.why}", "dim")
                if width_of([*line, why]) < width:
                    lines.append([*line, why])
                else:
                    lines += [
                        line,
                        *([Span(f"      {row}", "dim")] for row in words_wrapped(example.why, room)),
                    ]
                rows = wrapped(example.text, room) if self.whole else [fitted(one_line(example.text), room)]
                lines += [[Span("      " + row)] for row in rows]
        return lines
