# SPDX-License-Identifier: BSD-3-Clause
"""FSDP2 (fully_shard) with its communication buffers in transport memory, and its gradients compressed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from . import mem
from ._codec import coded
from ._groups import backend_of

__all__ = ["AllGather", "ReduceScatter", "use_codec", "use_group_memory", "use_transport_memory"]


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
    """For FSDPModule.set_custom_reduce_scatter: one object for each module."""

    def __init__(self, codec: str | None = None) -> None:
        """Gradients are reduced as they are, or compressed.

        Args:
            codec: text as in weft/weft_compress.h, such as "int8:ef=1"; None: WEFT_COMPRESS, or none. With ef=1 what is lost of the
                module's gradients is kept, on each rank for all shards.
        """
        from . import _C

        self.codec = codec
        if codec is not None:
            _C.Codec(codec)  # or says what is wrong with it
        self._first_tensor: int | None = None
        self._tensors: dict[int, int] = {}  # by elements: a step in which parameters have no gradient has fewer

    def _tensor(self, group: dist.ProcessGroup, elements: int) -> int:
        from . import _C

        if self._first_tensor is None:
            self._first_tensor = _C.new_tensors(backend_of(group))  # modules come in the same order on all ranks
        return self._tensors.setdefault(elements, self._first_tensor + len(self._tensors))

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Reduce `input_tensor` over the ranks; this rank's share goes to `output_tensor`."""
        tensor = 0 if self.codec is None else self._tensor(group, input_tensor.numel())
        with nullcontext() if self.codec is None else coded(self.codec, tensor):
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


def use_codec(model: torch.nn.Module, codec: str, transport_memory: bool = True) -> None:
    """Let every fully_shard'ed module of `model` reduce its gradients compressed. Call it after fully_shard.

    Weights are gathered as they are: all ranks would compute with what a codec makes of them. With replicas (HSDP) the
    all_reduce between them is not compressed by this; WEFT_COMPRESS does it.

    Args:
        model: with modules that fully_shard was applied to.
        codec: such as "int8:ef=1", on all ranks alike.
        transport_memory: gather and reduce in transport memory as well.

    Raises:
        ValueError: no such codec, or no such module.
    """
    for module in _fsdp_modules(model):
        if transport_memory:
            module.set_custom_all_gather(AllGather())  # type: ignore[arg-type]
        module.set_custom_reduce_scatter(ReduceScatter(codec))  # type: ignore[arg-type]


def use_group_memory(model: torch.nn.Module) -> None:
    """The same through torch's own switch, which asks the process group for memory."""
    for module in _fsdp_modules(model):
        module.set_allocate_memory_from_process_group_for_comm(True)
