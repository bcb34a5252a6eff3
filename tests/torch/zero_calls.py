# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: what training scripts ask of an engine besides forward, backward and step."""

from __future__ import annotations

import argparse
import io
import sys
import warnings

import ranks
import torch
import zero_models as zm
from torch import nn
from zero_models import fails

HALF = {"fp16": {"enabled": True, "loss_scale": 128}}


def what_the_engine_tells(groups: ranks.Groups) -> None:
    model = zm.gpt()
    model.generate = lambda: "text"  # type: ignore[assignment]
    model.monitor = lambda: "the model's"  # type: ignore[assignment]
    engine = zm.engine_of(model, 2, train_micro_batch_size_per_gpu=2, gradient_accumulation_steps=3, bf16={"enabled": True})
    assert engine.get_batch_info() == (6 * groups.size, 2, 3)
    assert engine.zero_optimization() and engine.zero_optimization_partition_gradients()
    assert not engine.zero_optimization_partition_weights() and engine.zero_optimization_stage() == 2
    assert engine.bfloat16_enabled() and not engine.fp16_enabled() and not engine.dynamic_loss_scale()
    assert (engine.optimizer_name(), engine.scheduler_name()) == ("adamw", None)
    assert engine.device == torch.device("cpu") and engine.get_data_parallel_rank() == engine.global_rank == groups.rank
    assert engine.dp_world_size == engine.world_size == groups.size and engine.local_rank >= 0
    engine.set_lr(0.5)
    assert engine.get_lr() == [0.5] and engine.training_dataloader is None
    # What the engine has not got is the model's; what neither has is named, and so is what takes its place.
    assert engine.generate() == "text" and engine.monitor() == "the model's"
    assert not hasattr(engine, "deepspeed_io") and not hasattr(engine, "allreduce_bucket") and not hasattr(engine, "nonsense")
    fails(AttributeError, "weft.zero: the engine has no deepspeed_io: pass training_data", lambda: engine.deepspeed_io)
    fails(AttributeError, "global_steps * engine.train_batch_size()", lambda: engine.global_samples)
    fails(AttributeError, "neither the engine nor the model has nonsense", lambda: engine.nonsense)
    assert engine.optimizer.overflow is False
    engine.allreduce_gradients()
    engine.empty_partition_cache()
    engine.offload_states()
    engine.reload_states()
    fails(ValueError, "offload_memory", lambda: engine.offload_states(device="nvme"))
    state = engine.module_state_dict()
    assert state.keys() == model.state_dict().keys()
    changed = {name: torch.zeros_like(value) for name, value in state.items()}
    engine.load_module_state_dict(changed)
    assert not any(value.any() for value in engine.module_state_dict().values())
    fails(ValueError, "only in the model", lambda: engine.load_module_state_dict({}))
    engine.destroy()


def batches_of_another_size(groups: ranks.Groups) -> None:
    """An engine that is told of four micro-batches after two updates of two does what one that was made for four does."""
    from weft import zero

    data = zm.text(12, groups.rank)
    for stage in (1, 3):
        engines = [zm.engine_of(zm.gpt(), stage, gradient_accumulation_steps=steps) for steps in (2, 4)]
        for engine in engines:
            engine.set_train_batch_size(2 * groups.size)
            for number, (batch, target) in enumerate(data):
                if number == 4:
                    assert engine.global_steps == 2
                    engine.set_train_batch_size(4 * groups.size)
                if number == 5:
                    fails(zero.Error, "gradients of the next update", lambda e=engine: e.set_train_batch_size(groups.size))
                engine.backward(zm.common.loss_of(engine(batch), target))
                engine.step()
            assert (engine.global_steps, engine.micro_steps, engine.gradient_accumulation_steps()) == (4, 12, 4)
            fails(ValueError, "is no multiple of", lambda e=engine: e.set_train_batch_size(4 * groups.size + 1))
        zm.same_bits(*(zm.whole(engine) for engine in engines))
        engines[0].set_train_micro_batch_size(3)
        assert engines[0].get_batch_info() == (12 * groups.size, 3, 4)
        for engine in engines:
            engine.destroy()


