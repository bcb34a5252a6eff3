# SPDX-License-Identifier: BSD-3-Clause
"""Universal checkpoints: DeepSpeed's ds_to_universal.py makes them, engines with `"load_universal": true` load them.

    folder/latest_universal                              the tag
    folder/tag/zero/<parameter>/fp32.pt                  {"param": tensor}, and exp_avg.pt, exp_avg_sq.pt; step.pt a number
    folder/tag/zero/optimizer_state.pt                   hyper-parameters
    folder/tag/mp_rank_00_model_states.pt                counters; zero_pp_rank_0_mp_rank_00_model_states.pt for stage 3
"""

from __future__ import annotations

import os
import pickle
import secrets
import shutil
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ._checkpoint import replace_file
from ._exchange import Trained
from ._library import WEIGHT
from ._safetensors import share, tell

if TYPE_CHECKING:
    from ._engine import Engine
    from ._optimizer import ShardedOptimizer

#: The version of DeepSpeed whose files these are; its loader compares it with 0.3.17.
VERSION = "0.19.0"


def _files_of(it: Trained, number: int) -> dict[str, int]:
    """Names of a parameter's files, and what is in them; DeepSpeed converts no other optimizer than Adam, Lion and the like."""
    return {"fp32": WEIGHT, **it.moments(number)}


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def _write_rest(it: Trained, folder: Path, torch_step: bool) -> None:
    """What there is once."""
    core, engine = it.core, it.engine
    step: Any = torch.tensor(float(core.steps)) if torch_step else core.steps
    groups = [{k: v for k, v in group.items() if k != "params"} | {"params": [i]} for i, group in enumerate(it.groups())]
    inner = {"state": {i: {"step": step} for i in range(len(groups))}, "param_groups": groups}
    common = {"ds_version": VERSION, "zero_stage": core.settings.stage, "param_groups": groups, "optimizer_state_dict": inner}
    _write(folder / "zero" / "optimizer_state.pt", common)
    scheduler: Any = getattr(engine, "lr_scheduler", None)
    states = {
        "module": {name: buffer.detach().clone() for name, buffer in it.buffers.items()},
        "buffer_names": list(it.buffers),
        "lr_scheduler": scheduler.state_dict() if hasattr(scheduler, "state_dict") else None,
        "optimizer": None,
        "global_steps": getattr(engine, "global_steps", core.steps),
        "global_samples": getattr(engine, "global_steps", core.steps) * (core.settings.batch_size or 0),
        "skipped_steps": getattr(engine, "skipped_steps", 0),
        "dp_world_size": core.comm.size,
        "mp_world_size": 1,
        "ds_version": VERSION,
    }
    for name in ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt"):
        _write(folder / name, states)


