# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: what programs call, in the manner of DeepSpeed and of FSDP2, and what they are told when it is wrong."""

from __future__ import annotations

import copy
import math
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ranks
import torch
import torch.distributed as dist
import zero_models as zm
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from zero_models import fails

FILE = """{
  "train_batch_size": %d, // of all ranks
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 2,
  "gradient_clipping": 1.0,
  "steps_per_print": 2000,
  "optimizer": { "type": "AdamW", "params": { "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1 } },
  # a comment with "quotes", and a scheduler
  "scheduler": { "type": "WarmupLR", "params": { "warmup_min_lr": 0, "warmup_max_lr": 1e-3, "warmup_num_steps": 4 } },
  "zero_optimization": { "stage": 3, "reduce_bucket_size": 5e8, "stage3_param_persistence_threshold": 100, },
}"""


def as_deepspeed(groups: ranks.Groups) -> None:
    from weft.zero import deepspeed

    class Lines(torch.utils.data.Dataset[Any]):
        items = [pair for rank in range(groups.size) for pair in zip(*zm.text(1, rank, 8)[0], strict=True)]

        def __len__(self) -> int:
            return len(self.items)

        def __getitem__(self, i: int) -> Any:
            return self.items[i]

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        path = Path(folder, "ds_config.json")
        path.write_text(FILE % (4 * groups.size))
        model = zm.gpt()
        engine, optimizer, loader, scheduler = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), training_data=Lines(), config=str(path)
        )
    assert any("reduce_bucket_size has no effect" in str(w.message) for w in said), [str(w.message) for w in said]
    assert isinstance(optimizer, torch.optim.Optimizer) and engine.optimizer is optimizer and engine.lr_scheduler is scheduler
    assert (engine.train_batch_size(), engine.train_micro_batch_size_per_gpu()) == (4 * groups.size, 2)
    assert engine.gradient_accumulation_steps() == 2
    assert engine.module is model and engine.zero_optimization_stage() == 3 and engine.gradient_clipping() == 1
    losses, rates, seen = [], [], 0
    for _ in range(3):
        for tokens, target in loader:
            seen += len(tokens)
            loss = zm.common.loss_of(engine(tokens), target)
            engine.backward(loss)
            rates.append(engine.get_lr()[0])
            engine.step()
            losses.append(loss.item())
    assert seen == 3 * 8 and engine.global_steps == 6 and engine.micro_steps == 12
    warm = [0.0, 0.0, 1e-3 * math.log(2) / math.log(4), 1e-3 * math.log(3) / math.log(4), 1e-3, 1e-3]
    torch.testing.assert_close(rates[::2], warm)
    assert losses[-1] < losses[0] and engine.get_global_grad_norm() > 0
    engine.destroy()


def as_fsdp2(groups: ranks.Groups) -> None:
    from weft import zero

    data = zm.text(6, groups.rank)
    plain = DistributedDataParallel(zm.gpt())
    theirs = torch.optim.AdamW(plain.parameters(), **zm.HYPERS)
    for i, (batch, target) in enumerate(data):
        plain.require_backward_grad_sync = i % 2 == 1
        zm.common.loss_of(plain(batch), target).backward()
        if i % 2:
            nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            theirs.step()
            theirs.zero_grad()
    for stage in (1, 2, 3):
        model = zm.gpt()
        for layer in model:
            zero.fully_shard(layer)
        assert zero.fully_shard(model, stage, persistent=0) is model
        optimizer = zero.Optimizer(model, "adamw", clip=0.5, **zm.HYPERS)
        for i in range(0, len(data), 2):
            optimizer.zero_grad()
            with optimizer.no_sync():
                zm.common.loss_of(model(data[i][0]), data[i][1]).backward()
            zm.common.loss_of(model(data[i + 1][0]), data[i + 1][1]).backward()
            optimizer.step()
        zm.near(zero.full_state_dict(model, every_rank=True), dict(plain.module.state_dict()))
        assert optimizer.grad_norm and optimizer.grad_norm > 0.5
        optimizer.zero_grad()
        zm.common.loss_of(model(data[0][0]), data[0][1]).backward()
        optimizer.zero_grad()  # and no step

        def closure(model: nn.Module = model) -> torch.Tensor:
            loss = zm.common.loss_of(model(data[0][0]), data[0][1])
            loss.backward()
            return loss

        assert optimizer.step(closure) > 0
        optimizer.destroy()


