# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: activation checkpoints beside ordinary training: memory, files that fail, copies, shared blocks, compilers."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import os
import pickle
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ranks
import torch
import zero_models as zm
from zero_activations import INPUT, LAYERS, ROWS, WIDTH, Block, Net, same, train
from zero_models import fails


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[str]:
    """A folder whose file system has that much room. Needs root."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], capture_output=True, text=True)
        if done.returncode:
            raise ranks.Skipped(f"tmpfs cannot be mounted: {done.stderr.strip()}")
        try:
            yield folder
        finally:
            gc.collect()
            subprocess.run(["umount", "-l", folder], check=True)


def files() -> list[str]:
    """Of activations, that this process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in found if "weft_spill" in name]


def disks_that_fail(groups: ranks.Groups) -> None:
    """A full one is told where it happens, and the model can be trained on afterwards."""
    from weft import zero
    from weft.zero._spill import File

    with small_disk(1) as folder:
        model = Net()
        points = zero.checkpoint_units(model, keep="disk", folder=folder)
        fails(zero.Error, "No space left", lambda model=model: model(torch.randn(ROWS * 16, WIDTH)))
        gc.collect()
        model(torch.randn(ROWS, WIDTH)).sum().backward()
        assert model.blocks[7].up.weight.grad is not None
        assert len(files()) == 1
        points.remove()
        assert not files() and points.stats().get("file_bytes", 0) == 0
        del points, model
    with small_disk(2) as folder:
        file = File(folder)
        kept: list[Any] = []

        def fill(file: Any = file) -> None:
            for i in range(100):
                kept.append(file.put(torch.full((10000,), float(i))))  # those before a failure count

        fails(zero.Error, "No space left", fill)
        assert 10 < len(kept) < 100
        assert all(torch.equal(file.get(k), torch.full((10000,), float(i))) for i, k in reversed(list(enumerate(kept))))
        del kept[5]
        kept.append(file.put(torch.ones(10000)))  # in the place of what was dropped
        assert torch.equal(file.get(kept[-1]), torch.ones(10000))
        kept.clear()
        del file


def nothing_waits_for_the_collector(groups: ranks.Groups) -> None:
    """Kept inputs are gone with their graph: no cycle has them."""
    from weft import zero

    with tempfile.TemporaryDirectory() as folder:
        for way in ({}, {"every": 3}, {"keep": "disk", "folder": folder, "every": 2}, {"group": groups.weft, "every": 3}):
            model = Net()
            points = zero.checkpoint_units(model, **way)
            at_rest = 0
            gc.collect()
            gc.disable()
            try:
                for _ in range(3):
                    model(torch.randn(ROWS, WIDTH)).sum().backward()
                    if "folder" in way and not at_rest:
                        at_rest = points.stats()["bytes"]  # the file's buffers
                    assert points.stats()["bytes"] == at_rest, (way, points.stats())
                    model(torch.randn(ROWS, WIDTH))  # without a backward pass
            finally:
                gc.enable()
            stats = points.stats()
            assert stats.get("file_bytes", 0) <= (LAYERS + 2) * INPUT, stats


def memory_falls(groups: ranks.Groups) -> None:
    """Resident memory after a forward pass: each block's graph has eight times its input and more."""
    from weft import zero

    rows = 8192  # inputs of 2 MiB
    size = rows * WIDTH * 4

    def resident() -> int:
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def taken(way: dict[str, Any] | None) -> int:
        model = Net()
        points = zero.checkpoint_units(model, **way) if way is not None else None
        seen = []
        for _ in range(3):
            x = torch.randn(rows, WIDTH)
            gc.collect()
            before = resident()
            loss = model(x).sum()
            seen.append(resident() - before)
            loss.backward()
            del loss
        del points
        return min(seen[1:])

    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        none, each, root = taken(None), taken({}), taken({"every": "sqrt"})
        disk = taken({"every": 1, "keep": "disk", "folder": folder})
    assert none >= 8 * LAYERS * size, (none, size)
    assert each <= none - 7 * LAYERS * size, (none, each)
    assert root <= each - 3 * size, (root, each)  # 5 inputs fewer
    assert disk <= each - 5 * size, (disk, each)  # 8 fewer


