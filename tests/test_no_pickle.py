"""Reading a file never runs what is in it: no pickle is loaded, and torch loads data alone."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "grpo_tui"
LOADERS = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def _unsafe(source: str) -> list[int]:
    """Lines that load a pickle."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "") in LOADERS:
            lines.append(node.lineno)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        by_pickle = owner.split(".")[-1] in LOADERS and name in ("load", "loads", "Unpickler", "open")
        said = {k.arg: isinstance(k.value, ast.Constant) and k.value.value for k in node.keywords}
        by_torch = (owner, name) == ("torch", "load") and said.get("weights_only") is not True
        by_numpy = owner in ("np", "numpy") and name == "load" and bool(said.get("allow_pickle"))
        if by_pickle or by_torch or by_numpy or name == "read_pickle":
            lines.append(node.lineno)
    return lines


def test_the_package_loads_no_pickle() -> None:
    found = {path.name: _unsafe(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_what_would_load_a_pickle_is_found() -> None:
    for line in (
        "pickle.loads(data)",
        "from pickle import loads",
        "torch.load(file)",
        "torch.load(file, weights_only=False)",
        "torch.load(file, weights_only=sure)",
        "np.load(file, allow_pickle=True)",
    ):
        assert _unsafe(line) == [1], line
    assert _unsafe("torch.load(file, weights_only=True)\npickle.dumps(x)\njson.loads(y)") == []
