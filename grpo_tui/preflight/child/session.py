"""What the child keeps of one config between requests: tables, mapped rows, tokenizer, model.

Facts are collected in the order of their cost. The data comes first because it does not need transformers.
A single row outside the sample is read from the source and mapped alone. Prompts are
rendered and counted as in `GRPOTrainer._tokenize_prompts` of TRL 1.16: messages with the chat template, texts
with the tokenizer's own special tokens.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig, stamps_of
from grpo_tui.core.text import one_line
from grpo_tui.data.filters import prompt_key
from grpo_tui.data.load import evaluation_source
from grpo_tui.data.mapping import as_messages, prompt_problem
from grpo_tui.data.sources import DataError
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.child.mapped import (
    TRAIN,
    Mapped,
    apply_lengths,
    map_table,
    odd_prompts,
    settle,
    written_wrongly,
)
from grpo_tui.preflight.child.table import MOST_ROWS, NoDataError, Table, columns_of, read_table
from grpo_tui.preflight.facts import (
    REJECTED,
    ColumnFacts,
    DataFacts,
    EvaluationFacts,
    ModelFacts,
    RowView,
    TokenizerFacts,
)
from grpo_tui.preflight.row_figures import (
    MOST_ROWS_NAMED,
    column_facts,
    is_messages,
    lengths,
    repeated,
    with_cells,
)
from grpo_tui.rewards.answer_format import gold_column

_OPENS_THINK = re.compile(r"<think>\s*$")
_AT_ONCE = 1000


class RenderError(ValueError):
    """The chat template rejects a prompt. The message is one sentence."""


class LoadedTokenizer:
    """Loaded tokenizer of a config's model."""

    def __init__(self, config: RunConfig, model: ModelFacts) -> None:
        from transformers import AutoProcessor, AutoTokenizer, ProcessorMixin

        source = model.adapter or model.where.path or model.where.name
        options = {
            "revision": config.model_args.get("model_revision", "main"),
            "padding_side": "left",
            "truncation_side": "left",
            "trust_remote_code": bool(config.grpo.get("trust_remote_code", False)),
        }
        try:
            processor = AutoProcessor.from_pretrained(source, **options)
        except Exception:
            processor = AutoTokenizer.from_pretrained(source, **options)
        self.processor: Any = processor
        self.tokenizer: Any = getattr(processor, "tokenizer", processor)
        self.sees_images = isinstance(processor, ProcessorMixin)  # as GRPOTrainer decides
        self._template = dict(config.grpo.get("chat_template_kwargs") or {})
        self._folder = model.where.path
        self._backend = getattr(self.tokenizer, "backend_tokenizer", None)

    def facts(self) -> TokenizerFacts:
        """Return the facts that do not need a prompt."""
        tokenizer = self.tokenizer
        ends = [*_generation_ends(self._folder)]
        if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
            ends.insert(0, int(tokenizer.eos_token_id))
        return TokenizerFacts(
            name=type(tokenizer).__name__,
            fast=bool(getattr(tokenizer, "is_fast", False)),
            size=len(tokenizer),
            has_template=bool(getattr(self.processor, "chat_template", None) or tokenizer.chat_template),
            pad=_token(tokenizer.pad_token),
            eos=_token(tokenizer.eos_token),
            bos=_token(tokenizer.bos_token),
            pad_id=tokenizer.pad_token_id,
            eos_id=tokenizer.eos_token_id,
            padding_side=str(_stored_side(self._folder) or "not stored"),
            ends=tuple(ends),
            sees_images=self.sees_images,
        )

    def facts_of(self, prompt: Any) -> TokenizerFacts:
        """Return the facts, including the rendered prompt."""
        facts = self.facts()
        try:
            text = self.rendered(prompt)
        except RenderError as error:
            return replace(facts, problem=str(error) if facts.has_template else "")
        return replace(
            facts,
            rendered=text,
            rendered_tokens=self.counts([self.written([prompt])[0]], messages=not isinstance(prompt, str))[0],
            special=self._special_in(text),
            opens_think=_OPENS_THINK.search(text) is not None,
        )

    def written(self, prompts: Sequence[Any]) -> list[str]:
        """Return prompts as texts, rendering messages with the chat template.

        Raises:
            RenderError: the template rejects one.
        """
        if prompts and all(isinstance(prompt, str) for prompt in prompts):
            return list(prompts)
        if self.sees_images:
            prompts = [_as_parts(prompt) for prompt in prompts]
        try:
            texts = self.processor.apply_chat_template(
                list(prompts), add_generation_prompt=True, tokenize=False, **self._template
            )
        except Exception as error:
            raise RenderError(f"the chat template rejects the prompt: {one_line(str(error), 200)}") from error
        return [str(text) for text in texts]

    def rendered(self, prompt: Any) -> str:
        """Return a prompt as the model receives it, including special tokens added before a text.

        Raises:
            RenderError: the template rejects it.
        """
        text = self.written([prompt])[0]
        if not isinstance(prompt, str):
            return text
        ids, own = (self.tokenizer(text, add_special_tokens=adds)["input_ids"] for adds in (True, False))
        first = next((at for at in range(len(ids)) if ids[at : at + len(own)] == own), 0)
        return "".join(map(str, self.tokenizer.convert_ids_to_tokens(ids[:first]))) + text

    def counts(self, texts: Sequence[str], *, messages: bool) -> list[int]:
        """Return the number of tokens of each text.

        Args:
            messages: whether they were rendered by a template, and so include special tokens.
        """
        if self._backend is None:
            ids = self.tokenizer(list(texts), add_special_tokens=not messages)["input_ids"] if texts else []
            return [len(one) for one in ids]
        self._backend.no_truncation()
        self._backend.no_padding()
        encode = getattr(self._backend, "encode_batch_fast", self._backend.encode_batch)
        found: list[int] = []
        for start in range(0, len(texts), _AT_ONCE):
            part = list(texts[start : start + _AT_ONCE])
            found += [len(encoding) for encoding in encode(part, add_special_tokens=not messages)]
        return found

    def _special_in(self, text: str) -> tuple[str, ...]:
        """Return the distinct special tokens in a text, in order."""
        names = sorted(
            {t.content for t in self.tokenizer.added_tokens_decoder.values() if t.special}
            | set(self.tokenizer.all_special_tokens),
            key=len,
            reverse=True,
        )
        if not names:
            return ()
        pattern = re.compile("|".join(map(re.escape, names)))
        return tuple(dict.fromkeys(match[0] for match in pattern.finditer(text)))


