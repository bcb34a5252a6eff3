# SPDX-License-Identifier: BSD-3-Clause
"""Activations that are computed again in the backward pass instead of being kept.

A *checkpoint* is a call of which only the inputs are kept. Inputs go where a keeper (_keep) puts them. Calls that follow each
other, each on what the one before has returned, form a *segment*: only the first one's inputs are kept. When the backward pass
reaches the last call of a segment, the others are made once more without a graph, for their outputs, which are the inputs of the
next; then each call is made again with its graph, last one first, as of any checkpoint. With segments of k among L calls, L / k
inputs are kept during the forward pass and k more during the backward pass of a segment, instead of L; calls are made up to three
times instead of two. (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, keep the whole graph of a segment at a
time instead, which for transformers is more than all inputs.)
"""

from __future__ import annotations

import contextlib
import copyreg
import math
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as torch_checkpoint

from ._keep import Keeper, Kept, keeper_of
from ._units import Block, find_blocks, named_blocks

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class _Settings:
    """What checkpoint() does with inputs."""

    partition: bool = False
    host: bool = False
    folder: str | os.PathLike[str] | None = None
    profile: bool = False
    number: int | None = None


class _Configured:
    """What configure_checkpointing and the newest configuration say together: the latter adds to the former."""

    def __init__(self) -> None:
        self.group: ProcessGroup | None = None
        self.told_group = False  # by configure_checkpointing
        self.told, self.section = _Settings(), _Settings()
        self.is_told = False
        self.keeper: Keeper | None = None  # None: inputs stay where they are
        self.kept_in: Any = None  # what the keeper was made of
        self.take()

    def take(self) -> None:
        """Make the keeper."""
        told, section = self.told, self.section
        self.profile, self.number = told.profile or section.profile, section.number or told.number
        where = "disk" if told.folder is not None else "host" if told.host or section.host else "memory"
        group = self.group if told.partition or section.partition else None
        if self.kept_in != (told, where, group):  # else the keeper goes on: it may have a file
            self.keeper = None if where == "memory" and group is None else keeper_of(where, group, told.folder)
            self.kept_in = told, where, group


_configured = _Configured()


def configure_checkpointing(
    group: ProcessGroup | None = None,
    *,
    partition_activations: bool = False,
    cpu_checkpointing: bool = False,
    folder: str | os.PathLike[str] | None = None,
    number_checkpoints: int | None = None,
    profile: bool = False,
) -> None:
    """Say what checkpoint() does with inputs, in place of deepspeed.checkpointing.configure and of what configurations have said.

    The activation_checkpointing of an engine that is made afterwards adds to it.

    Args:
        group: ranks that have the same activations (those of tensor parallelism).
        partition_activations: each of them keeps a part; a group must be given.
        cpu_checkpointing: inputs on devices are kept in host memory.
        folder: inputs are kept in a file there.
        number_checkpoints: how many segments checkpoint_units makes of all blocks, where it is not told otherwise.
        profile: torch.profiler has each call as weft.zero.checkpoint.

    Raises:
        ValueError: parts without a group; host memory and a folder at a time; a number below 1.
        Error: the folder cannot be used.
    """
    if partition_activations and group is None:
        raise ValueError("weft.zero: partition_activations needs the group of ranks that have the same activations")
    if cpu_checkpointing and folder is not None:
        raise ValueError("weft.zero: activations are kept in host memory (cpu_checkpointing) or in a folder's file, not in both")
    if number_checkpoints is not None and number_checkpoints < 1:
        raise ValueError(f"weft.zero: number_checkpoints is {number_checkpoints}, and must be 1 or more")
    told = _Settings(partition_activations, cpu_checkpointing, folder, profile, number_checkpoints)
    before = _configured.group, _configured.told, _configured.section
    _configured.group, _configured.told, _configured.section, _configured.kept_in = group, told, _Settings(), None
    try:
        _configured.take()
    except Exception:
        _configured.group, _configured.told, _configured.section = before
        raise
    _configured.is_told, _configured.told_group = True, group is not None


