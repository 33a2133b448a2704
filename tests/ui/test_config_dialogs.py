"""The findings of a config, listed in full: what a row says, what stays in sight, and what a key does."""

from __future__ import annotations

from typing import Any

from grpo_tui.core.findings import Finding, Fix
from grpo_tui.preflight.report import ChecklistItem, Preflight
from grpo_tui.ui.paint import Line, width_of
from grpo_tui.ui.screens.config_dialogs import FindingList, FindingsScreen, check_rows, finding_rows
from tests.ui.conftest import app_on, shown, until


def words(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in lines]


def finding(number: int, **more: Any) -> Finding:
    return Finding(
        "config.range", "error", f"field_{number}", number, f"fault {number} " + "is long " * 20, **more
    )


def test_a_finding_names_its_place_and_its_fix() -> None:
    wrong = Finding("a", "error", "beta", 3, "too large", Fix("beta", 0.1))
    told = ["❙✗ beta   line 3", "   too large", "   f beta: 0.1"]
    assert words(finding_rows(wrong, 60, here=True)) == told
    assert words(finding_rows(Finding("a", "warning", None, None, "odd"), 60, here=False)) == [
        " ⚠ the whole config", "   odd",
    ]  # fmt: skip
    assert max(map(width_of, finding_rows(finding(1, fix=Fix("x", "y" * 90)), 40, here=True))) <= 40


def test_a_check_lists_what_it_looked_at_and_advises() -> None:
    error = Finding("data.nulls", "error", None, None, "3 prompts are empty")
    items = (ChecklistItem("Data", "no", "3 prompts are empty"), ChecklistItem("Logging", "yes", "on"))
    advice = (Finding("memory", "info", None, None, "use bf16"),)
    found = words(
        check_rows(Preflight(None, (error,), advice=advice, checklist=items, notes=("start vLLM",)), 60)
    )
    assert found[0] == ""
    assert found[1].startswith("─ before training ─")
    assert found[2:6] == [" ✗ Data", "   see the error above", " ✓ Logging", "   on"]
    assert found[7].startswith("─ advice ─")
    assert found[8:] == [" ▸ use bf16", " ▸ start vLLM"]
    assert words(check_rows(Preflight(None), 60)) == [" ✓ No errors.", ""]


async def test_the_chosen_finding_is_whole_in_sight_and_only_one_with_a_fix_is_fixed() -> None:
    found = (*(finding(number) for number in range(12)), finding(12, fix=Fix("beta", 0.1)))
    answers: list[object] = []
    app = app_on(None)
    async with app.run_test(size=(90, 16)) as pilot:
        app.push_screen(FindingsScreen(found), answers.append)
        await until(pilot, lambda: isinstance(app.screen, FindingsScreen) and "fault 0 " in shown(app))
        assert "13 findings" in shown(app)
        listed = app.screen.query_one(FindingList)
        await pilot.press("f")
        assert [note.message for note in app._notifications] == ["There is no single value that fixes this."]
        for key, number in [*(("down", n) for n in range(1, 13)), *(("up", n) for n in range(11, -1, -1))]:
            await pilot.press(key)
            rows = words(finding_rows(found[number], listed.scrollable_content_region.width, here=True))
            await until(pilot, lambda rows=rows: all(row[1:] in shown(app) for row in rows))  # type: ignore[misc]
            assert listed.cursor == number
        await pilot.press("end", "f")
        await until(pilot, lambda: bool(answers))
        assert answers == [("fix", found[12])]


async def test_without_a_finding_no_key_fixes_anything() -> None:
    app = app_on(None)
    async with app.run_test(size=(90, 16)) as pilot:
        screen = FindingsScreen((), "nothing found")
        app.push_screen(screen)
        await until(pilot, lambda: "nothing found" in shown(app))
        await pilot.press("f", "ctrl+f")
        assert app.screen is screen
        assert not app._notifications
