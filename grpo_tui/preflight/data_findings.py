"""Findings `data.…` from the facts of the data, with row numbers in their messages."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.meant import nearest
from grpo_tui.config.settings import Change, Settings
from grpo_tui.core.findings import SEVERITIES, Finding
from grpo_tui.core.text import one_line
from grpo_tui.data.mapping import likely_prompt
from grpo_tui.preflight.facts import ColumnFacts, DataFacts, ModelFacts, first_rows
from grpo_tui.present.formatting import percent, plural, size
from grpo_tui.rewards.answer_format import gold_column

MOST_SHARE_OF_ONE = 0.5
"""If more rows than this have the same answer, a model that always gives it looks good."""
LEAST_ROWS_TO_JUDGE = 20
MOST_SHARE_MISSING = 0.25
"""If more values than this are missing, the column is probably optional."""
MOST_HELD_OUT = 32
"""Most rows to suggest for a hold-out. More take time at every evaluation."""
MOST_NAMES = 10
_RULES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Rules for column names, and for the kinds of `DataFacts.odd`."""
_STEP = 64
"""Suggested lengths are multiples of this."""


def data_findings(facts: DataFacts, model: ModelFacts | None, s: Settings) -> list[Finding]:
    """Return findings on the rows.

    Args:
        model: used for its context length. None while unknown.
    """
    if not facts.source_columns:
        return [_unreadable(facts, s)]
    found = list(misnamed_columns(facts, s)) or list(_columns(facts, s))
    if facts.problem and not found:
        found.append(_unusable(facts, s))
    if any(finding.severity == "error" for finding in found):
        return found
    found += _rows(facts, s)
    found += prompt_findings(facts, s)
    found += evaluation_findings(facts, s)
    found += _counts(facts, s)
    found += _answers(facts, s)
    found += _lengths(facts, model, s)
    if facts.sampled:
        message = f"{facts.short}: looked at {facts.sampled}; what is said of rows is said of those"
        found.append(s.info("data.sampled", s.data_key, message))
    return found


