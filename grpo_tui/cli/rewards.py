"""`grpo-tui rewards`, `baseline`, `probe` and `cases`: open the pane, measure, probe and test rewards.

Invalid arguments of `rewards` are reported before the screen opens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import has_screen, print_json, terminal_width
from grpo_tui.cli.score import finding_lines, told, wanted_config
from grpo_tui.cli.screen import show
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.baseline_text import heading, lines, progress
from grpo_tui.present.formatting import compact, plural
from grpo_tui.rewards.baseline import BaselineOptions, ask_baseline
from grpo_tui.rewards.cases import CaseFile, CaseFileError, Miss, judge_cases, read_cases
from grpo_tui.rewards.generating import Generated, GenerateError
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.probes import KindReport, ProbeReport, described, looks_at, probe
from grpo_tui.rewards.right_answers import JudgeError
from grpo_tui.rewards.sample_sources import dataset_rows, rows_with_gold
from grpo_tui.rewards.samples import SampleError, save_jsonl


def rewards(parsed: Any) -> int:
    """`grpo-tui rewards CONFIG_OR_FUNC…`."""
    config = wanted_config(parsed.sources, parsed.overrides, None)
    samples: Path | None = parsed.samples
    if samples is not None and not samples.is_file():
        raise CommandError(f"{samples}: no such file")
    if not config.reward_count:
        raise CommandError(
            f"{parsed.sources[0]} names no reward. Add reward_funcs, or rewards in the section grpo_tui:"
        )
    if not has_screen("`grpo-tui score`"):
        words = " ".join(shell_word(word) for word in parsed.sources)
        source = f" --samples {shell_word(samples)}" if samples is not None else ""
        raise CommandError(f"the pane needs a terminal. Use `grpo-tui score {words}{source}` instead")
    from grpo_tui.rewards.sample_sources import Origin
    from grpo_tui.ui.requests import RewardsRequest

    origin = Origin("file", file=samples) if samples is not None else None
    overrides = tuple(parsed.overrides)
    request = RewardsRequest(
        _title(parsed.sources), lambda: config, origin, file=config.path, overrides=overrides
    )
    return show(None, rewards=request)


def _title(sources: list[str]) -> str:
    names = [one_line(source.rstrip("/").rpartition("/")[2], 40) for source in sources]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def baseline(parsed: Any) -> int:
    """`grpo-tui baseline CONFIG`. Exit 1 when training could not succeed."""
    config = wanted_config([str(parsed.config)], parsed.overrides, None)
    if not config.model:
        raise CommandError(f"{parsed.config} does not name a model. Give a config or a run folder")
    if parsed.save is not None and not (folder := parsed.save.absolute().parent).is_dir():
        raise CommandError(f"--save {parsed.save}: the folder {folder} does not exist")
    options = BaselineOptions(parsed.rows, parsed.group, parsed.seed, parsed.held, parsed.correct)
    try:
        with reported(LabError, GenerateError, JudgeError), Lab(limit_s=parsed.timeout) as lab:
            told("", "loading torch…")
            _load(lab, config)
            found, generated = ask_baseline(lab, config, options, lambda now: told("", progress(now)))
    finally:
        told("", "")
    _save(generated, parsed.save)
    if parsed.json:
        print_json(found.to_json())
    else:
        width = terminal_width()
        report = [*heading(found, width), "", *lines(found, generated, width), ""]
        for line in (*report, *finding_lines(found.findings, width)):
            print(line)
        if parsed.save is not None:
            words = f"grpo-tui score {shell_word(parsed.config)} --samples {shell_word(parsed.save)}"
            print(f"\n{plural(len(generated.samples), 'completion')} saved; {words}")
    return FAILED if any(finding.severity == "error" for finding in found.findings) else OK


def _load(lab: Lab, config: RunConfig) -> None:
    """Load the rewards, and report errors in them before minutes are spent on the model."""
    for function in lab.load(config):
        if function.failure is not None:
            raise CommandError(f"the reward {function.name} cannot be loaded: {function.failure.text}")


def _save(generated: Generated, path: Path | None) -> None:
    if path is None:
        return
    try:
        save_jsonl(generated.samples, path)
    except OSError as error:
        raise CommandError(f"--save {path}: {error.strerror}") from error


HEADINGS = {"fooled": "accepts by mistake", "unfair": "rejects by mistake"}


def probe_rewards(parsed: Any) -> int:
    """`grpo-tui probe CONFIG_OR_FUNC…`. Exit 1 when a function is fooled, unfair, or fails."""
    config = wanted_config(parsed.sources, parsed.overrides, None)
    with reported(LabError, SampleError), Lab(limit_s=parsed.timeout) as lab:
        told("", "loading torch…")
        lab.load(config)
        dataset = dataset_rows(lab, config, parsed.rows)
        rows, column = rows_with_gold(lab, config, dataset, parsed.rows)
        found = probe(lab, rows, column, made_up=dataset is None, tell=told)
    told("", "")
    if parsed.json:
        print_json(found.to_json())
    else:
        for line in probe_lines(found, show=parsed.show):
            print(line)
    return FAILED if found.failed or found.kinds else OK


def probe_lines(found: ProbeReport, *, show: bool = False) -> Iterator[str]:
    """Return the report as lines, with the completions if `show`."""
    where = "built-in questions" if found.made_up else "rows of the dataset"
    yield f"{found.probes} completions for {found.rows} {where}; answers {_form(found)}"
    for function in found.functions:
        name = one_line(function.info.name, 40)
        if function.failure is not None:
            yield f"\n{name}: failed: {one_line(function.failure.text)}"
            continue
        yield from _function(name, found, function.info.name, show)
    if any(kind.function == "total" for kind in found.kinds):
        yield from _function("the weighted total", found, "total", show)


def _function(title: str, found: ProbeReport, name: str, show: bool) -> Iterator[str]:
    kinds = [kind for kind in found.kinds if kind.function == name]
    aspect = found.aspects.get(name)
    sound = not kinds and bool(looks_at(aspect))
    yield f"\n{title}: {described(aspect)}{'; no probe fooled it' if sound else ''}"
    for fault, words in HEADINGS.items():
        mine = [kind for kind in kinds if kind.fault == fault]
        if mine:
            yield f"  {words}"
        for kind in mine:
            yield from _kind(kind, show)


def _kind(kind: KindReport, show: bool) -> Iterator[str]:
    example = kind.example
    yield (
        f"    {kind.kind:28} {kind.rows} of {plural(kind.of, 'row')}   {compact(example.score):>6} of "
        f"{compact(example.right)}   {example.why}"
    )
    if show:
        yield f"      {one_line(example.text, 200)}"


def _form(found: ProbeReport) -> str:
    form = found.form
    inner = {
        "tags": f"as <{form.answer}>…</{form.answer}>",
        "boxed": "in \\boxed{}",
        "hashes": "after ####",
        "plain": "as a sentence",
    }[form.style]
    think = f" after <{form.think}>…</{form.think}>" if form.think else ""
    return inner + think


def run_cases(parsed: Any) -> int:
    """`grpo-tui cases run FILE…`."""
    missed = 0
    outcomes = []
    for path in parsed.files:
        file, misses, errors = _run(path, parsed)
        missed += len({miss.case for miss in misses}) + len(errors)
        outcomes.append((file, misses, errors))
    told("", "")
    if parsed.json:
        files = [
            {
                "file": str(file.path),
                "cases": len(file.cases),
                "misses": [*map(asdict, misses)],
                "errors": errors,
            }
            for file, misses, errors in outcomes
        ]
        print_json({"ok": not missed, "files": files})
    else:
        for outcome in outcomes:
            _print(*outcome)
    return FAILED if missed else OK


def _run(path: Path, parsed: Any) -> tuple[CaseFile, list[Miss], list[str]]:
    try:
        file = read_cases(path)
        sources = list(parsed.rewards) or list(file.rewards)
        if not sources:
            raise CommandError(
                f"{path}: the file does not say which rewards to test. Add `rewards:` to it, or give "
                "--rewards"
            )
        config = wanted_config(sources, (), None)
        if not parsed.rewards and config.origin is None:
            config = replace(config, origin=path.absolute())
        with Lab(limit_s=parsed.timeout) as lab:
            told("", "loading torch…")
            lab.load(config)
            scored = lab.score([case.sample for case in file.cases], tell=told, repeat_limit_s=0.0)
            errors = [
                f"{one_line(function.info.name, 40)}: {one_line(function.failure.text)}"
                for function in scored.functions
                if function.failure is not None
            ]
            if errors:
                return file, [], errors
            totals = lab.aggregate(scored).totals
        given = {function.info.name: function.scores for function in scored.functions}
        return file, judge_cases(file, given, totals), []
    except (CaseFileError, LabError) as error:
        raise CommandError(str(error)) from error


def _print(file: CaseFile, misses: Sequence[Miss], errors: Sequence[str]) -> None:
    failed = {miss.case for miss in misses}
    for case in file.cases:
        if errors:
            break
        print(f"{'FAIL' if case.name in failed else 'ok  '}  {one_line(case.name, 70)}")
        for miss in (miss for miss in misses if miss.case == case.name):
            place = f"{file.path}:{miss.line}" if miss.line else str(file.path)
            print(f"      {place}: {one_line(miss.function, 40)} expected {miss.wanted}, got {miss.got}")
    for error in errors:
        print(f"FAIL  {error}")
    held = len(file.cases) - len(failed)
    outcome = "none could be scored" if errors else f"{held} passed, {len(failed)} failed"
    print(f"{file.path}: {plural(len(file.cases), 'case')}, {outcome}")
