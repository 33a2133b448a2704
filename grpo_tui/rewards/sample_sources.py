"""Gather samples to score: a dataset's reference and wrong answers, a recorded run, a file, or probes.

Used by commands and panes. Nothing is scored here, but the scoring process reads dataset rows and parquet
files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line
from grpo_tui.rewards.answer_format import forms_for, likely_form
from grpo_tui.rewards.cases import CaseFileError, read_cases
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.probes import as_samples, made_up_rows, probes_for
from grpo_tui.rewards.samples import (
    Sample,
    SampleError,
    from_parquet_rows,
    from_run,
    gold_and_wrong,
    read_jsonl,
    recorded_groups,
    samples_of_groups,
    with_columns_of,
)
from grpo_tui.rewards.scoring import MOST_GOLD_ROWS, Dataset, gold_column_of
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.query import QueryError
from grpo_tui.store.reader import RunReader
from grpo_tui.store.rollouts import iter_rollouts
from grpo_tui.store.search import Search

MOST_JOINED_ROWS = 20_000
"""Rows of the dataset to search for the prompts of samples without columns."""
PROBED_ROWS = 3
MOST_FOUND_GROUPS = 100
FOUND = "found"


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of the samples on the screen.

    Attributes:
        kind: `gold`, `run`, `file`, `probes`, or `model` for completions of the model.
        step: a step, `best` or `worst`. None for the newest step.
        where: a query for completions, whose whole groups are used instead of a step.
    """

    kind: str = "gold"
    rows: int = 4
    run: Path | None = None
    step: int | str | None = None
    group: int | None = None
    where: str = ""
    file: Path | None = None

    @property
    def words(self) -> str:
        """Description for the user."""
        if self.kind == "file" and self.file is not None:
            return one_line(self.file.name, 60)
        if self.kind == "run" and self.run is not None:
            name = one_line(self.run.name, 30)
            if self.group is not None:
                return f"a group of {name}"
            if self.where:
                return f"{name}, where {one_line(self.where, 40)}"
            if self.step in ("best", "worst"):
                return f"{name}, its {self.step} group"
            return f"{name}, {'its newest step' if self.step is None else f'step {self.step}'}"
        known = {"model": "the model before training", "probes": "probes"}
        return known.get(self.kind, "reference and wrong answers")


def dataset_rows(lab: Lab, config: RunConfig, count: int = MOST_GOLD_ROWS) -> Dataset | None:
    """Return the first rows of the config's dataset, or None for functions alone.

    Raises:
        LabError: the data cannot be used.
    """
    if not config.model:
        return None
    page = lab.rows(config, max(count, MOST_GOLD_ROWS))
    return Dataset(tuple(page["rows"]), tuple(page["columns"]), tuple(page["notes"]))


def samples_from(lab: Lab, config: RunConfig, dataset: Dataset | None, origin: Origin) -> list[Sample]:
    """Gather the samples.

    Raises:
        SampleError: there are none.
        LabError: the scoring process cannot read them.
        RunDatabaseError: the run cannot be read.
    """
    if origin.kind == "file" and origin.file is not None:
        return joined(lab, config, dataset, file_samples(lab, origin.file))
    if origin.kind == "run" and origin.run is not None:
        if origin.where:
            return found_samples(origin.run, origin.where)[0]
        return run_samples(origin.run, origin.step, origin.group)
    rows, column = rows_with_gold(lab, config, dataset, origin.rows)
    if origin.kind == "probes":
        rows = rows[:PROBED_ROWS]
        return as_samples(rows, probes_for(lab, rows, column)[1])
    form = likely_form([f.file_text for f in lab.functions], forms_for(config.section.system_prompt))
    return gold_and_wrong(rows, [form], column)


