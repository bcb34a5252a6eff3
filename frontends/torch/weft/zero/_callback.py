# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers of the program's, in Python: weft.zero.Callback."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ._library import UPDATE, Error, Update

if TYPE_CHECKING:
    from ._comm import Communicator
    from ._core import Core


@dataclass(slots=True)
class Piece:
    """Consecutive elements of a parameter, for a Callback: views of the engine's memory, in fp32, of one dimension.

    Attributes:
        name: the parameter's.
        first: which of its elements, in row-major order, is the piece's first.
        weight: to be changed in place; of a 16-bit parameter the master weight.
        moments: likewise; 0 before the first step.
        grad: divided, unscaled and clipped.
        group: the parameter's group of optimizer.param_groups: hyper-parameters.
        step: the number of this step, from 1.
    """

    name: str
    first: int
    weight: torch.Tensor
    moments: tuple[torch.Tensor, ...]
    grad: torch.Tensor
    group: dict[str, Any]
    step: int


class Callback:
    """An optimizer of your own: a function that updates a piece of a parameter.

        def sgd(piece: weft.zero.Piece) -> None:
            piece.weight.sub_(piece.grad, alpha=piece.group["lr"])

        engine = weft.zero.initialize(model, weft.zero.Callback(sgd), lr=0.1)

    The engine's threads call it, several with other pieces, in any order; Python runs one at a time, so that it is slow beside
    the library's own. How parameters are cut into pieces depends on stage, ranks and files: what computes every element by
    itself gives the same bits in all of them. The tensors are views, and must not be kept. It must not call weft.

    Args:
        function: what is called, the same on all ranks. An exception is raised again by step(), behind which some weights are
            updated and others are not: only a checkpoint helps.
        moments: how many tensors beside the weight the engine keeps, 0 to 2.
        hypers: of all groups, by any names. Those that the library's optimizers have (lr, betas, momentum, …) are numbers, which
            are compared among the ranks; save_checkpoint takes what JSON can express.
    """

    def __init__(self, function: Callable[[Piece], Any], moments: int = 0, **hypers: Any) -> None:
        if not callable(function):
            raise TypeError("weft.zero: Callback: the function cannot be called")
        if moments not in (0, 1, 2):
            raise ValueError(f"weft.zero: Callback: moments is {moments!r}, not 0, 1 or 2")
        self.function, self.moments, self.hypers = function, moments, hypers


class Updates:
    """What the library calls for an engine."""

    def __init__(self, callback: Callback, core: Core) -> None:
        self.callback, self.groups = callback, []  # type: Callback, list[dict[str, Any]]
        self._failure: BaseException | None = None
        self._core = weakref.ref(core)
        mine = weakref.ref(self)

        def update(_: int | None, given: Any) -> None:
            here = mine()
            if here is not None:
                here._update(given.contents)

        #: Called from the library's threads; ctypes takes Python's lock.
        self.function = UPDATE(update)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def _update(self, given: Update) -> None:
        core = self._core()
        if self._failure is not None or core is None:
            return
        try:
            known = core.params[given.param]

            def view(address: int) -> torch.Tensor:
                return torch.frombuffer((ctypes.c_float * given.elems).from_address(address), dtype=torch.float32)

            moments = tuple(view(m) for m in (given.moment1, given.moment2)[: self.callback.moments])
            with torch.no_grad():
                self.callback.function(Piece(known.name, int(given.first), view(given.weight), moments, view(given.grad),
                                             self.groups[known.group], int(given.step)))  # fmt: skip
        except BaseException as problem:  # there is nobody to raise it to
            self._failure = problem

    def check(self, comm: Communicator) -> None:
        """Raise what a call in the last step has raised, on any rank. Collective."""
        failure, self._failure = self._failure, None
        broken = "some weights are updated, and others are not: load a checkpoint"
        if comm.any(failure is not None):
            what = f"has raised {type(failure).__name__}: {failure}" if failure is not None else "has raised on another rank"
            raise Error(f"weft.zero: the Callback {what}; {broken}") from failure
