"""`grpo-tui data`: show a config's rows as training sees them, or statistics of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import print_json, print_text, terminal_width
from grpo_tui.cli.score import told
from grpo_tui.cli.words import refuse_unused
from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.settings import Settings
from grpo_tui.core.findings import errors_of
from grpo_tui.core.text import one_line
from grpo_tui.preflight.checker import Checked, Checker, CheckerError
from grpo_tui.preflight.facts import RowView
from grpo_tui.preflight.rewards import GoldReward, gold_rewards
from grpo_tui.present.data_view import DataBlock, finding_row, row_blocks, statistics_blocks, summary
from grpo_tui.present.formatting import plural
from grpo_tui.present.reading import laid_out
from grpo_tui.rewards.consent import ConsentError, required
from grpo_tui.rewards.lab import DEFAULT_LIMIT_S, Lab, LabError

MOST_MATCHES = 20
"""Maximum number of matching row numbers to print."""
LABEL_W = 16


def data(parsed: Any) -> int:
    """`grpo-tui data CONFIG`. Exit 1 after an error, or when no row contains the text."""
    wants_row = parsed.row is not None or parsed.search is not None or parsed.random
    if not wants_row:
        refuse_unused(parsed, "without --row, --search or --random", "--no-rewards", "--timeout")
    elif parsed.no_rewards:
        refuse_unused(parsed, "with --no-rewards", "--timeout")
    with reported(ConfigError):
        config = load_config(parsed.config, parsed.overrides, world_size=None)
    try:
        with reported(CheckerError), Checker(progress=lambda what: told("", what)) as checker:
            return _row(checker, config, parsed) if wants_row else _figures(checker, config, parsed)
    finally:
        told("", "")


def _figures(checker: Checker, config: RunConfig, parsed: Any) -> int:
    required(config, "data", "model")  # without consent to read the rows there is nothing to report
    found = checker.check(config, settings=Settings.of_config(config, lines=True))
    facts = found.facts.data
    told("", "")
    if parsed.json:
        print_json(_facts_json(found))
    elif facts is None or not facts.source_columns:
        for finding in found.findings:
            _print_rows(DataBlock("", (), (finding_row(finding),)))
    else:
        _say("   ".join(one_line(text) for _, text, _ in summary(facts, found.findings)))
        _print_blocks(statistics_blocks(facts, found.findings))
    return FAILED if errors_of(found.findings) else OK


def _row(checker: Checker, config: RunConfig, parsed: Any) -> int:
    matches: tuple[int, ...] = ()
    if parsed.search is not None:
        matches = checker.holding(config, parsed.search)
        if not matches:
            raise CommandError(f"no row contains {one_line(parsed.search, 60)!r}", FAILED)
        view = checker.row(config, matches[0])
    elif parsed.random:
        view = checker.any_row(config)
    else:
        view = checker.row(config, parsed.row)
        if view.number != parsed.row:
            raise CommandError(
                f"--row {parsed.row}: the dataset has {plural(view.total or view.number, 'row')}"
            )
    golds, why = _golds(config, view, parsed)
    told("", "")
    if parsed.json:
        row = {**asdict(view), "rewards": [asdict(g) for g in golds or ()], "matches": list(matches)}
        print_json({"row": row, "note": why})
        return OK
    if parsed.search is not None:
        named = ", ".join(f"{number:,}" for number in matches[:MOST_MATCHES])
        more = f" and {len(matches) - MOST_MATCHES:,} more" if len(matches) > MOST_MATCHES else ""
        where = f" ({view.sampled})" if view.sampled else ""
        _say(f"{plural(len(matches), 'row')} contain it: {named}{more}{where}")
    elif view.sampled:
        _say(view.sampled)
    _print_blocks(row_blocks(view, golds, why))
    return OK


def _golds(config: RunConfig, view: RowView, parsed: Any) -> tuple[Sequence[GoldReward] | None, str]:
    if parsed.no_rewards:
        return None, "not asked for"
    if not view.answer_column or view.prompt is None:
        return (), ""
    try:
        with Lab(limit_s=parsed.timeout or DEFAULT_LIMIT_S) as lab:
            told("", "scoring the right answer")
            lab.load(config)
            return gold_rewards(lab, view), ""
    except (LabError, ConsentError) as error:
        return None, str(error)


def _facts_json(found: Checked) -> dict[str, Any]:
    facts = found.facts
    return {
        "data": asdict(facts.data) if facts.data is not None else None,
        "tokenizer": asdict(facts.tokenizer) if facts.tokenizer is not None else None,
        "findings": [finding.to_json() for finding in found.findings],
    }


def _print_blocks(blocks: Sequence[DataBlock]) -> None:
    for block in blocks:
        _say("")
        _say(one_line(" ── ".join((f"─ {block.title}", *block.notes))))
        _print_rows(block)


def _print_rows(block: DataBlock) -> None:
    labels = [one_line(row.label) for row in block.rows]
    wide = min(LABEL_W, max(map(len, labels), default=0))
    width = max(40, terminal_width())
    for label, row in zip(labels, block.rows, strict=True):
        indent = " " + " " * (wide + 2 if wide else 0)
        start = f" {one_line(label, wide):<{wide}}  " if wide else " "
        for line in laid_out([(row.text, "")], width - len(indent)):
            _say(start + "".join(text for text, _ in line))
            start = indent


def _say(line: str) -> None:
    print_text([line.rstrip()])
