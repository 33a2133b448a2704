"""Map the source's rows as training does, and record what happens to each row.

Structural rules come from `data.mapping.map_rows`, applied to one row. Rules for single rows are applied here
to plain values, so that every bad row is found instead of only the first. A test checks that both agree.
Filters that count tokens follow later in `apply_lengths`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import Filters, Section
from grpo_tui.core.prompt_memory import prompt_hash
from grpo_tui.core.text import one_line
from grpo_tui.data.filters import answer_of, drop_nulls, filter_files, is_missing, prompt_key, stale
from grpo_tui.data.load import split_off
from grpo_tui.data.mapping import as_messages, map_rows, prompt_problem
from grpo_tui.data.sources import DataError
from grpo_tui.preflight.child.table import Table
from grpo_tui.preflight.facts import REJECTED, BadRows, FilterFacts
from grpo_tui.preflight.row_figures import MOST_ROWS_NAMED, is_messages

TRAIN, HELD = "train", "held out"
LEFT = "left out"
_SEED = 42  # TrainingArguments.seed


@dataclass(slots=True)
class Mapped:
    """Mapped rows of a table, with a fate for each.

    Attributes:
        names: columns after mapping.
        sources: their names in the source, empty for an added column.
        prompts: as in training, None for an unusable prompt.
        columns: values after mapping by name, without the prompt.
        fates: `train`, `held out`, `left out: …` or `rejected: …` with the reason.
        drops: numbers of the rows that each filter removes, by its key.
    """

    table: Table
    names: list[str]
    sources: dict[str, str]
    prompts: list[Any]
    columns: dict[str, list[Any]]
    fates: list[str]
    bad: tuple[BadRows, ...] = ()
    drops: dict[str, list[int]] = field(default_factory=dict)

    @property
    def kept(self) -> list[int]:
        """Indices of training and held-out rows."""
        return [i for i, fate in enumerate(self.fates) if fate in (TRAIN, HELD)]

    def count(self, fate: str) -> int:
        """Return the number of rows with a fate."""
        return self.fates.count(fate)

    def filters(self, pending: Sequence[str] = ()) -> tuple[FilterFacts, ...]:
        """Return what each filter removes. `pending` ones need the tokenizer first."""
        known = tuple(
            FilterFacts(name, len(rows), tuple(rows[:MOST_ROWS_NAMED])) for name, rows in self.drops.items()
        )
        return (*known, *(FilterFacts(name, None) for name in pending if name not in self.drops))


def map_table(table: Table, config: RunConfig) -> Mapped:
    """Map all rows and determine their fates, except for filters that count tokens.

    Raises:
        DataError: the columns do not fit the section.
    """
    section = config.section
    prompt_source = section.columns.get("prompt", "prompt")
    raw = table.columns.get(prompt_source, [])
    names = _columns_after(table, section)
    sources = {name: section.columns.get(name, name) for name in names}
    values = {name: table.columns[source] for name, source in sources.items() if source in table.columns}
    spec = section.answer
    mapped = Mapped(table, names, sources, [], {}, [TRAIN] * len(table.numbers))
    answer_source = ""
    if spec is not None:
        answer_source = spec.source if spec.source not in names else sources.get(spec.source, spec.source)
    _judge_rows(mapped, values, section, table.columns.get(answer_source))
    mapped.prompts = [
        _as_trained(prompt, section) if not fate.startswith(REJECTED) else None
        for prompt, fate in zip(raw, mapped.fates, strict=True)
    ]
    mapped.columns = {name: column for name, column in values.items() if name != "prompt"}
    if spec is not None:
        mapped.columns[spec.to] = [answer_of(value, spec) for value in table.columns[answer_source]]
        if answer_source != sources.get(spec.to):
            mapped.sources[spec.to] = ""
    return mapped


def apply_lengths(mapped: Mapped, tokens: Sequence[int | None], filters: Filters) -> None:
    """Mark rows whose prompts are too short or too long as left out.

    Args:
        tokens: number per prompt, (N,), None without a prompt.
    """
    for name in ("min_prompt_tokens", "max_prompt_tokens"):
        bound = getattr(filters, name)
        if bound is None:
            continue
        dropped = []
        for place, count in enumerate(tokens):
            if count is None or mapped.fates[place] != TRAIN:
                continue
            if count < bound if name == "min_prompt_tokens" else count > bound:
                mapped.fates[place] = f"{LEFT}: {count:,} tokens, {name} is {bound:,}"
                dropped.append(mapped.table.numbers[place])
        mapped.drops[name] = dropped


def hold_out(mapped: Mapped, config: RunConfig) -> str:
    """Mark the held-out rows. Return why this is not possible, or an empty text.

    The choice depends on all rows, so no row of a sample is marked.
    """
    count = config.section.holdout
    if mapped.table.streamed:
        needs = "holdout" if count else "filters.drop_duplicates"
        wanted = count or config.section.filters.drop_duplicates
        return f"grpo_tui.{needs} needs all rows, and {mapped.table.origin} is streamed" if wanted else ""
    if not count or mapped.table.total is None or mapped.table.sampled:
        return ""
    places = mapped.kept
    if count >= len(places):
        return (
            f"grpo_tui.holdout is {count}, but only {len(places)} rows are left: one must be left to train on"
        )
    seed = config.grpo.get("seed", _SEED)
    split = split_off([mapped.prompts[place] for place in places], count, int(seed))
    for index in split.held:
        mapped.fates[places[index]] = HELD
    trained = {places[index] for index in split.kept}
    for place in places:
        if mapped.fates[place] == TRAIN and place not in trained:
            mapped.fates[place] = f"{LEFT}: a held-out row has the same prompt"
    return "" if split.kept else f"every row has the same prompt as one of the {count} held out"


def settle(mapped: Mapped, config: RunConfig) -> tuple[BadRows, ...]:
    """Mark held-out rows, then those that filter files leave out. Return what makes this impossible."""
    trouble = hold_out(mapped, config)
    found = [BadRows("hold-out", trouble, 0, ())] if trouble else []
    try:
        for key, hashes, file in filter_files(config.section.filters):
            if not _apply_file(mapped, key, hashes):
                found.append(BadRows(f"filters.{key}", stale(key, file, mapped.table.origin), 0, ()))
    except DataError as error:
        found.append(BadRows("filters", str(error), 0, ()))
    return tuple(found)


def _apply_file(mapped: Mapped, key: str, hashes: frozenset[str]) -> bool:
    """Mark rows by a filter file. Return False when all rows are known and it lists none of them."""
    places = [place for place, fate in enumerate(mapped.fates) if fate == TRAIN]
    listed = {place: prompt_hash(mapped.prompts[place]) in hashes for place in places}
    dropped = [place for place in places if listed[place] != (key == "only")]
    for place in dropped:
        mapped.fates[place] = f"{LEFT}: filters.{key}"
    mapped.drops[key] = [mapped.table.numbers[place] for place in dropped]
    return any(listed.values()) or bool(mapped.table.sampled) or mapped.table.streamed


def _columns_after(table: Table, section: Section) -> list[str]:
    """Return the column names after mapping, by mapping one row of dummy values.

    Filters and answer are checked separately.
    """
    import datasets

    one = datasets.Dataset.from_list([dict.fromkeys(table.columns, "-")])
    mapped, _ = map_rows(one, replace(section, filters=Filters(), answer=None), table.origin)
    names = list(mapped.column_names)
    if section.filters.drop_null:
        drop_nulls(mapped, section.filters, None, names, table.origin)  # raises if a named column is missing
    spec = section.answer
    if spec is not None:
        try:
            map_rows(one, replace(section, filters=Filters()), table.origin)
        except DataError as error:
            if "which" in str(error) and "does not have" in str(error):  # a missing column, not a bad row
                raise
        if spec.to not in names:
            names.append(spec.to)
    return names


def _judge_rows(mapped: Mapped, values: dict[str, list[Any]], section: Section, answers: Any) -> None:
    numbers, filters, spec = mapped.table.numbers, section.filters, section.answer
    prompts = values["prompt"]
    looked_at = [n for n in (filters.null_columns or values) if n != "prompt" and n in values]
    seen: set[str] = set()
    reasons: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    nulls: list[int] = []
    doubles: list[int] = []
    for place, number in enumerate(numbers):
        answered = spec is None or answers is None or answer_of(answers[place], spec) is not None
        if filters.drop_null:
            lacking = next((n for n in ("prompt", *looked_at) if is_missing(values[n][place])), None)
            if lacking is None and not answered and spec is not None:
                lacking = spec.to
            if lacking is not None:
                mapped.fates[place] = f"{LEFT}: nothing in {lacking}"
                nulls.append(number)
                continue
        problem = prompt_problem(prompts[place])
        if problem is not None:
            mapped.fates[place] = f"{REJECTED}: the prompt {problem}"
            reasons["prompt", _general(problem)].append(number)
            continue
        if not answered and spec is not None:
            mapped.fates[place] = f"{REJECTED}: no answer in {spec.source}"
            reasons["answer", spec.kind].append(number)
            continue
        if filters.drop_duplicates:
            key = prompt_key(prompts[place])
            if key in seen:
                mapped.fates[place] = f"{LEFT}: an earlier row has the same prompt"
                doubles.append(number)
            seen.add(key)
    if filters.drop_null:
        mapped.drops["drop_null"] = nulls
    if filters.drop_duplicates:
        mapped.drops["drop_duplicates"] = doubles
    counts = Counter({key: len(rows) for key, rows in reasons.items()})
    mapped.bad = tuple(
        BadRows(what, reason, count, tuple(reasons[what, reason][:MOST_ROWS_NAMED]))
        for (what, reason), count in counts.most_common()
    )


def _general(problem: str) -> str:
    """Return a prompt's problem without its value, so that equal problems are counted together."""
    if problem.startswith("holds ") and " in the content of a message; " in problem:
        return "holds a part without a type" + problem[problem.index(" in the content") :]
    if problem.startswith("holds "):
        return "contains an item that is not a message. A message has role and content"
    if problem.endswith("must be a text or a list of messages"):
        return "must be a text or a list of messages"
    return problem


