"""A run folded from its real run.db into what the screen says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_tui.core import records as r
from grpo_tui.core.commands import Command, Outcome
from grpo_tui.core.findings import SEVERITIES, Finding
from grpo_tui.core.stages import SETTING as STAGE
from grpo_tui.present.charts import health_spans, way_on
from grpo_tui.present.group_card import gold_of
from grpo_tui.present.run_state import DeltaReader, RunState
from grpo_tui.present.runs_view import RunRow, ordered, read_offer, read_run_row, resume_command, run_names
from grpo_tui.present.series import Series
from grpo_tui.present.train_view import TrainView
from grpo_tui.store.live import read_rank
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import CheckpointNow, Status, read_status
from tests.ui.recorded_run import HOSTILE, NOW, RecordedRun, recorded


class Watcher:
    """Looks at a run as the poller does, without a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reader = RunReader(root / "run.db")
        self.deltas = DeltaReader(self.reader)
        self.state = RunState(root.name, str(root))

    def look(self, **more: object) -> TrainView:
        while True:
            delta = self.deltas.read()
            self.state.fold(delta)
            if not delta.more:
                break
        rank = read_rank(self.root / "rank-0.json")
        return self.state.view(read_status(self.root, self.reader), NOW, rank, **more)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    made = RecordedRun(tmp_path / "demo-add")
    made.folder.spec.write_text("{}", encoding="utf-8")  # as started by `grpo-tui train`
    yield made
    made.close()


def words(view: TrainView) -> str:
    return "".join(text for text, _ in view.health)


def test_a_run_folded_in_pieces_equals_one_folded_at_once(run: RecordedRun) -> None:
    run.now("update")
    watcher = Watcher(run.folder.root)
    for _ in range(6):
        run.advance(9, missing=(20, 21))
        pieces = watcher.look()
    whole = Watcher(run.folder.root).look()
    assert [c.buckets for c in pieces.charts] == [c.buckets for c in whole.charts]
    # The spreads of a step are added in another order, so their last digit may differ.
    for piece, other in zip(pieces.charts[0].band, whole.charts[0].band, strict=True):
        assert piece == pytest.approx(other)
    assert replace(pieces, charts=()) == replace(whole, charts=())


def test_the_place_of_the_reward_is_kept_until_it_is_known(run: RecordedRun) -> None:
    run.now("update")
    run.write(r.MetricRow(1, 1, NOW, {"entropy": 0.4}))
    first = Watcher(run.folder.root).look().charts
    assert [(chart.key, len(chart.buckets)) for chart in first] == [("reward", 0), ("entropy", 1)]


@pytest.mark.parametrize("start", [20, 2])
def test_a_resumed_run_forgets_the_steps_that_are_done_again(run: RecordedRun, start: int) -> None:
    run.advance(30)
    watcher = Watcher(run.folder.root)
    before = watcher.look()
    assert before.charts[0].buckets[-1].last == 30
    run.write(
        r.AttemptEnded(1, NOW, "crashed", 30),
        r.AttemptStarted(2, NOW, "here", run.pid, resumed_from=start, total_steps=120),
        r.MetricRow(2, start + 1, NOW, {"reward": 9.0}),
    )
    after = watcher.look()
    reward = after.charts[0]
    assert reward.key == "reward"
    assert reward.buckets[-1].last == start + 1
    assert after.reward == 9.0
    assert max(group.step for group in after.groups) <= start
    assert max(bucket.last for chart in after.charts for bucket in chart.buckets) == start + 1
    assert [f.share for f in after.functions] == [f.share for f in Watcher(run.folder.root).look().functions]


def test_the_view_says_the_numbers_of_the_newest_step(run: RecordedRun) -> None:
    run.advance(57)
    run.events()
    run.now("update")
    view = Watcher(run.folder.root).look()
    assert (view.state, view.step, view.total_steps, view.live) == ("training", 57, 120, True)
    assert view.progress == pytest.approx(57 / 120)
    assert view.eta_s == pytest.approx(63 * view.step_time_s)  # type: ignore[operator]
    assert sum(f.share or 0 for f in view.functions) == pytest.approx(1.0)
    assert [f.weight for f in view.functions] == [2.0, 0.5, 0.5]
    assert view.tokens_per_s == pytest.approx(4096.0 / view.step_time_s, rel=0.05)  # type: ignore[operator]
    assert gold_of(view.groups[0].columns) is not None
    assert len(view.groups[0].completions) == 8
    assert sum(share for _, share in view.phase_shares) == pytest.approx(1.0)
    assert "Reward is up" in words(view)
    assert "KL is not computed because beta is 0" in words(view)
    assert "kl" not in [chart.key for chart in view.charts]


