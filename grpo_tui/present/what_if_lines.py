"""Effects of other rewards on a recorded run, and what checking edited ones found, as lines."""

from __future__ import annotations

from rich.cells import cell_len

from grpo_tui.core.statistics import mean
from grpo_tui.core.text import filled, one_line, wrapped
from grpo_tui.present.formatting import MISSING, compact, fixed, plural, within
from grpo_tui.present.train_view import Span
from grpo_tui.rewards.reload_check import ReloadCheck
from grpo_tui.rewards.what_if import WhatIf

Line = list[Span]
FATES = {"alive": ("▲ would teach", "good"), "dead": ("▼ would teach nothing", "bad")}
MOST_GROUPS = 200


def what_if_lines(found: WhatIf, width: int, most: int = MOST_GROUPS) -> list[Line]:
    """Return the functions, the totals, and the groups that change most, in lines of `width` cells."""
    return [*_functions(found, width), [], *_sums(found, width), [], *_groups(found, width, most)]


def _functions(found: WhatIf, width: int) -> list[Line]:
    name_w = max(12, min(32, width - 48))
    head = f"  {'function':{name_w}}{'then':>9}{'now':>9}   scores that change"
    lines: list[Line] = [[(head, "dim")]]
    for turn in found.functions:
        words, role = plural(turn.changed, "score"), "text" if turn.changed else "dim"
        if turn.failure:
            words, role = one_line(turn.failure, max(10, width - name_w - 24)), "bad"
        elif turn.now is None:
            words, role = "only in the run", "attention"
        elif turn.before is None:
            words, role = "is new", "attention"
        lines.append(
            [
                (f"  {filled(one_line(turn.name, name_w - 1), name_w)}", "text"),
                (f"{within(turn.before, 8):>9}{within(turn.now, 8):>9}   ", "strong"),
                (words, role),
            ]
        )
    return lines


def _sums(found: WhatIf, width: int) -> list[Line]:
    groups = len(found.groups)
    rank = MISSING if found.correlation is None else fixed(found.correlation, 3)
    told = [
        (found.changed, f" of {plural(found.completions, 'completion')} change their total"),
        (found.reordered, f" of {plural(groups, 'group')} change order"),
        (found.alive, " groups would start to teach, "),
    ]
    lines: list[Line] = [[("  ", "text"), (f"{count:,}", "strong"), (words, "text")] for count, words in told]
    lines[-1] += [(f"{found.dead:,}", "strong"), (" would stop", "text")]
    hint = ("   1: same order, 0: unrelated", "dim")
    lines.append([("  rank correlation of the advantages ", "text"), (rank, "strong"), hint])
    for note in found.notes:
        rows = wrapped(one_line(note), max(20, width - 5))
        lines += [[(f"  {' ' if number else '⚠'} {row}", "attention")] for number, row in enumerate(rows)]
    return lines


def _groups(found: WhatIf, width: int, most: int) -> list[Line]:
    turned = [turn for turn in found.groups if turn.changed or turn.fate]
    if not turned:
        return [[("  No group changes.", "good")]]
    lines: list[Line] = [[(f"  {'group':>8}{'step':>8}{'then':>8}{'now':>8}  prompt", "dim")]]
    for turn in turned[:most]:
        words, role = FATES.get(turn.fate, ("new order", "attention") if turn.reordered else ("", "dim"))
        room = max(8, width - 36 - cell_len(words) - 3)
        lines.append(
            [
                (f"  {turn.group:>8,}{turn.step:>8,}", "dim"),
                (f"{_mean(turn.before):>8}{_mean(turn.now):>8}  ", "strong"),
                (one_line(turn.prompt, room) + "   ", "text"),
                (words, role),
            ]
        )
    if len(turned) > most:
        lines.append([(f"  and {len(turned) - most:,} more", "dim")])
    return lines


def _mean(totals: tuple[float | None, ...]) -> str:
    return compact(mean(totals))


MOST_RELOADED = 5
"""Groups that are listed for edited rewards."""
ROLES = {"+": "good", "-": "bad", "@": "accent"}


def reload_lines(found: ReloadCheck, width: int) -> list[Line]:
    """Return the check of edited rewards in lines of `width` cells."""
    lines: list[Line] = [
        [(f"  {one_line(line, max(20, width - 2))}", ROLES.get(line[:1], "text"))] for line in found.diff
    ]
    if found.what_if is not None:
        lines += [[], *what_if_lines(found.what_if, width, MOST_RELOADED)]
    if found.diff or found.what_if is not None:
        lines.append([])
    told = [(f"✗ {text}", "bad") for text in (*found.broken, *found.failed)]
    told += [(f"note: {text}", "dim") for text in found.notes]
    if not found.broken and not found.failed:
        told.append(("✓ contract, saved cases, probes and recorded groups: nothing failed", "good"))
    for text, role in told:
        rows = wrapped(one_line(text, 2000), max(20, width - 4))
        lines += [[(f"  {'  ' if number else ''}{row}", role)] for number, row in enumerate(rows)]
    return lines
