# SPDX-License-Identifier: BSD-3-Clause
"""Cases: everything in PyTorch that trains or stores on several ranks."""

import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from integration_cases import batch, case, model, train, weights
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


def adam(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-2)


@case(2)
@case(4, exact=False)
def ddp(rank, world):
    net = DistributedDataParallel(model(), bucket_cap_mb=0.001)
    return train(net, adam(net), rank), weights(net)


@case(2)
def ddp_accumulate_join(rank, world):
    """no_sync, unequal numbers of batches under join(), and a buffer broadcast with every forward pass."""
    net = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(10), *model()))
    optimizer = adam(net)
    with net.join():
        for step in range(3 + rank):
            x, y = batch(rank, step)
            with net.no_sync():
                nn.functional.mse_loss(net(x), y).backward()
            nn.functional.mse_loss(net(-x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    return weights(net), [b.clone() for b in net.buffers()]


@case(2)
def ddp_hooks(rank, world):
    results = []
    for state, hook in ((None, default_hooks.allreduce_hook), (None, default_hooks.fp16_compress_hook),
                        (powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)):
        net = DistributedDataParallel(model())
        net.register_comm_hook(state, hook)
        results.append((train(net, adam(net), rank), weights(net)))
    return results


@case(2)
@case(3, exact=False)
def fsdp1(rank, world):
    results = []
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        net = FullyShardedDataParallel(model(), sharding_strategy=strategy, device_id=torch.device("cpu"))
        losses = train(net, adam(net), rank)
        with FullyShardedDataParallel.summon_full_params(net):
            results.append((losses, weights(net)))
    return results


def sharded(mesh, **how):
    net = model()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, **how)
    return fully_shard(net, mesh=mesh, **how)


@case(2)
@case(3, exact=False)
def fsdp2(rank, world):
    net = sharded(init_device_mesh("cpu", (world,)))
    return train(net, adam(net), rank), weights(net)


@case(2)
def fsdp2_mixed(rank, world):
    """bf16 parameters, fp32 reduction."""
    net = sharded(init_device_mesh("cpu", (world,)),
                  mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32,
                                                 output_dtype=torch.float32))
    return train(net, adam(net), rank), weights(net)


@case(4, exact=False)
def fsdp2_hsdp(rank, world):
    net = sharded(init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))
    return train(net, adam(net), rank), weights(net)


@case(4, exact=False)
def fsdp2_tensor_parallel(rank, world):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 5))
    parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(net, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    return train(net, optimizer, mesh["dp"].get_local_rank()), weights(net)


@case(2)
@case(4)
def dtensor_redistribute(rank, world):
    """Every change of placement, of an uneven tensor; integers in fp32, so that any order of sums is exact."""
    mesh = init_device_mesh("cpu", (world,))
    whole = torch.arange(7 * 9, dtype=torch.float32).view(7, 9)
    results = []
    for source in (Replicate(), Shard(0), Shard(1)):
        for target in (Replicate(), Shard(0), Shard(1)):
            moved = distribute_tensor(whole, mesh, [source]).redistribute(mesh, [target])
            assert torch.equal(moved.full_tensor(), whole)
            results.append(moved.to_local().clone())
    for op in ("sum", "avg", "max", "min"):
        partial = DTensor.from_local(whole + rank, mesh, [Partial(op)])
        results.append(partial.redistribute(mesh, [Replicate()]).to_local().clone())
        if op != "avg":
            results.append(partial.redistribute(mesh, [Shard(0)]).to_local().clone())
    return results


@case(2)
@case(4, exact=False)
def dtensor_matmul(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(5)
    a, b = torch.randn(12, 8), torch.randn(8, 16)
    results = []
    for left, right in (([Shard(0)], [Replicate()]), ([Replicate()], [Shard(1)]), ([Shard(1)], [Shard(0)])):
        x = distribute_tensor(a, mesh, left).requires_grad_()
        product = x @ distribute_tensor(b, mesh, right)
        product.redistribute(mesh, [Replicate()]).to_local().sum().backward()
        results += [product.full_tensor().detach(), x.grad.full_tensor()]
        torch.testing.assert_close(results[-2], a @ b)
    return results


@case(2)
@case(3, exact=False)
def zero_redundancy_optimizer(rank, world):
    results = []
    for overlapped in (False, True):
        net = DistributedDataParallel(model(), gradient_as_bucket_view=overlapped)
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-2,
                                            parameters_as_bucket_view=overlapped)
        losses = train(net, optimizer, rank)
        optimizer.consolidate_state_dict(to=0)
        moments = [s["exp_avg"] for s in optimizer.state_dict()["state"].values()] if rank == 0 else []
        results.append((losses, weights(net), moments))
    return results


def pipeline(schedule, per_rank, rank, world):
    torch.manual_seed(11)
    total = per_rank * world
    layers = [nn.Sequential(nn.Linear(10, 10), nn.Tanh()) for _ in range(total)]
    mine = [PipelineStage(layers[i], i, total, torch.device("cpu")) for i in range(rank, total, world)]
    runner = schedule(mine if per_rank > 1 else mine[0], 4, loss_fn=nn.functional.mse_loss)
    x, losses = torch.randn(8, 10), []
    runner.step(*([x] if rank == 0 else []), **({"target": -x, "losses": losses} if rank == world - 1 else {}))
    grads = [p.grad.clone() for stage in mine for p in stage.submod.parameters()]
    return [loss.item() for loss in losses], grads


@case(2)
@case(4)
def pipeline_schedules(rank, world):
    return [pipeline(schedule, per_rank, rank, world)
            for schedule, per_rank in ((ScheduleGPipe, 1), (Schedule1F1B, 1), (ScheduleInterleaved1F1B, 2),
                                       (ScheduleInterleavedZeroBubble, 2))]


def shared_folder():
    """A folder that rank 0 made, known to all."""
    name = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(name)
    return name[0]


@case(4)
def checkpoint_save_load(rank, world):
    """Save sharded over all ranks, load on a mesh of another shape; also the asynchronous way."""
    net = sharded(init_device_mesh("cpu", (world,)))
    saved, folder = weights(net), shared_folder()
    dcp.save({"model": get_model_state_dict(net)}, checkpoint_id=f"{folder}/sync")
    own = dist.new_group()
    dcp.async_save({"model": get_model_state_dict(net)}, checkpoint_id=f"{folder}/async", process_group=own).result()
    for kind in ("sync", "async"):
        other = sharded(init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard")))
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        state = {"model": get_model_state_dict(other)}
        dcp.load(state, checkpoint_id=f"{folder}/{kind}")
        set_model_state_dict(other, state["model"])
        assert all(torch.equal(a, b) for a, b in zip(weights(other), saved, strict=True))
    return saved
