# SPDX-License-Identifier: BSD-3-Clause
"""How an engine is made; a configuration of the DeepSpeed kind is read by the library (weft/weft_zero_config.h)."""

from __future__ import annotations

import ctypes
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch

from . import _library
from ._automatic import explain, say
from ._library import Error, library

#: Fields that no configuration has.
OPTIONS = ("grad_fp32", "reduce_every", "threads", "gather_codec", "reduce_codec", "shard_ranks", "offload_folder",
           "offload_params", "offload_ratio", "offload_block_bytes", "offload_depth", "offload_buffer_bytes", "offload_buffered",
           "offload_threads", "offload_memory_bytes", "offload_weight_codec", "offload_moment1_codec",
           "offload_moment2_codec", "state_dtype")  # fmt: skip


@dataclass
class Settings:
    """What weft_zero_config has, and what the engine in Python wants besides. Elements are counted, not bytes."""

    stage: int = 1
    dtype: torch.dtype | None = None  # of parameters; None: as they are
    auto_cast: bool = False  # inputs of the model are cast to it
    micro_batch_size: int | None = None  # samples of one rank in one forward pass
    batch_size: int | None = None  # samples of all ranks in one step
    micro_batches: int = 1
    divisor: float = 0.0  # of gradients; 0: ranks and micro-batches
    clip: float = 0.0
    loss_scale: float = 1.0  # 0: dynamic
    loss_scale_initial: float = 65536.0
    loss_scale_window: int = 1000
    loss_scale_hysteresis: int = 2
    loss_scale_refill: bool = False
    loss_scale_min: float = 1.0
    overlap: bool = True
    prefetch: int = 50_000_000
    persistent: int = 100_000
    live: int = 0
    reuse: int = 0
    grad_fp32: bool = False
    reduce_every: bool = False
    threads: int = 0
    gather_codec: str | None = None
    reduce_codec: str | None = None
    shard_ranks: int = 0
    secondary_ranks: int = 0
    offload_folder: str | None = None
    offload_params: bool = False
    offload_ratio: float = 1.0
    offload_block_bytes: int = 0
    offload_depth: int = 0
    offload_buffer_bytes: int = 0
    offload_buffered: bool = False
    offload_threads: bool = False
    offload_memory_bytes: int = 0
    offload_weight_codec: str | None = None
    offload_moment1_codec: str | None = None
    offload_moment2_codec: str | None = None
    state_dtype: str = "fp32"  # of moments: "bf16", "block8"
    optimizer: str | None = None
    optimizer_params: dict[str, Any] = field(default_factory=dict)
    scheduler: str | None = None
    scheduler_params: dict[str, Any] = field(default_factory=dict)
    checkpointing: dict[str, Any] | None = None
    drop_last: bool = True  # by the loader that is made of training_data
    load_universal: bool = False
    tag_validation: str = "warn"
    text: dict[str, Any] = field(default_factory=dict)  # the configuration

    def library_config(self, optimizer: int) -> _library.Config:
        """As weft_zero_create takes it."""
        made = _library.Config(bytes=ctypes.sizeof(_library.Config), optimizer=optimizer)
        if self.state_dtype not in _library.STATES:
            raise ValueError(f"weft.zero: state_dtype is {self.state_dtype!r}; there are {', '.join(_library.STATES)}")
        made.state_dtype = _library.STATES[self.state_dtype]
        made.reduce = _library.REDUCE_EVERY if self.reduce_every else _library.REDUCE_AUTO
        for mine, theirs in _FIELDS.items():
            value = getattr(self, mine)
            setattr(made, theirs, value.encode() if isinstance(value, str) else int(value) if isinstance(value, bool) else value)
        return made


#: Settings that are fields of weft_zero_config, by their names there.
_ELEMS = {"prefetch": "prefetch_elems", "persistent": "persistent_elems", "live": "live_elems", "reuse": "reuse_elems"}
_OWN = {"dtype", "auto_cast", "micro_batch_size", "batch_size", "reduce_every", "state_dtype", "optimizer", "optimizer_params",
        "scheduler", "scheduler_params", "checkpointing", "drop_last", "load_universal", "tag_validation",
        "text"}  # fmt: skip
_FIELDS = {f.name: _ELEMS.get(f.name, f.name) for f in fields(Settings) if f.name not in _OWN}


