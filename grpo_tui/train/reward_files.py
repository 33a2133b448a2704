"""Load a run's reward functions again, from edited files or another list, and go back to earlier ones.

Every rank loads the new functions beside the current ones. They are used, from the next generation on, only
when all ranks have loaded the files that were checked. Each set of functions stays in memory with its modules
and weights, so that undoing needs no file.
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

from grpo_tui.config.reward_list import same_list, with_list
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.records import Record, RewardFunctionInfo
from grpo_tui.core.text import one_line
from grpo_tui.core.user_code import FILE_MODULES
from grpo_tui.rewards import loading
from grpo_tui.rewards.contract import RewardContractError, check_call
from grpo_tui.rewards.lab_child.loaded import UserModules, folders_of
from grpo_tui.rewards.reload_check import file_hash
from grpo_tui.train import compat
from grpo_tui.train.build import reward_sources
from grpo_tui.train.checkpoints import restore_reward_states, reward_states
from grpo_tui.train.ranks import Ranks
from grpo_tui.train.resume import REWARD_NAMES, REWARDS, rewards_digest
from grpo_tui.train.reward_runner import RewardRunner
from grpo_tui.train.sampling import unchanged_randomness
from grpo_tui.train.settable import SETTABLE
from grpo_tui.train.settings import WEIGHTS, Refused

SHOWN_DIGITS = 8
USERS = (Refused, loading.RewardLoadError, RewardContractError)
"""Errors whose message is written for the user."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One set of a run's reward functions.

    Attributes:
        label: Each file with the first digits of its SHA-256: those that define the functions, and imported
            ones that are new or changed since the attempt began. Another list comes before them.
        config: The run's config with this list.
        names: TRL's names, in order.
        hashes: SHA-256 of the user's files by path.
        weights: Weights to score with; None for the current ones.
    """

    label: str
    config: RunConfig
    names: tuple[str, ...]
    rewards: tuple[loading.LoadedReward, ...]
    modules: Mapping[str, ModuleType]
    hashes: Mapping[str, str]
    weights: tuple[float, ...] | None = None


class RewardFiles:
    """The reward functions of one trainer, and the files they come from.

    Args:
        rewards: The functions that the trainer was built with.
        description: What checkpoints say about the run, kept true.
        report: Called after user code has run, with what it was.
        keep: Called with the run's config before another list of rewards is used.
        restart: Returns the command that resumes the run with its config file.
    """

    def __init__(
        self,
        trainer: Any,
        config: RunConfig,
        rewards: list[loading.LoadedReward],
        *,
        attempt: int,
        put: Callable[[Record], None],
        runner: RewardRunner,
        ranks: Ranks,
        description: dict[str, Any],
        report: Callable[[str], None],
        keep: Callable[[RunConfig], None],
        restart: Callable[[], str],
    ) -> None:
        self._trainer, self._rewards = trainer, rewards
        self._attempt, self._put, self._runner, self._ranks = attempt, put, runner, ranks
        self._description, self._report, self._keep, self._restart = description, report, keep, restart
        self._user = UserModules(kept=())
        self._user.roots |= folders_of(config)
        self._first: Mapping[str, str] | None = None
        self.label = ""
        self._began = config
        now = self._loaded(rewards, config, trainer.reward_func_names)
        self._first, self.label = now.hashes, now.label
        self._others = now.modules
        self._known = {now.label: now}

    def knows(self, label: str) -> bool:
        """Whether the functions of this label are still in memory."""
        return label in self._known

    def load(self, wanted: Mapping[str, str], listed: Mapping[str, Any] | None = None) -> str:
        """Load the functions from their current files on every rank, without using them yet.

        Args:
            wanted: SHA-256 of each file as it was checked.
            listed: Another list of rewards; None to keep the list.

        Returns:
            Their label, for `use`.

        Raises:
            Refused: On every rank, when one of them cannot load them.
        """
        new: Loaded | None = None
        problem = ""
        try:
            new = self._runner.in_main_thread(lambda: self._load(wanted, listed))
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
        """Score the next generation with the functions of a label, and record their sources.

        Raises:
            Refused: The run's config cannot be kept. The current functions stay.
        """
        trainer, old, new = self._trainer, self._known[self.label], self._known[label]
        if not same_list(old.config, new.config):
            self._keep_on_first(new.config)
        self._swap_modules(label)
        functions: list[Any] = [
            trainer.reward_funcs[place] if _is_reward_model(reward.func) else reward.func
            for place, reward in enumerate(new.rewards)
        ]
        had_async, has_async = (
            any(not _is_reward_model(one) and loading.is_async(one) for one in each)
            for each in (trainer.reward_funcs, functions)
        )
        relisted = new.names != old.names
        if relisted or (has_async and not had_async):
            compat.prepare_rewards(trainer, has_async=has_async)
        classes = trainer.reward_processing_classes
        trainer.reward_funcs, trainer.reward_func_names = functions, list(new.names)
        trainer.reward_processing_classes = [
            classes[place] if _is_reward_model(reward.func) else None
            for place, reward in enumerate(new.rewards)
        ]
        if new.weights is not None:
            SETTABLE[WEIGHTS].write(trainer, list(new.weights))
        self._runner.replace_all(trainer, self._runner.first + (len(old.names) if relisted else 0))
        self._rewards[:] = new.rewards
        self.label = label
        self._describe(new)

    def _keep_on_first(self, config: RunConfig) -> None:
        problem = ""
        try:
            self._keep(config)
        except (OSError, ValueError) as error:
            problem = str(error) if isinstance(error, ValueError) else f"run.json cannot be written: {error}"
        if problem := "".join(self._ranks.of_each(problem)):
            raise Refused(problem)

    def _describe(self, new: Loaded) -> None:
        """Record the functions, and keep true what checkpoints say about the run."""
        sources = reward_sources(self._rewards, self._attempt)
        about, args, config = self._description["about"], self._trainer.args, new.config
        about[REWARDS] = rewards_digest(sources, new.names, [reward.params for reward in new.rewards])
        about[REWARD_NAMES] = list(new.names)
        begins = list(loading.weights_of(config))  # a start with this config would set them so
        given = config.grpo.get(WEIGHTS) or (begins if any(weight != 1.0 for weight in begins) else None)
        args.reward_weights = self._description["settings"][WEIGHTS] = given
        since, at, weights = int(self._trainer.state.global_step) + 1, time.time(), SETTABLE[WEIGHTS]
        for name, weight, source in zip(new.names, weights.read(self._trainer), sources, strict=True):
            self._put(
                RewardFunctionInfo(
                    self._attempt, self._runner.first + source.index, name, weight, source.source,
                    source.sha256, source.text, since, at,
                )
            )  # fmt: skip

    def _swap_modules(self, label: str) -> None:
        """Keep what the current functions have imported while they scored, and unload it for the next ones.

        Modules that were there from the start and are in none of the new files may belong to other code, such
        as the dataset's. They stay, and so do those whose name tells their content.
        """
        now = self._user.modules()
        weights = tuple(SETTABLE[WEIGHTS].read(self._trainer))
        self._known[self.label] = replace(self._known[self.label], modules=now, weights=weights)
        new = self._known[label]
        for name, module in now.items():
            newer = name not in self._others or str(Path(str(module.__file__)).resolve()) in new.hashes
            if newer and not name.startswith(FILE_MODULES):
                sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.modules.update(new.modules)

    def _load(self, wanted: Mapping[str, str], listed: Mapping[str, Any] | None) -> Loaded:
        current = self._known[self.label]
        _refuse_edited(wanted)
        try:
            config = current.config if listed is None else with_list(current.config, listed)
        except ValueError as error:
            raise Refused(str(error)) from None
        self._user.roots |= folders_of(config)
        same = same_list(config, current.config)
        if same and all(current.hashes.get(path) == sha for path, sha in wanted.items()):
            raise Refused("no file of the rewards has changed")
        before = self._user.modules()
        try:
            with unchanged_randomness():
                self._user.forget()
                rewards = self._each_loaded(config, current)
                names = self._names_of(rewards, current)
                states = copy.deepcopy(reward_states(current.names, self._trainer.reward_funcs))
                restore_reward_states(names, [reward.func for reward in rewards], states)
            _refuse_edited(wanted)
            new = self._loaded(rewards, config, names, wanted)
            if new.names != current.names or loading.weights_of(config) != loading.weights_of(current.config):
                new = replace(new, weights=loading.weights_of(config))
            return new
        finally:  # the current functions may still import, until the new ones are used
            for name in self._user.modules():
                sys.modules.pop(name, None)
            sys.modules.update(before)

    def _each_loaded(self, config: RunConfig, current: Loaded) -> list[loading.LoadedReward]:
        """Load each reward of a config. Reward models are not loaded again, and keep their places."""
        models = {n: old for n, old in enumerate(current.rewards) if _is_reward_model(old.func)}
        loaded = [
            replace(models.pop(n), weight=weight) if n in models and models[n].source == source else load()
            for n, ((source, weight), (_, load)) in enumerate(
                zip(loading.each_source(config), loading.each_reward(config), strict=True)
            )
        ]
        for old in models.values():
            raise Refused(f"{old.name} is a reward model, which cannot be removed or moved. {self._resume()}")
        return loaded

    def _resume(self) -> str:
        return f"Stop the run and resume it: `{self._restart()}`"

    def _names_of(self, rewards: Sequence[loading.LoadedReward], current: Loaded) -> list[str]:
        """Return TRL's names. Refuse functions that it could not call."""
        columns = getattr(self._trainer.train_dataset, "column_names", None)
        if not rewards:
            raise Refused("the list of rewards is empty")
        names = []
        for place, new in enumerate(rewards):
            old = current.rewards[place] if place < len(current.rewards) else None
            if old is not None and new.func is old.func:
                names.append(current.names[place])
                continue
            if _is_reward_model(new.func):
                raise Refused(f"{new.name} is a reward model, which loads with the run. {self._resume()}")
            assert not isinstance(new.func, str)
            names.append(loading.callable_name(new.func))
            for warning in check_call(names[-1], new.func, columns) if columns else ():
                print(f"grpo-tui: warning: {warning}", flush=True)
        return names

    def _loaded(
        self,
        rewards: Sequence[loading.LoadedReward],
        config: RunConfig,
        names: Sequence[str],
        wanted: Mapping[str, str] | None = None,
    ) -> Loaded:
        modules = self._user.modules()
        files = {str(Path(str(module.__file__)).resolve()) for module in modules.values()}
        hashes = {file: file_hash(file) for file in sorted(files)} | dict(wanted or {})
        own = {str(Path(r.origin_file).resolve()) for r in rewards if r.origin_file} & files
        first = hashes if self._first is None else self._first
        own |= {file for file, sha in hashes.items() if first.get(file) != sha}
        label = ", ".join(f"{Path(file).name}@{hashes[file][:SHOWN_DIGITS]}" for file in sorted(own))
        if not same_list(config, self._began):
            named = zip(names, loading.weights_of(config), strict=True)
            label = f"{', '.join(_spelled(*one) for one in named)} ({label})"
            if label in self._known and not same_list(config, self._known[label].config):
                label += f" #{len(self._known)}"  # other parameters
        return Loaded(label, config, tuple(names), tuple(rewards), modules, hashes)


def _refuse_edited(wanted: Mapping[str, str]) -> None:
    for path, sha in wanted.items():
        if file_hash(path) != sha:
            raise Refused(f"{path} is not the file that was checked. Reload again")


def _spelled(name: str, weight: float) -> str:
    return name if weight == 1.0 else f"{name}×{weight:g}"


def _is_reward_model(func: Any) -> bool:
    return isinstance(func, str) or loading.is_model(func)
