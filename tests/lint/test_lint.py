#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The lints must find what they look for: small trees with one mistake each."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import symbols  # noqa: E402

SPDX = "/* SPDX-License-Identifier: BSD-3-Clause */\n"


def run(lint, tree):
    """Write the tree {path: text} and run a lint on it: (exit status, output)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in tree.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as out:
                out.write(text)
        command = ["bash" if lint.endswith(".sh") else sys.executable, os.path.join(HERE, lint), root]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr


BASE = {"src/base/log.h": SPDX, "src/net/auth.h": SPDX, "src/sched/sched.h": SPDX, "src/exec/run.h": SPDX,
        "include/weft/weft.h": SPDX, "include/weft/weft_plugin.h": SPDX}


class Includes(unittest.TestCase):
    def one(self, path, line):
        return run("includes.py", {**BASE, path: SPDX + line + "\n"})

    def good(self, path, line):
        status, output = self.one(path, line)
        self.assertEqual(status, 0, output)

    def bad(self, path, line, words):
        status, output = self.one(path, line)
        self.assertEqual(status, 1, output)
        self.assertIn(f"{path}:2:", output)
        self.assertIn(words, output)

    def test_allowed(self):
        self.good("src/sched/a.c", '#include "base/log.h"')
        self.good("src/exec/a.c", '#include "net/auth.h"')
        self.good("src/exec/a.c", '#include "run.h"')
        self.good("plugins/tcp/a.c", "#include <weft/weft_plugin.h>")
        self.good("tools/weft-run.c", "#include <weft/weft.h>")
        self.good("tools/weft-plan.c", '#include "sched/sched.h"')
        self.good("tests/unit/a.c", '#include "net/auth.h"')

    def test_base_includes_nothing(self):
        self.bad("src/base/a.c", '#include "sched/sched.h"', "src/base may include nothing")

    def test_sched_knows_no_net(self):
        self.bad("src/sched/a.c", '#include "net/auth.h"', "src/sched may include src/base")

    def test_importers_are_read_by_few(self):
        importer = {**BASE, "src/import/import.h": SPDX}
        for path, allowed in (("src/comm/a.c", 1), ("tools/weft-plan.c", 1), ("src/sched/a.c", 0), ("src/plan/a.c", 0)):
            status, output = run("includes.py", {**importer, path: SPDX + '#include "import/import.h"\n'})
            self.assertEqual(status, 0 if allowed else 1, output)

    def test_algo_knows_no_exec(self):
        self.bad("src/algo/a.c", '#  include "exec/run.h"', "not src/exec")

    def test_plugins_see_their_contract_only(self):
        self.bad("plugins/tcp/a.c", '#include "base/log.h"', "plugins include weft/weft_plugin.h")
        self.bad("plugins/tcp/a.c", '#include "../../src/base/log.h"', "plugins include weft/weft_plugin.h")

    def test_angle_brackets_hide_nothing(self):
        self.bad("plugins/tcp/a.c", "#include <base/log.h>", "plugins include weft/weft_plugin.h")
        self.bad("tools/run_a.c", "#include <src/base/log.h>", "not src/base")
        self.bad("tools/bench_a.h", "#include <net/auth.h>", "not src/net")
        self.good("plugins/tcp/a.c", "#include <stdio.h>")

    def test_tools_use_the_public_header(self):
        self.bad("tools/weft-bench.c", '#include "base/log.h"', "not src/base")
        self.bad("examples/a.c", '#include "base/log.h"', "not src/base")

    def test_prediction_needs_no_network(self):
        self.bad("tools/weft-plan.c", '#include "net/auth.h"', "not src/net")
        self.bad("tools/weft-sim.c", '#include "exec/run.h"', "not src/exec")

    def test_hwloc(self):
        self.bad("src/exec/a.c", "#include <hwloc.h>", "hwloc.h")
        self.good("topology/a.c", "#include <hwloc.h>")

    def test_missing_files(self):
        self.bad("src/exec/a.c", '#include "exec/nowhere.h"', "not in the tree")

    def test_unknown_folder(self):
        self.bad("src/other/a.c", '#include "base/log.h"', "not in the list of folders")


class Style(unittest.TestCase):
    def one(self, path, text):
        return run("style.py", {path: SPDX + text})

    def good(self, path, text):
        status, output = self.one(path, text)
        self.assertEqual(status, 0, output)

    def bad(self, path, text, words):
        status, output = self.one(path, text)
        self.assertEqual(status, 1, output)
        self.assertIn(words, output)

    def test_size(self):
        self.good("src/base/a.c", "\n" * 790)
        self.bad("src/base/a.c", "\n" * 801, "split files past 800")
        self.bad("src/base/a.h", "/* x\n" + "\n" * 801 + "*/\n", "split files past 800")

    def test_size_of_installed_headers(self):
        # The manual pages are written from their comments: limiting those would shorten the manual, not the interface.
        self.good("include/weft/a.h", "/* x\n" + "\n" * 2000 + "*/\nint a;\n")
        self.bad("include/weft/a.h", "int a;\n" * 801, "split files past 800")

    def test_threads(self):
        self.bad("src/zero/a.c", "int f(void) { return pthread_create(a, b, c, d); }\n", "wi_thread_start starts threads")
        self.good("src/base/thread.c", "int f(void) { return pthread_create(a, b, c, d); }\n")
        self.good("plugins/tcp/a.c", "int f(void) { return pthread_create(a, b, c, d); }\n")

    def test_licence(self):
        status, output = run("style.py", {"src/base/a.c": "int a;\n"})
        self.assertEqual(status, 1)
        self.assertIn("SPDX", output)

    def test_todo(self):
        self.bad("src/base/a.c", "/* TODO" + ": later */\n", "without an issue number")
        self.good("src/base/a.c", "/* TODO" + "(#12): later */\n")

    def test_the_library_does_not_end_or_print(self):
        self.bad("src/base/a.c", "void f(void) { abort(); }\n", "never aborts")
        self.bad("plugins/tcp/a.c", "void f(void) { exit (1); }\n", "never aborts")
        self.bad("src/base/a.c", 'void f(void) { printf("x"); }\n', "never aborts")
        self.bad("src/base/a.c", 'void f(void) { fprintf(stderr, "x"); }\n', "never aborts")
        self.bad("src/base/a.c", 'void f(void) { fputs("x", stdout); }\n', "never aborts")

    def test_what_only_looks_like_it(self):
        self.good("src/base/a.c", "/* abort() */ void weft_comm_abort(void);\n")
        self.good("src/base/a.c", 'void f(FILE *out) { fprintf(out, "exit(1)"); snprintf(a, 1, "x"); }\n')
        self.good("src/base/a.c", "void g(int, ...) __attribute__((format(printf, 1, 2)));\n")
        self.good("src/base/a.c", "void g(struct ops *ops) { ops->abort(ops); }\n")
        self.good("tools/a.c", "void f(void) { exit(1); }\n")


class Format(unittest.TestCase):
    def test_good(self):
        status, output = run("format.sh", {"a.c": SPDX + "int a;\n"})
        self.assertEqual(status, 0, output)

    def test_bad(self):
        for text, words in (("\tint a;\n", "a tab"), ("int a; \n", "space at the end"),
                            ("/* " + "x" * 140 + " */\n", "columns")):
            status, output = run("format.sh", {"a.h": SPDX + text})
            self.assertEqual(status, 1, output)
            self.assertIn(words, output)

    def test_characters_are_columns(self):
        status, output = run("format.sh", {"a.h": "/* " + "é" * 110 + " */\n"})
        self.assertEqual(status, 0, output)


HEADER = """
/* ---- Section ---- */

