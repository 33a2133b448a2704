"""Load a run's reward functions again from their edited files, and go back to earlier ones.

The list of functions stays: names, order, weights, parameters. Every rank loads the new functions beside the
current ones. They are used, from the next generation on, only when all ranks have loaded the files that were
checked. Each set of functions stays in memory with its modules, so that undoing needs no file.
"""

from __future__ import annotations

import copy
import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.records import Record, RewardFunctionInfo
from grpo_tui.core.text import one_line
from grpo_tui.core.user_code import FILE_MODULES
from grpo_tui.rewards.contract import RewardContractError, check_call
from grpo_tui.rewards.lab_child.loaded import UserModules, folders_of
from grpo_tui.rewards.loading import (
    LoadedReward,
    RewardLoadError,
    callable_name,
    each_reward,
    is_async,
    is_model,
)
from grpo_tui.rewards.reload_check import file_hash
from grpo_tui.train.build import reward_sources
from grpo_tui.train.checkpoints import restore_reward_states, reward_states
from grpo_tui.train.ranks import Ranks
from grpo_tui.train.resume import rewards_digest
from grpo_tui.train.reward_runner import RewardRunner
from grpo_tui.train.sampling import unchanged_randomness
from grpo_tui.train.settings import Refused

SHOWN_DIGITS = 8
USERS = (Refused, RewardLoadError, RewardContractError)
"""Errors whose message is written for the user."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One set of a run's reward functions.

    Attributes:
        label: Each file with the first digits of its SHA-256: those that define the functions, and imported
            ones that are new or changed since the attempt began.
        hashes: SHA-256 of the user's files by path.
    """

    label: str
    rewards: tuple[LoadedReward, ...]
    modules: Mapping[str, ModuleType]
    hashes: Mapping[str, str]


