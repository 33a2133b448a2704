"""Texts that are shown whole: help between its words, what a model wrote at any character."""

from __future__ import annotations

from grpo_tui.core.findings import Finding
from grpo_tui.preflight.report import Preflight
from grpo_tui.present.config_compare import Compared
from grpo_tui.rewards.probes import Form, KindReport, ProbeReport, ProbeVerdict
from grpo_tui.ui.actions import ACTIONS
from grpo_tui.ui.kit.reading import DialogTitle
from grpo_tui.ui.paint import Line
from grpo_tui.ui.screens.config_dialogs import CheckScreen
from grpo_tui.ui.screens.reading import DiffScreen, HelpScreen, TextScreen
from grpo_tui.ui.screens.rewards_dialogs import ProbesScreen
from grpo_tui.ui.widgets.group_table import QueryState
from grpo_tui.ui.widgets.summary import RunSettings
from tests.rewards.reports import made_report

ATTACKS = "attacks, and respelled right answers"
LONG = "    Whether the device is used, which [b]no[/b] \x1b[31mword of this sentence says in so many words."


def rows(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line) for line in lines]


def test_prose_breaks_between_words_and_keeps_its_indent_and_its_columns() -> None:
    table = "a   b   c"
    found = rows(TextScreen("", f"{LONG}\n\n{table}", prose=True).lines(40))
    assert max(map(len, found)) <= 40
    assert found[-1] == f" {table}"
    assert all(row.startswith("     ") for row in found[:-2])
    assert " ".join(" ".join(found[:-2]).split()) == LONG.strip().replace("\x1b", "␛")


def test_what_a_model_wrote_breaks_at_any_character() -> None:
    found = rows(TextScreen("", LONG, prose=False).lines(40))
    assert "".join(row[1:] for row in found) == LONG.replace("\x1b", "␛")


def test_the_help_says_every_sentence_whole_in_a_narrow_dialog() -> None:
    found = rows(HelpScreen("config").lines(72))
    assert max(map(len, found)) <= 72
    said = " ".join(" ".join(found).split())
    for action in ACTIONS:
        assert not action.key or action.help in said, action.id
    asking = [action for action in ACTIONS if action.dangerous and action.key]
    assert said.count("asks once") >= len(asking)


def test_a_line_of_a_difference_breaks_between_words_and_keeps_its_indent() -> None:
    text = "  system_prompt: Show the steps, then write the final answer between the two tags"
    found = rows(DiffScreen(Compared("a", "b", (("+", text),))).lines(40))[1:]
    assert found[0].startswith(" +   system_prompt: ")
    assert all(row.startswith("     ") for row in found[1:])
    assert " ".join(" ".join(found).split()) == f"+ {text.strip()}"


def test_a_difference_in_spaces_stays_one_where_its_line_breaks() -> None:
    text = "  system_prompt: Show the steps,  then write the final answer between the two tags"
    both = (("-", text.replace(",  ", ", ")), ("+", text), ("+", f"{text.replace(',  ', ', ')} "))
    for sign, line in both:
        found = rows(DiffScreen(Compared("a", "b", ((sign, line),))).lines(40))[1:]
        joined = "".join(row[3:] for row in found) if "  " in line[2:] or line.endswith(" ") else line
        assert joined == line


def test_the_probes_say_their_reasons_whole_in_a_narrow_terminal() -> None:
    why = "names both answers and lets the function choose the one that it was looking for"
    verdict = ProbeVerdict("format", "hedged", "fooled", 0.75, 1.0, 0.0, why, 0, "4 or 5")
    kinds = (KindReport("format", "hedged", "fooled", 2, 3, verdict),)
    report = ProbeReport(Form("boxed"), 4, 120, made_report().scored.functions, {}, kinds, ())
    found = rows(ProbesScreen(report).lines(76))
    assert max(map(len, found)) <= 76
    said = " ".join(" ".join(found).split())
    assert said.startswith(
        "120 completions for 4 rows of the dataset: attacks, and respelled right answers ─"
    )
    assert why in said


def test_a_setting_that_does_not_fit_beside_its_name_is_whole_below_it() -> None:
    settings = RunSettings(id="settings")
    value = "correctness × 2, format × 0.5, incremental × 0.5"
    settings._recorded = (("rewards", value), ("beta", "0"))
    found = rows(list(settings.lines(30)))
    assert max(map(len, found)) <= 30
    assert " ".join(" ".join(found[1:-1]).split()) == f"rewards {value}"


def test_what_is_wrong_with_a_query_ends_with_a_whole_clause() -> None:
    state = QueryState()
    state.trouble = "column 1: unknown field lenght; did you mean length? (put search text in quotes)"
    assert rows(state.lines(90, 1)) == [f" ✗ {state.trouble}"]
    assert rows(state.lines(70, 1)) == [" ✗ column 1: unknown field lenght; did you mean length?"]
    assert rows(state.lines(40, 1)) == [" ✗ column 1: unknown field lenght"]


def test_the_title_of_a_check_fits_beside_its_keys() -> None:
    errors = tuple(Finding("a", "error", "beta", 3, "too large") for _ in range(12))
    screen = CheckScreen(Preflight(None, errors))
    [shown] = rows(DialogTitle(screen._title, screen._keys).lines(74, 1))
    assert shown.startswith("─ checked: 12 errors ")
