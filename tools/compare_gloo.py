# SPDX-License-Identifier: BSD-3-Clause
"""The Gloo side of weft-compare: torch.distributed, fp32, weft-bench's buffers, counts and timing rule.

Usage: compare_gloo.py COLLECTIVE SIZE... with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment.
Prints "bytes microseconds" per size on rank 0. bench_rule.h is the original of the rule.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

BATCH_S = 0.25
MIN_ITERS = 5


def rule_iters(size: int, call_s: float) -> int:
    """Return the calls in one timed batch for a message of `size` bytes."""
    iters = 4000 if size <= 4096 else 1000 if size <= 65536 else 200 if size <= 1 << 20 else 20
    if call_s > 0 and iters * call_s > BATCH_S:
        iters = int(BATCH_S / call_s)
    return max(iters, MIN_ITERS)


def rule_warmup(size: int) -> int:
    """Return the untimed calls before the batch."""
    return 20 if size <= 65536 else 5 if size <= 1 << 20 else 2


def make_call(coll: str, src: torch.Tensor, dst: torch.Tensor) -> Callable[[], None]:
    """Return the operation on src and dst (float32, 1-D, equally long)."""
    n = dist.get_world_size()
    rank = dist.get_rank()
    parts_src = list(src.chunk(n)) if src.numel() >= n else []
    parts_dst = list(dst.chunk(n)) if dst.numel() >= n else []
    if coll == "all_reduce":
        # Gloo's all-reduce is in place only: out of place costs a copy, which is part of the time.
        def call() -> None:
            dst.copy_(src)
            dist.all_reduce(dst)
        return call
    if coll == "broadcast":
        return lambda: dist.broadcast(src if rank == 0 else dst, 0)
    if coll == "all_gather":
        return lambda: dist.all_gather(parts_dst, parts_src[0])
    if coll == "reduce_scatter":
        # c10d's Gloo backend offers reduce_scatter only for tensors.
        return lambda: dist.reduce_scatter_tensor(parts_dst[0], src)
    if coll == "all_to_all":
        return lambda: dist.all_to_all_single(dst, src)
    raise SystemExit(f"compare_gloo.py: unknown collective {coll}")


def mean_over_ranks(value: float, op: dist.ReduceOp) -> float:
    """Combine one number over all ranks."""
    t = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(t, op=op)
    return float(t[0])


def measure(coll: str, size: int) -> float:
    """Return seconds per call, averaged over ranks."""
    elems = size // 4
    src = torch.arange(elems, dtype=torch.float32).remainder_(1024)
    dst = torch.zeros(elems, dtype=torch.float32)
    call = make_call(coll, src, dst)
    call()
    warm = rule_warmup(size)
    start = time.monotonic()
    for _ in range(warm):
        call()
    iters = rule_iters(size, mean_over_ranks((time.monotonic() - start) / warm, dist.ReduceOp.MAX))
    call()
    src.copy_(torch.arange(elems, dtype=torch.float32).add_(dist.get_rank()).remainder_(1024))
    dist.barrier()
    start = time.monotonic()
    for _ in range(iters):
        call()
    return mean_over_ranks((time.monotonic() - start) / iters, dist.ReduceOp.SUM) / dist.get_world_size()


def main() -> None:
    """Measure every size named on the command line."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for text in sys.argv[2:]:
        seconds = measure(sys.argv[1], int(text))
        if dist.get_rank() == 0:
            print(f"{int(text)} {seconds * 1e6:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
