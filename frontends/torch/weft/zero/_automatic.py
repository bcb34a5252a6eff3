# SPDX-License-Identifier: BSD-3-Clause
"""What "auto" stands for in a configuration: what the model, the optimizer and the caller say."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ._groups import hyper_of
from ._library import DsModel

_log = logging.getLogger("weft.zero")

#: What the caller may say: fields of weft_zero_ds_model.
FIELDS = tuple(field[0] for field in DsModel._fields_ if field[0] != "bytes")
#: Where nobody says, DeepSpeed's own default.
_OTHERWISE = {"clip": 1.0}


def _hidden_size(model: nn.Module) -> int:
    """The widest hidden layer, as configurations of Hugging Face's models say it; 0: this one does not."""
    config = getattr(model, "config", None)
    for part in (config, getattr(config, "text_config", None)):
        size = getattr(part, "hidden_size", None)
        sizes = getattr(part, "hidden_sizes", None)
        if isinstance(size, int):
            return size
        if isinstance(sizes, list | tuple) and sizes:
            return int(max(sizes))
    return 0


def _of_optimizer(optimizer: Any, hypers: Mapping[str, Any]) -> dict[str, float]:
    """Hyper-parameters that were passed by name, or that an optimizer of torch.optim has."""
    group = {**(optimizer.defaults if isinstance(optimizer, torch.optim.Optimizer) else {}), **hypers}
    given = {name: group[name] for name in ("lr", "betas", "eps", "weight_decay") if group.get(name) is not None}
    hyper = hyper_of(given)
    fields = [field for name in given for field in (("beta1", "beta2") if name == "betas" else (name,))]
    return {field: getattr(hyper, field) for field in fields}


def known(model: nn.Module | None, optimizer: Any, hypers: Mapping[str, Any], told: Mapping[str, Any] | None) -> DsModel:
    """Everything that is known; what the caller has told counts.

    Raises:
        TypeError: there is no such field.
        ValueError: a value is no number.
    """
    unknown = sorted(set(told or {}) - set(FIELDS))
    if unknown:
        raise TypeError(f"weft.zero: auto has no {unknown[0]}; it has {', '.join(FIELDS)}")
    dtypes = {p.dtype for p in model.parameters()} if model is not None else set()
    found: dict[str, Any] = {
        "hidden_size": _hidden_size(model) if model is not None else 0,
        "fp16": int(dtypes == {torch.float16}),
        "bf16": int(dtypes == {torch.bfloat16}),
        **_OTHERWISE,
        **_of_optimizer(optimizer, hypers),
        **(told or {}),
    }
    made = DsModel(bytes=ctypes.sizeof(DsModel), warmup_steps=-1)
    for name in ("lr", "beta1", "beta2", "eps", "weight_decay", "clip", "fp16", "bf16"):
        setattr(made, name, -1)
    for name, value in found.items():
        try:
            setattr(made, name, type(getattr(made, name))(value))
        except (TypeError, ValueError) as problem:
            raise ValueError(f"weft.zero: auto: {name} is {value!r}, not a number") from problem
    return made


def say(text: str, made: DsModel) -> None:
    """Log what "auto" stands for, if a configuration has it."""
    if re.search(r"[\"']auto[\"']", text):
        words = [f"{name} {getattr(made, name):g}" for name in FIELDS if getattr(made, name) > (0 if name.endswith("size") else -1)]
        _log.info('configuration: "auto" is taken from %s', ", ".join(words))


def explain(problem: str) -> str:
    """A failure of the library's in the words of Python."""
    return re.sub(r"fill in (\w+)( and (\w+))? of weft_zero_ds_model",
                  lambda m: "pass auto={" + ", ".join(f'"{name}": …' for name in (m[1], m[3]) if name) + "} to initialize",
                  problem)  # fmt: skip
