"""Find the files that a run's config names, and where each goes in a bundle.

A file next to the config or in the run's working folder keeps its relative path, so that the config names
it as before. Any other file goes to `files/N/`, together with its neighbours. Python files bring the local
modules that they import. Files that code opens by itself are unknown here.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from grpo_tui.config.export_script import exportable
from grpo_tui.config.paths import split_file_source
from grpo_tui.config.resolve import inspect_stage
from grpo_tui.config.run_config import RunConfig, is_secret
from grpo_tui.config.yaml_edit import get_value, split_key
from grpo_tui.store.layout import BUNDLE

SMALL_MODEL_BYTES = 3_000_000
"""A smaller model is part of its bundle without being asked for."""
RESERVED = ("README.md", BUNDLE, "config.yaml", "requirements.txt", "rows.jsonl", "files", "start")
"""Names in a bundle that no file of the user takes."""
DROPPED = ("output_dir", "resume_from_checkpoint", "logging_dir", "overwrite_output_dir")
"""Settings about places on this machine. A reproduction has its own."""
_WITH_PASSWORD = re.compile(r"\w+://[^/\s@]*:[^/\s@]+@")


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: It cannot be read.
    """
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class Packing:
    """Assigns files to names in a bundle, and rewrites a resolved config to these names.

    Attributes:
        values: The config for the bundle, in TRL's YAML keys.
        files: Name in the bundle → file, for those to copy.
        models: Name in the bundle → folder of a local model. Its files are in `files` only if it is small,
            or with `with_model`.
        left_out: Keys that were removed, with the reason.
    """

    def __init__(self, config: RunConfig, *, with_model: bool) -> None:
        self._config, self._with_model = config, with_model
        self._cwd = Path(config.cwd or os.curdir).absolute()
        self._bases = (*([config.path.parent] if config.path is not None else []), self._cwd)
        self._numbered: dict[Path, str] = {}
        self._tops: dict[str, Path] = {}
        self._walked: set[Path] = set()
        self.values: dict[str, Any] = copy.deepcopy(config.raw)
        self.files: dict[str, Path] = {}
        self.models: dict[str, Path] = {}
        self.left_out: dict[str, str] = {}

    def pack(self, launcher: tuple[str, ...]) -> None:
        """Fill the attributes.

        Raises:
            ConfigError: A stage cannot train.
            OSError: A file cannot be read.
        """
        self._name_files(launcher)
        self._stages()
        self.values = self._clean(self.values, "")

    def _name_files(self, launcher: tuple[str, ...]) -> None:
        values = self.values
        for key in DROPPED:
            values.pop(key, None)
        for part, key in ((self._config.model_args, "model_name_or_path"),
                          (self._config.script, "reward_model_name_or_path")):  # fmt: skip
            if part.get(key):
                values[key] = self._model(str(part[key]))
        if name := self._config.script.get("dataset_name"):
            values["dataset_name"] = self._data(str(name))
        for key in ("deepspeed", "fsdp_config", "accelerator_config"):
            if isinstance(values.get(key), str):
                values[key] = self._param(values[key])
        for source in self._config.script.get("reward_funcs") or ():
            self._source(str(source))
        self._mixture()
        self._section(launcher)

    def _stages(self) -> None:
        """Add the files that the settings of a stage name, and rewrite these settings."""
        stages = self._config.section.stages
        for place, (stage, written) in enumerate(
            zip(stages, self.values["grpo_tui"]["stages"] if stages else (), strict=True)
        ):
            inner = copy.copy(self)  # with the same files and names
            inner._config = exportable(inspect_stage(self._config, place, world_size=None))
            inner.values = copy.deepcopy(inner._config.raw)
            inner._name_files(())
            values = {key: get_value(inner.values, split_key(key), None) for key in stage.set}
            written["set"] = values

    def _mixture(self) -> None:
        entries = self._config.mixture.get("datasets") or ()
        for entry, written in zip(entries, self.values.get("datasets") or (), strict=False):
            written["path"] = self._data(str(entry["path"]))
            files = entry.get("data_files")
            if isinstance(files, str):
                written["data_files"] = self._data(files)
            elif isinstance(files, list):
                written["data_files"] = [self._data(str(name)) for name in files]

    def _section(self, launcher: tuple[str, ...]) -> None:
        section, known = self.values.setdefault("grpo_tui", {}), self._config.section
        if section.pop("notify", None) is not None:
            self.left_out["grpo_tui.notify"] = "notifications are yours"
        section.pop("gpus", None)
        for key, source in (("dataset", known.dataset), ("eval_dataset", known.eval_dataset)):
            if source is not None:
                section[key] = self._data(source)
        filters = section.get("filters")
        for key, file in (("exclude", known.filters.exclude), ("only", known.filters.only)):
            if isinstance(filters, dict) and file is not None:
                filters[key] = self._add(Path(file))
        probes = section.get("probe_prompts")
        if isinstance(probes, dict) and known.probe_prompts is not None and "source" in probes:
            probes["source"] = self._data(known.probe_prompts.source)
        rewards = section.get("rewards")
        for entry, written in zip(known.rewards, rewards or (), strict=False):
            if isinstance(written, dict) and isinstance(rewards, list):
                written |= {"name": entry.name, "source": self._source(entry.source)}
                if entry.params:
                    written["params"] = self._params(entry.params)
        section.pop("launcher", None)
        if launcher:
            section["launcher"] = shlex.join(self._word(word) for word in launcher)
        if not section:
            del self.values["grpo_tui"]

    # -- places ------------------------------------------------------------------------------------------

    def _place(self, file: Path) -> str:
        """Return the name of a file or folder in the bundle."""
        file = Path(os.path.normpath(file))
        for base in self._bases:
            if file.is_relative_to(base) and file != base:
                name = file.relative_to(base).as_posix()
                top = name.partition("/")[0]  # belongs to one base: both can have a folder `data`
                if top not in RESERVED and self._tops.setdefault(top, base) == base:
                    return name
        number = self._numbered.setdefault(file.parent, str(len(self._numbered) + 1))
        return f"files/{number}/{file.name}"

    def _add(self, file: Path) -> str:
        name = self._place(file)
        self.files[name] = file
        return name

    def _found(self, text: str) -> Path | None:
        """Return the file or folder that a text of the config names, None if there is none."""
        if not text or len(text) > 1024 or "\0" in text:
            return None
        places = (base / Path(text).expanduser() for base in self._bases)
        return next((Path(os.path.normpath(place)) for place in places if os.path.exists(place)), None)

    def _model(self, name: str) -> str:
        folder = self._found(name)
        if folder is None or not folder.is_dir():
            return name
        place = self._place(folder)
        self.models[place] = folder
        files = [file for file in sorted(folder.iterdir()) if file.is_file()]
        if self._with_model or sum(file.stat().st_size for file in files) < SMALL_MODEL_BYTES:
            self.files |= {f"{place}/{file.name}": file for file in files}
        return place

    def _data(self, name: str) -> str:
        if split_file_source(name) is not None:
            return self._source(name)
        found = self._found(name)
        if found is None:
            return name
        if found.is_file():
            return self._add(found)
        place = self._place(found)
        inside = [file for file in sorted(found.rglob("*")) if file.is_file()]
        self.files |= {f"{place}/{file.relative_to(found).as_posix()}": file for file in inside}
        return place

    def _source(self, source: str) -> str:
        """Add the code behind a source. Return the source for the bundle."""
        parts = split_file_source(source)
        if parts is not None:
            file = self._found(parts[0])
            return source if file is None else f"{self._code(file)}:{parts[1]}"
        if "/" not in source and ("." in source or ":" in source):
            self._module(source.replace(":", ".").partition(".")[0], self._cwd)
            return source
        return self._model(source)

    def _params(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._params(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._params(item) for item in value]
        return self._param(value) if isinstance(value, str) else value

    def _param(self, text: str) -> str:
        """Return a parameter, which may name code or a file, for the bundle."""
        if split_file_source(text) is not None:
            return self._source(text)
        found = self._found(text) if Path(text).suffix else None
        return self._add(found) if found is not None and found.is_file() else text

    def _word(self, word: str) -> str:
        """Return a word of the launcher, which may be `--option=FILE`, for the bundle."""
        option, equals, file = word.rpartition("=")
        return f"{option}{equals}{self._param(file)}"

    def _code(self, file: Path) -> str:
        """Add a Python file and the local modules that it imports."""
        name = self._add(file)
        if file not in self._walked:
            self._walked.add(file)
            for module in _imports(file):
                self._module(module, file.parent, self._cwd)
        return name

    def _module(self, module: str, *folders: Path) -> None:
        for folder in folders:
            file, package = folder / f"{module}.py", folder / module
            if file.is_file():
                self._code(file)
                return
            if module == "grpo_tui" or not package.is_dir():
                continue
            if (package / "__init__.py").is_file() or _is_unknown(module):
                for one in sorted(package.rglob("*.py")):
                    self._code(one)
                return

    # -- what must not leave this machine ----------------------------------------------------------------

    def _clean(self, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            kept = {}
            for key, item in value.items():
                inner = f"{path}.{key}" if path else str(key)
                texts = [one for one in (item if isinstance(item, list) else [item]) if isinstance(one, str)]
                if any(is_secret(str(key), text) or _WITH_PASSWORD.search(text) for text in texts):
                    self.left_out[inner] = "a secret"
                elif any(map(self._is_place, texts)):  # a list without one of its items would mean another
                    self.left_out[inner] = "a place on the machine of the run"
                else:
                    kept[key] = self._clean(item, inner)
            return kept
        if isinstance(value, list | tuple):
            return [self._clean(item, f"{path}.{index}") for index, item in enumerate(value)]
        return value

    def _is_place(self, text: str) -> bool:
        """Whether a text is an absolute path on this machine. `/no_think` is none."""
        if not text.startswith(("/", "~/")) or len(text) > 1024 or "\n" in text or "\0" in text:
            return False
        parent = Path(text).expanduser().parent
        return parent != Path("/") and os.path.isdir(parent)


def _is_unknown(module: str) -> bool:
    """Whether a module is neither installed nor part of Python, so that a plain folder can be it."""
    return module not in sys.stdlib_module_names and module not in packages_distributions()


def _imports(file: Path) -> Iterator[str]:
    """Yield the top-level names of the modules that a file imports, none if it cannot be parsed."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
