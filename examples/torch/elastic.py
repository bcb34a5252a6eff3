# SPDX-License-Identifier: BSD-3-Clause
"""What elastic_torchrun.sh runs: training that saves its state every few steps and goes on from there after a restart.
In its first life the last rank kills itself on the way."""

import os
import signal

import common
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    args = common.start(__doc__, folder="", every=5)
    life, path = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), os.path.join(args.folder, "state.pt")
    model = DistributedDataParallel(common.gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
    begun = len(losses)

    for step, (tokens, target) in enumerate(common.batches(args.steps, batch=4, seed=dist.get_rank())):
        if step < begun:
            continue
        if life == 0 and step == args.steps // 2 and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = common.loss_of(model(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(common.mean_over(None, loss))
        if len(losses) % args.every == 0:
            if dist.get_rank() == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses},
                           path + ".new")
                os.replace(path + ".new", path)
            dist.barrier()
    assert life == 1 and begun > 0, f"life {life}, begun at step {begun}: nothing was restarted"
    common.finish(f"elastic, life {life} from step {begun}", losses)


if __name__ == "__main__":
    main()
