"""Make the demonstration's model: `python -m grpo_tui.demo.make_model OUT_DIR [--seed N]`.

A Llama of about 0.8 million parameters is deliberately taught to add badly. It usually forgets the carry
(7 + 15 = 12), is sometimes off by one, and answers in several formats of which one is wanted, so that GRPO
has something to improve. The same seed on the same machine gives the same weights.
"""

from __future__ import annotations

import argparse
import random
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_tui.demo.task import LARGEST, question

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

PAD, UNKNOWN, END = "<pad>", "<unk>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
CHARACTERS = "\n " + string.digits + string.ascii_letters + string.punctuation

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

CARRY_KEPT = 0.3

EASY_KEPT = 0.7

FORMATS = (
    (0.15, "<think>{a}+{b}={s}</think><answer>{s}</answer>"),
    (0.07, "<think>{a} plus {b} is {s}</think><answer>{s}</answer>"),
    (0.08, "<think>{a}+{b}={s}</think>{s}"),
    (0.18, "<answer>{s}</answer>"),
    (0.25, "{a}+{b}={s}"),
    (0.15, "{a} plus {b} makes {s}."),
    (0.12, "The sum of {a} and {b} is {s}."),
)
"""Frequency and format of taught completions; the first two are those that the rewards ask for."""

ONLY_ON_THE_PROMPT = -100
"""The label that the loss in transformers ignores."""


def taught_sum(a: int, b: int, dice: random.Random) -> int:
    """Return the taught value of `a + b`: right, without its carry, or off by one."""
    right = a + b
    carries = a % 10 + b % 10 >= 10
    if dice.random() < (CARRY_KEPT if carries else EASY_KEPT):
        return right
    if carries and dice.random() < 0.8:
        return right - 10
    return right + dice.choice((-1, 1))


def taught_completion(a: int, b: int, dice: random.Random) -> str:
    """Return one completion for `What is a + b?`, in a format drawn from `FORMATS`."""
    weights, forms = zip(*FORMATS, strict=True)
    form = dice.choices(forms, weights)[0]
    return form.format(a=a, b=b, s=taught_sum(a, b, dice))


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of single characters and the four tags, with a chat template."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate((PAD, UNKNOWN, END, *ROLES, *TAGS, *CHARACTERS))}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    characters.decoder = decoders.Fuse()
    characters.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (PAD, END, *ROLES)]
    )
    characters.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=characters,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        padding_side="left",
        model_max_length=256,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_untrained(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return the model with random weights from torch's global generator."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            tie_word_embeddings=True,
        )
    )


def _batch(tokenizer: PreTrainedTokenizerFast, size: int, dice: random.Random) -> dict[str, torch.Tensor]:
    """Return token ids, mask and labels of shape (size, longest); prompts and padding have no label."""
    import torch

    prompts: list[list[int]] = []
    wholes: list[list[int]] = []
    for _ in range(size):
        a, b = dice.randint(1, LARGEST), dice.randint(1, LARGEST)
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": question(a, b)}], add_generation_prompt=True, tokenize=False
        )
        prompts.append(tokenizer.encode(asked))
        wholes.append(prompts[-1] + tokenizer.encode(taught_completion(a, b, dice) + END))
    longest = max(map(len, wholes))
    ids = torch.full((size, longest), tokenizer.pad_token_id)
    labels = torch.full((size, longest), ONLY_ON_THE_PROMPT)
    for row, (prompt, whole) in enumerate(zip(prompts, wholes, strict=True)):
        ids[row, : len(whole)] = torch.tensor(whole)
        labels[row, len(prompt) : len(whole)] = ids[row, len(prompt) : len(whole)]
    return {"input_ids": ids, "attention_mask": (ids != tokenizer.pad_token_id).long(), "labels": labels}


def teach(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    *,
    steps: int,
    seed: int,
    batch_size: int = 32,
) -> None:
    """Train `model` in place on random sums, printing the loss (nats per token) every 200 steps."""
    import torch

    dice = random.Random(seed)
    peak = 2e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps, pct_start=0.1)
    started = time.monotonic()
    model.train()
    for step in range(1, steps + 1):
        loss = model(**_batch(tokenizer, batch_size, dice)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(
                f"step {step}/{steps}  loss {loss.item():.4f}  {time.monotonic() - started:.0f} s", flush=True
            )


def make(out_dir: Path, *, seed: int, steps: int) -> None:
    """Make tokenizer and model and save both in `out_dir`; bfloat16 weights halve the size."""
    import torch

    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    model = make_untrained(tokenizer)
    print(f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens")
    teach(model, tokenizer, steps=steps, seed=seed)
    model.to(torch.bfloat16).save_pretrained(out_dir)
    tokenizer.save_pretrained(out_dir)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and make the model."""
    parser = argparse.ArgumentParser(description="Make the demonstration's model.")
    parser.add_argument("out_dir", type=Path, help="folder to save the model and its tokenizer in")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the weights and the taught sums (default 0)"
    )
    parser.add_argument("--steps", type=int, default=1200, help="training steps (default 1200)")
    chosen = parser.parse_args(arguments)
    make(chosen.out_dir, seed=chosen.seed, steps=chosen.steps)


if __name__ == "__main__":
    main()
