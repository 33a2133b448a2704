"""The training process: read `run.json`, train in a thread, serve reward calls in the main thread.

Started by the supervisor with `python -m grpo_tui.train.worker RUN_DIR`, in its own session and without a
terminal.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.section import OnRule
from grpo_tui.core.commands import END
from grpo_tui.core.stages import DONE
from grpo_tui.data.transformers_import import import_transformers
from grpo_tui.present.formatting import plural
from grpo_tui.store.checkpoints import reference_of
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import RankFile
from grpo_tui.store.recorder import Recorder
from grpo_tui.store.spec import RESTORED, RunSpec, read_spec, settle_earlier
from grpo_tui.train import own
from grpo_tui.train.devices import choose_gpu, free_memory_by_gpu
from grpo_tui.train.out_of_memory import MemoryAdvice
from grpo_tui.train.own import Unbreakable
from grpo_tui.train.ranks import own_rank, world_size
from grpo_tui.train.session import Session, checkpoint_step

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.core.records import RewardFunctionInfo
    from grpo_tui.data.load import Prompts
    from grpo_tui.rewards.loading import LoadedReward

FAILED, STOPPED = 1, 3
"""Exit codes; 0 is a finished run."""

LEAVING_S = 15.0
"""Time limit for trackers and threads after the end of a run was recorded."""


def main(arguments: list[str] | None = None) -> int:
    """Run one attempt and return the exit code."""
    folder = RunFolder(Path((arguments if arguments is not None else sys.argv[1:])[0]).absolute())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout, sys.stderr = Unbreakable(sys.stdout), Unbreakable(sys.stderr)
    spec = read_spec(folder.spec)
    early: list[int] = []  # signals received while there was nothing to save
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: early.append(number))
    try:
        session = Session(folder, resumed_from=checkpoint_step(Path(spec.resume)) if spec.resume else None)
    except (RunDatabaseError, OSError) as error:
        return _not_begun(folder, error)
    if isinstance(session.recorder, Recorder):
        session.recorder.on_stop_now = lambda: os._exit(_stopped(spec))
        for note in (*spec.notes, *(f"started despite {error}" for error in spec.forced)):
            print(f"grpo-tui: {note}", flush=True)
    try:
        _leave_on_signals(session, early)
        own.keep()
        state = _train(session, spec, folder, early)
    except BaseException as error:
        if early:  # even if the code being loaded swallowed the exception
            print("grpo-tui: stopped before training began, so there was nothing to save", flush=True)
            session.close("stopped")
            return _stopped(spec)
        traceback.print_exc()
        sys.stderr.flush()
        if session.rank == 0 and not session.made_a_step:
            _restore_spec(session.folder)
        session.failed(error)
        return FAILED
    try:
        if state == DONE and session.rank == 0:
            _follow_with_next(session, spec)
    except Exception as error:
        traceback.print_exc()
        session.failed(error)
        return FAILED
    session.close(state)
    return _stopped(spec) if state == "stopped" else 0


def _begin_stage(session: Session, config: RunConfig, spec: RunSpec) -> None:
    if spec.stage is None:
        return
    session.begin_stage(spec.stage)
    until = config.section.stages[spec.stage.place].until
    if until is not None:
        session.act_on((OnRule(until, END),))


def _follow_with_next(session: Session, spec: RunSpec) -> None:
    """Write what the supervisor starts next. A resume after a kill starts the same."""
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.config.stages import next_stage

    now, step, early = read_spec(session.folder.spec).stage, session.step, session.controller.stage_ended
    assert now is not None  # as read again: a reload may have changed the rewards of all stages
    why = early
    if why is None:
        until = RunConfig.from_json(now.base).section.stages[now.place].until
        why = f"its limit of {plural(now.limit, 'step')} was reached" if until is not None else ""
    config, stage = next_stage(now, step, why, size=world_size())
    settle_earlier(session.folder, restore=False)
    checkpoint = session.checkpoints.path(step)
    begun = replace(
        spec,
        config=config.to_json(),
        resume=str(checkpoint),
        notes=(),
        overridden=tuple(config.section.stages[stage.place].set),
        attempts_before=session.attempt,
        stage=stage,
    )
    begun.write(session.folder.spec)


def _stopped(spec: RunSpec) -> int:
    """Return the exit code of a stopped run. A launcher reports any code but 0 as a failure."""
    return 0 if spec.launcher else STOPPED


def _not_begun(folder: RunFolder, error: Exception) -> int:
    """Report why there is no record, in the log and the rank file."""
    said = str(error).replace(f"{folder.root}{os.sep}", "")  # the reader knows the folder, and room is short
    cause = f"nothing can be recorded, so the run did not start: {said}"
    print(f"grpo-tui: {cause}", flush=True)
    with contextlib.suppress(OSError):
        rank = RankFile(folder.rank(own_rank()), os.getpid())
        rank.update(ended="failed", ended_cause=cause)
        rank.close()
    return FAILED


def _restore_spec(folder: RunFolder) -> None:
    with contextlib.suppress(OSError):  # the supervisor tries again
        if settle_earlier(folder, restore=True):
            print(f"grpo-tui: {RESTORED}", flush=True)


def _train(session: Session, spec: RunSpec, folder: RunFolder, early: list[int]) -> str:
    from grpo_tui.config.run_config import RunConfig

    config = RunConfig.from_json(spec.config)
    os.environ.update(config.env)
    if not spec.launcher and not config.grpo.get("use_cpu"):
        chosen = choose_gpu(os.environ, free_memory_by_gpu())
        if chosen:
            print(f"grpo-tui: {chosen}", flush=True)
    session.fact("config", config.to_record())
    session.memory_advice = MemoryAdvice(config, folder.root, spec.launcher).cause
    for finding in config.findings:
        print(f"grpo-tui: {finding.severity}: {finding.message}", flush=True)

    with _no_collector():
        import_transformers()
        importlib.import_module("trl.trainer.grpo_trainer")
        from grpo_tui.train.build import build_trainer, reward_sources
        from grpo_tui.train.compat import hide_deprecations
        from grpo_tui.train.devices import FACT, PeakMemory
        from grpo_tui.train.drills import NaNGradient
        from grpo_tui.train.resume import resume
        from grpo_tui.train.session import reproduction_record

    hide_deprecations()
    rewards, prompts = _loaded(session, spec, config)
    memory = PeakMemory()
    reference, tell = reference_of(folder, spec.stage), lambda what: session.phases.tell(loads=what)
    trainer = build_trainer(config, rewards, prompts, folder.root, tell, reference)
    sources = reward_sources(rewards, session.attempt)
    session.join(trainer, sources, [reward.params for reward in rewards])
    if spec.drill == "nan":
        trainer.add_callback(NaNGradient(trainer, session))
    session.reload_from(config, rewards)
    own.keep()  # protects all modules imported by now
    session.report_replaced("a file of the config")
    _ask_while_training(session, config, prompts, sources if not spec.smoke else None)
    _begin_stage(session, config, spec)
    record = reproduction_record(trainer, Path(config.cwd or "."))
    session.fact("reproduction", {**record, "forced": list(spec.forced)})
    _stop_on_signals(session, early)
    session.controller.stop_after = spec.stop_after
    if spec.resume:
        resume(session, trainer, Path(spec.resume), spec.overridden)
    memory.begin(trainer.accelerator.device)
    sys.dont_write_bytecode = True  # on a full disk, Python keeps bytecode that was cut short
    session.runner.serve(
        lambda: trainer.train(resume_from_checkpoint=spec.resume or None), device=trainer.accelerator.device
    )
    if session.rank == 0:
        session.fact(FACT, memory.figures())
    _refuse_no_step(trainer, prompts.train)
    state = session.ended_state()
    if state == "finished":
        with session.phases.during("save"):
            session.controller.until_written(lambda: trainer.save_model(trainer.args.output_dir), "the model")
    if hasattr(trainer, "end"):
        trainer.end()
    return state


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """Disable garbage collection while importing: it takes a tenth of the time, and all modules stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _loaded(session: Session, spec: RunSpec, config: RunConfig) -> tuple[list[LoadedReward], Prompts]:
    session.phases.tell(loads="loading the rewards")
    from grpo_tui.data.load import load_prompts
    from grpo_tui.rewards.loading import load_rewards
    from grpo_tui.train.build import longest_first
    from grpo_tui.train.drills import hanging

    rewards = load_rewards(config)
    session.phases.tell(loads="reading the dataset")
    prompts = load_prompts(config)
    for note in prompts.notes:
        print(f"grpo-tui: {note}", flush=True)
    _check_rewards(rewards, prompts.train.column_names)
    if spec.smoke:
        prompts = longest_first(session, config, prompts)
    if spec.drill == "hung-reward":
        rewards = hanging(rewards, session)
    return rewards, prompts


