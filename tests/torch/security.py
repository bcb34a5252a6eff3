# SPDX-License-Identifier: BSD-3-Clause
"""One rank of tests/torch/test_security.sh: make a group, use it, say how it is protected. Exit status 3: refused.

security.py leaving: the store ends after the ranks' hellos, as it does with a rank 0 that has been refused and is faster.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import weft

TIMEOUT = timedelta(seconds=100)


class Leaving(dist.Store):
    """A store that this rank reads once."""

    def __init__(self, store: dist.Store) -> None:
        super().__init__()
        self.store, self.reads = store, 0

    def set(self, key: str, value: str) -> None:
        self.store.set(key, value)

    def add(self, key: str, value: int) -> int:
        return self.store.add(key, value)

    def check(self, keys: list[str]) -> bool:
        return self.store.check(keys)

    def wait(self, keys: list[str], timeout: timedelta = TIMEOUT) -> None:
        if self.reads:
            raise RuntimeError("Connection reset by peer")
        self.store.wait(keys, timeout)

    def get(self, key: str) -> bytes:
        self.reads += 1
        return self.store.get(key)


def leaving_store() -> dist.Store:
    rank = int(os.environ["RANK"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, rank == 0, TIMEOUT)
    return Leaving(store) if rank else store


def main() -> int:
    if sys.argv[1:] == ["leaving"]:
        dist.init_process_group("weft", timeout=TIMEOUT, store=leaving_store(), rank=int(os.environ["RANK"]), world_size=2)
    else:
        dist.init_process_group("weft", timeout=TIMEOUT)
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
