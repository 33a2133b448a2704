"""The cuts themselves: one value replaced, put in or taken out of a YAML text, given where everything stands.

It makes the change where it can be made and does not judge the result; `yaml_edit` reads it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo_tui.config.yaml_edit_tree import Node
from grpo_tui.config.yaml_edit_values import (
    block_lines,
    block_scalar,
    can_be_block,
    entry,
    fits_one_line,
    inline,
    scalar,
)

Path = tuple[str | int, ...]


class Splicer:
    """One text and its tree; each method returns a new text."""

    def __init__(self, text: str, root: Node | None) -> None:
        self.text = text
        self.root = root
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.step = _step(root)

    def put(self, path: Path, value: Any, after: Sequence[str] = ()) -> str:
        """Set a value: replace it where it stands, else add what is missing of its path."""
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
        return self._replaced(
            holder, chain[-2] if len(chain) > 1 else None, path[: len(chain) - 1], _nested((part,), inner)
        )

    def is_alias(self, path: Path) -> bool:
        """True when a value is written as the name of an anchor elsewhere."""
        chain = self._chain(path) if self.root is not None else []
        return len(chain) > len(path) and chain[-1].kind == "alias"

    def insert(self, path: Path, value: Any) -> str:
        """Put an item into a list before the one that stands at the index, or at its end."""
        chain = self._chain(path[:-1])
        if len(chain) != len(path) or chain[-1].kind != "sequence" or not isinstance(path[-1], int):
            raise LookupError("no list stands there in the text")
        holder, index = chain[-1], path[-1]
        if holder.flow:
            if not holder.items:
                return self._cut(holder.end - 1, holder.end - 1, inline(value, in_flow=True))
            if index == 0:
                at = holder.items[0].start
                return self._cut(at, at, inline(value, in_flow=True) + ", ")
            at = holder.items[index - 1].end
            return self._cut(at, at, ", " + inline(value, in_flow=True))
        lines = entry("-", value, holder.column, self.step)
        if index > 0:
            return self._lines_after(holder.items[index - 1].end, lines)
        at = self._dash(holder, 0) - holder.column
        if self.text[at : at + holder.column].strip():
            raise LookupError("the list begins on the line of another; change the text itself")
        return self._cut(at, at, self.newline.join(lines) + self.newline)

    def remove(self, path: Path) -> str:
        """Take a key or an item out, with the comment on its line."""
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
            return self._cut(start, end, "{}")  # a document that was begun must hold something
        if not self.text[line:start].strip("\ufeff "):
            keep = line + len(self.text[line:start]) - len(self.text[line:start].lstrip("\ufeff"))
            return self._without_lines(keep, end)
        return self._without_first(start, end, starts[index + 1], holder)

    def rename(self, path: Path, name: str) -> str:
        """Write another key before a value."""
        chain = self._chain(path)
        index = chain[-2].position(path[-1]) if len(chain) > len(path) else None
        if index is None or not chain[-2].keys:
            raise LookupError("it is not written there, but comes from an anchor or a merge")
        key = chain[-2].keys[index]
        return self._cut(key.start, key.end, scalar(name, in_flow=chain[-2].flow))

    def _without_first(self, start: int, end: int, following: Node, holder: Node) -> str:
        """Take out the first entry of a mapping that begins behind a dash: the next one moves up."""
        at = following.start if holder.keys else self._dash(holder, 1)
        if self.text[end:at].strip():
            return self._cut(start, end, "")
        return self._cut(start, at, "")

    def _without_lines(self, start: int, end: int) -> str:
        if end < len(self.text):
            return self._cut(start, end + (2 if self.text.startswith("\r\n", end) else 1), "")
        before = self.text[:start]
        return before[: -len(self.newline)] if before.endswith(self.newline) else before

    def _chain(self, path: Path) -> list[Node]:
        """Return the nodes from the root down a path, as far as it is written."""
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
        """Write a value on the line of its key, keeping that line's comment and the column it stands in."""
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
        """Replace a stretch of one line; a comment behind it keeps its column where there is room."""
        rest = self.text[end : self._line_end(end)]
        gap = len(rest) - len(rest.lstrip(" "))
        if gap > 1 and rest[gap : gap + 1] == "#" and "\n" not in self.text[start:end]:
            width = max(2, gap - (len(written) - (end - start)))
            return self.text[:start] + written + " " * width + self.text[end + gap :]
        return self._cut(start, end, written)

    def _block_text(self, node: Node, column: int, value: str) -> str:
        """Write a text into the block scalar that stands there, at its own indentation."""
        first = self._line_end(node.start) + len(self.newline)
        written = self.text[first : self._line_end(first)]
        indent = len(written) - len(written.lstrip(" "))
        indent = indent if written.strip() and indent > column else column + self.step
        header, lines = block_scalar(value, indent, column)
        return self._over_lines(node, header, lines)

    def _over_lines(self, node: Node, header: str, lines: list[str]) -> str:
        """Write a value below the line of its key."""
        lead = self._lead(node)
        comment = self._comment(node, lead)
        head = f"{self.text[:lead]}{' ' + header if header else ''}{comment}"
        rest = self.text[self._line_end(node.end) :]
        return head + self.newline + self.newline.join(lines) + rest

    def _comment(self, node: Node, lead: int) -> str:
        """Return the comment on the line of the key with the blanks before it, or nothing."""
        multiline = node.block or node.style in ("|", ">")
        at = lead if node.block else node.start if multiline else node.end
        line = self.text[at : self._line_end(at)]
        if node.style in ("|", ">"):
            line = line[len(line) - len(line.lstrip("|>+-0123456789")) :]
        return line if line.lstrip(" ").startswith("#") and line[:1] == " " else ""

    def _lead(self, node: Node) -> int:
        """Return the offset behind the `:` or `-` that a value follows."""
        at = node.start
        while at > 0 and self.text[at - 1] not in ":-":
            at = self._line_start(at - 1) if self._only_comment(at - 1) else at - 1
        return at

    def _only_comment(self, at: int) -> bool:
        """True when the offset lies in a line that holds only a comment, or in the comment of a line."""
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
        at = self._line_end(offset) if not self.text[:offset].endswith("\n") else offset - 1
        if self.text.startswith("\r\n", at):
            at += 2
        elif self.text.startswith("\n", at):
            at += 1
        else:
            return self.text[:at] + self.newline + self.newline.join(lines) + self.text[at:]
        return self._cut(at, at, self.newline.join(lines) + self.newline)

    def _appended(self, lines: list[str]) -> str:
        bare = self.text.removeprefix("\ufeff")
        joint = self.newline if bare and not bare.endswith("\n") else ""
        return self.text + joint + self.newline.join(lines) + self.newline

    def _dash(self, holder: Node, index: int) -> int:
        """Return the offset of the dash before an item of a block list."""
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
    """Return by how much the text indents a level, 2 where it has none."""
    if node is None or not node.block:
        return 2
    for item in node.items:
        if item.block and item.kind == "mapping" and item.column > node.column:
            return item.column - node.column if node.kind == "mapping" else _step(item)
    return next((_step(item) for item in node.items if item.block and item.kind == "mapping"), 2)
