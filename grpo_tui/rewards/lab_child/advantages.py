"""Rows and token ids for scoring, and totals and advantages of what was scored, as in GRPOTrainer.

Dataset rows are mapped by `data.load`. Completions that no model generated get the ids of the policy's own
tokenizer if it is on this machine: nothing is downloaded. The formulas of advantages, in float32 with torch,
are inline in `GRPOTrainer._generate_and_score_completions` of TRL 1.16 and cannot be called there. A test
compares them with what the trainer stored. Unlike TRL's, groups may differ in size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from grpo_tui.config.run_config import RunConfig, stamps_of
from grpo_tui.core.text import completion_text
from grpo_tui.data.load import load_prompts
from grpo_tui.data.mapping import as_messages

MOST_ROWS = 100_000
MOST_LOOKED_AT = 20_000
"""Rows of a dataset that are mapped here. Training maps all of them."""


class DatasetRows:
    """Cache of the last dataset."""

    def __init__(self) -> None:
        self._key = ""
        self._train: Any = None
        self._notes: tuple[str, ...] = ()
        self._chat = False

    def page(self, config: RunConfig, count: int, first: int) -> dict[str, Any]:
        """Return `{"rows": [{"prompt", "columns"}], "columns", "total", "notes"}`.

        Raises:
            DataError: the data cannot be used as the config says.
        """
        key = _data_key(config)
        if key != self._key or self._train is None:
            prompts = load_prompts(config, fetch=False, most=MOST_LOOKED_AT)
            self._key, self._train, self._notes = key, prompts.train, prompts.notes
        streamed = not hasattr(self._train, "select")
        if streamed:
            rows = list(self._train.skip(first).take(count))
        else:
            rows = list(self._train.select(range(first, min(first + count, len(self._train)))))
        self._chat = bool(rows) and not isinstance(rows[0]["prompt"], str)
        plain = [
            {"prompt": row["prompt"], "columns": {k: v for k, v in row.items() if k != "prompt"}}
            for row in rows
        ]
        names = list(rows[0]) if rows else list(self._train.column_names or ())
        total = None if streamed else len(self._train)
        return {"rows": plain, "columns": names, "total": total, "notes": list(self._notes)}

    def chat_for(self, config: RunConfig) -> bool:
        """Return whether the cached dataset belongs to this config and has messages as prompts."""
        return self._chat and _data_key(config) == self._key


def chat_maker(config: RunConfig, rows: DatasetRows) -> Callable[[Any], Any] | None:
    """Return a function that turns a text prompt into messages, None if the run's prompts are texts."""
    if config.section.wants_chat or rows.chat_for(config):
        return lambda prompt: as_messages(prompt, config.section)
    return None


def read_parquet(path: str) -> list[dict[str, Any]]:
    """Return the rows of a parquet file as mappings.

    Raises:
        ValueError: it cannot be read, or is too large.
    """
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}") from error
    if table.num_rows > MOST_ROWS:
        raise ValueError(f"{path} has {table.num_rows:,} rows; at most {MOST_ROWS:,} can be scored")
    return table.to_pylist()


def _data_key(config: RunConfig) -> str:
    """Return everything that the rows depend on, including the state of the files."""
    whole = config.to_json()
    parts = {name: whole[name] for name in ("script", "mixture", "cwd")}
    section = {k: v for k, v in whole["section"].items() if k != "rewards"}
    stamps = stamps_of(config, rewards=False)
    return json.dumps([parts, section, config.grpo.get("seed"), stamps], sort_keys=True, default=str)