def is_configured() -> bool:
    """Whether configure_checkpointing was called, or a configuration has had the section activation_checkpointing."""
    return _configured.is_told or _configured.section != _Settings()


def same_activations(group: ProcessGroup) -> None:
    """These ranks have the same activations, where nothing else has said which have."""
    if not _configured.told_group:
        _configured.group = group


def warn_of_no_group() -> None:
    """Say that activations are not kept in parts, though that was asked for."""
    warnings.warn(
        "weft.zero: activation_checkpointing.partition_activations has no effect: which ranks have the same activations is "
        "not known; say it before, with weft.zero.configure_checkpointing(group=...)",
        stacklevel=4,
    )


def configure(config: dict[str, Any]) -> None:
    """Take the section activation_checkpointing of a configuration, as the library has read it, in place of an earlier one's.

    Its partition_activations takes effect where configure_checkpointing has told which ranks have the same activations.
    """
    number = config.get("number_checkpoints")
    partition, host, profile = (
        bool(config.get(key, False)) for key in ("partition_activations", "cpu_checkpointing", "profile")
    )
    _configured.section = _Settings(partition, host, None, profile, int(number) if number else None)
    if partition and _configured.group is None:
        warn_of_no_group()
    _configured.take()


# ---- Calls ----


class _Around:
    """What the results of a call depend on beside its inputs: generators of random numbers, and autocast."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.random = torch.get_rng_state()
        self.kind = next((t.device.type for t in tensors if t.device.type not in ("cpu", "meta")), None)
        self.devices, self.states = torch_checkpoint.get_device_states(*tensors) if self.kind else ([], [])
        kinds = [kind for kind in ("cpu", self.kind) if kind]
        self.autocast = [(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in kinds]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """The same once more; what is around afterwards is as it was."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(self.devices, device_type=self.kind or "cuda"))
            torch.set_rng_state(self.random)
            if self.kind:
                torch_checkpoint.set_device_states(self.devices, self.states, device_type=self.kind)
            for kind, dtype, on in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype, on))
            yield


