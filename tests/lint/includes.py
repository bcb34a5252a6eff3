#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who may include whom (ARCHITECTURE.md). Reads every #include "..." and #include <weft/...> of the tree."""

import os
import re
import subprocess
import sys

# folder of the including file -> folders it may include from, besides its own and include/
ALLOWED = {
    "src/base": [],
    "src/sched": ["src/base"],
    "src/import": ["src/sched", "src/base"],
    "topology": ["src/base"],
    "src/net": ["src/base", "compress"],
    "compress": ["src/base"],
    "src/algo": ["src/sched", "src/base"],
    "src/sim": ["src/sched", "src/base", "topology"],
    "src/plan": ["compress", "src/algo", "src/sched", "src/base", "topology"],
    "src/exec": ["src/sched", "src/net", "src/base", "compress"],
    "src/comm": ["src/base", "src/sched", "src/import", "src/algo", "src/plan", "src/exec", "src/sim", "src/net", "topology", "compress"],
    "src/zero": ["src/base", "src/zero/common", "src/zero/optim", "src/zero/disk", "src/zero/ckpt", "src/zero/ds"],
    "src/zero/common": ["src/base"],
    "src/zero/optim": ["src/base"],
    "src/zero/disk": ["src/base"],
    "src/zero/ckpt": ["src/base"],
    "src/zero/ds": ["src/base", "src/zero/common"],
    "frontends": [],
    "examples": [],
    "tools": [],
    "tests": None,  # anything
}
# Tools that predict without a network.
PREDICTING = re.compile(r"tools/(weft[-_])?(plan|sim|tune|topo)[-_.]")
PREDICTING_ALLOWED = ["compress", "src/algo", "src/sched", "src/import", "src/base", "src/plan", "src/sim", "topology", "tools"]
# Tools that look inside the library on purpose; the rest uses the installed headers only.
INSIDE = re.compile(r"tools/(weft[-_](plan|sim|tune|topo|info)|info_|plan_|sim_|tune_|topo_)")
# A list of words that needs nothing of the library: any tool may have it.
TOOL_LISTS = ("compress/call_parameters.h",)
# inproc runs the protocols of shm over the heap.
PLUGIN_SHARES = {"plugins/inproc": "plugins/shm"}
PLUGIN_HEADERS = {"weft/weft_plugin.h", "weft/weft.h", "weft/weft_types.h"}
HWLOC_ALLOWED = re.compile(r"^(topology/|tools/(weft[-_]run|run_|weft[-_]info|info_))")
# What a plugin calls of the library it gets as struct weft_host, also where it is linked in.
PLUGIN_NAMES = re.compile(r"\bwi_(?!(?:shm|tcp|inproc)_)[a-z0-9_]+\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def folder(path):
    parts = path.split("/")
    if parts[:2] == ["src", "zero"] and len(parts) > 3:
        return "/".join(parts[:3])
    if parts[0] in ("src", "plugins") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def resolve(root, path, name):
    """The file in the tree that the quoted name means, or None."""
    for base in (os.path.dirname(path), "src", "", "include"):
        candidate = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check(root, path, line):
    """Why this include line of this file is wrong, or None."""
    match = INCLUDE.match(line)
    if path.startswith("plugins/") and PLUGIN_NAMES.search(line):
        return "plugins call their own functions and those of struct weft_host only"
    if not match:
        return None
    kind, name = match.groups()
    if name.startswith("hwloc"):
        return None if HWLOC_ALLOWED.match(path) or path.startswith("tests/") else "only topology/ and the tools that bind or describe the machine see hwloc.h"
    own = folder(path)
    target = resolve(root, path, name)
    if kind == "<":
        # The search path holds src/ and the top, so that <base/log.h> is one of ours, too.
        if target is None and not name.startswith("weft/"):
            return None
        target = target or "include/" + name
    if target is None:
        return None if name == "config.h" else f'"{name}" is not in the tree'
    if not os.path.isfile(os.path.join(root, target)):
        return f"<{name}> is not in the tree"
    to = folder(target)
    if own == "include":
        return None if to == "include" else "installed headers include installed headers only"
    if own.startswith("plugins"):
        if to in (own, PLUGIN_SHARES.get(own)) or name in PLUGIN_HEADERS:
            return None
        return "plugins include weft/weft_plugin.h and their own folder only"
    if to in ("include", own) or (own == "tools" and target in TOOL_LISTS):
        return None
    allowed = ALLOWED.get(own, [])
    if PREDICTING.match(path):
        allowed = PREDICTING_ALLOWED
    elif INSIDE.match(path):
        allowed = None
    if allowed is None or to in allowed:
        return None
    if own not in ALLOWED:
        return f"{own} is not in the list of folders of tests/lint/includes.py"
    return f"{own} may include {', '.join(allowed) or 'nothing'} (and include/), not {to}"


def files(root):
    """Sources known to git, or, in a release, all of the tree's."""
    try:
        out = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout
        names = out.split()
    except (OSError, subprocess.CalledProcessError):
        names = []
    # Also where the tree was unpacked below another one, which does not know it.
    if not names:
        names = [os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(root) for f in fs]
    ends = (".c", ".h", ".cc", ".cpp", ".cu", ".hpp")
    skip = ("build", "_build", "_inst", "autom4te", "config.h")
    return sorted(n for n in names if n.endswith(ends) and not n.startswith(skip) and os.path.isfile(os.path.join(root, n)))


def main():
    root = os.environ.get("WEFT_SRCDIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if len(sys.argv) > 1:
        root = sys.argv[1]
    wrong = seen = 0
    for path in files(root):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as source:
            for number, line in enumerate(source, 1):
                seen += line.lstrip().startswith("#") and "include" in line
                why = check(root, path, line)
                if why:
                    print(f"{path}:{number}: {line.strip()}: {why}")
                    wrong += 1
    if seen == 0:
        print(f"no include lines found under {root}: the lint itself is broken")
        return 1
    print(f"{'not ok' if wrong else 'ok'} 1 - {seen} include lines, {wrong} against the rules\n1..1")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
