"""Map rows to prompts: rename columns, extract the answer, check every prompt, build the messages.

Row numbers in messages start at 1, in the order of the source.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpo_tui.config.section import AnswerSpec, Section
from grpo_tui.data.filters import answer_of, drop_duplicates, drop_nulls, is_missing
from grpo_tui.data.sources import DataError

if TYPE_CHECKING:
    from datasets import Dataset

# Common names of the prompt column, likeliest first.
_PROMPT_NAMES = ("question", "problem", "messages", "query", "instruction", "input", "text", "prompts")
_PART = '{"type": "text", "text": "…"}'
# TRL passes its own arguments under these names, so a reward would get such a column twice.
_TAKEN = ("prompts", "completions")


def map_rows(rows: Dataset, section: Section, origin: str) -> tuple[Dataset, list[str]]:
    """Apply the section to rows, except filters that count tokens.

    Returns:
        The rows, and notes on what was left out.

    Raises:
        DataError: a column is missing, a prompt is unusable, or an answer cannot be extracted.
    """
    columns = rows.column_names
    if columns is None:  # a stream's columns come from its first row
        first = next(iter(rows), None)
        columns = list(first) if first is not None else []
    if getattr(rows, "num_rows", None) == 0:
        raise DataError(f"{origin} has no rows")
    rows, columns = _renamed(rows, columns, section, origin)
    _require_prompt(columns, origin)
    for name in _TAKEN:
        if name in columns:
            raise DataError(
                f"{origin} has a column {name}, a name that TRL uses for another argument of rewards. "
                f"Rename it: grpo_tui.columns: {{my_{name}: {name}}}"
            )
    streamed = not hasattr(rows, "select")
    answer = _answer_spec(columns, section, origin) if section.answer is not None else None
    notes: list[str] = []
    numbers = None if streamed else list(range(1, len(rows) + 1))
    if section.filters.drop_null:
        rows, numbers, notes = drop_nulls(rows, section.filters, answer, columns, origin)
    if answer is not None:
        rows = _with_answer(rows, answer, origin, numbers)
    if numbers is not None:
        _check_prompts(zip(numbers, rows["prompt"], strict=True), origin)
    if section.filters.drop_duplicates:
        rows, doubles = drop_duplicates(rows, origin)
        notes += doubles
    if section.wants_chat:
        rows = rows.map(_to_messages, fn_kwargs={"system": section.system_prompt, "shots": _shots(section)})
    return rows, notes


def as_messages(prompt: Any, section: Section) -> list[dict[str, Any]]:
    """Return one prompt as messages, with system prompt and examples, as `map_rows` does."""
    made = _to_messages({"prompt": prompt}, section.system_prompt, _shots(section))
    return list(made["prompt"])


SEVERAL = 8
"""Training prompts compared to find the beginning they share."""


def some_prompts(rows: Any) -> list[Any]:
    """Return a few prompts spread over the rows, or the first one of a stream."""
    if not hasattr(rows, "__getitem__"):
        return [row["prompt"] for row in itertools.islice(iter(rows), 1)]
    count = min(SEVERAL, len(rows))
    return [rows[index * len(rows) // count]["prompt"] for index in range(count)]


def shared_beginning(prompts: Sequence[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return the messages before the last one that all prompts share: system prompt and examples."""
    beginnings = [prompt[:-1] for prompt in prompts]
    if len(beginnings) == 1:  # what other prompts share is unknown
        return [message for message in beginnings[0][:1] if message["role"] == "system"]
    shared = itertools.takewhile(lambda turn: all(m == turn[0] for m in turn), zip(*beginnings, strict=False))
    return [turn[0] for turn in shared]


def _renamed(rows: Dataset, columns: list[str], section: Section, origin: str) -> tuple[Dataset, list[str]]:
    """Rename columns by `columns` (wanted name → column). A column wanted twice is copied."""
    moves = {wanted: source for wanted, source in section.columns.items() if wanted != source}
    for wanted, source in section.columns.items():
        if source not in columns:
            raise _no_column(f"columns wants {wanted} from", source, source, columns, origin)
    if not moves:
        return rows, columns
    kept_sources = {source for wanted, source in section.columns.items() if wanted == source}
    replaced = [
        name for name in moves if name in columns and name not in moves.values() and name not in kept_sources
    ]
    rows = rows.remove_columns(replaced) if replaced else rows
    counts = [*moves.values(), *kept_sources]
    if len(set(counts)) == len(counts):
        # Unused intermediate names let two columns swap their names.
        rows = rows.rename_columns({source: f"__{wanted}__" for wanted, source in moves.items()})
        rows = rows.rename_columns({f"__{wanted}__": wanted for wanted in moves})
    else:
        gone = [source for source in set(moves.values()) if source not in section.columns]
        rows = rows.map(_copy_columns, fn_kwargs={"moves": moves}, remove_columns=gone)
    left = [c for c in columns if c not in replaced and (c not in moves.values() or c in section.columns)]
    return rows, list(dict.fromkeys([*left, *moves]))


