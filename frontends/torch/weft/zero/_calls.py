# SPDX-License-Identifier: BSD-3-Clause
"""What training scripts ask of DeepSpeed's engine besides forward, backward and step."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ._config import Settings
from ._core import Core
from ._library import Error
from ._optimizer import ShardedOptimizer
from ._state import full_state_dict, load_full_state_dict

#: Names that DeepSpeed's engine has and this one does not, and what to do instead.
_REFUSED = (
    (r"deepspeed_io", "pass training_data to weft.zero.deepspeed.initialize, or make a torch.utils.data.DataLoader with a "
     "DistributedSampler"),
    (r"coalesce_grad_reduction", "micro-batches inside of engine.no_sync() are reduced once in stages 0 and 1"),
    (r"(allreduce_(and|bucket|no)|sparse_all|buffered_all|all_gather_scalar).*", "the engine reduces gradients as they come"),
    (r"clip_fp32_gradients", "gradient_clipping in the configuration, by the norm over all ranks"),
    (r"global_samples", "engine.global_steps * engine.train_batch_size()"),
    (r"(get_)?wall_clock_timers|timers|tput_timer|engine_timers|(print_)?forward_breakdown", "engine.stats() has nanoseconds "
     "by cause"),
    (r"flops_profiler.*", "torch.profiler and torch.utils.flop_counter count operations"),
    (r"monitor|autotuning_.*|compression_.*|eigenvalue.*|progressive_layer_drop|pld_.*", "weft.zero has no such part"),
    (r"(set_)?(custom_)?(curriculum|data_post|data_efficiency|data_sampling|random_ltd).*", "weft.zero leaves data to the program"),
    (r"register_compile_pass|.*deepcompile.*|get_auto[st]p_backend", "engine.compile() has torch.compile as it is"),
    (r"load_moe_state_dict|has_moe_layers", "experts are parameters of a group of ranks of their own in weft_zero.h; this face has "
     "none"),
    (r"steps_per_print|(wall_clock|memory)_breakdown|dump_state", "the configuration has it, and its lines are printed"),
    (r"data_parallel_group|(get_)?data_parallel_world_size|communication_data_type",
     "engine.world_size, engine.global_rank, and the group= of weft.zero.initialize"),
    (r"client_(lr_scheduler|optimizer)", "engine.lr_scheduler, engine.optimizer"),
    (r"zero_(use_cpu_optimizer|cpu_offload|offload_(optimizer|param))", "the configuration has it"),
    (r"checkpoint_engine", "engine.save_checkpoint(wait=False) writes while training goes on"),
)  # fmt: skip


class EngineCalls(nn.Module):
    """Answers, and what changes settings. The names are DeepSpeed's."""

    core: Core
    settings: Settings
    module: nn.Module
    optimizer: ShardedOptimizer
    lr_scheduler: Any
    global_steps: int

    def __getattr__(self, name: str) -> Any:
        """What the engine does not have is the model's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            module = self.__dict__.get("_modules", {}).get("module")
            if module is None:
                raise
        try:
            return getattr(module, name)
        except AttributeError:
            for names, instead in _REFUSED:
                if re.fullmatch(names, name):
                    raise AttributeError(f"weft.zero: the engine has no {name}: {instead}") from None
            raise AttributeError(f"weft.zero: neither the engine nor the model has {name}") from None

    # ---- Batches ----

    def train_batch_size(self) -> int | None:
        """Samples of all ranks in an update; None: the configuration does not say."""
        return self.settings.batch_size

    def train_micro_batch_size_per_gpu(self) -> int | None:
        """Samples of one rank in one forward pass."""
        return self.settings.micro_batch_size

    def gradient_accumulation_steps(self) -> int:
        """Micro-batches in an update."""
        return self.settings.micro_batches

    def get_batch_info(self) -> tuple[int | None, int | None, int]:
        """Samples in an update, of one rank in one forward pass, and micro-batches in an update."""
        return self.train_batch_size(), self.train_micro_batch_size_per_gpu(), self.gradient_accumulation_steps()

    def set_train_batch_size(self, train_batch_size: int) -> None:
        """Have more or fewer micro-batches of the same size in an update, from the next one on. All ranks say the same.

        Raises:
            ValueError: it is no multiple of what the ranks have in one micro-batch, or the configuration does not say that.
            Error: gradients of the next update have come.
        """
        train_batch_size = operator.index(train_batch_size)
        micro = self.settings.micro_batch_size
        if micro is None:
            raise ValueError("weft.zero: set_train_batch_size: the configuration has no train_micro_batch_size_per_gpu")
        several = micro * self.core.comm.size
        if train_batch_size <= 0 or train_batch_size % several:
            raise ValueError(f"weft.zero: set_train_batch_size: {train_batch_size} is no multiple of {several}, {micro} samples of "
                             f"each of {self.core.comm.size} ranks")  # fmt: skip
        if self.core.micro_batches:
            raise Error("weft.zero: set_train_batch_size: gradients of the next update have come; call it after an update")
        self.settings.batch_size, self.settings.micro_batches = train_batch_size, train_batch_size // several

    def set_train_micro_batch_size(self, micro_batch_size: int) -> None:
        """Say that micro-batches have another size; their number stays. Gradients are means over samples of a micro-batch."""
        micro_batch_size = operator.index(micro_batch_size)
        if micro_batch_size <= 0:
            raise ValueError(f"weft.zero: set_train_micro_batch_size: {micro_batch_size} samples")
        self.settings.micro_batch_size = micro_batch_size
        self.settings.batch_size = micro_batch_size * self.settings.micro_batches * self.core.comm.size

    # ---- The configuration ----

    def gradient_clipping(self) -> float:
        """The largest norm of all gradients together; 0: not clipped."""
        return self.settings.clip

    def zero_optimization(self) -> bool:
        """Something is sharded."""
        return self.settings.stage > 0

    def zero_optimization_stage(self) -> int:
        """0 to 3."""
        return self.settings.stage

    def zero_optimization_partition_gradients(self) -> bool:
        """Stage 2 or 3."""
        return self.settings.stage >= 2

    def zero_optimization_partition_weights(self) -> bool:
        """Stage 3."""
        return self.settings.stage >= 3

    def fp16_enabled(self) -> bool:
        """By the configuration."""
        return self.settings.dtype == torch.float16

    def bfloat16_enabled(self) -> bool:
        """By the configuration."""
        return self.settings.dtype == torch.bfloat16

    def dynamic_loss_scale(self) -> bool:
        """The loss scale follows overflows."""
        return self.settings.loss_scale == 0

    def optimizer_name(self) -> str:
        """The library's."""
        return self.core.optimizer

    def scheduler_name(self) -> str | None:
        """The configuration's."""
        return self.settings.scheduler

    # ---- How training goes ----

    def get_global_grad_norm(self) -> float | None:
        """Of all gradients of the last update, before clipping; None before the first."""
        return self.optimizer.grad_norm

    def get_lr(self) -> list[float]:
        """Of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def set_lr(self, lr: float) -> None:
        """Of all groups; a scheduler sets its own afterwards."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def get_mom(self) -> list[Any]:
        """Momentum or betas of each group."""
        return [group.get("momentum", group.get("betas")) for group in self.optimizer.param_groups]

    @property
    def loss_scale(self) -> float:
        """What the next loss is multiplied by."""
        return self.core.loss_scale()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the loss scale, for a program that calls backward() of it instead of engine.backward(loss)."""
        core, scale = self.core, self.core.loss_scale()
        if scale == 1:
            return loss
        scaled = loss.float() * scale

        def used(_: torch.Tensor) -> None:
            core.scaled = True

        if scaled.requires_grad:
            scaled.register_hook(used)  # type: ignore[no-untyped-call]  # a loss that was scaled and not used says nothing of another one
        return scaled

    def allreduce_gradients(self, bucket_size: int = 0) -> None:
        """Nothing: gradients are reduced as they come."""

    def was_step_applied(self) -> bool:
        """The newest update found neither Inf nor NaN."""
        return self.global_steps > 0 and not self.optimizer.skipped

    # ---- Ranks ----

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def global_rank(self) -> int:
        """This rank, of the engine's."""
        return self.core.comm.rank

    @property
    def local_rank(self) -> int:
        """This rank on its host, as the launcher says; 0: it does not."""
        return int(os.environ.get("LOCAL_RANK", 0))

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.core.comm.size

    @property
    def dp_world_size(self) -> int:
        """Ranks that have other data: all of the engine's."""
        return self.core.comm.size

    def get_data_parallel_rank(self) -> int:
        """This rank among those."""
        return self.core.comm.rank

    # ---- The model ----

    def compile(self, backend: Any = "inductor", compile_kwargs: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Compile the model: torch.compile with these arguments. Its graph breaks at the hooks of units."""
        self.module.compile(backend=backend, **{**(compile_kwargs or {}), **more})

    @property
    def is_compiled(self) -> bool:
        """compile() was called, of the engine or of the model."""
        return getattr(self.module, "_compiled_call_impl", None) is not None

    def module_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, torch.Tensor]:
        """The model's state with whole parameters, on every rank. Collective. full_state_dict() needs less memory."""
        return full_state_dict(self.module, None, True, exclude_frozen_parameters)

    def load_module_state_dict(self, state_dict: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Take whole parameters and buffers, the same on all ranks. Collective."""
        load_full_state_dict(self.module, state_dict, strict)

    def save_fp16_model(self, save_dir: str | os.PathLike[str], save_filename: str = "pytorch_model.bin") -> bool:
        """save_16bit_model(), by an older name."""
        saved: bool = self.save_16bit_model(save_dir, save_filename)
        return saved

    # ---- Memory ----

    def empty_partition_cache(self) -> None:
        """Nothing: parameters are gathered into one piece of memory that the engine keeps."""

    def offload_states(self, include: Any = None, device: str = "cpu", pin_memory: bool = True, non_blocking: bool = False) -> None:
        """Nothing: states are in the host's memory.

        Raises:
            ValueError: it is to be another place than that; offload_optimizer in the configuration has files.
        """
        if str(getattr(device, "value", device)) not in ("cpu", "none"):
            raise ValueError(f"weft.zero: offload_states: device {device!r}: states are in the host's memory, or in files by "
                             "offload_optimizer of the configuration, of which offload_memory(bytes) moves some")  # fmt: skip

    def reload_states(self, non_blocking: bool = False) -> None:
        """Nothing, as offload_states()."""
