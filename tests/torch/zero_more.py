# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: models that are built without memory, and weights from files."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ranks
import torch
import torch.distributed as dist
import zero_models as zm
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


def fails(kind: type[BaseException], words: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except kind as problem:
        assert words in str(problem), problem
        return
    raise AssertionError(f"no {kind.__name__} with {words!r}")


@contextmanager
def shared_folder(groups: ranks.Groups) -> Iterator[Path]:
    name = [tempfile.mkdtemp() if groups.rank == 0 else ""]
    dist.broadcast_object_list(name, 0, group=groups.gloo)
    try:
        yield Path(name[0])
        dist.barrier(groups.gloo)
    finally:
        if groups.rank == 0:
            shutil.rmtree(name[0], ignore_errors=True)


class Storages(TorchDispatchMode):
    """Bytes of all storages of the CPU that are made inside, and the most at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.seen: set[int] = set()

    def _gone(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.now -= size

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                storage = tensor.untyped_storage()
                if storage._cdata not in self.seen and storage.nbytes():
                    self.seen.add(storage._cdata)
                    self.now += storage.nbytes()
                    self.most = max(self.most, self.now)
                    weakref.finalize(storage, self._gone, storage._cdata, storage.nbytes())
        return result


class Tied(nn.Module):
    """Parameters and buffers of many kinds: tied, normalized, of an attention of torch's, and made by the constructor alone."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.head.weight = self.embed.weight
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(2))
        self.norm = nn.BatchNorm1d(8)
        self.plain = nn.BatchNorm1d(8, affine=False)
        self.scale = nn.Parameter(torch.full((8,), 1.5))
        self.register_buffer("places", torch.arange(8.0))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.plain(self.norm(x.mean(1))) * self.scale)


def on_meta(make: Callable[[], nn.Module], **how: Any) -> nn.Module:
    from weft import zero

    with zero.Init(**how):
        return make()


def built_without_memory(groups: ranks.Groups) -> None:
    """Ties, types and buffers are as the constructor has them; values do not depend on stage, way or number of ranks."""
    from weft import zero

    alone = [dist.new_group([r], backend="gloo") for r in range(groups.size)][groups.rank]
    seen: list[dict[str, torch.Tensor]] = []
    for stage, group in ((0, None), (1, None), (3, None), (3, alone)):
        torch.manual_seed(groups.rank)
        model = on_meta(Tied, seed=5)
        assert model.embed.weight is model.head.weight and model.embed.weight.is_meta and not model.places.is_meta
        optimizer = torch.optim.AdamW(model.parameters(), **zm.HYPERS)
        before = list(model.parameters())
        engine = zero.initialize(model, optimizer, zm.config(stage), group=group)
        assert all(a is b and not a.is_meta for a, b in zip(before, model.parameters(), strict=True))
        assert model.embed.weight is model.head.weight and isinstance(model.embed.weight, nn.Parameter)
        seen.append(engine.full_state_dict(every_rank=True))
        engine.destroy()
        zm.same_bits(seen[-1], seen[0])
    plain, made = Tied().state_dict(), seen[0]
    assert plain.keys() == made.keys()
    for name, value in plain.items():
        if value.numel() < 2 or value.float().std() == 0 or name == "places":  # what no chance makes is the same
            assert torch.equal(made[name], value), name
        elif value.numel() >= 64:
            assert 0.5 < made[name].std() / value.std() < 2, (name, made[name].std(), value.std())
    assert len({v.flatten()[0].item() for n, v in made.items() if n.endswith("linear1.weight")}) == 2


def meta_device_and_training(groups: ranks.Groups) -> None:
    """As the same weights in a model that was built with memory."""
    from weft import zero

    data = zm.text(3, groups.rank)
    with torch.device("meta"):
        model = zm.gpt()
    assert all(p.is_meta for p in model.parameters())
    for block in model[1:3]:
        zero.fully_shard(block)
    optimizer = zero.Optimizer(zero.fully_shard(model), "adamw", **zm.HYPERS)
    plain = zm.gpt()
    plain.load_state_dict(zero.full_state_dict(model, every_rank=True))
    wrapped = nn.parallel.DistributedDataParallel(plain)
    theirs = torch.optim.AdamW(plain.parameters(), **zm.HYPERS)
    for batch, target in data:
        for module, stepper in ((model, optimizer), (wrapped, theirs)):
            zm.common.loss_of(module(batch), target).backward()
            stepper.step()
            stepper.zero_grad()
    zm.near(zero.full_state_dict(model, every_rank=True), dict(plain.state_dict()))
    optimizer.destroy()


