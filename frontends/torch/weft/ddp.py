# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel with its buckets of gradients in transport memory."""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel

from . import hooks

__all__ = ["use_transport_memory"]


def use_transport_memory(model: DistributedDataParallel, codec: str = "none") -> hooks.State:
    """Let the other ranks of the host reach the model's buckets without a copy. Call it before the first step.

    Gradients are averaged by the collective (AVG), which differs from DDP's own way, dividing first, in rounding at most, and
    not at all with a power of two of ranks. It is a communication hook, that of :func:`weft.hooks.register`: a model has one.

    Args:
        model: without a hook.
        codec: as for :class:`weft.hooks.State`, between hosts; within one, plain data from transport memory is faster, and is what
            a codec without "bypass=never" sends.
    """
    return hooks.register(model, codec, transport_memory=True)
