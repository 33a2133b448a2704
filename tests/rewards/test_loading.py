"""Rewards are loaded in TRL's order, under the names TRL logs, or refused with file and line."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import py_compile
import sys
from pathlib import Path

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import ConfigError
from grpo_tui.rewards.loading import LoadedReward, RewardLoadError, load_rewards

SOURCE = """\
import asyncio


def good(completions, bonus=0.0, **kwargs):
    return [1.0 + bonus for _ in completions]


async def slow(completions, **kwargs):
    await asyncio.sleep(0)
    return [2.0 for _ in completions]


class Judge:
    def __init__(self, score=3.0):
        self.score = score

    def __call__(self, completions, **kwargs):
        return [self.score for _ in completions]

    def grade(self, completions, **kwargs):
        return self(completions)


class AsyncJudge(Judge):
    async def __call__(self, completions, **kwargs):
        return [self.score for _ in completions]


class Mute:
    pass


NUMBER = 3

from pathlib import Path
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "theirs.py").write_text("from mine import good\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(folder: Path, rewards: str, base: str = "") -> list[LoadedReward]:
    text = "model_name_or_path: m\ndataset_name: d\n" + base
    if rewards:
        text += "grpo_tui:\n  rewards:\n" + "".join(f"    - {line}\n" for line in rewards.splitlines())
    (folder / "run.yaml").write_text(text)
    return load_rewards(load_config(folder / "run.yaml"))


def names_trl_gives(rewards: list[LoadedReward]) -> list[str]:
    from trl.trainer.utils import get_callable_name

    return [get_callable_name(reward.func) for reward in rewards if callable(reward.func)]


def test_the_order_is_model_then_reward_funcs_then_the_section(folder: Path) -> None:
    package = folder / "pkg_order"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "r.py").write_text("def dotted(completions, **kw): return [0.0] * len(completions)\n")
    loaded = load(
        folder,
        "{name: mine, source: 'mine.py:good', weight: 0.5}",
        "reward_model_name_or_path: org/some-rm\nreward_funcs: [think_format_reward, pkg_order.r.dotted]\n",
    )
    assert [r.name for r in loaded] == ["some-rm", "think_format_reward", "dotted", "mine"]
    assert [r.weight for r in loaded] == [1.0, 1.0, 1.0, 0.5]
    assert loaded[0].func == "org/some-rm"
    assert names_trl_gives(loaded) == ["think_format_reward", "dotted", "mine"]


def test_the_names_trls_script_knows_are_loaded_with_its_arguments(folder: Path) -> None:
    loaded = load(folder, "", "reward_funcs: [accuracy_reward, get_soft_overlong_punishment]\n")
    assert [r.name for r in loaded] == ["accuracy_reward", "soft_overlong_punishment_reward"]
    assert names_trl_gives(loaded) == [r.name for r in loaded]
    assert loaded[1].func(completion_ids=[[1] * 1280, [1] * 10]) == [-1.0, 0.0]


def test_trls_factories_take_params_in_the_section(folder: Path) -> None:
    loaded = load(
        folder,
        "{name: short, source: get_soft_overlong_punishment, "
        "params: {max_completion_len: 10, soft_punish_cache: 4}}\n"
        "{source: get_repetition_penalty_reward, params: {ngram_size: 1}}\n"
        "{source: get_cosine_scaled_reward, params: {max_len: 100}}",
    )
    assert [r.name for r in loaded] == ["short", "repetition_penalty_reward", "cosine_scaled_reward"]
    assert names_trl_gives(loaded) == [r.name for r in loaded]
    assert loaded[0].func(completions=["x"], completion_ids=[[1] * 8]) == [-0.5]
    assert loaded[1].func(completion_ids=[[5, 5]]) == [-0.5]


def test_a_function_keeps_its_identity_unless_it_is_renamed(folder: Path) -> None:
    same, other = load(folder, "mine.py:good\n{name: other, source: 'mine.py:good'}")
    assert inspect.isfunction(same.func)
    assert same.func.__name__ == "good"
    assert other.func is not same.func
    assert other.func.__name__ == "other"
    assert other.func(completions=["a", "b"]) == [1.0, 1.0]
    assert list(inspect.signature(other.func).parameters) == ["completions", "bonus", "kwargs"]


