# SPDX-License-Identifier: BSD-3-Clause
"""weft.mesh: a DeviceMesh whose ranks are where the topology wants them, and weft.topology."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: How much the ranks along an axis exchange, compared with other axes, unless `traffic` says otherwise. Tensor parallelism
#: exchanges activations in every layer, expert and context parallelism in some, sharded data parallelism weights once per step and
#: layer, data parallelism gradients once per step, a pipeline the activations between two layers.
TRAFFIC = {"tp": 64.0, "ep": 16.0, "cp": 16.0, "dp_shard": 8.0, "fsdp": 8.0, "dp": 4.0, "dp_replicate": 2.0, "pp": 1.0}


def _extents(axes: Mapping[str, int], size: int) -> dict[str, int]:
    """The axes with -1 replaced by what is left of `size` ranks.

    Raises:
        ValueError: they do not multiply to it.
    """
    if not axes:
        raise ValueError("weft.mesh: no axes; for example weft.mesh(dp=-1, tp=2)")
    for name, n in axes.items():
        if not isinstance(n, int) or isinstance(n, bool) or (n < 1 and n != -1):
            raise ValueError(f"weft.mesh: {name}={n!r}: must be a number of ranks, or -1 for what is left")
    unknown = [name for name, n in axes.items() if n == -1]
    if len(unknown) > 1:
        raise ValueError(f"weft.mesh: {' and '.join(unknown)} are -1: only one axis can be what is left")
    known = math.prod(n for n in axes.values() if n != -1)
    given = " * ".join(f"{name}={n}" for name, n in axes.items() if n != -1)
    if unknown and size % known:
        raise ValueError(f"weft.mesh: {size} ranks are not divisible by {given}, so that {unknown[0]} cannot be what is left")
    if not unknown and known != size:
        raise ValueError(f"weft.mesh: {given} makes {known} ranks, the group has {size}")
    return {name: size // known if n == -1 else n for name, n in axes.items()}


def _weights(axes: Mapping[str, int], traffic: Mapping[str, float]) -> list[float]:
    for name in traffic:
        if name not in axes:
            raise ValueError(f"weft.mesh: traffic of {name}, which is not an axis; axes are {', '.join(axes)}")
    weights = []
    for name in axes:
        weight = traffic.get(name, TRAFFIC.get(name))
        if weight is None:
            raise ValueError(
                f"weft.mesh: how much do the ranks along {name} exchange? Say so with traffic={{{name!r}: …}}; known are "
                + ", ".join(f"{known} ({usual:g})" for known, usual in TRAFFIC.items())
            )
        if not (isinstance(weight, (int, float)) and 0 < weight < math.inf):
            raise ValueError(f"weft.mesh: a traffic of {weight!r} for {name}: must be a number above 0")
        weights.append(float(weight))
    return weights


def mesh(
    *, device_type: str = "cpu", traffic: Mapping[str, float] | None = None, verbose: bool = False, **axes: int
) -> DeviceMesh:
    """A DeviceMesh of all ranks in which those that exchange most are nearest to each other.

    As `torch.distributed.device_mesh.init_device_mesh`, but for the order of the ranks: where that takes 0, 1, 2, … this puts the
    groups of the axis with the most traffic within caches, memories, packages, nodes or racks, then those of the next axis, and
    so on, as the library's topology has them (`WEFT_TOPO_FILE`, or what every node has read of itself). The numbers stay as they
    are when no better order is found. Collective: every rank calls, with the same arguments.

        mesh = weft.mesh(pp=2, dp=-1, tp=4, verbose=True)
        mesh["tp"].get_group()

    Args:
        axes: ranks along each axis, by its name, in the order of the mesh's dimensions; one of them may be -1, what is left.
        device_type: of the DeviceMesh.
        traffic: how much the ranks along an axis exchange, compared with the others; for names that are not in `TRAFFIC`, and
            to override those that are.
        verbose: rank 0 prints the reasons.

    Returns:
        The mesh; its attribute `weft_reasons` is the text that tells, for each axis, within what its groups are and their
        slowest link.

    Raises:
        ValueError: the axes do not fit the group, or its CPU backend is not weft.
        RuntimeError: the topology could not be found, or a rank, which is named, has given other axes.
    """
    from torch.distributed.device_mesh import DeviceMesh

    from . import _C
    from ._groups import backend_of

    backend = backend_of(None)
    extents = _extents(axes, dist.get_world_size())
    weights = _weights(axes, traffic or {})
    order, reasons = _C.mesh_order(backend, list(extents), list(extents.values()), weights)
    if verbose and dist.get_rank() == 0:
        print(reasons, end="", flush=True)
    ranks = torch.tensor(order, dtype=torch.int).view(*extents.values())
    made = DeviceMesh(device_type, ranks, mesh_dim_names=tuple(extents))
    made.weft_reasons = reasons  # type: ignore[attr-defined]
    return made


def topology(group: dist.ProcessGroup | None = None, format: str = "tree") -> str:
    """The machine that a group's ranks are on: hosts, memories, caches, cores, devices, links with their rates.

    The first call for a group is collective (or the first :func:`mesh`, for the default group); later ones are local.

    Args:
        group: the process group; None is the default one.
        format: "tree" to read, "json" or "xml" for `WEFT_TOPO_FILE` and `weft-topo`, "dot", "svg".

    Raises:
        ValueError: the group's CPU backend is not weft.
        RuntimeError: there is no such format, or the topology could not be found.
    """
    from . import _C
    from ._groups import backend_of

    text: str = _C.topology(backend_of(group), format)
    return text
