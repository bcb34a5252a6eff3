#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of zero-config.md, from the library's own table of keys.

  zero_config.py [BUILD]            write them into the guide, behind the line that begins them; what stands before is kept
  zero_config.py --check [BUILD]    say whether the guide is what this script would write

BUILD is the build folder, which has tests/zero/print_ds_keys (make tests/zero/print_ds_keys)."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GUIDE = os.path.join(HERE, "zero-config.md")
BEGIN = "<!-- What follows is written by doc/guide/zero_config.py. -->\n"
EFFECTS = {"works": "works", "as preset": "as the default; another value has no effect", "no effect": "**no effect**",
           "refused": "**refused**", "renamed": "old spelling"}


def keys(build):
    out = subprocess.run([os.path.join(build, "tests", "zero", "print_ds_keys")], capture_output=True, text=True, timeout=60, check=True)
    return [line.split("\t") for line in out.stdout.splitlines()]


def section_of(path, kind):
    return path.split(".")[0] if "." in path or kind == "object" else ""


def row(path, kind, values, preset, effect, meaning):
    name = path.split(".", 1)[1] if "." in path else path
    if effect == "renamed":
        return f"| `{name}` | | | old spelling | of `{meaning}` |"
    said = EFFECTS[effect]
    if effect == "refused" and preset:
        said += f", unless it is `{preset}`"
    values = " ".join(f"`{word}`" for word in values.split("|")) if "|" in values else values
    kind = "" if kind == "object" else values if kind == "word" else f"{kind}, {values}" if values else kind
    return f"| `{name}` | {kind} | {f'`{preset}`' if preset else ''} | {said} | {meaning} |"


def tables(build):
    sections = {}
    for path, kind, values, preset, effect, meaning in keys(build):
        lines = sections.setdefault(section_of(path, kind), [])
        if kind == "object" and "." not in path:
            lines.insert(0, meaning)
        else:
            lines.append(row(path, kind, values, preset, effect, meaning))
    out = [BEGIN]
    for section, lines in sections.items():
        out.append(f"\n## {f'`{section}`' if section else 'At the top'}\n\n")
        if lines and not lines[0].startswith("|"):
            out.append(lines.pop(0) + "\n\n")
        out.append("| key | values | default | | |\n|---|---|---|---|---|\n")
        out.append("\n".join(lines) + "\n")
    return "".join(out)


def main(arguments):
    check = arguments[:1] == ["--check"]
    rest = arguments[check:]
    build = rest[0] if rest else os.environ.get("WEFT_BUILDDIR", os.path.join(HERE, "..", "..", "build"))
    with open(GUIDE, encoding="utf-8") as guide:
        now = guide.read()
    if BEGIN not in now:
        print(f"{GUIDE} lacks the line {BEGIN.strip()}")
        return 1
    new = now.split(BEGIN)[0] + tables(build)
    if check:
        if now != new:
            print("doc/guide/zero-config.md is not what doc/guide/zero_config.py writes: run it")
        return int(now != new)
    with open(GUIDE, "w", encoding="utf-8") as guide:
        guide.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
