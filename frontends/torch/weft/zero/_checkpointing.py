# SPDX-License-Identifier: BSD-3-Clause
"""Activations that are computed again in the backward pass instead of being kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

_profile = False


def configure(config: dict[str, Any]) -> None:
    """Take the section activation_checkpointing of a configuration, as the library has read it."""
    global _profile
    _profile = bool(config.get("profile", False))


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool = False, **kwargs: Any) -> Any:
    """Call `function`, keeping its inputs only: what its backward pass needs is computed again then.

    As torch.utils.checkpoint.checkpoint. With `"profile": true` in the configuration's activation_checkpointing, torch's profiler
    has it as weft.zero.checkpoint.

    Args:
        function: a module, say.
        args: its arguments.
        use_reentrant: the older of torch's two ways; a parameter that several calls use gets its gradient at the end then.
        kwargs: its keyword arguments.
    """
    with torch.profiler.record_function("weft.zero.checkpoint") if _profile else contextlib.nullcontext():
        if use_reentrant:
            return torch_checkpoint.checkpoint(lambda *a: function(*a, **kwargs), *args, use_reentrant=True)
        return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)
