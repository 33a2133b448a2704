"""Save checkpoints that resume exactly, keep those the user requested, and record what TRL logs.

TRL's checkpoint lacks the generation buffer and the values that wait to be logged. Both go into a separate
file beside it, and a marker written last says that the checkpoint is complete.

Free space is checked before a save, and an unwritable disk is distinguished from other failures. A reward
takes part in checkpoints by having `state_dict()` and `load_state_dict(state)`, as `AdaptiveWeight` does. A
state is plain data and tensors, because loading a checkpoint must not run code. Reward models are left out:
TRL does not train them.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import re
import shutil
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from grpo_tui.core.records import CheckpointSaved, MetricRow, Record, TotalSteps
from grpo_tui.store.checkpoints import BEST, MARKER, STATE_FILE, is_held, judge
from grpo_tui.store.json_file import read_object, write_json
from grpo_tui.train import compat
from grpo_tui.train.data_place import Place, without_seen
from grpo_tui.train.devices import cache_releases
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.ranks import Ranks

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
UNWRITABLE = FULL | {
    errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN, errno.ENODEV,
    errno.EREMOTEIO,
}  # fmt: skip
"""The disk is full, or unavailable for a while as a network disk may be. Training did nothing wrong."""
NUMBER = re.compile(r"(?:os error |errno )(\d+)", re.IGNORECASE)
"""How safetensors and Python spell an errno in a message."""
WORDS = ("no space left", "disk quota exceeded", "file too large")
TORN_WRITE = ("pytorchstreamwriter", "file write failed", "unexpected pos")
"""torch's words for any failed write, without a reason. Under a quota there may be free space left."""
LITTLE_BYTES = 1 << 20
REFERENCE = "reference"
"""Key of the marker's description: step of the checkpoint that the KL of a stage is measured from."""


class DiskFull(Exception):
    """A checkpoint could not be written; the message says how much space is missing, or what failed."""


def cannot_write(error: BaseException) -> bool:
    """Return whether a save failed because the disk is full, at a quota or limit, or unavailable."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        text = str(current).lower()
        if isinstance(current, DiskFull) or (isinstance(current, OSError) and current.errno in UNWRITABLE):
            return True
        if any(word in text for word in WORDS + TORN_WRITE):
            return True
        told = NUMBER.search(text)
        if told is not None and int(told[1]) in UNWRITABLE:
            return True
        current = current.__cause__ or current.__context__
    return False


def first_line(error: BaseException) -> str:
    """Return a short reason for a failed write. torch's own message for a torn write is explained."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if any(word in text.lower() for word in TORN_WRITE):
        return f"a write was cut short, as by a full disk, a quota or a limit of file sizes ({text[:100]})"
    return text[:200]


def free_bytes(folder: Path) -> int:
    """Return the free bytes on a folder's file system, or on that of its nearest existing parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def checkpoint_bytes(trainer: Any) -> int:
    """Estimate the size of a checkpoint: the saved weights and AdamW's two moments.

    With an adapter only trainable parameters are saved. Optimizer moments take four bytes each.
    """
    parameters = list(trainer.model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    saved = trained if hasattr(trainer.model, "peft_config") else parameters
    weights = sum(p.numel() * p.element_size() for p in saved)
    moments = 0 if trainer.args.save_only_model else 8 * sum(p.numel() for p in trained)
    return int(1.05 * (weights + moments)) + LITTLE_BYTES


def readable(size: int) -> str:
    """Format a byte count."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.1f} {unit}" if unit != "bytes" and size < 100 else f"{size:.0f} {unit}"
        size /= 1000  # type: ignore[assignment]
    return ""


class NotPlain(ValueError):
    """A value is not plain data; the message says where and what it is."""


