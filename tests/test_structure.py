"""Hold the habits of the code base: modules and functions of a readable length, names of the field."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "grpo_tui"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROSE = [*MODULES, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

MOST_MODULE_LINES = 800
MOST_FUNCTION_LINES = 60
NAMES_THAT_SAY_NOTHING = re.compile(r"(^|_)(utils?|helpers?|managers?|common|misc)($|_)", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + r"X)\b")


def label(path: Path) -> str:
    """Return the path as seen from the root of the repository."""
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    """Parse one module of the package."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return every function and method of a module, nested ones too."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def words(name: str) -> str:
    """Spell a CamelCase name with underscores, so that one pattern fits both spellings."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def test_the_package_is_found() -> None:
    assert len(MODULES) > 5, f"no modules under {PACKAGE}"


def test_modules_are_short_enough() -> None:
    lines = {label(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    long = {name: count for name, count in lines.items() if count > MOST_MODULE_LINES}
    assert not long, f"more than {MOST_MODULE_LINES} lines: {long}"


def test_functions_are_short_enough() -> None:
    long = {
        f"{label(path)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path in MODULES
        for node in functions(parsed(path))
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    }
    assert not long, f"more than {MOST_FUNCTION_LINES} lines: {long}"


def test_names_say_what_a_thing_is() -> None:
    empty = []
    for path in MODULES:
        tree = parsed(path)
        defined = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        defined += [node.name for node in functions(tree)]
        defined += path.relative_to(PACKAGE).with_suffix("").parts
        empty += [f"{label(path)}: {name}" for name in defined if NAMES_THAT_SAY_NOTHING.search(words(name))]
    assert not empty, empty


def test_nothing_is_left_to_do() -> None:
    found = {label(path): UNFINISHED.findall(path.read_text(encoding="utf-8")) for path in PROSE}
    assert not any(found.values()), {name: words for name, words in found.items() if words}
