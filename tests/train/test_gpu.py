"""One process trains on one GPU: the freest, unless a person chose."""

from __future__ import annotations

from grpo_tui.train.gpu import choose_gpu, free_memory_by_gpu


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
