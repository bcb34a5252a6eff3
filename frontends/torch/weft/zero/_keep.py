# SPDX-License-Identifier: BSD-3-Clause
"""Where tensors stay that a backward pass will need: in memory, in host memory, in a file, or in parts on several ranks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    import os

    from torch.distributed import ProcessGroup

#: Tensors of fewer bytes stay in memory: what they cost elsewhere is more than they take.
SMALL = 4096
#: How many elements are compared before a group is believed to have the same activations.
SAMPLE = 64


class Plain:
    """A tensor's elements in the order of its memory, and how they become the tensor again.

    Attributes:
        flat: of one dimension, without a copy where the tensor is dense.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        # Memory of a conjugate, or of a negative, has not its values.
        tensor = tensor.resolve_conj().resolve_neg()
        # What has no holes and no overlaps keeps its strides: kernels choose by them, and their bits differ.
        self.stride = torch.empty_like(tensor, device="meta").stride()
        if tensor.stride() != self.stride:
            tensor = torch.empty_like(tensor).copy_(tensor)
        self.shape, self.dtype, self.device, elems = tensor.shape, tensor.dtype, tensor.device, tensor.numel()
        self.bytes = elems * tensor.element_size()
        self.flat: torch.Tensor | None = tensor.as_strided((elems,), (1,))

    def tensor(self, flat: torch.Tensor) -> torch.Tensor:
        """The tensor, of these elements; bytes are taken as its type."""
        return flat.view(self.dtype).as_strided(self.shape, self.stride)


class Kept:
    """A tensor that was put away. Dropped with the last reference to it."""

    def __init__(self, what: Any) -> None:
        self.what = what


@dataclass
class _Made:
    """A tensor that is made of others."""

    parts: dict[str, Any]  # Kept, or what is no tensor
    make: Callable[[dict[str, Any]], Any]


class Keeper:
    """Keeps tensors as they are. Others put them elsewhere.

    Attributes:
        bytes, most_bytes: of memory that this rank's kept tensors take, now and the most there has been.
    """

    WHOLE = True  # tensors that are made of others are kept as they are

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
        """Put a tensor away. Of one that is made of others (a DTensor) those are put away."""
        if self.WHOLE or not is_traceable_wrapper_subclass(tensor):
            return self._put(tensor)
        kind, (names, context), size, stride = type(tensor), tensor.__tensor_flatten__(), tensor.size(), tensor.stride()
        inside = {name: getattr(tensor, name) for name in names}
        parts = {name: self.put(one) if isinstance(one, torch.Tensor) else one for name, one in inside.items()}
        return Kept(_Made(parts, lambda of: kind.__tensor_unflatten__(of, context, size, stride)))

    def get(self, kept: Kept) -> torch.Tensor:
        """The same values again; any number of times."""
        if not isinstance(kept.what, _Made):
            return self._get(kept)
        parts = kept.what.parts.items()
        tensor = kept.what.make({name: self.get(part) if isinstance(part, Kept) else part for name, part in parts})
        assert isinstance(tensor, torch.Tensor)
        return tensor

    def _put(self, tensor: torch.Tensor) -> Kept:
        kept = Kept((tensor, tensor._version))
        self.count(kept, tensor.numel() * tensor.element_size())
        return kept

    def _get(self, kept: Kept) -> torch.Tensor:
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

    WHOLE = False

    def _put(self, tensor: torch.Tensor) -> Kept:
        if tensor.device.type == "cpu":
            return super()._put(tensor)
        kept = Kept((tensor.to("cpu"), tensor.device))
        self.count(kept, tensor.numel() * tensor.element_size())
        return kept

    def _get(self, kept: Kept) -> torch.Tensor:
        tensor, where = kept.what
        if not isinstance(where, torch.device):
            return super()._get(kept)
        assert isinstance(tensor, torch.Tensor)
        return tensor.to(where)


class Parts(Keeper):
    """Keeps a part of each tensor on each rank of a group, whose ranks all have the same tensors and want them in the same order.

    Args:
        group: of torch.distributed, of any backend.
        inner: keeps the parts.
    """

    WHOLE = False

    def __init__(self, group: ProcessGroup | None, inner: Keeper) -> None:
        super().__init__()
        import torch.distributed as dist

        self._group, self._inner = group, inner
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        self._compared = False
        if self._rank < 0:
            raise ValueError("weft.zero: this rank is not of the group that keeps activations in parts")

    def _compare(self, tensor: torch.Tensor) -> None:
        """Whether the ranks have the same, by some elements of the first tensor: another group's would be taken for it."""
        import torch.distributed as dist

        flat = tensor.reshape(-1)
        some = torch.zeros(SAMPLE + 1, dtype=torch.float64, device=tensor.device)
        picked = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE]
        some[: picked.numel()], some[SAMPLE] = picked.real if picked.is_complex() else picked, flat.numel()
        every = some.new_empty((SAMPLE + 1) * self._size)
        dist.all_gather_into_tensor(every, some, group=self._group)
        rows = torch.nan_to_num(every.view(self._size, SAMPLE + 1))
        near = 0.01 * rows[:, :SAMPLE].abs().amax()  # sums in another order are the same
        other = ((rows - rows[0]).abs() > near).any(1) | (rows[:, SAMPLE] != rows[0, SAMPLE])
        if other.any():
            raise ValueError(f"weft.zero: rank {int(other.nonzero()[0])} of the group has not the activations that rank 0 has: "
                             "they are kept in parts on ranks that have the same, those of tensor parallelism")  # fmt: skip

    def _put(self, tensor: torch.Tensor) -> Kept:
        if tensor.numel() * tensor.element_size() < SMALL:
            return Kept((self._inner.put(tensor), None))
        if not self._compared:
            self._compare(tensor)
            self._compared = True
        plain = Plain(tensor)
        assert plain.flat is not None
        flat, plain.flat = plain.flat.view(torch.uint8), None
        part = -(-plain.bytes // (16 * self._size)) * 16
        own = flat.new_zeros(part)
        mine = flat[min(self._rank * part, plain.bytes) : (self._rank + 1) * part]
        own[: mine.numel()] = mine
        return Kept((self._inner.put(own), plain))

    def _get(self, kept: Kept) -> torch.Tensor:
        import torch.distributed as dist

        inner, plain = kept.what
        own = self._inner.get(inner)
        if plain is None:
            return own
        whole = own.new_empty(own.numel() * self._size)
        dist.all_gather_into_tensor(whole, own, group=self._group)
        tensor = plain.tensor(whole[: plain.bytes])
        assert isinstance(tensor, torch.Tensor)
        return tensor

    def count(self, kept: Kept, taken: int) -> None:
        self._inner.count(kept, taken)

    def stats(self) -> dict[str, int]:
        return self._inner.stats()


def keeper_of(keep: str, group: ProcessGroup | None = None, folder: str | os.PathLike[str] | None = None) -> Keeper:
    """The keeper of that name: "memory", "host" or "disk"; in parts on the ranks of a group, if there is one.

    Raises:
        ValueError: there is none of that name, or no folder for "disk".
    """
    if keep not in ("memory", "host", "disk"):
        raise ValueError(f'weft.zero: keep is {keep!r}, not "memory", "host" or "disk"')
    if (keep == "disk") != (folder is not None):
        raise ValueError('weft.zero: keep="disk" takes a folder, and nothing else does')
    from ._spill import File

    inner = File(folder) if folder is not None else Host() if keep == "host" else Keeper()
    return inner if group is None else Parts(group, inner)
