# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in memory that the other ranks of the host reach without a copy.

Collectives on such tensors move the least bytes possible, when all ranks of the node use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["empty", "empty_like", "register", "registered", "reserved", "zeros"]


def empty(*size: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """An uninitialised CPU tensor in transport memory.

    Args:
        size: the shape, as torch.empty takes it: numbers, or one sequence.
        dtype: of the elements; None is torch's default.

    Raises:
        TypeError: `dtype` is no torch.dtype.
        ValueError: a size is below 0, or there are more bytes than addresses.
        RuntimeError: there is no space; the text says where.
    """
    from . import _C

    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise TypeError(f"weft.mem.empty: dtype must be a torch.dtype, such as torch.float32, not {dtype!r}")
    shape = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else [int(s) for s in size]  # type: ignore[arg-type]
    result: torch.Tensor = _C.empty(shape, dtype or torch.get_default_dtype())
    return result


def zeros(*size: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A CPU tensor of zeros in transport memory; arguments as for :func:`empty`."""
    return empty(*size, dtype=dtype).zero_()


def empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous uninitialised tensor in transport memory, of the shape and type of `tensor`."""
    return empty(tensor.shape, dtype=tensor.dtype)


def reserved() -> int:
    """Bytes of transport memory that tensors use or that are kept for the next ones (WEFT_MEM_POOL_BYTES, at most)."""
    from . import _C

    held: int = _C.memory_reserved()
    return held


def register(tensor: torch.Tensor) -> Any:
    """Make the memory of an existing CPU tensor reachable for the other ranks of the host, in place.

    The whole pages within it are replaced by shared ones with the same contents. While this runs no other thread may write to
    them; after fork parent and child share them. It lasts until `.release()` of the result, or its end; the tensor lives as
    long.

    Args:
        tensor: dense, of a page at least, allocated by torch's ordinary allocator.
    """
    from . import _C

    return _C.Registration(tensor)


@contextmanager
def registered(*tensors: torch.Tensor) -> Iterator[None]:
    """The tensors are registered (see :func:`register`) inside."""
    held = []
    try:
        for tensor in tensors:
            held.append(register(tensor))
        yield
    finally:
        for one in reversed(held):
            one.release()