def _ask_while_training(
    session: Session, config: RunConfig, prompts: Prompts, sources: Sequence[RewardFunctionInfo] | None
) -> None:
    """Set up probe prompts, evaluation and rules as configured.

    Args:
        sources: Sources of the rewards; None for a trial, which neither evaluates nor follows rules.
    """
    probes, evaluate = config.section.probe_prompts, config.section.evaluate
    if probes is not None and prompts.probes is not None:
        from grpo_tui.data.load import prompt_rows

        session.ask_while_training(
            prompts.probes,
            every=probes.every,
            count=probes.count,
            temperature=probes.temperature,
            row_of=lambda text: prompt_rows([text], config, prompts.train)[0],
        )
    if evaluate is not None and prompts.evaluated is not None and sources is not None:
        session.evaluate_while_training(list(prompts.evaluated), evaluate, config, sources)
    if sources is not None:
        session.act_on(config.section.on)


def _check_rewards(rewards: Sequence[Any], columns: Sequence[str] | None) -> None:
    from grpo_tui.rewards.contract import check_call

    if not columns:
        return  # a stream may not know its columns
    for reward in rewards:
        if callable(reward.func):
            for warning in check_call(reward.name, reward.func, columns):
                print(f"grpo-tui: warning: {warning}", flush=True)


