"""How a series of runs ends: what starts after a failure, a stop or an error, and the exit code."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli import series, start
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.series import Job, Places, Series, _leave, _told, only_one, places_of
from grpo_tui.cli.start import Start
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from grpo_tui.supervisor import RunFolderBusy
from tests.cli.test_every_option import PARSER, options

CONFIG, INSPECTED = load_config(DEMO_CONFIG), inspect_config(DEMO_CONFIG)


class Scripted:
    """Runs that end as a test says, in the order in which they are polled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: Sequence[Any]) -> None:
        self.ends, self.started, self.polled = ends, list[int](), list[int]()
        self.gpus: dict[int, tuple[str, ...]] = {}
        self.most = 0
        self._complete: set[int] = set()
        self._over: set[int] = set()
        monkeypatch.setattr(series, "Follower", self.follower)
        monkeypatch.setattr(series.start, "launched", self.launched)
        monkeypatch.setattr(series.time, "sleep", lambda seconds: None)
        monkeypatch.setattr(Job, "begun", property(lambda job: self.begun))
        monkeypatch.setattr(Job, "live", property(lambda job: self.end(job) is KeyboardInterrupt))
        self.begun = False
        self.jobs = [
            Job(f"seed {n}", tmp_path / f"r-seed-{n}", self.prepare(n), lambda n=n: n in self._complete)
            for n in range(1, len(ends) + 1)
        ]

    def end(self, job: Job) -> Any:
        number = int(job.name.split()[1])
        return self.ends[number - 1] if number in self.started else None

    def prepare(self, number: int) -> Any:
        def prepared(gpu: str | None, quick: bool) -> Any:
            assert quick == bool(self.started)
            self.started.append(number)
            if isinstance(end := self.ends[number - 1], CommandError):
                self._over.add(number)
                raise end
            spec = RunSpec({}, gpus=(gpu,) if gpu else ())
            return Start(RunFolder(Path(f"r-seed-{number}")), spec, CONFIG, INSPECTED)

        return prepared

    def launched(self, start: Any) -> tuple[int, int]:
        self.gpus[int(start.folder.root.name[-1])] = start.spec.gpus
        return 0, 0

    def follower(self, root: Path, row: int, attempt: int, say: Any) -> Any:
        number = int(root.name[-1])

        def poll() -> int | None:
            self.polled.append(number)
            self.most = max(self.most, len({*self.started} - self._over))
            if self.polled.count(number) < 2:
                say(f"step 1 of {number}\nand more")
                return None
            end = self.ends[number - 1]
            if isinstance(end, type):
                raise end
            self._over.add(number)
            self._complete |= {number} if end == 0 else set()
            return int(end)

        return SimpleNamespace(poll=poll)


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
        ([KeyboardInterrupt, 0, 0], 130, [1], ("seed 1: still training", "seed 2: not started")),
    ],
)
def test_a_failure_leaves_the_others_and_a_stop_ends_the_series(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ends: list[Any],
    code: int,
    started: list[int],
    said: tuple[str, ...],
) -> None:
    runs = Scripted(monkeypatch, tmp_path, ends)
    left: list[Path] = []
    one = Series(runs.jobs, Places(), lambda live, code: left.extend(live))
    one.train()
    assert (_told(one), runs.started) == (code, started)
    assert runs.most <= 1
    assert left == ([runs.jobs[0].root] if code == 130 else [])
    told = capsys.readouterr()
    assert all(one in told.out for one in said)
    assert ("no room" in told.err) == any(isinstance(end, CommandError) for end in ends)
    complete = [seed for seed in started if ends[seed - 1] == 0]
    assert told.out.count("grpo-tui seeds") == (len(complete) > 1)


