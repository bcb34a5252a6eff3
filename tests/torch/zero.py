# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: all stages give the same bits, and those of DDP with AdamW to rounding."""

from __future__ import annotations

import copy
import shutil
import tempfile
from typing import Any

import ranks
import torch
import torch.distributed as dist
import zero_models as zm
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STAGES = (0, 1, 2, 3)


Trained = tuple[Any, list[float], list[float]]  # the engine, losses, norms of gradients


def train(model: nn.Module, stage: int, data: list[Any], loss_of: Any, micro: int = 1, **more: Any) -> Trained:
    engine = zm.engine_of(model, stage, gradient_accumulation_steps=micro, **more)
    losses, norms = [], []
    for i, (batch, target) in enumerate(data):
        loss = loss_of(engine(batch), target)
        assert engine.is_gradient_accumulation_boundary() == ((i + 1) % micro == 0)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
        if (i + 1) % micro == 0:
            norms.append(engine.get_global_grad_norm())
    return engine, losses, norms


def stages_agree(make: Any, data: list[Any], loss_of: Any, **more: Any) -> dict[str, torch.Tensor]:
    """Train in every stage; all weights, moments, losses and norms have the same bits. Returns weights and moments."""
    first: Any = None
    for stage in STAGES:
        engine, losses, norms = train(make(), stage, data, loss_of, **more)
        values = zm.whole(engine)
        engine.destroy()
        if first is None:
            first = values, losses, norms
        zm.same_bits(values, first[0])
        assert (losses, norms) == first[1:], f"stage {stage}: {losses}, {norms}; stage 0: {first[1:]}"
    assert losses[-1] != losses[0]
    return first[0]


