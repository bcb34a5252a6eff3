# SPDX-License-Identifier: BSD-3-Clause
"""Hooks on modules: they gather a unit when its module is called and when gradients come back to it, and hand gradients in.

Below stage 3 parameters are always there; the hooks only wait for those that the last step changed. In stage 3 a call of a module
is a pass of its units, and so is the way of the gradients through it: from the first gradient of an output to the last of an input.
Inputs are aliased for that, because the same tensor may have other users, whose gradients come later. Where no input has a
gradient, the pass ends with the unit's last gradient, or with the backward pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from .. import _C
from ._library import Library


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Tensors in what a module takes or returns: in tuples, lists, dictionaries and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors_of(getattr(value, field.name, None))


def replace_tensors(value: Any, by: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same with other tensors. Of what is not a plain tuple, named tuple, list or dictionary, tensors are left as they are."""
    if isinstance(value, torch.Tensor):
        return by(value)
    if type(value) is list:
        return [replace_tensors(item, by) for item in value]
    if type(value) is tuple:
        return tuple(replace_tensors(item, by) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replace_tensors(item, by) for item in value))
    if type(value) is dict:
        return {key: replace_tensors(item, by) for key, item in value.items()}
    return value


class Unit:
    """A unit at work."""

    def __init__(self, name: str, number: int, handle: _C.ZeroUnit) -> None:
        self.name, self.number, self.handle = name, number, handle
        self.params: list[int] = []
        self.trained = 0  # parameters that have gradients
        self.all_trained = True
        self.depth = 0  # calls of modules that use it, one inside of the other
        self.missing = 0  # gradients that have not come in this micro-batch
        self.calls = 0  # before the backward pass of this micro-batch
        self.backwards: list[BackwardPass] = []  # under way
        self.ahead = 0  # backward passes that have not begun
        self.touched = False
        self.unused: set[int] = set()  # parameters whose gradients did not come in the last micro-batch
        self.came: set[int] = set()


@dataclasses.dataclass
class _Call:
    """A call of a module that is under way."""

    module: nn.Module
    units: list[Unit]
    opened: list[Unit]
    inputs: list[torch.Tensor]


class BackwardPass:
    """The way of gradients back through one call of a module."""

    def __init__(self, passes: Passes, units: list[Unit], ends: bool) -> None:
        self.passes, self.units, self.ends = passes, units, ends
        self.state = 0  # 1: under way, 2: over
        for unit in units:
            unit.ahead += 1

    def begin(self, _grad: torch.Tensor) -> None:
        """The gradient of an output is there."""
        if self.state == 0:
            self.passes.backward_begins()
            self.state = 1
            for unit in self.units:
                unit.ahead -= 1
                self.passes.check(unit.handle.pre_backward())
                unit.backwards.append(self)

    def end(self, *_grads: Any) -> None:
        """The gradients of all inputs are there."""
        if self.state != 1:
            return
        self.state = 2
        for unit in self.units:
            unit.backwards.remove(self)
            # Gradients that have not come may yet, unless they did not come the last time either.
            ended = unit.missing == 0 or (not unit.ahead and not unit.backwards and self.passes.only_unused_missing(unit))
            self.passes.check(unit.handle.post_backward() if ended else unit.handle.post_forward())


