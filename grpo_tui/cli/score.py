"""`grpo-tui score`: score samples with rewards, without a GPU, and report what is wrong with the rewards.

Also used by the other commands about rewards.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.look import log_source, readable_folder
from grpo_tui.cli.plain import print_json, show_progress, terminal_width
from grpo_tui.cli.saved_run import overridden, saved_run
from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import ConfigError, RunConfig, describe
from grpo_tui.core.findings import Finding
from grpo_tui.core.statistics import signal_of
from grpo_tui.core.text import filled, one_line, prompt_text, wrapped
from grpo_tui.present.formatting import MISSING, compact, duration, fixed, percent
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.loading import each_source
from grpo_tui.rewards.sample_sources import (
    MOST_FOUND_GROUPS,
    Origin,
    dataset_rows,
    found_samples,
    joined,
    run_samples,
    samples_from,
)
from grpo_tui.rewards.samples import Sample, SampleError, sample_words, weighed_as_now
from grpo_tui.rewards.score_report import FunctionScore, GroupScore
from grpo_tui.rewards.scoring import Dataset, Report, ScoreOptions, config_of_functions, report


def score(parsed: Any) -> int:
    """`grpo-tui score CONFIG_OR_FUNC… --samples FILE`."""
    config = wanted_config(parsed.sources, parsed.overrides, parsed.run)
    weights = weights_of(parsed.weights)
    _require_samples(config, parsed)
    with reported(LabError, SampleError), Lab(limit_s=parsed.timeout) as lab:
        show_progress("loading torch…")
        lab.load(config)
        if weights is not None and len(weights) != len(lab.functions):
            raise CommandError(
                f"--weights gives {len(weights)} weights for {len(lab.functions)} reward functions"
            )
        dataset, note = _dataset(lab, config, parsed)
        samples, left_out = _samples(lab, config, parsed, dataset)
        samples = _tagged(samples, parsed.tag)
        options = ScoreOptions(weights=weights, gold=not parsed.once, repeat=not parsed.once, tell=told)
        found = report(lab, samples, dataset, options)
    show_progress("")
    data = dataset.notes if dataset is not None else ()
    notes = [told for told in (*data, note, left_out) if told]
    if parsed.json:
        body = found.to_json()
        print_json({**body, "notes": [*body["notes"], *notes]})
    else:
        for line in report_lines(found, terminal_width()):
            print(line)
        for note in notes:
            print(f"note: {one_line(note)}")
    return FAILED if found.failed else OK


def wanted_config(sources: Sequence[str], overrides: Sequence[str], run: Path | None) -> RunConfig:
    """Return the config that the arguments name: a YAML file, a run folder, or functions alone."""
    files = [word for word in sources if word.endswith((".yaml", ".yml")) or Path(word).is_dir()]
    if not sources:
        if run is None:
            raise CommandError("name a config, a reward function (file.py:function), or a run with --run")
        return _config_of_run(run, overrides)
    if not files:
        return _of_functions(sources, overrides)
    if len(sources) > 1:
        raise CommandError(f"{files[0]} is a config with rewards of its own. Name only the config")
    if Path(sources[0]).is_dir() and (Path(sources[0]) / "run.json").exists():
        return _config_of_run(Path(sources[0]), overrides)
    if Path(sources[0]).is_dir():
        return _of_functions(sources, overrides)  # a folder with a reward model
    with reported(ConfigError):
        config = load_config(sources[0], overrides, world_size=None)
    for finding in config.findings:
        if finding.severity == "warning":
            print(f"grpo-tui: {describe(finding, config.path)}", file=sys.stderr)
    return config


def _of_functions(sources: Sequence[str], overrides: Sequence[str]) -> RunConfig:
    if overrides:
        raise CommandError("--set changes a config, and only functions are named")
    return config_of_functions(sources)


def _config_of_run(run: Path, overrides: Sequence[str]) -> RunConfig:
    folder = readable_folder(run)
    if log_source(run) is not None:
        raise CommandError(
            f"{run}: logs of completions do not name their rewards. Name them: file.py:function"
        )
    try:
        saved = saved_run(folder)[2]
    except CommandError as error:
        raise CommandError(f"{error}\nOr name the rewards: file.py:function") from error
    config = overridden(saved, overrides)
    # Weights given with `--set` take precedence over those that were set while the run trained.
    return weighed_as_now(config, folder) if each_source(config) == each_source(saved) else config


def _require_samples(config: RunConfig, parsed: Any) -> None:
    if parsed.samples is not None and not parsed.samples.is_file():
        raise CommandError(f"{parsed.samples}: no such file")
    if parsed.run is None and (parsed.where is not None or parsed.step is not None):
        raise CommandError("--where and --step choose completions of a run. Add --run RUN")
    if config.model:
        return
    if parsed.rows:
        raise CommandError("--rows uses the dataset of a config. Name a config instead of functions")
    if parsed.samples is None and parsed.run is None:
        raise CommandError("nothing to score. Give --samples FILE or --run RUN")


def _dataset(lab: Lab, config: RunConfig, parsed: Any) -> tuple[Dataset | None, str]:
    """Return the first rows of the config's dataset, or None and why they cannot be read.

    Raises LabError if `--rows` needs them.
    """
    try:
        return dataset_rows(lab, config, parsed.rows or 0), ""
    except LabError as error:
        if parsed.rows or not (parsed.samples or parsed.run):
            raise
        lab.load(config)  # the child may have exited
        return (
            None,
            f"the dataset could not be read, so columns and reference answers come from the samples: {error}",
        )


def _samples(lab: Lab, config: RunConfig, parsed: Any, dataset: Dataset | None) -> tuple[list[Sample], str]:
    """Return the samples, and a sentence about omitted ones."""
    if parsed.samples is not None:
        return samples_from(lab, config, dataset, Origin("file", file=parsed.samples)), ""
    if parsed.run is None:
        return samples_from(lab, config, dataset, Origin("gold", parsed.rows or 4)), ""
    run, left_out = readable_folder(parsed.run), ""
    if parsed.where is not None:
        found, groups = found_samples(run, parsed.where)
        if groups > MOST_FOUND_GROUPS:
            left_out = f"{groups:,} groups match; the newest {MOST_FOUND_GROUPS} were scored"
    else:
        found = run_samples(run, parsed.step)
    return joined(lab, config, dataset, found), left_out


def _tagged(samples: list[Sample], tag: str | None) -> list[Sample]:
    if tag is None:
        return samples
    wanted = tag.removeprefix("#")
    found = [sample for sample in samples if wanted in sample.tags]
    if not found:
        known = ", ".join(sorted({one for sample in samples for one in sample.tags})) or "none"
        raise SampleError(f"no sample has the tag {one_line(wanted, 40)}. Tags: {known}")
    return found


def weights_of(text: str | None) -> list[float] | None:
    """Parse `--weights 2,0.5,1`, None when not given."""
    if text is None:
        return None
    try:
        weights = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        weights = []
    if not weights or not all(math.isfinite(weight) for weight in weights):
        raise CommandError(f"--weights {text!r}: give numbers, such as --weights 2,0.5,1")
    return weights


def told(function: str, what: str) -> None:
    """Show progress on a terminal."""
    show_progress(f"{function}: {what}" if function else what)


WIDEST = 14
"""Maximum width of a function's name above its column."""
LEAST_TEXT = 20
MOST_GROUPS = 40


