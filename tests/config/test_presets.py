"""Presets: what each says of itself, that it loads, that TRL's parser takes it, that a copy is whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import grpo_tui
from grpo_tui.cli.main import main
from grpo_tui.cli.saved_run import accelerate_config, launcher_words
from grpo_tui.config import presets as module
from grpo_tui.config.plan.making import Surroundings, plan
from grpo_tui.config.plan.memory import card
from grpo_tui.config.plan.model import shape_of
from grpo_tui.config.presets import PresetError, companions, copy_preset, folder, preset_of, presets
from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.core.findings import errors_of

ROOT = Path(__file__).parents[2]
PRESETS = {preset.name: preset for preset in presets()}
# What a machine may lack. Everything else a preset has to be free of.
LACKING = {"config.not-installed"}


def ranks(name: str) -> int:
    """How many processes a preset is written for, by accelerate's own file."""
    launcher = load_section(name).launcher
    if launcher is None:
        return 1
    return yaml.safe_load(Path(launcher.split()[-1]).read_text())["num_processes"]


def load_section(name: str):
    return inspect_config(PRESETS[name].path, world_size=None).settings.section


def test_every_kind_of_preset_is_there() -> None:
    wanted = (
        "demo gsm8k small_gpu qlora vllm_colocate vllm_server multi_gpu_ddp multi_gpu_zero3 dapo dr_grpo "
    )
    others = "gspo cispo sapo stages json_task code_task knowledge procedural plain_trl"
    assert set(f"{wanted} {others}".split()) == set(PRESETS)
    assert next(iter(PRESETS)) == "demo"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_what_it_is_for_and_loads_without_any_finding(name: str) -> None:
    preset = PRESETS[name]
    for said in (preset.title, preset.needs, preset.gpu, preset.expects, preset.change):
        assert said
    text = preset.path.read_text()
    reflowed = re.findall(r"^# (?:Needs|Hardware|Expect) +(.*(?:\n# {2,}.*)*)", text, re.MULTILINE)
    assert len(reflowed) == 3
    assert not any("  " in row.strip("# ") for said in reflowed for row in said.split("\n")), (
        "columns collapse"
    )
    assert f"grpo-tui train configs/{name}.yaml" in text or name == "demo"
    assert max(len(line) for line in text.splitlines()) <= 125
    inspected = inspect_config(preset.path, world_size=ranks(name))
    assert [f for f in inspected.findings if f.id not in {*LACKING, "config.beside"}] == []


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "demo"])
def test_a_file_that_a_header_names_stands_beside_it(name: str) -> None:
    preset = PRESETS[name]
    home = preset.path.parent
    named = {str(file.relative_to(home)) for file in companions(preset)}
    assert named == {
        word for word in preset.needs.replace(",", " ").replace(".)", " ").split() if is_file(home, word)
    }


def is_file(home: Path, word: str) -> bool:
    word = word.rstrip(".;:,)")
    return bool(word) and (home / word).is_file()


def test_trls_own_parser_takes_every_preset_without_its_section(tmp_path: Path) -> None:
    for preset in PRESETS.values():
        values = yaml.safe_load(preset.path.read_text())
        values.pop("grpo_tui", None)
        # The parser builds GRPOConfig, which asks for a GPU and for packages that are not here.
        values |= {
            "use_cpu": True,
            "bf16": False,
            "optim": "adamw_torch",
            "output_dir": str(tmp_path / "out"),
        }
        values.setdefault("dataset_name", "d")
        (tmp_path / f"{preset.name}.yaml").write_text(yaml.safe_dump(values))
    (tmp_path / "parse.py").write_text(
        "import json, pathlib, sys\n"
        "from trl.scripts.grpo import make_parser\n"
        "found = {}\n"
        "for file in sorted(pathlib.Path(sys.argv[1]).glob('*.yaml')):\n"
        "    words = ['--config', str(file)]\n"
        "    parts = make_parser().parse_args_and_config(words, fail_with_unknown_args=True)\n"
        "    found[file.stem] = {k: v for part in parts for k, v in vars(part).items()}\n"
        "print(json.dumps(found, default=str))\n"
    )
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "parse.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    parsed = json.loads(ran.stdout.splitlines()[-1])
    assert set(parsed) == set(PRESETS)
    for name, values in parsed.items():
        ours = inspect_config(PRESETS[name].path, world_size=None).settings
        values |= {"max_steps": ours.get("max_steps")} if ours.section.stages else {}
        for part in ours.parts.values():
            for key, value in part.items():
                if key not in (
                    "bf16",
                    "optim",
                    "output_dir",
                    "dataset_name",
                    "model_name_or_path",
                    "report_to",
                ):
                    assert values[key] == value, (name, key)


