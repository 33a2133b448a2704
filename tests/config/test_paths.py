"""What a name in a config may look like."""

from __future__ import annotations

import pytest

from grpo_tui.config.paths import split_file_source


@pytest.mark.parametrize("folder", ["", "/a b/", "new\nline/", "a:b.py:c/", "\udcff/", "ünï/"])
def test_the_file_of_a_source_may_lie_in_a_folder_of_any_name(folder: str) -> None:
    assert split_file_source(f"{folder}rewards.py:right") == (f"{folder}rewards.py", "right")