def _unusable(facts: DataFacts, s: Settings) -> Finding:
    total = facts.total or 0
    if facts.problem.startswith("eval_strategy is ") and total > 1:
        fix = ("grpo_tui.holdout", max(1, min(MOST_HELD_OUT, total // 10)))
        return s.error("data.unusable", "eval_strategy", facts.problem, fix)
    return s.error("data.unusable", s.data_key, facts.problem)


def _unreadable(facts: DataFacts, s: Settings) -> Finding:
    place = facts.where.place if facts.where is not None else ""
    rule = f"data.{place}" if place in ("missing", "gated", "unreachable") else "data.unreadable"
    hint = f". Fetch it where there is a network: hf download --repo-type dataset {facts.origin}"
    return s.error(rule, s.data_key, facts.problem + (hint if place == "unreachable" else ""))


def _columns(facts: DataFacts, s: Settings) -> Iterator[Finding]:
    section, names = s.section, facts.source_columns
    has_prompt = "prompt" in names or "prompt" in section.columns
    if facts.preference:
        message = f"{facts.short} holds preference pairs (chosen, rejected), which DPO trains on; GRPO " + (
            "reads the prompt alone and generates the answers" if has_prompt else "needs a column prompt"
        )
        yield (s.warning if has_prompt else s.error)("data.preference-pairs", s.data_key, message)
    elif not has_prompt:
        separated = _separated(names)
        near = likely_prompt(names) if not separated else None
        message = f"{facts.short} has no column prompt, which GRPO reads; it has {_some(names)}{separated}"
        message += _first_values(facts, near) if near is not None else _shape(facts)
        fix = ("grpo_tui.columns.prompt", near) if near is not None else None
        yield s.error("data.no-prompt", s.data_key, message, fix)
    for name in names:
        if name.endswith(".1") and name[:-2] in names:
            message = f"the header of {facts.short} names {name[:-2]} twice; the second one is read as {name}"
            yield s.warning("data.header-twice", s.data_key, message)
    after = [name for name in names if name not in section.columns.values()] + list(section.columns)
    for row in _RULES["columns"]:
        for name in row["names"]:
            if name in after:
                message = row["says"].format(short=facts.short, name=name)
                yield _of_row(s, row, message, _renamed(name))


def _of_row(s: Settings, row: Mapping[str, Any], message: str, *fix: Change) -> Finding:
    severity = next(each for each in SEVERITIES if each in row)
    return s.finding(row[severity], severity, s.data_key, message, *fix)


def _renamed(name: str) -> Change:
    """Return a fix that gives a column a name without a meaning in TRL."""
    return (f"grpo_tui.columns.my_{name}", name)


def image_findings(facts: DataFacts, s: Settings, *, sees_images: bool) -> Iterator[Finding]:
    """Check the columns `image` and `images`, which GRPOTrainer puts into the prompts, against the model."""
    for name in ("images", "image"):
        column = facts.column(name)
        if column is None or (name == "images" and column.empties == facts.looked_at):
            continue  # TRL ignores empty lists of images
        if column.nulls == facts.looked_at:
            message = (
                f"{facts.short}: the column {name} is empty (null) in every row, and GRPOTrainer reads a "
                "column of that name as images: it stops in the first step. Remove or rename the column"
            )
        elif not sees_images:
            message = (
                f"{facts.short} has a column {name}, which GRPOTrainer puts into the prompts, and this model "
                "reads text only: it stops in the first step. Name a vision-language model, or rename the "
                "column"
            )
        elif facts.form == "text":
            message = (
                f"{facts.short} has a column {name}, and its prompts are plain texts. TRL needs messages "
            )
            message += "beside images and stops in the first step"
            yield s.error("data.images", s.data_key, message, ("grpo_tui.chat", True))
            return
        else:
            return
        yield s.error("data.images", s.data_key, message, _renamed(name))


def _first_values(facts: DataFacts, name: str) -> str:
    column = facts.column(name)
    shown = [text for text in column.first if text] if column is not None else []
    return f". {name} begins with {' · '.join(shown)}" if shown else ""


def _shape(facts: DataFacts) -> str:
    """Explain a file without a prompt: one object around the rows, or rows without a header."""
    names, column = facts.source_columns, facts.columns[0] if facts.columns else None
    one = column.kinds[0].kind if facts.looked_at == len(names) == 1 and column and column.kinds else ""
    if one in ("list", "messages"):
        return f". The rows stand inside {names[0]}: the file must be that list itself"
    if any(not name[:1].isalpha() or len(name.split()) > 2 for name in names):
        return ". Does its first line name the columns?"
    return ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _separated(names: Sequence[str]) -> str:
    """Explain a file that was read as one column because of its separators."""
    sign = next((sign for sign in ";|\t" if len(names) == 1 and sign in names[0]), "")
    told = {";": "semicolons", "|": "bars", "\t": "tabs"}
    return f". Its columns are separated by {told[sign]}: a .csv wants commas, a .tsv tabs" if sign else ""


def _rows(facts: DataFacts, s: Settings) -> Iterator[Finding]:
    for bad in facts.bad:
        if bad.what == "hold-out":
            fix = _smaller_hold_out(facts, s)
            yield s.error("data.hold-out", "grpo_tui.holdout", bad.reason, fix)
            continue
        if bad.what.startswith("filters"):
            yield s.error("data.filter-file", f"grpo_tui.{bad.what}", bad.reason)
            continue
        all_bad = bad.count >= facts.looked_at
        where = first_rows(bad.rows, bad.count)
        if bad.what == "prompt":
            empty = bad.reason.startswith("is ")
            message = f"{facts.short}, {where}: the prompt {bad.reason}; training stops at such a row"
            fix = leaving_out(facts, "prompt") if empty and not all_bad else None
            yield s.error("data.bad-prompt", s.data_key, message, fix)
        else:
            source = s.section.answer.source if s.section.answer else "answer"
            message = (
                f"{facts.short}, {where}: no answer of the kind {bad.reason} in the column {source} "
                f"({bad.count:,} of {facts.looked_at:,} rows)"
            )
            drop = ("grpo_tui.answer", None) if all_bad else leaving_out(facts, source)
            yield s.error("data.bad-answer", "grpo_tui.answer", message, drop)
    if facts.form == "mixed":
        column = facts.column("prompt")
        rare = column.kinds[-1] if column is not None and len(column.kinds) > 1 else None
        where = f" ({rare.kind} in {first_rows(rare.rows, rare.count)})" if rare is not None else ""
        message = (
            f"{facts.short} has texts and lists of messages as prompts{where}: TRL takes all of a batch for "
            "what its first prompt is"
        )
        yield s.error("data.mixed-form", s.data_key, message, ("grpo_tui.chat", True))
    filtered = s.section.filters.drop_null
    for column in facts.columns:
        if column.name == "prompt":
            continue
        yield from _as_read(facts, column, s)
        if len(column.kinds) > 1:
            yield s.warning("data.mixed-types", s.data_key, _kinds(facts, column))
        if column.nulls and column.name != facts.answer_column and not filtered:
            message = (
                f"{facts.short}: the column {column.name} is empty (null) in "
                f"{first_rows(column.null_rows, column.nulls)}; rewards get None there"
            )
            seldom = column.nulls <= MOST_SHARE_MISSING * facts.looked_at
            fix = leaving_out(facts, column.name) if seldom else None
            told = s.warning if seldom else s.info  # often empty: probably optional
            yield told("data.nulls", s.data_key, message, fix)
        elif column.empties and column.name != facts.answer_column and not filtered:
            rows = first_rows(column.empty_rows, column.empties)
            message = f"{facts.short}: the column {column.name} is blank in {rows}"
            yield s.info("data.empties", s.data_key, message)


def _as_read(facts: DataFacts, column: ColumnFacts, s: Settings) -> Iterator[Finding]:
    """Report values that reading the file has changed, and dates."""
    if column.otherwise and column.name == facts.answer_column:
        row, cell, value = column.otherwise[0]
        rows = first_rows([number for number, _, _ in column.otherwise], column.otherwise_count)
        message = (
            f"{facts.short}: the column {column.name} is not read as the file has it in {rows}: "
            f"row {row:,} says {cell} and is read as {value}. Write the file as JSON Lines, with that value "
            f'in quotes: {{"{column.name}": "{cell}"}}'
        )
        yield s.warning("data.read-otherwise", s.data_key, message)
    dates = next((k for k in column.kinds if k.kind in ("datetime", "date", "time", "timedelta")), None)
    if dates is not None:
        message = (
            f"{facts.short}: the column {column.name} holds dates in {first_rows(dates.rows, dates.count)}. "
            f"They reach rewards as Python's {dates.kind} objects and not as text. Take "
            "str(…) of them in the reward"
        )
        yield s.warning("data.dates", s.data_key, message)


def _kinds(facts: DataFacts, column: ColumnFacts) -> str:
    common, *others = column.kinds
    rest = ", ".join(f"a {kind.kind} in {first_rows(kind.rows, kind.count)}" for kind in others)
    return (
        f"{facts.short}: the column {column.name} holds {common.kind} in {plural(common.count, 'row')}, and "
        f"{rest}; write all of them alike, for reading the file can change them"
    )


def _counts(facts: DataFacts, s: Settings) -> Iterator[Finding]:
    for one in facts.filters:
        if one.drops:
            message = (
                f"{facts.short}: grpo_tui.filters.{one.name} leaves out {first_rows(one.rows, one.drops)} "
                f"({one.drops:,} of {facts.looked_at:,})"
            )
            yield s.info("data.filtered", f"grpo_tui.filters.{one.name}", message)
    at_once = _prompts_at_once(s)
    if facts.train_rows is not None and at_once is not None and facts.train_rows < at_once:
        held = f" ({facts.held} more are held out)" if facts.held else ""
        message = (
            f"{facts.short} leaves {plural(facts.train_rows, 'row')} to train on{held}, and one generation "
            f"takes {plural(at_once, 'prompt')}: TRL would end at once with 0 steps"
        )
        fix = _enough_for_a_step(facts, s, at_once)
        yield s.error("data.smaller-than-batch", s.data_key, message, fix)
    if facts.duplicates:
        share = facts.duplicates / max(1, facts.looked_at)
        message = (
            f"{facts.short}: {plural(facts.duplicates, 'row')} ({percent(share)}) have the prompt of an "
            f"earlier row: {first_rows(facts.duplicate_rows, facts.duplicates)}"
        )
        told, fix = s.warning if share >= 0.05 else s.info, ("grpo_tui.filters.drop_duplicates", True)
        yield told("data.duplicates", s.data_key, message, fix)
    if facts.overlap:
        key = "grpo_tui.eval_dataset" if s.section.eval_dataset else "dataset_test_split"
        message = (
            f"{facts.overlap:,} of {facts.eval_rows:,} evaluation rows are also in the training data: "
            f"{first_rows(facts.overlap_rows, facts.overlap)}. The evaluation would be too optimistic"
        )
        yield s.warning("data.overlap", key, message)
    where = facts.where
    if where is not None and where.place == "hub" and where.download_bytes:
        message = f"{where.name} is not on this machine; the start fetches {size(where.download_bytes)} first"
        if where.free_bytes is not None and where.download_bytes > where.free_bytes:
            message += f", and {size(where.free_bytes)} are free in the cache"
            yield s.error("data.disk", s.data_key, message)
        else:
            yield s.info("data.download", s.data_key, message)


def _prompts_at_once(s: Settings) -> int | None:
    """Return the prompts per generation batch, None while unknown. Fewer rows make no training step."""
    if s.world_size is None:
        return None
    return max(1, generation_batch_size(s.get, s.world_size) // int(s.get("num_generations") or 1))


def _smaller_hold_out(facts: DataFacts, s: Settings) -> Change | None:
    """Suggest a hold-out of at most a tenth of the rows that leaves a step to train on."""
    rows = (facts.total or 0) - sum(one.drops or 0 for one in facts.filters)
    left = rows - (_prompts_at_once(s) or 1)
    return ("grpo_tui.holdout", max(1, min(rows // 10, left))) if left > 0 else None


def _enough_for_a_step(facts: DataFacts, s: Settings, at_once: int) -> Change | None:
    """Suggest the smallest change that fills a generation batch: fewer held-out rows or a smaller batch."""
    rows, group = facts.train_rows or 0, int(s.get("num_generations") or 1)
    if rows + facts.held > at_once:
        return ("grpo_tui.holdout", rows + facts.held - at_once)
    if not rows:
        return None
    if s.get("generation_batch_size") is not None:
        return None  # the other sizes do not follow uniquely from it
    name = "per_device_train_batch_size"
    times = at_once * group // max(1, int(s.get(name) or 1))
    smaller = range(rows * group // max(1, times), 0, -1)
    return next(((name, fewer) for fewer in smaller if fewer * times % group == 0), None)


def _answers(facts: DataFacts, s: Settings) -> Iterator[Finding]:
    column = facts.column(facts.answer_column) if facts.answer_column else None
    if column is None:
        if len(facts.columns) > 1:
            names = _some([c.name for c in facts.columns if c.name != "prompt"])
            message = f"no column is named like a right answer; those beside the prompt are {names}"
        else:
            message = f"{facts.short} has the prompt alone: rewards have no right answer to compare with"
        yield s.info("data.no-gold", s.data_key, message)
        return
    gone = column.nulls + column.empties
    if gone and not s.section.filters.drop_null:
        rows = sorted((*column.null_rows, *column.empty_rows))
        message = (
            f"{facts.short}: no right answer (column {column.name}) in {first_rows(rows, gone)}; no "
            "completion can be right there"
        )
        fix = leaving_out(facts, column.name)
        yield s.warning("data.gold-missing", s.data_key, message, fix)
    there = sum(kind.count for kind in column.kinds)
    if not column.top or there < LEAST_ROWS_TO_JUDGE:
        return
    text, count = column.top[0]
    if count / there > MOST_SHARE_OF_ONE:
        message = (
            f"{percent(count / there)} of the rows have the answer {one_line(text, 40)}: a model that always "
            "gives it is right as often without thinking"
        )
        yield s.warning("data.one-answer", s.data_key, message)


def _lengths(facts: DataFacts, model: ModelFacts | None, s: Settings) -> Iterator[Finding]:
    key = "max_completion_length"
    longest = int(s.get(key) or 0)
    context = model.context if model is not None else None
    use_vllm = bool(s.get("use_vllm"))
    if use_vllm and s.get("vllm_max_model_length"):
        context = min(context or 10**9, int(s.get("vllm_max_model_length")))
    prompts, gold = facts.prompt_tokens, facts.gold_tokens
    told = s.error if use_vllm else s.warning  # without vLLM, generation exceeds the context
    if context is not None and longest >= context:
        message = f"{key} {longest:,} leaves a prompt no room in the context of {context:,}"
        yield told("data.no-room", key, message)
    elif context is not None and prompts is not None and prompts.most > context - longest:
        room = context - longest
        count = prompts.over(room)
        rows = [row for row, tokens in prompts.longest if tokens > room]
        longer = "one prompt has" if count == 1 else f"{count:,} of {plural(prompts.count, 'prompt')} have"
        message = (
            f"{facts.short}: {longer} more than the {room:,} tokens that {key} {longest:,} leaves of the "
            f"context of {context:,}: {first_rows(rows, count)}, the longest {prompts.most:,}"
        )
        fix: Change | None = ("grpo_tui.filters.max_prompt_tokens", room)
        if 2 * count > prompts.count:  # dropping most rows is no solution
            shorter = context - prompts.most
            fix = (key, shorter) if shorter >= _STEP else None
        yield told("data.too-long", key, message, fix)
    if gold is not None and 0 < longest < gold.p99:
        advised = -(-gold.p99 // _STEP) * _STEP
        message = (
            f"the gold solutions have {gold.p50:,} tokens in the middle, and 99 of 100 have at most "
            f"{gold.p99:,}; max_completion_length {longest:,} would cut off "
            f"{percent(gold.over(longest) / gold.count)} of them"
        )
        taken = prompts.p50 if prompts is not None else 0
        fix = (key, advised) if context is None or advised + taken <= context else None
        yield s.warning("data.completion-length", key, message, fix)


# -- prompts ----------------------------------------------------------------------------------------

_DROP_NULL = "grpo_tui.filters.drop_null"


def leaving_out(facts: DataFacts, name: str) -> Change | None:
    """Suggest the filter for rows where a column is empty. None if no rows would be left.

    It names the column if others may be empty too, so that it does not remove more rows than intended.
    """
    known = {column.name: column.nulls + column.empties for column in facts.columns}
    if known.get(name, 0) >= facts.looked_at:
        return None
    others = any(count for other, count in known.items() if other not in (name, "prompt"))
    return (_DROP_NULL, [name] if others else True)


def prompt_findings(facts: DataFacts, s: Settings) -> Iterator[Finding]:
    """Report prompts that training accepts but that are probably a mistake."""
    answered = any(odd.what == "answered" for odd in facts.odd)
    for odd in facts.odd:
        row = _RULES["prompts"].get(odd.what)
        if row is None or (odd.what == "closed" and answered):
            continue
        what = row["says"].format(detail=odd.reason)
        yield _of_row(s, row, f"{facts.short}, {first_rows(odd.rows, odd.count)}: {what}")


# -- columns named by the section -------------------------------------------------------------------


def misnamed_columns(facts: DataFacts, s: Settings) -> Iterator[Finding]:
    """Check `grpo_tui.columns` and the column that the answer is extracted from."""
    section, names = s.section, facts.source_columns
    if not facts.problem:
        return
    have = f"{facts.short} has {', '.join(names[:10])}"
    missing = {wanted: source for wanted, source in section.columns.items() if source not in names}
    turned = {source: wanted for wanted, source in missing.items() if wanted in names}
    if "prompt" in turned and len(turned) == len(missing):
        message = (
            f"grpo_tui.columns is written the wrong way round: {have}, and it maps the wanted name "
            f"to the column, as {', '.join(f'{wanted}: {source}' for wanted, source in turned.items())}"
        )
        whole = {**{w: s for w, s in section.columns.items() if w not in missing}, **turned}
        yield s.error("data.unusable", "grpo_tui.columns", message, ("grpo_tui.columns", whole))
        return
    for wanted, source in missing.items():
        near = _near(source, names) or (likely_prompt(names) if wanted == "prompt" else None)
        key = f"grpo_tui.columns.{wanted}"
        message = f"grpo_tui.columns wants {wanted} from the column {source}, and {have}{_meant(near)}"
        yield s.error("data.unusable", key, message, (key, near) if near else None)
    spec = section.answer
    after = {*names, *section.columns}
    if missing or spec is None or spec.source in after:
        return
    near = _near(spec.source, names) or gold_column(list(names))
    message = f"grpo_tui.answer reads the column {spec.source}, and {have}{_meant(near)}"
    fix = None
    if near is not None:
        given = {"from": near, "kind": spec.kind, "to": spec.to, "tag": spec.tag, "pattern": spec.pattern}
        kept: dict[str, Any] = {k: v for k, v in given.items() if v not in (None, "answer") or k == "from"}
        fix = ("grpo_tui.answer", kept)
    yield s.error("data.unusable", "grpo_tui.answer", message, fix)


def _near(name: str, names: Sequence[str]) -> str | None:
    lower = {each.lower(): each for each in names}
    near = nearest(name, lower, cutoff=0.5)
    return lower[near] if near else None


def _meant(near: str | None) -> str:
    return f". Did you mean {near}?" if near else ""


# -- evaluation rows --------------------------------------------------------------------------------

ENDS = "the run ends at its first evaluation"


def evaluation_findings(facts: DataFacts, s: Settings) -> Iterator[Finding]:
    """Check the evaluation rows, if they are not a hold-out."""
    seen = facts.evaluation
    if seen is None:
        return
    own = s.section.eval_dataset is not None
    key = "grpo_tui.eval_dataset" if own else "dataset_test_split"
    name = seen.origin.rpartition("/")[2] if seen.origin.startswith("/") else seen.origin
    where = name if own else f"{name}, split {s.get('dataset_test_split')}"
    if seen.columns and seen.prompt_source not in seen.columns:
        message = (
            f"{where} has no column {seen.prompt_source}, which the prompt is read from; it has "
            f"{', '.join(seen.columns[:10])}: {ENDS}"
        )
        yield s.error("data.no-prompt", key, message)
        return
    if seen.problem:
        yield s.error("data.unusable", key, f"{seen.problem}; {ENDS}")
        return
    for bad in seen.bad:
        rows = first_rows(bad.rows, bad.count)
        what = f"the prompt {bad.reason}" if bad.what == "prompt" else f"no answer of the kind {bad.reason}"
        empty = bad.what == "answer" or bad.reason.startswith("is ")
        fix = leaving_out(facts, "prompt") if empty and bad.count < seen.rows else None
        rule = f"data.bad-{bad.what}"
        yield s.error(rule, key, f"{where}, {rows}: {what}; {ENDS}", fix)
    if facts.answer_column and facts.answer_column in seen.lacking:
        message = (
            f"{where} lacks the column {facts.answer_column}, which the rows to train on have: a reward that "
            f"compares with it has nothing there, and {ENDS} if it insists"
        )
        yield s.warning("data.eval-columns", key, message, ("eval_strategy", "no"))
