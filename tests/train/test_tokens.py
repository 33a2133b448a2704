"""Tokens of a completion equal a direct forward pass: of a checkpoint, an adapter, the base, the live run."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core.token_scores import TokenScores
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.demo.rewards import correctness
from grpo_tui.demo.task import train_rows
from grpo_tui.rewards.generating import CancelledError, GenerateError
from grpo_tui.rewards.token_asking import AskedPolicy, TokenAsker, policies
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.rollouts import Rollout, rollouts_of
from grpo_tui.store.search import Search
from grpo_tui.store.spec import RunSpec
from grpo_tui.train.settings import Refused
from grpo_tui.train.tokens import TokensError, figures, live_tokens, refuse_images, token_texts, tokenized
from grpo_tui.train.tokens import _figures as live_figures
from tests.train.tiny import run_recorded

pytestmark = pytest.mark.slow

CLOSE = 1e-4
TEXT = "<think>4+5=9</think><answer>9</answer>"


@dataclass(frozen=True)
class Ran:
    """A short real run, whose policy was asked after its second step and saved there."""

    root: Path
    row: Rollout
    prompt: Any
    live: TokenScores
    of_trl: list[float]
    """Log-probabilities of the same tokens, as TRL computes them for the loss, at temperature 1."""
    history: list[Any]

    @property
    def checkpoint(self) -> AskedPolicy:
        return AskedPolicy("checkpoint", "checkpoint-2", str(self.root / "checkpoint-2"), 2)


def trl_logprobs(trainer: Any, prompt: Any) -> list[float]:
    import torch

    tokenizer = trainer._tokenizer
    before = trainer._tokenize_prompts([prompt])[0][0]
    ids = [*tokenizer(TEXT, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    whole = torch.tensor([[*before, *ids]])
    with torch.no_grad():
        logps, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, whole, torch.ones_like(whole), len(ids)
        )
    return list(logps[0].tolist())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("runs") / "short"
    box = Mailbox(RunFolder(root).commands)
    seen: dict[str, Any] = {}

    def at_safe_point(session: Any, trainer: Any) -> None:
        if trainer.state.global_step != 2 or seen:
            return
        seen["prompt"] = prompt = session.capture.newest_prompt
        seen["of_trl"] = trl_logprobs(trainer, prompt)
        args = {"group": 1, "index": 0, "prompt": prompt, "text": TEXT, "truncated": False, "recorded": 3}
        seen["asked"] = box.submit("tokens", args)
        box.submit("checkpoint")

    # beta makes TRL keep a reference model; the sampling temperature must not enter the figures.
    run_recorded(root, at_safe_point=at_safe_point, max_steps=2, beta=0.04)
    config = load_config(DEMO_CONFIG)
    RunSpec(config=config.to_json()).write(RunFolder(root).spec)
    outcome = box.outcome(seen["asked"].id)
    assert outcome is not None
    assert outcome.applied, outcome.reason
    with closing(Search(RunFolder(root).database)) as search:
        rows = rollouts_of(search.run, search.find("step==2").ids)
        history = search.run.commands()
    row = next(row for row in rows if not row.truncated)
    return Ran(root, row, seen["prompt"], TokenScores.from_wire(outcome.result), seen["of_trl"], history)


@pytest.fixture(scope="module")
def asker(ran: Ran) -> Iterator[TokenAsker]:
    with TokenAsker(ran.root) as one:
        yield one


def direct(model: Any, prompt: Any, text: str, *, ended: bool) -> Any:
    """(tokens, vocabulary) log-probabilities by transformers alone, and the ids."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    rendered = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    before = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] * ended
    with torch.no_grad():
        logits = model(torch.tensor([[*before, *ids]])).logits[0, len(before) - 1 : -1]
    return torch.log_softmax(logits.float(), dim=-1), ids