def _as_trained(prompt: Any, section: Section) -> Any:
    if prompt_problem(prompt) is not None:
        return None
    return as_messages(prompt, section) if section.wants_chat else prompt


_FOREIGN_ROLES = ("ai", "bot", "chatgpt", "gpt", "human", "bard", "prompter")
"""Roles of other formats, which a chat template silently ignores."""
_LONGEST_QUOTED = 4_000
"""Longest text, in characters, that is parsed as messages."""


def odd_prompts(prompts: Sequence[Any], numbers: Sequence[int]) -> tuple[BadRows, ...]:
    """Return suspicious prompts by kind, with their rows.

    Args:
        prompts: as in training, (N,).
        numbers: row numbers, (N,).
    """
    rows: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    endings: dict[int, str] = {}
    for number, prompt in zip(numbers, prompts, strict=True):
        if isinstance(prompt, str):
            if _quoted(prompt):
                rows["quoted", ""].append(number)
            continue
        for message in prompt:
            role, content = str(message.get("role")), message.get("content")
            if role.lower() in _FOREIGN_ROLES:
                rows["role", one_line(role, 20)].append(number)
            if role == "user" and isinstance(content, str) and not content.strip():
                rows["blank", ""].append(number)
        if prompt[-1].get("role") == "assistant":
            endings[number] = json.dumps(prompt[-1].get("content"), default=str)
    if len(set(endings.values())) > 1:  # one common prefix for all answers is intended
        rows["answered", ""] = list(endings)
    return tuple(
        BadRows(what, detail, len(set(found)), tuple(dict.fromkeys(found))[:MOST_ROWS_NAMED])
        for (what, detail), found in rows.items()
    )


