# SPDX-License-Identifier: BSD-3-Clause
"""An optimizer whose steps are the engine's: a torch.optim.Optimizer, so that schedulers and loops can have it as any other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ._core import Core
from ._library import Error, Hyper

#: What torch's optimizers of these names have, and their defaults.
_ADAM: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "maximize": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "adamw": {**_ADAM, "weight_decay": 1e-2},
    "adam": _ADAM,
    "sgd": {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "maximize": False},
    "lion": {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0},
    "adagrad": {"lr": 1e-2, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-10, "maximize": False},
    "lamb": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "max_coeff": 10.0, "min_coeff": 0.01},
}
#: What torch's have besides, and the only value that is possible here.
_FIXED: dict[str, Any] = {"amsgrad": False, "initial_accumulator_value": 0, "differentiable": False, "capturable": False}
_WITHOUT_MEANING = ("foreach", "fused", "decoupled_weight_decay", "initial_lr", "params", "torch_adam", "adam_w_mode",
                    "fp32_optimizer_states")  # fmt: skip

Groups = list[dict[str, Any]]


def _kind_of(optimizer: torch.optim.Optimizer) -> str:
    known: dict[type[torch.optim.Optimizer], str] = {
        torch.optim.AdamW: "adamw", torch.optim.Adam: "adam", torch.optim.SGD: "sgd", torch.optim.Adagrad: "adagrad"
    }  # fmt: skip
    kind = known.get(type(optimizer))
    if kind is None:
        raise TypeError(f"weft.zero: an optimizer of class {type(optimizer).__name__} cannot be sharded; these can: "
                        f"{', '.join(c.__name__ for c in known)} of torch.optim, and by name {', '.join(DEFAULTS)}")  # fmt: skip
    if kind == "adam" and optimizer.defaults.get("decoupled_weight_decay"):
        return "adamw"
    return kind


def _check_hypers(kind: str, group: Mapping[str, Any]) -> dict[str, Any]:
    """What of a group is a hyper-parameter; raises ValueError for what the optimizer has not."""
    found = {}
    for name, value in group.items():
        if name in DEFAULTS[kind]:
            found[name] = value
        elif name in _FIXED:
            if value != _FIXED[name]:
                raise ValueError(f"weft.zero: {name}={value!r} is not possible with a sharded {kind}")
        elif name not in _WITHOUT_MEANING:
            raise ValueError(f"weft.zero: {kind} has no parameter {name}; it has {', '.join(DEFAULTS[kind])}")
    return found


def _groups_of(parameters: Iterable[Any]) -> Groups:
    given = list(parameters)
    if given and isinstance(given[0], tuple):  # named_parameters()
        given = [tensor for _, tensor in given]
    if not given or isinstance(given[0], torch.Tensor):
        return [{"params": given}]
    return [{**group, "params": [p[1] if isinstance(p, tuple) else p for p in group["params"]]} for group in given]


def describe(
    optimizer: str | torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer],
    parameters: Iterable[Any],
    hypers: Mapping[str, Any],
) -> tuple[str, Groups]:
    """What an optimizer is: its name in the library, and its groups with all hyper-parameters.

    Args:
        optimizer: a name; an optimizer of torch.optim, whose groups are taken; or what makes one of parameters.
        parameters: for a name or a function: parameters, or groups of them, as torch.optim takes them.
        hypers: for a name: those that are not torch's defaults.

    Raises:
        TypeError: it cannot be sharded.
        ValueError: it has no such hyper-parameter, or not with this value.
    """
    if isinstance(optimizer, str):
        kind = optimizer.lower()
        if kind not in DEFAULTS:
            raise ValueError(f"weft.zero: there is no optimizer {optimizer!r}; there are {', '.join(DEFAULTS)}")
        defaults = {**DEFAULTS[kind], **_check_hypers(kind, hypers)}
        groups = _groups_of(parameters)
    else:
        made = optimizer if isinstance(optimizer, torch.optim.Optimizer) else optimizer(_groups_of(parameters))
        # Adagrad's has a state, of no steps, from the beginning; SGD's counts none.
        if any(state.get("step", 1) != 0 for state in made.state.values()):
            raise ValueError("weft.zero: the optimizer has made steps already; its state would be lost")
        kind = _kind_of(made)
        defaults, groups = dict(DEFAULTS[kind]), made.param_groups
    return kind, [{"params": list(group["params"]), **defaults, **_check_hypers(kind, group)} for group in groups]


def hyper_of(group: Mapping[str, Any]) -> Hyper:
    """A group of torch's as weft_zero_step takes it."""
    betas = group.get("betas", (0.9, 0.999))
    hyper = Hyper(bytes=ctypes.sizeof(Hyper), beta1=betas[0], beta2=betas[1], max_coeff=10.0, min_coeff=0.01)
    for field in Hyper._fields_:
        name = field[0]
        if name in group:
            setattr(hyper, name, int(group[name]) if name in ("nesterov", "maximize") else float(group[name]))
    return hyper