def test_the_reward_is_judged_within_the_newest_stage_that_has_steps(run: RecordedRun) -> None:
    def train(first: int, last: int, reward: float, attempt: int = 1) -> None:
        for step in range(first, last + 1):
            run.write(r.MetricRow(attempt, step, run.at(step), {"reward": reward + 0.001 * (step % 2)}))

    def begin(attempt: int, start: int, name: str) -> None:
        run.write(r.AttemptStarted(attempt, run.at(start + 0.5), "here", run.pid, start, 120))
        change = r.SettingChanged(attempt, start, run.at(start + 0.5), STAGE, "", name, "the config")
        run.write(*[change] if name else [])

    def look() -> tuple[str, float]:
        run.now("update")
        view = Watcher(run.folder.root).look()
        return words(view).partition(". ")[0], round(view.reward_change or 0.0, 2)

    train(1, 30, 0.9)
    level = "● Reward is level at about 0.90 over the last 20 steps", 0.0
    assert look() == level
    begin(2, 30, "correctness")
    assert look() == level, "the stage that begins has no steps"
    train(31, 34, 0.2, attempt=2)
    assert look() == ("● 4 steps so far: too early to see a trend", 0.0)
    train(35, 44, 0.2, attempt=2)
    assert look() == ("● Reward is level at about 0.20 over the last 14 steps", 0.0)
    begin(3, 44, "long")
    assert look() == ("● Reward is level at about 0.20 over the last 14 steps", 0.0)
    begin(4, 25, "")  # back to the first stage, which is longer now
    train(26, 46, 0.9, attempt=4)
    assert look() == level


def test_changes_of_charts_are_those_within_the_stage_that_trains(run: RecordedRun) -> None:
    def train(first: int, last: int, reward: float, more: str, attempt: int = 1) -> None:
        for step in range(first, last + 1):
            values = {"reward": reward, "rewards/format/mean": reward, more: 1.0 + step}
            run.write(r.MetricRow(attempt, step, run.at(step), values))

    def settle(attempt: int, names: list[str]) -> TrainView:
        for index, name in enumerate(names):
            run.write(r.RewardFunctionInfo(attempt, index, name, 1.0, "", "", ""))
        return Watcher(run.folder.root).look()

    train(1, 30, 0.9, "other")
    assert settle(1, ["format"]).charts[0].change == pytest.approx(0.0)
    run.write(r.AttemptStarted(2, run.at(30.5), "here", run.pid, 30, 120))
    run.write(r.SettingChanged(2, 30, run.at(30.5), STAGE, "format", "correctness", "config"))
    train(31, 60, 0.2, "rewards/correctness/mean", attempt=2)
    run.write(r.AttemptEnded(2, run.at(60), "finished", 60, 0))
    view = settle(2, ["format", "correctness"])
    (reward,) = (chart for chart in view.charts if chart.key == "reward")
    assert reward.change == pytest.approx(0.0)
    assert not reward.moves
    assert view.stage_start == 30

    whole, joined = (row.trend for row in view.functions)
    assert len(whole) == len(joined) == len(reward.buckets)
    assert None not in whole
    first = next(place for place, value in enumerate(joined) if value is not None)
    assert reward.buckets[first].first == 31
    assert None not in joined[first:]


def test_the_settings_are_those_in_force(run: RecordedRun) -> None:
    run.advance(57)
    run.events()
    run.write(r.SettingChanged(1, 57, NOW, "reward_weights", [2.0, 0.5, 0.5], [1.0, 1.0, 0.0]))
    run.now("update")
    view = Watcher(run.folder.root).look()
    assert view.settings == {"learning_rate": 2e-4, "temperature": 0.9, "reward_weights": [1.0, 1.0, 0.0]}
    assert [f.weight for f in view.functions] == [1.0, 1.0, 0.0]


