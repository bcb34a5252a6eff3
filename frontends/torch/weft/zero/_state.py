# SPDX-License-Identifier: BSD-3-Clause
"""Whole values of sharded parameters: for reading, for changing, for saving."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType

import torch
from torch import nn

from ._core import Core, engine_of
from ._library import DTYPES, GRAD, MOMENT1, MOMENT2, WEIGHT, Error


class GatheredParameters:
    """Parameters whole, in a block. Collective: all ranks enter and leave with the same parameters.

        with weft.zero.GatheredParameters(model.head.parameters(), modifier_rank=0):
            if rank == 0:
                nn.init.zeros_(model.head.weight)

    Inside they are copies. What rank `modifier_rank` has made of them is all ranks' afterwards, master weights too; with None,
    changes are lost.

    Args:
        params: of one or several engines of weft.zero; other tensors, and tensors in stages below 3, may be among them.
        modifier_rank: whose changes count.
        enabled: False does nothing.
    """

    def __init__(
        self, params: torch.Tensor | Iterable[torch.Tensor], modifier_rank: int | None = None, enabled: bool = True
    ) -> None:
        given = [params] if isinstance(params, torch.Tensor) else list(params)
        self._params: list[tuple[Core, int]] = []
        for tensor in dict.fromkeys(given) if enabled else []:
            try:
                self._params.append(engine_of(tensor))
            except ValueError:
                continue
        self._modifier = modifier_rank
        self._memory: list[torch.Tensor] = []

    def __enter__(self) -> None:
        for core, number in self._params:
            known = core.params[number]
            if known.unit.handle.passes and self._modifier is not None:
                raise Error(f"weft.zero: GatheredParameters to modify: a module of unit \"{known.unit.name}\" is being called")
            memory = core.get_values(number, WEIGHT, known.dtype)
            assert memory is not None
            self._memory.append(memory)
            known.unit.handle.lend(number, memory)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        for (core, number), memory in zip(self._params, self._memory, strict=False):
            core.params[number].unit.handle.restore(number)
            if self._modifier is not None and kind is None:
                core.comm.broadcast(memory, self._modifier)
                core.set_values(number, WEIGHT, memory)
        self._memory.clear()


def synchronize(model: nn.Module) -> None:
    """Wait for parameters that the last step has sent on their way. Below stage 3 they can be read then, until the next step."""
    for core in {engine_of(tensor)[0] for tensor in model.parameters()}:
        core.synchronize()


def register_external_parameter(module: nn.Module, parameter: torch.Tensor) -> None:
    """Have a parameter gathered while `module`, whose own it is not, is called. After the engine is made."""
    core, number = engine_of(parameter)
    core.passes.open_in(module, [core.params[number].unit])


def full_state_dict(
    model: nn.Module, dtype: torch.dtype | None = None, every_rank: bool = False, exclude_frozen_parameters: bool = False
) -> dict[str, torch.Tensor]:
    """What model.state_dict() has, with whole parameters. Collective.

    Args:
        model: of an engine of weft.zero.
        dtype: of the parameters, float32 for the master weights; None: their own.
        every_rank: False: other ranks than 0 get an empty dictionary, and need no memory for it.
        exclude_frozen_parameters: without those that do not require a gradient. The same on all ranks.

    Returns:
        Copies, in the order of model.state_dict(), tied parameters under each of their names.
    """
    whole: dict[torch.Tensor, torch.Tensor | None] = {}
    state: dict[str, torch.Tensor] = {}
    here = every_rank
    for name, tensor in model.named_parameters(remove_duplicate=False):
        core, number = engine_of(tensor)
        here = every_rank or core.comm.rank == 0
        if exclude_frozen_parameters and not tensor.requires_grad:
            continue
        if tensor not in whole:
            whole[tensor] = core.get_values(number, WEIGHT, dtype or core.params[number].dtype, here)
        values = whole[tensor]
        if values is not None:
            state[name] = values
    if here:
        for prefix, module in model.named_modules(remove_duplicate=False):
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._non_persistent_buffers_set:
                    state[f"{prefix}.{name}" if prefix else name] = buffer.detach().clone()
    return state


def load_full_state_dict(model: nn.Module, state: Mapping[str, torch.Tensor], strict: bool = True) -> None:
    """Take what full_state_dict, or state_dict() of the same model without weft, has. Every rank gives all of it.

    Args:
        model: of an engine of weft.zero.
        state: parameters and buffers by name.
        strict: all of them, and no others.

    Raises:
        ValueError: names are missing or unknown (strict), or a shape is another; nothing is changed then.
    """
    tensors: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    buffers = {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name, buffer in module._buffers.items()
        if buffer is not None and name not in module._non_persistent_buffers_set
    }
    known = {**tensors, **buffers}
    odd = sorted(set(known) ^ set(state))
    if strict and odd:
        where = "the model" if odd[0] in known else "what is loaded"
        raise ValueError(f"weft.zero: {odd[0]} is only in {where} ({len(odd)} names differ)")
    for name in known.keys() & state.keys():
        if known[name].shape != state[name].shape:
            raise ValueError(f"weft.zero: {name} has shape {tuple(state[name].shape)}, not {tuple(known[name].shape)}")
    for name in tensors:
        if name in state:
            core, number = engine_of(tensors[name])
            values = state[name].detach().to("cpu").contiguous()
            core.set_values(number, WEIGHT, values if values.dtype in DTYPES else values.float())
    for name in buffers:
        if name in state:
            buffers[name].detach().copy_(state[name])


def _get(parameter: torch.Tensor, what: int) -> torch.Tensor:
    core, number = engine_of(parameter)
    values = core.get_values(number, what)
    assert values is not None
    return values


def safe_get_full_fp32_param(parameter: torch.Tensor) -> torch.Tensor:
    """The whole weight in fp32, of a 16-bit parameter the master weight. Collective."""
    return _get(parameter, WEIGHT)


def safe_get_full_grad(parameter: torch.Tensor) -> torch.Tensor | None:
    """The whole gradient, the mean over ranks and micro-batches, from backward() to the step; None: there is none. Collective."""
    core, number = engine_of(parameter)
    try:
        total = _get(parameter, GRAD)
    except Error as problem:
        if problem.name == "WEFT_EINVAL":
            return None
        raise
    # As the step divides; of a step that has not had all its micro-batches, as it will.
    several = max(core.settings.micro_batches, core.micro_batches) if core.more() else core.micro_batches
    divisor = core.settings.divisor or core.comm.size * several
    return total / (divisor * core.loss_scale())


def safe_get_full_optimizer_state(parameter: torch.Tensor, optim_state_key: str) -> torch.Tensor | None:
    """A whole moment, by torch's name: "exp_avg", "exp_avg_sq", "momentum_buffer", "sum". Collective."""
    core, number = engine_of(parameter)
    what = core.moments(number).get(optim_state_key)
    if what is None:
        raise ValueError(f"weft.zero: {core.optimizer} keeps no {optim_state_key} of it; it keeps "
                         f"{', '.join(core.moments(number))}")  # fmt: skip
    return _get(parameter, what)


def _set(parameter: torch.Tensor, what: int, value: torch.Tensor) -> None:
    core, number = engine_of(parameter)
    if value.shape != parameter.shape:
        raise ValueError(f"weft.zero: a value of shape {tuple(value.shape)} for a parameter of {tuple(parameter.shape)}")
    core.set_values(number, what, value.detach().to("cpu", torch.float32).contiguous())


def safe_set_full_fp32_param(parameter: torch.Tensor, value: torch.Tensor) -> None:
    """Set the whole weight, of a 16-bit parameter the master weight too. Every rank gives the same."""
    _set(parameter, WEIGHT, value)


def safe_set_full_optimizer_state(parameter: torch.Tensor, value: torch.Tensor, optim_state_key: str) -> None:
    """Set a whole moment. Every rank gives the same."""
    core, number = engine_of(parameter)
    what = core.moments(number).get(optim_state_key)
    if what not in (MOMENT1, MOMENT2):
        raise ValueError(f"weft.zero: {core.optimizer} keeps no {optim_state_key} of it; it keeps "
                         f"{', '.join(core.moments(number))}")  # fmt: skip
    _set(parameter, what, value)
