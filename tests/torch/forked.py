# SPDX-License-Identifier: BSD-3-Clause
"""Processes that have imported torch already: importing it takes seconds of a processor, a fork of who has it does not.

A `Server` is a process that imports torch, and nothing of weft that is compiled, and forks for each program that is asked for. A
child runs the program's file as the interpreter would have, and ends as it would: with its finalisation.
"""

from __future__ import annotations

import json
import os
import runpy
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path


class Process:
    """As subprocess.Popen, as far as the tests need it."""

    def __init__(self, server: Server, pid: int) -> None:
        self.server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        self.server.read(0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        until = time.monotonic() + timeout
        while self.returncode is None:
            left = until - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self.server.read(left)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """It is a zombie until its end was told, so that the number is not another process's."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Server:
    """Forks for who has started it, and ends with it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.children: dict[int, Process] = {}
        self.answers: list[int] = []
        self.rest = b""

    def start(self, argv: list[str], output: Path, environment: dict[str, str]) -> Process:
        """The program argv[0] with its arguments; what it prints goes to the file `output`."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps([argv, str(output), environment]).encode() + b"\n")
        until = time.monotonic() + 300
        while not self.answers:
            self.read(1)
            assert time.monotonic() < until, "the process that starts others says nothing"
        pid = self.answers.pop(0)
        self.children[pid] = Process(self, pid)
        return self.children[pid]

    def read(self, timeout: float) -> None:
        """What the server tells meanwhile: children that it has started ("+PID"), and how others have ended ("PID STATUS")."""
        assert self.process.stdout
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            if not waiting.select(timeout):
                return
        got = os.read(self.process.stdout.fileno(), 65536)
        if not got:
            raise RuntimeError("the process that starts others has ended")
        *lines, self.rest = (self.rest + got).split(b"\n")
        for line in lines:
            if line.startswith(b"+"):
                self.answers.append(int(line[1:]))
            else:
                pid, status = map(int, line.split())
                self.children.pop(pid).returncode = os.waitstatus_to_exitcode(status)


_servers: list[Server] = []


def start(argv: list[str], output: Path, environment: dict[str, str]) -> Process:
    """By the server of this process, which is started now if there is none."""
    if not _servers:
        _servers.append(Server())
    return _servers[0].start(argv, output, environment)


# ---- The server's own side ----


def _serve() -> list[str]:
    """Fork for each line of the standard input. In a child: the program to run. In the server: [], at the end of the input."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(reading, selectors.EVENT_READ)
    rest = b""
    alive: set[int] = set()
    while True:
        ready = {key.fd for key, _ in waiting.select()}
        if reading in ready:
            os.read(reading, 4096)
        for pid in list(alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                alive.remove(pid)
                os.write(1, b"%d %d\n" % (pid, status))
        if 0 not in ready:
            continue
        got = os.read(0, 65536)
        if not got:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            return []
        *lines, rest = (rest + got).split(b"\n")
        for line in lines:
            argv, output, environment = json.loads(line)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for fd in (reading, writing):
                    os.close(fd)
                waiting.close()
                nothing = os.open(os.devnull, os.O_RDONLY)
                file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.dup2(nothing, 0)
                os.dup2(file, 1)
                os.dup2(file, 2)
                os.environ.clear()
                os.environ.update(environment)
                sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
                return list(argv)
            alive.add(pid)
            os.write(1, b"+%d\n" % pid)


if __name__ == "__main__":
    import torch.distributed as dist

    argv = _serve()
    if argv:
        dist.set_debug_level_from_env()
        sys.argv[:] = argv
        sys.path[0] = str(Path(argv[0]).parent)
        runpy.run_path(argv[0], run_name="__main__")
