"""Connect everything that records and controls one attempt of a GRPOTrainer.

`Session` opens the record before the trainer exists, `join` hooks a built trainer, `close` ends the attempt.
The worker and `monitor` both build on it. `reproduction_record` collects what is needed to repeat a run:
versions, code state, GPUs, seed and data fingerprint. It never stores the environment, which holds keys and
tokens.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.packages import all_versions, processor, versions_of
from grpo_tui.config.section import OnRule
from grpo_tui.core.evaluations import FACT, Evaluations
from grpo_tui.core.records import (
    AttemptEnded,
    AttemptStarted,
    Fact,
    Record,
    RewardFunctionInfo,
    SettingChanged,
)
from grpo_tui.core.stages import DONE, SETTING, StageNow
from grpo_tui.core.stages import FACT as STAGE
from grpo_tui.core.text import shell_word
from grpo_tui.health.live import LiveVerdict
from grpo_tui.present.formatting import changed
from grpo_tui.store.checkpoints import newest_usable
from grpo_tui.store.layout import RunFolder, hold, where
from grpo_tui.store.live import (
    RankFile,
    await_error,
    forget_errors,
    lost_contact,
    lost_ranks,
    read_errors,
    read_rank,
    write_error,
)
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.recorder import Recorder, SpoolRecorder
from grpo_tui.store.spec import read_spec
from grpo_tui.store.status import REPLACED
from grpo_tui.supervisor.last_word import doing_of
from grpo_tui.train import own
from grpo_tui.train.devices import gpu_of
from grpo_tui.train.failure import describe, of_ours
from grpo_tui.train.phases import BROKE_IN, PhaseClock
from grpo_tui.train.ranks import Ranks, own_rank, world_size

if TYPE_CHECKING:
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.config.section import Evaluate
    from grpo_tui.rewards.loading import LoadedReward
    from grpo_tui.train.sampling import ProbeSampler

RESCUED = ".rescued"
"""Suffix of the folder that takes the checkpoints when the run folder was deleted."""


class Session:
    """Recorder and hooks of one attempt."""

    def __init__(self, folder: RunFolder, *, resumed_from: int | None = None) -> None:
        folder.root.mkdir(parents=True, exist_ok=True)
        # Held by file descriptor: the folder may be renamed, and another created under its name.
        self.folder = folder = RunFolder(hold(folder.root))
        self._name = where(folder.root) or folder.root
        self.rank = own_rank()
        self.recorder = (
            Recorder(folder, judge=LiveVerdict(folder))
            if self.rank == 0
            else SpoolRecorder(folder, self.rank)
        )
        self.attempt = self.recorder.attempt
        self.put: Callable[[Record], None] = self.recorder.put
        self._rank_file = RankFile(folder.rank(self.rank), os.getpid())
        if self.rank == 0:
            forget_errors(folder)
        self.put(AttemptStarted(self.attempt, time.time(), socket.gethostname(), os.getpid(), resumed_from))
        self.recorder.on_trouble = lambda reason: self._rank_file.update(trouble=reason)
        self.recorder.on_lost = lambda counts: self._rank_file.update(lost=dict(counts))
        self.recorder.say = lambda text: print(f"grpo-tui: {text}", file=sys.stderr, flush=True)
        self.phases = PhaseClock(self._rank_file, self.put, self.attempt, self.rank)
        self.recorder.start()
        self._trainer: Any = None
        self._resumed_from = resumed_from or 0
        self._closed = False
        self.memory_advice: Callable[[str, str], str] = lambda message, phase: ""
        """Called with an exception's message and the phase. Says what to change when a GPU ran out of memory.
        """
        self.callbacks: list[Any] = []
        self._replaced: dict[str, str] = {}
        self.stage: StageNow | None = None

    def report_replaced(self, by: str) -> None:
        """Record which functions of the standard library were replaced since the last call.

        Args:
            by: What ran in between, such as `reward correct`.
        """
        new = {what: place for what, place in own.replaced().items() if what not in self._replaced}
        if not new:
            return
        own.keep()  # more of our modules may have been imported since
        self._replaced |= dict.fromkeys(new, by)
        named = ", ".join(f"{what} ({place})" if place else what for what, place in new.items())
        print(f"grpo-tui: warning: {by} replaced {named}", flush=True)
        self.fact(REPLACED, {"attempt": self.attempt, "by": self._replaced})

    def join(
        self,
        trainer: Any,
        sources: Sequence[RewardFunctionInfo] | None = None,
        reward_params: Sequence[Any] = (),
    ) -> None:
        """Hook a built trainer, before its `train`."""
        from grpo_tui.train import compat
        from grpo_tui.train.capture import Capture
        from grpo_tui.train.checkpoints import Checkpoints, RecordingCallback
        from grpo_tui.train.controller import Controller
        from grpo_tui.train.resume import description
        from grpo_tui.train.reward_runner import RewardRunner
        from grpo_tui.train.settings import LiveSettings

        for name, purpose in compat.missing(trainer).items():
            print(
                f"grpo-tui: this TRL has no GRPOTrainer.{name}; without it there is no {purpose}.", flush=True
            )
        self._trainer = trainer
        self._rank_file.update(gpu=gpu_of(trainer.accelerator.device))
        self.ranks = ranks = Ranks(trainer)
        self.runner = RewardRunner(
            self.put, self.phases, self.attempt, self.folder.abort(self.rank), self.rank
        )
        self.capture = Capture(trainer, self.put, self.phases, self.runner, self.attempt)
        self.checkpoints = Checkpoints(trainer, self.put, self.phases, self.attempt, ranks)
        self.checkpoints.description = description(trainer, sources, reward_params)
        self.checkpoints.flush = self.recorder.flush
        self.settings = LiveSettings(trainer, self.put, self.attempt, self._resumed_by)
        self.checkpoints.join(self.settings)
        self.controller = Controller(
            trainer,
            Mailbox(self.folder.commands),
            self.phases,
            self.checkpoints,
            self.settings,
            lambda: self.capture.newest_prompt,
            ranks,
        )
        self.controller.on_safe_point = self.checkpoints.before_save = self._follow_folder
        self.runner.on_second_abort = lambda: self.controller.pause_for(
            "two reward calls in a row were aborted"
        )
        self.runner.after_call = lambda name: self.report_replaced(f"reward {name}")
        self._describe_rewards(trainer, sources)
        self.runner.install(trainer)
        self.capture.install()
        self.checkpoints.install()
        self.controller.install()
        callback = RecordingCallback(
            self.put, self.phases, self.attempt, self.checkpoints, self.settings, self.capture.figures
        )
        compat.add_callback_first(trainer, callback)
        self.callbacks.append(callback)
        self._guard_gradients(trainer)

    def reload_from(self, config: RunConfig, rewards: list[LoadedReward]) -> None:
        """Let `grpo-tui reload` load these rewards again from their edited files. Call after `join`.

        Args:
            rewards: The functions that the trainer was built with. A reload replaces them in this list.
        """
        from grpo_tui.train.reward_files import RewardFiles

        self.settings.rewards = RewardFiles(
            self._trainer,
            config,
            rewards,
            attempt=self.attempt,
            put=self.put,
            runner=self.runner,
            ranks=self.ranks,
            description=self.checkpoints.description,
            report=self.report_replaced,
            keep=self._keep_config,
            restart=lambda: (
                f"grpo-tui train {shell_word(config.path or self._name)} --run-dir {shell_word(self._name)} "
                "--resume"
            ),
        )

    def _keep_config(self, config: RunConfig) -> None:
        """Let a resume, and every reader, find the rewards that are about to score."""
        if self.rank:
            return
        from grpo_tui.config.reward_list import listed_in
        from grpo_tui.config.run_config import RunConfig
        from grpo_tui.config.stages import with_rewards

        spec = read_spec(self.folder.spec)
        if (stage := spec.stage) is not None:
            base = with_rewards(RunConfig.from_json(stage.base), stage.place, listed_in(config))
            stage = replace(stage, base=base.to_json())
        replace(spec, config=config.to_json(), stage=stage).write(self.folder.spec)
        self.fact("config", config.to_record())

    def _guard_gradients(self, trainer: Any) -> None:
        from grpo_tui.train.gradient_guard import GradientGuard

        guard = GradientGuard(
            trainer, self.put, self.attempt, self.ranks, self.controller.pause_for, self._last_checkpoint
        )

        def on_safe_point() -> None:
            self._follow_folder()
            guard.safe_point()

        self.controller.on_safe_point = on_safe_point
        guard.install()
        trainer.add_callback(guard)
        self.callbacks.append(guard)

    def ask_while_training(self, rows: Sequence[Mapping[str, Any]], **how: Any) -> None:
        """Answer and score probe prompts, as `ProbeSampler` takes them with `how`. Call after `join`."""
        from grpo_tui.train.sampling import ProbeSampler
        from grpo_tui.train.settable import note_probes

        probes = ProbeSampler(self._trainer, rows, **how, **self._asking())
        note_probes(self._trainer, probes)
        self._ask_with(probes)

    def evaluate_while_training(
        self,
        rows: Sequence[Mapping[str, Any]],
        wanted: Evaluate,
        config: RunConfig,
        sources: Sequence[RewardFunctionInfo] = (),
    ) -> None:
        """Evaluate on held-out rows before training, at regular steps and at the end. Call after `join`."""
        from grpo_tui.train.evaluation import Evaluator

        evaluator = Evaluator(
            self._trainer,
            rows,
            wanted,
            config=config,
            sources=[each.text for each in sources],
            earlier=self._earlier_evaluations(),
            checkpoints=self.checkpoints,
            **self._asking(),
        )
        self._ask_with(evaluator)
        self.controller.evaluate = evaluator.now

    def _asking(self) -> dict[str, Any]:
        return {
            "put": self.put,
            "capture": self.capture,
            "runner": self.runner,
            "phases": self.phases,
            "attempt": self.attempt,
            "ranks": self.ranks,
        }

    def _ask_with(self, probes: ProbeSampler) -> None:
        before = self.controller.on_safe_point

        def on_safe_point() -> None:
            before()
            probes.safe_point()

        self.controller.on_safe_point = on_safe_point
        self._trainer.add_callback(probes)
        self.callbacks.append(probes)

    def _earlier_evaluations(self) -> Evaluations | None:
        """Return a resumed run's evaluations up to its checkpoint; None on ranks other than the first."""
        if not self._resumed_from or self.rank:
            return None
        with contextlib.closing(RunReader(self.folder.database)) as reader:
            found = Evaluations.from_json(reader.fact(FACT))
        done = tuple(one for one in found.done if one.step <= self._resumed_from) if found else ()
        return replace(found, done=done) if found is not None and done else None

    def act_on(self, rules: Sequence[OnRule]) -> None:
        """Pause or stop the run when a rule holds. Call after `join`.

        Raises:
            NoStepError: Earlier attempts have used up the hours of a rule.
        """
        from grpo_tui.train.rule_watch import watch_of

        if rules and isinstance(self.recorder, Recorder):
            accelerator = self._trainer.accelerator
            gpus = accelerator.num_processes if accelerator.device.type == "cuda" else 0
            stage = self.stage.place if self.stage is not None else None
            watch = watch_of(self.folder, rules, self.attempt, gpus, stage)
            self.recorder.judges[watch] = "follows the rules of grpo_tui.on no longer"

    def begin_stage(self, now: StageNow) -> None:
        """Train one stage of the run: record it, and follow its schedule. Call after `join`."""
        from grpo_tui.train.rate_schedule import schedule_from
        from grpo_tui.train.settings import BY_CONFIG

        self.stage = now
        schedule_from(self._trainer, now.start)
        self.controller.stage, self.controller.more_stages = now.place, not now.is_last
        self.settings.later_steps = now.later
        self.checkpoints.measure_from(now.references)
        if self.rank:
            return
        self.fact(STAGE, now.to_fact())
        print(f"grpo-tui: stage {now.place + 1} of {len(now.names)}: {now.name}", flush=True)
        if self._resumed_from == now.start and now.place:
            old, new = now.names[now.place - 1], now.name
            why, at = "; ".join(filter(None, (now.because, _changes_of(now)))), time.time()
            self.put(SettingChanged(self.attempt, now.start, at, SETTING, old, new, BY_CONFIG, why))

    def _resumed_by(self) -> str:
        """Return the command that resumes this run; empty when the user's script trains it."""
        return f"grpo-tui train {shell_word(self._name)} --resume" if self.folder.spec.exists() else ""

    def _last_checkpoint(self) -> str:
        usable, _ = newest_usable(self.folder)
        return f"Resume from {usable.path.name}" if usable is not None else "No checkpoint was saved"

    def _follow_folder(self) -> None:
        """Save to the run folder's current name, or beside its old name when it was deleted."""
        name = where(self.folder.root)
        if name is None:
            name = self._name.with_name(f"{self._name.name.removesuffix(RESCUED)}{RESCUED}")
        if name != self._name:
            self.checkpoints.move(self._name, name)
            self._name = name

    def _describe_rewards(self, trainer: Any, sources: Sequence[RewardFunctionInfo] | None) -> None:
        weights = trainer.reward_weights.tolist()
        for index, name in enumerate(trainer.reward_func_names):
            known = sources[index] if sources is not None and index < len(sources) else None
            self.put(
                RewardFunctionInfo(
                    self.attempt,
                    index,
                    name,
                    round(float(weights[index]), 7),
                    known.source if known else "",
                    known.sha256 if known else "",
                    known.text if known else "",
                )
            )

    def alert(self, text: str) -> None:
        """Show a problem for the rest of this attempt."""
        print(f"grpo-tui: {text}", flush=True)
        self._rank_file.update(differs=text)

    def fact(self, key: str, value: Any) -> None:
        """Record a named value about the run."""
        self.put(Fact(key, value))

    def failed(self, error: BaseException) -> None:
        """End the attempt as failed, with the cause that the user should read first."""
        runner = getattr(self, "runner", None)
        function, sample = (
            (runner.failed_function, runner.failed_sample) if runner is not None else (None, "")
        )
        phase = getattr(error, BROKE_IN, self.phases.phase)
        described = describe(error, phase, function, sample)
        if function is None:
            described["cause"] = self.memory_advice(described["message"], phase) or described["cause"]
        if function is None and not of_ours(error):
            described["cause"] += self._if_damaged()
        # A rank often fails only because another one has left: its own error would hide that.
        follows = function is None and lost_contact(described)
        if self.rank:
            write_error(self.folder, self.rank, described, follows=follows)
        elif world_size() > 1:
            led = follows and self.made_a_step and read_errors(self.folder, causes=True) is None
            lost = self._lost_ranks() if led else []
            gone = self._gone(lost[0]) if lost else None
            described = gone or await_error(self.folder) or described
        self.close("failed", described)

    def _lost_ranks(self) -> list[int]:
        """Return the other ranks whose process is gone. An earlier attempt may have had more."""
        return [rank for rank in lost_ranks(self.folder, self.rank) if rank < world_size()]

    def _gone(self, rank: int) -> dict[str, Any]:
        """Describe the end of a rank that was killed."""
        doing = doing_of(read_rank(self.folder.rank(rank)))
        said = f"rank {rank} is gone{doing}: it was killed or ran out of memory, without an error message"
        return {"type": "", "message": said, "cause": said}

    def _if_damaged(self) -> str:
        """Suggest an earlier checkpoint when a resumed attempt failed before its first step.

        Corrupt bytes in a file of the right length are noticed only when the file is used.
        """
        if not self._resumed_from or self.made_a_step:
            return ""
        earlier, _ = newest_usable(self.folder, before=self._resumed_from)
        other = f"`--resume {earlier.step}` takes an earlier one" if earlier else "there is no earlier one"
        return f". It was resumed from checkpoint-{self._resumed_from}; if that one is damaged, {other}"

    def another_rank_failed(self) -> bool:
        """Return whether another rank failed. If so, the first rank records why and ends the attempt."""
        told = read_errors(self.folder)
        lost = [] if read_errors(self.folder, causes=True) else self._lost_ranks()
        if not told and not lost:
            return False
        if self.rank == 0:
            self.close("failed", self._gone(lost[0]) if lost else told)
        else:
            self._rank_file.update(ended="failed")
        return True

    @property
    def step(self) -> int:
        """Number of completed steps."""
        return int(self._trainer.state.global_step)

    @property
    def made_a_step(self) -> bool:
        """Whether this attempt has completed a step."""
        return self._trainer is not None and int(self._trainer.state.global_step) > self._resumed_from

    def close(self, state: str, error: dict[str, Any] | None = None) -> None:
        """End the attempt and write everything that is left. Later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        step = int(self._trainer.state.global_step) if self._trainer is not None else None
        self.phases.enter(self.phases.phase)
        cause = str((error or {}).get("cause", ""))
        self._rank_file.update(ended=state, ended_cause=cause, note="")
        self.put(AttemptEnded(self.attempt, time.time(), state, step, None, error))
        self.recorder.close()
        self._rank_file.update(closed=True)
        self._rank_file.close()
        self._let_go()

    def _let_go(self) -> None:
        """Remove all hooks: from here on the trainer belongs to the script alone."""
        from grpo_tui.train import compat

        if self._trainer is None or not hasattr(self, "controller"):
            return
        self.controller.closed = True
        self.runner.uninstall(self._trainer)
        compat.unwrap(self._trainer)
        for callback in self.callbacks:
            with contextlib.suppress(ValueError):  # already removed by other code
                self._trainer.remove_callback(callback)

    def ended_state(self) -> str:
        """Return how this attempt ended: `stopped`, `DONE` when another stage follows, or `finished`."""
        if self.controller.stopped:
            return "stopped"
        return DONE if self.controller.more_stages else "finished"


def _changes_of(now: StageNow) -> str:
    """Return what a stage changes, for the history."""
    from grpo_tui.config.run_config import RunConfig
    from grpo_tui.config.stages import settings_changed

    return ", ".join(
        key.removeprefix("grpo_tui.") if key.startswith("grpo_tui.") else changed(key, old, new)
        for key, old, new in settings_changed(RunConfig.from_json(now.base), now.place)
    )


def checkpoint_step(checkpoint: Path) -> int:
    """Return the step in a checkpoint folder's name."""
    return int(checkpoint.name.split("-")[-1])


