# SPDX-License-Identifier: BSD-3-Clause
"""Fully sharded: each rank keeps a part of every parameter; a mesh of two dimensions shards and replicates (HSDP).

    torchrun --nproc-per-node 2 examples/torch/fsdp2.py
    torchrun --nproc-per-node 4 examples/torch/fsdp2.py --replicas 2
"""

import common
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def main():
    args = common.start(__doc__, replicas=1, bf16=0)
    shards = dist.get_world_size() // args.replicas
    mesh = init_device_mesh("cpu", (args.replicas, shards), mesh_dim_names=("replicate", "shard"))
    if args.replicas == 1:
        mesh = mesh["shard"]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if args.bf16 else None
    how = {"mesh": mesh, **({"mp_policy": policy} if policy else {})}

    model = common.gpt()
    for layer in model:
        fully_shard(layer, **how)
    fully_shard(model, **how)

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for tokens, target in common.batches(args.steps, batch=4, seed=dist.get_rank()):
        loss = common.loss_of(model(tokens).float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(common.mean_over(None, loss))
    common.finish("fsdp2", losses)


if __name__ == "__main__":
    main()
