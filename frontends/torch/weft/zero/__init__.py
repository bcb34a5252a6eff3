# SPDX-License-Identifier: BSD-3-Clause
"""ZeRO on weft: optimizer states, gradients and parameters of data-parallel training sharded over the ranks.

In the manner of DeepSpeed::

    engine = weft.zero.initialize(model, "adamw", config="ds_config.json")
    loss = loss_of(engine(batch), target)
    engine.backward(loss)
    engine.step()

or in that of FSDP2::

    weft.zero.fully_shard(model, stage=3)
    optimizer = weft.zero.Optimizer(model, "adamw", lr=3e-4)
    loss_of(model(batch), target).backward()
    optimizer.step()

The work is libweft_zero's, whose interface is weft/weft_zero.h. The ranks are those of torch.distributed, whatever its backend, or
of the launcher. Models are on the CPU.
"""

from __future__ import annotations

from . import dcp, schedulers, universal
from ._callback import Callback, Piece
from ._checkpointing import Checkpoints, checkpoint, checkpoint_units, configure_checkpointing
from ._engine import Engine, initialize
from ._fsdp import Optimizer, fully_shard
from ._init import Init
from ._library import Error
from ._optimizer import ShardedOptimizer
from ._safetensors import load_safetensors
from ._state import (
    GatheredParameters,
    full_state_dict,
    load_full_state_dict,
    register_external_parameter,
    safe_get_full_fp32_param,
    safe_get_full_grad,
    safe_get_full_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_optimizer_state,
    synchronize,
)
from ._units import Block, Plan, UnitPlan, plan

__all__ = [
    "Block",
    "Callback",
    "Checkpoints",
    "Engine",
    "Error",
    "GatheredParameters",
    "Init",
    "Optimizer",
    "Piece",
    "Plan",
    "ShardedOptimizer",
    "UnitPlan",
    "checkpoint",
    "checkpoint_units",
    "configure_checkpointing",
    "dcp",
    "full_state_dict",
    "fully_shard",
    "initialize",
    "load_full_state_dict",
    "load_safetensors",
    "plan",
    "register_external_parameter",
    "safe_get_full_fp32_param",
    "safe_get_full_grad",
    "safe_get_full_optimizer_state",
    "safe_set_full_fp32_param",
    "safe_set_full_optimizer_state",
    "schedulers",
    "synchronize",
    "universal",
]
