# SPDX-License-Identifier: BSD-3-Clause
"""ZeRO with a disk: parameters, gradients and optimizer state live in files, and pass through memory when they are used.

    torchrun --nproc-per-node 2 examples/torch/zero3_offload.py --folder /local
    weft-run -n 2 python3 examples/torch/zero3_offload.py --keep states      # parameters and gradients stay in memory

The configuration is ds_config.json, beside this file.
"""

import argparse
import json
import os
import re
import tempfile
from pathlib import Path

import common
import torch
import torch.distributed as dist
from weft import zero


def configuration(folder, keep):
    """ds_config.json with the folder filled in. Comments and last commas are what the json module does not read."""
    text = re.sub(r"//.*", "", (Path(__file__).parent / "ds_config.json").read_text())
    config = json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
    places = config["zero_optimization"]
    for place in ("offload_optimizer", "offload_param"):
        places[place]["nvme_path"] = folder
    if keep == "states":
        del places["offload_param"]
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="weft", help="of torch.distributed, if torchrun starts the ranks")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--folder", help="for the files, which nobody else can read; a temporary one if it is left out")
    parser.add_argument("--keep", choices=("all", "states"), default="all", help="what is kept in files")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "RANK" in os.environ:
        dist.init_process_group(args.backend)

    with tempfile.TemporaryDirectory() as temporary:
        engine = zero.initialize(common.gpt(), config=configuration(args.folder or temporary, args.keep))
        losses = []
        for tokens, target in common.batches(2 * args.steps, batch=4, seed=engine.global_rank):
            loss = common.loss_of(engine(tokens).float(), target)
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        stats = engine.stats()
        if engine.global_rank == 0:
            print(f"zero3_offload: {engine.world_size} ranks, {args.steps} steps, loss {losses[0]:.4f} -> {losses[-1]:.4f}; rank 0 "
                  f"keeps, in KiB, {stats['param_bytes'] >> 10} of parameters, {stats['state_bytes'] >> 10} of optimizer state in "
                  f"memory, {stats['disk_bytes'] >> 10} in files ({'io_uring' if stats['disk_uring'] else 'threads'}); read "
                  f"{stats['disk_read_bytes'] >> 10}, written {stats['disk_written_bytes'] >> 10}", flush=True)
        assert losses[-1] < 0.75 * losses[0], f"the loss did not fall: {losses}"
        assert stats["disk_read_bytes"] > 0 and stats["state_bytes"] == 0
        engine.destroy()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