def ddp(model: nn.Module, data: list[Any], loss_of: Any, micro: int = 1, clip: float = 0) -> dict[str, torch.Tensor]:
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), **zm.HYPERS)
    for i, (batch, target) in enumerate(data):
        last = (i + 1) % micro == 0
        wrapped.require_backward_grad_sync = last
        (loss_of(wrapped(batch), target) / micro).backward()
        if last:
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def in_fp64(model: nn.Module, data: list[list[Any]], loss_of: Any) -> dict[str, torch.Tensor]:
    """The same on all ranks' data in double."""
    model = model.double()
    optimizer = torch.optim.AdamW(model.parameters(), **zm.HYPERS)
    for batches in zip(*data, strict=True):
        for batch, target in batches:
            (loss_of(model(batch), target) / len(batches)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


def distance(values: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Root of the mean square, and the largest."""
    off = torch.cat([(values[name].double() - exact[name]).flatten() for name in exact])
    return off.square().mean().sqrt().item(), off.abs().max().item()


def gpt_all_stages_same_bits(groups: ranks.Groups) -> None:
    stages_agree(zm.gpt, zm.text(4, groups.rank), zm.common.loss_of)


def odd_sizes_all_stages_same_bits(groups: ranks.Groups) -> None:
    stages_agree(zm.odd, zm.noise(5, groups.rank), zm.squares, gradient_clipping=0.1)


def accumulation_all_stages_same_bits(groups: ranks.Groups) -> None:
    stages_agree(zm.gpt, zm.text(6, groups.rank), zm.common.loss_of, micro=3, options={"reduce_every": True})


def bf16_all_stages_same_bits(groups: ranks.Groups) -> None:
    def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        assert output.dtype == torch.bfloat16
        return zm.common.loss_of(output.float(), target)

    values = stages_agree(zm.gpt, zm.text(4, groups.rank), loss_of, bf16={"enabled": True})
    exact = ddp(zm.gpt(), zm.text(4, groups.rank), zm.common.loss_of)
    zm.near({n: values[n] for n in exact}, exact, rtol=1.6e-2, atol=2e-2)


def without_overlap_and_all_persistent_same_bits(groups: ranks.Groups) -> None:
    data, seen = zm.text(3, groups.rank), []
    for zero in ({"stage": 3}, {"stage": 3, "overlap_comm": False}, {"stage": 3, "stage3_prefetch_bucket_size": 0},
                 {"stage": 3, "stage3_max_reuse_distance": 1e9, "stage3_max_live_parameters": 1e9}):
        engine, _, _ = train(zm.gpt(), 3, data, zm.common.loss_of, zero_optimization=zero)
        seen.append(zm.whole(engine))
        engine.destroy()
        zm.same_bits(seen[-1], seen[0])


def near_ddp_after_50_steps(groups: ranks.Groups) -> None:
    data = [zm.text(50, rank, batch=1) for rank in range(groups.size)]
    exact = in_fp64(zm.gpt(1, 16), data, zm.common.loss_of)
    theirs = distance(ddp(zm.gpt(1, 16), data[groups.rank], zm.common.loss_of), exact)
    engine, _, _ = train(zm.gpt(1, 16), 3, data[groups.rank], zm.common.loss_of)
    ours = distance(engine.full_state_dict(every_rank=True), exact)
    engine.destroy()
    print(f"distance to fp64 after 50 steps, root of mean square and largest: weft.zero {ours}, DDP {theirs}")
    assert ours[0] <= 1.2 * theirs[0] + 1e-9 and ours[1] <= 1.2 * theirs[1] + 1e-8, (ours, theirs)


def accumulation_is_ddps(groups: ranks.Groups) -> None:
    data = zm.text(6, groups.rank)
    exact = ddp(zm.gpt(), data, zm.common.loss_of, micro=3)
    for stage in STAGES:
        engine, _, _ = train(zm.gpt(), stage, data, zm.common.loss_of, micro=3)
        zm.near(engine.full_state_dict(every_rank=True), exact)
        engine.destroy()


def clipping_is_torchs(groups: ranks.Groups) -> None:
    data = zm.text(4, groups.rank)
    exact = ddp(zm.gpt(), data, zm.common.loss_of, clip=0.3)
    engine, _, norms = train(zm.gpt(), 3, data, zm.common.loss_of, gradient_clipping=0.3)
    zm.near(engine.full_state_dict(every_rank=True), exact)
    engine.destroy()
    model = DistributedDataParallel(zm.gpt())
    zm.common.loss_of(model(data[0][0]), data[0][1]).backward()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    assert abs(norms[0] - norm.item()) < 1e-5 * norms[0] and norms[0] > 0.3, (norms, norm)


def groups_have_their_own_rates(groups: ranks.Groups) -> None:
    from weft import zero

    data = zm.text(3, groups.rank)

    def split(model: nn.Module) -> list[dict[str, Any]]:
        named = list(model.named_parameters())
        return [{"params": [p for _, p in named if p.dim() > 1], "lr": 1e-2},
                {"params": [p for _, p in named if p.dim() < 2], "weight_decay": 0.0}]

    model = DistributedDataParallel(zm.gpt())
    optimizer = torch.optim.AdamW(split(model.module), **{**zm.HYPERS, "lr": 1e-3})
    engine = zero.initialize(zm.gpt(), "adamw", zm.config(2), **{**zm.HYPERS, "lr": 1e-3}, model_parameters=None)
    engine.destroy()
    sharded = zm.gpt()
    engine = zero.initialize(sharded, lambda _: torch.optim.AdamW(split(sharded), **{**zm.HYPERS, "lr": 1e-3}), zm.config(2))
    halves = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (optimizer, engine.optimizer)]
    for batch, target in data:
        zm.common.loss_of(model(batch), target).backward()
        optimizer.step()
        optimizer.zero_grad()
        engine.backward(zm.common.loss_of(engine(batch), target))
        engine.step()
        for scheduler in halves:
            scheduler.step()
    assert engine.get_lr() == [1e-2 / 8, 1e-3 / 8]
    zm.near(engine.full_state_dict(every_rank=True), dict(model.module.state_dict()))
    engine.destroy()


def fp16_overflow_skips_and_halves(groups: ranks.Groups) -> None:
    data = zm.noise(6, groups.rank)
    for stage in STAGES:
        fp16 = {"enabled": True, "initial_scale_power": 8, "hysteresis": 1, "loss_scale_window": 2}
        engine = zm.engine_of(zm.odd(), stage, fp16=fp16)
        assert engine.loss_scale == 256
        seen = []
        for step, (batch, target) in enumerate(data):
            before = engine.full_state_dict(torch.float32, every_rank=True)
            loss = zm.squares(engine(batch.half()), target)
            if step == 2 and groups.rank == groups.size - 1:
                loss = loss * float("inf")
            engine.backward(loss)
            engine.step()
            after = engine.full_state_dict(torch.float32, every_rank=True)
            changed = any(not torch.equal(before[n], after[n]) for n in before)
            assert changed == (step != 2), f"stage {stage}, step {step}"
            seen.append(engine.loss_scale)
        assert seen == [256, 512, 256, 256, 512, 512], f"stage {stage}: {seen}"
        assert engine.skipped_steps == 1 and engine.global_steps == 6
        engine.destroy()


def masters_keep_what_16_bits_lose(groups: ranks.Groups) -> None:
    model = zm.gpt()
    before = copy.deepcopy(model.state_dict())
    engine = zm.engine_of(model, 3, bf16={"enabled": True})
    zm.same_bits(engine.full_state_dict(torch.float32, every_rank=True), before)
    zm.same_bits(engine.full_state_dict(every_rank=True), {n: v.bfloat16() for n, v in before.items()})
    assert all(p.dtype == torch.bfloat16 and p.shape == before[n].shape for n, p in model.named_parameters())
    engine.destroy()


def rank_0s_values_are_everybodys(groups: ranks.Groups) -> None:
    torch.manual_seed(groups.rank)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))
    model[1].running_mean.fill_(groups.rank + 3.0)
    engine = zm.engine_of(model, 3)
    states: list[Any] = [None] * groups.size
    dist.all_gather_object(states, engine.full_state_dict(every_rank=True), group=groups.gloo)
    for state in states:
        zm.same_bits(state, states[0])
    assert states[0]["1.running_mean"][0] == 3
    engine.destroy()


def other_optimizers_are_torchs(groups: ranks.Groups) -> None:
    from weft import zero

    data = zm.text(5, groups.rank)
    given: list[tuple[str, Any, dict[str, Any]]] = [
        ("adam", torch.optim.Adam, {"lr": 1e-3, "betas": (0.8, 0.9), "eps": 1e-5, "weight_decay": 0.1}),
        ("sgd", torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
        ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
        ("adagrad", torch.optim.Adagrad, {"lr": 1e-2, "lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-5}),
    ]
    for name, theirs, hypers in given:
        model = DistributedDataParallel(zm.gpt())
        optimizer = theirs(model.parameters(), **hypers)
        sharded = zm.gpt()
        named = name if groups.size == 2 else theirs(sharded.parameters(), **hypers)
        engine = zero.initialize(sharded, named, zm.config(3), **(hypers if isinstance(named, str) else {}))
        for batch, target in data:
            zm.common.loss_of(model(batch), target).backward()
            optimizer.step()
            optimizer.zero_grad()
            engine.backward(zm.common.loss_of(engine(batch), target))
            engine.step()
        zm.near(engine.full_state_dict(every_rank=True), dict(model.module.state_dict()))
        engine.destroy()


def lion_moves_by_signs(groups: ranks.Groups) -> None:
    from weft import zero

    model = nn.Linear(4, 4)
    engine = zero.initialize(model, "lion", zm.config(2), lr=0.01, weight_decay=0.0)
    before = engine.full_state_dict(every_rank=True)
    engine.backward(engine(torch.ones(2, 4)).sum())
    engine.step()
    after = engine.full_state_dict(every_rank=True)
    for name in before:
        torch.testing.assert_close(after[name], before[name] - 0.01)
    engine.destroy()


def states_in_a_file(groups: ranks.Groups) -> None:
    """Which changes nothing but where they are."""
    data, folder = zm.text(3, groups.rank), tempfile.mkdtemp()
    expected: Any = None
    file = {"offload_folder": folder}
    ways: list[tuple[int, dict[str, Any]]] = [
        (3, {}),
        (1, file),
        (1, {**file, "offload_memory_bytes": 1 << 30}),
        (2, {**file, "offload_weight_codec": "none", "offload_moment1_codec": ""}),
        (3, {**file, "offload_params": True}),
    ]
    for stage, more in ways:
        engine, _, _ = train(zm.gpt(), stage, data, zm.common.loss_of, options=more)
        values, stats = zm.whole(engine), engine.stats()
        engine.destroy()
        expected = expected or values
        zm.same_bits(values, expected)
        assert bool(stats["disk_bytes"]) == bool(more) and (stats["disk_written_bytes"] > 0) == bool(more), stats
    shutil.rmtree(folder)


CASES = [
    gpt_all_stages_same_bits,
    odd_sizes_all_stages_same_bits,
    accumulation_all_stages_same_bits,
    bf16_all_stages_same_bits,
    without_overlap_and_all_persistent_same_bits,
    near_ddp_after_50_steps,
    accumulation_is_ddps,
    clipping_is_torchs,
    groups_have_their_own_rates,
    fp16_overflow_skips_and_halves,
    masters_keep_what_16_bits_lose,
    rank_0s_values_are_everybodys,
    other_optimizers_are_torchs,
    lion_moves_by_signs,
    states_in_a_file,
]

if __name__ == "__main__":
    ranks.main(CASES)
