# SPDX-License-Identifier: BSD-3-Clause
"""Every block of Python of doc/guide/zero-torch.md, as it stands there, and what its table says."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import ranks
import torch
import torch.distributed as dist
import zero_models as zm
from torch import nn

GUIDE = Path(__file__).resolve().parents[2] / "doc" / "guide" / "zero-torch.md"


def blocks() -> list[tuple[str, str, int]]:
    """Kind, text and line of each."""
    text = GUIDE.read_text()
    found = re.finditer(r"^```python *(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [(block[1], block[2], text[: block.start(2)].count("\n")) for block in found]


def run_blocks(groups: ranks.Groups, kind: str) -> int:
    from torch.distributed.device_mesh import init_device_mesh

    names = [tempfile.mkdtemp() if groups.rank == 0 else ""]
    dist.broadcast_object_list(names, 0, group=groups.gloo)
    weights = os.path.join(names[0], "model.safetensors")
    ran = 0
    for _, text, line in [block for block in blocks() if block[0] == kind]:
        if "load_safetensors" in text and importlib.util.find_spec("safetensors") is None:
            print(f"skipped: line {line}: safetensors cannot be imported")
            continue
        if "load_safetensors" in text and groups.rank == 0:
            from safetensors.torch import save_file

            save_file(zm.gpt().state_dict(), weights)
        dist.barrier(groups.gloo)
        given: dict[str, Any] = {
            "torch": torch, "Model": zm.gpt, "data": zm.text(4, groups.rank), "loss_of": zm.common.loss_of,
            "folder": os.path.join(names[0], f"line{line}"), "weights": weights, "config": zm.config(3),
            "mesh": init_device_mesh("cpu", (groups.size,)) if kind == "fsdp2" else None, "__name__": "guide",
        }  # fmt: skip
        exec(compile("\n" * line + text, str(GUIDE), "exec"), given)  # noqa: S102 - the guide's own
        ran += 1
    dist.barrier(groups.gloo)
    if groups.rank == 0:
        shutil.rmtree(names[0])
    return ran


def blocks_of_weft_zero(groups: ranks.Groups) -> None:
    assert run_blocks(groups, "") > 8


def blocks_of_fsdp2(groups: ranks.Groups) -> None:
    assert run_blocks(groups, "fsdp2") == 2


def blocks_of_deepspeed(groups: ranks.Groups) -> None:
    os.environ["LOCAL_RANK"] = str(groups.rank)
    try:
        import deepspeed
    except ImportError:
        raise ranks.Skipped("deepspeed cannot be imported") from None
    deepspeed.init_distributed()
    config = zm.config

    def theirs(stage: int) -> dict[str, Any]:
        # AdamW of torch: DeepSpeed's own is compiled when it is first used.
        return {**config(2), "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}}

    zm.config = theirs  # type: ignore[assignment]
    try:
        assert run_blocks(groups, "deepspeed") == 1
    finally:
        zm.config = config


def what_is_different(groups: ranks.Groups) -> None:
    from weft import zero

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    torch.manual_seed(1)
    model = Net()
    before = model.unused.weight.detach().clone()
    engine = zero.initialize(model, "adamw", zm.config(3), lr=0.1, weight_decay=0.5)
    engine.backward(engine(torch.ones(2, 4)).pow(2).mean())
    assert all(p.grad is None for p in model.parameters()) and model.used.weight.shape == (4, 4)
    gradient = zero.safe_get_full_grad(model.used.weight)
    assert gradient is not None and gradient.any()
    engine.step()
    torch.testing.assert_close(engine.full_state_dict(every_rank=True)["unused.weight"], before * (1 - 0.1 * 0.5))
    engine.destroy()


CASES = [blocks_of_weft_zero, blocks_of_fsdp2, blocks_of_deepspeed, what_is_different]

if __name__ == "__main__":
    ranks.main(CASES)
