# SPDX-License-Identifier: BSD-3-Clause
"""Names and lines of the stacks that the adapter captures as code objects and positions in them."""

from __future__ import annotations

import os
import sys
from types import CodeType

#: A code object, and the index of the instruction that runs (before Python 3.11: the line).
Frame = tuple[CodeType, int]


def _line(code: CodeType, where: int) -> int:
    if sys.version_info < (3, 11):
        return where
    return next((line or 0 for start, end, line in code.co_lines() if start <= where < end), code.co_firstlineno)


def named(frames: list[Frame]) -> list[tuple[str, int, str]]:
    """File, line and function of each frame."""
    return [(code.co_filename, _line(code, where), code.co_name) for code, where in frames]


def issuer(frames: list[Frame]) -> str:
    """The innermost frame outside of torch and of this package: "file.py:12 in step"; "" if there are no frames."""
    import torch

    folders = tuple(os.path.dirname(file) + os.sep for file in (torch.__file__, __file__))
    names = named(frames)
    found = [one for one in names if not one[0].startswith(folders)] or names[-1:]
    return f"{found[0][0]}:{found[0][1]} in {found[0][2]}" if found else ""
