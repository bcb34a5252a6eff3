# SPDX-License-Identifier: BSD-3-Clause
"""Weights from files, tensor by tensor: rank 0 reads one, all ranks get it, and each keeps its part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from ._comm import Communicator
from ._core import Core, engine_of
from ._library import DTYPES, WEIGHT

if TYPE_CHECKING:
    from ._engine import Engine

_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


class Differences(NamedTuple):
    """Names of the model that were not there, and names that the model has not."""

    missing: list[str]
    unexpected: list[str]


def core_of(model: Engine | nn.Module) -> Core:
    """The engine of an engine of weft.zero.initialize, or of a model.

    Raises:
        ValueError: the model is of no engine.
    """
    core = getattr(model, "core", None)
    return core if isinstance(core, Core) else engine_of(next(model.parameters()))[0]


def tell(comm: Communicator, make: Callable[[], Any], what: str) -> Any:
    """What rank 0 makes, a value that JSON can express, on all ranks; and its failure on all ranks too.

    Raises:
        ValueError: rank 0 could not make it.
    """
    said: dict[str, Any] = {}
    if comm.rank == 0:
        try:
            said = {"value": make()}
        except Exception as problem:  # noqa: BLE001 - other ranks would wait
            said = {"problem": f"{type(problem).__name__}: {problem}" if not isinstance(problem, ValueError) else str(problem)}
    text = json.dumps(said).encode()
    length = torch.tensor([len(text)])
    comm.broadcast(length)
    data = torch.frombuffer(bytearray(text.ljust(int(length), b" ")), dtype=torch.uint8)[: int(length)].clone()
    comm.broadcast(data)
    said = json.loads(bytes(data.tolist()))
    if "problem" in said:
        raise ValueError(said["problem"] if said["problem"].startswith("weft.zero") else f"weft.zero: {what}: {said['problem']}")
    return said["value"]


def share(
    comm: Communicator, read: Callable[[], torch.Tensor], shape: Sequence[int], dtype: torch.dtype, what: str
) -> torch.Tensor:
    """A tensor that rank 0 reads, on all ranks."""
    made = torch.empty(0)

    def checked() -> None:
        nonlocal made
        made = read().detach().to("cpu", dtype).contiguous()
        if list(made.shape) != list(shape):
            raise ValueError(f"weft.zero: {what} has shape {tuple(made.shape)}, not {tuple(shape)}")

    tell(comm, checked, what)
    if comm.rank:
        made = torch.empty(tuple(shape), dtype=dtype)
    if made.numel():
        comm.broadcast(made)
    return made


def names_of(core: Core) -> tuple[dict[str, int], dict[str, torch.Tensor]]:
    """Of a model: numbers of parameters by each of their names, and buffers that are saved."""
    params = {name: core.numbers[tensor] for name, tensor in core.module.named_parameters(remove_duplicate=False)}
    buffers = {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in core.module.named_modules(remove_duplicate=False)
        for name, buffer in module._buffers.items()
        if buffer is not None and name not in module._non_persistent_buffers_set
    }
    return params, buffers


def compare(core: Core, found: Mapping[str, Sequence[int]], strict: bool, where: str) -> Differences:
    """Compare names and shapes. Tied parameters need one of their names.

    Raises:
        ValueError: a shape is another; or, if `strict`, names are missing or unexpected.
    """
    params, buffers = names_of(core)
    shapes = {name: list(core.params[number].tensor.shape) for name, number in params.items()}
    shapes |= {name: list(buffer.shape) for name, buffer in buffers.items()}
    for name in shapes.keys() & found.keys():
        if list(found[name]) != shapes[name]:
            raise ValueError(f"weft.zero: {where}: {name} has shape {tuple(found[name])}, not {tuple(shapes[name])}")
    there = {params[name] for name in found if name in params}
    missing = [n for n in shapes if n not in found and params.get(n, -1) not in there]
    unexpected = [n for n in found if n not in shapes]
    if strict and (missing or unexpected):
        lists = [f"{what} {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
                 for what, names in (("missing", missing), ("unexpected", unexpected)) if names]  # fmt: skip
        raise ValueError(f"weft.zero: {where}: {'; '.join(lists)}")
    return Differences(missing, unexpected)


def _files_of(path: Path) -> list[Path]:
    """The files of a folder, by its index if there is one; or the file."""
    if path.is_dir():
        indices = sorted(path.glob("*.safetensors.index.json"))
        if len(indices) > 1:
            raise ValueError(f"weft.zero: {path} has several indices: {', '.join(i.name for i in indices)}; name one of them")
        if not indices:
            files = sorted(path.glob("*.safetensors"))
            if not files:
                raise ValueError(f"weft.zero: {path} has no file *.safetensors")
            return files
        path = indices[0]
    if path.suffix != ".json":
        return [path]
    with open(path) as f:
        index = json.load(f)
    if not isinstance(index, dict) or not isinstance(index.get("weight_map"), dict):
        raise ValueError(f"weft.zero: {path} is no index: it has no weight_map")
    names = sorted(set(index["weight_map"].values()))
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ValueError(f"weft.zero: {path}: weight_map names {name!r}, which is no file of its folder")
    return [path.parent / name for name in names]


def _catalogue(path: Path) -> dict[str, tuple[str, list[int], str]]:
    """Of each tensor: its file, shape and type."""
    from safetensors import safe_open

    found: dict[str, tuple[str, list[int], str]] = {}
    for file in _files_of(path):
        try:
            with safe_open(str(file), framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - not a dictionary
                    if name in found:
                        raise ValueError(f"weft.zero: {name} is in {found[name][0]} and in {file}")
                    part = opened.get_slice(name)
                    found[name] = (str(file), list(part.get_shape()), part.get_dtype())
        except ValueError:
            raise
        except Exception as problem:  # safetensors has its own class, of no use to callers
            raise ValueError(f"weft.zero: {file}: {problem}") from None
    return found


def load_safetensors(
    model: Engine | nn.Module, path: str | os.PathLike[str], *, strict: bool = True, prefix: str = ""
) -> Differences:
    """Load the weights and buffers of a model whose parameters an engine has. Collective.

    Rank 0 reads one tensor after the other, and sends it to the other ranks: memory for the largest is needed, on each.

    Args:
        model: an engine, or a model.
        path: a file, an index (*.safetensors.index.json), or a folder that has one of either.
        strict: all names of the model must be there, and no others; of tied parameters one name.
        prefix: what names of the model begin with in the file ("model.").

    Returns:
        Names that were missing or unexpected: none, if strict.

    Raises:
        ValueError: a file is damaged or missing, names differ (strict), or a shape is another. Nothing has been changed, but if a
            file is cut off in its data.
        ImportError: the package safetensors is not installed.
    """
    from safetensors import safe_open

    core = core_of(model)
    where = os.fspath(path)
    found = {n.removeprefix(prefix): (n, *t) for n, t in tell(core.comm, lambda: _catalogue(Path(path)), where).items()}
    differences = compare(core, {name: entry[2] for name, entry in found.items()}, strict, where)
    params, buffers = names_of(core)
    odd = next((n for n, entry in found.items() if (n in params or n in buffers) and entry[3] not in _DTYPES), None)
    if odd is not None:
        raise ValueError(f"weft.zero: {where}: {odd} is of type {found[odd][3]}, which is not supported")
    opened: tuple[str, Any] = "", None
    for name, (full, file, shape, kind) in sorted(found.items(), key=lambda item: item[1][1]):
        if name not in params and name not in buffers:
            continue

        def read(full: str = full, file: str = file) -> torch.Tensor:
            nonlocal opened
            if opened[0] != file:
                opened = file, safe_open(file, framework="pt").__enter__()  # type: ignore[no-untyped-call]
            tensor: torch.Tensor = opened[1].get_tensor(full)
            return tensor

        put(core, name, params, buffers, share(core.comm, read, shape, _DTYPES[kind], f"{where}: {name}"))
    return differences


def put(core: Core, name: str, params: Mapping[str, int], buffers: Mapping[str, torch.Tensor], values: torch.Tensor) -> None:
    """Give a parameter or a buffer its values."""
    if name in params:
        core.set_values(params[name], WEIGHT, values if values.dtype in DTYPES else values.float())
    else:
        buffers[name].detach().copy_(values)


__all__ = ["Differences", "compare", "core_of", "load_safetensors", "names_of", "put", "share", "tell"]
