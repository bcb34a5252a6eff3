# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: activation checkpoints. What is kept where, and that gradients are the same bits."""

from __future__ import annotations

import gc
import tempfile
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ranks
import torch
import zero_models as zm
from torch import nn
from zero_models import fails

LAYERS, WIDTH, ROWS = 8, 64, 256
INPUT = ROWS * WIDTH * 4  # bytes of a block's input


class Block(nn.Module):
    """Its graph takes many times its input; and it draws numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.calls = 0

    def forward(self, x: torch.Tensor, scale: torch.Tensor, *, more: dict[str, Any] | None = None) -> tuple[torch.Tensor, None]:
        if not torch.compiler.is_compiling():
            self.calls += 1
        added = 0 if more is None else more["bias"]
        return x + self.drop(self.down(torch.nn.functional.gelu(self.up(self.norm(x) * scale)))) + added, None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.inlet = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.run: Callable[..., Any] = lambda block, *args, **kwargs: block(*args, **kwargs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inlet(x)
        scale, more = torch.ones(WIDTH) * 1.5, {"bias": torch.full((WIDTH,), 0.25)}
        for i, block in enumerate(self.blocks):
            x = self.run(block, x, scale, more=more if i % 2 else None)[0]
        return x


def train(made: Callable[[nn.Module], Any], stage: int, steps: int = 3, micro_batches: int = 2) -> tuple[list[Any], Any, Any]:
    """Losses and parameters; what `made` returned, and the model."""
    model = Net()
    result = made(model)
    engine = zm.engine_of(model, stage, gradient_accumulation_steps=micro_batches)
    torch.manual_seed(11)
    seen = []
    for _ in range(steps):
        for _ in range(micro_batches):
            loss = engine(torch.randn(ROWS, WIDTH)).square().mean()
            engine.backward(loss)
            engine.step()
            seen.append(loss.detach().clone())
    seen += [value.clone() for value in engine.full_state_dict(every_rank=True).values()]
    engine.destroy()
    return seen, result, model


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def gradients_are_the_same(groups: ranks.Groups) -> None:
    from weft import zero

    with tempfile.TemporaryDirectory() as folder:
        ways: list[dict[str, Any]] = [
            {}, {"every": 2}, {"every": 3}, {"every": "sqrt"}, {"every": 100}, {"keep": "host"}, {"keep": "disk", "folder": folder},
            {"keep": "disk", "folder": folder, "every": 4}, {"group": groups.gloo}, {"group": groups.weft, "every": 2},
            {"group": groups.weft, "keep": "disk", "folder": folder}, {"units": [Block]},
        ]  # fmt: skip
        for stage in (1, 3):
            want, _, _ = train(lambda model: None, stage)
            for way in ways:
                # Parts are of activations that all ranks have alike: here they do, as all have the same seed.
                seen, points, _ = train(lambda model, way=way: zero.checkpoint_units(model, **way), stage)
                assert same(seen, want), (stage, way)
                assert points.stats()["most_bytes"] > 0, way


def calls_and_bytes(groups: ranks.Groups) -> None:
    """Blocks are computed twice, in segments up to three times; and only inputs are kept."""
    from weft import zero

    for every in (1, 2, 3, 8):
        _, points, model = train(lambda model, every=every: zero.checkpoint_units(model, every), 1, 1, 1)
        firsts = -(-LAYERS // every)
        lasts = firsts  # of segments: only what is before them is computed a third time
        calls = [block.calls for block in model.blocks]
        assert calls == [2 if i % every == every - 1 or i == LAYERS - 1 else 3 for i in range(LAYERS)], (every, calls)
        assert sum(calls) == 3 * LAYERS - lasts
        # The first inputs of those segments that were not computed again, and the inputs of one that is; and vectors.
        small = 2 * LAYERS * WIDTH * 4
        most = max(i + min(every, LAYERS - i * every) for i in range(firsts)) * INPUT
        assert most <= points.stats()["most_bytes"] <= most + small, (every, points.stats(), most)
        gc.collect()
        assert points.stats()["bytes"] == 0, points.stats()


def nothing_else_is_left(groups: ranks.Groups) -> None:
    """What blocks have returned is gone after the forward pass, where it is not kept."""
    from weft import zero

    with tempfile.TemporaryDirectory() as folder:
        for way, kept in (({}, LAYERS), ({"every": 4}, 2), ({"keep": "disk", "folder": folder}, 0)):
            model, seen = Net(), []
            model.inlet.register_forward_hook(lambda _module, _args, output, seen=seen: seen.append(weakref.ref(output)))
            for block in model.blocks:
                block.register_forward_hook(lambda _module, _args, output, seen=seen: seen.append(weakref.ref(output[0])))
            points = zero.checkpoint_units(model, **way)
            gc.collect()
            gc.disable()  # nothing waits for the collector of cycles
            try:
                loss = model(torch.randn(ROWS, WIDTH)).sum()
                assert [ref() is not None for ref in seen].count(True) == 0, way
                if kept:
                    assert kept * INPUT <= points.stats()["bytes"] < (kept + 1) * INPUT, (way, points.stats())
                loss.backward()
                del loss
                if kept:
                    assert points.stats()["bytes"] == 0, (way, points.stats())
            finally:
                gc.enable()


def files_and_parts(groups: ranks.Groups) -> None:
    from weft import zero

    with tempfile.TemporaryDirectory() as folder:
        _, points, _ = train(lambda model: zero.checkpoint_units(model, keep="disk", folder=folder), 3, 2, 1)
        stats = points.stats()
        assert list(Path(folder).iterdir()) == []  # the file has no name
    assert stats["written_bytes"] >= 2 * LAYERS * INPUT and stats["read_bytes"] >= 2 * (LAYERS - 3) * INPUT, stats
    assert stats["most_bytes"] <= 6 * INPUT + 4096, stats  # three buffers, the file's three chunks, and what is small
    assert stats["file_bytes"] <= LAYERS * INPUT, stats  # and places are used again
    if groups.size > 1:
        _, points, _ = train(lambda model: zero.checkpoint_units(model, group=groups.weft), 3, 1, 1)
        part = -(-ROWS * WIDTH // groups.size) * 4
        assert LAYERS * part <= points.stats()["most_bytes"] <= LAYERS * (part + 1024), points.stats()


def single_calls(groups: ranks.Groups) -> None:
    """weft.zero.checkpoint, as a configuration and configure_checkpointing say."""
    from weft import zero

    def called(model: Net) -> None:
        model.run = zero.checkpoint

    want, _, _ = train(lambda model: None, 3)
    try:
        for settings in ({}, {"cpu_checkpointing": True}, {"partition_activations": True, "group": groups.weft}):
            zero.configure_checkpointing(**settings)
            assert same(train(called, 3)[0], want), settings
        with tempfile.TemporaryDirectory() as folder:
            zero.configure_checkpointing(folder=folder)
            assert same(train(called, 3)[0], want)
        zero.configure_checkpointing(groups.weft)
        model = Net()
        model.run = zero.checkpoint
        section = {"partition_activations": True, "number_checkpoints": 2, "profile": True}
        engine = zm.engine_of(model, 3, activation_checkpointing=section)
        points = zero.checkpoint_units(Net())
        assert points.every == LAYERS // 2
        with torch.profiler.profile() as profile:
            engine.backward(engine(torch.randn(ROWS, WIDTH)).sum())
        assert sum(e.count for e in profile.key_averages() if e.key == "weft.zero.checkpoint") == LAYERS
        engine.step()
        engine.destroy()
        zero.configure_checkpointing()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            zm.engine_of(Net(), 1, activation_checkpointing=section).destroy()
        assert any("partition_activations has no effect" in str(w.message) for w in caught), [str(w.message) for w in caught]
    finally:
        zero.configure_checkpointing()


def conjugates_and_negatives(groups: ranks.Groups) -> None:
    """Tensors whose memory has other values than they have are kept as what they are."""
    from weft import zero

    weight = torch.randn(64, 64, dtype=torch.complex64)
    for name in ("conjugate", "negative"):
        x = torch.randn(64, 64, dtype=torch.complex64 if name == "conjugate" else torch.float32)
        x = x.conj() if name == "conjugate" else torch._neg_view(x)
        assert x.is_conj() or x.is_neg()
        found = []
        for more in (None, {}, {"folder": tempfile.gettempdir()}):
            w = (weight if name == "conjugate" else weight.real).clone().requires_grad_()
            zero.configure_checkpointing(**(more or {}))

            def made(a: torch.Tensor, w: torch.Tensor = w) -> torch.Tensor:
                return (a @ w).abs().sum()

            (made(x) if more is None else zero.checkpoint(made, x)).backward()
            found.append(w.grad)
        zero.configure_checkpointing()
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2]), name


def what_breaks_a_segment(groups: ranks.Groups) -> None:
    """Inputs that the block before has not returned as they are, are kept."""
    from weft import zero

    class Between(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inlet(x)
            scale = torch.ones(WIDTH)
            for i, block in enumerate(self.blocks):
                x, _ = block(x, scale)
                if i == 2:
                    x = x * 2
                if i == 4:
                    x = x.clone().mul_(0.5)
            return x + self.blocks[1](x, scale)[0]

    def gradients(every: int | None) -> tuple[list[torch.Tensor], int]:
        model = Between()
        points = zero.checkpoint_units(model, every) if every else None
        torch.manual_seed(3)
        x = torch.randn(ROWS, WIDTH)
        for _ in range(2):  # of micro-batches whose graphs are alive together
            loss = model(x).sum() + model(x * 2).sum()
            with torch.no_grad():
                model(x)
            loss.backward()
        return [p.grad for p in model.parameters()], points.stats()["most_bytes"] if points else 0

    want, _ = gradients(None)
    for every in (1, 3, 8):
        grads, _ = gradients(every)
        assert same(grads, want), every

    class InPlace(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inlet(x)
            for block in self.blocks[:2]:
                y, _ = block(x, torch.ones(WIDTH))
                x.mul_(2)
                x = y
            return x

    model = InPlace()
    zero.checkpoint_units(model, units=[Block])
    fails(RuntimeError, "modified in place", lambda: model(torch.randn(ROWS, WIDTH)).sum().backward())


def twice_backward_and_other_uses(groups: ranks.Groups) -> None:
    from weft import zero

    def gradients(checkpointed: bool) -> list[torch.Tensor]:
        model = Net()
        points = zero.checkpoint_units(model, "sqrt") if checkpointed else None
        torch.manual_seed(3)
        loss = model(torch.randn(ROWS, WIDTH)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with torch.autocast("cpu", torch.bfloat16):
            model(torch.randn(ROWS, WIDTH)).float().sum().backward()
        if points:
            points.remove()
            assert type(model.blocks[0]) is Block and not hasattr(model.blocks[0], "_weft_zero_chain")
        return [p.grad for p in model.parameters()]

    assert same(gradients(True), gradients(False))


def compiled_blocks(groups: ranks.Groups) -> None:
    from weft import zero

    def compiled(model: Net) -> Any:
        for block in model.blocks:
            block.drop.p = 0.0
            block.compile(backend="aot_eager")
        return zero.checkpoint_units(model, 2)

    def plain(model: Net) -> None:
        for block in model.blocks:
            block.drop.p = 0.0

    seen, points, _ = train(compiled, 3)
    want, _, _ = train(plain, 3)
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(seen, want, strict=True))
    assert points.stats()["most_bytes"] > 0


def what_is_refused(groups: ranks.Groups) -> None:
    from weft import zero

    model = Net()
    for text, settings in {
        "every is 0": {"every": 0}, "every is 'some'": {"every": "some"}, "every is 1.5": {"every": 1.5},
        "keep is 'tape'": {"keep": "tape"}, "takes a folder": {"keep": "disk"}, "nothing else does": {"folder": "/tmp"},
        "no module Nothing": {"units": ["Nothing"]},
    }.items():  # fmt: skip
        fails(ValueError, text, lambda settings=settings: zero.checkpoint_units(model, **settings))
    fails(zero.Error, "in /nowhere: disk tier: cannot make", lambda: zero.checkpoint_units(model, keep="disk", folder="/nowhere"))
    fails(ValueError, "no repeated blocks", lambda: zero.checkpoint_units(nn.Linear(2, 2)))
    assert all(type(block) is Block for block in model.blocks)
    zero.checkpoint_units(model)
    fails(ValueError, "is a checkpoint already", lambda: zero.checkpoint_units(model))
    fails(ValueError, "needs the group", lambda: zero.configure_checkpointing(partition_activations=True))
    fails(ValueError, "not in both", lambda: zero.configure_checkpointing(cpu_checkpointing=True, folder="/tmp"))
    fails(ValueError, "number_checkpoints is 0", lambda: zero.configure_checkpointing(number_checkpoints=0))


CASES = [
    gradients_are_the_same,
    calls_and_bytes,
    nothing_else_is_left,
    files_and_parts,
    single_calls,
    conjugates_and_negatives,
    what_breaks_a_segment,
    twice_backward_and_other_uses,
    compiled_blocks,
    what_is_refused,
]

if __name__ == "__main__":
    ranks.main(CASES)
