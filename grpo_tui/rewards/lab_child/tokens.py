"""Token ids for completions that were written and not generated, made with the policy's own tokenizer.

Only what is on this machine is used: nothing is fetched for a look at rewards. It knows no reward.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpo_tui.core.text import completion_text


class NoTokenIds:
    """Stands for `completion_ids` where no tokenizer is at hand: to look into it raises and says why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self) -> RuntimeError:
        return RuntimeError(f"completion_ids needs the tokenizer of the model: {self._reason}")

    def __iter__(self) -> Iterator[Any]:
        raise self._refuse()

    def __getitem__(self, key: Any) -> Any:
        raise self._refuse()

    def __len__(self) -> int:
        raise self._refuse()


class Tokens:
    """Turns completions into token ids, each text once.

    Attributes:
        tokenizer: the policy's, None when there is none.
        reason: why there is none.
    """

    def __init__(self, model: str) -> None:
        self.tokenizer: Any = None
        self.reason = "no model is named; score with a config that has model_name_or_path"
        self._known: dict[tuple[str, bool], list[int]] = {}
        if not model:
            return
        from transformers import AutoTokenizer

        try:
            self.tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            self.reason = f"{model} has none on this machine ({type(error).__name__}: {first[:200]})"

    def ids(self, completions: list[Any], truncated: list[bool]) -> list[list[int]] | NoTokenIds:
        """Return ids as the model would have generated them: with the end token unless cut off."""
        if self.tokenizer is None:
            return NoTokenIds(self.reason)
        keys = [(completion_text(c), t) for c, t in zip(completions, truncated, strict=True)]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            encoded = self.tokenizer([text for text, _ in new], add_special_tokens=False)["input_ids"]
            end = self.tokenizer.eos_token_id
            for key, ids in zip(new, encoded, strict=True):
                self._known[key] = [*ids, *([] if key[1] or end is None else [end])]
        return [list(self._known[key]) for key in keys]

    def prompt_tail(self, prompt: Any) -> str:
        """Return the end of a prompt as the chat template writes it; empty for texts or without one."""
        if self.tokenizer is None or isinstance(prompt, str) or not self.tokenizer.chat_template:
            return ""
        try:
            text = self.tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        except Exception:
            return ""  # a template that refuses these messages is told by the check of the config
        return str(text)[-60:]
