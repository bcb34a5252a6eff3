# SPDX-License-Identifier: BSD-3-Clause
"""weft-compare --baseline: two versions of weft against each other, each with the weft-bench and the library of its own build.

A turn measures the baseline twice (A, A') and this version (B), in an order that changes from turn to turn. A' over A shows what
the machine changes by itself. A ratio is one median over another; its 95 % interval is that of a bootstrap over whole turns."""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import os
import random
import re
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compare_hosts import Hosts
from compare_run import Bench, RunError, Times, size_name, write_json

PEERS = ("A", "A'", "B")
# In six turns each version is first, second and last twice, and follows each other one as often.
ORDERS = (("A", "A'", "B"), ("B", "A", "A'"), ("A'", "B", "A"), ("B", "A'", "A"), ("A", "B", "A'"), ("A'", "A", "B"))
MOVED = -1  # the placement of a turn during which the cores moved
RESAMPLES, SEED = 2000, 1
MARGIN = 1.03  # smaller differences of a row do not count
FLOOR = 1.02  # of a collective's geometric mean
RUNS = 30
FEW = 10  # turns; intervals of fewer say little
FAILURES = 3  # turns that may fail before a case is given up
LARGE = 32 << 10
LEAST_US = 1e-4  # what weft-bench's output resolves
TCP_ITERS = 500  # short messages over TCP: fewer calls a run than weft-bench's rule, and more runs
LOCAL_SIZES = "8,64,512,1K,8K,64K,1M"
HOST_SIZES = "256K,1M,4M,16M,64M"


# ---- statistics ----

@dataclass
class Ratio:
    """A ratio of medians with its 95 % interval."""

    value: float
    low: float
    high: float


@functools.lru_cache(maxsize=8)
def resamples(n: int) -> list[list[int]]:
    """Return RESAMPLES lists of n turns drawn with replacement, always the same ones."""
    rng = random.Random(SEED)
    return [rng.choices(range(n), k=n) for _ in range(RESAMPLES)]


def ratio(first: list[float], second: list[float]) -> Ratio:
    """Return the median of `second` over that of `first`. Items with one index are of one turn and are drawn together: the
    interval holds the middle 95 % of the ratios of the resampled turns (percentile bootstrap)."""
    drawn = sorted(statistics.median(second[i] for i in draw) / statistics.median(first[i] for i in draw)
                   for draw in resamples(len(first)))
    edge = RESAMPLES // 40
    return Ratio(statistics.median(second) / statistics.median(first), drawn[edge], drawn[-1 - edge])


def verdict(again: Ratio, b: Ratio) -> str:
    """Return "slower" or "faster" if B's whole interval lies beyond the margin and beyond A' over A, else "same"."""
    if b.low > max(MARGIN, again.value):
        return "slower"
    return "faster" if b.high < min(1 / MARGIN, again.value) else "same"


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.mean(map(math.log, values)))


# ---- what is measured ----

@dataclass(frozen=True)
class Version:
    """A build of weft."""

    weft_bench: Path
    algorithm: str | None
    library: str  # "" if linked into the program


@dataclass(frozen=True)
class Setting:
    """Where ranks run: on this host over one transport, or on hosts made of namespaces."""

    nranks: int
    transport: str = ""
    hosts: int = 0
    rate_bits: int = 0  # 0: as fast as the kernel

    @property
    def name(self) -> str:
        """Return the heading."""
        if not self.hosts:
            return f"{self.nranks} ranks, {self.transport}"
        rate = f", {self.rate_bits / 1e9:g} Gbit/s" if self.rate_bits else ""
        return f"{self.hosts} hosts x {self.nranks // self.hosts} ranks{rate}"


