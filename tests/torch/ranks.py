# SPDX-License-Identifier: BSD-3-Clause
"""Ranks for tests of the PyTorch backend: the same program again, once for each rank, under a deadline.

A test file defines functions and ends with `ranks.main(cases)`. Run without arguments it starts the ranks and prints TAP; what
a rank prints is shown when a case has failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import forked

SLOW = int(os.environ.get("WEFT_TEST_SLOW", "1"))


class Groups:
    """What a case gets: the weft group, a Gloo group of the same ranks to compare with, and this rank's place."""

    def __init__(self, rank: int, size: int) -> None:
        import torch.distributed as dist

        self.rank, self.size = rank, size
        self.gloo = dist.new_group(backend="gloo")
        self.weft = dist.new_group(backend="weft")

    def renew(self) -> None:
        """Another weft group: a case has failed, and may have broken the one before."""
        import torch.distributed as dist

        self.weft = dist.new_group(backend="weft")


class Skipped(Exception):
    """Raised by a case, on all ranks: what it needs is not there. Its text says what; the case is reported as skipped."""


Case = Callable[[Groups], None]


def _child(rank: int, size: int, folder: Path, cases: list[Case], seconds: float) -> None:
    import faulthandler

    import torch
    import torch.distributed as dist

    faulthandler.dump_traceback_later(max(seconds - 8, 1))  # where it hangs, before it is killed
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), size)
    dist.init_process_group("weft", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60 * SLOW))
    groups = Groups(rank, size)
    results = open(folder / f"results.{rank}", "w", buffering=1)
    for case in cases:
        problem = skipped = ""
        try:
            case(groups)
        except Skipped as why:
            skipped = f" # SKIP {why}"
        except Exception:  # noqa: BLE001 - every failure is the case's
            problem = traceback.format_exc()
            print(f"{case.__name__} on rank {rank}:\n{problem}", flush=True)
        everywhere: list[str] = [""] * size
        dist.all_gather_object(everywhere, problem, group=groups.gloo)
        failed = [r for r in range(size) if everywhere[r]]
        print(f"{'not ok' if failed else 'ok'} {case.__name__}{'' if failed else skipped}", file=results)
        if failed:
            groups.renew()
    dist.barrier()
    dist.destroy_process_group()
    print("end", file=results)


def start(arguments: list[str], folder: Path, size: int, environment: dict[str, str] | None = None) -> list[forked.Process]:
    """The calling program with `--rank r --size size --folder folder` and `arguments`, for every rank."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **(environment or {})}
    common = ["--size", str(size), "--folder", str(folder), *arguments]
    return [forked.start([sys.argv[0], "--rank", str(r), *common], folder / f"output.{r}", env) for r in range(size)]


def wait(processes: list[forked.Process], seconds: float) -> bool:
    """Wait for all of them; those that live at the deadline are killed. False: there were such."""
    until = time.monotonic() + seconds
    late = False
    for p in processes:
        try:
            p.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            late = True
            p.kill()
            p.wait(60)
    return not late


def show(folder: Path, size: int, lines: int = 60) -> None:
    """What the ranks printed, as TAP comments."""
    for rank in range(size):
        for line in (folder / f"output.{rank}").read_text(errors="replace").splitlines()[-lines:]:
            print(f"# [{rank}] {line}")


def arguments() -> argparse.Namespace:
    """Of a test program; `rank` is None in the one that starts the others."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int)
    parser.add_argument("--size", type=int, default=2)
    parser.add_argument("--sizes", help="several, one after the other: 2,3")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--scenario", default="")
    return parser.parse_args()


def main(cases: list[Case], extra: dict[str, str] | None = None, once: list[Case] | None = None) -> None:
    """Run the cases with the numbers of ranks that --size or --sizes says.

    Args:
        cases: in this order.
        extra: for the environment of the ranks.
        once: cases that follow with two ranks only.
    """
    args = arguments()

    def of(size: int) -> list[Case]:
        return [c for c in [*cases, *(once if once and size == 2 else [])] if args.only in c.__name__]

    if args.rank is not None:
        _child(args.rank, args.size, args.folder, of(args.size), args.seconds * SLOW)
        return
    sizes = [int(size) for size in args.sizes.split(",")] if args.sizes else [args.size]
    good = [_run(of(size), size, args, extra) for size in sizes]
    sys.exit(0 if all(good) else 1)


def _run(cases: list[Case], size: int, args: argparse.Namespace, extra: dict[str, str] | None) -> bool:
    with tempfile.TemporaryDirectory(prefix="weft-torch-") as name:
        folder = Path(name)
        processes = start(["--only", args.only, "--seconds", str(args.seconds)], folder, size, extra)
        in_time = wait(processes, args.seconds * SLOW)
        results = (folder / "results.0").read_text().splitlines() if (folder / "results.0").exists() else []
        failed = 0
        for i, case in enumerate(cases):
            line = results[i] if i < len(results) else f"not ok {case.__name__} (it did not end)"
            failed += line.startswith("not ok")
            verdict, _, rest = line.partition(case.__name__)
            print(f"{verdict}{i + 1} - {case.__name__.replace('_', ' ')}, {size} ranks{rest}")
        ended = in_time and all(p.returncode == 0 for p in processes)
        print(f"{'ok' if ended else 'not ok'} {len(cases) + 1} - every rank ends with success, {size} ranks")
        if failed or not ended:
            show(folder, size)
        print(f"1..{len(cases) + 1}", flush=True)
        return ended and not failed
