#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The guide's tables of ds_config's keys are those of the library; the list of DeepSpeed's keys, against which tests/zero/test_ds_text
compares the library, is that of the DeepSpeed that is installed, where one is."""

import os
import shutil
import subprocess
import sys

ROOT = os.environ.get("WEFT_SRCDIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("WEFT_BUILDDIR", os.path.join(ROOT, "build"))
CASES = []


def case(name, command):
    """One line of TAP. A command that ends with 77 could not run here."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    skipped = done.returncode == 77
    if done.returncode and not skipped:
        print(f"# {' '.join(command)}: exit status {done.returncode}\n# " + (done.stdout + done.stderr).strip().replace("\n", "\n# "))
    CASES.append(done.returncode == 0 or skipped)
    print(f"{'ok' if CASES[-1] else 'not ok'} {len(CASES)} - {name}" + (f" # SKIP {done.stdout.strip()}" if skipped else ""))


def main():
    with_torch = os.environ.get("WEFT_TEST_PYTHON_TORCH") or sys.executable
    python = shutil.which(with_torch) or sys.executable
    case("the guide's tables are the library's", [sys.executable, os.path.join(ROOT, "doc", "guide", "zero_config.py"), "--check", BUILD])
    case("the list of keys is that of the DeepSpeed here",
         [python, os.path.join(ROOT, "tests", "zero", "deepspeed_keys.py"), "--compare", os.path.join(ROOT, "tests", "zero", "deepspeed_keys.txt")])
    print(f"1..{len(CASES)}")
    return 0 if all(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
