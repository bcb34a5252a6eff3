# SPDX-License-Identifier: BSD-3-Clause
"""Where tensors stay that a backward pass will need: in memory, in host memory, in a file, or in parts on several ranks."""

from __future__ import annotations

import bisect
import ctypes
import os
import threading
import time
import weakref
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import TYPE_CHECKING, Any

import torch

from ._library import Error

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

#: Longest wait for a file, in seconds, as the library's for its own.
FILE_TIMEOUT = 60.0


class Kept:
    """A tensor that was put away. Dropped with the last reference to it."""

    def __init__(self, what: Any) -> None:
        self.what = what


class Keeper:
    """Keeps tensors as they are. Others put them elsewhere.

    Attributes:
        bytes, most_bytes: of memory that this rank's kept tensors take, now and the most there has been.
    """

    def __init__(self) -> None:
        self.bytes = self.most_bytes = 0

    def count(self, kept: Kept, taken: int) -> None:
        """Memory that is taken as long as something is kept."""
        self.bytes += taken
        self.most_bytes = max(self.most_bytes, self.bytes)
        weakref.finalize(kept, self._give_back, taken)

    def _give_back(self, taken: int) -> None:
        self.bytes -= taken

    def put(self, tensor: torch.Tensor) -> Kept:
        """Put a tensor away."""
        kept = Kept((tensor, tensor._version))
        self.count(kept, tensor.numel() * tensor.element_size())
        return kept

    def get(self, kept: Kept) -> torch.Tensor:
        """The same values again; any number of times."""
        tensor, version = kept.what
        if tensor._version != version:
            raise RuntimeError("weft.zero: an input of a checkpoint was modified in place after the call: computed again, the "
                               "result would be another")  # fmt: skip
        assert isinstance(tensor, torch.Tensor)
        return tensor

    def stats(self) -> dict[str, int]:
        """Bytes now and the most, by name."""
        return {"bytes": self.bytes, "most_bytes": self.most_bytes}


class Host(Keeper):
    """Keeps tensors of devices in host memory; those of the host as they are."""

    def put(self, tensor: torch.Tensor) -> Kept:
        if tensor.device.type == "cpu":
            return super().put(tensor)
        kept = Kept((tensor.to("cpu"), tensor.device))
        self.count(kept, tensor.numel() * tensor.element_size())
        return kept

    def get(self, kept: Kept) -> torch.Tensor:
        tensor, where = kept.what
        if not isinstance(where, torch.device):
            return super().get(kept)
        assert isinstance(tensor, torch.Tensor)
        return tensor.to(where)


