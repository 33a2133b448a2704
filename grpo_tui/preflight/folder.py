"""Check the run folder: existing runs, and checkpoints to resume from. Nothing is created."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_tui.config.adapters import adapter_conflicts
from grpo_tui.config.paths import run_root
from grpo_tui.config.rules import yaml_said
from grpo_tui.config.settings import Settings
from grpo_tui.config.yaml_edit_values import inline
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.store.checkpoints import judge, newest_usable
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.status import is_live


def root_of(settings: Settings, file: Path | None) -> Path:
    """Return the default run folder of a config."""
    return run_root(settings.parts.get("GRPOConfig", {}).get("output_dir"), file)


def folder_findings(settings: Settings, root: Path, *, resume: bool) -> list[Finding]:
    """Return findings on the run folder.

    Args:
        resume: whether to continue the run in the folder.
    """
    folder = RunFolder(root.absolute())
    try:
        if root.exists():
            next(root.iterdir(), None)
    except NotADirectoryError:
        pass
    except OSError as error:
        message = f"{one_line(str(root), 120)} cannot be used: {error.strerror}. Choose another folder"
        return [settings.error("folder.unusable", "output_dir", message)]
    if root.exists() and not root.is_dir():
        message = f"{root} is a file, but a run needs a folder"
        return [settings.error("folder.file", "output_dir", message)]
    found = list(_incomplete(settings, folder)) if folder.checkpoints() else []
    asked = settings.get("resume_from_checkpoint")
    if resume or asked:
        found += _other_adapter(settings, folder, asked)
    if asked is True and not (folder.exists() and is_live(folder.root)):
        if newest_usable(folder)[0] is None:
            found.append(_no_checkpoint(settings, folder, asked))
    elif isinstance(asked, str) and not any(path.is_dir() for path in (Path(asked), folder.root / asked)):
        found.append(_no_checkpoint(settings, folder, asked))
    elif not resume and not asked and (folder.exists() or folder.checkpoints()):
        found.append(_taken(settings, folder))
    return found


def _no_checkpoint(s: Settings, folder: RunFolder, asked: str | bool) -> Finding:
    newest, key = newest_usable(folder)[0], "resume_from_checkpoint"
    if isinstance(asked, str):
        there = f"; the newest in {folder.root} is of step {newest.step}" if newest is not None else ""
        message = f"{key} is {one_line(asked, 120)}, but there is no such folder{there}"
    else:
        message = f"{key} is true, but {folder.root} has no complete checkpoint. Remove it to start a new run"
    return s.error("folder.no-checkpoint", key, message, (key, True if newest is not None else None))


def _other_adapter(s: Settings, folder: RunFolder, asked: Any) -> Iterator[Finding]:
    """Report a checkpoint to resume whose adapter or weights have another shape than the config trains."""
    newest = newest_usable(folder)[0]
    named = [Path(asked), folder.root / asked] if isinstance(asked, str) else []
    path = next((p for p in named if p.is_dir()), newest.path if newest is not None and not named else None)
    if path is None:
        return
    for name, saved, wanted in adapter_conflicts(path, s.parts.get("ModelConfig", {})):
        if name == "use_peft":
            held = "a LoRA adapter" if saved else "a whole model"
            message = f"contains {held}, but use_peft is {yaml_said(wanted)}, so it cannot be resumed"
        else:
            message = f"was trained with {name} {inline(saved)}, and this config says {inline(wanted)}. "
            message += "An adapter cannot change its shape"
        yield s.error("folder.adapter", name, f"{path.name} {message}", (name, saved))


def _taken(s: Settings, folder: RunFolder) -> Finding:
    run = shell_word(folder.root)
    if folder.exists() and is_live(folder.root):
        message = f"a run is training in {folder.root}. Watch it with `grpo-tui attach {run}`"
        return s.error("folder.live", "output_dir", message, ("output_dir", _beside(folder.root)))
    best, _ = newest_usable(folder)
    message = f"{folder.root} already holds a run"
    if best is not None:
        message += f". Continue it from step {best.step} with `grpo-tui train {run} --resume`, or use "
        message += "--run-dir to start a new run"
    else:
        message += " without a checkpoint to resume from. Use --run-dir to start a new run"
    return s.error("folder.run", "output_dir", message, ("output_dir", _beside(folder.root)))


def _incomplete(s: Settings, folder: RunFolder) -> Iterator[Finding]:
    for path in folder.checkpoints():
        verdict = judge(path)
        if not verdict.usable:
            message = f"{path.name} in {folder.root} cannot be resumed: {verdict.reason}"
            yield s.warning("folder.checkpoint", "output_dir", message)


def _beside(root: Path) -> str:
    number = 2
    while root.with_name(f"{root.name}-{number}").exists():
        number += 1
    return str(root.with_name(f"{root.name}-{number}"))
