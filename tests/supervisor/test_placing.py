"""The training process sees the GPUs that the run was put on, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from grpo_tui.supervisor import watch
from grpo_tui.supervisor.gpus import GpuProbe, NoGpus, gpus_now
from tests.supervisor.test_hardware import FakeNvml


@pytest.mark.parametrize(
    ("gpus", "before", "order", "visible"),
    [
        (("3", "1"), "0", "PCI_BUS_ID", "3,1"),
        (("MIG-12",), None, "PCI_BUS_ID", "MIG-12"),
        ((), "0", None, "0"),
        ((), None, None, None),
    ],
)
def test_the_trainer_sees_the_chosen_gpus(
    gpus: tuple[str, ...],
    before: str | None,
    order: str | None,
    visible: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("CUDA_VISIBLE_DEVICES", before), ("CUDA_DEVICE_ORDER", None)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    seen: dict[str, Any] = {}
    real = subprocess.Popen

    def popen(words: list[str], *, env: dict[str, str], **more: Any) -> Any:
        seen.update(env)
        return real(["true"], **more)

    monkeypatch.setattr(watch.subprocess, "Popen", popen)
    monkeypatch.setattr(watch, "adopt_orphans", lambda: None)
    folder = RunFolder(tmp_path)
    RunSpec({}, gpus=gpus).write(folder.spec)
    supervisor = watch.Supervisor(folder)
    supervisor._start_trainer()
    assert supervisor._child is not None
    supervisor._child.wait()
    assert (seen.get("CUDA_DEVICE_ORDER"), seen.get("CUDA_VISIBLE_DEVICES")) == (order, visible)


def test_the_gpus_of_now_are_asked_once_and_let_go() -> None:
    driver = FakeNvml(2, pids=(1,))
    found = gpus_now(GpuProbe(driver))
    assert [gpu.index for gpu in found] == [0, 1]
    assert found[0].processes is not None
    assert found[0].processes[0].pid == 1
    with pytest.raises(NoGpus):
        gpus_now(GpuProbe(FakeNvml(0)))