WEFT_API const char *weft_naked(void);

/* Two of a kind. */
WEFT_API int weft_one(int a,
                      int b);
WEFT_API int weft_two(void);
"""


class Symbols(unittest.TestCase):
    def test_declarations(self):
        self.assertEqual(symbols.declared(HEADER), {"weft_naked", "weft_one", "weft_two"})
        self.assertEqual(symbols.undocumented(HEADER), ["weft_naked"])

    def test_comparison(self):
        pages = {"weft_one": ["weft_one.3"], "weft_old": ["weft_old.3"]}
        headers = {"weft.h": HEADER}
        found = "\n".join([*symbols.compare("libweft.so", {"weft_one", "weft_two", "leak", "weft_secret"}, headers),
                           *symbols.compare_pages(headers, pages)])
        for words in ("exports leak: only weft_*", "exports weft_secret, which no installed header",
                      "weft_naked is declared and not in libweft.so", "weft_two has no man page",
                      "weft_old.3 is about weft_old", "weft.h: weft_naked has no comment"):
            self.assertIn(words, found)
        self.assertNotIn("weft_one ", found)

    def test_libraries(self):
        for header, library in (("weft.h", "libweft.so"), ("weft_types.h", "libweft.so"), ("weft_zero.h", "libweft_zero.so"),
                                ("include/weft/weft_zero_config.h", "libweft_zero.so"), ("weft_zeroth.h", "libweft.so")):
            self.assertEqual(symbols.library_of(header), library, header)
        headers = {"weft_zero.h": "/* It. */\nWEFT_API int weft_zero_one(void);\nWEFT_API int weft_zero_two(void);\n"}
        found = list(symbols.compare("libweft_zero.so", {"weft_zero_one", "weft_wait", "weft_zero_x"}, headers))
        self.assertEqual(found, ["libweft_zero.so exports weft_wait: only weft_zero_* may be exported",
                                 "libweft_zero.so exports weft_zero_x, which no installed header of it declares",
                                 "weft_zero_two is declared and not in libweft_zero.so"])

    def test_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("weft_one.3", '.TH x 3\n.SH NAME\nweft_one, weft_two \\- do it\n.SH SYNOPSIS\n'),
                               ("weft_two.3", ".so man3/weft_one.3\n"), ("weft_lost.3", ".so man3/weft_none.3\n"),
                               ("weft_other.3", ".TH x 3\n.SH NAME\nweft_one \\- x\n.SH SYNOPSIS\n"),
                               ("weft_empty.3", ".TH x 3\n")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                    out.write(text)
            pages, problems = symbols.documented_in(folder)
            self.assertEqual(set(pages), {"weft_one", "weft_two"})
            self.assertEqual(len(problems), 3, problems)
            self.assertTrue(any("weft_none.3, which is not there" in p for p in problems))
            self.assertTrue(any("does not list weft_other" in p for p in problems))
            self.assertTrue(any("no NAME section" in p for p in problems))


class Result(unittest.TextTestResult):
    """One line of TAP per test."""

    def say(self, good, test):
        print(f"{'ok' if good else 'not ok'} {self.testsRun} - {test.id().removeprefix('__main__.')}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say(True, test)

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
