# SPDX-License-Identifier: BSD-3-Clause
"""torch's coalescing manager when an exception leaves its block.

It keeps the operations that were called inside, and takes further ones of the group for parts of that batch: they would not be
issued at all. The backend is not told; but the generator behind the with-statement ends.
"""

from __future__ import annotations

import weakref
from types import GeneratorType
from typing import Any


def watched(generator: GeneratorType[Any, Any, Any], name: str) -> weakref.ref[GeneratorType[Any, Any, Any]]:
    """A weak reference to the manager's generator; once that is gone torch has no open batch of the group any more.

    Args:
        generator: what runs in the frame that begins a batch.
        name: of the group.
    """
    from torch.distributed.distributed_c10d import _world

    lists = [(group, calls) for group, calls in _world.pg_coalesce_state.items() if group.group_name == name]

    def gone(_: object) -> None:
        for group, calls in lists:
            if _world.pg_coalesce_state.get(group) is calls:  # else the batch has come to its end
                del _world.pg_coalesce_state[group]

    return weakref.ref(generator, gone)
