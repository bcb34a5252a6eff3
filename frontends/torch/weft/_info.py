# SPDX-License-Identifier: BSD-3-Clause
"""weft.info: what runs here, and with which settings."""

from __future__ import annotations

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
_KEY_STATES = ("store", "store", "key", "key", "refused")  # by weft_key_state: none, insecure, configured, unread, refused
_INSECURE = 1


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


def info() -> Info:
    """Versions, settings with their origin, open transports and known algorithms of this process."""
    import torch

    from . import _C

    settings = [Setting(*row) for row in _C.settings()]
    key, text, misspelt = _C.security()
    return Info(
        version=_C.version(),
        torch=torch.__version__,
        adapter=Path(str(_C.__file__)),
        settings=settings,
        security=_KEY_STATES[key],
        refusal=text if _KEY_STATES[key] == "refused" else "",
        misspelt=[misspelt] if misspelt else [],
        insecure=key == _INSECURE,
        transports=[name for kind, name, _, refusal in _C.plugins() if kind == "transport" and not refusal],
        algorithms=list(_C.algorithms()),
        memory_reserved=_C.memory_reserved(),
    )


if __name__ == "__main__":
    print(info())