@dataclass(frozen=True)
class Case:
    """One collective in one setting, with the sizes that one run of weft-bench measures."""

    setting: Setting
    coll: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Return what a note begins with."""
        return f"{self.setting.name}, {self.coll} {size_name(self.sizes[0])}-{size_name(self.sizes[-1])}"

    def factor(self) -> int:
        """Return the largest step that meets all sizes, powers of two times the first."""
        return 1 << (math.gcd(*((size // self.sizes[0]).bit_length() - 1 for size in self.sizes)) or 1)


@dataclass
class Turn:
    """One run of each version. `placement` tells where the cores were, if that can be told and matters."""

    order: tuple[str, ...]
    placement: int | None
    times_us: dict[str, Times]


@dataclass
class Row:
    """One size of a case."""

    setting: str
    coll: str
    bytes: int
    runs: int
    medians_us: dict[str, float]
    again: Ratio  # A' over A
    ratio: Ratio  # B over A
    verdict: str


@dataclass
class Result:
    """All that was measured."""

    rows: list[Row] = field(default_factory=list)
    turns: list[tuple[Case, list[Turn]]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False


def counted(turns: list[Turn]) -> list[Turn]:
    """Return the turns of the placement that has most of them."""
    places = [turn.placement for turn in turns if turn.placement != MOVED]
    place = statistics.mode(places) if places else MOVED
    return [turn for turn in turns if turn.placement == place and place != MOVED]


def rows_of(case: Case, turns: list[Turn]) -> list[Row]:
    """Return a row for each size that all versions measured in all turns that count."""
    turns = counted(turns)
    rows = []
    for size in (0, *case.sizes):  # a barrier has 0 bytes
        if not turns or any(size not in turn.times_us[peer] for turn in turns for peer in PEERS):
            continue
        samples = {peer: [turn.times_us[peer][size] for turn in turns] for peer in PEERS}
        again, b = ratio(samples["A"], samples["A'"]), ratio(samples["A"], samples["B"])
        medians = {peer: statistics.median(samples[peer]) for peer in PEERS}
        rows.append(Row(case.setting.name, case.coll, size, len(turns), medians, again, b, verdict(again, b)))
    return rows


def means(rows: list[Row]) -> list[dict[str, Any]]:
    """Return geometric means of the ratios: of each collective in each setting, then of all rows."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.coll), []).append(row)
    if rows:
        groups["all", "all"] = rows
    return [{"setting": setting, "coll": coll, "rows": len(group), "slower": sum(r.verdict == "slower" for r in group),
             "again": geometric_mean([r.again.value for r in group]), "ratio": geometric_mean([r.ratio.value for r in group])}
            for (setting, coll), group in groups.items()]


def failed_floors(result: Result) -> list[str]:
    """Return why the version is not as fast as the baseline, or could not be compared."""
    slow = [f"{r.setting}, {r.coll} {size_name(r.bytes)} is slower" for r in result.rows if r.verdict == "slower"]
    over = [f"{m['setting']}, {m['coll']}: geometric mean {m['ratio']:.3f}" for m in means(result.rows) if m["ratio"] > FLOOR]
    return slow + over + result.failures + ([] if result.rows else ["nothing was measured"])


# ---- measuring ----

