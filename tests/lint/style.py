#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rules that a compiler does not check: file size, SPDX line, TODO with an issue, no abort, exit or printing in the library."""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from includes import files  # noqa: E402

MAX_LINES = 800
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(?\s*#\d+)")
LIBRARY = ("src/", "plugins/", "topology/", "compress/")
# Printing to a caller's FILE (fprintf(out, ...)) is fine, printing to the process's own streams is not.
FORBIDDEN = re.compile(r"(?<![\w.>])(abort|exit|_exit|quick_exit|printf|vprintf|puts|putchar|perror)\s*\(|\b(f?printf|fputs|fwrite|vfprintf|putc|fputc)\s*\([^;]*\b(stdout|stderr)\b")


# Threads of the library's take no signals (src/base/thread.h). Plugins see nothing of src/, and do so themselves.
STARTS = re.compile(r"\bpthread_create\s*\(")


def strip(text):
    """Blank out comments, strings and attributes, keeping line numbers."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", blank, text, flags=re.S)


def problems(path, text):
    # The comments of installed headers are the source of the manual pages (doc/man/pages.py): only their code counts, so that
    # nobody saves lines on what users read, and the interface itself stays as bounded as any file.
    lines = sum(1 for line in strip(text).split("\n") if line.strip()) if path.startswith("include/") else text.count("\n")
    if lines > MAX_LINES:
        yield 1, f"{lines} lines: split files past {MAX_LINES}"
    if "SPDX-License-Identifier: BSD-3-Clause" not in text[:1000]:
        yield 1, "no SPDX-License-Identifier line in the head"
    for number, line in enumerate(text.split("\n"), 1):
        match = TODO.search(line)
        if match and not path.startswith("tests/lint/"):
            yield number, f"{match.group(1)} without an issue number"
    if path.startswith(LIBRARY):
        for number, line in enumerate(strip(text).split("\n"), 1):
            match = FORBIDDEN.search(line)
            if match:
                yield number, f"{match.group().strip()}…: the library never aborts, exits or prints"
            if path.startswith("src/") and path != "src/base/thread.c" and STARTS.search(line):
                yield number, "pthread_create: wi_thread_start starts threads of the library"


def main():
    root = os.environ.get("WEFT_SRCDIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if len(sys.argv) > 1:
        root = sys.argv[1]
    wrong = 0
    names = files(root)
    for path in names:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as source:
            for number, why in problems(path, source.read()):
                print(f"{path}:{number}: {why}")
                wrong += 1
    print(f"{'not ok' if wrong or not names else 'ok'} 1 - {len(names)} files, {wrong} problems\n1..1")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
