# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of an engine: weft_zero_save and weft_zero_load, with what Python knows besides as the client's bytes."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _library
from ._library import Error

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


def save(engine: Engine, folder: str, tag: str, client_state: Mapping[str, Any] | None, keep: int) -> None:
    """Begin to save."""
    client = _client_bytes(engine, client_state)
    if engine.core.comm.rank == 0:
        os.makedirs(folder, exist_ok=True)
    engine.core.comm.barrier()
    address = ctypes.cast(ctypes.c_char_p(client), ctypes.c_void_p)
    options = _library.SaveOptions(ctypes.sizeof(_library.SaveOptions), keep, 1, 1, 0, address, len(client))
    engine.core.lib.call("weft_zero_save", engine.core.handle, os.fsencode(folder), tag.encode(), ctypes.byref(options))


def wait(engine: Engine) -> None:
    """Until it is complete on all ranks."""
    engine.core.lib.call("weft_zero_save_wait", engine.core.handle, _NEVER, None)


def load(engine: Engine, folder: str, tag: str | None, weights: bool) -> tuple[str | None, dict[str, Any] | None]:
    """Load, and put what Python knows back to its places."""
    core = engine.core
    info = _library.LoadInfo(ctypes.sizeof(_library.LoadInfo))
    flags = (_LOAD_OLDER if tag is None else 0) | (_LOAD_WEIGHTS if weights else 0)
    try:
        core.lib.call("weft_zero_load", core.handle, os.fsencode(folder), tag.encode() if tag else None, flags, ctypes.byref(info))
    except Error as problem:
        if tag is None and problem.name == "WEFT_ENOTFOUND":
            return None, None
        raise
    path = os.path.join(folder, info.tag.decode())
    state = json.loads(ctypes.string_at(info.client, info.client_bytes)) if info.client_bytes else {}
    if not weights:
        core.steps = int(info.step)
        for name in _COUNTERS:
            setattr(engine, name, state.get("counters", {}).get(name, 0))
        for mine, theirs in zip(engine.optimizer.param_groups, state.get("groups", []), strict=False):
            mine.update({k: tuple(v) if isinstance(v, list) else v for k, v in theirs.items()})
        if state.get("scheduler") is not None and hasattr(engine.lr_scheduler, "load_state_dict"):
            engine.lr_scheduler.load_state_dict(state["scheduler"])
    return path, state.get("client")