def plain_state(value: Any, where: str = "") -> Any:
    """Convert a value to plain containers, values and tensors, which `weights_only=True` loads.

    Raises:
        NotPlain: It contains something else.
    """
    import torch

    if value is None or type(value) in (bool, int, float, str, bytes, torch.Tensor):
        return value
    if isinstance(value, torch.nn.Parameter):
        return value.detach()
    if isinstance(value, Mapping):
        return {
            plain_state(key, where): plain_state(item, f"{where}[{key!r}]") for key, item in value.items()
        }
    if isinstance(value, list | tuple | deque):
        items = [plain_state(item, f"{where}[{index}]") for index, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if not isinstance(value, torch.Tensor) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return plain_state(value.item(), where)  # a NumPy scalar
    raise NotPlain(f"{where or 'it'} is {type(value).__module__}.{type(value).__qualname__}")


def reward_states(names: Sequence[str], functions: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return name and state of each reward function that has one, in TRL's order."""
    return [
        (name, reward.state_dict())
        for name, function in zip(names, functions, strict=True)
        if (reward := _with_state(function)) is not None
    ]


def plain_states(states: Sequence[tuple[str, Any]], say: Callable[[str], None]) -> list[tuple[str, Any]]:
    """Return the states that a checkpoint can hold; `say` is told which cannot be kept, and why."""
    found = []
    for name, state in states:
        try:
            found.append((name, plain_state(state)))
        except NotPlain as error:
            say(
                f"checkpoints leave out the state of reward function {name}, so a resume starts without it: "
                f"{error}. Return numbers, text, lists, dicts and tensors from state_dict()"
            )
    return found


def restore_reward_states(
    names: Sequence[str], functions: Sequence[Any], states: Sequence[tuple[str, Any]]
) -> None:
    """Restore the states of reward functions. A function added since the save keeps its own.

    A resume may list other functions, or the same in another order, so states are matched by name. Among
    functions of the same name they are matched in order.
    """
    waiting: dict[str, deque[Any]] = defaultdict(deque)
    for name, state in states:
        waiting[name].append(state)
    for name, function in zip(names, functions, strict=True):
        reward = _with_state(function)
        if reward is not None and waiting[name]:
            reward.load_state_dict(waiting[name].popleft())


def _with_state(function: Any) -> Any:
    """Return the reward object inside its wrappers if it has a state, else None."""
    import torch

    reward = inspect.unwrap(function) if callable(function) else function
    if isinstance(reward, torch.nn.Module):
        return None
    has = all(callable(getattr(reward, name, None)) for name in ("state_dict", "load_state_dict"))
    return reward if has else None


if TYPE_CHECKING:
    from grpo_tui.train.settings import LiveSettings


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
        self._best: Path | None = None
        self._saving: Path | None = None
        self._sampler: Any = None
        self._epoch_order: Any = None
        self._by_command = False
        self._said: set[str] = set()
        self.saved_step: int | None = None
        self.owed = False
        """True while a scheduled save is overdue because it failed."""
        self.on_owed: Callable[[str], None] = lambda reason: None
        """Called with the reason when a scheduled save fails."""
        self.before_save: Callable[[], None] = lambda: None
        self.flush: Callable[[], None] = lambda: None
        """Called on every rank before a checkpoint is complete. A resume does not record its steps again."""
        self.description: dict[str, Any] = {}
        self._settings: LiveSettings | None = None
        self._generates_with_data = False
        self.place = Place()
        """How the data continues after a resume with another batch shape, or after an earlier one."""
        self._references: frozenset[str] = frozenset()
        self.first_seen = 0
        """Prompts of the first epoch that are not to come again."""
        self.same_order = True
        """Whether a resume draws the prompts in the checkpoint's order. False with another seed."""

    def install(self) -> None:
        """Wrap the trainer's methods."""
        compat.wrap(self._trainer, "_save_checkpoint", self._around_save)
        compat.wrap(self._trainer, "_get_train_sampler", self._around_sampler)
        markers = sorted(Path(self._trainer.args.output_dir).glob(f"checkpoint-*/{MARKER}"))
        bodies = {path.parent.resolve(): read_object(path) or {} for path in markers}
        self._kept = {path for path, body in bodies.items() if body.get("requested")}
        self._best = next((path for path, body in bodies.items() if body.get(BEST)), None)
        # Where modification times mislead, transformers takes the checkpoint being saved for older than one
        # of a later step, left from before a resume, and deletes it before it is complete.
        compat.keep_from_rotation(
            str(self._trainer.args.output_dir),
            is_kept=lambda path: (
                path.resolve() in (*self._kept, self._best) or path.name in self._references or is_held(path)
            ),
            is_newest=lambda path: path.resolve() == self._saving,
        )

    def join(self, settings: LiveSettings) -> None:
        """Store the current settings with each checkpoint. A change makes the newest checkpoint outdated."""
        self._settings = settings

        def changed() -> None:
            self.saved_step = None

        settings.on_change = changed

    def measure_from(self, steps: Sequence[int]) -> None:
        """Keep the checkpoints that stages measure their KL from. The last one is of the stage that trains.

        Args:
            steps: Of each stage; 0 for the base model.
        """
        self._references = frozenset(f"checkpoint-{step}" for step in steps if step)
        self.description["about"][REFERENCE] = steps[-1] if steps else 0

    def save(self, *, requested: bool) -> Path:
        """Save at the current step, unless an up-to-date checkpoint exists. Return the folder.

        Raises:
            DiskFull: There is not enough space.
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

    def keep_best(self) -> None:
        """Save at the current step and keep that checkpoint instead of the previous best.

        Raises:
            DiskFull: There is not enough space.
        """
        path, former = self.path(int(self._trainer.state.global_step)), self._best
        # After a resume the checkpoint already exists. If saving it again failed, there would be none.
        there = self._ranks.from_first(read_object(path / MARKER) is not None and judge(path).usable)
        self._best = path.resolve()
        if there:
            self._tell_best(self._best, True)
        else:
            try:
                self.save(requested=False)
            except BaseException:
                self._best = former
                raise
        if former is not None and former != self._best:
            self._tell_best(former, False)

    def best_is(self, step: int | None) -> None:
        """Keep the checkpoint of this step as the best of a resumed run, and no later one; None for none."""
        path, former = self.path(step).resolve() if step is not None else None, self._best
        there = self._ranks.from_first(path is not None and (path / MARKER).exists())
        self._best = path if there else None
        if former is not None and former != self._best:
            self._tell_best(former, False)
        if self._best is not None:
            self._tell_best(self._best, True)

    def _tell_best(self, path: Path, is_best: bool) -> None:
        """Record in a checkpoint's marker whether its evaluation is the best."""
        body = read_object(path / MARKER) if self._ranks.first else None
        if body is not None:
            with contextlib.suppress(OSError):  # deleted, or the disk is full
                write_json(path / MARKER, {**body, BEST: is_best})

    def move(self, earlier: Path, now: Path) -> None:
        """Save under another folder from now on, if checkpoints were saved under `earlier`."""
        saved_under = Path(self._trainer.args.output_dir).resolve()
        if saved_under.is_relative_to(earlier):
            self._trainer.args.output_dir = str(now / saved_under.relative_to(earlier))
            self._kept = {
                now / path.relative_to(earlier) for path in self._kept if path.is_relative_to(earlier)
            }
            if self._best is not None and self._best.is_relative_to(earlier):
                self._best = now / self._best.relative_to(earlier)

    def path(self, step: int) -> Path:
        """Return the checkpoint folder of a step."""
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
                # Decide before any rank begins: ranks that share a model wait for each other while saving.
                short = self._ranks.first and free_bytes(path) < checkpoint_bytes(self._trainer)
                problem = self._no_room(path) if short else ""
                (failed,) = self._ranks.any_of(bool(problem))
                broken: Exception | None = None
                if not failed:
                    try:
                        (path / MARKER).unlink(missing_ok=True)
                        self._saving = path.resolve()
                        original(model, trial)
                        self._save_rest(path)
                        self.flush()
                    except Exception as error:
                        if cannot_write(error):
                            problem = self._no_room(path, error)
                        else:
                            broken = error
                    finally:
                        self._saving = None
                    # This also waits until every rank has written its part.
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

    def _no_room(self, path: Path, error: Exception | None = None) -> str:
        """Say why a checkpoint was not saved: the missing bytes, or the system's message."""
        needed, free = checkpoint_bytes(self._trainer), free_bytes(path)
        if error is not None and free >= needed:
            return f"no room for {path.name}: {first_line(error)}"
        about, left = readable(needed), readable(free)
        return f"no room for {path.name}: it needs about {about}, {left} are free in {path.parent}"

    def _not_saved(self, path: Path, problem: str) -> None:
        """Report a failed save. A half-written folder has no marker, so it is not taken for a checkpoint."""
        self._kept.discard(path.resolve())
        print(f"grpo-tui: {problem}", flush=True)
        if self._by_command:
            raise DiskFull(problem)
        self.owed = True
        self.on_owed(problem)

    def _save_rest(self, path: Path) -> None:
        import torch

        state = compat.resume_state(self._trainer) | {
            "data_order": self._data_order(),
            "data_place": list(self.place),
        }
        try:
            state = plain_state(state)
        except NotPlain as error:
            state["buffered_inputs"] = None
            state = plain_state(state)
            self._say(
                "checkpoints leave out the generation buffer, so a resume generates that batch again: "
                f"{error}"
            )
        names, functions = self._trainer.reward_func_names, self._trainer.reward_funcs
        state["rewards"] = plain_states(reward_states(names, functions), self._say)
        torch.save(state, path / STATE_FILE.format(rank=self._ranks.rank))

    def _say(self, what: str) -> None:
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
        body |= {BEST: path.resolve() == self._best}
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
            if self.first_seen:
                self._sampler = without_seen(self._sampler, self.first_seen)
            return self._sampler

        return get_train_sampler

    def epoch_begins(self) -> None:
        """Remember the random state of this epoch's order. TRL itself resumes with the first epoch's."""
        generator = getattr(self._sampler, "generator", None)
        self._epoch_order = None if generator is None else generator.get_state()

    def _data_order(self) -> Any:
        """Return the sampler's random state from which a resume draws the order of its first epoch."""
        generator = getattr(self._sampler, "generator", None)
        if generator is None:
            return None
        epoch = float(self._trainer.state.epoch or 0.0)
        between_epochs = abs(epoch - round(epoch)) < 1e-9
        return generator.get_state() if between_epochs else self._epoch_order

    # -- resuming --------------------------------------------------------------------------------

    def restore(self, checkpoint: Path, *, keep_batch: bool) -> dict[str, Any] | None:
        """Restore what the checkpoint holds beyond TRL's own state. Call before `train()`.

        Loading runs no code: what is not plain data is left out.

        Args:
            keep_batch: Whether training continues with the checkpoint's generated batch.

        Returns:
            The loaded state, or None without one.
        """
        import pickle

        import torch

        file = checkpoint / STATE_FILE.format(rank=self._ranks.rank)
        (lost,) = self._ranks.any_of(not file.exists())
        if not file.exists():  # saved by fewer ranks; the order of prompts is the same on all
            file = checkpoint / STATE_FILE.format(rank=0)
        device = self._trainer.accelerator.device
        # Under a launcher the CPU is named `cpu:0`, and torch cannot load to that.
        where = "cpu" if device.type == "cpu" else device
        state = None
        if file.exists():
            try:
                state = torch.load(file, map_location=where, weights_only=True)
            except pickle.UnpicklingError as error:
                self._say(
                    f"{checkpoint.name}/{file.name} holds more than data. Loading it would run code, so it "
                    "is left out: the resume generates the batch under way again, and reward functions start "
                    f"without their saved state ({first_line(error)})"
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
        """Restore what the trainer resets: values that wait to be logged, and the order of prompts."""
        if self._generates_with_data:
            compat.generate_with_data(self._trainer, self.place.offset)
        self.first_seen = 0
        if self._restored is None:
            return
        compat.restore_logging(self._trainer, self._restored)
        if self._restored.get("first_step") is not None:
            compat.average_loss_from(self._trainer, self._restored["first_step"])
        generator = getattr(self._sampler, "generator", None)
        if generator is not None and self._restored.get("data_order") is not None and self.same_order:
            generator.set_state(self._restored["data_order"].cpu())
        self._restored, self._generates_with_data = None, False


class RecordingCallback(TrainerCallback):
    """Records what TRL logs, and adds `figures` of ours."""

    def __init__(
        self,
        put: Callable[[Record], None],
        phases: PhaseClock,
        attempt: int,
        checkpoints: Checkpoints,
        settings: LiveSettings,
        figures: Callable[[], dict[str, float]],
    ) -> None:
        self._put, self._phases, self._attempt, self._checkpoints = put, phases, attempt, checkpoints
        self._settings, self._figures = settings, figures

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the planned number of steps, which is known once the data loader exists."""
        self._put(TotalSteps(self._attempt, int(state.max_steps) + self._settings.later_steps))
        self._phases.step = int(state.global_step)
        self._phases.tell(step=int(state.global_step))
        self._checkpoints.training_begins()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remember the state of the sampler before it draws the order."""
        self._checkpoints.epoch_begins()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Record an entry of `log_history`."""
        if logs and state.is_world_process_zero:
            self._put(
                MetricRow(self._attempt, int(state.global_step), time.time(), {**logs, **self._figures()})
            )
            if releases := cache_releases(args.device):
                self._phases.tell(cache_releases=releases)
