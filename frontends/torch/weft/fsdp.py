# SPDX-License-Identifier: BSD-3-Clause
"""FSDP2 (fully_shard) with its communication buffers in transport memory, and its gradients compressed."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from . import mem
from ._codec import coded
from ._groups import backend_of
from ._residuals import SPARE, VERSION, check_residual, check_state, decimal, feedback, try_loads

__all__ = [
    "AllGather", "ReduceScatter", "load_state_dict", "state_dict", "use_codec", "use_group_memory", "use_transport_memory",
]  # fmt: skip


_FEEDBACK = ("0", "1", "loco")  # that a reduce_scatter can have: src/comm/compress.c


class _Allocate:
    refused = False

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A buffer of `size` elements: in transport memory on CPU, else as torch does."""
        if device.type != "cpu" or math.prod(int(s) for s in size) == 0:
            return torch.empty(*size, dtype=dtype, device=device)
        try:
            return mem.empty([int(s) for s in size], dtype=dtype)
        except RuntimeError as problem:
            if not _Allocate.refused:
                warnings.warn(f"weft.fsdp: buffers are in ordinary memory: {problem}", stacklevel=2)
            _Allocate.refused = True
            return torch.empty(*size, dtype=dtype, device=device)


class AllGather(_Allocate):
    """For FSDPModule.set_custom_all_gather."""

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> dist.Work | None:
        """Gather into `output_tensor`, ranks in turn."""
        work: dist.Work | None = dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
        return work


class ReduceScatter(_Allocate):
    """For FSDPModule.set_custom_reduce_scatter: one object for each module."""

    def __init__(self, codec: str | None = None) -> None:
        """Gradients are reduced as they are, or compressed.

        Args:
            codec: text as in weft/weft_compress.h, such as "int8:ef=1"; None: WEFT_COMPRESS, or none. With ef=1 what is lost of the
                module's gradients is kept, on each rank for all shards.
        """
        from . import _C

        self.codec = codec
        if codec is not None:
            if not isinstance(codec, str):
                raise TypeError(f'weft.fsdp: codec must be text, such as "int8:ef=1", not {codec!r}')
            _C.Codec(codec)  # or says what is wrong with it
            if feedback(codec) not in _FEEDBACK:
                raise ValueError(
                    f"weft.fsdp: codec {codec}: ef={feedback(codec)} is for all_reduce, and the gradients of FSDP go by "
                    "reduce_scatter, which takes ef=1 and ef=loco"
                )
        self._backend: Any = None  # known from the first call on
        self._first_tensor: int | None = None
        self._tensors: dict[int, int] = {}  # by elements: a step in which parameters have no gradient has fewer
        self._loaded: Mapping[str, Any] | None = None  # what the first call begins with

    def _tensor(self, group: dist.ProcessGroup, elements: int) -> int:
        from . import _C

        if self._first_tensor is None:
            self._backend = backend_of(group)
            self._first_tensor = _C.new_tensors(self._backend)  # modules come in the same order on all ranks
        if self._loaded is not None:
            self._load()
        return self._number(elements)

    def _number(self, elements: int) -> int:
        assert self._first_tensor is not None
        return self._tensors.setdefault(elements, self._first_tensor + len(self._tensors))

    def _load(self) -> None:
        from . import _C

        state, self._loaded = self._loaded, None  # also where it is refused: what is kept stays
        assert state is not None and self._first_tensor is not None
        rank, ranks = self._backend.rank(), self._backend.size()
        if (state["rank"], state["ranks"]) not in ((rank, ranks), (0, 0)):  # 0 of 0: saved before the first step
            raise ValueError(
                f"weft.fsdp: the state was saved by rank {state['rank']} of {state['ranks']}, and this is rank {rank} of {ranks}: "
                "the shards' gradients lie otherwise with another number of ranks; begin without it"
            )
        spare = self._first_tensor + SPARE
        for elements, saved in state["residuals"].items():
            try_loads("weft.fsdp", elements, self._backend, spare, [saved], 1.0)
        for tensor in self._tensors.values():
            _C.clear_residual(self._backend, tensor)
        for elements, saved in state["residuals"].items():
            _C.load_residual(self._backend, self._number(int(elements)), int(elements), saved, 1.0)

    def state_dict(self) -> dict[str, Any]:
        """What is kept of the module's gradients on this rank: see weft.fsdp.state_dict."""
        from . import _C

        if self._loaded is not None:
            return dict(self._loaded)
        saved = {str(elements): _C.save_residual(self._backend, tensor) for elements, tensor in self._tensors.items()}
        return {
            "version": VERSION,
            "rank": self._backend.rank() if self._backend else 0,
            "ranks": self._backend.size() if self._backend else 0,
            "codec": self.codec,
            "residuals": {elements: residual for elements, residual in saved.items() if residual is not None},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next step with it, in place of what is kept: see weft.fsdp.load_state_dict.

        Raises:
            ValueError: it is none, or of another form of error feedback.
            TypeError: something in it is of another type.
        """
        self._check(state)
        self._loaded = dict(state) if state["residuals"] or self._tensors else None

    def _check(self, state: object) -> None:
        for elements, saved in check_state("weft.fsdp", "ReduceScatter", state)["residuals"].items():
            count = decimal(elements, 1, 2**63)
            if count is None:
                raise ValueError(f"weft.fsdp: a residual of {elements!r} was saved: it must be a number of elements")
            check_residual("weft.fsdp", elements, saved, self.codec, count)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Reduce `input_tensor` over the ranks; this rank's share goes to `output_tensor`."""
        tensor = 0 if self.codec is None else self._tensor(group, input_tensor.numel())
        with nullcontext() if self.codec is None else coded(self.codec, tensor):
            work: dist.Work | None = dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=async_op)
        return work


