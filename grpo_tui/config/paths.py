"""Where a name in a config points on this machine: files and folders made absolute, the rest left alone.

A key of TRL means what it means to TRL, so the working folder comes first and the config's own folder
second; a key of the section `grpo_tui:` is looked up beside the config first. It opens no file.
"""

from __future__ import annotations

import re
from pathlib import Path

_FILE_SOURCE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_][\w.]*)")
DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
_MODEL_FILES = ("config.json", "adapter_config.json")


def split_file_source(source: str) -> tuple[str, str] | None:
    """Split `rewards.py:correct` into its file and name; None when the text has another form."""
    match = _FILE_SOURCE.fullmatch(source.strip())
    return (match["path"], match["name"]) if match else None


def beside_config(value: str, folder: Path) -> Path:
    """Return the absolute path of a file in the section: beside the config, or in the working folder."""
    path = Path(value).expanduser()
    if path.is_absolute():
        return path
    beside = (folder / path).absolute()
    here = path.absolute()
    return here if not beside.exists() and here.exists() else beside


def model_path(value: str, folder: Path) -> str:
    """Return a model's folder as an absolute path, or the value unchanged when it names no folder (a Hub id).

    A folder beside the config counts only when it holds a model, so that a Hub id such as `gpt2` is not
    taken for a run folder of the same name.
    """
    path = Path(value).expanduser()
    if path.is_dir():
        return str(path.absolute())
    beside = folder / path
    if not path.is_absolute() and any((beside / name).is_file() for name in _MODEL_FILES):
        return str(beside.absolute())
    return value


def existing_path(value: str, folder: Path) -> str:
    """Return an existing file or folder as an absolute path, or the value unchanged when there is none."""
    path = Path(value).expanduser()
    if path.exists():
        return str(path.absolute())
    beside = folder / path
    return str(beside.absolute()) if beside.exists() else value