def test_a_restart_of_the_schedule_ends_with_its_stage(run: RecordedRun) -> None:
    run.advance(10)
    run.write(r.SettingChanged(1, 5, NOW, "lr_scheduler_start", 0, 5))
    run.now("update")
    assert Watcher(run.folder.root).look().settings["lr_scheduler_start"] == 5
    run.write(r.SettingChanged(2, 10, NOW, "stage", "easy", "hard"))
    assert "lr_scheduler_start" not in Watcher(run.folder.root).look().settings


@pytest.mark.parametrize(("change", "value"), [("learning_rate", 3e-4), ("temperature", 0.7)])
def test_a_rate_that_was_set_moves_on_with_its_schedule_and_what_has_none_stays(
    run: RecordedRun, change: str, value: float
) -> None:
    run.advance(10)
    run.write(r.SettingChanged(1, 10, NOW, change, 1.0, value))
    run.advance(1)
    run.now("update")
    with closing(RunReader(run.folder.database)) as reader:
        logged = list(metric_rows(reader))[-1][2]["learning_rate"]
    view = Watcher(run.folder.root).look()
    assert logged != value
    assert view.settings["learning_rate"] == logged, "a schedule goes on from what was set"
    assert view.settings["temperature"] == (value if change == "temperature" else 0.9)


def test_contributions_follow_the_weights_in_force(run: RecordedRun) -> None:
    run.advance(10)
    watcher = Watcher(run.folder.root)
    before = [f.share for f in watcher.look().functions]
    run.write(r.SettingChanged(1, 10, NOW, "reward_weights", [2.0, 0.5, 0.5], [0.0, 0.5, 0.5]))
    view = watcher.look()
    assert [f.weight for f in view.functions] == [0.0, 0.5, 0.5]
    assert before[0] > 0.5  # type: ignore[operator]
    assert view.functions[0].share == 0.0
    assert sum(f.share or 0 for f in view.functions) == pytest.approx(1.0)
    assert view.functions == Watcher(run.folder.root).look().functions


def test_groups_of_an_evaluation_are_not_among_those_that_train(run: RecordedRun) -> None:
    run.advance(10)
    watcher = Watcher(run.folder.root)
    before = watcher.look()
    done = tuple(r.Completion(i, "held", (1.0, 1.0, 1.0), 3.0, 0.0, 3, True) for i in range(8))
    held = r.Group(0, "held", {"answer": "1"}, done)
    run.write(r.GenerationBatch(1, 900, 0, "eval", 10, 10, NOW, (held,)))
    view = watcher.look()
    shown = ("groups", "flat_share", "masked_share", "spread", "functions", "newest_prompt")
    assert all(getattr(view, name) == getattr(before, name) for name in shown)
    assert view.groups == Watcher(run.folder.root).look().groups


def test_spread_of_steps_before_the_newest_groups_is_fetched_too(run: RecordedRun) -> None:
    run.advance(90)  # 360 groups, of which the first look takes 64
    run.now("update")
    view = Watcher(run.folder.root).look()
    band = view.charts[0].band
    assert len(band) == 90
    assert all(place is not None for place in band)


def test_no_control_character_reaches_the_view(run: RecordedRun) -> None:
    run.advance(3)
    run.events()
    run.log()
    run.write(r.RewardFunctionInfo(1, 3, f"f{HOSTILE}", 1.0))
    run.end("failed", {"type": "E", "message": HOSTILE, "cause": f"it broke {HOSTILE}"})
    view = Watcher(run.folder.root).look()
    text = repr(replace(view, newest_prompt=None))
    assert "\\x1b" not in text
    assert "\\x07" not in text
    assert "[@click=app.quit]" in text


@pytest.mark.parametrize("file", [None, "config.json", "adapter_config.json", "other.json"])
@pytest.mark.parametrize("state", ["finished", "stopped", "training"])
def test_the_model_of_a_run_is_in_its_folder_once_it_has_finished_and_saved_it(
    run: RecordedRun, state: str, file: str | None
) -> None:
    watcher = Watcher(run.folder.root)
    watcher.look()
    if file is not None:
        (run.folder.root / file).touch()
    status = replace(read_status(run.folder.root), state=state)  # type: ignore[arg-type]
    saved = state == "finished" and file is not None and file != "other.json"
    assert watcher.state.view(status, NOW).model_at == (str(run.folder.root) if saved else "")