def save(
    engine: Engine | ShardedOptimizer, folder: str | os.PathLike[str], tag: str | None = None, *, torch_step: bool = False
) -> str:
    """Write a universal checkpoint. Collective; rank 0 gathers one tensor after the other, and writes it.

    Args:
        engine: of weft.zero.initialize, or a weft.zero.Optimizer; its optimizer AdamW or Adam.
        folder: made if it does not exist.
        tag: the name of the version; None: "global_step" and the number of steps, and "_universal". One of that name is replaced.
        torch_step: numbers of steps are tensors, as optimizers of torch.optim below DeepSpeed ("torch_adam": true) have them;
            DeepSpeed's own have whole numbers.

    Returns:
        The tag.

    Raises:
        ValueError: another optimizer; or rank 0 could not write.
    """
    it = Trained(engine)
    for moments in (list(it.moments(number)) for number in it.trained):
        if moments != ["exp_avg", "exp_avg_sq"]:
            raise ValueError(f"weft.zero.universal: universal checkpoints have exp_avg and exp_avg_sq; {it.core.optimizer} has "
                             f"{', '.join(moments)}")  # fmt: skip
    tag = tag or f"global_step{it.core.steps}_universal"
    target, first = Path(folder) / tag, it.core.comm.rank == 0

    def begin() -> str:
        if target.exists() and not (target / "zero").is_dir():
            raise ValueError(f"weft.zero: {target} is there, and is no universal checkpoint: it is not replaced")
        Path(folder).mkdir(parents=True, exist_ok=True)
        made = target.with_name(f".{tag}.{secrets.token_hex(8)}")
        made.mkdir()
        return str(made)

    temporary = Path(tell(it.core.comm, begin, str(folder)))
    problem: list[Exception] = []

    def attempt(path: Path, value: Any) -> None:
        """After a failure rank 0 goes on to take part in gathering; it is told at the end."""
        try:
            if not problem:
                _write(path, value)
        except OSError as failure:
            problem.append(failure)

    for number, known in enumerate(it.core.params):
        place = temporary / "zero" / known.name
        for name, what in _files_of(it, number).items():
            if what != WEIGHT and known.frozen:
                continue
            values = it.get(number, what, first)
            if first:
                attempt(place / f"{name}.pt", {"param": values, "cat_dim": 0})
        if first and not known.frozen:
            attempt(place / "step.pt", torch.tensor(float(it.core.steps)) if torch_step else it.core.steps)

    def finish() -> None:
        if problem:
            shutil.rmtree(temporary, ignore_errors=True)
            raise problem[0]
        _write_rest(it, temporary, torch_step)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
        replace_file(str(target.with_name("latest_universal")), lambda file: file.write(str(tag).encode()))

    tell(it.core.comm, finish, str(folder))
    return tag


class _Unknown:
    """In place of an object of a class that is not known, a loss scaler of DeepSpeed's, say. It is not used."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _Unpickler(pickle._Unpickler):
    """Makes tensors and plain values; calls nothing else that a file names, and does not need DeepSpeed."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    known = frozenset({
        ("collections", "OrderedDict"), ("torch", "Size"), ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"), ("torch.nn.parameter", "Parameter"),
    })  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(module, name) if (module, name) in self.known else _Unknown

    def load_build(self) -> None:
        """Attributes of objects are left out: those of a function of torch's could be written, too."""
        self.stack.pop()  # type: ignore[attr-defined]

    dispatch[pickle.BUILD[0]] = load_build


def _values(path: Path) -> dict[str, Any]:
    """A dictionary of a file, with _Unknown for what it has of classes."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(name.rsplit("/", 1)[-1] == "constants.pkl" for name in archive.namelist()):
                raise ValueError(f"weft.zero: {path} is a program of TorchScript's, which is not run")
    plain = types.SimpleNamespace(Unpickler=_Unpickler, __name__="weft.zero.universal")
    made: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False, pickle_module=plain)
    if not isinstance(made, dict):
        raise ValueError(f"weft.zero: {path} is not what DeepSpeed has there: it has no dictionary")
    return made


def _parameter(path: Path) -> torch.Tensor:
    made = torch.load(path, map_location="cpu", weights_only=True)
    tensor: torch.Tensor = made["param"] if isinstance(made, dict) else made
    return tensor


def _catalogue(it: Trained, folder: Path) -> dict[str, Any]:
    """Rank 0's look at a folder: shapes of all tensors that are there, steps and counters."""
    zero = folder / "zero"
    if not zero.is_dir():
        raise ValueError(f"weft.zero: {folder} is no universal checkpoint: it has no folder zero")
    there = {str(path.parent.relative_to(zero)) for path in zero.rglob("fp32.pt")}
    steps = []
    for name in there & set(it.names):
        if (zero / name / "step.pt").exists():
            steps.append(float(torch.load(zero / name / "step.pt", weights_only=True)))
    states: dict[str, Any] = {}
    for path in sorted(folder.glob("*model_states.pt"))[:1]:
        states = _values(path)
    rest: dict[str, Any] = {}
    if (zero / "optimizer_state.pt").exists():
        rest = _values(zero / "optimizer_state.pt")
    inner = rest.get("optimizer_state_dict") or {}
    if not steps:  # of stage 3 the number is there alone
        steps = [float(s["step"]) for s in list((inner.get("state") or {}).values())[:1] if "step" in s]
    groups = rest.get("param_groups") or inner.get("param_groups") or []
    plain = (int, float, str, bool, list, tuple)
    return {
        "names": sorted(there),
        "moments": {n: [p.stem for p in (zero / n).glob("*.pt")] for n in there},
        "steps": steps,
        "groups": [{k: v for k, v in group.items() if k != "params" and isinstance(v, plain)} for group in groups],
        "counters": {k: states[k] for k in ("global_steps", "skipped_steps") if isinstance(states.get(k), int)},
        "buffers": [n for n in it.buffers if n in (states.get("module") or {})],
    }


