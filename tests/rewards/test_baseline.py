"""The shipped model answers rows without training, in a real child process that can be cancelled."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.config.section import Filters
from grpo_tui.data.load import load_prompts
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.rewards.generate_child import engine
from grpo_tui.rewards.generate_child import policy as policies
from grpo_tui.rewards.generate_child.__main__ import Child
from grpo_tui.rewards.generate_child.policy import Policy, prompt_ids, until_end
from grpo_tui.rewards.generating import (
    CancelledError,
    DatasetRow,
    GenerateError,
    Generator,
    Progress,
)
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.samples import read_jsonl
from tests.family import gone

AT_ONCE = 64
GROUP = 2
ASKED = DatasetRow(1, [{"role": "user", "content": "What is 2 + 2?"}], {"answer": "4"})


def _answers_of_transformers(prompts: Sequence[Any]) -> list[str]:
    """What transformers itself generates for these prompts, with the seed and batches of the config."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32).eval()
    texts = tokenizer.apply_chat_template(list(prompts), add_generation_prompt=True, tokenize=False)
    found: list[str] = []
    set_seed(42)
    for start in range(0, len(texts), AT_ONCE):
        part = texts[start : start + AT_ONCE]
        asked = tokenizer(part, return_tensors="pt", padding=True, add_special_tokens=False)
        settings = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_new_tokens": 40}
        with torch.no_grad():
            ids = model.generate(asked["input_ids"], attention_mask=asked["attention_mask"], **settings)
        found += tokenizer.batch_decode(ids[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)
    return found


def _is_right(text: str, answer: str) -> bool:
    found = re.findall(r"<answer>\s*(-?\d+)\s*</answer>", text)
    return len(found) == 1 and int(found[0]) == int(answer)


def test_the_baseline_of_the_held_rows_is_what_the_model_does(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.start()  # its nursery is there for the command's own lab
    saved = tmp_path / "answers.jsonl"
    words = ["baseline", str(DEMO_CONFIG), "--held", "--rows", "40", "--group", str(GROUP), "--json"]
    assert main([*words, "--save", str(saved)]) == 0
    body = json.loads(capsys.readouterr().out)

    held = load_prompts(load_config(DEMO_CONFIG)).holdout
    assert held is not None
    rows = [row for row in held for _ in range(GROUP)]
    texts = _answers_of_transformers([row["prompt"] for row in rows])
    right = [_is_right(text, row["answer"]) for text, row in zip(texts, rows, strict=True)]
    samples = read_jsonl(saved)
    assert [sample.completion[0]["content"] for sample in samples] == texts
    assert [sample.columns for sample in samples] == [{"answer": row["answer"]} for row in rows]

    assert (body["rows"], body["group"], body["completions"]) == (40, GROUP, 40 * GROUP)
    assert 0 < sum(right) < len(right)
    assert body["pass_rate"] == sum(right) / len(right)
    pairs = list(zip(right[::GROUP], right[1::GROUP], strict=True))
    assert body["mixed"] == sum(a != b for a, b in pairs) / len(pairs)
    assert (body["judge"]["name"], body["judge"]["least"]) == ("correctness", 1.0)
    assert [form["name"] for form in body["forms"]] == ["format", "incremental"]
    whole = [text.startswith("<think>") and text.endswith("</answer>") for text in texts]
    assert body["form"] == sum(whole) / len(whole)
    assert body["device"] == "cpu"


def test_a_cancel_ends_the_process_and_all_is_told() -> None:
    cancel, pids = threading.Event(), []

    def tell(now: Progress) -> None:
        if now.what.startswith("loading"):
            assert generator._child.pid is not None
            pids.append(generator._child.pid)
            cancel.set()

    with Generator(load_config(DEMO_CONFIG), tell, cancel) as generator, pytest.raises(CancelledError):
        generator.answers([ASKED], 4)
    assert len(pids) == 1
    assert gone(pids[0])


def test_a_config_without_rows_is_told_and_rows_keep_what_was_said_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"number": 3, "prompt": "2 + 2?", "columns": {"answer": "4"}}
    asked: list[Any] = []
    for rows in ([row], []):
        reply = {"rows": rows, "held": True, "notes": ["few"]}
        monkeypatch.setattr(
            Generator, "ask", lambda self, request, reply=reply: asked.append(request) or reply
        )
        generator = Generator(load_config(DEMO_CONFIG))
        if rows:
            found = generator.rows(1, 7, held=None)
            assert (found.rows, found.held, found.notes) == ((DatasetRow(**row),), True, ("few",))
        else:
            with pytest.raises(GenerateError, match="the dataset has no rows"):
                generator.rows(1, 7, held=None)
    assert asked == [{"do": "rows", "count": 1, "seed": 7, "held": None, "probes": False}] * 2


def test_ctrl_c_leaves_no_process() -> None:
    pids = []

    def tell(now: Progress) -> None:
        if now.what.startswith("reading"):
            assert generator._child.pid is not None
            pids.append(generator._child.pid)
            raise KeyboardInterrupt

    generator = Generator(load_config(DEMO_CONFIG), tell)
    with pytest.raises(KeyboardInterrupt):
        generator.rows(1, 42)
    assert len(pids) == 1
    assert gone(pids[0])


def test_a_model_that_cannot_be_loaded_is_told_in_one_sentence(tmp_path: Path) -> None:
    for file in DEMO_MODEL.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = replace(load_config(DEMO_CONFIG), model=str(tmp_path))
    with Generator(config) as generator, pytest.raises(GenerateError) as caught:
        generator.answers([ASKED], 2)
    message = str(caught.value)
    assert message.startswith(f"the model {tmp_path} cannot be loaded: ")
    assert "\n" not in message
    assert "safetensors" in message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group", "1"], "at least 2"),
        (["--save", "no/such/folder/x.jsonl"], "does not exist"),
    ],
)
def test_wrong_words_are_told_before_anything_is_started(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["baseline", str(DEMO_CONFIG), *words])
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == 2
    assert said in capsys.readouterr().err


