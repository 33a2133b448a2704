"""Forks are listed under the run that they were forked from."""

from __future__ import annotations

from pathlib import Path

from grpo_tui.present.glyphs import to_ascii
from grpo_tui.present.runs_filter import branch, in_families


def families(names: str, **forked_from: str) -> str:
    """Return the order in which runs are listed, each fork with its generation."""
    parents = {Path(fork): Path.cwd() / parent for fork, parent in forked_from.items()}
    found = in_families([Path(name) for name in names], parents)
    return " ".join(f"{path}{generation or ''}" for path, generation in found)


def test_a_fork_follows_its_parent_and_the_family_keeps_the_place_of_its_first_run() -> None:
    assert families("abcd", c="a") == "a c1 b d"
    assert families("abcd", a="d") == "d a1 b c"
    assert families("abcde", b="e", c="b", d="e") == "a e b1 c2 d1"


def test_siblings_keep_their_order_and_a_parent_elsewhere_changes_nothing() -> None:
    assert families("abcd", a="d", b="d", c="d") == "d a1 b1 c1"
    assert families("abc", b="z") == "a b c"


def test_a_run_below_a_link_has_its_forks_beside_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    parents = {link / "fork": tmp_path.resolve() / "real" / "first"}
    assert list(in_families([link / "fork", link / "first"], parents)) == [
        (link / "first", 0),
        (link / "fork", 1),
    ]


def test_no_run_is_lost_when_files_say_that_runs_descend_from_each_other() -> None:
    assert families("a", a="a") == "a"
    assert families("abcd", a="b", b="a", c="b") == "a b1 c2 d"
    assert families("abcd", a="b", b="c", c="d", d="b") == "b a1 d1 c2"


def test_many_generations_leave_room_for_the_name() -> None:
    assert [branch(0), branch(1), branch(2)] == ["", "└ ", "  └ "]
    assert branch(40) == branch(4)
    assert to_ascii(branch(1)) == "` "
