# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in a file, until a backward pass needs them: weft_zero_spill of libweft_zero."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

import torch

from ._keep import SMALL, Keeper, Kept, Plain
from ._library import Error, SpillConfig, SpillStats, library

#: Of tensors, in memory: two are written at a time, or one is read while another one is used.
BUFFERS = 3


class _Spilled(Plain):
    """A tensor in the file, by its number there."""

    number = 0


class File(Keeper):
    """Keeps tensors in a file without a name. Those of fewer than SMALL bytes stay in memory.

    A tensor is written while the next ones are computed, and read while the one that was put after it is used: what was put last is
    wanted first. A put that fails keeps nothing and raises Error; what was put before can be had all the same.

    Args:
        folder: of the file; it exists, and its file system has room for what is kept at a time.

    Raises:
        Error: there is no such folder, or no file can be made there.
    """

    WHOLE = False

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        self.folder = os.fspath(folder)
        config = SpillConfig(bytes=ctypes.sizeof(SpillConfig), folder=os.fsencode(self.folder), buffers=BUFFERS)
        handle = ctypes.c_void_p()
        self._call("weft_zero_spill_create", ctypes.byref(config), ctypes.byref(handle))
        self._handle = handle
        self._stack: list[weakref.ref[_Spilled]] = []
        weakref.finalize(self, library().result, "weft_zero_spill_destroy", handle)

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            library().call(name, *arguments)
        except Error as problem:
            text = str(problem).removeprefix("weft.zero: ")
            raise Error(f"weft.zero: activations in a file in {self.folder}: {text}", problem.status, problem.name) from None

    def _put(self, tensor: torch.Tensor) -> Kept:
        if tensor.numel() * tensor.element_size() < SMALL:
            return super()._put(tensor)
        spilled = _Spilled(tensor.detach())
        assert spilled.flat is not None
        flat, spilled.flat = spilled.flat.cpu(), None
        number = ctypes.c_uint64()
        self._call("weft_zero_spill_put", self._handle, flat.data_ptr(), spilled.bytes, ctypes.byref(number))
        spilled.number = number.value
        kept = Kept(spilled)
        weakref.finalize(kept, library().result, "weft_zero_spill_drop", self._handle, spilled.number)
        self._stack.append(weakref.ref(spilled))
        return kept

    def _fetch(self, spilled: _Spilled) -> None:
        """Begin to read this one, and what was put before it and is still wanted."""
        while self._stack and self._stack[-1]() in (None, spilled):
            self._stack.pop()
        before = self._stack[-1]() if self._stack else None
        for one in (spilled, before):
            if one is not None:
                library().result("weft_zero_spill_fetch", self._handle, one.number)

    def _get(self, kept: Kept) -> torch.Tensor:
        spilled = kept.what
        if not isinstance(spilled, _Spilled):
            return super()._get(kept)
        self._fetch(spilled)
        flat = torch.empty(spilled.bytes, dtype=torch.uint8)
        self._call("weft_zero_spill_get", self._handle, spilled.number, flat.data_ptr(), spilled.bytes)
        return spilled.tensor(flat.to(spilled.device))

    def stats(self) -> dict[str, int]:
        """Memory with the file's buffers; what the file has had; for how long it was waited for."""
        own = SpillStats(bytes=ctypes.sizeof(SpillStats))
        self._call("weft_zero_spill_get_stats", self._handle, ctypes.byref(own))
        return {
            "bytes": self.bytes + own.buffer_bytes, "most_bytes": self.most_bytes + own.buffer_bytes, "file_bytes": own.file_bytes,
            "written_bytes": own.written_bytes, "read_bytes": own.read_bytes, "stall_ns": own.put_wait_ns + own.get_wait_ns,
        }  # fmt: skip
