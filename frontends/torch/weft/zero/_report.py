# SPDX-License-Identifier: BSD-3-Clause
"""What a configuration asks to be told while training goes on: steps_per_print, wall_clock_breakdown and their like."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._engine import Engine

#: Steps between lines where steps_per_print does not say, and something is to be told.
BETWEEN = 10
_TIMES = {"gather_wait_ns": "waited for parameters", "reduce_wait_ns": "for reductions", "norm_ns": "norms",
          "update_ns": "update", "copy_ns": "copying gradients", "disk_read_wait_ns": "waited for reads of files",
          "disk_write_wait_ns": "for writes", "snapshot_wait_ns": "for a save"}  # fmt: skip
_BYTES = {"param_bytes": "parameters", "grad_bytes": "gradients", "state_bytes": "states", "gather_bytes": "gathered",
          "reduce_bytes": "being reduced", "disk_bytes": "in files", "disk_buffer_bytes": "their buffers"}  # fmt: skip


class Report:
    """Lines on rank 0's standard error.

    Args:
        text: the configuration, as it was read, with steps_per_print, wall_clock_breakdown, memory_breakdown, dump_state.
    """

    def __init__(self, text: Mapping[str, Any]) -> None:
        self._times, self._memory = bool(text.get("wall_clock_breakdown")), bool(text.get("memory_breakdown"))
        self._every = text.get("steps_per_print") or (BETWEEN if self._times or self._memory else 0)
        self._text = text if text.get("dump_state") else None
        self._before: dict[str, int] = {}

    def begun(self, engine: Engine) -> None:
        """The engine is made."""
        if self._text is not None:
            self._say(engine, f"configuration: {json.dumps(self._text, sort_keys=True)}")
        if self._every:
            self._before = engine.stats()

    def stepped(self, engine: Engine) -> None:
        """An update has been made, or skipped."""
        if not self._every or engine.global_steps % self._every:
            return
        rates = ", ".join(f"{lr:g}" for lr in engine.get_lr())
        norm = engine.get_global_grad_norm()
        line = f"step {engine.global_steps}: lr {rates}" + (f", norm {norm:.4g}" if norm is not None else "")
        if engine.loss_scale != 1:
            line += f", loss scale {engine.loss_scale:g}, {engine.skipped_steps} steps skipped"
        now = engine.stats()
        if self._times:
            passed = {name: now[name] - self._before[name] for name in _TIMES}
            told = ", ".join(f"{words} {passed[name] / 1e6:.1f}" for name, words in _TIMES.items() if passed[name])
            line += f"; ms since the last line: {told}"
        if self._memory:
            told = ", ".join(f"{words} {now[name] / 2**20:.1f}" for name, words in _BYTES.items() if now[name])
            line += f"; MiB on this rank: {told}"
        self._before = now
        self._say(engine, line)

    @staticmethod
    def _say(engine: Engine, line: str) -> None:
        if engine.global_rank == 0 and sys.stderr is not None:
            print(f"weft.zero: {line}", file=sys.stderr, flush=True)
