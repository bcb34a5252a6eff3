#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the inputs of the import tests: MSCCL XML and MSCCL++ plan JSON, right ones and wrong ones.

generate.py DIRECTORY writes them all; generate.py --check DIRECTORY says which differ from what is there."""

import json
import pathlib
import sys
from typing import Callable, Optional

Ref = tuple[str, int]


# ---- MSCCL XML ----

class Tb:
    """A thread block: steps in order. A dependency is (thread block, step), a list of them becomes nops."""

    def __init__(self, number: int, send: int, recv: int, chan: int) -> None:
        self.number, self.send, self.recv, self.chan = number, send, recv, chan
        self.steps: list[dict] = []

    def step(self, kind: str, src: Optional[Ref] = None, dst: Optional[Ref] = None, cnt: int = 1, deps=()) -> tuple["Tb", int]:
        deps = list(deps)
        for dep in deps[:-1]:
            self.raw("nop", None, None, 1, dep)
        return self.raw(kind, src, dst, cnt, deps[-1] if deps else None)

    def raw(self, kind: str, src: Optional[Ref], dst: Optional[Ref], cnt: int, dep) -> tuple["Tb", int]:
        self.steps.append({"type": kind, "src": src or ("i", -1), "dst": dst or ("o", -1), "cnt": cnt, "dep": dep})
        return self, len(self.steps) - 1


class Xml:
    def __init__(self, name: str, coll: str, nranks: int, chunks, in_place: bool = False, per_loop: int = 0) -> None:
        self.name, self.coll, self.nranks, self.in_place = name, coll, nranks, in_place
        self.both = False
        self.chunks = [chunks(r) if callable(chunks) else chunks for r in range(nranks)]
        self.per_loop = per_loop or max(max(c[0], c[1]) for c in self.chunks)
        self.gpus: list[list[Tb]] = [[] for _ in range(nranks)]

    def tb(self, rank: int, send: int = -1, recv: int = -1, chan: int = 0) -> Tb:
        self.gpus[rank].append(Tb(len(self.gpus[rank]), send, recv, chan))
        return self.gpus[rank][-1]

    def text(self) -> str:
        nchannels = 1 + max(t.chan for g in self.gpus for t in g)
        out = [f'<algo name="{self.name}" proto="Simple" nchannels="{nchannels}" nchunksperloop="{self.per_loop}" '
               f'ngpus="{self.nranks}" coll="{self.coll}" inplace="{int(self.in_place or self.both)}"'
               f'{" outofplace=" + chr(34) + "1" + chr(34) if self.both else ""}>']
        depended = {id(s["dep"][0]) + s["dep"][1] for g in self.gpus for t in g for s in t.steps if s["dep"]}
        for rank, tbs in enumerate(self.gpus):
            i, o, s = self.chunks[rank]
            out.append(f'  <gpu id="{rank}" i_chunks="{i}" o_chunks="{o}" s_chunks="{s}">')
            for tb in tbs:
                out.append(f'    <tb id="{tb.number}" send="{tb.send}" recv="{tb.recv}" chan="{tb.chan}">')
                for n, step in enumerate(tb.steps):
                    dep = step["dep"]
                    out.append(
                        f'      <step s="{n}" type="{step["type"]}" srcbuf="{step["src"][0]}" srcoff="{step["src"][1]}" '
                        f'dstbuf="{step["dst"][0]}" dstoff="{step["dst"][1]}" cnt="{step["cnt"]}" '
                        f'depid="{dep[0].number if dep else -1}" deps="{dep[1] if dep else -1}" '
                        f'hasdep="{int(id(tb) + n in depended)}"/>')
                out.append("    </tb>")
            out.append("  </gpu>")
        return "\n".join(out + ["</algo>"]) + "\n"


def ring_reduce(x: Xml, rank: int, chan: int, first: int, up: bool, buf: str) -> None:
    """One ring over the chunks first .. first + P - 1: reduced on the way, then passed on."""
    n, way = x.nranks, 1 if up else -1
    tb = x.tb(rank, (rank + way) % n, (rank - way) % n, chan)

    def chunk(k: int) -> int:
        return first + (rank - k * way) % n

    tb.step("s", ("i", chunk(0)))
    for k in range(1, n - 1):
        tb.step("rrs", ("i", chunk(k)))
    tb.step("rrcs", ("i", chunk(n - 1)), (buf, chunk(n - 1)))
    for k in range(n - 2):
        tb.step("rcs", None, (buf, chunk(k)))
    tb.step("r", None, (buf, chunk(n - 2)))


def ring_all_reduce(n: int, in_place: bool) -> Xml:
    x = Xml("ring", "allreduce", n, (n, 0 if in_place else n, 0), in_place)
    for r in range(n):
        ring_reduce(x, r, 0, 0, True, "i" if in_place else "o")
    return x


def two_rings(n: int) -> Xml:
    x = Xml("two rings", "allreduce", n, (2 * n, 2 * n, 0))
    for r in range(n):
        ring_reduce(x, r, 0, 0, True, "o")
        ring_reduce(x, r, 1, n, False, "o")
    return x


def halving_doubling(n: int) -> Xml:
    """Recursive halving, then doubling, in place; each exchange moves several chunks at once."""
    x = Xml("rhd", "allreduce", n, (n, n, 0), True)
    for r in range(n):
        first, count, before, down = 0, n, None, []
        while count > 1:
            count //= 2
            partner = r ^ count
            mine, other = (first + count, first) if r & count else (first, first + count)
            tb = x.tb(r, partner, partner)
            tb.step("s", ("i", other), cnt=count, deps=[before] if before else [])
            before = tb.step("rrc", ("i", mine), ("i", mine), cnt=count)
            first = mine
            down.append((tb, mine, other, count))
        for tb, mine, other, count in reversed(down):
            tb.step("s", ("i", mine), cnt=count, deps=[before])
            before = tb.step("r", None, ("i", other), cnt=count)
    return x


def pairs_reduce_scatter(n: int, cut: int) -> Xml:
    x = Xml("all pairs", "reduce_scatter", n, (n * cut, cut, (n - 1) * cut))
    for r in range(n):
        arrived = []
        for slot, p in enumerate(q for q in range(n) if q != r):
            tb = x.tb(r, p, p)
            tb.step("s", ("i", p * cut), cnt=cut)
            arrived.append(tb.step("r", None, ("s", slot * cut), cnt=cut))
        tb = x.tb(r)
        tb.step("cpy", ("i", r * cut), ("o", 0), cnt=cut)
        for slot, dep in enumerate(arrived):
            tb.step("re", ("s", slot * cut), ("o", 0), cnt=cut, deps=[dep])
    return x


def pairs_all_reduce(n: int) -> Xml:
    """In place over scratch: every rank reduces its chunk of all, then hands it out."""
    x = Xml("all pairs", "allreduce", n, (n, 0, n - 1), True)
    for r in range(n):
        peers = [p for p in range(n) if p != r]
        tbs, arrived = [], []
        for slot, p in enumerate(peers):
            tb = x.tb(r, p, p)
            tb.step("s", ("i", p))
            arrived.append(tb.step("r", None, ("s", slot)))
            tbs.append(tb)
        local = x.tb(r)
        last = None
        for slot in range(n - 1):
            last = local.step("re", ("s", slot), ("i", r), deps=arrived if slot == 0 else [])
        for p, tb in zip(peers, tbs):
            tb.step("s", ("i", r), deps=[last])
            tb.step("r", None, ("i", p))
    return x


def ring_reduce_scatter(n: int, cut: int) -> Xml:
    x = Xml("ring", "reducescatter", n, (n * cut, cut, 0))
    for r in range(n):
        tb = x.tb(r, (r + 1) % n, (r - 1) % n)
        tb.step("s", ("i", (r - 1) % n * cut), cnt=cut)
        for k in range(2, n):
            tb.step("rrs", ("i", (r - k) % n * cut), cnt=cut)
        tb.step("rrc", ("i", r * cut), ("o", 0), cnt=cut)
    return x


def ring_all_gather(n: int, cut: int) -> Xml:
    x = Xml("ring", "allgather", n, (cut, n * cut, 0))
    for r in range(n):
        tb = x.tb(r, (r + 1) % n, (r - 1) % n)
        tb.step("s", ("i", 0), cnt=cut)
        for k in range(1, n - 1):
            tb.step("rcs", None, ("o", (r - k) % n * cut), cnt=cut)
        tb.step("r", None, ("o", (r + 1) % n * cut), cnt=cut)
        x.tb(r).step("cpy", ("i", 0), ("o", r * cut), cnt=cut)
    return x


def broadcast_chain(n: int, chunks: int, root: int) -> Xml:
    x = Xml("chain", "broadcast", n, lambda r: (chunks if r == root else 0, chunks, 0))
    for k in range(n):
        r = (root + k) % n
        tb = x.tb(r, (r + 1) % n if k < n - 1 else -1, (r - 1) % n if k else -1)
        for c in range(chunks):
            if k == 0:
                tb.step("s", ("i", c))
            else:
                tb.step("rcs" if k < n - 1 else "r", None, ("o", c))
        if k == 0:
            x.tb(r).step("cpy", ("i", 0), ("o", 0), cnt=chunks)
    return x


def all_to_all(n: int, cut: int) -> Xml:
    x = Xml("direct", "alltoall", n, (n * cut, n * cut, 0))
    for r in range(n):
        for p in range(n):
            if p != r:
                tb = x.tb(r, p, p)
                tb.step("s", ("i", p * cut), cnt=cut)
                tb.step("r", None, ("o", p * cut), cnt=cut)
        x.tb(r).step("cpy", ("i", r * cut), ("o", r * cut), cnt=cut)
    return x


def scratch_reused() -> Xml:
    """Two ranks; two chunks of scratch hold first one half of the vector, then the other: only split can it be laid out."""
    x = Xml("reuse", "allreduce", 2, (4, 4, 2))
    for r in range(2):
        mine, other, peer = 2 * r, 2 - 2 * r, 1 - r
        out, into, local = x.tb(r, peer, -1), x.tb(r, -1, peer), x.tb(r)
        out.step("s", ("i", other), cnt=2)
        got = into.step("r", None, ("s", 0), cnt=2)
        local.step("cpy", ("i", mine), ("o", mine), cnt=2)
        added = local.step("re", ("s", 0), ("o", mine), cnt=2, deps=[got])
        out.step("s", ("o", mine), cnt=2, deps=[added])
        got = into.step("r", None, ("s", 0), cnt=2, deps=[added])
        local.step("cpy", ("s", 0), ("o", other), cnt=2, deps=[got])
    return x


def deep_exchange(wrong: bool = False) -> Xml:
    """Two ranks, in place: both send two chunks before they receive one, and what they receive replaces what they sent."""
    x = Xml("deep", "allreduce", 2, (2, 0, 0), True)
    for r in range(2):
        tb = x.tb(r, 1 - r, 1 - r)
        for c in range(2):
            tb.step("s", ("i", c))
        for c in range(2):
            tb.step("rrc", ("i", 1 - c if wrong else c), ("i", 1 - c if wrong else c))
    return x


def deep_all_gather(n: int, cut: int) -> Xml:
    """A ring that sends all of its share, chunk by chunk, before it takes the first."""
    x = Xml("deep ring", "allgather", n, (cut, n * cut, 0))
    for r in range(n):
        tb = x.tb(r, (r + 1) % n, (r - 1) % n)
        for c in range(cut):
            tb.step("s", ("i", c))
        for k in range(1, n):
            for c in range(cut):
                last = tb.step("rcs" if k < n - 1 else "r", None, ("o", (r - k) % n * cut + c))
        x.tb(r).step("cpy", ("i", 0), ("o", r * cut), cnt=cut, deps=[last])
    return x


def deep_all_reduce(n: int) -> Xml:
    """Two rings through one thread block: every kind of step that receives, and two messages on the way."""
    x = Xml("deep rings", "allreduce", n, (2 * n, 2 * n, 0))
    for r in range(n):
        tb = x.tb(r, (r + 1) % n, (r - 1) % n)

        def both(kind: str, k: int, src: bool, dst: bool) -> None:
            for half in range(2):
                at = half * n + (r - k) % n
                tb.step(kind, ("i", at) if src else None, ("o", at) if dst else None)

        both("s", 0, True, False)
        for k in range(1, n - 1):
            both("rrs", k, True, False)
        both("rrcs", n - 1, True, True)
        for k in range(n - 2):
            both("rcs", k, False, True)
        both("r", n - 2, False, True)
    return x


def deep_with_dependencies() -> Xml:
    """A second thread block waits for what the first has received; the first waits for the second before it goes on."""
    x = Xml("deep deps", "allreduce", 2, (2, 2, 2))
    for r in range(2):
        tb, local = x.tb(r, 1 - r, 1 - r), x.tb(r)
        tb.step("s", ("i", 0))
        tb.step("s", ("i", 1))
        got = tb.step("r", None, ("s", 0))
        local.step("cpy", ("i", 0), ("o", 0))
        added = local.step("re", ("s", 0), ("o", 0), deps=[got])
        got = tb.step("r", None, ("s", 1), deps=[added])
        local.step("cpy", ("i", 1), ("o", 1))
        local.step("re", ("s", 1), ("o", 1), deps=[got])
    return x


def taken_first() -> Xml:
    """What is received lies in the output before the input is added to it: not in place, where that replaces the input."""
    x = Xml("taken first", "allreduce", 2, (1, 1, 0))
    for r in range(2):
        tb = x.tb(r, 1 - r, 1 - r)
        tb.step("s", ("i", 0))
        tb.step("r", None, ("o", 0))
        tb.step("re", ("i", 0), ("o", 0))
    return x


def both_ways(x: Xml) -> Xml:
    x.both = True
    return x


def rotated(n: int) -> Xml:
    """Each rank adds up all chunks, beginning with its own: right, but every rank groups them otherwise."""
    x = Xml("rotated", "allreduce", n, (1, 1, n - 1))
    for r in range(n):
        arrived = []
        for slot in range(n - 1):
            tb = x.tb(r, (r - 1 - slot) % n, (r + 1 + slot) % n, slot)
            tb.step("s", ("i", 0))
            arrived.append(tb.step("r", None, ("s", slot)))
        tb = x.tb(r)
        tb.step("cpy", ("i", 0), ("o", 0))
        for slot, dep in enumerate(arrived):
            tb.step("re", ("s", slot), ("o", 0), deps=[dep])
    return x


def xml_right() -> dict[str, Xml]:
    return {
        "deep_exchange": deep_exchange(),
        "deep_all_gather": deep_all_gather(4, 3),
        "deep_all_reduce": deep_all_reduce(4),
        "deep_dependencies": deep_with_dependencies(),
        "both_flags": both_ways(ring_all_reduce(4, False)),
        "both_flags_copies": both_ways(scratch_reused()),
        "both_flags_out_of_place_only": both_ways(taken_first()),
        "both_flags_in_place_only": both_ways(ring_all_reduce(4, True)),
        "all_reduce_ring": ring_all_reduce(4, False),
        "all_reduce_ring_in_place": ring_all_reduce(4, True),
        "all_reduce_two_rings": two_rings(4),
        "all_reduce_rhd": halving_doubling(4),
        "all_reduce_pairs": pairs_all_reduce(4),
        "all_reduce_reuse": scratch_reused(),
        "reduce_scatter_pairs": pairs_reduce_scatter(4, 1),
        "reduce_scatter_pairs_cut": pairs_reduce_scatter(3, 2),
        "reduce_scatter_ring": ring_reduce_scatter(4, 1),
        "all_gather_ring": ring_all_gather(4, 1),
        "all_gather_ring_cut": ring_all_gather(4, 3),
        "broadcast_chain": broadcast_chain(4, 4, 0),
        "broadcast_chain_root": broadcast_chain(3, 2, 1),
        "all_to_all": all_to_all(4, 1),
        "all_to_all_cut": all_to_all(3, 2),
    }


def xml_wrong() -> dict[str, Xml]:
    mismatched = ring_all_reduce(4, False)
    mismatched.gpus[2][0].step("s", ("o", 0))
    counts = halving_doubling(4)
    counts.gpus[1][0].steps[0]["cnt"] = 1
    missing = ring_all_reduce(4, False)
    missing.gpus[1][0].steps[1].update(type="rcs", dst=("o", missing.gpus[1][0].steps[1]["src"][1]))
    deadlock = ring_all_gather(4, 1)
    for tbs in deadlock.gpus:
        tbs[0].steps.append(tbs[0].steps.pop(0))
    deep_stuck = deep_all_gather(3, 2)
    for r in range(3):  # room helps the first thread blocks, and not these
        tb = deep_stuck.tb(r, (r + 1) % 3, (r - 1) % 3, 1)
        tb.step("r", None, ("o", 0))
        tb.step("s", ("i", 0))
    circle = all_to_all(3, 1)
    circle.gpus[0][0].steps[0]["dep"] = (circle.gpus[0][1], 0)
    circle.gpus[0][1].steps[0]["dep"] = (circle.gpus[0][0], 0)
    bounds = ring_all_gather(4, 1)
    bounds.gpus[3][0].steps[-1]["dst"] = ("o", 4)
    scratch = pairs_reduce_scatter(4, 1)
    scratch.gpus[0][0].steps[-1]["dst"] = ("s", 3)
    race = pairs_reduce_scatter(4, 1)
    race.gpus[2][3].steps[2]["dep"] = None
    two_write = pairs_reduce_scatter(4, 1)
    two_write.gpus[1][1].steps[1]["dst"] = ("s", 0)
    unwritten = pairs_reduce_scatter(4, 1)
    unwritten.gpus[2][0].steps[1]["dst"] = ("s", 1)
    unwritten.gpus[2][1].steps[1]["dst"] = ("s", 1)
    unwritten.gpus[2][1].steps[1]["dep"] = (unwritten.gpus[2][0], 1)
    twice = ring_all_reduce(4, False)
    twice.gpus[0][0].steps[2]["src"] = ("i", 3)
    into_input = ring_all_gather(4, 1)
    into_input.gpus[0][1].steps[0].update(src=("o", 3), dst=("i", 0), dep=(into_input.gpus[0][0], 2))
    same_chan = all_to_all(3, 1)
    same_chan.gpus[0][1].send = same_chan.gpus[0][0].send
    return {
        "mismatched_sends": mismatched, "mismatched_counts": counts, "missing_contribution": missing, "deadlock": deadlock,
        "deep_order": deep_exchange(True), "deep_stuck": deep_stuck, "circle": circle, "out_of_bounds": bounds, "out_of_bounds_scratch": scratch, "scratch_race": race,
        "scratch_race_writes": two_write, "unwritten": unwritten, "twice": twice, "input_written": into_input,
        "same_channel": same_chan,
    }


# ---- MSCCL++ plans ----

class Plan:
    """Every gpu is connected with every other one by `lines` memory channels, and sees all buffers of all."""

    def __init__(self, name: str, coll: str, nranks: int, chunks, in_place: bool = False, kind: str = "memory",
                 lines: int = 1) -> None:
        self.kind, self.lines, self.n = kind, lines, nranks
        self.plan = {"name": name, "collective": coll, "protocol": "Simple", "inplace": in_place, "reuse_resources": False,
                     "gpus": [], "num_threads_per_block": 1024, "use_double_scratch_buffer": False,
                     "buffer_alignment": 16, "min_message_size": 0, "max_message_size": 2**40}
        for r in range(nranks):
            i, o, s = chunks(r) if callable(chunks) else chunks
            peers = [p for p in range(nranks) if p != r]
            self.plan["gpus"].append({
                "id": r, "input_chunks": i, "output_chunks": o, "scratch_chunks": s, "threadblocks": [],
                "channels": [{"channel_type": kind, "connected_to": peers * lines}],
                "remote_buffers": [{"rank": p, "type": b, "access_channel_types": [kind]} for p in peers for b in "ios"],
                "semaphores": []})

    def tb(self, rank: int) -> list[dict]:
        gpu = self.plan["gpus"][rank]
        gpu["threadblocks"].append({
            "id": len(gpu["threadblocks"]), "ops": [],
            "channels": [{"channel_type": self.kind, "channel_ids": list(range((self.n - 1) * self.lines))}],
            "remote_buffer_refs": [{"access_channel_type": self.kind,
                                    "remote_buffer_ids": list(range(3 * (self.n - 1)))}]})
        return gpu["threadblocks"][-1]["ops"]

    def chan(self, rank: int, peer: int, line: int = 0) -> int:
        return (peer if peer < rank else peer - 1) + line * (self.n - 1)

    def there(self, rank: int, peer: int, ref: Ref, size: int = 1) -> dict:
        return {"buffer_id": 3 * self.chan(rank, peer) + "ios".index(ref[0]), "index": ref[1], "size": size}

    @staticmethod
    def here(ref: Ref, size: int = 1) -> dict:
        return {"type": ref[0], "index": ref[1], "size": size}

    def sync(self, ops: list[dict], rank: int, name: str, peers, line: int = 0) -> None:
        ops.append({"name": name, "channel_ids": [self.chan(rank, p, line) for p in peers], "channel_type": self.kind})

    def op(self, ops: list[dict], name: str, src: list[dict], dst: list[dict], **more) -> None:
        ops.append({"name": name, "src_buff": src, "dst_buff": dst, "channel_type": self.kind, **more})

    def text(self) -> str:
        return json.dumps(self.plan, indent=1) + "\n"


def others(n: int, rank: int) -> list[int]:
    return [p for p in range(n) if p != rank]


def plan_pairs_all_reduce(n: int, one_tb_per_peer: bool = False) -> Plan:
    """Two shots, in place: read and reduce my chunk of all, put it to all."""
    p = Plan("pairs", "allreduce", n, (n, n, 0), True)
    for r in range(n):
        blocks = [[q] for q in others(n, r)] if one_tb_per_peer else [others(n, r)]
        tbs = [p.tb(r) for _ in blocks]

        def barrier(ops: list[dict]) -> None:
            if len(tbs) > 1:
                ops.append({"name": "barrier", "barrier_id": 0, "num_threadblocks": len(tbs)})

        for t, (ops, peers) in enumerate(zip(tbs, blocks)):
            p.sync(ops, r, "rlxsignal", peers)
            p.sync(ops, r, "rlxwait", peers)
            barrier(ops)
            if t == 0:
                p.op(ops, "rre", [p.here(("i", r))] + [p.there(r, q, ("i", r)) for q in others(n, r)], [p.here(("i", r))],
                     reduce_op="sum")
            ops.append({"name": "nop"})
            barrier(ops)
            for q in peers:
                p.op(ops, "put", [p.here(("i", r))], [p.there(r, q, ("i", r))])
            p.sync(ops, r, "signal", peers)
            p.sync(ops, r, "wait", peers)
    return p


def plan_rres_all_reduce() -> Plan:
    """Two ranks: read, reduce and send in one op."""
    p = Plan("rres", "allreduce", 2, (2, 2, 0), True)
    for r in range(2):
        ops = p.tb(r)
        p.sync(ops, r, "rlxsignal", [1 - r])
        p.sync(ops, r, "rlxwait", [1 - r])
        p.op(ops, "rres", [p.here(("i", r)), p.there(r, 1 - r, ("i", r))], [p.here(("i", r)), p.there(r, 1 - r, ("i", r))],
             reduce_op="sum")
        p.sync(ops, r, "signal", [1 - r])
        p.sync(ops, r, "wait", [1 - r])
    return p


def plan_ring_all_reduce(n: int) -> Plan:
    p = Plan("ring", "allreduce", n, (n, n, n - 1), True)
    for r in range(n):
        ops, up, down = p.tb(r), (r + 1) % n, (r - 1) % n
        for k in range(n - 1):
            p.op(ops, "put", [p.here(("i", (r - k) % n))], [p.there(r, up, ("s", k))])
            p.sync(ops, r, "signal", [up])
            p.sync(ops, r, "wait", [down])
            mine = (r - k - 1) % n
            p.op(ops, "re", [p.here(("i", mine)), p.here(("s", k))], [p.here(("i", mine))], reduce_op="sum")
        for k in range(n - 1):
            p.op(ops, "put", [p.here(("i", (r + 1 - k) % n))], [p.there(r, up, ("i", (r + 1 - k) % n))])
            p.sync(ops, r, "signal", [up])
            p.sync(ops, r, "wait", [down])
    return p


def plan_all_gather(n: int, cut: int) -> Plan:
    p = Plan("direct", "allgather", n, (cut, n * cut, 0))
    for r in range(n):
        ops = p.tb(r)
        p.sync(ops, r, "signal", others(n, r))
        p.sync(ops, r, "wait", others(n, r))
        p.op(ops, "copy", [p.here(("i", 0), cut)], [p.here(("o", r * cut), cut)])
        p.op(ops, "put", [p.here(("i", 0), cut)] * (n - 1), [p.there(r, q, ("o", r * cut), cut) for q in others(n, r)])
        p.sync(ops, r, "signal", others(n, r))
        p.sync(ops, r, "wait", others(n, r))
    return p


def plan_reduce_scatter(n: int) -> Plan:
    """Over port channels and the others' scratch, with pws; two thread blocks and a semaphore between them."""
    p = Plan("scratch", "reducescatter", n, (n, 1, n - 1), kind="port")
    for r in range(n):
        p.plan["gpus"][r]["semaphores"] = [{"init_value": 0}]
        send, reduce = p.tb(r), p.tb(r)
        for q in others(n, r):
            p.op(send, "pws", [p.here(("i", q))], [p.there(r, q, ("s", p.chan(q, r)))], channel_ids=[p.chan(r, q)])
        send.append({"name": "flush", "channel_ids": [p.chan(r, q) for q in others(n, r)], "channel_type": "port"})
        p.sync(send, r, "wait", others(n, r))
        send.append({"name": "sem_release", "semaphore_ids": [0]})
        reduce.append({"name": "sem_acquire", "semaphore_ids": [0]})
        p.op(reduce, "re", [p.here(("i", r))] + [p.here(("s", k)) for k in range(n - 1)], [p.here(("o", 0))], reduce_op="sum")
    return p


