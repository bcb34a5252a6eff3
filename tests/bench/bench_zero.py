#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a sharded step costs beside forward and backward: weft.zero, FSDP2 on Gloo and on weft, DeepSpeed on the CPU.

    bench_zero.py [--ranks 2,4] [--turns 12] [--sequences 1] [--only REGEX] [--json FILE]
    bench_zero.py --hosts [--rate 1000] [--ranks 4] ...
    bench_zero.py --memory [--ranks 2,4,8]

A GPT of some 30 million parameters in fp32, 64 tokens on each rank, AdamW, one thread for each rank. Systems take turns, three
steps at a time, in the same processes. Between them each rank computes forward and backward of the same model without any of
them, all ranks at once; what a step takes beyond that is compared, weft.zero's with that of the others in the same stage. Of
FSDP2, reshard_after_forward=False is stage 2.

--hosts: each rank is a host, a network namespace whose link passes --rate Mbit/s (root; ip and tc). Beside the others stands
what no step can beat: the larger of forward and backward, and the time in which the bytes that a stage must send pass the link.

--memory: what weft.zero takes with parameters of bf16, stage by stage: the formula, what the engine counts, its buffers with it,
and the proportional set size of each rank after some steps above that of before the model was built, a mean over the ranks, as
shared memory counts once.
"""

import argparse
import ctypes
import gc
import json
import os
import pickle
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, *where) for where in (("..", "torch"), ("..", "..", "examples", "torch"), ("..", "..", "tools"))]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DS_ACCELERATOR", "cpu")

DIM, LAYERS, TOKENS = 512, 9, 64
IN_A_ROW, WARM = 3, 1
HYPERS = {"lr": 1e-3, "weight_decay": 0.01}


def model_of():
    import common
    import torch

    torch.manual_seed(0)
    return common.gpt(LAYERS, DIM)


def of_weft(stage):
    """Returns (one training step on a batch, what waits for all that steps have begun, what ends the system)."""
    import common
    from weft import zero

    # Units are gathered again for the backward pass, as FSDP2 does.
    sharding = {"stage": stage, "stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0}
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": sharding}
    engine = zero.initialize(model_of(), "adamw", config, **HYPERS)

    def step(tokens, target):
        engine.backward(common.loss_of(engine(tokens), target))
        engine.step()

    return step, engine.synchronize, engine.destroy


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

    return step, lambda: None, lambda: dist.destroy_process_group(group)


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

    return step, lambda: None, engine.destroy


def alone():
    """Forward and backward, and nothing else."""
    import common

    model = model_of()

    def step(tokens, target):
        common.loss_of(model(tokens), target).backward()
        for p in model.parameters():
            p.grad = None

    return step, lambda: None, lambda: None


SYSTEMS = {
    "alone": alone,
    **{f"weft.zero {stage}": (lambda stage=stage: of_weft(stage)) for stage in (1, 2, 3)},
    **{f"FSDP2 on {name} {stage}": (lambda stage=stage, name=name: of_fsdp(stage, name))
       for name in ("gloo", "weft") for stage in (2, 3)},
    **{f"DeepSpeed {stage}": (lambda stage=stage: of_deepspeed(stage)) for stage in (1, 2, 3)},
}


def train(rank, world, names, turns, sequences):
    """On each rank: seconds of a step in each turn, by system; a system that cannot run has its reason instead.

    A turn is IN_A_ROW steps, so that what a step leaves to the next one to wait for is in it, and ends when nothing is under way.
    """
    import common
    import torch.distributed as dist

    data = list(common.batches(4, sequences, seed=rank, length=TOKENS))
    seen, running = {}, {}
    for name in names:
        try:
            running[name] = SYSTEMS[name]()
            seen[name] = []
        except ImportError as problem:
            seen[name] = str(problem)
    for turn in range(turns + WARM):
        for name, (step, settle, _) in running.items():
            dist.barrier()
            begun = time.perf_counter()
            for i in range(IN_A_ROW):
                step(*data[(turn + i) % len(data)])
            settle()
            dist.barrier()
            seen[name].append((time.perf_counter() - begun) / IN_A_ROW)
    for *_, end in running.values():
        end()
    return {name: times if isinstance(times, str) else times[WARM:] for name, times in seen.items()}


def on_hosts(world, rate, names, turns, sequences):
    """Results of ranks that are hosts of their own."""
    from compare_hosts import Hosts

    with tempfile.TemporaryDirectory() as folder, Hosts(world, True, Path(folder), rate_bits=rate * 1_000_000) as hosts:
        ranks = []
        for rank in range(world):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": hosts.address(0),
                   "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": hosts.interface}
            options = ["--result-of-rank", f"{folder}/result{rank}", "--turns", str(turns), "--sequences", str(sequences)]
            ranks.append(subprocess.Popen([*hosts.prefix(rank), sys.executable, __file__, *options, *names], env=env))
        try:
            failed = [rank for rank, process in enumerate(ranks) if process.wait(3000)]
        finally:
            for process in ranks:
                process.kill()
        if failed:
            sys.exit(f"bench_zero.py: ranks {failed} failed")
        return [pickle.loads(Path(f"{folder}/result{rank}").read_bytes()) for rank in range(world)]


def rank_of_hosts(file, names, turns, sequences):
    """One rank of on_hosts."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    result = train(dist.get_rank(), dist.get_world_size(), names, turns, sequences)
    Path(file).write_bytes(pickle.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def set_size():
    """Bytes that this process has for itself, and its share of what several have. What is free goes back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def memory(rank, world, stage):
    """Of this rank: (parameters, what the engine counts without buffers, its buffers, its set size's growth)."""
    import common
    import torch
    import torch.distributed as dist
    from weft import zero

    def step(engine, batch):
        engine.backward(common.loss_of(engine(batch[0]), batch[1]))
        engine.step()

    data = list(common.batches(4, 1, seed=rank, length=TOKENS))
    limits = {f"stage3_{limit}": 0 for limit in ("max_live_parameters", "max_reuse_distance", "param_persistence_threshold")}
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": stage, **limits}}
    # What libraries and communicators take is there before, once: after a small engine has lived.
    small = zero.initialize(common.gpt(2, 64), "adamw", config, **HYPERS)
    for batch in data:
        step(small, batch)
    small.destroy()
    dist.barrier()
    before = set_size()
    torch.manual_seed(0)
    engine = zero.initialize(model_of().to(torch.bfloat16), "adamw", config, **HYPERS)
    for batch in data:
        step(engine, batch)
    engine.synchronize()
    dist.barrier()
    grown = set_size() - before
    dist.barrier()
    stats = engine.stats()
    engine.destroy()
    kept = stats["param_bytes"] + stats["grad_bytes"] + stats["state_bytes"]
    return stats["elems"], kept, stats["gather_bytes"] + stats["reduce_bytes"], grown


def report_memory(world, run):
    """A table of all stages, in MiB."""
    print(f"{world} ranks, MiB a rank:  formula   counted   with buffers   set size   above formula and buffers")
    for stage in range(4):
        found = run(lambda rank, world, stage=stage: memory(rank, world, stage), "gloo", world, deadline=3000, timeout=600)
        elems = found[0][0]
        n = [world if stage >= least else 1 for least in (3, 2, 1)]  # over how many ranks parameters, gradients, states are shared
        formula = elems * (2 / n[0] + 2 / n[1] + 12 / n[2])
        kept, buffers, grown = (sum(f[i] for f in found) / world for i in (1, 2, 3))
        print(f"  stage {stage}           {formula / 2**20:9.1f} {kept / 2**20:9.1f} {(kept + buffers) / 2**20:14.1f} "
              f"{grown / 2**20:10.1f}   {(grown - formula - buffers) / 2**20:+6.1f} ({grown / (formula + buffers) - 1:+.1%})")


def report_bound(world, rate, millis, alone):
    """Beside the larger of computing and sending: gradients are scattered, parameters gathered, in stage 3 twice."""
    from compare_hosts import PAYLOAD_SHARE

    elems = sum(p.numel() for p in model_of().parameters())
    for name, times in millis.items():
        wire = elems * 4 * (3 if name.endswith("3") else 2) * (world - 1) / world / (rate * 125e6 / 1e3 * PAYLOAD_SHARE) * 1e3
        bound = max(alone, wire)
        step = statistics.median(times)
        print(f"  {name:16} step {step:7.1f} ms is {step / bound:.2f} of what no step can beat, {bound:.1f} ms "
              f"(computing {alone:.1f}, sending {wire:.1f})")


def report(world, results, rate=None):
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
    print(f"{world} ranks, {len(alone)} turns; forward and backward alone: {median(alone):.1f} ms, least {min(alone):.1f}")
    for name, times in millis.items():
        ours = f"weft.zero {name[-1]}"
        ratio = "" if name == ours or ours not in millis else (
            f"   weft.zero takes {beyond[ours] / beyond[name]:.2f} of that, its step {median(millis[ours]) / median(times):.2f}")
        print(f"  {name:16} step {median(times):7.1f} ms, least {min(times):7.1f}, beyond alone {beyond[name]:7.1f}{ratio}")
    if rate:
        report_bound(world, rate, millis, median(alone))
    return {"ranks": world, "alone_ms": alone, "step_ms": millis, "beyond_ms": beyond}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--sequences", type=int, default=1, help="of 64 tokens, in a batch")
    parser.add_argument("--hosts", action="store_true", help="each rank is a host")
    parser.add_argument("--memory", action="store_true", help="measure memory, not time")
    parser.add_argument("--rate", type=int, default=1000, help="of a host's link, Mbit/s")
    parser.add_argument("--result-of-rank", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="regular expression on the system's name; `alone` is always measured")
    parser.add_argument("--json", help="file for the numbers")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    if options.result_of_rank:
        rank_of_hosts(options.result_of_rank, options.names, options.turns, options.sequences)
        return 0
    from integration_ranks import run

    names = [name for name in SYSTEMS if name == "alone" or re.search(options.only, name)]
    numbers = []
    for world in map(int, options.ranks.split(",")):
        if options.memory:
            report_memory(world, run)
            continue

        def ranks(rank, world):
            return train(rank, world, names, options.turns, options.sequences)

        if options.hosts:
            results = on_hosts(world, options.rate, names, options.turns, options.sequences)
        else:
            results = run(ranks, "gloo", world, deadline=3000, timeout=600)
        numbers.append(report(world, results, options.rate if options.hosts else None))
        sys.stdout.flush()
    if options.json:
        with open(options.json, "w") as out:
            json.dump(numbers, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
