"""What is broken on purpose breaks where it says, and nowhere else."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli.parser import build_parser
from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG, faults
from grpo_tui.demo.faults import (
    BALLAST,
    CRASH_AT,
    DISK_FULL_FROM,
    FAULTS,
    FILE_LIMIT_BYTES,
    HANG_AT,
    RAISE_FROM,
    correctness_of_the_first_digit,
    correctness_on_a_full_disk,
    fewer_characters,
    inverse_distance,
    judge_that_hangs,
    longer_is_better,
    parser_that_raises,
    reads_the_solution,
    scores_the_question,
    slow_judge,
)
from grpo_tui.rewards.loading import load_rewards
from tests import PATIENCE_S

RIGHT = "<think>7+15=22</think><answer>22</answer>"


def before(step: int) -> Any:
    """TRL's state while the rewards of a step are computed."""
    return SimpleNamespace(global_step=step - 1)


@pytest.mark.parametrize("name", list(FAULTS))
def test_every_fault_is_a_config_that_starts_with_rewards_that_load(name: str) -> None:
    rewards = load_rewards(load_config(DEMO_CONFIG, FAULTS[name].overrides_in(Path("a run"))))
    assert rewards
    assert all(callable(reward.func) for reward in rewards)


def test_the_help_names_every_fault_and_what_it_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["demo", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(fault.name in text and fault.teaches in text for fault in FAULTS.values())


def test_a_run_that_ends_before_its_fault_is_refused() -> None:
    from grpo_tui.cli.errors import CommandError
    from grpo_tui.cli.start import demo

    with pytest.raises(CommandError, match=r"crash comes at step 20; --steps 19 ends before it"):
        demo(build_parser().parse_args(["demo", "--fault", "crash", "--steps", "19"]))


def test_the_file_that_fills_the_disk_is_named_before_the_run_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_tui.cli import start

    monkeypatch.setattr(start, "_go", lambda start, **how: print(*start.spec.notes) or 0)
    words = ["demo", "--fault", "full-disk", "--run-dir", str(tmp_path / "a run")]
    assert start.demo(build_parser().parse_args(words)) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"to make room: rm '{tmp_path / 'a run' / BALLAST}'\n")
    assert f"deleting {tmp_path / 'a run' / BALLAST} makes room" in said


def test_the_disk_has_room_again_once_the_ballast_is_deleted_and_is_looked_at_now_and_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ballast, pauses, limits = tmp_path / BALLAST, list[float](), list[tuple[int, tuple[int, int]]]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            ballast.unlink()

    monkeypatch.setattr(faults, "time", SimpleNamespace(sleep=pause))
    monkeypatch.setattr(faults, "_first_step", 1)
    monkeypatch.setattr(faults.resource, "setrlimit", lambda *limit: limits.append(limit))
    hard = faults.resource.getrlimit(faults.resource.RLIMIT_FSIZE)[1]
    rows: dict[str, Any] = {"completions": [RIGHT], "answer": ["22"], "ballast": str(ballast)}
    for step in (DISK_FULL_FROM - 1, DISK_FULL_FROM + 1):
        assert correctness_on_a_full_disk(**rows, trainer_state=before(step)) == [1.0]
    assert limits == []
    assert correctness_on_a_full_disk(**rows, trainer_state=before(DISK_FULL_FROM)) == [1.0]
    (room,) = [thread for thread in threading.enumerate() if thread.name == "room"] or [None]
    try:
        if room is not None:
            room.join(20)
        assert pauses == [faults.ROOM_POLL_S] * 3
    finally:
        ballast.unlink(missing_ok=True)
    assert [limit for _, limit in limits] == [(faults.FILE_LIMIT_BYTES, hard), (hard, hard)]
    said = capsys.readouterr().out
    assert f"delete {ballast} to make room" in said
    assert said.endswith("there is room again\n")


def test_the_judge_hangs_at_its_step_only_and_past_a_broad_except() -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    def score(step: int) -> list[float]:
        return judge_that_hangs(completions=[RIGHT], answer=["22"], trainer_state=before(step))

    assert score(HANG_AT - 1) == score(HANG_AT + 1) == [1.0]

    def hung() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        score(HANG_AT)

    earlier = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):
            hung()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def test_the_parser_raises_from_its_step_on_and_only_without_the_tag() -> None:
    texts, gold = [RIGHT, "7+15=12"], ["22", "22"]
    assert parser_that_raises(texts, answer=gold, trainer_state=before(RAISE_FROM - 1)) == [1.0, 0.0]
    for right in (RIGHT, "<answer> 22\n</answer>", "<answer>22", "<answer>22</answer><answer>7</answer>"):
        assert parser_that_raises([right], answer=["22"], trainer_state=before(RAISE_FROM)) == [1.0]
    with pytest.raises(IndexError):
        parser_that_raises(texts, answer=gold, trainer_state=before(RAISE_FROM))


