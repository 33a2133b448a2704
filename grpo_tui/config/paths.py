"""Resolve file and folder names of a config to absolute paths, and leave other names unchanged.

TRL's keys are looked up in the working folder first, as TRL does, and then next to the config. Keys of the
`grpo_tui:` section are looked up next to the config first. A name too long for the file system does not
exist.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_FILE_SOURCE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_][\w.]*)", re.DOTALL)
DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
LONGEST_HUB_NAME = 193
"""`owner/name` with at most 96 characters each."""
_MODEL_FILES = ("config.json", "adapter_config.json")


def split_file_source(source: str) -> tuple[str, str] | None:
    """Split `rewards.py:correct` into file and name. Return None for any other form."""
    match = _FILE_SOURCE.fullmatch(source.strip())
    return (match["path"], match["name"]) if match else None


def run_root(output_dir: object, file: Path | None) -> Path:
    """Return the default run folder: the config's `output_dir`, else `outputs/NAME`."""
    return Path(str(output_dir)) if output_dir else Path("outputs", file.stem if file is not None else "run")


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look up names: the config file's folder and the run's working folder."""

    folder: Path
    cwd: Path

    def beside_config(self, value: str) -> Path:
        """Return the absolute path of a file in the section, next to the config or in the working folder."""
        path = Path(value).expanduser()
        beside, here = self.folder / path, self.cwd / path
        return here if not os.path.exists(beside) and os.path.exists(here) else beside

    def model_path(self, value: str) -> str:
        """Return a model folder as an absolute path, and a Hub id unchanged.

        A folder next to the config counts only if it contains a model. Otherwise a Hub id such as `gpt2`
        could be taken for a run folder of the same name.
        """
        path = Path(value).expanduser()
        if os.path.isdir(self.cwd / path):
            return str(self.cwd / path)
        beside = self.folder / path
        return str(beside) if any(os.path.isfile(beside / name) for name in _MODEL_FILES) else value

    def existing_path(self, value: str) -> str:
        """Return an existing file or folder as an absolute path, any other value unchanged."""
        path = Path(value).expanduser()
        found = next((p / path for p in (self.cwd, self.folder) if os.path.exists(p / path)), None)
        return str(found) if found is not None else value
