"""Chat with policies: ask each the same prompt, report the answers as they come, and score them.

Every policy has a child process of its own, which keeps its model. The live run is asked through its mailbox
and answers at once. Calls block; `Chat.stop` may be called from a signal handler or another thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.draft import ChangedOnDiskError, Draft
from grpo_tui.config.draft_file import DraftFileError
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.yaml_edit import EditError
from grpo_tui.core.closing import Closing
from grpo_tui.core.commands import BY_CHAT
from grpo_tui.core.text import one_line
from grpo_tui.rewards.cases import keep_case
from grpo_tui.rewards.consent import left_alone, required
from grpo_tui.rewards.generating import CancelledError, Chatted, GenerateError, Generator, Progress
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.scoring import Report, ScoreOptions, report
from grpo_tui.rewards.token_asking import ask_live
from grpo_tui.ship.policies import Policy, PolicyError, config_for
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.status import is_live

LIVE = "@live"
OF_TRANSFORMERS = "use_vllm is set, but a chat generates with transformers. To ask vLLM, use `vllm serve`"
Take = Callable[[int, str], None]
"""Called with a policy's place and its whole text so far."""
Tell = Callable[[str, str], None]
"""Called with a policy's name and what it is doing."""


class KeepError(ValueError):
    """An exchange cannot be kept. The message is for the user."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """The policy in a training process, as the user called it, and its run folder."""

    name: str
    root: Path


def live_run(word: str) -> LiveRun | None:
    """Return the live run that `RUN@live` names, None for another argument.

    Raises:
        PolicyError: The run is not training.
    """
    root = Path(word.removesuffix(LIVE)).expanduser().absolute()
    if not word.endswith(LIVE) or Path(word).exists() or not RunFolder(root).exists():
        return None
    if not is_live(root):
        raise PolicyError(f"{one_line(word, 200)}: the run is not training. Use RUN or RUN@STEP")
    return LiveRun(word, root)


@dataclass(frozen=True, slots=True)
class Said:
    """One policy's answer, and the whole prompt it answered."""

    place: int
    policy: str
    prompt: Any
    answer: Chatted


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt and its answers.

    Attributes:
        row: Columns of the dataset row with this prompt; None when there is none.
        first: Whether it begins a conversation.
        report: Scores of the answers that were not stopped, in their order; None without scores.
        notes: What could not be done, for the user.
    """

    text: str
    row: Mapping[str, Any] | None
    answers: tuple[Said, ...]
    first: bool
    report: Report | None = None
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> list[Said]:
        """The answers that were not stopped."""
        return [said for said in self.answers if not said.answer.stopped]

    def scores(self, said: Said) -> tuple[dict[str, float | None], float | None]:
        """Return each function's score of an answer, and the total. The total needs every function."""
        if self.report is None or said not in self.whole:
            return {}, None
        at, scored = self.whole.index(said), self.report.scored.functions
        total = None if self.report.failed else self.report.aggregate.totals[at]
        return {one.info.name: one.scores[at] for one in scored}, total

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui chat --json` prints."""
        functions = self.report.scored.functions if self.report is not None else ()
        answers = []
        for said in self.answers:
            rewards, total = self.scores(said)
            one = said.answer
            answers.append(
                {
                    "policy": said.policy,
                    "text": one.text,
                    "tokens": one.tokens,
                    "truncated": one.truncated and not one.stopped,
                    "stopped": one.stopped,
                    "rewards": rewards,
                    "reward": total,
                    "seconds": one.seconds,
                    "seed": one.seed,
                    "temperature": one.temperature,
                    "max_tokens": one.max_tokens,
                    "device": one.device,
                }
            )
        return {
            "prompt": self.text,
            "row": None if self.row is None else dict(self.row),
            "answers": answers,
            "errors": {f.info.name: f.failure.text for f in functions if f.failure is not None},
            "notes": list(self.notes),
        }


class _Live(Closing):
    """Asks the live run. Its answer comes as a whole."""

    def __init__(self, run: LiveRun, tell: Callable[[Progress], None]) -> None:
        self._run, self._tell = run, tell
        self._cancel = threading.Event()

    def _at(self, what: str) -> None:
        self._tell(Progress(what))

    def chat(self, prompt: Any, seed: int | None, tell: Callable[[str], None]) -> Chatted:
        """Return one answer, as `Generator.chat` does."""
        start = time.monotonic()
        args = {"prompt": prompt, "count": 1, "seed": seed}
        found = ask_live(self._run.root, "sample", args, self._at, self._cancel, by=BY_CHAT)
        one = found["completions"][0]
        text = str(one["text"])
        tell(text)
        return Chatted(
            completion=text if isinstance(prompt, str) else [{"role": "assistant", "content": text}],
            text=text,
            tokens=int(one["tokens"]),
            truncated=bool(one["truncated"]),
            seed=seed,
            temperature=found["temperature"],
            seconds=time.monotonic() - start,
        )

    def stop(self) -> None:
        """Stop waiting for the answer."""
        self._cancel.set()

    close = stop

    def go_on(self) -> None:
        """Allow answers again after `stop`."""
        self._cancel.clear()


@dataclass(slots=True)
class _Speaker:
    """A policy that is asked, and its conversation so far."""

    name: str
    child: Generator | _Live
    history: list[dict[str, Any]] = field(default_factory=list)


class Chat(Closing):
    """A conversation with one policy or several at the same prompts; a context manager.

    Args:
        config: Provides data, rewards and sampling settings for all policies.
        seed: Of every answer; None for the config's.

    Raises:
        ConsentError: It would run code that is not the user's own.
    """

    def __init__(
        self,
        lab: Lab,
        config: RunConfig,
        policies: Sequence[Policy | LiveRun],
        seed: int | None = None,
        tell: Tell = lambda name, what: None,
    ) -> None:
        for policy in policies:
            required(replace(config, model=policy.model) if isinstance(policy, Policy) else config)
        self.seed = seed if seed is not None else int(config.setting("seed"))
        self.asked = len(policies)
        """How many of the policies are asked, from the first."""
        self.last: Exchange | None = None
        self._lab, self._config, self._tell = lab, config, tell
        self._loaded = False
        self._stopped = False
        self._notes = (OF_TRANSFORMERS,) if config.setting("use_vllm") else ()
        """Notes for the first exchange."""
        self._opening: tuple[bool, list[dict[str, Any]]] | None = None
        self._speakers = [self._speaker(policy) for policy in policies]
        children = [one.child for one in self._speakers if isinstance(one.child, Generator)]
        self._data = children[0] if children else Generator(config, lambda now: tell("", now.what))

    @property
    def names(self) -> list[str]:
        """Names of all policies."""
        return [one.name for one in self._speakers]

    def close(self) -> None:
        """End every child process."""
        for child in (self._data, *(one.child for one in self._speakers)):
            child.close()

    def new(self) -> None:
        """Begin a new conversation."""
        for one in self._speakers:
            one.history.clear()

    def stop(self) -> None:
        """End the running answer, and ask nothing until `go_on`. Models stay loaded. Safe from any thread."""
        self._stopped = True
        for child in (self._data, *(one.child for one in self._speakers)):
            child.stop()

    def go_on(self) -> None:
        """Allow answers again after `stop`."""
        self._stopped = False
        for child in (self._data, *(one.child for one in self._speakers)):
            child.go_on()

    def ask(self, text: str, take: Take = lambda place, text: None) -> Exchange:
        """Ask the next question of the conversation. A text prompt has no conversation.

        Raises:
            GenerateError: A model cannot be loaded or does not generate; `CancelledError` after `stop`.
        """
        chat, before = self._open()
        turn = {"role": "user", "content": text}
        first = not chat or not any(one.history for one in self._speakers)
        prompts = [[*before, *one.history, turn] if chat else text for one in self._speakers]
        found = self._data.row(prompts[0]) if first else None
        return self._exchange(text, prompts, None if found is None else found[1], first, take)

    def ask_row(self, number: int, take: Take = lambda place, text: None) -> Exchange:
        """Begin a new conversation with a training row's prompt.

        Raises:
            GenerateError: There is no such row, or as for `ask`.
        """
        self._open()
        found = self._data.row(number)
        if found is None:
            raise GenerateError(f"the training data has no row {number}")
        self.new()
        prompt, columns = found
        text = prompt if isinstance(prompt, str) else str(prompt[-1].get("content", ""))
        return self._exchange(text, [prompt for _ in self._speakers], columns, True, take)

    def _open(self) -> tuple[bool, list[dict[str, Any]]]:
        if self._opening is None:
            chat, before, note = self._data.opening()
            if note:
                self._tell("", f"the dataset cannot be read, so no row is recognized: {note}")
            self._opening = chat, before
        return self._opening

    def _exchange(
        self, text: str, prompts: Sequence[Any], row: Mapping[str, Any] | None, first: bool, take: Take
    ) -> Exchange:
        answers = tuple(self._answers(prompts, take))
        found = Exchange(text, row, answers, first, notes=self._notes)
        self._notes = ()
        for said in answers:
            if not isinstance(said.prompt, str):
                own = said.answer.completion
                history = self._speakers[said.place].history
                history += [said.prompt[-1], *(own if isinstance(own, list) else [])]
        self.last = self._scored(found)
        return self.last

    def _answers(self, prompts: Sequence[Any], take: Take) -> Iterator[Said]:
        for place, one in enumerate(self._speakers[: self.asked]):
            if self._stopped:
                return
            try:
                answer = one.child.chat(prompts[place], self.seed, lambda text, at=place: take(at, text))  # type: ignore[misc]
            except CancelledError:
                return
            yield Said(place, one.name, prompts[place], answer)

    def _scored(self, found: Exchange) -> Exchange:
        if not found.whole or self._stopped:
            return found
        samples = [
            Sample(
                said.prompt,
                said.answer.completion,
                found.row or {},
                f"answer {said.place + 1}",
                truncated=said.answer.truncated,
            )
            for said in found.whole
        ]
        self._tell("", "scoring")
        try:
            if not self._loaded:
                self._lab.load(self._config)
                self._loaded = True
            scores = report(self._lab, samples, None, ScoreOptions(gold=False, repeat=False))
        except LabError as error:
            return replace(found, notes=(*found.notes, f"not scored: {error}"))
        return replace(found, report=scores)

    def _speaker(self, policy: Policy | LiveRun) -> _Speaker:
        def told(now: Progress) -> None:
            self._tell(policy.name, now.what)

        if isinstance(policy, LiveRun):
            return _Speaker(policy.name, _Live(policy, told))
        adapter, config = policy.adapter or "", config_for(policy, self._config)
        return _Speaker(policy.name, Generator(config, told, adapter=adapter, tokenizer=policy.tokenizer))

    # -- keeping ---------------------------------------------------------------------------------

    def keep_case(self, place: int) -> tuple[Path, str]:
        """Add a policy's last answer to the config's case file, with its scores. Return file and case name.

        Raises:
            KeepError: There is no scored answer.
            CaseFileError: The file cannot be used, or a reward gave no score.
        """
        last = self.last
        at = next((n for n, s in enumerate(last.whole) if s.place == place), None) if last else None
        if last is None or at is None:
            raise KeepError("nothing to keep: send a prompt first")
        if last.report is None:
            raise KeepError("; ".join(last.notes) or "the answer has no scores")
        return keep_case(self._config, last.report, at)

    def keep_probe(self) -> Path:
        """Add the last prompt to `grpo_tui.probe_prompts` of the config file, and return the file.

        Raises:
            KeepError: The file cannot be changed, or its probe prompts are not a list.
        """
        if self.last is None:
            raise KeepError("nothing to keep: send a prompt first")
        if not self.last.first:
            raise KeepError(
                "only the first prompt of a conversation can be a probe prompt. Begin one with /new"
            )
        if why := left_alone(self._config):
            raise KeepError(why)
        path, text = self._config.path, self.last.text
        if path is None or not path.is_file():
            raise KeepError(f"the config file {path or ''} is missing, so the prompt cannot be added")
        source = "grpo_tui.probe_prompts.source"
        try:
            draft = Draft.open(path)
            known = draft.get(source, [] if not draft.has("grpo_tui.probe_prompts") else "holdout")
            if not isinstance(known, list):
                raise KeepError(
                    f"the probe prompts of {path} come from {one_line(str(known), 60)}, not from a list"
                )
            if text in known:
                raise KeepError(f"it is already a probe prompt of {path}")
            draft.set(f"{source}.{len(known)}" if known else source, text if known else [text])
            draft.save()
        except (EditError, DraftFileError, ChangedOnDiskError) as error:
            raise KeepError(str(error)) from error
        return path
