"""What a name in a config may look like."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from grpo_tui.config import packages
from grpo_tui.config.paths import Places, run_root, split_file_source


@pytest.mark.parametrize("folder", ["", "/a b/", "new\nline/", "a:b.py:c/", "\udcff/", "ünï/"])
def test_the_file_of_a_source_may_lie_in_a_folder_of_any_name(folder: str) -> None:
    assert split_file_source(f"{folder}rewards.py:right") == (f"{folder}rewards.py", "right")
    assert split_file_source(f"{folder}rewards.py") is None
    assert split_file_source(f"{folder}rewards.py:2right") is None


@pytest.mark.parametrize(
    ("output_dir", "file", "root"),
    [
        ("runs/a", Path("x/mine.yaml"), "runs/a"),
        (None, Path("x/mine.yaml"), "outputs/mine"),
        ("", Path("x/mine.yaml"), "outputs/mine"),
        (None, None, "outputs/run"),
    ],
)
def test_a_run_goes_to_output_dir_or_is_named_after_its_config(
    output_dir: str | None, file: Path | None, root: str
) -> None:
    assert run_root(output_dir, file) == Path(root)


@pytest.mark.parametrize(
    ("where", "beside", "existing", "model"),
    [
        ((), "config/m", "m", "m"),
        (("config",), "config/m", "config/m", "config/m"),
        (("work",), "work/m", "work/m", "work/m"),
        (("config", "work"), "config/m", "work/m", "work/m"),
    ],
)
def test_the_section_looks_beside_the_config_first_and_trls_keys_in_the_working_folder(
    where: tuple[str, ...], beside: str, existing: str, model: str, tmp_path: Path
) -> None:
    for name in where:
        (tmp_path / name / "m").mkdir(parents=True)
        (tmp_path / name / "m" / "config.json").write_text("{}")
    places = Places(tmp_path / "config", tmp_path / "work")

    def short(path: object) -> str:
        return str(path).removeprefix(f"{tmp_path}/")

    assert short(places.beside_config("m")) == beside
    assert short(places.existing_path("m")) == existing
    assert short(places.model_path("m")) == model


def test_a_folder_beside_the_config_that_holds_no_model_is_not_taken_for_one_of_the_hub(
    tmp_path: Path,
) -> None:
    (tmp_path / "config" / "gpt2").mkdir(parents=True)
    places = Places(tmp_path / "config", tmp_path / "work")
    assert places.model_path("gpt2") == "gpt2"
    (tmp_path / "config" / "gpt2" / "adapter_config.json").write_text("{}")
    assert places.model_path("gpt2") == str(tmp_path / "config" / "gpt2")
    (tmp_path / "work" / "gpt2").mkdir(parents=True)
    assert places.model_path("gpt2") == str(tmp_path / "work" / "gpt2")


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("processor\t: 0\nmodel name\t: Xeon 8480: a\nmodel name\t: b\n", "Xeon 8480: a"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", "aarch64"),
        (None, "aarch64"),
    ],
)
def test_a_machine_is_named_after_its_processor(
    told: str | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if told is not None:
        (tmp_path / "cpuinfo").write_text(told)
    monkeypatch.setattr(packages, "Path", lambda path: tmp_path / Path(path).name)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert packages.processor() == name
