"""`grpo-tui tokens`: how sure a policy of the run is of each token of a completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, REFUSED, CommandError, reported
from grpo_tui.cli.look import run_folder
from grpo_tui.cli.plain import print_json, print_lines, terminal_width
from grpo_tui.cli.score import told
from grpo_tui.cli.words import refuse_unused
from grpo_tui.core.text import safe
from grpo_tui.present.token_lines import LEGEND, head_lines, heat_lines, surprising_lines
from grpo_tui.rewards.generating import GenerateError
from grpo_tui.rewards.token_asking import AskedPolicy, TokenAsker, completion_of, policies

SHOWN = 20
"""Default number of surprising tokens to print."""


def tokens(parsed: Any) -> int:
    """`grpo-tui tokens RUN --group N [--index I] [--from WHO] [--base] [--json]`."""
    if parsed.json:
        refuse_unused(parsed, "with --json, which holds every token", "--limit")
    root = run_folder(parsed.run)
    with reported(LookupError):
        row = completion_of(root, parsed.group, parsed.index)
        policy = _policy(policies(root), parsed.source)
    try:
        with TokenAsker(root, lambda what: told("", what), patience_s=parsed.wait) as asker:
            found = asker.ask(row, policy, base=parsed.base)
    except GenerateError as error:
        told("", "")
        raise CommandError(str(error), REFUSED if policy.kind == "live" else FAILED) from error
    told("", "")
    if parsed.json:
        body = {"group": row.group, "index": row.index, "step": row.step, **found.to_json()}
        print_json(body)
        return OK
    width = terminal_width()
    if parsed.prompt:
        print(f"{safe(found.prompt)}\n")
    print_lines(
        [
            *head_lines(found, width),
            [],
            *([(" ", "text"), *line] for line in heat_lines(found, width - 1)),
            [(f" {LEGEND}", "dim")],
            [],
            *surprising_lines(found, width, parsed.limit or SHOWN),
        ]
    )
    return OK


def _policy(known: Sequence[AskedPolicy], wanted: str | None) -> AskedPolicy:
    """Return the policy of `--from`, by default the newest checkpoint, else the live one."""
    kind, _, step = (wanted or "").partition("=")
    if wanted and (kind not in ("live", "checkpoint", "base") or (step and kind != "checkpoint")):
        raise CommandError(f"--from {wanted}: give live, checkpoint, checkpoint=STEP or base")
    order = [kind] if wanted else ["checkpoint", "live"]
    for one in order:
        for policy in known:
            if policy.kind == one and (not step or str(policy.step) == step):
                return policy
    steps = [str(policy.step) for policy in known if policy.kind == "checkpoint"]
    there = f"checkpoints {', '.join(steps)}" if steps else "no usable checkpoint"
    live = "is live" if any(policy.kind == "live" for policy in known) else "is not live"
    hint = "" if wanted else ". Use --from base for the model it started from"
    raise CommandError(f"the run {live} and has {there}{hint}", REFUSED)
