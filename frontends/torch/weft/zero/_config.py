# SPDX-License-Identifier: BSD-3-Clause
"""What a configuration of the DeepSpeed kind says, as far as weft.zero reads it: the one place where keys are known."""

from __future__ import annotations

import ctypes
import difflib
import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from . import _library

#: Keys that have an effect here, by section; "" is the top.
_KNOWN: dict[str, set[str]] = {
    "": {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping", "optimizer",
         "scheduler", "fp16", "bf16", "bfloat16", "zero_optimization", "activation_checkpointing", "steps_per_print", "weft"},
    "optimizer": {"type", "params"},
    "scheduler": {"type", "params"},
    "fp16": {"enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale",
             "consecutive_hysteresis"},
    "bf16": {"enabled"},
    "zero_optimization": {"stage", "overlap_comm", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
                          "stage3_max_live_parameters", "stage3_max_reuse_distance", "zero_quantized_weights",
                          "zero_quantized_gradients"},
    "weft": {"grad_fp32", "reduce_every", "threads", "gather_codec", "reduce_codec"},
}  # fmt: skip
#: Keys that are DeepSpeed's and change nothing here.
_IGNORED: dict[str, set[str]] = {
    "": {"wall_clock_breakdown", "dump_state", "prescale_gradients", "gradient_predivide_factor", "communication_data_type",
         "sparse_gradients", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "aio", "checkpoint", "data_types",
         "memory_breakdown", "comms_logger", "flops_profiler", "tensorboard", "wandb", "csv_monitor", "disable_allgather"},
    "fp16": {"fp16_master_weights_and_grads"},
    "bf16": {"check_grad_overflow", "immediate_grad_update"},
    "zero_optimization": {"allgather_partitions", "allgather_bucket_size", "reduce_scatter", "reduce_bucket_size",
                          "contiguous_gradients", "round_robin_gradients", "sub_group_size", "offload_optimizer", "offload_param",
                          "cpu_offload", "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save",
                          "ignore_unused_parameters", "load_from_fp32_weights", "elastic_checkpoint", "memory_efficient_linear",
                          "zero_hpz_partition_size", "use_multi_rank_bucket_allreduce", "stage3_module_granularity_threshold"},
}  # fmt: skip
_FREE = ("activation_checkpointing", "params")


@dataclass
class Settings:
    """A configuration in weft.zero's words. Elements are counted, not bytes."""

    stage: int = 1
    dtype: torch.dtype | None = None  # of parameters; None: as they are
    auto_cast: bool = False  # inputs of the model are cast to it
    micro_batch_size: int | None = None  # samples of one rank in one forward pass
    batch_size: int | None = None  # samples of all ranks in one step
    micro_batches: int = 1
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
    optimizer: str | None = None
    optimizer_params: dict[str, Any] = field(default_factory=dict)
    scheduler: str | None = None
    scheduler_params: dict[str, Any] = field(default_factory=dict)
    checkpointing: dict[str, Any] | None = None

    def library_config(self, optimizer: int) -> _library.Config:
        """As weft_zero_create takes it."""
        return _library.Config(
            bytes=ctypes.sizeof(_library.Config), stage=self.stage, optimizer=optimizer, micro_batches=self.micro_batches,
            reduce=_library.REDUCE_EVERY if self.reduce_every else _library.REDUCE_AUTO, grad_fp32=int(self.grad_fp32), divisor=0.0,
            clip=self.clip, loss_scale=self.loss_scale, loss_scale_initial=self.loss_scale_initial,
            loss_scale_window=self.loss_scale_window, loss_scale_hysteresis=self.loss_scale_hysteresis,
            loss_scale_refill=int(self.loss_scale_refill), loss_scale_min=self.loss_scale_min, threads=self.threads,
            overlap=int(self.overlap), live_elems=self.live, prefetch_elems=self.prefetch, reuse_elems=self.reuse,
            persistent_elems=self.persistent if self.stage == 3 else 0,
            gather_codec=self.gather_codec.encode() if self.gather_codec else None,
            reduce_codec=self.reduce_codec.encode() if self.reduce_codec else None,
        )  # fmt: skip


def _without_comments(text: str) -> str:
    """JSON without // and # comments and trailing commas; what stands in strings stays."""
    string, comment = r'"(?:[^"\\]|\\.)*"', r"//[^\n]*|#[^\n]*"
    text = re.sub(f"({string})|{comment}", lambda m: m.group(1) or "", text)
    return re.sub(rf"({string})|,(?=\s*[}}\]])", lambda m: m.group(1) or "", text)


