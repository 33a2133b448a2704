"""Import transformers without reading its models twice.

Until it has imported `transformers.models`, transformers reads the 1,700 files of its models for the names in
them, once for itself and once for that package: a tenth of the time until training begins, and more on a
network disk. This uses a private function of transformers 5; where it is not as expected, both are read.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

_PARENT = "models"


def import_transformers() -> None:
    """Import transformers and `transformers.models`. Raises ImportError as an import does."""
    if "transformers.models" in sys.modules:
        return
    importlib.import_module("transformers")
    names: Any = importlib.import_module("transformers.utils.import_utils")
    define = getattr(names, "define_import_structure", None)
    if define is None:
        return
    folder = Path(names.__file__).parents[1] / _PARENT

    def define_once(path: str, prefix: str | None = None) -> Any:
        if prefix is None and Path(path) == folder / "__init__.py":
            return _without_prefix(define(folder, prefix=_PARENT)) or define(path)
        return define(path, prefix)

    names.define_import_structure = define_once
    try:
        importlib.import_module(f"transformers.{_PARENT}")
    finally:
        names.define_import_structure = define


def _without_prefix(structure: Any) -> Any:
    """Return what transformers found for itself as for `transformers.models`. Empty in an unknown form."""
    start = f"{_PARENT}."
    try:
        return {
            needed: {key.removeprefix(start): found[key] for key in found if key.startswith(start)}
            for needed, found in structure.items()
        }
    except (AttributeError, TypeError):
        return {}