def test_a_failure_begins_with_its_cause_and_ends_with_the_way_on(run: RecordedRun) -> None:
    run.advance(3)
    run.end("failed", {"type": "KeyError", "message": "m", "cause": "no column named prompt"})
    view = Watcher(run.folder.root).look()
    assert words(view).startswith("✗ Failed: no column named prompt. ")
    assert words(view).endswith(f"`grpo-tui train {run.folder.root} --run-dir NEW` starts a new run.")
    assert not view.live


def test_the_way_on_is_one_that_works(run: RecordedRun) -> None:
    folder = "/runs/a run"
    look = Status("failed")
    again = "`grpo-tui train '/runs/a run'` starts it again."
    assert way_on(look, folder) == f"It completed no step. Fix the cause first, then {again}"
    assert way_on(Status("stopped"), folder) == f"It completed no step. {again}"
    look = replace(look, step=3)
    assert "--run-dir NEW" in way_on(look, folder)
    look = replace(look, checkpoints=(CheckpointNow(2, "p", complete=False),))
    assert "--run-dir NEW" in way_on(look, folder)
    look = replace(look, checkpoints=(CheckpointNow(2, "p", complete=True),))
    assert way_on(look, folder).startswith("`grpo-tui train '/runs/a run' --resume`")


def test_the_way_on_of_a_script_is_the_call_in_it(run: RecordedRun) -> None:
    run.folder.spec.unlink()
    folder = str(run.folder.root)
    saved = Status("failed", step=3, checkpoints=(CheckpointNow(2, "p", complete=True),))
    call = "trainer.train(resume_from_checkpoint=True)"
    assert way_on(saved, folder) == f"Start its script again with `{call}` to continue."
    assert way_on(Status("failed"), folder) == "Start its script again to continue."
    assert resume_command(folder) == call
    assert read_offer(RunRow(run.folder.root, "mine", "stopped")).refusal.endswith(f"again with {call}.")


def test_the_way_on_is_short_where_the_run_lies_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "`grpo-tui train runs/a`" in way_on(Status("failed"), str(tmp_path / "runs" / "a"))


@pytest.mark.parametrize(("value", "word"), [(None, "is missing"), (float("inf"), "is infinite")])
def test_a_reward_that_is_no_number_is_said_and_not_taken_for_no_step(value: float | None, word: str) -> None:
    reward = Series()
    assert "Waiting for the first step" in _health_words("training", reward)
    assert "no step" in _health_words("finished", reward)
    assert _health_words("stopped", reward).count("It completed no step.") == 1
    for step in (1, 2, 3):
        reward.append(step, value)
    assert f"The reward {word} in the newest 3 steps" in _health_words("finished", reward)
    reward.append(4, 0.5)
    assert "newest" not in _health_words("training", reward)


def _health_words(state: str, reward: Series) -> str:
    spans = health_spans(Status(state), "/run", reward, kl_logged=False, beta=0.0)
    return "".join(text for text, _ in spans)


def test_a_stall_names_the_reward_that_runs_and_the_key_within_80_columns() -> None:
    stalled = Status("stalled", reward_func="a_judge_with_quite_a_long_name")
    (text, _), *_ = health_spans(stalled, "/run", Series(), kl_logged=False, beta=0.0)
    assert text == "⚠ No progress in reward a_judge_with_quite_a_long_name. Press A to abort. "
    assert len(text) <= 78
    assert _health_words("stalled", Series()).startswith("⚠ No progress for many times the usual step time.")


@pytest.mark.parametrize(
    ("status", "first"),
    [
        (Status("training"), []),
        (Status("stalled"), ["⚠ No progress"]),
        (Status("stalled", alerts=[{"id": "x", "message": "It waits"}]), ["⚠ It waits"]),
        (Status("training", alerts=[{"id": "x", "message": "It waits"}]), ["⚠ It waits"]),
        (Status("training", supervised=False), ["⚠ The supervisor is gone"]),
        (
            Status("training", supervised=False, alerts=[{"id": "x", "message": "It waits"}], dropped=2),
            ["⚠ It waits", "⚠ The supervisor is gone", "⚠ 2 records could not be saved"],
        ),
    ],
)
def test_what_troubles_a_run_stands_first_once_and_nothing_troubles_one_that_trains(
    status: Status, first: list[str]
) -> None:
    spans = health_spans(status, "/run", Series(), kl_logged=False, beta=0.0)
    found = [text for text, style in spans if style == "attention"]
    assert len(found) == len(first), found
    assert all(text.startswith(start) for text, start in zip(found, first, strict=True)), found


