#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The structs of weft_zero.h that Python has as ctypes.Structure (frontends/torch/weft/zero/_library.py) have the same fields, of the
same types and in the same order; weft_zero_config's are also those of the library's list (src/zero/common/config_fields.h)."""

import ast
import ctypes
import os
import re
import sys

ROOT = os.environ.get("WEFT_SRCDIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = ("include/weft/weft_zero.h", "include/weft/weft_zero_config.h", "include/weft/weft_types.h")
CONFIG_FIELDS = "src/zero/common/config_fields.h"
MIRRORS = "frontends/torch/weft/zero/_library.py"
KINDS = {"size_t": ctypes.c_size_t, "double": ctypes.c_double, "unsigned": ctypes.c_uint, "uint64_t": ctypes.c_uint64,
         "int64_t": ctypes.c_int64}


def fields_of(body):
    """[(name, kind)] of a struct's body, comments removed; kind: the type, or "*" for what is a pointer or a function."""
    found = []
    for declaration in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        words = " ".join(declaration.split())
        if not words:
            continue
        first, *more = words.split(",")
        type_name = re.match(r"(?:const )?(\w+)", first).group(1)
        for item in (first, *more):
            name = re.search(r"(\w+)(\[\w*\])?$", item.strip())
            if name:  # not so the pointers to functions of other structs
                found.append((name.group(1), "*" if "*" in item or type_name.endswith("_fn") else type_name))
    return found


def structs():
    found = {}
    for header in HEADERS:
        with open(os.path.join(ROOT, header), encoding="utf-8") as source:
            text = source.read()
        for name, body in re.findall(r"typedef struct (weft_\w+) \{(.*?)\n\} \1;", text, flags=re.S):
            found[name] = fields_of(body)
    return found


def mirrors():
    """{struct: [(field, type)]}: of each class whose docstring is the struct's name and a point."""
    with open(os.path.join(ROOT, MIRRORS), encoding="utf-8") as source:
        tree = ast.parse(source.read())
    found, names = {}, {"ctypes": ctypes}
    for node in tree.body:
        # The short names of types, which come first.
        if isinstance(node, ast.Assign) and "ctypes." in ast.unparse(node.value) and not found:
            exec(compile(ast.Module([node], []), MIRRORS, "exec"), names)
        doc = ast.get_docstring(node) if isinstance(node, ast.ClassDef) else None
        match = re.match(r"(weft_\w+)\.", doc or "")
        if not match:
            continue
        for part in node.body:
            if isinstance(part, ast.Assign) and getattr(part.targets[0], "id", "") == "_fields_":
                found[match.group(1)] = eval(compile(ast.Expression(part.value), MIRRORS, "eval"), names)
    return found


def config_fields():
    with open(os.path.join(ROOT, CONFIG_FIELDS), encoding="utf-8") as source:
        return re.findall(r"^    FIELD\((\w+), ", source.read(), flags=re.M)


def same_kind(kind, mine):
    """Enumerations are int."""
    if kind == "*":
        return mine in (ctypes.c_char_p, ctypes.c_void_p) or isinstance(mine, type(ctypes.POINTER(ctypes.c_int)))
    return mine is KINDS.get(kind, ctypes.c_int) or (kind == "char" and mine._type_ is ctypes.c_char)


def main():
    wrong, headers, python = [], structs(), mirrors()
    for name, rows in python.items():
        wanted = headers.get(name)
        if wanted is None:
            wrong.append(f"{name} is in no header")
            continue
        if [field for field, _ in wanted] != [field for field, _ in rows]:
            differs = next((f"{a} there, {b} here" for (a, _), (b, _) in zip(wanted, rows) if a != b), "one is longer")
            wrong.append(f"{name}: fields differ: {differs}")
            continue
        wrong += [f"{name}.{field} is {kind} there, {mine} here" for (field, kind), (_, mine) in zip(wanted, rows)
                  if not same_kind(kind, mine)]
    listed, declared = ["bytes", *config_fields()], [field for field, _ in headers["weft_zero_config"]]
    if listed != declared:
        differs = next((f"{a} there, {b} here" for a, b in zip(declared, listed) if a != b), "one is longer")
        wrong.append(f"{CONFIG_FIELDS}: fields of weft_zero_config differ: {differs}")
    if len(python) < 4:
        wrong.append(f"{MIRRORS} has {len(python)} such structs: the lint itself is broken")
    for line in wrong:
        print(f"# {line}")
    print(f"{'not ok' if wrong else 'ok'} 1 - {len(python)} structs of ZeRO in Python\n1..1")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