def test_params_are_bound_and_the_name_stays(folder: Path) -> None:
    (reward,) = load(folder, "{source: 'mine.py:good', params: {bonus: 0.5}}")
    assert reward.func(completions=["a"]) == [1.5]
    assert reward.func.__name__ == "good"
    assert names_trl_gives([reward]) == ["good"]
    (renamed,) = load(folder, "{name: extra, source: 'mine.py:good', params: {bonus: 0.5}}")
    assert names_trl_gives([renamed]) == ["extra"]
    assert renamed.func(completions=["a"]) == [1.5]


def test_a_class_is_made_with_its_params(folder: Path) -> None:
    plain, named = load(folder, "mine.py:Judge\n{name: judge, source: 'mine.py:Judge', params: {score: 7}}")
    assert plain.func(completions=["a"]) == [3.0]
    assert names_trl_gives([plain, named]) == ["Judge", "judge"]
    assert named.func(completions=["a"]) == [7]


@pytest.mark.parametrize("name", ["slow", "renamed"])
def test_an_async_reward_stays_async_for_trl_and_inspect(folder: Path, name: str) -> None:
    from trl.trainer.utils import is_async_callable

    (reward,) = load(folder, f"{{name: {name}, source: 'mine.py:slow'}}")
    assert inspect.iscoroutinefunction(reward.func)
    assert is_async_callable(reward.func)
    assert asyncio.run(reward.func(completions=["a"])) == [2.0]


@pytest.mark.parametrize("name", ["AsyncJudge", "renamed"])
def test_an_async_callable_class_stays_async(folder: Path, name: str) -> None:
    from trl.trainer.utils import is_async_callable

    (reward,) = load(folder, f"{{name: {name}, source: 'mine.py:AsyncJudge', params: {{score: 4}}}}")
    assert is_async_callable(reward.func)
    assert names_trl_gives([reward]) == [name]
    assert asyncio.run(reward.func(completions=["a"])) == [4]


def test_dotted_paths_work_with_a_dot_or_a_colon_from_the_working_folder(folder: Path) -> None:
    (folder / "dotted_rewards.py").write_text(SOURCE)
    loaded = load(folder, "{name: a, source: dotted_rewards.good}\n{name: b, source: 'dotted_rewards:good'}")
    assert [r.func(completions=["x"]) for r in loaded] == [[1.0], [1.0]]


def test_the_source_is_kept_with_its_hash_and_line(folder: Path) -> None:
    (reward,) = load(folder, "mine.py:slow")
    assert reward.origin_file == str(folder / "mine.py")
    assert reward.origin_line == 8
    assert reward.source_text == SOURCE
    assert reward.sha256 == hashlib.sha256(SOURCE.encode()).hexdigest()


def test_a_file_that_imports_its_neighbour_is_loaded(folder: Path) -> None:
    (folder / "neighbour_words.py").write_text("WORD = 'yes'\n")
    (folder / "uses.py").write_text(
        "from neighbour_words import WORD\n"
        "def has(completions, **kw): return [float(WORD in c) for c in completions]\n"
    )
    (reward,) = load(folder, "uses.py:has")
    assert reward.func(completions=["yes", "no"]) == [1.0, 0.0]


def saved_twice_at_once(file: Path, first: str, second: str) -> None:
    """What another Python has imported, then saved anew to the same size and time: its byte code is stale."""
    assert len(first) == len(second)
    file.write_text(first)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    py_compile.compile(str(file), doraise=True)
    file.write_text(second)
    os.utime(file, (1_700_000_000, 1_700_000_000))


def test_a_changed_file_is_read_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    at = os.stat(folder / "mine.py").st_mtime
    assert load(folder, "mine.py:good")[0].func(completions=["a"]) == [1.0]
    (folder / "mine.py").write_text(SOURCE.replace("1.0 + bonus", "5.0 + bonus"))
    os.utime(folder / "mine.py", (at, at))
    assert load(folder, "mine.py:good")[0].func(completions=["a"]) == [5.0]