def optimizer_state_is_torchs(groups: ranks.Groups) -> None:
    from weft import zero

    def train(model: Any, backward: Any, step: Any, data: Any) -> None:
        for batch, target in data:
            backward(zm.common.loss_of(model(batch), target))
            step()

    data = zm.text(6, 0)  # the same on all ranks
    plain = zm.gpt()
    theirs = torch.optim.AdamW(plain.parameters(), **zm.HYPERS)

    def theirs_step() -> None:
        theirs.step()
        theirs.zero_grad()

    train(plain, lambda loss: loss.backward(), theirs_step, data[:3])
    model = zm.gpt()
    engine = zero.initialize(model, torch.optim.AdamW(model.parameters(), **zm.HYPERS), zm.config(3))
    train(engine, engine.backward, engine.step, data[:3])
    ours, expected = engine.optimizer.state_dict(), theirs.state_dict()
    assert ours["state"].keys() == expected["state"].keys()
    assert ours["param_groups"][0]["params"] == expected["param_groups"][0]["params"]
    for place, values in expected["state"].items():
        for name, value in values.items():
            torch.testing.assert_close(ours["state"][place][name], value, rtol=1e-4, atol=1e-7)
    # Torch's state and weights into the engine, and training goes on as torch's.
    changed = copy.deepcopy(expected)
    changed["param_groups"][0]["lr"] = 1e-3
    theirs.param_groups[0]["lr"] = 1e-3
    engine.optimizer.load_state_dict(changed)
    zero.load_full_state_dict(model, plain.state_dict())
    assert engine.get_lr() == [1e-3]
    engine.destroy()
    # Another engine, in another stage, that has made no step.
    model = zm.gpt()
    engine = zero.initialize(model, torch.optim.AdamW(model.parameters(), **zm.HYPERS), zm.config(2))
    engine.optimizer.load_state_dict(changed)
    zero.load_full_state_dict(model, plain.state_dict())
    train(plain, lambda loss: loss.backward(), theirs_step, data[3:])
    train(engine, engine.backward, engine.step, data[3:])
    zm.near(engine.full_state_dict(every_rank=True), plain.state_dict())
    fails(ValueError, "other groups", lambda: engine.optimizer.load_state_dict({"state": {}, "param_groups": []}))
    engine.destroy()


def checkpoints_load_in_every_stage(groups: ranks.Groups) -> None:
    from weft import zero

    def made(stage: int) -> Any:
        scheduler = {"type": "WarmupLR", "params": {"warmup_max_lr": 3e-3, "warmup_num_steps": 8}}
        fp16 = {"enabled": True, "loss_scale_window": 3, "initial_scale_power": 8}
        return zm.engine_of(zm.gpt(), stage, scheduler=scheduler, fp16=fp16)

    def train(engine: Any, data: Any) -> None:
        for batch, target in data:
            engine.backward(zm.common.loss_of(engine(batch).float(), target))
            engine.step()

    data = zm.text(7, groups.rank)
    name = [tempfile.mkdtemp() if groups.rank == 0 else ""]
    dist.broadcast_object_list(name, 0, group=groups.gloo)
    folder = Path(name[0], "saved")
    for stage in (0, 1, 2, 3):
        engine, other = made(stage), made(3 - stage)
        assert other.load_checkpoint(folder / str(stage)) == (None, None)
        train(engine, data[:4])
        assert engine.save_checkpoint(folder / str(stage), client_state={"epoch": 3}, wait=False)
        train(engine, data[4:])
        engine.wait_for_checkpoint()
        path, client = other.load_checkpoint(folder / str(stage))
        assert (path, client) == (str(folder / str(stage) / "global_step4"), {"epoch": 3}), (path, client)
        assert other.global_steps == 4
        train(other, data[4:])
        zm.same_bits(zm.whole(other), zm.whole(engine))
        assert (other.get_lr(), other.loss_scale, other.global_steps) == (engine.get_lr(), engine.loss_scale, 7)
        fails(zero.Error, "nothing", lambda other=other, stage=stage: other.load_checkpoint(folder / str(stage), "nothing"))
        fails(ValueError, "JSON", lambda engine=engine: engine.save_checkpoint(folder, client_state={"a": torch.ones(1)}))
        engine.destroy()
        other.destroy()
    dist.barrier(groups.gloo)
    if groups.rank == 0:
        shutil.rmtree(name[0])


