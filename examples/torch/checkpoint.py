# SPDX-License-Identifier: BSD-3-Clause
"""Save a sharded model in the background while training goes on, and load it at another world size.

    torchrun --nproc-per-node 4 examples/torch/checkpoint.py --folder /tmp/model
    torchrun --nproc-per-node 2 examples/torch/checkpoint.py --folder /tmp/model --load 1
"""

import os

import common
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def sharded():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = common.gpt()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def state(model, optimizer, losses):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "losses": torch.tensor(losses)}


def train(model, optimizer, data, losses):
    for tokens, target in data:
        loss = common.loss_of(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(common.mean_over(None, loss))


def main():
    args = common.start(__doc__, folder="", load=0)
    assert args.folder, "--folder is needed"
    model, optimizer = sharded()
    losses = []
    data = common.batches(2 * args.steps, batch=4, seed=dist.get_rank())
    path = os.path.join(args.folder, "step")
    if args.load:
        saved = state(model, optimizer, [0.0] * args.steps)
        dcp.load(saved, checkpoint_id=path)
        set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
        losses = saved["losses"].tolist()
        train(model, optimizer, [next(data) for _ in range(args.steps)], losses)
        assert losses[args.steps] < 1.1 * losses[args.steps - 1], f"training did not go on where it was: {losses}"
        common.finish("checkpoint, loaded", losses)
    else:
        train(model, optimizer, [next(data) for _ in range(args.steps)], losses)
        background = dist.new_group(backend=args.backend)  # the saving thread's collectives keep to themselves
        saving = dcp.async_save(state(model, optimizer, losses), checkpoint_id=path, process_group=background)
        train(model, optimizer, data, losses)
        saving.result()
        common.finish("checkpoint, saved", losses)


if __name__ == "__main__":
    main()
