# SPDX-License-Identifier: BSD-3-Clause
"""The backend's name in torch.distributed; the compiled part is loaded with the first group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def create(options: Any, backend_options: Any) -> Any:
    """Make a group's backend: what torch.distributed calls on every rank of a new group.

    Args:
        options: torch's DistributedBackendOptions: store, rank, size, timeout, name, global ranks.
        backend_options: `weft.Options` of the user, or None.
    """
    import copy

    from . import _C
    from ._signals import watch

    timeout = options.timeout if isinstance(options.timeout, timedelta) else timedelta(seconds=float(options.timeout))
    if backend_options is None:
        backend_options = _C.Options(timeout)
    elif not isinstance(backend_options, _C.Options):
        raise TypeError(f"pg_options of a weft group must be weft.Options, not {type(backend_options).__name__}")
    else:
        backend_options = copy.copy(backend_options)
    watch(_C.interrupt, _C.set_wakeup_fd)
    if not backend_options.timeout_given:
        backend_options._timeout = timeout
    backend_options.group_name = options.group_id
    backend_options.global_ranks_in_group = list(options.global_ranks_in_group)
    return _C.Backend(options.store, options.group_rank, options.group_size, backend_options)


def register() -> None:
    """Make "weft" a backend that init_process_group and new_group take. Doing it again changes nothing."""
    import torch.distributed as dist

    if not dist.is_available() or hasattr(dist.Backend, "WEFT"):
        return
    dist.Backend.register_backend("weft", create, extended_api=True, devices=["cpu", "cuda"])