def report_lines(found: Report, width: int) -> Iterator[str]:
    """Return the report as lines of at most `width` cells."""
    functions = found.scored.functions
    names = [one_line(f.info.name, WIDEST) for f in functions]
    cells = [max(len(name), 7) for name in names]
    for group in found.aggregate.groups[:MOST_GROUPS]:
        yield from _group(found, group, names, cells, width)
        yield ""
    left = len(found.aggregate.groups) - MOST_GROUPS
    if left > 0:
        yield f"… {left} more groups; --json prints all"
        yield ""
    yield from _functions(found)
    yield ""
    yield from finding_lines(found.findings, width)


def _group(
    found: Report, group: GroupScore, names: Sequence[str], cells: Sequence[int], width: int
) -> Iterator[str]:
    samples = found.scored.samples
    words = {i: one_line(sample_words(samples[i]), WIDEST) for i in group.indices}
    kind_w = max(5, *map(len, words.values())) if any(sample_words(s) for s in samples) else 0
    spread = f"mean {compact(group.mean)}  std {compact(group.std)}"
    totals = [found.aggregate.totals[i] for i in group.indices]
    taught = len(totals) == 1 or signal_of(totals, group.advantages) == "some"
    flat = "" if taught else "  zero std: nothing to learn"
    prompt = one_line(
        prompt_text(samples[group.indices[0]].prompt), max(LEAST_TEXT, width - len(spread) - len(flat) - 3)
    )
    yield f"{prompt}   {spread}{flat}"
    head = "".join(f"  {name:>{cell}}" for name, cell in zip(names, cells, strict=True))
    kind_head = f"  {'kind':{kind_w}}" if kind_w else ""
    yield f"{'#':>5}{kind_head}{head}    total  advantage  completion"
    for index, advantage in zip(group.indices, group.advantages, strict=True):
        scores = "".join(
            f"  {_score(f, index):>{cell}}" for f, cell in zip(found.scored.functions, cells, strict=True)
        )
        kind = f"  {words[index]:{kind_w}}" if kind_w else ""
        total = compact(found.aggregate.totals[index])
        row = f"{index + 1:>5}{kind}{scores}  {total:>7}  {fixed(advantage):>9}  "
        yield row + one_line(samples[index].text, max(LEAST_TEXT, width - len(row)))


def _score(result: FunctionScore, index: int) -> str:
    if result.failure is not None:
        return "failed"
    score = result.scores[index]
    return "none" if score is None else compact(score)


def _functions(found: Report) -> Iterator[str]:
    names = [one_line(f.info.name, 24) for f in found.scored.functions]
    widest = max(map(cell_len, names), default=8)
    yield f"{'function':{widest}}   weight  scored    share     time"
    for position, result in enumerate(found.scored.functions):
        share = found.shares[position]
        row = (
            f"{filled(names[position], widest)}  {found.weights[position]:>7g}  "
            f"{percent(result.coverage):>6}  {MISSING if share is None else percent(share):>7}  "
            f"{_seconds(result.seconds):>7}"
        )
        if result.failure is not None:
            row += f"  {one_line(result.failure.text, 160)}"
        yield row.rstrip()
        for line in result.output.strip().splitlines()[-3:]:
            yield f"{'':{widest}}  printed: {one_line(line, 120)}"


def finding_lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """Return findings as lines, with severity at the front and id at the end."""
    if not findings:
        yield "no findings"
        return
    for finding in findings:
        head = f"{finding.severity:7}  "
        text = f"{one_line(finding.message)} [{finding.id}]"
        for number, row in enumerate(wrapped(text, max(width, 60) - len(head))):
            yield f"{'' if number else head:{len(head)}}{row}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else duration(seconds)
