"""Resume a run so that checkpoint state, settings changed while training, and config changes all count.

transformers takes some settings from the checkpoint whatever the config says (`compat.RESTORED`), and the
checkpoint's generation buffer was made with the settings of that time. The checkpoint's marker records
those settings. A changed setting is applied, a buffer that no longer fits is dropped, and both are reported.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from grpo_tui.config.live_settings import LIVE
from grpo_tui.config.packages import version_of
from grpo_tui.config.run_config import redacted
from grpo_tui.core.records import RewardFunctionInfo, SettingChanged
from grpo_tui.core.schedule import (
    BY_RESUME,
    FACT,
    Scheduled,
    resumed_at,
    scheduled_from,
    to_json,
    waiting_in,
    without_left,
)
from grpo_tui.core.stages import START
from grpo_tui.core.statistics import is_number
from grpo_tui.present.events import planned_words
from grpo_tui.present.formatting import setting as shown
from grpo_tui.store.checkpoints import MARKER, has_new_optimizer, refused_at_resume
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.json_file import read_object
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import checkpoint_forked
from grpo_tui.train import compat, rate_schedule
from grpo_tui.train.checkpoints import REFERENCE
from grpo_tui.train.data_place import Place, continued, seen_at, shape_of
from grpo_tui.train.failure import NoStepError
from grpo_tui.train.settable import SETTABLE
from grpo_tui.train.settings import BY_CONFIG, NotYet, Refused, describe_schedule, short

if TYPE_CHECKING:
    from grpo_tui.train.session import Session

ROWS_LOOKED_AT = 512
"""At most about twice this many rows identify a dataset, spread evenly over it."""
PACKAGES = ("trl", "transformers", "vllm", "peft")

REWARDS, REWARD_NAMES = "rewards", "reward names"

ELSEWHERE = frozenset({"output_dir", "run_name", "resume_from_checkpoint", "local_rank", "disable_tqdm"})
"""Arguments that may differ between two starts of the same run."""
NO_PART = (
    "num_train_epochs", "max_steps", "learning_rate", "lr_scheduler_", "warmup_steps", "optim",
    "weight_decay",
    "adam_", "max_grad_norm", "torch_empty_cache_steps", "logging_", "log_", "include_num_input_tokens_seen",
    "report_to", "project", "trackio_", "eval_", "do_", "per_device_eval_batch_size", "prediction_loss_only",
    "include_for_metrics", "batch_eval_metrics", "save_", "push_to_hub", "hub_", "load_best_model_at_end",
    "metric_for_best_model", "greater_is_better", "restore_callback_states_from_checkpoint", "dataloader_",
    "ddp_", "debug", "skip_memory_metrics", "num_generations_eval", "num_completions_to_print", "epsilon",
    "delta", "entropy_", "sapo_", "vespo_", "vllm_server_", "vllm_group_port", "vllm_gpu_memory_utilization",
    "vllm_enable_sleep_mode",
)  # fmt: skip
"""Prefixes of arguments that do not affect a generated batch. Every other argument does."""
ORDER = ("seed", "shuffle_dataset", "per_device_train_batch_size", "gradient_accumulation_steps",
         "generation_batch_size", "steps_per_generation", "num_generations", "num_iterations", "dataset",
         "world_size")  # fmt: skip
"""Arguments that decide which prompts come at which step."""
OTHER_DATA = frozenset({"seed", "shuffle_dataset", "dataset"})
"""Those that decide which prompts there are, or in which order they come. The others give the batch shape."""
OF_A_STAGE = ("max_steps", START)
"""Settings that end with their stage."""


def description(
    trainer: Any, sources: Sequence[RewardFunctionInfo] | None, reward_params: Sequence[Any]
) -> dict[str, Any]:
    """Describe a run as plain JSON: TRL's arguments, and what else a generated batch depends on."""
    model = trainer.model
    adapter = getattr(model, "peft_config", None) or {}
    about = {
        REWARDS: rewards_digest(sources, trainer.reward_func_names, reward_params),
        REWARD_NAMES: list(trainer.reward_func_names),
        "dataset": _dataset(trainer.train_dataset),
        "model_name_or_path": str(getattr(model.config, "_name_or_path", "")),
        "dtype": str(next(model.parameters()).dtype),
        "attn_implementation": str(getattr(model.config, "_attn_implementation", "")),
        "adapter": _digest([[name, config.to_dict()] for name, config in sorted(adapter.items())]),
        "world_size": int(trainer.accelerator.num_processes),
        **{name: version_of(name) for name in PACKAGES},
    }
    settings = json.loads(json.dumps(redacted(trainer.args.to_dict()), default=str))
    return {"settings": settings, "about": about}


