# SPDX-License-Identifier: BSD-3-Clause
"""Data parallel: every rank holds the model, DDP averages the gradients while the backward pass runs.

    torchrun --nproc-per-node 2 examples/torch/ddp.py
"""

import common
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    args = common.start(__doc__)
    model = DistributedDataParallel(common.gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for tokens, target in common.batches(args.steps, batch=4, seed=dist.get_rank()):
        loss = common.loss_of(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(common.mean_over(None, loss))
    common.finish("ddp", losses)


if __name__ == "__main__":
    main()
