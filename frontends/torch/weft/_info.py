# SPDX-License-Identifier: BSD-3-Clause
"""weft.info: what runs here, and with which settings."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Setting(NamedTuple):
    """One setting of the C library."""

    name: str
    value: str
    default: str
    origin: str  #: "default", "file", "environment" or "call"
    help: str


_OPEN = "WEFT_INSECURE is set: C programs on several hosts can be joined by anyone who reaches the network"


_SECURITY = {"key": "a job key is configured", "store": "no job key: groups are as private as PyTorch's store"}
_KEY_SETTINGS = ("WEFT_JOB_KEY", "WEFT_JOB_KEY_FILE", "WEFT_JOB_KEY_FD", "WEFT_REQUIRE_KEY", "WEFT_INSECURE")


@dataclass
class Info:
    """What :func:`info` found; prints itself."""

    version: str  #: of the C library
    torch: str
    adapter: Path  #: the compiled part
    settings: list[Setting] = field(default_factory=list)
    transports: list[str] = field(default_factory=list)
    algorithms: list[tuple[str, str, str]] = field(default_factory=list)  #: collective, algorithm, summary
    memory_reserved: int = 0  #: bytes of transport memory held for tensors
    #: "key": a job key is configured; "store": groups are as private as PyTorch's store; "refused": no group starts, see refusal
    security: str = "store"
    refusal: str = ""  #: what is wrong with the job key that is configured
    misspelt: list[str] = field(default_factory=list)  #: variables that resemble a setting about keys and are none
    insecure: bool = False  #: WEFT_INSECURE is set and no job key: C programs on several hosts can be joined by anyone

    def __str__(self) -> str:
        changed = [s for s in self.settings if s.origin != "default"]
        lines = [
            f"weft {self.version}, torch {self.torch}, adapter {self.adapter}",
            f"transports: {', '.join(self.transports)}; {len(self.algorithms)} algorithms; "
            f"{self.memory_reserved} bytes of transport memory held",
            "security: " + (self.refusal if self.security == "refused" else _SECURITY[self.security]),
            *([_OPEN] if self.insecure else []),
            *self.misspelt,
            *(f"{s.name}={s.value} ({s.origin})" for s in changed),
        ]
        return "\n".join(lines)


def _misspelt(settings: list[Setting]) -> list[str]:
    known = {s.name for s in settings}
    found = []
    for name in sorted(n for n in os.environ if n.startswith("WEFT_") and n not in known):
        meant = difflib.get_close_matches(name.upper(), _KEY_SETTINGS, 1, 0.0 if "KEY" in name.upper() else 0.85)
        found += [f"{name} is not a setting; did you mean {meant[0]}?"] if meant else []
    return found


def _security(settings: list[Setting], refusal: str) -> str:
    if refusal:
        return "refused"
    unset = {"WEFT_JOB_KEY_FILE": "", "WEFT_JOB_KEY_FD": "-1", "WEFT_JOB_KEY": ""}
    return "key" if any(s.name in unset and s.value not in ("", unset[s.name]) for s in settings) else "store"


def _insecure(settings: list[Setting]) -> bool:
    given = next((s.value.lower() for s in settings if s.name == "WEFT_INSECURE"), "n")
    return _security(settings, "") != "key" and given in ("y", "yes", "on", "true", "1")


def info() -> Info:
    """Versions, settings with their origin, open transports and known algorithms of this process."""
    import torch

    from . import _C

    settings = [Setting(*row) for row in _C.settings()]
    refusal = _C.key_refusal()
    return Info(
        version=_C.version(),
        torch=torch.__version__,
        adapter=Path(str(_C.__file__)),
        settings=settings,
        security=_security(settings, refusal),
        refusal=refusal,
        misspelt=_misspelt(settings),
        insecure=_insecure(settings),
        transports=[name for kind, name, _ in _C.plugins() if kind == "transport"],
        algorithms=list(_C.algorithms()),
        memory_reserved=_C.memory_reserved(),
    )


if __name__ == "__main__":
    print(info())
