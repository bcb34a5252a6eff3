# SPDX-License-Identifier: BSD-3-Clause
"""One side of weft-compare's row "ddp-1g": a training step of a small GPT under DistributedDataParallel, with and without communication.

Usage: compare_ddp.py BACKEND CODEC [STEPS] with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment. CODEC is for the
backend weft; "none" leaves gradients to DDP itself. Rank 0 prints a line "NAME VALUE" for each of: step and alone, the medians over
the steps of the slowest rank's seconds, alone being the same step under no_sync(); parameters; loss, of the last step.

Steps with and without communication take turns, so that both see the machine alike. A barrier is before each of them.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

VOCAB, DIM, LAYERS, LENGTH, BATCH = 256, 512, 3, 16, 1  # 9.7 M parameters; few tokens, for it is communication that is measured
WARM = 3


class Gpt(nn.Module):
    """Embeddings, causal blocks that normalise first, a projection to the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, DIM), nn.Embedding(LENGTH, DIM)
        block = nn.TransformerEncoderLayer(DIM, 8, 4 * DIM, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, LAYERS, nn.LayerNorm(DIM), enable_nested_tensor=False)
        self.out = nn.Linear(DIM, VOCAB, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [batch, LENGTH, VOCAB] of tokens [batch, LENGTH]."""
        x = self.tokens(x) + self.places(torch.arange(LENGTH))
        return self.out(self.blocks(x, mask=self.mask, is_causal=True))


def slowest(seconds: list[float]) -> float:
    """The median over steps of what the slowest rank took."""
    t = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return statistics.median(t.tolist())


def train(codec: str, steps: int) -> dict[str, float]:
    """Alternate steps with and without communication."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Gpt())
    if codec != "none":
        import weft

        weft.hooks.register(model, codec=codec)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    chance = torch.Generator().manual_seed(dist.get_rank())
    seconds: dict[str, list[float]] = {"step": [], "alone": []}
    loss = torch.zeros(())
    for turn in range(2 * (WARM + steps)):
        name = ("step", "alone")[turn % 2]
        rows = torch.randint(VOCAB, (BATCH, LENGTH + 1), generator=chance)
        dist.barrier()
        start = time.monotonic()
        with model.no_sync() if name == "alone" else contextlib.nullcontext():
            optimizer.zero_grad(set_to_none=False)  # no_sync leaves gradients that are of this rank only
            loss = cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
            loss.backward()
        took = time.monotonic() - start
        if name == "step":
            optimizer.step()
        if turn >= 2 * WARM:
            seconds[name].append(took)
    found = {name: slowest(values) for name, values in seconds.items()}
    return {**found, "parameters": sum(p.numel() for p in model.parameters()), "loss": loss.item()}


def main() -> None:
    """Measure and print."""
    backend, codec = sys.argv[1:3]
    torch.set_num_threads(1)
    if backend == "weft":
        import weft  # noqa: F401
    dist.init_process_group(backend)
    found = train(codec, int(sys.argv[3]) if len(sys.argv) > 3 else 12)
    if dist.get_rank() == 0:
        for name, value in found.items():
            print(f"{name} {value:.6f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
