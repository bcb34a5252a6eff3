# SPDX-License-Identifier: BSD-3-Clause
"""A model on an engine of libweft_zero: what the two faces, weft.zero.initialize and weft.zero.fully_shard, have in common."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from . import _library
from ._callback import Updates
from ._comm import Communicator
from ._init import leave_meta, source_of
from ._library import DTYPES, FROZEN, MOMENT1, MOMENT2, WEIGHT, Error, library
from ._passes import Passes, Unit
from ._units import Block, Plan, plan

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from ._config import Settings
    from ._groups import Described

#: Of each parameter that an engine has: the engine, and its number there.
_engines: MutableMapping[torch.Tensor, tuple[weakref.ref[Core], int]] = WeakTensorKeyDictionary()


_ADAM = {"exp_avg": MOMENT1, "exp_avg_sq": MOMENT2}
_MOMENTS = {
    "adamw": _ADAM, "adam": _ADAM, "lamb": _ADAM, "lion": {"exp_avg": MOMENT1}, "adagrad": {"sum": MOMENT1},
    "sgd": {"momentum_buffer": MOMENT1}, "muon": {"momentum_buffer": MOMENT1},
}  # fmt: skip
_OF_CALLBACKS = {"moment1": MOMENT1, "moment2": MOMENT2}


@dataclass
class Known:
    """A parameter of an engine; `frozen` as it was when the engine was made."""

    name: str
    tensor: nn.Parameter
    unit: Unit
    frozen: bool
    dtype: torch.dtype
    group: int = 0  # of the optimizer


def engine_of(parameter: torch.Tensor) -> tuple[Core, int]:
    """The engine of a parameter, and its number.

    Raises:
        ValueError: it is of no engine.
    """
    core, number = _engines.get(parameter) or (None, -1)
    found = core() if core else None
    if found is None:
        raise ValueError(f"weft.zero: a tensor of shape {tuple(parameter.shape)} is no parameter of an engine of weft.zero")
    return found, number


def _address(array: torch.Tensor) -> int:
    return array.data_ptr()


class Core:
    """The engine, its units and hooks.

    Args:
        model: its parameters become views of the engine's memory. All ranks get the values of rank 0.
        settings: how.
        optimizer: what updates which parameters; what is in no group is not trained.
        group: of processes; None: all.
        units: modules that are units; None: repeated blocks (see _units).
    """

    def __init__(
        self,
        model: nn.Module,
        settings: Settings,
        optimizer: Described,
        group: ProcessGroup | None = None,
        units: Sequence[Block] | None = None,
    ) -> None:
        self.module, self.settings = model, settings
        self.optimizer, self.kinds, self.lib = optimizer.name, optimizer.kinds, library()
        self._main = optimizer.main
        layout = plan(model, units)
        _check(layout)
        self.comm = Communicator(group)
        self.handle = ctypes.c_void_p()
        config = settings.library_config(_library.OPTIMIZERS[self._main])
        self.updates = Updates(optimizer.callback, self) if optimizer.callback else None
        if self.updates:
            config.update, config.update_moments = self.updates.address, self.updates.callback.moments
        self.lib.call("weft_zero_create", self.comm.handle, ctypes.byref(config), ctypes.byref(self.handle))
        self._end = weakref.finalize(self, _destroy, self.handle, self.comm)
        self.passes = Passes(self.lib, settings.stage, self._backward_begins, self._backward_ends)
        self.params: list[Known] = []
        self.numbers: dict[torch.Tensor, int] = {}
        self.more: Callable[[], bool] = lambda: False  # micro-batches follow the one that begins
        self.scaled: bool | None = None  # the loss that comes back was multiplied by the loss scale; None: nobody watches that
        self.micro_batches = 0  # of this step, that have ended
        self.turns = 0  # calls of Engine.step() since the last update: micro-batches outside of no_sync()
        self.steps = 0
        try:
            self._source = source_of(model, layout, self.comm.rank == 0)
            self._register(layout, [group["params"] for group in optimizer.groups])
            self._give_values()
        except BaseException:
            self.passes.remove()
            self._end()
            raise
        self._watch(layout)

    # ---- Making ----

    def _register(self, layout: Plan, groups: Sequence[Sequence[torch.Tensor]]) -> None:
        of = {tensor: number for number, tensors in enumerate(groups) for tensor in tensors}
        self._units = {}
        for unit_plan in layout.units:
            numbers = []
            for name, tensor in unit_plan.params:
                frozen = not tensor.requires_grad or tensor not in of
                dtype = self.settings.dtype or tensor.dtype
                numbers.append(self._add_param(name, tensor, dtype, frozen, of.get(tensor, 0)))
                self.params.append(Known(name, tensor, None, frozen, dtype, of.get(tensor, 0)))  # type: ignore[arg-type]
                self.numbers[tensor] = numbers[-1]
            number = ctypes.c_int()
            self.lib.call("weft_zero_unit_add", self.handle, unit_plan.name.encode(), (ctypes.c_int * len(numbers))(*numbers),
                          len(numbers), ctypes.byref(number))  # fmt: skip
            unit = Unit(unit_plan.name, number.value, self.lib_unit(number.value))
            unit.params = [p for p in numbers if not self.params[p].frozen]
            unit.trained = unit.missing = len(unit.params)
            unit.all_trained = unit.trained == len(numbers)
            for p in numbers:
                self.params[p].unit = unit
            self._units[unit_plan] = unit
            self.passes.units.append(unit)
        missing = [tensor for tensor in of if tensor not in self.numbers]
        if missing:
            raise ValueError(f"weft.zero: the optimizer has a parameter of shape {tuple(missing[0].shape)} that is not the model's")
        self.lib.call("weft_zero_seal", self.handle)

    def lib_unit(self, number: int) -> Any:
        """The adapter's part of a unit."""
        from .. import _C

        return _C.ZeroUnit(self.lib.addresses, self.handle.value or 0, number)

    def _add_param(self, name: str, tensor: torch.Tensor, dtype: torch.dtype, frozen: bool, group: int) -> int:
        shape = (ctypes.c_size_t * max(tensor.dim(), 1))(*tensor.shape)
        flags = FROZEN if frozen else 0
        own = 0 if frozen or self.kinds[group] == self._main else _library.OPTIMIZERS[self.kinds[group]]
        param = _library.Param(ctypes.sizeof(_library.Param), name.encode(), DTYPES[dtype], tensor.dim(), shape, flags, group, own)
        number = ctypes.c_int()
        self.lib.call("weft_zero_param_add", self.handle, ctypes.byref(param), ctypes.byref(number))
        return number.value

    def _give_values(self) -> None:
        """Rank 0's values into the engine, and the parameters onto its memory."""
        for number, known in enumerate(self.params):
            if known.tensor.is_meta and self._source is not None:
                values = self._source.values(known.tensor)
                leave_meta(known.tensor)
            else:
                values = known.tensor.detach().contiguous()
            if values.dtype not in DTYPES:
                values = values.float()
            self.comm.broadcast(values)
            self.set_values(number, WEIGHT, values)
            refusal = (
                f"weft.zero: parameter \"{known.name}\" is not gathered: it is of unit \"{known.unit.name}\", no module of which "
                "is being called. A module that uses another one's parameter has to say so: "
                "weft.zero.register_external_parameter(module, parameter). Outside of modules: with "
                "weft.zero.GatheredParameters([parameter]), and to save the model weft.zero.full_state_dict(model)"
            )
            with torch.no_grad():
                self.passes.check(known.unit.handle.bind(number, known.tensor, known.dtype, refusal))
            _engines[known.tensor] = (weakref.ref(self), number)
        if self._source is not None:
            self._source.finish()
            self._source = None
        for buffer in self.module.buffers():
            if buffer.device.type != "cpu":
                continue
            plain = buffer.detach().contiguous()
            self.comm.broadcast(plain)
            if plain.data_ptr() != buffer.data_ptr():
                buffer.detach().copy_(plain)

    def _watch(self, layout: Plan) -> None:
        self.passes.watch_root(self.module)
        self.module.register_state_dict_pre_hook(self._before_state_dict)  # type: ignore[no-untyped-call]
        for module, units in layout.opens.items():
            self.passes.open_in(module, [self._units[unit] for unit in units])
        for number, known in enumerate(self.params):
            if known.tensor.requires_grad:
                hook = _GradientHook(weakref.ref(self), known, number)
                known.tensor.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    def _before_state_dict(self, *_: Any) -> None:
        if self._end.alive:
            self.synchronize()

    # ---- Micro-batches and steps ----

    def _backward_begins(self) -> None:
        self.lib.call("weft_zero_accumulate", self.handle, int(self.more()))

    def _backward_ends(self) -> None:
        """Called by the autograd engine, or by Engine.backward."""
        if any(unit.came for unit in self.passes.units) or self.passes.ended_by_caller:
            if self.scaled is False and (scale := self.loss_scale()) != 1:
                self.abandon_micro_batch()
                raise Error(f"weft.zero: gradients of a loss have come that was not multiplied by the loss scale, {scale:g}: call "
                            "engine.drop_gradients(), then engine.backward(loss), or engine.scale(loss).backward()")  # fmt: skip
            self.end_micro_batch()
        else:  # torch.autograd.grad, not of parameters
            self.passes.close_all()
            self.passes.next_micro_batch(False)

    def end_micro_batch(self) -> None:
        """All gradients of a micro-batch have come."""
        self.passes.hand_in_held()
        self.passes.close_all()
        if not self.passes.running:
            self._backward_begins()
        self.lib.call("weft_zero_micro_batch_end", self.handle)
        self.passes.next_micro_batch(True)
        self.micro_batches += 1
        self.scaled = None if self.scaled is None else False

    def abandon_micro_batch(self) -> None:
        """After an exception in a backward pass: nothing is open any more. Gradients that came stay, until drop_gradients."""
        self.passes.close_all()
        self.passes.next_micro_batch(False)
        self.scaled = None if self.scaled is None else False

    def drop_gradients(self) -> None:
        """Forget all gradients since the last step. Collective."""
        self.abandon_micro_batch()
        self.lib.call("weft_zero_drop_gradients", self.handle)
        self.micro_batches = self.turns = 0

    def check_frozen(self) -> None:
        """Raise Error where requires_grad is not what it was when the engine was made."""
        for known in self.params:
            if known.tensor.requires_grad and known.frozen and known.tensor.grad is not None:
                raise Error(f"weft.zero: parameter \"{known.name}\" was not trained when the engine was made, and has a gradient "
                            "now: make another engine for the model to train it")  # fmt: skip
            if not known.tensor.requires_grad and not known.frozen:
                raise Error(f"weft.zero: parameter \"{known.name}\" was trained when the engine was made, and does not require a "
                            "gradient now: the optimizer's moments would move it all the same. Make another engine for the "
                            "model")  # fmt: skip

    def step(self, hypers: Sequence[_library.Hyper]) -> _library.StepInfo:
        """Update all parameters. Collective."""
        self.check_frozen()
        info = _library.StepInfo(ctypes.sizeof(_library.StepInfo))
        self.lib.call("weft_zero_step", self.handle, (_library.Hyper * len(hypers))(*hypers), len(hypers), ctypes.byref(info))
        self.micro_batches = self.turns = 0
        self.steps = int(info.step)
        if not info.skipped and self.settings.stage > 0 and self.settings.overlap and self.comm.size > 1:
            for unit in self.passes.units:
                if unit.trained:
                    unit.handle.hide(f"weft.zero: parameters of unit \"{unit.name}\" are on their way from other ranks since the "
                                     "last step; weft.zero.synchronize(model) waits for them")  # fmt: skip
        if self.updates:
            self.updates.check(self.comm)
        return info

    def synchronize(self) -> None:
        """Wait for parameters that the last step has sent on their way: afterwards they can be read, below stage 3."""
        for unit in self.passes.units:
            if unit.handle.kept:
                self.passes.check(unit.handle.wait())

    # ---- Values ----

    def loss_scale(self) -> float:
        """What losses are multiplied by before the backward pass."""
        scale = ctypes.c_double()
        self.lib.call("weft_zero_loss_scale", self.handle, ctypes.byref(scale))
        return scale.value

    def set_values(self, number: int, what: int, values: torch.Tensor) -> None:
        """Give a parameter, or a moment of it, its values: contiguous, of all elements, the same on all ranks."""
        self.lib.call("weft_zero_param_set", self.handle, number, what, _address(values), DTYPES[values.dtype])

    def get_values(self, number: int, what: int, dtype: torch.dtype = torch.float32, here: bool = True) -> torch.Tensor | None:
        """All elements of a parameter or of what belongs to it, of its shape. Collective; None where `here` is not wanted."""
        known = self.params[number]
        values = torch.empty(known.tensor.shape, dtype=dtype) if here else None
        # An empty tensor has no address, and NULL means that the rank wants nothing.
        address = _address(values) or None if values is not None else None
        self.lib.call("weft_zero_param_get", self.handle, number, what, address, DTYPES[dtype])
        return values

    def set_steps(self, steps: int) -> None:
        """Say how many steps have been made, for moments of another training. Every rank says the same."""
        self.lib.call("weft_zero_set_step", self.handle, steps)
        self.steps = steps

    def moments(self, number: int) -> dict[str, int]:
        """Names of a parameter's moments, as torch's optimizers have them. Of a frozen one those that it would have."""
        if self.updates:
            return {name: what for name, what in list(_OF_CALLBACKS.items())[: self.updates.callback.moments]}
        return _MOMENTS[self.kinds[self.params[number].group]]

    def stats(self) -> dict[str, int]:
        """weft_zero_stats: bytes and nanoseconds of this rank."""
        stats = _library.Stats(ctypes.sizeof(_library.Stats))
        self.lib.call("weft_zero_get_stats", self.handle, ctypes.byref(stats))
        return {field[0]: getattr(stats, field[0]) for field in _library.Stats._fields_[1:]}

    def destroy(self) -> None:
        """End the engine. Parameters can be read no more. Collective."""
        self.passes.close_all()
        self.passes.remove()
        for known in self.params:
            _engines.pop(known.tensor, None)
            known.unit.handle.hide("weft.zero: the engine of this parameter was destroyed")
        self._end()


