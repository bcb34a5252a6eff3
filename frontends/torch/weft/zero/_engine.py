# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero.initialize: an engine that is used as DeepSpeed's."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from . import _checkpoint, schedulers
from ._automatic import known
from ._calls import EngineCalls
from ._comm import world_size
from ._config import Settings, settings_of
from ._core import Core
from ._groups import Given, describe
from ._library import Error
from ._optimizer import ShardedOptimizer
from ._passes import replace_tensors
from ._report import Report
from ._state import full_state_dict
from ._units import Block

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Engine(EngineCalls):
    """A model and its optimizer, sharded. Made by weft.zero.initialize.

        for batch, target in data:
            loss = loss_of(engine(batch), target)
            engine.backward(loss)
            engine.step()

    backward() and step() are called for every micro-batch; of each gradient_accumulation_steps of them the last updates.

    Attributes:
        module: the model.
        optimizer: a torch.optim.Optimizer.
        lr_scheduler: None, or what step() steps with each update.
        training_dataloader: of weft.zero.deepspeed.initialize(training_data=…), or None.
        micro_steps: calls of step().
        global_steps: those that were to update.
        skipped_steps: those of them that found Inf or NaN.
    """

    def __init__(self, core: Core, optimizer: ShardedOptimizer, lr_scheduler: Any = None) -> None:
        super().__init__()
        self.module, self.optimizer, self.lr_scheduler = core.module, optimizer, lr_scheduler
        self.core, self.settings = core, core.settings
        self.training_dataloader: Any = None
        self.micro_steps = self.global_steps = self.skipped_steps = 0
        self._saving = "nothing"
        self._boundary: bool | None = None
        self._syncing = True
        self._report = Report(self.settings.text)
        core.scaled = False
        # The core does not keep the engine, which keeps it.
        this = weakref.ref(self)
        core.more = lambda: (engine := this()) is not None and engine._more()

    # ---- Forward and backward ----

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        if self.settings.auto_cast:
            args, kwargs = replace_tensors(args, self._cast), replace_tensors(kwargs, self._cast)
        return self.module(*args, **kwargs)

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.settings.dtype) if tensor.is_floating_point() else tensor

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> torch.Tensor:
        """Compute gradients of a micro-batch. The mean over micro-batches and ranks is the engine's: losses are not divided.

        Args:
            loss: one element.
            retain_graph: as torch's.

        Returns:
            The loss, unscaled.
        """
        core = self.core
        core.passes.ended_by_caller = True
        try:
            torch.autograd.backward(self.scale(loss), retain_graph=retain_graph)
        except BaseException:
            core.abandon_micro_batch()
            raise
        finally:
            core.passes.ended_by_caller = False
        core.end_micro_batch()
        return loss

    def _more(self) -> bool:
        """Other micro-batches follow the one whose backward pass begins."""
        return not self._syncing or not self.is_gradient_accumulation_boundary()

    def step(self) -> None:
        """Update, at the end of each gradient_accumulation_steps micro-batches. Collective then."""
        if not self._syncing:
            raise Error("weft.zero: step() inside of no_sync()")
        if self.is_gradient_accumulation_boundary():
            self.optimizer.step()
            self.global_steps += 1
            self.skipped_steps += self.optimizer.skipped
            if self.lr_scheduler is not None and not self.optimizer.skipped:
                self.lr_scheduler.step()
            self._report.stepped(self)
        else:
            self.core.turns += 1
        self.micro_steps += 1

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: a step forgets the gradients that it has used. drop_gradients() forgets others."""

    def drop_gradients(self) -> None:
        """Forget all gradients since the last update, after an exception, say. Collective."""
        self.core.drop_gradients()

    def offload_memory(self, limit: int) -> None:
        """How many bytes of states that have a place in a file may be in memory instead: another offload_memory_bytes."""
        self.core.lib.call("weft_zero_offload_memory", self.core.handle, limit)

    def is_gradient_accumulation_boundary(self) -> bool:
        """The micro-batch that comes or has just been is the last before an update."""
        if self._boundary is not None:
            return self._boundary
        return self.core.turns + 1 >= self.settings.micro_batches

    def set_gradient_accumulation_boundary(self, is_boundary: bool | None) -> None:
        """Say so by hand, before backward(); None: counted again."""
        self._boundary = is_boundary

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Micro-batches inside are not the last before an update; step() is not called for them.

        The mean is over the micro-batches that there were. Stages 0 and 1 do not reduce inside; 2 and 3 do.
        """
        before, self._syncing = self._syncing, False
        try:
            yield
        finally:
            self._syncing = before

    # ---- State ----

    def synchronize(self) -> None:
        """Wait for parameters that the last update has sent on their way."""
        self.core.synchronize()

    def full_state_dict(self, dtype: torch.dtype | None = None, every_rank: bool = False) -> dict[str, torch.Tensor]:
        """As weft.zero.full_state_dict, of the model."""
        return full_state_dict(self.module, dtype, every_rank)

    def save_16bit_model(self, save_dir: str | os.PathLike[str], save_filename: str = "pytorch_model.bin",
                         exclude_frozen_parameters: bool = False) -> bool:  # fmt: skip
        """Write the model's full weights, in its own types, into one file. Collective; rank 0 writes.

        The file appears, or takes the place of another, when it is complete.

        Args:
            save_dir: made if it does not exist.
            save_filename: in it.
            exclude_frozen_parameters: without those that do not require a gradient.
        """
        state = full_state_dict(self.module, exclude_frozen_parameters=exclude_frozen_parameters)
        _checkpoint.write_whole(self, state, os.path.join(save_dir, save_filename))
        return True

    def prepare_checkpoint(self) -> None:
        """Get the memory for the copy that save_checkpoint makes, in the background, so that the first one does not. Collective."""
        self.core.lib.call("weft_zero_save_prepare", self.core.handle)

    def save_checkpoint(
        self,
        save_dir: str | os.PathLike[str],
        tag: str | None = None,
        client_state: Mapping[str, Any] | None = None,
        save_latest: bool = True,
        exclude_frozen_parameters: bool = False,
        *,
        wait: bool = True,
        keep: int = 0,
        progress: bool = True,
    ) -> bool:
        """Save weights, moments, the loss scale, the scheduler and counters as a version of a folder. Collective.

        Args:
            save_dir: made if it does not exist; on a file system that all ranks see.
            tag: the version's name; None: "global_step" and the number of updates. One of that name is replaced.
            client_state: what load_checkpoint returns, of rank 0; JSON can express it.
            save_latest: True, as the newest complete version is found without a file that names it.
            exclude_frozen_parameters: False; save_16bit_model can leave them out.
            wait: False returns while it is written; wait_for_checkpoint() tells how that went.
            keep: versions that stay, with the new one; 0: all.
            progress: with wait, rank 0 says on standard error how far it is when it takes more than two seconds.

        Raises:
            Error: it failed; or the one before did, for which nobody has waited: this one has not begun then.
        """
        if exclude_frozen_parameters:
            raise ValueError("weft.zero: save_checkpoint: exclude_frozen_parameters=True is not possible: a version has all "
                             "parameters; save_16bit_model can leave frozen ones out")  # fmt: skip
        if not save_latest:
            raise ValueError("weft.zero: save_checkpoint: save_latest=False is not possible: the newest complete version is found "
                             "without a file that names it; load_checkpoint(folder, tag) takes another one")  # fmt: skip
        tag = _checkpoint.agreed_tag(self, tag or f"global_step{self.global_steps}")
        self._saving = os.path.join(save_dir, tag)
        _checkpoint.save(self, os.fspath(save_dir), tag, client_state, keep)
        if wait:
            self.wait_for_checkpoint(progress)
        return True

    def wait_for_checkpoint(self, progress: bool = True) -> None:
        """Wait until the newest save_checkpoint is complete; raises Error if it failed. progress: as for save_checkpoint."""
        _checkpoint.wait(self, f"saving {self._saving}", progress)

    def load_checkpoint(
        self,
        load_dir: str | os.PathLike[str],
        tag: str | None = None,
        load_module_strict: bool = True,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
        custom_load_fn: Any = None,
        *,
        progress: bool = True,
    ) -> tuple[str | None, dict[str, Any] | None]:
        """Take a version that any number of ranks has saved in any stage; buffers of the model are not in it. Collective.

        Args:
            load_dir: as for save_checkpoint.
            tag: its name; None: the newest that is complete.
            load_module_strict: True; full_state_dict and load_full_state_dict(strict=False) have parts of models.
            load_optimizer_states: False: weights, counters and the scheduler, but neither moments nor groups.
            load_lr_scheduler_states: False: the scheduler stays as it is.
            load_module_only: weights alone.
            custom_load_fn: None.
            progress: rank 0 says on standard error how far it is when it takes more than two seconds.

        Returns:
            Its folder and the client_state; None and None where there is none and no tag was given.
        """
        if not load_module_strict or custom_load_fn is not None:
            what = "load_module_strict=False" if not load_module_strict else "custom_load_fn"
            raise ValueError(f"weft.zero: load_checkpoint: {what} is not possible: a version has the parameters of one model; "
                             "weft.zero.load_full_state_dict(model, state, strict=False) takes some of them")  # fmt: skip
        if self.settings.load_universal:
            if load_module_only or not (load_optimizer_states and load_lr_scheduler_states):
                raise ValueError("weft.zero: load_checkpoint: checkpoint.load_universal takes all of a universal checkpoint: no "
                                 "part of it can be left out")  # fmt: skip
            return _checkpoint.load_universal(self, os.fspath(load_dir), tag)
        take = _checkpoint.Parts(
            optimizer=load_optimizer_states and not load_module_only,
            scheduler=load_lr_scheduler_states and not load_module_only,
            counters=not load_module_only,
        )
        return _checkpoint.load(self, os.fspath(load_dir), tag, take, progress)

    def stats(self) -> dict[str, int]:
        """Bytes by class and nanoseconds by cause on this rank: weft_zero_stats of weft/weft_zero.h."""
        return self.core.stats()

    def destroy(self) -> None:
        """End the engine. The model's parameters can be read no more. Collective."""
        self.core.destroy()