def test_prompts_are_rendered_as_trl_renders_them() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    policy = Policy(None, tokenizer, tokenizer, (tokenizer.eos_token_id,), "cpu", "")
    chat = tokenizer.decode(prompt_ids(policy, ASKED.prompt, {}))
    assert chat.endswith("What is 2 + 2?<|end|><|assistant|>")
    assert tokenizer.decode(prompt_ids(policy, "2+2=", {})) == "2+2=", "a text goes through no template"


def test_a_completion_ends_with_its_first_end_token() -> None:
    assert until_end([5, 6, 2, 7, 2], (2, 3)) == [5, 6, 2]
    assert until_end([5, 6], (2,)) == [5, 6]


@pytest.mark.parametrize(
    ("told", "rank"),
    [({"r": 8}, 8), ({"r": 9, "rank_pattern": None}, 16), ({"r": 8, "rank_pattern": {"q_proj": 20}}, 32)],
)
def test_vllm_is_told_of_the_largest_rank_of_an_adapter(
    told: dict[str, object], rank: int, tmp_path: Path
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(told))
    assert engine._rank(str(tmp_path)) == rank


@pytest.mark.parametrize(
    ("options", "vllm", "gpu", "takes"),
    [
        ({"use_vllm": True}, True, True, True),
        ({}, True, True, False),
        ({"use_vllm": True}, False, True, False),
        ({"use_vllm": True}, True, False, False),
        ({"use_vllm": True, "use_cpu": True}, True, True, False),
        ({"use_vllm": True, "load_in_4bit": True}, True, True, False),
        ({"use_vllm": True, "load_in_8bit": True}, True, True, False),
    ],
)
def test_vllm_generates_if_the_config_wants_it_and_it_can_run_here(
    options: dict[str, Any], vllm: bool, gpu: bool, takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(engine, "find_spec", lambda name: name if vllm else None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    quantized = {name: value for name, value in options.items() if name.startswith("load_in")}
    config = replace(load_config(DEMO_CONFIG), model_args=quantized)
    config = replace(config, grpo={k: v for k, v in options.items() if k not in quantized})
    assert engine.wanted(config) is takes


@pytest.mark.parametrize(
    ("name", "sizes", "seeds"),
    [
        ("transformers", [4, 2, 2, 2], [7, 7, 9, 11]),
        ("vllm", [6, 3, 1, 1, 1, 1, 1, 1], [7, 7, *range(7, 13)]),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_and_every_prompt_is_answered_once(
    name: str, sizes: list[int], seeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    fits = 2 if name == "transformers" else 1
    asked: list[tuple[list[str], int]] = []

    def generate(policy: Policy, prompts: Sequence[list[int]], settings: Any, seed: int) -> list[list[int]]:
        asked.append(([tokenizer.decode(one) for one in prompts], seed))
        if len(prompts) > fits:
            raise torch.cuda.OutOfMemoryError
        return [[tokenizer.eos_token_id] for _ in prompts]

    monkeypatch.setattr(policies, "_generate", generate)
    policy = Policy(None, tokenizer, tokenizer, (tokenizer.eos_token_id,), "cpu", "", name)
    found = [
        answer.row
        for answers, _ in policies.answered(policy, ["1+1=", "2+2=", "3+3="], 2, {}, {}, 4, 7)
        for answer in answers
    ]
    assert found == [0, 0, 1, 1, 2, 2]
    assert [len(texts) for texts, _ in asked] == sizes
    assert [seed for _, seed in asked] == seeds
    assert [text for texts, _ in asked if len(texts) <= fits for text in texts] == [
        "1+1=", "1+1=", "2+2=", "2+2=", "3+3=", "3+3="
    ]  # fmt: skip


def test_a_training_row_is_found_by_its_number_from_one_or_by_its_prompt() -> None:
    config = load_config(DEMO_CONFIG)
    child = Child(lambda event: None)
    assert child.opening(config.to_json())["chat"]
    train = load_prompts(replace(config, section=replace(config.section, filters=Filters()))).train
    nothing = {"prompt": None, "columns": None}
    first, last = child.row(1), child.row(len(train))
    assert (first["prompt"], last["prompt"]) == (train[0]["prompt"], train[-1]["prompt"])
    assert first["columns"] == {"answer": train[0]["answer"]}
    assert child.row(len(train) + 1) == nothing
    assert child.row(last["prompt"]) == last
    assert child.row("no such prompt") == nothing


def test_the_time_of_all_batches_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int, float]] = []
    rows = [DatasetRow(3, "a", {"answer": 1}), DatasetRow(5, "b", {"answer": 2})]

    def ask(self: Any, request: Any, take: Any, **how: Any) -> dict[str, Any]:
        for number, seconds in enumerate((1.5, 2.0)):
            answers = [
                {"row": number, "completion": f"{number}{n}", "truncated": n == 1, "tokens": 10 * number + n}
                for n in range(2)
            ]
            take({"seconds": seconds, "answers": answers})
        return {"load_s": 0.5, "device": "cpu", "temperature": 0.9, "max_tokens": 7}

    monkeypatch.setattr(Generator, "ask", ask)
    generator = Generator(
        load_config(DEMO_CONFIG), lambda now: told.append((now.done, now.tokens, now.seconds))
    )
    found = generator.answers(rows, 2)
    assert (found.seconds, found.tokens, found.count) == (3.5, (0, 1, 10, 11), 2)
    assert told == [(2, 1, 1.5), (4, 22, 3.5)]
    assert [(s.prompt, s.completion, s.group, s.truncated) for s in found.samples] == [
        ("a", "00", "row 3", False), ("a", "01", "row 3", True),
        ("b", "10", "row 5", False), ("b", "11", "row 5", True),
    ]  # fmt: skip
