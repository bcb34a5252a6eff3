# SPDX-License-Identifier: BSD-3-Clause
"""Load PyTorch's own DistributedTest from the installed wheel, with its gates opened for one backend.

Many tests of the suite are skipped by the backend's name ("Only MPI supports all_to_all"). The text of
distributed_test.py is read from the wheel, those comparisons are widened, and the result is executed under its own
module name. Nothing of PyTorch is copied into this repository. The same text runs for every backend, so two backends
are always compared on equal terms.
"""

import importlib.util
import os
import re
import sys
import types

import torch.distributed

MODULE = "weft_opened_distributed_test"

# A comparison of BACKEND with these names closes a test that a CPU backend may well pass. What is gated on "nccl"
# needs a CUDA device anyway and stays as it is.
BUILT_IN = ("gloo", "mpi", "nccl", "ucc")
OPENED = ("gloo", "mpi")

_GATES = [
    (re.compile(r'if BACKEND == "mpi" or BACKEND == "gloo":'), 'if BACKEND in ("mpi", "gloo", BACKEND):'),
    # torch.distributed refuses monitored_barrier for every name but "gloo"; weft has its own.
    (re.compile(r"\bdist\.monitored_barrier\("), "monitored_barrier("),
    # DDP's C++ logger calls every backend that is not PyTorch's own "custom".
    (re.compile(r'(ddp_logging_data\.get\("backend_name"\)), dist\.get_backend\(group_id\)'), r"\1, LOGGED_NAME"),
    (re.compile(rf'BACKEND != "({"|".join(OPENED)})"'), r'BACKEND not in ("\1", BACKEND)'),
    (re.compile(r'@require_backend_is_available\(\{"gloo"\}\)'), "@require_backend_is_available({BACKEND})"),
]


def _feature_gates(backend: str) -> None:
    """Declare that `backend` has every feature that the suite asks about by name."""
    from torch.testing._internal.common_distributed import DistTestCases

    for names in DistTestCases.backend_feature.values():
        names.add(backend)


def _monitored_barrier(backend: str):
    if backend in BUILT_IN:
        return torch.distributed.monitored_barrier
    import weft

    return weft.monitored_barrier


def open_gates(text: str) -> str:
    """Return the suite's text with the gates open; a gate that is not found any more is an error."""
    for pattern, replacement in _GATES:
        text, found = pattern.subn(replacement, text)
        if not found:
            raise RuntimeError(f"distributed_test.py of this torch has no gate like {pattern.pattern!r}: adapt {__file__}")
    return text


def load(backend: str, world: int) -> types.ModuleType:
    """Execute the suite for `backend` at `world` ranks. The environment of this process is changed for good."""
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(world))
    _feature_gates(backend)
    spec = importlib.util.find_spec("torch.testing._internal.distributed.distributed_test")
    with open(spec.origin) as source:
        text = open_gates(source.read())
    module = types.ModuleType(MODULE)
    module.__file__ = spec.origin
    sys.modules[MODULE] = module
    module.monitored_barrier = _monitored_barrier(backend)
    module.LOGGED_NAME = backend if backend in BUILT_IN else "custom"
    exec(compile(text, spec.origin, "exec"), module.__dict__)
    for supported in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS",
                      "CUDA_PROFILING_SUPPORTED_BACKENDS"):
        module.__dict__[supported].append(backend)
    # The suite's file barrier gives up after ten seconds, which a busy machine needs now and then.
    module.Barrier.sync.__func__.__defaults__ = (None, 60)
    return module
