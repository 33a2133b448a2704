"""Folders that look like a model, an adapter or a checkpoint to whoever does not load them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.checkpoints import MARKER
from grpo_tui.store.json_file import write_json

BASE = load_config(DEMO_CONFIG).model


def weights(folder: Path, *, name: str = "model.safetensors", whole: bool = True) -> Path:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * (4 if whole else 3))
    return folder


def model(folder: Path, *, whole: bool = True) -> Path:
    weights(folder, whole=whole)
    write_json(folder / "config.json", {"model_type": "llama"})
    write_json(folder / "tokenizer_config.json", {})
    return folder


def adapter(folder: Path, base: str = BASE, *, whole: bool = True) -> Path:
    weights(folder, name="adapter_model.safetensors", whole=whole)
    write_json(folder / "adapter_config.json", {"r": 4, "base_model_name_or_path": base})
    return folder


def checkpoint(root: Path, step: int, *, lora: bool = False, whole: bool = True, base: str = BASE) -> Path:
    folder = root / f"checkpoint-{step}"
    folder = adapter(folder, base) if lora else model(folder)
    write_json(folder / "trainer_state.json", {"global_step": step})
    size = (folder / ("adapter_model.safetensors" if lora else "model.safetensors")).stat().st_size
    name = "adapter_model.safetensors" if lora else "model.safetensors"
    write_json(folder / MARKER, {"step": step, "files": {name: size if whole else size + 1}})
    return folder
