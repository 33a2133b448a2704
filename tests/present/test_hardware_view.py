"""What the now line and `status` say of the machine, and what they find worth a look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grpo_tui.present.hardware_view import GIB, HardwareView, gpu_line, hardware_view, rank_rows
from grpo_tui.store.live import Gpu, GpuProcess, Hardware
from grpo_tui.store.status import RankNow, Status

NOW = 1000.0


def card(index: int = 0, *, ours: bool = True, **changes: Any) -> Gpu:
    own = GpuProcess(100 + index, "python train.py", 40 * GIB, ours, "me")
    whole = Gpu(
        index,
        pci_bus_id=f"00000000:0{index}:00.0",
        name="H100",
        use_percent=87.0,
        memory_used_bytes=41 * GIB,
        memory_total_bytes=80 * GIB,
        temperature_c=63.0 + index,
        idle_s=0.0,
        throttle=(),
        processes=(own,),
    )
    return replace(whole, **changes)


def seen(*gpus: Gpu, ranks: tuple[RankNow, ...] = (), phase: str = "update", **figures: Any) -> HardwareView:
    figures = {"run_rss_bytes": int(1.1 * GIB), **figures}
    sample = Hardware(at=NOW, cpu_percent=92.0, gpus=gpus, **figures)
    view = hardware_view(Status("training", phase=phase, ranks=ranks, hardware=sample))
    assert view is not None
    return view


def test_one_gpu_two_of_them_and_none_in_one_line() -> None:
    assert seen(card()).figures[0] == "GPU 87 %  41 of 80 GB  63 °C"
    assert seen().figures[0] == "CPU 92 %   RAM 1.1 GB   GPU none"
    both = seen(card(), card(1, use_percent=71.0, memory_used_bytes=62 * GIB))
    assert both.figures[0] == "2 GPUs 71–87 %  62 of 80 GB  max 64 °C"
    assert [len(text) for text in both.figures] == sorted((len(text) for text in both.figures), reverse=True)


def test_of_a_shared_machine_only_the_gpus_of_the_run_count() -> None:
    others = [card(index, ours=False, use_percent=5.0) for index in (0, 1)]
    assert seen(*others, card(2)).figures[0] == "GPU 2: 87 %  41 of 80 GB  65 °C"
    rank = RankNow(0, 1, "update", gpu="00000000:01:00.0")
    assert seen(*others, ranks=(rank,)).figures[0].startswith("GPU 1: 5 %")
    assert seen(*others).figures[0].startswith("2 GPUs 5 %"), "nobody can say which are ours"


def test_figures_that_nobody_gives_are_dashes_or_left_out() -> None:
    bare = seen(Gpu(0, name="MIG"))
    assert bare.figures[0] == "GPU –"
    assert bare.warnings == ()
    assert gpu_line(bare.gpus[0]) == "GPU 0  MIG  –  –  –  –"
    for lacking in ({"memory_used_bytes": None}, {"memory_total_bytes": None}, {"memory_total_bytes": 0}):
        row = seen(card(**lacking)).gpus[0]
        assert (row.memory, row.memory_words, row.attention) == (None, "–", frozenset())


def test_every_figure_of_the_machine_is_given_in_its_unit() -> None:
    machine = {"ram_used_bytes": 61 * GIB, "ram_total_bytes": 512 * GIB, "disk_free_bytes": 7}
    view = seen(
        card(), host="box", run_cpu_percent=250.0, cores_percent=(50.0, 100.0), load=(1.0, 2.25),
        gpus_at=NOW - 9, **machine,
    )  # fmt: skip
    assert (view.host, view.cpu, view.cores, view.load) == ("box", 0.92, (0.5, 1.0), "1.0  2.2")
    assert (view.run_cpu, view.run_ram, view.disk_free_bytes) == ("2.5 cores", "1.1 GB", 7)
    assert (view.ram, view.ram_text) == (61 / 512, "61 of 512 GB")
    assert (view.gpu_age_s, view.no_gpu) == (9.0, "")
    bare = seen(run_rss_bytes=None, gpu_trouble="no driver", **machine)
    assert bare.figures[0] == "CPU 92 %   RAM 61 GB   GPU none", "the machine's, as the run's is not known"
    assert (bare.run_cpu, bare.run_ram, bare.no_gpu, bare.gpu_age_s) == ("–", "–", "no driver", 0.0)
    assert (seen().ram, seen().ram_text, seen().load) == (None, "–", "")


def test_nothing_is_shown_of_a_run_that_has_ended() -> None:
    assert hardware_view(Status("finished", hardware=Hardware(at=NOW))) is None
    assert hardware_view(Status("training")) is None


def test_an_old_sample_is_not_shown_as_the_machine_of_now() -> None:
    old = seen(card(), age_s=42.0)
    assert old.figures == ()
    assert [notice.short for notice in old.warnings] == ["no figures for 42 s"]


@pytest.mark.parametrize(
    ("changes", "short"),
    [
        ({"memory_used_bytes": 77 * GIB}, "GPU memory 96 %"),
        ({"memory_used_bytes": 76 * GIB}, None),
        ({"throttle": ("heat",)}, "GPU slowed: heat"),
        ({"throttle": ("power limit",)}, None),
    ],
)
def test_a_full_or_slowed_gpu_deserves_a_look(changes: dict[str, Any], short: str | None) -> None:
    assert [notice.short for notice in seen(card(**changes)).warnings] == ([short] if short else [])


def test_a_gpu_of_the_run_that_idles_while_another_works_deserves_a_look() -> None:
    idle = card(1, use_percent=0.0, idle_s=64.0)
    assert [n.text for n in seen(card(), idle).warnings] == [
        "GPU 1 has been idle for 1m04s while others work"
    ]
    assert seen(card(idle_s=60.0), idle).warnings == (), "none works: the run waits for something else"
    assert seen(card(), replace(idle, idle_s=10.0)).warnings == (), "a rank waits some seconds for another"
    assert seen(card(), idle, phase="load").warnings == ()
    stranger = card(1, ours=False, use_percent=0.0, idle_s=64.0)
    assert seen(card(), stranger).warnings == ()


def test_anothers_process_on_a_gpu_of_the_run_deserves_a_look() -> None:
    own = card().processes or ()
    other = GpuProcess(7, "jupyter", 14 * GIB, False, "ada")
    shared = seen(card(processes=(*own, other)))
    assert [n.text for n in shared.warnings] == ["ada's jupyter (pid 7) holds 14 GB on GPU"]
    assert seen(card(processes=(*own, replace(other, memory_bytes=GIB // 2)))).warnings == ()
    assert seen(card(processes=(*own, replace(other, name="", user=None)))).warnings == (), (
        "it cannot be seen"
    )


def test_in_a_container_that_hides_process_ids_nobody_is_called_a_stranger() -> None:
    rank = RankNow(0, 1, "update", gpu="00000000:00:00.0")
    own_by_another_id = GpuProcess(4_000_000, "systemd", 40 * GIB, False, "root")
    view = seen(card(processes=(own_by_another_id,)), ranks=(rank,))
    assert view.warnings == ()
    assert view.gpus[0].ours
    assert seen(card(processes=()), ranks=(rank,)).gpus[0].hidden


def test_the_rank_that_others_wait_for_is_marked() -> None:
    ranks = tuple(RankNow(n, n, "update", phase_since=NOW - 4) for n in range(3))
    late = RankNow(3, 3, "generate", phase_since=NOW - 12)
    rows = rank_rows(Status("training", ranks=(*ranks, late)), NOW)
    assert [row.rank for row in rows if row.behind] == [3]
    assert not [r for r in rank_rows(Status("training", ranks=ranks), NOW) if r.behind]
    just = tuple(replace(rank, phase_since=NOW - 0.5) for rank in ranks)
    rows = rank_rows(Status("training", ranks=(*just, late)), NOW)
    assert not [row for row in rows if row.behind], "one phase goes over into the next"


def test_a_rank_whose_reward_still_runs_is_told_from_those_that_wait_in_the_same_phase() -> None:
    begun = NOW - 30
    waits = RankNow(0, 1, "reward", phase_since=begun, reward_since=NOW - 20)
    scores = RankNow(1, 2, "reward", phase_since=begun, reward_since=begun, reward_func="slow\x1b")
    rows = rank_rows(Status("training", ranks=(waits, scores)), NOW)
    assert [(row.rank, row.reward_function) for row in rows if row.behind] == [(1, "slow␛")]
    between_two = replace(waits, reward_since=NOW - 0.2)
    assert not [r for r in rank_rows(Status("training", ranks=(between_two, scores)), NOW) if r.behind]
    not_begun = replace(waits, reward_since=begun - 5)
    assert not [r for r in rank_rows(Status("training", ranks=(not_begun, scores)), NOW) if r.behind]


def test_texts_of_others_are_safe() -> None:
    hostile = GpuProcess(7, "x\x1b]52;c;x\x07\n[/]", 14 * GIB, False, "a\x1bda")
    view = seen(
        card(name="H\x1b[2J", throttle=("\x1b",), processes=(*(card().processes or ()), hostile)),
        host="n\x07",
    )
    assert "\x1b" not in repr(view) + gpu_line(view.gpus[0])