def memory_of_one_unit(groups: ranks.Groups) -> None:
    """torch never has more than one unit and its largest parameter, of a model of 9 units; nor has loading."""
    from weft import zero

    def make() -> nn.Module:
        return nn.Sequential(*(zm.common.FeedForward(128) for _ in range(8)))

    plain = make()
    whole = sum(p.numel() * 4 for p in plain.parameters())
    unit, largest = whole // 8, 4 * 128 * 4 * 128
    with shared_folder(groups) as folder:
        if groups.rank == 0:
            write(plain.state_dict(), folder / "model.safetensors")
        dist.barrier(groups.gloo)
        with Storages() as built:
            engine = zm.engine_of(on_meta(make), 3)
        with Storages() as loaded:
            zero.load_safetensors(engine, folder)
        with Storages() as eager:
            make()
    stats = engine.stats()
    print(f"bytes: model {whole}, unit {unit}; at most in torch: built and sharded {built.most}, loaded {loaded.most}, built as "
          f"usual {eager.most}; of the engine: {stats['param_bytes']} of parameters")
    assert eager.most >= whole
    assert built.most <= unit + largest + 65536 < whole / 2, (built.most, unit)
    assert loaded.most <= 2 * largest + 65536, (loaded.most, largest)
    assert stats["param_bytes"] + built.most < whole
    zm.same_bits(engine.full_state_dict(every_rank=True), dict(plain.state_dict()))
    engine.destroy()


def own_functions_and_zeros(groups: ranks.Groups) -> None:
    from weft import zero

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.big = nn.Parameter(torch.ones(300, 300))
            self.inner = nn.Linear(300, 3)

    fails(ValueError, 'parameter "big" is on the meta device, and Own has no reset_parameters()',
          lambda: zero.initialize(on_meta(Own)))
    engine = zero.initialize(on_meta(Own, init=False), config=zm.config(3))
    assert all(not v.any() for v in engine.full_state_dict(every_rank=True).values())
    engine.destroy()

    def fill(module: nn.Module) -> None:
        for parameter in module.parameters(recurse=False):
            parameter.fill_(7.0)

    engine = zero.initialize(on_meta(Own, init=fill), config=zm.config(3))
    assert all((v == 7).all() for v in engine.full_state_dict(every_rank=True).values())
    engine.destroy()
    with torch.device("meta"):
        model = Tied()
    fails(ValueError, 'buffer ".places" is on the meta device', lambda: zero.initialize(model))
    assert all(p.is_meta for p in model.parameters())  # as before
    fails(ValueError, "init is a function", lambda: zero.Init(init=True))
    with zero.Init(enabled=False):
        assert not nn.Linear(2, 2).weight.is_meta
    assert not nn.Linear(2, 2).weight.is_meta


def write(state: dict[str, torch.Tensor], path: Path) -> None:
    from safetensors.torch import save_file

    save_file({n: v.contiguous().clone() for n, v in state.items()}, path)


