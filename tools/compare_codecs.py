# SPDX-License-Identifier: BSD-3-Clause
"""weft-compare: rows of compressed collectives, against weft's own uncompressed ones.

A codec is judged by two ratios: the time of the plain ring over its own, and the least time that it can take over its own. The least
time is that of its bytes on the link, by the length of its images, all the time busy in both directions. A token bucket lets a burst
through that one operation of a strong codec fits into: times are of ten or more back to back.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from compare_hosts import PAYLOAD_SHARE, Hosts
from compare_run import TOOLS, Bench, Times, size_name

MIB = 1 << 20
HOSTS = 4
ELEM_BYTES = 4


@dataclass(frozen=True)
class Case:
    """A codec, and what it should reach against the plain ring: floor and goal."""

    codec: str
    bits: float  # of an element's image
    floor: float
    goal: float


# Blocks of 128 elements have a scale of 16 bits; topk sends a place of 8.6 bits and a value of 16 for one element in a hundred.
FAST = (Case("int8", 8 + 16 / 128, 3.6, 3.85), Case("int4:ef=1", 4 + 16 / 128, 6, 7.4), Case("sign:ef=1", 1 + 16 / 128, 12, 24),
        Case("topk:ratio=0.01,ef=1", 0.247, 12, 30))
SLOW = (Case("int4:ef=1", 4 + 16 / 128, 7, 7.6), Case("sign:ef=1", 1 + 16 / 128, 22, 30),
        Case("topk:ratio=0.01,ef=1", 0.247, 30, 45))
# What ranks agree on and what is summed: of sharedint a scale and codes; of leaderk and randomk a bf16 for one element in a hundred,
# of leaderk also a place of 8.6 bits, sent once by one rank.
LINEAR = (Case("sharedint", 8 + 16 / 128, 3.6, 3.85), Case("leaderk:ratio=0.01,ef=1", 0.16 + 0.086 / 2, 12, 30),
          Case("randomk:ratio=0.01,ef=1", 0.16, 12, 30))


def timed(bench: Bench, size: int, hosts: Hosts, *options: str) -> Times:
    """Time an all-reduce of fp32 in place, ten to a batch."""
    return bench.weft("all_reduce", HOSTS, [size], hosts, ("-n", "10", *options))


def line_us(case: Case, size: int, rate_bits: int) -> float:
    """The microseconds that the codec's bytes take on a link, two shots: (P - 1) / P of the vector out and in, twice."""
    sent = 2 * (HOSTS - 1) / HOSTS * size / ELEM_BYTES * case.bits / 8
    return sent / (rate_bits / 8 * PAYLOAD_SHARE) * 1e6


def shaped(comparison: object, row: object, line: type, size: int, rate_bits: int, cases: tuple[Case, ...]) -> None:
    """Fill a row: all-reduce of `size` bytes by 4 hosts with links of that rate, each codec and the plain ring in turn."""
    with Hosts(HOSTS, True, comparison.bench.work, rate_bits=rate_bits) as hosts:
        runs = {"ring": lambda: timed(comparison.bench, size, hosts, "--algo", "ring")}
        for case in cases:
            runs[case.codec] = lambda case=case: timed(comparison.bench, size, hosts, "--codec", f"{case.codec},bypass=never"
                                                       if ":" in case.codec else f"{case.codec}:bypass=never")
        times, notes = comparison.alternate(f"codecs at {rate_bits // 1_000_000} Mbit/s", runs)
    row.notes += notes
    for case in cases:
        if case.codec not in times or "ring" not in times:
            row.lines.append(line(f"{case.codec} {size_name(size)}", {}, None))
            continue
        ring, took = times["ring"][size], times[case.codec][size]
        row.lines.append(line(f"{case.codec} {size_name(size)}", {"weft": took, "ring": ring}, ring / took / case.floor, "ring"))
        row.notes.append(f"{case.codec}: {ring / took:.2f} times as fast as the plain ring (floor {case.floor}, goal {case.goal}); "
                         f"{took / line_us(case, size, rate_bits):.2f} times what its bytes take on the link")


