# SPDX-License-Identifier: BSD-3-Clause
"""ZeRO: a GPT over bytes whose parameters, gradients and optimizer state are sharded (weft.zero); two micro-batches in a step.

    torchrun --nproc-per-node 2 examples/torch/zero3.py
    torchrun --nproc-per-node 4 examples/torch/zero3.py --backend gloo --stage 2
    weft-run -n 2 python3 examples/torch/zero3.py        # without torch.distributed
"""

import argparse
import os

import common
import torch
import torch.distributed as dist
from weft import zero

CONFIG = {
    "gradient_accumulation_steps": 2,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.01}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5}},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="weft", help="of torch.distributed, if torchrun starts the ranks")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--stage", type=int, default=3)
    parser.add_argument("--bf16", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "RANK" in os.environ:
        dist.init_process_group(args.backend)

    zero_optimization = {"stage": args.stage, "stage3_param_persistence_threshold": 1000}  # elements: biases and norms stay
    config = {**CONFIG, "zero_optimization": zero_optimization, "bf16": {"enabled": bool(args.bf16)}}
    engine = zero.initialize(common.gpt(), config=config)
    losses = []
    for tokens, target in common.batches(2 * args.steps, batch=4, seed=engine.global_rank):
        loss = common.loss_of(engine(tokens).float(), target)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())

    engine.eval()  # the model goes on with what it has learnt to write
    text = torch.tensor([list(b"The ")])
    with torch.no_grad():
        for _ in range(20):
            text = torch.cat([text, engine(text)[:, -1:].argmax(-1)], 1)

    stats = engine.stats()
    if engine.global_rank == 0:
        print(f"zero3: stage {args.stage}, {engine.world_size} ranks, {args.steps} steps, loss {losses[0]:.4f} -> "
              f"{losses[-1]:.4f}; {bytes(text[0].tolist())!r}; rank 0 keeps, in KiB, {stats['param_bytes'] >> 10} of parameters, "
              f"{stats['grad_bytes'] >> 10} of gradients, {stats['state_bytes'] >> 10} of optimizer state", flush=True)
    assert losses[-1] < 0.75 * losses[0], f"the loss did not fall: {losses}"
    engine.destroy()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
