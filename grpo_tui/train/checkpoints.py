"""Make checkpoints that resume exactly, and keep those a person asked for.

TRL's checkpoint lacks the generation buffer and the values that wait to be logged; both go into a
file of ours beside it, and a marker written last says that everything is there. Knows nothing of
when to save.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.records import CheckpointSaved, Record
from grpo_tui.store.checkpoints import MARKER, STATE_FILE
from grpo_tui.store.json_file import read_object, write_json
from grpo_tui.train import compat, disk
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.ranks import Ranks
from grpo_tui.train.reward_state import (
    NotPlain,
    plain_state,
    plain_states,
    restore_reward_states,
    reward_states,
)

if TYPE_CHECKING:
    from grpo_tui.train.settings import Settings


class Checkpoints:
    """Hooks the saving of one trainer."""

    def __init__(
        self, trainer: Any, put: Callable[[Record], None], phases: PhaseClock, attempt: int, ranks: Ranks
    ) -> None:
        self._trainer, self._put, self._phases, self._attempt = trainer, put, phases, attempt
        self._ranks = ranks
        self._requested = False
        self._restored: dict[str, Any] | None = None
        self._kept: set[Path] = set()
        self._sampler: Any = None
        self._epoch_order: Any = None
        self._by_command = False
        self._said: set[str] = set()
        self.saved_step: int | None = None
        """Step of the newest checkpoint of this attempt."""
        self.owed = False
        """True while a save that the config asked for could not be done."""
        self.on_owed: Callable[[str], None] = lambda reason: None
        """Told why such a save was not done."""
        self.before_save: Callable[[], None] = lambda: None
        self.description: dict[str, Any] = {}
        """What the run is made of, which goes into each marker."""
        self._settings: Settings | None = None
        self._generates_with_data = False
        self.same_order = True
        """Whether a resume draws the prompts in the checkpoint's order; not so with another seed."""

    def install(self) -> None:
        """Put the hooks in place."""
        compat.wrap(self._trainer, "_save_checkpoint", self._around_save)
        compat.wrap(self._trainer, "_get_train_sampler", self._around_sampler)
        self._kept = {
            path.parent.resolve()
            for path in Path(self._trainer.args.output_dir).glob(f"checkpoint-*/{MARKER}")
            if (read_object(path) or {}).get("requested")
        }
        compat.keep_from_rotation(
            str(self._trainer.args.output_dir), lambda path: path.resolve() in self._kept
        )

    def join(self, settings: Settings) -> None:
        """Keep the settings in force with each checkpoint; a change makes the newest out of date."""
        self._settings = settings

        def changed() -> None:
            self.saved_step = None

        settings.on_change = changed

    def save(self, *, requested: bool) -> Path:
        """Save at the current step, unless that is saved as everything is now; returns the folder.

        Raises:
            DiskFull: There is not enough room.
        """
        self.before_save()
        path = self.path(int(self._trainer.state.global_step))
        if self.saved_step == self._trainer.state.global_step:
            if requested:
                self._mark(path, requested=True)
            return path
        self._requested, self._by_command = requested, True
        try:
            compat.save_now(self._trainer)
        finally:
            self._requested = self._by_command = False
        return path

    def move(self, earlier: Path, now: Path) -> None:
        """Save under another folder from now on, when it was this one that was saved under."""
        saved_under = Path(self._trainer.args.output_dir).resolve()
        if saved_under.is_relative_to(earlier):
            self._trainer.args.output_dir = str(now / saved_under.relative_to(earlier))
            self._kept = {
                now / path.relative_to(earlier) for path in self._kept if path.is_relative_to(earlier)
            }

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return Path(self._trainer.args.output_dir) / f"checkpoint-{step}"

    def _around_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save_checkpoint(model: Any, trial: Any) -> None:
            self.before_save()
            step = int(self._trainer.state.global_step)
            path = self.path(step)
            self._put(self._record(path, step, complete=False))
            with self._phases.during("save"):
                if self._requested:
                    self._kept.add(path.resolve())
                # Before any rank begins: ranks that share a model save it together and wait for each other.
                problem = self._too_little_room(path)
                (failed,) = self._ranks.any_of(bool(problem))
                broken: Exception | None = None
                if not failed:
                    try:
                        (path / MARKER).unlink(missing_ok=True)
                        original(model, trial)
                        self._save_rest(path)
                    except Exception as error:
                        if disk.cannot_write(error):
                            problem = self._no_room(path, error)
                        else:
                            broken = error
                    # Also the point at which every rank has written its part.
                    failed, lost = self._ranks.any_of(bool(problem), broken is not None)
                    if lost:
                        raise broken or RuntimeError(f"another rank could not save {path.name}")
                if not failed:
                    try:
                        self._mark(path, requested=path.resolve() in self._kept)
                    except OSError as error:
                        problem = self._no_room(path, error)
                    (failed,) = self._ranks.any_of(bool(problem))
                if failed:
                    self._not_saved(path, problem or "another rank had no room to save")
                    return
            self.saved_step, self.owed = step, False

        return save_checkpoint

    def _too_little_room(self, path: Path) -> str:
        """Why a checkpoint would not fit, empty when it would."""
        short = self._ranks.first and disk.free_bytes(path) < disk.checkpoint_bytes(self._trainer)
        return self._no_room(path) if short else ""

    def _no_room(self, path: Path, error: Exception | None = None) -> str:
        """Why a checkpoint was not saved: the bytes that are missing, or the system's words when none are."""
        needed, free = disk.checkpoint_bytes(self._trainer), disk.free_bytes(path)
        if error is not None and free >= needed:
            return f"no room for {path.name}: {disk.first_line(error)}"
        about, left = disk.readable(needed), disk.readable(free)
        return f"no room for {path.name}: it needs about {about}, {left} are free in {path.parent}"

    def _not_saved(self, path: Path, problem: str) -> None:
        """A half-written folder stays; it has no marker, so nobody takes it for a checkpoint."""
        self._kept.discard(path.resolve())
        print(f"grpo-tui: {problem}", flush=True)
        if self._by_command:
            raise disk.DiskFull(problem)
        self.owed = True
        self.on_owed(problem)

    def _save_rest(self, path: Path) -> None:
        import torch

        state = compat.resume_state(self._trainer) | {"data_order": self._data_order()}
        try:
            state = plain_state(state)
        except NotPlain as error:
            state["buffered_inputs"] = None
            state = plain_state(state)
            self._say(f"checkpoints leave out the generation buffer, so a resume generates again: {error}")
        names, functions = self._trainer.reward_func_names, self._trainer.reward_funcs
        state["rewards"] = plain_states(reward_states(names, functions), self._say)
        torch.save(state, path / STATE_FILE.format(rank=self._ranks.rank))

    def _say(self, what: str) -> None:
        """Print what the log should hold, once in an attempt."""
        if what not in self._said:
            self._said.add(what)
            print(f"grpo-tui: {what}", flush=True)

    def _mark(self, path: Path, *, requested: bool) -> None:
        if requested:
            self._kept.add(path.resolve())
        if not self._ranks.first:
            return
        files = {
            file.name: file.stat().st_size
            for file in path.iterdir()
            if file.is_file() and file.name != MARKER
        }
        step = int(self._trainer.state.global_step)
        body = {"step": step, "saved_at": time.time(), "requested": requested, "files": files}
        body |= self.description | {"live": self._settings.in_force() if self._settings else {}}
        write_json(path / MARKER, body)
        self._put(
            self._record(path, step, complete=True, requested=requested, size_bytes=sum(files.values()))
        )

    def _record(
        self, path: Path, step: int, *, complete: bool, requested: bool = False, size_bytes: int = 0
    ) -> CheckpointSaved:
        return CheckpointSaved(self._attempt, step, str(path), time.time(), complete, requested, size_bytes)

    # -- the order of prompts ---------------------------------------------------------------------

    def _around_sampler(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_train_sampler(*args: Any, **kwargs: Any) -> Any:
            self._sampler = original(*args, **kwargs)
            return self._sampler

        return get_train_sampler

    def epoch_begins(self) -> None:
        """Remember from where the sampler draws this epoch's order; TRL's own resume starts at the first."""
        generator = getattr(self._sampler, "generator", None)
        self._epoch_order = None if generator is None else generator.get_state()

    def _data_order(self) -> Any:
        """The sampler's random state from which a resume draws the order of its first epoch."""
        generator = getattr(self._sampler, "generator", None)
        if generator is None:
            return None
        epoch = float(self._trainer.state.epoch or 0.0)
        between_epochs = abs(epoch - round(epoch)) < 1e-9
        return generator.get_state() if between_epochs else self._epoch_order

    # -- resuming --------------------------------------------------------------------------------

    def restore(self, checkpoint: Path, *, keep_batch: bool) -> dict[str, Any] | None:
        """Put back what the checkpoint holds beyond TRL's own, before `train()`; None when it holds nothing.

        Nothing in the file is run: it is data, or it is left out.

        Args:
            checkpoint: Its folder.
            keep_batch: Whether training goes on with the generated batch in it.
        """
        import pickle

        import torch

        file = checkpoint / STATE_FILE.format(rank=self._ranks.rank)
        (lost,) = self._ranks.any_of(not file.exists())
        if not file.exists():  # fewer ranks saved it; the order of prompts is the same on all
            file = checkpoint / STATE_FILE.format(rank=0)
        device = self._trainer.accelerator.device
        # Under a launcher the CPU is named `cpu:0`, which torch cannot load to.
        where = "cpu" if device.type == "cpu" else device
        state = None
        if file.exists():
            try:
                state = torch.load(file, map_location=where, weights_only=True)
            except pickle.UnpicklingError as error:
                self._say(
                    f"{checkpoint.name}/{file.name} holds more than data. Loading it would run code, so it "
                    "is left out: the resume generates the batch under way again, and reward functions start "
                    f"without their saved state ({disk.first_line(error)})"
                )
        (unread,) = self._ranks.any_of(state is None)
        self._generates_with_data = lost or unread or not keep_batch
        if unread or state is None:
            return None
        self._restored = state
        if not self._generates_with_data:
            compat.restore_generation(self._trainer, state)
        restore_reward_states(
            self._trainer.reward_func_names, self._trainer.reward_funcs, state.get("rewards", ())
        )
        return state

    def training_begins(self) -> None:
        """Put back what the trainer resets: values that wait to be logged, and the order of prompts."""
        if self._generates_with_data:
            compat.generate_with_data(self._trainer)
        if self._restored is None:
            return
        compat.restore_logging(self._trainer, self._restored)
        if self._restored.get("first_step") is not None:
            compat.average_loss_from(self._trainer, self._restored["first_step"])
        generator = getattr(self._sampler, "generator", None)
        if generator is not None and self._restored.get("data_order") is not None and self.same_order:
            generator.set_state(self._restored["data_order"].cpu())
        self._restored, self._generates_with_data = None, False