@contextlib.contextmanager
def environment(**words: str) -> Iterator[None]:
    """Have variables in the environment of what is run."""
    before = {name: os.environ.get(name) for name in words}
    os.environ.update(words)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def ddp_step(comparison: object, row: object, line: type, codec: str = "int4:ef=1", floor: float = 0.30) -> None:
    """Fill a row: what communication adds to a step of DDP on 4 hosts with links of 1 Gbit/s, compressed, plain and on Gloo."""
    bench = comparison.bench
    bench.need("gloo")
    alone: dict[str, list[float]] = {}
    with Hosts(HOSTS, True, bench.work) as hosts:
        def once(peer: str, backend: str, codec: str) -> Times:
            env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": hosts.interface}
            text = bench.ranks([bench.python, str(TOOLS / "compare_ddp.py"), backend, codec], HOSTS, hosts, env)
            found = dict(words.split() for words in text.splitlines())
            alone.setdefault(peer, []).append(float(found["alone"]))
            return {0: (float(found["step"]) - float(found["alone"])) * 1e6}

        sides = {"weft": ("weft", f"{codec},bypass=never"), "plain": ("weft", "none"), "gloo": ("gloo", "none")}
        runs = {peer: lambda peer=peer, side=side: once(peer, *side) for peer, side in sides.items()}
        times, notes = comparison.alternate("DDP", runs)
    values = {peer: t[0] for peer, t in times.items()}
    added = values["weft"] / values["gloo"] if {"weft", "gloo"} <= set(values) else None
    row.lines.append(line(f"{codec} 10 M", values, added and floor / added, "gloo"))
    row.notes += notes + [f"{peer}: communication adds {us / 1e3:.1f} ms to a step of {statistics.median(alone[peer]) * 1e3:.1f} ms"
                          for peer, us in values.items()]
    if added:
        row.notes.append(f"it adds {added:.3f} of what it does on Gloo (floor {floor}, goal 0.18)")


# A function of compare_torch.py, the codec that does the same, what of it (top-k: to select and encode), floor and goal of the ratio.
AGAINST_TORCH = (("topk", "topk:ratio=0.01", ("encode",), 10.0, 30.0), ("pertensor", "int8", ("encode", "decode"), 10.0, 30.0),
                 ("perchannel", "int8", ("encode", "decode"), 10.0, 30.0), ("bf16", "bf16", ("encode", "decode"), 3.0, 8.0))


def against_torch(comparison: object, row: object, line: type, sizes: tuple[int, ...]) -> None:
    """Fill a row: codecs against what PyTorch's hooks compute, on one core, nothing sent."""
    bench = comparison.bench
    bench.need("gloo")  # torch
    program, env = bench.unwrapped(bench.weft_bench.parent / "weft-codec")

    def ours(size: int) -> Times:
        codecs = dict.fromkeys(codec for _, codec, *_ in AGAINST_TORCH)
        text = bench.together([[str(program), "-n", str(size), "--only", "speed", "--json", *codecs]], [env], True, bench.timeout_s)
        found = {one["codec"]: one["speed"] for one in json.loads(text)["codecs"]}
        return {i: sum(found[codec][part]["seconds"] for part in parts) * 1e6 for i, (_, codec, parts, *_) in enumerate(AGAINST_TORCH)}

    def theirs(size: int) -> Times:
        text = bench.together([[bench.python, str(TOOLS / "compare_torch.py"), str(size)]], [{"OMP_NUM_THREADS": "1"}], True,
                              bench.timeout_s)
        found = dict(words.split() for words in text.splitlines())
        return {i: float(found[name]) for i, (name, *_) in enumerate(AGAINST_TORCH)}

    for size in sizes:
        runs = {"weft": lambda size=size: ours(size), "torch": lambda size=size: theirs(size)}
        times, notes = comparison.alternate(f"codecs, {size_name(size)}", runs)
        row.notes += notes
        for i, (name, codec, _, floor, goal) in enumerate(AGAINST_TORCH):
            values = {peer: t[i] for peer, t in times.items()}
            ratio = values["torch"] / values["weft"] if len(values) == 2 else None
            row.lines.append(line(f"{codec}, {name} {size_name(size)}", values, ratio and ratio / floor, "torch"))
            if ratio:
                row.notes.append(f"{codec} {size_name(size)}: {ratio:.1f} times as fast as {name} (floor {floor:g}, goal {goal:g})")


def bypassed(comparison: object, row: object, line: type, sizes: tuple[int, ...], codec: str = "int8") -> None:
    """Fill a row: where links are fast, WEFT_COMPRESS must not make a program slower."""
    for label, nranks, made in (("shm", 2, None), ("tcp, 4 hosts", HOSTS, Hosts(HOSTS, False, comparison.bench.work))):
        with made or contextlib.nullcontext() as hosts:
            def once(text: str, nranks: int = nranks, hosts: Hosts | None = hosts) -> Times:
                with environment(WEFT_COMPRESS=text):
                    return comparison.bench.weft("all_reduce", nranks, list(sizes), hosts, ("-c", "0"))  # sums may be coded

            runs = {"weft": lambda: once(codec), "plain": lambda: once("")}
            times, notes = comparison.alternate(f"bypass, {label}", runs)
        row.notes += notes
        for size in sizes:
            values = {p: t[size] for p, t in times.items() if size in t}
            ratio = values["plain"] / values["weft"] if len(values) == 2 else None
            row.lines.append(line(f"{label} {size_name(size)}", values, ratio, "plain"))
