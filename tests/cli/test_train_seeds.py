"""How a series of seeds ends: what starts after a failure, a stop or an error, and the exit code."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from grpo_tui.cli import start, train_seeds
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.train_seeds import Job
from tests.cli.test_every_option import PARSER, options


def series(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: list[int | CommandError], begun: bool = False
) -> tuple[int, list[int]]:
    """The exit code of a series whose seeds end so, and the seeds that were started."""
    jobs = [Job(seed, tmp_path / f"r-seed-{seed}", argparse.Namespace()) for seed in range(1, len(ends) + 1)]
    started: list[int] = []

    def train(job: Job, *, quick: bool) -> int:
        assert quick == bool(started)
        started.append(job.seed)
        end = ends[job.seed - 1]
        if isinstance(end, CommandError):
            raise end
        return end

    monkeypatch.setattr(train_seeds, "_train", train)
    monkeypatch.setattr(train_seeds, "_begun", lambda job: begun)
    monkeypatch.setattr(train_seeds, "_complete", lambda job: ends[job.seed - 1] == 0)
    monkeypatch.setattr(train_seeds, "_live", lambda job: ends[job.seed - 1] == 130)
    return train_seeds._one_after_the_other(jobs), started


@pytest.mark.parametrize(
    ("ends", "code", "started", "said"),
    [
        ([0, 0, 0], 0, [1, 2, 3], ("seed 3: complete",)),
        ([1, 0, 0], 1, [1, 2, 3], ("seed 1: failed", "seed 3: complete")),
        ([0, CommandError("no room"), 0], 1, [1, 2, 3], ("seed 2: failed", "seed 3: complete")),
        (
            [0, 3, 0],
            3,
            [1, 2],
            ("seed 2: stopped", "seed 3: not started", "Run the same command again to continue."),
        ),
        ([130, 0, 0], 130, [1], ("seed 1: still training", "seed 2: not started")),
        ([1, 143, 0], 143, [1, 2], ("seed 1: failed", "seed 2: not complete", "seed 3: not started")),
    ],
)
def test_a_failure_leaves_the_others_and_a_stop_ends_the_series(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ends: list[int | CommandError],
    code: int,
    started: list[int],
    said: tuple[str, ...],
) -> None:
    assert series(monkeypatch, tmp_path, ends) == (code, started)
    told = capsys.readouterr()
    assert all(one in told.out for one in said)
    assert ("no room" in told.err) == any(isinstance(end, CommandError) for end in ends)
    complete = [seed for seed in started if ends[seed - 1] == 0]
    assert told.out.count("grpo-tui seeds") == (len(complete) > 1)


def test_an_error_before_the_first_start_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match="bad config"):
        series(monkeypatch, tmp_path, [CommandError("bad config"), 0])
    assert series(monkeypatch, tmp_path, [CommandError("no checkpoint"), 0], begun=True) == (1, [1, 2])


def test_a_second_command_for_the_same_seeds_is_refused(tmp_path: Path) -> None:
    with train_seeds._only_one(tmp_path / "r"):
        with (
            pytest.raises(CommandError, match="Another command is training seeds of"),
            train_seeds._only_one(tmp_path / "r"),
        ):
            pass
        with train_seeds._only_one(tmp_path / "other"):
            pass
    with train_seeds._only_one(tmp_path / "r"):
        pass


REFUSED = ("smoke", "drill", "resume", "keep", "json", "optimizer")
"""Options of `train` that a series does not take."""
ALL = (
    "train my.yaml --seeds 3,1 --detach --set a=1 --set b=2 --run-dir r --gpus 0,1 --force --trust "
    "--quick-check --launcher"
)


def test_the_series_in_the_background_is_the_one_that_was_typed() -> None:
    """Each option that a series takes is given with a value of its own."""
    typed = PARSER.parse_args([*ALL.split(), "accelerate launch --num_processes 2"])
    plain = PARSER.parse_args(["train", "my.yaml"])
    known = {action.dest for action in options(("train",))}
    given = {name for name in known if vars(typed)[name] != vars(plain)[name]}
    assert given == known - {*REFUSED, "headless", "config"}
    anew = {"detach": False, "headless": True, "quick_check": True}
    assert vars(PARSER.parse_args(train_seeds._words(typed))) == vars(typed) | anew
    for name in ("force", "trust"):  # what was not typed is not added
        without = argparse.Namespace(**vars(typed) | {name: False})
        assert vars(PARSER.parse_args(train_seeds._words(without)))[name] is False
    bare = PARSER.parse_args(["train", "my.yaml", "--seeds", "1", "--detach"])
    assert vars(PARSER.parse_args(train_seeds._words(bare))) == vars(bare) | anew


@pytest.mark.parametrize(("typed", "checked"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_the_data_is_checked_once_unless_it_was_not_to_be(
    typed: bool, checked: bool, has_checkpoint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed that ended early is resumed from its folder, with no setting of this command."""
    parsed = PARSER.parse_args(["train", "my.yaml", "--seeds", "1", *["--quick-check"] * typed])
    job = train_seeds._job(parsed, 1, tmp_path / "r")
    monkeypatch.setattr(train_seeds, "_complete", lambda job: False)
    monkeypatch.setattr(train_seeds, "newest_usable", lambda folder: (has_checkpoint or None, []))
    monkeypatch.setattr(start, "prepared", lambda given: ("new", given))
    monkeypatch.setattr(start, "resumed", lambda given: ("resumed", given))
    monkeypatch.setattr(start, "followed", lambda found: found)
    how, given = train_seeds._train(job, quick=checked)
    assert given.quick_check == (typed or checked)
    own = (
        ("resumed", job.root, None, [], "")
        if has_checkpoint
        else ("new", Path("my.yaml"), job.root, ["seed=1"], None)
    )
    assert (how, given.config, given.run_dir, given.overrides, given.resume) == own
