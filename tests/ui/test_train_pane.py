"""The open run, as a person watches and steers it."""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.screen import ModalScreen
from textual.widgets import Input, TextArea

from grpo_tui.core import records as r
from grpo_tui.core.commands import Outcome
from grpo_tui.present.before_after import Answered, AnswerPair, BeforeAfter
from grpo_tui.present.formatting import from_here
from grpo_tui.present.run_state import RunState
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.ui.actions import MOVED, action, on_pane
from grpo_tui.ui.screens.dialogs import SampleDialog, StopDialog, with_text
from grpo_tui.ui.screens.reading import SampleResult
from grpo_tui.ui.screens.train import TrainScreen, arranged
from grpo_tui.ui.screens.train_dialogs import SetDialog
from grpo_tui.ui.widgets.chart import Chart
from grpo_tui.ui.widgets.summary import RunSettings
from tests.ui.conftest import app_on, opened, sent, shown, until
from tests.ui.recorded_run import HOSTILE, NOW, RecordedRun, recorded


async def test_the_pane_follows_the_run(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57 / 120" in shown(app))
        run.advance(2)
        run.now("update")
        await until(pilot, lambda: "step 59 / 120" in shown(app))


async def test_a_large_screen_has_a_grid_of_charts_and_their_axes_turn_logarithmic(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(200, 50)) as pilot:
        await opened(pilot)
        charts = [chart for chart in app.screen.query(Chart) if chart.size.area]
        await until(pilot, lambda: None not in {chart.key for chart in charts})
        assert len({chart.key for chart in charts}) == 8
        assert min(chart.size.height for chart in charts) >= 7
        await app.screen.run_action("chart_log")
        assert "log ─" in shown(app)
        assert "linear: not all above 0 ─" in shown(app)
        await app.screen.run_action("chart_log")
        assert "log ─" not in shown(app)
        entropy = next(chart for chart in charts if chart.key == "entropy")
        entropy.focus()
        await until(pilot, lambda: app.screen.focused is entropy)
        await app.screen.run_action("chart_log")
        await until(pilot, lambda: shown(app).count("log ─") == 1)


async def test_settings_show_beside_the_charts_with_what_changed_since(run: RecordedRun) -> None:
    run.write(r.SettingChanged(1, 57, run.at(57), "temperature", 0.9, 0.5))
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("t")
        await until(pilot, lambda: "/models/adder-0.8M" in shown(app) and "now 0.5" in shown(app))
        assert "2e-4" in shown(app)
        assert app.screen.query_one("#chart-0").size.width > 30
        await pilot.press("z", "t")
        await until(pilot, lambda: "now 0.5" in shown(app))
        await pilot.press("t")
        await until(pilot, lambda: "adder-0.8M" not in shown(app))


@pytest.mark.parametrize(("key", "kind"), [("P", "pause"), ("C", "checkpoint")])
async def test_a_key_puts_its_command_into_the_mailbox(run: RecordedRun, key: str, kind: str) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press(key)
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [(kind, {})]
        await until(pilot, lambda: "waits for the end of the step" in shown(app))


async def test_a_key_before_the_first_look_says_to_wait_and_not_that_no_run_is_open(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        assert isinstance(app.screen, TrainScreen)
        app.view = None
        app.screen.action_run_checkpoint()  # before the next look can bring a view
        await until(pilot, lambda: any("still loading" in n.message for n in app._notifications))
        assert not sent(run)


async def test_a_paused_run_says_so_and_resumes(tmp_path: Path) -> None:
    run = recorded(Path("runs") / "demo-add", "paused")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(
            pilot, lambda: "⏸ paused at step 57 for 2m10s; memory stays allocated; P resumes" in shown(app)
        )
        await pilot.press("P")
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("resume", {})]
    run.close()


async def test_stop_names_the_call_with_which_a_script_continues(run: RecordedRun) -> None:
    run.folder.spec.unlink()
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("S")
        await until(pilot, lambda: "trainer.train(resume_from_checkpoint=True)" in shown(app))
        assert "--resume" not in shown(app)


@pytest.mark.parametrize(("answer", "kind"), [("y", "stop"), ("w", "stop_now")])
async def test_stop_asks_once_whether_to_save(run: RecordedRun, answer: str, kind: str) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        for declined in ("n", "escape", "enter"):  # enter alone keeps training
            await pilot.press("S", "S")
            assert isinstance(app.screen, StopDialog)
            await pilot.press(declined)
            assert isinstance(app.screen, TrainScreen)
        assert sent(run) == []
        await pilot.press("S")
        command = f"grpo-tui train {from_here(run.folder.root)} --resume"
        await until(pilot, lambda: command in shown(app))
        await pilot.press(answer)
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [(kind, {})]


@pytest.mark.parametrize("key", [old for old, _, _ in MOVED])
async def test_an_old_steering_key_names_the_new_one_and_does_nothing(run: RecordedRun, key: str) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press(key)
        verb, new = next((verb, new) for old, verb, new in MOVED if old == key)
        await until(pilot, lambda: any(n.message == f"{verb} is {new} now." for n in app._notifications))
        assert isinstance(app.screen, TrainScreen)
        assert sent(run) == []


async def test_abort_is_refused_while_no_reward_call_runs(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await opened(pilot)
        await pilot.press("A")
        await until(pilot, lambda: "No reward call" in shown(app))
        run.now("reward", reward_function="correctness")
        await until(pilot, lambda: "scoring with correctness" in shown(app))
        await pilot.press("A")
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("abort_reward", {})]


async def test_set_sends_only_what_was_changed(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        assert isinstance(app.screen, SetDialog)
        rate = app.screen.query_one("#set-learning_rate", Input)
        assert rate.value == "2e-4"
        await pilot.press(*"1e-4")
        assert rate.value == "1e-4", "what is typed replaces the old value"
        app.screen.query_one("#set-reward_weights", Input).value = "2, 1, 0"
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("set", {"learning_rate": 1e-4, "reward_weights": [2.0, 1.0, 0.0]})]


@pytest.mark.parametrize(
    ("rate", "word"), [("1", "5,000 times the current 0.0002"), ("1e-5", "1/20 of the current 0.0002")]
)
async def test_a_rate_far_from_the_one_now_is_asked_about_once(
    run: RecordedRun, rate: str, word: str
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign", *rate, "enter")
        await until(pilot, lambda: word in shown(app))
        assert sent(run) == []
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("set", {"learning_rate": float(rate), "yes": True})]


async def test_each_value_that_is_far_is_asked_about_and_a_near_one_is_not(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        for rate, word in (("1", "5,000 times"), ("2", "10,000 times"), ("1", "5,000 times")):
            app.screen.query_one("#set-learning_rate", Input).value = rate
            await pilot.press("enter")
            await until(pilot, lambda word=word: word in shown(app))  # type: ignore[misc]
            assert sent(run) == []
        app.screen.query_one("#set-learning_rate", Input).value = "1e-4"
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("set", {"learning_rate": 1e-4})]


async def test_another_setting_is_explained_asked_about_when_far_and_sent_with_its_reason(
    run: RecordedRun,
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        others = app.screen.query_one("#set-others", Input)
        others.focus()
        await until(
            pilot, lambda: "max_grad_norm beta epsilon" in shown(app) and "probe_prompts" in shown(app)
        )
        await pilot.press(*"top_k=3 max_grad_norm=200")
        await until(pilot, lambda: "max_grad_norm, now 1. Longer gradients are scaled" in shown(app))
        assert "Counts from the next step." in " ".join(shown(app).split())
        app.screen.query_one("#set-because", Input).value = "KL has doubled"
        await pilot.press("enter")
        await until(pilot, lambda: "max_grad_norm would be 200 times the current 1" in shown(app))
        assert sent(run) == []
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        wanted = {"top_k": 3, "max_grad_norm": 200.0, "yes": True, "because": "KL has doubled"}
        assert sent(run) == [("set", wanted)]
        await pilot.press("U")
        await until(pilot, lambda: len(sent(run)) == 2)
        assert sent(run)[1] == ("undo", {})


async def test_a_probe_prompt_ends_the_other_settings_and_is_added(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        others = app.screen.query_one("#set-others", Input)
        others.focus()
        others.value = "beta=0.02 lr_scheduler_start=now probe_prompts+=What is 7 + 8?"
        await until(pilot, lambda: "Prompts asked at regular steps. += adds" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        wanted = {"beta": 0.02, "lr_scheduler_start": "now", "probe_prompts": {"add": ["What is 7 + 8?"]}}
        assert sent(run) == [("set", wanted)]


async def test_a_setting_with_a_step_is_scheduled_and_one_that_waits_holds_the_others_back(
    run: RecordedRun,
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        app.screen.query_one("#set-temperature", Input).value = "1.1@step:90"
        app.screen.query_one("#set-others", Input).value = "beta=0.02 top_p=0.9@step:90"
        because = app.screen.query_one("#set-because", Input)
        because.focus()
        await until(pilot, lambda: "With @step:500, after step 500." in shown(app))
        app.screen.query_one("#set-others", Input).value = "beta=0.02 top_p=0.9"
        await pilot.press("tab", "shift+tab")
        told = "Applied together at the next generation, from which top_p can change."
        await until(pilot, lambda: told in " ".join(shown(app).split()))
        app.screen.query_one("#set-others", Input).value = "beta=0.02 top_p=0.9@step:90"
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        schedule = {"90": {"temperature": 1.1, "top_p": 0.9}}
        assert sent(run) == [("set", {"beta": 0.02, "schedule": schedule})]


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("others", "top_p=0.9@90", "write the step as 0.9@step:90"),
        ("others", "probe_prompts=Say", "probe_prompts takes no value: write probe_prompts+=TEXT"),
        ("others", "lr_scheduler_start=soon", "takes the step after which the schedule restarts"),
        ("learning_rate", "fast", "learning_rate must be a number; it is the text"),
        ("learning_rate", "-1", "learning_rate must be above 0, not -1"),
        ("learning_rate", "0@step:90", "must be above 0, not 0. To hold training, use `pause`"),
        ("temperature", "0", "temperature must be from 0.01 to 100, not 0"),
        ("reward_weights", "1 2 x", "must contain only numbers; the text"),
        ("reward_weights", "1 2", "give 3 numbers"),
        ("reward_weights", "1 2 nan", "takes finite numbers"),
        ("others", "top_q=0.5", "unknown setting top_q; did you mean top_p?"),
        ("others", "epsilon", "epsilon has no value. Write it as epsilon="),
        ("others", "top_p=7", "top_p must be above 0 and at most 1, not 7"),
        ("others", "num_generations=4", "unknown setting num_generations; the settings are"),
    ],
)
async def test_a_wrong_value_is_told_in_the_dialog(run: RecordedRun, name: str, text: str, word: str) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        app.screen.query_one(f"#set-{name}", Input).value = text
        await pilot.press("enter")
        await until(pilot, lambda: word in shown(app))
        await pilot.press("escape")
        assert isinstance(app.screen, TrainScreen)
        assert sent(run) == []


async def test_of_two_changes_in_flight_the_rejected_one_comes_back(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    mailbox = Mailbox(run.folder.commands)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        for number, words in enumerate(("top_p=0.9", "beta=0.5"), 1):
            await pilot.press("equals_sign")
            app.screen.query_one("#set-others", Input).value = words
            await pilot.press("enter")
            await until(pilot, lambda number=number: len(mailbox.pending()) == number)  # type: ignore[misc]
        mailbox.finish(mailbox.pending()[1], Outcome(False, 58, "beta cannot be 0.5"))  # top_p still waits
        await until(pilot, lambda: "✗ change rejected: beta cannot be 0.5" in shown(app))
        assert app.screen.query_one("#set-others", Input).value == "beta=0.5"


async def test_settings_that_the_run_rejects_come_back_in_the_dialog(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    mailbox = Mailbox(run.folder.commands)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        app.screen.query_one("#set-because", Input).value = "ratios grow"
        app.screen.query_one("#set-others", Input).focus()
        await pilot.press(*"beta=0.5", "enter")
        await until(pilot, lambda: bool(mailbox.pending()))
        run.write(r.SettingChanged(1, 57, run.at(57), "temperature", 1.0, 0.7))  # set by another meanwhile
        await until(pilot, lambda: app.view is not None and app.view.settings.get("temperature") == 0.7)
        mailbox.finish(mailbox.pending()[0], Outcome(False, 58, f"beta cannot be 0.5 {HOSTILE}"))
        await until(pilot, lambda: "✗ change rejected: beta cannot be 0.5" in shown(app))
        assert isinstance(app.screen, SetDialog)
        assert app.screen.query_one("#set-others", Input).value == "beta=0.5"
        assert app.screen.query_one("#set-because", Input).value == "ratios grow"
        assert app.focused is app.screen.query_one("#set-others", Input), "where it was sent from"
        app.screen.query_one("#set-others", Input).value = "top_p=0.9"
        await until(pilot, lambda: "✗ change rejected" not in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: bool(mailbox.pending()))
        assert sent(run)[-1] == ("set", {"top_p": 0.9, "because": "ratios grow"})


async def test_a_notification_leaves_the_explanation_of_a_dialog_visible(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(pilot)
        await pilot.press("equals_sign")
        app.screen.query_one("#set-others", Input).focus()
        await pilot.press(*"beta=0.5")
        app.notify("An evaluation was requested.")
        await until(pilot, lambda: "An evaluation was requested." in shown(app))
        assert "beta, now 0. Weight of the KL term that holds the policy near the" in shown(app)
        assert "reference model. Counts from the next step." in shown(app)


async def test_a_refused_command_is_said_aloud_and_safely(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    mailbox = Mailbox(run.folder.commands)
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        await opened(pilot)
        await pilot.press("C")
        await until(pilot, lambda: bool(mailbox.pending()))
        mailbox.finish(mailbox.pending()[0], Outcome(False, 58, f"disk full {HOSTILE}"))
        await until(pilot, lambda: "checkpoint rejected: disk full" in shown(app))
        assert "\x1b" not in shown(app)
        assert "[@click=app.quit]" in shown(app)


async def test_a_sample_is_shown_as_it_is(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    mailbox = Mailbox(run.folder.commands)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("m")
        assert isinstance(app.screen, SampleDialog)
        newest = app.view.newest_prompt if app.view else None
        assert newest is not None
        area = app.screen.query_one(TextArea)
        assert area.text == newest[0]["content"]
        await pilot.press("5", "+", "6")
        assert area.text == "5+6", "what is typed replaces the prompt that was offered"
        area.text = newest[0]["content"]
        await pilot.press("enter")
        await until(pilot, lambda: bool(mailbox.pending()))
        assert sent(run) == [("sample", {"prompt": newest})]
        wide = "漢" * 59 + "字"
        texts = [{"text": HOSTILE, "tokens": 3}, {"text": wide, "tokens": 60, "truncated": True}]
        result = {"prompt": newest, "rendered": "<user>", "completions": texts, "before": "3 s"}
        mailbox.finish(mailbox.pending()[0], Outcome(True, 58, "", result))
        await until(pilot, lambda: isinstance(app.screen, SampleResult))
        await until(pilot, lambda: "completion 1 of 2, 3 tokens" in shown(app))
        assert "prompt, after 3 s of training" in shown(app)
        assert "<user>" in shown(app)
        assert "completion 2 of 2, 60 tokens, truncated" in shown(app)
        await pilot.press("end")
        await until(pilot, lambda: "字" in shown(app))
        assert "".join(c for c in shown(app) if c in wide) == wide, "every character, cut by cells"
        assert "␛]52;c;x␇" in shown(app)
        await pilot.press("escape")
        assert isinstance(app.screen, TrainScreen)


def test_a_conversation_that_was_sampled_is_readable_in_every_script() -> None:
    sampled = {"prompt": [{"role": "user", "content": "漢字 é"}], "completions": [{"text": "1", "tokens": 1}]}
    rows = SampleResult(Outcome(True, 58, "", sampled)).lines(78)
    assert any("漢字 é" in span.text for row in rows for span in row)


async def test_an_edited_prompt_keeps_its_place_in_the_chat(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("m")
        app.screen.query_one(TextArea).text = "What is 1 + 1?"
        await pilot.press("enter")
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("sample", {"prompt": [{"role": "user", "content": "What is 1 + 1?"}]})]


SYSTEM, FIRST, SECOND = ({"role": role, "content": role[:1]} for role in ("system", "user", "user"))
ANSWER = {"role": "assistant", "content": "a"}
EDITED = {"role": "user", "content": "new"}


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ([SYSTEM, FIRST], [SYSTEM, EDITED]),
        ([SYSTEM, FIRST, ANSWER, SECOND], [SYSTEM, FIRST, ANSWER, EDITED]),
        ([FIRST, ANSWER], [EDITED]),
        ([{**FIRST, "name": "ana"}], [{**EDITED, "name": "ana"}]),
        ([SYSTEM], "new"),
        ("plain", "new"),
        (None, "new"),
    ],
)
def test_an_edited_prompt_replaces_the_last_question_and_what_answered_it(prompt: Any, asked: Any) -> None:
    before = deepcopy(prompt)
    assert with_text(prompt, "new", "old") == asked
    assert with_text(prompt, "new", "new") == ("new" if prompt is None else prompt), "not edited, kept whole"
    assert prompt == before


async def test_a_held_view_stands_still_while_training_goes_on(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 57 ── “" in shown(app))
        await pilot.press("space")
        run.advance(3)
        run.now("update")
        await until(pilot, lambda: "step 60 / 120" in shown(app))
        assert "view held" in shown(app)
        assert "step 57 ── “" in shown(app)
        assert sent(run) == []
        await pilot.press("space")
        await until(pilot, lambda: "step 60 ── “" in shown(app))


async def test_the_brackets_turn_the_charts(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "─ reward ─" in shown(app))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "completion length, tokens" in shown(app))
        await pilot.press("left_square_bracket", "left_square_bracket")
        await until(pilot, lambda: "completion length, tokens" not in shown(app))
        assert "─ reward ─" not in shown(app)


async def test_a_chart_waits_for_the_first_step_beside_an_evaluation_before_training(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.write(r.MetricRow(1, 0, run.at(0), {"evaluate/pass@1": 0.25, "evaluate/reward/correctness": 0.25}))
    run.now("generate")
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "pass@1 in evaluation" in shown(app))
        assert "Charts appear after the first step." in shown(app)
        assert "missing values" not in shown(app)


async def test_as_many_charts_turn_as_are_shown(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(160, 34)) as pilot:
        await opened(pilot)

        def keys() -> list[str | None]:
            return [chart.key for chart in app.screen.query(Chart) if chart.size.area]

        charts = arranged(app.view.charts, ()) if app.view is not None else ()
        order = [chart.key for chart in charts]
        await until(pilot, lambda: keys() == order[:5])
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: keys() != order[:5])
        assert keys() == [order[0], *order[5:9]]


async def test_the_focus_stays_where_it_was_put_until_its_part_goes(run: RecordedRun) -> None:
    pair = BeforeAfter(
        (AnswerPair("1 + 1?", "2", Answered("3", 0, 0.0), Answered("2", 1, 1.0)),), 1, "a", "a"
    )
    app = app_on(run.folder.root)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        screen, view = app.screen, app.view
        assert isinstance(screen, TrainScreen)
        assert view is not None
        await pilot.press("t")
        settings = screen.query_one(RunSettings)
        settings.focus()
        await until(pilot, lambda: settings.has_focus)
        run.advance(1)
        await until(pilot, lambda: "newest group ── step 58" in shown(app))
        assert settings.has_focus
        screen.choose_part(replace(view, state="finished", live=False, before_after=pair))
        assert screen.part == "before-after"
        await until(pilot, lambda: screen.query_one("#before-after").has_focus)


async def test_the_loss_is_said_to_be_no_progress_signal(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "─ reward ─" in shown(app))
        for _ in range(20):
            if "─ loss ─" in shown(app):
                break
            await pilot.press("right_square_bracket")
            await pilot.pause()
        await until(pilot, lambda: "not a measure of progress" in shown(app))


async def test_the_log_takes_the_place_of_the_groups(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "newest group" in shown(app))
        await pilot.press("l")
        await until(pilot, lambda: "UserWarning: something to look at" in shown(app))
        assert "newest group" not in shown(app)
        await pilot.press("l")
        await until(pilot, lambda: "newest group" in shown(app))


async def test_a_click_on_a_key_of_the_footer_presses_it(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "P pause" in shown(app))
        await pilot.click("Footer", offset=(4, 0))
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("pause", {})]
        await pilot.click("Header", offset=(3, 0))
        assert app.current_mode == "runs"


async def test_a_dialog_takes_away_the_notifications_that_would_cover_it(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(pilot)
        app.notify("Pausing after the current step.")
        await until(pilot, lambda: "Pausing after" in shown(app))
        await pilot.press("S")
        await until(pilot, lambda: isinstance(app.screen, StopDialog))
        await until(pilot, lambda: "checkpoint" in shown(app))
        assert not app._notifications


@pytest.mark.parametrize("asks", ["run.stop", "run.stop_now", "run.set", "run.sample"])
async def test_a_question_that_is_left_sends_nothing(run: RecordedRun, asks: str) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        train = app.screen
        await app.run_action(action(asks).target)
        await until(pilot, lambda: isinstance(app.screen, ModalScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is train)
        await pilot.press("P")  # what the question sent would be there before it
        await until(pilot, lambda: bool(sent(run)))
        assert sent(run) == [("pause", {})]


async def test_the_footer_names_the_keys_of_what_has_the_focus(run: RecordedRun) -> None:
    of_chart = [a.label for a in on_pane("train") if a.footer and "chart" in a.part.split(",")]
    of_groups = [a.label for a in on_pane("train") if a.footer and "groups" in a.part.split(",")]
    app = app_on(run.folder.root)
    async with app.run_test(size=(200, 40)) as pilot:
        await opened(pilot)

        def named() -> list[str]:
            words = shown(app).splitlines()[-1].split()
            return [label for label in (*of_chart, *of_groups) if label in words]

        await until(pilot, lambda: named() == of_groups)
        app.screen.query_one("#chart-0").focus()
        await until(pilot, lambda: named() == of_chart)
        app.screen.query_one("#groups").focus()
        await until(pilot, lambda: named() == of_groups)


@pytest.mark.parametrize("keys", [(), ("space",), ("space", "1")])
async def test_another_run_that_is_opened_takes_the_one_before_off_the_screen(
    run: RecordedRun, keys: tuple[str, ...], tmp_path: Path
) -> None:
    app, other = app_on(run.folder.root), tmp_path / "other"
    other.mkdir()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "newest group ── step 57" in shown(app))
        await pilot.press(*keys)
        app.open_run(other)
        assert app.view is None, "nothing of the run before is steered or shown"
        await until(pilot, lambda: "step 57" not in shown(app))


async def test_leaving_says_how_to_come_back_and_sends_nothing(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("q")
    assert app.return_value == "training continues; `grpo-tui attach runs/demo-add`"
    assert sent(run) == []


async def test_leaving_a_finished_run_says_nothing(tmp_path: Path) -> None:
    run = recorded(Path("runs") / "demo-add", "evaluated")
    run.close()
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "before and after" in shown(app))
        assert "better: pass@1 0.00 → 0.97" in shown(app)
        assert "0/2 I think 8" in shown(app)
        assert "2/2 <think>3+4=" in shown(app)
        await pilot.press("P")
        await until(pilot, lambda: "The run is" in shown(app))
        await pilot.press("l")
        await until(pilot, lambda: "log ── metrics and progress bars folded" in shown(app))
        await pilot.press("l")
        await until(pilot, lambda: "newest group" in shown(app))
        await pilot.press("q")
    assert app.return_value == ""


async def test_a_run_whose_database_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    root = Path("runs") / "demo-add"
    root.mkdir(parents=True)
    app = app_on(root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "no run" in shown(app))
        run = recorded(root)
        await until(pilot, lambda: "step 57 / 120" in shown(app))
        run.close()


async def test_a_run_begun_anew_in_the_same_folder_is_read_anew(tmp_path: Path) -> None:
    run = recorded(Path("runs") / "demo-add")
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 57 / 120" in shown(app))
        run.close()
        for path in run.folder.root.glob("run.db*"):
            path.unlink()
        again = RecordedRun(run.folder.root, total=30)
        again.advance(4)
        again.now("update")
        await until(pilot, lambda: "step 4 / 30" in shown(app))
        again.close()


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (40, 9), (60, 15), (99, 21), (300, 80)])
async def test_no_size_is_too_small_or_too_large(run: RecordedRun, size: tuple[int, int]) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        for key in (
            "l",
            "right_square_bracket",
            "question_mark",
            "escape",
            "equals_sign",
            "escape",
            "1",
            "4",
        ):
            await pilot.press(key)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "step 57 / 120" in shown(app))


async def test_a_run_whose_folder_is_gone_is_neither_starting_nor_going_on(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 57 / 120" in shown(app))
        shutil.rmtree(run.folder.root)
        await until(pilot, lambda: "broken" in shown(app))
        assert "no run here" in shown(app)
        assert "loading the model" not in shown(app)
        await pilot.press("P")
        await until(pilot, lambda: "cannot be read" in shown(app))
        assert not run.folder.root.exists(), "a command made the folder anew"
        await pilot.press("q")
    assert app.return_value == "", "training is said to go on"


async def test_a_pause_on_its_way_is_taken_back_by_the_same_key(run: RecordedRun) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "training" in shown(app))
        await pilot.press("P", "P", "P")
        await until(pilot, lambda: len(sent(run)) == 3)
        assert sorted(kind for kind, _ in sent(run)) == ["pause", "pause", "resume"]
        told = [said.message for said in app._notifications]
        assert "The pause is canceled." in told
        assert "Pausing after the current step. Press P again to keep training." in told, (
            "true once it is paused"
        )
        mailbox = Mailbox(run.folder.commands)
        for command in mailbox.pending():
            mailbox.finish(command, Outcome(True, 57, "", {}, NOW))
        await until(pilot, lambda: app.turning == "")


async def test_a_command_that_could_not_be_sent_is_over_and_can_be_sent_again(run: RecordedRun) -> None:
    app, ended = app_on(run.folder.root), list[str]()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(pilot)
        shutil.rmtree(run.folder.commands, ignore_errors=True)
        run.folder.commands.write_text("in the way")
        app.steer("checkpoint", then=lambda outcome: ended.append("lost"))
        await pilot.press("P")
        await until(pilot, lambda: sum("cannot be written" in n.message for n in app._notifications) == 2)
        run.folder.commands.unlink()
        app.steer("checkpoint", then=lambda outcome: ended.append("sent"))
        await pilot.press("P")
        await until(pilot, lambda: len(sent(run)) == 2)
        assert sorted(kind for kind, _ in sent(run)) == ["checkpoint", "pause"]
        mailbox = Mailbox(run.folder.commands)
        for command in mailbox.pending():
            mailbox.finish(command, Outcome(True, 57, "", {}, NOW))
        await until(pilot, lambda: bool(ended))
        assert ended == ["sent"]


async def test_a_look_that_fails_once_does_not_end_the_watching(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(run.folder.root)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        whole, failed = RunState.view, []

        def view(*args: object, **keywords: object) -> object:
            if not failed:
                failed.append(True)
                raise KeyError("once")
            return whole(*args, **keywords)  # type: ignore[arg-type]

        monkeypatch.setattr(RunState, "view", view)
        before = app.view
        run.advance(1)
        await until(pilot, lambda: bool(failed) and app.view is not before)
        assert app.view is not None
        assert app.view.step == run.step
