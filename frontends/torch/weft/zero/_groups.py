# SPDX-License-Identifier: BSD-3-Clause
"""What an optimizer is to the engine: groups of parameters, each with a name of the library's and its hyper-parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ._callback import Callback
from ._library import Hyper

#: What torch's optimizers of these names have, and their defaults.
_ADAM: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "maximize": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "adamw": {**_ADAM, "weight_decay": 1e-2},
    "adam": _ADAM,
    "sgd": {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "maximize": False},
    "lion": {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0},
    "adagrad": {"lr": 1e-2, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-10, "maximize": False},
    "lamb": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "max_coeff": 10.0, "min_coeff": 0.01},
    "muon": {"lr": 1e-3, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True},
    "callback": {"lr": 1e-3},
}
#: Whose moments may be kept in fewer bytes.
_CODED = ("adamw", "adam", "sgd", "lion")
#: What torch's have besides, and the values that are possible here.
_FIXED: dict[str, Sequence[Any]] = {
    "amsgrad": (False,), "initial_accumulator_value": (0,), "differentiable": (False,), "capturable": (False,),
    "ns_coefficients": ((3.4445, -4.775, 2.0315),), "ns_steps": (5,), "adjust_lr_fn": (None, "original"),
}  # fmt: skip
_WITHOUT_MEANING = ("foreach", "fused", "decoupled_weight_decay", "initial_lr", "params", "torch_adam", "adam_w_mode",
                    "fp32_optimizer_states", "use_muon", "name", "ns_method")  # fmt: skip

Groups = list[dict[str, Any]]
#: What a caller may give.
Given = str | Callback | torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | Callable[[Any], torch.optim.Optimizer]


@dataclass
class Described:
    """An optimizer, sharded.

    Attributes:
        name: for messages.
        groups: with all hyper-parameters.
        kinds: of each group, the library's name of what updates it.
        callback: what "callback" is.
    """

    name: str
    groups: Groups
    kinds: list[str]
    callback: Callback | None = None

    @property
    def main(self) -> str:
        """What is the engine's: one whose moments may be kept in fewer bytes, if there is one. Others are parameters' own."""
        return next((kind for kind in self.kinds if kind in _CODED), self.kinds[0] if self.kinds else "adamw")


def _known_classes() -> dict[type[torch.optim.Optimizer], str]:
    known: dict[type[torch.optim.Optimizer], str] = {
        torch.optim.AdamW: "adamw", torch.optim.Adam: "adam", torch.optim.SGD: "sgd", torch.optim.Adagrad: "adagrad"
    }  # fmt: skip
    if hasattr(torch.optim, "Muon"):  # from PyTorch 2.9 on
        known[torch.optim.Muon] = "muon"
    return known


def _kind_of(optimizer: torch.optim.Optimizer) -> str:
    known = _known_classes()
    kind = known.get(type(optimizer))
    if kind is None:
        raise TypeError(f"weft.zero: an optimizer of class {type(optimizer).__name__} cannot be sharded; these can: "
                        f"{', '.join(c.__name__ for c in known)} of torch.optim, by name {', '.join(DEFAULTS)}, and a function of "
                        "your own as weft.zero.Callback")  # fmt: skip
    if kind == "adam" and optimizer.defaults.get("decoupled_weight_decay"):
        return "adamw"
    if kind == "muon" and optimizer.defaults["eps"] != 1e-7:
        raise ValueError("weft.zero: eps of a sharded Muon is 1e-7")
    return kind


def _check_hypers(kind: str, group: Mapping[str, Any], others: Iterable[str] = ()) -> dict[str, Any]:
    """What of a group is a hyper-parameter; raises ValueError for what the optimizer has not. others: are left out."""
    found = {}
    for name, value in group.items():
        if kind == "callback":
            if name != "params":
                found[name] = value
        elif name in DEFAULTS[kind]:
            found[name] = value
        elif name in _FIXED:
            if (tuple(value) if isinstance(value, list) else value) not in _FIXED[name]:
                raise ValueError(f"weft.zero: {name}={value!r} is not possible with a sharded {kind}")
        elif name not in _WITHOUT_MEANING and name not in others:
            raise ValueError(f"weft.zero: {kind} has no parameter {name}; it has {', '.join(DEFAULTS[kind])}")
    return found


def _groups_of(parameters: Iterable[Any]) -> Groups:
    given = list(parameters)
    if given and isinstance(given[0], tuple):  # named_parameters()
        given = [tensor for _, tensor in given]
    if not given or isinstance(given[0], torch.Tensor):
        return [{"params": given}]
    return [{**group, "params": [p[1] if isinstance(p, tuple) else p for p in group["params"]]} for group in given]


# ---- Muon by name: hidden matrices, and AdamW for the rest ----


def hidden_matrices(model: nn.Module) -> set[torch.Tensor]:
    """What Muon updates where nobody says otherwise: matrices that are neither of an embedding nor of the last layer.

    Of the last layer are parameters with "lm_head" in their name, or a part of it that is "head" or "classifier"; of an embedding
    those of such modules or with "embed" in their name. An attribute use_muon of a parameter says otherwise.
    """
    embeddings = {m.weight for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)}
    found: set[torch.Tensor] = set()
    for name, tensor in model.named_parameters():
        low = name.lower()
        last = "lm_head" in low or bool({"head", "classifier"} & set(low.split(".")))
        if getattr(tensor, "use_muon", tensor.dim() == 2 and tensor not in embeddings and "embed" not in low and not last):
            found.add(tensor)
    return found


def _muon_groups(parameters: Iterable[Any], hypers: Mapping[str, Any], model: nn.Module | None) -> Described:
    """Each group becomes one of matrices and one of the rest, as with DeepSpeed, unless it says use_muon."""
    hidden = hidden_matrices(model) if model is not None else set()
    shared = {name: value for name, value in hypers.items() if name not in ("muon_lr", "adam_lr")}
    known = {"muon_lr", "adam_lr", *DEFAULTS["muon"], *DEFAULTS["adamw"], *_FIXED, *_WITHOUT_MEANING}
    if unknown := sorted(set(hypers) - known):
        has = dict.fromkeys(["muon_lr", "adam_lr", *DEFAULTS["muon"], *DEFAULTS["adamw"]])
        raise ValueError(f"weft.zero: muon has no parameter {unknown[0]}; it has {', '.join(has)}")
    halves = []
    for muon, kind, rate in ((True, "muon", "muon_lr"), (False, "adamw", "adam_lr")):
        other = DEFAULTS["adamw" if muon else "muon"]
        mine = {**DEFAULTS[kind], **_check_hypers(kind, shared, other), **({"lr": hypers[rate]} if rate in hypers else {})}
        halves.append((muon, kind, other, mine))
    groups, kinds = [], []
    for group in _groups_of(parameters):
        for muon, kind, other, mine in halves:
            said = group.get("use_muon")
            params = [p for p in group["params"] if (p in hidden if said is None else bool(said)) is muon]
            if not params:
                continue
            wrong = next((p for p in params if muon and p.dim() != 2), None)
            if wrong is not None:
                raise ValueError(f"weft.zero: Muon is for matrices, and a parameter that it is to update has shape "
                                 f"{tuple(wrong.shape)}")  # fmt: skip
            groups.append({"params": params, **mine, **_check_hypers(kind, group, other), "use_muon": muon})
            kinds.append(kind)
    return Described("muon", groups, kinds)


# ---- All ----


def _of_instances(made: Sequence[torch.optim.Optimizer]) -> Described:
    groups: Groups = []
    kinds = []
    for one in made:
        # Adagrad's has a state, of no steps, from the beginning; SGD's counts none.
        if any(state.get("step", 1) != 0 for state in one.state.values()):
            raise ValueError("weft.zero: the optimizer has made steps already; its state would be lost")
        kind = _kind_of(one)
        for group in one.param_groups:
            skip = ("eps",) if kind == "muon" else ()
            groups.append({"params": list(group["params"]), **DEFAULTS[kind], **_check_hypers(kind, group, skip)})
            kinds.append(kind)
    seen = [tensor for group in groups for tensor in group["params"]]
    if len(set(seen)) < len(seen):
        raise ValueError("weft.zero: a parameter is in two of the optimizers")
    return Described(" and ".join(dict.fromkeys(kinds)), groups, kinds)


def describe(
    optimizer: Given, parameters: Iterable[Any], hypers: Mapping[str, Any], model: nn.Module | None = None
) -> Described:
    """What an optimizer is to the library.

    Args:
        optimizer: a name; an optimizer of torch.optim, whose groups are taken, or several of them; what makes one of parameters;
            or a Callback.
        parameters: for a name, a Callback or a function: parameters, or groups of them, as torch.optim takes them.
        hypers: for a name or a Callback: those that are not torch's defaults.
        model: whose hidden matrices "muon" updates.

    Raises:
        TypeError: it cannot be sharded.
        ValueError: it has no such hyper-parameter, or not with this value.
    """
    if isinstance(optimizer, str) and optimizer.lower() == "muon":
        return _muon_groups(parameters, hypers, model)
    if isinstance(optimizer, str | Callback):
        kind = optimizer.lower() if isinstance(optimizer, str) else "callback"
        if kind not in DEFAULTS or (isinstance(optimizer, str) and kind == "callback"):
            names = ", ".join(name for name in DEFAULTS if name != "callback")
            raise ValueError(f"weft.zero: there is no optimizer {optimizer!r}; there are {names}")
        own = optimizer if isinstance(optimizer, Callback) else None
        defaults = {**DEFAULTS[kind], **(own.hypers if own else {}), **_check_hypers(kind, hypers)}
        groups = [{"params": g["params"], **defaults, **_check_hypers(kind, g)} for g in _groups_of(parameters)]
        for group in groups:
            hyper_of(group)
        return Described(kind, groups, [kind] * len(groups), own)
    if isinstance(optimizer, torch.optim.Optimizer):
        return _of_instances([optimizer])
    if isinstance(optimizer, Iterable):
        return _of_instances(list(optimizer))
    made = optimizer(_groups_of(parameters))
    return _of_instances(made if isinstance(made, list | tuple) else [made])


def hyper_of(group: Mapping[str, Any]) -> Hyper:
    """A group of torch's as weft_zero_step takes it."""
    hyper = Hyper(bytes=ctypes.sizeof(Hyper), max_coeff=10.0, min_coeff=0.01)
    betas = group.get("betas", (0.9, 0.999))
    try:
        hyper.beta1, hyper.beta2 = map(float, betas)
    except (TypeError, ValueError):
        raise ValueError(f"weft.zero: betas is {betas!r}, not two numbers") from None
    for name, *_ in Hyper._fields_[1:]:
        if name not in group:
            continue
        try:
            setattr(hyper, name, int(group[name]) if name in ("nesterov", "maximize") else float(group[name]))
        except (TypeError, ValueError):
            raise ValueError(f"weft.zero: {name} is {group[name]!r}, not a number") from None
    return hyper


def group_of(kind: str, hyper: Hyper) -> dict[str, Any]:
    """A weft_zero_hyper as torch's hyper-parameters of this optimizer."""
    values = {field[0]: getattr(hyper, field[0]) for field in Hyper._fields_} | {"betas": (hyper.beta1, hyper.beta2)}
    return {name: type(default)(values[name]) for name, default in DEFAULTS[kind].items()}


def saved_hypers(kind: str, saved: Mapping[str, Any]) -> dict[str, Any]:
    """What of a group that was saved is a hyper-parameter of this optimizer."""
    if kind == "callback":
        return {name: value for name, value in saved.items() if name != "params"}
    return {name: value for name, value in saved.items() if name in DEFAULTS[kind] or name == "initial_lr"}
