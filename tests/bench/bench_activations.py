#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What activation checkpoints save and cost: bytes that a forward pass leaves in memory, and the time of forward and backward.

    bench_activations.py [--layers 12] [--dim 256] [--batch 8] [--turns 7] [--folder /tmp] [--ranks 2]

A GPT of equal blocks in stage 3 on --ranks ranks, one thread each, 64 tokens a sequence. Ways take turns, step by step. Bytes: what
the process has after the forward pass more than before it (resident memory, the median of turns), and what is kept of inputs by
count, with the file's buffers. "time" is the least of all turns (of the slowest rank) beside the least without
checkpoints, as what else runs on the machine only adds to it; "processor" the same of processor time, all ranks together, by
medians. "parts" keeps a share of each input on every rank, as for ranks of tensor parallelism: all ranks get the same batches here.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "torch"), os.path.join(HERE, "..", "..", "examples", "torch")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What is freed goes back to the system at once, so that resident memory is what is in use. The C library looks when it starts.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ways(folder, group):
    return {
        "none": None,
        "every block": {},
        "every 2nd": {"every": 2},
        "every 3rd": {"every": 3},
        "sqrt": {"every": "sqrt"},
        "every block, file": {"keep": "disk", "folder": folder},
        "sqrt, file": {"every": "sqrt", "keep": "disk", "folder": folder},
        "every block, parts": {"group": group},
        "sqrt, parts": {"every": "sqrt", "group": group},
    }


def train(options, folder):
    """On each rank: by way, [bytes after forward, kept bytes, seconds, processor seconds] of each turn."""
    import common
    import torch
    from weft import zero

    data = list(common.batches(4, options.batch, seed=1))
    made, seen = {}, {}
    for name, way in ways(folder, None if options.ranks == 1 else torch.distributed.group.WORLD).items():
        if options.ranks == 1 and way and "group" in way:
            continue
        torch.manual_seed(0)
        model = common.gpt(options.layers, options.dim)
        points = None if way is None else zero.checkpoint_units(model, **way)
        config = {"train_micro_batch_size_per_gpu": options.batch, "zero_optimization": {"stage": 3}}
        made[name] = zero.initialize(model, "adamw", config, lr=1e-3), points
        seen[name] = []
    for turn in range(options.turns + 1):
        for name, (engine, points) in made.items():
            tokens, target = data[turn % len(data)]
            gc.collect()
            torch.distributed.barrier()
            before, begun, busy = resident(), time.perf_counter(), time.process_time()
            loss = common.loss_of(engine(tokens), target)
            after = resident() - before
            engine.backward(loss)
            took, busy = time.perf_counter() - begun, time.process_time() - busy
            del loss
            engine.step()
            engine.synchronize()
            seen[name].append((after, points.stats()["most_bytes"] if points else 0, took, busy))
    for engine, _ in made.values():
        engine.destroy()
    return {name: turns[1:] for name, turns in seen.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"layers": 12, "dim": 256, "batch": 8, "turns": 7, "ranks": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", help="of the file of activations; default: one in the folder for temporary files")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    from integration_ranks import run

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        results = run(lambda rank, world: train(options, folder), "gloo", options.ranks, deadline=1800, timeout=600)
    print(f"{options.layers} blocks of width {options.dim}, {options.batch} sequences of 64 tokens, {options.ranks} ranks")
    print(f"{'':20} {'after forward':>14} {'inputs kept':>12} {'time':>6} {'processor':>10}")

    def times(name):
        """The least time of the slowest rank, and the median of processor time."""
        turns = list(zip(*(result[name] for result in results), strict=True))
        return min(max(t[2] for t in turn) for turn in turns), statistics.median(sum(t[3] for t in turn) for turn in turns)

    plain = times("none")
    for name in results[0]:
        left = statistics.median(turn[0] for turn in results[0][name]) / 2**20
        kept = max(turn[1] for turn in results[0][name]) / 2**20
        wall, busy = (mine / theirs for mine, theirs in zip(times(name), plain, strict=True))
        print(f"{name:20} {left:10.1f} MiB {kept:8.2f} MiB {wall:6.2f} {busy:10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
