"""One key of a YAML text set or removed by changing its own lines only; comments, order and quoting stay.

The text is spliced at the places that `yaml_edit_tree` gives; a value changes inside a list or mapping item
by item. What comes out is read again, and an edit that would have changed anything else (an anchor that other
keys use, say) is refused with the reason. It does not know what a key means.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from grpo_tui.config import yaml_lines
from grpo_tui.config.yaml_edit_splice import Splicer
from grpo_tui.config.yaml_edit_tree import read_tree

Path = tuple[str | int, ...]
_MISSING = object()
MOST_STEPS = 60
"""A list or mapping that differs in more places is written anew as a whole."""


class EditError(ValueError):
    """The edit cannot be made; the message says why."""


def split_key(key: str | Sequence[str | int]) -> Path:
    """Split `grpo_tui.rewards.0.weight` into its parts; digits after the first part are indexes."""
    if not isinstance(key, str):
        return tuple(key)
    first, *rest = key.split(".")
    return (first, *(int(part) if part.isdigit() else part for part in rest))


def get_value(values: Any, path: Path, otherwise: Any = None) -> Any:
    """Return the value at a path, or `otherwise` when there is none."""
    for part in path:
        if isinstance(values, Mapping):
            key = part if part in values else next((k for k in values if str(k) == str(part)), _MISSING)
            if key is _MISSING:
                return otherwise
            values = values[key]
        elif isinstance(values, list) and isinstance(part, int) and 0 <= part < len(values):
            values = values[part]
        else:
            return otherwise
    return values


def set_value(text: str, path: Path, value: Any, after: Sequence[str] = ()) -> str:
    """Return the text with one value set.

    Args:
        text: a readable YAML text whose top is a mapping, or an empty one.
        path: keys and indexes; an index equal to the length of a list appends.
        value: plain data.
        after: for a new key at the top: the keys behind which it may stand, the best one first.

    Raises:
        EditError: it cannot be set without changing something else.
    """
    before = values_of(text)
    wanted = _with_value(before, path, value)
    steps = _steps(path, get_value(before, path, _MISSING), value)
    if len(steps) > MOST_STEPS or (steps and Splicer(text, read_tree(text)).is_alias(path)):
        steps = [("set", path, value)]
    changed = text
    for action, where, item in steps:
        changed = _applied(changed, action, where, item, after)
    return _checked(changed, wanted, path)


def remove_value(text: str, path: Path) -> str:
    """Return the text without one key or list item; a mapping or list that is emptied by it goes too.

    Raises:
        EditError: there is no such key, or removing it would change something else.
    """
    before = values_of(text)
    if get_value(before, path, _MISSING) is _MISSING:
        raise EditError(f"there is no {_dotted(path)} to remove")
    parent = get_value(before, path[:-1])
    if len(path) > 1 and len(parent) == 1:
        if isinstance(path[-2], int):
            return set_value(text, path[:-1], type(parent)())
        return remove_value(text, path[:-1])
    wanted = copy.deepcopy(before)
    holder = get_value(wanted, path[:-1])
    key = path[-1] if isinstance(holder, list) else next(k for k in holder if str(k) == str(path[-1]))
    del holder[key]
    return _checked(_applied(text, "remove", path, None, ()), wanted, path)


def rename_key(text: str, path: Path, name: str) -> str:
    """Return the text with one key called otherwise, its value, comment and place kept.

    Raises:
        EditError: there is no such key, the new one is there already, or something else would change.
    """
    before = values_of(text)
    holder = get_value(before, path[:-1])
    if not isinstance(holder, dict) or path[-1] not in holder or name in holder:
        raise EditError(f"{_dotted(path)} cannot be renamed to {name}")
    wanted = copy.deepcopy(before)
    target = get_value(wanted, path[:-1])
    target[name] = target.pop(path[-1])
    return _checked(_applied(text, "rename", path, name, ()), wanted, path)


def same(first: Any, second: Any) -> bool:
    """True when two plain values are equal in kind too: 1, 1.0 and true all differ."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)