PACKAGES = (
    "torch",
    "trl",
    "transformers",
    "accelerate",
    "datasets",
    "peft",
    "vllm",
    "bitsandbytes",
    "grpo-tui",
)
DIFF_LIMIT = 200_000


def reproduction_record(trainer: Any, folder: Path) -> dict[str, Any]:
    """Return everything about this process, trainer and the user's folder that affects the numbers."""
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "packages": versions_of(PACKAGES),
        "installed": all_versions(),
        "git": _git(folder),
        "gpus": _gpus(),
        "seed": trainer.args.seed,
        "data_seed": trainer.args.data_seed,
        "model_commit": getattr(getattr(trainer.model, "config", None), "_commit_hash", None),
        "world_size": trainer.accelerator.num_processes,
        "dataset_fingerprint": getattr(trainer.train_dataset, "_fingerprint", None),
        "dataset_rows": len(trainer.train_dataset) if hasattr(trainer.train_dataset, "__len__") else None,
        "arguments": sys.argv,
        "folder": str(folder),
    }


def _gpus() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [{"name": p.name, "memory_bytes": p.total_memory} for p in properties]


def _git(folder: Path) -> dict[str, Any] | None:
    commit = _run(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    difference = _run(folder, "diff", "HEAD") or ""
    return {
        "commit": commit.strip(),
        "diff": difference[:DIFF_LIMIT],
        "diff_cut": len(difference) > DIFF_LIMIT,
    }


def _run(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
