"""Sample the current policy while it trains, without affecting the run.

This covers samples of one prompt and probe prompts at regular steps. The random state of Python, NumPy and
torch, the training mode, TRL's metrics and the state of rewards are restored afterwards, so later numbers do
not change. Rewards run where training runs them. Reward models, which only TRL can call, abstain.
"""

from __future__ import annotations

import asyncio
import copy
import math
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from transformers import TrainerCallback

from grpo_tui.core import probe_changes
from grpo_tui.core.records import Completion, GenerationBatch, Group, Record
from grpo_tui.core.text import prompt_text
from grpo_tui.data.mapping import prompt_problem, shared_beginning, some_prompts
from grpo_tui.rewards.loading import is_model
from grpo_tui.train import compat
from grpo_tui.train.capture import HIDDEN_COLUMNS, Capture
from grpo_tui.train.checkpoints import restore_reward_states, reward_states
from grpo_tui.train.phases import PhaseClock
from grpo_tui.train.ranks import Ranks
from grpo_tui.train.reward_runner import RewardRunner, is_async
from grpo_tui.train.settings import LEAST_TEMPERATURE, MOST_TEMPERATURE, Refused

MAX_COMPLETIONS = 64
MAX_PROMPT_TOKENS = 32_768
"""Longer prompts would hold up the run for minutes, whatever the model's context."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Completions of one prompt.

    Attributes:
        rendered: The prompt as the model received it.
        temperature: Sampling temperature; 0 for greedy decoding.
        ids: (count,) lists of token ids, including the end token.
        truncated: (count,) flags.
        before: Description of what was prepended to a typed prompt; empty for nothing.
    """

    rendered: str
    temperature: float
    ids: list[list[int]]
    truncated: list[bool]
    before: str = ""


