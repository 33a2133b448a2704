"""Write the model card of a run in place of the one that TRL makes, and reports on several runs.

`run_blocks` is shared by both. The card adds the Hub's front matter and how to load the
model. It says nothing about what was not recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from grpo_tui.core.exchange import mapping
from grpo_tui.core.text import one_line, shorten
from grpo_tui.present.comparison_text import measured, sentence
from grpo_tui.present.document import Block, Chart, Code, Heading, Items, Paragraph, Table, markdown
from grpo_tui.present.formatting import MISSING, digits_apart, duration, fixed, setting
from grpo_tui.present.glyphs import spark
from grpo_tui.present.run_rewards import TOTAL, Reward
from grpo_tui.present.seed_sets import SeedRun, SeedSet, median_buckets, rows, sentences, sets_of
from grpo_tui.present.svg_chart import Curve
from grpo_tui.present.window_load import read_overlay
from grpo_tui.ship.policies import ADAPTER_CONFIG
from grpo_tui.ship.run_facts import RunFacts, at_home
from grpo_tui.store.json_file import read_regular
from grpo_tui.store.read_series import SeriesBucket

CARD = "README.md"
WIDTH = 110
LONG = 300
CURVE = 32
_ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration, RuntimeError)
"""Exceptions that a comparison result from elsewhere can raise."""
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_TRLS = ("This model is a fine-tuned version of", "It has been trained using [TRL](")
"""Sentences in TRL's own card."""
_LINE_OF_TRL = re.compile(
    r"#+ (Model Card for .*|Quick start|Training procedure|Framework versions|Citations)"
    rf"|({'|'.join(map(re.escape, _TRLS))}|This model was trained with |\[<img ).*"
    r"|- [\w.-]+:? \S+|Cite .+ as:|\s*"
)
"""A line of TRL's card outside its front matter and code."""
_FRONT_AND_CODE = re.compile(r"\A---\n.*?^---$|^```.*?^```$", re.DOTALL | re.MULTILINE)
_MARK = "<!-- written by grpo-tui card, sha256 of the text above: "
"""Begins the last line of a card that may be replaced as long as nobody has edited it."""


def card(facts: RunFacts, charts: Sequence[Chart] = ()) -> str:
    """Return the card with its front matter, showing the files of `charts`."""
    front = _front(facts)
    head = f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n" if front else ""
    drawn: list[Block] = [Heading("Charts", 2), *charts] if charts else []
    blocks: list[Block] = [Heading(_model_name(facts)), *run_blocks(facts, 2), *drawn, *_loading(facts)]
    return head + markdown(blocks)


def charts_of(facts: RunFacts, stem: str) -> tuple[Chart, ...]:
    """Return what the card charts if it was recorded: the total reward and the evaluations made in training.

    Args:
        stem: Begins the names of the files, as in `README-reward.svg`.
    """
    found = []
    total = next((one for one in facts.rewards if one.key == TOTAL and one.series.count > 1), None)
    if total is not None:
        curve = Curve(total.name, tuple(total.series.buckets))
        found.append(Chart("Total reward by step", (curve,), f"{stem}-reward.svg"))
    scored = facts.scored
    known = [(one.step, one.value) for one in scored.done if one.value is not None] if scored else []
    if scored is not None and len(known) > 1:
        points = tuple(SeriesBucket(at, at, 0, 0, value, value, value, 1, 1, value) for at, value in known)
        label = f"{scored.deciding} by step, evaluated on the same prompts"
        found.append(Chart(label, (Curve(scored.deciding, points),), f"{stem}-evaluation.svg"))
    return tuple(found)


def refusal(target: Path) -> str:
    """Return why the card may not be written to this file; empty when it may.

    Only the card that TRL writes when it saves the model is replaced, unless text was added to it, and one
    that is as `marked` left it.
    """
    if not os.path.lexists(target):
        return ""
    try:
        content = read_regular(target)
    except OSError as error:
        return f"{target} cannot be read: {error.strerror}"
    text = content.decode(errors="replace")
    if _is_trls(text) or marked(text.rpartition(f"\n{_MARK}")[0]) == text:
        return ""
    return (
        f"{target} is neither the card that TRL writes nor an unedited one of grpo-tui, and was left "
        "unchanged. Delete it first, or write another file with `grpo-tui card RUN -o FILE`"
    )


