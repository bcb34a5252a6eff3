# SPDX-License-Identifier: BSD-3-Clause
"""What weft.zero.dcp and weft.zero.universal have in common: the state of an engine, by names, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ._core import Core
from ._groups import saved_hypers
from ._library import WEIGHT
from ._optimizer import ShardedOptimizer
from ._safetensors import core_of, names_of

if TYPE_CHECKING:
    from ._engine import Engine

_OPTIMIZERS: dict[str, Any] = {
    "adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad,
    "muon": getattr(torch.optim, "Muon", None),
}  # fmt: skip


class Trained:
    """An engine of weft.zero.initialize or an Optimizer of weft.zero, with names.

    Attributes:
        names: numbers of parameters, by each of their names.
        buffers: those that are saved.
        trained: numbers of parameters that have moments.
    """

    def __init__(self, engine: Engine | ShardedOptimizer) -> None:
        found = engine if isinstance(engine, ShardedOptimizer) else getattr(engine, "optimizer", None)
        if not isinstance(found, ShardedOptimizer):
            raise TypeError(f"weft.zero: a {type(engine).__name__} is neither an engine of weft.zero.initialize nor a "
                            "weft.zero.Optimizer")  # fmt: skip
        self.engine, self.optimizer = engine, found
        self.core: Core = core_of(engine)  # type: ignore[arg-type]
        self.names, self.buffers = names_of(self.core)
        self.first = {number: known.name for number, known in enumerate(self.core.params)}
        self.trained = [number for number, known in enumerate(self.core.params) if not known.frozen]

    def moments(self, number: int) -> dict[str, int]:
        """Names of a parameter's moments, as torch has them, and the library's."""
        return self.core.moments(number)

    def get(self, number: int, what: int, here: bool, dtype: torch.dtype = torch.float32) -> torch.Tensor | None:
        """A whole tensor where it is wanted. Collective."""
        return self.core.get_values(number, what, dtype, here)

    def weight(self, number: int, here: bool) -> torch.Tensor | None:
        """A whole master weight."""
        return self.get(number, WEIGHT, here)

    def groups(self) -> list[dict[str, Any]]:
        """Of the optimizer, as torch's of this name has them, with names of parameters."""
        made = []
        for kind, group in zip(self.core.kinds, self.optimizer.param_groups, strict=True):
            mine = {k: v for k, v in group.items() if k != "params"}
            cls = _OPTIMIZERS.get(kind)
            if cls is not None:
                theirs = cls([torch.zeros(1, 1, requires_grad=True)], lr=1e-3).param_groups[0]
                mine = {**{k: v for k, v in theirs.items() if k != "params"}, **mine}
            numbers = [self.core.numbers[tensor] for tensor in group["params"]]
            made.append({"params": [self.first[n] for n in numbers if not self.core.params[n].frozen], **mine})
        return made

    def take_groups(self, groups: Iterable[Mapping[str, Any]]) -> None:
        """Hyper-parameters of groups that were saved."""
        for kind, mine, theirs in zip(self.core.kinds, self.optimizer.param_groups, groups, strict=False):
            for name, value in saved_hypers(kind, theirs).items():
                mine[name] = value.item() if isinstance(value, torch.Tensor) else tuple(value) if isinstance(value, list) else value

    def take_steps(self, steps: Iterable[float], where: str, moments: bool) -> None:
        """So many steps have been made for each parameter. moments: some are there; SGD of torch's counts no steps, and has made
        one then.

        Raises:
            ValueError: their numbers differ.
        """
        told = list(steps)
        for step in told:
            if not 0 <= step < 2**53:  # not a number, either
                raise ValueError(f"weft.zero: {where}: a parameter has made {step} steps")
        seen = {int(step) for step in told}
        if len(seen) > 1:
            raise ValueError(f"weft.zero: {where}: parameters have made {min(seen)} to {max(seen)} steps; here all have made as "
                             "many")  # fmt: skip
        self.core.set_steps(seen.pop() if seen else int(moments))
        if not isinstance(self.engine, ShardedOptimizer):
            self.engine.global_steps = self.core.steps
            self.engine.micro_steps = self.core.steps * self.core.settings.micro_batches
