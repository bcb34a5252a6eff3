# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of weft.zero share: models, engines of every stage, the same training without weft, and checks."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

if TYPE_CHECKING:
    import ranks

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "torch"))
import common  # noqa: E402

HYPERS = {"lr": 3e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
#: Where gradients that are 0 but for rounding (of an attention's bias of keys, say) are not to be scaled up.
CALM = {**HYPERS, "eps": 1e-5}


def fails(kind: type[BaseException], words: str, call: Callable[[], Any]) -> None:
    """Demand that it raises this, with these words."""
    try:
        call()
    except kind as problem:
        assert words in str(problem), f"{problem} does not say {words!r}"
        return
    raise AssertionError(f"no {kind.__name__}: {words}")


@contextmanager
def shared_folder(groups: ranks.Groups) -> Iterator[Path]:
    """Of all ranks, until the last of them leaves."""
    name = [tempfile.mkdtemp() if groups.rank == 0 else ""]
    dist.broadcast_object_list(name, 0, group=groups.gloo)
    try:
        yield Path(name[0])
        dist.barrier(groups.gloo)
    finally:
        if groups.rank == 0:
            shutil.rmtree(name[0], ignore_errors=True)


def config(stage: int, **more: Any) -> dict[str, Any]:
    """Nothing of stage 3 stays gathered, nothing is clipped, every step is one micro-batch."""
    limits = ("param_persistence_threshold", "max_live_parameters", "max_reuse_distance")
    zero = {"stage": stage, **{f"stage3_{limit}": 0 for limit in limits}}
    return {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": zero, **more}


def engine_of(model: nn.Module, stage: int, **more: Any) -> Any:
    from weft import zero

    own = {name: more.pop(name, None) for name in ("units", "options")}
    hypers = more.pop("hypers", HYPERS)
    return zero.initialize(model, "adamw", config(stage, **more), **own, **hypers)


def gpt(layers: int = 2, dim: int = 32) -> nn.Module:
    torch.manual_seed(1)
    return common.gpt(layers, dim)


def odd() -> nn.Module:
    """Sizes of 15, 17 and 7, a parameter without elements and a scalar."""
    torch.manual_seed(2)

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(15, 17), nn.Linear(17, 7), nn.Linear(7, 15)])
            self.empty = nn.Parameter(torch.zeros(0, 3))
            self.scale = nn.Parameter(torch.tensor(1.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return x * self.scale + self.empty.sum()

    return Odd()


def text(steps: int, rank: int, batch: int = 2, length: int = 16) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(common.batches(steps, batch, seed=100 + rank, length=length))


def noise(steps: int, rank: int, batch: int = 3, width: int = 15) -> list[tuple[torch.Tensor, torch.Tensor]]:
    chance = torch.Generator().manual_seed(200 + rank)
    return [(torch.randn(batch, width, generator=chance), torch.randn(batch, width, generator=chance)) for _ in range(steps)]


def squares(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output.float() - target).pow(2).mean()


def whole(engine: Any) -> dict[str, torch.Tensor]:
    """Master weights and moments."""
    from weft import zero

    values = dict(engine.full_state_dict(torch.float32, every_rank=True))
    for name, parameter in engine.module.named_parameters():
        if parameter.requires_grad:
            for moment in ("exp_avg", "exp_avg_sq"):
                values[f"{name} {moment}"] = zero.safe_get_full_optimizer_state(parameter, moment)
    return values


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), f"{name}: {(a[name] - b[name]).abs().max()}"


def near(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], rtol: float = 1e-4, atol: float = 1e-5) -> None:
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=rtol, atol=atol, msg=lambda m, name=name: f"{name}: {m}")


def beside_plain(
    make: Callable[[], nn.Module],
    loss_of: Callable[[nn.Module, int], torch.Tensor],
    stages: Iterable[int] = (1, 3),
    steps: int = 3,
    units: Any = None,
    prepare: Callable[[nn.Module], None] | None = None,
    after: Callable[[Any], None] | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Train with and without weft on the same data on all ranks, and demand the same weights.

    A parameter that is not used has gradients of 0, not none, with weft: those of the plain model are set so.
    """
    plain = make()
    optimizer = torch.optim.AdamW([p for p in plain.parameters() if p.requires_grad], **CALM)
    losses = []
    for step in range(steps):
        loss = loss_of(plain, step)
        optimizer.zero_grad()
        loss.backward()
        for p in plain.parameters():
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        optimizer.step()
        losses.append(loss.item())
    expected = {name: value.detach().clone() for name, value in plain.state_dict().items()}
    for stage in stages:
        model = make()
        engine = engine_of(model, stage, units=units, hypers=CALM)
        if prepare:
            prepare(model)
        got = []
        for step in range(steps):
            loss = loss_of(engine.module, step)
            engine.backward(loss)
            engine.step()
            got.append(loss.item())
        torch.testing.assert_close(got, losses, rtol=1e-4, atol=1e-6, msg=lambda m, stage=stage: f"stage {stage}, losses: {m}")
        state = engine.full_state_dict(every_rank=True)
        for name in expected:
            torch.testing.assert_close(state[name], expected[name], rtol=tolerance, atol=tolerance,
                                       msg=lambda m, name=name, stage=stage: f"stage {stage}, {name}: {m}")
        assert all(p.grad is None for p in model.parameters())
        if after:
            after(engine)
        engine.destroy()