def whole_values(groups: ranks.Groups) -> None:
    from weft import zero

    for stage in (0, 1, 3):
        model = zm.gpt()
        engine = zm.engine_of(model, stage, bf16={"enabled": True})
        weight = model[1].feed.up.weight
        if stage == 3:
            fails(RuntimeError, '"1.feed.up.weight" is not gathered', lambda weight=weight: weight.sum())
            assert weight.shape == (128, 32)
        with zero.GatheredParameters(weight):
            before = weight.float().clone()
            weight.data.fill_(9.0)  # lost
        with zero.GatheredParameters(model.parameters()):
            assert torch.equal(weight.float(), before)
        with zero.GatheredParameters([weight], modifier_rank=groups.size - 1):
            if groups.rank == groups.size - 1:
                weight.data.fill_(3.0)
        assert torch.equal(zero.safe_get_full_fp32_param(weight), torch.full((128, 32), 3.0))
        exact = torch.randn(128, 32, generator=torch.Generator().manual_seed(1))
        zero.safe_set_full_fp32_param(weight, exact)
        assert torch.equal(zero.safe_get_full_fp32_param(weight), exact)
        assert torch.equal(engine.full_state_dict(every_rank=True)["1.feed.up.weight"], exact.bfloat16())
        assert zero.safe_get_full_grad(weight) is None
        (batch, target), scale = zm.text(1, groups.rank)[0], 2.0
        engine.backward(zm.common.loss_of(engine(batch).float(), target) * scale)
        grad = zero.safe_get_full_grad(weight)
        assert grad is not None and torch.isfinite(grad).all() and grad.abs().max() > 0
        engine.step()
        moment = zero.safe_get_full_optimizer_state(weight, "exp_avg")
        torch.testing.assert_close(moment, grad * (1 - zm.HYPERS["betas"][0]))
        zero.safe_set_full_optimizer_state(weight, exact, "exp_avg")
        assert torch.equal(zero.safe_get_full_optimizer_state(weight, "exp_avg"), exact)
        fails(ValueError, "keeps no sum", lambda weight=weight: zero.safe_get_full_optimizer_state(weight, "sum"))
        state = engine.full_state_dict()
        assert bool(state) == (groups.rank == 0)
        assert groups.rank or list(state) == list(model.state_dict())
        with tempfile.TemporaryDirectory() as folder:
            engine.save_16bit_model(folder)
            assert groups.rank or torch.load(Path(folder, "pytorch_model.bin")).keys() == state.keys()
        engine.destroy()
        fails(RuntimeError, "was destroyed" if stage < 3 else "is not gathered", lambda weight=weight: weight.sum())


def parameters_after_a_step(groups: ranks.Groups) -> None:
    """Below stage 3 they can be read when they have come; until then nobody sees half of them."""
    from weft import zero

    model = zm.gpt()
    engine = zm.engine_of(model, 1)
    batch, target = zm.text(1, groups.rank)[0]
    engine.backward(zm.common.loss_of(engine(batch), target))
    engine.step()
    fails(RuntimeError, "on their way", lambda: model[4].weight.sum())
    zm.same_bits(copy.deepcopy(model.state_dict()), engine.full_state_dict(every_rank=True))
    engine.backward(zm.common.loss_of(engine(batch), target))
    engine.step()
    zero.synchronize(model)
    zm.same_bits(dict(model.named_parameters()), engine.full_state_dict(every_rank=True))
    engine.destroy()


