# SPDX-License-Identifier: BSD-3-Clause
"""weft/_C.pyi against the module that it describes: the same names, and the same parameters with the same defaults.

pybind11 writes signatures into docstrings. Types are compared where both sides spell them in Python's own words.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType, WrapperDescriptorType

import torch.distributed  # noqa: F401  (registers the base classes)
import weft

PLAIN = {"None", "int", "str", "bool", "float"}
#: As pybind11 3 spells parameters that it converts.
CONVERTED = {"typing.SupportsInt": "int", "typing.SupportsFloat": "float"}
SPECIAL = ("__init__", "__copy__", "__deepcopy__")


class Stub:
    """What the file declares: functions by qualified name, properties and classes."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, ast.FunctionDef] = {}
        self.properties: set[str] = set()
        self.classes: set[str] = set()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
                for member in node.body:
                    if isinstance(member, ast.FunctionDef):
                        self._add(member, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                self._add(node, "")

    def _add(self, node: ast.FunctionDef, prefix: str) -> None:
        if any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list):
            self.properties.add(prefix + node.name)
        else:
            self.functions[prefix + node.name] = node


def defined(module: ModuleType) -> tuple[dict[str, object], set[str], set[str]]:
    """Functions by qualified name, properties and classes of the module."""
    functions, properties, classes = {}, set(), set()
    for name, value in vars(module).items():
        if inspect.isclass(value):
            classes.add(name)
            for member, what in vars(value).items():
                if isinstance(what, property):
                    properties.add(f"{name}.{member}")
                elif isinstance(what, WrapperDescriptorType):  # pybind11's, of a class that has no constructor
                    continue
                elif callable(what) and (member in SPECIAL or not member.startswith(("__", "_pybind11"))):
                    functions[f"{name}.{member}"] = what
        elif callable(value):
            functions[name] = value
    return functions, properties, classes


def parameters(function: object) -> tuple[list[tuple[str, str, bool]], str]:
    """Name, type and whether there is a default, of each parameter of a pybind11 function; and what it returns."""
    first = (getattr(function, "__doc__", None) or "").splitlines()[0]
    tree = ast.parse(f"def {re.sub('<[^>]*>', 'None', first)}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    return _of(tree), ast.unparse(tree.returns) if tree.returns else ""


def _of(tree: ast.FunctionDef) -> list[tuple[str, str, bool]]:
    plain = len(tree.args.args) - len(tree.args.defaults)
    return [(a.arg, ast.unparse(a.annotation) if a.annotation else "", i >= plain) for i, a in enumerate(tree.args.args)]


def compare(name: str, stub: ast.FunctionDef, function: object) -> list[str]:
    there, returned = parameters(function)
    here = _of(stub)
    unnamed = [re.fullmatch(r"arg\d+", p[0]) is not None for p in there]
    if len(here) != len(there):
        return [f"{name}: {len(here)} parameters in the stub, {len(there)} in the module"]
    problems = []
    for (mine, my_type, my_default), (its, its_type, its_default), no_name in zip(here, there, unnamed, strict=True):
        if mine != its and not no_name and mine != "self":
            problems.append(f"{name}: parameter {mine} in the stub, {its} in the module")
        if my_default != its_default:
            problems.append(f"{name}: parameter {mine} has a default in one of them only")
        # An object: the function looks at its type itself, for a clear error.
        if my_type in PLAIN and my_type not in (its_type, CONVERTED.get(its_type.split(" | ")[0])) and its_type != "object":
            problems.append(f"{name}: parameter {mine} is {my_type} in the stub, {its_type} in the module")
    result = ast.unparse(stub.returns) if stub.returns else ""
    if (result in PLAIN or returned in PLAIN) and result != returned:
        problems.append(f"{name}: returns {result} in the stub, {returned} in the module")
    return problems


def problems_of(module: ModuleType, text: str) -> list[str]:
    stub = Stub(text)
    functions, properties, classes = defined(module)
    problems = []
    for what, here, there in (
        ("class", stub.classes, classes),
        ("property", stub.properties, properties),
        ("function", set(stub.functions), set(functions)),
    ):
        problems += [f"{what} {name} is only in the stub" for name in sorted(here - there)]
        problems += [f"{what} {name} is only in the module" for name in sorted(there - here)]
    for name in sorted(set(stub.functions) & set(functions)):
        problems += compare(name, stub.functions[name], functions[name])
    return problems


#: What the comparison must find: a name, a parameter, a default, a type, a result.
MISTAKES = (
    ("def interrupt", "def interupt"),
    ("fd: int", "descriptor: int"),
    ("device | None = None", "device | None"),
    ("on: bool", "on: str"),
    ("version() -> str", "version() -> int"),
)


def main() -> int:
    text = Path(weft.__file__).with_name("_C.pyi").read_text()
    problems = problems_of(weft._C, text)
    for right, wrong in MISTAKES:
        if right not in text or not problems_of(weft._C, text.replace(right, wrong)):
            problems.append(f"this comparison does not see {wrong!r} for {right!r}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
