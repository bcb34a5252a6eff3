# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: models built without memory, weights from files, checkpoints of torch's DCP and of DeepSpeed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ranks
import torch
import torch.distributed as dist
import zero_models as zm
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from zero_models import fails, shared_folder


def has_safetensors() -> bool:
    return importlib.util.find_spec("safetensors") is not None


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
    if not has_safetensors():
        raise ranks.Skipped("safetensors cannot be imported")
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

    if not has_safetensors():
        raise ranks.Skipped("safetensors cannot be imported")
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
            half = {f"model.{n}": v.bfloat16() for n, v in once.items() if v.is_floating_point()}
            write(half, folder / "half" / "a.safetensors")
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
        raise ranks.Skipped("transformers cannot be imported") from None
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


def trained(stage: int, rank: int, steps: int = 2, **more: Any) -> Any:
    """An engine with moments, and groups of their own rates."""
    from weft import zero

    model = zm.gpt()

    def optimizer(_: Any) -> torch.optim.Optimizer:
        named = list(model.named_parameters())
        return torch.optim.AdamW([{"params": [p for _, p in named if p.dim() > 1], "lr": 1e-2},
                                  {"params": [p for _, p in named if p.dim() < 2], "weight_decay": 0.0}], **zm.HYPERS)

    engine = zero.initialize(model, optimizer, zm.config(stage, **more))
    train(engine, zm.text(steps, rank))
    return engine


def train(engine: Any, data: Any) -> None:
    for batch, target in data:
        engine.backward(zm.common.loss_of(engine(batch).float(), target))
        engine.step()


