# SPDX-License-Identifier: BSD-3-Clause
"""Accelerate with weft.zero: ranks, data and metrics are Accelerate's, the model and its steps the engine's.

    torchrun --nproc-per-node 2 examples/torch/zero_accelerate.py

Needs accelerate, and not DeepSpeed. The model is not given to accelerator.prepare(), which would put it into
DistributedDataParallel; accumulation, clipping, 16 bits and checkpoints are the engine's.
"""

import argparse

import common
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from weft import zero


def loader_of(sequences, seed):
    pairs = [next(common.batches(1, sequences, seed))]
    return DataLoader(TensorDataset(*pairs[0]), batch_size=4, shuffle=True, drop_last=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--stage", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    config = {"zero_optimization": {"stage": args.stage}, "gradient_clipping": 1.0,
              "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    schedule = torch.optim.lr_scheduler.OneCycleLR
    engine = zero.initialize(common.gpt(), "adamw", config, lr=3e-3,
                             lr_scheduler=lambda optimizer: schedule(optimizer, 6e-3, total_steps=args.steps + 1))
    data, held_out = accelerator.prepare(loader_of(1024, 1), loader_of(32, 2))  # each rank gets its part

    losses = []
    while engine.global_steps < args.steps:
        for tokens, target in data:
            loss = common.loss_of(engine(tokens), target)
            engine.backward(loss)
            engine.step()
            losses.append(accelerator.reduce(loss.detach(), "mean").item())
            if engine.global_steps == args.steps:
                break

    engine.eval()
    seen = []
    with torch.no_grad():
        for tokens, target in held_out:
            right = (engine(tokens).argmax(-1) == target).float().mean(-1)
            seen.append(accelerator.gather_for_metrics(right))
    accelerator.print(f"zero_accelerate: stage {args.stage}, {accelerator.num_processes} ranks, {engine.global_steps} steps, "
                      f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
                      f"{torch.cat(seen).mean():.1%} of {len(torch.cat(seen))} texts right", flush=True)
    assert losses[-1] < 0.75 * losses[0], f"the loss did not fall: {losses}"
    assert engine.world_size == accelerator.num_processes
    engine.destroy()
    accelerator.end_training()


if __name__ == "__main__":
    main()
