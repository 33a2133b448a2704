"""Parse YAML into plain values with the line of each key.

Values are parsed by PyYAML's safe rules, as in TRL. Duplicate keys and tabs are errors with a line.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]
MOST_VALUES = 200_000
"""Nested aliases can expand a short file to billions of values."""


class YamlError(ValueError):
    """The text cannot be read. `line` counts from 1."""

    def __init__(self, message: str, line: int | None, key: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.key = key


_MEANT = (
    ("could not find expected ':'", "Put a colon and a space after the key, as in `beta: 0.04`"),
    ("mapping values are not allowed here", "Quote a value that contains `: `, or fix the indentation"),
    ("but found another document", "Remove the `---`: a config is a single document"),
    ("found unexpected end of stream", "The quote opened here is never closed"),
    ("expected ',' or '}'", "The brace opened here is never closed, or a comma is missing"),
    ("expected ',' or ']'", "The bracket opened here is never closed, or a comma is missing"),
    ("expected <block end>", "The indentation does not match the lines before"),
    ("character '\\t'", "Replace the tab with a space"),
    (
        "found undefined alias",
        "Quote a value that starts with `*`, or define the anchor (`&`) that it refers to",
    ),
    ("could not determine a constructor", "Quote a value that starts with `!`: a config has no YAML tags"),
    ("that cannot start any token", "Quote a value that starts with this character"),
)
"""PyYAML's messages, and what the user can do about each."""
_OPENED_BEFORE = ("could not find expected ':'", "unexpected end of stream", "but got '<stream end>'")
"""Problems reported after their cause, so the error points to where the construct begins."""


@dataclass(slots=True)
class YamlDocument:
    """A mapping read from YAML.

    Attributes:
        lines: Line (from 1) of each key or list item, by path: `("grpo_tui", "rewards", 0, "name")`.
        plain: Text of each unquoted value, by path.
        twice: Errors about duplicate keys. `values` has the last value of each.
    """

    values: dict[str, Any]
    lines: dict[Path, int] = field(default_factory=dict)
    plain: dict[Path, str] = field(default_factory=dict)
    twice: list[YamlError] = field(default_factory=list)

    def line(self, *path: str | int) -> int | None:
        """Return the line of a path, or of its nearest parent."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with the line of a scalar that cannot be used.

    Such scalars are invalid dates (2024-13-45) and integers too large for a float.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Build one value."""
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int):
                float(value)
            return value
        except (ValueError, OverflowError) as error:
            raise YamlError(f"a value cannot be read: {str(error).split(';')[0]}", _line(node)) from error


def parse_mapping(text: str, *, loose: bool = False) -> YamlDocument:
    """Parse one YAML document whose top level is a mapping. An empty text is an empty mapping.

    Args:
        loose: Collect duplicate keys in `twice` instead of raising, so that they hide no other error.

    Raises:
        YamlError: Invalid syntax, tabs, duplicate keys, or values that are not plain data.
    """
    try:
        document = _parse(text)
        if document.twice and not loose:
            raise document.twice[0]
        return document
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = ord(error.character) if isinstance(error.character, str) else int(error.character)
        raise YamlError(f"remove the control character U+{code:04X}", line) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from error
    except yaml.YAMLError as error:
        raise YamlError(f"invalid YAML: {error}", None) from error
    except RecursionError as error:
        raise YamlError("the values are nested too deeply", None) from error


def _parse(text: str) -> YamlDocument:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return YamlDocument({})
        if not isinstance(node, yaml.MappingNode):
            wrong = "the file must be a mapping of keys to values, as in `learning_rate: 1.0e-5`"
            raise YamlError(wrong, _line(node))
        document = YamlDocument({})
        _walk(node, (), document, set())
        values = loader.construct_document(node)
    finally:
        loader.dispose()
    nodes = [key_node for key_node, _ in node.value]
    if document.twice:  # a dict keeps the position of the first and the value of the last
        nodes = list({key_node.value: key_node for key_node in nodes}.values())
    for key_node, key in zip(nodes, values, strict=False):
        if not isinstance(key, str) and isinstance(key_node, yaml.ScalarNode):
            written = key_node.value or "with no name"
            message = f"YAML reads the key {written} as {key!r}, not as text. Quote the key or rename it"
            raise YamlError(message, _line(key_node))
    document.values = {
        key: _plain_data(value, document.lines.get((key,)), key) for key, value in values.items()
    }
    return document


def parse_value(text: str, top: str = "value") -> tuple[Any, str | None]:
    """Parse one value for `--set K=V`. Return it, and its text if it is unquoted.

    Args:
        top: First part of the key. Below `grpo_tui`, the key `on` is text.

    Raises:
        YamlError: The text is not valid YAML.
    """
    if not text.strip():
        return "", None
    document = parse_mapping(f"{top}: {text}" if "\n" not in text else f"{top}:\n{text}")
    return document.values[top], document.plain.get((top,))


def _walk(node: yaml.Node, path: Path, document: YamlDocument, parents: set[int]) -> None:
    """Record lines and quoting below a node. Reject aliases that contain themselves."""
    if id(node) in parents:
        raise YamlError("an alias contains itself", _line(node))
    if len(document.lines) > MOST_VALUES:
        raise YamlError(f"its aliases expand to more than {MOST_VALUES} values", _line(node))
    inside = parents | {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError("a key must be a single word", _line(key_node))
            key = str(key_node.value)
            if path[:1] == ("grpo_tui",) and key_node.tag == "tag:yaml.org,2002:bool":
                key_node.tag = "tag:yaml.org,2002:str"  # YAML 1.1 reads on as true; only we read this section
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for part in merged:
                    _walk(part, path, document, inside)
                continue
            if key in seen:
                again = YamlError(
                    f"duplicate key {key} (lines {seen[key]} and {_line(key_node)}). Remove one of them: "
                    "YAML would silently keep the last one",
                    _line(key_node),
                    ".".join(map(str, (*path, key))),
                )
                document.twice.append(again)
            seen[key] = _line(key_node)
            document.lines[(*path, key)] = _line(key_node)
            _walk(value_node, (*path, key), document, inside)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.lines[(*path, index)] = _line(item)
            _walk(item, (*path, index), document, inside)
    elif isinstance(node, yaml.ScalarNode) and node.style is None:
        document.plain[path] = str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax_error(error: yaml.MarkedYAMLError, text: str) -> YamlError:
    problem = error.problem or error.context or "unknown problem"
    late = error.context_mark is not None and any(words in problem for words in _OPENED_BEFORE)
    mark = error.context_mark if late else error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else None
    lines = text.splitlines()
    around = [n for n in (line, line - 1 if line else None) if n and 0 < n <= len(lines)]
    for number in around:
        content = lines[number - 1]
        if "\t" in content[: len(content) - len(content.lstrip())]:
            return YamlError("the line is indented with a tab. YAML allows spaces only", number)
    meant = next((what for words, what in _MEANT if words in problem), None)
    return YamlError(f"invalid YAML: {problem}{f'. {meant}' if meant else ''}", line)


def _plain_data(value: Any, line: int | None, key: str) -> Any:
    """Convert dates to strings and reject values that JSON cannot represent (binary, sets)."""
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, dict):
        return {k: _plain_data(v, line, key) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_data(v, line, key) for v in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    wrong = f"the value of {key} has the type {type(value).__name__}, which no setting accepts"
    raise YamlError(wrong, line, key)
