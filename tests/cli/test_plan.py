"""`plan`, `gpus` and `--gpus`: what they print, what they refuse, and where a run is put."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import gpus as gpus_command
from grpo_tui.cli import main
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.gpus import placed
from grpo_tui.cli.saved_run import accelerate_config, launcher_words, world_size
from grpo_tui.config.plan.memory import Device
from grpo_tui.config.plan.model import read_sharding
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.preflight.facts import DataFacts, Facts, Lengths
from grpo_tui.preflight.machine import GpuFacts, Machine
from grpo_tui.preflight.planning import plan_findings, plan_of
from grpo_tui.preflight.report import Preflight
from grpo_tui.present.known_rates import machine_name, measured
from grpo_tui.present.plan_text import plan_list
from grpo_tui.store.live import Gpu, GpuProcess
from grpo_tui.store.spec import RunSpec, read_spec
from grpo_tui.store.trials import TrialFigures, keep_trial, read_trials
from grpo_tui.supervisor.gpus import HELD_BYTES, NoGpus, NoSuchGpu, chosen_gpus, held_by_others, visible_names
from tests.config.plan_settings import settings_of

GB = 1 << 30
HELD = (GpuProcess(4711, "python train.py", 40 * GB, user="ana"), GpuProcess(12, "Xorg", 10_000_000))
CARDS = (
    Gpu(0, "GPU-aa", name="NVIDIA H100", memory_used_bytes=GB // 2, memory_total_bytes=80 * GB, processes=()),
    Gpu(
        1, "GPU-bb", name="NVIDIA H100", memory_used_bytes=41 * GB, memory_total_bytes=80 * GB, processes=HELD
    ),
    Gpu(
        2,
        "GPU-cc",
        name="\x1b]52;c;x\x07 H100",
        memory_used_bytes=30 * GB,
        memory_total_bytes=80 * GB,
        processes=(),
    ),
)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus_command, "gpus_now", lambda: CARDS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRPO_TUI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def on_gpu() -> RunConfig:
    return load_config(DEMO_CONFIG, ["use_cpu=false"])


# -- plan -------------------------------------------------------------------------------------------


def test_the_plan_is_printed_line_by_line(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "plan",
        str(DEMO_CONFIG),
        "--gpu",
        "24GB",
        "--rows",
        "360",
        "--prompt-tokens",
        "20",
        "--set",
        "use_cpu=false",
    ]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "64 completions a generation = 8 prompts × 8" in said
    assert "120 = 2.67 epochs; 360 rows ÷ 8 prompts a generation: 45 steps an epoch" in said
    assert "of 24.0 GB (a GPU of 24GB); fits up to num_generations" in said
    assert "3 checkpoints × 9.6 MB" in said
    assert "- KV cache" in said, "it is not there at the peak"


def test_the_plan_as_json_has_the_documented_shape(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(DEMO_CONFIG), "--world-size", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["world_size"], found["generation_batch_size"], found["prompts_per_step"]) == (2, 128, 16)
    assert (found["total_steps"], found["dtype"]) == (120, "float32")
    assert {part["name"] for part in found["memory"]["parts"]} >= {
        "weights",
        "optimizer",
        "logits",
        "kv_cache",
    }
    assert found["memory"]["parameters_exact"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", str(DEMO_CONFIG), "--gpu", "abacus"], "give its memory, such as 80GB"),
        (["plan", "no such.yaml"], "no such.yaml: no such file"),
        (["plan", "."], "no run here"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(
    words: list[str], message: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_trial_corrects_the_next_plan(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(DEMO_CONFIG.parent / "model")
    here = machine_name(Device("CPU", 1, "cpu"))
    keep_trial(TrialFigures(model, "full", here, 1000, 1500, 0.5, 64, 40, device="cpu", at=1.0))
    keep_trial(TrialFigures(model, "full", here, 1000, 2000, 0.25, 64, 40, device="cpu", at=2.0))
    keep_trial(TrialFigures(model, "lora", here, 1000, 9000, 9.0, 64, 40, device="cpu", at=3.0))
    assert len(read_trials()) == 2  # the newer one of a kind replaces the older
    assert measured(model, Device("CPU", 1, "cpu"), lora=False).correction == 2.0
    assert measured(model, Device("another", 1), lora=False).correction == 1.0
    keep_trial(TrialFigures("another model", "full", here, 1000, 7000, 7.0, 64, 40, device="cpu", at=4.0))
    assert {rate.model for rate in measured(model, Device("CPU", 1, "cpu"), lora=False).rates} == {model}
    assert measured(model, Device("CPU", 1, "cpu"), lora=False).correction == 2.0
    assert main(["plan", str(DEMO_CONFIG), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["memory"]["correction"] == 2.0
    assert found["duration"] == {"step_s": 0.25, "total_s": 30.0, "run": "a trial", "scaled": False}


def test_of_many_trials_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_tui.store.trials.MOST_KEPT", 3)
    for number in (0, 1, 2, 0, 3, 4):  # the first is tried again, and is newer than the second then
        keep_trial(TrialFigures(f"m{number}", "full", "a", 1, 1, 0.5, 64, 40, device="cpu"), tmp_path)
    assert [trial.model for trial in read_trials(tmp_path)] == ["m0", "m3", "m4"]


def test_what_the_pre_flight_counts_is_planned_with(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = Lengths(count=100, least=1, mean=2.0, p50=2, p95=3, p99=3, most=77)
    facts = Facts(data=DataFacts("rows", train_rows=100, prompt_tokens=lengths))
    monkeypatch.setattr("grpo_tui.preflight.run.check", lambda *_, **__: Preflight(None, facts=facts))
    assert main(["plan", str(DEMO_CONFIG), "--json", "--count"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["rows"], found["steps_per_epoch"]) == (100, 12)
    assert found["tokens_per_step_at_most"] == 64 * (40 + 77)
    assert "the model is not counted: it could not be read" in said.err
    assert main(["plan", str(DEMO_CONFIG), "--json", "--count", "--rows", "50", "--prompt-tokens", "9"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["tokens_per_step_at_most"]) == (50, 64 * (40 + 9)), "what is typed wins"


@pytest.mark.parametrize("body", ["", "[]", "{", '{"a": 3}', '{"a": {"model": 3}}', '{"a": {"step_s": "x"}}'])
def test_a_file_of_trials_that_is_none_counts_as_empty(body: str, tmp_path: Path) -> None:
    (tmp_path / "trials.json").write_text(body)
    assert read_trials(tmp_path) == ()


@pytest.mark.parametrize(
    ("changes", "memory_bytes", "fix"),
    [
        ([], 10**12, None),
        ([], 1_000_000_000, ("per_device_train_batch_size", 32)),
        ([], 400_000_000, ("use_peft", True)),
        (["use_peft=true"], 400_000_000, ("load_in_4bit", True)),
    ],
)
def test_what_does_not_fit_has_a_smaller_setting(
    cache: Path, changes: list[str], memory_bytes: int, fix: tuple[str, Any] | None
) -> None:
    inspected = inspect_config(DEMO_CONFIG, ["use_cpu=false", *changes], world_size=1)
    assert inspected.config is not None
    machine = Machine(gpus=(GpuFacts(0, "a card", total_bytes=memory_bytes),))
    made = plan_of(inspected.settings, Facts(), machine, cache / "run")
    found = [f for f in plan_findings(inspected.settings, made) if f.id == "plan.memory"]
    assert [(f.fix.field, f.fix.value) for f in found if f.fix] == ([] if fix is None else [fix])
    assert [f.field for f in found] == ([] if fix is None else [fix[0]]), (
        "the line of the file that it changes"
    )


MODEST = 900_000_000
"""A card that the demo fits on, but not beside `PROCESS`."""
PROCESS = GpuProcess(4711, "python train.py", 300_000_000 + 2 * HELD_BYTES, user="ana")


def cards_of(*used: int) -> Machine:
    """GPUs of 1.9 GB of which a process of ana's holds so much."""
    total = MODEST + PROCESS.memory_bytes
    now = tuple(
        Gpu(
            index,
            name="a card",
            memory_used_bytes=held,
            memory_total_bytes=total,
            processes=(replace(PROCESS, memory_bytes=held),) if held else (),
        )
        for index, held in enumerate(used)
    )
    facts = tuple(GpuFacts(gpu.index, gpu.name, total_bytes=total) for gpu in now)
    return Machine(gpus=facts, gpus_now=lambda: now)