def test_stale_byte_code_is_not_trusted_wherever_a_reward_comes_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    old = "def score(completions, **kw): return [1.0 for _ in completions]\n"
    new = old.replace("1.0", "5.0")
    package = folder / "stale_pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    saved_twice_at_once(folder / "stale_file.py", old, new)
    saved_twice_at_once(folder / "stale_neighbour.py", old, new)
    saved_twice_at_once(package / "inner.py", old, new)
    (folder / "imports_it.py").write_text("from stale_neighbour import score\n")
    loaded = load(
        folder,
        "{name: a, source: 'stale_file.py:score'}\n{name: b, source: 'imports_it.py:score'}\n"
        "{name: c, source: stale_pkg.inner.score}",
    )
    assert [reward.func(completions=["x"]) for reward in loaded] == [[5.0], [5.0], [5.0]]
    assert sorted(path.name for path in folder.rglob("imports_it*.pyc")) == []  # and none is written


def test_reward_weights_apply_in_the_whole_order(folder: Path) -> None:
    loaded = load(
        folder,
        "mine.py:good\nmine.py:slow",
        "reward_funcs: [think_format_reward]\nreward_weights: [3, 2, 1]\n",
    )
    assert [(r.name, r.weight) for r in loaded] == [
        ("think_format_reward", 3.0),
        ("good", 2.0),
        ("slow", 1.0),
    ]
    with pytest.raises(ConfigError, match="set twice"):
        load(folder, "{source: 'mine.py:good', weight: 1}", "reward_weights: [1]\n")


def test_a_folder_or_hub_name_stays_a_reward_model(folder: Path) -> None:
    (folder / "rm").mkdir()
    (folder / "rm" / "config.json").write_text("{}")
    local, hub = load(folder, "{name: judge, source: rm, weight: 2}\n{source: org/rm-7b}")
    assert (local.func, local.name, local.weight) == (str(folder / "rm"), "judge", 2.0)
    assert (hub.func, hub.name) == ("org/rm-7b", "rm-7b")


@pytest.mark.parametrize(
    ("rewards", "base", "word"),
    [
        ("mine.py:god", "", r"mine\.py: there is no god in it\. Did you mean good"),
        ("mine.py:zzz", "", r"there is no zzz in it\. It has AsyncJudge, Judge, Mute, good, slow$"),
        ("mine.py:Judge.graed", "", r"there is no Judge\.graed in it\. Did you mean grade"),
        ("mine.py:Pth", "", r"there is no Pth in it\. Did you mean Path"),
        ("theirs.py:zzz", "", r"there is no zzz in it\. It has good$"),
        ("mine.py:NUMBER", "", "is of type int, not a function"),
        ("mine.py:Mute", "", "no __call__"),
        ("{source: 'mine.py:Judge', params: {scor: 1}}", "", "no parameter scor; did you mean score"),
        ("accuracy_rewrd", "", "Did you mean accuracy_reward"),
        ("{source: get_soft_overlong_punishment, params: {max_completion_len: 1}}", "", "soft_punish_cache"),
        ("nowhere_pkg.mod.f", "", "no module nowhere_pkg"),
        ("{source: org/rm, params: {a: 1}}", "", "takes no params"),
        ("", "reward_funcs: [accuracy_rewrd]\n", "Did you mean accuracy_reward"),
        ("", "reward_funcs: ['mine.py:good']\n", r"under grpo_tui\.rewards"),
        ("", "reward_funcs: [mine.god]\n", "Did you mean good"),
        ("", "reward_funcs: [mine.Judge]\n", "the class Judge"),
    ],
)
def test_a_reward_that_cannot_be_loaded_says_why(folder: Path, rewards: str, base: str, word: str) -> None:
    sys.modules.pop("mine", None)
    with pytest.raises(RewardLoadError, match=word):
        load(folder, rewards, base)
    sys.modules.pop("mine", None)
    if str(folder) in sys.path:
        sys.path.remove(str(folder))


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\ny = 1 / 0\n", 2),
        ("def good(completions)\n    return []\n", 1),
        ("\nimport not_there_at_all\n", 2),
        ("\n\nfrom .words import WORD\n", 3),
        ("import json\njson.loads('x')\n", 2),
    ],
)
def test_a_file_that_does_not_run_names_its_line(folder: Path, source: str, line: int) -> None:
    (folder / "broken.py").write_text(source)
    with pytest.raises(RewardLoadError, match=rf"broken\.py:{line}: "):
        load(folder, "broken.py:good")


def test_a_file_that_is_no_text_is_named(folder: Path) -> None:
    (folder / "broken.py").write_bytes(b"\0\1")
    with pytest.raises(RewardLoadError, match=r"broken\.py: source code string cannot contain null bytes"):
        load(folder, "broken.py:good")
