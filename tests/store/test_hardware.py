"""What was sampled comes back as it was; what is none of ours is nothing, and never an exception."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from grpo_tui.store.live import Gpu, GpuProcess, Hardware, read_hardware, write_hardware

WHOLE = Hardware(
    at=1.0,
    host="node",
    cpu_percent=12.5,
    cores_percent=(1.0, 24.0),
    load=(0.1, 0.2, 0.3),
    gpus=(
        Gpu(
            0,
            uuid="GPU-0",
            use_percent=87.0,
            throttle=(),
            processes=(GpuProcess(7, "python", 5, True, "me"),),
        ),
        Gpu(1, throttle=None, processes=None),
    ),
)


def test_a_sample_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "hardware.json"
    write_hardware(path, WHOLE)
    assert read_hardware(path) == WHOLE
    assert [p.name for p in tmp_path.iterdir()] == ["hardware.json"]


def test_the_age_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hardware.json"
    write_hardware(path, WHOLE)
    os.utime(path, (time.time() - 100, time.time() - 100))
    found = read_hardware(path)
    assert found is not None
    assert found.age_s == pytest.approx(100, abs=5)
    assert found == WHOLE, "a later look at the same sample shows nothing new"


def test_keys_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "hardware.json"
    path.write_text('{"at": 1, "tpu": 3, "gpus": [{"index": 0, "colour": "green"}]}')
    assert read_hardware(path) == Hardware(at=1, gpus=(Gpu(0),))


def test_values_that_are_no_numbers_are_no_values(tmp_path: Path) -> None:
    path = tmp_path / "hardware.json"
    path.write_text(
        '{"at": 1, "cpu_percent": "x", "cores_percent": [1, "y", null], "host": 7, "run_rss_bytes": NaN,'
        f' "ram_used_bytes": 1{400 * "0"},'
        ' "gpus": [{"index": 0, "use_percent": [], "name": {},'
        ' "processes": [{"pid": 3, "memory_bytes": true}]}]}'
    )
    gpu = Gpu(0, name="{}", processes=(GpuProcess(3),))
    assert read_hardware(path) == Hardware(at=1, cores_percent=(1.0,), host="7", gpus=(gpu,))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"at": 1, "gpus": [3]}', '{"at": 1, "gpus": 7}', "\x00", "a" * 5_000_000],
)
def test_what_is_no_sample_is_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hardware.json"
    path.write_text(text)
    assert read_hardware(path) is None
    assert read_hardware(tmp_path / "none") is None
