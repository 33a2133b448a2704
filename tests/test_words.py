"""No text that a user meets has a phrase that the product does not use."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORBIDDEN = re.compile(
    r"\b(or no more|hear it|hear alone|group spread|spread (in|inside) a group|stands (twice|below)"
    r"|share (cut|clipped)|flat groups?|anew|by chance|as they are now|way on|last sign|is nowhere"
    r"|is there already|any more|goes with|training goes on"
    r"|(is|are) no (number|field|age|command|text|pattern|JSON|YAML|config|mode|preset))\b"
)


def test_no_string_of_the_program_has_a_forbidden_phrase() -> None:
    hits = []
    for path in sorted((ROOT / "grpo_tui").rglob("*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                hits += [f"{path}:{node.lineno}: {hit[0]}" for hit in FORBIDDEN.finditer(node.value)]
    assert hits == []


def test_no_page_has_a_forbidden_phrase() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "grpo_tui").rglob("*.toml")]
    hits = [f"{page}: {hit[0]}" for page in sorted(pages) for hit in FORBIDDEN.finditer(page.read_text())]
    assert hits == []