def gradients_that_are_dropped(groups: ranks.Groups) -> None:
    """Whoever drops the gradients of a part of an update, the next micro-batch is its first."""
    data = zm.text(5, groups.rank)
    for stage in (1, 3):
        engines = [zm.engine_of(zm.gpt(), stage, gradient_accumulation_steps=2) for _ in range(3)]
        for number, engine in enumerate(engines):
            for batch, target in data[: 5 if number else 4]:
                if number and batch is data[1][0]:
                    (engine.optimizer.zero_grad if number == 1 else engine.drop_gradients)()
                engine.backward(zm.common.loss_of(engine(batch), target))
                engine.step()
            assert engine.global_steps == 2
        assert [engine.micro_steps for engine in engines] == [4, 5, 5]
        zm.same_bits(zm.whole(engines[1]), zm.whole(engines[2]))
        for engine in engines:
            engine.destroy()


def backward_of_the_loss(groups: ranks.Groups) -> None:
    """A program that calls loss.backward() trains as one that calls engine.backward(); what a loss scale wants is said."""
    from weft import zero

    data = zm.text(4, groups.rank)
    for stage in (0, 1, 2, 3):
        for scaled in (False, True):
            more = HALF if scaled else {}
            engines = [zm.engine_of(zm.gpt(), stage, gradient_accumulation_steps=2, **more) for _ in range(2)]
            for way, engine in enumerate(engines):
                for batch, target in data:
                    loss = zm.common.loss_of(engine(batch).float(), target)
                    if way == 0:
                        engine.backward(loss)
                    elif scaled:
                        engine.scale(loss).backward()
                    else:
                        loss.backward()
                    engine.step()
                assert engine.global_steps == 2
            zm.same_bits(*(zm.whole(engine) for engine in engines))
            if scaled:
                engine = engines[1]
                before = zm.whole(engine)
                engine.scale(torch.ones((), requires_grad=True))  # whoever only looks at it has not scaled the next loss
                loss = zm.common.loss_of(engine(data[0][0]).float(), data[0][1])
                fails(zero.Error, "not multiplied by the loss scale, 128", loss.backward)
                engine.drop_gradients()
                zm.same_bits(before, zm.whole(engine))
                for way, one in enumerate(engines):
                    for batch, target in data[:2]:
                        loss = zm.common.loss_of(one(batch).float(), target)
                        if way == 0:
                            one.scale(loss).backward()
                        else:
                            one.backward(loss)
                        one.step()
                zm.same_bits(*(zm.whole(one) for one in engines))
            for engine in engines:
                engine.destroy()


def gradients_of_updates_counted_by_hand(groups: ranks.Groups) -> None:
    """safe_get_full_grad is the mean over the micro-batches that there were, as the step's."""
    from weft import zero

    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 4, bias=False))
    engine = zm.engine_of(model, 2)
    for number in range(3):
        x = torch.full((1, 4), float(number + 1))
        if number < 2:
            with engine.no_sync():
                engine.backward(engine(x).sum())
        else:
            engine.backward(engine(x).sum())
    grad = zero.safe_get_full_grad(model[0].weight)
    assert grad is not None
    torch.testing.assert_close(grad, torch.full((4, 4), 2.0))
    engine.step()
    torch.testing.assert_close(engine.get_global_grad_norm(), 8.0)
    engine.destroy()
    # One micro-batch of two that the configuration has, which is said to be the last.
    model = nn.Sequential(nn.Linear(4, 4, bias=False))
    engine = zm.engine_of(model, 2, gradient_accumulation_steps=2)
    engine.set_gradient_accumulation_boundary(True)
    engine.backward(engine(torch.ones(1, 4)).sum())
    grad = zero.safe_get_full_grad(model[0].weight)
    assert grad is not None
    engine.step()
    torch.testing.assert_close(grad.norm().item(), engine.get_global_grad_norm())
    engine.destroy()