@lru_cache(maxsize=8)
def read_once(text: str) -> tuple[yaml_lines.YamlDocument | None, yaml_lines.YamlError | None]:
    """Read a text, or say why it cannot be read; the document is shared and must not be changed."""
    try:
        return yaml_lines.parse_mapping(text), None
    except yaml_lines.YamlError as error:
        return None, error


def values_of(text: str) -> dict[str, Any]:
    """Return the values of a readable text, shared and not to be changed.

    Raises:
        EditError: it cannot be read.
    """
    document, error = read_once(text)
    if document is None:
        where = f" on line {error.line}" if error is not None and error.line else ""
        raise EditError(f"the text cannot be read{where}: {error.message if error else ''}") from error
    return document.values


def _with_value(before: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    wanted = copy.deepcopy(before)
    target: Any = wanted
    for depth, part in enumerate(path):
        parent = _dotted(path[:depth])
        last = depth == len(path) - 1
        if isinstance(target, list):
            if not isinstance(part, int) or not 0 <= part <= len(target):
                raise EditError(f"{parent} is a list of {len(target)}, and {part} is none of it")
            if part == len(target):
                target.append(None)
        elif not isinstance(target, dict):
            raise EditError(f"{parent} is a single value and has no {part}")
        else:
            part = next((key for key in target if str(key) == str(part)), part)
            if isinstance(part, int) and part not in target:
                raise EditError(f"{parent} is no list, so it has no item {part}")
        if last:
            target[part] = copy.deepcopy(value)
        else:
            if (target.get(part) if isinstance(target, dict) else target[part]) is None:
                target[part] = [] if path[depth + 1] == 0 else {}
            target = target[part]
    return wanted


def _steps(path: Path, old: Any, new: Any) -> list[tuple[str, Path, Any]]:
    """Return the single edits that lead from one value to another, in an order in which they can be made."""
    if old is not _MISSING and same(old, new):
        return []
    if isinstance(old, dict) and isinstance(new, dict) and old and new and old.keys() & new.keys():
        steps: list[tuple[str, Path, Any]] = []
        for key, item in new.items():
            steps += _steps((*path, key), old.get(key, _MISSING), item)
        return steps + [("remove", (*path, key), None) for key in old if key not in new]
    if isinstance(old, list) and isinstance(new, list) and old and new:
        return _list_steps(path, old, new)
    return [("set", path, new)]


def _list_steps(path: Path, old: list[Any], new: list[Any]) -> list[tuple[str, Path, Any]]:
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if not same(old[n], new[n])), shorter)
    tail = next((n for n in range(shorter - head) if not same(old[-1 - n], new[-1 - n])), shorter - head)
    both = shorter - head - tail
    steps = [step for n in range(head, head + both) for step in _steps((*path, n), old[n], new[n])]
    at = head + both
    steps += [("remove", (*path, n), None) for n in reversed(range(at, len(old) - tail))]
    steps += [("insert", (*path, n), new[n]) for n in range(at, len(new) - tail)]
    return steps


def _applied(text: str, action: str, path: Path, value: Any, after: Sequence[str]) -> str:
    try:
        splicer = Splicer(text, read_tree(text))
        if action == "remove":
            return splicer.remove(path)
        if action == "rename":
            return splicer.rename(path, value)
        return splicer.insert(path, value) if action == "insert" else splicer.put(path, value, after)
    except yaml.YAMLError as error:
        raise EditError(f"{_dotted(path)} cannot be edited here; change the text itself") from error
    except (LookupError, TypeError) as error:
        raise EditError(f"{_dotted(path)}: {error.args[0]}") from error


def _checked(text: str, wanted: dict[str, Any], path: Path) -> str:
    try:
        if same(values_of(text), wanted):
            return text
    except EditError:
        pass
    raise EditError(
        f"{_dotted(path)} cannot be edited alone where it stands (an anchor that other keys use, or an "
        "unusual layout); change the text itself"
    )


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path)) or "the file"
