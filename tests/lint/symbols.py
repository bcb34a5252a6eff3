#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each library's symbols, the declarations of its headers and the man pages must name the same functions.

A page may cover several functions: by a NAME section that lists them, with .so pages or without."""

import os
import re
import subprocess
import sys

# Library -> what its functions begin with; a header belongs to the library with the longest one that its name begins with.
LIBRARIES = {"libweft.so": "weft_", "libweft_zero.so": "weft_zero_"}
DECLARATION = re.compile(r"^WEFT_API\b[^;]*?\b(weft_\w+)\s*\(", re.M)


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in out.splitlines() if line.strip()]
    names = {row[-1].split("@")[0] for row in rows if row[-2] != "A"}  # absolute: the names of versions
    return {name for name in names if not re.match(r"^(_init|_fini|__bss_start|_edata|_end)$", name)}


def declared(text):
    return set(DECLARATION.findall(text))


def undocumented(text):
    """Declarations with no comment above them. A comment covers the run of declarations right under it; section
    headings ("---- Context ----") are no documentation."""
    missing, documented, pending = [], False, ""
    text = re.sub(r"\\\n", " ", text)
    for token in re.findall(r"/\*.*?\*/|\n[ \t]*\n|[^\n]+", text, flags=re.S):
        if token.startswith("/*"):
            documented = "----" not in token
        elif not token.strip():
            documented = False
        else:
            pending += " " + token
            if ";" in token or token.lstrip().startswith("#"):
                match = DECLARATION.search(pending.strip())
                if match and not documented:
                    missing.append(match.group(1))
                pending = ""
    return missing


def page_names(path, folder):
    """What the NAME section of a page lists; .so is followed."""
    with open(path, encoding="utf-8") as page:
        text = page.read()
    link = re.match(r"\.so\s+(?:man3/)?(\S+)", text)
    if link:
        target = os.path.join(folder, os.path.basename(link.group(1)))
        if not os.path.isfile(target):
            raise ValueError(f".so names {link.group(1)}, which is not there")
        return page_names(target, folder)
    match = re.search(r"^\.S[Hh] \"?NAME\"?\n(.*?)(?=^\.S[Hh] )", text, flags=re.M | re.S)
    if not match:
        raise ValueError("no NAME section")
    return set(re.findall(r"\bweft_\w+", match.group(1).split("\\-")[0].replace("\\_", "_")))


def documented_in(folder):
    """Function -> pages, and problems."""
    pages, problems = {}, []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if not name.endswith(".3"):
            continue
        try:
            names = page_names(os.path.join(folder, name), folder)
        except ValueError as why:
            problems.append(f"doc/man/{name}: {why}")
            continue
        if name[:-2] not in names and name[:-2] != "weft":
            problems.append(f"doc/man/{name}: its NAME section does not list {name[:-2]}")
        for function in names:
            pages.setdefault(function, []).append(name)
    return pages, problems


def library_of(header):
    """The library whose functions a header declares."""
    name = re.sub(r"\W", "_", os.path.basename(header))
    found = [library for library, prefix in LIBRARIES.items() if (name + "_").startswith(prefix)]
    return max(found, key=lambda library: len(LIBRARIES[library]), default="libweft.so")


def compare(library, symbols, headers):
    """Everything in which a library and its headers differ, as text."""
    every = set().union(*(declared(text) for text in headers.values()))
    prefix = LIBRARIES[library]
    for symbol in sorted(symbols):
        if not symbol.startswith(prefix):
            yield f"{library} exports {symbol}: only {prefix}* may be exported"
        elif symbol not in every:
            yield f"{library} exports {symbol}, which no installed header of it declares"
    for name in sorted(every - symbols):
        yield f"{name} is declared and not in {library}"


def compare_pages(headers, pages):
    """Everything that is not documented, and documentation of what is not there."""
    every = set().union(*(declared(text) for text in headers.values()))
    for path, text in headers.items():
        for name in undocumented(text):
            yield f"{path}: {name} has no comment of its own"
    for name in sorted(every - set(pages)):
        yield f"{name} has no man page in doc/man"
    for name in sorted(set(pages) - every):
        yield f"doc/man/{pages[name][0]} is about {name}, which no header declares"


def main():
    root = os.environ.get("WEFT_SRCDIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    built = os.path.join(os.environ.get("WEFT_BUILDDIR", os.path.join(root, "build")), ".libs")
    headers = {}
    folder = os.path.join(root, "include", "weft")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as header:
            headers["include/weft/" + name] = header.read()
    pages, problems = documented_in(os.path.join(root, "doc", "man"))
    problems += compare_pages(headers, pages)
    print("\n".join(problems + [f"{'not ok' if problems else 'ok'} 1 - {len(pages)} documented functions, {len(problems)} problems"]))
    status = bool(problems)
    for number, library in enumerate(LIBRARIES, 2):
        symbols = exported(os.path.join(built, library))
        own = {path: text for path, text in headers.items() if library_of(path) == library}
        problems = list(compare(library, symbols, own)) + [f"{library} exports nothing"] * (not symbols)
        print("\n".join(problems + [f"{'not ok' if problems else 'ok'} {number} - {library}: {len(symbols)} symbols, {len(own)} headers, "
                                    f"{len(problems)} problems"]))
        status |= bool(problems)
    print(f"1..{1 + len(LIBRARIES)}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