def test_the_worst_open_finding_takes_the_place_of_what_the_reward_does() -> None:
    reward = Series()
    for step in range(1, 41):
        reward.append(step, float(step))
    said = [
        Finding("a.rule", severity, None, None, f"Something {severity}. It went from 1 to 2.", None, 3, 9)
        for severity in SEVERITIES
    ]

    def words(*findings: Finding, state: str = "training") -> str:
        look = Status(state, findings=findings)
        return "".join(text for text, _ in health_spans(look, "/run", reward, kl_logged=True, beta=0.0))

    error, warning, info = said
    assert words(error, warning) == "✗ Something error (since step 3). It went from 1 to 2. "
    assert words(warning, state="finished").startswith("⚠ Something warning (since step 3). ")
    assert "Reward is up" in words(info)
    assert "Something" not in words(error, state="crashed")


def test_an_open_error_stands_alone_and_no_trend_is_told_of_a_policy_without_signal() -> None:
    reward, lost = Series(), Series()
    for step in range(1, 7):
        reward.append(step, 0.5)
        lost.append(step, float(step > 3))

    def words(look: Status) -> str:
        spans = health_spans(look, "/run", reward, kl_logged=True, beta=0.0, no_signal=lost)
        return "".join(text for text, _ in spans)

    assert words(Status("training")) == "⚠ No group in the newest 3 steps has a signal. "
    broke = Finding("policy.broke", "error", None, None, "The policy broke. It fell.", None, 4, 6)
    assert words(Status("training", findings=(broke,))) == "✗ The policy broke (since step 4). It fell. "
    reward.append(7, 0.5)
    lost.append(7, 0.5)
    assert "7 steps so far: too early to see a trend" in words(Status("training"))


def test_a_reward_that_no_longer_varies_contributes_nothing(run: RecordedRun) -> None:
    run.advance(10)
    assert all(f.share is not None for f in Watcher(run.folder.root).look().functions)
    with closing(sqlite3.connect(run.folder.database)) as database, database:
        database.execute(
            "UPDATE reward SET value = 0 WHERE completion_id IN (SELECT c.id FROM completion c"
            " JOIN generation_group g ON g.id = c.group_id WHERE g.step > 7)"
        )
    assert [f.share for f in Watcher(run.folder.root).look().functions] == [None] * 3


@pytest.mark.parametrize(
    ("values", "state", "said"),
    [
        (
            [min(2.0, 0.02 * n) for n in range(300)],
            "training",
            "▲ Reward rose from 0.09 to 2.00, level since",
        ),
        ([max(0.1, 2 - 0.02 * n) for n in range(300)], "finished", "▼ Reward fell from 1.91 to 0.10, level"),
        ([0.01 * n for n in range(100)], "training", "▲ Reward is up since step 0: 0.00 → 0.9"),
        ([0.01 * n for n in range(100)], "finished", "▲ Reward rose since step 0: 0.00 → 0.9"),
        ([1 - 0.01 * n for n in range(100)], "stopped", "▼ Reward fell since step 0: 1.00 → 0.0"),
        ([0.5 + 0.1 * (n % 2) for n in range(100)], "training", "● Reward is level at about 0.55 over"),
    ],
)
def test_the_sentence_tells_the_whole_life_of_the_reward(values: list[float], state: str, said: str) -> None:
    reward = Series()
    for step, value in enumerate(values):
        reward.append(step, value)
    spans = health_spans(Status(state), "/run", reward, kl_logged=True, beta=0.0)
    assert said in "".join(text for text, _ in spans)


def test_a_level_reward_names_the_step_from_which_it_is_level() -> None:
    reward = Series()
    for step in range(400):
        reward.append(step, min(2.0, 0.02 * step) + 0.05 * (step % 2))
    spans = health_spans(Status("training"), "/run", reward, kl_logged=True, beta=0.0)
    told = "".join(text for text, _ in spans)
    assert 90 <= int(told.partition("level since step ")[2].partition(".")[0]) <= 125


