"""A model whose parameters are sharded over two ranks is the same after it was looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import grpo_tui
from grpo_tui.demo import DEMO_MODEL
from tests import PATIENCE_S

pytestmark = pytest.mark.slow

EACH_RANK = """\
import sys
import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM
from grpo_tui.train.sampling import evaluating

folder, meeting, rank = sys.argv[1:]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=2)
model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
mesh = torch.distributed.init_device_mesh("cpu", (2,))
for layer in model.model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh).train()
ids = torch.arange(6).unsqueeze(0)
layers = model.model.layers


def whole():
    return sum(not isinstance(parameter, DTensor) for parameter in model.parameters())


with torch.no_grad():
    model(input_ids=ids)
assert whole() > 0, "this torch shards again by itself: the test shows nothing"

with evaluating(model), torch.no_grad():
    logits = model(input_ids=ids).logits
assert whole() == 0, f"{whole()} parameters are still gathered"
assert model.training
assert all(parameter.full_tensor().isfinite().all() for parameter in model.parameters())

for layer in layers:
    layer.gradient_checkpointing = True


def fail(*_):
    raise RuntimeError("out of memory")


hook = layers[1].register_forward_pre_hook(fail)
try:
    with evaluating(model), torch.no_grad():
        for layer in layers:
            layer.gradient_checkpointing = False  # as TRL does before it generates
        model(input_ids=ids)
except RuntimeError as error:
    assert str(error) == "out of memory", error
else:
    raise AssertionError("the forward did not fail")
hook.remove()
assert whole() == 0, f"{whole()} parameters are still gathered after a failure"
assert all(layer.gradient_checkpointing for layer in layers)
for layer in layers:
    layer.gradient_checkpointing = False

model(input_ids=ids, labels=ids).loss.backward()
assert all(parameter.grad is not None for parameter in model.parameters())
with evaluating(model), torch.no_grad():
    assert torch.equal(model(input_ids=ids).logits, logits)
print("the same on both")
torch.distributed.destroy_process_group()
"""


def test_parameters_are_sharded_again_after_a_look_and_after_one_that_failed(tmp_path: Path) -> None:
    script = tmp_path / "each_rank.py"
    script.write_text(EACH_RANK)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(grpo_tui.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    words = [sys.executable, script, DEMO_MODEL, tmp_path / "meeting"]
    both = [
        subprocess.Popen(
            [*map(str, words), str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in (0, 1)
    ]
    try:
        for process in both:
            said, trouble = process.communicate(timeout=PATIENCE_S)
            assert said == "the same on both\n", trouble
    finally:
        for process in both:
            process.kill()