def _is_trls(text: str) -> bool:
    lines = _FRONT_AND_CODE.sub("", text).splitlines()
    return all(one in text for one in _TRLS) and all(map(_LINE_OF_TRL.fullmatch, lines))


def marked(text: str) -> str:
    """Return a card with a last line by which `refusal` knows that nobody has edited it."""
    return f"{text}\n{_MARK}{hashlib.sha256(text.encode()).hexdigest()} -->\n"


def run_blocks(facts: RunFacts, level: int) -> Iterator[Block]:
    """Yield what is known of a run, with headings of this level."""
    yield Paragraph(" ".join(_summary(facts)))
    parts = {
        "Evaluation": _evaluation(facts),
        "Rewards": _rewards(facts),
        "Data": _listed(_data(facts)),
        "Settings that differ from TRL's defaults": _table(("Setting", "Value"), facts.settings),
        "Settings changed during training": _changes(facts),
        "Findings": _listed(_findings(facts)),
        "Reproduction": _listed(_reproduction(facts)),
    }
    for title, blocks in parts.items():
        if found := list(blocks):
            yield Heading(title, level)
            yield from found


def state(facts: RunFacts) -> str:
    """Return a sentence on how far the run got."""
    status = facts.status
    if facts.imported:
        return f"Its log reaches step {status.step:,}."
    of = f" of {status.total_steps:,}" if status.total_steps else ""
    step = f"step {status.step:,}{of}"
    took = f" The run took {duration(facts.duration_s)}." if facts.duration_s else ""
    if status.live:
        return f"The run has not ended: it is {status.state} at {step}."
    ended = {"finished": "finished", "stopped": "was stopped", "failed": "failed", "crashed": "crashed"}
    return f"The run {ended.get(status.state, 'ended')} at {step}.{took}"