def _fsdp_modules(model: torch.nn.Module) -> list[FSDPModule]:
    found: list[FSDPModule] = [m for m in model.modules() if isinstance(m, FSDPModule)]
    if not found:
        raise ValueError("the model has no module that fully_shard was applied to")
    return found


def use_transport_memory(model: torch.nn.Module) -> None:
    """Let every fully_shard'ed module of `model` gather and reduce in transport memory. Call it after fully_shard."""
    for module in _fsdp_modules(model):
        module.set_custom_all_gather(AllGather())  # type: ignore[arg-type]
        module.set_custom_reduce_scatter(ReduceScatter())  # type: ignore[arg-type]


def use_codec(model: torch.nn.Module, codec: str, transport_memory: bool = True) -> None:
    """Let every fully_shard'ed module of `model` reduce its gradients compressed. Call it after fully_shard.

    Weights are gathered as they are: all ranks would compute with what a codec makes of them. With replicas (HSDP) the
    all_reduce between them is not compressed by this; WEFT_COMPRESS does it.

    Args:
        model: with modules that fully_shard was applied to.
        codec: such as "int8:ef=1", on all ranks alike.
        transport_memory: gather and reduce in transport memory as well.

    Raises:
        ValueError: no such codec, or one with error feedback that reduce_scatter cannot have (ef=ef21, ef=dgc), or no such module.
        TypeError: `codec` is no text.
    """
    if not isinstance(codec, str):
        raise TypeError(f'weft.fsdp: codec must be text, such as "int8:ef=1", not {codec!r}')
    for module in _fsdp_modules(model):
        reduce_scatter = ReduceScatter(codec)
        if transport_memory:
            module.set_custom_all_gather(AllGather())  # type: ignore[arg-type]
        module.set_custom_reduce_scatter(reduce_scatter)  # type: ignore[arg-type]
        _coded[module] = reduce_scatter


_coded: weakref.WeakKeyDictionary[Any, ReduceScatter] = weakref.WeakKeyDictionary()  # of use_codec, by module


def _coded_modules(model: torch.nn.Module) -> dict[str, ReduceScatter]:
    found = {name: _coded[module] for name, module in model.named_modules() if module in _coded}
    if not found:
        raise ValueError("weft.fsdp: the model has no module that use_codec was applied to")
    return found


def state_dict(model: torch.nn.Module) -> dict[str, dict[str, Any]]:
    """What this rank keeps of the gradients (ef=1), by module, for its own part of a checkpoint: each rank saves its own.

    Raises:
        ValueError: use_codec was not applied to the model.
    """
    return {name: found.state_dict() for name, found in _coded_modules(model).items()}


def load_state_dict(model: torch.nn.Module, state: Mapping[str, Mapping[str, Any]]) -> None:
    """Go on where the checkpoint was: what follows is bit for bit what it would have been. Call it after use_codec.

    A residual is taken up by the step that comes next; with other ranks than those that saved, that step raises ValueError. With
    another number of ranks a residual cannot be used, for each rank keeps what is lost of all shards, which then lie otherwise.

    Args:
        model: as it was when saved.
        state: what this rank's state_dict(model) was.

    Raises:
        ValueError: it is none, or of another form of error feedback, or modules have other names. No module has taken it then.
        TypeError: something in it is of another type. No module has taken it then.
    """
    found = _coded_modules(model)
    if not isinstance(state, Mapping) or set(state) != set(found):
        names = sorted(set(state) ^ set(found))[:3] if isinstance(state, Mapping) else str(state)[:80]
        raise ValueError(f"weft.fsdp: the state is not one of this model: {names}")
    for name, one in found.items():
        one._check(state[name])
    for name, one in found.items():
        one.load_state_dict(state[name])


def use_group_memory(model: torch.nn.Module) -> None:
    """The same through torch's own switch, which asks the process group for memory."""
    for module in _fsdp_modules(model):
        module.set_allocate_memory_from_process_group_for_comm(True)
