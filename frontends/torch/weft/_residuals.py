# SPDX-License-Identifier: BSD-3-Clause
"""Saved states of error feedback (state_dict of weft.hooks and weft.fsdp), checked before what is kept is forgotten for them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import torch

VERSION = 1  # of state_dict()
SPARE = 2**32 - 1  # of the tensors that a state has, the one that saved residuals are tried with
_HEAD = struct.Struct("<4sIIIQ")  # src/comm/residual.h: magic, version, form, flags, elements
_FORMS = ("0", "1", "loco", "ef21", "dgc")  # their numbers: compress/feedback.h


def feedback(codec: str | None) -> str:
    """The codec's error feedback, "1" of "int4:ef=1", "0" where it has none; None: that of WEFT_COMPRESS."""
    from . import _C

    named = codec if codec is not None else dict((row[0], row[1]) for row in _C.settings()).get("WEFT_COMPRESS") or ""
    parameters = [parameter.partition("=") for parameter in named.partition(":")[2].split(",")]
    return next((value for name, _, value in parameters if name == "ef"), "0")


def is_count(given: object) -> bool:
    """Whether it is an int, which True is not."""
    return isinstance(given, int) and not isinstance(given, bool)


def decimal(key: str, least: int, end: int) -> int | None:
    """The number that is written so, from `least` on and below `end`; None: none is."""
    known = key.isascii() and key.isdecimal() and len(key) <= len(str(end)) and str(int(key)) == key and least <= int(key) < end
    return int(key) if known else None


def check_state(who: str, what: str, one: object) -> Mapping[str, Any]:
    """That it is a state_dict(), with residuals that may be some.

    Args:
        who: begins the words of errors: "weft.hooks".
        what: it should be a state of: "State".
        one: was given.

    Raises:
        TypeError: something in it is of another type.
        ValueError: it is none, of another version, or of ranks that there are not.
    """
    if not isinstance(one, Mapping) or not {"version", "rank", "ranks", "residuals"} <= set(one):
        raise ValueError(f"{who}: no state of a {what}: {str(one)[:80]}")
    if one["version"] != VERSION:
        raise ValueError(f"{who}: a state of version {one['version']}; {VERSION} is known")
    rank, ranks, residuals = one["rank"], one["ranks"], one["residuals"]
    if not is_count(rank) or not is_count(ranks):
        raise TypeError(f"{who}: a state of rank {rank!r} of {ranks!r} ranks: they must be of type int")
    if not isinstance(residuals, Mapping):
        raise TypeError(f'{who}: "residuals" of a state must be a mapping, not {type(residuals).__name__}')
    if not 0 <= rank < ranks and (residuals or (rank, ranks) != (0, 0)):  # 0 of 0: saved before the first step
        raise ValueError(f"{who}: a state of rank {rank} of {ranks}, which there is not")
    for key, saved in residuals.items():
        if not isinstance(key, str) or not isinstance(saved, torch.Tensor):
            raise TypeError(f"{who}: the residual of {key!r} must be a tensor of state_dict(), not {type(saved).__name__}")
        if saved.dtype != torch.uint8 or saved.dim() != 1 or saved.device.type != "cpu":
            raise ValueError(
                f"{who}: the residual of {key!r} must be a torch.uint8 of one dimension on cpu, as of state_dict(), not a "
                f"{saved.dtype} of {saved.dim()} on {saved.device}"
            )
    return one


def check_residual(who: str, key: str, saved: torch.Tensor, codec: str | None, elements: int) -> None:
    """That what it says of itself is of this codec's error feedback, and of so many elements; below 0: not known.

    Raises:
        ValueError: it is not.
    """
    if saved.numel() < _HEAD.size:
        raise ValueError(f"{who}: the residual of {key!r} is cut: it has {saved.numel()} bytes")
    magic, version, form, _, of = _HEAD.unpack(bytes(saved[: _HEAD.size].tolist()))
    if magic != b"WFRS" or version != 1:
        raise ValueError(f"{who}: the residual of {key!r} is none of state_dict(): it begins with {magic!r}, version {version}")
    mine, its = feedback(codec), _FORMS[form] if form < len(_FORMS) else str(form)
    if mine != its:
        named = f"codec {codec}" if codec is not None else "WEFT_COMPRESS"
        raise ValueError(f"{who}: the residual of {key!r} was saved with ef={its}, and {named} has ef={mine}")
    if 0 <= elements != of:
        raise ValueError(f"{who}: the residual of {key!r} is of {of} elements, not of {elements}")


def try_loads(who: str, key: str, backend: Any, spare: int, saved: Sequence[torch.Tensor], factor: float) -> None:
    """Load them, one added to the other, to a tensor that nobody uses, and forget it: the library looks at all of their bytes.

    Raises:
        ValueError: they are damaged, or not for this rank.
    """
    from . import _C

    try:
        for one in saved:
            _C.load_residual(backend, spare, 0, one, factor)
    except ValueError as problem:
        raise ValueError(f"{who}: the residual of {key!r}: {problem}") from None
    finally:
        _C.clear_residual(backend, spare)