class _GradientHook:
    """What autograd calls when a parameter's gradient is complete. It does not keep the engine."""

    def __init__(self, core: weakref.ref[Core], known: Known, number: int) -> None:
        self._core, self._unit, self._frozen, self._number = core, known.unit, known.frozen, number

    def __call__(self, tensor: torch.Tensor) -> None:
        core = self._core()
        if core is None:
            return
        if self._frozen:  # of no group of the optimizer
            tensor.grad = None
        else:
            core.passes.gradient(self._unit, self._number, tensor)


def _check(layout: Plan) -> None:
    for unit in layout.units:
        for name, tensor in unit.params:
            if not tensor.is_meta and tensor.device.type != "cpu":
                raise ValueError(f"weft.zero: parameter \"{name}\" is on {tensor.device}, not on the CPU")
            if tensor.dtype not in DTYPES:
                raise ValueError(f"weft.zero: parameter \"{name}\" is of {tensor.dtype}, not float32, bfloat16 or float16")
            if tensor in _engines:
                raise ValueError(f"weft.zero: parameter \"{name}\" is of an engine of weft.zero already")
    if not layout.units:
        raise ValueError("weft.zero: the model has no parameters")


def _destroy(handle: ctypes.c_void_p, comm: Communicator) -> None:
    # After an exception that ends the process nobody may wait for the other ranks; its end tells them.
    if getattr(sys, "last_type", None) is not None:
        return
    library().call("weft_zero_destroy", handle)
    comm.destroy()
