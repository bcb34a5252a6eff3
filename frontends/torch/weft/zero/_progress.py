# SPDX-License-Identifier: BSD-3-Clause
"""A line about a save or a load that takes long, on rank 0's standard error."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from . import _library

if TYPE_CHECKING:
    from ._core import Core

#: Seconds before the first line, between looks, and between lines where they cannot be rewritten.
FIRST, LOOK, BETWEEN = 2.0, 0.25, 10.0
_PHASES = ("", "copying", "comparing", "writing", "committing", "verifying", "reading")  # weft_zero_save_phase
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def _size(count: float) -> str:
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.{1 if unit else 0}f} {_UNITS[unit]}"


class Progress:
    """Says in a block, from a thread of its own, how far the engine's save or load is; nothing if the block takes less than FIRST.

    Args:
        core: the engine's.
        what: "saving ck/global_step5".
        enabled: False, or another rank than 0: nothing is said.
    """

    def __init__(self, core: Core, what: str, enabled: bool) -> None:
        self._core, self._what = core, what
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True) if enabled and core.comm.rank == 0 else None
        self._began = time.monotonic()
        self._width = 0  # of the line on the terminal

    def __enter__(self) -> None:
        if self._thread:
            self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._thread:
            self._ended.set()
            self._thread.join()
            if self._width:
                self._say("failed" if kind else "done", True)

    def _line(self) -> str:
        status = _library.SaveStatus(ctypes.sizeof(_library.SaveStatus))
        self._core.lib.call("weft_zero_save_progress", self._core.handle, ctypes.byref(status))
        if not status.total_bytes:
            return "agreeing"
        share = 100 * status.done_bytes // status.total_bytes
        return f"{_PHASES[status.phase]} {_size(status.done_bytes)} of {_size(status.total_bytes)} on rank 0, {share} %"

    def _say(self, text: str, last: bool = False) -> None:
        line = f"weft.zero: {self._what}: {text}, {time.monotonic() - self._began:.0f} s"
        stream = sys.stderr
        if stream is None:  # a program without a console
            return
        try:
            stream.write("\r" + line.ljust(self._width) + ("\n" if last else "") if stream.isatty() else line + "\n")
            stream.flush()
        except (OSError, ValueError):  # it is closed: that is no reason not to save
            return
        self._width = len(line)

    def _run(self) -> None:
        wait = FIRST
        while not self._ended.wait(wait):
            self._say(self._line())
            wait = LOOK if sys.stderr is not None and sys.stderr.isatty() else BETWEEN