def loaded(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()


def same(found: TokenScores, logp: Any, ids: list[int], logq: Any = None) -> None:
    """Hold the figures against full distributions."""
    assert [token.id for token in found.tokens] == ids
    for place, token in enumerate(found.tokens):
        row = logp[place]
        assert token.logprob == pytest.approx(float(row[token.id]), abs=CLOSE)
        assert token.entropy == pytest.approx(float(-(row.exp() * row).sum()), abs=CLOSE)
        assert token.rank == 1 + int((row > row[token.id]).sum())
        assert token.likeliest_logprob == pytest.approx(float(row.max()), abs=CLOSE)
        if logq is None:
            assert (token.kl, token.base_logprob, token.log_ratio) == (None, None, None)
        else:
            assert token.base_logprob == pytest.approx(float(logq[place][token.id]), abs=CLOSE)
            assert token.kl == pytest.approx(float((row.exp() * (row - logq[place])).sum()), abs=CLOSE)


def test_the_live_policy_says_what_a_direct_pass_says(ran: Ran) -> None:
    logp, ids = direct(loaded(ran.root / "checkpoint-2"), ran.prompt, TEXT, ended=True)
    logq, _ = direct(loaded(DEMO_MODEL), ran.prompt, TEXT, ended=True)
    same(ran.live, logp, ids, logq)
    assert [token.logprob for token in ran.live.tokens] == pytest.approx(ran.of_trl, abs=CLOSE)
    assert (ran.live.policy, ran.live.base) == ("the policy at step 2", "the reference model")
    assert ran.live.retokenized
    assert "when it was generated it had 3" in ran.live.note
    assert ran.live.tokens[-1].special
    assert "".join(token.text for token in ran.live.tokens[:-1]) == TEXT


def test_the_history_keeps_neither_the_texts_nor_the_figures(ran: Ran) -> None:
    command, outcome = next(pair for pair in ran.history if pair[0].kind == "tokens")
    assert command.args == {"group": 1, "index": 0}
    assert outcome.applied
    assert outcome.result == {}


def test_a_checkpoint_and_the_base_say_what_a_direct_pass_says(ran: Ran, asker: TokenAsker) -> None:
    assert [policy.name for policy in policies(ran.root)] == ["checkpoint-2", "model"]
    logp, ids = direct(loaded(ran.root / "checkpoint-2"), ran.row.prompt, ran.row.completion, ended=True)
    logq, _ = direct(loaded(DEMO_MODEL), ran.row.prompt, ran.row.completion, ended=True)
    compared = asker.ask(ran.row, ran.checkpoint, base=True)
    same(compared, logp, ids, logq)
    same(asker.ask(ran.row, policies(ran.root)[-1]), logq, ids)
    assert not compared.retokenized
    assert compared.of == ran.row.tokens
    question = ran.row.prompt[-1]["content"]
    assert question in compared.prompt
    assert compared.prompt != question, "the template's own tokens stand round it"
    assert compared.precision == "float32"
    cut = asker.ask(replace(ran.row, truncated=True), ran.checkpoint)
    assert [token.id for token in cut.tokens] == ids[:-1]
    assert cut.retokenized


def test_an_adapter_is_read_on_its_base(ran: Ran, asker: TokenAsker, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    wish = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    model = get_peft_model(loaded(DEMO_MODEL), wish).eval()
    model.save_pretrained(tmp_path / "checkpoint-9")
    found = asker.ask(
        ran.row, AskedPolicy("checkpoint", "checkpoint-9", str(tmp_path / "checkpoint-9"), 9), base=True
    )
    logp, ids = direct(model, ran.row.prompt, ran.row.completion, ended=True)
    logq, _ = direct(loaded(DEMO_MODEL), ran.row.prompt, ran.row.completion, ended=True)
    same(found, logp, ids, logq)
    assert found.mean_kl is not None
    assert found.mean_kl > 0.01


def test_an_adapter_that_names_a_module_to_import_is_refused(
    ran: Ran, asker: TokenAsker, tmp_path: Path
) -> None:
    theirs = tmp_path / "checkpoint-9"
    theirs.mkdir()
    named = {"peft_type": "LORA", "megatron_config": {"a": 1}, "megatron_core": "their.module"}
    (theirs / "adapter_config.json").write_text(json.dumps(named))
    with pytest.raises(GenerateError, match="is an adapter for Megatron, which is not supported"):
        asker.ask(ran.row, AskedPolicy("checkpoint", "checkpoint-9", str(theirs), 9))


def test_the_reference_of_a_live_adapter_is_the_model_below_it(ran: Ran, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(4)
    trainer = GRPOTrainer(
        model=loaded(DEMO_MODEL),
        reward_funcs=correctness,
        args=GRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", num_generations=2
        ),
        train_dataset=train_rows(),
        peft_config=LoraConfig(
            r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"
        ),
    )
    trainer.model.train()
    asked = {"prompt": ran.prompt, "text": TEXT, "truncated": False, "recorded": None}
    found = TokenScores.from_wire(live_tokens(trainer, asked))
    assert trainer.model.training
    logq, ids = direct(loaded(DEMO_MODEL), ran.prompt, TEXT, ended=True)
    logp, _ = direct(trainer.model.eval(), ran.prompt, TEXT, ended=True)
    same(found, logp, ids, logq)
    assert found.base == "the base model"
    cut = TokenScores.from_wire(live_tokens(trainer, {**asked, "truncated": True}))
    assert [token.id for token in cut.tokens] == ids[:-1], "a truncated completion has no end token"
    assert found.mean_kl is not None
    assert found.mean_kl > 0.01
    with pytest.raises(Refused) as caught:
        live_tokens(trainer, {"prompt": ran.prompt})
    assert f"`grpo-tui tokens {tmp_path} --group N --from live`" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"completion": "", "truncated": True, "tokens": 0}, "the completion has no tokens"),
        ({"completion": "1" * 5000}, "the model's context holds"),
        ({"prompt": [{"role": "user", "content": [{"type": "image"}]}]}, "has images"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_in_a_sentence(
    ran: Ran, asker: TokenAsker, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(GenerateError, match=why):
        asker.ask(replace(ran.row, **changes), ran.checkpoint)


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        ("an image", False),
        ([{"type": "text", "text": "type: image"}], False),
        (["image", {"type": "text", "text": "x"}], False),
        ([{"type": "text", "text": "x"}, {"type": "image"}], True),
    ],
)
def test_a_prompt_is_refused_for_an_image_alone(content: Any, refused: bool) -> None:
    with pytest.raises(TokensError) if refused else contextlib.nullcontext():
        refuse_images([{"role": "system", "content": "x"}, {"role": "user", "content": content}])
    refuse_images(content)