def read(config: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a dictionary.

    Args:
        config: a file of JSON, in which // and # comments and trailing commas are accepted, or what such a file has.

    Raises:
        ValueError: the text is no JSON object.
        OSError: the file cannot be read.
    """
    if isinstance(config, Mapping):
        return {str(key): value for key, value in config.items()}
    with open(config, encoding="utf-8") as f:
        try:
            read_ = json.loads(_without_comments(f.read()))
        except ValueError as problem:
            raise ValueError(f"weft.zero: {os.fspath(config)}: {problem}") from None
    if not isinstance(read_, dict):
        raise ValueError(f"weft.zero: {os.fspath(config)}: the top is no object")
    return read_


def _check_keys(section: str, given: Mapping[str, Any]) -> None:
    known, ignored = _KNOWN.get(section, set()), _IGNORED.get(section, set())
    for key, value in given.items():
        where = f"{section}.{key}" if section else key
        if key in ignored:
            if value not in (False, None, "auto"):
                warnings.warn(f"weft.zero: {where} has no effect", stacklevel=5)
        elif key not in known:
            near = difflib.get_close_matches(key, known | ignored, 1)
            raise ValueError(f"weft.zero: there is no key {where}" + (f"; the nearest is {near[0]}" if near else ""))
        elif isinstance(value, Mapping) and key not in _FREE and not section:
            _check_keys("bf16" if key == "bfloat16" else key, value)


def _number(section: Mapping[str, Any], key: str, default: float, least: float = 0, most: float = math.inf) -> float:
    value = section.get(key, default)
    if value is None or value == "auto":
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"weft.zero: {key} is {value!r}, not a number from {least:g} to {most:g}")
    return value


def _switch(section: Mapping[str, Any], key: str, default: bool) -> bool:
    value = section.get(key, default)
    if value is None or value == "auto":
        return default
    if not isinstance(value, bool):
        raise ValueError(f"weft.zero: {key} is {value!r}, not true or false")
    return value


def _section(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key)
    if value is None or value == "auto":
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"weft.zero: {key} is {value!r}, not an object")
    return value


def _batches(given: Mapping[str, Any], settings: Settings, ranks: int) -> None:
    """Batch size = micro-batch size x accumulation x ranks: what is missing follows from the others."""
    whole = int(_number(given, "train_batch_size", 0)) or None
    micro = int(_number(given, "train_micro_batch_size_per_gpu", 0)) or None
    count = int(_number(given, "gradient_accumulation_steps", 0)) or None
    if whole and micro and not count:
        count = whole // (micro * ranks)
    elif whole and count and not micro:
        micro = whole // (count * ranks)
    elif whole and not micro and not count:
        count, micro = 1, whole // ranks
    count = count or 1
    if micro and not whole:
        whole = micro * count * ranks
    if whole and micro and whole != micro * count * ranks:
        raise ValueError(
            f"weft.zero: train_batch_size {whole} is not train_micro_batch_size_per_gpu {micro} x gradient_accumulation_steps "
            f"{count} x {ranks} ranks"
        )
    settings.batch_size, settings.micro_batch_size, settings.micro_batches = whole, micro, count


def _precision(given: Mapping[str, Any], settings: Settings) -> None:
    fp16, bf16 = _section(given, "fp16"), _section(given, "bf16") or _section(given, "bfloat16")
    half, brain = _switch(fp16, "enabled", False), _switch(bf16, "enabled", False)
    if half and brain:
        raise ValueError("weft.zero: fp16 and bf16 are both enabled")
    if brain:
        settings.dtype = torch.bfloat16
    if half:
        settings.dtype = torch.float16
        settings.auto_cast = _switch(fp16, "auto_cast", False)
        settings.loss_scale = _number(fp16, "loss_scale", 0)
        settings.loss_scale_initial = 2.0 ** _number(fp16, "initial_scale_power", 16, 0, 64)
        settings.loss_scale_window = int(_number(fp16, "loss_scale_window", 1000, 1))
        settings.loss_scale_hysteresis = int(_number(fp16, "hysteresis", 2, 1))
        settings.loss_scale_refill = _switch(fp16, "consecutive_hysteresis", False)
        settings.loss_scale_min = _number(fp16, "min_loss_scale", 1, 1e-30)


def _zero(given: Mapping[str, Any], settings: Settings) -> None:
    zero = _section(given, "zero_optimization")
    settings.stage = int(_number(zero, "stage", 0, 0, 3))
    settings.overlap = _switch(zero, "overlap_comm", True)
    settings.prefetch = int(_number(zero, "stage3_prefetch_bucket_size", 5e7))
    settings.persistent = int(_number(zero, "stage3_param_persistence_threshold", 1e5))
    # DeepSpeed's defaults, 1e9, are of the order of a GPU's memory; here buffers are as large as needed unless more is asked for.
    settings.live = int(_number(zero, "stage3_max_live_parameters", 0))
    settings.reuse = int(_number(zero, "stage3_max_reuse_distance", 0))
    if _switch(zero, "zero_quantized_weights", False):
        settings.gather_codec = "int8:block=256"
    if _switch(zero, "zero_quantized_gradients", False):
        settings.reduce_codec = "int4:block=128"


def _own(given: Mapping[str, Any], settings: Settings) -> None:
    own = _section(given, "weft")
    settings.grad_fp32 = _switch(own, "grad_fp32", False)
    settings.reduce_every = _switch(own, "reduce_every", False)
    settings.threads = int(_number(own, "threads", 0))
    settings.gather_codec = own.get("gather_codec", settings.gather_codec)
    settings.reduce_codec = own.get("reduce_codec", settings.reduce_codec)


def settings_of(config: str | os.PathLike[str] | Mapping[str, Any] | None, ranks: int) -> Settings:
    """What a configuration says for this number of ranks.

    Raises:
        ValueError: a key is unknown, or a value is not what it may be; the text names it.
    """
    settings = Settings()
    if config is None:
        return settings
    given = read(config)
    _check_keys("", given)
    _batches(given, settings, ranks)
    _precision(given, settings)
    _zero(given, settings)
    _own(given, settings)
    settings.clip = _number(given, "gradient_clipping", 0)
    for key in ("optimizer", "scheduler"):
        section = _section(given, key)
        kind = section.get("type")
        if kind is not None and not isinstance(kind, str):
            raise ValueError(f"weft.zero: {key}.type is {kind!r}, not a name")
        setattr(settings, key, kind)
        setattr(settings, f"{key}_params", {k: v for k, v in _section(section, "params").items() if v != "auto"})
    settings.checkpointing = dict(_section(given, "activation_checkpointing")) or None
    return settings