def test_an_error_before_the_first_start_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Scripted(monkeypatch, tmp_path, [CommandError("bad config"), 0])
    with pytest.raises(CommandError, match="bad config"):
        Series(runs.jobs, Places(), _leave).train()
    assert runs.started == [1]
    runs = Scripted(monkeypatch, tmp_path, [CommandError("no checkpoint"), 0])
    runs.begun = True
    Series(runs.jobs, Places(), _leave).train()
    assert runs.started == [1, 2]


def test_a_run_that_ends_while_it_is_looked_at_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs, ended = Scripted(monkeypatch, tmp_path, [0]), list[bool]()

    def complete() -> bool:
        """It ends just after this look at it."""
        ended.append(True)
        return len(ended) > 1

    monkeypatch.setattr(Job, "live", property(lambda job: not ended))
    monkeypatch.setattr(series.start, "known", lambda folder: (0, 0))
    monkeypatch.setattr(series.subprocess, "Popen", lambda *given, **more: None)
    (job,) = runs.jobs
    one = Series([Job(job.name, job.root, job.prepare, complete)], Places(), _leave)
    one.train()
    assert (one.ends, runs.started) == ({"seed 1": "complete"}, [])
    ended.clear()
    one.detach(["train"], tmp_path / "log", always=True)
    assert runs.started == []