def sample(
    trainer: Any,
    prompt: Any,
    *,
    count: int = 4,
    temperature: float | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Generate `count` completions of one prompt; see `draw`.

    Returns:
        `{"prompt", "rendered", "before", "temperature", "completions": [{"text", "tokens", "truncated"}]}`.
    """
    drawn = draw(trainer, prompt, count=count, temperature=temperature, seed=seed)
    completions = [
        {
            "text": trainer._tokenizer.decode(ids, skip_special_tokens=True),
            "tokens": len(ids),
            "truncated": truncated,
        }
        for ids, truncated in zip(drawn.ids, drawn.truncated, strict=True)
    ]
    return {
        "prompt": prompt,
        "rendered": drawn.rendered,
        "before": drawn.before,
        "temperature": drawn.temperature,
        "completions": completions,
    }


def draw(
    trainer: Any, prompt: Any, *, count: int, temperature: float | None = None, seed: int | None = None
) -> Drawn:
    """Generate `count` completions of one prompt as token ids.

    Args:
        trainer: The GRPOTrainer, between two steps.
        prompt: A string or a list of chat messages. When the run trains on chat prompts, a string
            becomes a user message after the messages that all training prompts share.
        count: 1 to 64.
        temperature: Sampling temperature, by default the run's; 0 decodes greedily.
        seed: Seed of the sampling; None continues from the run's random state.

    Raises:
        Refused: The prompt is empty, invalid or too long, or `count` or `temperature` is out of range.
    """
    if not 1 <= count <= MAX_COMPLETIONS:
        raise Refused(f"count must be from 1 to {MAX_COMPLETIONS}, not {count}")
    config = generation_config(trainer)
    if temperature is not None:
        _set_temperature(config, temperature)
    rendered, ids, before = encode(trainer, prompt, config.max_new_tokens or 0)
    kept, truncated = generate(trainer, [ids] * count, config, seed)
    return Drawn(rendered, config.temperature if config.do_sample else 0.0, kept, truncated, before)


def generate(
    trainer: Any, prompts: Sequence[Sequence[int]], config: Any, seed: int | None = None
) -> tuple[list[list[int]], list[bool]]:
    """Generate one completion per prompt with the model being trained, without affecting the run.

    Args:
        prompts: Token ids of each prompt.
        config: transformers' GenerationConfig.
        seed: Seed of the sampling; None continues from the run's random state.

    Returns:
        Token ids of each completion, including the end token, and whether it is truncated.
    """
    import torch
    from trl.models import unwrap_model_for_generation

    tokenizer, device = trainer._tokenizer, trainer.accelerator.device
    longest = max(map(len, prompts))
    padding = [longest - len(ids) for ids in prompts]
    filled = [[tokenizer.pad_token_id] * left + list(ids) for left, ids in zip(padding, prompts, strict=True)]
    mask = [[0] * left + [1] * (longest - left) for left in padding]
    ends = {*trainer.eos_token_ids} if hasattr(trainer, "eos_token_ids") else {tokenizer.eos_token_id}
    checkpointing = trainer.args.gradient_checkpointing_kwargs
    with (
        unchanged_randomness(),
        evaluating(trainer.model),
        unwrap_model_for_generation(
            trainer.model_wrapped, trainer.accelerator, gradient_checkpointing_kwargs=checkpointing
        ) as model,
        torch.no_grad(),
        compat.whole_parameters(trainer),
    ):
        if seed is not None:
            torch.manual_seed(seed)
        output = model.generate(
            input_ids=torch.tensor(filled, device=device),
            attention_mask=torch.tensor(mask, device=device),
            generation_config=config,
            synced_gpus=compat.is_sharded(trainer),
        )
    found = [until_end(row, ends) for row in output[:, longest:].tolist()]
    return [ids for ids, _ in found], [cut for _, cut in found]


def until_end(ids: list[int], ends: Collection[int]) -> tuple[list[int], bool]:
    """Cut a completion after its first end token. Return True with it when there is none."""
    end = next((i for i, token in enumerate(ids) if token in ends), None)
    return (ids, True) if end is None else (ids[: end + 1], False)


def _set_temperature(config: Any, temperature: float) -> None:
    if temperature == 0:
        config.do_sample = False
        config.temperature = config.top_p = 1.0
        config.top_k = config.min_p = None
    elif LEAST_TEMPERATURE <= temperature <= MOST_TEMPERATURE:
        config.temperature = float(temperature)
    else:
        raise Refused(
            f"temperature must be 0 or from {LEAST_TEMPERATURE:g} to {MOST_TEMPERATURE:g}, not {temperature}"
        )


def _refuse_long(trainer: Any, tokens: int, new: int) -> None:
    """Refuse a prompt that does not fit the model, before the run spends time on it."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    text = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    context = getattr(text, "max_position_embeddings", None)
    limit = min(MAX_PROMPT_TOKENS, context - new if context else MAX_PROMPT_TOKENS)
    if tokens == 0:
        raise Refused("the prompt is empty")
    if tokens > limit:
        reason = f"the model's context of {context:,} less {new:,} to generate" if context else "the most"
        raise Refused(f"the prompt has {tokens:,} tokens; {limit:,} can be sampled from ({reason})")


@contextmanager
def unchanged_randomness() -> Iterator[None]:
    """Restore every random state afterwards."""
    import numpy
    import torch

    states = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def unchanged_rewards(trainer: Any) -> Iterator[None]:
    """Restore the states of the reward functions afterwards, so that training does not notice the calls."""
    names, functions = trainer.reward_func_names, trainer.reward_funcs
    learned = copy.deepcopy(reward_states(names, functions))
    try:
        yield
    finally:
        restore_reward_states(names, functions, learned)


def refuse_unknown_tokens(trainer: Any, ids: Sequence[int]) -> None:
    """Refuse tokens without an embedding. On a GPU, looking one up would end the process."""
    known = trainer.accelerator.unwrap_model(trainer.model).get_input_embeddings()
    rows = getattr(known, "num_embeddings", None)
    if rows is not None and ids and max(ids) >= rows:
        raise Refused(f"the text has a token that the model does not have: {max(ids):,} of {rows:,}")


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put the model in eval mode, then restore mode, gradient checkpointing and sharded parameters."""
    from torch.distributed.fsdp import FSDPModule

    training = model.training
    modules = list(model.modules())
    checkpointing = {m: m.gradient_checkpointing for m in modules if hasattr(m, "gradient_checkpointing")}
    sharded = [module for module in modules if isinstance(module, FSDPModule)]
    model.eval()
    try:
        yield
    except BaseException:
        if sharded and hasattr(sharded[0], "reset_iter_state"):
            sharded[0].reset_iter_state()  # left over by the forward that raised
        raise
    finally:
        model.train(training)
        for module, was in checkpointing.items():  # after an exception TRL leaves it off
            module.gradient_checkpointing = was
        # FSDP2 frees what a forward gathered only in the backward, and there is none here.
        for module in sharded:
            module.reshard()


def encode(trainer: Any, prompt: Any, new: int) -> tuple[str, list[int], str]:
    """Render a prompt as training does. A string is placed after the messages all training prompts share.

    Args:
        new: Number of tokens to generate.

    Returns:
        The prompt as text, its token ids, and a description of what was prepended.

    Raises:
        Refused: The prompt is too long or empty, or cannot be rendered.
    """
    said = ""
    if isinstance(prompt, str):
        rows = some_prompts(trainer.train_dataset)
        if rows and not isinstance(rows[0], str):
            before = shared_beginning(rows)
            prompt, said = [*before, {"role": "user", "content": prompt}], _in_words(before)
    elif (problem := _problem(prompt)) is not None:
        raise Refused(f"the prompt {problem}")
    ids = compat.rendered_prompt(trainer, prompt)
    if ids is None:
        raise Refused("this TRL renders its prompts where they cannot be reached")
    _refuse_long(trainer, len(ids), new)
    refuse_unknown_tokens(trainer, ids)
    rendered = prompt if isinstance(prompt, str) else trainer._tokenizer.decode(ids)
    return rendered, ids, said


def _in_words(before: Sequence[Mapping[str, Any]]) -> str:
    system = sum(message["role"] == "system" for message in before)
    examples = sum(message["role"] == "assistant" for message in before)
    parts = ["the system prompt"] * bool(system)
    if examples:
        parts.append(f"{examples} example{'s' if examples > 1 else ''}")
    return " and ".join(parts) or (f"{len(before)} messages" if before else "")


def _problem(prompt: Any) -> str | None:
    problem = prompt_problem(prompt)
    if problem is not None:
        return problem
    for message in prompt:
        content = message.get("content")
        typed = isinstance(content, list) and all(isinstance(p, Mapping) and "type" in p for p in content)
        if content is not None and not isinstance(content, str) and not typed:
            return (
                f"has a message of the {message['role']} whose content is neither a text nor a list of parts"
            )
    return None


def generation_config(trainer: Any) -> Any:
    """Return a copy of the run's generation config."""
    tokenizer = trainer._tokenizer
    existing = getattr(trainer, "generation_config", None)
    if existing is not None:
        return copy.deepcopy(existing)
    from transformers import GenerationConfig

    # With vLLM the trainer has no configuration for `generate`, so use the run's own values.
    return GenerationConfig(
        max_new_tokens=trainer.max_completion_length,
        do_sample=True,
        temperature=trainer.temperature,
        top_p=trainer.top_p,
        top_k=trainer.top_k,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        disable_compile=True,
    )


Row = Mapping[str, Any]


def one_message(text: str) -> Row:
    """Return a row whose prompt is a single user message."""
    return {"prompt": [{"role": "user", "content": text}]}


class ProbeSampler(TrainerCallback):
    """Answers the probe prompts of a run before the first step and at regular steps.

    Args:
        every: Interval in steps.
        temperature: Sampling temperature; None for the run's.
        row_of: Makes a row of the text of a prompt that is added while training.
    """

    def __init__(
        self,
        trainer: Any,
        rows: Sequence[Row],
        *,
        every: int,
        count: int,
        temperature: float | None,
        put: Callable[[Record], None],
        capture: Capture,
        runner: RewardRunner,
        phases: PhaseClock,
        attempt: int,
        ranks: Ranks,
        row_of: Callable[[str], Row] = one_message,
    ) -> None:
        self._trainer, self._configured, self._rows = trainer, list(rows), list(rows)
        self._row_of = row_of
        self.changes: list[str] = []
        """How the prompts differ from those of the config, as `core.probe_changes` writes it."""
        self._every, self._count, self._temperature = every, count, temperature
        self._put, self._capture, self._runner, self._phases = put, capture, runner, phases
        self._attempt = attempt
        self._asked_at = -1
        self._told: set[str] = set()
        self._first = ranks.first

    about, one_of = "probe prompts", "a probe prompt"
    """Names used in messages: plural and singular."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Answer the prompts once the model is ready to train."""
        self.at_start()

    def at_start(self) -> None:
        """Answer the prompts before the first step, to show the untrained policy for comparison."""
        if self._trainer.state.global_step == 0:  # a resumed run did so at its start
            self.safe_point()

    def safe_point(self) -> None:
        """Answer the probe prompts when due. A step counts once, even when its safe point comes twice."""
        step = int(self._trainer.state.global_step)
        if step % self._every or step == self._asked_at:
            return
        self._ask(step)

    @property
    def texts(self) -> list[str]:
        """The text of each prompt."""
        return [prompt_text(row["prompt"]) for row in self._rows]

    def next_step(self) -> int:
        """Return the step after which the prompts are asked next."""
        return (int(self._trainer.state.global_step) // self._every + 1) * self._every

    def change(self, changes: Sequence[str]) -> None:
        """Ask other prompts from the next probe on."""
        gone = set(probe_changes.texts(changes, probe_changes.REMOVED))
        rows = [row for row in self._configured if prompt_text(row["prompt"]) not in gone]
        there = {prompt_text(row["prompt"]) for row in rows}
        more = [text for text in probe_changes.texts(changes, probe_changes.ADDED) if text not in there]
        self._rows = rows + [self._row_of(text) for text in more]
        self.changes = list(changes)

    def refuse_added(self, text: str) -> None:
        """Refuse a prompt that this run cannot answer.

        Raises:
            Refused: It is empty or too long.
        """
        if not text.strip():
            raise Refused("a probe prompt needs a text")
        limit = generation_config(self._trainer).max_new_tokens or 0
        encode(self._trainer, self._row_of(text)["prompt"], limit)

    def _ask(self, step: int) -> None:
        self._asked_at = step
        with unchanged_rewards(self._trainer), self._phases.during("eval"), unchanged_randomness():
            # On every rank: each may hold part of the model, and all must give a batch the same number.
            drawn = self._draw_all()
            number = self._capture.next_number()
            if self._first:
                asked = [(row, one) for row, one in zip(self._rows, drawn, strict=True) if one]
                try:
                    self._record(step, number, asked)
                except Exception as error:
                    self._tell(f"answers to {self.about} are not kept: {type(error).__name__}: {error}")

    def _draw_all(self) -> list[Drawn | None]:
        """Return the completions of each row, None for a row that cannot be rendered. Call on every rank."""
        drawn: list[Drawn | None] = []
        for row in self._rows:
            try:
                one = draw(self._trainer, row["prompt"], count=self._count, temperature=self._temperature)
            except Exception as error:  # sampling must not end the training
                self._tell_unasked(error)
                one = None
            drawn.append(one)
        return drawn

    def _tell_unasked(self, error: Exception) -> None:
        why = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        self._tell(f"{self.one_of} cannot be answered: {why}")

    def _record(self, step: int, number: int, asked: Sequence[tuple[Row, Drawn]]) -> tuple[Group, ...]:
        """Score the answers and record one group per row."""
        if not asked:
            return ()
        self._runner.batch = number
        rows = [row for row, drawn in asked for _ in drawn.ids]
        ids = [one for _, drawn in asked for one in drawn.ids]
        cut = [one for _, drawn in asked for one in drawn.truncated]
        texts = [self._trainer._tokenizer.decode(one, skip_special_tokens=True) for one in ids]
        rewards, extra = self._scores(rows, texts, ids)
        totals = _totals(self._trainer, rewards)
        completions = [
            Completion(
                index=place % self._count,
                text=text,
                rewards=tuple(rewards[place]),
                total=totals[place],
                advantage=0.0,  # nothing is learned from it
                tokens=len(ids[place]),
                truncated=cut[place],
                extra=extra[place],
            )
            for place, text in enumerate(texts)
        ]
        groups = tuple(
            Group(
                index,
                row["prompt"],
                {key: value for key, value in row.items() if key not in HIDDEN_COLUMNS},
                tuple(completions[index * self._count : (index + 1) * self._count]),
            )
            for index, (row, _) in enumerate(asked)
        )
        first = self._runner.first
        self._put(GenerationBatch(self._attempt, number, 0, "probe", step, step, time.time(), groups, first))
        return groups

    def _scores(
        self, rows: Sequence[Row], texts: Sequence[str], ids: Sequence[list[int]]
    ) -> tuple[list[list[float | None]], list[dict[str, Any]]]:
        """Return for each completion its rewards, and what was logged with `log_extra`.

        Rows with other columns, such as prompts without an answer, are scored in a call of their own.
        """
        alike: dict[frozenset[str], list[int]] = {}
        for place, row in enumerate(rows):
            alike.setdefault(frozenset(row), []).append(place)
        rewards: list[list[float | None]] = [[] for _ in rows]
        extra: list[dict[str, Any]] = [{} for _ in rows]
        for places in alike.values():
            given, logged = self._scores_alike(
                [rows[place] for place in places],
                [texts[place] for place in places],
                [ids[place] for place in places],
            )
            for at, place in enumerate(places):
                rewards[place] = given[at]
                extra[place] = {name: values[at] for name, values in logged.items() if at < len(values)}
        return rewards, extra

    def _scores_alike(
        self, rows: Sequence[Row], texts: Sequence[str], ids: Sequence[list[int]]
    ) -> tuple[list[list[float | None]], dict[str, list[Any]]]:
        """Score rows that have the same columns. Rewards have the shape (completions, functions)."""
        extra: dict[str, list[Any]] = {}
        prompts = [row["prompt"] for row in rows]
        columns = {key: [row[key] for row in rows] for key in rows[0] if key not in HIDDEN_COLUMNS}
        given: list[Sequence[Any]] = []
        for function, name in zip(self._trainer.reward_funcs, self._trainer.reward_func_names, strict=True):
            answers = [
                text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
                for prompt, text in zip(prompts, texts, strict=True)
            ]
            try:
                if not callable(function) or is_model(function):
                    raise TypeError("only TRL itself can call it")
                values = self._call(
                    function,
                    prompts=list(prompts),
                    completions=answers,
                    completion_ids=[list(one) for one in ids],
                    trainer_state=self._trainer.state,
                    log_extra=lambda key, kept: extra.__setitem__(key, list(kept)),
                    log_metric=lambda *_: None,
                    **{key: list(column) for key, column in columns.items()},
                )
            except Exception as error:
                self._tell(f"{name} does not score {self.about}: {type(error).__name__}: {error}")
                self._runner.failed_function, self._runner.failed_sample = None, ""
                values = [None] * len(texts)
            given.append(values)
        return [[_number(values[place]) for values in given] for place in range(len(texts))], extra

    def _call(self, function: Any, **given: Any) -> Any:
        """Call a reward as TRL does: coroutines run on TRL's event loop."""
        if not is_async(function):
            return function(**given)
        return asyncio.run_coroutine_threadsafe(function(**given), self._trainer.async_loop).result()

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            print(f"grpo-tui: {sentence}", file=sys.stderr, flush=True)


def _totals(trainer: Any, rewards: list[list[float | None]]) -> list[float | None]:
    import torch

    filled = [[math.nan if value is None else value for value in row] for row in rewards]
    return compat.totals(
        trainer, torch.tensor(filled, dtype=torch.float32, device=trainer.accelerator.device)
    )


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(float(value)) else float(value)
