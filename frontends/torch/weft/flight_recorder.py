# SPDX-License-Identifier: BSD-3-Clause
"""The newest operations of this process, in the form of PyTorch's flight recorder.

To see why a job hangs, dump on every rank and let PyTorch compare::

    weft.flight_recorder.dump("/tmp/fr/rank_")            # writes /tmp/fr/rank_0, rank_1, …
    python -m torch.distributed.flight_recorder.fr_trace -p rank_ /tmp/fr

With TORCH_FR_DUMP_TEMP_FILE=/tmp/fr/rank_ in the environment every rank does that by itself when an operation fails.
PyTorch's analyzer accepts the names of its own backends only, so that operations are called "gloo:all_reduce" there; the key
"backend" of each entry says "weft".
"""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

from ._stack import Frame, named

__all__ = ["VERSION", "dump", "dump_json", "record"]

#: Of the form that is written: what torch 2.13 writes.
VERSION = "2.10"
_BACKEND_THAT_THE_ANALYZER_KNOWS = "gloo"


_STARTED, _COMPLETED, _FAILED = range(3)
_Tensor = tuple[str, list[int]] | None  # type and sizes of the first one


class _Row(NamedTuple):
    """An operation as the adapter writes it down; see csrc/recorder.hpp."""

    id: int
    group: int
    seq: int
    p2p_seq: int
    name: str
    peer: int
    p2p: bool
    state: int
    created_ns: int
    completed_ns: int
    timeout_ms: int
    input: _Tensor
    output: _Tensor
    frames: list[Frame]
    codec: str | None
    tensors: list[int]


def _entry(row: _Row, group: str, rank: int) -> dict[str, Any]:
    name = row.name
    if name in ("send", "recv"):
        name = f"send {rank}->{row.peer}" if name == "send" else f"recv {rank}<-{row.peer}"
    done = row.state != _STARTED
    return {
        "record_id": row.id,
        "pg_id": row.group,
        "process_group": (group, ""),
        "collective_seq_id": row.seq,
        "p2p_seq_id": row.p2p_seq,
        "op_id": row.seq + row.p2p_seq,
        "profiling_name": f"{_BACKEND_THAT_THE_ANALYZER_KNOWS}:{name}",
        "backend": "weft",
        "time_created_ns": row.created_ns,
        "input_sizes": [row.input[1]] if row.input else [],
        "input_dtypes": [row.input[0]] if row.input else [],
        "output_sizes": [row.output[1]] if row.output else [],
        "output_dtypes": [row.output[0]] if row.output else [],
        # The analyzer knows no failures: such an operation has never completed.
        "state": "completed" if row.state == _COMPLETED else "started",
        "failed": row.state == _FAILED,
        "time_discovered_started_ns": row.created_ns,
        "time_discovered_completed_ns": row.completed_ns if done else None,
        **({"duration_ms": (row.completed_ns - row.created_ns) / 1e6} if done else {}),
        "retired": done,
        "timeout_ms": row.timeout_ms,
        "is_p2p": row.p2p,
        # Whose residuals there are: ids of the user's, or 2**32 and more, of a hook's parameters.
        **({"codec": row.codec, "tensors": [tensor for tensor in row.tensors if tensor]} if row.codec is not None else {}),
        "frames": [{"filename": file, "line": line, "name": function} for file, line, function in named(row.frames)],
    }


def record(only_active: bool = False) -> dict[str, Any]:
    """The record as a dictionary: version, pg_config, pg_status, entries (oldest first).

    Args:
        only_active: leave out what has completed.
    """
    from . import _C

    raw, groups = _C.flight_record()
    rows = [_Row(*values) for values in raw]
    status: dict[str, dict[str, int]] = {}
    for row in rows:
        group = status.setdefault(groups[row.group][0], {"last_enqueued_collective": 0, "last_completed_collective": 0})
        if not row.p2p:
            group["last_enqueued_collective"] = max(group["last_enqueued_collective"], row.seq)
            if row.state == _COMPLETED:
                group["last_completed_collective"] = max(group["last_completed_collective"], row.seq)
    return {
        "version": VERSION,
        "comm_lib_version": _C.version(),
        "pg_config": {name: {"name": name, "desc": "", "ranks": str(ranks)} for name, ranks, _ in groups},
        "pg_status": status,
        "entries": [
            _entry(row, groups[row.group][0], groups[row.group][2])
            for row in rows
            if not (only_active and row.state == _COMPLETED)
        ],
    }


def _global_rank() -> int:
    import torch.distributed as dist

    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def dump(prefix: str | os.PathLike[str]) -> Path:
    """Write the record to the file `prefix` followed by this process's rank, as torch's analyzer reads it. Returns its path."""
    path = Path(f"{os.fspath(prefix)}{_global_rank()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(record()))
    return path


def dump_json(path: str | os.PathLike[str] | None = None, only_active: bool = False) -> str:
    """The record as JSON; also written to the file `path`, if given."""
    text = json.dumps(record(only_active), default=list)
    if path is not None:
        Path(path).write_text(text)
    return text


def _dump_on_failure() -> None:
    """Called by the adapter when an operation has failed: never raises."""
    prefix = os.environ.get("TORCH_FR_DUMP_TEMP_FILE")
    if not prefix:
        return
    try:
        dump(prefix)
    except Exception as problem:  # noqa: BLE001 - the operation's own failure matters more
        import warnings

        warnings.warn(f"weft: the flight recorder could not be written to {prefix}: {problem}", stacklevel=2)