class Passes:
    """All hooks of one engine.

    Args:
        library: whose failures are raised.
        stage: 0 to 3.
        finish: called at the end of a backward pass that nobody else ends.
        begun: called when a backward pass begins, before gradients come.
    """

    def __init__(self, library: Library, stage: int, begun: Callable[[], None], finish: Callable[[], None]) -> None:
        self._library, self._whole = library, stage < 3
        self._begun, self._finish = begun, finish
        self.units: list[Unit] = []
        self._calls: list[_Call] = []
        self._held: dict[torch.Tensor, tuple[Unit, int]] = {}
        self._handles: list[RemovableHandle] = []
        self._opens: dict[nn.Module, list[Unit]] = {}
        self.running = False  # a backward pass is under way
        self._task = -1  # the autograd engine's number of it
        self.ended_by_caller = False  # no call-back of the autograd engine is wanted
        self.root: nn.Module | None = None

    def check(self, status: int) -> None:
        """Raise Error if it is a failure's."""
        if status < 0:
            self._library.fail(status)

    # ---- Calls of modules ----

    def open_in(self, module: nn.Module, units: list[Unit]) -> None:
        """Have these units gathered while the module is called."""
        if module in self._opens:
            self._opens[module] += [unit for unit in units if unit not in self._opens[module]]
            return
        self._opens[module] = list(units)
        if self._whole:
            self._handles.append(module.register_forward_pre_hook(self._touch))
            return
        self._handles.append(module.register_forward_pre_hook(self._enter, with_kwargs=True))
        self._handles.append(module.register_forward_hook(self._leave, with_kwargs=True, always_call=True))

    def watch_root(self, module: nn.Module) -> None:
        """Notice the model's own calls: what an exception has left open is closed, and backward passes are noticed."""
        self.root = module
        self._handles.append(module.register_forward_pre_hook(self._enter_root, prepend=True))
        self._handles.append(module.register_forward_hook(self._leave_root))

    def _touch(self, module: nn.Module, _args: Any) -> None:
        for unit in self._opens[module]:
            if not (unit.touched and unit.handle.shown):
                self.check(unit.handle.touch())
                unit.touched = True
            unit.calls += not self.running

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        units = self._opens[module]
        call = _Call(module, units, [], [])
        for unit in units:
            if unit.depth == 0:
                self.check(unit.handle.pre_forward())
                call.opened.append(unit)
                unit.calls += not self.running
            unit.depth += 1
        self._calls.append(call)
        if not call.opened or not torch.is_grad_enabled():
            return None

        def alias(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.requires_grad or tensor.layout is not torch.strided:
                return tensor
            call.inputs.append(tensor.view_as(tensor))
            return call.inputs[-1]

        return replace_tensors(args, alias), replace_tensors(kwargs, alias)

    def _leave(self, module: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
        while self._calls and self._calls[-1].module is not module:
            self._close(self._calls.pop())
        if not self._calls:
            return
        call = self._calls.pop()
        self._close(call)
        if not call.opened or not torch.is_grad_enabled():
            return
        outputs = [t for t in tensors_of(output) if t.requires_grad and not t.is_leaf]
        if not outputs:
            return
        back = BackwardPass(self, call.opened, bool(call.inputs))
        for tensor in outputs:
            tensor.register_hook(back.begin)  # type: ignore[no-untyped-call]
        if len(call.inputs) == 1:
            call.inputs[0].register_hook(back.end)  # type: ignore[no-untyped-call]
        elif call.inputs:
            torch.autograd.graph.register_multi_grad_hook(call.inputs, back.end)

    def _close(self, call: _Call) -> None:
        for unit in call.units:
            unit.depth -= 1
        for unit in call.opened:
            self.check(unit.handle.post_forward())

    def _enter_root(self, module: nn.Module, _args: Any) -> None:
        if not self.running:
            while self._calls and all(call.module is not module for call in self._calls):
                self._close(self._calls.pop())

    def _leave_root(self, _module: nn.Module, _args: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            for tensor in tensors_of(output):
                if tensor.requires_grad and not tensor.is_leaf:
                    tensor.register_hook(self._root_gradient)  # type: ignore[no-untyped-call]

    # ---- Backward ----

    def _root_gradient(self, _grad: torch.Tensor) -> None:
        self.backward_begins()

    def backward_begins(self) -> None:
        """Something of a backward pass has come. The first time, have its end noticed."""
        if self.running:
            return
        self.running = True
        self._task = torch._C._current_graph_task_id()
        self._begun()
        if not self.ended_by_caller:
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def gradient(self, unit: Unit, param: int, tensor: torch.Tensor) -> None:
        """A parameter's gradient is complete, in tensor.grad."""
        self.backward_begins()
        if unit.calls > 1 and torch._C._current_graph_task_id() != self._task:
            # A backward pass inside of another, as torch.utils.checkpoint with use_reentrant=True makes one for each of its calls:
            # the next may bring another gradient of this parameter.
            self._held[tensor] = (unit, param)
            return
        self._hand_in(unit, param, tensor)
        if unit.missing == 0 and unit.all_trained:
            for back in [b for b in unit.backwards if not b.ends]:
                back.end()

    def _hand_in(self, unit: Unit, param: int, tensor: torch.Tensor) -> None:
        grad = tensor.grad
        tensor.grad = None
        if grad is not None:
            self.check(unit.handle.grad_add(param, grad))
            unit.missing -= 1
            unit.came.add(param)

    def only_unused_missing(self, unit: Unit) -> bool:
        """All gradients that have not come did not come in the last micro-batch either."""
        return bool(unit.unused) and unit.missing == len(unit.unused - unit.came) and not self._held

    def hand_in_held(self) -> None:
        """At the end of the backward pass: what has been kept till then."""
        for tensor, (unit, param) in self._held.items():
            self._hand_in(unit, param, tensor)
        self._held.clear()

    def close_all(self) -> None:
        """End all passes that have begun, as at the end of the backward pass or after an exception."""
        while self._calls:
            self._close(self._calls.pop())
        for unit in self.units:
            unit.depth = 0
            while unit.handle.passes:
                self.check(unit.handle.post_forward())
            for back in unit.backwards:
                back.state = 2
            unit.backwards.clear()

    def next_micro_batch(self, complete: bool) -> None:
        """Count anew. complete: the backward pass has ended, so that what has not come is not used."""
        self.running, self._task = False, -1
        for tensor in self._held:
            tensor.grad = None
        self._held.clear()
        for unit in self.units:
            if complete:
                unit.unused = {p for p in unit.params if p not in unit.came}
            unit.missing, unit.calls, unit.ahead = unit.trained, 0, 0
            unit.came.clear()

    def remove(self) -> None:
        """Take all hooks off the modules."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._opens.clear()