class Comparison:
    """Runs the versions in turn."""

    def __init__(self, bench: Bench, versions: dict[str, Version], runs: int, iters: int | None) -> None:
        self.bench = bench
        self.versions = versions
        self.runs = runs
        self.iters = iters

    def once(self, peer: str, case: Case, hosts: Hosts | None, check: int = 0) -> Times:
        """Run weft-bench of one version."""
        version, setting, sizes = self.versions[peer], case.setting, case.sizes
        iters = self.iters or (TCP_ITERS if setting.transport == "tcp" and sizes[-1] < LARGE else None)
        options = ["-C", case.coll, "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(case.factor()), "-c", str(check),
                   "--place", "in" if case.coll == "broadcast" else "out", *(["-n", str(iters)] if iters else []),
                   *(["--algo", version.algorithm] if version.algorithm else [])]
        extra = {"WEFT_TRANSPORTS": setting.transport} if setting.transport else {}
        data = self.bench.weft_json(setting.nranks, options, hosts, extra, version.weft_bench)
        if data["wrong"]:
            raise RunError(f"weft-bench found {data['wrong']} wrong values")
        times = {row["bytes"]: (row["out_of_place"] or row["in_place"])["time_us"] for row in data["rows"]}
        return {size: max(us, LEAST_US) for size, us in times.items() if size in (0, *sizes)}

    def place(self, case: Case) -> int | None:
        """Return where the cores are; not for ranks that share cores, whose neighbours in time are compared instead."""
        alone = not case.setting.hosts and case.setting.nranks <= len(self.bench.cpus)
        return self.bench.place() if alone else None

    def turn(self, number: int, case: Case, hosts: Hosts | None) -> Turn:
        """Measure each version once."""
        order = ORDERS[number % len(ORDERS)]
        before = self.place(case)
        times = {peer: self.once(peer, case, hosts) for peer in order}
        return Turn(order, before if self.place(case) == before else MOVED, times)

    def alternate(self, case: Case, hosts: Hosts | None) -> tuple[list[Turn], list[str]]:
        """Take turns until enough of them were in one placement, at most three times as many; return them, and what failed.

        Before the first turn each version runs once with a check of the results. That run is not counted."""
        turns: list[Turn] = []
        failures: list[str] = []
        for peer in ("A", "B"):
            try:
                self.once(peer, case, hosts, 1)
            except RunError as e:
                failures.append(f"{case.name}, {peer}: {e}")
        for number in range(0 if failures else 3 * self.runs):
            if len(counted(turns)) >= self.runs or len(failures) >= FAILURES:
                break
            progress(f"{case.name}: turn {number + 1}, {len(counted(turns))} of {self.runs} done")
            try:
                turns.append(self.turn(number, case, hosts))
            except RunError as e:
                failures.append(f"{case.name}, turn {number + 1}: {e}")
        progress("")
        return turns, failures

    def too_few(self, case: Case, turns: list[Turn]) -> list[str]:
        """Return what to say if less than half of the turns wanted could be used."""
        usable = len(counted(turns))
        return [] if 2 * usable >= self.runs else [f"{case.name}: the cores moved: {usable} of {self.runs} turns in one placement"]

    def network(self, setting: Setting) -> contextlib.AbstractContextManager[Hosts | None]:
        """Return the hosts of a setting, to be made and cleared away; None on this host."""
        if not setting.hosts:
            return contextlib.nullcontext()
        per_host, rate = setting.nranks // setting.hosts, setting.rate_bits
        return Hosts(setting.hosts, rate > 0, self.bench.work, per_host, rate)

    def check(self, settings: list[Setting], colls: list[str], size: int) -> None:
        """Raise RunError if a version cannot run in one of the settings, or lacks its algorithm for one of the collectives."""
        for setting in settings:
            if setting.hosts and Hosts.refused():
                continue  # the result says so
            with self.network(setting) as hosts:
                for peer in ("A", "B"):
                    for coll in colls if self.versions[peer].algorithm else colls[:1]:
                        progress(f"{setting.name}: whether {peer} can do {coll}")
                        try:
                            self.once(peer, Case(setting, coll, (size,)), hosts)
                        except RunError as e:
                            progress("")
                            raise RunError(f"{setting.name}, {coll}, {peer}: {e}; nothing has been measured") from e
        progress("")

    def measure(self, cases: list[Case], result: Result) -> None:
        """Measure and print the cases of one setting."""
        setting = cases[0].setting
        heading(setting)
        refused = Hosts.refused() if setting.hosts else None
        if refused:
            result.failures.append(f"{setting.name}: network namespaces are refused here: {refused}")
            return
        with self.network(setting) as hosts:
            for case in cases:
                turns, failures = self.alternate(case, hosts)
                rows = rows_of(case, turns)
                result.turns.append((case, turns))
                result.rows += rows
                result.failures += failures or self.too_few(case, turns)
                show(rows)