def groups_of_processes(groups: ranks.Groups) -> None:
    from weft import zero

    data = zm.text(3, groups.rank)
    states = []
    for group in (None, groups.gloo, groups.weft):
        engine = zero.initialize(zm.gpt(), "adamw", zm.config(2), group=group, **zm.HYPERS)
        assert (engine.global_rank, engine.world_size) == (groups.rank, groups.size)
        for batch, target in data:
            engine.backward(zm.common.loss_of(engine(batch), target))
            engine.step()
        states.append(zm.whole(engine))
        engine.destroy()
        zm.same_bits(states[-1], states[0])
    halves = [dist.new_group([r for r in range(groups.size) if r % 2 == half], backend="gloo") for half in (0, 1)]
    engine = zero.initialize(zm.gpt(), "adamw", zm.config(3), group=halves[groups.rank % 2])
    assert (engine.global_rank, engine.world_size) == (groups.rank // 2, groups.size // 2)
    engine.destroy()
    fails(ValueError, "not of the process group", lambda: zero.initialize(zm.gpt(), "adamw", group=halves[1 - groups.rank % 2]))


def schedulers_are_deepspeeds(groups: ranks.Groups) -> None:
    from weft.zero import schedulers

    try:
        from deepspeed.runtime import lr_schedules as theirs
    except ImportError:
        raise ranks.Skipped("deepspeed cannot be imported") from None
    given: list[tuple[str, dict[str, Any]]] = [
        ("WarmupLR", {"warmup_max_lr": 0.1, "warmup_num_steps": 7}),
        ("WarmupLR", {"warmup_min_lr": [0.01, 0.02], "warmup_max_lr": [0.1, 0.3], "warmup_num_steps": 7, "warmup_type": "linear"}),
        ("WarmupLR", {"warmup_num_steps": 1}),
        ("WarmupDecayLR", {"total_num_steps": 20, "warmup_num_steps": 6}),
        ("WarmupCosineLR", {"total_num_steps": 20, "warmup_num_steps": 6, "warmup_min_ratio": 0.1, "cos_min_ratio": 0.05}),
        ("LRRangeTest", {"lr_range_test_step_size": 5, "lr_range_test_step_rate": 2.0, "lr_range_test_staircase": True}),
        ("OneCycle", {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1, "cycle_first_step_size": 5, "cycle_second_step_size": 7,
                      "decay_step_size": 3, "decay_lr_rate": 0.5, "decay_mom_rate": 0.1}),
        ("OneCycle", {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1, "cycle_first_step_size": 6, "cycle_first_stair_count": 3}),
    ]
    for name, params in given:
        seen = []
        for module in (theirs, schedulers):
            groups_ = [{"params": [torch.zeros(1)], "lr": 0.2}, {"params": [torch.zeros(2)], "lr": 0.4}]
            optimizer = torch.optim.AdamW(groups_)
            made = getattr(module, name)(optimizer, **params)
            seen.append([[(g["lr"], g["betas"]) for g in optimizer.param_groups]])
            for _ in range(30):
                made.step()
                seen[-1].append([(g["lr"], g["betas"]) for g in optimizer.param_groups])
        torch.testing.assert_close(seen[1], seen[0], msg=lambda m, name=name, params=params: f"{name} {params}: {m}")


def hugging_face_trains(groups: ranks.Groups) -> None:
    from weft import zero

    try:
        import transformers
    except ImportError:
        raise ranks.Skipped("transformers cannot be imported") from None
    shape = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": True}

    def make() -> Any:
        torch.manual_seed(0)
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, attn_implementation="eager"))

    def loss_of(model: Any, step: int) -> torch.Tensor:
        tokens = zm.text(4, 0)[step][0]
        return model(input_ids=tokens, labels=tokens).loss

    zm.beside_plain(make, loss_of, stages=(1, 2, 3))
    model = make()
    model.gradient_checkpointing_enable()
    engine = zero.initialize(model, "adamw", zm.config(3), lr=3e-3)
    first = loss_of(engine, 0).item()
    for step in range(4):
        engine.backward(loss_of(engine, step))
        engine.step()
    engine.eval()
    assert loss_of(engine, 0).item() < first
    with torch.no_grad():
        made = model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
    assert made.shape == (1, 8)
    engine.destroy()


