"""Bytes of optimizer state for each trained parameter, by the name in `optim`.

Sources: `Trainer.get_optimizer_cls_and_kwargs` (transformers 5.24) for what a name stands for; `torch.optim`
(AdamW's two states and RMSprop's one have the parameter's dtype); bitsandbytes (8-bit states of blocks of 256
with a float32 each; 32-bit states are float32 whatever the parameter is; embeddings keep 32 bits);
torchao (8-bit blocks of 256, 4-bit blocks of 128). Knows names, no models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BLOCK_8BIT = 1 + 4 / 256
"""One quantized state: a byte, and its share of a block's float32 scale."""
BLOCK_4BIT = 0.5 + 4 / 128


@dataclass(frozen=True, slots=True)
class OptimizerStates:
    """What an optimizer keeps of one parameter.

    Attributes:
        states: how many values.
        width: bytes of each; None: as wide as the parameter.
        paged: whether they may move to the host's memory when the GPU's is short.
        known: False for an optimizer whose states were not looked up; AdamW's are assumed.
        full_embeddings: whether embeddings keep float32 states beside quantized ones.
        per_matrix: whether it keeps rows and columns of a matrix instead (Adafactor).
    """

    states: int
    width: float | None = None
    paged: bool = False
    known: bool = True
    full_embeddings: bool = False
    per_matrix: bool = False

    def bytes_per_parameter(self, parameter_width: int) -> float:
        """Bytes of state of a parameter that takes so many bytes itself."""
        return self.states * (parameter_width if self.width is None else self.width)


_ADAMW = OptimizerStates(2)
_TABLE: Mapping[str, OptimizerStates] = {
    **dict.fromkeys(
        (
            "adamw_torch",
            "adamw_torch_fused",
            "adamw_torch_xla",
            "adamw_torch_npu_fused",
            "schedule_free_adamw",
            "schedule_free_radam",
            "stable_adamw",
        ),
        _ADAMW,
    ),
    "adamw_anyprecision": OptimizerStates(1, 6),
    "adamw_torch_8bit": OptimizerStates(2, BLOCK_8BIT),
    "adamw_torch_4bit": OptimizerStates(2, BLOCK_4BIT),
    **dict.fromkeys(("adamw_bnb_8bit", "adamw_8bit"), OptimizerStates(2, BLOCK_8BIT, full_embeddings=True)),
    "paged_adamw_32bit": OptimizerStates(2, 4, paged=True),
    "paged_adamw_8bit": OptimizerStates(2, BLOCK_8BIT, paged=True, full_embeddings=True),
    "ademamix": OptimizerStates(3, 4),
    "ademamix_8bit": OptimizerStates(3, BLOCK_8BIT, full_embeddings=True),
    "paged_ademamix_32bit": OptimizerStates(3, 4, paged=True),
    "paged_ademamix_8bit": OptimizerStates(3, BLOCK_8BIT, paged=True, full_embeddings=True),
    "lion_32bit": OptimizerStates(1, 4),
    "lion_8bit": OptimizerStates(1, BLOCK_8BIT, full_embeddings=True),
    "paged_lion_32bit": OptimizerStates(1, 4, paged=True),
    "paged_lion_8bit": OptimizerStates(1, BLOCK_8BIT, paged=True, full_embeddings=True),
    **dict.fromkeys(("rmsprop", "adagrad", "schedule_free_sgd"), OptimizerStates(1)),
    **dict.fromkeys(("rmsprop_bnb", "rmsprop_bnb_32bit"), OptimizerStates(1, 4)),
    "rmsprop_bnb_8bit": OptimizerStates(1, BLOCK_8BIT, full_embeddings=True),
    "sgd": OptimizerStates(0),
    "lomo": OptimizerStates(0),
    "adalomo": OptimizerStates(0, per_matrix=True),
    "adafactor": OptimizerStates(0, per_matrix=True),
    "grokadamw": OptimizerStates(3),
}


def optimizer_states(name: str) -> OptimizerStates:
    """What an optimizer of transformers keeps; an unknown one is taken for AdamW and marked."""
    return _TABLE.get(name, OptimizerStates(2, known=False))
