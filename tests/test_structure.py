"""Hold the habits of the code base: short modules, short functions, docstrings, names of the field."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "grpo_tui"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROSE = [*MODULES, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

MOST_MODULE_LINES = 400
MOST_FUNCTION_LINES = 60
NAMES_THAT_SAY_NOTHING = re.compile(r"(^|_)(utils?|helpers?|managers?|common|misc)($|_)", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + r"X)\b")


def label(path: Path) -> str:
    """Name a file the way a person would look for it."""
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    """Parse one module of the package."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, nested ones too."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def words(name: str) -> str:
    """Spell a CamelCase name with underscores, so that one pattern fits both spellings."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def test_the_package_is_found() -> None:
    assert len(MODULES) > 5, f"no modules under {PACKAGE}"


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_module_is_short_enough(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_MODULE_LINES, f"{label(path)} has {lines} lines, {MOST_MODULE_LINES} are allowed"


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_functions_are_short_enough(path: Path) -> None:
    long = {
        f"{label(path)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for node in functions(parsed(path))
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    }
    assert not long, f"more than {MOST_FUNCTION_LINES} lines: {long}"


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_module_starts_with_a_docstring(path: Path) -> None:
    assert ast.get_docstring(parsed(path)), f"{label(path)} does not say what it does"


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_names_say_what_a_thing_is(path: Path) -> None:
    tree = parsed(path)
    defined = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    defined += [node.name for node in functions(tree)]
    defined += path.relative_to(PACKAGE).with_suffix("").parts
    empty = [name for name in defined if NAMES_THAT_SAY_NOTHING.search(words(name))]
    assert not empty, f"{label(path)}: {empty}"


@pytest.mark.parametrize("path", PROSE, ids=label)
def test_nothing_is_left_to_do(path: Path) -> None:
    found = UNFINISHED.findall(path.read_text(encoding="utf-8"))
    assert not found, f"{label(path)}: {found}"
