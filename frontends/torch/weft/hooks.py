# SPDX-License-Identifier: BSD-3-Clause
"""Communication hooks for DistributedDataParallel: gradients are averaged compressed, with error feedback.

    state = weft.hooks.State(codec="int4:ef=1")
    ddp.register_comm_hook(state, weft.hooks.compress)      # DDP calls it by way of Python
    state = weft.hooks.register(ddp, codec="int4:ef=1")     # or from C++, without the interpreter's lock

Each hook sums over the ranks in fp32 and divides the sum by their number; DDP itself divides what each rank gives first, which
differs in rounding, and not at all with a power of two of ranks. All ranks get the same bits.

:func:`allreduce`, :func:`fp16_compress` and :func:`bf16_compress` are counterparts of PyTorch's own hooks, whose names end in
"_hook", and take what those take as state: a process group, or None.
"""

import weakref
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._groups import backend_of

__all__ = ["State", "allreduce", "bf16_compress", "compress", "fp16_compress", "register"]

_Future = torch.futures.Future[torch.Tensor]


def _clear(backend: Any, state: Any) -> None:
    from . import _C

    for number in range(state.parameters):
        _C.clear_residual(backend, state.tensor(number))


def _at_end(backend: Any, state: Any) -> None:
    with suppress(RuntimeError):  # the group was shut down, and its residuals with it
        _clear(backend, state)


class State:
    """What a model's hook knows from step to step: the codec, which parameters it is for, and what was lost of each.

    Parameters of one dimension (biases, norms) and small ones are averaged as they are, together: their bytes are few and their
    gradients matter. Each other parameter is a tensor of its own to the library, so that what was lost of it is found again
    after DDP has cut its buckets anew, which it does after the first step. One state is for one model.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        codec: str | None = None,
        *,
        model: torch.nn.Module | None = None,
        min_elements: int = 4096,
        vectors: bool = False,
        transport_memory: bool = False,
    ) -> None:
        """For one model, the same on all ranks.

        Args:
            group: the model's process group; None is the default one.
            codec: text as in weft/weft_compress.h, such as "int4:ef=1"; None: WEFT_COMPRESS, or none.
            model: the model or its DDP, whose parameters then have their names in state_dict(). Without, they have numbers, in the
                order in which DDP hands them over, which is that of its buckets: do not load them with other settings of buckets.
            min_elements: smaller parameters are averaged as they are.
            vectors: compress parameters of one dimension as well.
            transport_memory: let the other ranks of the host reach DDP's buckets without a copy (see weft.ddp).

        Raises:
            ValueError: no such codec; the group's CPU backend is not weft.
        """
        from . import _C

        if codec is not None and not isinstance(codec, str):
            raise TypeError(f'weft.hooks: a codec is text, such as "int4:ef=1", not {codec!r}')
        self.codec = codec
        self.backend = backend_of(group)
        self._state = _C.HookState(self.backend, codec, min_elements, vectors, transport_memory)
        self._names: list[str] = []
        if isinstance(model, DistributedDataParallel):
            model = model.module
        for name, parameter in model.named_parameters() if model is not None else ():
            if self._state.number(parameter) == len(self._names):
                self._names.append(name)
        weakref.finalize(self, _at_end, self.backend, self._state).atexit = False

    def _average(self, bucket: Any) -> _Future:
        return _tensor_of(self._state.average(bucket))

    def clear(self) -> None:
        """Forget what was lost, of all parameters, on this rank. For all ranks alike, when the optimizer begins anew."""
        _clear(self.backend, self._state)


def _tensor_of(work: dist.Work) -> _Future:
    future: _Future = work.get_future().then(lambda done: done.value()[0])
    return future


# DDP compares these annotations with the classes themselves.
def compress(
    state: State,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    """The hook for ddp.register_comm_hook(state, weft.hooks.compress)."""
    if not isinstance(state, State):
        raise TypeError(f"weft.hooks.compress: its state must be a weft.hooks.State, not {type(state).__name__}")
    return state._average(bucket)


def _whole(state: Any, bucket: Any, codec: str) -> _Future:
    from . import _C

    backend = state.backend if isinstance(state, State) else backend_of(state)
    return _tensor_of(_C.average_bucket(backend, bucket, codec))


def allreduce(
    state: dist.ProcessGroup | None,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    """Gradients as they are, whatever WEFT_COMPRESS says."""
    return _whole(state, bucket, "none")


def fp16_compress(
    state: dist.ProcessGroup | None,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    """Gradients travel as float16; unlike PyTorch's hook they are summed in fp32, so that the sum does not overflow."""
    return _whole(state, bucket, "none" if bucket.buffer().dtype == torch.float16 else "fp16")


def bf16_compress(
    state: dist.ProcessGroup | None,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    """Gradients travel as bfloat16 and are summed in fp32."""
    return _whole(state, bucket, "none" if bucket.buffer().dtype == torch.bfloat16 else "bf16")


def register(model: DistributedDataParallel, codec: str | None = None, **rules: Any) -> State:
    """Let DDP call the hook from C++, without the interpreter's lock: as compress() with a State(codec=codec, model=model).

    Args:
        model: a DistributedDataParallel that has no hook yet, before its first step.
        codec: as for State.
        rules: min_elements, vectors, transport_memory: as for State.

    Returns:
        The state, for checkpoints. The model keeps it as well.
    """
    from . import _C

    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f"weft.hooks.register: a DistributedDataParallel is needed, not {type(model).__name__}")
    state = State(model.process_group, codec, model=model, **rules)
    _C.register_hook(model.reducer, state._state)
    model._comm_hooks.append((compress, state))
    if model.logger is not None:
        model.logger._set_comm_hook_name(compress.__qualname__)
    return state
