"""Totals and advantages of scored completions, computed in float32 with torch as in GRPOTrainer.

The formulas are inline in `GRPOTrainer._generate_and_score_completions` of TRL 1.16 and cannot be called
there. A test compares them with what the trainer stored. Unlike TRL's, groups may differ in size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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
        scale_rewards: `group`, `batch` or `none`.
        aggregation: `sum_then_normalize` or `normalize_then_sum`.

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
