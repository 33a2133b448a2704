"""Set or remove one key of a YAML text and change only its own lines. Comments, order and quoting are kept.

The text is spliced at the positions of PyYAML's events, so aliases are not expanded. Offsets count
characters, including a byte order mark. Lists and mappings change item by item. The result is parsed again,
and an edit that would change anything else (such as an anchor that other keys use) is rejected.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import yaml

from grpo_tui.config import yaml_lines
from grpo_tui.config.yaml_edit_values import (
    block_lines,
    block_scalar,
    can_be_block,
    entry,
    fits_one_line,
    inline,
    scalar,
)

Kind = Literal["scalar", "mapping", "sequence", "alias"]


@dataclass(slots=True)
class Node:
    """One value as written.

    Attributes:
        kind: Its kind. An alias is not followed.
        start: Offset of its first character, including anchor and tag. If empty, the offset after `:` or `-`.
        end: Offset after its last character, without trailing comments and blank lines.
        column: Column of the first character after anchor and tag, from 0.
        flow: Whether it is written as `{…}` or `[…]`, or inside one.
        style: Of a scalar: None for plain, else `'`, `"`, `|` or `>`.
        anchor: The name after `&` or `*`.
        items: Values of a mapping or items of a sequence.
    """

    kind: Kind
    start: int
    end: int
    column: int
    flow: bool = False
    style: str | None = None
    anchor: str | None = None
    text: str = ""
    keys: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether no value is written, as in `key:`."""
        return self.kind == "scalar" and self.start == self.end

    @property
    def block(self) -> bool:
        """Whether it is a collection in block style."""
        return self.kind in ("mapping", "sequence") and not self.flow

    def position(self, part: str | int) -> int | None:
        """Return the index of a key or item, or None."""
        if self.kind == "sequence":
            return part if isinstance(part, int) and 0 <= part < len(self.items) else None
        if self.kind == "mapping":
            found = [n for n, key in enumerate(self.keys) if key.kind == "scalar" and key.text == str(part)]
            return found[0] if found else None
        return None


@lru_cache(maxsize=4)
def read_tree(text: str) -> Node | None:
    """Return the root of the first document, None for an empty text.

    The tree is cached and shared, so do not change it.

    Raises:
        yaml.YAMLError: The text is not valid YAML.
    """
    events = yaml.parse(text, Loader=yaml.SafeLoader)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            root = _node(next(events), events, text, in_flow=False)
            for _ in events:
                pass  # raises if the rest is invalid
            return None if root.empty else root
    return None


def _node(event: yaml.Event, events: Iterator[yaml.Event], text: str, *, in_flow: bool) -> Node:
    start, column, end = *_place(event.start_mark), _place(event.end_mark)[0]
    if isinstance(event, yaml.AliasEvent):
        return Node("alias", start, end, column, in_flow, anchor=event.anchor)
    if isinstance(event, yaml.ScalarEvent):
        if event.style in ("|", ">"):
            end = _block_end(text, start, end)
        return Node("scalar", start, end, column, in_flow, event.style, event.anchor, event.value)
    if isinstance(event, yaml.MappingStartEvent):
        node = Node("mapping", start, start, column, bool(event.flow_style) or in_flow, anchor=event.anchor)
        closing: type[yaml.Event] = yaml.MappingEndEvent
    else:
        assert isinstance(event, yaml.SequenceStartEvent)
        node = Node("sequence", start, start, column, bool(event.flow_style) or in_flow, anchor=event.anchor)
        closing = yaml.SequenceEndEvent
    for inner in events:
        if isinstance(inner, closing):
            node.end = _place(inner.end_mark)[0] if node.flow else max(node.start, _last_end(node))
            break
        if node.kind == "mapping":
            node.keys.append(_node(inner, events, text, in_flow=node.flow))
            inner = next(events)
        node.items.append(_node(inner, events, text, in_flow=node.flow))
    if node.block and node.kind == "mapping":
        node.column = node.keys[0].column
    elif node.block and start != end and text[start] != "-":
        node.column = _dash_column(text, node)
    return node


def _place(mark: Any) -> tuple[int, int]:
    return mark.index, mark.column


def _last_end(node: Node) -> int:
    return max((n.end for n in (*node.keys[-1:], *node.items[-1:])), default=node.start)


def _block_end(text: str, start: int, end: int) -> int:
    """Return the end of a block scalar without trailing blank lines, unless its header keeps them."""
    header = text[start:end].splitlines()[0] if start < end else ""
    if "+" in header.partition("#")[0]:
        return start + len(text[start:end].rstrip(" ").removesuffix("\n").removesuffix("\r"))
    return start + len(text[start:end].rstrip(" \r\n"))


