# SPDX-License-Identifier: BSD-3-Clause
"""weft as a backend of torch.distributed.

Once the package is installed nothing has to be imported::

    import torch.distributed as dist
    dist.init_process_group("weft")            # or "cpu:weft,cuda:nccl"

What is here besides: :func:`info` (versions, settings, transports), :mod:`weft.bench` (the table of the C benchmarks, through
torch), :mod:`weft.flight_recorder` and :mod:`weft.trace` (what was called, dumped for PyTorch's analyzer), :mod:`weft.mem`
(tensors in transport memory), :mod:`weft.ddp` and :mod:`weft.fsdp` (their communication buffers in transport memory),
:mod:`weft.hooks` (DDP's gradients compressed), :mod:`weft.zero` (sharded training), :func:`codec` (any call compressed), and
:func:`monitored_barrier`.
"""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from . import bench, ddp, flight_recorder, fsdp, hooks, mem, trace, zero
    from ._algorithms import algorithm
    from ._codec import codec
    from ._info import info
    from ._mesh import mesh, topology
    from ._peers import peers

__version__ = "0.1.0"
__all__ = [
    "Options",
    "algorithm",
    "bench",
    "codec",
    "ddp",
    "flight_recorder",
    "fsdp",
    "hooks",
    "info",
    "mem",
    "mesh",
    "monitored_barrier",
    "peers",
    "topology",
    "trace",
    "zero",
]

_SUBMODULES = {"bench", "ddp", "flight_recorder", "fsdp", "hooks", "mem", "trace", "zero"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "info":
        return importlib.import_module(f"{__name__}._info").info
    if name in ("mesh", "topology"):
        return getattr(importlib.import_module(f"{__name__}._mesh"), name)
    if name == "peers":
        return importlib.import_module(f"{__name__}._peers").peers
    if name == "algorithm":
        return importlib.import_module(f"{__name__}._algorithms").algorithm
    if name == "codec":
        return importlib.import_module(f"{__name__}._codec").codec
    if name == "Options":
        return importlib.import_module(f"{__name__}._load").adapter().Options
    if name == "_C":
        return importlib.import_module(f"{__name__}._load").adapter()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def monitored_barrier(group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """Wait until every rank of the group has called, and name those that do not come.

    Rank 0 collects the others. It goes by way of the group's store, so that a barrier that fails leaves the communicator
    usable. For debugging: `torch.distributed.barrier` is hundreds of times faster.

    Args:
        group: the process group; None is the default one.
        timeout: how long rank 0 waits; None is the group's.
        wait_all_ranks: name every missing rank, not only those missing when the first is.

    Raises:
        RuntimeError: on every rank that came, with the missing ranks.
    """
    from torch.distributed.distributed_c10d import _rank_not_in_group

    from ._groups import backend_of

    if group is not None and _rank_not_in_group(group):
        return
    backend_of(group).monitored_barrier(timeout, wait_all_ranks)


def _autoload() -> None:
    """Entry point `torch.backends`: make the name known, and nothing that could fail or take time."""
    from . import _register

    _register.register()
