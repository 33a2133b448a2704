"""Samples to score: a prompt, a completion, and the other columns of its row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.exchange import finite_json
from grpo_tui.core.text import whole_text
from grpo_tui.rewards.answer_format import GoldForm, gold_column, short_answer, wrong_answers
from grpo_tui.rewards.loading import each_source
from grpo_tui.store.connection import RunDatabaseError
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader, StoredGroup

MOST_BYTES = 256_000_000
OURS = "grpo_tui"
"""Key of a JSONL line for what is not a dataset column."""
_TRL_OWN = ("step", "prompt", "completion", "advantage")


class SampleError(ValueError):
    """Samples cannot be read. The message names the file, the line and what is missing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion to score.

    Attributes:
        prompt, completion: a text or a list of messages.
        group: samples with the same group and prompt compete with each other.
        kind: what is known about it, such as `gold` or `wrong`, or empty.
        recorded: `{"total", "advantage"}` from a run.
    """

    prompt: Any
    completion: Any
    columns: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    kind: str = ""
    truncated: bool = False
    recorded: Mapping[str, float | None] | None = None
    tags: tuple[str, ...] = ()

    @property
    def prompt_key(self) -> str:
        """Text that is equal for equal prompts."""
        return self.prompt if isinstance(self.prompt, str) else json.dumps(self.prompt, sort_keys=True)

    @property
    def paired(self) -> bool:
        """Whether it is a reference answer or the wrong answer paired with it."""
        return self.kind in ("gold", "wrong")

    @property
    def text(self) -> str:
        """All messages of the completion as one text."""
        return whole_text(self.completion)

    def to_wire(self) -> dict[str, Any]:
        """Return the fields that the scoring process needs."""
        return {
            "prompt": self.prompt,
            "completion": self.completion,
            "columns": dict(self.columns),
            "truncated": self.truncated,
        }


def groups_of(samples: Sequence[Sample]) -> list[list[int]]:
    """Return the indices of each group, ordered by first sample."""
    found: dict[str, list[int]] = {}
    for index, sample in enumerate(samples):
        found.setdefault(f"{sample.group}\0{sample.prompt_key}", []).append(index)
    return list(found.values())


def tags_of(text: str) -> tuple[str, ...]:
    """Return distinct tags from text separated by spaces or commas, each with or without a leading #."""
    words = (word.lstrip("#") for word in text.replace(",", " ").split())
    return tuple(dict.fromkeys(word for word in words if word))


def sample_words(sample: Sample) -> str:
    """Return kind and tags of a sample: `gold #hard`."""
    return " ".join([*([sample.kind] if sample.kind else []), *(f"#{tag}" for tag in sample.tags)])


def read_jsonl(path: Path) -> list[Sample]:
    """Read `{"prompt", "completion", <columns>}` objects, one per line, or one list of them.

    The key `grpo_tui` holds what is not a column: `{"tags": […], "kind": "…", "truncated": true}`.

    Raises:
        SampleError: the file or a line of it cannot be used.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SampleError(
                f"{path} is larger than {MOST_BYTES / 1e6:.0f} MB. Score a smaller sample of it"
            )
        text = path.read_text(encoding="utf-8-sig")  # Windows editors add a BOM
    except UnicodeDecodeError as error:
        raise SampleError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise SampleError(f"{path} cannot be read: {error.strerror}") from error
    if text.lstrip().startswith("["):
        rows = _json(text, f"{path}", "it begins as a list, but")
        samples = [_from_row(row, f"{path}, sample {number}") for number, row in enumerate(rows, 1)]
    else:
        samples = [
            _from_row(_json(line, f"{path}:{number}", "this line"), f"{path}:{number}")
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
    if not samples:
        raise SampleError(f'{path} holds no sample; one line is {{"prompt": "…", "completion": "…"}}')
    return samples


def _json(text: str, place: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SampleError(f"{place}: {what} is not valid JSON: {error}") from error


def _from_row(row: Any, place: str) -> Sample:
    if not isinstance(row, dict):
        raise SampleError(f"{place}: a sample must be an object with prompt and completion")
    for name in ("prompt", "completion"):
        if name not in row:
            raise SampleError(f"{place}: there is no {name}; it has {', '.join(row) or 'nothing'}")
        if not isinstance(row[name], str) and not is_messages(row[name]):
            raise SampleError(f"{place}: {name} must be a text or a list of {{role, content}} messages")
    columns = {key: value for key, value in row.items() if key not in ("prompt", "completion", OURS)}
    ours = row.get(OURS)
    if ours is None:
        return Sample(row["prompt"], row["completion"], columns)
    found: Any = ours if isinstance(ours, dict) else {"kind": None}
    kind, cut, tags = found.get("kind", ""), found.get("truncated", False), found.get("tags", [])
    known = isinstance(kind, str) and isinstance(cut, bool) and isinstance(tags, list)
    if not known or not all(isinstance(tag, str) for tag in tags):
        shape = '{"tags": ["a", "b"], "kind": "…", "truncated": true}'
        raise SampleError(f"{place}: {OURS} is {shape}, not {ours!r}")
    return Sample(row["prompt"], row["completion"], columns, kind=kind, truncated=cut, tags=tuple(tags))


def save_jsonl(samples: Iterable[Sample], path: Path) -> None:
    """Write samples in the format of `read_jsonl`, one per line.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("w", encoding="utf-8", errors="replace") as file:
        for sample in samples:
            row = {**sample.columns, "prompt": sample.prompt, "completion": sample.completion}
            ours = {"tags": list(sample.tags), "kind": sample.kind, "truncated": sample.truncated}
            if kept := {key: value for key, value in ours.items() if value}:
                row[OURS] = kept
            file.write(json.dumps(finite_json(row), ensure_ascii=False, default=str) + "\n")


