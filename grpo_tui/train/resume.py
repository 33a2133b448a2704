"""Bring the settings a person changed in mid-run back after a resume.

What the checkpoint already carries is left alone: a learning rate set before it lies in its
scheduler. Knows the history of settings; knows nothing of checkpoints' contents.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from grpo_tui.store.reader import RunReader
from grpo_tui.train import compat

if TYPE_CHECKING:
    from transformers import TrainerControl

    from grpo_tui.core.records import SettingChanged
    from grpo_tui.train.session import Session

BY_RESUME = "resume"


def reapply_settings(session: Session, trainer: Any, step: int, overridden: Collection[str] = ()) -> None:
    """Reapply the last applied settings; what must wait for the trainer is done at its begin.

    Args:
        session: The attempt that resumes.
        trainer: Its trainer, before `train()`.
        step: Step of the checkpoint.
        overridden: Settings given anew at this resume; they win.
    """
    reader = RunReader(session.folder.database)
    try:
        history = [s for s in reader.settings() if s.attempt < session.attempt]
    finally:
        reader.close()
    last: dict[str, SettingChanged] = {s.name: s for s in history}
    later: dict[str, Any] = {}
    for name, setting in last.items():
        if name == "learning_rate" or name in overridden:
            continue
        if name == "temperature" and setting.step > step and not compat.at_generation_boundary(trainer):
            # The buffered generations were sampled at the old temperature; the new one waits for the next.
            later[name] = setting.new
            continue
        session.settings.apply({name: setting.new}, by=BY_RESUME)
        print(f"grpo-tui: {name} is {setting.new} again, as set at step {setting.step}", flush=True)
    given_anew = "learning_rate" in overridden
    factor = 1.0 if given_anew else _rate_factor(history, step)
    if factor != 1.0 or given_anew:
        _at_begin(session, trainer, factor, given_anew)
    session.controller.deferred = later


def _rate_factor(history: list[SettingChanged], step: int) -> float:
    """What learning rates set after the checkpoint multiply its schedule by."""
    factor = 1.0
    for setting in history:
        if (
            setting.name == "learning_rate"
            and setting.step > step
            and setting.by != BY_RESUME
            and setting.old
        ):
            factor *= setting.new / setting.old
    return factor


def _at_begin(session: Session, trainer: Any, factor: float, given_anew: bool) -> None:
    from transformers import TrainerCallback

    class Reapply(TrainerCallback):
        """Waits for the scheduler, which exists only once training begins."""

        done = False

        def on_train_begin(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
            """Scale the restored schedule."""
            if self.done:
                return  # a script may train once more
            self.done = True
            # A checkpoint brings its schedule along; a rate given anew has to be put over it.
            by = float(args.learning_rate) / compat.base_rate(trainer) if given_anew else factor
            if by != 1.0:
                rate = compat.learning_rate(trainer) * by
                session.settings.apply({"learning_rate": rate}, by=BY_RESUME)
                print(f"grpo-tui: learning_rate is {rate:g} again", flush=True)

    trainer.add_callback(Reapply())