def written_wrongly(
    prompts: Sequence[Any], numbers: Sequence[int], write: Callable[[Any], str], *, sees_images: bool
) -> tuple[BadRows, ...]:
    """Return messages that the chat template does not write faithfully, by kind of problem, with their rows.

    Each form of conversation (its roles, and the structure of their content) is rendered once, with marks
    instead of texts to distinguish them from the template's own text.

    Args:
        prompts: as in training, (N,). Texts are skipped.
        numbers: row numbers, (N,).
        write: renders one prompt, and raises ValueError when the template rejects it.
    """
    forms: defaultdict[str, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            forms[json.dumps(_marked(prompt), sort_keys=True, default=str)].append(place)
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for places in forms.values():
        for fault in _faults_of_form(prompts[places[0]], write, sees_images=sees_images):
            found[fault] += [numbers[place] for place in places]
    return tuple(
        BadRows(what, detail, len(rows), tuple(sorted(rows)[:MOST_ROWS_NAMED]))
        for (what, detail), rows in found.items()
    )


def _faults_of_form(
    prompt: list[dict[str, Any]], write: Callable[[Any], str], *, sees_images: bool
) -> set[tuple[str, str]]:
    """Return kind and detail of each problem with rendering one form of conversation."""
    marked = _marked(prompt)
    contents = [message.get("content") for message in marked]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    if not sees_images and any(isinstance(part, dict) and part.get("type") == "image" for part in parts):
        return {("image", "")}
    try:
        text, real = write(marked), write(prompt)
    except ValueError as error:
        return {("refused", one_line(str(error), 200))}
    built = [value for value in (*contents, *parts) if value and not isinstance(value, str)]
    if any(str(value) in text or json.dumps(value) in text for value in built):
        return {("repr", "")}
    found = set()
    for place, message in enumerate(marked):
        role = one_line(str(message.get("role")), 20)
        for mark in _texts(message.get("content")):
            times = text.count(mark)
            if times != 1:
                found.add(("doubled" if times else "lost", role))
        whole = all(_plain(each) in _plain(real) for each in _texts(prompt[place].get("content")))
        if not whole and ("lost", role) not in found and role != "tool":
            found.add(("cut", role))
    last = _texts(contents[-1]) if marked[-1].get("role") == "assistant" else []
    if last and (behind := text.rpartition(last[-1])[2].strip()) and behind != text.strip():
        found.add(("closed", one_line(behind, 60)))
    return found


def _marked(prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace each text of a conversation by a mark."""

    def mark(value: Any, name: str) -> Any:
        if isinstance(value, str):
            return name if value.strip() else value
        if isinstance(value, list):
            return [mark(part, f"{name}p{number}q") for number, part in enumerate(value)]
        if isinstance(value, dict) and value.get("text"):
            return {**value, "text": mark(value["text"], name)}
        return value

    return [
        {**message, "content": mark(message.get("content"), f"message{number}q")}
        for number, message in enumerate(prompt)
    ]


def _texts(content: Any) -> list[str]:
    if isinstance(content, list):
        return [text for part in content for text in _texts(part)]
    text = content.get("text") if isinstance(content, dict) else content
    return [text] if isinstance(text, str) and text.strip() else []


def _plain(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> bool:
    """Whether a text is a list of messages, as CSV files contain them: JSON or Python syntax."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]") and "role" in text and len(text) < _LONGEST_QUOTED):
        return False
    try:
        return is_messages(json.loads(text))
    except ValueError:
        pass
    try:
        return is_messages(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
