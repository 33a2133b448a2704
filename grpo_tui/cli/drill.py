"""`grpo-tui train CONFIG --drill NAMES`: prove before a long run that it survives what can go wrong.

Each drill starts the config in the folder of a trial, breaks one thing, and says `pass` or what to change.
"""

from __future__ import annotations

import contextlib
import math
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from grpo_tui.cli.errors import FAILED, OK
from grpo_tui.cli.plain import print_json
from grpo_tui.cli.saved_run import world_size
from grpo_tui.cli.smoke import SMOKE_FACT, Prepare, cause_of, trial, wait
from grpo_tui.config.plan.making import Plan, Surroundings, plan
from grpo_tui.config.plan.time import plan_checkpoints
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.text import one_line
from grpo_tui.preflight.planning import plan_findings
from grpo_tui.present.formatting import compact, duration, plural, size
from grpo_tui.store.checkpoints import WEIGHTS, judge, newest_usable
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankState, read_rank
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import ENDED, Status, paused_itself
from grpo_tui.store.trials import DRILL_FACT, STAGES
from grpo_tui.supervisor import launch
from grpo_tui.supervisor.leftovers import send

Found = TypeVar("Found")
ANSWER_S = 60.0
"""The supervisor answers an abort within seconds; this is its limit on a busy machine."""
SAVES = ("kill", "full-disk")
"""Drills that need checkpoints."""


class _EndedError(Exception):
    """The trial ended before the drill was over."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one drill found: a sentence that says what was proved, or what to change."""

    drill: str
    passed: bool
    said: str


def drill(parsed: Any, prepare: Prepare, real: Path, config: RunConfig) -> int:
    """Run the drills beside a run of this folder and config, with a line for each. Exit 0 if all pass."""
    results = []
    for name in parsed.drill:
        saving = ("save_steps=1", "save_total_limit=2") if name in SAVES else ("save_strategy=no",)
        with trial(parsed, prepare, real, f"{STAGES[0]}{name}: ", "max_steps=1000", *saving) as start:
            one = _Drill(name, start.folder, replace(start.spec, drill=name), config)
            try:
                passed, said = DOES[name](one)
            except _EndedError as ended:
                passed, said = False, str(ended)
        parsed.quick_check = True  # once is enough
        results.append(Result(name, passed, one_line(said, 600)))
        if not parsed.json:
            print(f"{name:12} {'pass' if passed else 'change'}: {results[-1].said}", flush=True)
    ok = all(result.passed for result in results)
    if parsed.json:
        print_json({"ok": ok, "drills": [asdict(result) for result in results]})
    return OK if ok else FAILED


def _why(status: Status) -> _EndedError:
    if status.state in ENDED:
        return _EndedError(f"the trial ended during the drill ({status.state}): {cause_of(status)}")
    return _EndedError(f"the trial paused during the drill: {paused_itself(status)}")


class _Drill:
    """One drill with its trial."""

    def __init__(self, name: str, folder: RunFolder, spec: Any, config: RunConfig) -> None:
        self.name, self.folder, self.spec, self.config = name, folder, spec, config
        self.settings = Settings.of_config(config)
        self.mailbox = Mailbox(folder.commands)
        launch(folder, spec)

    def until(self, reached: Callable[[Status], Any]) -> Status:
        """Wait until the trial has reached something.

        Raises:
            _EndedError: It ended before, or paused itself.
        """
        met = False

        def over(status: Status) -> Any:
            nonlocal met  # asked once only: a fast run may have passed it when asked again
            met = bool(reached(status))
            return met or paused_itself(status)

        status = self._wait(over)
        if status.state in ENDED or not met:
            raise _why(status)
        return status

    def until_told(self) -> dict[str, Any]:
        """Wait for what the training process records about the drill, also when it pauses or ends then.

        Raises:
            _EndedError: It ended before, or paused in its first step.
        """
        early = self._wait(lambda status: self.told() or (paused_itself(status) and status.step < 2))
        told = self.told()
        if not told:
            raise _why(early)
        return told

    def _wait(self, reached: Callable[[Status], Any]) -> Status:
        return wait(self.folder, f"{STAGES[0]}{self.name}: ", reached)

    def read(self, what: Callable[[RunReader], Found]) -> Found:
        """Read the trial's record."""
        with contextlib.closing(RunReader(self.folder.database)) as reader:
            return what(reader)

    def told(self) -> dict[str, Any]:
        """Return what the training process recorded about the drill."""
        return self.read(lambda reader: reader.fact(DRILL_FACT)) or {}

    def rows(self, key: str) -> list[tuple[int, float]]:
        """Return a metric as (step, value)."""
        rows = self.read(metric_rows)
        return [(step, values[key]) for _, step, values in rows if key in values]

    def rank(self) -> RankState:
        rank = read_rank(self.folder.rank(0))
        if rank is None:
            raise _EndedError("the state of the training process cannot be read")
        return rank

    def ask(self, kind: str) -> bool:
        """Send a command, and return whether it was applied."""
        outcome = self.mailbox.wait(self.mailbox.submit(kind), ANSWER_S)
        return outcome is not None and outcome.applied

    def planned(self) -> Plan:
        """Return the plan of the real run with the trial's number of rows."""
        rows = (self.read(lambda reader: reader.fact(SMOKE_FACT)) or {}).get("rows")
        ranks = world_size(self.spec.launcher) or 1
        return plan(self.settings, Surroundings(world_size=ranks, rows=rows))


