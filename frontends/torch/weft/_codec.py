# SPDX-License-Identifier: BSD-3-Clause
"""Codecs by name for the calls of a thread (weft.codec)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._residuals import is_count

_OF_HOOKS = 1 << 32  # ids of tensors from here on: csrc/coding.hpp


@contextmanager
def coded(named: str, tensor: int) -> Iterator[None]:
    """As codec(), with any id; 0: none."""
    from . import _C

    scope = _C.enter_codec(_C.Codec(named, tensor))
    try:
        yield
    finally:
        scope.leave()


@contextmanager
def codec(named: str, tensor: int | None = None) -> Iterator[None]:
    """What the calling thread issues inside is compressed by this codec, in every group, on all ranks alike.

        with weft.codec("int4:ef=1", tensor=7):
            dist.all_reduce(t)

    `all_reduce` and `reduce_scatter` by SUM, AVG or PREMUL_SUM, `all_gather` and `all_to_all` of float32, float16 and bfloat16 can
    be compressed; others fail with the library's reason. "none" is no codec, whatever WEFT_COMPRESS says.

    Of several blocks that a thread is in, the one that it entered last counts. That a generator is suspended inside of one does not
    leave it; they may be left in any order.

    Args:
        named: "NAME:PARAMETER=VALUE,…", as weft/weft_compress.h has them.
        tensor: with error feedback (ef=1): whose residual is added and kept, an id of your choice, from 1 to 2**32 - 1; the same on
            all ranks, and one for each tensor: a call that has another size is refused.

    Raises:
        ValueError: no such codec or parameter, or no such id.
        TypeError: `named` is no text, or `tensor` no number.
    """
    if not isinstance(named, str):
        raise TypeError(f'weft.codec: a codec is text, such as "int8", not {named!r}')
    if tensor is not None and not is_count(tensor):
        raise TypeError(f"weft.codec: tensor must be an id of a tensor, a number such as 7, not {tensor!r}")
    if tensor is not None and not 0 < tensor < _OF_HOOKS:
        raise ValueError(f"weft.codec: tensor={tensor}: ids of tensors are from 1 to 2**32 - 1 (those above are the hooks')")
    with coded(named, tensor or 0):
        yield
