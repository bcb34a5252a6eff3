# SPDX-License-Identifier: BSD-3-Clause
"""The table of weft-bench, measured through torch.distributed; for any backend.

As a program, under torchrun::

    torchrun --nproc-per-node 2 -m weft.bench all_reduce --max 16M
    torchrun --nproc-per-node 2 -m weft.bench all --backend gloo
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

__all__ = ["OPERATIONS", "Row", "bench", "main"]


class Row(NamedTuple):
    """One line: times are medians over batches, of the slowest rank."""

    operation: str
    bytes: int  #: as weft-bench counts: of the vector, or of all shares together
    time_us: float
    algbw: float  #: GB/s
    busbw: float  #: GB/s, comparable between operations and sizes of group


Call = Callable[[], object]


def _all_reduce(n: int, size: int) -> Call:
    x = torch.zeros(n)
    return lambda: dist.all_reduce(x)


def _all_gather(n: int, size: int) -> Call:
    out = torch.zeros(max(n // size, 1) * size)
    mine = torch.zeros(max(n // size, 1))
    return lambda: dist.all_gather_into_tensor(out, mine)


def _reduce_scatter(n: int, size: int) -> Call:
    full = torch.zeros(max(n // size, 1) * size)
    mine = torch.zeros(max(n // size, 1))
    return lambda: dist.reduce_scatter_tensor(mine, full)


def _all_to_all(n: int, size: int) -> Call:
    a, b = torch.zeros(max(n // size, 1) * size), torch.zeros(max(n // size, 1) * size)
    return lambda: dist.all_to_all_single(b, a)


def _broadcast(n: int, size: int) -> Call:
    x = torch.zeros(n)
    return lambda: dist.broadcast(x, 0)


def _reduce(n: int, size: int) -> Call:
    x = torch.zeros(n)
    return lambda: dist.reduce(x, 0)


def _barrier(n: int, size: int) -> Call:
    return lambda: dist.barrier()


def _sendrecv(n: int, size: int) -> Call:
    x = torch.zeros(n)
    rank = dist.get_rank()
    if rank > 1:
        return lambda: None
    peer = 1 - rank

    def ping_pong() -> None:
        if rank == 0:
            dist.send(x, peer)
            dist.recv(x, peer)
        else:
            dist.recv(x, peer)
            dist.send(x, peer)

    return ping_pong


class _Operation(NamedTuple):
    make: Callable[[int, int], Call]
    bus: Callable[[int], float]  #: factor from algorithm to bus bandwidth


OPERATIONS: dict[str, _Operation] = {
    "all_reduce": _Operation(_all_reduce, lambda p: 2 * (p - 1) / p),
    "all_gather": _Operation(_all_gather, lambda p: (p - 1) / p),
    "reduce_scatter": _Operation(_reduce_scatter, lambda p: (p - 1) / p),
    "all_to_all": _Operation(_all_to_all, lambda p: (p - 1) / p),
    "broadcast": _Operation(_broadcast, lambda p: 1.0),
    "reduce": _Operation(_reduce, lambda p: 1.0),
    "barrier": _Operation(_barrier, lambda p: 0.0),
    "sendrecv": _Operation(_sendrecv, lambda p: 1.0),  # there and back
}


def _time(call: Call, seconds: float) -> float:
    """Microseconds per call: the median of batches, of the slowest rank."""
    for _ in range(5):
        call()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(10):
        call()
    once = torch.tensor([(time.perf_counter() - start) / 10], dtype=torch.float64)
    dist.all_reduce(once, op=dist.ReduceOp.MAX)
    per_batch = max(1, min(5000, int(seconds / 5 / max(once.item(), 1e-7))))
    batches = []
    for _ in range(5):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(per_batch):
            call()
        batches.append((time.perf_counter() - start) / per_batch)
    mine = torch.tensor([statistics.median(batches)], dtype=torch.float64)
    dist.all_reduce(mine, op=dist.ReduceOp.MAX)
    return mine.item() * 1e6


def bench(
    operation: str = "all_reduce", min_bytes: int = 8, max_bytes: int = 1 << 24, factor: int = 4, seconds: float = 0.25
) -> list[Row]:
    """Time one operation on float32 in the default group, on all ranks together; rank 0 prints the table.

    Args:
        operation: a key of :data:`OPERATIONS`.
        min_bytes: the smallest message.
        max_bytes: the largest message.
        factor: from one size to the next.
        seconds: about how long each size takes.
    """
    size, rank = dist.get_world_size(), dist.get_rank()
    what = OPERATIONS[operation]
    rows: list[Row] = []
    if rank == 0:
        print(f"# {operation}, {size} ranks, backend {dist.get_backend()}, float32")
        print(f"# {'size (B)':>12} {'time (us)':>12} {'algbw (GB/s)':>14} {'busbw (GB/s)':>14}")
    nbytes = min_bytes
    while nbytes <= max_bytes:
        us = _time(what.make(max(nbytes // 4, 1), size), seconds)
        algbw = nbytes / us / 1e3
        rows.append(Row(operation, nbytes, us, algbw, algbw * what.bus(size)))
        if rank == 0:
            print(f"  {nbytes:12d} {us:12.2f} {algbw:14.3f} {rows[-1].busbw:14.3f}", flush=True)
        nbytes *= factor
        if operation == "barrier":
            break
    return rows


def _size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def main() -> None:
    """`python -m weft.bench`: see the module."""
    parser = argparse.ArgumentParser(prog="weft.bench", description="Time collectives through torch.distributed.")
    parser.add_argument("operation", nargs="*", default=["all_reduce"], help=f"{', '.join(OPERATIONS)}, or all")
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--min", type=_size, default=8, help="smallest message; K, M, G are powers of 1024")
    parser.add_argument("--max", type=_size, default=1 << 24, help="largest message")
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.25, help="for each size")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(args.backend)
    for name in OPERATIONS if "all" in args.operation else args.operation:
        bench(name, args.min, args.max, args.factor, args.seconds)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
