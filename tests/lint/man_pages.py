#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Manual pages: those of section 3 are what doc/man/pages.py writes; every page of sections 3 and 7 has its sections and
is clean for mandoc; every EXAMPLE compiles; weft.7 names each setting with its default and each algorithm."""

import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.environ.get("WEFT_SRCDIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("WEFT_BUILDDIR", os.path.join(ROOT, "build"))
MAN = os.path.join(ROOT, "doc", "man")
NEEDED = {"3": ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "EXAMPLE", "SEE ALSO"],
          "7": ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLE", "SEE ALSO"]}
TERMINAL, INDENT = 80, 8
CASES = []


def case(name, problems, skipped=""):
    """One line of TAP."""
    for problem in problems:
        print(problem)
    CASES.append(not problems)
    print(f"{'not ok' if problems else 'ok'} {len(CASES)} - {name}" + (f" # SKIP {skipped}" if skipped else ""))


def read(name):
    with open(os.path.join(MAN, name), encoding="utf-8") as page:
        return page.read()


def section(text, title):
    match = re.search(r"^\.SH %s\n(.*?)(?=^\.SH |\Z)" % title, text, flags=re.M | re.S)
    return match.group(1) if match else ""


def plain(text):
    """Without roff: what a reader sees."""
    text = re.sub(r"\\f[BIR]|\\&", "", text)
    return text.replace("\\-", "-").replace("\\e", "\\")


def code(text):
    """The source file of a page's EXAMPLE."""
    match = re.search(r"^\.EX\n(.*?)^\.EE$", section(text, "EXAMPLE"), flags=re.M | re.S)
    return plain(match.group(1)) if match else ""


def compile_example(name, source):
    compiler = (os.environ.get("WEFT_TEST_CC") or os.environ.get("CC") or "cc").split()
    command = compiler + ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                          "-I" + os.path.join(ROOT, "include"), "-x", "c", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60, check=False)
    return [] if done.returncode == 0 else [f"doc/man/{name}: its EXAMPLE does not compile\n{done.stderr}"]


def check_sections(names):
    for name in names:
        text = read(name)
        for title in NEEDED[name[-1]] + ["ENVIRONMENT", "ALGORITHMS"] * (name == "weft.7"):
            if not section(text, title).strip():
                yield f"doc/man/{name}: {title} is missing or empty"
        for line in section(text, "SYNOPSIS").splitlines() if name[-1] == "3" else []:
            if len(plain(line)) > TERMINAL - INDENT:
                yield f"doc/man/{name}: a line of SYNOPSIS does not fit a terminal of {TERMINAL} columns: {plain(line)}"
        for other in re.findall(r"^\.BR (weft[\w\\-]*) \(([137])\)", text, flags=re.M):
            if not os.path.isfile(os.path.join(MAN, f"{plain(other[0])}.{other[1]}")):
                yield f"doc/man/{name} refers to {plain(other[0])}({other[1]}), which is not there"


def check_mandoc(names):
    for name in names:
        done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", os.path.join(MAN, name)], capture_output=True,
                              text=True, timeout=60, check=False)
        if done.returncode or done.stdout or done.stderr:
            yield done.stdout + done.stderr


def check_overview(info):
    text = read("weft.7")
    shown = {m.group(1): (m.group(2) or "").strip()
             for m in re.finditer(r"^\.TP\n\\fB(WEFT_\w+)\\fR(?:=(.*))?$", section(text, "ENVIRONMENT"), flags=re.M)}
    for setting in info["settings"]:
        name, default = setting["name"], setting["default"] or ""
        if name not in shown:
            yield f"weft.7 lacks the setting {name}"
        elif name != "WEFT_PLUGIN_PATH" and plain(shown[name]) != default:
            yield f"weft.7: {name} has the default \"{default}\", not \"{plain(shown[name])}\""
    for name in set(shown) - {setting["name"] for setting in info["settings"]}:
        yield f"weft.7 has the setting {name}, which does not exist"
    collective, listed = "", set()
    for line in section(text, "ALGORITHMS").split("\n"):
        if line.startswith(".SS "):
            collective = line[4:]
        elif line.startswith(".B ") and collective:
            listed.add((collective, plain(line[3:])))
    there = {(a["collective"], a["name"]) for a in info["algorithms"]}
    for collective, name in sorted(there ^ listed):
        yield f"weft.7: {collective} {name} " + ("is missing" if (collective, name) in there else "does not exist")


def weft_info():
    """What weft-info prints, without the settings of whoever runs this; None if it is not built."""
    program = os.path.join(BUILD, "weft-info")
    if not os.path.isfile(program):
        return None
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    done = subprocess.run([program, "--json"], capture_output=True, text=True, timeout=60, check=True, env=env)
    return json.loads(done.stdout)


def main():
    done = subprocess.run([sys.executable, os.path.join(MAN, "pages.py"), "--check"], capture_output=True, text=True,
                          timeout=60, check=False)
    case("pages of section 3 are up to date", [done.stdout + done.stderr] if done.returncode else [])
    names = [name for name in sorted(os.listdir(MAN)) if name.endswith((".3", ".7")) and not read(name).startswith(".so ")]
    case("sections and references", list(check_sections(names)) or ([] if names else ["no pages"]))
    case("examples compile", [p for name in names for p in compile_example(name, code(read(name)))])
    if shutil.which("mandoc"):
        case("mandoc", list(check_mandoc(names)))
    else:
        case("mandoc", [], "mandoc is not installed")
    info = weft_info()
    if info:
        case("weft.7 against weft-info", list(check_overview(info)))
    else:
        case("weft.7 against weft-info", [], "weft-info is not built")
    print(f"1..{len(CASES)}")
    return 0 if all(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
