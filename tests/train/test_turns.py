"""Completions in which tools or a rollout function speak too: whose words and tokens they are."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.core.records import TOOLS
from grpo_tui.core.text import transcript, written_text
from grpo_tui.present.group_card import group_card
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import metric_rows
from grpo_tui.store.reader import RunReader, StoredGroup
from grpo_tui.train.capture import Capture
from grpo_tui.train.session import Session

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 5, "b": 7}}\n</tool_call>'
UNKNOWN = '<tool_call>\n{"name": "nosuch", "arguments": {}}\n</tool_call>'


_calls = itertools.count()


def add(a: int, b: int) -> int:
    """Add two numbers, or fail every second time.

    Args:
        a: first
        b: second

    Returns:
        The sum.
    """
    if next(_calls) % 2:
        raise TimeoutError("busy")
    return a + b


def right(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float("12" in str(completion[-1].get("content") or "")) for completion in completions]


def _run(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[StoredGroup], list[float]]:
    """Two steps of a tiny model whose words are written for it; its groups, and TRL's own mean lengths."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    import trl
    from datasets import Dataset
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={sign: i for i, sign in enumerate(bytes_)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        padding_side="left",
    )
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen2_5.jinja").read_text()
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=4096,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip

    def ids(text: str) -> list[int]:
        return list(tokenizer(text)["input_ids"])

    end = tokenizer.eos_token_id
    first = itertools.cycle([CALL, UNKNOWN, "No tool: 12", CALL])
    last = itertools.cycle(["The answer is 12.", "I think 7."])

    def scripted(prompts: Any, *args: Any, **kwargs: Any) -> Any:
        words = [next(last if "<tool_response>" in tokenizer.decode(p) else first) for p in prompts]
        return [[*ids(text), end] for text in words], None

    def rollout(prompts: Any, trainer: Any) -> dict[str, Any]:
        parts = [(ids("look"), 1), (ids("SEEN 12"), 0), ([*ids("12"), end], 1)]
        made = [token for part, _ in parts for token in part]
        mask = [own for part, own in parts for _ in part]
        asked = [
            tokenizer.apply_chat_template(p, tokenize=True, add_generation_prompt=True, return_dict=False)
            for p in prompts
        ]
        count = len(prompts)
        return {
            "prompt_ids": asked,
            "completion_ids": [list(made) for _ in range(count)],
            "logprobs": [[-1.0] * len(made) for _ in range(count)],
            "env_mask": [list(mask) for _ in range(count)],
        }

    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=[right],
        args=trl.GRPOConfig(
            output_dir=str(folder), per_device_train_batch_size=4, num_generations=4, max_steps=2,
            max_completion_length=400, logging_steps=1, report_to="none", bf16=False, use_cpu=True,
            save_strategy="no", disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "What is 5+7?"}]}] * 8),
        processing_class=tokenizer,
        **({"tools": [add]} if kind == "tools" else {"rollout_func": rollout}),
    )  # fmt: skip
    if kind == "tools":
        trainer._generate_single_turn = scripted
    folder.mkdir(exist_ok=True)
    session = Session(RunFolder(folder))
    session.join(trainer)
    session.runner.serve(trainer.train)
    session.close("finished")
    reader = RunReader(RunFolder(folder).database)
    lengths = [v["completions/mean_length"] for _, _, v in metric_rows(reader) if "reward" in v]
    groups = list(reader.iter_groups())
    reader.close()
    return groups, lengths


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tools", "rollout"])
def test_tokens_and_text_are_what_the_model_wrote_on_every_batch(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, lengths = _run(tmp_path / "run", kind, monkeypatch)
    assert len(groups) == len(lengths) == 2
    for group, length in zip(groups, lengths, strict=True):
        assert sum(c.tokens for c in group.completions) / len(group.completions) == pytest.approx(length)
    read = [row.text for row in group_card(groups[0], None).rows]
    texts = [completion.text for completion in groups[0].completions]
    if kind == "rollout":
        assert set(texts) == {"look\n12"}
        assert set(read) == {"look\n[tool] SEEN 12\n12"}
        return
    assert texts[0] == '[call] add({"a": 5, "b": 7})\nThe answer is 12.'
    assert read[0] == '[call] add({"a": 5, "b": 7})\n[tool add] 12\nThe answer is 12.'
    assert "nosuch" not in texts[1].split("\n", 1)[1], "what the tool answers is not the model's"
    assert read[1].splitlines()[1].startswith("[tool nosuch] ")
    assert texts[2] == read[2] == "No tool: 12"
    with closing(RunReader(RunFolder(tmp_path / "run").database)) as reader:
        rows = [values for _, _, values in metric_rows(reader) if f"{TOOLS}add/calls" in values]
    assert [(row[f"{TOOLS}add/calls"], row[f"{TOOLS}add/failed"]) for row in rows] == [(2.0, 1.0)] * 2
    assert all(0 < row[f"{TOOLS}add/seconds"] < 60 for row in rows)
    assert [row["tools/failure_frequency"] for row in rows] == [pytest.approx(2 / 3)] * 2


def test_a_message_says_whose_it_is() -> None:
    thought = {"role": "assistant", "thinking": "5 + 7", "content": "12"}
    odd = {"role": "assistant", "content": None, "tool_calls": ["?", {"name": "look", "arguments": "{}"}]}
    result = {"role": "tool", "name": "look", "content": [{"type": "text", "text": "sky"}]}
    assert written_text([thought, odd, result]) == "[thinking] 5 + 7\n12\n[call] ?\n[call] look({})"
    assert transcript([odd, result]) == "[call] ?\n[call] look({})\n[tool look] sky"
    assert written_text([{"content": "plain"}]) == transcript("plain") == "plain"


def test_the_seconds_of_a_tool_are_those_of_the_calls_that_return(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = Capture(None, print, None, None, 1)  # type: ignore[arg-type]
    tool = capture._timed("divide", lambda by: 1 / by)
    monkeypatch.setattr("time.perf_counter", itertools.count(0, 2).__next__)
    with pytest.raises(ZeroDivisionError):
        tool(by=0)
    tool(by=1)
    assert capture.figures() == {
        TOOLS + "divide/calls": 2,
        TOOLS + "divide/failed": 1,
        TOOLS + "divide/seconds": 2,
    }
