# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that fail: every other rank gets an exception in time that names the culprit, the operation, its number and the line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
import ranks  # noqa: E402

TIMEOUT = 3 * ranks.SLOW  # seconds, of the groups here
SIZE = 3
CULPRIT = 1


# ---- What a rank does; the culprit's part is first ----


def _computes() -> None:
    """Until the others have told what became of them."""
    others = [ranks.arguments().folder / f"outcome.{r}" for r in range(SIZE) if r != CULPRIT]
    until = time.monotonic() + 20 * TIMEOUT
    while not all(path.exists() for path in others) and time.monotonic() < until:
        time.sleep(0.02)


def skips(rank: int) -> None:
    """The culprit leaves one all_reduce out and computes instead."""
    if rank == CULPRIT:
        _computes()
        return
    _all_reduce_here()


def skips_async(rank: int) -> None:
    """The same; the others wait for it later, elsewhere."""
    import torch
    import torch.distributed as dist

    if rank == CULPRIT:
        _computes()
        return
    work = dist.all_reduce(torch.ones(1000), async_op=True)  # THE LINE
    work.wait()


def other_shape(rank: int) -> None:
    """The culprit reduces another number of elements."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(7 if rank == CULPRIT else 1000))  # THE LINE


def other_operation(rank: int) -> None:
    """The culprit broadcasts what the others reduce."""
    import torch
    import torch.distributed as dist

    if rank == CULPRIT:
        dist.broadcast(torch.ones(1000), 0)
        return
    dist.all_reduce(torch.ones(1000))  # THE LINE


def is_killed(rank: int) -> None:
    """The culprit dies."""
    if rank == CULPRIT:
        os.kill(os.getpid(), signal.SIGKILL)
    _all_reduce_here()


def is_stopped(rank: int) -> None:
    """The culprit stops; it is continued by the parent at the end."""
    if rank == CULPRIT:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    _all_reduce_here()


def never_sends(rank: int) -> None:
    """The others receive from the culprit, which sends nothing."""
    import torch
    import torch.distributed as dist

    if rank == CULPRIT:
        _computes()
        return
    dist.recv(torch.ones(10), CULPRIT)  # THE LINE


def aborts(rank: int) -> None:
    """The culprit gives up; nobody waits for the deadline."""
    import torch
    import torch.distributed as dist

    if rank == CULPRIT:
        dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).abort()
        _computes()
        return
    _all_reduce_here()


def _all_reduce_here() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1000))  # THE LINE


# Words that the exception of the other ranks must hold, and whether it must come before the deadline.
SCENARIOS = {
    skips: (["all_reduce", "rank 1", "sequence number 4"], False),
    skips_async: (["all_reduce", "rank 1", "sequence number 4", "issued at", "faults.py"], False),
    other_shape: (["all_reduce", "sequence number 4"], True),
    other_operation: (["all_reduce", "sequence number 4"], True),
    is_killed: (["all_reduce", "rank 1", "sequence number 4"], True),
    is_stopped: (["all_reduce", "rank 1", "sequence number 4"], False),
    never_sends: (["recv", "rank 1"], False),
    aborts: (["all_reduce", "rank 1", "sequence number 4"], True),
}


def child(rank: int, folder: Path, scenario: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), SIZE)
    dist.init_process_group("weft", store=store, rank=rank, world_size=SIZE, timeout=timedelta(seconds=TIMEOUT))
    for _ in range(3):
        dist.all_reduce(torch.ones(1000))
    # All have finished: a rank may still be in the last one when another has left it and ends.
    store.set(f"begun/{rank}", "")
    store.wait([f"begun/{r}" for r in range(SIZE)])
    begun = time.monotonic()
    text = ""
    try:
        next(s for s in SCENARIOS if s.__name__ == scenario)(rank)
    except RuntimeError as error:
        import traceback

        line = next((f.line or "" for f in reversed(traceback.extract_tb(error.__traceback__)) if "faults.py" in f.filename), "")
        text = f"{error}\nraised from: {line}"
    took = time.monotonic() - begun
    (folder / f"outcome.{rank}").write_text(f"{took:.2f}\n{text}")
    begun = time.monotonic()
    dist.destroy_process_group()
    assert time.monotonic() - begun < 10 * ranks.SLOW, "destroy_process_group took too long"


def judge(folder: Path, words: list[str], early: bool) -> list[str]:
    """What is wrong with what the other ranks report."""
    problems = []
    all_texts = []
    for rank in range(SIZE):
        if rank == CULPRIT:
            continue
        outcome = folder / f"outcome.{rank}"
        if not outcome.exists():
            problems.append(f"rank {rank} reports nothing")
            continue
        took, _, text = outcome.read_text().partition("\n")
        all_texts.append(text)
        if not text:
            problems.append(f"rank {rank}: no exception")
            continue
        problems += [f"rank {rank} does not say {w!r}: {text}" for w in words if w not in text]
        if float(took) > TIMEOUT + 4 * ranks.SLOW:
            problems.append(f"rank {rank} took {took} s, the deadline is {TIMEOUT} s")
        if early and float(took) > 0.9 * TIMEOUT:
            problems.append(f"rank {rank} took {took} s, and need not have waited for the deadline")
        if "THE LINE" not in text and "issued at" not in text:
            problems.append(f"rank {rank} does not lead to the line: {text}")
    return problems


def run(scenario: str, words: list[str], early: bool) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="weft-torch-") as name:
        folder = Path(name)
        processes = ranks.start(["--scenario", scenario], folder, SIZE)
        others = [p for r, p in enumerate(processes) if r != CULPRIT]
        in_time = ranks.wait(others, 60 * ranks.SLOW)
        if processes[CULPRIT].poll() is None:
            processes[CULPRIT].send_signal(signal.SIGCONT)
        in_time = ranks.wait([processes[CULPRIT]], 30 * ranks.SLOW) and in_time
        problems = judge(folder, words, early) + ([] if in_time else ["a rank hung"])
        problems += [f"a rank ended with {p.returncode}" for p in others if p.returncode]
        if problems:
            ranks.show(folder, SIZE, 25)
        return problems


# ---- Ctrl-C ----


def interrupted() -> list[str]:
    """SIGINT to ranks inside a collective that will never complete ends them at once, long before the deadline."""
    problems = []
    for call in ("dist.all_reduce(torch.ones(1000))", "dist.all_reduce(torch.ones(1000), async_op=True).wait()",
                 "dist.recv(torch.ones(1), 1)"):  # fmt: skip
        program = f"""
