# SPDX-License-Identifier: BSD-3-Clause
"""Three dimensions at once on eight ranks: pipeline x data (FSDP2) x tensor parallel.

    torchrun --nproc-per-node 8 examples/torch/three_d.py
"""

import common
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

MICROBATCHES = 4


def split_block(block, mesh):
    """Heads and hidden units over the tensor-parallel ranks; activations stay whole between modules."""
    column, row = ColwiseParallel(), RowwiseParallel(output_layouts=Replicate())
    parallelize_module(block, mesh, {"attention.q": column, "attention.k": column, "attention.v": column,
                                     "attention.out": row, "feed.up": column, "feed.down": row})


def main():
    args = common.start(__doc__, pp=2, dp=2)
    tp = dist.get_world_size() // (args.pp * args.dp)
    axes = {"pp": args.pp, "dp": args.dp, "tp": tp}
    if args.backend == "weft":
        import weft

        mesh = weft.mesh(**axes, verbose=True)  # the tensor-parallel ranks nearest to each other
    else:
        mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    stage_index = mesh["pp"].get_local_rank()

    model = common.gpt(layers=2 * args.pp)
    cuts = [round(i * len(model) / args.pp) for i in range(args.pp + 1)]
    part = model[cuts[stage_index] : cuts[stage_index + 1]]
    for module in part:
        if isinstance(module, common.Block):
            split_block(module, mesh["tp"])
        fully_shard(module, mesh=mesh["dp"])
    fully_shard(part, mesh=mesh["dp"])

    stage = PipelineStage(part, stage_index, args.pp, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=common.loss_of)
    optimizer = torch.optim.AdamW(part.parameters(), lr=3e-3, foreach=False)

    losses = []
    for tokens, target in common.batches(args.steps, 2 * MICROBATCHES, seed=mesh["dp"].get_local_rank()):
        optimizer.zero_grad()
        parts = []
        if stage.is_first:
            schedule.step(tokens)
        else:
            schedule.step(target=target, losses=parts)
        optimizer.step()
        mean = torch.stack(parts).mean().detach() if stage.is_last else torch.zeros(())
        dist.all_reduce(mean)  # zero but on the dp * tp ranks of the last stage
        losses.append(mean.item() / (args.dp * tp))
    common.finish("three_d", losses)


if __name__ == "__main__":
    main()
