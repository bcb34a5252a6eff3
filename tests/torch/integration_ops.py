# SPDX-License-Identifier: BSD-3-Clause
"""Cases: operations and groups. All values are small whole numbers unless said, so that any order of sums is exact."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from integration_cases import case

REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]


def numbers(count, dtype, rank):
    return ((torch.arange(count) * 7 + rank * 3) % 11).to(dtype)


@case(2)
@case(3)
def reductions(rank, world):
    """all_reduce and reduce of every type and operation at sizes around the borders of algorithms."""
    results = []
    for dtype in REAL:
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
            for count in (0, 1, 3, 1000, 70001):
                t = numbers(count, dtype, rank)
                dist.all_reduce(t, op)
                results.append(t)
        t = numbers(257, dtype, rank)
        dist.reduce(t, 1, dist.ReduceOp.SUM)
        results.append(t if rank == 1 else None)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        t = numbers(99, torch.int32, rank)
        dist.all_reduce(t, op)
        results.append(t)
    return results


@case(2)
@case(4)
def movements(rank, world):
    """Everything that moves data, of types without arithmetic too, and of tensors with gaps."""
    results = []
    for dtype in (*REAL, torch.bool, torch.complex64):
        t = numbers(21, dtype, rank)
        dist.broadcast(t, src=world - 1)
        gathered = [torch.empty(21, dtype=dtype) for _ in range(world)]
        dist.all_gather(gathered, t)
        into = torch.empty(world * 21, dtype=dtype)
        dist.all_gather_into_tensor(into, numbers(21, dtype, rank))
        mine = torch.empty(21, dtype=dtype)
        dist.scatter(mine, list(into.chunk(world)) if rank == 0 else None, src=0)
        at_root = None
        if dtype in REAL:  # Gloo's gather knows no others
            at_root = [torch.empty(21, dtype=dtype) for _ in range(world)] if rank == 1 else None
            dist.gather(mine, at_root, dst=1)
        out = torch.empty(world * 3, dtype=dtype)
        dist.all_to_all_single(out, numbers(world * 3, dtype, rank))
        results.append((t, gathered, into, mine, at_root, out))
    return results


@case(2)
@case(3)
def strided(rank, world):
    """Transposed, sliced and expanded-from tensors, as inputs and outputs."""
    t = numbers(24, torch.float32, rank).view(4, 6)
    column, turned = t[:, 1].clone(), t.t().contiguous().t()
    dist.all_reduce(turned)
    outputs = [torch.empty(6, 4).t() for _ in range(world)]
    dist.all_gather(outputs, turned.contiguous())
    dist.broadcast(column, src=0)
    return turned, [o.contiguous() for o in outputs], column


@case(2)
@case(4)
def uneven_all_to_all(rank, world):
    results = []
    for base in (0, 1, 1000):
        send = [base + ((rank + peer) % 3) for peer in range(world)]
        receive = [base + ((peer + rank) % 3) for peer in range(world)]
        out = torch.full((sum(receive), 2), -1.0)
        rows = numbers(2 * sum(send), torch.float32, rank).view(-1, 2)
        dist.all_to_all_single(out, rows, receive, send)
        results.append(out)
    return results


@case(2)
@case(4)
def reduce_scatters(rank, world):
    results = []
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for count in (1, 5, 20000):
            out = torch.empty(count, dtype=dtype)
            dist.reduce_scatter_tensor(out, numbers(count * world, dtype, rank))
            listed = torch.empty(count, dtype=dtype)
            dist.reduce_scatter(listed, list(numbers(count * world, dtype, rank).chunk(world)))
            assert torch.equal(out, listed)
            results.append(out)
    return results


@case(3, gloo=False)
def beyond_gloo(rank, world):
    """List all-to-all of unequal tensors, all_gather and reduce_scatter of unequal lists, AVG, PREMUL_SUM, gather of any type."""
    outs = [torch.empty(1 + rank + peer) for peer in range(world)]
    dist.all_to_all(outs, [torch.full((1 + rank + peer,), float(10 * rank + peer)) for peer in range(world)])
    for peer, out in enumerate(outs):
        assert torch.equal(out, torch.full((1 + rank + peer,), float(10 * peer + rank))), (peer, out)
    outs = [torch.empty(4 * peer) for peer in range(world)]
    dist.all_gather(outs, torch.full((4 * rank,), float(rank)))
    assert all(torch.equal(out, torch.full((4 * peer,), float(peer))) for peer, out in enumerate(outs))
    out = torch.empty(2 + rank)
    dist.reduce_scatter(out, [torch.full((2 + peer,), float(peer + rank)) for peer in range(world)])
    assert torch.equal(out, torch.full((2 + rank,), float(sum(rank + peer for peer in range(world)))))
    t = torch.tensor([3.0 * rank])
    dist.all_reduce(t, dist.ReduceOp.AVG)
    assert t.item() == 3.0, t
    t = torch.tensor([4.0 * rank])
    dist.all_reduce(t, dist._make_nccl_premul_sum(0.5))
    assert t.item() == 6.0, t
    for dtype in (torch.bool, torch.complex64, torch.float8_e4m3fn):
        t = numbers(21, torch.float32, rank).to(dtype)
        at_root = [torch.empty(21, dtype=dtype) for _ in range(world)] if rank == 1 else None
        dist.gather(t, at_root, dst=1)
        for peer, got in enumerate(at_root or []):
            assert torch.equal(got.to(torch.complex64), numbers(21, torch.float32, peer).to(dtype).to(torch.complex64))


@case(3)
def objects(rank, world):
    thing = {"rank": rank, "list": list(range(rank * 100)), "text": "x" * (rank * 5000)}
    everyone, root = [None] * world, [None] * world if rank == 2 else None
    dist.all_gather_object(everyone, thing)
    dist.gather_object(thing, root, dst=2)
    shared = [thing, rank] if rank == 1 else [None, None]
    dist.broadcast_object_list(shared, src=1)
    mine = [None]
    dist.scatter_object_list(mine, everyone if rank == 0 else None, src=0)
    received = [None]
    if rank == 0:
        dist.send_object_list([thing], dst=1)
    elif rank == 1:
        dist.recv_object_list(received, src=0)
    return everyone, root, shared, mine, received


@case(4)
def batch_isend_irecv(rank, world):
    """Every rank with every other at once, several sizes and tags, receives posted in another order than sends."""
    received = {}
    operations = []
    for tag, count in enumerate((1, 1000, 300000)):
        for peer in range(world):
            if peer != rank:
                received[peer, tag] = torch.zeros(count)
    for peer, tag in reversed(list(received)):
        operations.append(dist.P2POp(dist.irecv, received[peer, tag], peer, tag=tag))
    for peer, tag in received:
        operations.append(dist.P2POp(dist.isend, received[peer, tag] + 10 * rank + tag, peer, tag=tag))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert all((t == 10 * peer + tag).all() for (peer, tag), t in received.items())
    return {f"{peer}.{tag}": t for (peer, tag), t in received.items()}


@case(3)
def tags_and_any_source(rank, world):
    if rank:
        for work in [dist.isend(torch.tensor([10.0 * rank + tag]), 0, tag=tag) for tag in (5, 3)]:
            work.wait()
        dist.send(torch.tensor([100.0 * rank]), 0, tag=9)
        return None
    results = []
    for peer in (2, 1):
        for tag in (3, 5):
            t = torch.zeros(1)
            dist.recv(t, peer, tag=tag)
            results.append(t.item())
    sources = []
    for _ in range(2):
        t = torch.zeros(1)
        sources.append(dist.recv(t, tag=9))
        assert t.item() == 100.0 * sources[-1], (t, sources)
    return results, sorted(sources)


@case(4)
def overlapping_groups(rank, world):
    """Subsets that share ranks, used in turn and at once; ranks of a subset in another order than the world's."""
    subsets = [[0, 1, 2], [1, 2, 3], [0, 3], [3, 1], [0, 1, 2, 3], [2]]
    groups = [dist.new_group(subset) for subset in subsets]
    tensors, works = [], []
    for i, (subset, group) in enumerate(zip(subsets, groups, strict=True)):
        if rank in subset:
            tensors.append(torch.full((1000,), float(rank + i)))
            works.append(dist.all_reduce(tensors[-1], group=group, async_op=True))
    for work in reversed(works):
        work.wait()
    subgroup, everyone = dist.new_subgroups(2)
    t = torch.tensor([float(rank)])
    dist.all_reduce(t, group=subgroup)
    for group in everyone:
        if group is not dist.GroupMember.NON_GROUP_MEMBER and rank in dist.get_process_group_ranks(group):
            dist.destroy_process_group(group)
    return tensors, t


