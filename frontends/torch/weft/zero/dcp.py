# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of torch.distributed.checkpoint (DCP), as programs with FSDP2 write and read them.

    weft.zero.dcp.save(engine, "folder")

writes what these write and read:

    model_state, optim_state = torch.distributed.checkpoint.state_dict.get_state_dict(model, optimizer)
    torch.distributed.checkpoint.save({"model": model_state, "optim": optim_state}, checkpoint_id="folder")

Weights, in fp32, and moments have the names of the model's parameters.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import torch

from ._exchange import Trained
from ._safetensors import Differences, compare, put, share, tell

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from ._engine import Engine
    from ._optimizer import ShardedOptimizer


def save(
    engine: Engine | ShardedOptimizer,
    folder: str | os.PathLike[str],
    *,
    model_key: str = "model",
    optimizer_key: str | None = "optim",
    group: ProcessGroup | None = None,
) -> None:
    """Write weights, buffers, moments and hyper-parameters. Collective.

    Each rank holds and writes whole tensors, an equal share of them; while it does, that is memory for weights and moments once
    more, divided by the number of ranks.

    Args:
        engine: of weft.zero.initialize, or a weft.zero.Optimizer.
        folder: on a file system that all ranks see.
        model_key: what names of weights begin with; "" nothing.
        optimizer_key: what those of the optimizer begin with; None leaves it out.
        group: of the engine's ranks, as when it was made.

    Raises:
        ValueError: there are several ranks, and torch.distributed is not initialised.
    """
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict_saver import save as torch_save

    it, alone = Trained(engine), not (dist.is_available() and dist.is_initialized())
    comm = it.core.comm
    if alone and comm.size > 1:
        raise ValueError("weft.zero.dcp.save: torch.distributed is not initialised, which several ranks need")
    given = [0] * comm.size

    def mine(elements: int) -> bool:
        """The rank that has been given least takes it."""
        rank = given.index(min(given))
        given[rank] += max(elements, 1)
        return rank == comm.rank

    model: dict[str, Any] = {}
    state: dict[str, Any] = {}
    for number, known in enumerate(it.core.params):
        values = it.weight(number, mine(known.tensor.numel()))
        if values is not None:
            model.update({name: values for name, its in it.names.items() if its == number})
    for number in it.trained if optimizer_key is not None else []:
        here: dict[str, Any] = {}
        for moment, what in it.moments(number).items():
            values = it.get(number, what, mine(it.core.params[number].tensor.numel()))
            if values is not None:
                here[moment] = values
        if comm.rank == 0:
            here["step"] = torch.tensor(float(it.core.steps))
        if here:
            state[it.first[number]] = here
    if comm.rank == 0:
        model.update({name: buffer.detach().clone() for name, buffer in it.buffers.items()})
    whole: dict[str, Any] = {model_key: model} if model_key else model
    if optimizer_key is not None:
        whole[optimizer_key] = {"state": state, "param_groups": it.groups()}
    torch_save(whole, checkpoint_id=os.fspath(folder), process_group=group, no_dist=alone)


class _Folder:
    """A checkpoint that rank 0 reads, tensor by tensor."""

    def __init__(self, folder: str) -> None:
        from torch.distributed.checkpoint.filesystem import FileSystemReader

        class Reader(FileSystemReader):
            """Reads the metadata once."""

            known: Any = None

            def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
                if self.known is None:
                    self.known = super().read_metadata(*args, **kwargs)
                return self.known

        if not os.path.exists(os.path.join(folder, ".metadata")):
            raise ValueError(f"weft.zero: {folder} is no checkpoint of torch.distributed.checkpoint: it has no .metadata")
        self.folder, self.reader = folder, Reader(folder)
        self.entries = self.reader.read_metadata().state_dict_metadata

    def catalogue(self) -> dict[str, Any]:
        """Shapes and types of tensors, None for other values."""
        return {
            name: [list(entry.size), str(entry.properties.dtype).removeprefix("torch.")] if hasattr(entry, "size") else None
            for name, entry in self.entries.items()
        }

    def read(self, name: str) -> Any:
        """One of them."""
        from torch.distributed.checkpoint.state_dict_loader import load as torch_load

        entry = self.entries[name]
        target = torch.empty(entry.size, dtype=entry.properties.dtype) if hasattr(entry, "size") else None
        state = {name: target}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # one process is what is meant
            torch_load(state, storage_reader=self.reader, no_dist=True)
        return state[name]