def _dash_column(text: str, node: Node) -> int:
    """Return the column of a sequence's dashes when it follows an anchor or a tag."""
    first = node.items[0].start
    line = text.rfind("\n", 0, first) + 1
    while line > node.start and text[line:].lstrip(" ")[:1] != "-":
        line = text.rfind("\n", 0, line - 1) + 1
    return len(text[line:]) - len(text[line:].lstrip(" "))


Path = tuple[str | int, ...]


class Splicer:
    """One text with its tree. Each method returns a new text."""

    def __init__(self, text: str, root: Node | None) -> None:
        self.text = text
        self.root = root
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.step = _step(root)

    def put(self, path: Path, value: Any, after: Sequence[str] = ()) -> str:
        """Set a value. Missing parts of its path are added."""
        if self.root is None:
            return self._appended(block_lines(_nested(path, value), 0, self.step))
        chain = self._chain(path)
        if len(chain) > len(path):
            return self._replaced(chain[-1], chain[-2] if len(chain) > 1 else None, path, value)
        holder, part = chain[-1], path[len(chain) - 1]
        inner = _nested(path[len(chain) :], value)
        if holder.kind == "sequence":
            return self.insert((*path[: len(chain) - 1], len(holder.items)), inner)
        if holder.kind == "mapping":
            return self._new_key(holder, str(part), inner, after if len(chain) == 1 else ())
        above = chain[-2] if len(chain) > 1 else None
        return self._replaced(holder, above, path[: len(chain) - 1], _nested((part,), inner))

    def is_alias(self, path: Path) -> bool:
        """Return whether a value is written as an alias."""
        chain = self._chain(path) if self.root is not None else []
        return len(chain) > len(path) and chain[-1].kind == "alias"

    def insert(self, path: Path, value: Any) -> str:
        """Insert an item into a list before an index, or at its end."""
        chain = self._chain(path[:-1])
        if len(chain) != len(path) or chain[-1].kind != "sequence" or not isinstance(path[-1], int):
            raise LookupError("there is no list in the text")
        holder, index = chain[-1], path[-1]
        if holder.flow:
            written = inline(value, in_flow=True)
            if not holder.items:
                return self._cut(holder.end - 1, holder.end - 1, written)
            if index == 0:
                return self._cut(holder.items[0].start, holder.items[0].start, f"{written}, ")
            at = holder.items[index - 1].end
            return self._cut(at, at, f", {written}")
        lines = entry("-", value, holder.column, self.step)
        if index > 0:
            return self._lines_after(holder.items[index - 1].end, lines)
        at = self._dash(holder, 0) - holder.column
        if self.text[at : at + holder.column].strip():
            raise LookupError("the list begins on the line of another; change the text itself")
        return self._cut(at, at, self.newline.join(lines) + self.newline)

    def remove(self, path: Path) -> str:
        """Remove a key or an item, with the comment on its line."""
        chain = self._chain(path)
        if len(chain) <= len(path):
            raise LookupError("it is not written there, but comes from an anchor or a merge")
        holder = chain[-2]
        index = holder.position(path[-1])
        assert index is not None
        starts = holder.keys or holder.items
        first, last = starts[index], holder.items[index]
        if holder.flow:
            if index + 1 < len(starts):
                return self._cut(first.start, starts[index + 1].start, "")
            start = holder.items[index - 1].end if index else first.start
            return self._cut(start, max(last.end, first.end), "")
        start = first.start if holder.keys else self._dash(holder, index)
        line = self._line_start(start)
        end = self._line_end(max(first.end, last.end))
        if holder is self.root and len(starts) == 1 and "---" in self.text[:start]:
            return self._cut(start, end, "{}")  # an explicit document must not be empty
        if not self.text[line:start].strip("\ufeff "):
            keep = line + len(self.text[line:start]) - len(self.text[line:start].lstrip("\ufeff"))
            return self._without_lines(keep, end)
        at = starts[index + 1].start if holder.keys else self._dash(holder, 1)  # it takes the place
        return self._cut(start, end if self.text[end:at].strip() else at, "")

    def rename(self, path: Path, name: str) -> str:
        """Rename the key of a value."""
        chain = self._chain(path)
        index = chain[-2].position(path[-1]) if len(chain) > len(path) else None
        if index is None or not chain[-2].keys:
            raise LookupError("it is not written there, but comes from an anchor or a merge")
        key = chain[-2].keys[index]
        return self._cut(key.start, key.end, scalar(name, in_flow=chain[-2].flow))

    def _without_lines(self, start: int, end: int) -> str:
        if end < len(self.text):
            return self._cut(start, end + (2 if self.text.startswith("\r\n", end) else 1), "")
        before = self.text[:start]
        return before[: -len(self.newline)] if before.endswith(self.newline) else before

    def _chain(self, path: Path) -> list[Node]:
        assert self.root is not None
        chain = [self.root]
        for part in path:
            index = chain[-1].position(part)
            if index is None:
                break
            chain.append(chain[-1].items[index])
        return chain

    def _replaced(self, node: Node, holder: Node | None, path: Path, value: Any) -> str:
        if holder is None:
            raise LookupError("the file must stay a mapping of keys")
        column = holder.column
        multiline = isinstance(value, str) and can_be_block(value)
        if holder.flow or (node.flow and not multiline):
            quoted = isinstance(value, str) and node.style in ("'", '"')
            text = scalar(value, style=node.style) if quoted else inline(value, in_flow=holder.flow)
            return self._on_its_line(node, text)
        if node.style in ("|", ">") and isinstance(value, str) and (can_be_block(value) or _is_line(value)):
            return self._block_text(node, column, value)
        if fits_one_line(value) or (node.flow and not isinstance(value, str)):
            text = scalar(value, style=node.style) if isinstance(value, str) else inline(value)
            return self._on_its_line(node, text)
        if isinstance(value, str):
            header, lines = block_scalar(value, column + self.step, column)
            return self._over_lines(node, header, lines)
        if isinstance(path[-1], int):
            lines = entry("-", value, column, self.step)
            return self._over_lines(node, lines[0].strip()[2:], lines[1:])
        return self._over_lines(node, "", block_lines(value, column + self.step, self.step))

    def _on_its_line(self, node: Node, written: str) -> str:
        """Write a value on the line of its key and keep that line's comment and its column."""
        lead = self._lead(node)
        if node.block or node.style in ("|", ">"):
            head = self._line_end(lead)
            comment = self._comment(node, lead)
            end = node.end
            return f"{self.text[:lead]} {written}{comment}{self.text[max(end, head) :]}"
        start = node.start
        if node.anchor and node.kind != "alias":
            start += len(node.anchor) + 2
        space = " " if node.empty or self.text[start - 1 : start] in (":", "-", "") else ""
        if start > node.end:
            start, space = node.end, " "
        return self._aligned(start, node.end, space + written)

    def _aligned(self, start: int, end: int, written: str) -> str:
        """Replace part of a line. A comment after it keeps its column if there is room."""
        rest = self.text[end : self._line_end(end)]
        gap = len(rest) - len(rest.lstrip(" "))
        if gap > 1 and rest[gap : gap + 1] == "#" and "\n" not in self.text[start:end]:
            width = max(2, gap - (len(written) - (end - start)))
            return self.text[:start] + written + " " * width + self.text[end + gap :]
        return self._cut(start, end, written)

    def _block_text(self, node: Node, column: int, value: str) -> str:
        """Write a text into an existing block scalar, at its own indentation."""
        first = self._line_end(node.start) + len(self.newline)
        written = self.text[first : self._line_end(first)]
        indent = len(written) - len(written.lstrip(" "))
        indent = indent if written.strip() and indent > column else column + self.step
        header, lines = block_scalar(value, indent, column)
        return self._over_lines(node, header, lines)

    def _over_lines(self, node: Node, header: str, lines: list[str]) -> str:
        lead = self._lead(node)
        comment = self._comment(node, lead)
        head = f"{self.text[:lead]}{' ' + header if header else ''}{comment}"
        rest = self.text[self._line_end(node.end) :]
        return head + self.newline + self.newline.join(lines) + rest

    def _comment(self, node: Node, lead: int) -> str:
        """Return the comment on the line of the key with the spaces before it, or an empty string."""
        multiline = node.block or node.style in ("|", ">")
        at = lead if node.block else node.start if multiline else node.end
        line = self.text[at : self._line_end(at)]
        if node.style in ("|", ">"):
            line = line[len(line) - len(line.lstrip("|>+-0123456789")) :]
        return line if line.lstrip(" ").startswith("#") and line[:1] == " " else ""

    def _lead(self, node: Node) -> int:
        """Return the offset after the `:` or `-` that precedes a value."""
        at = node.start
        while at > 0 and self.text[at - 1] not in ":-":
            at = self._line_start(at - 1) if self._only_comment(at - 1) else at - 1
        return at

    def _only_comment(self, at: int) -> bool:
        line = self.text[self._line_start(at) : at + 1]
        return line.lstrip(" ").startswith("#")

    def _new_key(self, holder: Node, key: str, value: Any, after: Sequence[str]) -> str:
        if holder.flow:
            written = f"{scalar(key, in_flow=True)}: {inline(value, in_flow=True)}"
            if not holder.items:
                return self._cut(holder.end - 1, holder.end - 1, written)
            at = max(holder.items[-1].end, holder.keys[-1].end)
            return self._cut(at, at, ", " + written)
        places = [place for name in after if (place := holder.position(name)) is not None]
        index = places[0] if places else len(holder.items) - 1
        lines = entry(f"{scalar(key)}:", value, holder.column, self.step)
        return self._lines_after(max(holder.items[index].end, holder.keys[index].end), lines)

    def _lines_after(self, offset: int, lines: list[str]) -> str:
        at, written = self._line_end(offset), self.newline.join(lines)
        if self.text[:offset].endswith("\n"):
            at = offset - 1
        ending = next((end for end in ("\r\n", "\n") if self.text.startswith(end, at)), "")
        if not ending:
            return self._cut(at, at, self.newline + written)
        return self._cut(at + len(ending), at + len(ending), written + self.newline)

    def _appended(self, lines: list[str]) -> str:
        bare = self.text.removeprefix("\ufeff")
        joint = self.newline if bare and not bare.endswith("\n") else ""
        return self.text + joint + self.newline.join(lines) + self.newline

    def _dash(self, holder: Node, index: int) -> int:
        line = self._line_start(holder.items[index].start)
        while line > 0 and self.text[line + holder.column : line + holder.column + 1] != "-":
            line = self._line_start(line - 1)
        return line + holder.column

    def _line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, max(offset, 0)) + 1

    def _line_end(self, offset: int) -> int:
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def _cut(self, start: int, end: int, written: str) -> str:
        return self.text[:start] + written + self.text[end:]


