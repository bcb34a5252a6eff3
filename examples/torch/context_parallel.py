# SPDX-License-Identifier: BSD-3-Clause
"""Context parallel, the Ulysses way: each rank holds a slice of the sequence; for attention an all-to-all trades it for
a slice of the heads, and a second one trades back. Checked against the same model on one rank.

    torchrun --nproc-per-node 2 examples/torch/context_parallel.py
"""

import common
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_to_all_single_autograd


def trade(x: torch.Tensor, split: int, join: int) -> torch.Tensor:
    """Split x[batch, heads, length, head] along dimension `split` over the ranks and join what they send along `join`."""
    world = dist.get_world_size()
    parts = torch.cat([part.unsqueeze(0) for part in x.chunk(world, split)]).contiguous()
    parts = all_to_all_single_autograd(parts, None, None, group=dist.group.WORLD)
    return torch.cat(list(parts), dim=join)


class Ulysses(common.Attention):
    def attend(self, q, k, v):
        q, k, v = (trade(x, split=1, join=2) for x in (q, k, v))
        return trade(super().attend(q, k, v), split=2, join=1)


def main():
    args = common.start(__doc__, length=256)
    rank, world = dist.get_rank(), dist.get_world_size()
    whole = common.gpt()
    model = common.gpt()
    for block in model[1:-2]:
        block.attention = Ulysses(64)
    model.load_state_dict(whole.state_dict())

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for tokens, target in common.batches(args.steps, batch=2, seed=0, length=args.length):
        mine = slice(rank * args.length // world, (rank + 1) * args.length // world)
        logits = model(tokens[:, mine])
        if not losses:
            torch.testing.assert_close(logits, whole(tokens)[:, mine])
        loss = common.loss_of(logits, target[:, mine])
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        optimizer.step()
        losses.append(common.mean_over(None, loss))
    common.finish("context_parallel", losses)


if __name__ == "__main__":
    main()
