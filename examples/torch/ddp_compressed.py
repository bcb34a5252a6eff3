# SPDX-License-Identifier: BSD-3-Clause
"""Data parallel with compressed gradients: the same model without a codec, with one, and with error feedback.

    torchrun --nproc-per-node 2 examples/torch/ddp_compressed.py
    torchrun --nproc-per-node 2 examples/torch/ddp_compressed.py --codec sign
"""

import common
import torch
import torch.distributed as dist
import weft
from torch.nn.parallel import DistributedDataParallel


def joined(codec: str, parameters: str) -> str:
    """The codec with these parameters besides its own: a colon stands before the first one, commas before the others."""
    return f"{codec}{',' if ':' in codec else ':'}{parameters}"


def train(args, codec: str | None) -> list[float]:
    torch.manual_seed(0)
    model = DistributedDataParallel(common.gpt())
    if codec:
        # Called from C++. In Python's form, which other hooks can wrap:
        #   model.register_comm_hook(weft.hooks.State(codec=codec, model=model), weft.hooks.compress)
        weft.hooks.register(model, codec=codec)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for tokens, target in common.batches(args.steps, batch=4, seed=dist.get_rank()):
        loss = common.loss_of(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(common.mean_over(None, loss))
    if dist.get_rank() == 0:
        print(f"{codec or 'without a codec':28} loss {losses[0]:.4f}, then {losses[-1]:.4f}", flush=True)
    return losses


def main():
    # bypass=never: between processes of one host plain data is faster, and would be sent.
    args = common.start(__doc__, codec="int4")
    plain = train(args, None)
    train(args, joined(args.codec, "bypass=never"))
    feedback = train(args, joined(args.codec, "ef=1,bypass=never"))
    assert feedback[-1] < 1.15 * plain[-1], f"compressed gradients do not train: {feedback}"
    common.finish("ddp_compressed", feedback)


if __name__ == "__main__":
    main()