def _hung_reward(one: _Drill) -> tuple[bool, str]:
    """Hang each function once, and abort the call as a user would."""
    problems: list[str] = []
    turn, functions = 0, 1
    while turn < functions:
        turn += 1
        hung = one.until(lambda status, turn=turn: _hangs(one.told(), status, turn))  # type: ignore[misc]
        told, call = one.told(), one.rank().reward_call
        functions = told["of"]
        if not functions:
            return True, "there is no reward function that could hang, only reward models"
        over = one.ask("abort_reward")
        if not over or one.rank().aborted_call != call:
            where = told["place"]
            problems.append(
                f"{told['function']} cannot be interrupted: the `except` at {where} catches the abort. Write "
                "`except Exception:` there"
                if where
                else f"{told['function']} cannot be interrupted. Set a timeout on what it waits for"
            )
        if not over:
            break
        one.until(lambda status, step=hung.step: status.step > step)  # type: ignore[misc]
    usual = ", ".join(
        f"{name} {duration(seconds) if seconds >= 1 else f'{compact(1000 * seconds)} ms'}"
        for name, seconds in told["usual_s"].items()
    )
    proved = f"{plural(functions, 'reward')} hung, the abort worked, and training continued"
    return not problems, f"{'; '.join(problems) or proved}. Usual time of a call: {usual}"


def _hangs(told: dict[str, Any], status: Status, turn: int) -> bool:
    """Return whether the function of this turn runs on all ranks. An abort ends only running calls."""
    if told.get("turn", 0) < turn:
        return False
    running = [rank.reward_func for rank in status.ranks]  # cut if long
    return not told["of"] or (
        bool(running) and all(one and told["function"].startswith(one) for one in running)
    )


def _kill(one: _Drill) -> tuple[bool, str]:
    """Kill the training process between two checkpoints, and resume."""
    one.until(lambda status: status.step > 1 and newest_usable(one.folder)[0] is not None)
    rank = one.rank()
    send(signal.SIGKILL, rank.pid, rank.started, one.folder)
    ended = wait(one.folder, f"{STAGES[0]}{one.name}: ")
    best, _ = newest_usable(one.folder)
    if ended.state != "crashed" or best is None:
        return False, f"the killed run was reported as {ended.state}{'' if best else ' without a checkpoint'}"
    launch(one.folder, replace(one.spec, resume=str(best.path)))
    one.until(lambda status: status.attempt > ended.attempt and status.step > best.step)
    proved = f"the kill was reported as crashed, and the run resumed from {best.path.name}"
    made = one.planned()
    key, every = _steps_between(one.settings, made)
    if every is None:
        return True, f"{proved}. {key}: how much a crash would lose is not known before the run"
    total = made.steps.total
    rare = total is not None and every >= total
    took = [value for _, value in one.rows("step_time")]
    about = f" ≈ {duration(every * median(took))}" if took else ""
    lost = f"{key}: a crash would lose up to {plural(every, 'step')}{about}"
    if not rare:
        return True, f"{proved}. {lost}"
    few = "" if key.startswith("save_steps") else "save_strategy to steps and "
    return False, f"{lost}, which is the whole run. Set {few}save_steps to {max(1, (total or 1) // 10)}"