def _groups_in(folder: _Folder, optimizer: str, names: list[list[str]]) -> list[dict[str, Any]]:
    """Hyper-parameters of groups: of nested dictionaries by the group's number, of flattened ones by a parameter's name."""
    found: list[dict[str, Any]] = []
    for number, members in enumerate(names):
        group: dict[str, Any] = {}
        for start in (f"{optimizer}.param_groups.{number}.", *(f"{optimizer}.param_groups.{name}." for name in members[:1])):
            for key in folder.entries:
                if key.startswith(start) and "." not in key[len(start) :] and not key.endswith(".params"):
                    value = folder.read(key)
                    group[key[len(start) :]] = value.item() if isinstance(value, torch.Tensor) else value
        found.append({k: v for k, v in group.items() if isinstance(v, int | float | str | list | tuple)})
    return found


def load(
    engine: Engine | ShardedOptimizer,
    folder: str | os.PathLike[str],
    *,
    model_key: str = "model",
    optimizer_key: str | None = "optim",
    strict: bool = True,
) -> Differences:
    """Take what save, or a program with FSDP2 or DDP, has written, on any number of ranks. Collective.

    Rank 0 reads one tensor after the other, and sends it to the other ranks. It reads as torch.distributed.checkpoint does, which
    runs what .metadata and entries that are no tensors say: load only what you would run.

    Args:
        engine: see save.
        folder: see save.
        model_key: see save.
        optimizer_key: see save; None takes weights alone.
        strict: all names of the model must be there, and no others below model_key; and all moments.

    Returns:
        Names that were missing or unexpected.

    Raises:
        ValueError: it is no such checkpoint, a name is missing or unexpected (strict), or a shape is another; nothing is changed.
    """
    it, where = Trained(engine), os.fspath(folder)
    comm = it.core.comm
    opened: list[_Folder] = []

    def open_it() -> dict[str, Any]:
        opened.append(_Folder(where))
        return opened[0].catalogue()

    entries = tell(comm, open_it, where)
    start = f"{model_key}." if model_key else ""
    weights = {n[len(start) :]: e for n, e in entries.items() if n.startswith(start) and e is not None}
    if not model_key and optimizer_key is not None:
        weights = {n: e for n, e in weights.items() if not n.startswith(f"{optimizer_key}.")}
    differences = compare(it.core, {name: entry[0] for name, entry in weights.items()}, strict, where)
    wanted: list[tuple[int, int, str]] = []
    for number in it.trained if optimizer_key is not None else []:
        for moment, what in it.moments(number).items():
            names = [n for n, its in it.names.items() if its == number]
            keys = [key for n in names if entries.get(key := f"{optimizer_key}.state.{n}.{moment}") is not None]
            if keys and list(entries[keys[0]][0]) != list(it.core.params[number].tensor.shape):
                shapes = f"{tuple(entries[keys[0]][0])}, not {tuple(it.core.params[number].tensor.shape)}"
                raise ValueError(f"weft.zero: {where}: {keys[0]} has shape {shapes}")
            if keys:
                wanted.append((number, what, keys[0]))
            elif strict:
                raise ValueError(f"weft.zero: {where}: missing {optimizer_key}.state.{it.first[number]}.{moment}")

    def tensor(key: str) -> torch.Tensor:
        shape, dtype = entries[key]
        return share(comm, lambda: opened[0].read(key), shape, getattr(torch, dtype), f"{where}: {key}")

    if optimizer_key is not None:
        members = [group["params"] for group in it.groups()]
        steps = [key for key in entries if key.startswith(f"{optimizer_key}.state.") and key.endswith(".step")]
        told = tell(comm, lambda: [float(opened[0].read(key)) for key in steps], where)
        groups = tell(comm, lambda: _groups_in(opened[0], str(optimizer_key), members), where)
        it.take_steps(told, where, bool(wanted))
        it.take_groups(groups)
    for name in weights:
        if name in it.names or name in it.buffers:
            put(it.core, name, it.names, it.buffers, tensor(f"{start}{name}"))
    for number, what, key in wanted:
        it.core.set_values(number, what, tensor(key).float())
    return differences
