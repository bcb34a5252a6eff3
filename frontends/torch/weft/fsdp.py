# SPDX-License-Identifier: BSD-3-Clause
"""FSDP2 (fully_shard) with its communication buffers in transport memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from . import mem

__all__ = ["AllGather", "ReduceScatter", "use_group_memory", "use_transport_memory"]


class _Allocate:
    refused = False

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A buffer of `size` elements: in transport memory on CPU, else as torch does."""
        if device.type != "cpu" or math.prod(int(s) for s in size) == 0:
            return torch.empty(*size, dtype=dtype, device=device)
        try:
            return mem.empty([int(s) for s in size], dtype=dtype)
        except RuntimeError as problem:
            if not _Allocate.refused:
                warnings.warn(f"weft.fsdp: buffers are in ordinary memory: {problem}", stacklevel=2)
            _Allocate.refused = True
            return torch.empty(*size, dtype=dtype, device=device)


class AllGather(_Allocate):
    """For FSDPModule.set_custom_all_gather."""

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> dist.Work | None:
        """Gather into `output_tensor`, ranks in turn."""
        work: dist.Work | None = dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
        return work


class ReduceScatter(_Allocate):
    """For FSDPModule.set_custom_reduce_scatter."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Reduce `input_tensor` over the ranks; this rank's share goes to `output_tensor`."""
        work: dist.Work | None = dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=async_op)
        return work


def _fsdp_modules(model: torch.nn.Module) -> list[FSDPModule]:
    found: list[FSDPModule] = [m for m in model.modules() if isinstance(m, FSDPModule)]
    if not found:
        raise ValueError("the model has no module that fully_shard was applied to")
    return found


def use_transport_memory(model: torch.nn.Module) -> None:
    """Let every fully_shard'ed module of `model` gather and reduce in transport memory. Call it after fully_shard."""
    for module in _fsdp_modules(model):
        module.set_custom_all_gather(AllGather())  # type: ignore[arg-type]
        module.set_custom_reduce_scatter(ReduceScatter())  # type: ignore[arg-type]


def use_group_memory(model: torch.nn.Module) -> None:
    """The same through torch's own switch, which asks the process group for memory."""
    for module in _fsdp_modules(model):
        module.set_allocate_memory_from_process_group_for_comm(True)
