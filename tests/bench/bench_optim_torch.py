#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The optimizers' speed next to PyTorch's and DeepSpeed's, in one process, alternating.

    bench_optim_torch.py --module build/.libs/bench_optim_module.so [--elems N] [--rounds R] [--threads 1 2] [--deepspeed]

Jobs, on N parameters in fp32 and a bf16 copy of them:
    step    unscale and clip by a known factor, AdamW, store bf16. torch: mul_, AdamW(fused=True), copy_
    whole   the same, with the norm. torch: mul_, clip_grad_norm_, AdamW(fused=True), copy_; weft: the sum of squares, then one pass
    bare    AdamW alone
Shown: the best and the median time of each, and torch's divided by weft's. --deepspeed adds DeepSpeed's CPUAdam, which is
compiled at first use.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import sys
import time
from collections.abc import Callable

import torch

LR, DECAY, SCALE, CLIP = 1e-4, 0.01, 1 / 1024, 1.0


class Tensors:
    """Parameters, gradients and the 16-bit copy of one contestant; each of shape (elems,)."""

    def __init__(self, elems: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.weight = torch.randn(elems, generator=generator) * 0.02
        self.grad = torch.randn(elems, generator=generator)
        self.start = self.grad.clone()
        self.out = torch.zeros(elems, dtype=torch.bfloat16)


class Weft:
    """The kernels through ctypes."""

    def __init__(self, module: str, tensors: Tensors) -> None:
        self.lib = ctypes.CDLL(module)
        pointer, size, double = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double
        self.lib.bench_optim_adamw.argtypes = [
            ctypes.c_int, size, pointer, pointer, pointer, pointer, ctypes.c_int, pointer, double, double, ctypes.c_uint64, double,
        ]  # fmt: skip
        self.lib.bench_optim_sum_squares.argtypes = [ctypes.c_int, size, pointer]
        self.lib.bench_optim_sum_squares.restype = double
        self.tensors, self.steps, self.threads = tensors, 0, 1
        self.moment1, self.moment2 = torch.zeros_like(tensors.weight), torch.zeros_like(tensors.weight)

    def update(self, factor: float, *, store: bool) -> None:
        t = self.tensors
        self.steps += 1
        status = self.lib.bench_optim_adamw(
            self.threads, t.weight.numel(), t.weight.data_ptr(), self.moment1.data_ptr(), self.moment2.data_ptr(),
            t.grad.data_ptr(), 0, t.out.data_ptr() if store else None, LR, DECAY, self.steps, factor,
        )  # fmt: skip
        if status != 0:
            sys.exit(f"bench_optim_adamw: status {status}")

    def bare(self) -> None:
        self.update(1.0, store=False)

    def step(self) -> None:
        self.update(SCALE, store=True)

    def whole(self) -> None:
        t = self.tensors
        norm = math.sqrt(self.lib.bench_optim_sum_squares(self.threads, t.grad.numel(), t.grad.data_ptr())) * SCALE
        self.update(SCALE * min(1.0, CLIP / (norm + 1e-6)), store=True)


class Torch:
    """torch's sequence, with any optimizer of its interface."""

    def __init__(self, tensors: Tensors, make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]) -> None:
        self.tensors = tensors
        self.param = torch.nn.Parameter(tensors.weight)
        self.param.grad = tensors.grad
        self.optimizer = make([self.param])

    def bare(self) -> None:
        self.optimizer.step()

    def step(self) -> None:
        self.tensors.grad.mul_(SCALE)
        self.optimizer.step()
        self.tensors.out.copy_(self.param.detach())

    def whole(self) -> None:
        self.tensors.grad.mul_(SCALE)
        torch.nn.utils.clip_grad_norm_([self.param], CLIP)
        self.optimizer.step()
        self.tensors.out.copy_(self.param.detach())


def adamw_fused(params: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=LR, weight_decay=DECAY, fused=True)


def cpu_adam(params: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    return DeepSpeedCPUAdam(params, lr=LR, weight_decay=DECAY, adamw_mode=True)


def agree(contestants: dict[str, Weft | Torch]) -> None:
    """After one whole step from the same state, weights are the same but for rounding."""
    for contestant in contestants.values():
        contestant.tensors.grad.copy_(contestant.tensors.start)
        contestant.whole()
    weft = contestants["weft"].tensors
    for name, contestant in contestants.items():
        distance = (weft.weight - contestant.tensors.weight).abs().max().item()
        print(f"largest distance to {name} after one step: {distance:.3g}")
        if distance > 1e-6:
            sys.exit(f"{name} computes something else")


def measure(contestants: dict[str, Weft | Torch], job: str, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for i in range(rounds + 2):
        for name, contestant in contestants.items():
            contestant.tensors.grad.copy_(contestant.tensors.start)  # torch's jobs change it
            start = time.perf_counter()
            getattr(contestant, job)()
            if i >= 2:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", required=True)
    parser.add_argument("--elems", type=int, default=30_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--deepspeed", action="store_true")
    args = parser.parse_args()

    contestants: dict[str, Weft | Torch] = {
        "weft": Weft(args.module, Tensors(args.elems)),
        "torch": Torch(Tensors(args.elems), adamw_fused),
    }
    if args.deepspeed:
        contestants["deepspeed"] = Torch(Tensors(args.elems), cpu_adam)
    agree(contestants)
    print(f"{args.elems} parameters, torch {torch.__version__}, ms: best and median of {args.rounds}")
    print(f"{'job':8} {'threads':>7} {'':10} {'best':>8} {'median':>8} {'/ weft':>8} {'of med.':>8}")
    for job in ("step", "whole", "bare"):
        for threads in args.threads:
            torch.set_num_threads(threads)
            for contestant in contestants.values():
                if isinstance(contestant, Weft):
                    contestant.threads = threads
            times = measure(contestants, job, args.rounds)
            best = {name: min(t) for name, t in times.items()}
            median = {name: statistics.median(t) for name, t in times.items()}
            for name in times:
                print(
                    f"{job:8} {threads:7} {name:10} {best[name]:8.2f} {median[name]:8.2f} "
                    f"{best[name] / best['weft']:8.2f} {median[name] / median['weft']:8.2f}"
                )


if __name__ == "__main__":
    main()