@pytest.mark.parametrize("name", PRESETS)
def test_a_copy_is_whole_and_says_where_it_comes_from(name: str, tmp_path: Path) -> None:
    target = tmp_path / "mine" / "trial.yaml"
    written = copy_preset(PRESETS[name], target)
    text = target.read_text()
    assert preset_of(text) == name
    assert f"configs/{name}" not in text
    assert name == "demo" or "output_dir: runs/trial" in text
    assert name != "demo" or (target.parent / "model" / "model.safetensors").is_file()
    assert str(ROOT) not in text
    inspected = inspect_config(target, world_size=ranks(name))
    assert [f for f in errors_of(inspected.findings) if f.id not in LACKING] == []
    section = inspected.settings.section
    for source in filter(None, [section.dataset, *(entry.source for entry in section.rewards)]):
        assert str(ROOT) not in source
    assert {file.name for file in written[1:]} == {
        *(file.name for file in companions(PRESETS[name])),
        *(["trial.cases.yaml"] if (folder() / f"{name}.cases.yaml").is_file() else []),
    }
    ours = load_section(name)
    assert (section.system_prompt, section.filters, section.holdout) == (
        ours.system_prompt,
        ours.filters,
        ours.holdout,
    )


def test_nothing_is_overwritten_and_what_is_the_same_is_shared(tmp_path: Path) -> None:
    copy_preset(PRESETS["gsm8k"], tmp_path / "a.yaml")
    with pytest.raises(PresetError, match=r"a\.yaml already exists"):
        copy_preset(PRESETS["gsm8k"], tmp_path / "a.yaml")
    assert copy_preset(PRESETS["small_gpu"], tmp_path / "b.yaml") == [tmp_path / "b.yaml"]
    (tmp_path / "rewards.py").write_text("mine = 1\n")
    with pytest.raises(PresetError, match="differs from the preset's file"):
        copy_preset(PRESETS["gsm8k"], tmp_path / "c.yaml")
    assert not (tmp_path / "c.yaml").exists()
    assert (tmp_path / "rewards.py").read_text() == "mine = 1\n"


def test_the_wheel_carries_the_presets_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"configs": "grpo_tui/presets"}
    assert folder() == Path(grpo_tui.__file__).parents[1] / "configs"
    package = tmp_path / "grpo_tui"
    (package / "demo").mkdir(parents=True)
    (package / "presets").mkdir()
    (package / "demo" / "demo.yaml").write_text(PRESETS["demo"].path.read_text())
    (package / "presets" / "one.yaml").write_text(
        "# Trains   a thing\n#          and more\n# Hardware none\n"
    )
    (package / "presets" / "one.cases.yaml").write_text("cases: []\n")
    monkeypatch.setattr(module, "_PACKAGE", package)
    found = presets()
    assert [(preset.name, preset.title, preset.gpu) for preset in found][1:] == [
        ("one", "a thing and more", "none")
    ]


def test_the_command_lists_copies_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{listed}" for name in PRESETS)
    file = tmp_path / "my.yaml"
    assert main(["new", "config", str(file), "--preset", "json_task"]) == 0
    _, *told = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert {Path(line).name for line in told} == {"json_rewards.py", "data", "my.cases.yaml"}
    assert load_config(file).section.dataset == str(tmp_path / "data" / "orders.jsonl")
    for words, said in (
        ([str(file), "--preset", "json_task"], "already exists"),
        ([str(tmp_path / "x.yaml")], "--preset demo"),
        ([str(tmp_path / "x.yaml"), "--preset", "json_tsak"], "did you mean json_task?"),
        ([str(tmp_path / "x.txt"), "--preset", "json_task"], "x.yaml"),
    ):
        assert main(["new", "config", *words]) == 2
        assert said in capsys.readouterr().err
    assert main(["new"]) == 2
    assert "new config" in capsys.readouterr().err


# hidden size, layers, heads, groups of keys, inner size, words, whether the head is the embedding
QWEN = {
    "0.5B": (896, 24, 14, 2, 4864, 151936, True),
    "1.5B": (1536, 28, 12, 2, 8960, 151936, True),
    "7B": (3584, 28, 28, 4, 18944, 152064, False),
}
SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "demo"])
def test_the_plan_of_a_preset_fits_the_hardware_that_it_names(name: str) -> None:
    preset = PRESETS[name]
    settings = inspect_config(preset.path, world_size=ranks(name)).settings
    numbers = QWEN[re.search(r"-([\d.]+B)-", settings.model)[1]]
    sizes = dict(zip((*SIZES, "vocab_size", "tie_word_embeddings"), numbers, strict=True))
    device = card(re.search(r"(\d+) GB", preset.gpu)[1] + "GB")
    words = launcher_words(settings.section.launcher)
    made = plan(
        settings,
        Surroundings(
            world_size=ranks(name),
            model=shape_of({**sizes, "max_position_embeddings": 32768}),
            device=device,
            prompt_tokens=512,
            accelerate=accelerate_config(words),
        ),
    )
    assert made.memory is not None
    assert made.memory.fits, f"{made.memory.peak_bytes / 1e9:.1f} GB at the peak"
    assert made.memory.peak_bytes > 0.2 * device.memory_bytes  # and is not far too careful
