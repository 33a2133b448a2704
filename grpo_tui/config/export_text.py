"""The script that is being written: its imports, constants and functions, and how values stand in it.

Knows Python's text and where the script will lie; what belongs into it is told by others.
"""

from __future__ import annotations

import os
import pprint
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_tui.config.export_sources import SourceParts, import_lines

WIDTH = 110

FROM_FILE = '''
@functools.cache
def module_of(file):
    """A Python file, run once; it may import what lies beside it."""
    path = HERE / file
    sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"file_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def from_file(file, name):
    """What a Python file calls by that name."""
    return operator.attrgetter(name)(module_of(file))
'''


class Script:
    """Gathers the parts of a script.

    Args:
        folder: where the script will lie; paths in it are written from there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.imports: set[tuple[str, str | None]] = set()
        self.path_folders: set[str] = set()
        self.constants: list[str] = []
        self._functions: dict[str, None] = {}
        self._parts = SourceParts()

    def function(self, text: str) -> None:
        """Add a function's source, once."""
        self._functions.setdefault(text.strip("\n"))

    def need(self, text: str, *modules: str) -> None:
        """Add a function and the modules it imports."""
        self.function(text)
        self.imports |= {(module, None) for module in modules}

    def copy(self, dotted: str) -> str:
        """Copy a definition of this package, with all it stands on; returns its name."""
        return self._parts.add(dotted)

    def path(self, file: str | Path) -> str:
        """Return a file's path from the script's folder, absolute where that lies far off."""
        near = os.path.relpath(file, self.folder)
        return near if not near.startswith(os.path.join("..", "..", "..")) else str(file)

    def from_file(self, file: str, name: str) -> str:
        """Return the expression for a name in a person's Python file."""
        self.need(FROM_FILE, "functools", "importlib.util", "operator", "sys")
        return f"from_file({literal(self.path(file))}, {literal(name)})"

    def text(self, doc: str, before: str, main: str) -> str:
        """Return the whole script.

        Args:
            doc: its docstring.
            before: statements before any library is imported.
            main: the function `main`.
        """
        copied = list(self._parts.texts())
        functions = [f"{text}\n" for text in [*copied, *self._functions, main]]
        top = [
            f"sys.path.insert(0, str(HERE / {literal(self.path(one))}))" for one in sorted(self.path_folders)
        ]
        self.imports |= self._parts.imports | ({("sys", None)} if top else set())
        if any("HERE" in text for text in [*top, *functions]):
            self.imports.add(("pathlib", "Path"))
            top.insert(0, "HERE = Path(__file__).resolve().parent")
        top += self.constants
        lines = [f'"""{doc}"""', "", "from __future__ import annotations", ""]
        lines += [before, ""] if before else []
        lines += [*import_lines(self.imports), "", *top, *([""] if top else []), "", ""]
        return "\n".join(lines) + "\n\n".join(functions) + '\n\nif __name__ == "__main__":\n    main()\n'


def call(name: str, params: Mapping[str, Any], *first: str) -> str:
    """Return a call as text: positional expressions first, params as keywords."""
    words = [*first, *(f"{key}={literal(value)}" for key, value in params.items() if key.isidentifier())]
    odd = {key: value for key, value in params.items() if not key.isidentifier()}
    return f"{name}({', '.join([*words, *([f'**{literal(odd)}'] if odd else [])])})"


def literal(value: Any) -> str:
    """Return a value of a config as Python writes it, texts in double quotes."""
    if isinstance(value, float) and not (-float("inf") < value < float("inf")):
        return f'float("{value}")'
    if isinstance(value, str):
        plain = repr(value)
        return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain and "\\'" not in plain else plain
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(literal, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


def arguments(params: Mapping[str, Any], indent: int) -> str:
    """Return keyword arguments, one a line; long texts and mappings folded."""
    space = " " * indent
    lines = []
    for key, value in params.items():
        text = literal(value)
        if len(text) + len(key) + indent > WIDTH and isinstance(value, (str, dict, list)):
            text = textwrap.indent(
                pprint.pformat(value, width=WIDTH - indent - 8, sort_dicts=False), space
            ).lstrip()
        lines.append(f"{space}{key}={text},\n")
    return "".join(lines)


def text_constant(name: str, value: str) -> str:
    """Return a constant that holds a text, over lines where it has some."""
    plain = value.replace("\n", "")
    if "\n" not in value or '"""' in value or value.endswith('"') or "\\" in plain or not plain.isprintable():
        return f"{name} = {literal(value)}"
    return f'{name} = """\\\n{value}"""'
