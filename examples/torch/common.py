# SPDX-License-Identifier: BSD-3-Clause
"""What the examples share: a small GPT over bytes, a text that every machine has, start and finish.

Run any example with torchrun, on weft or on another backend:

    torchrun --nproc-per-node 2 examples/torch/ddp.py
    torchrun --nproc-per-node 2 examples/torch/ddp.py --backend gloo
"""

import argparse
import os
import pydoc

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

VOCAB = 128
LENGTH = 64


def start(description: str, **defaults) -> argparse.Namespace:
    """Parse --backend, --steps and what `defaults` names, seed, and join the process group that torchrun made."""
    parser = argparse.ArgumentParser(description=description)
    for name, value in {"backend": "weft", "steps": 30, **defaults}.items():
        parser.add_argument(f"--{name}", default=value, type=type(value))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(args.backend)
    return args


def finish(name: str, losses: list[float], fall: float = 0.75) -> None:
    """Print the losses (rank 0), demand that the last is below `fall` of the first, and leave the group."""
    if dist.get_rank() == 0:
        print(f"{name}: {dist.get_backend()}, {dist.get_world_size()} ranks, {len(losses)} steps, "
              f"loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
    assert losses[-1] < fall * losses[0], f"the loss did not fall: {losses}"
    dist.destroy_process_group()


def corpus() -> torch.Tensor:
    """A text of some ten thousand bytes: the GPL where Debian puts it, else the source of pydoc."""
    path = "/usr/share/common-licenses/GPL-3"
    with open(path if os.path.exists(path) else pydoc.__file__, "rb") as text:
        return torch.tensor([min(byte, VOCAB - 1) for byte in text.read()])


def batches(steps: int, batch: int, seed: int, length: int = LENGTH):
    """Yield `steps` pairs (input, target), each int64[batch, length], cut from the corpus at random places."""
    text, chance = corpus(), torch.Generator().manual_seed(seed)
    for _ in range(steps):
        places = torch.randint(len(text) - length - 1, (batch,), generator=chance)
        yield (torch.stack([text[p : p + length] for p in places]),
               torch.stack([text[p + 1 : p + length + 1] for p in places]))


def loss_of(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def mean_over(group, loss: torch.Tensor) -> float:
    """The loss averaged over the ranks of `group`."""
    total = loss.detach().clone()
    dist.all_reduce(total, group=group)
    return total.item() / dist.get_world_size(group)


class Attention(nn.Module):
    """Causal attention; the number of heads follows from the width that the (perhaps split) projections give."""

    def __init__(self, dim: int, head: int = 16):
        super().__init__()
        self.head = head
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim)
        self.norm2, self.feed = nn.LayerNorm(dim), FeedForward(dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


def gpt(layers: int = 2, dim: int = 64) -> nn.Sequential:
    """An embedding, `layers` blocks, a norm and a head, as a Sequential that pipelines can cut."""
    return nn.Sequential(nn.Embedding(VOCAB, dim), *(Block(dim) for _ in range(layers)), nn.LayerNorm(dim),
                         nn.Linear(dim, VOCAB, bias=False))
