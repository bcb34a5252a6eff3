# SPDX-License-Identifier: BSD-3-Clause
"""Run a function on forked ranks of one backend and bring back what each rank returned.

The process that calls this has imported torch and started no thread of its own, so that ranks can be forked in
milliseconds. A rank's output is kept and shown only when it failed; every run has a deadline.
"""

import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist


class RanksFailed(Exception):
    """Some rank raised, died or did not end in time; the text says which and shows its output."""


def _rank_main(fn, backend, rank, world, folder, timeout):
    torch.set_num_threads(1)
    torch.manual_seed(1234)
    dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=world,
                            timeout=timedelta(seconds=timeout))
    result = fn(rank, world)
    with open(f"{folder}/result{rank}", "wb") as out:
        pickle.dump(result, out)
    dist.barrier()
    dist.destroy_process_group()


def _child(fn, backend, rank, world, folder, timeout):
    """Never returns: a forked child must not run the parent's clean-up."""
    status = 1
    try:
        log = os.open(f"{folder}/log{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        _rank_main(fn, backend, rank, world, folder, timeout)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pids, deadline):
    """Wait for all; return {rank: status} with None for those that had to be killed."""
    left, status = dict(enumerate(pids)), {}
    while left and time.monotonic() < deadline:
        for rank, pid in list(left.items()):
            done, how = os.waitpid(pid, os.WNOHANG)
            if done:
                status[rank] = os.waitstatus_to_exitcode(how)
                del left[rank]
                if status[rank]:  # the others wait for a rank that is gone: give them a moment to say so
                    deadline = min(deadline, time.monotonic() + 10)
        time.sleep(0.01)
    for rank, pid in left.items():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        status[rank] = None
    return status


def run(fn, backend: str, world: int, deadline: float = 120, timeout: float = 60) -> list:
    """Call fn(rank, world) on `world` ranks of `backend`; return their results. Raises RanksFailed."""
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                _child(fn, backend, rank, world, folder, timeout)
            pids.append(pid)
        status = _wait(pids, time.monotonic() + deadline)
        bad = {rank: how for rank, how in status.items() if how != 0}
        if bad:
            text = []
            for rank, how in sorted(bad.items()):
                with open(f"{folder}/log{rank}", errors="replace") as log:
                    text.append(f"rank {rank} {'did not end in time' if how is None else f'ended with {how}'}:\n"
                                + log.read()[-3000:])
            raise RanksFailed("\n".join(text))
        results = []
        for rank in range(world):
            with open(f"{folder}/result{rank}", "rb") as result:
                results.append(pickle.load(result))
        return results