def test_cancelling_ends_the_child(ran: Ran) -> None:
    cancel = threading.Event()
    told: list[str] = []

    def tell(what: str) -> None:
        told.append(what)
        cancel.set()

    with TokenAsker(ran.root, tell, cancel) as one, pytest.raises(CancelledError):
        one.ask(ran.row, ran.checkpoint)
    assert told == ["starting"]


def test_the_command_prints_and_gives_every_token(
    ran: Ran, asker: TokenAsker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A child that has imported torch is at hand; the command would start another.
    monkeypatch.setattr("grpo_tui.cli.tokens.TokenAsker", lambda *_, **__: nullcontext(asker))
    words = ["tokens", str(ran.root), "--group", str(ran.row.group), "--index", str(ran.row.index)]
    assert main([*words, "--base", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    logp, ids = direct(loaded(ran.root / "checkpoint-2"), ran.row.prompt, ran.row.completion, ended=True)
    assert [token["id"] for token in body["tokens"]] == ids
    assert body["tokens"][0]["logprob"] == pytest.approx(float(logp[0][ids[0]]), abs=CLOSE)
    assert (body["policy"], body["retokenized"], body["of"]) == ("checkpoint-2", False, ran.row.tokens)
    assert main([*words, "--prompt", "--limit", "1"]) == 0
    said = capsys.readouterr().out
    assert "checkpoint-2" in said
    assert ran.row.prompt[-1]["content"] in said
    assert len(said.split("more likely")[1].strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--group", "99999"], 2, "there is no group 99999"),
        (["--group", "1", "--index", "77"], 2, "has completions 0 to 3"),
        (["--group", "1", "--from", "live"], 3, "the run is not live and has checkpoints 2"),
        (["--group", "1", "--from", "checkpoint=7"], 3, "has checkpoints 2"),
        (["--group", "1", "--from", "moon"], 2, "checkpoint=STEP or base"),
    ],
)
def test_the_command_says_what_it_cannot_have(
    ran: Ran, words: list[str], code: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokens", str(ran.root), *words]) == code
    assert why in capsys.readouterr().err


# -- without a run -----------------------------------------------------------------------------------


class Bytes:
    """A tokenizer whose tokens are single bytes, of which no sign outside ASCII has one alone."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def decode(self, ids: list[int], **_: Any) -> str:
        return bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize("text", ["plain", "é", "a日本b", "x\N{GRINNING FACE}y", "\ufffd", "e\u0301"])
def test_the_texts_of_tokens_make_the_completion(text: str) -> None:
    ids = list(text.encode())
    texts = token_texts(Bytes(), list(b"before"), ids)
    assert len(texts) == len(ids)
    assert "".join(texts) == text


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    assert token_texts(Bytes(), [], list("aé".encode())[:-1]) == ["a", "\ufffd"]


def test_a_text_that_does_not_come_back_is_said() -> None:
    class Upper(Bytes):
        def decode(self, ids: list[int], **_: Any) -> str:
            return super().decode(ids).upper()

    assert tokenized(Bytes(), "abc", None, 3).note == ""
    assert "exactly the recorded text" in tokenized(Upper(), "abc", None, 3).note
    assert tokenized(Bytes(), "a" * 5000, 0, None).of == 5001
    assert len(tokenized(Bytes(), "a" * 5000, 0, None).ids) == 2048


def test_impossible_tokens_do_not_spoil_entropy_and_kl() -> None:
    import torch

    logits = torch.tensor([[0.0, 0.0, -torch.inf]])
    columns = figures(logits, [1], logits)
    assert columns["entropy"] == [pytest.approx(0.693147, abs=1e-6)]
    assert columns["kl"] == [0.0]
    assert columns["rank"] == [1]


def test_a_look_at_a_training_model_is_without_dropout_and_leaves_it_training() -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        DEMO_MODEL, attention_dropout=0.5, attn_implementation="eager"
    ).train()
    trainer = SimpleNamespace(
        model=model, accelerator=SimpleNamespace(device=torch.device("cpu"), autocast=nullcontext)
    )
    _, seen = live_figures(trainer, [1, 2, 3], [4, 5], wanted=False)
    assert model.training
    _, still = live_figures(SimpleNamespace(**{**vars(trainer), "model": model.eval()}), [1, 2, 3], [4, 5],
                            wanted=False)  # fmt: skip
    assert seen == still
