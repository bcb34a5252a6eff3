#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Speed of weft against Gloo through torch.distributed: the same loop, the backends taking turns.

    bench.py                     2 and 4 ranks, all operations, four sizes
    bench.py --floors            exit 1 below the floors: 15 times at <= 4 KiB, 5 at 256 KiB, 2 at 16 MiB
    bench.py --ranks 2 --only all_reduce --rounds 7
    bench.py --fake              only the 8-byte all_reduce against PyTorch's `fake` backend (floor: 3 times its time)

A number is the median over rounds of the time of the slowest rank. Sizes are of the whole vector on one rank: the output
of all_gather_into_tensor, the input of reduce_scatter_tensor.
"""

import argparse
import os
import re
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("OMP_NUM_THREADS", "1")

SIZES = {8: 300, 4096: 200, 262144: 60, 16777216: 6}  # bytes: calls in a batch
FLOORS = {8: 15.0, 4096: 15.0, 262144: 5.0, 16777216: 2.0}
FAKE_FLOOR = 3.0
BATCHES = 3


def operations(world, rank):
    """name: function of the number of floats that returns the call to be timed."""
    import torch
    import torch.distributed as dist

    def share(n):
        return torch.zeros(max(n // world, 1))

    def whole(n):
        return torch.zeros(max(n // world, 1) * world)

    def all_reduce(n):
        t = torch.zeros(n)
        return lambda: dist.all_reduce(t)

    def all_gather_into_tensor(n):
        out, mine = whole(n), share(n)
        return lambda: dist.all_gather_into_tensor(out, mine)

    def reduce_scatter_tensor(n):
        mine, all_of_it = share(n), whole(n)
        return lambda: dist.reduce_scatter_tensor(mine, all_of_it)

    def all_to_all_single(n):
        out, given = whole(n), whole(n)
        return lambda: dist.all_to_all_single(out, given)

    def broadcast(n):
        t = torch.zeros(n)
        return lambda: dist.broadcast(t, src=0)

    def send_recv(n):  # there and back between ranks 0 and 1, the others rest
        t = torch.zeros(n)

        def ping():
            dist.send(t, 1)
            dist.recv(t, 1)

        def pong():
            dist.recv(t, 0)
            dist.send(t, 0)

        return {0: ping, 1: pong}.get(rank, lambda: None)

    def barrier(n):
        return dist.barrier if n == 2 else None

    return [all_reduce, all_gather_into_tensor, reduce_scatter_tensor, all_to_all_single, broadcast, send_recv, barrier]


def timed(call, calls):
    """Microseconds of one call: the median over batches."""
    import torch.distributed as dist

    for _ in range(max(calls // 10, 2)):
        call()
    times = []
    for _ in range(BATCHES):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


def rank_times(rank, world, only=""):
    """What one rank measures in one round: {(operation, bytes): microseconds}."""
    import warnings

    warnings.simplefilter("ignore")
    times = {}
    for operation in operations(world, rank):
        if not re.search(only, operation.__name__):
            continue
        for size, calls in SIZES.items():
            call = operation(size // 4)
            if call is not None:
                times[operation.__name__, size] = timed(call, calls)
    return times


def one_round(backend, world, only):
    from integration_ranks import run

    ranks = run(lambda rank, size: rank_times(rank, size, only), backend, world, deadline=400, timeout=300)
    return {key: max(times[key] for times in ranks) for key in ranks[0]}


def compare(world, options):
    """Print one table; return the rows that are below their floor."""
    rounds = {"gloo": [], options.backend: []}
    for _ in range(options.rounds):
        for backend in rounds:
            rounds[backend].append(one_round(backend, world, options.only))
    print(f"\n{world} ranks, {os.cpu_count()} cores, {options.rounds} rounds; microseconds of one call")
    print(f"{'operation':24s} {'bytes':>9s} {'gloo':>10s} {options.backend:>10s} {'ratio':>8s} {'floor':>6s}")
    below = []
    for key in rounds["gloo"][0]:
        gloo, ours = (statistics.median(r[key] for r in rounds[b]) for b in rounds)
        ratio, floor = gloo / ours, FLOORS[key[1]]
        note = "" if ratio >= floor else "  below"
        below += [(world, *key, ratio)] if note else []
        size = "" if key[0] == "barrier" else key[1]
        print(f"{key[0]:24s} {size:>9} {gloo:10.1f} {ours:10.1f} {ratio:8.1f} {floor:6.0f}{note}", flush=True)
    return below


def against_fake(options):
    """The 8-byte all_reduce from Python to Python, against a backend that does nothing: on the same ranks, in turn, so that
    both find the machine in the same state."""
    from integration_ranks import run

    def in_turn(rank, world):
        import torch
        import torch.distributed as dist
        import torch.testing._internal.distributed.fake_pg  # noqa: F401 - makes the name known

        t = torch.zeros(2)
        groups = dist.new_group(backend="fake"), dist.new_group(backend=options.backend)
        return [[timed(lambda g=g: dist.all_reduce(t, group=g), 3000) for g in groups] for _ in range(options.rounds)]

    rounds = [r for _ in range(2) for r in zip(*run(in_turn, options.backend, 2), strict=True)]  # per round, of each rank
    nothing, ours = (statistics.median(max(pair[i] for pair in ranks) for ranks in rounds) for i in (0, 1))
    ratio = statistics.median(max(p[1] for p in ranks) / max(p[0] for p in ranks) for ranks in rounds)
    print(f"\nall_reduce of 8 bytes, 2 ranks: fake {nothing:.1f} us, {options.backend} {ours:.1f} us, "
          f"{ratio:.2f} times (floor {FAKE_FLOOR}, goal 1.4)")
    return [] if ratio <= FAKE_FLOOR else [(2, "all_reduce against fake", 8, ratio)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="regular expression on the operation's name")
    parser.add_argument("--fake", action="store_true", help="only the comparison with the fake backend")
    parser.add_argument("--floors", action="store_true", help="exit 1 when a row is below its floor")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    below = []
    if not options.fake:
        for world in map(int, options.ranks.split(",")):
            below += compare(world, options)
    if options.fake or not options.only:
        below += against_fake(options)
    print(f"\nbench: {len(below)} below the floor" + "".join(f"\n  {row[0]} ranks, {row[1]}, {row[2]} bytes: {row[3]:.1f}"
                                                             for row in below))
    return 1 if below and options.floors else 0


if __name__ == "__main__":
    sys.exit(main())
