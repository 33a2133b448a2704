"""`grpo-tui whatif`: score recorded completions again with the current rewards or other weights."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_lines, terminal_width
from grpo_tui.cli.score import told, wanted_config, weights_of
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.text import one_line
from grpo_tui.present.what_if_lines import what_if_lines
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.rewards.what_if import what_if_of_run
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.query import QueryError
from grpo_tui.store.search import Search

SHOWN = 20
"""Default number of groups to print."""


def show_what_if(parsed: Any) -> int:
    """`grpo-tui whatif RUN [CONFIG_OR_FUNC…] [--where EXPR] [--weights W,W] [--recorded] [--json]`."""
    if parsed.json:
        refuse_unused(parsed, "with --json, which holds every group", "--limit")
    root = readable_folder(parsed.run)
    if parsed.recorded and parsed.sources:
        raise CommandError("--recorded uses the recorded scores, so it takes no other rewards")
    ours = (root / "run.json").exists()
    if parsed.recorded and not ours:
        if parsed.overrides:
            raise CommandError("--set changes a config, and logs of completions have none. Leave it out")
        config = config_of_functions(())  # logs of TRL and verl name no rewards, and none is called
    else:
        config = wanted_config(parsed.sources, parsed.overrides, parsed.run)
    weights = weights_of(parsed.weights)
    with closing(Search(RunFolder(root).database)) as search:
        groups = _groups(search, parsed)
    with reported(LabError), Lab(limit_s=parsed.timeout) as lab:
        told("", "loading torch…")
        if parsed.recorded:  # no function is called, so none is loaded
            lab.config = config
        else:
            lab.load(config)
        found = what_if_of_run(lab, root, groups, weights=weights, recorded=parsed.recorded, tell=told)
    told("", "")
    if parsed.json:
        print_json(found.to_json())
    else:
        print_lines(what_if_lines(found, terminal_width(), parsed.limit or SHOWN))
    return FAILED if any(function.failure for function in found.functions) else OK


def _groups(search: Search, parsed: Any) -> list[int]:
    """Return the numbers of the newest groups that match the query, at most `--groups`."""
    try:
        found = search.find(parsed.where)
    except QueryError as error:
        raise CommandError(f"--where, {one_line(error.sentence, 300)}") from error
    groups = list(dict.fromkeys(found.group_of))
    if not groups:
        raise CommandError("no completion matches. `grpo-tui completions RUN --count` counts all of them")
    return groups[: parsed.groups]
