"""A probe prompt is added to a live run or removed from it, and no later number changes."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli.export import config_as_ended
from grpo_tui.config.resolve import load_config
from grpo_tui.core.commands import Outcome
from grpo_tui.core.text import prompt_text, shell_word
from grpo_tui.data.load import load_prompts, prompt_rows
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec
from tests.train.test_probe_prompts import rewards
from tests.train.tiny import run_plain, run_recorded

pytestmark = pytest.mark.slow

NEW = "What is 7 + 8?"
Asks = dict[int, list[tuple[str, dict[str, Any]]]]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A copy of the demo's config that asks two of its held-out rows every two steps."""
    folder = tmp_path_factory.mktemp("config")
    for name in ("task.py", "rewards.py", "model"):
        (folder / name).symlink_to(DEMO_CONFIG.parent / name)
    text = DEMO_CONFIG.read_text(encoding="utf-8")
    (folder / "demo.yaml").write_text(text, encoding="utf-8")
    given = ["grpo_tui.holdout=8", 'grpo_tui.probe_prompts={"every": 2, "prompts": 2, "count": 2}']
    return load_config(folder / "demo.yaml", given)


@pytest.fixture(scope="module")
def held(config: Any) -> list[str]:
    probes = load_prompts(config).probes
    assert probes is not None
    return [prompt_text(row["prompt"]) for row in probes]


def train(folder: Path, config: Any, asks: Asks, **more: Any) -> Any:
    left = {step: list(commands) for step, commands in asks.items()}
    prompts, wanted = load_prompts(config), config.section.probe_prompts

    def at_safe_point(session: Any, trainer: Any) -> None:
        for ask in left.pop(trainer.state.global_step, ()):
            Mailbox(RunFolder(folder).commands).submit(*ask)

    def before(session: Any, trainer: Any) -> None:
        assert prompts.probes is not None
        session.ask_while_training(
            prompts.probes,
            every=wanted.every,
            count=wanted.count,
            temperature=None,
            row_of=lambda text: prompt_rows([text], config, prompts.train)[0],
        )

    random.seed(3)
    return run_recorded(folder, at_safe_point=at_safe_point, before_train=before, **more)


def asked(folder: Path) -> dict[int, list[str]]:
    """The texts of the probe prompts by step."""
    found: dict[int, list[str]] = {}
    with closing(RunReader(RunFolder(folder).database)) as reader:
        for group in reader.groups(mode="probe", limit=500):
            found.setdefault(group.step, []).append(prompt_text(group.prompt))
    return found


def rows_at(folder: Path, step: int) -> list[Any]:
    """Prompt and columns of the probe prompts at a step."""
    with closing(RunReader(RunFolder(folder).database)) as reader:
        groups = reader.groups(mode="probe", first_step=step, last_step=step, limit=9)
    return [(group.prompt, group.columns) for group in groups]


def outcomes(folder: Path) -> list[Outcome]:
    with closing(RunReader(RunFolder(folder).database)) as reader:
        return [outcome for _, outcome in reader.commands() if outcome is not None]


def test_an_added_prompt_is_asked_at_the_next_probe_and_no_later_number_changes(
    tmp_path: Path, config: Any, held: list[str]
) -> None:
    folder = tmp_path / "run"
    add = {"probe_prompts": {"add": [NEW]}, "because": "it forgets to carry"}
    asks: Asks = {1: [("set", add)], 4: [("set", {"probe_prompts": {"remove": [held[0]]}})]}
    rows, weights, _ = train(folder, config, asks, rewards=rewards(), max_steps=6)
    assert asked(folder) == {0: held, 2: [*held, NEW], 4: [*held, NEW], 6: [held[1], NEW]}
    with closing(RunReader(RunFolder(folder).database)) as reader:
        changes = [(c.step, c.old, c.new, c.by, c.because) for c in reader.settings()]
        groups = reader.groups(mode="probe", limit=500)
    assert changes == [
        (1, [], [f"+{NEW}"], "you", "it forgets to carry"),
        (4, [f"+{NEW}"], [f"+{NEW}", f"-{held[0]}"], "you", ""),
    ]
    for group in groups:
        right, _, long, waited, _ = group.completions[0].rewards
        new = prompt_text(group.prompt) == NEW
        assert (right is None, "answer" in group.columns) == (new, not new), "scored apart, without an answer"
        assert (long, waited) == (len(group.completions[0].text), 0.25)
        assert all(one.extra["first"] == one.text[:1] for one in group.completions)
    said = [outcome.reason for outcome in outcomes(folder)]
    assert said == [
        f"probe_prompts +{NEW}; 3 probe prompts, asked next at step 2",
        f"probe_prompts -{held[0]}; 2 probe prompts, asked next at step 6",
    ]
    random.seed(3)
    plain_rows, plain_weights = run_plain(tmp_path / "plain", rewards=rewards(), max_steps=6)
    assert (repr(rows), weights) == (repr(plain_rows), plain_weights)


