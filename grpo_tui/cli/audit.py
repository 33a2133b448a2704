"""`grpo-tui doctor RUN --audit`: list completions that may have fooled a reward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from grpo_tui.cli.errors import OK
from grpo_tui.cli.look import readable_folder
from grpo_tui.cli.plain import print_json, print_text, terminal_width
from grpo_tui.core.text import filled, one_line, shell_word
from grpo_tui.present.formatting import compact, from_here, plural
from grpo_tui.present.glyphs import spark
from grpo_tui.rewards.audit import Attack, Audit, Refused
from grpo_tui.rewards.audit import audit as audit_of
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader

SHOWN = 10
"""Refused completions to print."""


def audit(parsed: Any) -> int:
    """Print the audit. Always exit 0, because it is not a verdict."""
    with closing(RunReader(RunFolder(readable_folder(parsed.run)).database)) as reader:
        found = audit_of(reader)
    if parsed.json:
        print_json(found.to_json(), ascii_only=True)
    else:
        print_text(_lines(found, shell_word(from_here(parsed.run)), terminal_width()))
    return OK


def _lines(found: Audit, run: str, width: int) -> Iterator[str]:
    part = f" of {found.groups:,} of {found.of_groups:,} groups" if found.groups < found.of_groups else ""
    yield f"{plural(found.completions, 'completion')}{part} compared with the attacks of `grpo-tui probe`"
    if not found.attacks:
        yield "  none looks like one of them"
    else:
        yield "  attack                    completions   over the run   mean reward   of the others"
    for attack in found.attacks:
        yield from _attack(attack, run, width)
    yield ""
    if not found.opinions:
        why = "there is no reference answer and no second reward" if found.top else "all rewards are equal"
        yield f"no second opinion on the top rewards: {why}"
        return
    names = ", ".join(one_line(name, 40) for name in found.opinions)
    top = f"{plural(found.top, 'completion')} of the newest groups"
    top += f" with a reward of at least {compact(found.least)}"
    yield f"{top}, checked by {names}: {found.refused_in_all:,} refused"
    for one in found.refused[:SHOWN]:
        yield from _refused(one, width)
    if len(found.refused) > SHOWN:
        yield f"  … one of each group; --json has {len(found.refused):,} of them"


def _attack(one: Attack, run: str, width: int) -> Iterator[str]:
    curve = filled(spark([float(count) for count in one.stretches], len(one.stretches), low=0.0), 12)
    yield (
        f"  {one.kind:26}{one.count:>11,}   {curve}   {compact(one.reward):>11}   {compact(one.others):>13}"
    )
    yield f"    {one.why}: {one_line(one.example.text, max(20, width - len(one.why) - 8))}"
    place = f"group=={one.example.group} and index=={one.example.index}"
    yield f"    grpo-tui completions {run} --where {shell_word(place)}"


def _refused(one: Refused, width: int) -> Iterator[str]:
    place = one.place
    yield (
        f"  step {place.step:,}, group {place.group:,}, completion {place.index}: reward "
        f"{compact(place.reward)}, refused by {one_line(', '.join(one.by), 80)}"
    )
    yield f"    {one_line(one.prompt, max(20, width - 4))}"
    gold = f"   (reference answer {one_line(one.gold, 30)})" if one.gold else ""
    yield f"    {one_line(place.text, max(20, width - 4 - len(gold)))}{gold}"