def wrong_configurations(groups: ranks.Groups) -> None:
    from weft import zero

    def tried(config: Any, optimizer: Any = None, **more: Any) -> Callable[[], Any]:
        return lambda: zero.initialize(nn.Linear(3, 3), optimizer, config, **more)

    fails(ValueError, "nearest is zero_optimization", tried({"zero_optimisation": {}}))
    fails(ValueError, "zero_optimization.stag is no key", tried({"zero_optimization": {"stag": 1}}))
    fails(ValueError, "stage is 4", tried({"zero_optimization": {"stage": 4}}))
    fails(ValueError, "3 is not 2 x 2 x", tried({"train_batch_size": 3, "train_micro_batch_size_per_gpu": 2,
                                                          "gradient_accumulation_steps": 2}))
    fails(ValueError, 'scheduler.type "Cosine" is not known', tried({"scheduler": {"type": "Cosine"}}))
    fails(ValueError, "RMSprop is refused", tried({"optimizer": {"type": "RMSprop"}}))
    fails(ValueError, "not JSON serializable", tried({"train_batch_size": {1}}))
    fails(TypeError, "no option thread;", tried(None, options={"thread": 1}))
    fails(ValueError, "adamw has no parameter nesterov", tried(None, "adamw", nesterov=True))
    fails(ValueError, "no optimizer 'rmsprop'", tried(None, "rmsprop"))
    fails(TypeError, "class RMSprop cannot be sharded", tried(None, lambda p: torch.optim.RMSprop(p)))
    fails(ValueError, "amsgrad=True is not possible", tried(None, lambda p: torch.optim.AdamW(p, amsgrad=True)))
    fails(OSError, "nothing.json", tried("/nothing.json"))
    fails(ValueError, "has no module Bloc", tried(None, units=["Bloc"]))
    fails(ValueError, "float64", lambda: zero.initialize(nn.Linear(3, 3).double()))
    fails(ValueError, "no parameters", lambda: zero.initialize(nn.ReLU()))
    fails(ValueError, "is not the model's", tried(None, torch.optim.AdamW(nn.Linear(3, 3).parameters())))
    fails(ValueError, "stage is 7", lambda: zero.fully_shard(nn.Linear(3, 3), 7))
    model = nn.Linear(3, 3)
    engine = zero.initialize(model)
    fails(ValueError, "of an engine of weft.zero already", lambda: zero.initialize(model))
    fails(ValueError, "is no parameter of an engine", lambda: zero.safe_get_full_grad(torch.zeros(3)))
    engine.destroy()


def wrong_use(groups: ranks.Groups) -> None:
    from weft import zero

    model = zm.gpt()
    engine = zm.engine_of(model, 2)
    batch, target = zm.text(1, groups.rank)[0]
    fails(zero.Error, "0 of 1 micro-batches", engine.step)
    engine.backward(zm.common.loss_of(engine(batch), target))
    fails(zero.Error, "weft_zero_step", lambda: engine.backward(zm.common.loss_of(engine(batch), target)))
    engine.drop_gradients()
    engine.backward(zm.common.loss_of(engine(batch), target))
    engine.optimizer.param_groups[0]["lr"] = -1.0
    fails(zero.Error, "lr", engine.step)
    engine.optimizer.param_groups[0]["lr"] = 1e-3
    engine.step()
    fails(zero.Error, "cannot be added", lambda: engine.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]}))
    engine.destroy()


def ranks_that_differ(groups: ranks.Groups) -> None:
    from weft import zero

    def other_model() -> Any:
        return zero.initialize(nn.Linear(3, 3 + (groups.rank == 1)), "adamw")

    fails(zero.Error, "another model than rank 0", other_model)
    fails(zero.Error, "stage", lambda: zero.initialize(nn.Linear(3, 3), "adamw", zm.config(1 + (groups.rank == 1))))
    model = zm.gpt()
    engine = zm.engine_of(model, 3)
    batch, _ = zm.text(1, 0)[0]

    def another_order() -> None:
        x = model[0](batch)
        for block in model[1:3] if groups.rank != 1 else reversed(model[1:3]):
            x = block(x)

    try:
        another_order()
        raise AssertionError("ranks use other blocks, and nobody says so")
    except zero.Error as problem:
        assert problem.name == "WEFT_EMISMATCH" or problem.status <= -20, problem
        assert "gather of 1" in str(problem) or "gather of 2" in str(problem), problem
    fails(zero.Error, "has failed before", lambda: model[0](batch))
    engine.destroy()


CASES = [
    as_deepspeed,
    as_fsdp2,
    optimizer_state_is_torchs,
    checkpoints_load_in_every_stage,
    whole_values,
    parameters_after_a_step,
    groups_of_processes,
    schedulers_are_deepspeeds,
    hugging_face_trains,
    wrong_configurations,
    wrong_use,
    ranks_that_differ,
]

if __name__ == "__main__":
    ranks.main(CASES)
