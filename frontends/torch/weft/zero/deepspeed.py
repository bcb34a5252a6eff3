# SPDX-License-Identifier: BSD-3-Clause
"""For programs written for DeepSpeed: `from weft.zero import deepspeed` instead of `import deepspeed`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

from . import _checkpointing, _state
from ._checkpointing import checkpoint as _checkpoint
from ._engine import Engine
from ._engine import initialize as _initialize
from ._init import Init
from ._optimizer import ShardedOptimizer


def _group_of(mpu: Any) -> Any:
    """Ranks of tensor parallelism, which have the same activations; None: no one says."""
    names = ("get_tensor_model_parallel_group", "get_model_parallel_group")
    return next((getattr(mpu, name)() for name in names if hasattr(mpu, name)), None)


class checkpointing:  # noqa: N801  DeepSpeed's name
    """deepspeed.checkpointing."""

    checkpoint = staticmethod(_checkpoint)
    is_configured = staticmethod(_checkpointing.is_configured)
    reset = staticmethod(lambda: None)  # nothing is left from one iteration to the next

    @staticmethod
    def configure(
        mpu_: Any,
        deepspeed_config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        partition_activations: bool | None = None,
        contiguous_checkpointing: bool | None = None,
        num_checkpoints: int | None = None,
        checkpoint_in_cpu: bool | None = None,
        synchronize: bool | None = None,
        profile: bool | None = None,
    ) -> None:
        """Say what checkpoint does with inputs: as deepspeed.checkpointing.configure.

        Args:
            mpu_: has get_tensor_model_parallel_group() or get_model_parallel_group(), whose ranks have the same activations; None:
                no ranks have.
            deepspeed_config: its activation_checkpointing is what the other arguments change.
            partition_activations: see weft.zero.configure_checkpointing.
            contiguous_checkpointing: has no effect.
            num_checkpoints: number_checkpoints there.
            checkpoint_in_cpu: cpu_checkpointing there.
            synchronize: has no effect.
            profile: see there.
        """
        section: dict[str, Any] = {}
        if deepspeed_config is not None:
            whole = deepspeed_config if isinstance(deepspeed_config, Mapping) else json.loads(Path(deepspeed_config).read_text())
            section = dict(whole.get("activation_checkpointing", {}))
        given = {"partition_activations": partition_activations, "number_checkpoints": num_checkpoints,
                 "cpu_checkpointing": checkpoint_in_cpu, "profile": profile}  # fmt: skip
        section |= {name: value for name, value in given.items() if value is not None}
        group = _group_of(mpu_)
        settings = {name: section[name] for name in given if section.get(name) is not None}
        if group is None and settings.pop("partition_activations", False):
            _checkpointing.warn_of_no_group()
        _checkpointing.configure_checkpointing(group, **settings)


class zero:  # noqa: N801  DeepSpeed's name
    """deepspeed.zero."""

    GatheredParameters = _state.GatheredParameters
    Init = Init
    register_external_parameter = staticmethod(_state.register_external_parameter)


def init_distributed(dist_backend: str = "weft", **_: Any) -> None:
    """Join the process group that the launcher started, unless that is done; on one rank without a launcher do nothing."""
    import torch.distributed as dist

    if not dist.is_initialized() and "RANK" in os.environ:
        dist.init_process_group(dist_backend)


def initialize(
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: str | torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer] | None = None,
    model_parameters: Iterable[Any] | None = None,
    training_data: Any = None,
    lr_scheduler: Any = None,
    mpu: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    **others: Any,
) -> tuple[Engine, ShardedOptimizer, Any, Any]:
    """As deepspeed.initialize.

    Args:
        args: has deepspeed_config, if config is None.
        model: see weft.zero.initialize.
        optimizer: see there.
        model_parameters: see there.
        training_data: a dataset, of which each rank's loader gives its part.
        lr_scheduler: see there.
        mpu: has get_data_parallel_group(), whose ranks the engine is of; perhaps what checkpointing.configure looks for.
        collate_fn: the loader's.
        config: see there.
        others: config_params, an older name of config; auto, options and units, see weft.zero.initialize;
            dist_init_required has no effect.

    Returns:
        The engine, its optimizer, the loader of training_data or None, the scheduler or None.
    """
    known = {"config_params", "dist_init_required", "distributed_port", "mesh_param", "auto", "options", "units"}
    unknown = sorted(set(others) - known)
    if unknown:
        raise TypeError(f"weft.zero.deepspeed.initialize has no argument {unknown[0]}")
    if model is None:
        raise ValueError("weft.zero.deepspeed.initialize: model is missing")
    config = config if config is not None else others.get("config_params") or getattr(args, "deepspeed_config", None)
    if config is None:
        raise ValueError("weft.zero.deepspeed.initialize: config is missing: a file, or a dictionary")
    init_distributed()
    group = mpu.get_data_parallel_group() if mpu is not None else None
    if (same := _group_of(mpu)) is not None:
        _checkpointing.same_activations(same)
    mine = {name: others.get(name) for name in ("auto", "options", "units")}
    engine = _initialize(model, optimizer, config, model_parameters=model_parameters, lr_scheduler=lr_scheduler, group=group,
                         **mine)  # fmt: skip
    engine.training_dataloader = _loader(engine, training_data, collate_fn)
    return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler


def _loader(engine: Engine, data: Any, collate_fn: Callable[[list[Any]], Any] | None) -> Any:
    if data is None:
        return None
    sampler: DistributedSampler[Any] = DistributedSampler(data, engine.world_size, engine.global_rank)
    batch = engine.train_micro_batch_size_per_gpu() or 1
    return DataLoader(data, batch_size=batch, sampler=sampler, collate_fn=collate_fn,
                      drop_last=engine.settings.drop_last)  # fmt: skip


class utils:  # noqa: N801  DeepSpeed's name
    """deepspeed.utils."""

    safe_get_full_fp32_param = staticmethod(_state.safe_get_full_fp32_param)
    safe_get_full_grad = staticmethod(_state.safe_get_full_grad)
    safe_get_full_optimizer_state = staticmethod(_state.safe_get_full_optimizer_state)


DeepSpeedEngine = Engine


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """As DeepSpeed's: --deepspeed, which has no effect here, and --deepspeed_config, which initialize(args) takes."""
    group = parser.add_argument_group("DeepSpeed", "arguments of DeepSpeed's scripts, for weft.zero")
    group.add_argument("--deepspeed", action="store_true", help="no effect: the engine is weft.zero's")
    group.add_argument("--deepspeed_config", default=None, type=str, help="a file of the DeepSpeed kind")
    return parser


#: What takes the place of other names of DeepSpeed's.
_INSTEAD = {
    "comm": "torch.distributed",
    "ops": 'an optimizer by name: weft.zero.initialize(model, "adamw", …)',
    "get_accelerator": 'the CPU: torch.device("cpu")',
    "init_inference": "engine.eval(), and the model as it is",
    "moe": "experts are parameters of a group of ranks of their own in weft_zero.h; this face has none",
    "pipe": "a pipeline of the program's, an engine for the data-parallel ranks of each stage",
    "PipelineModule": "a pipeline of the program's, an engine for the data-parallel ranks of each stage",
    "runtime": "weft.zero.deepspeed itself",
    "OnDevice": "weft.zero.Init",
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise AttributeError(f"weft.zero.deepspeed has no {name}; in its place: {_INSTEAD[name]}")
    raise AttributeError(f"weft.zero.deepspeed has no {name}")
