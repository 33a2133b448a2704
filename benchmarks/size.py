"""How large the package is: lines, lines of code, files and imports, by subpackage.

    python benchmarks/size.py [--tree PATH]

A line of code holds something other than a comment, a docstring or nothing. An import is one name brought in
by an `import` statement. Below stand the lines of the data files that the code reads. `--tree` counts another
checkout, to see two states beside each other.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import tokenize
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
BORDERS = {tokenize.ENCODING, tokenize.ENDMARKER}
DATA = (".toml", ".json", ".txt", ".tcss", ".yaml")
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def counted(file: Path) -> tuple[int, int, int]:
    """Lines, lines of code and imported names of a source file."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    code: set[int] = set()
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type not in SILENT | BORDERS:
                code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            code.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    imports = sum(len(node.names) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return len(text.splitlines()), len(code), imports


def main() -> None:
    """Print a row for each subpackage, and their sum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, default=HERE)
    package = parser.parse_args().tree / "grpo_tui"
    rows: dict[str, list[tuple[int, int, int]]] = {}
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package).parts
        rows.setdefault(inside[0] if len(inside) > 1 else "grpo_tui", []).append(counted(file))
    rows["all"] = [figures for files in rows.values() for figures in files]
    print(f"{'package':12}{'files':>7}{'lines':>8}{'code':>8}{'imports':>9}{'median':>8}{'longest':>9}")
    for name, files in rows.items():
        lines, code, imports = (sum(column) for column in zip(*files, strict=True))
        lengths = [figures[0] for figures in files]
        print(
            f"{name:12}{len(files):7}{lines:8,}{code:8,}{imports:9,}"
            f"{statistics.median(lengths):8.0f}{max(lengths):9,}"
        )
    data = [file for file in package.rglob("*") if file.suffix in DATA and "model" not in file.parts]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in data)
    print(f"{'data files':12}{len(data):7}{lines:8,}")


if __name__ == "__main__":
    main()