def _nested(path: Path, value: Any) -> Any:
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {part: value}
    return value


def _is_line(value: str) -> bool:
    return bool(value) and value == value.strip() and "\n" not in value and value.isprintable()


def _step(node: Node | None) -> int:
    """Return the text's indentation per level, 2 by default."""
    if node is None or not node.block:
        return 2
    for item in node.items:
        if item.block and item.kind == "mapping" and item.column > node.column:
            return item.column - node.column if node.kind == "mapping" else _step(item)
    return next((_step(item) for item in node.items if item.block and item.kind == "mapping"), 2)


_MISSING = object()
MOST_STEPS = 60
"""A list or mapping that differs in more places is rewritten as a whole."""


class EditError(ValueError):
    """The edit cannot be made."""


def split_key(key: str | Sequence[str | int]) -> Path:
    """Split `grpo_tui.rewards.0.weight` into parts. Digits after the first part are indexes."""
    if not isinstance(key, str):
        return tuple(key)
    first, *rest = key.split(".")
    return (first, *(int(part) if part.isdigit() else part for part in rest))


def get_value(values: Any, path: Path, otherwise: Any = None) -> Any:
    """Return the value at a path, or `otherwise`."""
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
        text: An empty text or a valid YAML mapping.
        path: Keys and indexes. An index equal to the length of a list appends.
        after: Keys after which a new top-level key may be inserted, best first.

    Raises:
        EditError: The value cannot be set without changing something else.
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
    """Return the text without one key or list item. A mapping or list that becomes empty is removed too.

    Raises:
        EditError: The key does not exist, or removing it would change something else.
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
    """Return the text with one key renamed. Its value, comment and place are kept.

    Raises:
        EditError: The key does not exist, the new name does, or something else would change.
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
    """Return whether two values are equal, including their types: 1, 1.0 and true all differ."""
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
    """Parse a text, or return its error. The document is cached and shared, so do not change it."""
    try:
        return yaml_lines.parse_mapping(text), None
    except yaml_lines.YamlError as error:
        return None, error