@dataclass(eq=False)
class _Call:
    """A call of a function, of which inputs are kept."""

    function: Callable[..., Any]
    spec: pytree.TreeSpec
    leaves: list[Any]  # arguments; _TENSOR for tensors
    before: _Call | None  # of the segment. Nothing leads to the call behind: it has gone first, and its memory with it
    place: int  # in the segment
    chained: dict[int, int]  # which tensors, by number among tensors, the call before has returned, and as which output
    kept: dict[int, Kept] = field(default_factory=dict)
    again: Kept | None = None  # outputs of the call before, computed again
    served: set[int] = field(default_factory=set)  # which of them were taken
    around: _Around | None = None

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments, with these tensors."""
        rest = iter(tensors)
        args, kwargs = pytree.tree_unflatten([next(rest) if leaf is _TENSOR else leaf for leaf in self.leaves], self.spec)
        return args, kwargs


class _Place:
    """What stands for a kept tensor in the graph."""

    def __init__(self, call: _Call, number: int, keeper: Keeper) -> None:
        self.call, self.number, self.keeper = call, number, keeper


_TENSOR = object()


def _outputs(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _call_again(call: _Call, keeper: Keeper) -> list[torch.Tensor]:
    """Outputs of a call, without a graph, as the first time."""
    count = sum(leaf is _TENSOR for leaf in call.leaves)
    args, kwargs = call.arguments([_input(call, number, keeper, False) for number in range(count)])
    assert call.around is not None
    with call.around.again(), torch.no_grad():
        return _outputs(call.function(*args, **kwargs))


def _input(call: _Call, number: int, keeper: Keeper, last: bool = True) -> torch.Tensor:
    """A tensor that a call was given. last: what was computed again for it is not needed any more afterwards."""
    if number not in call.chained:
        return keeper.get(call.kept[number])
    missing: list[_Call] = []  # whose inputs the call before has to return again; last first
    at = call
    while at.chained and at.again is None:
        assert at.before is not None
        missing.append(at)
        at = at.before
    for at in reversed(missing):
        assert at.before is not None
        again = _call_again(at.before, keeper)
        at.again = kept = Kept(again)
        keeper.count(kept, sum(t.numel() * t.element_size() for t in again))
    assert call.again is not None
    tensor = call.again.what[call.chained[number]]
    if last:
        call.served.add(number)
    if len(call.served) == len(call.chained):
        call.again = None
        call.served.clear()
    assert isinstance(tensor, torch.Tensor)
    return tensor


def _unpack(place: _Place | torch.Tensor) -> torch.Tensor:
    return place if isinstance(place, torch.Tensor) else _input(place.call, place.number, place.keeper)


class _Chain:
    """Calls that may follow each other. every: so many make a segment."""

    def __init__(self, keeper: Keeper, every: int = 1) -> None:
        self.keeper, self.every = keeper, every
        self._last: weakref.ref[_Call] | None = None
        self._returned: list[tuple[weakref.ref[torch.Tensor], int]] = []  # by the last call; with versions

    def _chained(self, tensors: Sequence[torch.Tensor], last: _Call | None) -> dict[int, int]:
        if last is None or last.place + 1 >= self.every:
            return {}
        found = {}
        for number, tensor in enumerate(tensors):
            for output, (returned, version) in enumerate(self._returned):
                if returned() is tensor and tensor._version == version:
                    found[number] = output
        return found

    @torch.compiler.disable(recursive=False)  # type: ignore[no-untyped-call, untyped-decorator]
    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function."""
        flat, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
        last = self._last() if self._last is not None else None
        chained = self._chained(tensors, last)
        before = last if chained else None
        leaves = [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
        call = _Call(function, spec, leaves, before, before.place + 1 if before else 0, chained)
        if self.every > 1:
            call.around = _Around(tensors)
        coming = list(range(len(tensors)))

        def pack(tensor: torch.Tensor) -> _Place | torch.Tensor:
            """Of the tensors that torch's checkpoint saves; it may save one of its own, too."""
            where = (tensor.data_ptr(), tensor.shape)
            number = next((n for n in coming if (tensors[n].data_ptr(), tensors[n].shape) == where), None)
            if number is None:
                return tensor
            coming.remove(number)
            if number not in call.chained:
                call.kept[number] = self.keeper.put(tensor.detach())
            return _Place(call, number, self.keeper)

        def run(*given: torch.Tensor) -> Any:
            call_args, call_kwargs = call.arguments(given)
            return function(*call_args, **call_kwargs)

        with torch.autograd.graph.saved_tensors_hooks(pack, _unpack):
            output = torch_checkpoint.checkpoint(run, *tensors, use_reentrant=False)
        tensors.clear()  # the graph has `pack`, which has this list
        if self.every > 1:
            self._last = weakref.ref(call)
            self._returned = [(weakref.ref(t), t._version) for t in _outputs(output)]
        return output


def _profiled() -> contextlib.AbstractContextManager[Any]:
    return torch.profiler.record_function("weft.zero.checkpoint") if _configured.profile else contextlib.nullcontext()


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool = False, **kwargs: Any) -> Any:
    """Call `function`, keeping its inputs only: what its backward pass needs is computed again then.

    As torch.utils.checkpoint.checkpoint, and deepspeed.checkpointing.checkpoint. Where inputs are kept: configure_checkpointing.
    With `"profile": true` in the configuration's activation_checkpointing, torch's profiler has it as weft.zero.checkpoint.

    Args:
        function: a module, say.
        args: its arguments.
        use_reentrant: the older of torch's two ways; a parameter that several calls use gets its gradient at the end then, and
            inputs stay where they are.
        kwargs: its keyword arguments.
    """
    with _profiled():
        if use_reentrant:
            return torch_checkpoint.checkpoint(lambda *a: function(*a, **kwargs), *args, use_reentrant=True)
        if _configured.keeper is None or not torch.is_grad_enabled():
            return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)
        return _Chain(_configured.keeper).run(function, args, kwargs)


# ---- Modules ----


