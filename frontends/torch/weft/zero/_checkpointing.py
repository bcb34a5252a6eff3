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
import math
import os
import warnings
import weakref
from collections.abc import Callable, Sequence
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


@dataclass
class _Configured:
    """What checkpoint() does, as configure_checkpointing and a configuration say together."""

    group: ProcessGroup | None = None
    partition: bool = False
    host: bool = False
    folder: str | os.PathLike[str] | None = None
    profile: bool = False
    number: int | None = None
    keeper: Keeper | None = None  # None: inputs stay where they are

    def take(self) -> None:
        """Make the keeper."""
        where = "disk" if self.folder is not None else "host" if self.host else "memory"
        group = self.group if self.partition else None
        self.keeper = None if where == "memory" and group is None else keeper_of(where, group, self.folder)


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
    """Say what checkpoint() does with inputs, in place of deepspeed.checkpointing.configure.

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
    _configured.group, _configured.partition = group, partition_activations
    _configured.host, _configured.folder = cpu_checkpointing, folder
    _configured.profile, _configured.number = profile, number_checkpoints
    _configured.take()


def configure(config: dict[str, Any]) -> None:
    """Take the section activation_checkpointing of a configuration, as the library has read it.

    Its partition_activations takes effect where configure_checkpointing has told which ranks have the same activations.
    """
    _configured.profile = bool(config.get("profile", False))
    number = config.get("number_checkpoints")
    _configured.number = int(number) if number else None
    _configured.host = bool(config.get("cpu_checkpointing", False)) and _configured.folder is None
    _configured.partition = bool(config.get("partition_activations", False))
    if _configured.partition and _configured.group is None:
        warnings.warn(
            "weft.zero: activation_checkpointing.partition_activations has no effect: which ranks have the same activations is "
            "not known; say it before, with weft.zero.configure_checkpointing(group=...)",
            stacklevel=3,
        )
    _configured.take()


# ---- Calls ----


@dataclass(eq=False)
class _Call:
    """A call of a function, of which inputs are kept."""

    function: Callable[..., Any]
    spec: pytree.TreeSpec
    leaves: list[Any]  # arguments that are no tensors; None for tensors
    before: _Call | None  # in its segment, None: it is the first. The other way there is no reference, so that none is a cycle
    length: int  # of the segment up to this call
    chained: dict[int, int]  # which tensors, by number among tensors, the call before has returned, and as which output
    kept: dict[int, Kept] = field(default_factory=dict)
    again: Kept | None = None  # outputs of the call before, computed again
    served: set[int] = field(default_factory=set)  # which of them were taken
    random: torch.Tensor | None = None
    autocast: tuple[bool, torch.dtype] = (False, torch.bfloat16)

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
    on, dtype = call.autocast
    with torch.random.fork_rng(devices=[], enabled=call.random is not None), torch.no_grad(), torch.autocast("cpu", dtype, on):
        if call.random is not None:
            torch.set_rng_state(call.random)
        return _outputs(call.function(*args, **kwargs))


def _input(call: _Call, number: int, keeper: Keeper, last: bool = True) -> torch.Tensor:
    """A tensor that a call was given. last: what was computed again for it is not needed any more afterwards."""
    if number not in call.chained:
        return keeper.get(call.kept[number])
    if call.again is None:
        lacking = [call]
        while (before := lacking[-1].before) is not None and before.before is not None and before.again is None:
            lacking.append(before)
        for one in reversed(lacking):
            assert one.before is not None
            again = _call_again(one.before, keeper)
            one.again = kept = Kept(again)
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
        if last is None or last.length >= self.every:
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
        call = _Call(function, spec, leaves, before, before.length + 1 if before else 1, chained)
        if self.every > 1:
            call.random = torch.get_rng_state()
            call.autocast = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
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
    with torch.profiler.record_function("weft.zero.checkpoint") if _configured.profile else contextlib.nullcontext():
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


_made: dict[type[nn.Module], type[nn.Module]] = {}


def _checkpointed(of: type[nn.Module]) -> type[nn.Module]:
    """A class of the same name whose calls are checkpoints: hooks of the module belong to what is called again."""
    if of not in _made:

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            inside = super(_made[of], self).__call__
            return self._weft_zero_chain.run(inside, args, kwargs) if torch.is_grad_enabled() else inside(*args, **kwargs)

        _made[of] = type(of.__name__, (of,), {"__call__": call, "__module__": of.__module__, "__qualname__": of.__qualname__})
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
