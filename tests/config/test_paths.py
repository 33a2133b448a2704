"""What a name in a config may look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_tui.config.paths import run_root, split_file_source


@pytest.mark.parametrize("folder", ["", "/a b/", "new\nline/", "a:b.py:c/", "\udcff/", "ünï/"])
def test_the_file_of_a_source_may_lie_in_a_folder_of_any_name(folder: str) -> None:
    assert split_file_source(f"{folder}rewards.py:right") == (f"{folder}rewards.py", "right")


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
