# SPDX-License-Identifier: BSD-3-Clause
"""ZeRO for a Hugging Face model: a small GPT-2 with random weights, without memory, trained, saved and read (weft.zero).

    torchrun --nproc-per-node 2 examples/torch/zero_hf.py
    weft-run -n 2 python3 examples/torch/zero_hf.py --stage 2

Needs transformers and safetensors. transformers.Trainer is in zero_trainer.py.
"""

import argparse
import os
import tempfile

import common
import torch
import torch.distributed as dist
import transformers
from weft import zero

CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.01}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 4, "total_num_steps": 200, "warmup_max_lr": 3e-3}},
}
GPT2 = {"vocab_size": common.VOCAB, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "bos_token_id": 0,
        "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def evaluate(engine, tokens):
    """The loss in eval mode."""
    engine.eval()
    with torch.no_grad():
        loss = engine(input_ids=tokens, labels=tokens).loss.item()
    engine.train()
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="weft", help="of torch.distributed, if torchrun starts the ranks")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--stage", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "RANK" in os.environ:
        dist.init_process_group(args.backend)

    def make():
        with zero.Init():  # no rank ever has the whole model
            return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))

    config = {**CONFIG, "zero_optimization": {"stage": args.stage}}
    model = make()
    model.gradient_checkpointing_enable()
    engine = zero.initialize(model, config=config)
    losses = []
    for tokens, _ in common.batches(2 * args.steps, batch=4, seed=engine.global_rank):
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())

    engine.eval()
    prompt = torch.tensor([list(b"The ")])
    text = model.generate(prompt, max_new_tokens=20, do_sample=False, attention_mask=torch.ones_like(prompt), pad_token_id=0)
    engine.train()

    # Its own format: rank 0 writes, and any number of ranks read one tensor at a time.
    state = engine.full_state_dict()
    tokens = next(iter(common.batches(1, batch=4, seed=99)))[0]
    before = evaluate(engine, tokens)
    with tempfile.TemporaryDirectory() as folder:
        if engine.global_rank == 0:
            model.save_pretrained(folder, state_dict=state)
        other = zero.initialize(make(), config=config)
        zero.load_safetensors(other, folder)
    after = evaluate(other, tokens)
    if engine.global_rank == 0:
        print(f"zero_hf: stage {args.stage}, {engine.world_size} ranks, {args.steps} steps, loss {losses[0]:.4f} -> "
              f"{losses[-1]:.4f}, saved {before:.4f}, read {after:.4f}; {bytes(text[0].tolist())!r}", flush=True)
    assert losses[-1] < 0.85 * losses[0], f"the loss did not fall: {losses}"
    assert before == after, (before, after)
    engine.destroy()
    other.destroy()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
