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

import math
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ._groups import backend_of
from ._residuals import SPARE, VERSION, check_residual, check_state, decimal, feedback, is_count, try_loads

__all__ = ["State", "allreduce", "bf16_compress", "compress", "fp16_compress", "register"]

_Future = torch.futures.Future[torch.Tensor]


def _kept(state: Any, loaded: set[int]) -> list[int]:
    """Numbers of parameters that may have residuals: those that are known, and those that were loaded before."""
    return sorted({*range(state.parameters), *loaded})


def _clear(backend: Any, state: Any, loaded: set[int]) -> None:
    from . import _C

    for number in _kept(state, loaded):
        _C.clear_residual(backend, state.tensor(number))
    loaded.clear()


def _at_end(backend: Any, state: Any, loaded: set[int]) -> None:
    with suppress(RuntimeError):  # the group was shut down, and its residuals with it
        _clear(backend, state, loaded)


def _taken(states: list[Any], rank: int, ranks: int) -> tuple[list[Mapping[str, Any]], float]:
    """Which of the saved states this rank loads, and times what."""
    for i, one in enumerate(states):
        check_state("weft.hooks", "State", one)
        if len(states) > 1 and (one["rank"], one["ranks"]) != (i, len(states)):
            raise ValueError(
                f"weft.hooks: {len(states)} states, of which the {i + 1}. is of rank {one['rank']} of {one['ranks']}: "
                "give those of all ranks that saved, in the order of ranks"
            )
    if not states:
        raise ValueError("weft.hooks: no states")
    old = states[0]["ranks"]
    if old < 1:
        raise ValueError(f"weft.hooks: a state of rank {states[0]['rank']} of {old}, which there is not")
    if len(states) == 1 < old:
        if (states[0]["rank"], old) != (rank, ranks):
            raise ValueError(
                f"weft.hooks: the state was saved by rank {states[0]['rank']} of {old}, and this is rank {rank} of {ranks}: "
                "where the number of ranks has changed, give those of all ranks that saved, as a list"
            )
        return states, 1.0
    # Averages: what a rank gives counts 1 / ranks. A rank that gets none counts the same steps as the others.
    return (states[rank::ranks], ranks / old) if rank < old else (states[:1], 0.0)


class _NoMomentum:
    """ef=dgc has the momentum; with an optimizer that has one too each gradient is accelerated twice, and training diverges."""

    def __init__(self, codec: str | None, min_elements: int, vectors: bool) -> None:
        self.codec = codec if codec is not None else "WEFT_COMPRESS"
        self.least, self.least_dimensions = min_elements, 1 if vectors else 2
        self.parameters: set[int] = set()  # that are coded: others are averaged, and may have the optimizer's momentum
        guard = weakref.WeakMethod(self.check)
        handle = register_optimizer_step_pre_hook(lambda optimizer, *_: (guard() or _pass)(optimizer))
        weakref.finalize(self, handle.remove)

    def add(self, parameter: torch.Tensor) -> None:
        if parameter.numel() >= self.least and parameter.dim() >= self.least_dimensions:
            self.parameters.add(id(parameter))

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            if not (group.get("momentum") or group.get("betas", (0,))[0]):
                continue
            if any(id(parameter) in self.parameters for parameter in group["params"]):
                raise ValueError(
                    f"weft.hooks: codec {self.codec} has ef=dgc, which has the momentum, and {type(optimizer).__name__} has "
                    "momentum too: have them in a group of parameters without, such as momentum=0 of SGD, or use ef=1"
                )


