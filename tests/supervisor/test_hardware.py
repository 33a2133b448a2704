"""The machine is sampled through a driver that refuses, hides, hangs or is not there, and harms nobody."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from grpo_tui.store.layout import RunFolder
from grpo_tui.store.live import Hardware, read_hardware
from grpo_tui.supervisor import watch as watching
from grpo_tui.supervisor.gpus import GpuProbe, NoGpus, throttle_words
from grpo_tui.supervisor.run_processes import RunProcesses, process_name
from grpo_tui.supervisor.watch import HardwareWatch, memory_limit
from tests import PATIENCE_S

GB = 1 << 30


class FakeNvml:
    """A driver with some cards; what `refuses` names raises, as NVML does where it has no such figure."""

    class NVMLError(Exception):
        """NVML's own exception."""

    NVML_TEMPERATURE_GPU = 0

    def __init__(self, count: int = 8, refuses: set[str] | None = None, pids: tuple[int, ...] = ()) -> None:
        self.count, self.refuses, self.pids = count, refuses or set(), pids
        self.use = dict.fromkeys(range(count), 90)
        self.starts = 0
        self.slow_s = 0.0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "refuses"):

            def refuse(*_: Any) -> None:
                raise FakeNvml.NVMLError("Not Supported")

            return refuse
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None:
        self.starts += 1

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"card {index}"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return f"GPU-{handle[-1]}"

    def nvmlDeviceGetPciInfo(self, handle: str) -> Any:
        return SimpleNamespace(busId=f"00000000:{int(handle[-1]) + 1:02x}:00.0")

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        time.sleep(self.slow_s)
        return SimpleNamespace(gpu=self.use[int(handle[-1])], memory=20)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(used=41 * GB, total=80 * GB, free=39 * GB)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 63

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 612_345

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return 700_000

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return 0x44

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=40 * GB) for pid in self.pids]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:
        return []


def nobody(pid: int) -> tuple[str, str | None, bool]:
    return "", None, False