def strides_and_types(groups: ranks.Groups) -> None:
    """What is kept is as it was: its strides, its type, its bits."""
    from weft.zero._keep import Keeper, Parts
    from weft.zero._spill import File

    some = torch.randn(8, 16, 24, 3)
    tensors = [
        some, some.contiguous(memory_format=torch.channels_last), some.transpose(0, 2), some[:, ::2],
        some[0, 0, 0, 0].expand(99, 99), torch.arange(5000), torch.rand(5000) > 0.5, torch.randn(3000).to(torch.bfloat16),
        torch.randn(999, dtype=torch.complex64), torch.zeros(0, 7), torch.tensor(3.0), some.double(),
        torch.full((5000,), float("nan")),
    ]  # fmt: skip
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as folder:
        for keeper in (Keeper(), File(folder), Parts(groups.weft, Keeper()), Parts(groups.gloo, File(folder))):
            kept = [keeper.put(t) for t in tensors]
            for k, t in reversed(list(zip(kept, tensors, strict=True))):
                back = keeper.get(k)
                assert back.dtype == t.dtype and back.shape == t.shape
                assert torch.equal(torch.nan_to_num(back), torch.nan_to_num(t)), (type(keeper), t.dtype, t.shape)
                if 0 not in t.stride() and t.numel() == t.untyped_storage().nbytes() // t.element_size():
                    assert back.stride() == t.stride(), (back.stride(), t.stride())


def tensors_of_tensors(groups: ranks.Groups) -> None:
    """A DTensor that all ranks have alike is kept as any tensor; one that is cut is refused where the ranks have the same."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from weft.zero._keep import Keeper, Parts
    from weft.zero._spill import File

    mesh = DeviceMesh.from_group(groups.gloo, "cpu")
    torch.manual_seed(3)
    whole = torch.randn(64, 64)
    with tempfile.TemporaryDirectory() as folder:
        for keeper in (Keeper(), File(folder), Parts(groups.weft, Keeper())):
            tensor: Any = DTensor.from_local(whole.clone(), mesh, [Replicate()])
            kept = keeper.put(tensor)
            del tensor
            back: Any = keeper.get(kept)
            assert isinstance(back, DTensor) and back.placements == (Replicate(),) and torch.equal(back.to_local(), whole)
    if groups.size > 1:
        cut: Any = DTensor.from_local(torch.randn(64, 64) + groups.rank, mesh, [Shard(0)])
        fails(ValueError, "has not the activations", lambda: Parts(groups.weft, Keeper()).put(cut))


def other_activations(groups: ranks.Groups) -> None:
    """Ranks that have others are told so, all of them."""
    from weft import zero

    if groups.size == 1:
        return
    model = Net()
    zero.checkpoint_units(model, group=groups.weft)
    torch.manual_seed(groups.rank)
    fails(ValueError, "has not the activations that rank 0 has", lambda: model(torch.randn(ROWS, WIDTH)))


def copies_are_plain(groups: ranks.Groups) -> None:
    """Copies and pickled models are as before; the model is not changed by it."""
    from weft import zero

    with tempfile.TemporaryDirectory() as folder:
        model = Net()
        del model.run
        model.__class__ = Plain
        zero.checkpoint_units(model, keep="disk", folder=folder)
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert all(type(block) is Block and not hasattr(block, "_weft_zero_chain") for block in copied.blocks)
            assert all(torch.equal(a, b) for a, b in zip(copied.parameters(), model.parameters(), strict=True))
        assert all(type(block) is not Block and isinstance(block, Block) for block in model.blocks)


class Plain(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x, torch.ones(WIDTH))[0]
        return x


class Shared(Net):
    """One block three times, and the first layer's weight at the end."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inlet(x)
        for i in (0, 1, 1, 1, 2):
            x = self.blocks[i](x, torch.ones(WIDTH))[0]
        return x @ self.inlet.weight


