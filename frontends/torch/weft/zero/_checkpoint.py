# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of an engine: weft_zero_save and weft_zero_load, with what Python knows besides as the client's bytes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from . import _library
from ._library import Error
from ._progress import Progress

if TYPE_CHECKING:
    from ._engine import Engine

_NEVER = 2**64 - 1  # WEFT_TIMEOUT_NEVER
_LOAD_OLDER, _LOAD_WEIGHTS = 1, 2
_COUNTERS = ("micro_steps", "global_steps", "skipped_steps")


def _client_bytes(engine: Engine, client_state: Mapping[str, Any] | None) -> bytes:
    scheduler = engine.lr_scheduler
    groups = [{k: v for k, v in g.items() if k != "params"} for g in engine.optimizer.param_groups]
    state = {
        "client": dict(client_state) if client_state is not None else None,
        "counters": {name: getattr(engine, name) for name in _COUNTERS},
        "groups": groups,
        "scheduler": scheduler.state_dict() if hasattr(scheduler, "state_dict") else None,
    }
    try:
        return json.dumps(state).encode()
    except TypeError as problem:
        raise ValueError(f"weft.zero: save_checkpoint: client_state or the scheduler's state: {problem}") from None


def _everywhere(engine: Engine, what: str, problem: Exception | None) -> None:
    """Raise what is wrong here, and Error where it is another rank's: none of them waits for the others. Collective."""
    failed = engine.core.comm.any(problem is not None)
    if problem is not None:
        raise problem
    if failed:
        raise Error(f"weft.zero: {what}")


def save(engine: Engine, folder: str, tag: str, client_state: Mapping[str, Any] | None, keep: int) -> None:
    """Begin to save."""
    client, problem = b"", None
    try:
        client = _client_bytes(engine, client_state)
        if engine.core.comm.rank == 0:
            os.makedirs(folder, exist_ok=True)
    except Exception as caught:  # the others wait
        problem = caught
    _everywhere(engine, f"save_checkpoint: another rank cannot save into {folder}", problem)
    address = ctypes.cast(ctypes.c_char_p(client), ctypes.c_void_p)
    options = _library.SaveOptions(ctypes.sizeof(_library.SaveOptions), keep, 1, 1, 0, address, len(client))
    engine.core.lib.call("weft_zero_save", engine.core.handle, os.fsencode(folder), tag.encode(), ctypes.byref(options))


def write_whole(engine: Engine, state: Mapping[str, Any], path: str) -> None:
    """Rank 0 writes a file as a whole or not at all, and durably; all ranks raise if it cannot. Collective."""
    problem: Exception | None = None
    if engine.core.comm.rank == 0:
        try:
            _replace(state, path)
        except Exception as caught:  # the others wait
            problem = caught
    _everywhere(engine, f"rank 0 could not write {path}", problem)


def _replace(state: Mapping[str, Any], path: str) -> None:
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{os.path.basename(path)}.weft-{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def wait(engine: Engine, what: str, progress: bool) -> None:
    """Until it is complete on all ranks."""
    with Progress(engine.core, what, progress):
        engine.core.lib.call("weft_zero_save_wait", engine.core.handle, _NEVER, None)


@dataclass
class Parts:
    """What is taken of a version beside the weights."""

    optimizer: bool = True
    scheduler: bool = True
    counters: bool = True


def load(engine: Engine, folder: str, tag: str | None, take: Parts, progress: bool) -> tuple[str | None, dict[str, Any] | None]:
    """Load, and put what Python knows back to its places."""
    core = engine.core
    info = _library.LoadInfo(ctypes.sizeof(_library.LoadInfo))
    flags = (_LOAD_OLDER if tag is None else 0) | (0 if take.optimizer else _LOAD_WEIGHTS)
    path = os.path.join(folder, tag) if tag else folder
    try:
        with Progress(core, f"loading {path}", progress):
            core.lib.call("weft_zero_load", core.handle, os.fsencode(folder), tag.encode() if tag else None, flags,
                          ctypes.byref(info))  # fmt: skip
    except Error as problem:
        if tag is None and problem.name == "WEFT_ENOTFOUND":
            return None, None
        raise
    path = os.path.join(folder, info.tag.decode())
    state = json.loads(ctypes.string_at(info.client, info.client_bytes)) if info.client_bytes else {}
    if take.optimizer:
        core.steps = int(info.step)
        for mine, theirs in zip(engine.optimizer.param_groups, state.get("groups", []), strict=False):
            mine.update({k: tuple(v) if isinstance(v, list) else v for k, v in theirs.items()})
    for name in _COUNTERS if take.counters else ():
        setattr(engine, name, state.get("counters", {}).get(name, 0))
    if take.scheduler and state.get("scheduler") is not None and hasattr(engine.lr_scheduler, "load_state_dict"):
        engine.lr_scheduler.load_state_dict(state["scheduler"])
    return path, state.get("client")