def _optimizer_of(settings: Settings, optimizer: Any, hypers: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The given optimizer, or the configuration's."""
    if optimizer is not None:
        return optimizer, hypers
    if settings.optimizer is None:
        return "adamw", hypers
    return settings.optimizer, {**settings.optimizer_params, **hypers}


def initialize(
    model: nn.Module,
    optimizer: Given | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    model_parameters: Iterable[Any] | None = None,
    lr_scheduler: Any = None,
    group: ProcessGroup | None = None,
    units: Sequence[Block] | None = None,
    options: Mapping[str, Any] | None = None,
    auto: Mapping[str, Any] | None = None,
    **hypers: Any,
) -> Engine:
    """Make an engine of a model. Collective: all ranks get the parameters and buffers of rank 0.

    Args:
        model: on the CPU. Its parameters become views of the engine's memory.
        optimizer: "adamw", "adam", "sgd", "lion", "adagrad", "lamb", or "muon", which updates hidden matrices, and AdamW the rest;
            an AdamW, Adam, SGD, Adagrad or Muon of torch.optim that has not made a step, or several for different parameters;
            a function that makes them; a weft.zero.Callback; None: the configuration's, or AdamW.
        config: a ds_config file, or a dictionary of the same keys, with DeepSpeed's defaults; None: stage 1, one micro-batch,
            gradients are not clipped.
        model_parameters: what is trained, or groups of it, for an optimizer by name; None: all that require gradients.
        lr_scheduler: a function that makes one of engine.optimizer; None: the configuration's.
        group: a process group of torch.distributed, of any backend; None: all ranks.
        units: modules, classes or names of classes that are gathered as a whole; None: repeated blocks.
        options: what configurations have not: grad_fp32, reduce_every (micro-batches are reduced one by one in all stages),
            threads, gather_codec, reduce_codec, shard_ranks, state_dtype ("bf16" or "block8", moments of 2 bytes or 1),
            offload_folder and what else of weft_zero_config begins so.
        auto: what "auto" in the configuration stands for: hidden_size, train_batch_size, micro_batch_size, accumulation_steps,
            warmup_steps, total_steps, lr, beta1, beta2, eps, weight_decay, clip, fp16, bf16. Without it hidden_size is
            model.config's, fp16 and bf16 are as the model's parameters, the optimizer's are those that were passed, and clip is 1.
            Of batch sizes that are "auto", one is enough: accumulation is 1 then.
        hypers: lr=…, weight_decay=… for an optimizer by name or a Callback. Of "muon" muon_lr=… and adam_lr=…, too; a group of
            model_parameters, or a parameter, may say use_muon.

    Raises:
        ValueError: the configuration, the optimizer or the model is not as it must be.
        Error: of the library; ranks have other models or configurations, say.
    """
    settings = settings_of(config, world_size(group), options, known(model, optimizer, hypers, auto))
    named, given = _optimizer_of(settings, optimizer, hypers)
    if model_parameters is None:
        model_parameters = [p for p in model.parameters() if p.requires_grad]
    described = describe(named, model_parameters, given, model)
    core = Core(model, settings, described, group, units)
    if settings.dtype is not None:
        for module in model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    module._buffers[name] = buffer.to(settings.dtype)
    made = ShardedOptimizer(core, described.groups)
    if lr_scheduler is None and settings.scheduler is not None:
        lr_scheduler = schedulers.make(made, settings.scheduler, settings.scheduler_params)
    elif callable(lr_scheduler) and not hasattr(lr_scheduler, "step"):
        lr_scheduler = lr_scheduler(made)
    if settings.checkpointing is not None:
        from ._checkpointing import configure

        configure(settings.checkpointing)
    engine = Engine(core, made, lr_scheduler)
    engine._report.begun(engine)
    return engine