class RewardFiles:
    """The reward functions of one trainer, and the files they come from.

    Args:
        rewards: The functions that the trainer was built with.
        about: What checkpoints say about the run, kept true.
        report: Called after user code has run, with what it was.
    """

    def __init__(
        self,
        trainer: Any,
        config: RunConfig,
        rewards: list[LoadedReward],
        *,
        attempt: int,
        put: Callable[[Record], None],
        runner: RewardRunner,
        ranks: Ranks,
        about: dict[str, Any],
        report: Callable[[str], None],
    ) -> None:
        self._trainer, self._config, self._rewards = trainer, config, rewards
        self._attempt, self._put, self._runner, self._ranks = attempt, put, runner, ranks
        self._about, self._report = about, report
        self._user = UserModules(kept=())
        self._user.roots |= folders_of(config)
        self._first: Mapping[str, str] | None = None
        now = self._loaded(rewards)
        self._first, self.label = now.hashes, now.label
        self._others = now.modules
        self._known = {now.label: now}

    def knows(self, label: str) -> bool:
        """Whether the functions of this label are still in memory."""
        return label in self._known

    def load(self, wanted: Mapping[str, str]) -> str:
        """Load the functions from their current files on every rank, without using them yet.

        Args:
            wanted: SHA-256 of each file as it was checked.

        Returns:
            Their label, for `use`.

        Raises:
            Refused: On every rank, when one of them cannot load them.
        """
        new: Loaded | None = None
        problem = ""
        try:
            new = self._runner.in_main_thread(lambda: self._load(wanted))
        except Exception as error:
            problem = str(error) if isinstance(error, USERS) else f"{type(error).__name__}: {error}"
        self._report("a reloaded reward file")
        told = self._ranks.of_each((problem, new.label if new is not None else ""))
        for rank, (why, label) in enumerate(told):
            if why or label != told[0][1]:
                of_rank = f"rank {rank}: " if len(told) > 1 else ""
                raise Refused(f"{of_rank}{one_line(why or 'it loaded other files than rank 0', 1000)}")
        assert new is not None
        self._known[new.label] = new
        return new.label

    def use(self, label: str) -> None:
        """Score the next generation with the functions of a label, and record their sources."""
        self._swap_modules(label)
        new, names = self._known[label], self._trainer.reward_func_names
        for index, (old, reward) in enumerate(zip(self._rewards, new.rewards, strict=True)):
            if reward.func is not old.func and not isinstance(reward.func, str):
                self._runner.replace(self._trainer, index, reward.func)
        self._rewards[:] = new.rewards
        self.label = label
        weights = self._trainer.reward_weights.tolist()
        sources = reward_sources(self._rewards, self._attempt)
        self._about["rewards"] = rewards_digest(sources, names, [reward.params for reward in new.rewards])
        first = int(self._trainer.state.global_step) + 1
        for name, weight, source in zip(names, weights, sources, strict=True):
            self._put(
                RewardFunctionInfo(
                    self._attempt, source.index, name, round(float(weight), 7), source.source, source.sha256,
                    source.text, first, time.time(),
                )
            )  # fmt: skip

    def _swap_modules(self, label: str) -> None:
        """Keep what the current functions have imported while they scored, and unload it for the next ones.

        Modules that were there from the start and are in none of the new files may belong to other code, such
        as the dataset's. They stay, and so do those whose name tells their content.
        """
        now = self._user.modules()
        self._known[self.label] = replace(self._known[self.label], modules=now)
        new = self._known[label]
        for name, module in now.items():
            newer = name not in self._others or str(Path(str(module.__file__)).resolve()) in new.hashes
            if newer and not name.startswith(FILE_MODULES):
                sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.modules.update(new.modules)

    def _load(self, wanted: Mapping[str, str]) -> Loaded:
        current = self._known[self.label]
        _refuse_edited(wanted)
        if all(current.hashes.get(path) == sha for path, sha in wanted.items()):
            raise Refused("no file of the rewards has changed")
        before = self._user.modules()
        try:
            with unchanged_randomness():
                self._user.forget()
                rewards = [
                    old if _is_reward_model(old.func) else load()
                    for old, (_, load) in zip(current.rewards, each_reward(self._config), strict=True)
                ]
                self._refuse_unlike(rewards)
                names, functions = self._trainer.reward_func_names, [reward.func for reward in rewards]
                states = copy.deepcopy(reward_states(names, self._trainer.reward_funcs))
                restore_reward_states(names, functions, states)
            _refuse_edited(wanted)
            return self._loaded(rewards, wanted)
        finally:  # the current functions may still import, until the new ones are used
            for name in self._user.modules():
                sys.modules.pop(name, None)
            sys.modules.update(before)

    def _refuse_unlike(self, rewards: Sequence[LoadedReward]) -> None:
        """Refuse functions that would need another list of rewards, or that TRL could not call."""
        columns = getattr(self._trainer.train_dataset, "column_names", None)
        for old, new, name in zip(self._rewards, rewards, self._trainer.reward_func_names, strict=True):
            if new is old:
                continue
            assert not isinstance(new.func, str)
            if is_model(new.func):
                raise Refused(f"{name} is now a reward model. Stop the run and resume it")
            if (found := callable_name(new.func)) != name:
                raise Refused(f"{name} would be called {found}. Stop the run and resume it")
            assert not isinstance(old.func, str)
            if is_async(new.func) != is_async(old.func):
                kind = "async" if is_async(new.func) else "no longer async"
                raise Refused(f"{name} is now {kind}. Stop the run and resume it")
            for warning in check_call(name, new.func, columns) if columns else ():
                print(f"grpo-tui: warning: {warning}", flush=True)

    def _loaded(self, rewards: Sequence[LoadedReward], wanted: Mapping[str, str] | None = None) -> Loaded:
        files = {str(Path(file).resolve()) for file in self._user.files()}
        hashes = {file: file_hash(file) for file in sorted(files)} | dict(wanted or {})
        own = {str(Path(r.origin_file).resolve()) for r in rewards if r.origin_file} & files
        first = hashes if self._first is None else self._first
        own |= {file for file, sha in hashes.items() if first.get(file) != sha}
        label = ", ".join(f"{Path(file).name}@{hashes[file][:SHOWN_DIGITS]}" for file in sorted(own))
        return Loaded(label, tuple(rewards), self._user.modules(), hashes)


def _refuse_edited(wanted: Mapping[str, str]) -> None:
    for path, sha in wanted.items():
        if file_hash(path) != sha:
            raise Refused(f"{path} is not the file that was checked. Reload again")


def _is_reward_model(func: Any) -> bool:
    return isinstance(func, str) or is_model(func)
