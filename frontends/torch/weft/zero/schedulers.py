# SPDX-License-Identifier: BSD-3-Clause
"""Learning rates that configurations of the DeepSpeed kind name: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest.

Each gives the same rates as DeepSpeed's of that name. step() is called after each update; the first update has the rates that are
there when the scheduler is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

Rates = float | Sequence[float]


def _of_groups(optimizer: torch.optim.Optimizer, value: Rates, name: str) -> list[float]:
    """One for each group."""
    groups = len(optimizer.param_groups)
    if isinstance(value, int | float):
        return [float(value)] * groups
    if len(value) != groups:
        raise ValueError(f"weft.zero: {name} has {len(value)} values, and the optimizer {groups} groups")
    return [float(v) for v in value]


def _count(value: Any, name: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < least:
        raise ValueError(f"weft.zero: {name} is {value!r}, not a whole number from {least} on")
    return int(value)


class Scheduler:
    """Sets the rates of an optimizer's groups.

    Args:
        optimizer: whose groups.
        last_batch_iteration: updates that have been made, less one; -1: it begins, and sets the first rates.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, last_batch_iteration: int = -1) -> None:
        """Set the first rates."""
        self.optimizer, self.last_batch_iteration = optimizer, last_batch_iteration
        self._last_lr = [float(group["lr"]) for group in optimizer.param_groups]
        if last_batch_iteration == -1:
            self._set(self.get_lr())

    def get_lr(self) -> list[float]:
        """The rates of the groups at last_batch_iteration."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that were set."""
        return self._last_lr

    def step(self, last_batch_iteration: int | None = None) -> None:
        """An update has been made; or so many have, less one."""
        self.last_batch_iteration = self.last_batch_iteration + 1 if last_batch_iteration is None else last_batch_iteration
        self._set(self.get_lr())

    def _set(self, rates: list[float]) -> None:
        self._last_lr = list(rates)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """Where it is."""
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.last_batch_iteration = state["last_batch_iteration"]


class _Warmup:
    """From 0 to 1 in so many updates: by the logarithm of their number, or in a line."""

    def __init__(self, steps: Any, kind: str) -> None:
        if kind not in ("log", "linear"):
            raise ValueError(f"weft.zero: warmup_type is {kind!r}, not log or linear")
        self.steps, self.kind = max(2, _count(steps, "warmup_num_steps")), kind

    def at(self, step: int) -> float:
        if self.kind == "log":
            return math.log(step + 1) / math.log(self.steps)
        return step / self.steps


class WarmupLR(Scheduler):
    """From warmup_min_lr to warmup_max_lr (None: the optimizer's) in warmup_num_steps updates, then as it is."""

    def __init__(self, optimizer: torch.optim.Optimizer, warmup_min_lr: Rates = 0.0, warmup_max_lr: Rates | None = None,
                 warmup_num_steps: int = 1000, warmup_type: str = "log", last_batch_iteration: int = -1) -> None:  # fmt: skip
        """Set the first rates."""
        if warmup_max_lr is None:
            warmup_max_lr = [group["lr"] for group in optimizer.param_groups]
        self.min_lrs = _of_groups(optimizer, warmup_min_lr, "warmup_min_lr")
        self.max_lrs = _of_groups(optimizer, warmup_max_lr, "warmup_max_lr")
        self.warmup = _Warmup(warmup_num_steps, warmup_type)
        super().__init__(optimizer, last_batch_iteration)

    def _after(self, step: int) -> float:
        return 1.0

    def get_lr(self) -> list[float]:
        """The rates of the groups at last_batch_iteration."""
        step = self.last_batch_iteration
        if step < 0:
            return self.min_lrs
        share = self.warmup.at(step) if step < self.warmup.steps else self._after(step)
        return [low + (high - low) * share for low, high in zip(self.min_lrs, self.max_lrs, strict=True)]