@pytest.mark.parametrize("live", [True, False])
def test_a_run_whose_start_was_killed_before_it_could_say_so_is_followed(
    live: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Scripted(monkeypatch, tmp_path, [0])

    def launched(start: Any) -> Any:
        """Find the folder locked: by a process that has told nobody, or by one that is leaving."""
        monkeypatch.setattr(Job, "live", property(lambda job: live))
        raise CommandError("another run is training in this folder") from RunFolderBusy()

    monkeypatch.setattr(series.start, "launched", launched)
    monkeypatch.setattr(series.start, "known", lambda folder: (0, 0))
    runs.begun = True
    one = Series(runs.jobs, Places(), _leave)
    one.train()
    assert one.ends == {"seed 1": "complete" if live else "failed"}


@pytest.mark.parametrize("asked", [None, "4, 7"])
def test_a_run_trains_on_each_gpu_and_the_next_one_takes_the_gpu_that_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str | None
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7" if asked is None else "0")
    gpu = load_config(DEMO_CONFIG, ["use_cpu=false"])
    places = places_of(asked, gpu, ())
    runs = Scripted(monkeypatch, tmp_path, [0, 0, 0])
    one = Series(runs.jobs, places, _leave)
    one.train()
    assert runs.most == 2
    assert runs.gpus == {1: ("4",), 2: ("7",), 3: ("4",)}
    said = capsys.readouterr().out
    assert "seed 2: step 1 of 2\nseed 2: and more" in said
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ("4,7" if asked is None else "0")


@pytest.mark.parametrize(
    ("gpus", "complete", "always", "said"),
    [
        (("",), (1,), False, ["seed 1 is already complete: s", "RUN 2", "Then seed 3, one after the other"]),
        (("",), (), False, ["RUN 1", "Then seed 2, seed 3, one after the other"]),
        (("4", "7"), (), False, ["RUN 1", "Then seed 2, seed 3, 2 at a time"]),
        (("",), (2, 3), False, ["seed 2 is already", "seed 3 is already", "RUN 1"]),
        (("",), (2, 3), True, ["seed 2 is already", "seed 3 is already", "RUN 1"]),
        (("",), (1, 2, 3), False, ["seed 1 is already", "seed 2 is already", "seed 3 is already"]),
    ],
)  # fmt: skip
def test_in_the_background_the_first_run_starts_and_a_process_without_a_terminal_the_others(
    gpus: tuple[str, ...], complete: tuple[int, ...], always: bool, said: list[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    runs, log = Scripted(monkeypatch, tmp_path, [0, 0, 0]), tmp_path / "series.log"
    runs._complete = {*complete}
    made: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(series.subprocess, "Popen", lambda words, **how: made.append((words, how)))
    detached = Series(runs.jobs, Places(gpus), _leave).detach(["train", "my.yaml"], log, always=always)
    left = [n for n in (1, 2, 3) if n not in complete]
    assert (detached, runs.started) == (0, left[:1])
    assert runs.gpus == ({left[0]: gpus[:1] if gpus[0] else ()} if left else {})
    lines = capsys.readouterr().out.splitlines()
    if len(left) > 1 or always:
        ((words, how),) = made
        assert words == [sys.executable, "-m", "grpo_tui", "train", "my.yaml"]
        assert (how["stdin"], how["start_new_session"]) == (subprocess.DEVNULL, True)
        assert how["stdout"].name == how["stderr"].name == str(log)
        assert lines.pop() == (
            "To end the series, stop the run that is training: "
            f"`grpo-tui stop {tmp_path / f'r-seed-{left[0]}'}`"
        )
    else:
        assert not made
    for line, begun in zip(lines, said, strict=True):
        root = tmp_path / f"r-seed-{begun[-1]}"
        told = f"training in {root}. Watch it with `grpo-tui attach {root}`"
        assert line.startswith(told if begun.startswith("RUN") else begun)


@pytest.mark.parametrize(
    ("overrides", "asked", "launcher"),
    [
        ([], None, ()),
        (["use_cpu=false"], None, ("torchrun", "--nproc_per_node", "2")),
        (["use_cpu=false", "grpo_tui.gpus=[1]"], None, ()),
        (["use_cpu=false"], "3", ()),
    ],
    ids=["CPU", "several ranks", "GPUs in the config", "one GPU"],
)
def test_other_runs_train_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, overrides: list[str], asked: str | None, launcher: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert places_of(asked, load_config(DEMO_CONFIG, overrides), launcher) == Places()


def test_runs_of_a_vllm_server_train_one_after_the_other() -> None:
    served = replace(CONFIG, grpo={**CONFIG.grpo, "use_vllm": True, "vllm_mode": "server"})
    assert places_of("3,4", served, ()) == Places()


def test_a_second_command_for_the_same_seeds_is_refused(tmp_path: Path) -> None:
    with only_one(tmp_path / "r", "seeds"):
        with (
            pytest.raises(CommandError, match="Another command is training seeds of"),
            only_one(tmp_path / "r", "seeds"),
        ):
            pass
        with only_one(tmp_path / "other", "seeds"):
            pass
    with only_one(tmp_path / "r", "seeds"):
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
    assert vars(PARSER.parse_args(series._again(typed))) == vars(typed) | anew
    for name in ("force", "trust"):  # what was not typed is not added
        without = argparse.Namespace(**vars(typed) | {name: False})
        assert vars(PARSER.parse_args(series._again(without)))[name] is False
    bare = PARSER.parse_args(["train", "my.yaml", "--seeds", "1", "--detach"])
    assert vars(PARSER.parse_args(series._again(bare))) == vars(bare) | anew


@pytest.mark.parametrize(("typed", "checked"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_the_data_is_checked_once_unless_it_was_not_to_be(
    typed: bool, checked: bool, has_checkpoint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed that ended early is resumed from its folder, with no setting of this command."""
    parsed = PARSER.parse_args(["train", "my.yaml", "--seeds", "1", *["--quick-check"] * typed])
    job = series._job(parsed, 1, tmp_path / "r")
    monkeypatch.setattr(series, "newest_usable", lambda folder: (has_checkpoint or None, []))
    monkeypatch.setattr(start, "prepared", lambda given: ("new", given))
    monkeypatch.setattr(start, "resumed", lambda given: ("resumed", given))
    how, given = job.prepare(None, checked)
    assert given.quick_check == (typed or checked)
    own = (
        ("resumed", job.root, None, [], "")
        if has_checkpoint
        else ("new", Path("my.yaml"), job.root, ["seed=1"], None)
    )
    assert (how, given.config, given.run_dir, given.overrides, given.resume) == own
