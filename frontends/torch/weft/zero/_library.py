# SPDX-License-Identifier: BSD-3-Clause
"""libweft_zero and libweft by ctypes: the functions of weft/weft_zero.h that weft.zero calls, their structures, and failures.

libweft_zero is taken from beside the libweft that the adapter has loaded, so that both use one copy of it.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch

LIBRARY = "libweft_zero.so.0"

#: weft_zero_optimizer, by the names that the library has.
OPTIMIZERS = {"adamw": 1, "adam": 2, "sgd": 3, "lion": 4, "adagrad": 5, "callback": 6, "lamb": 7, "muon": 8}
#: weft_zero_state_dtype, by the names that the library has.
STATES = {"fp32": 0, "bf16": 1, "block8": 2}
#: weft_zero_what.
WEIGHT, GRAD, MOMENT1, MOMENT2 = 1, 2, 3, 4
FROZEN, WHOLE = 1, 2
#: weft_zero_reduce.
REDUCE_AUTO, REDUCE_EVERY = 0, 1
#: weft_dtype.
DTYPES = {torch.float16: 8, torch.bfloat16: 9, torch.float32: 10}
UINT8 = 1
#: weft_op.
MAX = 3

_size, _double, _int, _text, _pointer = ctypes.c_size_t, ctypes.c_double, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p


class Error(RuntimeError):
    """A call of libweft_zero or libweft failed. `status` is its weft_status, `name` that in words ("WEFT_EMISMATCH")."""

    def __init__(self, text: str, status: int = -1, name: str = "WEFT_EINVAL") -> None:
        super().__init__(text)
        self.status, self.name = status, name


class Config(ctypes.Structure):
    """weft_zero_config."""

    _fields_ = [
        ("bytes", _size), ("stage", _int), ("optimizer", _int), ("micro_batches", _int), ("reduce", _int), ("grad_fp32", _int),
        ("divisor", _double), ("clip", _double), ("loss_scale", _double), ("loss_scale_initial", _double),
        ("loss_scale_window", _int), ("loss_scale_hysteresis", _int), ("loss_scale_refill", _int), ("loss_scale_min", _double),
        ("threads", _int), ("overlap", _int), ("live_elems", _size), ("prefetch_elems", _size), ("reuse_elems", _size),
        ("persistent_elems", _size), ("gather_codec", _text), ("reduce_codec", _text), ("shard_ranks", _int), ("experts", _pointer),
        ("model", _pointer), ("secondary_ranks", _int), ("offload_folder", _text), ("offload_params", _int),
        ("offload_ratio", _double), ("offload_block_bytes", _size), ("offload_depth", _int), ("offload_buffer_bytes", _size),
        ("offload_buffered", _int), ("offload_threads", _int), ("update", _pointer), ("update_arg", _pointer),
        ("update_moments", _int), ("state_dtype", _int), ("offload_memory_bytes", _size),
        *((name, _text) for name in ("offload_weight_codec", "offload_moment1_codec", "offload_moment2_codec")),
    ]  # fmt: skip


class Param(ctypes.Structure):
    """weft_zero_param."""

    _fields_ = [
        ("bytes", _size), ("name", _text), ("dtype", _int), ("ndims", _int), ("shape", ctypes.POINTER(_size)),
        ("flags", ctypes.c_uint), ("group", _int), ("optimizer", _int), ("cut_elems", _size), ("save_name", _text),
    ]  # fmt: skip


class DsModel(ctypes.Structure):
    """weft_zero_ds_model."""

    _fields_ = [
        ("bytes", _size),
        *((name, ctypes.c_int64) for name in ("hidden_size", "train_batch_size", "micro_batch_size", "accumulation_steps",
                                              "warmup_steps", "total_steps")),
        *((name, _double) for name in ("lr", "beta1", "beta2", "eps", "weight_decay", "clip")),
        ("fp16", _int), ("bf16", _int),
    ]  # fmt: skip


class Hyper(ctypes.Structure):
    """weft_zero_hyper."""

    _fields_ = [
        ("bytes", _size), ("lr", _double), ("beta1", _double), ("beta2", _double), ("eps", _double), ("weight_decay", _double),
        ("momentum", _double), ("dampening", _double), ("nesterov", _int), ("maximize", _int), ("lr_decay", _double),
        ("max_coeff", _double), ("min_coeff", _double),
    ]  # fmt: skip


class Update(ctypes.Structure):
    """weft_zero_update."""

    _fields_ = [
        ("bytes", _size), ("param", _int), ("first", _size), ("elems", _size),
        *((name, _pointer) for name in ("weight", "moment1", "moment2", "grad", "hyper")), ("step", ctypes.c_uint64),
    ]  # fmt: skip


#: weft_zero_update_fn.
UPDATE = ctypes.CFUNCTYPE(None, _pointer, ctypes.POINTER(Update))


class StepInfo(ctypes.Structure):
    """weft_zero_step_info."""

    _fields_ = [
        ("bytes", _size), ("skipped", _int), ("norm", _double), ("factor", _double), ("loss_scale", _double),
        ("step", ctypes.c_uint64),
    ]  # fmt: skip


class Stats(ctypes.Structure):
    """weft_zero_stats."""

    _fields_ = [
        ("bytes", _size), ("param_bytes", _size), ("grad_bytes", _size), ("state_bytes", _size), ("gather_bytes", _size),
        ("reduce_bytes", _size), ("elems", _size), ("shard_elems", _size),
        *((name, ctypes.c_uint64) for name in ("gather_wait_ns", "reduce_wait_ns", "norm_ns", "update_ns", "copy_ns", "gathers",
                                               "prefetches", "reductions")),
        ("disk_bytes", _size), ("disk_buffer_bytes", _size),
        *((name, ctypes.c_uint64) for name in ("disk_read_bytes", "disk_written_bytes", "disk_read_wait_ns", "disk_write_wait_ns")),
        ("disk_uring", _int), ("disk_direct", _int), ("disk_fixed", _int), ("snapshot_wait_ns", ctypes.c_uint64),
        *((name, ctypes.c_uint64) for name in ("retraces", "step_update_ns", "step_stall_ns")),
        ("offload_bytes", _size), ("offload_held_bytes", _size),
        *((name, ctypes.c_uint64) for name in ("offload_taken", "offload_given", "offload_move_ns", "disk_raw_bytes",
                                               "disk_code_ns")),
    ]  # fmt: skip


class SaveOptions(ctypes.Structure):
    """weft_zero_save_options."""

    _fields_ = [
        ("bytes", _size), ("keep", _int), ("replace", _int), ("incremental", _int), ("direct", _int), ("client", _pointer),
        ("client_bytes", _size),
    ]  # fmt: skip


class SaveInfo(ctypes.Structure):
    """weft_zero_save_info."""

    _fields_ = [("bytes", _size), *((n, ctypes.c_uint64) for n in ("state_bytes", "written_bytes", "snapshot_ns", "total_ns"))]


class SaveStatus(ctypes.Structure):
    """weft_zero_save_status."""

    _fields_ = [("bytes", _size), ("phase", _int), ("done_bytes", ctypes.c_uint64), ("total_bytes", ctypes.c_uint64)]


class LoadInfo(ctypes.Structure):
    """weft_zero_load_info."""

    _fields_ = [
        ("bytes", _size), ("tag", _text), ("nranks", _int), ("step", ctypes.c_uint64), ("client", _pointer), ("client_bytes", _size)
    ]  # fmt: skip


class SpillConfig(ctypes.Structure):
    """weft_zero_spill_config."""

    _fields_ = [
        ("bytes", _size), ("folder", _text), ("block_bytes", _size), ("timeout_ns", ctypes.c_uint64),
        *((name, _int) for name in ("buffers", "depth", "buffered", "threads")),
    ]  # fmt: skip


class SpillStats(ctypes.Structure):
    """weft_zero_spill_stats."""

    _fields_ = [
        *((name, _size) for name in ("bytes", "items", "item_bytes", "file_bytes", "buffer_bytes")),
        *((name, ctypes.c_uint64) for name in ("written_bytes", "read_bytes", "put_wait_ns", "get_wait_ns")),
        ("uring", _int), ("direct", _int),
    ]  # fmt: skip


class UniqueId(ctypes.Structure):
    """weft_unique_id."""

    _fields_ = [("bytes", ctypes.c_char * 128)]


class _CommConfig(ctypes.Structure):
    _fields_ = [("bytes", _size), ("name", _text), ("timeout_ns", ctypes.c_uint64), ("init_timeout_ns", ctypes.c_uint64)]


#: Result and arguments; _int as a result is a weft_status.
_WEFT: dict[str, tuple[Any, list[Any]]] = {
    "weft_thread_error": (_text, []),
    "weft_status_name": (_text, [_int]),
    "weft_context_create": (_int, [_pointer, ctypes.POINTER(_pointer)]),
    "weft_context_check": (_int, [_pointer]),
    "weft_unique_id_create": (_int, [_pointer, ctypes.POINTER(UniqueId)]),
    "weft_comm_create_id": (
        _int, [_pointer, ctypes.POINTER(UniqueId), _int, _int, ctypes.POINTER(_CommConfig), ctypes.POINTER(_pointer)]
    ),
    "weft_comm_create_env": (_int, [_pointer, ctypes.POINTER(_CommConfig), ctypes.POINTER(_pointer)]),
    "weft_comm_rank": (_int, [_pointer, ctypes.POINTER(_int)]),
    "weft_comm_size": (_int, [_pointer, ctypes.POINTER(_int)]),
    "weft_comm_destroy": (_int, [_pointer]),
    "weft_broadcast": (_int, [_pointer, _pointer, _pointer, _size, _int, _int, _pointer]),
    "weft_all_reduce": (_int, [_pointer, _pointer, _pointer, _size, _int, _int, _pointer]),
    "weft_barrier": (_int, [_pointer, _pointer]),
}  # fmt: skip
_ZERO: dict[str, tuple[Any, list[Any]]] = {
    "weft_zero_create": (_int, [_pointer, ctypes.POINTER(Config), ctypes.POINTER(_pointer)]),
    "weft_zero_destroy": (_int, [_pointer]),
    "weft_zero_param_add": (_int, [_pointer, ctypes.POINTER(Param), ctypes.POINTER(_int)]),
    "weft_zero_unit_add": (_int, [_pointer, _text, ctypes.POINTER(_int), _int, ctypes.POINTER(_int)]),
    "weft_zero_seal": (_int, [_pointer]),
    "weft_zero_param_set": (_int, [_pointer, _int, _int, _pointer, _int]),
    "weft_zero_param_get": (_int, [_pointer, _int, _int, _pointer, _int]),
    "weft_zero_micro_batch_end": (_int, [_pointer]),
    "weft_zero_accumulate": (_int, [_pointer, _int]),
    "weft_zero_step": (_int, [_pointer, ctypes.POINTER(Hyper), _int, ctypes.POINTER(StepInfo)]),
    "weft_zero_set_step": (_int, [_pointer, ctypes.c_uint64]),
    "weft_zero_drop_gradients": (_int, [_pointer]),
    "weft_zero_offload_memory": (_int, [_pointer, _size]),
    "weft_zero_loss_scale": (_int, [_pointer, ctypes.POINTER(_double)]),
    "weft_zero_get_stats": (_int, [_pointer, ctypes.POINTER(Stats)]),
    "weft_zero_save": (_int, [_pointer, _text, _text, ctypes.POINTER(SaveOptions)]),
    "weft_zero_save_prepare": (_int, [_pointer]),
    "weft_zero_save_progress": (_int, [_pointer, ctypes.POINTER(SaveStatus)]),
    "weft_zero_save_wait": (_int, [_pointer, ctypes.c_uint64, ctypes.POINTER(SaveInfo)]),
    "weft_zero_load": (_int, [_pointer, _text, _text, ctypes.c_uint, ctypes.POINTER(LoadInfo)]),
    "weft_zero_spill_create": (_int, [ctypes.POINTER(SpillConfig), ctypes.POINTER(_pointer)]),
    "weft_zero_spill_put": (_int, [_pointer, _pointer, _size, ctypes.POINTER(ctypes.c_uint64)]),
    "weft_zero_spill_fetch": (_int, [_pointer, ctypes.c_uint64]),
    "weft_zero_spill_get": (_int, [_pointer, ctypes.c_uint64, _pointer, _size]),
    "weft_zero_spill_drop": (_int, [_pointer, ctypes.c_uint64]),
    "weft_zero_spill_get_stats": (_int, [_pointer, ctypes.POINTER(SpillStats)]),
    "weft_zero_spill_destroy": (_int, [_pointer]),
    "weft_zero_ds_config_read": (_int, [_text, _text, _int, _pointer, ctypes.POINTER(_pointer)]),
    "weft_zero_ds_config_free": (None, [_pointer]),
    "weft_zero_ds_config_engine": (ctypes.POINTER(Config), [_pointer]),
    "weft_zero_ds_config_hyper": (ctypes.POINTER(Hyper), [_pointer]),
    "weft_zero_ds_config_hyper_of_rest": (ctypes.POINTER(Hyper), [_pointer]),
    "weft_zero_ds_config_text": (_text, [_pointer]),
    "weft_zero_ds_config_warning": (_text, [_pointer, _int]),
}
#: What the adapter's ZeroUnit calls: ZeroCalls in csrc/zero.hpp.
_OF_UNITS = ("weft_zero_pre_forward", "weft_zero_pre_backward", "weft_zero_post_forward", "weft_zero_post_backward",
             "weft_zero_param_data", "weft_zero_grad_add")  # fmt: skip


class Library:
    """Both libraries. Functions raise Error when what they return is a failure."""

    def __init__(self) -> None:
        from .. import _C  # noqa: F401  the adapter loads libweft

        weft = _loaded("libweft")
        path = weft.with_name(LIBRARY)
        if not path.exists():  # auditwheel gives libraries names of their own
            path = next(iter(sorted(weft.parent.glob("libweft_zero*.so*"))), path)
        if not path.exists():
            raise ImportError(f"weft.zero: there is no {LIBRARY} beside {weft}: install weft and this package again, with ZeRO")
        self._weft, self._zero = ctypes.CDLL(str(weft)), ctypes.CDLL(str(path))
        self._functions = {name: self._declare(self._weft, name, *how) for name, how in _WEFT.items()}
        self._functions |= {name: self._declare(self._zero, name, *how) for name, how in _ZERO.items()}
        #: Of the functions that the adapter calls.
        self.addresses = [ctypes.cast(getattr(self._zero, name), _pointer).value or 0 for name in _OF_UNITS]

    @staticmethod
    def _declare(library: ctypes.CDLL, name: str, result: Any, arguments: list[Any]) -> Any:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        return function

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a weft_status.

        Raises:
            Error: it failed; the text is the library's.
        """
        status = self._functions[name](*arguments)
        if status < 0:
            self.fail(status)

    def fail(self, status: int) -> None:
        """Raise what the calling thread's newest failure was."""
        text = self._functions["weft_thread_error"]().decode(errors="replace")
        name = self._functions["weft_status_name"](status).decode()
        raise Error(f"weft.{text}" if text.startswith("zero:") else f"weft.zero: {text or name}", status, name)

    def result(self, name: str, *arguments: Any) -> Any:
        """Call a function, and return what it returns."""
        return self._functions[name](*arguments)


def _loaded(stem: str) -> Path:
    """The file of a library that this process has loaded: libweft.so.1, or libweft-0123abcd.so.1 as auditwheel names it."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = Path(line.split(maxsplit=5)[-1].strip())
            if path.name.startswith((f"{stem}.so", f"{stem}-")):
                return path
    raise ImportError(f"weft.zero: {stem} is not loaded, though the adapter is")


def comm_config(name: str) -> _CommConfig:
    """A weft_comm_config for a communicator of this name."""
    return _CommConfig(ctypes.sizeof(_CommConfig), name.encode(), 0, 0)


@functools.cache
def library() -> Library:
    """The two libraries, loaded once.

    Raises:
        ImportError: libweft_zero is not there, or the adapter cannot be loaded.
    """
    return Library()
