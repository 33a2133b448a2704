"""One process trains on one GPU: the freest, unless a person chose."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from grpo_tui.store.status import read_status
from grpo_tui.train.devices import choose_gpu, free_memory_by_gpu, gpu_of
from tests.processes.runs import at_step, end, start, until


def test_the_freest_of_several_gpus_is_the_only_visible_one() -> None:
    environment: dict[str, str] = {}
    told = choose_gpu(environment, [10, 80, 40])
    assert environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}
    assert "GPU 1 of 3" in told


def test_a_persons_choice_one_gpu_or_none_changes_nothing() -> None:
    for environment, free in (({"CUDA_VISIBLE_DEVICES": "2"}, [1, 2, 3]), ({}, [5]), ({}, [])):
        before = dict(environment)
        assert choose_gpu(environment, free) == ""
        assert environment == before


def test_without_a_driver_there_are_no_gpus() -> None:
    assert isinstance(free_memory_by_gpu(), list)


def test_on_the_cpu_a_rank_has_no_gpu() -> None:
    import torch

    assert gpu_of(torch.device("cpu")) is None
    assert gpu_of(torch.device("cuda", 99)) is None, "what torch cannot name is no reason to end"


def test_a_gpu_is_named_as_its_driver_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    cards = {
        0: SimpleNamespace(pci_bus_id=0x8A, pci_device_id=1, pci_domain_id=2, uuid="of 0"),
        1: SimpleNamespace(uuid="of 1"),
    }
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: cards[device.index])
    assert [gpu_of(torch.device("cuda", index)) for index in cards] == ["00000002:8A:01.0", "GPU-of 1"]


@pytest.mark.slow
@pytest.mark.skipif(not free_memory_by_gpu(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_the_sample_names_the_process_of_the_first_rank(tmp_path: Path) -> None:
    run = tmp_path / "run"
    start(run, "use_cpu=false")
    try:
        at_step(run, 2, timeout_s=240)
        status = until(lambda: (s := read_status(run)).hardware and s.hardware.gpus and s, "a sample")
        rank = status.ranks[0]
        assert rank.gpu is not None
        card = next(gpu for gpu in status.hardware.gpus if rank.gpu in (gpu.pci_bus_id, gpu.uuid))
        assert card.memory_used_bytes
        assert card.memory_total_bytes
        assert card.use_percent is not None
        if not any(process.name for process in card.processes or ()):
            pytest.skip("this container hides process ids; the figures of the card are right")
        own = {process.pid: process for process in card.processes or ()}
        assert own[rank.pid].ours
        assert own[rank.pid].memory_bytes
    finally:
        end(run)
