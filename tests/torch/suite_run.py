# SPDX-License-Identifier: BSD-3-Clause
"""Run tests of PyTorch's DistributedTest for one backend and one world size in forked ranks.

PyTorch's harness starts every rank of every test in a fresh interpreter, which takes seconds each time. Here torch and
the suite are imported once, and ranks are forked from that process; everything else (the harness, its exit codes,
its time-outs) is PyTorch's own.
"""

import json
import os
import re
import sys
import time
import unittest
from dataclasses import asdict, dataclass

import suite_load


@dataclass
class Outcome:
    """What one test did: state is passed, failed or skipped; reason is the skip's reason or the error's text."""

    name: str
    state: str
    reason: str = ""
    seconds: float = 0.0


class _Collect(unittest.TestResult):
    """Send each outcome down a pipe as soon as it is known."""

    def __init__(self, sink, log_of):
        super().__init__()
        self._sink, self._log_of = sink, log_of

    def startTest(self, test):
        super().startTest(test)
        self._start, self._said = time.monotonic(), False

    def _say(self, test, state, reason=""):
        if self._said:
            return
        self._said = True
        outcome = Outcome(test._testMethodName, state, reason, round(time.monotonic() - self._start, 2))
        self._sink.write(json.dumps(asdict(outcome)) + "\n")
        self._sink.flush()

    def addSuccess(self, test):
        self._say(test, "passed")

    def addSkip(self, test, reason):
        self._say(test, "skipped", reason)

    def addFailure(self, test, err):
        reason = f"{err[0].__name__}: {err[1]}"
        self._say(test, "failed", reason + "\n" + self._log_of(test._testMethodName))

    addError = addFailure


def _log_tail(path: str, limit: int = 20000) -> str:
    """The ranks' output without the logger's prefixes and hints."""
    try:
        with open(path, errors="replace") as log:
            lines = log.read()[-limit:].splitlines()
    except FileNotFoundError:
        return ""
    lines = [re.sub(r"^\[rank(\d+)\]:.*?common_distributed\.py:\d+\] ", r"[\1] ", line) for line in lines]
    noise = ("To execute this test", "python distributed_test.py", "PYTORCH_PRINT_REPRO", " exiting process ")
    return "\n".join(line for line in lines if line[4:].strip() and not any(word in line for word in noise))


def _test_class(module, log_of, seconds):
    import torch.multiprocessing as mp
    from torch.testing._internal import common_distributed as harness

    harness.TIMEOUT_DEFAULT = seconds

    class TestOpened(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(mp.get_context("fork").Process)

        def tearDown(self):
            for process in self.processes:
                process.kill()
            for process in self.processes:
                process.join()
            super().tearDown()

        @classmethod
        def _run(cls, rank, test_name, file_name, pipe, **kwargs):
            log = os.open(log_of(test_name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            super()._run(rank, test_name, file_name, pipe, **kwargs)

    return TestOpened


def names(module) -> list[str]:
    """All tests of the suite, in its own order of definition."""
    base = module.DistributedTest._DistTestBase
    return [name for name in vars(base) if name.startswith("test_")]


def serve(backend: str, world: int, wanted, sink, logs: str, seconds: int) -> None:
    """Run in this process the tests that `wanted(names)` picks, writing an Outcome as a JSON line to `sink` for each.

    `logs` is a folder for the ranks' output, `seconds` how long one test may take.
    """

    def log_of(name):
        return os.path.join(logs, f"{backend}-{world}-{name}.log")

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    module = suite_load.load(backend, world)
    cls = _test_class(module, log_of, seconds)
    cls.__module__ = suite_load.MODULE
    result = _Collect(sink, lambda name: _log_tail(log_of(name)))
    cls.setUpClass()
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    for name in wanted(names(module)):
        cls(name).run(result)
    cls.tearDownClass()
