# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C while the main thread is inside a blocking call of the library.

Python's own handler only sets a flag, which nobody looks at meanwhile; but it writes to a descriptor that
signal.set_wakeup_fd names. A thread reads from that and, where SIGINT would raise KeyboardInterrupt, ends the call. A handler
of the user's is left to run when the call ends, as ever.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

_watched = (0, -1)  # by which process, and the descriptor that is written to


def _listen(fd: int, interrupt: Callable[[], None]) -> None:
    while signals := os.read(fd, 64):
        if signal.SIGINT in signals and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            interrupt()


def watch(interrupt: Callable[[], None], announce: Callable[[int], None]) -> None:
    """Begin to watch, once per process; only the main thread may ask for it.

    Args:
        interrupt: called in a thread of its own when Ctrl-C has been pressed.
        announce: called with the descriptor, which a child of fork() must not write to.
    """
    global _watched
    process, fd = _watched
    if threading.current_thread() is not threading.main_thread() or process == os.getpid():
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _watched = (os.getpid(), writing)
    if before >= 0 and before != fd:  # somebody else needs it, an event loop for one
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
        return
    announce(writing)
    threading.Thread(target=_listen, args=(reading, interrupt), name="weft_signals", daemon=True).start()