def plan_all_to_all(n: int) -> Plan:
    p = Plan("direct", "alltoall", n, (n, n, 0))
    for r in range(n):
        ops = p.tb(r)
        p.sync(ops, r, "signal", others(n, r))
        p.op(ops, "copy", [p.here(("i", r))], [p.here(("o", r))])
        for q in others(n, r):
            p.sync(ops, r, "wait", [q])
            p.op(ops, "get", [p.there(r, q, ("i", r))], [p.here(("o", q))], channel_ids=[p.chan(r, q)])
        p.sync(ops, r, "signal", others(n, r))
        p.sync(ops, r, "wait", others(n, r))
    return p


def plan_broadcast_chain(n: int, chunks: int) -> Plan:
    """Rank by rank, in a pipeline; two channels to each neighbour, one for "it is there", one for "I have it"."""
    p = Plan("chain", "broadcast", n, lambda r: (chunks if r == 0 else 0, chunks, 0), lines=2)
    for r in range(n):
        ops: list[dict] = []
        if r == 0:
            p.op(ops, "copy", [p.here(("i", 0), chunks)], [p.here(("o", 0), chunks)])
        else:
            p.sync(ops, r, "wait", [r - 1])
            p.op(ops, "get", [p.there(r, r - 1, ("o", 0), chunks)], [p.here(("o", 0), chunks)],
                 channel_ids=[p.chan(r, r - 1)])
            p.sync(ops, r, "signal", [r - 1], 1)
        if r < n - 1:
            p.sync(ops, r, "signal", [r + 1])
            p.sync(ops, r, "wait", [r + 1], 1)
        p.tb(r).append({"name": "pipeline", "iter_context": {"unit_size": 65536, "num_chunks": chunks}, "ops": ops})
    return p