def _steps_between(settings: Settings, made: Plan) -> tuple[str, int | None]:
    """Return the setting that decides how often the real run saves, and the steps between two checkpoints."""
    strategy = settings.strategy("save_strategy")
    total = made.steps.total
    if strategy == "steps":
        every = settings.number("save_steps")
        steps = int(every) if every >= 1 else None if total is None else math.ceil(total * every)
        told = f"save_steps is {steps if every >= 1 else every}"
        return told, steps if total is None or steps is None else min(steps, total)
    return f"save_strategy is {strategy}", {"epoch": made.steps.per_epoch, "no": total}.get(strategy)


def _full_disk(one: _Drill) -> tuple[bool, str]:
    """Let no file of the trial grow to a checkpoint's largest, make room again, and measure the real disk."""
    one.until(lambda status: newest_usable(one.folder)[0] is not None)
    one.mailbox.submit("pause")  # its checkpoints stay while their sizes are read
    one.until(lambda status: status.state == "paused" and not paused_itself(status))
    before, _ = newest_usable(one.folder)
    if before is None:
        return False, "the paused run has no checkpoint to resume from"
    files = {file: file.stat().st_size for file in before.path.rglob("*") if file.is_file()}
    saved = sum(files[file] for pattern in WEIGHTS for file in before.path.glob(pattern))
    with _no_file_beyond(one, max(files.values()) * 9 // 10):
        if not one.ask("resume"):
            return False, "the paused run could not continue"
        paused = one.until(paused_itself)
        kept = [path for path in one.folder.checkpoints() if judge(path).usable]
    if not one.ask("resume") or not kept:
        return False, f"{paused_itself(paused)}. The run could not continue once there was room"
    step = paused.step
    one.until(lambda status: max(one.rows("reward"), default=(0,))[0] > step)
    lost = set(range(1, step + 1)) - {at for at, _ in one.rows("reward")}
    # By now it may have made way for newer ones.
    saved_steps = {saved.step for saved in one.read(RunReader.checkpoints) if saved.complete}
    if lost or step not in saved_steps:
        missing = f"{plural(len(lost), 'step')} of the record" if lost else f"checkpoint-{step}"
        return False, f"{paused_itself(paused)}. Missing afterwards: {missing}"
    proved = "the run paused when the disk was full, lost nothing, and continued once there was room"
    made = one.planned()
    real = plan_checkpoints(
        one.settings,
        made.steps,
        saved_bytes=saved,
        state_bytes=sum(files.values()) - saved,
        free_bytes=shutil.disk_usage(one.folder.root.parent).free,
    )
    short = [f for f in plan_findings(one.settings, replace(made, checkpoints=real)) if f.id == "plan.disk"]
    if short and short[0].fix is not None:
        return False, f"{short[0].message}. Set {short[0].fix.field} to {short[0].fix.value}"
    room = "" if real.total_bytes is None else f"up to {size(real.total_bytes)} of checkpoints, "
    return True, f"{proved}. The real run: {room}{size(real.free_bytes or 0)} free"


@contextlib.contextmanager
def _no_file_beyond(one: _Drill, limit: int) -> Iterator[None]:
    """Limit the size of files that the training processes write, which needs no privileges."""
    pids = [rank.pid for number in one.folder.ranks() if (rank := read_rank(one.folder.rank(number)))]
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids}
    for pid, (_, hard) in limits.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        for pid, earlier in limits.items():
            with contextlib.suppress(OSError):  # it has ended
                resource.prlimit(pid, resource.RLIMIT_FSIZE, earlier)


def _nan(one: _Drill) -> tuple[bool, str]:
    """Wait for the step with the NaN gradient, and for what the guard does then."""
    told = one.until_told()
    if not told["spoiled"]:
        return False, "no gradient reached a trained parameter"
    if not told["whole"]:
        return False, (
            f"a NaN gradient reached the weights at step {told['step']}. A patch may have replaced "
            "Trainer._get_grad_norm of transformers. Train without it, or save often"
        )
    after = one.until(lambda status: status.state == "paused" or status.step > told["step"])
    then = "the run paused" if after.state == "paused" else "training continued"
    return True, f"the step with the NaN gradient was skipped, the weights stayed finite, and {then}"


DOES: dict[str, Callable[[_Drill], tuple[bool, str]]] = {
    "hung-reward": _hung_reward,
    "kill": _kill,
    "full-disk": _full_disk,
    "nan": _nan,
}
