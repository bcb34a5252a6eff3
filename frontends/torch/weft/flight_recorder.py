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
from typing import Any

__all__ = ["VERSION", "dump", "dump_json", "record"]

#: Of the form that is written: what torch 2.13 writes.
VERSION = "2.10"
_BACKEND_THAT_THE_ANALYZER_KNOWS = "gloo"


def record(only_active: bool = False) -> dict[str, Any]:
    """The record as a dictionary: version, pg_config, pg_status, entries (oldest first).

    Args:
        only_active: leave out what has completed.
    """
    from ._load import adapter

    c = adapter()
    raw = c.flight_record()
    entries = [e for e in raw["entries"] if not (only_active and e["state"] == "completed")]
    status: dict[str, dict[str, Any]] = {}
    for e in raw["entries"]:
        group = status.setdefault(e["process_group"][0], {"last_enqueued_collective": 0, "last_completed_collective": 0})
        if not e["is_p2p"]:
            group["last_enqueued_collective"] = max(group["last_enqueued_collective"], e["collective_seq_id"])
            if e["state"] == "completed":
                group["last_completed_collective"] = max(group["last_completed_collective"], e["collective_seq_id"])
    for e in entries:
        e["backend"] = "weft"
        e["profiling_name"] = f"{_BACKEND_THAT_THE_ANALYZER_KNOWS}:{e['profiling_name']}"
    return {
        "version": VERSION,
        "comm_lib_version": c.version(),
        "pg_config": raw["pg_config"],
        "pg_status": status,
        "entries": entries,
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
