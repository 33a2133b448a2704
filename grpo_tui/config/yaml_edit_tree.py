"""Where each value of a YAML text stands, to the character, so that one of them can be replaced alone.

Built from PyYAML's events, the reading that TRL uses, so an alias keeps the place where it is written.
Offsets count characters of the text, a byte order mark included. It does not know what a value means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import yaml

Kind = Literal["scalar", "mapping", "sequence", "alias"]


@dataclass(slots=True)
class Node:
    """One value as it is written.

    Attributes:
        kind: what it is; an alias is not followed.
        start: offset of its first character, its anchor or tag included; where nothing is written, the place
            right after `:` or `-`.
        end: offset behind its last character, without trailing comments or blank lines.
        column: column of the first character after anchor and tag, from 0.
        flow: written as `{…}` or `[…]`, or inside of one.
        style: of a scalar: None for plain, or one of the signs `'`, `"`, `|`, `>`.
        anchor: the name after `&` or `*`.
        text: of a scalar: its text.
        keys: of a mapping: its keys, in order.
        items: the values of a mapping, or the items of a sequence.
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
        """True for a value that is not written at all, as in `key:`."""
        return self.kind == "scalar" and self.start == self.end

    @property
    def block(self) -> bool:
        """True for a collection written over indented lines."""
        return self.kind in ("mapping", "sequence") and not self.flow

    def position(self, part: str | int) -> int | None:
        """Return where a key or an index stands among the items, or None."""
        if self.kind == "sequence":
            return part if isinstance(part, int) and 0 <= part < len(self.items) else None
        if self.kind == "mapping":
            found = [n for n, key in enumerate(self.keys) if key.kind == "scalar" and key.text == str(part)]
            return found[0] if found else None
        return None


@lru_cache(maxsize=4)
def read_tree(text: str) -> Node | None:
    """Return the root of the first document, or None when the text holds no value.

    It is shared by all who ask, and must stay as it is.

    Raises:
        yaml.YAMLError: the text cannot be read.
    """
    events = yaml.parse(text, Loader=yaml.SafeLoader)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            root = _node(next(events), events, text, in_flow=False)
            for _ in events:
                pass  # a fault further down is a fault of the file
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
    """Leave out the blank lines after a block scalar, unless its header says to keep them."""
    header = text[start:end].splitlines()[0] if start < end else ""
    if "+" in header.partition("#")[0]:
        return start + len(text[start:end].rstrip(" ").removesuffix("\n").removesuffix("\r"))
    return start + len(text[start:end].rstrip(" \r\n"))


def _dash_column(text: str, node: Node) -> int:
    """Return the column of a sequence's dashes when an anchor or a tag stands before them."""
    first = node.items[0].start
    line = text.rfind("\n", 0, first) + 1
    while line > node.start and text[line:].lstrip(" ")[:1] != "-":
        line = text.rfind("\n", 0, line - 1) + 1
    return len(text[line:]) - len(text[line:].lstrip(" "))