def group_of(kind: str, hyper: Hyper) -> dict[str, Any]:
    """A weft_zero_hyper as torch's hyper-parameters of this optimizer."""
    values = {field[0]: getattr(hyper, field[0]) for field in Hyper._fields_} | {"betas": (hyper.beta1, hyper.beta2)}
    return {name: type(default)(values[name]) for name, default in DEFAULTS[kind].items()}


class ShardedOptimizer(torch.optim.Optimizer):
    """Steps of an engine. Each uses what param_groups have then.

    Attributes:
        grad_norm: of all gradients in the last step, before clipping; None before the first.
        skipped: the last step found Inf or NaN, and changed nothing but the loss scale.
    """

    def __init__(self, core: Core, groups: Groups) -> None:
        self.core = core
        super().__init__(groups, dict(DEFAULTS[core.optimizer]))
        self.grad_norm: float | None = None
        self.skipped = False

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's, while the optimizer is made; the engine's parameters are fixed afterwards."""
        if hasattr(self, "grad_norm"):
            raise Error("weft.zero: a group of parameters cannot be added to an engine")
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters. Collective.

        Args:
            closure: computes the loss, and its gradients.

        Raises:
            Error: no micro-batch has ended since the last step, or the last one was not said to be that; ranks differ; a
                hyper-parameter is out of its range.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        info = self.core.step([hyper_of(group) for group in self.param_groups])
        self.grad_norm, self.skipped = info.norm, bool(info.skipped)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients that no step has used: a step forgets them by itself. Collective if there are any."""
        if self.core.micro_batches:
            self.core.drop_gradients()
        super().zero_grad(set_to_none)

    # ---- State ----

    def _numbered(self) -> list[tuple[int, int]]:
        """Of each parameter: its number in torch's state, and in the engine, in the order of the engine."""
        tensors = [tensor for group in self.param_groups for tensor in group["params"]]
        pairs = [(place, self.core.numbers[tensor]) for place, tensor in enumerate(tensors)]
        return sorted((pair for pair in pairs if not self.core.params[pair[1]].frozen), key=lambda pair: pair[1])

    def state_dict(self) -> dict[str, Any]:
        """All moments, whole, in fp32, as torch's optimizer of that name has them. Collective; every rank gets all of it."""
        plain = super().state_dict()
        state: dict[int, dict[str, Any]] = {}
        for place, number in self._numbered() if self.core.steps else []:
            state[place] = {"step": torch.tensor(float(self.core.steps))}
            for name, what in self.core.moments().items():
                state[place][name] = self.core.get_values(number, what)
        return {"state": dict(sorted(state.items())), "param_groups": plain["param_groups"]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take moments and hyper-parameters of a state_dict(), or of that of torch's optimizer of that name.

        Raises:
            ValueError: it has other groups, moments of other shapes, or parameters that have made different numbers of steps.
            Error: gradients of the next step have come.
        """
        saved, groups = state_dict["state"], state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError("weft.zero: the state that is loaded has other groups of parameters")
        steps = {int(values["step"]) for values in saved.values() if "step" in values}
        if len(steps) > 1:
            raise ValueError(f"weft.zero: parameters have made {min(steps)} to {max(steps)} steps; here all have made as many")
        places = [place for group in groups for place in group["params"]]
        found = []
        for place, number in self._numbered():
            known = self.core.params[number]
            for name, what in self.core.moments().items():
                values = saved.get(places[place], {}).get(name)
                values = torch.zeros(known.tensor.shape) if values is None else values.detach().float().contiguous()
                if values.shape != known.tensor.shape:
                    shapes = f"{tuple(values.shape)}, not {tuple(known.tensor.shape)}"
                    raise ValueError(f"weft.zero: {name} of \"{known.name}\" has shape {shapes}")
                found.append((number, what, values))
        self.core.set_steps(steps.pop() if steps else 0)
        for number, what, values in found:
            self.core.set_values(number, what, values)
        for mine, theirs in zip(self.param_groups, groups, strict=True):
            mine.update({k: v for k, v in theirs.items() if k in DEFAULTS[self.core.optimizer] or k == "initial_lr"})