def _no_column(what: str, name: str, source: str, columns: list[str], origin: str) -> DataError:
    near = difflib.get_close_matches(source, columns, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    has = f"it has {', '.join(columns)}.{hint}"
    return DataError(f"grpo_tui.{what} the column {name}, which {origin} does not have; {has}")


def _copy_columns(row: dict[str, Any], moves: dict[str, str]) -> dict[str, Any]:
    return {wanted: row[source] for wanted, source in moves.items()}


def _require_prompt(columns: list[str], origin: str) -> None:
    if "prompt" in columns:
        return
    near = likely_prompt(columns)
    fix = f"prompt: {near}" if near else "prompt: <the column with the question>"
    raise DataError(
        f"{origin} has no column prompt; it has {', '.join(columns)}. Map one:\n"
        f"  grpo_tui:\n    columns: {{{fix}}}"
    )


def _answer_spec(columns: list[str], section: Section, origin: str) -> AnswerSpec | None:
    """Return the answer's spec with its source under the column's new name."""
    spec = section.answer
    if spec is None or spec.source in columns:
        return spec
    source = next((wanted for wanted, old in section.columns.items() if old == spec.source), spec.source)
    if source not in columns:
        raise _no_column("answer reads", spec.source, source, columns, origin)
    return replace(spec, source=source)


def likely_prompt(columns: Sequence[str]) -> str | None:
    """Return the column whose name suggests a prompt, or None."""
    lower = {column.lower(): column for column in columns}
    near = next((lower[name] for name in ("prompt", *_PROMPT_NAMES) if name in lower), None)
    if near is None:
        like = difflib.get_close_matches("prompt", columns, n=1, cutoff=0.5)
        near = like[0] if like else None
    return near


def _with_answer(rows: Dataset, spec: AnswerSpec, origin: str, numbers: list[int] | None) -> Dataset:
    if numbers is not None:
        _check_answers(list(zip(numbers, rows[spec.source], strict=True)), spec, origin)
    return rows.map(_extract_answer, fn_kwargs={"spec": spec})


def _check_answers(values: list[tuple[int, Any]], spec: AnswerSpec, origin: str) -> None:
    bad = [(number, value) for number, value in values if answer_of(value, spec) is None]
    if bad:
        number, value = bad[0]
        sought = {
            "gsm8k": "####",
            "boxed": "\\boxed{…}",
            "tag": f"<{spec.tag}>…</{spec.tag}>",
            "regex": f"match of {spec.pattern}",
        }[spec.kind]
        raise DataError(
            f"{origin}, row {number}: no {sought} in the column {spec.source} ({_short(value)}); {len(bad)} "
            f"of {len(values)} rows have none. Correct grpo_tui.answer, or leave those rows out with "
            "grpo_tui.filters: {drop_null: true}"
        )


def _extract_answer(row: dict[str, Any], spec: AnswerSpec) -> dict[str, Any]:
    return {spec.to: answer_of(row[spec.source], spec)}


def _check_prompts(prompts: Iterable[tuple[int, Any]], origin: str) -> None:
    for number, prompt in prompts:
        problem = prompt_problem(prompt)
        if problem is not None:
            way = " with grpo_tui.filters: {drop_null: true}" if is_missing(prompt) else ""
            raise DataError(
                f"{origin}, row {number}: the prompt {problem}. Correct the row or leave it out{way}"
            )


def prompt_problem(prompt: Any) -> str | None:
    """Return what is wrong with a prompt. None if it is a text or a list of messages."""
    if prompt is None:
        return "is empty (null)"
    if isinstance(prompt, str):
        return None if prompt.strip() else "is an empty text"
    if not isinstance(prompt, list):
        return f"is {_short(prompt)}, and must be a text or a list of messages"
    if not prompt:
        return "is an empty list of messages"
    for message in prompt:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return f"holds {_short(message)}, which is not a message. A message has role and content"
        if message.get("content") is None and not message.get("tool_calls"):
            return f"has a message of the {message['role']} without content"
        if (part := _no_part(message.get("content"))) is not None:
            return f"holds {_short(part)} in the content of a message; a part is {_PART}"
    return None


def _no_part(content: Any) -> Any:
    """Return the first content part without a type, which TRL cannot read."""
    parts = content if isinstance(content, list) else []
    return next((p for p in parts if not isinstance(p, dict) or not isinstance(p.get("type"), str)), None)


def _shots(section: Section) -> list[dict[str, str]]:
    messages = []
    for shot in section.few_shot:
        messages.append({"role": "user", "content": shot.user})
        messages.append({"role": "assistant", "content": shot.assistant})
    return messages


def _to_messages(row: dict[str, Any], system: str | None, shots: list[dict[str, str]]) -> dict[str, Any]:
    """Put system prompt and examples before the prompt. A system prompt replaces the row's own."""
    prompt = row["prompt"]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if system is not None:
        messages = [message for message in messages if message["role"] != "system"]
        return {"prompt": [{"role": "system", "content": system}, *shots, *messages]}
    own_system = [message for message in messages[:1] if message["role"] == "system"]
    return {"prompt": [*own_system, *shots, *messages[len(own_system) :]]}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