def _text_of(config: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[bytes, bytes]:
    """JSON, and what errors call it."""
    if isinstance(config, Mapping):
        try:
            return json.dumps(dict(config)).encode(), b"config"
        except TypeError as problem:
            raise ValueError(f"weft.zero: config: {problem}") from None
    with open(config, "rb") as f:
        return f.read(), os.fsencode(config)


def _from_library(handle: ctypes.c_void_p) -> tuple[_library.Config, _library.Hyper, _library.Hyper, dict[str, Any]]:
    """A copy of what was read: hyper-parameters of the optimizer, and of the rest beside Muon."""
    engine, hyper, rest = _library.Config(), _library.Hyper(), _library.Hyper()
    for name, made in (("engine", engine), ("hyper", hyper), ("hyper_of_rest", rest)):
        given = library().result(f"weft_zero_ds_config_{name}", handle)
        ctypes.memmove(ctypes.addressof(made), given, ctypes.sizeof(made))
    text: dict[str, Any] = json.loads(library().result("weft_zero_ds_config_text", handle))
    return engine, hyper, rest, text


def _warn(handle: ctypes.c_void_p) -> None:
    i = 0
    while (warning := library().result("weft_zero_ds_config_warning", handle, i)) is not None:
        warnings.warn(f"weft.zero: {warning.decode()}", stacklevel=5)
        i += 1


def _settings(engine: _library.Config, hyper: _library.Hyper, rest: _library.Hyper, text: dict[str, Any]) -> Settings:
    from ._groups import group_of

    made = Settings()
    for mine, theirs in _FIELDS.items():
        value = getattr(engine, theirs)
        if mine in ("gather_codec", "reduce_codec", "offload_folder"):
            value = value.decode() if value is not None else None
        setattr(made, mine, bool(value) if isinstance(getattr(made, mine), bool) else value)
    made.reduce_every = engine.reduce == _library.REDUCE_EVERY
    half, brain = text.get("fp16") or {}, text.get("bf16") or {}
    made.dtype = torch.float16 if half.get("enabled") else torch.bfloat16 if brain.get("enabled") else None
    made.auto_cast = bool(half.get("enabled") and half.get("auto_cast"))
    made.batch_size = text.get("train_batch_size") or None
    made.micro_batch_size = text.get("train_micro_batch_size_per_gpu") or None
    if text.get("optimizer"):
        made.optimizer = next(name for name, number in _library.OPTIMIZERS.items() if number == engine.optimizer)
        made.optimizer_params = group_of(made.optimizer, hyper)
        if made.optimizer == "muon":  # AdamW's, too
            made.optimizer_params = group_of("adamw", rest) | made.optimizer_params | {"muon_lr": hyper.lr, "adam_lr": rest.lr}
    scheduler = text.get("scheduler") or {}
    made.scheduler, made.scheduler_params = scheduler.get("type"), dict(scheduler.get("params") or {})
    made.checkpointing = text.get("activation_checkpointing")
    made.drop_last = bool(text.get("dataloader_drop_last"))
    saves = text.get("checkpoint") or {}
    made.load_universal = bool(saves.get("load_universal"))
    made.tag_validation = str(saves.get("tag_validation") or "warn").lower()
    made.text = text
    return made


def settings_of(
    config: str | os.PathLike[str] | Mapping[str, Any] | None,
    ranks: int,
    options: Mapping[str, Any] | None = None,
    automatic: _library.DsModel | None = None,
) -> Settings:
    """What a configuration says for this number of ranks; None: stage 1, one micro-batch, not clipped.

    automatic: what "auto" stands for.

    Raises:
        ValueError: a key is unknown or refused, or a value is not what it may be; the text names it, with line and column.
        OSError: the file cannot be read.
        TypeError: there is no such option.
    """
    unknown = sorted(set(options or {}) - set(OPTIONS))
    if unknown:
        raise TypeError(f"weft.zero: there is no option {unknown[0]}; there are {', '.join(OPTIONS)}")
    for option, value in (options or {}).items():
        if type(getattr(Settings, option)) is not int or option == "shard_ranks":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise ValueError(f"weft.zero: option {option} is {value!r}, not a whole number from 0 on")
    if config is None:
        return Settings(**(options or {}))
    text, name = _text_of(config)
    handle = ctypes.c_void_p()
    try:
        library().call("weft_zero_ds_config_read", text, name, ranks, ctypes.byref(automatic) if automatic else None,
                       ctypes.byref(handle))  # fmt: skip
        if automatic:
            say(text.decode(errors="replace"), automatic)
        read = _settings(*_from_library(handle))
        _warn(handle)
    except Error as problem:
        raise ValueError(explain(str(problem))) from None
    finally:
        library().result("weft_zero_ds_config_free", handle)
    return replace(read, **(options or {}))
