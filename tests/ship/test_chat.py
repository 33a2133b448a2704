"""`grpo-tui chat` on the shipped model: streamed, side by side, stopped, kept, and with a live run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.present.results_view import read_results
from grpo_tui.rewards.cases import CaseFileError, cases_file, read_cases
from grpo_tui.rewards.consent import give, needed
from grpo_tui.rewards.generating import Chatted, DatasetRow, Generator
from grpo_tui.rewards.lab import Lab
from grpo_tui.ship.chat import Chat, Exchange, KeepError, Said
from grpo_tui.ship.policies import base_policy, resolve
from tests.family import below, gone
from tests.foreign import foreign_run
from tests.processes.runs import command, end, grpo_tui, start, state, until
from tests.ship.adapters import make_adapter

pytestmark = pytest.mark.usefixtures("forked_commands")
QUESTION = "What is 7 + 15?"
MESSAGES = [{"role": "user", "content": QUESTION}]
ENDLESS = ("max_completion_length=100000", "generation_kwargs={min_new_tokens: 99999}")
"""Settings with which an answer lasts until it is stopped."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """While it lives, the commands' own labs start at once."""
    with Lab(limit_s=60) as warm:
        warm.start()
        yield warm


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_adapter(tmp_path_factory.mktemp("adapters") / "lora")


@pytest.fixture
def own_config(tmp_path: Path) -> RunConfig:
    """A copy of the demo's config, which a test may change."""
    for name in ("demo.yaml", "task.py", "rewards.py"):
        (tmp_path / name).write_bytes(DEMO_CONFIG.with_name(name).read_bytes())
    (tmp_path / "model").symlink_to(DEMO_MODEL)
    return load_config(tmp_path / "demo.yaml")


def test_a_streamed_answer_is_the_one_that_is_generated_at_once() -> None:
    config = load_config(DEMO_CONFIG, ["generation_kwargs={min_new_tokens: 30}"])
    with Generator(config) as generator:
        for seed in (None, 3):
            told: list[str] = []
            streamed = generator.chat(MESSAGES, seed, told.append)
            (whole,) = generator.answers([DatasetRow(1, MESSAGES, {})], 1, seed).samples
            again = generator.chat(MESSAGES, seed, told.append)
            assert streamed.completion == whole.completion
            assert streamed.truncated == whole.truncated
            assert told[-1] == streamed.text == streamed.completion[0]["content"]
            assert streamed.text
            assert (streamed.seed, streamed.stopped) == (42 if seed is None else 3, False)
            assert again.completion == streamed.completion


def test_an_answer_grows_while_it_is_generated() -> None:
    told: list[str] = []
    with Generator(load_config(DEMO_CONFIG, ENDLESS)) as generator:

        def tell(text: str) -> None:
            told.append(text)
            if len(text) > 200:
                generator.stop()

        first = generator.chat(MESSAGES, 1, tell)
        pid = generator._child.pid
        assert first.stopped
        assert len(told) > 2
        assert all(after.startswith(before) for before, after in pairwise(told))
        generator.go_on()
        assert generator.chat(MESSAGES, 1, tell).text[:200] == first.text[:200]
        assert generator._child.pid == pid, "the model is still loaded"


