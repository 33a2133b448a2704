"""Carry out commands at the safe point, between two optimizer steps.

The safe point comes right after the trainer has logged, evaluated and saved. Only then are the step's
metrics written and no update is under way.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from grpo_tui.core import probe_changes
from grpo_tui.core.commands import BESIDE, CONTROLLER_KINDS, REWARDS, Command, Outcome
from grpo_tui.core.schedule import Scheduled, waiting_in
from grpo_tui.present.events import changes_words, planned_words
from grpo_tui.present.formatting import changed as changed_words
from grpo_tui.present.formatting import plural
from grpo_tui.store.mailbox import Mailbox, Outbox
from grpo_tui.train import compat
from grpo_tui.train.checkpoints import Checkpoints, DiskFull, cannot_write, first_line
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.ranks import Ranks
from grpo_tui.train.sampling import sample, unchanged_randomness, unchanged_rewards
from grpo_tui.train.settable import asked_probes
from grpo_tui.train.settings import OF_THE_RATE, LiveSettings, NotYet, Refused, describe_schedule, short
from grpo_tui.train.tokens import live_tokens

MOST_STEPS = 9
"""Digits of a step."""
PAUSED_POLL_S = 0.05
KEEP_ALIVE_S = 1.0


class Controller:
    """Serves a run's mailbox from inside its trainer."""

    def __init__(
        self,
        trainer: Any,
        mailbox: Mailbox,
        phases: PhaseClock,
        checkpoints: Checkpoints,
        settings: LiveSettings,
        newest_prompt: Callable[[], Any],
        ranks: Ranks,
    ) -> None:
        self._trainer, self._outbox, self._phases, self._ranks = trainer, Outbox(mailbox), phases, ranks
        self._checkpoints, self._settings, self._newest_prompt = checkpoints, settings, newest_prompt
        self._paused = False
        self._unread = ""
        self.stopped = False
        self.closed = False
        """Set at the end of the attempt; no command is served afterwards."""
        self.stop_wanted = False
        """Set by a signal handler: save and stop at the next safe point."""
        self.stop_after: int | None = None
        """Step after which to save and stop by itself, unless it is the last one anyway."""
        self.deferred: dict[str, Any] = {}
        """Settings that a resume restores at the next generation boundary."""
        self.on_safe_point: Callable[[], None] = lambda: None
        self.evaluate: Callable[[], tuple[str, dict[str, Any]]] | None = None
        """Evaluates the policy; None for a run without `grpo_tui.evaluate`, whose evaluation is TRL's."""
        checkpoints.on_owed = self.pause_for
        self.more_stages = False
        """Whether another stage follows, which needs a checkpoint of the last step."""
        self.stage: int | None = None
        """Place of the stage that trains, from 0; None for a run without stages."""
        self.stage_ended: str | None = None
        """Why the stage ended before its last step."""
        self.pause_wanted = False
        """Set when the run should pause by itself, for example after two aborted reward calls in a row."""

    def install(self) -> None:
        """Wrap the trainer's methods so that it reaches the safe point after each step."""
        compat.wrap(self._trainer, "_maybe_log_save_evaluate", self._around_step_end)
        compat.wrap(self._trainer, "_evaluate", self._around_evaluate)
        compat.train_past_the_epochs(self._trainer)

    def _around_step_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def maybe_log_save_evaluate(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            # Called twice at the end of an epoch: count the step once, serve commands both times.
            if int(self._trainer.state.global_step) != self._phases.step:
                self._phases.step_ended(int(self._trainer.state.global_step))
            if self.stop_after is not None and self._phases.step >= self.stop_after:
                goes_on = self._phases.step < self._trainer.state.max_steps or self.more_stages
                self.stop_wanted = self.stop_wanted or goes_on
            self.safe_point()
            over = self.stage_ended is not None or self._phases.step >= self._trainer.state.max_steps
            if self.more_stages and over:
                self.until_written(lambda: self._checkpoints.save(requested=False), "the end of the stage")
            return result

        return maybe_log_save_evaluate

    def _around_evaluate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(*args: Any, **kwargs: Any) -> Any:
            with self._phases.during("eval"):
                return original(*args, **kwargs)

        return evaluate

    def pause_for(self, reason: str) -> None:
        """Pause at the next safe point and show the reason."""
        self.pause_wanted = True
        self._phases.tell(note=reason)

    def until_written(self, write: Callable[[], Any], what: str) -> None:
        """Call `write`. While the disk has no room, pause, and try again each time the run is resumed.

        Args:
            write: Called on every rank.
            what: Name of what is written, as part of a sentence (`the model`).
        """
        while not self.stopped:
            problem = ""
            try:
                write()
            except Exception as error:
                if not cannot_write(error):
                    raise
                problem = f"no room for {what}: {first_line(error)}"
                print(f"grpo-tui: {problem}", flush=True)
            (failed,) = self._ranks.any_of(bool(problem))
            if not failed:
                return
            self.pause_for(problem or f"another rank had no room for {what}")
            self.safe_point()

    def safe_point(self) -> None:
        """Serve waiting commands. While paused, stay here and keep serving."""
        if self.closed:
            return
        before = self._phases.phase
        self.on_safe_point()
        self._serve()
        while self._paused and not self.stopped:
            if self._phases.phase != "wait":
                self._phases.enter("wait")
            self._rest()
            self._serve()
        if self._phases.phase == "wait":
            self._phases.enter(before)

    def _rest(self) -> None:
        """Wait a moment while paused. Ranks synchronize once a second so that no NCCL watchdog fires."""
        deadline = time.monotonic() + KEEP_ALIVE_S
        while self._ranks.first and time.monotonic() < deadline:
            time.sleep(PAUSED_POLL_S)
            if self._ranks.size == 1 or self.stop_wanted or self._waiting():
                return

    def _waiting(self) -> list[Command]:
        try:
            waiting = self._outbox.pending()
        except Exception as error:  # training continues, whatever is in the mailbox
            if str(error) != self._unread:
                self._unread = str(error)
                print(f"grpo-tui: commands cannot be read: {type(error).__name__}: {error}", flush=True)
            return []
        return [command for command in waiting if command.kind in CONTROLLER_KINDS]

    def _serve(self) -> None:
        """Read commands on the first rank and carry them out on every rank."""
        commands = self._waiting() if self._ranks.first else []
        asked, stop, pause = self._ranks.any_of(bool(commands), self.stop_wanted, self.pause_wanted)
        if stop and not self.stopped:
            self._stop_unasked()
        if pause:
            self.pause_wanted, self._paused = False, True
        if self.deferred and compat.at_generation_boundary(self._trainer):
            self._put_back()
        self.change_by_schedule()
        for command in self._ranks.from_first(commands) if asked else ():
            outcome = self._agreed(command.kind, partial(getattr(self, f"_on_{command.kind}"), command))
            if outcome is not None and self._ranks.first:
                self._outbox.finish(command, outcome)
        if self.stopped or self.stage_ended is not None:
            # A larger max_steps may have cleared this at what was the last step.
            self._trainer.control.should_training_stop = True
        self._outbox.send()

    def _put_back(self) -> None:
        """Apply the settings that a resume restores, once the next step generates."""
        for name, value in self.deferred.items():
            try:
                self._settings.apply({name: value}, by="resume")
            except Refused as refusal:
                print(f"grpo-tui: {name} was not put back: {refusal}", flush=True)
        self.deferred = {}

    def change_by_schedule(self) -> None:
        """Make the scheduled changes whose step is reached."""
        for one in self._settings.due():
            outcome = self._agreed("set", partial(self._scheduled, one))
            if outcome is not None and not outcome.applied:
                self._settings.reject(one, outcome.reason)
                print(f"grpo-tui: {planned_words(one)} was not set: {outcome.reason}", flush=True)

    def _scheduled(self, one: Scheduled) -> tuple[str, dict[str, Any]]:
        return "", self._settings.apply_scheduled(one)

    def _agreed(self, kind: str, act: Callable[[], tuple[str, dict[str, Any]]]) -> Outcome | None:
        """Return the same outcome on every rank, or None when the command waits for a later safe point."""
        step = int(self._trainer.state.global_step)
        refused: str | None = None
        reason, result, waits = "", dict[str, Any](), False
        try:
            reason, result = act()
        except NotYet:
            waits = True
        except (Refused, DiskFull) as refusal:
            refused = str(refusal)
        except Exception as error:
            traceback.print_exc()
            refused = f"{kind} failed: {type(error).__name__}: {error}"[:2000]
        every = self._ranks.of_each(refused)
        if refused is None and (whose := next((r for r, said in enumerate(every) if said), None)) is not None:
            refused = f"rank {whose}: {every[whose]}"
        if refused is not None:
            return Outcome(False, step, refused)
        return None if waits else Outcome(True, step, reason, result)

    def _on_pause(self, command: Command) -> tuple[str, dict[str, Any]]:
        already, self._paused = self._paused, True
        if because := command.args.get("because"):
            self._phases.tell(note=f"{command.by} paused the run: {because}")
        return ("already paused" if already else "memory is kept; commands still work"), {}

    def _on_resume(self, command: Command) -> tuple[str, dict[str, Any]]:
        if self._checkpoints.owed:
            self._checkpoints.save(requested=False)  # raises DiskFull if there is still no room
        was, self._paused = self._paused, False
        self._phases.tell(note="")
        return ("" if was else "the run was not paused"), {}

    def _on_checkpoint(self, command: Command) -> tuple[str, dict[str, Any]]:
        path = self._checkpoints.save(requested=True)
        return f"saved {path.name}", {"path": str(path)}

    def _on_stop(self, command: Command) -> tuple[str, dict[str, Any]]:
        if self.stopped:
            return "already stopping", {}
        path = self._stop()
        return f"saved {path.name}; the run ends here", {"path": str(path)}

    def _on_end_stage(self, command: Command) -> tuple[str, dict[str, Any]]:
        if self.stage is None:
            raise Refused("this run has no stages")
        meant = command.args.get("stage")
        if not isinstance(meant, int):
            raise Refused("end_stage takes stage: the place of the stage to end, counted from 0")
        if meant != self.stage:
            raise Refused(f"it was to end stage {meant + 1}, but stage {self.stage + 1} trains")
        self.stage_ended = str(command.args.get("because") or "")
        return "", {}

    def _on_sample(self, command: Command) -> tuple[str, dict[str, Any]]:
        prompt = command.args.get("prompt") or self._ranks.from_first(self._newest_prompt())
        if prompt is None:
            raise Refused("give a prompt: the run has not generated anything yet")
        given = {name: command.args.get(name) for name in ("temperature", "seed")}
        return "", sample(self._trainer, prompt, count=command.args.get("count", 4), **given)

    def _on_evaluate(self, command: Command) -> tuple[str, dict[str, Any]]:
        if self.evaluate is not None:
            return self.evaluate()
        if self._trainer.eval_dataset is None:
            raise Refused(
                "this run does not evaluate. Add `grpo_tui.evaluate: {every: 50}` to its config and resume it"
            )
        training, history = self._trainer.model.training, self._trainer.state.log_history
        known = len(history)
        with unchanged_rewards(self._trainer), self._phases.during("eval"), unchanged_randomness():
            self._trainer.evaluate()
        self._trainer.model.train(training)
        found = {name: value for row in history[known:] for name, value in row.items()}
        told = [f"{name} is {short(value)}" for name, value in found.items() if name.endswith("_reward")]
        return f"{', '.join(told)} on the evaluation dataset", found

    def _on_tokens(self, command: Command) -> tuple[str, dict[str, Any]]:
        return "", live_tokens(self._trainer, command.args)

    def _on_set(self, command: Command) -> tuple[str, dict[str, Any]]:
        wanted = {name: value for name, value in command.args.items() if name not in BESIDE}
        because, sure = str(command.args.get("because") or ""), bool(command.args.get("yes"))
        planned = _planned(command.args.get("schedule"))
        if any(REWARDS in changes for changes in (wanted, *planned.values())):
            raise Refused("edit the files of the reward functions, then `grpo-tui reload RUN`")
        if planned:
            self._settings.check_plan(planned, wanted, sure=sure)
        changed = {}
        if wanted or not planned:
            changed = self._settings.apply(wanted, by=command.by, sure=sure, because=because)
        self._settings.plan(planned, by=command.by, because=because)
        waits = [f"{changes_words(changes)} waits for step {step:,}" for step, changes in planned.items()]
        said = "; ".join([*([self._told(changed)] if changed else ()), *waits])
        return said, changed | ({"scheduled": planned} if planned else {})

    def _on_reload(self, command: Command) -> tuple[str, dict[str, Any]]:
        files, what_if = command.args.get("files"), str(command.args.get("what_if") or "")
        if not isinstance(files, dict) or not all(isinstance(sha, str) for sha in files.values()):
            raise Refused("reload takes files: the SHA-256 of each by its path")
        because = "; ".join(part for part in (str(command.args.get("because") or ""), what_if) if part)
        listed = command.args.get("listed")
        if listed is not None and not isinstance(listed, dict):
            raise Refused("listed is not a list of rewards")
        changed = self._settings.reload(files, listed, by=command.by, because=because)
        return self._told(changed), changed

    def _on_undo(self, command: Command) -> tuple[str, dict[str, Any]]:
        count, because = command.args.get("count", 1), str(command.args.get("because") or "")
        if not isinstance(count, int):
            raise Refused(f"count takes a whole number, not {count!r}")
        waiting = waiting_in(self._settings.schedule)
        changed = self._settings.undo(count, by=command.by, because=because)
        still = waiting_in(self._settings.schedule)
        canceled = [f"{planned_words(one)} is canceled" for one in waiting if one not in still]
        return "; ".join([*([self._told(changed)] if changed else ()), *canceled]), changed

    def _told(self, changed: dict[str, Any]) -> str:
        """Describe the changes and the coming learning rates."""
        said = [changed_words(name, change["old"], change["new"]) for name, change in changed.items()]
        if probe_changes.NAME in changed:
            probes, last = asked_probes(self._trainer), int(self._trainer.state.max_steps)
            asked, step = plural(len(probes.texts), "probe prompt"), probes.next_step()
            when = f"asked next at step {step:,}"
            never = f"not asked again before the run ends at step {last:,}"
            said.append(f"{asked}, {when if step <= last else never}")
        if any(name in OF_THE_RATE for name in changed) and (ahead := describe_schedule(self._trainer)):
            if "learning_rate" in changed and len(changed) == 1:
                return f"{said[0]}{ahead}"
            said.append(f"learning_rate is {short(compat.learning_rate(self._trainer))}{ahead}")
        return "; ".join(said)

    def _stop_unasked(self) -> None:
        """Stop because of a signal. Without disk space, pause: no one is there to see a refusal."""
        try:
            self._stop()
        except DiskFull as problem:
            self.stop_wanted = False
            self._paused = True
            self._phases.tell(note=str(problem))

    def _stop(self) -> Any:
        self._phases.tell(stopping=True)
        try:
            path = self._checkpoints.save(requested=False)
        except DiskFull as problem:
            self._phases.tell(stopping=False)
            raise DiskFull(
                f"{problem}; make room and stop again, or stop at once without saving"
            ) from problem
        except Exception:
            self._phases.tell(stopping=False)
            raise
        self._trainer.control.should_training_stop = True
        self.stopped = True
        return path


def _planned(given: Any) -> dict[int, dict[str, Any]]:
    """Return the scheduled changes of a `set` command as step to name to value.

    Raises:
        Refused: They are not written so.
    """
    if given is None:
        return {}
    steps = given if isinstance(given, dict) else {"": given}
    for step, changes in steps.items():
        if not (
            step.isdecimal() and step.isascii() and len(step) <= MOST_STEPS and isinstance(changes, dict)
        ):
            raise Refused('schedule takes step → name → value, such as {"500": {"beta": 0.04}}')
    return {
        step: dict(changes)
        for step, changes in sorted(((int(step), it) for step, it in steps.items()), key=lambda pair: pair[0])
    }