def load(engine: Engine | ShardedOptimizer, folder: str | os.PathLike[str], tag: str | None = None) -> str:
    """Take a universal checkpoint of DeepSpeed's, or of save, with moments and hyper-parameters. Collective.

    Of the pickled files tensors and plain values are read, and nothing that they name is called.

    Args:
        engine: see save.
        folder: has latest_universal, if tag is None.
        tag: the name of the version.

    Returns:
        The tag.

    Raises:
        ValueError: it is no universal checkpoint, or of another model: the text names the first parameter that differs.
    """
    it = Trained(engine)
    comm = it.core.comm
    where = tag or tell(comm, lambda: (Path(folder) / "latest_universal").read_text().strip(), str(folder))
    path = Path(folder) / where
    found = tell(comm, lambda: _catalogue(it, path), str(path))
    numbers = {name: it.names[name] for name in found["names"] if name in it.names}
    missing = [known.name for number, known in enumerate(it.core.params) if number not in numbers.values()]
    unexpected = [name for name in found["names"] if name not in it.names and name not in it.buffers]
    for odd, names in (("missing", missing), ("unexpected", unexpected)):
        if names:
            raise ValueError(f"weft.zero: {path}: {odd} {names[0]} ({len(names)} in all)")

    def shapes() -> None:
        for name, number in numbers.items():
            shape, mine = list(_parameter(path / "zero" / name / "fp32.pt").shape), list(it.core.params[number].tensor.shape)
            if shape != mine and not (len(shape) == 1 and shape[0] == it.core.params[number].tensor.numel()):
                raise ValueError(f"weft.zero: {path}: {name} has shape {tuple(shape)}, not {tuple(mine)}")

    tell(comm, shapes, str(path))
    it.take_steps(found["steps"], str(path), any(found["moments"].values()))
    it.take_groups(found["groups"])
    for counter, value in found["counters"].items():
        if hasattr(it.engine, counter):
            setattr(it.engine, counter, value)
    for name, number in numbers.items():
        known, shape = it.core.params[number], list(it.core.params[number].tensor.shape)
        for stem, what in _files_of(it, number).items():
            if stem not in found["moments"][name] or (what != WEIGHT and known.frozen):
                continue
            file = path / "zero" / name / f"{stem}.pt"

            def read(file: Path = file, shape: list[int] = shape) -> torch.Tensor:
                return _parameter(file).float().reshape(shape)

            values = share(comm, read, shape, torch.float32, str(file))
            it.core.set_values(number, what, values)
    _load_buffers(it, path, found["buffers"])
    return str(where)


def _load_buffers(it: Trained, path: Path, names: list[str]) -> None:
    def read(name: str) -> torch.Tensor:
        tensor: torch.Tensor = _values(sorted(path.glob("*model_states.pt"))[0])["module"][name]
        return tensor

    for name in names:
        buffer = it.buffers[name]
        buffer.detach().copy_(share(it.core.comm, lambda n=name: read(n), buffer.shape, buffer.dtype, name))  # type: ignore[misc]
