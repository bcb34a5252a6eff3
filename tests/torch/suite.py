#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run PyTorch's own DistributedTest on weft and on Gloo, and compare.

    suite.py                        weft at 3, 4 and 8 ranks, against Gloo's recorded results
    suite.py --quick                the part for every day: one world size, the tests of suite_quick.txt
    suite.py --gloo measure         run Gloo too, on this machine
    suite.py --gloo record          run Gloo too, and write its results to suite_gloo.json
    suite.py --only 'all_to_all'    tests whose names match the expression
    suite.py --backends gloo        no comparison, Gloo only

Exit status 1: a test that Gloo passes does not pass on weft.
Gloo's recorded results are used only with the torch version that they were taken with; else Gloo is measured.
"""

import argparse
import collections
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "suite_gloo.json")
WORLDS = (3, 4, 8)  # 8: some thirty tests ask for eight ranks
QUICK = os.path.join(HERE, "suite_quick.txt")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="weft", help="backends to run and compare with Gloo (weft)")
    parser.add_argument("--world", default=None, help="world sizes (3,4,8; with --quick 3)")
    parser.add_argument("--gloo", choices=("recorded", "measure", "record"), default="recorded")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="regular expression on the test's name")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="tests at a time (2)")
    parser.add_argument("--timeout", type=int, default=150, help="seconds for one test (150)")
    parser.add_argument("--tap", action="store_true", help="a line for each test, in the test anything protocol")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every test, and why it failed")
    options = parser.parse_args()
    options.worlds = [int(w) for w in (options.world or ("3" if options.quick else ",".join(map(str, WORLDS)))).split(",")]
    return options


def read_quick():
    with open(QUICK) as lines:
        return {line.split("#")[0].strip() for line in lines} - {""}


def chosen(options, names):
    """The names that this call is about; an unknown name in the quick list is an error."""
    if options.quick:
        quick = read_quick()
        unknown = quick - set(names)
        if unknown:
            raise SystemExit(f"{QUICK}: not in this torch's suite: {', '.join(sorted(unknown))}")
        names = [name for name in names if name in quick]
    return [name for name in names if re.search(options.only, name)]


def _shard(options, backend, world, lane, turn, path, logs):
    """One process: import the suite once, then take the next test that no other lane has taken."""
    import suite_run

    def wanted(names):
        todo = chosen(options, names)
        while True:
            with turn.get_lock():
                index, turn.value = turn.value, turn.value + 1
            if index >= len(todo):
                return
            yield todo[index]

    with open(path, "w") as sink:
        suite_run.serve(backend, world, wanted, sink, logs, options.timeout)


def measure(options, backend, world):
    """Run the chosen tests; return {name: outcome}. A lane that dies is an error, never a silent gap."""
    context = multiprocessing.get_context("fork")
    turn = context.Value("i", 0)
    with tempfile.TemporaryDirectory() as logs:
        paths = [os.path.join(logs, f"lane{lane}.json") for lane in range(options.jobs)]
        lanes = [context.Process(target=_shard, args=(options, backend, world, lane, turn, path, logs))
                 for lane, path in enumerate(paths)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        if any(lane.exitcode for lane in lanes):
            raise SystemExit(f"suite: a runner for {backend} at {world} ranks ended with {[p.exitcode for p in lanes]}")
        outcomes = {}
        for path in paths:
            with open(path) as lines:
                for line in lines:
                    outcome = json.loads(line)
                    outcomes[outcome.pop("name")] = outcome
    return dict(sorted(outcomes.items()))


def recorded(options, world):
    """Gloo's committed results, or None when they are of another torch or lack this world size."""
    import torch

    try:
        with open(RECORD) as record:
            content = json.load(record)
    except FileNotFoundError:
        return None
    if content["torch"] != torch.__version__.split("+")[0] or str(world) not in content["results"]:
        return None
    return {name: {"state": state[0], "reason": state[1], "seconds": 0}
            for name, state in content["results"][str(world)].items()}