def until(question: Callable[[], Any]) -> Any:
    """Wait until a question is answered by something true."""
    end = time.monotonic() + PATIENCE_S
    while not (answer := question()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return answer


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def watch_on(folder: RunFolder, nvml: Any, said: list[str] | None = None) -> HardwareWatch:
    return HardwareWatch(folder, probe=GpuProbe(nvml), log=(said if said is not None else []).append)


def test_every_figure_of_eight_gpus_is_read() -> None:
    gpus = GpuProbe(FakeNvml(8)).sample(nobody)
    assert [gpu.index for gpu in gpus] == list(range(8))
    third = gpus[2]
    assert (third.name, third.uuid, third.pci_bus_id) == (
        "NVIDIA H100 80GB HBM3",
        "GPU-2",
        "00000000:03:00.0",
    )
    assert (third.use_percent, third.memory_used_bytes, third.memory_total_bytes) == (90, 41 * GB, 80 * GB)
    assert (third.temperature_c, third.power_w, third.power_limit_w) == (63, 612.3, 700.0)
    assert third.throttle == ("heat", "power limit")


@pytest.mark.parametrize(
    ("call", "figure"),
    [
        ("nvmlDeviceGetUtilizationRates", "use_percent"),
        ("nvmlDeviceGetMemoryInfo", "memory_used_bytes"),
        ("nvmlDeviceGetTemperature", "temperature_c"),
        ("nvmlDeviceGetPowerUsage", "power_w"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w"),
    ],
)
def test_a_figure_that_is_refused_leaves_the_others(call: str, figure: str) -> None:
    whole = GpuProbe(FakeNvml(1)).sample(nobody)[0]
    without = GpuProbe(FakeNvml(1, {call})).sample(nobody)[0]
    assert getattr(without, figure) is None
    lost = {name for name in whole.__dataclass_fields__ if getattr(whole, name) != getattr(without, name)}
    assert lost <= {figure, "memory_total_bytes", "idle_s"}


def test_processes_that_nvml_does_not_name_are_unknown_and_not_none_at_all() -> None:
    calls = {"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"}
    assert GpuProbe(FakeNvml(1, calls)).sample(nobody)[0].processes is None
    assert GpuProbe(FakeNvml(1)).sample(nobody)[0].processes == ()


@pytest.mark.parametrize(
    ("graphics", "compute", "held"),
    [
        ([], [(5, 3 * GB)], {5: 3 * GB}),
        ([(5, GB)], [], {5: GB}),
        ([(5, 3 * GB)], [(5, 3 * GB)], {5: 3 * GB}),
        ([(5, 3 * GB)], [(5, None)], {5: 3 * GB}),
        ([(5, None)], [(5, 3 * GB)], {5: 3 * GB}),
        ([(5, None)], [], {5: None}),
        ([(5, GB)], [(7, 2 * GB)], {7: 2 * GB, 5: GB}),
    ],
)
def test_a_process_that_computes_and_draws_holds_its_memory_once(
    graphics: list[Any], compute: list[Any], held: dict[int, int | None]
) -> None:
    nvml: Any = FakeNvml(1)
    for name, listed in (("Graphics", graphics), ("Compute", compute)):
        found = [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in listed]
        setattr(nvml, f"nvmlDeviceGet{name}RunningProcesses", lambda handle, found=found: found)
    processes = GpuProbe(nvml).sample(nobody)[0].processes or ()
    assert [(one.pid, one.memory_bytes) for one in processes] == list(held.items())


def test_an_older_driver_is_asked_for_the_throttling_by_its_older_name() -> None:
    nvml = FakeNvml(1, {"nvmlDeviceGetCurrentClocksEventReasons"})
    assert GpuProbe(nvml).sample(nobody)[0].throttle is None
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x80  # type: ignore[attr-defined]
    assert GpuProbe(nvml).sample(nobody)[0].throttle == ("power brake",)


def test_reasons_for_slower_clocks_are_words() -> None:
    assert throttle_words(0x01) == ()
    assert throttle_words(0x08 | 0x40) == ("heat",)
    assert throttle_words(0x08) == ("hardware slowdown",)


def test_the_time_a_gpu_does_nothing_is_counted_from_its_last_work() -> None:
    now = [100.0]
    nvml = FakeNvml(1)
    probe = GpuProbe(nvml, clock=lambda: now[0])
    assert probe.sample(nobody)[0].idle_s == 0
    nvml.use[0] = 0
    now[0] = 140.0
    assert probe.sample(nobody)[0].idle_s == 40
    nvml.use[0] = 50
    assert probe.sample(nobody)[0].idle_s == 0


def test_a_driver_that_has_gone_is_opened_anew() -> None:
    nvml = FakeNvml(1)
    probe = GpuProbe(nvml)
    probe.sample(nobody)
    nvml.refuses = {
        name for name in dir(FakeNvml) if name.startswith("nvmlDeviceGet") and "Count" not in name
    }
    with pytest.raises(NoGpus, match="stopped answering"):
        probe.sample(nobody)
    nvml.refuses = set()
    assert probe.sample(nobody)[0].use_percent == 90
    assert nvml.starts == 2


def test_without_a_driver_the_rest_is_sampled_and_the_driver_asked_once_a_minute(folder: RunFolder) -> None:
    nvml = FakeNvml(8, {"nvmlInit"})
    watch = watch_on(folder, nvml)
    sample = watch.sample()
    assert sample.gpus == ()
    assert sample.gpu_trouble == "Not Supported"
    assert sample.ram_total_bytes
    assert sample.disk_free_bytes
    nvml.refuses = set()
    assert watch.sample().gpus == (), "a minute has not passed"
    watch._ask_again_at = 0.0
    assert len(watch.sample().gpus) == 8


def test_a_slow_driver_is_said_once_and_left_alone_for_a_minute(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SLOW_S", 0.01)
    nvml, said = FakeNvml(1), list[str]()
    nvml.slow_s = 0.03
    watch = watch_on(folder, nvml, said)
    first = watch.sample()
    nvml.use[0] = 10
    second = watch.sample()
    assert second.gpus == first.gpus
    assert second.gpus_at == first.gpus_at
    watch._ask_again_at = 0.0
    assert watch.sample().gpus[0].use_percent == 10
    assert len(said) == 1
    assert "once a minute" in said[0]


def test_a_driver_that_is_slow_to_wake_is_not_taken_for_a_slow_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml, said, now = FakeNvml(1), list[str](), [100.0]
    begin = nvml.nvmlInit

    def wake() -> None:
        now[0] += 5
        begin()

    nvml.nvmlInit = wake  # type: ignore[method-assign]
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter, time=time.time)
    monkeypatch.setattr(watching, "time", clock)
    watch = watch_on(folder, nvml, said)
    watch.sample()
    nvml.use[0] = 10
    assert watch.sample().gpus[0].use_percent == 10
    assert said == []


def test_whatever_nvml_raises_ends_in_a_word_and_not_in_the_supervisor(folder: RunFolder) -> None:
    nvml, said = FakeNvml(1), list[str]()
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: 1 / 0  # type: ignore[method-assign,assignment]
    watch = watch_on(folder, nvml, said)
    assert "ZeroDivisionError" in watch.sample().gpu_trouble
    watch._ask_again_at = 0.0
    watch.sample()
    assert len(said) == 1


def _sleep() -> None:
    time.sleep(60)


def test_processes_of_the_run_are_told_from_others_and_from_hidden_ones(folder: RunFolder) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_sleep)
    child.start()
    try:
        hidden = 4_190_000
        watch = watch_on(folder, FakeNvml(1, pids=(os.getpid(), child.pid or 0, os.getppid(), hidden)))
        watch._trainer = os.getpid()
        found = {p.pid: p for p in watch.sample().gpus[0].processes or ()}
        assert found[os.getpid()].ours
        assert found[child.pid or 0].ours, "what the trainer started is of the run"
        assert not found[os.getppid()].ours
        assert found[os.getppid()].name
        assert found[os.getpid()].user == psutil.Process().username()
        assert (found[hidden].name, found[hidden].user, found[hidden].ours) == ("", None, False)
    finally:
        child.kill()
        child.join()


def test_a_process_of_the_run_stays_its_own_when_its_parent_or_itself_has_ended() -> None:
    child = multiprocessing.get_context("spawn").Process(target=_sleep)
    child.start()
    pid = child.pid or 0
    processes = RunProcesses()
    try:
        processes.follow([pid])
        name, user, ours = processes.describe(pid)
        assert ours
        processes.follow([4_190_000])  # the rank is gone, and what it started is another's child now
        assert processes.describe(pid) == (name, user, True)
    finally:
        child.kill()
        child.join()
    assert processes.describe(pid) == (name, user, True), "the driver lists it a while longer"


def test_a_process_with_the_number_of_an_ended_one_of_the_run_is_not_of_the_run() -> None:
    processes, pid = RunProcesses(), os.getpid()
    processes.follow([pid])
    name, user, ours = processes.describe(pid)
    assert ours
    processes.follow([4_190_000])
    assert processes.describe(pid) == (name, user, True), "the same process, which has another parent now"
    began, *known = processes._others[pid]
    processes._others[pid] = (began - 1.0, *known)  # as if it had been another one
    assert processes.describe(pid) == (name, user, False)


def test_a_process_that_nobody_knows_is_looked_for_in_the_trees_once_in_a_while() -> None:
    processes, walks = RunProcesses(), 0

    def walk() -> None:
        nonlocal walks
        walks += 1

    processes._walk = walk  # type: ignore[method-assign]
    processes._walked_at = time.monotonic() + 1_000.0
    processes.describe(os.getppid())
    assert walks == 0, "the trees were walked a moment ago"
    processes._others.clear()
    processes._walked_at = float("-inf")
    for _ in range(2):
        processes.describe(os.getppid())
        assert walks == 1, "it is known from then on"
    processes._tree[os.getpid()] = psutil.Process()
    assert processes.describe(os.getpid())[2]
    assert walks == 1


def test_what_the_run_uses_is_summed_over_its_processes() -> None:
    processes = RunProcesses()
    processes.follow([os.getpid()])
    sum(range(3_000_000))
    cpu, rss = processes.figures()
    assert cpu is not None
    assert rss is not None
    assert rss >= 0.5 * psutil.Process().memory_info().rss
    processes.follow([4_190_000])
    assert processes.figures() == (None, None)


def test_a_process_within_the_tree_of_another_is_not_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_sleep)
    child.start()
    walked: list[int] = []
    children = psutil.Process.children

    def counted(process: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
        walked.append(process.pid)
        return children(process, recursive=recursive)

    monkeypatch.setattr(psutil.Process, "children", counted)
    try:
        processes = RunProcesses()
        processes.follow([os.getpid(), child.pid or 0])
        assert walked == [os.getpid()]
        assert processes.describe(child.pid or 0)[2]
    finally:
        child.kill()
        child.join()


def test_a_python_process_is_named_by_its_script_and_never_by_its_words() -> None:
    def named(*words: str) -> str:
        process: Any = SimpleNamespace(
            name=lambda: "python3.11", cmdline=lambda: ["/usr/bin/python3.11", *words]
        )
        return process_name(process)

    assert named("-u", "/home/me/train.py", "--token=secret") == "python train.py"
    assert named("-m", "vllm.server", "--api-key", "secret") == "python -m vllm.server"
    assert named("-c", "password = 1") == "python3.11"


def test_the_tightest_limit_of_the_control_groups_is_what_a_run_may_use(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    inner = mount / "slurm" / "job_7"
    inner.mkdir(parents=True)
    groups = tmp_path / "own"
    groups.write_text("0::/slurm/job_7\n")
    (inner / "memory.max").write_text("max\n")
    assert memory_limit(groups, mount) == (None, None)
    (inner.parent / "memory.max").write_text("1000\n")
    (inner.parent / "memory.current").write_text("700\n")
    (inner.parent / "memory.stat").write_text("anon 1\nactive_file 150\ninactive_file 50\n")
    assert memory_limit(groups, mount) == (1000, 500)
    for wide, own, found in (("max", "max", 500), ("3000", "2000", 500), ("3000", "900", 40)):
        (mount / "memory.max").write_text(f"{wide}\n")
        (inner / "memory.max").write_text(f"{own}\n")
        (inner / "memory.current").write_text("40\n")
        assert memory_limit(groups, mount) == (min(1000, int(own) if own.isdigit() else 1000), found)
    (mount / "memory.max").write_text("800\n")
    (mount / "memory.current").write_text("750\n")
    assert memory_limit(groups, mount) == (800, 750), "an outer group may be the tightest"


@pytest.mark.parametrize(
    ("limit", "used", "shown"),
    [
        (8 * GB, 3 * GB, (3 * GB, 8 * GB)),
        (99 * GB, 3 * GB, (40 * GB, 64 * GB)),
        (None, None, (40 * GB, 64 * GB)),
    ],
    ids=["a container's", "above the machine's", "none"],
)
def test_used_memory_and_its_total_are_both_of_the_container_or_both_of_the_machine(
    limit: int | None, used: int | None, shown: Any, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SimpleNamespace(total=64 * GB, available=24 * GB)
    monkeypatch.setattr(watching, "memory_limit", lambda: (limit, used))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    sample = watch_on(folder, FakeNvml(1)).sample()
    assert (sample.ram_used_bytes, sample.ram_total_bytes) == shown


def test_the_watch_writes_and_takes_its_file_away_at_the_end(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "FIRST_S", 0.01)
    folder.hardware.write_text("of an earlier run")
    watch = watch_on(folder, FakeNvml(1))
    before = set(threading.enumerate())
    watch.start(os.getpid())
    (sampling,) = set(threading.enumerate()) - before
    sample: Hardware = until(lambda: read_hardware(folder.hardware))
    assert sample.gpus[0].use_percent == 90
    assert sample.run_rss_bytes
    watch.stop()
    assert not folder.hardware.exists()
    sampling.join(PATIENCE_S)
    assert not sampling.is_alive()
    assert not folder.hardware.exists()


def test_a_hanging_driver_holds_up_nobody(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "FIRST_S", 0.01)
    asked, answers, answered = list[str](), threading.Event(), list[bool]()

    def hang(handle: str) -> None:
        asked.append(handle)
        answered.append(answers.wait(PATIENCE_S))

    nvml = FakeNvml(1)
    nvml.nvmlDeviceGetMemoryInfo = hang  # type: ignore[method-assign,assignment]
    watch = watch_on(folder, nvml)
    watch.start(os.getpid())
    until(lambda: asked)
    watch.stop()
    assert answered == [], "it still hangs"
    answers.set()
    assert not folder.hardware.exists()


def test_a_folder_that_cannot_be_written_is_no_reason_to_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "FIRST_S", 0.001)
    monkeypatch.setattr(watching, "SAMPLE_S", 0.001)
    said, sampled = list[str](), list[int]()
    watch = HardwareWatch(RunFolder(tmp_path / "gone"), probe=GpuProbe(FakeNvml(1)), log=said.append)
    whole = watch.sample
    monkeypatch.setattr(watch, "sample", lambda: (sampled.append(1), whole())[1])
    watch.start(os.getpid())
    until(lambda: len(sampled) > 3)
    watch.stop()
    assert said == []