class WarmupDecayLR(WarmupLR):
    """As WarmupLR, then in a line to warmup_min_lr at total_num_steps."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_num_steps: int, warmup_min_lr: Rates = 0.0,
                 warmup_max_lr: Rates = 0.001, warmup_num_steps: int = 1000, warmup_type: str = "log",
                 last_batch_iteration: int = -1) -> None:  # fmt: skip
        """Set the first rates."""
        self.total = _count(total_num_steps, "total_num_steps")
        super().__init__(optimizer, warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type, last_batch_iteration)

    def _after(self, step: int) -> float:
        return max(0.0, (self.total - step) / max(1.0, self.total - self.warmup.steps))


class WarmupCosineLR(Scheduler):
    """From warmup_min_ratio of the optimizer's rate to all of it, then by a cosine to cos_min_ratio of it at total_num_steps."""

    def __init__(self, optimizer: torch.optim.Optimizer, total_num_steps: int, warmup_min_ratio: float = 0.0,
                 warmup_num_steps: int = 1000, cos_min_ratio: float = 0.0001, warmup_type: str = "log",
                 last_batch_iteration: int = -1) -> None:  # fmt: skip
        """Set the first rates."""
        self.total = _count(total_num_steps, "total_num_steps")
        self.low, self.floor = warmup_min_ratio, cos_min_ratio
        self.warmup = _Warmup(warmup_num_steps, warmup_type)
        self.org_lrs = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        super().__init__(optimizer, last_batch_iteration)

    def _ratio(self, step: int) -> float:
        if step < 0:
            return 0.0
        if step < self.warmup.steps:
            return self.low + self.warmup.at(step) * (1 - self.low)
        gone = min(1.0, (step - self.warmup.steps + 1) / max(1, self.total - self.warmup.steps))
        return max(0.0, self.floor + (1 - self.floor) * (1 + math.cos(math.pi * gone)) / 2)

    def get_lr(self) -> list[float]:
        """The rates of the groups at last_batch_iteration."""
        return [rate * self._ratio(self.last_batch_iteration) for rate in self.org_lrs]


class LRRangeTest(Scheduler):
    """From lr_range_test_min_lr upwards, by lr_range_test_step_rate of it in every lr_range_test_step_size updates."""

    def __init__(self, optimizer: torch.optim.Optimizer, lr_range_test_min_lr: Rates = 1e-3, lr_range_test_step_size: int = 2000,
                 lr_range_test_step_rate: float = 1.0, lr_range_test_staircase: bool = False,
                 last_batch_iteration: int = -1) -> None:  # fmt: skip
        """Set the first rates."""
        self.min_lrs = _of_groups(optimizer, lr_range_test_min_lr, "lr_range_test_min_lr")
        self.size = _count(lr_range_test_step_size, "lr_range_test_step_size")
        self.rate, self.stairs = lr_range_test_step_rate, lr_range_test_staircase
        super().__init__(optimizer, last_batch_iteration)

    def get_lr(self) -> list[float]:
        """The rates of the groups at last_batch_iteration."""
        interval = (self.last_batch_iteration + 1) / self.size
        grown = 1 + self.rate * (math.floor(interval) if self.stairs else interval)
        return [rate * grown for rate in self.min_lrs]


