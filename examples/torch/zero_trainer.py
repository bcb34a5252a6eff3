# SPDX-License-Identifier: BSD-3-Clause
"""transformers.Trainer on weft.zero: its loop, logs and schedule, with a small random GPT-2 that is sharded over the ranks.

    weft-run -n 2 python3 examples/torch/zero_trainer.py

Needs transformers and accelerate. The ranks are weft-run's (or mpirun's, srun's): under torchrun the Trainer would put the model
into DistributedDataParallel, which cannot have one that is sharded already. Each rank is given its own part of the data.
"""

import argparse
import tempfile

import common
import torch
import transformers
from weft import zero

GPT2 = {"vocab_size": common.VOCAB, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "bos_token_id": 0,
        "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--stage", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with zero.Init():
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))
    for block in model.transformer.h:
        zero.fully_shard(block)
    zero.fully_shard(model, stage=args.stage)
    optimizer = zero.Optimizer(model, "adamw", lr=3e-3, weight_decay=0.01, clip=1.0)
    rank, size = optimizer.core.comm.rank, optimizer.core.comm.size

    tokens = [pair[0][0] for pair in common.batches(256, batch=1, seed=1)]
    data = [{"input_ids": t, "labels": t} for t in tokens[rank::size]]
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder, per_device_train_batch_size=4, max_steps=args.steps, warmup_steps=4, logging_steps=5, save_strategy="no",
            report_to=[], use_cpu=True, disable_tqdm=True, max_grad_norm=0.0,  # the optimizer clips
        )
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, 4, 4 * args.steps)
        trainer = transformers.Trainer(model, settings, train_dataset=data, optimizers=(optimizer, schedule))
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if rank == 0:
        print(f"zero_trainer: stage {args.stage}, {size} ranks, {args.steps} steps, loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
              f"rate {optimizer.param_groups[0]['lr']:.6f}", flush=True)
    assert losses[-1] < 0.85 * losses[0], f"the loss did not fall: {losses}"
    optimizer.destroy()


if __name__ == "__main__":
    main()