def rewards_digest(
    sources: Sequence[RewardFunctionInfo] | None, names: Sequence[str], params: Sequence[Any]
) -> str:
    """Identify the reward functions of a run by their sources and parameters."""
    rewards = [[s.name, s.source.rpartition("/")[2], s.sha256 or s.text] for s in sources or ()]
    return _digest([rewards or list(names), list(params)])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=_stable, sort_keys=True).encode()).hexdigest()[:16]


def _stable(value: Any) -> Any:
    """Convert what JSON lacks to plain data, without object addresses: they differ in every process."""
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    text = str(value)
    return type(value).__name__ if " at 0x" in text else text


def _dataset(dataset: Any) -> str:
    """Identify a dataset by its length and some rows. A dataset from a script may raise anything."""
    if not hasattr(dataset, "__len__"):
        return "a stream"
    try:
        return _rows(dataset)
    except Exception as error:
        return f"rows that cannot be read: {type(error).__name__}"


def _rows(dataset: Any) -> str:
    if hasattr(dataset, "with_format"):
        dataset = dataset.with_format("arrow")  # images stay encoded
    every = max(1, len(dataset) // ROWS_LOOKED_AT)
    rows = [dataset[index] for index in range(0, len(dataset), every)]
    return _digest([len(dataset), [row.to_pydict() if hasattr(row, "to_pydict") else row for row in rows]])


def resume(session: Session, trainer: Any, checkpoint: Path, overridden: Collection[str] = ()) -> None:
    """Prepare a trainer to continue from a checkpoint. Call before its `train()`.

    Args:
        overridden: Settings given again for this resume. They win over changes made while training.

    Raises:
        Refused: A setting changed that cannot change at a resume.
    """
    Resuming(session, trainer, checkpoint, overridden).prepare()


class Resuming(TrainerCallback):
    """One resume of one run. The optimizer and the scheduler exist only once training begins."""

    def __init__(self, session: Session, trainer: Any, checkpoint: Path, overridden: Collection[str]) -> None:
        self._session, self._trainer, self._checkpoint = session, trainer, checkpoint
        self._overridden = {"reward_weights" if n.startswith("grpo_tui.rewards") else n for n in overridden}
        self._step = int(checkpoint.name.split("-")[-1])
        marker = read_object(checkpoint / MARKER) or {}
        self._saved: dict[str, Any] = marker.get("settings") or {}
        saved_at = marker.get("saved_at")
        self._saved_at = float(saved_at) if saved_at is not None and is_number(saved_at) else math.inf
        self._about: dict[str, Any] = marker.get("about") or {}
        stage = session.stage
        self._begins = stage is not None and stage.start == self._step
        """Whether a stage begins at the checkpoint, which is of the stage before."""
        self._new_optimizer = has_new_optimizer(checkpoint)
        if stage is not None and self._begins and stage.new_optimizer:
            compat.leave_out_optimizer(trainer)
            self._new_optimizer = True
        self._live: dict[str, Any] = marker.get("live") or {}
        if self._begins:
            for name in OF_A_STAGE:
                self._live.pop(name, None)
        now = session.checkpoints.description
        self._now: dict[str, Any] = now["settings"]
        self._about_now: dict[str, Any] = now["about"]
        self._notes: list[str] = []
        self._schedule: tuple[Scheduled, ...] = ()
        self._wanted: list[Any] = [None] * len(compat.RESTORED)
        self._changes: list[tuple[str, Any, Any]] = []
        self._begun = self._stepped = False

    def prepare(self) -> None:
        """Restore the checkpoint's state and current settings, and hook what follows when training begins."""
        refusal = refused_at_resume(self._checkpoint, self._now, new_optimizer=self._new_optimizer)
        if refusal:
            raise Refused(refusal)
        print(f"grpo-tui: resuming at step {self._step} from {self._checkpoint.name}", flush=True)
        if self._new_optimizer:
            self._note("the optimizer starts without state, at this step of the schedule")
        history, self._schedule = self._history()
        changed = self._changed(history)
        stale = self._stale(changed)
        state = self._session.checkpoints.restore(self._checkpoint, keep_batch=not stale)
        if state is None:
            self._note(f"{self._checkpoint.name} has no state of grpo-tui, so the resume is not exact")
        elif stale and self._within_cycle(state):
            self._note(
                f"step {self._step + 1} generates a new batch: the one in {self._checkpoint.name} was made "
                f"with another {', '.join(stale)}"
            )
        moved = [name for name in stale if name in ORDER]
        placed = state is not None and self._continue_data(Place(*state.get("data_place", ())), moved)
        if moved and not placed:
            self._note(
                f"the prompts continue at step {self._step + 1} in a new order ({', '.join(moved)} changed): "
                "some may repeat, others may be skipped"
            )
        self._put_back(history, changed)
        self._say_what_stays()
        compat.wrap(self._trainer, "create_scheduler", self._around_create_scheduler(history, changed))
        if self._saved.get("seed", self._now["seed"]) != self._now["seed"]:
            compat.seed_again(self._trainer)
            self._session.checkpoints.same_order = False
        self._trainer.add_callback(self)
        self._session.callbacks.append(self)

    def _continue_data(self, place: Place, moved: Collection[str]) -> bool:
        """Continue after the prompts that were seen. Return False where only TRL's place is possible."""
        trainer, checkpoints = self._trainer, self._session.checkpoints
        if not compat.can_continue_data(trainer) or not OTHER_DATA.isdisjoint(moved):
            return False
        rows = len(trainer.train_dataset)
        shape, earlier = shape_of(rows, self._now), shape_of(rows, self._saved)
        if shape is None or earlier is None:
            return False
        epoch, seen = seen_at(self._step, place, earlier)
        if shape != earlier:
            place, left_out = continued(self._step, epoch, seen, shape)
            more = f". {left_out} of them are left out so that every step is full" if left_out else ""
            self._note(f"the data continues with the prompts of this epoch that were not seen yet{more}")
        if place != Place():
            compat.continue_data_at(trainer, place.offset)
            checkpoints.place = place
            now, _ = divmod(self._step + place.offset, shape.steps)
            checkpoints.first_seen = place.seen if now == place.epoch else 0
        return True

    def _note(self, text: str) -> None:
        self._notes.append(text)
        print(f"grpo-tui: {text}", flush=True)

    # -- what changed -----------------------------------------------------------------------------

    def _history(self) -> tuple[list[SettingChanged], tuple[Scheduled, ...]]:
        """Return settings of earlier attempts, oldest first, and the schedule, as the first rank reads them.

        Scheduled changes that were made after the checkpoint wait again and are not in the history.
        """
        found: list[list[Any]] = []
        planned: Any = None
        if self._session.rank == 0:
            reader = RunReader(self._session.folder.database)
            try:
                planned = reader.fact(FACT)
                found = [
                    [s.attempt, s.step, s.at, s.name, s.old, s.new, s.by, s.because, s.undoes]
                    for s in reader.settings()
                    if s.attempt < self._session.attempt
                ]
                if planned is None:
                    planned = self._planned_before_fork()
            finally:
                reader.close()
        rows, planned = self._session.ranks.from_first((found, planned))
        schedule = scheduled_from(planned)
        stage = self._session.stage
        history = [
            change
            for change in without_left([SettingChanged(*row) for row in rows], schedule)
            if stage is None or change.name not in OF_A_STAGE or change.step > stage.start
        ]
        schedule = resumed_at(self._step, schedule, history)
        return without_left(history, schedule), schedule

    def _planned_before_fork(self) -> Any:
        """Return the changes that the parent of a fork had scheduled and not made before the checkpoint."""
        origin = checkpoint_forked(self._session.folder)
        if origin is None or origin.name != self._checkpoint.name:
            return None
        try:
            with closing(RunReader(RunFolder(origin.parent).database)) as reader:
                known, history = scheduled_from(reader.fact(FACT)), reader.settings()
        except RunDatabaseError as error:
            self._note(f"scheduled changes of the parent run cannot be read: {error}")
            return None
        now = resumed_at(self._step - 1, known, history)  # the checkpoint is saved before what is due then
        again = [
            replace(one, left=())
            for before, one in zip(known, now, strict=True)
            if one.state == "waiting" and (before.state == "waiting" or before.decided_at > self._saved_at)
        ]
        return to_json(again)

    def _changed(self, history: Iterable[SettingChanged]) -> list[str]:
        baseline = dict(self._saved)
        baseline |= {s.name: s.new for s in history if s.by == BY_CONFIG}
        return [
            name
            for name, value in self._now.items()
            if name not in ELSEWHERE
            and ((name in self._overridden and name in SETTABLE) or baseline.get(name, value) != value)
        ]

    def _stale(self, changed: Sequence[str]) -> list[str]:
        """Return what has changed since the batch in the checkpoint was generated."""
        if not self._saved:
            return ["version of grpo-tui"]
        stale = [
            name
            for name, value in self._now.items()
            if name not in ELSEWHERE
            and not name.startswith(NO_PART)
            and self._saved.get(name) != value
            and name != "beta"
        ]
        stale += [
            name
            for name, value in self._about_now.items()
            if name != REWARD_NAMES and self._about.get(name, 0 if name == REFERENCE else None) != value
        ]
        held = self._live.get("beta", self._saved.get("beta"))
        if "beta" in changed and self._now.get("beta") and not held:
            stale.append("beta")  # it has no log-probabilities of the reference model
        for name in [name for name, row in LIVE.items() if row.counts == "generation"]:
            value = self._session.settings.value(name)
            if name in changed and name not in stale and self._live.get(name, value) != value:
                stale.append(name)
        return stale

    def _within_cycle(self, state: Mapping[str, Any]) -> bool:
        """Return whether the batch in the checkpoint has steps left to train on."""
        made = self._saved or self._now
        every = int(made.get("steps_per_generation") or 1) * int(made.get("num_iterations") or 1)
        return state["buffered_inputs"] is not None and state["step"] % every != 0

    # -- settings in force ------------------------------------------------------------------------

    def _put_back(self, history: Sequence[SettingChanged], changed: Sequence[str]) -> None:
        """Restore what was set while training, and note where this resume's config overrides it."""
        settings = self._session.settings
        settings.remember(history, self._schedule)
        for one in waiting_in(self._schedule):
            self._note(f"{planned_words(one)} still waits")
        last = {s.name: s for s in history if s.name in SETTABLE}
        names = self._about_now[REWARD_NAMES]
        others, weights = self._about.get(REWARD_NAMES, names) != names, last.get("reward_weights")
        if others:
            self._live.pop("reward_weights", None)
        if weights is not None and (others or len(weights.new or ()) != len(names)):
            del last["reward_weights"]
            if others and weights.by != BY_CONFIG:
                self._note("the reward functions changed: reward_weights are those of the config")
        for name in changed:
            before = last.get(name)
            old = before.new if before is not None else self._saved.get(name)
            if old != self._now[name]:
                self._config_says(name, old)
        within = not compat.at_generation_boundary(self._trainer)
        for name, held in self._live.items():
            if not within or name in changed or name not in SETTABLE or SETTABLE[name].at_start:
                continue
            if held != settings.value(name):
                settings.keep(name, held)
        for name in SETTABLE:
            before = last.get(name)
            if name == "learning_rate" or name in changed or (before is None and name not in self._live):
                continue
            if before is not None and before.by == BY_CONFIG:
                continue
            self._again(name, self._live[name] if before is None else before.new, before)

    def _again(self, name: str, value: Any, before: SettingChanged | None) -> None:
        """Restore a value that was set while the run trained."""
        settings, row = self._session.settings, SETTABLE[name]
        if row.at_start:
            old = self._now.get(name, settings.value(name))
            if value == old:
                return
            settings.configure(name, value)
            self._record(name, old, value, BY_RESUME)
        elif value == settings.value(name):
            return
        else:
            try:
                settings.apply({name: value}, by=BY_RESUME)
            except NotYet:
                # The batch was generated with the old value. The new one applies from the next batch on.
                self._session.controller.deferred[name] = value
                self._note(f"{name} is {shown(value)} again from the next generation on")
                return
            except Refused as refusal:
                self._note(f"{name} was not put back: {refusal}")
                return
        when = "before the checkpoint" if before is None else f"at step {before.step}"
        self._note(f"{name} is {shown(value)} again, as set {when}")

    def _config_says(self, name: str, old: Any) -> None:
        """Report a setting changed by this resume. It is recorded once a step was made with it."""
        new = self._now[name]
        ends_stage = name == "max_steps" and self._session.stage is not None
        if not (ends_stage and self._begins):
            self._changes.append((name, old, new))
        self._session.settings.replaced({name})
        if ends_stage:
            return
        self._note(f"{name} is {shown(new)}, as the config says; it was {shown(old)}")

    def _say_what_stays(self) -> None:
        """Report what a setting cannot change because it comes from the checkpoint."""
        if self._about.get(REWARDS, self._about_now[REWARDS]) != self._about_now[REWARDS]:
            self._note(f"the reward functions are not those that {self._checkpoint.name} was made with")
        adapted = bool(getattr(self._trainer.model, "peft_config", None))
        model = "model_name_or_path"
        if not adapted and self._about.get(model, self._about_now[model]) != self._about_now[model]:
            self._note(
                f"the weights come from {self._checkpoint.name}, not from {self._about_now[model]}; only the "
                "tokenizer and the reference model do"
            )
        if self._now.get("sync_ref_model"):
            step = self._about_now.get(REFERENCE)
            which = f"checkpoint-{step}" if step else "the base model"
            self._note(f"sync_ref_model: the reference model starts from {which} again")

    def _factors(self, history: Iterable[SettingChanged]) -> list[float]:
        """Return the factors applied to the learning rate since the config last changed it."""
        rates = [setting for setting in history if setting.name == "learning_rate"]
        if not rates:  # perhaps the record was lost
            return [float(self._live.get("rate_factor", 1.0))]
        factors: list[float] = []
        for setting in rates:
            if setting.by == BY_CONFIG:
                factors = []
            elif setting.by != BY_RESUME and setting.old:
                factors.append(setting.new / setting.old)
        return factors

    # -- once the trainer is built ----------------------------------------------------------------

    def _around_create_scheduler(self, history: Sequence[SettingChanged], changed: Sequence[str]) -> Any:
        factors = [] if "learning_rate" in changed else self._factors(history)
        self._session.settings.rate_factor = math.prod(factors)

        def around(original: Any) -> Any:
            def create_scheduler(num_training_steps: int, *args: Any, **kwargs: Any) -> Any:
                made = original(num_training_steps, *args, **kwargs)
                rate_schedule.restart_as_noted(self._trainer, num_training_steps)
                self._wanted = compat.configured(self._trainer)
                for place, row in enumerate(compat.RESTORED):
                    if row.name == "learning_rate" and self._wanted[place]:
                        self._wanted[place] = [
                            [math.prod(factors, start=rate) for rate in self._wanted[place][0]]
                        ]
                return made

            return create_scheduler

        return around

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Replace the checkpoint's settings with those of the config."""
        if self._begun:  # a script may call train() again
            return
        self._begun, trainer, state = True, self._trainer, self._trainer.state
        if state.global_step >= state.max_steps:
            more = f"--set max_steps={2 * state.max_steps}"
            raise NoStepError(f"the run has finished its {state.max_steps} steps. Add more: {more}")
        old_rate = compat.learning_rate(trainer)
        rates = False
        for row, used, wanted in compat.mismatches(trainer, self._wanted):
            row.write(trainer, wanted)
            if not self._saved and row.name != "learning_rate":
                before, now = _one_each(used, wanted)
                self._note(f"{row.name} is {now}, as the config says; it was {before}")
            rates = rates or row.name == "learning_rate"
        self._begin_again_where_changed()
        rates = compat.follow_schedule(trainer) or rates
        if rates:
            rate = compat.learning_rate(trainer)
            if rate != old_rate and not self._begins and not self._new_optimizer:
                self._record("learning_rate", old_rate, rate, BY_RESUME)
            self._note(f"learning_rate is {short(rate)}{describe_schedule(trainer)}")
        self._session.controller.change_by_schedule()
        if self._notes:
            self._session.fact(f"resumed/{self._session.attempt}", self._notes)

    def _record(self, name: str, old: Any, new: Any, by: str) -> None:
        self._session.put(SettingChanged(self._session.attempt, self._step, time.time(), name, old, new, by))

    def _begin_again_where_changed(self) -> None:
        trainer = self._trainer
        for name in ("metric_for_best_model", "greater_is_better"):
            if name in self._saved and self._saved[name] != self._now[name]:
                compat.forget_best(trainer)
        start = self._now.get("entropy_coef")
        if self._now.get("use_adaptive_entropy") and self._saved.get("entropy_coef", start) != start:
            trainer.entropy_coef = trainer.args.entropy_coef
        old, new = self._saved.get("learning_rate"), self._now["learning_rate"]
        if compat.rates_by_schedule(trainer) is None and old and old != new:
            compat.scale_rates(trainer, new / old)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Compare what the first step used with the config, and raise an alert when they differ."""
        if self._stepped:
            return
        self._stepped = True
        for name, old, new in self._changes:
            self._record(name, old, new, BY_CONFIG)
        wrong = []
        for row, used, wanted in compat.mismatches(self._trainer, self._wanted):
            now, said = _one_each(used, wanted)
            wrong.append(f"{row.name} is {now}, the config says {said}")
        if compat.follow_schedule(self._trainer):
            wrong.append("the learning rate did not follow its schedule")
        if wrong:
            self._session.alert(f"after the resume {'; '.join(wrong)}")


def _one_each(used: Any, wanted: Any) -> tuple[str, str]:
    """Format two values. Of two lists, such as one value per parameter group, show the first difference."""
    if isinstance(used, list) and isinstance(wanted, list):
        return next((_one_each(a, b) for a, b in zip(used, wanted, strict=False) if a != b), ("", ""))
    return shown(used), shown(wanted)