class NoTokenIds:
    """`completion_ids` without a tokenizer. Reading it raises with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError(f"completion_ids needs the tokenizer of the model: {self._reason}")

    __iter__ = __getitem__ = __len__ = _refuse


class Tokens:
    """Token ids of completions, cached by text."""

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
        """Return ids as the model would have generated them, with the end token unless truncated."""
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
        """Return the end of a prompt as the chat template writes it, empty without a template."""
        if self.tokenizer is None or isinstance(prompt, str) or not self.tokenizer.chat_template:
            return ""
        try:
            text = self.tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        except Exception:
            return ""  # the check of the config reports it
        return str(text)[-60:]


EPSILON = 1e-4
"""Added by TRL to a standard deviation before dividing by it."""


def aggregate(
    scores: Sequence[Sequence[float | None]],
    groups: Sequence[Sequence[int]],
    weights: Sequence[float],
    scale_rewards: str,
    aggregation: str,
) -> dict[str, Any]:
    """Return totals, groups with mean, standard deviation and advantages, and the batch's metrics.

    Args:
        scores: per function, one score per completion. None abstains, which is NaN in TRL.
        groups: indices of the completions of each prompt. Every completion is in exactly one group.

    Raises:
        ValueError: a mode that TRL 1.16 does not have.
    """
    import torch

    if aggregation not in ("sum_then_normalize", "normalize_then_sum"):
        raise ValueError(f"multi_objective_aggregation is {aggregation}, which TRL 1.16 does not have")
    if scale_rewards not in ("group", "batch", "none"):
        raise ValueError(f"scale_rewards is {scale_rewards}, which TRL 1.16 does not have")
    columns = [[math.nan if v is None else v for v in function] for function in scores]
    rewards = torch.tensor(columns, dtype=torch.float32).T
    weight = torch.tensor(list(weights), dtype=torch.float32)
    totals = _totals(rewards, weight)
    order = torch.tensor([i for group in groups for i in group], dtype=torch.long)
    if aggregation == "sum_then_normalize":
        advantages, std = _sum_then_normalize(totals, groups, order, scale_rewards)
    else:
        advantages, std = _normalize_then_sum(rewards, weight, groups, order)
    advantages = torch.nan_to_num(advantages, nan=0.0)
    flat = torch.isclose(std, torch.zeros_like(std))
    in_order = totals[order]
    return {
        "totals": _listed(totals),
        "groups": _grouped(totals, advantages, groups),
        "reward": _number(torch.nanmean(in_order)),
        "reward_std": _number(nanstd(in_order)),
        "frac_reward_zero_std": _number(flat.float().mean()),
    }


def _totals(rewards: Any, weight: Any) -> Any:
    import torch

    totals = (rewards * weight.unsqueeze(0)).nansum(dim=1)
    totals[torch.isnan(rewards).all(dim=1)] = torch.nan
    return totals


def _sum_then_normalize(totals: Any, groups: Sequence[Sequence[int]], order: Any, scale: str) -> Any:
    import torch

    mean, std = torch.empty_like(totals), torch.zeros_like(totals)
    for _, rows in _by_size(groups):
        block = totals[rows]
        mean[rows] = torch.nanmean(block, dim=1, keepdim=True).expand_as(block)
        if block.shape[1] > 1:
            std[rows] = nanstd(block, dim=1).unsqueeze(1).expand_as(block)
    if scale == "batch":
        std = nanstd(totals[order]).expand_as(totals) if totals.numel() > 1 else torch.zeros_like(totals)
    advantages = totals - mean
    return (advantages if scale == "none" else advantages / (std + EPSILON)), std


def _normalize_then_sum(rewards: Any, weight: Any, groups: Sequence[Sequence[int]], order: Any) -> Any:
    import torch

    normal = torch.empty_like(rewards)
    for _, rows in _by_size(groups):
        block = rewards[rows]  # (groups, completions, functions)
        mean = torch.nanmean(block, dim=1, keepdim=True)
        std = nanstd(block, dim=1, keepdim=True) if block.shape[1] > 1 else torch.zeros_like(mean)
        normal[rows] = (block - mean) / (std + EPSILON)
    totals = (normal * weight.unsqueeze(0)).nansum(dim=1)
    totals[torch.isnan(rewards).all(dim=1)] = torch.nan
    spread = nanstd(totals[order]).expand_as(totals) if totals.numel() > 1 else torch.zeros_like(totals)
    return (totals - torch.nanmean(totals[order])) / (spread + EPSILON), spread


def nanstd(tensor: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the std of non-NaN values, divisor n - 1, NaN for fewer than two values (TRL's `nanstd`)."""
    import torch

    mean = torch.nanmean(tensor, dim=dim, keepdim=True)
    variance = torch.nanmean((tensor - mean) ** 2, dim=dim, keepdim=True)
    count = torch.sum(~torch.isnan(tensor), dim=dim, keepdim=True)
    correction = count / (count - 1)
    variance *= torch.where(count > 1, correction, torch.full_like(correction, float("nan")))
    std = torch.sqrt(variance)
    if keepdim:
        return std
    return std.squeeze() if dim is None else std.squeeze(dim)


def _by_size(groups: Sequence[Sequence[int]]) -> list[tuple[list[int], Any]]:
    """Return places of equally sized groups, and their indices as a tensor of shape (groups, size).

    Equally sized groups are computed together, as in TRL.
    """
    import torch

    sizes: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        sizes.setdefault(len(group), []).append(place)
    return [
        (same, torch.tensor([list(groups[p]) for p in same], dtype=torch.long)) for same in sizes.values()
    ]


def _grouped(totals: Any, advantages: Any, groups: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return mean, standard deviation and advantages of each group. A single scored total has std 0."""
    import torch

    found: list[dict[str, Any]] = [{} for _ in groups]
    every = advantages.tolist()
    for places, rows in _by_size(groups):
        own = totals[rows]
        scored = (~torch.isnan(own)).sum(dim=1).tolist()
        means, stds = torch.nanmean(own, dim=1).tolist(), nanstd(own, dim=1).tolist()
        for place, count, mean, std in zip(places, scored, means, stds, strict=True):
            found[place] = {
                "indices": list(groups[place]),
                "mean": None if math.isnan(mean) else mean,
                "std": 0.0 if count == 1 else None if math.isnan(std) else std,
                "advantages": [every[i] for i in groups[place]],
            }
    return found


def _listed(tensor: Any) -> list[float | None]:
    return [None if math.isnan(value) else value for value in tensor.tolist()]


def _number(tensor: Any) -> float | None:
    value = float(tensor)
    return None if math.isnan(value) else value
