# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel with its buckets of gradients in transport memory."""

import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from . import mem

__all__ = ["use_transport_memory"]

_WORTH_IT = 65536  # bytes of a bucket


class _Buckets:
    """The registered memory of a model's buckets. DDP lays them out anew after the first step."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[int, Any]] = {}
        self.refused = False

    def hold(self, index: int, buffer: torch.Tensor) -> None:
        address, registration = self.held.get(index, (0, None))
        if address == buffer.data_ptr() or buffer.nbytes < _WORTH_IT:
            return
        self.held.pop(index, None)
        try:
            if registration is not None:
                registration.release()
            self.held[index] = (buffer.data_ptr(), mem.register(buffer))
        except RuntimeError as problem:
            self.held[index] = (buffer.data_ptr(), None)  # as it is; not asked again for this memory
            if not self.refused:
                warnings.warn(f"weft.ddp: buckets that cannot be registered are reduced where they are: {problem}", stacklevel=2)
            self.refused = True


def use_transport_memory(model: DistributedDataParallel) -> None:
    """Let the other ranks of the host reach the model's buckets without a copy. Call it before the first step.

    Gradients are averaged by the collective (AVG), which differs from DDP's own way, dividing first, in rounding at most, and
    not at all with a power of two of ranks. It is a communication hook: a model has one.
    """
    buckets = _Buckets()

    # DDP compares these annotations with the classes themselves.
    def average(
        group: dist.ProcessGroup,
        bucket: dist.GradBucket,  # type: ignore[name-defined]
    ) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        buckets.hold(bucket.index(), buffer)
        work = dist.all_reduce(buffer, op=dist.ReduceOp.AVG, group=group, async_op=True)
        future: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda done: done.value()[0])
        return future

    model.register_comm_hook(model.process_group, average)
