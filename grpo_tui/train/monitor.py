"""Record a user's own TRL script: `grpo_tui.monitor(trainer)` before `trainer.train()`.

The run gets the same folder, views and commands as one started by the program. A sidecar supervisor watches
the process.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.core.records import RewardFunctionInfo
from grpo_tui.core.text import shell_word
from grpo_tui.store.json_file import append_regular
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.recorder import Recorder
from grpo_tui.store.status import is_live
from grpo_tui.supervisor import start_sidecar, take_lock
from grpo_tui.supervisor.start import LEAVING_S
from grpo_tui.train.own import Unbreakable
from grpo_tui.train.ranks import own_rank, world_size

if TYPE_CHECKING:
    from grpo_tui.train.session import Session


def monitor(trainer: Any, run_dir: str | Path | None = None) -> Path:
    """Record and control this trainer's next `train()`. Calling it twice has no further effect.

    Args:
        run_dir: The run folder, by default the trainer's `output_dir`.

    Returns:
        The run folder. Open it from another terminal with `grpo-tui attach`.

    Raises:
        RunFolderBusy: Another process trains into this folder.
        TypeError: The argument is not a GRPOTrainer.
        ValueError: `enable_jit_checkpoint` is on, or the trainer is already recorded in another folder.
    """
    from grpo_tui.train import compat

    if not all(hasattr(trainer, name) for name in ("args", "reward_funcs", "train")):
        raise TypeError(f"grpo_tui.monitor takes a built GRPOTrainer, not {type(trainer).__name__}")
    if getattr(trainer.args, "enable_jit_checkpoint", False):
        raise ValueError("enable_jit_checkpoint takes over signals that grpo_tui needs. Remove it")
    folder = RunFolder(Path(run_dir or trainer.args.output_dir).absolute())
    known = _JOINED.get(trainer)
    if known is not None and known != folder.root:
        raise ValueError(f"this trainer is already recorded in {known}. Use one run folder per trainer")
    if known is not None:
        return known
    if compat.trains_now(trainer):
        _say("this trainer is already training without a record. Call monitor before trainer.train()")
        return folder.root
    folder.root.mkdir(mode=0o755, parents=True, exist_ok=True)
    if own_rank() == 0:
        os.close(_lock(folder))  # report a busy folder now, not after loading the model
        _say(f"watch this run with `grpo-tui attach {shell_word(folder.root)}`")
    _JOINED[trainer] = folder.root

    def around_train(original: Callable[..., Any]) -> Callable[..., Any]:
        def train(resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
            _JOINED.pop(trainer, None)
            trainer.train = original  # a second call of train() is not part of this record
            return _recorded(
                trainer,
                folder,
                _checkpoint(trainer, resume_from_checkpoint),
                lambda: original(resume_from_checkpoint, *args, **kwargs),
            )

        return train

    trainer.train = around_train(trainer.train)
    return folder.root


_JOINED: weakref.WeakKeyDictionary[Any, Path] = weakref.WeakKeyDictionary()


def _recorded(trainer: Any, folder: RunFolder, checkpoint: Path | None, train: Callable[[], Any]) -> Any:
    """Train in a new session. Return or raise what `train` does."""
    from grpo_tui.train import own
    from grpo_tui.train.resume import resume
    from grpo_tui.train.session import Session, checkpoint_step, reproduction_record

    first = own_rank() == 0
    with contextlib.ExitStack() as after:
        lock = _lock(folder) if first else None
        if lock is not None:
            after.callback(os.close, lock)
            after.enter_context(_teed_output(folder))
        step = None if checkpoint is None else checkpoint_step(checkpoint)
        session = Session(folder, resumed_from=step)
        session.join(trainer, _sources(trainer, session.attempt))
        own.keep()
        session.fact("config", {"model": trainer.model.config._name_or_path, "grpo": trainer.args.to_dict()})
        session.fact("reproduction", reproduction_record(trainer, Path.cwd()))
        if isinstance(session.recorder, Recorder) and lock is not None:
            session.recorder.on_stop_now = lambda: os._exit(3)
            start_sidecar(folder, os.getpid(), lock)
        try:
            if checkpoint is not None:
                resume(session, trainer, checkpoint)
            with _saving_at_sigterm(session) as asked:
                result = train()
        except KeyboardInterrupt:
            _say("ctrl+c ended the training without saving")
            session.close("stopped")
            raise
        except BaseException as error:
            session.failed(error)
            raise
        session.close(session.ended_state())
    if asked.is_set():
        os.kill(os.getpid(), signal.SIGTERM)  # the signal was meant for the script, not only for its training
    return result


@contextlib.contextmanager
def _saving_at_sigterm(session: Session) -> Iterator[threading.Event]:
    """Save and stop on SIGTERM, unless the script has its own handler.

    Under a launcher SIGTERM also arrives when another rank has failed, and a save would wait for that rank.
    """
    asked = threading.Event()
    in_main = threading.current_thread() is threading.main_thread()
    if world_size() > 1 or not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield asked
        return

    def save(*_: Any) -> None:
        asked.set()
        session.controller.stop_wanted = True

    signal.signal(signal.SIGTERM, save)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _lock(folder: RunFolder) -> int:
    """Take the folder's lock. The sidecar of an earlier training may hold it for a moment longer."""
    return take_lock(folder, 0.0 if is_live(folder.root) else LEAVING_S)


def _say(text: str) -> None:
    print(f"grpo-tui: {text}", flush=True)


def _checkpoint(trainer: Any, asked: Any) -> Path | None:
    if asked is True:
        from transformers.trainer_utils import get_last_checkpoint

        asked = get_last_checkpoint(trainer.args.output_dir)
    return Path(asked) if asked else None


def _sources(trainer: Any, attempt: int) -> list[RewardFunctionInfo]:
    found = []
    for index, (function, name) in enumerate(
        zip(trainer.reward_funcs, trainer.reward_func_names, strict=True)
    ):
        try:
            text = inspect.getsource(inspect.unwrap(getattr(function, "func", function)))
            place = f"{inspect.getsourcefile(function)}:{inspect.getsourcelines(function)[1]}"
        except (TypeError, OSError):
            text, place = "", ""
        found.append(RewardFunctionInfo(attempt, index, name, 1.0, place, "", text))
    return found


@contextlib.contextmanager
def _teed_output(folder: RunFolder) -> Iterator[None]:
    """Copy what the script prints to the log while it trains."""
    before = sys.stdout, sys.stderr
    with io.TextIOWrapper(append_regular(folder.log), encoding="utf-8", errors="replace") as log:
        teed = Unbreakable(sys.stdout, log), Unbreakable(sys.stderr, log)
        sys.stdout, sys.stderr = teed
        try:
            yield
        finally:
            if (sys.stdout, sys.stderr) == teed:
                sys.stdout, sys.stderr = before
