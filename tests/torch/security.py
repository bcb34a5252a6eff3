# SPDX-License-Identifier: BSD-3-Clause
"""One rank of tests/torch/test_security.sh: make a group, use it, say how it is protected. Exit status 3: refused."""

from __future__ import annotations

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import weft


def main() -> int:
    dist.init_process_group("weft", timeout=timedelta(seconds=100))
    x = torch.tensor([dist.get_rank() + 1])
    try:
        dist.all_reduce(x)
    except dist.DistBackendError as error:
        print(error)
        return 3
    print("sum", x.item(), "security", weft.info().security)
    dist.barrier()
    dist.destroy_process_group()
    return 0


try:
    code = main()
except dist.DistBackendError as error:
    print(error)
    code = 3
sys.exit(code)
