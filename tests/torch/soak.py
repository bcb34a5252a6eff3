#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Long use of weft through torch.distributed: nothing grows, nothing hangs, Ctrl-C ends the program.

    soak.py                      1,000 cycles of init and destroy, 24,000 mixed operations, Ctrl-C
    soak.py --cycles 50 --operations 2000 --only cycles
"""

import argparse
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("OMP_NUM_THREADS", "1")

GROWTH_KB = 6 * 1024  # over nine tenths of the run; a leak of a kilobyte a cycle is found in a thousand
CTRL_C_SECONDS = 3.0 * int(os.environ.get("WEFT_TEST_SLOW", "1"))


def usage():
    """(resident kilobytes, open descriptors, threads) of this process."""
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") // 1024, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def check_growth(before, after, what):
    kilobytes, descriptors, threads = (b - a for a, b in zip(before, after, strict=True))
    assert kilobytes < GROWTH_KB, f"{what}: resident memory grew by {kilobytes} KB, {before} to {after}"
    assert descriptors <= 2, f"{what}: {descriptors} more descriptors, {before} to {after}"
    assert threads <= 1, f"{what}: {threads} more threads, {before} to {after}"
    return f"memory {before[0] // 1024} -> {after[0] // 1024} MB, descriptors {before[1]} -> {after[1]}"


def cycles(count, backend, rank, world):
    """init_process_group, a few operations, destroy_process_group, `count` times in one process."""
    import torch
    import torch.distributed as dist

    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    dist.destroy_process_group()

    def begin(cycle):  # a file of its own for each: a FileStore keeps every key that was ever set in memory
        store = dist.FileStore(f"{folder[0]}/{cycle}", world)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world)

    before = None
    for cycle in range(count):
        begin(cycle)
        t = torch.full((1000,), float(rank + 1))
        dist.all_reduce(t)
        assert t[0].item() == world * (world + 1) / 2
        pair = dist.new_group([0, 1]) if cycle % 10 == 0 else None
        if pair is not None and rank < 2:
            dist.broadcast(t, src=0, group=pair)
        dist.destroy_process_group()
        if cycle == count // 10:
            before = usage()
    says = check_growth(before, usage(), "cycles")
    begin(count)
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
    return says


def one_operation(i, group, rank, world, mine):
    """The i-th of the mixed operations, checked; every rank calls the same."""
    import torch
    import torch.distributed as dist

    size, kind = (1, 17, 1000, 40000)[i // 8 % 4], i % 8
    value = float(i % 50 + rank)
    total = float(world * (i % 50) + world * (world - 1) // 2)
    t = mine[: size * world].fill_(value)
    if kind in (0, 1):
        work = dist.all_reduce(t, group=group, async_op=True)
        if kind:
            del work  # given up on purpose: the operation must end all the same
            dist.barrier(group)
        else:
            work.wait()
            assert t[-1].item() == total, (i, t[-1], total)
    elif kind == 2:
        out = torch.empty(size * world)
        dist.all_gather_into_tensor(out, t[:size], group=group)
        assert out[-1].item() == i % 50 + world - 1
    elif kind == 3:
        out = torch.empty(size)
        dist.reduce_scatter_tensor(out, t, group=group)
        assert out[0].item() == total
    elif kind == 4:
        out = torch.empty(size * world)
        dist.all_to_all_single(out, t, group=group)
        assert out[-1].item() == i % 50 + world - 1
    elif kind == 5:
        dist.broadcast(t, src=i % world, group=group)
        assert t[0].item() == i % 50 + i % world
    elif kind == 6:
        got = torch.empty(size)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, t[:size], (rank + 1) % world, group),
                                            dist.P2POp(dist.irecv, got, (rank - 1) % world, group)]):
            work.wait()
        assert got[0].item() == i % 50 + (rank - 1) % world
    else:
        things = [None] * world
        dist.all_gather_object(things, (rank, i), group=group)
        assert things == [(r, i) for r in range(world)]


def mixed(count, backend, rank, world):
    """`count` operations by four threads, each on its own group over all ranks."""
    import torch
    import torch.distributed as dist

    threads_of = 4
    groups = [dist.new_group() for _ in range(threads_of)]
    errors = []

    def work(group, begin, end):
        mine = torch.empty(40000 * world)
        try:
            for i in range(begin, end):
                one_operation(i, group, rank, world, mine)
        except BaseException as error:
            errors.append(error)

    def all_threads(begin, end):
        threads = [threading.Thread(target=work, args=(group, begin, end)) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    each = count // threads_of
    all_threads(0, each // 10)
    before = usage()
    all_threads(each // 10, each)
    return check_growth(before, usage(), "mixed operations")


CTRL_C_PROGRAM = """
import os, sys, torch, torch.distributed as dist
rank, folder, backend, how = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=2)
t = torch.ones(100)
dist.all_reduce(t)
if rank == 1:
    print("alone", flush=True)
    sys.stdin.read()   # never joins; ended by the test
    os._exit(0)
