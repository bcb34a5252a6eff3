#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a sharded step costs beside forward and backward: weft.zero, FSDP2 on Gloo and on weft, DeepSpeed on the CPU.

    bench_zero.py [--ranks 2,4] [--rounds 3] [--steps 5] [--only REGEX] [--json FILE]

A GPT of some 30 million parameters in fp32, 64 tokens on each rank, AdamW, one thread for each rank. Systems take turns in the same
processes. The time of forward and backward alone is that of the same model on each rank without any of them, all ranks at once;
what a step takes beyond that is compared, weft.zero's with that of the others in the same stage. Of FSDP2,
reshard_after_forward=False is stage 2.
"""

import argparse
import json
import os
import re
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "torch"), os.path.join(HERE, "..", "..", "examples", "torch")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DS_ACCELERATOR", "cpu")

DIM, LAYERS, TOKENS = 512, 9, 64
HYPERS = {"lr": 1e-3, "weight_decay": 0.01}


def model_of():
    import common
    import torch

    torch.manual_seed(0)
    return common.gpt(LAYERS, DIM)


def of_weft(stage):
    """Returns (one training step on a batch, what ends the system)."""
    import common
    from weft import zero

    engine = zero.initialize(model_of(), "adamw", {"zero_optimization": {"stage": stage}}, **HYPERS)

    def step(tokens, target):
        engine.backward(common.loss_of(engine(tokens), target))
        engine.step()

    return step, engine.destroy


def of_fsdp(stage, backend):
    import common
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    group = dist.new_group(backend=backend)
    mesh = DeviceMesh.from_group(group, "cpu", mesh_dim_names=("shard",))
    model = model_of()
    for layer in model:
        fully_shard(layer, mesh=mesh, reshard_after_forward=stage == 3)
    fully_shard(model, mesh=mesh, reshard_after_forward=stage == 3)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **HYPERS)

    def step(tokens, target):
        common.loss_of(model(tokens), target).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, lambda: dist.destroy_process_group(group)


def of_deepspeed(stage):
    import logging

    import common
    import torch.distributed as dist

    os.environ.update(RANK=str(dist.get_rank()), LOCAL_RANK=str(dist.get_rank()), WORLD_SIZE=str(dist.get_world_size()))
    import deepspeed
    import torch

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **HYPERS)
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)

    def step(tokens, target):
        engine.backward(common.loss_of(engine(tokens), target))
        engine.step()

    return step, engine.destroy


def alone():
    """Forward and backward, and nothing else."""
    import common

    model = model_of()

    def step(tokens, target):
        common.loss_of(model(tokens), target).backward()
        for p in model.parameters():
            p.grad = None

    return step, lambda: None


SYSTEMS = {
    "alone": alone,
    **{f"weft.zero {stage}": (lambda stage=stage: of_weft(stage)) for stage in (1, 2, 3)},
    **{f"FSDP2 on {name} {stage}": (lambda stage=stage, name=name: of_fsdp(stage, name))
       for name in ("gloo", "weft") for stage in (2, 3)},
    **{f"DeepSpeed {stage}": (lambda stage=stage: of_deepspeed(stage)) for stage in (1, 2, 3)},
}


def measure(make, steps, data):
    """Seconds of each step after three others; ranks begin each together."""
    import gc

    import torch.distributed as dist

    step, end = make()
    seconds = []
    for i in range(steps + 3):
        dist.barrier()
        begun = time.perf_counter()
        step(*data[i % len(data)])
        dist.barrier()
        seconds.append(time.perf_counter() - begun)
    end()
    gc.collect()
    return seconds[3:]


def train(rank, world, names, rounds, steps):
    """On each rank: seconds of all steps, by system; a system that cannot run has its reason instead."""
    import common

    data = list(common.batches(4, 1, seed=rank, length=TOKENS))
    seen = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            if isinstance(seen[name], str):
                continue
            try:
                seen[name] += measure(SYSTEMS[name], steps, data)
            except ImportError as problem:
                seen[name] = str(problem)
    return seen


def report(world, results, rounds):
    names = list(results[0])
    millis = {}
    for name in names:
        if isinstance(results[0][name], str):
            print(f"  {name:18} cannot run: {results[0][name]}")
        else:
            slowest = [max(step) for step in zip(*(r[name] for r in results), strict=True)]
            millis[name] = statistics.median(slowest) * 1e3
    base = millis["alone"]
    ours = {stage: millis.get(f"weft.zero {stage}", base) - base for stage in (1, 2, 3)}
    steps = len(results[0]["alone"])
    print(f"{world} ranks; forward and backward alone {base:.1f} ms; medians of {steps} steps in {rounds} rounds")
    for name in names:
        if name in millis and name != "alone":
            stage, over = int(name[-1]), millis[name] - base
            ratio = "" if name.startswith("weft.zero") else f"   weft.zero takes {ours[stage] / over:.2f} of that"
            print(f"  {name:18} step {millis[name]:8.1f} ms, beyond alone {over:8.1f}{ratio}")
    return {"ranks": world, "alone_ms": base, "step_ms": millis}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", default="", help="regular expression on the system's name; `alone` is always measured")
    parser.add_argument("--json", help="file for the numbers")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    from integration_ranks import run

    names = [name for name in SYSTEMS if name == "alone" or re.search(options.only, name)]
    numbers = []
    for world in map(int, options.ranks.split(",")):
        def ranks(rank, world):
            return train(rank, world, names, options.rounds, options.steps)

        numbers.append(report(world, run(ranks, "gloo", world, deadline=3000, timeout=600), options.rounds))
        sys.stdout.flush()
    if options.json:
        with open(options.json, "w") as out:
            json.dump(numbers, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
