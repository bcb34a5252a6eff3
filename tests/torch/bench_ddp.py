#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A DDP step of a GPT of ten million parameters on weft and on Gloo, two ranks of one thread each.

    bench_ddp.py [--backend weft] [--floors] [--bound]

Prints the median step of both (the backends take turns), demands that losses are the same bit for bit in every run, and
that the profiler shows all_reduce at work while the backward pass computes. --floors: exit 1 when the step takes more
than 0.9 of Gloo's. --bound: also a step whose gradients stay where they are, which no backend can beat.
"""

import argparse
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "examples", "torch")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

WORLD, DIM, LAYERS, BATCH, STEPS, WARM = 2, 512, 3, 1, 19, 4
FLOOR = 0.9


def joined(intervals):
    """The union of intervals, as a sorted list of disjoint ones."""
    union = []
    for begin, end in sorted(intervals):
        if union and begin <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([begin, end])
    return union


def common_length(a, b):
    """How long two unions of intervals hold at the same time."""
    return sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)


def overlap(profile):
    """Of a profile of one step: (number of all_reduces, microseconds of them, of those within backward functions)."""
    events = [(e.name, [e.time_range.start, e.time_range.end]) for e in profile.events()]
    reduces = [t for name, t in events if name.endswith(":all_reduce")]
    backward = joined([t for name, t in events if name.startswith("autograd::engine::evaluate_function")])
    reducing = joined(reduces)
    return len(reduces), sum(end - begin for begin, end in reducing), common_length(reducing, backward)


def train(rank, world, alone=False):
    """One run: (losses, seconds of each step after the warm-up, the overlap of one more step). alone: nothing is reduced."""
    import common
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    model = DistributedDataParallel(common.gpt(LAYERS, DIM), bucket_cap_mb=8)
    if alone:
        model.register_comm_hook(None, keep)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(tokens, target):
        loss = common.loss_of(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    losses, seconds = [], []
    data = list(common.batches(STEPS + 1, BATCH, seed=rank))
    for batch in data[:-1]:
        start = time.perf_counter()
        losses.append(step(*batch))
        seconds.append(time.perf_counter() - start)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        losses.append(step(*data[-1]))
    return losses, seconds[WARM:], overlap(seen), sum(p.numel() for p in model.parameters())


def keep(_, bucket):
    """A hook for DDP that sends nothing."""
    import torch

    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def print_bound(rounds, gloo, ours):
    """Where between Gloo's step and one without any communication this backend's is."""
    from integration_ranks import run

    def alone_on(rank, world):
        return train(rank, world, alone=True)[1]

    seconds = [max(pair) for _ in range(rounds) for pair in zip(*run(alone_on, "gloo", WORLD, deadline=300), strict=True)]
    alone = statistics.median(seconds) * 1e3
    print(f"without any communication {alone:.1f} ms: {alone / gloo:.2f} of gloo's step is the least that any backend can "
          f"reach; {(gloo - ours) / (gloo - alone):.0%} of what can be saved is saved")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--floors", action="store_true")
    parser.add_argument("--bound", action="store_true")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    from integration_ranks import run

    steps, losses, wrong = {"gloo": [], options.backend: []}, {}, []
    for _ in range(options.rounds):
        for backend in steps:
            ranks = run(train, backend, WORLD, deadline=300)
            steps[backend] += [max(pair) for pair in zip(*(r[1] for r in ranks), strict=True)]
            now = [r[0] for r in ranks]
            if losses.setdefault(backend, now) != now:
                wrong.append(f"{backend}: losses differ between runs: {losses[backend]} and {now}")
            count, reducing, within = ranks[0][2]
            print(f"{backend}: step {statistics.median(steps[backend]) * 1e3:.1f} ms, {count} all_reduces of "
                  f"{reducing / 1e3:.1f} ms in a profiled step, {within / 1e3:.1f} ms of that during backward functions",
                  flush=True)
            if not within:
                wrong.append(f"{backend}: no all_reduce overlaps with the backward pass")
    gloo, ours = (statistics.median(steps[b]) * 1e3 for b in steps)
    best = [min(steps[b]) * 1e3 for b in steps]
    same = losses["gloo"] == losses[options.backend]
    print(f"DDP, {ranks[0][3] / 1e6:.1f} M parameters, {WORLD} ranks: gloo {gloo:.1f} ms, {options.backend} {ours:.1f} ms, "
          f"{ours / gloo:.2f} of gloo's (floor {FLOOR}, goal 0.75); fastest step {best[0]:.1f} and {best[1]:.1f} ms, "
          f"{best[1] / best[0]:.2f}; losses {losses[options.backend][0][0]:.6f} -> "
          f"{losses[options.backend][0][-1]:.6f}, the same in {options.rounds} runs, "
          f"{'equal to' if same else 'other than'} gloo's")
    if options.bound:
        print_bound(options.rounds, gloo, ours)
    if options.floors and ours > FLOOR * gloo:
        wrong.append(f"the step takes {ours / gloo:.2f} of gloo's time")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
