# SPDX-License-Identifier: BSD-3-Clause
"""Activations that are computed again in the backward pass instead of being kept."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

#: What configurations say below activation_checkpointing, and what of it means nothing where activations are in host memory anyway.
_WITHOUT_EFFECT = ("partition_activations", "cpu_checkpointing", "contiguous_memory_optimization",
                   "synchronize_checkpoint_boundary")  # fmt: skip
_KNOWN = {*_WITHOUT_EFFECT, "number_checkpoints", "profile"}
_profile = False


def configure(config: dict[str, Any]) -> None:
    """Take the section activation_checkpointing of a configuration.

    Raises:
        ValueError: it has an unknown key.
    """
    global _profile
    unknown = sorted(set(config) - _KNOWN)
    if unknown:
        raise ValueError(f"weft.zero: there is no key activation_checkpointing.{unknown[0]}; there are {', '.join(sorted(_KNOWN))}")
    for key in _WITHOUT_EFFECT:
        if config.get(key):
            why = "activations are in host memory as they are"
            warnings.warn(f"weft.zero: activation_checkpointing.{key} has no effect: {why}", stacklevel=3)
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
