"""Copy definitions of this package into one flat source text that does not import the package.

`SourceParts` takes names such as `grpo_tui.rewards.library.NumericAnswer` and follows the names in their
source across modules. It only reads files.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = "grpo_tui"
_WIDTH = 110

# Replacements for functions that would pull in parts of the package that a script does not need.
_STAND_INS = {
    ("grpo_tui.rewards.library.wrappers", "_loaded"): (
        "def _loaded(entry: Any) -> Any:\n"
        '    raise TypeError(f"a wrapper goes around a reward function or object, not around {entry!r}")'
    )
}


class NoSourceError(ValueError):
    """A name has no source that can be copied."""


@dataclass(frozen=True, slots=True)
class _Module:
    """A module's source, its top-level definitions, and its imports as alias → (module, name)."""

    text: str
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, tuple[str, str | None]] = field(default_factory=dict)


class SourceParts:
    """Collects definitions, dependencies first."""

    def __init__(self) -> None:
        self._modules: dict[str, _Module] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._homes: dict[str, str] = {}
        self._visiting: set[tuple[str, str]] = set()
        self.imports: set[tuple[str, str | None]] = set()

    def add(self, dotted: str) -> str:
        """Add a definition and its dependencies. Return its name.

        Raises:
            NoSourceError: The name does not exist, or two definitions share it.
        """
        module, _, name = dotted.rpartition(".")
        self._visit(module, name)
        return name

    def texts(self) -> Iterator[str]:
        """Yield the definitions, dependencies first."""
        yield from self._texts.values()

    def _visit(self, module: str, name: str) -> None:
        if (module, name) in self._texts or (module, name) in self._visiting:
            return
        known = self._module(module)
        if name in known.imported:
            source, original = known.imported[name]
            if source.partition(".")[0] == _PACKAGE and original is not None:
                self._visit(source, original)
            else:
                self.imports.add((source, original))
            return
        if name not in known.defined:
            raise NoSourceError(f"there is no {name} in {module}")
        if self._homes.setdefault(name, module) != module:
            raise NoSourceError(f"{name} is defined in {self._homes[name]} and in {module}")
        self._visiting.add((module, name))
        text = _STAND_INS.get((module, name)) or _text_of(known, known.defined[name])
        for used in _names_in(ast.parse(text)):
            if used in known.defined or used in known.imported:
                self._visit(module, used)
        self._texts[module, name] = text

    def _module(self, module: str) -> _Module:
        if module not in self._modules:
            self._modules[module] = _read(module)
        return self._modules[module]


def import_lines(imports: set[tuple[str, str | None]]) -> list[str]:
    """Return import statements, standard library first, with one line per module."""
    names: dict[str, set[str]] = {}
    plain = set()
    for module, name in imports:
        if name is None:
            plain.add(module)
        else:
            names.setdefault(module, set()).add(name)
    lines = [(module, f"import {module}") for module in plain]
    lines += [(module, _from_line(module, sorted(found))) for module, found in names.items()]

    def place(line: tuple[str, str]) -> tuple[bool, bool, str]:
        return (line[0].partition(".")[0] not in sys.stdlib_module_names, line[1].startswith("from"), line[0])

    ordered = sorted(lines, key=place)
    own = [text for module, text in ordered if module.partition(".")[0] in sys.stdlib_module_names]
    others = [text for _, text in ordered if text not in own]
    return [*own, *([""] if own and others else []), *others]


def _from_line(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _read(module: str) -> _Module:
    base = _ROOT.joinpath(*module.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise NoSourceError(f"{module} cannot be read: {error.strerror}") from error
    found = _Module(text)
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                found.imported[alias.asname or alias.name] = (str(node.module), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found.imported[alias.name] = (alias.name, None)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.defined[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.defined.update({t.id: node for target in targets for t in _flat(target)})
    return found


def _flat(target: ast.expr) -> Iterator[ast.Name]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node


def _text_of(module: _Module, node: ast.stmt) -> str:
    lines = module.text.splitlines()
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _names_in(tree: ast.AST) -> list[str]:
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.setdefault(node.id)
    return list(found)
