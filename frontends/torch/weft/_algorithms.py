# SPDX-License-Identifier: BSD-3-Clause
"""Algorithms by name, for a group (weft.Options) or for calls (weft.algorithm)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def _known() -> dict[str, set[str]]:
    from . import _C

    known: dict[str, set[str]] = {}
    for collective, name, _ in _C.algorithms():
        known.setdefault(collective, set()).add(name)
    return known


def _near(name: str, names: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(names))}"


def parsed(given: str | Mapping[str, str]) -> list[tuple[str, str]]:
    """Collective and algorithm, of "all_reduce:ring,broadcast:node:chain" or {"all_reduce": "ring"}.

    Raises:
        TypeError: it is neither.
        ValueError: there is no such collective or algorithm; the text names one that is near.
    """
    if isinstance(given, str):
        rows = [(part.partition(":")[0].strip(), part.partition(":")[2].strip()) for part in given.split(",") if part.strip()]
    elif isinstance(given, Mapping):
        rows = [(str(collective), str(name)) for collective, name in given.items()]
    else:
        raise TypeError(f'weft: algorithms are "all_reduce:ring" or {{"all_reduce": "ring"}}, not {given!r}')
    known = _known()
    for collective, name in rows:
        if collective not in known:
            raise ValueError(f"weft: no collective {collective!r}{_near(collective, set(known))}")
        if not name:
            raise ValueError(f'weft: {collective!r} without an algorithm: "{collective}:{sorted(known[collective])[0]}", for one')
        if name.startswith("file:"):
            continue
        # By level: the parts of "node:ring", "node:ring/tree@leader" are algorithms, levels and ways to mix them.
        parts = set(re.split(r"[:/@]", name))
        if not parts & set().union(*known.values()) or (len(parts) == 1 and name not in known[collective]):
            raise ValueError(f"weft: {collective} has no algorithm {name!r}{_near(name, known[collective])}")
    return rows


@contextmanager
def algorithm(named: str | Mapping[str, str]) -> Iterator[None]:
    """What the calling thread issues inside takes these algorithms, in every group, on all ranks alike.

        with weft.algorithm("all_reduce:ring"):
            dist.all_reduce(t)

    An operation that the algorithm cannot do fails with the library's reason.

    Args:
        named: "COLLECTIVE:ALGORITHM", several with commas between them; or a dictionary. `weft.info().algorithms` has them all.
    """
    from . import _C

    scope = _C.enter_algorithms(named)
    try:
        yield
    finally:
        scope.leave()
