# SPDX-License-Identifier: BSD-3-Clause
"""weft.peers: how this rank reaches the others of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch.distributed as dist


class Peer(NamedTuple):
    """A rank of a group, as this one reaches it."""

    rank: int  #: of the group
    host: str
    node: int  #: nodes are numbered from 0, by their lowest rank
    transport: str  #: "shm", "tcp", …; "" for this rank itself
    left_out: str  #: better transports, and why they do not serve: "verbs: rank 3 on host b has none"; ""
    state: str  #: what the transport says of the peer: its process, the connection's addresses


def peers(group: dist.ProcessGroup | None = None) -> list[Peer]:
    """The ranks of a group, in order, with the transport that serves each of them here.

    Local: the ranks have agreed on it when the group's communicator was made. `weft-info --peers` shows it of all ranks at once.

    Args:
        group: the process group; None is the default one.

    Raises:
        ValueError: the group's CPU backend is not weft.
        RuntimeError: the group has failed.
    """
    from . import _C
    from ._groups import backend_of

    return [Peer(rank, *row) for rank, row in enumerate(_C.peers(backend_of(group)))]
