# SPDX-License-Identifier: BSD-3-Clause
"""From a process group to its weft backend."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def backend_of(group: dist.ProcessGroup | None = None) -> Any:
    """The weft backend of a group (None: the default group).

    Raises:
        ValueError: the group's CPU backend is another one.
    """
    from . import _C

    given = group if group is not None else dist.distributed_c10d._get_default_group()
    backend = given._get_backend(torch.device("cpu"))
    wrapped = getattr(backend, "wrapped_pg", None)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
    backend = backend if wrapped is None else wrapped
    if not isinstance(backend, _C.Backend):
        raise ValueError(f"the group's CPU backend is {backend.name()}, not weft")
    return backend