@pytest.mark.parametrize(
    ("used", "changes", "launcher", "held"),
    [
        ((0,), [], (), False),
        ((1_300_000_000,), [], (), True),
        ((1_300_000_000, 0), [], (), False),  # one process takes the freest
        ((1_300_000_000, 0), ["grpo_tui.gpus=[0]"], (), True),
        ((1_300_000_000, 0), ["grpo_tui.gpus=[1]"], (), False),
        ((0, 1_300_000_000), [], ("accelerate", "launch", "--num_processes", "2"), True),
    ],
)
def test_a_gpu_that_another_process_holds_is_no_room_and_the_holder_is_named(
    used: tuple[int, ...], changes: list[str], launcher: tuple[str, ...], held: bool, cache: Path
) -> None:
    ranks = 2 if launcher else 1
    inspected = inspect_config(DEMO_CONFIG, ["use_cpu=false", *changes], world_size=ranks)
    assert inspected.config is not None
    machine = cards_of(*used)
    made = plan_of(inspected.settings, Facts(), machine, cache / "run", launcher=launcher)
    assert made.memory is not None
    assert made.memory.fits is not held
    found = [f for f in plan_findings(inspected.settings, made) if f.id.startswith("plan.memory")]
    assert [(f.id, f.severity) for f in found] == ([("plan.memory-held", "error")] if held else [])
    if held:
        assert "in use by process 4711 (python train.py of ana, 1.3 GB)" in found[0].message
        assert found[0].fix is not None
        said = "\n".join(plan_list(made))
        assert "in use by process 4711 (python train.py of ana, 1.3 GB): does not fit" in said
        device = made.to_json()["memory"]["device"]
        assert device["free_bytes"] == device["memory_bytes"] - 1_300_000_000