def values_of(text: str) -> dict[str, Any]:
    """Return the values of a text. They are shared, so do not change them.

    Raises:
        EditError: The text cannot be read.
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
                raise EditError(f"{parent} is a list of {len(target)} and has no item {part}")
            if part == len(target):
                target.append(None)
        elif not isinstance(target, dict):
            raise EditError(f"{parent} is a single value and has no {part}")
        else:
            part = next((key for key in target if str(key) == str(part)), part)
            if isinstance(part, int) and part not in target:
                raise EditError(f"{parent} is not a list, so it has no item {part}")
        if last:
            target[part] = copy.deepcopy(value)
        else:
            if (target.get(part) if isinstance(target, dict) else target[part]) is None:
                target[part] = [] if path[depth + 1] == 0 else {}
            target = target[part]
    return wanted


def _steps(path: Path, old: Any, new: Any) -> list[tuple[str, Path, Any]]:
    """Return the single edits that turn one value into another, in a valid order."""
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
        raise EditError(f"{_dotted(path)} cannot be edited here. Edit the text instead") from error
    except (LookupError, TypeError) as error:
        raise EditError(f"{_dotted(path)}: {error.args[0]}") from error


def _checked(text: str, wanted: dict[str, Any], path: Path) -> str:
    document, _ = read_once(text)
    if document is not None and same(document.values, wanted):
        return text
    why = "(other keys use its anchor, or its layout is unusual). Edit the text instead"
    raise EditError(f"{_dotted(path)} cannot be edited here {why}")


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path)) or "the file"
