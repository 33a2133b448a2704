"""Reward scoring in a child process that can be killed and restarted.

Every call has a time limit. When it is exceeded, the child and everything it started are killed, the running
function is named, and the next call starts a new child. Calls block, so a screen makes them from a thread.
Only one thread may call at a time, but `interrupt` may be called from any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.children.forker import Forker
from grpo_tui.children.pipe import ChildGoneError, ChildHungError, ChildPipe, StartError
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.closing import Closing
from grpo_tui.core.exchange import rebuilt
from grpo_tui.core.text import one_line
from grpo_tui.rewards.consent import required
from grpo_tui.rewards.samples import Sample, groups_of
from grpo_tui.rewards.score_report import (
    Aggregate,
    Aggregation,
    Failure,
    FunctionInfo,
    FunctionScore,
    Scored,
)

_CHILD = "grpo_tui.rewards.lab_child"
DEFAULT_LIMIT_S = 60.0
START_LIMIT_S = 180.0
ROWS_LIMIT_S = 300.0
REPEAT_LIMIT_S = 1.0
"""Slower functions are called only once."""


class LabError(RuntimeError):
    """Scoring is not possible. The message is for the user."""


@dataclass(slots=True)
class _Progress:
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    tried_again: bool = False
    function: int | None = None
    what: str = ""

    def begin(self) -> None:
        self.function, self.what = None, "starting"


class Lab(Closing):
    """Owner of one scoring process; a context manager. `limit_s` limits loading and each call."""

    def __init__(self, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self.limit_s = limit_s
        self.functions: tuple[FunctionInfo, ...] = ()
        self.config: RunConfig | None = None
        self._step = 0
        self._pipe: ChildPipe | None = None
        self._forker: Forker | None = None
        self._interrupted = False
        self._loaded = False
        self._files: set[str] = set()
        self._unloadable: dict[int, Failure] = {}

    def start(self) -> None:
        """Start a child if there is none, and wait until its imports are done.

        Raises:
            LabError: it cannot start, for example without torch.
        """
        if self._pipe is not None and self._pipe.killed:
            self._drop()
        if self._pipe is not None:
            return
        folder = self.config.cwd if self.config is not None else ""
        try:
            if self._forker is not None and not self._forker.lives():
                self._forker = None
            self._forker = self._forker or Forker.acquire(_CHILD, START_LIMIT_S)
            self._pipe = ChildPipe(self._forker, folder if folder and Path(folder).is_dir() else os.getcwd())
        except StartError as error:
            raise LabError(
                f"reward scoring could not start: {error}. It needs torch and TRL: pip install "
                "'grpo-tui[train]'"
            ) from error
        self._loaded = False

    def close(self) -> None:
        """End the child and everything it started."""
        self._drop()
        forker, self._forker = self._forker, None
        if forker is not None:
            forker.release()

    def interrupt(self) -> None:
        """Kill the child from any thread. The running call ends with a LabError."""
        pipe, self._interrupted = self._pipe, True
        if pipe is not None:
            pipe.kill()

    def load(self, config: RunConfig, step: int = 0) -> tuple[FunctionInfo, ...]:
        """Load a config's rewards, and reload the user's modules. A reward that fails has a `failure`.

        Args:
            step: `trainer_state.global_step` passed to the functions.

        Raises:
            LabError: the weights do not fit, or the child cannot be started.
            ConsentError: a reward is not the user's own code.
        """
        if config != self.config:
            self._files = set()
        self.config, self._step, self._unloadable = config, step, {}
        self._interrupted = False
        return self._load()

    def _load(self) -> tuple[FunctionInfo, ...]:
        """Load what can be loaded. A file that hangs or ends the child is named and skipped from then on."""
        assert self.config is not None
        required(self.config, "rewards", "model")
        request = {"do": "load", "config": self.config.to_json(), "step": self._step}
        while True:
            self.start()
            progress = _Progress()
            left_out = {index: asdict(failure) for index, failure in self._unloadable.items()}
            try:
                reply = self._ask({**request, "left_out": left_out}, self.limit_s, progress)
                break
            except (ChildHungError, ChildGoneError) as error:
                if self._interrupted:
                    raise LabError("interrupted") from error
                if progress.function is None:
                    raise LabError(f"loading the rewards: {error}") from error
                self._unloadable[progress.function] = _ending_of_load(error, self.limit_s)
        self.functions = tuple(FunctionInfo.from_json(data) for data in reply["functions"])
        self._loaded = True
        self._files.update(reply["files"])
        return self.functions

    def reload(self) -> tuple[FunctionInfo, ...]:
        """Load the same config's rewards again from the current files."""
        if self.config is None:
            raise LabError("nothing was loaded yet")
        return self.load(self.config, self._step)

    @property
    def files(self) -> tuple[str, ...]:
        """The user's files that the rewards were loaded from, including imported ones.

        A file that no longer loads is included, because the user will want to fix it.
        """
        return tuple(sorted(self._files))

    def score(
        self,
        samples: Sequence[Sample],
        *,
        only: Collection[int] | None = None,
        tell: Callable[[str, str], None] | None = None,
        repeat_limit_s: float = REPEAT_LIMIT_S,
    ) -> Scored:
        """Score samples with the loaded functions.

        A function that hangs or ends the process gets a `failure`. A new child scores the rest.

        Args:
            only: indices of the functions to call, all when None. The rest get a `skipped` failure.
            tell: called with a function's name and its current stage.
            repeat_limit_s: a slower function is not called a second time. 0 for never.

        Raises:
            LabError: nothing is loaded, or the child cannot be started again.
        """
        if self.config is None:
            raise LabError("nothing was loaded yet")
        if not samples:
            raise LabError("there are no samples to score")
        self._interrupted = False
        progress = _Progress()
        if only is not None:
            skipped = Failure("skipped", "", "it was not called")
            progress.failures = {f.index: skipped for f in self.functions if f.index not in only}
        wire = [sample.to_wire() for sample in samples]
        reply = None
        while reply is None and (left := self._left(progress)):
            request = {"do": "score", "samples": wire, "only": left, "repeat_limit_s": repeat_limit_s}
            reply = self._try_scoring(request, progress, tell)
        reply = reply or {}
        self._files.update(reply.get("files", ()))
        results = [self._result(f, progress, len(samples)) for f in self.functions]
        return Scored(
            tuple(samples), tuple(results), bool(reply.get("chat")), str(reply.get("prompt_tail", ""))
        )

    def _left(self, progress: _Progress) -> list[int]:
        """Return the functions still to be scored, in a child that is ready for them."""
        assert self.config is not None
        if self._pipe is None or self._pipe.killed or not self._loaded:
            self._load()
        done = {*progress.failures, *progress.results}
        return [f.index for f in self.functions if f.failure is None and f.index not in done]

    def _try_scoring(
        self, request: Mapping[str, Any], progress: _Progress, tell: Callable[[str, str], None] | None
    ) -> dict[str, Any] | None:
        """Return the child's reply. None if it ended, in which case the responsible function is noted."""
        progress.begin()
        try:
            return self._ask(request, self.limit_s, progress, tell)
        except (ChildHungError, ChildGoneError) as error:
            if self._interrupted:
                raise LabError("interrupted") from error
            if progress.function is None:
                if progress.tried_again:
                    raise LabError(f"{progress.what}: {error}") from error
                progress.tried_again = True  # something else ended it while it was idle
            elif progress.function not in progress.results:
                progress.failures[progress.function] = _ending(error, self.limit_s)
            return None

    def aggregate(
        self,
        scored: Scored,
        weights: Sequence[float] | None = None,
        aggregation: Aggregation | None = None,
        muted: Iterable[int] = (),
    ) -> Aggregate:
        """Return totals and advantages as TRL computes them.

        Args:
            weights: one per function. The config's when None.
            aggregation: the config's when None.
            muted: indices of functions to leave out, as if the run did not have them.

        Raises:
            LabError: the modes or weights do not fit.
        """
        all_weights = [f.info.weight for f in scored.functions] if weights is None else list(weights)
        if len(all_weights) != len(scored.functions):
            raise LabError(f"{len(all_weights)} weights for {len(scored.functions)} functions")
        out = set(muted)
        heard = [f for f in scored.functions if f.info.index not in out]
        mode = aggregation or (Aggregation.of(self.config) if self.config is not None else Aggregation())
        self.start()
        reply = self._whole(
            {
                "do": "advantages",
                "scores": [list(f.scores) for f in heard] or [[None] * len(scored.samples)],
                "groups": groups_of(scored.samples),
                "weights": [all_weights[f.info.index] for f in heard] or [1.0],
                "scale_rewards": mode.scale_rewards,
                "aggregation": mode.multi_objective_aggregation,
            },
            self.limit_s,
            "computing advantages",
        )
        return rebuilt(Aggregate, reply)

    def rows(
        self, config: RunConfig, count: int, first: int = 0, limit_s: float = ROWS_LIMIT_S
    ) -> dict[str, Any]:
        """Return rows of the config's dataset as training sees them.

        Returns:
            `{"rows": [{"prompt", "columns"}], "columns": names, "total", "notes"}`.

        Raises:
            LabError: the data cannot be used, or takes too long.
            ConsentError: the data needs code that is not the user's own.
        """
        required(config, "data", "model")
        self.start()
        request = {"do": "rows", "config": config.to_json(), "count": count, "first": first}
        return self._whole(request, limit_s, "reading the dataset")

    def parquet(self, path: Path) -> list[dict[str, Any]]:
        """Return the rows of a parquet file.

        Raises:
            LabError: it cannot be read.
        """
        self.start()
        request = {"do": "parquet", "path": str(path)}
        return list(self._whole(request, ROWS_LIMIT_S, f"reading {path}")["rows"])

    # -- the child -------------------------------------------------------------------------------

    def _whole(self, request: Mapping[str, Any], limit_s: float, doing: str) -> dict[str, Any]:
        try:
            return self._ask(request, limit_s, _Progress())
        except ChildHungError as error:
            raise LabError(f"{doing} took longer than {limit_s:g} s") from error
        except ChildGoneError as error:
            raise LabError(f"{doing} ended the scoring process: {error}") from error

    def _ask(
        self,
        request: Mapping[str, Any],
        limit_s: float,
        progress: _Progress,
        tell: Callable[[str, str], None] | None = None,
    ) -> dict[str, Any]:
        """Send a request and process events until its reply. Every event restarts the time limit."""
        pipe = self._pipe
        if pipe is None:
            raise ChildGoneError("it was not started")
        try:
            pipe.send(request, limit_s)
            while True:
                message = pipe.receive(limit_s)
                if "reply" in message:
                    return dict(message["reply"])
                if "refused" in message:
                    raise LabError(str(message["refused"]))
                if message["event"] == "at":
                    pipe.mark(message["printed"])
                    progress.function, progress.what = message["function"], message["what"]
                    if tell is not None and progress.function is not None:
                        tell(self.functions[progress.function].name, progress.what)
                elif message["event"] == "scored":
                    progress.results[message["function"]] = message["result"]
        except (ChildHungError, ChildGoneError, KeyboardInterrupt):
            self._drop()
            raise

    def _result(self, info: FunctionInfo, progress: _Progress, count: int) -> FunctionScore:
        if info.index in progress.results:
            return rebuilt(FunctionScore, progress.results[info.index], info=info)
        failure = info.failure or progress.failures.get(info.index)
        return FunctionScore.failed(info, count, failure or Failure("died", "", "it was not scored"))

    def _drop(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()


def _ending(error: Exception, limit_s: float) -> Failure:
    if isinstance(error, ChildHungError):
        printed = f". It printed: {one_line(error.output[-200:])}" if error.output else ""
        return Failure("hung", "", f"hung: no answer within {limit_s:g} s, killed{printed}")
    return Failure("died", "", f"ended the process: {error}")


def _ending_of_load(error: Exception, limit_s: float) -> Failure:
    ending = _ending(error, limit_s)
    why = ". Its file runs something while it is imported: put that into the function, or raise the limit"
    return replace(ending, message=f"loading it {ending.message}{why if ending.kind == 'hung' else ''}")