def shared_blocks_and_no_sync(groups: ranks.Groups) -> None:
    from weft import zero

    def trained(every: int | None) -> list[torch.Tensor]:
        model = Shared()
        if every:
            zero.checkpoint_units(model, every)
        engine = zm.engine_of(model, 1, gradient_accumulation_steps=2)
        zero.register_external_parameter(model, model.inlet.weight)
        torch.manual_seed(7 + groups.rank)
        for _ in range(2):
            with engine.no_sync():
                engine.backward(engine(torch.randn(ROWS, WIDTH)).square().mean())
            engine.step()
            engine.backward(engine(torch.randn(ROWS, WIDTH)).square().mean())
            engine.step()
        values = [value.clone() for value in engine.full_state_dict(every_rank=True).values()]
        engine.destroy()
        return values

    want = trained(None)
    for every in (1, 2, 4):
        assert same(trained(every), want), every


def compiled_models(groups: ranks.Groups) -> None:
    """A whole model that is compiled: blocks are what the compiler leaves to us."""
    from weft import zero

    def gradients(every: int | None) -> list[torch.Tensor]:
        model: Any = Plain()
        for block in model.blocks:
            block.drop.p = 0.0
        if every:
            zero.checkpoint_units(model, every)
        torch.manual_seed(3)
        x = torch.randn(ROWS, WIDTH)
        (torch.compile(model, backend="aot_eager") if every else model)(x).sum().backward()
        return [p.grad for p in model.parameters()]

    want = gradients(None)
    for every in (1, 3):
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(gradients(every), want, strict=True)), every


def as_deepspeed_configures(groups: ranks.Groups) -> None:
    from weft import zero
    from weft.zero import _checkpointing, deepspeed

    class Mpu:
        def get_tensor_model_parallel_group(self) -> Any:
            return groups.weft

    def called(model: Net) -> None:
        model.run = deepspeed.checkpointing.checkpoint

    want, _, _ = train(lambda model: None, 3)
    try:
        deepspeed.checkpointing.configure(Mpu(), {"activation_checkpointing": {"partition_activations": True}}, num_checkpoints=4)
        assert deepspeed.checkpointing.is_configured()
        assert same(train(called, 3)[0], want)
        assert zero.checkpoint_units(Net()).every == LAYERS // 4  # an engine's configuration that does not say has not undone it
        model = Net()
        called(model)
        model(torch.randn(ROWS, WIDTH)).sum().backward()
        assert all(p.grad is not None for p in model.parameters())
        if groups.size > 1:
            zero.configure_checkpointing(groups.weft, partition_activations=True)  # it compares anew
            zm.engine_of(Net(), 1).destroy()
            torch.manual_seed(groups.rank)
            fails(ValueError, "has not the activations", lambda: model(torch.randn(ROWS, WIDTH)))
        # Where nobody has told the group, the newest engine's counts.
        zero.configure_checkpointing()
        for group in (groups.gloo, groups.weft):
            _checkpointing.same_activations(group)
            assert _checkpointing._configured.group is group
        zero.configure_checkpointing(groups.weft)
        _checkpointing.same_activations(groups.gloo)
        assert _checkpointing._configured.group is groups.weft
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            deepspeed.checkpointing.configure(None, partition_activations=True)
        assert any("partition_activations has no effect" in str(w.message) for w in caught)
    finally:
        zero.configure_checkpointing()


CASES = [
    nothing_waits_for_the_collector,
    memory_falls,
    strides_and_types,
    tensors_of_tensors,
    other_activations,
    copies_are_plain,
    shared_blocks_and_no_sync,
    compiled_models,
    as_deepspeed_configures,
    disks_that_fail,
]

if __name__ == "__main__":
    ranks.main(CASES)