@case(2, deadline=300, slow=True)
def two_hundred_groups(rank, world):
    """200 groups made, used and destroyed, a few alive at a time; descriptors do not pile up."""
    import os

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    results, alive, begin = [], [], None
    for i in range(200):
        alive.append(dist.new_group([0, 1]))
        t = torch.full((3,), float(i + rank))
        dist.all_reduce(t, group=alive[-1])
        results.append(t)
        if len(alive) == 4:
            dist.destroy_process_group(alive.pop(0))
        if i == 20:
            begin = descriptors()
    assert descriptors() <= begin + 2, f"{descriptors()} descriptors open, {begin} after twenty groups"
    return results


@case(2)
def asynchronous(rank, world):
    """Fifty operations in flight, waited for in another order; futures with continuations."""
    tensors = [torch.full((100 * i + 1,), float(i + rank)) for i in range(50)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for work in reversed(works):
        work.wait()
    t = torch.ones(5) * (rank + 1)
    doubled = dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    result = doubled.wait()
    assert all(work.is_completed() for work in works)
    return tensors, result


@case(2)
@case(4)
def functional(rank, world):
    """The traceable collectives, eager."""
    group, t = dist.group.WORLD, numbers(8 * world, torch.float32, rank)
    return [funcol.all_reduce(t, "sum", group) + 0, funcol.all_gather_tensor(t, 0, group) + 0,
            funcol.reduce_scatter_tensor(t, "sum", 0, group) + 0, funcol.broadcast(t, 0, group) + 0,
            funcol.all_to_all_single(t, None, None, group) + 0,
            *(x + 0 for x in funcol.all_reduce_coalesced([t, t + 1], "max", group)),
            *(x + 0 for x in funcol.all_gather_into_tensor_coalesced([t, t + 1], group))]


@case(2, deadline=400, slow=True)
def functional_compiled(rank, world):
    """Collectives inside a graph that torch.compile made, with gradients through them; dist calls are rewritten."""
    group = dist.group.WORLD

    def step(x, w):
        y = torch.tanh(x @ w)
        gathered = funcol.all_gather_tensor(y, 0, group)
        summed = funcol.all_reduce(gathered * 2, "sum", group)
        parts = funcol.reduce_scatter_tensor(summed, "sum", 0, group)
        swapped = funcol.all_to_all_single(parts, None, None, group)
        return swapped + y

    def in_place(x):
        y = x * 3
        dist.all_reduce(y)
        out = torch.empty(x.shape[0] * dist.get_world_size(), x.shape[1])
        dist.all_gather_into_tensor(out, y)
        return out + 1

    torch.manual_seed(rank)
    x, w = torch.randn(4, 8), torch.randn(8, 6)
    compiled = torch.compile(step, fullgraph=True)(x, w)
    torch.testing.assert_close(compiled, step(x, w))
    rewritten = torch.compile(in_place, fullgraph=True)(x)
    torch.testing.assert_close(rewritten, in_place(x))
    return compiled, rewritten