def parts_of_checkpoints(groups: ranks.Groups) -> None:
    """Arguments of DeepSpeed's calls, in their order."""
    from weft import zero

    def schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def made() -> object:
        return zero.initialize(zm.gpt(), "adamw", zm.config(3), lr_scheduler=schedule, **zm.HYPERS)

    def train(engine: object) -> None:
        for batch, target in zm.text(4, groups.rank):
            engine.backward(zm.common.loss_of(engine(batch), target))  # type: ignore[attr-defined]
            engine.step()  # type: ignore[attr-defined]

    with zm.shared_folder(groups) as folder:
        engine = made()
        train(engine)
        engine.save_checkpoint(folder, "a", None, True, False)
        saved = zm.whole(engine)
        for optimizer, scheduler, alone in ((True, True, False), (False, True, False), (True, False, False), (True, True, True)):
            other = made()
            other.load_checkpoint(folder, "a", True, optimizer, scheduler, alone)
            found = zm.whole(other)
            assert all(torch.equal(found[name], saved[name]) for name in saved if "exp_avg" not in name)
            moments = [torch.equal(found[name], saved[name]) for name in saved if "exp_avg" in name]
            assert all(moments) if optimizer and not alone else not any(moments), (optimizer, scheduler, alone)
            assert other.global_steps == (0 if alone else 4)
            assert other.lr_scheduler.last_epoch == (4 if scheduler and not alone else 0)
            train(other)
            other.destroy()
        for words, call in (
            ("exclude_frozen_parameters=True", lambda: engine.save_checkpoint(folder, exclude_frozen_parameters=True)),
            ("save_latest=False", lambda: engine.save_checkpoint(folder, save_latest=False)),
            ("load_module_strict=False", lambda: engine.load_checkpoint(folder, load_module_strict=False)),
            ("custom_load_fn", lambda: engine.load_checkpoint(folder, custom_load_fn=print)),
        ):
            fails(ValueError, f"{words} is not possible", call)
        engine.destroy()


