# SPDX-License-Identifier: BSD-3-Clause
"""Models that are built without memory: parameters on the meta device get their values unit by unit, when an engine takes them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, cast

import torch
from torch import nn

from ._units import Plan, UnitPlan

#: Of a module, what gives its parameters their values.
Initializer = Callable[[nn.Module], Any]

#: Modules that were built inside of an Init, and it.
_built: MutableMapping[nn.Module, Init] = weakref.WeakKeyDictionary()


class Init:
    """Build a model without memory for its parameters.

        with weft.zero.Init():
            model = Model()
        engine = weft.zero.initialize(model, "adamw", config)

    Parameters are on the meta device, and buffers are what the constructors make them. The engine gives the parameters of one unit
    at a time their values, on rank 0, and each rank keeps its own part of them: by reset_parameters() of each module; of models
    that have one (Hugging Face's) by _init_weights(); or by `init`. `with torch.device("meta")` does as well, where no buffer has
    values that only a constructor knows.

    A module without reset_parameters() keeps small parameters as its constructor has made them.

    Args:
        init: gives all parameters of the module that it is called with, not those of its children, their values, in place; False:
            they are 0 until weft.zero.load_safetensors, say; None: as above.
        seed: of all values; None: rank 0's torch.initial_seed(). Values do not depend on stage or number of ranks.
        keep: how many elements are small.
        enabled: False does nothing.
    """

    def __init__(
        self, init: Initializer | bool | None = None, seed: int | None = None, keep: int = 65536, enabled: bool = True
    ) -> None:
        if init is True:
            raise ValueError("weft.zero.Init: init is a function, None, or False")
        self.init, self.seed, self._keep, self._enabled = init, seed, keep, enabled
        self._before: Any = None

    def __enter__(self) -> Init:
        if not self._enabled:
            return self
        before = self._before = nn.Module.register_parameter

        def register(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
            before(module, name, param)
            _built[module] = self
            if param is None or param.is_meta or isinstance(param, nn.parameter.UninitializedParameter):
                return
            if self.init is None and param.numel() <= self._keep and _own(module) is None:
                return
            made = getattr(param, "_weft_zero_meta", None)  # another module's already
            if made is None:
                made = _like(param, torch.empty_like(param, device="meta"))
                param._weft_zero_meta = made  # type: ignore[attr-defined]
            module._parameters[name] = made

        nn.Module.register_parameter = register  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._enabled:
            nn.Module.register_parameter = self._before  # type: ignore[method-assign]


def _like(param: nn.Parameter, data: torch.Tensor) -> nn.Parameter:
    """A parameter that is as `param` but for its values."""
    made: nn.Parameter = type(param)(data, requires_grad=param.requires_grad)
    made.__dict__.update(param.__dict__)
    return made


def _own(module: nn.Module) -> Callable[[], Any] | None:
    """What a module has to give its parameters their values."""
    found = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
    return found if callable(found) else None


def _meta_of(tensors: dict[str, Any]) -> list[str]:
    return [name for name, tensor in tensors.items() if tensor is not None and tensor.is_meta]


class Source:
    """Gives parameters of a model that are on the meta device their values.

    Args:
        model: the whole of it.
        layout: its units.
        first: this is the rank whose values count; others need no more than memory for one parameter.

    Raises:
        ValueError: a parameter or a buffer has nothing that gives it values; the text names it.
    """

    def __init__(self, model: nn.Module, layout: Plan, first: bool) -> None:
        built = next((made for module in model.modules() if (made := _built.get(module)) is not None), Init())
        self.init, self.first = built.init, first
        self.seed = torch.initial_seed() if built.seed is None else built.seed
        self._units: dict[torch.Tensor, UnitPlan] = {tensor: unit for unit in layout.units for _, tensor in unit.params}
        self._numbers = {unit: number for number, unit in enumerate(layout.units)}
        self._of: dict[nn.Module, Initializer] = {}
        self._inside: dict[UnitPlan, list[nn.Module]] = {unit: [] for unit in layout.units}
        self._unit: UnitPlan | None = None
        self._values: dict[torch.Tensor, torch.Tensor] = {}
        #: Each parameter once, in the first of the modules that have it: a tied one is initialised there.
        self._owners: dict[torch.Tensor, tuple[nn.Module, str]] = {}
        for module in model.modules():
            for name, tensor in module._parameters.items():
                if tensor is not None:
                    self._owners.setdefault(tensor, (module, name))
        self._model = model
        self._walk(model, "", None, None, {unit.name: unit for unit in layout.units})
        self._buffers = [module for module in model.modules() if _meta_of(module._buffers)]

    def _walk(self, module: nn.Module, name: str, unit: UnitPlan | None, shared: Initializer | None, units: Any) -> None:
        """Find what initialises each module, children first, as nn.Module.apply does."""
        unit = units.get(name or "(root)", unit)
        if callable(getattr(module, "_init_weights", None)):
            shared = cast(Initializer, module._init_weights)
        for child_name, child in module.named_children():
            self._walk(child, f"{name}.{child_name}" if name else child_name, unit, shared, units)
        own = _own(module)
        for buffer in _meta_of(module._buffers):
            if own is None:
                raise ValueError(f"weft.zero: buffer \"{name}.{buffer}\" is on the meta device, and {type(module).__name__} has no "
                                 "reset_parameters(): build the model in weft.zero.Init(), which keeps buffers")  # fmt: skip
        params = _meta_of(module._parameters)
        if self.init is False or module in self._of:
            return
        how: Initializer | None = shared or (None if own is None else lambda _: own())
        if callable(self.init):
            how = self.init
        if params and how is None:
            raise ValueError(f"weft.zero: parameter \"{f'{name}.' if name else ''}{params[0]}\" is on the meta device, and "
                             f"{type(module).__name__} has no reset_parameters(): build the model in weft.zero.Init(init=…), whose "
                             "function gives it values, or in Init(init=False) to load them")  # fmt: skip
        if how is not None and (params or shared is not None):
            self._of[module] = how
            mine = [t for n in params if self._owners[t := module._parameters[n]] == (module, n)]  # type: ignore[index]
            for part in dict.fromkeys(self._units[t] for t in mine if t is not None) or ([unit] if unit and not params else []):
                self._inside[part].append(module)

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        """Those of a parameter, in new memory; undefined on other ranks than the first."""
        if not self.first or self.init is False:
            self._materialize_buffers()
            return torch.zeros(tensor.shape, dtype=tensor.dtype)
        unit = self._units[tensor]
        if unit is not self._unit:
            self._unit, self._values = unit, {}
            self._initialize(unit)
        return self._values.pop(tensor)

    def _materialize_buffers(self) -> None:
        for module in self._buffers:
            for name in _meta_of(module._buffers):
                buffer = module._buffers[name]
                assert buffer is not None
                module._buffers[name] = torch.zeros(buffer.shape, dtype=buffer.dtype)

    def _initialize(self, unit: UnitPlan) -> None:
        """Give the modules of a unit real parameters, initialise them, and take the parameters away again."""
        self._materialize_buffers()
        real = {t: _like(t, torch.zeros(t.shape, dtype=t.dtype)) for _, t in unit.params if t.is_meta}
        owners = [(m, n, p) for m in self._model.modules() for n, p in m._parameters.items() if p is not None]
        for module, name, tensor in owners:  # of other units nothing is there to be changed
            here = tensor in real and self._owners[tensor] == (module, name)
            module._parameters[name] = real[tensor] if here else _like(tensor, torch.empty_like(tensor, device="meta"))
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed((self.seed + 0x9E3779B97F4A7C15 * (self._numbers[unit] + 1)) % 2**63)
                for module in self._inside[unit]:
                    self._of[module](module)
        finally:
            for module, name, tensor in owners:
                module._parameters[name] = tensor
        self._values = {tensor: values.detach() for tensor, values in real.items()}

    def finish(self) -> None:
        """Buffers of modules that have no parameters."""
        self._materialize_buffers()
        for module in self._buffers:
            own = _own(module)
            if self.first and own is not None and not any(True for p in module._parameters.values() if p is not None):
                own()
        self._values = {}


def source_of(model: nn.Module, layout: Plan, first: bool) -> Source | None:
    """A Source, if some of a model is on the meta device."""
    if not any(t.is_meta for t in (*model.parameters(), *model.buffers())):
        return None
    return Source(model, layout, first)


def leave_meta(tensor: nn.Parameter) -> None:
    """Make a parameter, the same object, one of the CPU, without memory for more than one element."""
    placeholder = _like(tensor, torch.zeros((), dtype=tensor.dtype).expand(tensor.shape))
    torch.utils.swap_tensors(tensor, placeholder)  # type: ignore[no-untyped-call]
