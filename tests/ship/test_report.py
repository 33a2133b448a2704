"""A report puts runs side by side in one file that loads nothing, whatever their names and texts hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from grpo_tui.cli import main
from grpo_tui.core import records as r
from grpo_tui.present.document import Chart, Code, markdown
from grpo_tui.present.svg_chart import Curve, line_chart
from grpo_tui.store.read_series import SeriesBucket
from tests.ship.test_card import EVIL, cells
from tests.ui.recorded_run import RecordedRun, recorded

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "path", "line", "text"}
WRITTEN = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "ul", "li", "table", "tr",
           "th", "td", "pre"}  # fmt: skip


class Page(HTMLParser):
    """The tags of a page with their attributes, and those that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """A finished run, a failed one, and one with hostile texts and another temperature."""
    for name, kind in (("finished", "evaluated"), ("failed", "failed")):
        recorded(tmp_path / name, kind).close()
    evil = RecordedRun(tmp_path / EVIL.replace("/", "∕"))
    evil.write(r.Fact("config", {"model": EVIL, "grpo": {"temperature": 0.5, "beta": 0.0}}))
    evil.write(r.RewardFunctionInfo(1, 3, EVIL, 1.0), r.SettingChanged(1, 1, 1.0, EVIL, EVIL, EVIL))
    evil.advance(4)
    evil.write(r.MetricRow(1, 5, evil.at(5), {"reward": 9e307, f"rewards/{EVIL}/mean": -9e307}))
    evil.close()
    return [str(tmp_path / name) for name in ("finished", "failed")] + [str(evil.folder.root)]


def charts(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def paths(chart: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [path for path in chart.iter(f"{SVG}path") if path.get("class") == kind]


def test_a_page_overlays_the_runs_and_loads_nothing(runs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", *runs, "--output", str(out)]) == 0
    text = out.read_text()
    page = Page(text)
    assert page.open == []
    assert {tag for tag, _ in page.tags} <= WRITTEN | DRAWN
    used = {name for _, attributes in page.tags for name in attributes}
    assert not any(name.startswith("on") or name in ("src", "href", "style") for name in used)
    drawn = charts(text)
    names = [chart.get("aria-label") for chart in drawn]
    assert names[:4] == ["total", "correctness", "format_reward", "incremental_format"]
    assert [len(paths(chart, "line")) for chart in drawn] == [3, 3, 3, 3, 1]
    colours = {path.get("stroke") for path in paths(drawn[0], "line")}
    assert len(colours) == 3
    assert "\x1b" not in text
    assert main(["report", *runs, "--output", str(out)]) == 2
    assert out.read_text() == text


def test_markdown_has_results_settings_and_curves(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *runs]) == 0
    text = capsys.readouterr().out
    assert cells(text, "State")[1:] == ["finished", "failed", "crashed"]
    assert cells(text, "Steps")[1:] == ["60", "57", "5"]
    assert cells(text, "temperature")[1:] == ["0.9", "0.9", "0.5"]
    assert re.fullmatch(r"0\.10 → 0\.70", cells(text, "correctness")[1])
    assert re.search(r"^\| finished \| [\d.]+ \| [▁-█ ]+ \| [\d.]+ \|$", text, re.MULTILINE)
    assert "<" not in text
    assert text.count("\n## ") == 2 + 5 + 3


def test_one_run_is_its_facts_and_its_charts(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", runs[0], "--format", "html"]) == 0
    text = capsys.readouterr().out
    assert [len(paths(chart, "line")) for chart in charts(text)] == [1] * 4
    assert {tag for tag, _ in Page(text).tags if tag[0] == "h" and tag[1:].isdigit()} == {"h1", "h2"}
    assert "Results" not in text
    assert "Better than before training: pass@1 +0.97" in text
    assert main(["report", runs[0], str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


def _bucket(step: int, value: float | None) -> SeriesBucket:
    return SeriesBucket(step, step, 0.0, 0.0, value, value, value, 1, int(value is not None), value)


def test_a_gap_stays_open_and_one_value_is_a_dot() -> None:
    values = [1.0, 2.0, None, 3.0]
    curve = Curve("a", tuple(_bucket(step, value) for step, value in enumerate(values)))
    (line,) = paths(ElementTree.fromstring(line_chart([curve], "a")), "line")
    first, second = (line.get("d") or "").split("M")[1:]
    assert (first.count(" L"), second.count(" L")) == (1, 1)
    start, end = second.strip().split(" L")
    assert start == end
    assert line_chart([Curve("a", (_bucket(1, None),))], "a") == ""
    assert "NaN" not in line_chart([Curve("a", (_bucket(1, 0.0),))], "a")


def test_a_chart_in_text_draws_all_its_lines_on_one_scale() -> None:
    def curve(name: str, *values: float | None) -> Curve:
        return Curve(name, tuple(_bucket(step, value) for step, value in enumerate(values)))

    chart = Chart("reward", (curve("low", 0.0, 0.25), curve("high", 0.5, 1.0), curve("none", None)))
    printed = markdown([chart]).splitlines()
    assert [
        [cell.strip() for cell in line.strip("|").split("|")] for line in printed if "---" not in line
    ] == [
        ["reward", "First", "Smoothed", "Last"],
        ["low", "0.00", "▁▃", "0.25"],
        ["high", "0.50", "▄▇", "1.00"],
        ["none", "–", "", "–"],
    ]
    assert "| none | – |" in markdown([Chart("reward", (curve("none", None),))])


@pytest.mark.parametrize(
    ("text", "fence"), [("a", "```"), ("``", "```"), ("```", "````"), ("x ````` y", "``````")]
)
def test_a_fence_is_longer_than_any_in_its_text(text: str, fence: str) -> None:
    assert markdown([Code((text, "b"), "python")]).strip() == f"{fence}python\n{text}\nb\n{fence}"


def test_runs_that_differ_only_by_seed_are_one_line_in_a_band(tmp_path: Path) -> None:
    made = {("a", 1): 0.5, ("a", 2): 0.6, ("a", 3): 0.55, ("b", 1): 0.7, ("b", 2): 0.82, ("b", 3): 0.75}
    for (name, seed), reward in made.items():
        run = RecordedRun(tmp_path / f"{name}-seed-{seed}")
        run.write(r.Fact("config", {"model": name, "grpo": {"seed": seed}}))
        run.write(*[r.MetricRow(1, step, run.at(step), {"reward": reward}) for step in range(1, 11)])
        run.end("failed" if (name, seed) == ("a", 3) else "finished")
        run.close()
    out = tmp_path / "report.html"
    assert main(["report", *map(str, sorted(tmp_path.glob("*-seed-*"))), "-o", str(out)]) == 0
    text = out.read_text()
    assert "b is better than a by 0.210 (95 %: 0.083 to 0.337): final total reward over 2 seeds" in text
    assert "Not counted in a: a-seed-3 (failed at step" in text
    chart = charts(text)[0]
    assert len(paths(chart, "line")) == 2
    heights = [
        {float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", one.get("d") or "")}
        for one in paths(chart, "band")
    ]
    assert [len(band) for band in heights] == [2, 2]
    (line, _) = [re.findall(r"[ML][\d.]+ ([\d.]+)", one.get("d") or "") for one in paths(chart, "line")]
    assert min(heights[0]) < float(line[0]) < max(heights[0])