def is_messages(value: Any) -> bool:
    """Return whether a prompt or completion is a non-empty list of messages."""
    return isinstance(value, list) and bool(value) and all(isinstance(m, dict) and "role" in m for m in value)


def from_parquet_rows(rows: Iterable[Mapping[str, Any]], rewards: Iterable[str], origin: str) -> list[Sample]:
    """Turn rows of TRL's `completions/completions_*.parquet` into samples, grouped by step and prompt.

    Raises:
        SampleError: the file has no rows, or not these columns.
    """
    known = {*_TRL_OWN, *rewards}
    samples = []
    for row in rows:
        if "prompt" not in row or "completion" not in row:
            raise SampleError(f"{origin} has no columns prompt and completion; it has {', '.join(row)}")
        columns = {key: value for key, value in row.items() if key not in known}
        recorded = {"total": None, "advantage": row.get("advantage")} if "advantage" in row else None
        group = str(row.get("step", ""))
        samples.append(Sample(row["prompt"], row["completion"], columns, group, recorded=recorded))
    if not samples:
        raise SampleError(f"{origin} has no rows")
    return samples


def with_columns_of(samples: Sequence[Sample], rows: Iterable[Mapping[str, Any]]) -> list[Sample]:
    """Add missing dataset columns to samples, found by their prompts.

    TRL's parquet files have no dataset columns.
    """
    by_prompt = {Sample(row["prompt"], "").prompt_key: row["columns"] for row in rows}
    last_words = {
        _last_content(row["prompt"]): row["columns"] for row in rows if _last_content(row["prompt"])
    }
    found = []
    for sample in samples:
        columns = by_prompt.get(sample.prompt_key) or last_words.get(_last_content(sample.prompt), {})
        found.append(replace(sample, columns={**columns, **sample.columns}))
    return found


def _last_content(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    return str(prompt[-1].get("content", "")) if prompt else ""


def gold_and_wrong(
    rows: Sequence[Mapping[str, Any]], forms: Sequence[GoldForm], answer_column: str | None = None
) -> list[Sample]:
    """Return the reference answer and a wrong one as completions, for each row and format.

    Returns:
        Samples of the kinds `gold` and `wrong`, alternating. Empty without an answer column.
    """
    names = [name for row in rows[:1] for name in row["columns"]]
    column = answer_column if answer_column in names else gold_column(names)
    if column is None:
        return []
    answers = [short_answer(row["columns"].get(column)) for row in rows]
    wrongs = wrong_answers(answers)
    samples = []
    for number, row in enumerate(rows):
        for form in forms:
            for kind, answer in (("gold", answers[number]), ("wrong", wrongs[number])):
                group = f"row {number + 1}"
                samples.append(Sample(row["prompt"], form.write(answer), row["columns"], group, kind))
    return samples


def from_run(reader: RunReader, step: int | str | None = None) -> list[Sample]:
    """Return training completions of a recorded run, from the groups of `recorded_groups`.

    Raises:
        SampleError: there are none.
    """
    groups = recorded_groups(reader, step)
    if not groups:
        newest = reader.groups(mode="train", newest_first=True, limit=1)
        last = f"its newest step is {newest[0].step}" if newest else "it has recorded none yet"
        raise SampleError(f"there are no completions at step {step}; {last}" if step else last)
    return samples_of_groups(groups)


def weighed_as_now(config: RunConfig, run: Path) -> RunConfig:
    """Return a run's config with the reward weights that were last set while it trained."""
    with suppress(RunDatabaseError), closing(RunReader(RunFolder(run).database)) as reader:
        changes = [one for one in reader.lasting_settings() if one.name == "reward_weights"]
        now = changes[-1].new if changes and changes[-1].by != "config" else None
        if isinstance(now, list) and len(now) == len(each_source(config)):
            return replace(config, grpo={**config.grpo, "reward_weights": now})
    return config


def recorded_groups(
    reader: RunReader, step: int | str | None = None, group: int | None = None
) -> list[StoredGroup]:
    """Return one group by its number, or the training groups of a step.

    Args:
        step: a step, or `best` or `worst` for the group with that mean total. None for the newest step.
    """
    if group is not None:
        return reader.groups(after_id=group - 1, superseded=True, limit=1)
    if step in ("best", "worst"):
        sign = 1.0 if step == "best" else -1.0
        scored = (g for g in reader.iter_groups(mode="train") if g.mean is not None)
        best = max(scored, key=lambda g: sign * (g.mean or 0.0), default=None)
        return [best] if best is not None else []
    if step is None:
        newest = reader.groups(mode="train", newest_first=True, limit=1)
        step = newest[0].step if newest else 0
    return reader.groups(mode="train", first_step=int(step), last_step=int(step), limit=1000)


def samples_of_groups(groups: Iterable[StoredGroup]) -> list[Sample]:
    """Return the completions of recorded groups, with their totals and advantages."""
    return [
        Sample(
            group.prompt,
            completion.messages if completion.messages is not None else completion.text,
            group.columns,
            group=f"step {group.step}, group {group.index + 1}, batch {group.batch}",
            truncated=completion.truncated,
            recorded={"total": completion.total, "advantage": completion.advantage},
        )
        for group in groups
        for completion in group.completions
    ]
