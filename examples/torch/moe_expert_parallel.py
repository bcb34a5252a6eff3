# SPDX-License-Identifier: BSD-3-Clause
"""Mixture of experts: each rank holds one expert; tokens travel to theirs and back with all-to-all.

    torchrun --nproc-per-node 2 examples/torch/moe_expert_parallel.py
"""

import common
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd


def travel(rows: torch.Tensor, receive: list[int], send: list[int]) -> torch.Tensor:
    """Send rows to their ranks, split by `send`; the gradient travels the other way."""
    return all_to_all_single_autograd(rows, receive, send, group=dist.group.WORLD)


class Experts(nn.Module):
    """Top-1 routing: the router picks a rank for each token, and its weight scales what comes back."""

    def __init__(self, dim: int):
        super().__init__()
        self.router = nn.Linear(dim, dist.get_world_size(), bias=False)
        self.expert = common.FeedForward(dim)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weight, choice = self.router(tokens).softmax(-1).max(-1)
        order = choice.argsort(stable=True)
        send = choice.bincount(minlength=dist.get_world_size())
        receive = torch.empty_like(send)
        dist.all_to_all_single(receive, send)
        send, receive = send.tolist(), receive.tolist()

        there = travel(tokens[order], receive, send)
        back = travel(self.expert(there), send, receive)
        combined = torch.zeros_like(tokens).index_copy(0, order, back)
        return (combined * weight[:, None]).view_as(x)


def main():
    args = common.start(__doc__)
    model = common.gpt()
    torch.manual_seed(dist.get_rank() + 1)  # experts differ, all else is equal
    local = []
    for block in model[1:-2]:
        block.feed = Experts(64)
        local += list(block.feed.expert.parameters())
        dist.broadcast(block.feed.router.weight.data, src=0)
    own = {id(p) for p in local}
    shared = [p for p in model.parameters() if id(p) not in own]

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for tokens, target in common.batches(args.steps, batch=4, seed=dist.get_rank()):
        loss = common.loss_of(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        for p in shared:
            dist.all_reduce(p.grad)
        for p in model.parameters():  # an expert's gradient is already a sum over all ranks' tokens
            if p.grad is not None:
                p.grad /= dist.get_world_size()
        optimizer.step()
        losses.append(common.mean_over(None, loss))
    common.finish("moe_expert_parallel", losses)


if __name__ == "__main__":
    main()