def test_two_policies_answer_the_same_prompt_and_both_are_scored(adapter: Path, lab: Lab) -> None:
    config = load_config(DEMO_CONFIG)
    with Chat(lab, config, [resolve(str(adapter)), base_policy(config)]) as chat:
        told: dict[int, str] = {}
        found = chat.ask(QUESTION, lambda place, text: told.update({place: text}))
        assert [said.policy for said in found.answers] == [str(adapter), "base"]
        assert [said.prompt for said in found.answers] == [MESSAGES, MESSAGES]
        assert told == {0: found.answers[0].answer.text, 1: found.answers[1].answer.text}
        body = found.to_json()
        assert body["row"] == {"answer": "22"}, "the prompt is a row of the dataset"
        for one in body["answers"]:
            assert list(one["rewards"]) == ["correctness", "format", "incremental"]
            right = one["text"].count("<answer>") == 1 and "<answer>22</answer>" in one["text"]
            assert one["rewards"]["correctness"] == float(right)
            weights = zip((2.0, 0.5, 0.5), one["rewards"].values(), strict=True)
            assert one["reward"] == pytest.approx(sum(weight * score for weight, score in weights))

        second = chat.ask("And 1 + 1?")
        for before, said in zip(found.answers, second.answers, strict=True):
            turn = {"role": "user", "content": "And 1 + 1?"}
            assert said.prompt == [*MESSAGES, *before.answer.completion, turn], "each has its own history"
        body = second.to_json()
        assert "missing 1 required positional argument: 'answer'" in body["errors"]["correctness"]
        assert body["answers"][0]["rewards"]["correctness"] is None
        assert body["answers"][0]["rewards"]["format"] is not None, "it needs no reference answer"
        assert body["answers"][0]["reward"] is None
        chat.asked = 1
        chat.new()
        alone = chat.ask(QUESTION)
        assert [(said.policy, said.answer.text) for said in alone.answers] == [(str(adapter), told[0])]


def test_a_prompt_is_put_where_training_puts_it(own_config: RunConfig, lab: Lab) -> None:
    words = ["grpo_tui.system_prompt=Add."]
    assert own_config.path is not None
    config = load_config(own_config.path, words)
    system = {"role": "system", "content": "Add."}
    with Chat(lab, config, [base_policy(config)]) as chat:
        assert chat.ask("3 + 4").answers[0].prompt == [system, {"role": "user", "content": "3 + 4"}]
    rows = own_config.path.with_name("task.py")
    rows.write_text(
        "def train_rows():\n    from datasets import Dataset\n"
        "    return Dataset.from_list([{'prompt': f'{n}+1=', 'answer': str(n + 1)} for n in range(80)])\n"
    )
    with Chat(lab, own_config, [base_policy(own_config)]) as chat:
        found = chat.ask("3+1=")
        assert found.answers[0].prompt == "3+1=", "a text prompt stays one"
        assert isinstance(found.answers[0].answer.completion, str)
        assert found.row == {"answer": "4"}
        assert chat.ask("5+1=").first, "texts have no conversation"
    rows.unlink()
    told: list[str] = []
    with Chat(lab, config, [base_policy(config)], tell=lambda name, what: told.append(what)) as chat:
        assert chat.ask("3 + 4").answers[0].prompt[0] == system
    assert any("the dataset cannot be read" in what for what in told)