ZERO3 = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {zero_stage: 3}\n"


@pytest.mark.parametrize(
    ("launcher", "kind", "world"),
    [
        ("accelerate launch --config_file zero3.yaml", "zero3", 8),
        ("accelerate launch --config_file=zero3.yaml --num_processes 2", "zero3", 2),
        ("accelerate launch --config_file zero3.yaml --use_deepspeed --zero_stage 1", "zero1", 8),
        ("accelerate launch --num_processes 4 --use_deepspeed", "zero2", 4),
        ("accelerate launch --num_processes 4 --use_fsdp", "fsdp", 4),
        ("accelerate launch --num-processes 4 --use-fsdp", "fsdp", 4),
        ("accelerate launch --num-processes=4 --use-deepspeed --zero-stage 3", "zero3", 4),
        ("torchrun --nproc_per_node 4", "ddp", 4),
        (None, "none", 1),
    ],
)
def test_a_launcher_says_how_the_model_is_shared(
    launcher: str | None, kind: str, world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zero3.yaml").write_text(ZERO3)
    words = launcher_words(launcher)
    assert world_size(words) == world
    assert read_sharding(settings_of({}), world, accelerate_config(words)).kind == kind


def test_an_accelerate_file_that_is_not_there_is_told() -> None:
    with pytest.raises(CommandError, match=r"none\.yaml cannot be read"):
        world_size(launcher_words("accelerate launch --config_file none.yaml"))


# -- GPUs -------------------------------------------------------------------------------------------


def test_gpus_are_listed_with_who_holds_them(cards: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus"]) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[0].split() == ["0", "NVIDIA", "H100", "80", "of", "80", "GB", "free", "nobody"]
    assert "39 of 80 GB free" in lines[1]
    assert lines[2].strip() == "python train.py of ana, 40 GB, process 4711"
    assert lines[-1].strip() == "in use by a process not visible from here"
    assert "\x1b" not in said


def test_gpus_as_json(cards: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trouble"] == ""
    assert [gpu["memory_free_bytes"] // GB for gpu in found["gpus"]] == [79, 39, 50]
    assert found["gpus"][1]["processes"][0] == {
        "pid": 4711,
        "name": "python train.py",
        "user": "ana",
        "memory_bytes": 40 * GB,
    }


def test_a_machine_without_gpus_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> Sequence[Gpu]:
        raise NoGpus("NVML Shared Library Not Found")

    monkeypatch.setattr(gpus_command, "gpus_now", none)
    assert main(["gpus"]) == 0
    assert capsys.readouterr().out == "no GPU here: NVML Shared Library Not Found\n"
    with pytest.raises(CommandError, match="the GPUs of this machine cannot be read"):
        placed(RunSpec({}), on_gpu(), "0")


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["2"], ("2",)),
        (["GPU-bb", "0"], ("1", "0")),
        (["MIG-1234"], ("MIG-1234",)),
        (["3"], None),
        (["1", "GPU-bb"], None),
        (["GPU-zz"], None),
    ],
)
def test_names_of_gpus(names: list[str], wanted: tuple[str, ...] | None) -> None:
    if wanted is None:
        with pytest.raises(NoSuchGpu):
            chosen_gpus(names, CARDS)
    else:
        assert visible_names(chosen_gpus(names, CARDS)) == wanted


def test_who_holds_a_gpu() -> None:
    assert held_by_others(CARDS[0]) == ""
    assert held_by_others(CARDS[1]) == "process 4711 (python train.py of ana, 42.9 GB)"
    assert "not visible" in held_by_others(CARDS[2])


@pytest.mark.parametrize(
    ("asked", "launcher", "gpus"),
    [
        ("0", None, ("0",)),
        ("1,0", "accelerate launch --num_processes 2", ("1", "0")),
        ("1,0,2", "torchrun --nproc_per_node 2", ("1", "0", "2")),
        ("0", "accelerate launch --num_processes 4 --num_machines 4", ("0",)),
    ],
)
def test_a_run_is_put_on_gpus(
    cards: None, asked: str, launcher: str | None, gpus: tuple[str, ...], tmp_path: Path
) -> None:
    spec = placed(RunSpec({}, launcher=launcher_words(launcher)), on_gpu(), asked)
    assert spec.gpus == gpus
    assert any(note.startswith(f"training on GPU {gpus[0]}, ") for note in spec.notes)
    assert any("in use by process 4711 (python train.py of ana" in note for note in spec.notes) is (
        "1" in gpus
    )
    assert any("the remaining ones stay idle" in note for note in spec.notes) is (len(gpus) == 3)
    spec.write(tmp_path / "run.json")
    assert read_spec(tmp_path / "run.json").gpus == gpus


@pytest.mark.parametrize(
    ("asked", "launcher", "message"),
    [
        ("9", None, "there is no GPU 9. This machine has 0, 1, 2"),
        ("0,1", None, "--num_processes 2"),
        ("0", "accelerate launch --num_processes 2", "1 GPU for 2 ranks"),
        ("0,0", "accelerate launch --num_processes 2", "named twice"),
    ],
)
def test_gpus_that_do_not_fit_are_refused(
    cards: None, asked: str, launcher: str | None, message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        placed(RunSpec({}, launcher=launcher_words(launcher)), on_gpu(), asked)


def test_gpus_of_the_config_are_served_and_those_of_the_command_win(cards: None, tmp_path: Path) -> None:
    config = load_config(DEMO_CONFIG, ["use_cpu=false", "grpo_tui.gpus=[1]"])
    assert placed(RunSpec({}), config, None).gpus == ("1",)
    assert placed(RunSpec({}), config, "2").gpus == ("2",)
    assert placed(RunSpec({}, gpus=("0",)), config, None).gpus == ("0",)  # as before the resume
    with pytest.raises(CommandError, match="the GPUs of the earlier start: there is no GPU 7"):
        placed(RunSpec({}, gpus=("7",)), config, None)
    assert placed(RunSpec({}), on_gpu(), None).gpus == ()
    with pytest.raises(CommandError, match="use_cpu is true"):
        placed(RunSpec({}), load_config(DEMO_CONFIG), "0")


def test_the_words_of_a_trial_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(DEMO_CONFIG), "--keep"]) == 2
    assert "--keep only works with --smoke" in capsys.readouterr().err
    assert main(["train", str(DEMO_CONFIG), "--smoke", "--detach"]) == 2
    assert "Leave out --resume and --detach" in capsys.readouterr().err


