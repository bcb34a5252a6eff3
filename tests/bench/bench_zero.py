#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a sharded step costs beside forward and backward: weft.zero, FSDP2 on Gloo and on weft, DeepSpeed on the CPU.

    bench_zero.py [--ranks 2,4] [--steps 12] [--only REGEX] [--json FILE]

A GPT of some 30 million parameters in fp32, 64 tokens on each rank, AdamW, one thread for each rank. Systems take turns, step by
step, in the same processes. Between them each rank computes forward and backward of the same model without any of them, all ranks
at once; what a step takes beyond that is compared, weft.zero's with that of the others in the same stage. Of FSDP2,
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

    # Units are gathered again for the backward pass, as FSDP2 does.
    sharding = {"stage": stage, "stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0}
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": sharding}
    engine = zero.initialize(model_of(), "adamw", config, **HYPERS)

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


def train(rank, world, names, steps):
    """On each rank: seconds of each step, by system; a system that cannot run has its reason instead."""
    import common
    import torch.distributed as dist

    data = list(common.batches(4, 1, seed=rank, length=TOKENS))
    seen, running = {}, {}
    for name in names:
        try:
            running[name] = SYSTEMS[name]()
            seen[name] = []
        except ImportError as problem:
            seen[name] = str(problem)
    for i in range(steps + 3):
        for name, (step, _) in running.items():
            dist.barrier()
            begun = time.perf_counter()
            step(*data[i % len(data)])
            dist.barrier()
            seen[name].append(time.perf_counter() - begun)
    for _, end in running.values():
        end()
    return {name: times if isinstance(times, str) else times[3:] for name, times in seen.items()}


def report(world, results):
    """Medians over steps of the slowest rank's time, and of how much longer it is than that of forward and backward beside it."""
    millis = {}
    for name, times in results[0].items():
        if isinstance(times, str):
            print(f"  {name:18} cannot run: {times}")
        else:
            millis[name] = [max(step) * 1e3 for step in zip(*(r[name] for r in results), strict=True)]
    alone = millis.pop("alone")
    median = statistics.median
    beyond = {name: median(a - b for a, b in zip(times, alone, strict=True)) for name, times in millis.items()}
    print(f"{world} ranks, {len(alone)} steps; forward and backward alone: {median(alone):.1f} ms, least {min(alone):.1f}")
    for name, times in millis.items():
        ours = beyond.get(f"weft.zero {name[-1]}", 0)
        ratio = "" if name.startswith("weft.zero") else f"   weft.zero takes {ours / beyond[name]:.2f} of that"
        print(f"  {name:16} step {median(times):7.1f} ms, least {min(times):7.1f}, beyond alone {beyond[name]:7.1f}{ratio}")
    return {"ranks": world, "alone_ms": alone, "step_ms": millis, "beyond_ms": beyond}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--steps", type=int, default=12)
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
            return train(rank, world, names, options.steps)

        numbers.append(report(world, run(ranks, "gloo", world, deadline=3000, timeout=600)))
        sys.stdout.flush()
    if options.json:
        with open(options.json, "w") as out:
            json.dump(numbers, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
