# SPDX-License-Identifier: BSD-3-Clause
"""Operations issued together: torch's coalescing manager, batches of messages, several groups and threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
import ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from ranks import Groups  # noqa: E402
from torch.distributed.distributed_c10d import _coalescing_manager  # noqa: E402

CPU = torch.device("cpu")
SIZES = [1, 0, 1000, 3, 1 << 18, 17]


def full(n: int, value: float) -> torch.Tensor:
    return torch.full((n,), float(value))


def same(got: torch.Tensor, want: torch.Tensor, what: object) -> None:
    assert torch.equal(got, want), f"{what}: got {got.flatten()[:6]}, want {want.flatten()[:6]}"


@contextmanager
def raises(words: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError(f"no failure that says {words!r}")


Check = Callable[[], None]


def _broadcast(g: Groups, n: int, is_async: bool) -> Check:
    t = full(n, g.rank + 1)
    dist.broadcast(t, g.size - 1, group=g.weft, async_op=is_async)
    return lambda: same(t, full(n, g.size), ("broadcast", n))


def _reduce(g: Groups, n: int, is_async: bool) -> Check:
    t = full(n, g.rank + 1)
    dist.reduce(t, 0, group=g.weft, async_op=is_async)
    return lambda: same(t, full(n, g.size * (g.size + 1) / 2 if g.rank == 0 else g.rank + 1), ("reduce", n))


def _all_reduce(g: Groups, n: int, is_async: bool) -> Check:
    t = full(n, g.rank + 1)
    options = dist.AllreduceOptions()
    options.asyncOp = is_async
    work = g.weft.allreduce([t], options)
    if not is_async:
        work.wait()
    return lambda: same(t, full(n, g.size * (g.size + 1) / 2), ("all_reduce", n))


def _all_gather(g: Groups, n: int, is_async: bool) -> Check:
    outs = [torch.zeros(n) for _ in range(g.size)]
    dist.all_gather(outs, full(n, g.rank), group=g.weft, async_op=is_async)
    return lambda: same(torch.cat(outs), torch.cat([full(n, r) for r in range(g.size)]), ("all_gather", n))


def _all_gather_uneven(g: Groups, n: int, is_async: bool) -> Check:
    outs = [torch.zeros(n + r) for r in range(g.size)]
    dist.all_gather(outs, full(n + g.rank, g.rank), group=g.weft, async_op=is_async)
    return lambda: same(torch.cat(outs), torch.cat([full(n + r, r) for r in range(g.size)]), ("all_gather, uneven", n))


def _gather(g: Groups, n: int, is_async: bool) -> Check:
    outs = [torch.zeros(n) for _ in range(g.size)] if g.rank == 1 else None
    dist.gather(full(n, g.rank), outs, 1, group=g.weft, async_op=is_async)
    wants = torch.cat([full(n, r) for r in range(g.size)])
    return lambda: same(torch.cat(outs), wants, ("gather", n)) if outs else None


def _scatter(g: Groups, n: int, is_async: bool) -> Check:
    out = torch.zeros(n)
    dist.scatter(out, [full(n, r) for r in range(g.size)] if g.rank == 0 else None, 0, group=g.weft, async_op=is_async)
    return lambda: same(out, full(n, g.rank), ("scatter", n))


def _reduce_scatter(g: Groups, n: int, is_async: bool) -> Check:
    out = torch.zeros(n)
    dist.reduce_scatter(out, [full(n, r + g.rank) for r in range(g.size)], group=g.weft, async_op=is_async)
    return lambda: same(out, full(n, sum(g.rank + r for r in range(g.size))), ("reduce_scatter", n))


def _all_to_all(g: Groups, n: int, is_async: bool) -> Check:
    outs = [torch.zeros(n) for _ in range(g.size)]
    dist.all_to_all(outs, [full(n, 10 * g.rank + r) for r in range(g.size)], group=g.weft, async_op=is_async)
    wants = torch.cat([full(n, 10 * r + g.rank) for r in range(g.size)])
    return lambda: same(torch.cat(outs), wants, ("all_to_all", n))


def _all_to_all_single(g: Groups, n: int, is_async: bool) -> Check:
    out = torch.zeros(n * g.size)
    give = torch.cat([full(n, 10 * g.rank + r) for r in range(g.size)])
    dist.all_to_all_single(out, give, group=g.weft, async_op=is_async)
    return lambda: same(out, torch.cat([full(n, 10 * r + g.rank) for r in range(g.size)]), ("all_to_all_single", n))


def _strided_broadcast(g: Groups, n: int, is_async: bool) -> Check:
    t = torch.stack([full(n, g.rank + 1), full(n, -1)], 1)
    dist.broadcast(t[:, 0], 0, group=g.weft, async_op=is_async)
    return lambda: same(t, torch.stack([full(n, 1), full(n, -1)], 1), ("broadcast, strided", n))


def _barrier(g: Groups, _: int, is_async: bool) -> Check:
    dist.barrier(group=g.weft, async_op=is_async)
    return lambda: None


def _ring(g: Groups, n: int, _: bool) -> Check:
    got = torch.zeros(n)
    dist.irecv(got, (g.rank - 1) % g.size, group=g.weft)
    dist.isend(full(n, g.rank), (g.rank + 1) % g.size, group=g.weft)
    return lambda: same(got, full(n, (g.rank - 1) % g.size), ("ring", n))


OPERATIONS = [_broadcast, _reduce, _all_reduce, _all_gather, _all_gather_uneven, _gather, _scatter, _reduce_scatter, _all_to_all,
              _all_to_all_single, _strided_broadcast, _barrier, _ring]  # fmt: skip


# ---- Values ----


def four_large_broadcasts(g: Groups) -> None:
    """An operation that its caller waits for within the batch is complete when the batch is."""
    wrong = 0
    for i in range(20):
        tensors = [full(1 << 20, 100 * i + k if g.rank == 0 else -1) for k in range(4)]
        with _coalescing_manager(group=g.weft, device=CPU):
            for t in tensors:
                dist.broadcast(t, 0, group=g.weft)
        wrong += sum(not torch.equal(t, full(1 << 20, 100 * i + k)) for k, t in enumerate(tensors))
    assert not wrong, f"{wrong} of 80 tensors are wrong"


def every_operation(g: Groups) -> None:
    for batch_async in (False, True):
        for is_async in (False, True):
            for operation in OPERATIONS:
                with _coalescing_manager(group=g.weft, device=CPU, async_ops=batch_async) as manager:
                    checks = [operation(g, n, is_async) for n in SIZES]
                manager.wait()
                for check in checks:
                    check()


def all_operations_together(g: Groups) -> None:
    for batch_async in (False, True):
        for is_async in (False, True):
            with _coalescing_manager(group=g.weft, device=CPU, async_ops=batch_async) as manager:
                checks = [operation(g, n, is_async) for n in SIZES for operation in OPERATIONS]
            manager.wait()
            for check in checks:
                check()


def works_of_a_batch(g: Groups) -> None:
    """What an operation returns within a batch completes with it, in whatever way it is waited for."""
    for way in ("wait", "future", "poll"):
        t = full(1 << 18, g.rank)
        with _coalescing_manager(group=g.weft, device=CPU, async_ops=True) as manager:
            work = dist.broadcast(t, 0, group=g.weft, async_op=True)
            assert not work.is_completed()
            future = work.get_future() if way == "future" else None
        if future is not None:
            same(future.wait()[0], full(1 << 18, 0), way)
        elif way == "wait":
            work.wait()
        else:
            while not work.is_completed():
                pass
        same(t, full(1 << 18, 0), way)
        manager.wait()
        assert work.is_success()
    with _coalescing_manager(group=g.weft, device=CPU):
        pass  # an empty one


def another_thread_waits(g: Groups) -> None:
    """A thread that has not opened the batch waits for its operations until they are issued and complete."""
    t, seen = full(1 << 18, g.rank), []
    g.weft._start_coalescing(CPU)
    work = dist.broadcast(t, 0, group=g.weft, async_op=True)
    thread = threading.Thread(target=lambda: (work.wait(), seen.append(t[-1].item())))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive(), "the wait has ended before the operation was issued"
    g.weft._end_coalescing(CPU)
    thread.join(60)
    assert seen == [0.0], seen


# ---- What is left, refused, nested ----


def an_exception_inside(g: Groups) -> None:
    """Operations of a batch that was left by an exception are not issued, and the group goes on."""
    right, left = (g.rank + 1) % g.size, (g.rank - 1) % g.size
    before = g.weft._get_backend(CPU).sequence_number
    works = []
    with raises("on purpose"), _coalescing_manager(group=g.weft, device=CPU):
        works.append(dist.broadcast(full(5, g.rank), 0, group=g.weft, async_op=True))
        raise ValueError("on purpose")
    # torch, which keeps a list of calls meanwhile, has forgotten it: else it would take this one for a part of the batch.
    total = full(100, g.rank)
    dist.all_reduce(total, group=g.weft)
    same(total, full(100, sum(range(g.size))), "all_reduce after an exception")
    with raises("on purpose"), _coalescing_manager(group=g.weft, device=CPU):
        dist.all_reduce(full(5, g.rank), group=g.weft)
        raise ValueError("on purpose")
    with _coalescing_manager(group=g.weft, device=CPU):
        dist.all_reduce(total, group=g.weft)
    same(total, full(100, g.size * sum(range(g.size))), "a batch after an exception")
    t = full(1000, g.rank)
    dist.broadcast(t, 0, group=g.weft)
    same(t, full(1000, 0), "after an exception")
    with raises("not issued"):
        works[0].wait()
    with raises("tag -5"):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, full(3, g.rank), right, group=g.weft, tag=5),
                                dist.P2POp(dist.isend, full(3, g.rank), right, group=g.weft, tag=-5)])  # fmt: skip
    got = torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, full(4, g.rank), right, group=g.weft, tag=5),
                                        dist.P2POp(dist.irecv, got, left, group=g.weft, tag=5)]):  # fmt: skip
        work.wait()
    same(got, full(4, left), "messages after an exception")
    dist.all_reduce(total, group=g.weft)  # after a batch of messages that was refused
    same(total, full(100, g.size * g.size * sum(range(g.size))), "all_reduce after a refused batch")
    assert g.weft._get_backend(CPU).sequence_number == before + 4


def one_batch_in_another(g: Groups) -> None:
    second = dist.new_group(backend="weft")
    a, b, c = full(7, g.rank), full(100000, g.rank + 10), full(9, g.rank + 20)
    with _coalescing_manager(group=g.weft, device=CPU):
        dist.broadcast(a, 0, group=g.weft)
        with _coalescing_manager(group=second, device=CPU):
            dist.broadcast(b, 0, group=second)
        same(b, full(100000, 10), "the inner one is complete")
        dist.broadcast(c, 0, group=g.weft)
    same(a, full(7, 0), "the outer one, first")
    same(c, full(9, 20), "the outer one, second")
    dist.destroy_process_group(second)
    g.weft._start_coalescing(CPU)
    t = full(5, g.rank)
    dist.broadcast(t, 0, group=g.weft)
    with raises("open already"):
        g.weft._start_coalescing(CPU)
    g.weft._end_coalescing(CPU).wait()
    same(t, full(5, 0), "what was refused leaves the batch as it is")
    with raises("no batch"):
        g.weft._end_coalescing(CPU)


def what_cannot_be_in_a_batch(g: Groups) -> None:
    t = full(3, g.rank)
    g.weft._start_coalescing(CPU)
    dist.broadcast(t, 0, group=g.weft)
    with raises("batch"):
        g.weft.allreduce([torch.sparse_coo_tensor([[0]], [1.0], (3,))])
    with raises("batch"):
        g.weft.recv_anysource([torch.ones(3)], 0)
    g.weft._end_coalescing(CPU).wait()
    same(t, full(3, 0), "the rest of the batch")


def a_group_that_ends_with_a_batch_open(g: Groups) -> None:
    group = dist.new_group(backend="weft")
    group._start_coalescing(CPU)
    work = dist.broadcast(torch.ones(3), 0, group=group, async_op=True)
    backend = group._get_backend(CPU)
    backend.shutdown()
    with raises("shut down"):
        group._end_coalescing(CPU)
    with raises("not issued"):
        work.wait()
    dist.destroy_process_group(group)


# ---- Threads ----


def in_threads(count: int, run: Callable[[int], None]) -> None:
    problems: list[str] = []

    def guarded(i: int) -> None:
        try:
            run(i)
        except Exception as error:  # noqa: BLE001
            problems.append(f"thread {i}: {error!r}")

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems, problems


def threads_with_a_group_each(g: Groups) -> None:
    made = [dist.new_group(backend="weft") for _ in range(2)]

    def run(i: int) -> None:
        for k in range(50):
            tensors = [full(n, 1000 * i + k if g.rank == 0 else -1) for n in (1, 5000, 60000)]
            made[i]._start_coalescing(CPU)
            for t in tensors:
                dist.broadcast(t, 0, group=made[i])
            made[i]._end_coalescing(CPU).wait()
            for t in tensors:
                same(t, full(t.numel(), 1000 * i + k), (i, k))

    in_threads(2, run)
    for group in made:
        dist.destroy_process_group(group)


def threads_with_one_group(g: Groups) -> None:
    """A batch belongs to the thread that has opened it: what others issue meanwhile is not part of it."""
    if g.rank > 1:
        return
    both_open, other = threading.Barrier(2), 1 - g.rank

    def run(i: int) -> None:
        got = torch.zeros(1000)
        g.weft._start_coalescing(CPU)
        both_open.wait(60)
        dist.isend(full(1000, 10 * i + g.rank), other, group=g.weft, tag=i)
        dist.irecv(got, other, group=g.weft, tag=i)
        both_open.wait(60)
        g.weft._end_coalescing(CPU).wait()
        same(got, full(1000, 10 * i + other), i)

    in_threads(2, run)
    g.weft._start_coalescing(CPU)
    got: list[float] = []

    def outside(_: int) -> None:
        t = torch.zeros(3)
        dist.isend(full(3, g.rank), other, group=g.weft)
        dist.recv(t, other, group=g.weft)
        got.append(t[0].item())

    in_threads(1, outside)
    g.weft._end_coalescing(CPU)
    assert got == [float(other)], got


# ---- Numbers ----


def messages_do_not_count_as_collectives(g: Groups) -> None:
    """Only two ranks exchange messages; afterwards all agree on the number of collectives."""
    import weft

    backend = g.weft._get_backend(CPU)
    weft.trace.clear()
    before = backend.sequence_number
    if g.rank < 2:
        got = torch.zeros(8)
        ops = [dist.P2POp(dist.isend, full(8, g.rank), 1 - g.rank, group=g.weft),
               dist.P2POp(dist.irecv, got, 1 - g.rank, group=g.weft)]  # fmt: skip
        for _ in range(3):
            for work in dist.batch_isend_irecv(ops):
                work.wait()
    dist.all_reduce(torch.ones(3), group=g.weft)
    numbers: list[object] = [None] * g.size
    dist.all_gather_object(numbers, backend.sequence_number, group=g.gloo)
    assert numbers == [before + 1] * g.size, (before, numbers)
    entries = weft.flight_recorder.record()["entries"]
    assert [e["collective_seq_id"] for e in entries if not e["is_p2p"]] == [before + 1], entries
    messages = [e for e in entries if e["is_p2p"]]
    first = messages[0]["p2p_seq_id"] if messages else 0
    batches = [(e["profiling_name"].split()[0], e["p2p_seq_id"] - first) for e in messages]
    one = ["gloo:send", "gloo:recv", "gloo:coalesced"]
    assert batches == ([(name, i) for i in range(3) for name in one] if g.rank < 2 else []), batches


def a_batch_of_collectives_counts_once(g: Groups) -> None:
    import weft

    backend = g.weft._get_backend(CPU)
    weft.trace.clear()
    before = backend.sequence_number
    with _coalescing_manager(group=g.weft, device=CPU):
        for n in (3, 4):
            dist.broadcast(torch.ones(n), 0, group=g.weft)
    dist.barrier(group=g.weft)
    entries = weft.flight_recorder.record()["entries"]
    got = [(e["profiling_name"], e["collective_seq_id"] - before, e["state"]) for e in entries]
    assert got == [("gloo:broadcast", 1, "completed"), ("gloo:broadcast", 1, "completed"), ("gloo:coalesced", 1, "completed"),
                   ("gloo:barrier", 2, "completed")], got  # fmt: skip
    assert backend.sequence_number == before + 2


CASES = [four_large_broadcasts, every_operation, all_operations_together, works_of_a_batch, another_thread_waits,
         an_exception_inside, one_batch_in_another, what_cannot_be_in_a_batch, a_group_that_ends_with_a_batch_open,
         threads_with_a_group_each, threads_with_one_group, messages_do_not_count_as_collectives,
         a_batch_of_collectives_counts_once]  # fmt: skip

if __name__ == "__main__":
    ranks.main(CASES)
