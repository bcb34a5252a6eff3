# SPDX-License-Identifier: BSD-3-Clause
"""Tensor and sequence parallel with DTensor: heads and hidden units are split over the ranks, and between them the
activations are split along the sequence, so that norms and residuals are computed once.

    torchrun --nproc-per-node 2 examples/torch/tensor_parallel.py
"""

import common
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def plan(model) -> dict:
    """Where each module of common.gpt is split; keys are the names in the model."""
    gather = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    last = len(model) - 1
    split = {"0": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
             str(last - 1): SequenceParallel(),
             str(last): ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
    for i in range(1, last - 1):
        split |= {f"{i}.norm1": SequenceParallel(), f"{i}.norm2": SequenceParallel(),
                  f"{i}.attention": PrepareModuleInput(**gather), f"{i}.feed": PrepareModuleInput(**gather),
                  f"{i}.attention.q": ColwiseParallel(), f"{i}.attention.k": ColwiseParallel(),
                  f"{i}.attention.v": ColwiseParallel(), f"{i}.feed.up": ColwiseParallel(),
                  f"{i}.attention.out": RowwiseParallel(output_layouts=Shard(1)),
                  f"{i}.feed.down": RowwiseParallel(output_layouts=Shard(1))}
    return split


def main():
    args = common.start(__doc__)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model = common.gpt()
    model = parallelize_module(model, mesh, plan(model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for tokens, target in common.batches(args.steps, batch=4, seed=0):  # every rank sees the same batch
        loss = common.loss_of(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    common.finish("tensor_parallel", losses)


if __name__ == "__main__":
    main()
