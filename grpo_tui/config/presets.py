"""The shipped configs, and how to copy one with the files it needs.

They are in `configs/` in the source tree and in `grpo_tui/presets/` in an installed package. The demo's
config is one of them. The comments at the top of a preset have labels:

    # Trains   purpose         # Needs    downloads, and files next to it
    # Start    the command     # Hardware GPU
    # Expect   what happens    # Change   what to change first
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo_tui.config.document import read_document
from grpo_tui.config.paths import Places, split_file_source
from grpo_tui.config.section import Section
from grpo_tui.config.section_reader import read_section

_PACKAGE = Path(__file__).resolve().parents[1]
CASES = ".cases.yaml"
"""Suffix of a preset's file of reward cases, which is copied with it."""

_ORDER = (
    *("demo", "gsm8k", "small_gpu", "qlora"),
    *("vllm_colocate", "vllm_server", "multi_gpu_ddp", "multi_gpu_zero3"),
)
_LABELS = ("Trains", "Needs", "Hardware", "Expect", "Change")
_LABEL = re.compile(r"# ([A-Z][a-z]+) +(\S.*)")
_ORIGIN = re.compile(r"^# preset: ([\w-]+)\s*$", re.MULTILINE)


class PresetError(ValueError):
    """A preset cannot be written to the target."""


@dataclass(frozen=True, slots=True)
class Preset:
    """One shipped config."""

    name: str
    path: Path
    title: str
    needs: str
    gpu: str
    expects: str
    change: str


def folder() -> Path:
    """Return the folder of the shipped configs, in the package or else in the source tree."""
    installed = _PACKAGE / "presets"
    return installed if installed.is_dir() else _PACKAGE.parent / "configs"


def shipped(path: Path) -> str:
    """Return why a file of grpo-tui itself is not changed, or an empty text for any other file."""
    if not path.resolve().is_relative_to(_PACKAGE):
        return ""
    name = "demo" if path.parent.name == "demo" else path.stem
    copy = f"`grpo-tui new config my.yaml --preset {name}`"
    return f"{path.name} is part of grpo-tui, so it is not changed. {copy} copies it"


def presets() -> tuple[Preset, ...]:
    """Return all presets: the demo first, then by hardware, then by name."""
    files = [file for file in folder().glob("*.yaml") if not file.name.endswith(CASES)]
    found = [_preset(file) for file in [_PACKAGE / "demo" / "demo.yaml", *files]]
    return tuple(sorted(found, key=lambda p: (_ORDER.index(p.name) if p.name in _ORDER else 99, p.name)))


def preset_of(text: str) -> str | None:
    """Return the name of the preset that a config's text was copied from, or None."""
    found = _ORIGIN.search(text)
    return found[1] if found else None


def copy_preset(preset: Preset, target: Path) -> list[Path]:
    """Copy a preset to `target`, and the files it needs next to it. Nothing is overwritten.

    Returns:
        The files that were written, the config first. Existing identical files are not among them.

    Raises:
        PresetError: The target exists, another file exists with different content, or a file cannot be
            written. Nothing is left behind.
    """
    if target.exists():
        raise PresetError(f"{target} already exists and was not changed. Choose another name")
    home, folder = preset.path.parent, target.parent
    beside = {folder / file.relative_to(home): file.read_bytes() for file in companions(preset)}
    cases = preset.path.with_name(preset.name + CASES)
    if cases.is_file():
        text = _renamed(cases.read_text("utf-8"), preset, target)
        beside[folder / (target.stem + CASES)] = text.encode()
    for place, content in beside.items():
        if place.exists() and place.read_bytes() != content:
            wrong = f"{place} already exists and differs from the preset's file. Choose another folder"
            raise PresetError(wrong)
    new = {place: content for place, content in beside.items() if not place.exists()}
    _write_all({target: _adjusted(preset, target).encode(), **new})
    return [target, *new]


def _write_all(files: Mapping[Path, bytes]) -> None:
    made: list[Path] = []
    try:
        for place, content in files.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            made.append(place)
            place.write_bytes(content)
    except OSError as error:
        for place in made:
            place.unlink(missing_ok=True)
        raise PresetError(f"{error.filename or made[-1]} cannot be written: {error.strerror}") from error


def companions(preset: Preset) -> list[Path]:
    """Return the files next to a preset that it refers to."""
    home = preset.path.parent
    section, _ = read_section(read_document(preset.path), Places(home, home))
    named = dict.fromkeys(word for word in _words(section) if word.is_file() and home in word.parents)
    return [*named, *sorted((home / "model").glob("*"))]  # only the demo includes its model


def _words(section: Section) -> list[Path]:
    sources = [section.dataset, section.eval_dataset, *(entry.source for entry in section.rewards)]
    words = [(split_file_source(source) or (source,))[0] for source in sources if source]
    return [Path(word) for word in [*words, *(section.launcher or "").replace("=", " ").split()]]


def _adjusted(preset: Preset, target: Path) -> str:
    """Return the preset's text for its new place, with its new file name and run folder."""
    text = _renamed(preset.path.read_text(encoding="utf-8"), preset, target)
    text = re.sub(r"(?m)^(output_dir: )runs/\S+", lambda found: f"{found[1]}runs/{target.stem}", text)
    return f"# preset: {preset.name}\n{text}"


def _renamed(text: str, preset: Preset, target: Path) -> str:
    text = text.replace(f"configs/{preset.name}{CASES}", str(target.parent / (target.stem + CASES)))
    text = text.replace(f"configs/{preset.path.name}", str(target))
    return re.sub(rf"(?<![\w/]){re.escape(preset.path.name)}", lambda _: target.name, text)


def _preset(file: Path) -> Preset:
    said: dict[str, list[str]] = {}
    label = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        found = _LABEL.fullmatch(line)
        if found is None and line[1:2] == " " and line[2:3].strip():
            break  # a sentence after the header
        label = found[1] if found else label
        said.setdefault(label, []).append(found[2] if found else line.removeprefix("#").strip())
    words = (" ".join(" ".join(said.get(name, ())).split()) for name in _LABELS)
    return Preset(file.stem, file, *words)
