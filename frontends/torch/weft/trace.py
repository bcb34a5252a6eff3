# SPDX-License-Identifier: BSD-3-Clause
"""Recording of operations: on unless TORCH_FR_BUFFER_SIZE=0; here it is turned off and on again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["clear", "is_on", "off", "on", "paused"]


def on() -> None:
    """Write operations down from now on."""
    from . import _C

    _C.set_recording(True)


def off() -> None:
    """Write nothing down from now on; what was written stays."""
    from . import _C

    _C.set_recording(False)


def is_on() -> bool:
    """Are operations being written down?"""
    from . import _C

    return bool(_C.recording())


def clear() -> None:
    """Forget what was written down. No operation may be under way."""
    from . import _C

    _C.clear_record()


@contextmanager
def paused() -> Iterator[None]:
    """Nothing is written down inside."""
    was = is_on()
    off()
    try:
        yield
    finally:
        if was:
            on()
