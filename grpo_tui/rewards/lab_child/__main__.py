"""Child process that scores: answers each request with one line of JSON, and reports its progress.

`python -m grpo_tui.rewards.lab_child SOCKET_FD` imports torch, and forks a child for each request on its
socket. Answers contain nothing but the protocol. Standard output and error belong to the rewards. The parent
kills a child when a call takes too long.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from grpo_tui.children.forker import fork_children
from grpo_tui.children.serving import Send, message_of
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.user_code import forget_module
from grpo_tui.data.transformers_import import import_transformers
from grpo_tui.rewards.contract import RewardContractError, copied
from grpo_tui.rewards.lab_child import calls
from grpo_tui.rewards.lab_child.advantages import DatasetRows, Tokens, aggregate, chat_maker, read_parquet
from grpo_tui.rewards.lab_child.loaded import RewardModels, Rewards, UserModules


class Child:
    """Request handlers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._modules = UserModules(kept=set(sys.modules))
        self._models = RewardModels()
        self._rewards = Rewards(self._modules, self._models)
        self._tokens: dict[str, Tokens] = {}
        self._config: RunConfig | None = None
        self._rows = DatasetRows()
        self._caller: calls.Caller | None = None
        self._folder = os.getcwd()

    def load(self, config: Mapping[str, Any], step: int, left_out: Mapping[str, Any]) -> dict[str, Any]:
        """Reload the rewards of a config, except those that ended an earlier child."""
        self._config = RunConfig.from_json(config)
        os.environ.update(self._config.env)
        os.chdir(self._folder)  # a reward may have changed it
        calls.reopen_streams()
        self._at(None, "loading the rewards")
        functions = self._rewards.load(
            self._config, lambda index: self._at(index, "loading"), {int(i): f for i, f in left_out.items()}
        )
        self._caller = calls.Caller(self._ids, trainer_state(self._config, step))
        return {"functions": functions, "files": self._modules.files()}

    def score(
        self, samples: list[dict[str, Any]], only: list[int] | None, repeat_limit_s: float
    ) -> dict[str, Any]:
        """Score samples with every function or those of `only`. Results are sent one by one as events."""
        assert self._caller is not None
        assert self._config is not None
        batch = calls.batch_of(samples, chat_maker(self._config, self._rows))
        self._at(None, "making token ids")
        kwargs = self._caller.arguments(batch)
        order = [i for i, ready in enumerate(self._rewards.ready) if ready and (only is None or i in only)]
        # TRL runs async functions after all others.
        order.sort(key=lambda i: self._rewards.ready[i].is_async)  # type: ignore[union-attr]
        files: set[str] = set()
        for index in order:
            ready = self._rewards.ready[index]
            assert ready is not None
            self._score_one(index, ready, batch, kwargs, repeat_limit_s)
            files.update(self._modules.files())  # the next function's repeat unloads what this one imported
        tail = self._policy_tokens().prompt_tail(batch.prompts[0])
        return {"files": sorted(files), "chat": batch.chat, "prompt_tail": tail}

    def _score_one(
        self,
        index: int,
        ready: calls.Ready,
        batch: calls.Batch,
        kwargs: dict[str, Any],
        repeat_limit_s: float,
    ) -> None:
        caller = self._caller
        assert caller is not None
        self._at(index, "scoring")
        before = copied(kwargs)
        count = len(batch.prompts)
        around = calls.ProcessState()
        outcome = caller.call(ready, kwargs, count)
        result: dict[str, Any] = {
            "scores": outcome.scores if outcome.scores is not None else [None] * count,
            "seconds": outcome.seconds,
            "output": outcome.output,
            "failure": self._failure(outcome.error) if outcome.error is not None else None,
            "log_extra": outcome.extra,
            "metrics": outcome.metrics,
            "changed": calls.changed_arguments(before, kwargs),
            "left": around.changed(),
        }
        if len(kwargs["prompts"]) != count:
            kwargs["prompts"] = copied(before["prompts"])  # training would stop; judge the rest alone
        self._send({"event": "scored", "function": index, "result": result})
        if ready.is_model or outcome.seconds > repeat_limit_s:
            return
        if outcome.error is not None and result["failure"]["kind"] == "raised":
            self._at(index, "looking for the sample that breaks it")
            result["failure"]["sample"] = calls.culprit(caller, ready, outcome.error, copied(before))
        if outcome.scores is not None:
            self._at(index, "called again with the same samples")
            result["repeat"] = calls.repeat(caller, ready, before, outcome)
            if ready.broad and not ready.is_async:
                self._at(index, "watched for exceptions it swallows")
                result["swallowed"] = calls.swallowed(caller, ready, batch)
        self._at(index, "called with the other form of completions")
        result["other_shape"] = calls.other_shape(caller, ready, batch, outcome)
        self._send({"event": "scored", "function": index, "result": result})

    def _at(self, index: int | None, what: str) -> None:
        self._send({"event": "at", "function": index, "what": what, "printed": calls.printed_bytes()})

    def _failure(self, error: BaseException) -> dict[str, Any]:
        kind, message = type(error).__name__, message_of(error)
        if isinstance(error, RewardContractError):
            return {"kind": "returned", "type": kind, "message": message}
        if isinstance(error, SystemExit):
            code = "" if error.code is None else repr(error.code)
            message = f"it called exit({code}), which would end training"
        file, line = calls.place_of(error, self._modules.is_own)
        return {"kind": "raised", "type": kind, "message": message, "file": file, "line": line}

    def _policy_tokens(self) -> Tokens:
        model = self._config.model if self._config is not None else ""
        if model not in self._tokens:
            self._tokens[model] = Tokens(model)
        return self._tokens[model]

    def _ids(self, completions: list[Any], truncated: list[bool]) -> Any:
        return self._policy_tokens().ids(completions, truncated)

    def advantages(self, **request: Any) -> dict[str, Any]:
        """Aggregate scores as TRL does."""
        return aggregate(**request)

    def rows(self, config: Mapping[str, Any], count: int, first: int) -> dict[str, Any]:
        """Return some rows of the config's dataset, as training sees them.

        Modules that only the dataset imports are unloaded: they are no files of the rewards.
        """
        before = self._modules.modules()
        try:
            return self._rows.page(RunConfig.from_json(config), count, first)
        finally:
            for name in self._modules.modules().keys() - before.keys():
                forget_module(name)

    def parquet(self, path: str) -> dict[str, Any]:
        """Return the rows of a parquet file."""
        return {"rows": read_parquet(path)}


def trainer_state(config: RunConfig, step: int) -> Any:
    """Return transformers' TrainerState as it is before step `step + 1`."""
    from transformers import TrainerState

    def setting(name: str, otherwise: Any) -> Any:
        value = config.grpo.get(name)
        return otherwise if value is None else value

    return TrainerState(
        is_local_process_zero=True,
        is_world_process_zero=True,
        global_step=step,
        max_steps=max(int(setting("max_steps", 0)), 0),
        num_train_epochs=int(setting("num_train_epochs", 3)),
        logging_steps=setting("logging_steps", 10),
        save_steps=setting("save_steps", 500),
        epoch=0.0,
    )


def _imports() -> None:
    import torch  # noqa: F401

    import_transformers()
    from transformers import TrainerState  # noqa: F401


if __name__ == "__main__":
    fork_children(int(sys.argv[1]), _imports, Child)
