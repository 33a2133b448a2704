"""`grpo-tui probe`: how rewards can be fooled, and which correct answers they reject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, reported
from grpo_tui.cli.plain import print_json
from grpo_tui.cli.score import told, wanted_config
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import compact, plural
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.probes import KindReport, ProbeReport, looks_at, probe
from grpo_tui.rewards.sample_sources import dataset_rows, rows_with_gold
from grpo_tui.rewards.samples import SampleError

HEADINGS = {
    "fooled": "accepts by mistake",
    "unfair": "rejects by mistake",
}


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
        for line in lines(found, show=parsed.show):
            print(line)
    return FAILED if found.failed or found.kinds else OK


def lines(found: ProbeReport, *, show: bool = False) -> Iterator[str]:
    """Return the report as lines, with the completions if `show`."""
    where = "made-up questions" if found.made_up else "rows of the dataset"
    yield f"{found.probes} completions for {found.rows} {where}, written {_form(found)}"
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
    seen = looks_at(found.aspects.get(name))
    says = (
        f"looks at the {' and the '.join(seen)}"
        if seen
        else "gives correct, wrong and unformatted answers the same score"
    )
    yield f"\n{title}: {says}" + ("" if kinds else "; no probe fooled it" if seen else "")
    for fault, heading in HEADINGS.items():
        mine = [kind for kind in kinds if kind.fault == fault]
        if mine:
            yield f"  {heading}"
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