def known(bench: Bench, weft_bench: Path) -> list[str]:
    """Return the collectives that a weft-bench's --help names."""
    program, env = bench.unwrapped(weft_bench)
    done = subprocess.run([str(program), "--help"], env=bench.environment(env), capture_output=True, text=True, check=False)
    found = re.search(r"--coll [^\n]*\n((?: {20,}[a-z_ ]+\n)+)", done.stdout)
    if not found:
        said = (done.stderr or done.stdout).strip().partition("\n")[0]
        raise RunError(f"{weft_bench} is no weft-bench: its --help names no collectives ({said[:200]})")
    return found[1].split()


def library_of(bench: Bench, weft_bench: Path) -> str:
    """Return the library that a weft-bench loads, or "" if none."""
    program, env = bench.unwrapped(weft_bench)
    done = subprocess.run(["ldd", str(program)], env=bench.environment(env), capture_output=True, text=True, check=False)
    found = re.search(r"libweft\.so\S* => (/\S+)", done.stdout)
    return os.path.realpath(found[1]) if found else ""


# ---- output ----

def progress(text: str) -> None:
    """Say on a terminal what is going on."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def heading(setting: Setting) -> None:
    """Print the head of a table."""
    times = "".join(f"{peer + ' us':>11}" for peer in PEERS)
    ratios = "".join(f"{name + '/A [95 %]':<24}" for name in PEERS[1:])
    print(f"\n{setting.name}\n  {'case':<24}{'runs':>5}{times}   {ratios}verdict", flush=True)


def show(rows: list[Row]) -> None:
    """Print rows of a table."""
    for row in rows:
        times = "".join(f"{us:>11.0f}" if us >= 1000 else f"{us:>11.4g}" for us in row.medians_us.values())
        ratios = "".join(f"{f'{r.value:.3f} [{r.low:.3f}, {r.high:.3f}]':<23} " for r in (row.again, row.ratio))
        print(f"  {row.coll + ' ' + size_name(row.bytes):<24}{row.runs:>5}{times}   {ratios}{row.verdict}")
    sys.stdout.flush()


def summary(result: Result, bench: Bench) -> None:
    """Print the geometric means and what went wrong."""
    all_means = means(result.rows)
    width = max([len(m["setting"]) for m in all_means] + [15])
    ratios = "".join(f"{name + '/A':>9}" for name in PEERS[1:])
    print(f"\n{'geometric means':<{width}}  {'collective':<18}{'rows':>6}{'slower':>8}{ratios}")
    for m in all_means:
        print(f"{m['setting']:<{width}}  {m['coll']:<18}{m['rows']:>6}{m['slower']:>8}{m['again']:>9.3f}{m['ratio']:>9.3f}")
    moved = sum(turn.placement == MOVED for _, turns in result.turns for turn in turns)
    if moved or len(bench.placements) > 1:
        trips = ", ".join(f"{ns:.0f}" for ns in bench.placements)
        print(f"note: a flag's round trip between the first cores took {trips} ns; medians are of the turns in the commonest "
              f"placement; {moved} turns during which the cores moved do not count")
    if any(row.runs < FEW for row in result.rows):
        print(f"note: intervals of fewer than {FEW} turns say little, and so do their verdicts")
    for text in result.failures:
        print(f"note: {text}")


def as_data(versions: dict[str, Version], args: argparse.Namespace, result: Result) -> dict[str, Any]:
    """Return everything, for JSON."""
    return {"baseline": asdict(versions["A"]), "version": asdict(versions["B"]), "runs": args.runs, "resamples": RESAMPLES,
            "seed": SEED, "margin": MARGIN, "floor": FLOOR, "rows": [asdict(row) for row in result.rows],
            "means": means(result.rows), "below_floors": failed_floors(result),
            "cases": [{"setting": case.setting.name, "coll": case.coll, "turns": [asdict(turn) for turn in turns]}
                      for case, turns in result.turns]}


# ---- the command line ----

def names_of(text: str) -> list[str]:
    """Read all_reduce,barrier; what is there twice counts once."""
    names = text.split(",")
    if not all(re.fullmatch(r"[\w-]+", name) for name in names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names with commas between them")
    return list(dict.fromkeys(names))


def sizes_of(text: str) -> list[int]:
    """Read 8,64,1K,4M."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found = [re.fullmatch(r"([1-9]\d*)([KMG]?)", word.upper()) for word in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes such as 8,1K,4M")
    sizes = sorted({int(m[1]) * units[m[2]] for m in found if m})
    if any(size % sizes[0] or (size // sizes[0]).bit_count() != 1 for size in sizes):
        raise argparse.ArgumentTypeError("each size must be a power of two times the smallest one")
    return sizes


def hosts_of(text: str) -> list[tuple[int, int]]:
    """Read 2x4,4x2: hosts times ranks on each."""
    found = [re.fullmatch(r"([1-9]\d?)x([1-9]\d?)", word) for word in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of hosts times ranks such as 2x4,4x2")
    return list(dict.fromkeys((int(m[1]), int(m[2])) for m in found if m))


def rate_of(text: str) -> int:
    """Read 1gbit or 500mbit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(k|m|g)bit", text)
    rate = int(float(found[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[found[2]]) if found else 0
    if rate < 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate such as 1gbit")
    return rate


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this comparison."""
    p = parser.add_argument_group("two versions of weft, in place of the rows")
    p.add_argument("--baseline", metavar="PATH", help="weft-bench of the build to compare with; --weft-bench is the other version")
    p.add_argument("--colls", type=names_of, help="comma-separated collectives (default: all that both know; with --hosts all_reduce)")
    p.add_argument("--sizes", type=sizes_of, help=f"comma-separated sizes (default {LOCAL_SIZES}; with --hosts {HOST_SIZES})")
    p.add_argument("--ranks", type=int, help="ranks on this host (default 2)")
    p.add_argument("--transports", type=names_of, help="comma-separated transports of ranks on this host (default shm,tcp)")
    p.add_argument("--hosts", type=hosts_of, metavar="HxR", help="comma-separated hosts times ranks on each, in place of this host")
    p.add_argument("--rate", type=rate_of, help="rate of the hosts' links, such as 1gbit (default: no limit)")
    p.add_argument("--iters", type=int, help="calls in a timed batch, as of weft-bench -n (default: by size)")
    p.add_argument("--algorithm", metavar="NAME",
                   help="algorithm of this version, as of weft-bench --algo; all of --colls must have it")
    p.add_argument("--baseline-algorithm", metavar="NAME", help="algorithm of the baseline")


def check_options(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Leave with status 2 if options do not go together."""
    places = {"ranks": "--hosts", "transports": "--hosts"} if args.hosts else {"rate": "ranks on this host"}
    own = ("colls", "sizes", "ranks", "transports", "hosts", "rate", "iters", "algorithm", "baseline_algorithm")
    against = dict.fromkeys(own, "rows: name a --baseline")
    if args.baseline:
        against = {**dict.fromkeys(("rows", "list", "quick", "skip"), "--baseline"), **places}
    given = [name for name in against if getattr(args, name) not in (None, "", False)]
    if given:
        parser.error(f"--{given[0].replace('_', '-')} does not go with {against[given[0]]}")
    if min(1 if n is None else n for n in (args.runs, args.iters, args.ranks)) < 1:
        parser.error("--runs, --iters and --ranks want at least 1")


def settings_of(args: argparse.Namespace) -> list[Setting]:
    """Return where to measure."""
    if args.hosts:
        return [Setting(count * per_host, "", count, args.rate or 0) for count, per_host in args.hosts]
    return [Setting(args.ranks or 2, transport) for transport in args.transports or ("shm", "tcp")]


def cases_of(setting: Setting, colls: list[str], sizes: list[int]) -> list[Case]:
    """Return the cases of a setting. On one host short and long messages are runs of their own."""
    groups = [sizes] if setting.hosts else [[s for s in sizes if s < LARGE], [s for s in sizes if s >= LARGE]]
    groups = [group for group in groups if group]
    return [Case(setting, coll, tuple(group)) for coll in colls for group in (groups[:1] if coll == "barrier" else groups)]


def collectives(bench: Bench, versions: dict[str, Version], args: argparse.Namespace) -> list[str]:
    """Return the collectives to measure."""
    a, b = (known(bench, versions[peer].weft_bench) for peer in ("A", "B"))
    both = [coll for coll in b if coll in a]
    wanted = args.colls or (["all_reduce"] if args.hosts else both)
    unknown = [coll for coll in wanted if coll not in both]
    if unknown:
        raise RunError(f"not both versions know {unknown[0]}; both know {', '.join(both) or 'none'}")
    return wanted


def versions_of(bench: Bench, args: argparse.Namespace, weft_bench: Path) -> dict[str, Version]:
    """Return the versions by letter."""
    baseline = Path(args.baseline).resolve()
    for program in (baseline, weft_bench):
        if not os.access(program, os.X_OK) or program.is_dir():
            raise RunError(f"{program}: not found, or not a program")
    a = Version(baseline, args.baseline_algorithm, library_of(bench, baseline))
    b = Version(weft_bench, args.algorithm, library_of(bench, weft_bench))
    if a.library and a.library == b.library and bench.unwrapped(baseline) != bench.unwrapped(weft_bench):
        raise RunError(f"both programs load {a.library}: build them apart, or see LD_LIBRARY_PATH")
    return {"A": a, "A'": a, "B": b}


def compare(bench: Bench, args: argparse.Namespace, weft_bench: Path) -> int:
    """Measure everything, print it and return the exit status."""
    versions = versions_of(bench, args, weft_bench)
    colls = collectives(bench, versions, args)
    sizes = args.sizes or sizes_of(HOST_SIZES if args.hosts else LOCAL_SIZES)
    Comparison(bench, versions, 1, 1).check(settings_of(args), colls, sizes[0])
    for peer in ("A", "B"):
        v = versions[peer]
        print(f"# {peer}: {v.weft_bench}" + (f", {v.library}" if v.library else "")
              + (f", algorithm {v.algorithm}" if v.algorithm else ""))
    count = f"{args.runs} turn" + ("s" if args.runs > 1 else "")
    print(f"# {count}, medians; intervals by {RESAMPLES} resamples of the turns, seed {SEED}", flush=True)
    comparison, result, saved = Comparison(bench, versions, args.runs, args.iters), Result(), True
    try:
        for setting in settings_of(args):
            comparison.measure(cases_of(setting, colls, sizes), result)
            saved = not args.json or write_json(args.json, as_data(versions, args, result))
    except KeyboardInterrupt:
        progress("")
        result.interrupted = True
        result.failures.append("interrupted: this is what was measured before")
        saved = not args.json or write_json(args.json, as_data(versions, args, result))
    summary(result, bench)
    return status_of(args, result, saved)


def status_of(args: argparse.Namespace, result: Result, saved: bool) -> int:
    """Judge the result if that is wanted; return the exit status."""
    below = failed_floors(result)
    if args.floors:
        print("\n".join(["floors: missed", *(f"  {text}" for text in below)]) if below else "floors: kept")
    if result.interrupted:
        return 130
    if not result.rows and not args.floors:
        return 2
    return 1 if args.floors and below or not saved else 0


def run(args: argparse.Namespace, weft_bench: Path | None) -> int:
    """Compare versions as the arguments say; return the exit status."""
    if weft_bench is None:
        print("weft-compare: weft-bench was not found: build first, or name it with --weft-bench", file=sys.stderr)
        return 2
    args.runs = args.runs or RUNS
    try:
        with contextlib.closing(Bench(weft_bench, args.python, args.timeout, False)) as bench:
            return compare(bench, args, weft_bench)
    except (RunError, RuntimeError, OSError) as e:
        print(f"weft-compare: {e}", file=sys.stderr)
        return 2