def _as_parts(prompt: Any) -> Any:
    """Return messages as TRL passes them to a processor, with each text as a content part."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message.get("content"), str)
        else message
        for message in prompt
    ]


def _token(value: Any) -> str | None:
    return None if value is None else str(value)


def _stored(folder: str | None, file: str) -> dict[str, Any]:
    if folder is None:
        return {}
    try:
        found = json.loads((Path(folder) / file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _stored_side(folder: str | None) -> str | None:
    return _stored(folder, "tokenizer_config.json").get("padding_side")


def _generation_ends(folder: str | None) -> list[int]:
    ends = _stored(folder, "generation_config.json").get("eos_token_id")
    return [ends] if isinstance(ends, int) else [int(e) for e in ends or ()]


MOST_SHORT_ANSWER = 12.0
"""A column with a higher mean number of tokens has whole solutions instead of short answers."""
MOST_GOLD = 2_000
"""Number of solutions to measure, spread evenly over the rows."""


class CheckSession:
    """Facts and single rows of one config."""

    def __init__(self, config: RunConfig, hub: Hub, tell: Callable[[str], None]) -> None:
        self.config, self.hub, self.tell = config, hub, tell
        self.table: Table | None = None
        self.mapped: Mapped | None = None
        self.facts_of_data: DataFacts | None = None
        self.facts_of_tokenizer: TokenizerFacts | None = None
        self.tokens: LoadedTokenizer | None = None
        self.counts: list[int | None] = []
        self._model: ModelFacts | None = None
        self._texts: list[str] | None = None
        self._start = time.monotonic()

    def turn_to(self, config: RunConfig) -> None:
        """Switch to a config with the same rows and tokenizer."""
        if model_key(config) != model_key(self.config):
            self._model = None
        self.config = config

    @property
    def all_here(self) -> bool:
        """Whether everything requested was available."""
        model = self._model
        return (self.table is not None or self.facts_of_data is None) and (
            model is None or (model.where.here and not model.problem)
        )

    # -- the data --------------------------------------------------------------------------------

    def data(self) -> DataFacts:
        """Read and map the rows, and return all facts that need no tokenizer."""
        if self.facts_of_data is not None:
            return self.facts_of_data
        try:
            table = read_table(self.config, self.hub, self.tell)
        except NoDataError as error:
            facts = DataFacts(error.where.name, error.where, problem=str(error))
        except DataError as error:
            facts = DataFacts("the dataset", problem=str(error))
        else:
            self.table = table
            facts = self._of_table(table)
        self.facts_of_data = replace(facts, seconds=time.monotonic() - self._start)
        return self.facts_of_data

    def _of_table(self, table: Table) -> DataFacts:
        names = tuple(table.columns)
        facts = DataFacts(
            table.origin,
            table.where,
            source_columns=names,
            total=table.total,
            looked_at=len(table.numbers),
            sampled=table.sampled,
            preference={"chosen", "rejected"} <= set(names),
        )
        self.tell(f"checking {len(table.numbers):,} rows")
        try:
            mapped = map_table(table, self.config)
        except DataError as error:
            raw = tuple(column_facts(n, n, table.columns[n], table.numbers) for n in names)
            return replace(facts, columns=raw, problem=str(error))
        self.mapped = mapped
        pending = [n for n in ("min_prompt_tokens", "max_prompt_tokens") if getattr(self._filters, n)]
        trouble = settle(mapped, self.config) if not pending else ()
        prompts = [mapped.prompts[i] for i in mapped.kept]
        numbers = [table.numbers[i] for i in mapped.kept]
        columns = {"prompt": self._prompt_values(mapped), **mapped.columns}
        for name in columns:
            columns[name] = table.written.get(mapped.sources.get(name, name), columns[name])
        odd = odd_prompts(prompts, numbers)
        doubles = repeated((prompt_key(p) for p in prompts), numbers)
        answer = self._answer_column(mapped)
        facts = replace(
            facts,
            columns=tuple(self._column(name, values, mapped) for name, values in columns.items()),
            form=_form(prompts),
            bad=(*mapped.bad, *trouble),
            odd=odd,
            duplicates=len(doubles),
            duplicate_rows=tuple(doubles[:MOST_ROWS_NAMED]),
            answer_column=answer,
            filters=mapped.filters(pending),
        )
        return self._with_counts(self._with_evaluation(facts, mapped), mapped, pending)

    def _column(self, name: str, values: list[Any], mapped: Mapped) -> ColumnFacts:
        source, table = mapped.sources.get(name, name), mapped.table
        facts = column_facts(name, source, values, table.numbers)
        cells = table.cells.get(source)
        return facts if cells is None else with_cells(facts, values, cells, table.numbers)

    def _with_counts(self, facts: DataFacts, mapped: Mapped, pending: Sequence[str]) -> DataFacts:
        """Add the number of training rows, unless a filter is pending or the rows are a sample."""
        if pending or facts.sampled or facts.total is None:
            return replace(facts, held=self.config.section.holdout)
        return replace(facts, train_rows=mapped.count(TRAIN), held=len(mapped.kept) - mapped.count(TRAIN))

    def _with_evaluation(self, facts: DataFacts, mapped: Mapped) -> DataFacts:
        """Add evaluation rows and their overlap with training rows. A hold-out has none by construction."""
        if mapped.table.rows is None:
            return facts
        try:
            found = evaluation_source(self.config, mapped.table.rows)
        except DataError as error:
            return replace(facts, problem=str(error))
        if found is None:
            return facts
        rows, origin = found
        if not hasattr(rows, "select"):
            return facts
        source = self.config.section.columns.get("prompt", "prompt")
        numbers = list(range(1, min(len(rows), MOST_ROWS) + 1))
        facts = replace(facts, evaluation=self._evaluation(rows, origin, numbers, mapped))
        if source not in rows.column_names:
            return replace(facts, eval_rows=len(rows))
        prompts = columns_of(rows.select_columns([source]), numbers)[source]
        trained = {
            prompt_key(p) for p, fate in zip(mapped.prompts, mapped.fates, strict=True) if fate == TRAIN
        }
        both = [
            number
            for number, prompt in zip(numbers, prompts, strict=True)
            if prompt_problem(prompt) is None and prompt_key(self._as_trained(prompt)) in trained
        ]
        return replace(
            facts, eval_rows=len(rows), overlap=len(both), overlap_rows=tuple(both[:MOST_ROWS_NAMED])
        )

    def _evaluation(self, rows: Any, origin: str, numbers: list[int], mapped: Mapped) -> EvaluationFacts:
        """Map evaluation rows and return what the evaluation would reject."""
        columns = columns_of(rows, numbers)
        facts = EvaluationFacts(
            origin, len(rows), tuple(columns), self.config.section.columns.get("prompt", "prompt")
        )
        try:
            table = Table(origin, columns, numbers, len(numbers), "", None)
            seen = map_table(table, self.config)
        except DataError as error:
            return replace(facts, problem=" ".join(str(error).split()))
        lacking = tuple(name for name in mapped.columns if name not in seen.columns)
        return replace(facts, lacking=lacking, bad=seen.bad)

    def _as_trained(self, prompt: Any) -> Any:
        section = self.config.section
        return as_messages(prompt, section) if section.wants_chat else prompt

    def _prompt_values(self, mapped: Mapped) -> list[Any]:
        """Return unmapped prompts, so that nulls and types are those of the file."""
        return mapped.table.columns[self.config.section.columns.get("prompt", "prompt")]

    def _answer_column(self, mapped: Mapped) -> str:
        spec = self.config.section.answer
        return spec.to if spec is not None else gold_column(list(mapped.columns)) or ""

    @property
    def _filters(self) -> Any:
        return self.config.section.filters

    # -- model and tokenizer ---------------------------------------------------------------------

    def model(self) -> ModelFacts:
        """Return what is known of the model without its weights."""
        if self._model is None:
            self.tell("looking at the model")
            from grpo_tui.preflight.child.model import model_facts

            self._model = model_facts(self.config, self.hub)
        return self._model

    def tokenizer(self, model: ModelFacts) -> TokenizerFacts:
        """Load the tokenizer and render the first prompt."""
        if self.facts_of_tokenizer is not None:
            return self.facts_of_tokenizer
        self.facts_of_tokenizer = self._tokenizer(model)
        return self.facts_of_tokenizer

    def _tokenizer(self, model: ModelFacts) -> TokenizerFacts:
        if model.where.place not in ("folder", "cached", "hub", "broken"):
            return TokenizerFacts(problem=f"no tokenizer: {model.where.problem}")
        self.tell("loading the tokenizer")
        try:
            self.tokens = LoadedTokenizer(self.config, model)
        except Exception as error:
            why = " ".join(str(error).split())[:300] or type(error).__name__
            return TokenizerFacts(problem=f"the tokenizer of {self.config.model} cannot be loaded: {why}")
        mapped = self.mapped
        if mapped is None or not mapped.kept:
            return self.tokens.facts()
        return self.tokens.facts_of(mapped.prompts[mapped.kept[0]])

    def measured(self) -> DataFacts | None:
        """Count the tokens of all prompts and solutions, and apply the filters that need them."""
        facts, mapped, tokens = self.facts_of_data, self.mapped, self.tokens
        if facts is None or mapped is None or tokens is None or not mapped.kept or self.counts:
            return None
        self.tell(f"counting the tokens of {len(mapped.kept):,} prompts")
        self.counts = self._prompt_counts(mapped, tokens)
        if self.facts_of_tokenizer is not None and not self.facts_of_tokenizer.problem:
            kept = [mapped.prompts[i] for i in mapped.kept]
            numbers = [mapped.table.numbers[i] for i in mapped.kept]
            odd = written_wrongly(
                kept, numbers, lambda prompt: tokens.written([prompt])[0], sees_images=tokens.sees_images
            )
            facts = replace(facts, odd=(*facts.odd, *odd))
        pending = [f.name for f in facts.filters if f.drops is None]
        if pending and any(count is not None for count in self.counts):
            apply_lengths(mapped, self.counts, self._filters)
            bad = (*facts.bad, *settle(mapped, self.config))
            facts = replace(facts, bad=bad, filters=mapped.filters())
            facts = self._with_counts(facts, mapped, ())
        known = [
            (count, mapped.table.numbers[i]) for i in mapped.kept if (count := self.counts[i]) is not None
        ]
        self.facts_of_data = replace(
            facts,
            prompt_tokens=lengths([c for c, _ in known], [n for _, n in known]),
            gold_tokens=self._gold_lengths(mapped, tokens),
            seconds=time.monotonic() - self._start,
        )
        return self.facts_of_data

    def _prompt_counts(self, mapped: Mapped, tokens: LoadedTokenizer) -> list[int | None]:
        counts: list[int | None] = [None] * len(mapped.prompts)
        for messages in (False, True):
            places = [i for i in mapped.kept if isinstance(mapped.prompts[i], str) != messages]
            if not places:
                continue
            try:
                texts = tokens.written([mapped.prompts[i] for i in places])
            except RenderError:
                continue  # reported in the facts of the tokenizer
            for place, count in zip(places, tokens.counts(texts, messages=messages), strict=True):
                counts[place] = count
        return counts

    def _gold_lengths(self, mapped: Mapped, tokens: LoadedTokenizer) -> Any:
        """Return the lengths of the solutions, None if the column has only short answers."""
        name = self._gold_source(mapped)
        values = mapped.table.columns.get(name) if name else None
        if values is None:
            return None
        places = [i for i, value in enumerate(values) if isinstance(value, str) and value]
        places = places[:: max(1, len(places) // MOST_GOLD)]
        counts = tokens.counts([values[i] for i in places], messages=True)
        found = lengths(counts, [mapped.table.numbers[i] for i in places])
        return found if found is not None and found.mean > MOST_SHORT_ANSWER else None

    def _gold_source(self, mapped: Mapped) -> str:
        """Return the source's column with whole solutions, or else with the answers."""
        spec = self.config.section.answer
        if spec is not None:
            source = spec.source
            return source if source in mapped.table.columns else mapped.sources.get(source, source)
        column = "solution" if "solution" in mapped.columns else self._answer_column(mapped)
        return mapped.sources.get(column, column)

    # -- single rows -----------------------------------------------------------------------------

    def row(self, number: int) -> RowView:
        """Return a row. A number beyond the last row returns the nearest one.

        Raises:
            DataError: the data cannot be used.
        """
        table, mapped = self._read(), self.mapped
        number = max(1, min(number, table.total or table.numbers[-1]))
        if table.total is None and number not in table.numbers:
            number = table.numbers[-1]
        place, problem = number - 1, self.facts_of_data.problem if self.facts_of_data is not None else ""
        if table.sampled and table.total is not None:
            assert table.rows is not None  # a sampled table has its source
            table, place = replace(table, columns=columns_of(table.rows.train, [number]), numbers=[number]), 0
            try:
                mapped = map_table(table, self.config)
            except DataError as error:
                mapped, problem = None, str(error)
        source, sampled = table.row(place), table.sampled
        if mapped is not None:
            return self._seen(RowView(number, table.total, source, None, {}, sampled=sampled), mapped, place)
        return RowView(number, table.total, source, None, {}, fate=REJECTED, sampled=sampled, problem=problem)

    def random_row(self, seed: int | None = None) -> RowView:
        """Return a random row."""
        table = self._read()
        numbers = table.numbers if table.total is None else range(1, table.total + 1)
        return self.row(random.Random(seed).choice(numbers))

    def holding(self, text: str) -> list[int]:
        """Return the numbers of the available rows that contain a text in any column, ignoring case."""
        table = self._read()
        if self._texts is None:
            self._texts = [
                "\n".join(_plain_text(values[place]) for values in table.columns.values()).lower()
                for place in range(len(table.numbers))
            ]
        wanted = text.lower()
        return [number for number, held in zip(table.numbers, self._texts, strict=True) if wanted in held]

    def _read(self) -> Table:
        facts = self.data()
        if self.table is None:
            raise DataError(facts.problem)
        return self.table

    def _seen(self, view: RowView, mapped: Mapped, place: int) -> RowView:
        """Add what training makes of a row."""
        prompt, fate, tokens = mapped.prompts[place], mapped.fates[place], self.tokens
        if view.sampled and fate == TRAIN and self.config.section.holdout:
            fate = "train or held out"
        columns = {name: values[place] for name, values in mapped.columns.items()}
        answer = self.facts_of_data.answer_column if self.facts_of_data is not None else ""
        answer = answer if answer in columns else ""
        view = replace(view, prompt=prompt, columns=columns, fate=fate, answer_column=answer)
        if tokens is None or prompt is None:
            return view
        try:
            written = tokens.written([prompt])
            count = tokens.counts(written, messages=not isinstance(prompt, str))[0]
            return replace(view, rendered=tokens.rendered(prompt), tokens=count)
        except RenderError as error:
            return replace(view, problem=str(error))


def data_key(config: RunConfig) -> str:
    """Return everything that rows and tokenizer depend on, including the state of the files."""
    whole = config.to_json()
    apart = ("rewards", "launcher", "gpus", "health", "notify", "on")
    section = {k: v for k, v in whole["section"].items() if k not in apart}
    parts = [whole[name] for name in ("model", "script", "mixture", "cwd", "env")]
    chosen = ("seed", "chat_template_kwargs", "eval_strategy", "trust_remote_code")
    grpo = {name: config.grpo.get(name) for name in chosen}
    revision = config.model_args.get("model_revision")
    stamps = stamps_of(config, rewards=False)
    return json.dumps([*parts, section, grpo, revision, stamps], sort_keys=True, default=str)


def model_key(config: RunConfig) -> str:
    """Return what the facts of a model depend on, apart from its name."""
    return json.dumps([config.model_args, config.grpo.get("model_init_kwargs")], sort_keys=True, default=str)


def _form(prompts: Sequence[Any]) -> str:
    kinds = {"messages" if is_messages(p) else "text" for p in prompts}
    return "mixed" if len(kinds) > 1 else next(iter(kinds), "")


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
