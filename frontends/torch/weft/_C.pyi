# SPDX-License-Identifier: BSD-3-Clause
"""weft as a torch.distributed backend: the compiled part (csrc/module.cpp). tests/torch/stubs.py compares the two."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import CodeType

import torch
from torch._C._distributed_c10d import Backend as C10dBackend
from torch._C._distributed_c10d import GradBucket, Reducer, Store, Work

class Options(C10dBackend.Options):
    """Options of a weft group."""

    def __init__(self, timeout: timedelta | None = None, algorithm: str | Mapping[str, str] | None = None) -> None: ...
    @property
    def algorithm(self) -> str:
        """Algorithms that were named, "all_reduce:ring"; "": none."""
    @property
    def timeout_given(self) -> bool: ...
    def __copy__(self) -> Options: ...
    def __deepcopy__(self, memo: dict[int, object]) -> Options: ...

class Backend(C10dBackend):
    """A group's weft communicator."""

    def __init__(self, store: Store, rank: int, size: int, options: Options) -> None: ...
    @property
    def options(self) -> Options:
        """The group's weft.Options."""
    @property
    def sequence_number(self) -> int:
        """Collectives that were issued."""
    @property
    def operations_under_way(self) -> int:
        """Operations that are not known to have completed."""
    def split(self, store: Store, ranks: Sequence[int], options: C10dBackend.Options) -> C10dBackend | None:
        """A group of some of the ranks, who alone need call; None for others."""
    def perform_nocolor_split(self, device: torch.device) -> None:
        """What torch calls on ranks outside of a new group: they need not take part."""
    def eager_connect_single_device(self, device: torch.device | None = None) -> None:
        """A group is connected when it exists."""
    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Wait until every rank has called, and name those that do not come."""

class Codec:
    """A codec for calls, and whose residual they have."""

    def __init__(self, codec: str | None, tensor: int = 0) -> None: ...

class AlgorithmsScope:
    """A block of weft.algorithm that a thread is in."""

    def leave(self) -> None:
        """Calls have no longer what it names, in the thread that entered it."""

class CodecScope:
    """A block of weft.codec that a thread is in."""

    def leave(self) -> None:
        """Calls have no longer what it names, in the thread that entered it."""

class HookState:
    """What a model's communication hook knows from step to step."""

    def __init__(
        self, backend: C10dBackend, codec: str | None, min_elements: int, vectors: bool, transport_memory: bool
    ) -> None: ...
    @property
    def parameters(self) -> int:
        """That have a number."""
    def number(self, parameter: torch.Tensor) -> int:
        """The parameter's, the next one if it is new."""
    def elements(self, number: int) -> int:
        """Of the parameter; -1: none has this number yet."""
    def tensor(self, number: int) -> int:
        """As the library knows it."""
    def average(self, bucket: GradBucket) -> Work:
        """Start to average the bucket's gradients, in place."""

class ZeroUnit:
    """A unit of weft.zero: parameters that are views of libweft_zero's memory. Calls return statuses."""

    def __init__(self, calls: Sequence[int], engine: int, unit: int) -> None: ...
    def bind(self, param: int, tensor: torch.Tensor, dtype: torch.dtype, refusal: str) -> int:
        """Make the tensor a view of the parameter's memory; `refusal` is said to who reads it when it is not gathered."""
    def pre_forward(self) -> int: ...
    def pre_backward(self) -> int: ...
    def post_forward(self) -> int: ...
    def post_backward(self) -> int: ...
    def touch(self) -> int:
        """A pass that ends at once."""
    def grad_add(self, param: int, grad: torch.Tensor) -> int: ...
    def hide(self, why: str) -> None:
        """Parameters are on their way to their place, until a pass or wait()."""
    def wait(self) -> int: ...
    def lend(self, param: int, memory: torch.Tensor) -> None:
        """Show a parameter in this memory, until restore()."""
    def restore(self, param: int) -> None: ...
    @property
    def kept(self) -> bool:
        """Its parameters have a place of their own."""
    @property
    def shown(self) -> bool:
        """They can be read."""
    @property
    def passes(self) -> int:
        """That have begun and not ended."""

class Registration:
    """Memory of a tensor that other ranks of the host reach in place."""

    def __init__(self, tensor: torch.Tensor) -> None: ...
    def release(self) -> None: ...

#: id, group, number, number of messages, name, peer, is it a message, state, created and completed in ns, time-out in ms, shapes in
#: and out (type, sizes), stack (code, position).
_Shape = tuple[str, list[int]] | None
_Record = tuple[int, int, int, int, str, int, bool, int, int, int, int, _Shape, _Shape, list[tuple[CodeType, int]], str | None,
                list[int]]

def empty(sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor: ...
def memory_reserved() -> int: ...
def enter_algorithms(algorithm: str | Mapping[str, str]) -> AlgorithmsScope: ...
def enter_codec(codec: Codec) -> CodecScope: ...
def new_tensors(backend: C10dBackend) -> int: ...
def residual_bytes(backend: C10dBackend) -> int: ...
def clear_residual(backend: C10dBackend, tensor: int) -> None: ...
def scale_residual(backend: C10dBackend, tensor: int, factor: float) -> None: ...
def save_residual(backend: C10dBackend, tensor: int) -> torch.Tensor | None: ...
def load_residual(backend: C10dBackend, tensor: int, elements: int, saved: torch.Tensor, factor: float) -> None: ...
def average_bucket(backend: C10dBackend, bucket: GradBucket, codec: str) -> Work: ...
def register_hook(reducer: Reducer, state: HookState) -> None: ...
def interrupt() -> None: ...
def set_wakeup_fd(fd: int) -> None: ...
def flight_record() -> tuple[list[_Record], list[tuple[str, list[int], int]]]: ...
def set_recording(on: bool) -> None: ...
def recording() -> bool: ...
def clear_record() -> None: ...
def settings() -> list[tuple[str, str, str, str, str]]: ...
def plugins() -> list[tuple[str, str, str, str]]: ...
def algorithms() -> list[tuple[str, str, str]]: ...
def version() -> str: ...
def security() -> tuple[int, str, str]: ...
def topology(backend: C10dBackend, format: str) -> str: ...
def peers(backend: C10dBackend) -> list[tuple[str, int, str, str, str]]: ...
def newest_algorithm(backend: C10dBackend) -> str: ...
def mesh_order(
    backend: C10dBackend, names: Sequence[str], extents: Sequence[int], traffic: Sequence[float]
) -> tuple[list[int], str]: ...