def _pass(_: torch.optim.Optimizer) -> None:
    pass


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
            ValueError: no such codec; the group's CPU backend is not weft. With ef=dgc also steps of optimizers with momentum.
            TypeError: an argument is of another type.
        """
        from . import _C

        if codec is not None and not isinstance(codec, str):
            raise TypeError(f'weft.hooks: a codec is text, such as "int4:ef=1", not {codec!r}')
        if not is_count(min_elements):
            raise TypeError(f"weft.hooks: min_elements must be a number of elements, not {min_elements!r}")
        if not 0 <= min_elements < 2**63:
            raise ValueError(f"weft.hooks: min_elements={min_elements}: must be 0 or more, and below 2**63")
        for name, given in (("vectors", vectors), ("transport_memory", transport_memory)):
            if not isinstance(given, bool):
                raise TypeError(f"weft.hooks: {name} must be True or False, not {given!r}")
        self.codec = codec
        self.backend = backend_of(group)
        self._state = _C.HookState(self.backend, codec, min_elements, vectors, transport_memory)
        self._guard = _NoMomentum(codec, min_elements, vectors) if feedback(codec) == "dgc" else None
        self._names: list[str] = []
        self._loaded: set[int] = set()  # numbers of parameters whose residuals were loaded, which need not be known yet
        if isinstance(model, DistributedDataParallel):
            model = model.module
        for name, parameter in model.named_parameters() if model is not None else ():
            if self._state.number(parameter) == len(self._names):
                self._names.append(name)
            if self._guard:
                self._guard.add(parameter)
        weakref.finalize(self, _at_end, self.backend, self._state, self._loaded).atexit = False

    # ---- Checkpoints ----

    def _key(self, number: int) -> str:
        return self._names[number] if number < len(self._names) else str(number)

    def _number(self, key: str) -> int:
        if key in self._names:
            return self._names.index(key)
        number, known = decimal(key, 0, SPARE), self._state.parameters
        if self._names:
            of = "the model has no such parameter"
        elif number is None:
            of = f"this State has no names of parameters, but numbers from 0 to {SPARE - 1}: State(model=...)"
        elif 0 < known <= number:
            of = f"the model has {known} parameters"
        else:
            return number
        raise ValueError(f"weft.hooks: a residual of {key[:80]!r} was saved, and {of}")

    def state_dict(self) -> dict[str, Any]:
        """What this rank keeps, for its own part of a checkpoint: each rank saves its own.

        It has "residuals" (bytes for each parameter, by name), "rank", "ranks" and "codec".
        """
        from . import _C

        saved = {}
        for number in _kept(self._state, self._loaded):
            residual = _C.save_residual(self.backend, self._state.tensor(number))
            if residual is not None:
                saved[self._key(number)] = residual
        return {
            "version": VERSION,
            "rank": self.backend.rank(),
            "ranks": self.backend.size(),
            "codec": self.codec,
            "residuals": saved,
        }

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Go on where the checkpoint was; what was kept before is forgotten.

        With as many ranks as saved, what follows is bit for bit what it would have been. With other numbers of ranks, what all of
        them together have not sent yet stays the same.

        Args:
            state: what this rank's state_dict() was; or, where the number of ranks has changed, those of all ranks that saved, in
                the order of ranks, the same list on all ranks.

        Raises:
            ValueError: it is none, or another rank's, or damaged, or of another form of error feedback, or parameters have other
                names or sizes. What was kept stays.
            TypeError: it, or something in it, is of another type. What was kept stays.
        """
        from . import _C

        if not isinstance(state, (Mapping, Sequence)) or isinstance(state, (str, bytes)):
            raise TypeError(f"weft.hooks: a state, or those of all ranks as a list, not {type(state).__name__}")
        rank, ranks = self.backend.rank(), self.backend.size()
        taken, factor = _taken([state] if isinstance(state, Mapping) else list(state), rank, ranks)
        loads: dict[int, list[torch.Tensor]] = {}
        for one in taken:
            for key, saved in one["residuals"].items():
                number = self._number(key)
                check_residual("weft.hooks", key, saved, self.codec, self._state.elements(number))
                loads.setdefault(number, []).append(saved)
        for number, residuals in loads.items():
            try_loads("weft.hooks", self._key(number), self.backend, self._state.tensor(SPARE), residuals, factor)
        self.clear()
        for number, residuals in loads.items():
            self._loaded.add(number)
            for saved in residuals:
                _C.load_residual(self.backend, self._state.tensor(number), self._state.elements(number), saved, factor)

    def rescale(self, factor: float) -> None:
        """Multiply what was lost: when a loss scale changes, by the new one divided by the old one, on all ranks alike.

        before = scaler.get_scale(); scaler.update(); state.rescale(scaler.get_scale() / before)

        Raises:
            ValueError: the factor is not finite; nothing was changed.
            TypeError: the factor is no number.
        """
        from . import _C

        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            raise TypeError(f"weft.hooks: rescale: factor must be a number, not {factor!r}")
        try:
            factor = float(factor)
        except OverflowError:
            factor = math.inf
        if not math.isfinite(factor):
            raise ValueError(f"weft.hooks: rescale: factor is {factor}: must be finite")
        for number in _kept(self._state, self._loaded):
            _C.scale_residual(self.backend, self._state.tensor(number), factor)

    def _average(self, bucket: Any) -> _Future:
        if self._guard:
            for parameter in bucket.parameters():
                self._guard.add(parameter)
        return _tensor_of(self._state.average(bucket))

    def clear(self) -> None:
        """Forget what was lost, of all parameters, on this rank. For all ranks alike, when the optimizer begins anew."""
        _clear(self.backend, self._state, self._loaded)


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
