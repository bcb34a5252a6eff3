# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero.fully_shard and weft.zero.Optimizer: sharding in the manner of FSDP2, for loops that call loss.backward()."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import nn

from ._comm import world_size
from ._config import OPTIONS, Settings, settings_of
from ._core import Core
from ._groups import Given, describe
from ._optimizer import ShardedOptimizer

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

#: Modules that fully_shard was applied to, and what was said of them.
_marked: MutableMapping[nn.Module, dict[str, Any]] = weakref.WeakKeyDictionary()


#: What may be said of a model.
SETTINGS = ("dtype", "overlap", "prefetch", "persistent", "live", "reuse", "secondary_ranks", *OPTIONS)


def fully_shard(module: nn.Module, stage: int = 3, **settings: Any) -> nn.Module:
    """Make a module a unit: its parameters, but for those of units inside of it, are gathered together.

        for block in model.blocks:
            weft.zero.fully_shard(block)
        weft.zero.fully_shard(model)
        optimizer = weft.zero.Optimizer(model, "adamw", lr=3e-4)

    Nothing is sharded before weft.zero.Optimizer, which takes the model's own settings.

    Args:
        module: applied to from the inside to the outside.
        stage: 1 shards the optimizer's state, 2 gradients too, 3 also parameters.
        settings: for the model as a whole: dtype=torch.bfloat16, overlap=False, prefetch=…, persistent=…, reuse=…, live=…
            (elements), and the options of weft.zero.initialize: grad_fp32=True, threads=…, gather_codec="int8:block=256",
            reduce_codec=…, state_dtype="bf16", offload_folder=…, offload_memory_bytes=…

    Returns:
        The module.

    Raises:
        ValueError: there is no such stage.
        TypeError: there is no such setting.
    """
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"weft.zero: stage is {stage!r}, not 0, 1, 2 or 3")
    unknown = sorted(set(settings) - set(SETTINGS))
    if unknown:
        raise TypeError(f"weft.zero: fully_shard has no setting {unknown[0]}; there are {', '.join(SETTINGS)}")
    settings_of(None, 1, {name: value for name, value in settings.items() if name in OPTIONS})
    _marked[module] = {"stage": stage, **settings}
    return module


class Optimizer(ShardedOptimizer):
    """Shards a model, and makes its steps. Collective: all ranks get the parameters of rank 0.

        loss_of(model(batch), target).backward()
        optimizer.step()

    A backward pass is the last before step(), unless it is inside of no_sync().

    Args:
        root: the model. Units are what fully_shard was applied to; repeated blocks, if that is the model alone or nothing.
        optimizer: as weft.zero.initialize's.
        params: what is trained, or groups of it, for an optimizer by name; None: all that require gradients.
        clip: largest norm of all gradients together; 0: not clipped. (torch.nn.utils.clip_grad_norm_ finds no gradients.)
        group: a process group; None: all ranks.
        hypers: lr=…, weight_decay=…
    """

    def __init__(
        self,
        root: nn.Module,
        optimizer: Given = "adamw",
        params: Iterable[Any] | None = None,
        *,
        clip: float = 0.0,
        group: ProcessGroup | None = None,
        **hypers: Any,
    ) -> None:
        given = [p for p in root.parameters() if p.requires_grad] if params is None else params
        described = describe(optimizer, given, hypers, root)
        marked = [module for module in root.modules() if module in _marked]
        settings = Settings(clip=clip, **_marked.get(root, {"stage": 3}))
        settings.divisor = float(world_size(group))  # sums of micro-batches, as with DDP and FSDP2
        units = marked if [module for module in marked if module is not root] else None
        core = Core(root, settings, described, group, units)
        super().__init__(core, described.groups)
        self._more = False
        this = weakref.ref(self)
        core.more = lambda: (optimizer := this()) is not None and optimizer._more

    def stats(self) -> dict[str, int]:
        """Bytes by class and nanoseconds by cause on this rank: weft_zero_stats of weft/weft_zero.h."""
        return self.core.stats()

    def offload_memory(self, limit: int) -> None:
        """How many bytes of states that have a place in a file may be in memory instead: another offload_memory_bytes."""
        self.core.lib.call("weft_zero_offload_memory", self.core.handle, limit)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside are followed by others before step(); their gradients are added, not averaged."""
        before, self._more = self._more, True
        try:
            yield
        finally:
            self._more = before

    def set_is_last_backward(self, is_last: bool) -> None:
        """Say by hand whether the next backward pass is the last before step()."""
        self._more = not is_last

    def destroy(self) -> None:
        """End the engine. The model's parameters can be read no more. Collective."""
        self.core.destroy()