def rows_with_gold(
    lab: Lab, config: RunConfig, dataset: Dataset | None, count: int
) -> tuple[Sequence[Mapping[str, Any]], str | None]:
    """Return rows and the column with their reference answers. Functions alone get built-in questions.

    Raises:
        SampleError: no column looks like the reference answer.
    """
    if dataset is None:
        names = [p.name for f in lab.functions for p in f.parameters or ()]
        rows, made_up_column = made_up_rows(list(dict.fromkeys(names)))
        return rows[:count], made_up_column
    column = gold_column_of(config, dataset.columns)
    if column is None:
        raise SampleError(
            f"no column of the dataset ({', '.join(dataset.columns)}) looks like the gold answer; name it "
            "with grpo_tui.columns: {answer: …}"
        )
    return dataset.rows[:count], column


def unanswered(dataset: Dataset, count: int) -> list[Sample]:
    """Return the first rows with empty completions, for datasets without a reference answer."""
    return [
        Sample(row["prompt"], "", row["columns"], f"row {i + 1}")
        for i, row in enumerate(dataset.rows[:count])
    ]


def file_samples(lab: Lab, path: Path) -> list[Sample]:
    """Read samples from a JSONL file, one of TRL's parquet files, or a case file.

    Raises:
        SampleError: the file cannot be used.
        LabError: the scoring process cannot read it.
    """
    if not path.is_file():
        raise SampleError(f"{path}: no such file")
    if path.suffix.lower() == ".parquet":
        return from_parquet_rows(lab.parquet(path.absolute()), [f.name for f in lab.functions], str(path))
    if path.suffix.lower() in (".yaml", ".yml"):
        try:
            return [replace(case.sample, group="", kind=case.name) for case in read_cases(path).cases]
        except CaseFileError as error:
            raise SampleError(str(error)) from error
    return read_jsonl(path)


def joined(lab: Lab, config: RunConfig, dataset: Dataset | None, samples: list[Sample]) -> list[Sample]:
    """Add missing dataset columns to samples, found by their prompts."""
    if dataset is None or all(set(dataset.columns) <= {"prompt", *one.columns} for one in samples):
        return samples
    return with_columns_of(samples, lab.rows(config, MOST_JOINED_ROWS)["rows"])


def run_samples(run: Path, step: int | str | None = None, group: int | None = None) -> list[Sample]:
    """Return recorded completions of a run, from a step or one group.

    Raises:
        SampleError: there are none.
        RunDatabaseError: the run cannot be read.
    """
    with closing(RunReader(RunFolder(run).database)) as reader:
        if group is None:
            return from_run(reader, step)
        return samples_of_groups(recorded_groups(reader, group=group))


def found_samples(run: Path, where: str) -> tuple[list[Sample], int]:
    """Return the whole groups with completions that match a query, newest first.

    Groups are returned whole because advantages depend on the group. Matching completions have the tag
    `found`.

    Returns:
        The samples of at most `MOST_FOUND_GROUPS` groups, and the number of all groups found.

    Raises:
        SampleError: the query is invalid, finds nothing, or took too long.
        RunDatabaseError: the run cannot be read.
    """
    with closing(Search(RunFolder(run).database)) as search:
        try:
            found = search.find(where)
        except QueryError as error:
            raise SampleError(f"invalid query: {one_line(error.sentence, 300)}") from error
        newest = list(dict.fromkeys(found.group_of))[:MOST_FOUND_GROUPS]
        if not newest:
            raise SampleError(found.trouble or f"no completion matches: {one_line(where, 200)}")
        wanted = set(newest)
        ids = [one for one, group in zip(found.ids, found.group_of, strict=True) if group in wanted]
        hits = {
            (row.attempt, row.batch, row.group_index, row.index) for row in iter_rollouts(search.run, ids)
        }
        samples = []
        for group in search.run.whole_groups(newest):
            for completion, sample in zip(group.completions, samples_of_groups([group]), strict=True):
                hit = (group.attempt, group.batch, group.index, completion.index) in hits
                samples.append(replace(sample, tags=(FOUND,)) if hit else sample)
        return samples, found.groups
