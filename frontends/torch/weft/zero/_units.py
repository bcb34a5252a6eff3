# SPDX-License-Identifier: BSD-3-Clause
"""Which parameters are gathered together: units, found in a tree of modules.

A unit belongs to a module and has all parameters below it that no unit inside of it has. Repeated blocks are units: the members of
a ModuleList or ModuleDict, and those of a Sequential that are made of modules and are of one class with another member. What lies
outside of all blocks is a unit for each module that has parameters of its own. A parameter that several modules have (a tied
weight) is of the first one's unit; the others gather that unit too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch import nn

#: What makes a unit: a class of modules, the name of one, or a module itself.
Block = type[nn.Module] | str | nn.Module


@dataclass(eq=False)
class UnitPlan:
    """One unit: the module's name ("blocks.3"; "(root)" the model itself) and its parameters with their names."""

    name: str
    params: list[tuple[str, nn.Parameter]] = field(default_factory=list)


@dataclass
class Plan:
    """Units, and which of them each module gathers when it is called."""

    units: list[UnitPlan] = field(default_factory=list)
    opens: dict[nn.Module, list[UnitPlan]] = field(default_factory=dict)

    def open_in(self, module: nn.Module, unit: UnitPlan) -> None:
        """Have the module gather the unit."""
        units = self.opens.setdefault(module, [])
        if unit not in units:
            units.append(unit)


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _is_holder(module: nn.Module) -> bool:
    """It is never called; who has it uses its parameters."""
    return isinstance(module, nn.ParameterList | nn.ParameterDict)


def _is_container(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList | nn.ModuleDict)


def _repeated(module: nn.Module) -> list[nn.Module]:
    """The blocks among the module's children."""
    children = [child for child in module.children() if _has_parameters(child)]
    if _is_container(module):
        return [child for child in children if not _is_container(child)]
    if isinstance(module, nn.Sequential):
        composite = [child for child in children if any(_has_parameters(inner) for inner in child.children())]
        many = Counter(type(child) for child in composite)
        return [child for child in composite if many[type(child)] > 1]
    return []


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Repeated blocks, none inside of another; and attention modules, which use their children's weights without calling them."""
    found: list[nn.Module] = []

    def walk(module: nn.Module) -> None:
        blocks = _repeated(module)
        for child in module.children():
            if child in blocks or isinstance(child, nn.MultiheadAttention):
                found.append(child)
            else:
                walk(child)

    walk(model)
    return found


def named_blocks(model: nn.Module, blocks: Iterable[Block]) -> list[nn.Module]:
    """The modules that `blocks` means; units may lie inside of each other.

    Raises:
        ValueError: the model has no such module.
    """
    found: list[nn.Module] = []
    for block in blocks:
        if isinstance(block, nn.Module):
            these = [m for m in model.modules() if m is block]
        elif isinstance(block, str):
            these = [m for m in model.modules() if type(m).__name__ == block]
        else:
            these = [m for m in model.modules() if isinstance(m, block)]
        if not these:
            what = type(block).__name__ if isinstance(block, nn.Module) else block if isinstance(block, str) else block.__name__
            raise ValueError(f"weft.zero: units: the model has no module {what}")
        found += [m for m in these if m not in found]
    return found


def plan(model: nn.Module, blocks: Sequence[Block] | None = None) -> Plan:
    """Make units of all parameters of a model.

    Args:
        model: the tree of modules.
        blocks: modules that are units; None: repeated blocks.

    Returns:
        Units in the order of the tree; those without parameters are left out.
    """
    roots = set(find_blocks(model) if blocks is None else named_blocks(model, blocks))
    made = Plan()
    of: dict[nn.Parameter, UnitPlan] = {}
    units: list[UnitPlan] = []
    inside: list[nn.Module] = []

    def parameters(module: nn.Module, prefix: str) -> Iterable[tuple[str, nn.Parameter]]:
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield prefix + name, parameter
        for name, child in module._modules.items():
            if child is not None and _is_holder(child):
                yield from parameters(child, f"{prefix}{name}.")

    def walk(module: nn.Module, name: str, unit: UnitPlan | None) -> None:
        if module in inside:
            return
        own = None
        if module in roots and not _is_container(module):
            unit = own = UnitPlan(name or "(root)")
            units.append(own)
        for full, parameter in parameters(module, f"{name}." if name else ""):
            if parameter not in of:
                if unit is None:
                    unit_of = own = own or UnitPlan(name or "(root)")
                    if own not in units:
                        units.append(own)
                else:
                    unit_of = unit
                of[parameter] = unit_of
                unit_of.params.append((full, parameter))
            elif of[parameter] is not unit and of[parameter] is not own:
                made.open_in(module, of[parameter])
        if own is not None:
            made.opens.setdefault(module, [])
            made.opens[module].insert(0, own)
        inside.append(module)
        for child_name, child in module._modules.items():
            if child is not None and not _is_holder(child):
                walk(child, f"{name}.{child_name}" if name else child_name, unit)
        inside.pop()

    walk(model, "", None)
    made.units = [unit for unit in units if unit.params]
    made.opens = {module: kept for module, opened in made.opens.items() if (kept := [u for u in dict.fromkeys(opened) if u.params])}
    return made