def keys_that_have_effect(groups: ranks.Groups) -> None:
    """What the table of keys says that works, beside training itself."""
    from weft import zero
    from weft.zero import deepspeed

    said, stderr = io.StringIO(), sys.stderr
    sys.stderr = said
    try:
        engine = zm.engine_of(zm.gpt(), 3, steps_per_print=2, wall_clock_breakdown=True, memory_breakdown=True, dump_state=True)
        for batch, target in zm.text(5, groups.rank):
            engine.backward(zm.common.loss_of(engine(batch), target))
            engine.step()
    finally:
        sys.stderr = stderr
    lines = said.getvalue().splitlines()
    if groups.rank:
        assert not lines, lines
    else:
        assert len(lines) == 3 and lines[0].startswith('weft.zero: configuration: {') and '"dump_state": true' in lines[0], lines
        for line, number in zip(lines[1:], (2, 4), strict=True):
            assert line.startswith(f"weft.zero: step {number}: lr {zm.HYPERS['lr']:g}, norm ") and "update " in line, line
            assert "MiB on this rank: parameters " in line and "states " in line, line
    data = [torch.zeros(2)] * (11 * groups.size)
    for drop, sizes in ((True, [4, 4]), (False, [4, 4, 3])):
        _, _, loader, _ = deepspeed.initialize(model=nn.Linear(2, 2), training_data=data, config={
            "train_micro_batch_size_per_gpu": 4, "dataloader_drop_last": drop}, options={"state_dtype": "bf16"})  # fmt: skip
        assert [len(batch) for batch in loader] == sizes
    fails(ValueError, "managed_gradient_accumulation", lambda: zm.engine_of(zm.gpt(), 1, managed_gradient_accumulation=False))
    with zm.shared_folder(groups) as folder:
        for value in ("Ignore", "Warn", "Fail"):
            other = zm.engine_of(zm.gpt(), 1, checkpoint={"tag_validation": value})
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if value == "Fail":
                    fails(zero.Error, 'ranks save different tags: rank 0 "Fail0"',
                          lambda other=other: other.save_checkpoint(folder, f"Fail{groups.rank}"))  # fmt: skip
                else:
                    other.save_checkpoint(folder, f"{value}{groups.rank}")
                    assert (folder / f"{value}0").exists() and not (folder / f"{value}1").exists()
            assert [w for w in caught if "different tags" in str(w.message)] or value != "Warn", value
            other.destroy()
        zero.universal.save(engine, folder / "universal")
        want = zm.whole(engine)
        resumed = zm.engine_of(zm.gpt(), 1, checkpoint={"load_universal": True})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert resumed.load_checkpoint(folder / "empty") == (None, None)
        assert any("has no latest_universal" in str(w.message) for w in caught)
        fails(ValueError, "no part of it can be left out",
              lambda: resumed.load_checkpoint(folder / "universal", load_module_only=True))  # fmt: skip
        path, _ = resumed.load_checkpoint(folder / "universal")
        assert path is not None and path.startswith(str(folder / "universal")) and resumed.global_steps == 5
        zm.same_bits(zm.whole(resumed), want)
        resumed.destroy()
        for state, words in (({"t": (1, 2)}, "client_state['t'] would not come back as it is"), ({3: "x"}, "client_state[3]"),
                             ({"rng": torch.zeros(1)}, "client_state['rng']: Object of type Tensor")):  # fmt: skip
            if groups.rank == 0:
                fails(ValueError, words, lambda state=state: engine.save_checkpoint(folder, "state", state))
            else:
                fails(zero.Error, "another rank cannot save",
                      lambda: engine.save_checkpoint(folder, "state", {"t": [1, {"u": None}]}))  # fmt: skip
    fails(AttributeError, "in its place: torch.distributed", lambda: deepspeed.comm)
    fails(AttributeError, "weft.zero.deepspeed has no nonsense", lambda: deepspeed.nonsense)
    parsed = deepspeed.add_config_arguments(argparse.ArgumentParser()).parse_args(["--deepspeed", "--deepspeed_config", "f.json"])
    assert (parsed.deepspeed, parsed.deepspeed_config) == (True, "f.json")
    assert deepspeed.zero.Init is zero.Init and isinstance(engine, deepspeed.DeepSpeedEngine)
    assert deepspeed.utils.safe_get_full_fp32_param(next(iter(engine.module.parameters()))).dtype == torch.float32
    for option, value in (("offload_memory_bytes", "64M"), ("offload_memory_bytes", -1), ("threads", 1.5)):
        fails(ValueError, f"option {option} is {value!r}, not a whole number",
              lambda option=option, value=value: zero.initialize(zm.gpt(), options={option: value}))  # fmt: skip
    fails(zero.Error, "offload_memory_bytes is set, and offload_folder is not",
          lambda: zero.initialize(zm.gpt(), options={"offload_memory_bytes": 1 << 20}))  # fmt: skip
    fails(TypeError, "fully_shard has no setting offload_foldr; there are dtype",
          lambda: zero.fully_shard(zm.gpt(), offload_foldr="/"))  # fmt: skip
    for wrong in (2.0 * groups.size, "4"):
        fails(TypeError, "integer", lambda wrong=wrong: engine.set_train_batch_size(wrong))
    engine.destroy()


def compiled_by_the_engine(groups: ranks.Groups) -> None:
    from torch._dynamo.utils import counters

    plain, engine = (zm.engine_of(zm.gpt(), 3) for _ in range(2))
    assert not engine.is_compiled
    counters.clear()
    engine.compile(backend="aot_eager", compile_kwargs={"dynamic": False})
    assert engine.is_compiled
    for batch, target in zm.text(2, groups.rank):
        losses = []
        for one in (plain, engine):
            loss = zm.common.loss_of(one(batch), target)
            one.backward(loss)
            one.step()
            losses.append(loss.detach())
        torch.testing.assert_close(*losses, rtol=2e-5, atol=2e-5)
    assert counters["stats"]["unique_graphs"] > 0
    plain.destroy()
    engine.destroy()


CASES = [
    what_the_engine_tells,
    batches_of_another_size,
    gradients_that_are_dropped,
    backward_of_the_loss,
    gradients_of_updates_counted_by_hand,
    parts_of_checkpoints,
    keys_that_have_effect,
    compiled_by_the_engine,
]

if __name__ == "__main__":
    ranks.main(CASES)