def test_an_exchange_is_kept_as_a_case_and_as_a_probe_prompt(
    own_config: RunConfig, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_config.path is not None
    with Chat(lab, own_config, [base_policy(own_config)]) as chat:
        with pytest.raises(KeepError, match="send a prompt first"):
            chat.keep_case(0)
        found = chat.ask_row(2)
        file, name = chat.keep_case(0)
        (case,) = read_cases(file).cases
        assert (case.name, case.sample.completion) == (name, found.answers[0].answer.completion)
        assert case.expect["correctness"].low == found.to_json()["answers"][0]["rewards"]["correctness"]
        assert chat.keep_probe() == own_config.path
        assert chat.ask("And 2 + 2?").first is False
        with pytest.raises(KeepError, match="only the first prompt"):
            chat.keep_probe()
        chat.new()
        chat.ask(QUESTION)
        chat.keep_probe()
        with pytest.raises(KeepError, match="already a probe prompt"):
            chat.keep_probe()
    probes = load_config(own_config.path).section.probe_prompts
    assert probes is not None
    assert probes.texts == (found.text, QUESTION)
    other = load_config(own_config.path)
    own_config.path.write_text(own_config.path.read_text() + "\n")
    with Chat(lab, other, [base_policy(other)]) as chat:
        chat.ask("What is 1 + 2?")
        monkeypatch.setattr("grpo_tui.config.presets._PACKAGE", own_config.path.parent)
        with pytest.raises(KeepError, match="is part of grpo-tui"):
            chat.keep_probe()
        monkeypatch.undo()
        chat.keep_probe()
    assert len(load_config(own_config.path).section.probe_prompts.texts) == 3  # type: ignore[union-attr]


def test_the_config_file_that_a_run_of_somebody_else_names_is_not_changed(
    own_config: RunConfig, lab: Lab, tmp_path: Path
) -> None:
    assert own_config.path is not None
    before = own_config.path.read_bytes()
    config = replace(own_config, origin=tmp_path / "theirs")
    give(needed(config))
    with Chat(lab, config, [base_policy(config)]) as chat:
        chat.ask("What is 1 + 2?")
        with pytest.raises(KeepError, match="you did not start this run on this machine"):
            chat.keep_probe()
        with pytest.raises(CaseFileError, match="you did not start this run on this machine"):
            chat.keep_case(0)
    assert own_config.path.read_bytes() == before
    assert not cases_file(config).exists()


class Talk:
    """`grpo-tui chat` as the screen runs it."""

    def __init__(self, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grpo_tui", "chat", *map(str, words), "--events"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGHUP, signal.SIG_DFL
            ),  # ignored where tests run under nohup
        )

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def event(self, kind: str, **about: Any) -> dict[str, Any]:
        """Wait for an event, and for its values."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == kind and all(found[name] == value for name, value in about.items()):
                return found
        raise AssertionError(f"it ended without {kind}")

    def family(self) -> list[psutil.Process]:
        return below(self.process.pid)


@pytest.fixture
def endless() -> Iterator[Talk]:
    settings = [word for pair in ENDLESS for word in ("--set", pair)]
    talk = Talk("base", "--with", DEMO_MODEL, "--config", DEMO_CONFIG, *settings)
    yield talk
    talk.process.kill()
    talk.process.wait()


def test_ctrl_c_stops_the_answer_and_not_the_program(endless: Talk) -> None:
    endless.say(QUESTION)
    while len(endless.event("text", place=0)["text"]) < 100:
        pass
    endless.process.send_signal(signal.SIGINT)
    body = endless.event("exchange")["body"]
    assert [(one["policy"], one["stopped"]) for one in body["answers"]] == [("base", True)]
    assert body["answers"][0]["rewards"] == {}
    endless.say("/case")
    assert "nothing to keep" in endless.event("failed")["text"]
    endless.say("/with off")
    assert endless.event("said")["text"] == "asking base"
    for line, trouble in {
        "/with bass": "/with takes on or off",
        "/rows 3": "unknown command /rows. /help lists the commands",
    }.items():
        endless.say(line)
        assert endless.event("failed")["text"] == trouble
    endless.say("/help")
    told = endless.event("said")["text"]
    assert told.startswith("/new ")
    assert "ctrl" not in told, "the screen has other keys"
    endless.say("/seed 5")
    assert endless.event("said")["text"] == "seed 5"
    endless.say("//1 + 1")
    while not endless.event("text")["text"]:
        pass
    endless.process.send_signal(signal.SIGINT)
    body = endless.event("exchange")["body"]
    assert (body["prompt"], body["answers"][0]["seed"]) == ("/1 + 1", 5)
    assert endless.process.stdin is not None
    family = endless.family()
    assert family
    endless.process.stdin.close()
    assert endless.process.wait() == 0
    assert all(map(gone, family))


@pytest.mark.parametrize("end_of", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_kill_in_the_middle_of_an_answer_leaves_no_process(endless: Talk, end_of: signal.Signals) -> None:
    endless.say(QUESTION)
    while len(endless.event("text", place=0)["text"]) < 100:
        pass
    family = endless.family()
    assert family
    endless.process.send_signal(end_of)
    endless.process.wait()
    until(lambda: all(map(gone, family)), "the end of every child")


def test_every_line_of_a_pipe_is_a_prompt_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "grpo_tui", "chat", "base", "--config", str(DEMO_CONFIG)]
    asked = f"{QUESTION}\n\n{QUESTION}\n"
    done = subprocess.run([*words, "--json"], input=asked, capture_output=True, text=True, check=True)
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["answers"][0]["text"] == second["answers"][0]["text"], "no conversation"
    assert first["answers"][0]["seed"] == 42
    shown = grpo_tui("chat", "base", "--config", DEMO_CONFIG, "--prompt", QUESTION).stdout.splitlines()
    assert shown[:2] == ["--- base", first["answers"][0]["text"]]
    assert shown[2].startswith(f"[{first['answers'][0]['tokens']} tokens · correctness 0.00 · ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["base"], "--config"),
        (["no/such/run", "--with", "base"], "no such run"),
        (["no/such/run", "--config", str(DEMO_CONFIG)], "no such run"),
        (["base", "--with", "nothing", "--config", str(DEMO_CONFIG)], "no such run"),
    ],
)
def test_words_that_name_no_policy_are_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", *words, "--prompt", "a"]) == 2
    assert said in capsys.readouterr().err


def test_a_run_of_somebody_else_is_refused(
    tmp_path: Path, no_yes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = foreign_run(tmp_path / "run", tmp_path / "marks")
    for file in DEMO_MODEL.iterdir():
        (foreign.root / "checkpoint-3" / file.name).write_bytes(file.read_bytes())
    assert main(["chat", str(foreign.root), "--prompt", "a"]) == 3
    assert "--trust" in capsys.readouterr().err
    assert foreign.ran() == set()
    assert main(["chat", f"{foreign.root}@live", "--prompt", "a"]) == 2
    assert "the run is not training" in capsys.readouterr().err


@pytest.mark.slow
def test_a_paused_run_answers_too_and_nothing_of_it_changes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    start(run)
    try:
        command(run, "pause")
        held = state(run, "paused")
        talk = Talk(f"{run}@live", "--with", "base", "--seed", "7")
        told: dict[int, list[str]] = {}
        for seed in (7, 7, 8, 9, 10):
            for line in (f"/seed {seed}", "/new", QUESTION):
                talk.say(line)
            body = talk.event("exchange")["body"]
            assert [one["policy"] for one in body["answers"]] == [f"{run}@live", "base"]
            assert body["answers"][0]["rewards"].keys() == {"correctness", "format", "incremental"}
            told.setdefault(seed, []).append(body["answers"][0]["text"])
        assert told[7][0] == told[7][1]
        assert len({texts[0] for texts in told.values()}) > 1, "the seed reaches the run"
        words = ("compare", "base", f"{run}@live", "--rows", 3, "--samples", 2, "--json")
        found = json.loads(grpo_tui(*words).stdout)
        assert found["policies"][1] == {"name": f"{run}@live", "path": str(run), "step": held.step}
        lines = [json.loads(line) for line in Path(found["file"]).read_text().splitlines()]
        texts = {(one["policy"], one["row"]): one["texts"] for one in lines if "texts" in one}
        assert [len(texts[1, row]) for row in range(3)] == [2, 2, 2]
        assert texts[0, 0] != texts[1, 0]
        assert json.loads(grpo_tui(*words).stdout) == found, "kept for these weights"
        (live,) = [one for one in read_results(run).models if one.live]
        assert (live.name, live.step, live.usable) == (f"{run}@live", held.step, True)
        after = state(run, "paused")
        assert (after.step, after.ranks[0].pid) == (held.step, held.ranks[0].pid)
        talk.process.terminate()
        talk.process.wait()
        command(run, "resume")
        refused = grpo_tui(*words, check=2)
        assert f"Pause it with `grpo-tui pause {run}`" in refused.stderr
    finally:
        end(run)


def test_an_exchange_without_rewards_is_printed_all_the_same() -> None:
    answers = (
        Said(0, "base", "hi", Chatted("a", "a", 3, True)),
        Said(1, "other", "hi", Chatted("b", "b", 2, True, stopped=True)),
    )
    body = Exchange("hi", None, answers, True, notes=("no rewards",)).to_json()
    assert (body["row"], body["errors"], body["notes"]) == (None, {}, ["no rewards"])
    assert [(one["policy"], one["rewards"], one["reward"]) for one in body["answers"]] == [
        ("base", {}, None),
        ("other", {}, None),
    ]
    assert [(one["truncated"], one["stopped"]) for one in body["answers"]] == [(True, False), (False, True)]