class OneCycle(Scheduler):
    """From cycle_min_lr to cycle_max_lr and back, momentum the other way, then a decay of both (Smith 2018).

    Args:
        optimizer: whose groups; momentum is the first of their betas.
        cycle_min_lr: where the cycle begins and ends.
        cycle_max_lr: in its middle.
        decay_lr_rate: after the cycle rates are divided by 1 + decay_lr_rate x updates since / decay_step_size.
        cycle_first_step_size: updates of the way up.
        cycle_second_step_size: of the way down; None: as many.
        cycle_first_stair_count: stairs of the way up; 0: none.
        cycle_second_stair_count: of the way down; None: as many.
        decay_step_size: 0: no decay.
        cycle_momentum: False leaves momentum as it is.
        cycle_min_mom: in the middle of the cycle.
        cycle_max_mom: where it begins and ends.
        decay_mom_rate: after the cycle momentum is multiplied by 1 + decay_mom_rate x updates since / decay_step_size.
        last_batch_iteration: as for every Scheduler.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, cycle_min_lr: Rates, cycle_max_lr: Rates, decay_lr_rate: float = 0.0,
                 cycle_first_step_size: int = 2000, cycle_second_step_size: int | None = None, cycle_first_stair_count: int = 0,
                 cycle_second_stair_count: int | None = None, decay_step_size: int = 0, cycle_momentum: bool = True,
                 cycle_min_mom: Rates = 0.8, cycle_max_mom: Rates = 0.9, decay_mom_rate: float = 0.0,
                 last_batch_iteration: int = -1) -> None:  # fmt: skip
        """Set the first rates."""
        self.min_lrs = _of_groups(optimizer, cycle_min_lr, "cycle_min_lr")
        self.max_lrs = _of_groups(optimizer, cycle_max_lr, "cycle_max_lr")
        self.up = _count(cycle_first_step_size, "cycle_first_step_size")
        self.down = self.up if cycle_second_step_size is None else _count(cycle_second_step_size, "cycle_second_step_size", 0)
        second = cycle_first_stair_count if cycle_second_stair_count is None else cycle_second_stair_count
        self.stairs = (cycle_first_stair_count, second)
        self.lr_rate, self.mom_rate, self.decay_steps = decay_lr_rate, decay_mom_rate, decay_step_size
        self.cycle_momentum = cycle_momentum and "betas" in optimizer.defaults
        self.min_moms = _of_groups(optimizer, cycle_min_mom, "cycle_min_mom")
        self.max_moms = _of_groups(optimizer, cycle_max_mom, "cycle_max_mom")
        super().__init__(optimizer, last_batch_iteration)
        if last_batch_iteration == -1:
            self._set(self.min_lrs)
            if self.cycle_momentum:
                self._set_momentum(self.min_moms)

    def _height(self) -> float:
        """Where in the cycle: 0 at its ends, 1 in the middle."""
        total, place = self.up + self.down, (self.last_batch_iteration + 1) % (self.up + self.down)
        rising = place <= self.up
        height, stairs = (place / self.up, self.stairs[0]) if rising else ((total - place) / self.down, self.stairs[1])
        return math.floor(height * stairs + 1e-9) / stairs if stairs else height

    def _decays(self) -> float | None:
        """Decays since the end of the cycle; None: it has not ended."""
        since = self.last_batch_iteration - (self.up + self.down) + 1
        if self.last_batch_iteration < self.up + self.down:
            return None
        return since / self.decay_steps if self.decay_steps else 0.0

    def get_lr(self) -> list[float]:
        """The rates of the groups at last_batch_iteration."""
        decays = self._decays()
        if decays is not None:
            return [rate / (1 + self.lr_rate * decays) for rate in self.min_lrs]
        height = self._height()
        return [low + (high - low) * height for low, high in zip(self.min_lrs, self.max_lrs, strict=True)]

    def get_mom(self) -> list[float] | None:
        """Momentum of the groups at last_batch_iteration."""
        if not self.cycle_momentum:
            return None
        decays = self._decays()
        if decays is not None:
            return [momentum * (1 + self.mom_rate * decays) for momentum in self.max_moms]
        height = self._height()
        return [high - (high - low) * height for low, high in zip(self.min_moms, self.max_moms, strict=True)]

    def _set_momentum(self, momenta: list[float]) -> None:
        for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
            group["betas"] = (momentum, 0.99)

    def step(self, last_batch_iteration: int | None = None) -> None:
        """An update has been made; or so many have, less one."""
        super().step(last_batch_iteration)
        momenta = self.get_mom()
        if momenta is not None:
            self._set_momentum(momenta)


_NAMED: dict[str, type[Scheduler]] = {
    cls.__name__: cls for cls in (WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest)
}


def make(optimizer: torch.optim.Optimizer, name: str, params: dict[str, Any]) -> Scheduler:
    """The scheduler that a configuration names.

    Raises:
        ValueError: there is none of that name, or it has no such parameter.
    """
    if name not in _NAMED:
        raise ValueError(f"weft.zero: there is no scheduler {name!r}; there are {', '.join(_NAMED)}")
    try:
        return _NAMED[name](optimizer, **params)
    except TypeError as problem:
        raise ValueError(f"weft.zero: scheduler.params of {name}: {problem}") from None
