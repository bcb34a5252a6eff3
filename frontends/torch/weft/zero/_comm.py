# SPDX-License-Identifier: BSD-3-Clause
"""The communicator of an engine: weft's own, of the ranks of a process group of any backend, or of those of a launcher."""

from __future__ import annotations

import ctypes
import itertools
import os
from collections import defaultdict
from typing import TYPE_CHECKING

import torch

from ._library import MAX, UINT8, UniqueId, comm_config, library

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_contexts: dict[int, ctypes.c_void_p] = {}
_numbers: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)


def _context() -> ctypes.c_void_p:
    """This process's; a child of fork() makes its own."""
    made = _contexts.get(os.getpid())
    if made is None:
        made = ctypes.c_void_p()
        library().call("weft_context_create", None, ctypes.byref(made))
        _contexts[os.getpid()] = made
    return made


def _meet(group: ProcessGroup | None) -> tuple[UniqueId, int, int]:
    """An id that rank 0 of the process group makes and the others read from torch's store; rank and number of ranks."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    group = group if group is not None else c10d._get_default_group()
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("weft.zero: this rank is not of the process group that was given")
    name = group.group_name
    store, key = c10d._get_default_store(), f"weft.zero/{name}/{next(_numbers[name])}"
    made = UniqueId()
    if rank == 0:
        library().call("weft_unique_id_create", _context(), ctypes.byref(made))
        store.set(key, bytes(ctypes.string_at(ctypes.addressof(made), ctypes.sizeof(made))).hex())
    else:
        given = bytes.fromhex(store.get(key).decode())
        if len(given) != ctypes.sizeof(made):
            raise ValueError(f"weft.zero: {key} of the store has {len(given)} bytes, not {ctypes.sizeof(made)}")
        ctypes.memmove(ctypes.addressof(made), given, ctypes.sizeof(made))
    return made, rank, size


def world_size(group: ProcessGroup | None = None) -> int:
    """How many ranks a Communicator of this group has."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size(group)
    return int(os.environ.get("WEFT_NRANKS") or os.environ.get("WORLD_SIZE") or 1)


class Communicator:
    """Ranks that train one model together.

    Args:
        group: a process group, None the default one. Where torch.distributed is not initialised, the ranks are those that torchrun,
            weft-run, mpirun or srun started; without a launcher it is one.
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        import torch.distributed as dist

        self.handle, config = ctypes.c_void_p(), comm_config("weft.zero")
        if dist.is_available() and dist.is_initialized():
            made, rank, size = _meet(group)
            library().call("weft_comm_create_id", _context(), ctypes.byref(made), rank, size, ctypes.byref(config),
                           ctypes.byref(self.handle))  # fmt: skip
        elif group is not None:
            raise ValueError("weft.zero: a process group was given, and torch.distributed is not initialised")
        else:
            library().call("weft_comm_create_env", _context(), ctypes.byref(config), ctypes.byref(self.handle))
        rank_, size_ = ctypes.c_int(), ctypes.c_int()
        library().call("weft_comm_rank", self.handle, ctypes.byref(rank_))
        library().call("weft_comm_size", self.handle, ctypes.byref(size_))
        self.rank, self.size = rank_.value, size_.value

    def broadcast(self, tensor: torch.Tensor, source: int = 0) -> None:
        """Give all ranks the tensor of rank `source`, in place; contiguous, on the CPU."""
        if self.size == 1 or tensor.numel() == 0:
            return
        library().call("weft_broadcast", self.handle, tensor.data_ptr(), tensor.data_ptr(), tensor.numel() * tensor.element_size(),
                       UINT8, source, None)  # fmt: skip

    def any(self, here: bool) -> bool:
        """Whether it is so on any rank."""
        flag = torch.tensor([here], dtype=torch.uint8)
        library().call("weft_all_reduce", self.handle, flag.data_ptr(), flag.data_ptr(), 1, UINT8, MAX, None)
        return bool(flag[0])

    def barrier(self) -> None:
        """Wait for all ranks."""
        library().call("weft_barrier", self.handle, None)

    def destroy(self) -> None:
        """End it; nothing else may be called afterwards."""
        if self.handle:
            library().call("weft_comm_destroy", self.handle)
            self.handle = ctypes.c_void_p()