import sys, torch, torch.distributed as dist
dist.init_process_group("weft", store=dist.FileStore(sys.argv[1], 2), rank=int(sys.argv[2]), world_size=2)
dist.all_reduce(torch.ones(1000)); dist.all_reduce(torch.ones(1000))
print("ready", flush=True)
if dist.get_rank() == 1:
    sys.stdin.read()
else:
    {call}
"""
        with tempfile.TemporaryDirectory(prefix="weft-torch-") as name:
            processes = [
                subprocess.Popen([sys.executable, "-c", program, f"{name}/store", str(r)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(2)
            ]  # fmt: skip
            for p in processes:
                assert p.stdout and p.stdout.readline() == "ready\n", p.communicate()
            time.sleep(1)
            begun = time.monotonic()
            processes[0].send_signal(signal.SIGINT)
            try:
                _, errors = processes[0].communicate(timeout=15 * ranks.SLOW)
                if "KeyboardInterrupt" not in errors:
                    problems.append(f"{call}: no KeyboardInterrupt: {errors}")
                if time.monotonic() - begun > 5 * ranks.SLOW:
                    problems.append(f"{call}: took {time.monotonic() - begun:.1f} s")
            except subprocess.TimeoutExpired:
                problems.append(f"{call}: goes on after SIGINT")
                processes[0].kill()
                processes[0].communicate()
            processes[1].kill()
            processes[1].communicate()
    return problems


def main() -> None:
    args = ranks.arguments()
    if args.rank is not None:
        child(args.rank, args.folder, args.scenario)
        return
    failed = 0
    cases = [(s.__name__, lambda s=s, w=w, e=e: run(s.__name__, w, e)) for s, (w, e) in SCENARIOS.items()]
    cases = [c for c in [*cases, ("interrupted", interrupted)] if args.only in c[0]]
    for i, (name, case) in enumerate(cases):
        problems = case()
        print(f"{'not ok' if problems else 'ok'} {i + 1} - a rank {name.replace('_', ' ')}", flush=True)
        for problem in problems:
            print("# " + problem.replace("\n", "\n# "))
        failed += bool(problems)
    print(f"1..{len(cases)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