@pytest.mark.parametrize("every", [1, 10], ids=["each step logged", "each tenth"])
def test_a_level_that_the_newest_steps_leave_is_not_said_to_begin_with_them(every: int) -> None:
    reward = Series()
    noisy = [1.7 + 0.25 * ((n * 7) % 5 - 2) for n in range(48)]
    for step, value in enumerate([0.6] * 10 + noisy + [2.6] * 2 + [1.75] * 8):
        reward.append(step * every, value)
    spans = health_spans(Status("training"), "/run", reward, kl_logged=True, beta=0.0)
    assert "rose from 0.60 to 1.81, level over the last 20 steps." in "".join(text for text, _ in spans)


def test_a_process_that_is_gone_is_a_crash(tmp_path: Path) -> None:
    made = RecordedRun(tmp_path / "gone", pid=2**22 - 3)
    made.advance(3)
    made.close()
    view = Watcher(tmp_path / "gone").look()
    assert view.state == "crashed"
    assert "killed from outside" in words(view)


def test_commands_sent_from_here_show_before_the_run_has_recorded_them(run: RecordedRun) -> None:
    run.advance(3)
    run.now("update")
    watcher = Watcher(run.folder.root)
    pause = Command("9", "pause", {}, NOW)
    waiting = watcher.look(waiting=[(pause, None)])
    assert waiting.events[0].text == "pause requested; waits for the end of the step"
    refused = watcher.look(waiting=[(pause, Outcome(False, 3, "it ends", {}, NOW))])
    assert refused.events[0].text == "pause rejected: it ends"
    run.write((pause, Outcome(True, 3, "", {}, NOW)))
    recorded_twice = watcher.look(waiting=[(pause, None)])
    assert [row.text for row in recorded_twice.events] == ["paused by you"]


def test_an_applied_change_is_told_once(run: RecordedRun) -> None:
    run.advance(2)
    run.events()
    texts = [row.text for row in Watcher(run.folder.root).look().events]
    assert sum("learning_rate" in text for text in texts) == 1
    assert any("learning_rate 5e-4 → 2e-4, set by you" in text for text in texts)
    assert any("checkpoint-40 saved, 3.2 MB" in text for text in texts)


def test_a_flat_run_is_not_said_to_rise(tmp_path: Path) -> None:
    made = RecordedRun(tmp_path / "flat")
    made.write(*[r.MetricRow(1, s, NOW, {"reward": 1.0 + 0.1 * (s % 2), "kl": 0.1}) for s in range(1, 60)])
    made.now("update")
    made.close()
    view = Watcher(tmp_path / "flat").look()
    assert "Reward is level" in words(view)
    assert "KL" not in words(view)
    assert not view.reward_moves
    assert not view.charts[0].moves


def test_a_run_of_no_rows_says_what_it_waits_for(run: RecordedRun) -> None:
    run.now("load")
    assert "Loading the model" in words(Watcher(run.folder.root).look())


def test_the_list_of_runs_reads_each_folder(tmp_path: Path) -> None:
    for kind in ("training", "paused", "failed", "finished"):
        recorded(tmp_path / kind, kind).close()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(
        b"no database at all, but long enough to be read as one" * 40
    )
    rows = {path.name: read_run_row(path) for path in tmp_path.iterdir()}
    assert {name: row.state for name, row in rows.items()} == {
        "training": "training",
        "paused": "paused",
        "failed": "failed",
        "finished": "finished",
        "broken": "broken",
    }
    assert rows["broken"].trouble
    assert (rows["training"].model, rows["training"].config) == ("adder-0.8M", "demo.yaml")
    assert rows["failed"].cause.startswith("reward function 'correctness' failed (rewards.py:12)")
    assert [row.live for row in ordered(rows.values())] == [True, True, False, False, False]


def test_runs_of_one_name_are_told_apart() -> None:
    names = run_names([Path("/a/demo"), Path("/b/demo"), Path("/c/x"), Path("/task/run")])
    assert list(names.values()) == ["a/demo", "b/demo", "x", "task/run"]


def test_a_run_row_is_frozen() -> None:
    row = RunRow(Path("x"), "x", "training")
    with pytest.raises(AttributeError):
        row.name = "y"  # type: ignore[misc]