def in_files(state: dict[str, torch.Tensor], folder: Path, files: int) -> None:
    names, index = list(state), {}
    for number in range(files):
        mine = names[number::files]
        write({n: state[n] for n in mine}, folder / f"model-{number}.safetensors")
        index |= dict.fromkeys(mine, f"model-{number}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def weights_from_files(groups: ranks.Groups) -> None:
    from weft import zero

    try:
        import safetensors  # noqa: F401
    except ImportError:
        print("skipped: safetensors cannot be imported")
        return
    torch.manual_seed(9)
    state = Tied().state_dict()
    once = {n: v for n, v in state.items() if n != "head.weight"}  # tied parameters are there once
    with shared_folder(groups) as folder:
        if groups.rank == 0:
            for name in ("one", "more", "odd", "cut", "bad", "half"):
                (folder / name).mkdir()
            write(once, folder / "one" / "weights.safetensors")
            in_files(once, folder / "more", 3)
            odd = {n: v for n, v in once.items() if n != "norm.bias"} | {"other": torch.ones(1), "another": torch.ones(1)}
            write(odd, folder / "odd" / "model.safetensors")
            write({**once, "norm.bias": torch.ones(9)}, folder / "bad" / "model.safetensors")
            write({f"model.{n}": v.bfloat16() for n, v in once.items() if v.is_floating_point()}, folder / "half" / "a.safetensors")
            data = (folder / "one" / "weights.safetensors").read_bytes()
            (folder / "cut" / "model.safetensors").write_bytes(data[: len(data) // 2])
        dist.barrier(groups.gloo)
        for stage in (0, 1, 3):
            for where in ("one/weights.safetensors", "one", "more", "more/model.safetensors.index.json"):
                engine = zm.engine_of(on_meta(Tied), stage)
                assert zero.load_safetensors(engine, folder / where) == ([], [])
                zm.same_bits(engine.full_state_dict(every_rank=True), state)
                engine.destroy()
        model = on_meta(Tied)
        engine = zm.engine_of(model, 3)
        before = engine.full_state_dict(every_rank=True)
        for where, words in (("odd", "missing norm.bias; unexpected another, other"), ("bad", "norm.bias has shape (9,), not (8,)"),
                             ("cut", "model.safetensors: "), ("nothing", "nothing"), (".", "has no file *.safetensors")):
            fails(ValueError, words, lambda where=where: zero.load_safetensors(engine, folder / where))
        zm.same_bits(engine.full_state_dict(every_rank=True), before)
        assert zero.load_safetensors(model, folder / "odd", strict=False) == (["norm.bias"], ["another", "other"])
        half = zero.load_safetensors(model, folder / "half", strict=False, prefix="model.")
        assert all(n.endswith("num_batches_tracked") for n in half.missing) and not half.unexpected
        zm.same_bits({n: v.bfloat16() for n, v in engine.full_state_dict(every_rank=True).items()},
                     {n: v.bfloat16() for n, v in state.items()})
        engine.destroy()


def hugging_face_without_memory(groups: ranks.Groups) -> None:
    """Its own initialisation, _init_weights, and its own files."""
    from weft import zero

    try:
        import transformers
    except ImportError:
        print("skipped: transformers cannot be imported")
        return
    config = transformers.GPT2Config(vocab_size=128, n_positions=64, n_embd=32, n_layer=8, n_head=4, initializer_range=0.5)

    def make() -> Any:
        return transformers.GPT2LMHeadModel(config)

    engine = zm.engine_of(on_meta(make, keep=100), 3)
    state = engine.full_state_dict(every_rank=True)
    expected = make().state_dict()
    assert list(state) == list(expected)
    for name, value in expected.items():
        if value.std() == 0:
            assert torch.equal(state[name], value), name
        else:
            assert 0.8 < state[name].std() / value.std() < 1.25, (name, state[name].std(), value.std())
    with shared_folder(groups) as folder:
        model = make()
        if groups.rank == 0:
            model.save_pretrained(folder / "saved", max_shard_size="100KB")
            expected = model.state_dict()
        dist.barrier(groups.gloo)
        assert zero.load_safetensors(engine, folder / "saved") == ([], [])
    if groups.rank == 0:
        zm.same_bits(engine.full_state_dict(every_rank=True), expected)
    else:
        engine.full_state_dict(every_rank=True)
    batch = zm.text(1, groups.rank)[0][0]
    engine.backward(engine(input_ids=batch, labels=batch).loss)
    engine.step()
    engine.destroy()


CASES = [
    built_without_memory,
    meta_device_and_training,
    memory_of_one_unit,
    own_functions_and_zeros,
    weights_from_files,
    hugging_face_without_memory,
]

if __name__ == "__main__":
    ranks.main(CASES)