def plan_right() -> dict[str, Plan]:
    return {
        "all_reduce_pairs": plan_pairs_all_reduce(4),
        "all_reduce_pairs_blocks": plan_pairs_all_reduce(6, True),
        "all_reduce_rres": plan_rres_all_reduce(),
        "all_reduce_ring": plan_ring_all_reduce(4),
        "all_gather": plan_all_gather(4, 1),
        "all_gather_cut": plan_all_gather(3, 2),
        "reduce_scatter": plan_reduce_scatter(4),
        "all_to_all": plan_all_to_all(4),
        "broadcast_chain": plan_broadcast_chain(4, 2),
    }


def ops_of(p: Plan, rank: int, tb: int = 0) -> list[dict]:
    return p.plan["gpus"][rank]["threadblocks"][tb]["ops"]


def changed(plan: Plan, change: Callable[[Plan], object]) -> Plan:
    change(plan)
    return plan


def plan_wrong() -> dict[str, Plan]:
    def wait_first(p: Plan) -> None:
        for r in range(p.n):
            ops = ops_of(p, r)
            ops[0], ops[1] = ops[1], ops[0]

    def drop_operand(p: Plan) -> None:
        ops_of(p, 1)[2]["src_buff"].pop()

    def drop_semaphore(p: Plan) -> None:
        ops_of(p, 2, 1).pop(0)

    def shared_scratch(p: Plan) -> None:
        for op in ops_of(p, 1):
            if op["name"] == "pws":
                op["dst_buff"][0]["index"] = 0

    def early(p: Plan) -> None:
        for r in range(p.n):
            del ops_of(p, r)[:2]

    def unsynced_end(p: Plan) -> None:
        for r in range(p.n):
            del ops_of(p, r)[-2:]

    def op_named(name: str) -> Callable[[Plan], object]:
        return lambda p: ops_of(p, 1)[2].update(name=name)

    def group(p: Plan) -> None:
        ops_of(p, 0)[2]["tbg_info"] = {"tb_id": 0, "tbg_size": 2}

    def switch(p: Plan) -> None:
        p.plan["gpus"][0]["channels"].append({"channel_type": "switch", "buffer_type": "i", "rank_groups": []})

    pairs = plan_pairs_all_reduce
    return {
        "mismatched_signals": changed(pairs(4), lambda p: ops_of(p, 2).pop()),
        "mismatched_waits": changed(pairs(4), lambda p: ops_of(p, 3).pop(0)),
        "missing_contribution": changed(pairs(4), drop_operand),
        "deadlock": changed(pairs(4), wait_first),
        "deadlock_barrier": changed(pairs(4, True), lambda p: ops_of(p, 0, 1).pop(2)),
        "deadlock_semaphore": changed(plan_reduce_scatter(4), lambda p: ops_of(p, 1, 0).pop()),
        "out_of_bounds": changed(pairs(4), lambda p: ops_of(p, 0)[2]["dst_buff"][0].update(index=4)),
        "out_of_bounds_scratch": changed(plan_reduce_scatter(4),
                                         lambda p: ops_of(p, 0)[0]["dst_buff"][0].update(index=3)),
        "scratch_race": changed(plan_reduce_scatter(4), drop_semaphore),
        "scratch_race_writes": changed(plan_reduce_scatter(4), shared_scratch),
        "early_put": changed(plan_all_gather(4, 1), early),
        "late_get": changed(plan_all_to_all(4), unsynced_end),
        "packet": changed(pairs(4), op_named("ppkt")),
        "multimem": changed(pairs(4), op_named("glres")),
        "unknown_op": changed(pairs(4), op_named("frobnicate")),
        "block_group": changed(pairs(4), group),
        "switch": changed(pairs(4), switch),
    }


def all_files() -> dict[str, str]:
    files = {}
    for kind, end, table in (("right", "xml", xml_right()), ("wrong", "xml", xml_wrong()), ("whole", "xml", {"rotated": rotated(4)}), ("right", "json", plan_right()),
                             ("wrong", "json", plan_wrong())):
        for name, content in table.items():
            files[f"{kind}/{name}.{end}"] = content.text()
    return files


def main() -> int:
    check = sys.argv[1:2] == ["--check"]
    where = pathlib.Path(sys.argv[-1])
    files = all_files()
    if not check:
        for name, text in files.items():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            (where / name).write_text(text)
        print(f"{len(files)} files written below {where}")
        return 0
    stale = [n for n, text in files.items() if not (where / n).is_file() or (where / n).read_text() != text]
    extra = [str(f) for end in ("xml", "json") for f in where.rglob(f"*.{end}") if str(f.relative_to(where)) not in files]
    for name in stale + extra:
        print(f"{name}: is not what generate.py writes")
    return 1 if stale or extra else 0


if __name__ == "__main__":
    sys.exit(main())
