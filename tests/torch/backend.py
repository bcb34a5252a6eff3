# SPDX-License-Identifier: BSD-3-Clause
"""Every collective of the backend against the definition, computed here from all inputs, and against Gloo where that can do it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
import ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from ranks import Groups  # noqa: E402

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
ALL = [*INTEGERS, *FLOATS, *FP8, *COMPLEX, torch.bool]
BYTES_ONLY = [torch.float8_e4m3fnuz, torch.complex32]
Op = dist.ReduceOp


def fill(shape: tuple[int, ...], dtype: torch.dtype, rank: int, salt: int = 0) -> torch.Tensor:
    """Small numbers that every type holds exactly, and whose sums and products over 4 ranks float8 holds as well."""
    n = max(1, int(torch.Size(shape).numel()))
    base = (torch.arange(n) * (rank + 2) + salt + rank) % 3
    if dtype == torch.bool:
        return (base % 2 == 0)[: torch.Size(shape).numel()].reshape(shape)
    t = base.to(torch.float32)
    if dtype.is_complex:
        t = torch.complex(t, 1 - t)
    return t.to(dtype)[: torch.Size(shape).numel()].reshape(shape)


def raw(t: torch.Tensor) -> torch.Tensor:
    """The bytes, so that any type can be compared."""
    return t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def check(got: torch.Tensor, want: torch.Tensor, what: object) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype, (what, got.shape, want.shape)
    if got.numel() == 0 or torch.equal(raw(got), raw(want)):
        return
    # The inputs are exact, and so are the results; only the sign of a zero is free.
    wide = torch.complex128 if got.dtype.is_complex else torch.float64
    if (got.dtype.is_complex or got.dtype.is_floating_point) and torch.equal(got.to(wide), want.to(wide)):
        return
    raise AssertionError(f"{what}: got {got.flatten()[:8]}, want {want.flatten()[:8]}")


def reduced(inputs: list[torch.Tensor], op: object) -> torch.Tensor:
    dtype = inputs[0].dtype
    if dtype == torch.bool:
        both: Callable[..., torch.Tensor] = torch.logical_or if op in (Op.SUM, Op.MAX, Op.BOR) else torch.logical_and
        return functools.reduce(torch.logical_xor if op == Op.BXOR else both, inputs)
    widest = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    wide = [t.to(widest) for t in inputs]
    folds: dict[object, Callable[..., torch.Tensor]] = {
        Op.SUM: torch.add, Op.AVG: torch.add, Op.PRODUCT: torch.mul, Op.MIN: torch.minimum, Op.MAX: torch.maximum,
        Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor,
    }  # fmt: skip
    total = next(functools.reduce(fold, wide) for name, fold in folds.items() if name == op)
    if op == Op.AVG:
        exact = dtype.is_floating_point or dtype.is_complex
        total = total / len(inputs) if exact else total.div(len(inputs), rounding_mode="trunc")
    return total.to(dtype)


def operators(dtype: torch.dtype) -> list[object]:
    if dtype.is_complex:
        return [Op.SUM, Op.AVG, Op.PRODUCT]
    bitwise = [] if dtype.is_floating_point else [Op.BAND, Op.BOR, Op.BXOR]
    return [Op.SUM, Op.AVG, Op.PRODUCT, Op.MIN, Op.MAX, *bitwise]


def with_gloo(g: Groups, call: Callable[[dist.ProcessGroup], torch.Tensor], got: torch.Tensor, what: object) -> None:
    """Compare with Gloo if it can do this on all ranks (it refuses before it communicates)."""
    try:
        want = call(g.gloo)
    except (RuntimeError, ValueError, TypeError):
        return
    check(got, want, (what, "gloo"))


def backend_of(g: Groups) -> dist.distributed_c10d.Backend:
    return g.weft._get_backend(torch.device("cpu"))


# ---- Reductions ----


def all_reduce_every_type_and_operator(g: Groups) -> None:
    for dtype in ALL:
        inputs = [fill((5, 7), dtype, r) for r in range(g.size)]
        for op in operators(dtype):
            got = inputs[g.rank].clone()
            g.weft.allreduce([got], _all_reduce_options(op)).wait()
            check(got, reduced(inputs, op), (dtype, op))
    for dtype in [torch.int32, torch.float32, torch.float64]:
        for op in operators(dtype)[:1]:
            got = fill((1000,), dtype, g.rank)
            dist.all_reduce(got, op=op, group=g.weft)

            def on_gloo(group: dist.ProcessGroup, dtype: torch.dtype = dtype, op: object = op) -> torch.Tensor:
                t = fill((1000,), dtype, g.rank)
                dist.all_reduce(t, op=op, group=group)
                return t

            with_gloo(g, on_gloo, got, (dtype, op))


def _all_reduce_options(op: object) -> object:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def all_reduce_sizes_and_forms(g: Groups) -> None:
    for n in [0, 1, 2, 3, 17, 1000, 4096, 65537, 1 << 20]:
        inputs = [fill((n,), torch.float32, r, n) for r in range(g.size)]
        want = reduced(inputs, Op.SUM)
        for form in ("sync", "async", "future"):
            got = inputs[g.rank].clone()
            work = dist.all_reduce(got, group=g.weft, async_op=form != "sync")
            if form == "async":
                work.wait()
                assert work.is_completed() and work.is_success()
            elif form == "future":
                value = work.get_future().wait()
                assert value[0].data_ptr() == got.data_ptr()
            check(got, want, (n, form))


def all_reduce_strides(g: Groups) -> None:
    def shaped(rank: int) -> torch.Tensor:
        return fill((2, 3, 4, 6), torch.float32, rank)

    want = reduced([shaped(r) for r in range(g.size)], Op.SUM)
    layouts: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
        "transposed": lambda t: t.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        "every second": lambda t: torch.stack([t, t], -1).flatten(-2)[..., ::2],
        "inside": lambda t: torch.nn.functional.pad(t, (1, 1, 1, 1))[:, :, 1:-1, 1:-1],
        "differs by rank": lambda t: t.contiguous(memory_format=torch.channels_last) if g.rank == 0 else t,
    }
    for name, lay in layouts.items():
        for is_async in (False, True):
            got = lay(shaped(g.rank))
            work = dist.all_reduce(got, group=g.weft, async_op=is_async)
            if is_async:
                work.wait()
            check(got, want, name)
    conjugate = fill((4,), torch.complex64, g.rank).conj()
    backend_of(g).allreduce([conjugate], _all_reduce_options(Op.SUM)).wait()  # the dispatcher would copy it
    want = reduced([fill((4,), torch.complex64, r).conj().resolve_conj() for r in range(g.size)], Op.SUM)
    check(conjugate.resolve_conj(), want, "conj")


def all_reduce_premul_sum(g: Groups) -> None:
    for dtype in [torch.float32, torch.float64, torch.bfloat16, torch.float16]:
        inputs = [fill((100,), dtype, r) for r in range(g.size)]
        for factor in (0.5, torch.tensor([2.0], dtype=dtype)):
            got = inputs[g.rank].clone()
            dist.all_reduce(got, op=dist._make_nccl_premul_sum(factor), group=g.weft)
            number = factor if isinstance(factor, float) else factor.item()
            check(got, reduced([t * number for t in inputs], Op.SUM), (dtype, factor))


def reduce_every_root(g: Groups) -> None:
    for root in range(g.size):
        for dtype in [torch.float32, torch.int64, torch.bool]:
            inputs = [fill((33,), dtype, r, root) for r in range(g.size)]
            got = inputs[g.rank].clone()
            dist.reduce(got, root, group=g.weft)
            if g.rank == root:
                check(got, reduced(inputs, Op.SUM), (root, dtype))
            else:
                check(got, inputs[g.rank], "what is reduced elsewhere stays")


def reduce_scatter_forms(g: Groups) -> None:
    for dtype in [torch.float32, torch.int32, torch.bfloat16, torch.bool]:
        inputs = [fill((g.size, 6), dtype, r) for r in range(g.size)]
        for op in (Op.SUM, Op.AVG, Op.MAX):
            want = reduced(inputs, op)[g.rank]
            got = torch.empty(6, dtype=dtype)
            dist.reduce_scatter_tensor(got, inputs[g.rank].flatten(), op=op, group=g.weft)
            check(got, want, (dtype, op))
            got = torch.empty(6, dtype=dtype)
            dist.reduce_scatter(got, [row.clone() for row in inputs[g.rank]], op=op, group=g.weft)
            check(got, want, (dtype, op, "list"))
    sizes = [r + 1 for r in range(g.size)]
    inputs = [[fill((n,), torch.float32, r, n) for n in sizes] for r in range(g.size)]
    got = torch.empty(sizes[g.rank])
    dist.reduce_scatter(got, inputs[g.rank], group=g.weft)
    check(got, reduced([given[g.rank] for given in inputs], Op.SUM), "uneven")


def all_reduce_sparse(g: Groups) -> None:
    def sparse(rank: int) -> torch.Tensor:
        nnz = rank + 1
        indices = torch.stack([torch.arange(nnz) % 4, (torch.arange(nnz) + rank) % 5])
        return torch.sparse_coo_tensor(indices, torch.arange(1.0, nnz + 1), (4, 5))

    got = sparse(g.rank)
    dist.all_reduce(got, group=g.weft)
    want = functools.reduce(torch.add, [sparse(r).to_dense() for r in range(g.size)])
    check(got.to_dense(), want, "sparse")
    empty = torch.sparse_coo_tensor(size=(3, 3))
    dist.all_reduce(empty, group=g.weft)
    check(empty.to_dense(), torch.zeros(3, 3), "no values")


# ---- Movement ----


def broadcast_every_type(g: Groups) -> None:
    for dtype in [*ALL, *BYTES_ONLY]:
        for root in range(g.size):
            got = fill((11,), dtype, g.rank, root)
            dist.broadcast(got, root, group=g.weft)
            check(got, fill((11,), dtype, root, root), (dtype, root))
    got = torch.zeros(8, 8).t()[::2]
    dist.broadcast(got.copy_(fill((4, 8), torch.float32, g.rank)), 0, group=g.weft)
    check(got, fill((4, 8), torch.float32, 0), "strided")


def all_gather_forms(g: Groups) -> None:
    for dtype in [*ALL, *BYTES_ONLY]:
        mine = fill((3, 4), dtype, g.rank)
        wants = [fill((3, 4), dtype, r) for r in range(g.size)]
        got = [torch.empty(3, 4, dtype=dtype) for _ in range(g.size)]
        g.weft.allgather([got], [mine]).wait()
        for r in range(g.size):
            check(got[r], wants[r], (dtype, "list", r))
        whole = torch.empty(g.size * 3, 4, dtype=dtype)
        g.weft._allgather_base(whole, mine).wait()
        for r in range(g.size):
            check(whole[3 * r : 3 * r + 3], wants[r], (dtype, "tensor", r))
    views = list(torch.empty(g.size, 5).unbind(0))
    dist.all_gather(views, fill((5,), torch.float32, g.rank), group=g.weft)
    for r in range(g.size):
        check(views[r], fill((5,), torch.float32, r), "views of one buffer")
    uneven = [torch.empty(r + 1) for r in range(g.size)]
    dist.all_gather(uneven, fill((g.rank + 1,), torch.float32, g.rank), group=g.weft)
    for r in range(g.size):
        check(uneven[r], fill((r + 1,), torch.float32, r), "uneven")
    strided = [torch.empty(6, 2).t() for _ in range(g.size)]
    dist.all_gather(strided, fill((2, 6), torch.float32, g.rank).t().contiguous().t(), group=g.weft)
    for r in range(g.size):
        check(strided[r], fill((2, 6), torch.float32, r), "strided")


def gather_and_scatter(g: Groups) -> None:
    for root in range(g.size):
        mine = fill((7,), torch.float32, g.rank, root)
        got = [torch.empty(7) for _ in range(g.size)] if g.rank == root else None
        dist.gather(mine, got, root, group=g.weft)
        for r in range(g.size if got else 0):
            check(got[r], fill((7,), torch.float32, r, root), ("gather", root, r))
        give = [fill((7,), torch.int64, r, root) for r in range(g.size)] if g.rank == root else None
        out = torch.empty(7, dtype=torch.int64)
        dist.scatter(out, give, root, group=g.weft)
        check(out, fill((7,), torch.int64, g.rank, root), ("scatter", root))


def all_to_all_forms(g: Groups) -> None:
    give = fill((g.size * 2, 3), torch.float32, g.rank)
    got = torch.empty(g.size * 2, 3)
    dist.all_to_all_single(got, give, group=g.weft)
    for r in range(g.size):
        check(got[2 * r : 2 * r + 2], fill((g.size * 2, 3), torch.float32, r)[2 * g.rank : 2 * g.rank + 2], ("equal", r))

    def rows(sender: int, receiver: int) -> int:
        return (sender + 2 * receiver) % 4

    def piece(sender: int, receiver: int) -> torch.Tensor:
        return fill((rows(sender, receiver), 3), torch.bfloat16, sender, receiver)

    ins, outs = [rows(g.rank, r) for r in range(g.size)], [rows(r, g.rank) for r in range(g.size)]
    for is_async in (False, True):
        got = torch.empty(sum(outs), 3, dtype=torch.bfloat16)
        give = torch.cat([piece(g.rank, r) for r in range(g.size)])
        work = dist.all_to_all_single(got, give, outs, ins, group=g.weft, async_op=is_async)
        if is_async:
            work.wait()
        check(got, torch.cat([piece(r, g.rank) for r in range(g.size)]), "splits")
    lists = [torch.empty(n, 3, dtype=torch.bfloat16) for n in outs]
    dist.all_to_all(lists, [piece(g.rank, r) for r in range(g.size)], group=g.weft)
    for r in range(g.size):
        check(lists[r], piece(r, g.rank), ("list", r))


# ---- Messages ----


def send_and_recv(g: Groups) -> None:
    peers = [r for r in range(g.size) if r != g.rank]
    for dtype in [torch.float32, torch.bool, torch.float8_e5m2, torch.complex64]:
        for n in (0, 1, 1000, 300000):
            works = [dist.isend(fill((n,), dtype, g.rank, r), r, group=g.weft, tag=r) for r in peers]
            for r in peers:
                got = torch.empty(n, dtype=dtype)
                assert dist.recv(got, r, group=g.weft, tag=g.rank) == r
                check(got, fill((n,), dtype, r, g.rank), (dtype, n, r))
            for work in works:
                work.wait()
    if g.rank < 2:
        odd = torch.zeros(6, 4).t()
        if g.rank == 0:
            dist.send(fill((4, 6), torch.float32, 9).t().contiguous().t(), 1, group=g.weft)
        else:
            dist.recv(odd, 0, group=g.weft)
            check(odd, fill((4, 6), torch.float32, 9), "strided")


def recv_from_anybody(g: Groups) -> None:
    for round_ in range(3):
        if g.rank == 0:
            seen = []
            for _ in range(g.size - 1):
                got = torch.empty(5)
                source = dist.recv(got, None, group=g.weft, tag=1)
                check(got, fill((5,), torch.float32, source, round_), ("any", source))
                seen.append(source)
            assert sorted(seen) == list(range(1, g.size)), seen
            for r in range(1, g.size):  # messages from a known rank still come in order
                got = torch.empty(9)
                dist.recv(got, r, group=g.weft)
                check(got, fill((9,), torch.float32, r, 100 + round_), ("known", r))
        else:
            dist.send(fill((5,), torch.float32, g.rank, round_), 0, group=g.weft, tag=1)
            dist.send(fill((9,), torch.float32, g.rank, 100 + round_), 0, group=g.weft)
        dist.barrier(group=g.weft)
    work = dist.irecv(torch.empty(2), None, group=g.weft) if g.rank == 1 else None
    dist.all_reduce(torch.ones(3), group=g.weft)  # collectives go on while a receive is open
    if g.rank == 0:
        dist.send(torch.ones(2), 1, group=g.weft)
    if work:
        work.wait()
        assert work._source_rank() == 0


def tags_are_matched(g: Groups) -> None:
    """Received in another order than sent: the tag says which message is meant."""
    if g.rank == 0:
        works = [dist.isend(torch.full((n,), float(n)), 1, group=g.weft, tag=tag) for n, tag in ((3, 5), (4, 6), (5, 5))]
        for work in works:
            work.wait()
    elif g.rank == 1:
        for n, tag in ((4, 6), (3, 5), (5, 5)):
            got = torch.zeros(n)
            dist.recv(got, 0, group=g.weft, tag=tag)
            check(got, torch.full((n,), float(n)), f"tag {tag}")


def batches(g: Groups) -> None:
    right, left = (g.rank + 1) % g.size, (g.rank - 1) % g.size
    for n in (4, 200000):
        gots = [torch.empty(n) for _ in range(2)]
        ops = []
        for i in range(2):  # receives first on even ranks, sends first on odd ones
            pair = [
                dist.P2POp(dist.irecv, gots[i], left, group=g.weft),
                dist.P2POp(dist.isend, fill((n,), torch.float32, g.rank, i), right, group=g.weft),
            ]
            ops += pair if g.rank % 2 == 0 else pair[::-1]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        for i in range(2):
            check(gots[i], fill((n,), torch.float32, left, i), ("ring", n, i))


def coalesced(g: Groups) -> None:
    from torch.distributed.distributed_c10d import _coalescing_manager

    shapes = [(3,), (1000,), (2, 5)]
    tensors = [fill(s, torch.float32, g.rank) for s in shapes]
    g.weft.allreduce_coalesced(tensors).wait()
    for t, s in zip(tensors, shapes, strict=True):
        check(t, reduced([fill(s, torch.float32, r) for r in range(g.size)], Op.SUM), "allreduce_coalesced")
    tensors = [fill(s, torch.float32, g.rank) for s in shapes]
    with _coalescing_manager(group=g.weft, async_ops=True) as manager:
        for t in tensors:
            dist.all_reduce(t, group=g.weft)
    manager.wait()
    for t, s in zip(tensors, shapes, strict=True):
        check(t, reduced([fill(s, torch.float32, r) for r in range(g.size)], Op.SUM), "manager, all_reduce")
    outs = [torch.empty(g.size * 4) for _ in range(3)]
    with _coalescing_manager(group=g.weft):
        for i in range(3):
            dist.all_gather_into_tensor(outs[i], fill((4,), torch.float32, g.rank, i), group=g.weft)
    for i in range(3):
        check(outs[i], torch.cat([fill((4,), torch.float32, r, i) for r in range(g.size)]), "manager, all_gather")
    outs = [torch.empty(4) for _ in range(3)]
    with _coalescing_manager(group=g.weft):
        for i in range(3):
            dist.reduce_scatter_tensor(outs[i], fill((g.size * 4,), torch.float32, g.rank, i), group=g.weft)
    for i in range(3):
        want = reduced([fill((g.size * 4,), torch.float32, r, i) for r in range(g.size)], Op.SUM)
        check(outs[i], want[4 * g.rank : 4 * g.rank + 4], "manager, reduce_scatter")
    g.weft._start_coalescing(torch.device("cpu"))
    mixed = torch.ones(3)
    dist.all_reduce(mixed, group=g.weft, async_op=True)
    premul = torch.ones(3)
    dist.all_reduce(premul, op=dist._make_nccl_premul_sum(2.0), group=g.weft, async_op=True)
    g.weft._end_coalescing(torch.device("cpu")).wait()
    check(mixed, torch.full((3,), float(g.size)), "started by hand")
    check(premul, torch.full((3,), 2.0 * g.size), "started by hand, with an operator of its own")


def objects(g: Groups) -> None:
    everything: list[object] = [None] * g.size
    dist.all_gather_object(everything, {"rank": g.rank, "text": "x" * (100 * g.rank)}, group=g.weft)
    assert [e["rank"] for e in everything] == list(range(g.size))
    box = [("from", 1)] if g.rank == 1 else [None]
    dist.broadcast_object_list(box, 1, group=g.weft)
    assert box == [("from", 1)]
    gathered: list[object] | None = [None] * g.size if g.rank == 0 else None
    dist.gather_object(g.rank * 7, gathered, 0, group=g.weft)
    assert gathered is None or gathered == [7 * r for r in range(g.size)]
    out: list[object] = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(g.size)] if g.rank == 0 else None, 0, group=g.weft)
    assert out == [f"for {g.rank}"]


# ---- Groups ----


def subgroups(g: Groups) -> None:
    everyone = list(range(g.size))
    overlapping = [everyone[:-1] or everyone, everyone[1:] or everyone, everyone[::-1][:2], everyone]
    made = [dist.new_group(members, backend="weft") for members in overlapping]
    for members, group in zip(overlapping, made, strict=True):
        if g.rank in members:
            t = torch.tensor([1.0 + g.rank])
            dist.all_reduce(t, group=group)
            assert t.item() == sum(1.0 + r for r in members), (members, t)
            t = torch.tensor([g.rank])
            dist.broadcast(t, members[-1], group=group)
            assert t.item() == members[-1]
    for members, group in zip(overlapping, made, strict=True):
        if g.rank in members:
            dist.destroy_process_group(group)
    mine = dist.new_group([g.rank], backend="weft", use_local_synchronization=True)
    t = torch.ones(3)
    dist.all_reduce(t, group=mine)
    dist.barrier(group=mine)
    check(t, torch.ones(3), "alone")


def split_and_merge(g: Groups) -> None:
    backend = backend_of(g)
    assert backend.supports_splitting and backend.supports_coalescing
    store = dist.PrefixStore("split", dist.distributed_c10d._get_default_store())
    options = backend.options
    members = list(range(g.size))[:2]
    part = backend.split(store, members, options)
    if g.rank in members:
        t = torch.ones(2)
        part.allreduce([t]).wait()
        check(t, torch.full((2,), 2.0), "split")
        part.shutdown()
    else:
        assert part is None


def sequence_numbers(g: Groups) -> None:
    before = backend_of(g).sequence_number
    for _ in range(3):
        dist.barrier(group=g.weft)
    assert backend_of(g).sequence_number == before + 3


def wrong_arguments_are_named(g: Groups) -> None:
    calls: list[tuple[str, Callable[[], object]]] = [
        ("world_size times", lambda: dist.all_gather_into_tensor(torch.empty(3), torch.empty(2), group=g.weft)),
        ("same type", lambda: g.weft._allgather_base(torch.empty(2 * g.size), torch.empty(2, dtype=torch.int32))),
        ("non-integral", lambda: dist.all_reduce(torch.ones(2), op=Op.BAND, group=g.weft)),
        ("complex", lambda: g.weft.allreduce([torch.ones(2, dtype=torch.complex64)], _all_reduce_options(Op.MAX))),
        ("cannot reduce", lambda: g.weft.allreduce([torch.ones(2).to(torch.float8_e4m3fnuz)])),
        ("one tensor", lambda: g.weft.allreduce([torch.ones(2), torch.ones(2)])),
        ("layout", lambda: backend_of(g).broadcast([torch.sparse_coo_tensor(size=(3, 3))])),
    ]
    for words, call in calls:
        try:
            call()
        except (RuntimeError, ValueError) as error:
            assert words in str(error), (words, str(error))
        else:
            raise AssertionError(f"accepted: {words}")
    meta = torch.empty(3, device="meta")
    try:
        backend_of(g).allreduce([meta], _all_reduce_options(Op.SUM))
    except RuntimeError as error:
        assert "device plugin" in str(error)
    else:
        raise AssertionError("a tensor without memory was accepted")
    dist.barrier(group=g.weft)


def works_tell_what_they_know(g: Groups) -> None:
    t = torch.ones(1 << 18)
    work = dist.all_reduce(t, group=g.weft, async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success()
    assert work.result()[0].data_ptr() == t.data_ptr()
    chained = dist.all_reduce(t, group=g.weft, async_op=True).get_future().then(lambda f: f.value()[0] / g.size)
    check(chained.wait(), torch.full_like(t, float(g.size)), "then")
    works = [dist.all_reduce(torch.ones(100), group=g.weft, async_op=True) for _ in range(300)]
    del works  # nobody waits: the tensors live until the operations have ended
    dist.barrier(group=g.weft)


def transport_memory(g: Groups) -> None:
    import weft

    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        t = weft.mem.zeros(1000, 3, dtype=dtype)
        assert t.shape == (1000, 3) and t.dtype == dtype
    t = weft.mem.empty(1 << 18).fill_(g.rank + 1.0)
    dist.all_reduce(t, group=g.weft)
    check(t, torch.full((1 << 18,), g.size * (g.size + 1) / 2), "all_reduce in transport memory")
    del t
    before = weft.mem.reserved()
    for _ in range(50):
        weft.mem.empty(1 << 18)
    assert weft.mem.reserved() == before, "freed memory is used again"
    backend = backend_of(g)
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    assert backend.allocate_tensor(10, dtype=torch.float64, device=torch.device("cpu")).numel() == 10


def registered_memory(g: Groups) -> None:
    import weft

    t = torch.arange(1 << 19, dtype=torch.float32)
    with weft.mem.registered(t):
        check(t, torch.arange(1 << 19, dtype=torch.float32), "contents stay")
        dist.all_reduce(t, group=g.weft)
        check(t, torch.arange(1 << 19, dtype=torch.float32) * g.size, "all_reduce in registered memory")
    check(t, torch.arange(1 << 19, dtype=torch.float32) * g.size, "contents stay after it")
    try:
        weft.mem.register(torch.empty(8))
    except RuntimeError as error:
        assert "page" in str(error), error
    else:
        raise AssertionError("less than a page was registered")


def threads_on_groups_of_their_own(g: Groups) -> None:
    import threading

    made = [dist.new_group(backend="weft") for _ in range(3)]
    problems: list[str] = []

    def work(i: int) -> None:
        try:
            for k in range(200):
                t = torch.full((1 + (k * 37) % 5000,), 1.0 + i)
                w = dist.all_reduce(t, group=made[i], async_op=k % 3 == 0)
                if w:
                    w.wait()
                assert t[0].item() == g.size * (1.0 + i) and t[-1].item() == t[0].item()
        except Exception as error:  # noqa: BLE001
            problems.append(repr(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems, problems
    for group in made:
        dist.destroy_process_group(group)


def barrier_that_names(g: Groups) -> None:
    import datetime

    import weft

    weft.monitored_barrier(g.weft)
    if g.rank == g.size - 1:
        return
    try:
        weft.monitored_barrier(g.weft, datetime.timedelta(milliseconds=500), wait_all_ranks=True)
    except RuntimeError as error:
        assert f"Rank {g.size - 1} failed to pass monitoredBarrier" in str(error), error
    else:
        raise AssertionError("a rank did not come, and nobody noticed")


CASES = [v for k, v in list(globals().items()) if callable(v) and getattr(v, "__module__", "") == "__main__"
         and getattr(v, "__annotations__", {}).get("return") == "None"
         and list(getattr(v, "__annotations__", {})) == ["g", "return"]]

if __name__ == "__main__":
    ranks.main(CASES)