def test_scores_of_the_question_are_flat_within_every_group() -> None:
    gold = ["22"] * 4 + ["7"] * 4
    assert scores_the_question(["1", "22", "x", ""] * 2, answer=gold) == [1.0] * 4 + [0.0] * 4


def test_a_reward_of_a_column_that_is_not_there_abstains() -> None:
    assert reads_the_solution([RIGHT, "5"], answer=["22", "5"]) == [None, None]
    assert reads_the_solution([RIGHT, "5"], solution=["22", "5"]) == [1.0, 0.0]


def test_a_reward_that_divides_by_the_distance_is_infinite_for_a_correct_answer_alone() -> None:
    texts = [RIGHT, "<answer>20</answer>", "22"]
    assert inverse_distance(texts, answer=["22"] * 3) == [math.inf, 0.5, 0.0]


def test_rewards_of_length_read_nothing_but_the_length() -> None:
    assert fewer_characters(["", "7+15", [{"role": "assistant", "content": "22"}]]) == [0, -4, -2]
    assert longer_is_better(["", "x" * 40]) == [0, 1]


def test_a_slow_judge_takes_its_time_and_scores_as_correctness_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(faults, "time", SimpleNamespace(sleep=pauses.append))
    assert slow_judge([RIGHT, "5"], answer=["22", "5"]) == [1.0, 0.0]
    assert pauses == [faults.JUDGE_TAKES_S]


def test_only_the_first_digit_is_read_and_what_was_read_is_kept() -> None:
    kept: dict[str, list[str]] = {}
    texts = ["<answer>5</answer>", RIGHT, "<answer>2x", "5"]
    scores = correctness_of_the_first_digit(
        [*texts[:3], [{"role": "assistant", "content": texts[3]}]],
        answer=["5", "22", "2", "5"],
        log_extra=kept.__setitem__,
    )
    assert scores == [1.0, 0.0, 1.0, 0.0]
    assert kept == {"extracted": ["5", "2", "2", "none"], "gold": ["5", "22", "2", "5"]}


def _python(body: str, folder: Any) -> subprocess.CompletedProcess[str]:
    setup = """\
        import errno, os, sys, time
        from functools import partial
        from types import SimpleNamespace
        from pathlib import Path
        from grpo_tui.demo import faults
        folder = Path(sys.argv[1])
        def score(function, step):
            return function(completions=["<answer>22</answer>"], answer=["22"],
                            trainer_state=SimpleNamespace(global_step=step - 1))
        """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(setup) + textwrap.dedent(body), str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_kill_comes_once_in_a_fresh_run_and_not_after_a_resume(tmp_path: Any) -> None:
    body = "for step in (1, 2, {}): print(step, score(faults.correctness_until_killed, step), flush=True)"
    fresh = _python(body.format(CRASH_AT), tmp_path)
    assert (fresh.returncode, fresh.stdout) == (-signal.SIGKILL, "1 [1.0]\n2 [1.0]\n")
    resumed = _python(f"for step in (11, {CRASH_AT}): score(faults.correctness_until_killed, step)", tmp_path)
    assert resumed.returncode == 0, resumed.stderr


def test_the_disk_is_full_from_its_step_until_the_named_file_is_deleted(tmp_path: Any) -> None:
    body = f"""
        def grow():
            (folder / "weights").write_bytes(bytes({FILE_LIMIT_BYTES} + 1))
        full = partial(faults.correctness_on_a_full_disk, ballast=str(folder / faults.BALLAST))
        assert score(full, 1) == [1.0]
        grow()
        assert score(full, {DISK_FULL_FROM}) == [1.0]
        try:
            grow()
        except OSError as error:
            assert error.errno == errno.EFBIG
        else:
            raise SystemExit("it is not full")
        (folder / faults.BALLAST).unlink()
        while True:
            try:
                grow()
                break
            except OSError:
                time.sleep(0.1)
        """
    done = _python(body, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"delete {tmp_path / BALLAST} to make room" in done.stdout
    again = _python(
        f"full = partial(faults.correctness_on_a_full_disk, ballast=str(folder / faults.BALLAST))\n"
        f"for step in (7, {DISK_FULL_FROM}): score(full, step)\n"
        f"(folder / 'weights').write_bytes(bytes({FILE_LIMIT_BYTES} + 1))",
        tmp_path,
    )
    assert again.returncode == 0, again.stderr