class Parts(Keeper):
    """Keeps a part of each tensor on each rank of a group, whose ranks all have the same tensors and want them in the same order.

    Args:
        group: of torch.distributed, of any backend.
        inner: keeps the parts.
    """

    def __init__(self, group: ProcessGroup | None, inner: Keeper) -> None:
        super().__init__()
        import torch.distributed as dist

        self._group, self._inner = group, inner
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        if self._rank < 0:
            raise ValueError("weft.zero: this rank is not of the group that keeps activations in parts")

    def put(self, tensor: torch.Tensor) -> Kept:
        flat = tensor.detach().reshape(-1)
        part = -(-flat.numel() // self._size)
        own = flat.new_zeros(part)
        mine = flat[min(self._rank * part, flat.numel()) : (self._rank + 1) * part]
        own[: mine.numel()] = mine
        return Kept((self._inner.put(own), tensor.shape))

    def get(self, kept: Kept) -> torch.Tensor:
        import torch.distributed as dist

        inner, shape = kept.what
        own = self._inner.get(inner)
        whole = own.new_empty(own.numel() * self._size)
        if own.numel():
            dist.all_gather_into_tensor(whole, own, group=self._group)
        return whole[: shape.numel()].view(shape)

    def count(self, kept: Kept, taken: int) -> None:
        self._inner.count(kept, taken)

    def stats(self) -> dict[str, int]:
        return self._inner.stats()


class _Stored:
    """A tensor in the file, or on its way."""

    def __init__(self, offset: int, room: int, tensor: torch.Tensor) -> None:
        self.offset, self.room = offset, room
        self.shape, self.dtype, self.bytes = tensor.shape, tensor.dtype, tensor.numel() * tensor.element_size()
        self.tensor: torch.Tensor | None = tensor  # until it was written; for good if it could not be
        self.crc = 0
        self.written: Future[None] | None = None
        self.read: Future[torch.Tensor] | None = None


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """Of a contiguous tensor on the host, which the caller keeps."""
    return memoryview((ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())).cast("B")


class File(Keeper):
    """Keeps tensors in a file without a name, which two threads write and read.

    A tensor is written while the next ones are computed, and read back while those that were put after it are used: what was put
    last is wanted first. Every one has a checksum. What cannot be written stays in memory, and the next put raises Error.

    Args:
        folder: of the file; it exists, and its file system has room for what is kept at a time.

    Raises:
        Error: there is no such folder, or no file can be made there.
    """

    ALIGN = 4096
    AT_A_TIME = 2  # tensors that are being written, in memory still

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        self.folder = os.fspath(folder)
        try:
            self._file = os.open(self.folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise Error(f"weft.zero: activations cannot be kept in a file in {self.folder}: {problem.strerror}") from problem
        weakref.finalize(self, os.close, self._file)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="weft.zero.activations")
        self._lock = threading.Lock()
        self._free: list[tuple[int, int]] = []  # places in the file: offset and length, by offset, none beside another
        # Places that have become free: at any time, also inside of _room, so that nothing may be locked or changed then.
        self._given_back: deque[tuple[int, int]] = deque()
        self._end = 0
        self._stack: list[weakref.ref[_Stored]] = []
        self._writing: list[_Stored] = []
        self._failed: OSError | None = None
        self.written_bytes = self.read_bytes = self.stall_ns = 0

    # ---- The file ----

    def _room(self, size: int) -> tuple[int, int]:
        """A place in the file: its offset, and how long it is."""
        room = -(-max(size, 1) // self.ALIGN) * self.ALIGN
        with self._lock:
            while self._given_back:
                self._take_back(*self._given_back.popleft())
            for i, (offset, length) in enumerate(self._free):
                if length >= room:
                    self._free[i : i + 1] = [(offset + room, length - room)] if length > room else []
                    return offset, room
        offset = self._end
        try:
            os.posix_fallocate(self._file, offset, room)
        except OSError as problem:
            raise Error(f"weft.zero: a file in {self.folder} for activations cannot grow to {offset + room} bytes: "
                        f"{problem.strerror}") from problem  # fmt: skip
        self._end = offset + room
        return offset, room

    def _take_back(self, begin: int, length: int) -> None:
        i, end = bisect.bisect(self._free, (begin, 0)), begin + length
        if i < len(self._free) and self._free[i][0] == end:
            end += self._free.pop(i)[1]
        if i and sum(self._free[i - 1]) == begin:
            i -= 1
            begin = self._free.pop(i)[0]
        self._free.insert(i, (begin, end - begin))

    def _release(self, stored: _Stored) -> None:
        def free(_done: Any = None) -> None:
            self._given_back.append((stored.offset, stored.room))

        busy = next((f for f in (stored.written, stored.read) if f is not None and not f.done()), None)
        if busy is None:
            free()
        else:  # the place is somebody else's when nothing is under way there
            busy.add_done_callback(free)

    def _move(self, what: Callable[[int, list[memoryview], int], int], data: memoryview, offset: int) -> None:
        while data.nbytes:
            moved = what(self._file, [data], offset)
            if moved <= 0:
                raise OSError(5, "the file ended early")
            data, offset = data[moved:], offset + moved

    def _write(self, stored: _Stored) -> None:
        assert stored.tensor is not None
        data = _bytes_of(stored.tensor)
        try:
            self._move(os.pwritev, data, stored.offset)
        except OSError as problem:
            self._failed = problem
            return
        stored.crc = zlib.crc32(data)
        self.written_bytes += stored.bytes

    def _read(self, stored: _Stored) -> torch.Tensor:
        tensor = torch.empty(stored.shape, dtype=stored.dtype)
        data = _bytes_of(tensor)
        self._move(os.preadv, data, stored.offset)
        if zlib.crc32(data) != stored.crc:
            raise OSError(5, "it has not the bytes that were written")
        self.read_bytes += stored.bytes
        return tensor

    # ---- Keeping ----

    def _wait(self, future: Future[Any], what: str) -> Any:
        begun = time.monotonic_ns()
        try:
            return future.result(FILE_TIMEOUT)
        except OSError as problem:
            raise Error(f"weft.zero: a file in {self.folder} for activations: {what}: {problem.strerror}") from problem
        except Late as problem:
            raise Error(f"weft.zero: a file in {self.folder} for activations: {what}: not done after {FILE_TIMEOUT:.0f} s"
                        ) from problem  # fmt: skip
        finally:
            self.stall_ns += time.monotonic_ns() - begun

    def _settle(self, most: int) -> None:
        """Forget what has been written, and wait until at most so many tensors are being written."""
        while self._writing and (len(self._writing) > most or (self._writing[0].written and self._writing[0].written.done())):
            stored = self._writing.pop(0)
            assert stored.written is not None
            self._wait(stored.written, "writing")
            if self._failed is None:
                stored.tensor = None
                self._give_back(stored.bytes)

    def put(self, tensor: torch.Tensor) -> Kept:
        if tensor.device.type != "cpu":
            raise Error(f"weft.zero: activations of {tensor.device} cannot be kept in a file yet")
        self._settle(self.AT_A_TIME - 1)
        if self._failed is not None:
            raise Error(f"weft.zero: a file in {self.folder} for activations: writing: {self._failed.strerror}; what could not be "
                        "written is in memory")  # fmt: skip
        plain = tensor.detach().contiguous()
        if not plain.numel():
            return Kept(plain)
        offset, room = self._room(plain.numel() * plain.element_size())
        stored = _Stored(offset, room, plain)
        self.bytes += stored.bytes
        self.most_bytes = max(self.most_bytes, self.bytes)
        stored.written = self._threads.submit(self._write, stored)
        self._writing.append(stored)
        self._stack.append(weakref.ref(stored))
        kept = Kept(stored)
        weakref.finalize(kept, self._release, stored)
        return kept

    def _ahead(self, stored: _Stored) -> None:
        """Begin to read what was put before this one and is still wanted."""
        while self._stack and self._stack[-1]() in (None, stored):
            self._stack.pop()
        before = self._stack[-1]() if self._stack else None
        if before is not None and before.tensor is None and before.read is None:
            before.read = self._threads.submit(self._read, before)

    def get(self, kept: Kept) -> torch.Tensor:
        stored = kept.what
        if isinstance(stored, torch.Tensor):
            return stored
        assert isinstance(stored, _Stored)
        self._settle(self.AT_A_TIME)
        if stored.tensor is not None:
            self._ahead(stored)
            return stored.tensor
        read, stored.read = stored.read or self._threads.submit(self._read, stored), None
        self._ahead(stored)
        tensor = self._wait(read, "reading")
        assert isinstance(tensor, torch.Tensor)
        return tensor

    def stats(self) -> dict[str, int]:
        return {**super().stats(), "file_bytes": self._end, "written_bytes": self.written_bytes, "read_bytes": self.read_bytes,
                "stall_ns": self.stall_ns}  # fmt: skip


def keeper_of(keep: str, group: ProcessGroup | None = None, folder: str | os.PathLike[str] | None = None) -> Keeper:
    """The keeper of that name: "memory", "host" or "disk"; in parts on the ranks of a group, if there is one.

    Raises:
        ValueError: there is none of that name, or no folder for "disk".
    """
    if keep not in ("memory", "host", "disk"):
        raise ValueError(f'weft.zero: keep is {keep!r}, not "memory", "host" or "disk"')
    if (keep == "disk") != (folder is not None):
        raise ValueError('weft.zero: keep="disk" takes a folder, and nothing else does')
    inner = File(folder) if folder is not None else Host() if keep == "host" else Keeper()
    return inner if group is None else Parts(group, inner)
