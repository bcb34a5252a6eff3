# SPDX-License-Identifier: BSD-3-Clause
"""The list of cases, and the model that those which train share."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Case:
    """fn(rank, world) returns what is compared; gloo says whether Gloo can do it at all; missing says what weft lacks for it."""

    name: str
    fn: Callable
    world: int
    exact: bool
    gloo: bool
    deadline: float
    slow: bool
    missing: str = ""


CASES: list[Case] = []


def case(world: int, exact: bool = True, gloo: bool = True, deadline: float = 120, slow: bool = False, missing: str = ""):
    """Add a function as a case; the same function may be added for several numbers of ranks."""

    def add(fn):
        CASES.append(Case(f"{fn.__name__}_{world}", fn, world, exact, gloo, deadline, slow, missing))
        return fn

    return add


def model(seed: int = 7) -> nn.Sequential:
    """A small network whose sizes divide by no number of ranks evenly."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(10, 33), nn.Tanh(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 5))


def batch(rank: int, step: int, rows: int = 6):
    chance = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(rows, 10, generator=chance), torch.randn(rows, 5, generator=chance)


def train(net, optimizer, rank: int, steps: int = 4) -> list[float]:
    """Train on this rank's batches; return the losses."""
    losses = []
    for step in range(steps):
        x, y = batch(rank, step)
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def weights(net) -> list[torch.Tensor]:
    """Copies of the whole parameters, gathered where they are sharded."""
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().clone() for p in net.parameters()]
