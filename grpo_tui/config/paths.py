"""Where a name in a config points on this machine: files and folders made absolute, the rest left alone.

A key of TRL means what it means to TRL, so the working folder comes first and the config's own folder
second; a key of the section `grpo_tui:` is looked up beside the config first. It opens no file, and a name
that no file can have, too long for the file system, is one that is not there.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_FILE_SOURCE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_][\w.]*)", re.DOTALL)
DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
LONGEST_HUB_NAME = 193
"""`owner/name`, 96 characters each at most."""
_MODEL_FILES = ("config.json", "adapter_config.json")


def split_file_source(source: str) -> tuple[str, str] | None:
    """Split `rewards.py:correct` into its file and name; None when the text has another form."""
    match = _FILE_SOURCE.fullmatch(source.strip())
    return (match["path"], match["name"]) if match else None


def run_root(output_dir: object, file: Path | None) -> Path:
    """Where a run is kept unless a person says otherwise: the config's `output_dir`, else `outputs/NAME`."""
    return Path(str(output_dir)) if output_dir else Path("outputs", file.stem if file is not None else "run")


@dataclass(frozen=True, slots=True)
class Places:
    """Where names are looked up: the config file's folder and the working folder of the run."""

    folder: Path
    cwd: Path

    def beside_config(self, value: str) -> Path:
        """Return the absolute path of a file in the section: beside the config, or in the working folder."""
        path = Path(value).expanduser()
        beside, here = self.folder / path, self.cwd / path
        return here if not os.path.exists(beside) and os.path.exists(here) else beside

    def model_path(self, value: str) -> str:
        """Return a model's folder as an absolute path, or the value unchanged when it is none (a Hub id).

        A folder beside the config counts only when it holds a model, so that a Hub id such as `gpt2` is not
        taken for a run folder of the same name.
        """
        path = Path(value).expanduser()
        if os.path.isdir(self.cwd / path):
            return str(self.cwd / path)
        beside = self.folder / path
        return str(beside) if any(os.path.isfile(beside / name) for name in _MODEL_FILES) else value

    def existing_path(self, value: str) -> str:
        """Return an existing file or folder as an absolute path; the value unchanged when there is none."""
        path = Path(value).expanduser()
        found = next((p / path for p in (self.cwd, self.folder) if os.path.exists(p / path)), None)
        return str(found) if found is not None else value