def test_changes_are_undone_scheduled_and_kept_by_a_resume(
    tmp_path: Path, config: Any, held: list[str]
) -> None:
    folder = tmp_path / "run"
    both = {"probe_prompts": {"add": [NEW], "remove": [held[1]]}}
    later = {"schedule": {"5": {"probe_prompts": {"add": ["What is 2 + 3?"]}}}}
    asks: Asks = {
        1: [("set", both), ("set", {"probe_prompts": {"add": ["What is 1 + 1?"]}}), ("undo", {})],
        2: [("set", later)],
    }
    how = {"save_strategy": "steps", "save_steps": 4, "max_steps": 8}
    train(folder, config, asks | {4: [("stop", {})]}, **how)
    assert asked(folder) == {0: held, 2: [held[0], NEW], 4: [held[0], NEW]}
    train(folder, config, {7: [("undo", {"count": 2})]}, resume=folder / "checkpoint-4", **how)
    seen = asked(folder)
    assert seen[6] == [held[0], NEW, "What is 2 + 3?"]
    assert seen[8] == held
    with closing(RunReader(RunFolder(folder).database)) as reader:
        assert [change.new for change in reader.settings()][-1] == []


def test_what_cannot_be_added_or_removed_is_refused(tmp_path: Path, config: Any, held: list[str]) -> None:
    folder = tmp_path / "run"
    wrong: list[tuple[Any, str]] = [
        ({"add": [held[0]]}, f"{held[0]!r} is already a probe prompt"),
        ({"remove": [NEW]}, f"no probe prompt is {NEW!r}. They are {held[0]!r}, {held[1]!r}"),
        ({"add": [" "]}, "a probe prompt needs a text"),
        ({"add": ["1 + " * 400]}, "the prompt has"),
        ({"add": NEW}, "probe_prompts takes lists of texts"),
        (NEW, "probe_prompts takes no value: write probe_prompts+=TEXT or probe_prompts-=TEXT"),
    ]
    asks: Asks = {1: [("set", {"probe_prompts": value}) for value, _ in wrong]}
    train(folder, config, asks, max_steps=2)
    said = [outcome.reason for outcome in outcomes(folder)]
    assert len(said) == len(wrong)
    for reason, (_, expected) in zip(said, wrong, strict=True):
        assert reason.startswith(expected)
    assert asked(folder) == {0: held, 2: held}


def test_a_run_that_asks_no_probe_prompts_says_how_to_begin(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def at_safe_point(session: Any, trainer: Any) -> None:
        if trainer.state.global_step == 1 and not RunFolder(folder).spec.exists():
            RunFolder(folder).spec.write_text("{}", encoding="utf-8")  # only `grpo-tui train` writes it
            Mailbox(RunFolder(folder).commands).submit("set", {"probe_prompts": {"add": [NEW]}})

    run_recorded(folder, at_safe_point=at_safe_point, max_steps=1)
    (outcome,) = outcomes(folder)
    given = '{"source": ["What is 7 + 8?"], "every": 50}'
    resumed = f"grpo-tui train {shell_word(folder)} --resume --set 'grpo_tui.probe_prompts={given}'"
    assert outcome.reason == f"the run asks no probe prompts. Resume it with some: `{resumed}`"
    section = load_config(DEMO_CONFIG, [f"grpo_tui.probe_prompts={given}"]).section
    assert section.probe_prompts is not None
    assert section.probe_prompts.texts == ("What is 7 + 8?",)


def test_the_config_as_it_ended_asks_the_same_prompts(tmp_path: Path, config: Any, held: list[str]) -> None:
    folder = tmp_path / "run"
    change = {"probe_prompts": {"add": [NEW], "remove": [held[1]]}}
    train(folder, config, {1: [("set", change)]}, max_steps=2)
    RunSpec(config.to_json()).write(RunFolder(folder).spec)
    target = config.path.parent / "ended.yaml"
    target.write_text(config_as_ended(folder, (), target), encoding="utf-8")
    ended = load_config(target)
    wanted = ended.section.probe_prompts
    assert wanted is not None
    assert (wanted.source, wanted.add, wanted.remove) == ("holdout", (NEW,), (held[1],))
    train(tmp_path / "again", ended, {1: [("set", {"probe_prompts": {"remove": [NEW]}})]}, max_steps=2)
    assert asked(tmp_path / "again") == {0: [held[0], NEW], 2: [held[0]]}
    assert rows_at(folder, 2) == rows_at(tmp_path / "again", 0)
    RunSpec(ended.to_json()).write(RunFolder(tmp_path / "again").spec)
    target.write_text(config_as_ended(tmp_path / "again", (), target), encoding="utf-8")
    probes = load_prompts(load_config(target)).probes
    assert probes is not None
    assert [prompt_text(row["prompt"]) for row in probes] == [held[0]]