def _refuse_no_step(trainer: Any, train: Any) -> None:
    from grpo_tui.train.failure import NoStepError

    if int(trainer.state.global_step) > 0:
        return
    needed = trainer.args.generation_batch_size // trainer.num_generations
    rows = len(train) if hasattr(train, "__len__") else "fewer"
    raise NoStepError(
        f"the run ended after 0 steps: a generation batch takes {needed:,} prompts, and the dataset has "
        f"{rows}. Add rows, or lower per_device_train_batch_size"
    )


class StoppedEarly(BaseException):
    """A signal asked the process to end while it was still loading."""


def _leave_on_signals(session: Session, early: list[int]) -> None:
    """End on SIGTERM while there is nothing to save.

    An extension module that is being imported may swallow or replace the exception, so `early` keeps the
    signal.
    """

    def leave(number: int) -> None:
        early.append(number)
        raise StoppedEarly

    _on_signals(session, leave)
    if early:
        raise StoppedEarly


def _stop_on_signals(session: Session, early: list[int]) -> None:

    def stop(_: int) -> None:
        session.controller.stop_wanted = True

    _on_signals(session, stop)
    if early:
        raise StoppedEarly


def _on_signals(session: Session, act: Callable[[int], None]) -> None:
    def handle(number: int, _: Any) -> None:
        # A launcher sends SIGTERM to all ranks when one has failed. The others would wait for it forever.
        if world_size() > 1 and session.another_rank_failed():
            os._exit(FAILED)
        act(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def _leave_within(seconds: float, code: int) -> None:
    """End the process even when a reward has started a thread that never ends."""
    timer = threading.Timer(seconds, lambda: os._exit(code))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    exit_code = main()
    _leave_within(LEAVING_S, exit_code)
    sys.exit(exit_code)
