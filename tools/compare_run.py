# SPDX-License-Identifier: BSD-3-Clause
"""weft-compare: start weft-bench and its peers, on this host or on hosts made of namespaces, and read their times."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare_hosts import Hosts

TOOLS = Path(__file__).resolve().parent
PLACEMENT_FACTOR = 1.6
Times = dict[int, float]  # message bytes -> microseconds per call


class RunError(Exception):
    """A peer could not be measured; the text says why."""


def size_name(size: int) -> str:
    """Return 8, 4K, 16M."""
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def check_output(path: str) -> None:
    """Raise OSError if a file cannot be written, without making it."""
    folder = Path(path).resolve().parent
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def write_json(path: str, data: dict) -> bool:
    """Write a file; return whether that was possible, and say why not."""
    try:
        Path(path).write_text(json.dumps(data, indent=1, default=str) + "\n")
    except OSError as e:
        print(f"weft-compare: {path}: {e.strerror}", file=sys.stderr)
        return False
    return True


def tail(text: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -\n")]
    return lines[-1][:200] if lines else "no output"


class Bench:
    """Programs, compiled helpers and limits of one comparison."""

    def __init__(self, weft_bench: Path | None, python: str, timeout_s: float, peers: bool = True) -> None:
        self.weft_bench = weft_bench
        self.python = python
        self.timeout_s = timeout_s
        self.work = Path(tempfile.mkdtemp(prefix="weft-compare."))
        self.cpus = sorted(os.sched_getaffinity(0))
        self.missing: dict[str, str] = {}
        self.placements: list[float] = []  # round trips in nanoseconds
        if len(self.cpus) > 1:
            self.compile("cc", "placement", "placement")
        if peers:
            self.build()

    def close(self) -> None:
        """Remove what was built."""
        shutil.rmtree(self.work, ignore_errors=True)

    def build(self) -> None:
        """Compile the helpers of the rows; note which peers cannot be measured and why."""
        for name in ("triad", "pingpong"):
            self.compile("cc", name, name)
        for mpi in ("openmpi", "mpich"):
            if not shutil.which(f"mpicc.{mpi}") or not shutil.which(f"mpirun.{mpi}"):
                self.missing[mpi] = f"mpicc.{mpi} or mpirun.{mpi} is not installed"
            else:
                self.compile(f"mpicc.{mpi}", "mpi", f"mpi_{mpi}")
        found = subprocess.run([self.python, "-c", "import torch.distributed"], capture_output=True, check=False)
        if found.returncode != 0:
            self.missing["gloo"] = f"{self.python} has no torch.distributed"

    def compile(self, compiler: str, source: str, program: str) -> None:
        """Compile tools/compare_SOURCE.c."""
        command = [compiler, "-std=gnu11", "-O2", "-pthread", "-o", str(self.work / program), str(TOOLS / f"compare_{source}.c")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"{' '.join(command)}: {tail(done.stderr)}")

    # ---- processes ----

    def environment(self, extra: dict[str, str]) -> dict[str, str]:
        """Return this environment without launchers' variables, plus `extra`."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI_", "SLURM_", "PMIX_"))}
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=str(self.work))
        env.update(extra)
        return env

    def together(self, commands: list[list[str]], envs: list[dict[str, str]], pin: bool, limit_s: float) -> str:
        """Run processes side by side; return what the first printed, or raise with what went wrong.

        They get process groups, not sessions: Linux schedules sessions as groups, and a yield stays within its own."""
        procs = []
        outs = [tempfile.TemporaryFile("w+", dir=self.work) for _ in commands]
        errs = [tempfile.TemporaryFile("w+", dir=self.work) for _ in commands]
        for i, (command, env) in enumerate(zip(commands, envs)):
            cpu = {self.cpus[i % len(self.cpus)]} if pin else set(self.cpus)
            procs.append(subprocess.Popen(
                command, env=self.environment(env), stdin=subprocess.DEVNULL, stdout=outs[i], stderr=errs[i],
                preexec_fn=lambda cpu=cpu: (os.setpgid(0, 0), os.sched_setaffinity(0, cpu))))
        try:
            failed = self.wait(procs, limit_s)
        finally:  # also when a signal ends the comparison
            self.end(procs)
        texts = []
        for i in range(len(commands)):
            outs[i].seek(0)
            errs[i].seek(0)
            texts.append((outs[i].read(), errs[i].read()))
            outs[i].close()
            errs[i].close()
        if failed is None:
            return texts[0][0]
        said = [err or out for out, err in texts if (err or out).strip()]
        raise RunError(f"{failed}: {tail(said[0]) if said else 'no output'}")

    @staticmethod
    def end(procs: list[subprocess.Popen]) -> None:
        """End what still runs."""
        for p in procs:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
            p.wait()

    @staticmethod
    def wait(procs: list[subprocess.Popen], limit_s: float) -> str | None:
        """Wait for all; when one fails or time is up, end the others. Return None, or what happened."""
        deadline = time.monotonic() + limit_s
        failed = None
        while failed is None and any(p.poll() is None for p in procs):
            bad = [i for i, p in enumerate(procs) if p.poll() not in (None, 0)]
            if bad:
                time.sleep(2)  # let the others say why
                failed = f"process {bad[0]} ended with {procs[bad[0]].returncode}"
            elif time.monotonic() > deadline:
                failed = f"no end after {limit_s:.0f} s"
            time.sleep(0.005)
        Bench.end(procs)
        bad = [i for i, p in enumerate(procs) if p.returncode != 0]
        if failed is None and bad:
            failed = f"process {bad[0]} ended with {procs[bad[0]].returncode}"
        return failed

    def ranks(self, program: list[str], nranks: int, hosts: Hosts | None, extra: dict[str, str],
              bound: bool = False) -> str:
        """Run a program that reads torchrun's variables, one process per rank, bound to cores in turn if there are enough
        of them or `bound` says so."""
        port, key = free_port(), secrets.token_hex(32)
        commands, envs = [], []
        for rank in range(nranks):
            prefix = hosts.prefix(hosts.host_of(rank)) if hosts else []
            local = rank // hosts.count if hosts else rank
            env = {"RANK": str(rank), "WORLD_SIZE": str(nranks), "LOCAL_RANK": str(local),
                   "LOCAL_WORLD_SIZE": str(hosts.ranks_per_host if hosts else nranks),
                   "GROUP_RANK": str(hosts.host_of(rank) if hosts else 0),
                   "MASTER_ADDR": hosts.address(0) if hosts else "127.0.0.1", "MASTER_PORT": str(port), "WEFT_JOB_KEY": key}
            commands.append(prefix + program)
            envs.append({**env, **extra})
        return self.together(commands, envs, not hosts and (bound or nranks <= len(self.cpus)), self.timeout_s)

    # ---- peers ----

    def weft(self, coll: str, nranks: int, sizes: list[int], hosts: Hosts | None = None,
             options: tuple[str, ...] = ()) -> Times:
        """Times of weft-bench; `sizes` form a geometric row."""
        factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
        place = "in" if coll == "broadcast" else "out"  # as the other libraries do it
        data = self.weft_json(nranks, ["-C", coll, "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(factor),
                                       "--place", place, *options], hosts)
        if data["wrong"]:
            raise RunError(f"weft-bench found {data['wrong']} wrong values")
        return {row["bytes"]: row[f"{place}_{'of_' if place == 'out' else ''}place"]["time_us"] for row in data["rows"]}

    def weft_json(self, nranks: int, options: list[str], hosts: Hosts | None = None,
                  extra: dict[str, str] | None = None, weft_bench: Path | None = None) -> dict:
        """Run weft-bench, or the one of another build, and return its JSON."""
        weft_bench = weft_bench or self.weft_bench
        if weft_bench is None:
            raise RunError("weft-bench was not found: build first, or name it with --weft-bench")
        path = self.work / "weft.json"
        path.unlink(missing_ok=True)
        program, env = self.unwrapped(weft_bench)
        self.ranks([str(program), *options, "--json", str(path)], nranks, hosts, {**env, **(extra or {})}, True)
        return json.loads(path.read_text())

    @staticmethod
    def unwrapped(program: Path) -> tuple[Path, dict[str, str]]:
        """Return the program behind libtool's wrapper script, which would count as start-up, and what it needs to find the
        library of its own build."""
        inner = program if program.parent.name == ".libs" else program.parent / ".libs" / program.name
        if not inner.is_file():
            return program, {}
        found = os.environ.get("LD_LIBRARY_PATH")
        return inner, {"LD_LIBRARY_PATH": f"{inner.parent}:{found}" if found else str(inner.parent)}

    @staticmethod
    def lines(text: str) -> Times:
        """Read "bytes microseconds" lines."""
        rows = [line.split() for line in text.splitlines()]
        return {int(row[0]): float(row[1]) for row in rows if len(row) == 2 and row[0].isdigit()}

    def gloo(self, coll: str, nranks: int, sizes: list[int], hosts: Hosts | None = None) -> Times:
        """Times of Gloo through torch.distributed, one thread per rank."""
        self.need("gloo")
        env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": hosts.interface if hosts else "lo"}
        return self.lines(self.ranks([self.python, str(TOOLS / "compare_gloo.py"), coll, *map(str, sizes)],
                                     nranks, hosts, env))

    def need(self, peer: str) -> None:
        """Raise if the peer is not installed."""
        if peer in self.missing:
            raise RunError(self.missing[peer])

    def mpi(self, which: str, options: list[str], coll: str, sizes: list[int], hosts: Hosts | None = None) -> Times:
        """Times of compare_mpi under one MPI's mpirun."""
        self.need(which)
        prefix = hosts.launcher_prefix() if hosts else []
        command = [*prefix, f"mpirun.{which}", *options, str(self.work / f"mpi_{which}"), coll, *map(str, sizes)]
        return self.lines(self.together([command], [hosts.mpi_environment() if hosts else {}], False, self.timeout_s))

    def openmpi(self, coll: str, nranks: int, sizes: list[int], hosts: Hosts | None = None) -> Times:
        """Open MPI; with more ranks than cores the best of its ways to wait and to be bound, size by size."""
        options = ["-q", "-n", str(nranks)]
        if hosts:
            return self.mpi("openmpi", [*options, *hosts.openmpi_options()], coll, sizes, hosts)
        if nranks <= len(self.cpus):
            return self.mpi("openmpi", [*options, "--bind-to", "core"], coll, sizes)
        options += ["--oversubscribe", "--mca", "mpi_yield_when_idle"]
        ways = (["1", "--bind-to", "none"], ["1", "--bind-to", "core:overload-allowed"], ["0", "--bind-to", "none"])
        runs = [self.mpi("openmpi", [*options, *way], coll, sizes) for way in ways]
        return {size: min(run[size] for run in runs) for size in sizes}

    def mpich(self, coll: str, nranks: int, sizes: list[int], hosts: Hosts | None = None) -> Times:
        """MPICH."""
        options = ["-n", str(nranks)]
        if hosts:
            options += hosts.mpich_options()
        elif nranks <= len(self.cpus):
            options += ["-bind-to", "core"]
        return self.mpi("mpich", options, coll, sizes, hosts)

    # ---- bounds ----

    def triad_bytes_per_s(self) -> float:
        """Memory bandwidth of one of two processes that run a triad with non-temporal stores at once."""
        text = self.together([[str(self.work / "triad"), "2", str(128 << 20), "0.5"]], [{}], False, 60)
        return float(text.split()[0])

    def placement_ns(self) -> float | None:
        """Round trip of a flag between the first two cores; None with a single core."""
        if len(self.cpus) < 2:
            return None
        program = str(self.work / "placement")
        return float(self.together([[program, *map(str, self.cpus[:2])]], [{}], False, 60))

    def place(self) -> int | None:
        """Return which of the placements seen so far the cores are in. Round trips differ by a few per cent within one."""
        ns = self.placement_ns()
        if ns is None:
            return None
        for i, seen in enumerate(self.placements):
            if seen / PLACEMENT_FACTOR < ns < seen * PLACEMENT_FACTOR:
                return i
        self.placements.append(ns)
        return len(self.placements) - 1

    def tcp_half_round_us(self, hosts: Hosts) -> float:
        """Half of a raw TCP round trip of 8 bytes between two hosts."""
        program, port = str(self.work / "pingpong"), str(free_port())
        text = self.together([[*hosts.prefix(1), program, hosts.address(0), port, "8"],
                              [*hosts.prefix(0), program, "serve", port, "8"]], [{}, {}], False, 60)
        return float(text.split()[0])
