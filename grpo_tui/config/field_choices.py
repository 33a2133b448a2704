"""Which values a field allows, where the installed source says so.

Four places are read, none is guessed: the field's metadata, an enum named in its annotation, the comparisons
of TRL's own trainer that end in a `raise` for everything else, and a help text that lists them after words
such as "Must be one of". A field with none of these has no known choices and is not checked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

Parse = Callable[[str, str], ast.Module]
Read = Callable[[str, str], str]

_ENUM_FILES = ("trainer_utils.py", "training_args.py")
_TRAINER_FILES = ("trainer/grpo_trainer.py",)
_INTEGRATIONS = "integrations/integration_utils.py"
_INTEGRATION_TABLE = re.compile(r"^INTEGRATION_TO_CALLBACK = \{[^}]*\}", re.MULTILINE)
_STATED = {
    "cache_implementation": (
        ("transformers", "generation/configuration_utils.py"),
        r"^(?:DEPRECATED_STATIC|STATIC|DYNAMIC)_CACHE_IMPLEMENTATIONS = \(([^)]*)\)",
    ),
    "torch_compile_backend": (
        ("accelerate", "utils/dataclasses.py"),
        r"^class DynamoBackend.*?(^    NO = .*?)\n\n",
    ),
    "torch_compile_mode": (("torch", "_inductor/__init__.py"), r"mode_options: .*?= (\{.*?\n    \})"),
}
"""Fields whose values another file lists: the file, and the part of it whose quoted words they are."""
_QUOTED = r"[`'\"]+([\w-]+)[`'\"]+"
_LISTED = re.compile(
    r"(?:Must be one of|Supported values are|Supported options are|Options)(?: of)?:?\s+"
    rf"({_QUOTED}(?:(?:,? (?:or|and) |, ){_QUOTED})+)"
)


class ChoiceSource:
    """Reads choices and aliases from the source files that `parse` and `read` give."""

    def __init__(self, parse: Parse, read: Read) -> None:
        self._parse = parse
        self._read = read

    def of(
        self, name: str, annotation: str, metadata: ast.expr | None, help_text: str
    ) -> tuple[str, ...] | None:
        """Return the allowed values of one field, or None where the source does not state them."""
        if name == "include_num_input_tokens_seen":  # its help lists them beside "or a boolean value"
            return ("all", "non_padding", "no")
        if name == "report_to":
            return ("all", "none", *self._integrations) if self._integrations else None
        if name == "log_level_replica":  # its help does not list them; that of log_level does
            return ("debug", "info", "warning", "error", "critical", "passive")
        if name in _STATED:
            return self._stated(*_STATED[name])
        if metadata is not None:
            try:
                return tuple(str(choice) for choice in ast.literal_eval(metadata))
            except ValueError:
                pass  # computed at import time; the help text below may still list them
        for enum_name in re.findall(r"\w+", annotation):
            if enum_name in self._enums:
                return self._enums[enum_name]
        if name in self._compared:
            return self._compared[name]
        listed = _LISTED.search(help_text)
        if listed is not None and annotation in ("str", "str | None"):
            return tuple(dict.fromkeys(re.findall(_QUOTED, listed.group(1))))
        return None

    def aliases(self, name: str) -> Mapping[str, str] | None:
        """Return what TRL itself turns into another value when the config is built, with lower-case keys."""
        return self._aliases.get(name)

    def _stated(self, file: tuple[str, str], part: str) -> tuple[str, ...] | None:
        try:
            parts = re.findall(part, self._read(*file), re.MULTILINE | re.DOTALL)
        except RuntimeError:  # not installed, or laid out otherwise
            return None
        words = re.findall(r"[\"']([\w-]+)[\"'](?!\w|\s*: (?:True|False))", "\n".join(parts))
        return tuple(dict.fromkeys(word.lower() for word in words)) or None

    @cached_property
    def _enums(self) -> dict[str, tuple[str, ...]]:
        enums: dict[str, tuple[str, ...]] = {}
        for relative in _ENUM_FILES:
            for node in self._parse("transformers", relative).body:
                if isinstance(node, ast.ClassDef) and any(
                    isinstance(base, ast.Name) and base.id == "ExplicitEnum" for base in node.bases
                ):
                    enums[node.name] = tuple(
                        item.value.value
                        for item in node.body
                        if isinstance(item, ast.Assign)
                        and isinstance(item.value, ast.Constant)
                        and isinstance(item.value.value, str)
                    )
        return enums

    @cached_property
    def _integrations(self) -> tuple[str, ...]:
        table = _INTEGRATION_TABLE.search(self._read("transformers", _INTEGRATIONS))
        return tuple(re.findall(r"""["'](\w+)["']\s*:""", table[0])) if table else ()

    @cached_property
    def _compared(self) -> dict[str, tuple[str, ...]]:
        """Values of a setting that the trainer knows, for settings where any other value makes it raise."""
        values: dict[str, dict[str, None]] = {}
        exhaustive: set[str] = set()
        for relative in _TRAINER_FILES:
            for branch in _branches(self._parse("trl", relative).body):
                for node in ast.walk(branch.test):
                    name, texts = _comparison(node) if isinstance(node, ast.Compare) else (None, ())
                    if name is not None:
                        values.setdefault(name, {}).update(dict.fromkeys(texts))
                name = _raising_chain(branch)
                if name is not None:
                    exhaustive.add(name)
        return {name: tuple(sorted(values[name])) for name in exhaustive if len(values.get(name, ())) > 1}

    @cached_property
    def _aliases(self) -> dict[str, dict[str, str]]:
        """Find `self.x = {True: "group", False: "none"}.get(self.x, self.x)` in GRPOConfig."""
        found: dict[str, dict[str, str]] = {}
        for node in ast.walk(self._parse("trl", "trainer/grpo_config.py")):
            if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)):
                continue
            call = node.value
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "get"
                and isinstance(call.func.value, ast.Dict)
            ):
                table = ast.literal_eval(call.func.value)
                found[node.targets[0].attr] = {str(key).lower(): str(value) for key, value in table.items()}
        return found


def _branches(body: list[ast.stmt]) -> Iterator[ast.If]:
    """Give every `if` below some statements; expressions, most of a file, are not looked into."""
    for node in body:
        if isinstance(node, ast.If):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers"):
            yield from _branches(getattr(node, part, []))


def _comparison(node: ast.Compare) -> tuple[str | None, tuple[str, ...]]:
    """Return the setting and the texts of `self.x == "a"`, `args.x != "a"` or `self.x in ["a", "b"]`."""
    left = node.left
    if not (
        isinstance(left, ast.Attribute)
        and isinstance(left.value, ast.Name)
        and left.value.id in ("self", "args")
    ):
        return None, ()
    if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
        return None, ()
    right = node.comparators[0]
    items = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else [right]
    texts = tuple(
        item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
    )
    return (left.attr, texts) if texts and len(texts) == len(items) else (None, ())


def _raising_chain(node: ast.If) -> str | None:
    """Return the setting that an `if … elif … else: raise` chain compares, if it compares one and ends so."""
    name = None
    current = node
    while True:
        if not isinstance(current.test, ast.Compare):
            return None
        found, _ = _comparison(current.test)
        if found is None or (name is not None and found != name):
            return None
        name = found
        if len(current.orelse) == 1 and isinstance(current.orelse[0], ast.If):
            current = current.orelse[0]
            continue
        return name if current is not node and any(isinstance(n, ast.Raise) for n in current.orelse) else None