TWO, FOUR = "torchrun --nproc_per_node 2", "torchrun --nproc_per_node 4"


@pytest.mark.parametrize(
    ("own", "words", "launcher", "gpus"),
    [
        (f"  launcher: {TWO}", [], tuple(TWO.split()), ()),
        (
            f"  launcher: {TWO}",
            ["--launcher", TWO.replace("2", "4")],
            tuple(TWO.replace("2", "4").split()),
            (),
        ),
        ("  gpus: [2]", ["--set", "use_cpu=false"], (), ("2",)),
        ("  gpus: [2]", ["--set", "use_cpu=false", "--gpus", "0"], (), ("0",)),
        ("", ["--set", f"grpo_tui.launcher={TWO}"], tuple(TWO.split()), ()),
        ("", ["--set", "use_cpu=false", "--set", "grpo_tui.gpus=[2]"], (), ("2",)),
    ],
)
def test_a_start_serves_launcher_and_gpus_of_the_config(
    cards: None,
    own: str,
    words: list[str],
    launcher: tuple[str, ...],
    gpus: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[RunSpec] = []
    monkeypatch.setattr("grpo_tui.cli.start.launch", lambda folder, spec: started.append(spec))
    folder, config = tmp_path / "run", tmp_path / "own.yaml"
    text = DEMO_CONFIG.read_text().replace("\ngrpo_tui:\n", f"\ngrpo_tui:\n{own}\n", 1)
    for key, name in (("path: ", "model"), ("source: ", "rewards.py"), ("dataset: ", "task.py")):
        text = text.replace(f"{key}{name}", f"{key}{DEMO_CONFIG.with_name(name)}")
    config.write_text(text)
    done = main(
        ["train", str(config), "--run-dir", str(folder), "--detach", "--force", "--quick-check", *words]
    )
    assert done == 0
    assert [(spec.launcher, spec.gpus) for spec in started] == [(launcher, gpus)]
