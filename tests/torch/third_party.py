#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs from PyPI, unchanged, on weft: DeepSpeed on its CPU accelerator (ZeRO 0 to 3) and Hugging Face Accelerate.

    third_party.py [--backend weft] [--only deepspeed] [--strict]

Losses on weft must equal those on Gloo to rounding. A package that is not installed is reported and counted as skipped;
--strict makes that an error. To install both: pip install deepspeed accelerate
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples", "torch")
STEPS = 12


def batches(rank):
    import common

    return common.batches(STEPS, batch=4, seed=rank)


def train_deepspeed(backend, stage):
    """Losses of one rank, averaged over the ranks; DeepSpeed makes the process group."""
    import common
    import deepspeed
    import torch
    import torch.distributed as dist

    torch.manual_seed(0)
    deepspeed.init_distributed(dist_backend=backend, verbose=False)
    model = common.gpt()
    config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": stage},
              "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "torch_adam": True}}}
    config["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    assert dist.get_backend() == backend, dist.get_backend()
    losses = []
    for tokens, target in batches(dist.get_rank()):
        loss = common.loss_of(engine(tokens), target)
        engine.backward(loss)
        engine.step()
        losses.append(common.mean_over(None, loss))
    return losses


def train_accelerate(backend, _):
    """The same with Accelerate: prepared model, gathered metrics, clipped gradients."""
    import common
    import torch
    import torch.distributed as dist
    from accelerate import Accelerator

    torch.manual_seed(0)
    dist.init_process_group(backend)  # on CPUs Accelerate itself asks for Gloo or MPI only, and takes a group that is there
    accelerator = Accelerator(cpu=True)
    assert dist.get_backend() == backend, dist.get_backend()
    model = common.gpt()
    data = [(t[0], y[0]) for t, y in common.batches(STEPS * 2 * 4, batch=1, seed=0)]
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=3e-3), loader)
    losses = []
    for tokens, target in loader:
        with accelerator.accumulate(model):
            loss = common.loss_of(model(tokens), target)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach().reshape(1)).mean().item())
    accelerator.wait_for_everyone()
    return losses


PROGRAMS = {**{f"deepspeed, ZeRO {stage}": ("deepspeed", train_deepspeed, stage) for stage in range(4)},
            "accelerate": ("accelerate", train_accelerate, 0)}


def rank_main(name, backend, path):
    """What torchrun runs."""
    sys.path[:0] = [EXAMPLES]
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    _, train, argument = PROGRAMS[name]
    losses = train(backend, argument)
    if dist.get_rank() == 0:
        with open(path, "w") as out:
            json.dump(losses, out)
    dist.barrier()
    dist.destroy_process_group()


def losses_of(name, backend):
    """Run one program on two ranks; return its losses, or the text of what went wrong."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "ACCELERATE_USE_CPU": "true"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "losses")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                   os.path.abspath(__file__), "--rank-main", name, "--backend", backend, "--losses", path]
        child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 errors="replace", start_new_session=True)
        try:
            output, _ = child.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            output = child.communicate()[0] + "\ndid not end within 240 s"
        if not os.path.exists(path) or child.returncode:
            return f"on {backend}, exit status {child.returncode}:\n" + "\n".join(output.splitlines()[-40:])
        with open(path) as losses:
            return json.load(losses)


def wrong_with(ours, theirs):
    if isinstance(ours, str):
        return ours
    if isinstance(theirs, str):
        return theirs
    if not ours[-1] < 0.9 * ours[0]:
        return f"the loss does not fall: {ours}"
    far = max(abs(a - b) for a, b in zip(ours, theirs, strict=False))
    return f"losses differ from gloo's by up to {far}: {ours} and {theirs}" if far > 1e-3 or len(ours) != len(theirs) else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--only", default="", help="regular expression on the program's name")
    parser.add_argument("--strict", action="store_true", help="a package that is missing is an error")
    parser.add_argument("--rank-main", help=argparse.SUPPRESS)
    parser.add_argument("--losses", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_main:
        return rank_main(options.rank_main, options.backend, options.losses)
    failed = skipped = passed = 0
    chosen = [(name, package) for name, (package, _, _) in PROGRAMS.items() if re.search(options.only, name)]
    print(f"1..{len(chosen)}", flush=True)
    for name, package in chosen:
        if importlib.util.find_spec(package) is None or importlib.util.find_spec("torch") is None:
            print(f"ok {name} # SKIP {package} is not installed (pip install {package})")
            skipped += 1
            continue
        start = time.monotonic()
        ours, theirs = losses_of(name, options.backend), losses_of(name, "gloo")
        wrong = wrong_with(ours, theirs)
        failed, passed = failed + bool(wrong), passed + (not wrong)
        equal = "" if wrong else f"loss {ours[0]:.4f} -> {ours[-1]:.4f}, " + (
            "equal to gloo's bit for bit" if ours == theirs else "equal to gloo's to rounding")
        print(f"{'not ok' if wrong else 'ok'} {name}: {wrong or equal} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"third party: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or (skipped and options.strict) else 0


if __name__ == "__main__":
    sys.exit(main())
