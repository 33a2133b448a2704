"""What comparing, chatting and pushing hand on: every model for consent, every option for the result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.rewards.comparison import Answers
from grpo_tui.rewards.generating import Chatted, ChosenRows, DatasetRow, Generated, GenerateError
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import Failure, FunctionInfo, FunctionScore
from grpo_tui.ship import chat, compare, push
from grpo_tui.ship.chat import Chat, LiveRun
from grpo_tui.ship.compare import CompareOptions
from grpo_tui.ship.kept import KeptComparison
from grpo_tui.ship.policies import Policy, config_for, resolve
from grpo_tui.ship.push import PushError, Upload, upload
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from tests.ship.folders import model
from tests.ui.recorded_run import RecordedRun

POLICIES = [Policy(name, f"models/{name}") for name in ("one", "two", "three")]


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return load_config(DEMO_CONFIG)


# -- consent ----------------------------------------------------------------------------------------


class Asked(BaseException):
    """Consent to the code of the last model."""


def _compare(config: RunConfig) -> None:
    compare.compare(Lab(), config, POLICIES, CompareOptions(), None)


def _chat(config: RunConfig) -> None:
    Chat(Lab(), config, POLICIES)


@pytest.mark.parametrize(("module", "begin"), [(compare, _compare), (chat, _chat)])
def test_the_code_of_every_model_is_asked_about(
    module: Any, begin: Callable[[RunConfig], None], config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    models: list[str] = []

    def required(config: RunConfig) -> None:
        models.append(config.model)
        if config.model == POLICIES[-1].model:
            raise Asked

    monkeypatch.setattr(module, "required", required)
    with pytest.raises(Asked):
        begin(config)
    assert models == [policy.model for policy in POLICIES]


@pytest.mark.parametrize("module", [compare, chat])
def test_only_the_base_is_quantized_as_in_training_and_a_merged_model_is_loaded_as_it_is_stored(
    module: Any, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[str, Any, Any, Any]] = []

    class Loaded:
        def __init__(self, config: RunConfig, *given: Any, **more: Any) -> None:
            bits = config.model_args.get("load_in_4bit"), config.model_args.get("load_in_8bit")
            loaded.append((config.model, *bits, config.setting("use_vllm")))

        def __enter__(self) -> Loaded:
            return self

        def __exit__(self, *error: object) -> None: ...

        close = __exit__

    policies = [
        Policy("base", config.model),
        Policy("run", config.model, "run"),
        Policy("elsewhere", "another base", "lora"),
        Policy("merged", "merged"),
    ]
    grpo = {**config.grpo, "use_vllm": True}
    quantized = replace(config, model_args={**config.model_args, "load_in_4bit": True}, grpo=grpo)
    monkeypatch.setattr(module, "Generator", Loaded)
    monkeypatch.setattr(chat, "required", lambda config: None)
    if module is chat:
        Chat(Lab(), quantized, policies)
    else:
        answered: Any = SimpleNamespace(rows=ChosenRows((), False, ()), answers={})
        comparing = compare._Comparing(
            Lab(), quantized, policies, CompareOptions(), answered, lambda name, now: None
        )
        comparing.answer_all()
    assert loaded == [
        (config.model, True, None, True),
        (config.model, True, None, True),
        ("another base", True, None, True),
        ("merged", None, None, False),
    ]
    assert config_for(policies[-1], config).setting("use_vllm") == config.setting("use_vllm")


# -- comparing --------------------------------------------------------------------------------------

OTHER = {
    "rows": 7,
    "samples": 3,
    "seed": 5,
    "held": True,
    "correct": "f",
    "prompts": "a.jsonl",
    "probes": True,
}
KEPT_TOGETHER = ("correct", "prompts")
"""Results by judge are in one file. Prompts are part of the config."""


def test_a_comparison_is_continued_only_with_the_same_options(config: RunConfig) -> None:
    def key(options: CompareOptions, policies: list[Policy] = POLICIES, config: RunConfig = config) -> str:
        return str(compare._header(config, policies, options)["key"])

    assert {field.name for field in fields(CompareOptions)} == set(OTHER)
    before = key(CompareOptions())
    same = [
        name for name, value in OTHER.items() if key(replace(CompareOptions(), **{name: value})) == before
    ]
    assert same == list(KEPT_TOGETHER)
    assert key(CompareOptions(seed=int(config.setting("seed")))) == before, "the config's seed, typed"
    assert key(CompareOptions(), POLICIES[::-1]) != before
    for name in ("model", "adapter", "tokenizer"):
        changed = [replace(POLICIES[0], **{name: "another"}), *POLICIES[1:]]
        assert key(CompareOptions(), changed) != before
    assert key(CompareOptions(), config=replace(config, grpo={**config.grpo, "temperature": 0.5})) != before


def test_the_answers_of_an_older_merge_or_of_other_live_weights_are_not_used(
    config: RunConfig, tmp_path: Path
) -> None:
    merged = tmp_path / "merged"

    def key(**live: Any) -> str:
        policy = replace(resolve(str(merged)), **live)
        return str(compare._header(config, [POLICIES[0], policy], CompareOptions())["key"])

    model(merged)
    before = key()
    assert key() == before
    shutil.rmtree(merged)
    model(merged)
    assert key() != before, "also with files of the same size"
    run = RecordedRun(tmp_path / "run")
    paused = [
        {"run": run.folder.root, "live": started, "step": step}
        for started, step in ((1.5, 4), (1.5, 5), (2.5, 4))
    ]
    assert len({before := key(**one) for one in paused}) == 3
    run.write(r.SettingChanged(1, 2, run.at(2), "top_p", 1.0, 0.5))
    run.close()
    assert key(**paused[-1]) != before, "it samples in another way"


def _compare_live(root: Path, config: RunConfig) -> None:
    policy = Policy("run@live", "m", run=root, live=1.5, step=4)
    compare._Live(policy, config, print).answers([DatasetRow(1, "a", {})], 4, 7)


def _chat_live(root: Path, config: RunConfig) -> None:
    chat._Live(LiveRun("run@live", root), print).chat("a", 7, print)


@pytest.mark.parametrize(("module", "ask"), [(compare, _compare_live), (chat, _chat_live)])
def test_what_a_comparison_or_a_chat_asks_is_not_told_in_the_history_of_the_run(
    module: Any,
    ask: Callable[[Path, RunConfig], None],
    config: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mailbox = Mailbox(RunFolder(tmp_path).commands)

    def ask_live(root: Path, kind: str, args: Any, tell: Any, cancel: Any, by: str = "you") -> Any:
        mailbox.submit(kind, args, by=by)
        raise GenerateError("the run has ended")

    monkeypatch.setattr(module, "ask_live", ask_live)
    monkeypatch.setattr(compare, "_set_live", lambda policy: {})
    with pytest.raises(GenerateError):
        ask(tmp_path, config)
    assert [one.kind for one in mailbox.pending()] == ["sample"]
    asked = mailbox.submit("sample", {"prompt": "b"})
    assert [one.id for one, _ in mailbox.history(set())] == [asked.id]


def test_a_comparison_ends_when_the_paused_run_is_set_to_sample_in_another_way(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: dict[str, float] = {}

    def ask_live(*asked: Any, by: str) -> Any:
        now["top_p"] = 0.5
        return {"completions": []}

    status = SimpleNamespace(state="paused", step=4, started_at=1.5)
    monkeypatch.setattr(compare, "ask_live", ask_live)
    monkeypatch.setattr(compare, "read_status", lambda run: status)
    monkeypatch.setattr(compare, "_set_live", lambda policy: dict(now))
    policy = Policy("run@live", "m", run=tmp_path, live=1.5, step=4)
    with pytest.raises(GenerateError, match="a sampling setting of run@live was set meanwhile"):
        compare._Live(policy, config, print).answers([DatasetRow(1, "a", {})], 4, 7)


ANSWER = Answers(("2",), (1,), (False,), ((1.0,),))


def test_the_seed_of_a_block_is_that_of_its_place_whatever_was_answered_before(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tuple(DatasetRow(n, f"{n}?", {}) for n in range(1, 6))
    asked: list[tuple[tuple[int, ...], int, int]] = []

    def answers(rows: list[DatasetRow], samples: int, seed: int) -> Any:
        asked.append((tuple(row.number for row in rows), samples, seed))
        return SimpleNamespace(engine="e", device="cpu", temperature=1.0, max_tokens=9)

    monkeypatch.setattr(
        compare, "scored", lambda lab, generated, failures, others: [ANSWER] * len(asked[-1][0])
    )
    generator: Any = SimpleNamespace(answers=answers, tell=None)
    options = CompareOptions(samples=3)
    lab: Any = None
    config = replace(config, grpo={**config.grpo, "seed": 100})
    with KeptComparison(tmp_path / "a.jsonl", {"key": "a"}) as kept:
        kept.add(0, {2: ANSWER, 3: ANSWER}, {})
        comparing = compare._Comparing(lab, config, POLICIES, options, kept, lambda name, now: None)
        for policy in (0, 1):
            comparing.answer(generator, policy, ChosenRows(rows, True, ()), 2, lambda now: None)
    first, second, third = ((1, 2), 3, 100), ((3, 4), 3, 106), ((5,), 3, 112)
    assert asked == [first, third, first, second, third]


@pytest.mark.parametrize("torn", ['{"policy": 0, "ro', '{"policy": 0, "row": 1}\n', "\x00\n"])
def test_what_follows_a_torn_line_is_read_again(torn: str, tmp_path: Path) -> None:
    file, header = tmp_path / "a.jsonl", {"comparison": 1, "key": "a"}
    with KeptComparison(file, header) as kept:
        kept.add(0, {0: ANSWER}, {"engine": "e"})
    with file.open("a") as more:
        more.write(torn)
    with KeptComparison(file, header) as kept:
        assert set(kept.answers) == {(0, 0)}
        kept.add(0, {1: ANSWER}, {"engine": "e"})
    with KeptComparison(file, header) as kept:
        assert set(kept.answers) == {(0, 0), (0, 1)}
    assert [len(json.loads(line)) > 0 for line in file.read_text().splitlines()] == [True] * 3


def test_each_completion_keeps_its_own_scores() -> None:
    """Of two rows with two completions each, by two functions."""
    samples = tuple(Sample("p", f"{n}", {}, truncated=n == 2) for n in range(4))
    generated: Any = SimpleNamespace(samples=samples, count=2, tokens=(5, 6, 7, 8))
    functions = [
        FunctionScore(FunctionInfo(at, f"f{at}", 1.0, "function", ""), scores)
        for at, scores in enumerate(((0.0, 1.0, 2.0, float("nan")), (None, 5.0, 6.0, 7.0)))
    ]
    lab: Any = SimpleNamespace(score=lambda samples, repeat_limit_s: SimpleNamespace(functions=functions))
    assert compare.scored(lab, generated) == [
        Answers(("0", "1"), (5, 6), (False, False), ((0.0, None), (1.0, 5.0))),
        Answers(("2", "3"), (7, 8), (True, False), ((2.0, 6.0), (None, 7.0))),
    ]
    assert {"samples", "count", "tokens"} <= {field.name for field in fields(Generated)}


def test_a_prompt_that_is_a_text_is_scored_by_the_rewards_that_can() -> None:
    """The function `needs` fails on rows without columns, as a missing argument does."""
    bare = [True, True, False, False, True, True]
    samples = tuple(Sample("p", f"{n}", {} if one else {"answer": "1"}) for n, one in enumerate(bare))
    generated: Any = SimpleNamespace(samples=samples, count=2, tokens=(1,) * 6)
    asked: list[list[str]] = []
    kind, says = "raised", [float(n) if n != 5 else None for n in range(6)]

    def score(given: list[Sample], repeat_limit_s: float) -> Any:
        asked.append([one.text for one in given])
        infos = [FunctionInfo(at, name, 1.0, "function", "") for at, name in enumerate(names)]
        failure = None if given[0].columns else Failure(kind, "TypeError", "no answer")
        needs = [FunctionScore(infos[0], tuple(None if failure else 1.0 for _ in given), failure=failure)]
        others = [FunctionScore(info, tuple(says[int(one.text)] for one in given)) for info in infos[1:]]
        return SimpleNamespace(functions=[*needs, *others])

    lab: Any = SimpleNamespace(score=score)
    names, failures = ["needs", "other", "always"], dict[str, str]()
    found = compare.scored(lab, generated, failures)
    assert asked == [["2", "3"], ["0", "1", "4", "5"]]
    assert [one.scores for one in found] == [
        ((None, 0.0, 0.0), (None, 1.0, 1.0)),
        ((1.0, 2.0, 2.0), (1.0, 3.0, 3.0)),
        ((None, 4.0, 4.0), (None, None, None)),
    ]
    rows = [DatasetRow(n, "p", {} if bare[2 * n] else {"answer": "1"}) for n in range(3)]
    columns = "without the dataset's columns have no score"
    assert list(compare._abstained(rows, [found, found], names[:2], failures)) == [
        f"needs: answers to 2 prompts {columns} (TypeError: no answer)",
        f"other: answers to 1 prompt {columns}",
    ]
    assert list(compare._abstained(rows[1:2], [found[1:2]], names, failures)) == []
    with pytest.raises(GenerateError, match="the reward needs gave no scores: TypeError: no answer"):
        compare.scored(lab, generated)
    for one in ("hung", "died"):
        kind = one
        with pytest.raises(GenerateError, match="the reward needs gave no scores: no answer"):
            compare.scored(lab, generated, {})
    kind, names = "raised", ["needs"]
    generated = SimpleNamespace(samples=samples[:2], count=2, tokens=(1,) * 2)
    with pytest.raises(GenerateError, match="the reward needs gave no scores"):
        compare.scored(lab, generated, {})
    assert compare.scored(lab, generated, {}, others=True)[0].scores == ((None,), (None,))


# -- chatting ---------------------------------------------------------------------------------------


class Model:
    """A model that answers with the number of turns it sees."""

    def __init__(
        self, config: RunConfig, tell: Any, *, adapter: str = "", tokenizer: str | None = None
    ) -> None:
        self.asked: list[tuple[Any, Any]] = []
        self.closed = False

    def opening(self) -> tuple[bool, list[Any], str]:
        return True, [{"role": "system", "content": "Add."}], ""

    def row(self, which: Any) -> Any:
        if which == 9:
            return None
        return (
            ([{"role": "user", "content": f"row {which}"}], {"answer": "4"})
            if isinstance(which, int)
            else None
        )

    def chat(self, prompt: Any, seed: Any, tell: Any) -> Chatted:
        self.asked.append(([one["content"] for one in prompt], seed))
        text = str(len(prompt))
        return Chatted([{"role": "assistant", "content": text}], text, 1, False)

    def close(self) -> None:
        self.closed = True

    stop = go_on = close


@pytest.fixture
def talk(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    def no_lab(config: Any) -> None:
        raise LabError("no lab")

    monkeypatch.setattr(chat, "Generator", Model)
    monkeypatch.setattr(chat, "required", lambda config: None)
    lab: Any = SimpleNamespace(load=no_lab)
    with Chat(lab, config, POLICIES[:2], 7) as made:
        yield made


def test_a_row_begins_a_conversation_and_a_question_continues_it(talk: Chat) -> None:
    first, second = (one.child for one in talk._speakers)
    assert isinstance(first, Model)
    assert isinstance(second, Model)
    talk.ask("a")
    talk.ask("b")
    talk.seed = 8
    row = talk.ask_row(3)
    talk.ask("c")
    talk.new()
    talk.asked = 1
    talk.ask("d")
    expected = [
        (["Add.", "a"], 7),
        (["Add.", "a", "2", "b"], 7),
        (["row 3"], 8),
        (["Add.", "row 3", "1", "c"], 8),
        (["Add.", "d"], 8),
    ]
    assert (row.row, row.text, row.first) == ({"answer": "4"}, "row 3", True)
    assert first.asked == expected
    assert second.asked == first.asked[:4], "each has its own history, and the second was turned off"
    with pytest.raises(chat.GenerateError, match="the training data has no row 9"):
        talk.ask_row(9)


def test_that_vllm_does_not_answer_is_said_once(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "Generator", Model)
    for uses in (True, False):
        asked = replace(config, grpo={**config.grpo, "use_vllm": uses})
        lab: Any = SimpleNamespace(load=lambda config: pytest.fail("not scored"))
        talk = Chat(lab, asked, [Policy("one", "models/one")])
        talk.stop()  # so that nothing is scored
        monkeypatch.setattr(talk, "_answers", lambda prompts, take: [])
        assert [talk.ask("a").notes for _ in range(2)] == [(chat.OF_TRANSFORMERS,) * uses, ()]


def test_a_live_run_is_asked_once_with_the_seed_and_answers_as_a_model_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def ask_live(root: Path, kind: str, args: Any, tell: Any, cancel: Any, by: str) -> Any:
        asked.append((root, kind, args))
        return {"completions": [{"text": "4", "tokens": 3, "truncated": True}], "temperature": 0.7}

    monkeypatch.setattr(chat, "ask_live", ask_live)
    seconds = iter([100.0, 102.5, 200.0, 202.5])
    monkeypatch.setattr(chat, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    live = chat._Live(LiveRun("run@live", tmp_path), lambda now: None)
    for prompt, completion in (("2+2", "4"), ([{"role": "user"}], [{"role": "assistant", "content": "4"}])):
        told: list[str] = []
        found = live.chat(prompt, 5, told.append)
        assert asked.pop() == (tmp_path, "sample", {"prompt": prompt, "count": 1, "seed": 5})
        assert (found.completion, found.text, found.tokens, found.truncated) == (completion, "4", 3, True)
        assert (found.seed, found.temperature, told, found.seconds) == (5, 0.7, ["4"], 2.5)


# -- pushing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    ("update", "fails", "made"),
    [(False, "create", False), (False, "commit", True), (True, "create", False), (True, "commit", False)],
)
def test_only_a_repository_that_this_push_made_is_said_to_be_empty(
    update: bool, fails: str, made: bool, private: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    def call(name: str, **words: Any) -> None:
        calls.append((name, words))
        if name == fails:
            raise RuntimeError("no")

    api = SimpleNamespace(
        create_repo=lambda repo, **words: call("create", **words),
        create_commit=lambda repo, **words: call("commit", **words),
    )
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "x")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(push, "_operations", lambda planned: [])
    with pytest.raises(PushError) as refused:
        upload(Upload(tmp_path, "me/first", private, (), (), ""), update=update)
    assert ("me/first exists now and is empty: --update continues" in str(refused.value)) == made
    assert calls[0] == ("create", {"private": private, "exist_ok": update})
