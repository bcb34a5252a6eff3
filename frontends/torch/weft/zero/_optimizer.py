# SPDX-License-Identifier: BSD-3-Clause
"""An optimizer whose steps are the engine's: a torch.optim.Optimizer, so that schedulers and loops can have it as any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._core import Core
from ._groups import DEFAULTS, Groups, hyper_of, saved_hypers
from ._library import Error


class ShardedOptimizer(torch.optim.Optimizer):
    """Steps of an engine. Each uses what param_groups have then.

    Attributes:
        grad_norm: of all gradients in the last step, before clipping; None before the first.
        skipped: the last step found Inf or NaN, and changed nothing but the loss scale.
    """

    def __init__(self, core: Core, groups: Groups) -> None:
        self.core = core
        alike = len(set(core.kinds)) == 1
        super().__init__(groups, dict(DEFAULTS[core.kinds[0]]) if alike else {})  # groups have all of theirs
        if core.updates:
            core.updates.groups = self.param_groups
        self.grad_norm: float | None = None
        self.skipped = False

    @property
    def overflow(self) -> bool:
        """skipped, as DeepSpeed's optimizers call it."""
        return self.skipped

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's, while the optimizer is made; the engine's parameters are fixed afterwards."""
        if hasattr(self, "grad_norm"):
            raise Error("weft.zero: a group of parameters cannot be added to an engine")
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters. Collective.

        Args:
            closure: computes the loss, and its gradients.

        Raises:
            Error: no micro-batch has ended since the last step, or the last one was not said to be that; ranks differ; a
                hyper-parameter is out of its range.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        info = self.core.step([hyper_of(group) for group in self.param_groups])
        self.grad_norm, self.skipped = info.norm, bool(info.skipped)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients that no step has used: a step forgets them by itself. Collective if there are any."""
        if self.core.micro_batches:
            self.core.drop_gradients()
        super().zero_grad(set_to_none)

    # ---- State ----

    def _numbered(self) -> list[tuple[int, int]]:
        """Of each parameter: its number in torch's state, and in the engine, in the order of the engine."""
        tensors = [tensor for group in self.param_groups for tensor in group["params"]]
        pairs = [(place, self.core.numbers[tensor]) for place, tensor in enumerate(tensors)]
        return sorted((pair for pair in pairs if not self.core.params[pair[1]].frozen), key=lambda pair: pair[1])

    def state_dict(self) -> dict[str, Any]:
        """All moments, whole, in fp32, as torch's optimizer of that name has them. Collective; every rank gets all of it."""
        plain = super().state_dict()
        state: dict[int, dict[str, Any]] = {}
        for place, number in self._numbered() if self.core.steps else []:
            state[place] = {"step": torch.tensor(float(self.core.steps))}
            for name, what in self.core.moments(number).items():
                state[place][name] = self.core.get_values(number, what)
        return {"state": dict(sorted(state.items())), "param_groups": plain["param_groups"]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take moments and hyper-parameters of a state_dict(), or of that of torch's optimizer of that name.

        Raises:
            ValueError: it has other groups, moments of other shapes, or parameters that have made different numbers of steps.
            Error: gradients of the next step have come.
        """
        saved, groups = state_dict["state"], state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError("weft.zero: the state that is loaded has other groups of parameters")
        steps = {int(values["step"]) for values in saved.values() if "step" in values}
        if len(steps) > 1:
            raise ValueError(f"weft.zero: parameters have made {min(steps)} to {max(steps)} steps; here all have made as many")
        places = [place for group in groups for place in group["params"]]
        found = []
        for place, number in self._numbered():
            known = self.core.params[number]
            for name, what in self.core.moments(number).items():
                values = saved.get(places[place], {}).get(name)
                values = torch.zeros(known.tensor.shape) if values is None else values.detach().float().contiguous()
                if values.shape != known.tensor.shape:
                    shapes = f"{tuple(values.shape)}, not {tuple(known.tensor.shape)}"
                    raise ValueError(f"weft.zero: {name} of \"{known.name}\" has shape {shapes}")
                found.append((number, what, values))
        # SGD of torch's counts no steps: whoever has momentum has made one.
        self.core.set_steps(steps.pop() if steps else int(any(len(saved.get(place, {})) for place in places)))
        for number, what, values in found:
            self.core.set_values(number, what, values)
        for kind, mine, theirs in zip(self.core.kinds, self.param_groups, groups, strict=True):
            mine.update(saved_hypers(kind, theirs))
