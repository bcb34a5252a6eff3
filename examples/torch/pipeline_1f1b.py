# SPDX-License-Identifier: BSD-3-Clause
"""Pipeline parallel: the model is cut into stages, micro-batches flow through them under three schedules.

    torchrun --nproc-per-node 2 examples/torch/pipeline_1f1b.py
    torchrun --nproc-per-node 2 examples/torch/pipeline_1f1b.py --schedule gpipe
    torchrun --nproc-per-node 2 examples/torch/pipeline_1f1b.py --schedule interleaved
"""

import common
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

MICROBATCHES = 4


def stages(per_rank: int, layers: int) -> list[PipelineStage]:
    """Cut the model into per_rank stages for every rank, dealt round robin; each rank builds only its own."""
    rank, world = dist.get_rank(), dist.get_world_size()
    total, model = per_rank * world, common.gpt(layers)
    cuts = [round(i * len(model) / total) for i in range(total + 1)]
    return [PipelineStage(model[cuts[i] : cuts[i + 1]], i, total, torch.device("cpu"))
            for i in range(rank, total, world)]


def main():
    args = common.start(__doc__, schedule="1f1b")
    world = dist.get_world_size()
    if args.schedule == "interleaved":
        mine = stages(2, layers=2 * world)
        schedule = ScheduleInterleaved1F1B(mine, MICROBATCHES, loss_fn=common.loss_of)
    else:
        mine = stages(1, layers=2 * world)
        kind = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[args.schedule]
        schedule = kind(mine[0], MICROBATCHES, loss_fn=common.loss_of)
    first = any(stage.is_first for stage in mine)
    last = any(stage.is_last for stage in mine)
    optimizer = torch.optim.AdamW([p for stage in mine for p in stage.submod.parameters()], lr=3e-3)

    losses = []
    for tokens, target in common.batches(args.steps, batch=2 * MICROBATCHES, seed=0):
        optimizer.zero_grad()
        parts = []
        schedule.step(*([tokens] if first else []), **({"target": target, "losses": parts} if last else {}))
        optimizer.step()
        mean = torch.stack(parts).mean().detach() if last else torch.zeros(())
        dist.broadcast(mean, src=world - 1)  # the last stage always lives on the last rank
        losses.append(mean.item())
    common.finish(f"pipeline_{args.schedule}", losses)


if __name__ == "__main__":
    main()
