"""A finding's fix made in a text: a value set, a key removed, or a wrong key put right where it stands.

It makes what the finding says and judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grpo_tui.config.meant_values import meant_mapping
from grpo_tui.config.yaml_edit import (
    EditError,
    get_value,
    remove_value,
    rename_key,
    same,
    set_value,
    split_key,
    values_of,
)
from grpo_tui.core.findings import Finding, Fix

MOVING = frozenset(
    {
        "config.deprecated",
        "config.removed-key",
        "config.unknown-key",
        "nested.elsewhere",
        "nested.unknown-key",
        "section.unknown-key",
    }
)
"""Rules whose fix names the right place for a wrong key; the wrong one must not stay."""

_ABSENT = object()


def fixed_text(text: str, fix: Finding | Fix, after: Callable[[Sequence[str | int]], Sequence[str]]) -> str:
    """Return the text with a fix made.

    Args:
        text: a readable YAML text.
        fix: the fix, or the finding that offers one.
        after: gives the keys behind which a new one may stand.

    Raises:
        EditError: the finding offers no fix, or it cannot be made.
    """
    if isinstance(fix, Finding):
        if fix.fix is None:
            raise EditError(f"there is no fix to apply: {fix.message}")
        if fix.field and fix.fix.value is not None and fix.field != fix.fix.field and _moves(fix, fix.fix):
            text = _as_mapping(text, split_key(fix.field))
            return _moved(text, split_key(fix.field), split_key(fix.fix.field), fix.fix.value, after)
        fix = fix.fix
    path = split_key(fix.field)
    text = _as_mapping(text, path)
    if fix.value is None:
        values = values_of(text)
        return remove_value(text, path) if get_value(values, path, _ABSENT) is not _ABSENT else text
    return set_value(text, path, fix.value, after(path))


def _as_mapping(text: str, path: tuple[str | int, ...]) -> str:
    """Write a mapping that stands in quotes (JSON) as one of YAML, where a fix is about a key inside it."""
    written = get_value(values_of(text), path[:1])
    meant = meant_mapping(written) if len(path) > 1 and isinstance(written, str) else None
    return text if meant is None else set_value(text, path[:1], meant)


def _moves(finding: Finding, fix: Fix) -> bool:
    return finding.id in MOVING or (finding.id == "section.choice" and fix.field == "dataset_name")


def _moved(
    text: str,
    wrong: tuple[str | int, ...],
    right: tuple[str | int, ...],
    value: Any,
    after: Callable[[Sequence[str | int]], Sequence[str]],
) -> str:
    values = values_of(text)
    old = get_value(values, wrong, _ABSENT)
    if old is _ABSENT:
        return set_value(text, right, value, after(right))
    if get_value(values, right, _ABSENT) is not _ABSENT:
        return remove_value(text, wrong)  # the right key is there and has a value of its own
    if isinstance(old, dict) and same(old.get(str(right[-1]), _ABSENT), value):
        wrong = (*wrong, right[-1])  # a group of TRL's keys, of which one moves to the left margin
    elif wrong[:-1] == right[:-1]:
        return set_value(rename_key(text, wrong, str(right[-1])), right, value)
    return set_value(remove_value(text, wrong), right, value, after(right))