def dcp_both_ways(groups: ranks.Groups) -> None:
    """FSDP2 reads the bits that weft.zero has saved, and the other way; both go on from there as one would."""
    import torch.distributed.checkpoint as torch_dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from weft import zero

    data = zm.text(3, groups.rank)
    mesh = init_device_mesh("cpu", (groups.size,))

    def fsdp2() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = zm.gpt()
        for block in model[1:3]:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        named = list(model.named_parameters())
        return model, torch.optim.AdamW([{"params": [p for _, p in named if p.dim() > 1]},
                                         {"params": [p for _, p in named if p.dim() < 2]}])

    def loaded(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
        state, moments = get_state_dict(model, optimizer)
        torch_dcp.load({"model": state, "optim": moments}, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=moments)

    def values(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
        found = {}
        for name, parameter in model.named_parameters():
            found[name] = parameter.full_tensor().detach()
            for moment in ("exp_avg", "exp_avg_sq"):
                found[f"{name} {moment}"] = optimizer.state[parameter][moment].full_tensor()
        return found

    with shared_folder(groups) as folder:
        for stage, more in ((1, {}), (3, {}), (3, {"bf16": {"enabled": True}})):
            engine = trained(stage, groups.rank, **more)
            name = f"{stage}{len(more)}"
            zero.dcp.save(engine, folder / name)
            model, optimizer = fsdp2()
            loaded(model, optimizer, folder / name)
            zm.same_bits(values(model, optimizer), zm.whole(engine))
            assert [(g["lr"], g["weight_decay"]) for g in optimizer.param_groups] == [(1e-2, 0.1), (3e-3, 0.0)]
            assert {int(state["step"]) for state in optimizer.state.values()} == {2}
            other = trained(3 - stage, groups.rank, 0, **more)
            assert zero.dcp.load(other, folder / name) == ([], [])
            zm.same_bits(zm.whole(other), zm.whole(engine))
            for it in (engine, other):
                train(it, data)
            zm.same_bits(zm.whole(other), zm.whole(engine))
            assert other.global_steps == 5
            if not more:
                for batch, target in data:
                    zm.common.loss_of(model(batch), target).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                plain = {n: v for n, v in values(model, optimizer).items() if " " not in n}
                zm.near(plain, engine.full_state_dict(every_rank=True))
                state, moments = get_state_dict(model, optimizer)
                torch_dcp.save({"model": state, "optim": moments}, checkpoint_id=folder / f"{name}back")
                assert zero.dcp.load(other, folder / f"{name}back") == ([], [])
                zm.same_bits(zm.whole(other), values(model, optimizer))
                assert other.core.steps == 5
            engine.destroy()
            other.destroy()
        engine = zero.initialize(zm.odd(), "sgd", zm.config(3), lr=0.1, momentum=0.9)
        fails(ValueError, "missing empty", lambda: zero.dcp.load(engine, folder / "10"))
        fails(ValueError, "it has no .metadata", lambda: zero.dcp.load(engine, folder))
        batch, target = zm.noise(1, groups.rank)[0]
        engine.backward(zm.squares(engine(batch), target))
        engine.step()
        before = engine.full_state_dict(every_rank=True), engine.optimizer.state_dict()
        zero.dcp.save(engine, folder / "sgd")
        engine.destroy()
        model = zm.odd()
        optimizer = zero.Optimizer(zero.fully_shard(model, stage=2), "sgd", momentum=0.5)
        zero.dcp.load(optimizer, folder / "sgd")
        zm.same_bits(zero.full_state_dict(model, every_rank=True), before[0])
        after = optimizer.state_dict()
        assert after["param_groups"][0]["momentum"] == 0.9
        for place, state in before[1]["state"].items():
            zm.same_bits(after["state"][place], state)
        optimizer.destroy()


class Wicked:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def wicked(path: Path, called: Path) -> None:
    """Add to a file something that calls a function when it is unpickled."""
    torch.save({**torch.load(path, weights_only=True), "loss_scaler": Wicked(str(called))}, path)


def universal_there_and_back(groups: ranks.Groups) -> None:
    from weft import zero

    with shared_folder(groups) as folder:
        for stage in (1, 3):
            engine = trained(stage, groups.rank, bf16={"enabled": True})
            tag = zero.universal.save(engine, folder / str(stage))
            assert tag == "global_step2_universal"
            assert (folder / str(stage) / "latest_universal").read_text() == tag
            weight = folder / str(stage) / tag / "zero" / "1.feed.up.weight"
            assert sorted(p.name for p in weight.iterdir()) == ["exp_avg.pt", "exp_avg_sq.pt", "fp32.pt", "step.pt"]
            assert torch.equal(torch.load(weight / "fp32.pt")["param"], zm.whole(engine)["1.feed.up.weight"])
            other = trained(4 - stage, groups.rank, 0, bf16={"enabled": True})
            other.optimizer.param_groups[0]["lr"] = 5.0
            assert zero.universal.load(other, folder / str(stage)) == tag
            assert other.get_lr() == [1e-2, 3e-3] and other.global_steps == 2
            for it in (engine, other):
                train(it, zm.text(2, groups.rank))
            zm.same_bits(zm.whole(other), zm.whole(engine))
            engine.destroy()
            other.destroy()
        engine = zero.initialize(zm.odd(), "adamw", zm.config(3))
        fails(ValueError, "missing ", lambda: zero.universal.load(engine, folder / "1"))
        fails(ValueError, "latest_universal", lambda: zero.universal.load(engine, folder))
        fails(ValueError, "it has no folder zero", lambda: zero.universal.load(engine, folder, "1"))
        if groups.rank == 0:
            wicked(folder / "1" / "global_step2_universal" / "zero" / "optimizer_state.pt", folder / "called")
        dist.barrier(groups.gloo)
        other = trained(1, groups.rank, 0)
        zero.universal.load(other, folder / "1")
        assert not (folder / "called").exists()
        other.destroy()
        (folder / "file").touch()
        fails(ValueError, "file", lambda: zero.universal.save(engine, folder / "file"))
        zero.universal.save(engine, folder / "odd", "first")
        zero.universal.load(engine, folder / "odd", "first")
        engine.destroy()
        engine = zero.initialize(zm.odd(), "lion", zm.config(3))
        fails(ValueError, "lion has exp_avg", lambda: zero.universal.save(engine, folder / "lion"))
        engine.destroy()


def deepspeed_reads_and_writes(groups: ranks.Groups) -> None:
    """DeepSpeed's own engine loads what weft.zero has written, and weft.zero what DeepSpeed and its ds_to_universal have."""
    from weft import zero

    try:
        import deepspeed
        from deepspeed.checkpoint import ds_to_universal
    except ImportError:
        raise ranks.Skipped("deepspeed cannot be imported") from None
    import argparse

    os.environ["LOCAL_RANK"] = str(groups.rank)
    deepspeed.init_distributed()

    def theirs(stage: int, universal: bool) -> Any:
        model = zm.gpt()
        config = {
            "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False, "checkpoint": {"load_universal": universal},
        }
        optimizer = torch.optim.AdamW(model.parameters(), **zm.HYPERS)
        return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]

    def values(engine: Any) -> dict[str, torch.Tensor]:
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        found = {}
        for name, parameter in engine.module.named_parameters():
            found[name] = safe_get_full_fp32_param(parameter).view(getattr(parameter, "ds_shape", parameter.shape))
            for moment in ("exp_avg", "exp_avg_sq"):
                found[f"{name} {moment}"] = safe_get_full_optimizer_state(parameter, moment).view_as(found[name])
        return {n: v.clone() for n, v in found.items()}

    data = zm.text(4, groups.rank)
    with shared_folder(groups) as folder:
        for stage in (1, 2, 3):
            engine = zm.engine_of(zm.gpt(), stage)
            train(engine, data[:2])
            zero.universal.save(engine, folder / f"ours{stage}", torch_step=True)
            dist.barrier(groups.gloo)
            other = theirs(stage, True)
            other.load_checkpoint(str(folder / f"ours{stage}"))
            zm.same_bits(values(other), zm.whole(engine))
            assert other.global_steps == 2
            for it in (engine, other):
                train(it, data[2:])
            zm.near(values(other), zm.whole(engine))
            other.save_checkpoint(str(folder / f"theirs{stage}"), tag="four")
            dist.barrier(groups.gloo)
            if groups.rank == 0:
                ds_to_universal.main(argparse.Namespace(
                    input_folder=str(folder / f"theirs{stage}" / "four"), output_folder=str(folder / f"theirs{stage}" / "four_u"),
                    num_extract_workers=1, num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True))
            dist.barrier(groups.gloo)
            assert zero.universal.load(engine, folder / f"theirs{stage}") == "four_u"
            zm.same_bits(zm.whole(engine), values(other))
            assert (engine.core.steps, engine.global_steps, engine.get_lr()) == (4, 4, [zm.HYPERS["lr"]])
            engine.destroy()


class _Writes(nn.Module):
    """TorchScript that writes into a file when it is made again."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path, self.training = state
        torch.from_file(self.path, shared=True, size=16, dtype=torch.uint8).fill_(66)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class _Poison:
    """Writes an attribute of a function of torch's when it is made again."""

    def __reduce__(self) -> Any:
        return torch._utils._rebuild_tensor_v2, (), {"__doc__": "poisoned"}


def what_folders_hold(groups: ranks.Groups) -> None:
    """Nothing that a universal checkpoint has is run, and nothing of others is written, followed or deleted."""
    from weft import zero

    with shared_folder(groups) as folder:
        engine = zm.engine_of(zm.gpt(), 2)
        engine.backward(engine(torch.zeros(1, 4, dtype=torch.long)).sum())
        engine.step()
        (folder / "src").mkdir(exist_ok=True)
        (folder / "src" / "thesis.tex").write_text("mine")
        dist.barrier(groups.gloo)
        fails(ValueError, "src is there, and is no universal checkpoint", lambda: zero.universal.save(engine, folder, "src"))
        assert (folder / "src" / "thesis.tex").read_text() == "mine"
        tag = zero.universal.save(engine, folder)
        assert zero.universal.save(engine, folder) == tag  # one of the name is replaced
        assert groups.rank or sorted(path.name for path in folder.iterdir()) == sorted(["src", tag, "latest_universal"])
        states, victim = folder / tag / "mp_rank_00_model_states.pt", folder / f"victim{groups.rank}"
        if groups.rank == 0:
            victim.write_bytes(b"A" * 16)
            torch.jit.script(_Writes(str(victim))).save(str(states))
        dist.barrier(groups.gloo)
        fails(ValueError, "is a program of TorchScript's, which is not run", lambda: zero.universal.load(engine, folder))
        assert groups.rank or victim.read_bytes() == b"A" * 16
        if groups.rank == 0:
            torch.save({"module": _Poison()}, states)
        dist.barrier(groups.gloo)
        with contextlib.suppress(ValueError):
            zero.universal.load(engine, folder)
        assert torch._utils._rebuild_tensor_v2.__doc__ != "poisoned"
        for step, words in ((-3.0, "has made -3.0 steps"), (float("inf"), "has made inf steps")):
            if groups.rank == 0:
                states.unlink(missing_ok=True)
                for path in (folder / tag / "zero").rglob("step.pt"):
                    torch.save(torch.tensor(step), path)
            dist.barrier(groups.gloo)
            fails(ValueError, words, lambda: zero.universal.load(engine, folder))
        # A name that somebody could foresee is not written through.
        target = folder / "model"
        target.mkdir(exist_ok=True)
        engine.save_16bit_model(target)
        assert [path.name for path in target.iterdir()] == ["pytorch_model.bin"]
        if groups.size > 1:
            tag = "x" * 300 if groups.rank == 1 else "v1"
            fails(ValueError if groups.rank == 1 else zero.Error, "tag", lambda: engine.save_checkpoint(folder, tag))
        engine.destroy()


CASES = [
    built_without_memory,
    meta_device_and_training,
    memory_of_one_unit,
    own_functions_and_zeros,
    weights_from_files,
    hugging_face_without_memory,
    dcp_both_ways,
    universal_there_and_back,
    deepspeed_reads_and_writes,
    what_folders_hold,
]

if __name__ == "__main__":
    ranks.main(CASES)