def compared(facts: RunFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the verdicts and the measures of the newest comparison, as lines; empty without one."""
    body = facts.comparison
    if body is None:
        return (), ()
    try:
        return tuple(sentence(body, one) for one in body["verdict"]), tuple(
            measured(body, WIDTH, worst=False)
        )
    except _ODD:
        return (), ()


def _listed(texts: Iterator[str]) -> Iterator[Block]:
    if found := tuple(texts):
        yield Items(found)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[Block]:
    if rows:
        yield Table(head, tuple(rows))


def _summary(facts: RunFacts) -> Iterator[str]:
    if facts.imported == "verl":
        yield "This model was trained with verl."
        yield state(facts)
        return
    model, data = at_home(str(facts.config.get("model") or "")), _dataset(facts)
    made = f"trained with GRPO{f' on {data}' if data else ''}, using TRL."
    if _is_adapter(facts):
        yield f"This LoRA adapter{f' for {model}' if model else ''} was {made}"
    else:
        yield f"This model is {model}, {made}" if model else f"This model was {made}"
    yield state(facts)


def _evaluation(facts: RunFacts) -> Iterator[Block]:
    told, lines = compared(facts)
    if told:
        yield from (Paragraph(f"{one[:1].upper()}{one[1:]}.") for one in told)
        yield Code(lines, "text")
        return
    if facts.evaluated:
        yield Paragraph(f"{facts.evaluated[:1].upper()}{facts.evaluated[1:]}.")
    head = ("Reward", "First", "Step", "Last", "Step")
    rows = [
        (one.name, *_between(_numbers(one.first, one.last), one.first_step, one.last_step))
        for one in facts.evaluations
    ]
    yield from _table(head, rows)


def _between(values: Sequence[str], first_step: int, last_step: int) -> tuple[str, str, str, str]:
    return values[0], f"{first_step:,}", values[1], f"{last_step:,}"


def _numbers(*values: float | None) -> list[str]:
    digits = digits_apart(values)
    return [fixed(value, digits) for value in values]


def _rewards(facts: RunFacts) -> Iterator[Block]:
    head = ("Reward", "Weight", "Start", "End", "Trend")
    rows = []
    for one in facts.rewards:
        weight = "" if one.weight is None else setting(one.weight)
        curve = spark([bucket.smooth for bucket in one.series.buckets], CURVE)
        rows.append((one.name, weight, *_numbers(one.start, one.end), curve))
    yield from _table(head, rows)
    if rows:
        steps = "step" if facts.averaged == 1 else f"{facts.averaged} steps"
        yield Paragraph(f"Batch means over the first and the last {steps} that were logged.")


def _dataset(facts: RunFacts) -> str:
    named = facts.part("script").get("dataset_name") or facts.part("section").get("dataset")
    return at_home(str(named)) if named else ""


def _data(facts: RunFacts) -> Iterator[str]:
    script, section = facts.part("script"), facts.part("section")
    if name := _dataset(facts):
        more = [str(script[key]) for key in ("dataset_config", "dataset_train_split") if script.get(key)]
        yield f"Dataset: {', '.join([name, *more])}"
    for one in facts.part("mixture").get("datasets") or ():
        yield f"Dataset: {at_home(str(mapping(one).get('path') or one))}"
    rows = facts.record.get("dataset_rows")
    if isinstance(rows, int):
        yield f"Training rows: {rows:,}"
    if section.get("holdout"):
        yield f"Held-out rows, never trained on: {setting(section['holdout'])}"
    filters = {key: value for key, value in mapping(section.get("filters")).items() if value}
    if filters:
        yield f"Filters: {', '.join(f'{key} {setting(value)}' for key, value in filters.items())}"
    if section.get("system_prompt"):
        yield f"System prompt: {shorten(one_line(str(section['system_prompt'])), LONG)}"
    if facts.record.get("dataset_fingerprint"):
        yield f"Fingerprint: {facts.record['dataset_fingerprint']}"


def _changes(facts: RunFacts) -> Iterator[Block]:
    rows = [
        (f"{one.step:,}", one.name, setting(one.old), setting(one.new), one.because) for one in facts.changes
    ]
    yield from _table(("Step", "Setting", "From", "To", "Because"), rows)


def _findings(facts: RunFacts) -> Iterator[str]:
    for one in facts.findings:
        ended = "" if one.open else ", ended"
        yield f"{one.finding.severity}, {one.steps}{ended}: {one.finding.message}"


def _reproduction(facts: RunFacts) -> Iterator[str]:
    record = facts.record
    seeds = [
        f"{key.replace('_', ' ')} {record[key]}"
        for key in ("seed", "data_seed")
        if record.get(key) is not None
    ]
    if seeds:
        yield ", ".join(seeds).capitalize()
    gpus = record.get("gpus")
    if isinstance(gpus, list):
        names = [str(mapping(gpu).get("name") or "GPU") for gpu in gpus]
        yield ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names)) or "CPU, no GPU"
    if isinstance(record.get("world_size"), int) and record["world_size"] > 1:
        yield f"{record['world_size']:,} training processes"
    packages = {"python": record.get("python"), **mapping(record.get("packages"))}
    versions = [f"{name} {version}" for name, version in packages.items() if version]
    if versions:
        yield f"Versions: {', '.join(versions)}"


def _front(facts: RunFacts) -> dict[str, Any]:
    model, data = str(facts.config.get("model") or ""), str(facts.part("script").get("dataset_name") or "")
    found: dict[str, Any] = {}
    if _on_hub(model, facts):
        found["base_model"] = model
    if _on_hub(data, facts):
        found["datasets"] = [data]
    if facts.imported == "verl":
        return found
    found["library_name"] = "peft" if _is_adapter(facts) else "transformers"
    found["tags"] = ["trl", "grpo"]
    return found


def _on_hub(name: str, facts: RunFacts) -> bool:
    """Return True for a repository id, False for a folder and anything else."""
    folder = Path(str(facts.config.get("cwd") or ".")) / name
    return _HUB_ID.fullmatch(name) is not None and not os.path.exists(folder)


def _is_adapter(facts: RunFacts) -> bool:
    return bool(facts.part("model_args").get("use_peft")) or os.path.isfile(facts.root / ADAPTER_CONFIG)


def _model_name(facts: RunFacts) -> str:
    hub = str(facts.part("grpo").get("hub_model_id") or "")
    return hub if _HUB_ID.fullmatch(hub) else facts.name


def _loading(facts: RunFacts) -> Iterator[Block]:
    if not facts.final:
        return
    yield Heading("Use", 2)
    if _is_adapter(facts):
        yield Paragraph("With peft installed, transformers loads the adapter on its base model:")
    longest = facts.part("grpo").get("max_completion_length")
    limit = f", max_new_tokens={longest}" if isinstance(longest, int) else ""
    prompt = '[{"role": "user", "content": "Your question"}]' if facts.chat else '"Your prompt"'
    name = json.dumps(_model_name(facts))
    yield Code(
        (
            "from transformers import pipeline",
            "",
            f'generator = pipeline("text-generation", model={name})',
            f"answers = generator({prompt}{limit}, return_full_text=False)",
            'print(answers[0]["generated_text"])',
        ),
        "python",
    )


def title(runs: Sequence[RunFacts]) -> str:
    """Return the title of the report."""
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


def report(runs: Sequence[RunFacts]) -> Iterator[Block]:
    """Yield the report."""
    yield Heading(title(runs))
    if len(runs) == 1:
        yield from run_blocks(runs[0], 2)
        yield from _charts(runs, sets_of([SeedRun(runs[0].root, runs[0].name)]))
        return
    facts = read_overlay([run.root for run in runs], [run.name for run in runs])
    yield from _seeds(facts.sets)
    yield Heading("Results", 2)
    yield Table(("", *(run.name for run in runs)), tuple(_results(runs)))
    if facts.settings:
        yield Heading("Settings that differ", 2)
        head = ("", *(one.label for one in facts.sets))
        yield Table(head, tuple((one.name, *map(at_home, one.values)) for one in facts.settings))
    yield from _charts(runs, facts.sets)
    for run in runs:
        yield Heading(run.name, 2)
        yield from run_blocks(run, 3)


def _seeds(sets: Sequence[SeedSet]) -> Iterator[Block]:
    """Yield what runs that differ only by seed show together; nothing if there are none."""
    said = sentences(sets)
    if not said:
        return
    yield Heading("Seeds", 2)
    yield Items(tuple(said))
    found = tuple(rows(sets))
    if found:
        last = ("Difference",) if len(sets) == 2 else ()
        yield Table(("Mean (lowest to highest)", *(one.label for one in sets), *last), found)
    for one in sets:
        left_out = [f"{run.name} ({run.state} at step {run.step:,})" for run in one.runs if not run.complete]
        if left_out:
            yield Paragraph(f"Not counted in {one.name}: {', '.join(left_out)}.")


def _results(runs: Sequence[RunFacts]) -> Iterator[tuple[str, ...]]:
    yield ("State", *(MISSING if run.imported else run.status.state for run in runs))
    yield ("Steps", *(f"{run.status.step:,}" for run in runs))
    yield ("Duration", *(duration(run.duration_s) for run in runs))
    for key, name in _reward_names(runs).items():
        yield (name, *(_ends(_reward(run, key)) for run in runs))
    verdicts = [" ".join(compared(run)[0]) or MISSING for run in runs]
    if any(verdict != MISSING for verdict in verdicts):
        yield ("Comparison", *verdicts)


def _reward_names(runs: Sequence[RunFacts]) -> dict[str, str]:
    found = {one.key: one.name for run in runs for one in run.rewards}
    return dict(sorted(found.items(), key=lambda one: one[0] != TOTAL))


def _reward(run: RunFacts, key: str) -> Reward | None:
    return next((one for one in run.rewards if one.key == key), None)


def _ends(reward: Reward | None) -> str:
    if reward is None:
        return MISSING
    digits = digits_apart([reward.start, reward.end])
    return f"{fixed(reward.start, digits)} → {fixed(reward.end, digits)}"


def _charts(runs: Sequence[RunFacts], sets: Sequence[SeedSet]) -> Iterator[Block]:
    facts = {run.root: run for run in runs}
    groups = [(one.label, [facts[run.root] for run in one.runs]) for one in sets]
    for key, name in _reward_names(runs).items():
        curves = []
        for label, members in groups:
            found = [one.series.buckets for run in members if (one := _reward(run, key)) and one.series.count]
            if found:
                curves.append(Curve(label, median_buckets(found) if len(found) > 1 else found[0]))
        if curves:
            yield Heading(f"Reward: {name}" if key != TOTAL else "Total reward", 2)
            yield Chart(name, tuple(curves))
    if any(len(members) > 1 for _, members in groups):
        yield Paragraph(
            "For several seeds, the line is the median and the band goes from the lowest to the highest run, "
            "each smoothed."
        )