def record(results):
    import torch

    compact = {str(world): {name: [o["state"], o["reason"].split("\n")[0]] for name, o in outcomes.items()}
               for world, outcomes in results.items()}
    text = json.dumps({"torch": torch.__version__.split("+")[0], "results": compact}, indent=1)
    with open(RECORD, "w") as out:  # one line for each test
        out.write(re.sub(r"\[\s+(\".*?\"),\s+(\".*\")\s+\]", r"[\1, \2]", text) + "\n")


def gloo_results(options, world):
    if options.gloo == "recorded":
        found = recorded(options, world)
        if found is not None:
            return found, "recorded"
    return measure(options, "gloo", world), "measured"


def count(outcomes):
    states = collections.Counter(o["state"] for o in outcomes.values())
    return "  ".join(f"{states[state]:3d} {state}" for state in ("passed", "failed", "skipped"))


def print_tap(world, ours, regressions):
    """Only what ran: hundreds of tests for CUDA devices would drown the rest; the table counts them."""
    shown = [name for name, outcome in ours.items() if name in regressions or outcome["state"] == "passed"]
    print(f"1..{len(shown)}")
    for name in shown:
        print(f"{'not ok' if name in regressions else 'ok'} {name}, {world} ranks")


def report(options, backend, world, ours, gloo):
    """Print both side by side; return the names of the regressions."""
    regressions = [n for n, o in ours.items() if gloo.get(n, o)["state"] == "passed" and o["state"] != "passed"]
    if gloo and set(ours) - set(gloo):
        raise SystemExit(f"suite: Gloo's results lack {sorted(set(ours) - set(gloo))}: use --gloo record")
    if options.tap:
        print_tap(world, ours, regressions)
    for name, outcome in ours.items():
        theirs = gloo[name]["state"] if gloo else "-"
        if options.verbose or outcome["state"] == "failed" or name in regressions:
            mark = "REGRESSION " if name in regressions else ""
            print(f"  {mark}{name}: {backend} {outcome['state']} ({outcome['seconds']:.1f} s), gloo {theirs}")
            if outcome["state"] == "failed":
                lines = outcome["reason"].strip().split("\n")
                print("\n".join(f"      {line}" for line in (lines if options.verbose else lines[-3:])))
    better = [n for n, o in ours.items() if o["state"] == "passed" and gloo and gloo[n]["state"] != "passed"]
    if better:
        print(f"  passes where Gloo does not: {', '.join(better)}")
    reasons = collections.Counter(o["reason"].split("\n")[0] for o in ours.values() if o["state"] == "skipped")
    for reason, times in reasons.most_common():
        print(f"  skipped {times:3d}: {reason}")
    return regressions


def main():
    options = arguments()
    sys.path.insert(0, HERE)
    try:
        import torch  # noqa: F401  imported once, before the runners are forked
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    measured_gloo, failed = {}, False
    for world in options.worlds:
        for backend in options.backends.split(","):
            start = time.monotonic()
            gloo, how = ({}, "") if backend == "gloo" else gloo_results(options, world)
            if how == "measured":
                measured_gloo[world] = gloo
            start_ours = time.monotonic()
            ours = measure(options, backend, world)
            if backend == "gloo":
                measured_gloo[world] = ours
            print(f"world size {world}, torch {torch.__version__}, {len(ours)} tests")
            print(f"  {backend:6s} {count(ours)}   {time.monotonic() - start_ours:.0f} s")
            if gloo:
                shown = {name: gloo[name] for name in ours if name in gloo}
                print(f"  gloo   {count(shown)}   ({how}{', %.0f s' % (start_ours - start) if how == 'measured' else ''})")
            regressions = report(options, backend, world, ours, gloo)
            if regressions:
                failed = True
                print(f"  {len(regressions)} REGRESSIONS: {', '.join(regressions)}")
    if options.gloo == "record":
        if options.quick or options.only or set(measured_gloo) != set(WORLDS):
            raise SystemExit("suite: --gloo record needs the whole suite at all world sizes")
        record(measured_gloo)
    print("suite: FAILED" if failed else "suite: no regression")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
