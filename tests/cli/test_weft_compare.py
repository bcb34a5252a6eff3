#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-compare --baseline: its statistics with known numbers, its turns with programs made up, and one short comparison of
weft-bench with itself."""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import unittest
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

SOURCE, BUILD = (Path(os.environ[name]) for name in ("WEFT_SRCDIR", "WEFT_BUILDDIR"))
sys.path.insert(0, str(SOURCE / "tools"))
sys.dont_write_bytecode = True
import compare_versions as cv  # noqa: E402
from compare_hosts import Hosts  # noqa: E402
from compare_run import Bench, RunError  # noqa: E402

NOISE = [10 + (i * 7 % 30) / 10 for i in range(30)]
SHM = cv.Setting(2, "shm")


def row(ratio, verdict="same", coll="all_reduce", setting="2 ranks, shm"):
    """Return a row with that ratio of B over A."""
    return cv.Row(setting, coll, 8, 30, {}, cv.Ratio(1, 1, 1), cv.Ratio(ratio, ratio, ratio), verdict)


class Statistics(unittest.TestCase):
    def judge(self, b, again=NOISE):
        return cv.verdict(cv.ratio(NOISE, again), cv.ratio(NOISE, b))

    def test_twice_the_time_is_slower(self):
        double = cv.ratio(NOISE, [2 * us for us in NOISE])
        self.assertEqual((double.value, double.low, double.high), (2, 2, 2))
        self.assertEqual(self.judge([2 * us for us in NOISE]), "slower")
        self.assertEqual(self.judge([us / 2 for us in NOISE]), "faster")

    def test_equal_is_not_slower(self):
        self.assertEqual(self.judge(NOISE), "same")
        self.assertEqual(self.judge(NOISE[::-1]), "same")

    def test_margins(self):
        self.assertEqual(self.judge([1.029 * us for us in NOISE]), "same")
        self.assertEqual(self.judge([1.031 * us for us in NOISE]), "slower")
        self.assertEqual(self.judge([1.05 * us for us in NOISE], [1.06 * us for us in NOISE]), "same")
        self.assertEqual(self.judge([1.07 * us for us in NOISE], [1.06 * us for us in NOISE]), "slower")

    def test_the_whole_interval_counts(self):
        b = cv.ratio([10.0] * 30, [10.0] * 14 + [12.0] * 16)
        self.assertEqual((b.value, b.low, b.high), (1.2, 1.0, 1.2))
        self.assertEqual(cv.verdict(cv.Ratio(1, 1, 1), b), "same")

    def test_interval_of_the_mean_of_two(self):
        # Of two turns, each drawing is one of them twice (a quarter each) or both: the middle 95 % hold all three.
        b = cv.ratio([1.0, 1.0], [1.0, 3.0])
        self.assertEqual((b.value, b.low, b.high), (2, 1, 3))

    def test_turns_are_drawn_together(self):
        first = [1.0, 100.0] * 15
        self.assertEqual(cv.ratio(first, [3 * us for us in first]).high, 3)

    def test_geometric_means(self):
        rows = [row(2), row(0.5), row(3, "slower", "barrier"), row(3, "slower", "barrier", "2 ranks, tcp")]
        found = [(m["setting"], m["coll"], m["rows"], m["slower"], round(m["ratio"], 9)) for m in cv.means(rows)]
        self.assertEqual(found, [("2 ranks, shm", "all_reduce", 2, 0, 1), ("2 ranks, shm", "barrier", 1, 1, 3),
                                 ("2 ranks, tcp", "barrier", 1, 1, 3), ("all", "all", 4, 2, round(9 ** 0.25, 9))])

    def test_floors(self):
        self.assertEqual(cv.failed_floors(cv.Result([row(1.019)])), [])
        self.assertEqual(len(cv.failed_floors(cv.Result([row(1.021)]))), 2)  # of the collective and of all
        self.assertEqual(cv.failed_floors(cv.Result([row(1, "slower")])), ["2 ranks, shm, all_reduce 8 is slower"])
        self.assertEqual(cv.failed_floors(cv.Result([row(1)], failures=["a run failed"])), ["a run failed"])
        self.assertEqual(cv.failed_floors(cv.Result()), ["nothing was measured"])


class Turns(unittest.TestCase):
    """Turns of programs that are made up: B takes twice the time."""

    case = cv.Case(SHM, "all_reduce", (8, 64))

    def alternate(self, runs, places=(), fails=lambda peer, number: False):
        """Take turns; `places` are what the looks at the cores find, then always 0."""
        calls, looks = [], iter(places)

        def once(peer, case, hosts, check=0):
            calls.append((peer, check))
            if fails(peer, len(calls)):
                raise RunError("it broke")
            return {size: size * (2.0 if peer == "B" else 1.0) for size in case.sizes}

        comparison = cv.Comparison(SimpleNamespace(cpus=[0, 1], place=lambda: next(looks, 0)), {}, runs, None)
        comparison.once = once
        turns, failures = comparison.alternate(self.case, None)
        return turns, failures, calls

    def test_rows(self):
        turns, failures, calls = self.alternate(6)
        self.assertEqual((len(turns), failures, len(calls)), (6, [], 2 + 18))
        self.assertEqual([check for _, check in calls], [1, 1] + [0] * 18)
        rows = cv.rows_of(self.case, turns)
        self.assertEqual([(r.bytes, r.runs, r.ratio.value, r.again.value, r.verdict) for r in rows],
                         [(8, 6, 2, 1, "slower"), (64, 6, 2, 1, "slower")])
        self.assertEqual(rows[1].medians_us, {"A": 64, "A'": 64, "B": 128})

    def test_orders(self):
        self.assertEqual(set(cv.ORDERS), set(permutations(cv.PEERS)))
        for peer in cv.PEERS:
            self.assertEqual(sorted(order.index(peer) for order in cv.ORDERS), [0, 0, 1, 1, 2, 2])
            self.assertEqual(sorted(order.index(peer) for order in cv.ORDERS[:3]), [0, 1, 2])

    def test_turns_during_which_the_cores_moved_do_not_count(self):
        turns, failures, _ = self.alternate(3, (0, 1, 1, 1))
        self.assertEqual([turn.placement for turn in turns], [cv.MOVED, 1, 0, 0, 0])
        self.assertEqual([turn.placement for turn in cv.counted(turns)], [0, 0, 0])
        self.assertEqual(failures, [])

    def test_cores_that_always_move(self):
        turns, _, _ = self.alternate(2, (0, 1) * 6)
        self.assertEqual((len(turns), cv.counted(turns), cv.rows_of(self.case, turns)), (6, [], []))

    def test_a_version_that_fails_at_once_is_not_measured(self):
        turns, failures, calls = self.alternate(3, fails=lambda peer, number: peer == "B")
        self.assertEqual((turns, failures, len(calls)), ([], ["2 ranks, shm, all_reduce 8-64, B: it broke"], 2))

    def test_failing_turns(self):
        turns, failures, _ = self.alternate(3, fails=lambda peer, number: number == 3)
        self.assertEqual((len(turns), failures), (3, ["2 ranks, shm, all_reduce 8-64, turn 1: it broke"]))
        turns, failures, _ = self.alternate(3, fails=lambda peer, number: number > 2)
        self.assertEqual((turns, len(failures)), ([], cv.FAILURES))

    def test_cases(self):
        cases = cv.cases_of(SHM, ["all_reduce", "barrier"], cv.sizes_of(cv.LOCAL_SIZES))
        self.assertEqual([(case.coll, len(case.sizes), case.factor()) for case in cases],
                         [("all_reduce", 5, 2), ("all_reduce", 2, 16), ("barrier", 5, 2)])
        self.assertEqual(cv.Case(SHM, "scan", (8,)).factor(), 2)
        self.assertEqual(cv.names_of("scan,barrier,scan"), ["scan", "barrier"])  # or scan would count twice in the means
        self.assertEqual(cv.hosts_of("2x4,4x2,2x4"), [(2, 4), (4, 2)])
        hosts = cv.cases_of(cv.Setting(8, "", 2), ["all_reduce"], cv.sizes_of(cv.HOST_SIZES))
        self.assertEqual([(len(case.sizes), case.factor()) for case in hosts], [(5, 4)])


class Programs(unittest.TestCase):
    bench = str(BUILD / "weft-bench")
    short = ("--runs", "1", "--colls", "all_reduce", "--sizes", "8", "--transports", "shm")

    def run_compare(self, *options, **environment):
        """Run on one core, where no placement can change: (exit status, output)."""
        one = {min(os.sched_getaffinity(0))}
        done = subprocess.run([sys.executable, str(SOURCE / "tools/weft-compare"), "--weft-bench", self.bench, *options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=170, check=False,
                              env={**os.environ, **environment}, preexec_fn=lambda: os.sched_setaffinity(0, one))
        return done.returncode, done.stdout

    def compare(self, *options):
        """Compare weft-bench with itself and return what --json says."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            status, output = self.run_compare("--baseline", self.bench, "--json", str(path), *options)
            self.assertEqual(status, 0, output)
            return json.loads(path.read_text()), output

    def check_arithmetic(self, data):
        """Medians, ratios and means must be those of the raw times."""
        turns = data["cases"][0]["turns"]
        for r in data["rows"]:
            medians = {p: statistics.median(t["times_us"][p][str(r["bytes"])] for t in turns) for p in cv.PEERS}
            self.assertEqual(r["medians_us"], medians)
            self.assertEqual(r["runs"], len(turns))
            for name, peer in (("again", "A'"), ("ratio", "B")):
                self.assertAlmostEqual(r[name]["value"], medians[peer] / medians["A"])
                self.assertLessEqual(r[name]["low"], r[name]["value"])
                self.assertGreaterEqual(r[name]["high"], r[name]["value"])
        product = statistics.geometric_mean(r["ratio"]["value"] for r in data["rows"])
        self.assertAlmostEqual(data["means"][-1]["ratio"], product)

    def test_with_itself(self):
        data, output = self.compare("--runs", "2", "--colls", "all_reduce", "--sizes", "8,512,64", "--transports", "shm")
        self.assertEqual([(r["setting"], r["coll"], r["bytes"]) for r in data["rows"]],
                         [("2 ranks, shm", "all_reduce", size) for size in (8, 64, 512)])
        turns = data["cases"][0]["turns"]
        self.assertEqual([turn["order"] for turn in turns], [list(order) for order in cv.ORDERS[:2]])
        self.assertEqual(data["baseline"], data["version"])
        self.check_arithmetic(data)
        self.assertRegex(output, r"(?m)^  all_reduce 512 +2 ")
        self.assertRegex(output, r"(?m)^all +all +3 ")
        self.assertIn("intervals of fewer than 10 turns say little", output)

    def test_hosts(self):
        refused = Hosts.refused()
        if refused:
            self.skipTest(refused)
        data, _ = self.compare("--runs", "1", "--hosts", "2x2", "--rate", "1gbit", "--sizes", "256K", "--iters", "2",
                               "--algorithm", "node:ring")
        self.assertEqual([(r["setting"], r["bytes"]) for r in data["rows"]], [("2 hosts x 2 ranks, 1 Gbit/s", 256 << 10)])
        self.assertEqual((data["baseline"]["algorithm"], data["version"]["algorithm"]), (None, "node:ring"))
        # 256 KiB cross each host's link, in 2.1 ms less what the shaper lets pass at once.
        self.assertGreater(data["rows"][0]["medians_us"]["A"], 1400)
        self.check_arithmetic(data)

    def test_each_version_has_an_algorithm(self):
        for option, peer in (("--algorithm", "B"), ("--baseline-algorithm", "A")):
            status, output = self.run_compare("--baseline", self.bench, *self.short, option, "nonsense")
            self.assertEqual(status, 2, output)
            self.assertRegex(output, f"^weft-compare: 2 ranks, shm, all_reduce, {peer}: .*no algorithm is called 'nonsense'")

    def test_settings_are_checked_before_anything_is_measured(self):
        for options, words in ((("--transports", "shm,tpc"), 'tpc, all_reduce, A: .*names "tpc"'),
                               (("--transports", "shm,tcp", "--algorithm", "flat"),
                                'tcp, all_reduce, B: .*"flat" cannot do this'),
                               (("--colls", "all_reduce,barrier", "--algorithm", "ring"),
                                'barrier, B: .*no algorithm "ring" for barrier')):
            status, output = self.run_compare("--baseline", self.bench, *self.short, *options)
            self.assertEqual(status, 2, output)
            self.assertRegex(output, f"^weft-compare: 2 ranks, .*{words}")
            self.assertNotIn("geometric means", output)

    def test_collectives_are_read(self):
        with contextlib.closing(Bench(None, sys.executable, 60, False)) as bench:
            names = cv.known(bench, BUILD / "weft-bench")
        self.assertEqual((names[0], names[-1]), ("all_reduce", "sendrecv"))
        self.assertTrue({"reduce_scatter", "all_gather", "broadcast", "all_to_all", "scan", "barrier"} < set(names), names)

    def test_one_library_in_two_programs(self):
        if not (BUILD / ".libs/weft-bench").is_file():
            self.skipTest("the library is part of the program")
        with tempfile.TemporaryDirectory() as folder:
            other = shutil.copy(BUILD / ".libs/weft-bench", folder)
            status, output = self.run_compare("--baseline", other, *self.short, LD_LIBRARY_PATH=str(BUILD / ".libs"))
        self.assertEqual(status, 2, output)
        self.assertIn("both programs load", output)

    def test_bad_arguments(self):
        for options, words in ((("--rate", "1gbit"), "--rate does not go with ranks on this host"),
                               (("--hosts", "2x2", "--ranks", "2"), "--ranks does not go with --hosts"),
                               (("--rows", "idle"), "--rows does not go with --baseline"),
                               (("--sizes", "8,24"), "power of two times"), (("--hosts", "2"), "hosts times ranks"),
                               (("--rate", "fast"), "not a rate"), (("--runs", "0"), "at least 1"),
                               (("--transports", "shm,"), "not a list of names"), (("--colls", "scan,"), "not a list of names"),
                               (("--colls", "nonsense"), "not both versions know nonsense; both know all_reduce,"),
                               (("--timeout", "0"), "--timeout wants more"), (("--timeout", "nan"), "--timeout wants more"),
                               (("--weft-bench", "/nonexistent/weft-bench"), "/nonexistent/weft-bench: not found")):
            status, output = self.run_compare("--baseline", self.bench, *options)
            self.assertEqual(status, 2, output)
            self.assertIn(words, output)
        self.assertEqual(self.run_compare("--hosts", "2x2")[0], 2)
        self.assertIn("not found", self.run_compare("--baseline", "/nonexistent/weft-bench")[1])

    def test_bad_arguments_of_rows(self):
        for options, words in ((("--skip", "glo"), "no peer is called glo"), (("--timeout", "-1"), "--timeout wants more than 0"),
                               (("--runs", "0"), "at least 1"), (("--rows", "idle,"), "not a list of names")):
            status, output = self.run_compare("--list", *options)
            self.assertEqual(status, 2, output)
            self.assertIn(words, output)

    def test_json_that_cannot_be_written(self):
        """Said before anything is measured where it is known; else when it happens, after which the table comes all the same."""
        for path in ("/nonexistent/x.json", "/tmp"):
            for options in (("--baseline", self.bench, *self.short), ("--rows", "idle")):
                status, output = self.run_compare(*options, "--json", path)
                self.assertEqual((status, "us" in output.split()), (2, False), output)
                self.assertIn(f"--json {path}: ", output)
        status, output = self.run_compare("--baseline", self.bench, *self.short, "--json", "/dev/full")
        self.assertEqual(status, 1, output)
        self.assertIn("/dev/full: No space left", output)
        self.assertRegex(output, r"(?m)^all +all +1 ")

    def test_nothing_measured(self):
        status, output = self.run_compare("--baseline", self.bench, *self.short[:-1], "nonsense")
        self.assertEqual(status, 2, output)
        self.assertIn('names "nonsense"', output)

    def test_interrupted(self):
        """Ctrl-C ends the measurement, not what is known of it."""
        command = [sys.executable, str(SOURCE / "tools/weft-compare"), "--weft-bench", self.bench]
        for options, summary in ((("--baseline", self.bench, "--sizes", "8", "--runs", "500"), True), (("--rows", "oversub"), False)):
            with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
                output = process.stdout.readline()
                while summary and process.poll() is None and not output.endswith("verdict\n"):  # the head of the first table
                    output += process.stdout.readline()
                process.send_signal(signal.SIGINT)
                output += process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 130, output)
            self.assertIn("interrupted", output)
            self.assertNotIn("Traceback", output)
            self.assertEqual("geometric means" in output, summary, output)


class Result(unittest.TextTestResult):
    """One line of TAP per test."""

    def say(self, good, test, more=""):
        print(f"{'ok' if good else 'not ok'} {self.testsRun} - {test.id().removeprefix('__main__.')}{more}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say(True, test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(True, test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(False, test)

    def addError(self, test, err):
        super().addError(test, err)
        self.say(False, test)


if __name__ == "__main__":
    program = unittest.main(testRunner=unittest.TextTestRunner(resultclass=Result, verbosity=0), exit=False)
    print(f"1..{program.result.testsRun}")
    sys.exit(not program.result.wasSuccessful())