print("waiting", flush=True)
if how == "blocking":
    dist.all_reduce(t)
elif how == "wait":
    dist.all_reduce(t, async_op=True).wait()
elif how == "recv":
    dist.recv(t, 1)
else:
    dist.barrier()
print("went on", flush=True)
"""


def ctrl_c(backend):
    """Send SIGINT to a rank that waits for another; it must end at once, with KeyboardInterrupt or by the signal."""
    says = []
    for how in ("blocking", "wait", "recv", "barrier"):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-c", CTRL_C_PROGRAM, str(rank), folder, backend, how],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for rank in range(2)]
            try:
                said = ranks[0].stdout.readline().strip()
                assert said == "waiting", f"rank 0 said {said!r}: {ranks[0].stderr.read()}"
                _wait_until_idle(ranks[0].pid)
                start = time.monotonic()
                ranks[0].send_signal(signal.SIGINT)
                out, err = ranks[0].communicate(timeout=60)
                seconds = time.monotonic() - start
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.wait()
        assert "went on" not in out, f"{how}: the operation ended although rank 1 never called it"
        assert ranks[0].returncode in (-signal.SIGINT, 130, 1), f"{how}: exit status {ranks[0].returncode}: {err}"
        assert seconds < CTRL_C_SECONDS, f"{how}: {seconds:.1f} s from Ctrl-C to the end: {err}"
        says.append(f"{how} {seconds:.2f} s")
    return ", ".join(says)


def _wait_until_idle(pid):
    """Until the process has sat in the operation for a while: its processor time stands still, or half a second passed."""
    deadline = time.monotonic() + 0.5

    def ticks():
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[11:13]

    last = None
    while time.monotonic() < deadline and ticks() != last:
        last = ticks()
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--operations", type=int, default=24000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", default="", help="cycles, mixed or ctrl_c")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    from integration_ranks import RanksFailed, run

    def ranks(fn, count, deadline):
        return run(functools.partial(fn, count, options.backend), options.backend, options.ranks, deadline)[0]

    parts = {
        "cycles": (f"{options.cycles} cycles", lambda: ranks(cycles, options.cycles, 120 + options.cycles)),
        "mixed": (f"{options.operations} operations", lambda: ranks(mixed, options.operations, 120 + options.operations / 20)),
        "ctrl_c": ("Ctrl-C", lambda: ctrl_c(options.backend)),
    }
    failed = 0
    chosen = [part for name, part in parts.items() if re.search(options.only, name)]
    print(f"1..{len(chosen)}", flush=True)
    for title, part in chosen:
        start = time.monotonic()
        try:
            print(f"ok - {title}: {part()} ({time.monotonic() - start:.0f} s)", flush=True)
        except (AssertionError, RanksFailed, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"not ok - {title}: {error} ({time.monotonic() - start:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
