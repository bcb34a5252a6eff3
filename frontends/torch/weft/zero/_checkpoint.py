# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of an engine: weft_zero_save and weft_zero_load, with what Python knows besides as the client's bytes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import torch

from . import _library
from ._groups import hyper_of, saved_hypers
from ._library import Error
from ._progress import Progress

if TYPE_CHECKING:
    from ._engine import Engine

_NEVER = 2**64 - 1  # WEFT_TIMEOUT_NEVER
_LOAD_OLDER, _LOAD_WEIGHTS = 1, 2
_TAG_MOST = 255
_NAMES = "names"  # of a group's parameters
_COUNTERS = ("micro_steps", "global_steps", "skipped_steps")


def _names(engine: Engine, group: Mapping[str, Any]) -> list[str]:
    core = engine.core
    return sorted(core.params[core.numbers[tensor]].name for tensor in group["params"])


def _take_groups(engine: Engine, saved: Any, path: str) -> None:
    """Hyper-parameters of groups of the same parameters, in whatever order they were."""
    if not isinstance(saved, list) or not all(isinstance(theirs, dict) for theirs in saved):
        raise ValueError(f"weft.zero: {path}: what it has of the optimizer's groups is no list of them")
    by_names = {tuple(theirs[_NAMES]): theirs for theirs in saved if isinstance(theirs.get(_NAMES), list)}
    found = []
    for number, (kind, mine) in enumerate(zip(engine.core.kinds, engine.optimizer.param_groups, strict=True)):
        theirs = by_names.get(tuple(_names(engine, mine)))
        if theirs is None:
            warnings.warn(f"weft.zero: {path} has no group of the parameters of group {number}: that keeps its hyper-parameters",
                          stacklevel=4)  # fmt: skip
            continue
        taken = {k: tuple(v) if isinstance(v, list) else v for k, v in saved_hypers(kind, theirs).items() if k != _NAMES}
        try:
            hyper_of({**mine, **taken})
        except ValueError as problem:
            raise ValueError(f"weft.zero: {path}: group {number}: {problem}") from None
        found.append((mine, taken))
    for mine, taken in found:
        mine.update(taken)


def _client_bytes(engine: Engine, client_state: Mapping[str, Any] | None) -> bytes:
    for key, value in (client_state or {}).items():
        try:
            same = isinstance(key, str) and json.loads(json.dumps(value)) == value
        except (TypeError, ValueError) as problem:
            raise ValueError(f"weft.zero: save_checkpoint: client_state[{key!r}]: {problem}") from None
        if not same:
            raise ValueError(f"weft.zero: save_checkpoint: client_state[{key!r}] would not come back as it is: it is kept as JSON, "
                             "which has lists and no tuples, and names that are strings")  # fmt: skip
    scheduler = engine.lr_scheduler
    groups = [{**{k: v for k, v in g.items() if k != "params"}, _NAMES: _names(engine, g)} for g in engine.optimizer.param_groups]
    state = {
        "client": dict(client_state) if client_state is not None else None,
        "counters": {name: getattr(engine, name) for name in _COUNTERS},
        "groups": groups,
        "scheduler": scheduler.state_dict() if hasattr(scheduler, "state_dict") else None,
    }
    try:
        return json.dumps(state).encode()
    except TypeError as problem:
        raise ValueError(f"weft.zero: save_checkpoint: hyper-parameters or the scheduler's state: {problem}") from None


def _everywhere(engine: Engine, what: str, problem: Exception | None) -> None:
    """Raise what is wrong here, and Error where it is another rank's: none of them waits for the others. Collective."""
    failed = engine.core.comm.any(problem is not None)
    if problem is not None:
        raise problem
    if failed:
        raise Error(f"weft.zero: {what}")


def agreed_tag(engine: Engine, tag: str) -> str:
    """The tag of rank 0, as checkpoint.tag_validation says: without a word, with a warning, or not if others differ. Collective."""
    comm = engine.core.comm
    mine = tag.encode()
    fits = 1 <= len(mine) <= _TAG_MOST
    told = torch.zeros(_TAG_MOST + 1, dtype=torch.uint8)
    if fits:
        told[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
    comm.broadcast(told)
    text = f"weft.zero: save_checkpoint: the tag has {len(mine)} bytes, and may have 1 to {_TAG_MOST}"
    wrong = None if fits else ValueError(text)
    _everywhere(engine, "save_checkpoint: another rank's tag is empty or too long", wrong)
    first = bytes(told.tolist()).rstrip(b"\0").decode()
    if not comm.any(first != tag):
        return tag
    if engine.settings.tag_validation == "fail":
        raise Error(f'weft.zero: save_checkpoint: ranks save different tags: rank 0 "{first}", rank {comm.rank} "{tag}"')
    if engine.settings.tag_validation == "warn":
        warnings.warn(f'weft.zero: save_checkpoint: ranks save different tags; all save rank 0\'s, "{first}"', stacklevel=3)
    return first


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
            replace_file(path, lambda file: torch.save(state, file))
        except Exception as caught:  # the others wait
            problem = caught
    _everywhere(engine, f"rank 0 could not write {path}", problem)


def replace_file(path: str, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file beside it under a name that nobody can have foreseen, which takes its place once it is on the disk."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            write(file)
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


def load_universal(engine: Engine, folder: str, tag: str | None) -> tuple[str | None, dict[str, Any] | None]:
    """As the configuration has checkpoint.load_universal: the newest version that folder/latest_universal names."""
    from . import universal

    there = tag is not None or os.path.exists(os.path.join(folder, "latest_universal"))
    if not engine.core.comm.any(there):
        warnings.warn(f"weft.zero: load_checkpoint: {folder} has no latest_universal: there is nothing to load", stacklevel=3)
        return None, None
    return os.path.join(folder, universal.load(engine, folder, tag)), None


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
    if not isinstance(state, dict):
        raise ValueError(f"weft.zero: {path}: what Python saved with it is not what weft.zero saves")
    if take.optimizer:
        core.steps = int(info.step)
        _take_groups(engine, state.get("groups", []), path)
    counters = state.get("counters")
    if take.counters and isinstance(counters, dict):
        for name in _COUNTERS:
            setattr(engine, name, int(counters.get(name, 0)))
    theirs = state.get("scheduler")
    scheduler = engine.lr_scheduler
    if take.scheduler and isinstance(theirs, dict) and scheduler is not None and hasattr(scheduler, "load_state_dict"):
        known = scheduler.state_dict()  # torch's would take anything, in place of methods, too
        scheduler.load_state_dict({name: value for name, value in theirs.items() if name in known})
    return path, state.get("client")