class Checkpoints:
    """Blocks of a model that are checkpoints. Made by checkpoint_units.

    Attributes:
        blocks: the modules.
        every: so many of them, where they follow each other, make a segment.
    """

    def __init__(self, blocks: Sequence[nn.Module], every: int, keeper: Keeper) -> None:
        self.blocks, self.every, self._keeper = list(blocks), every, keeper
        self._chain = _Chain(keeper, every)
        self._classes = [type(block) for block in self.blocks]
        for block in self.blocks:
            block.__class__ = _checkpointed(type(block))
            block._weft_zero_chain = self._chain  # type: ignore[assignment]

    def stats(self) -> dict[str, int]:
        """Bytes of memory that kept inputs take on this rank, now and the most there has been; of a file, what was written and
        read, and for how many nanoseconds it was waited for."""
        return self._keeper.stats()

    def remove(self) -> None:
        """The blocks are as they were."""
        for block, was in zip(self.blocks, self._classes, strict=True):
            block.__class__ = was
            del block._weft_zero_chain
        self.blocks.clear()
        self._classes.clear()
        self._keeper = Keeper()  # a file goes with the last tensor in it
        self._chain = _Chain(self._keeper)


_made: dict[type[nn.Module], type[nn.Module]] = {}


def _checkpointed(of: type[nn.Module]) -> type[nn.Module]:
    """A class of the same name whose calls are checkpoints: hooks of the module belong to what is called again."""
    if of not in _made:

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            inside = super(_made[of], self).__call__
            if not torch.is_grad_enabled():
                return inside(*args, **kwargs)
            with _profiled():
                return self._weft_zero_chain.run(inside, args, kwargs)

        def reduce(self: Any, protocol: Any) -> Any:
            """A copy, or what is pickled, is of the class that it was."""
            _, _, state, *rest = super(_made[of], self).__reduce_ex__(protocol)
            state = {name: value for name, value in state.items() if name != "_weft_zero_chain"}
            return copyreg._reconstructor, (of, object, None), state, *rest  # type: ignore[attr-defined]

        named = {"__module__": of.__module__, "__qualname__": of.__qualname__}
        _made[of] = type(of.__name__, (of,), {"__call__": call, "__reduce_ex__": reduce, **named})
    return _made[of]


def checkpoint_units(
    model: nn.Module,
    every: int | str | None = None,
    *,
    keep: str = "memory",
    group: ProcessGroup | None = None,
    folder: str | os.PathLike[str] | None = None,
    units: Sequence[Block] | None = None,
) -> Checkpoints:
    """Have a model's blocks keep their inputs only, or those of every so many of them.

        checkpoints = weft.zero.checkpoint_units(model, every="sqrt", keep="disk", folder="/scratch")
        engine = weft.zero.initialize(model, ...)

    Args:
        model: before or after it was sharded.
        every: 1 keeps the input of each block; k that of every k-th where blocks follow each other, each on what the one before has
            returned: blocks are computed up to three times then; "sqrt" is the root of their number. None: by the configuration's
            number_checkpoints, else 1.
        keep: "memory" as they are, "host" in host memory, "disk" in a file.
        group: ranks that have the same inputs and keep a part each.
        folder: of the file.
        units: what the blocks are, as for initialize; None: repeated blocks.

    Raises:
        ValueError: there are no blocks, one is a checkpoint already, or an argument is out of its range.
        Error: the folder cannot be used.
    """
    blocks = find_blocks(model) if units is None else named_blocks(model, units)
    if not blocks:
        raise ValueError("weft.zero: checkpoint_units: the model has no repeated blocks; say which with units=")
    for block in blocks:
        if hasattr(block, "_weft_zero_chain"):
            raise ValueError(f"weft.zero: checkpoint_units: a block of class {type(block).__name__} is a checkpoint already")
    if every is None:
        every = -(-len(blocks) // min(_configured.number or len(blocks), len(blocks)))
    if every == "sqrt":
        every = max(1, round(math.sqrt(len(blocks))))
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise ValueError(f'weft.zero: checkpoint_units: every is {every!r}, and must be 1 or more, or "sqrt"')
    return Checkpoints(blocks, every, keeper_of(keep, group, folder))
