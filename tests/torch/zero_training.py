# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: configurations whose values are "auto", compiled models, and a GPT over characters that learns in every stage."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ranks
import torch
import torch.nn.functional as F
import zero_models as zm
from torch import nn
from zero_models import fails

# ---- "auto" ----

#: As Hugging Face's guides print it, in short.
AUTO = """{
  "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW",
                "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                        "stage3_param_persistence_threshold": "auto"},
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto" /* all of them */
}"""


class Sized(nn.Sequential):
    """A model with a configuration, as Hugging Face's have it."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(nn.Linear(8, 8), nn.Linear(8, 8))
        if config is not None:
            self.config = config


def automatic_values(groups: ranks.Groups) -> None:
    from weft import zero

    path = Path(os.environ["WEFT_BUILDDIR"], f"torch-zero-auto-{groups.rank}.json")
    path.write_text(AUTO)
    told = {"micro_batch_size": 4, "warmup_steps": 10}
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("weft.zero")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        for config in (SimpleNamespace(hidden_size=100), SimpleNamespace(hidden_sizes=[10, 100, 20]),
                       SimpleNamespace(text_config=SimpleNamespace(hidden_size=100))):  # fmt: skip
            engine = zero.initialize(Sized(config), config=path, lr=2e-3, betas=(0.8, 0.9), eps=1e-7, weight_decay=0.3, auto=told)
            group = engine.optimizer.param_groups[0]
            assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.8, 0.9), 1e-7, 0.3), group
            assert engine.lr_scheduler.max_lrs == [2e-3] and engine.lr_scheduler.warmup.steps == 10
            settings = engine.settings
            assert (settings.prefetch, settings.persistent, settings.clip, settings.dtype) == (9000, 1000, 1.0, None), settings
            assert engine.train_batch_size() == 4 * groups.size and engine.gradient_accumulation_steps() == 1
            engine.destroy()
        assert any("hidden_size 100" in line and "lr 0.002" in line for line in heard), heard
    finally:
        logger.removeHandler(handler)
    # What the program says counts more than what the model does; its type is the model's.
    told |= {"hidden_size": 10, "lr": 1e-3, "train_batch_size": 8 * groups.size}
    hypers = {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0}
    engine = zero.initialize(Sized(SimpleNamespace(hidden_size=100)).bfloat16(), config=path, auto=told, **hypers)
    assert engine.settings.persistent == 100 and engine.settings.dtype == torch.bfloat16
    assert engine.gradient_accumulation_steps() == 2 and engine.lr_scheduler.max_lrs == [1e-3]
    engine.destroy()
    # An optimizer of torch's has what it has.
    model = Sized()
    adamw = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.8, 0.9), weight_decay=0.2)
    engine = zero.initialize(model, adamw, path, auto={**told, "hidden_size": 1, "lr": 5e-4})
    assert engine.lr_scheduler.max_lrs == [5e-4] and engine.optimizer.param_groups[0]["weight_decay"] == 0.2
    engine.destroy()
    # What nobody says is asked for by name.
    every = {"micro_batch_size": 4, "warmup_steps": 1, "hidden_size": 8}
    for missing, words in (("micro_batch_size", 'auto={"train_batch_size": …}'), ("warmup_steps", 'auto={"warmup_steps": …}'),
                           ("hidden_size", 'auto={"hidden_size": …}')):  # fmt: skip
        less = {name: value for name, value in every.items() if name != missing}
        fails(ValueError, words, lambda less=less: zero.initialize(Sized(), config=path, lr=1e-3, auto=less, **hypers))
    fails(ValueError, 'auto={"lr": …}', lambda: zero.initialize(Sized(), config=path, auto=every, **hypers))
    fails(TypeError, "auto has no hiden_size", lambda: zero.initialize(Sized(), config=path, auto={"hiden_size": 1}))
    fails(ValueError, "auto: lr is 'fast', not a number", lambda: zero.initialize(Sized(), config=path, auto={"lr": "fast"}))
    for name, value, words in (("lr", "fast", "lr is 'fast', not a number"), ("betas", 0.9, "betas is 0.9, not two numbers"),
                               ("betas", (0.9,), "betas is (0.9,), not two numbers")):  # fmt: skip
        wrong = {"lr": 1e-3, name: value}
        fails(ValueError, words, lambda wrong=wrong: zero.initialize(zm.gpt(), "adamw", zm.config(1), **wrong))
    path.unlink()


# ---- torch.compile ----


def backend() -> str:
    """PyTorch's own compiler where it can run a C++ compiler; else what traces only."""
    if shutil.which("g++"):
        return "inductor"
    print("# no g++: models are traced by aot_eager, not compiled")
    return "aot_eager"


def losses_of(model: nn.Module, engine: Any, steps: int, rank: int) -> list[torch.Tensor]:
    import common

    seen = []
    for tokens, target in zm.text(steps, rank):
        loss = common.loss_of(engine(tokens), target)
        engine.backward(loss)
        engine.step()
        seen.append(loss.detach().clone())
    return seen


def compiled(groups: ranks.Groups) -> None:
    """Blocks that are compiled, and a module that is compiled as a whole: the same losses, and nothing compiled in each step."""
    from torch._dynamo.utils import counters

    def blocks(model: nn.Module) -> nn.Module:
        for block in model[1:-2]:
            block.compile(backend=backend())
        return model

    def whole(model: nn.Module) -> nn.Module:
        model.compile(backend=backend())
        return model

    for stage in (0, 1, 2, 3):
        plain = zm.gpt()
        engine = zm.engine_of(plain, stage)
        want = losses_of(plain, engine, 6, groups.rank)
        engine.destroy()
        for how in (blocks, whole):
            torch._dynamo.reset()
            counters.clear()
            model = how(zm.gpt())
            engine = zm.engine_of(model, stage)
            got = losses_of(model, engine, 3, groups.rank)
            compiled_before = counters["stats"]["unique_graphs"]
            assert compiled_before > 0, "nothing was compiled"
            more = losses_of(model, engine, 6, groups.rank)
            assert counters["stats"]["unique_graphs"] == compiled_before, (stage, how.__name__, dict(counters["stats"]))
            engine.destroy()
            for a, b in zip(got, want, strict=False):
                torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5, msg=lambda m, s=stage, h=how: f"stage {s}, {h}: {m}")
            assert all(torch.isfinite(loss) for loss in more)


# ---- A GPT that learns ----

VOCAB, LENGTH, WIDTH = 96, 32, 48
LEARNT = 2.75  # nats a character; frequencies of characters alone are 3.34


def text_of_guides() -> torch.Tensor:
    """The guide of ZeRO, as characters."""
    words = Path(os.environ["WEFT_SRCDIR"], "doc", "guide", "zero.md").read_text(encoding="utf-8")
    return torch.tensor([min(max(ord(c) - 32, 0), VOCAB - 1) for c in words])


class Characters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True) for _ in range(2)
        )
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.tokens.weight
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.places(torch.arange(LENGTH))
        for block in self.blocks:
            x = block(x, src_mask=self.mask.to(x.dtype), is_causal=True)
        return self.head(self.norm(x))


def curve(step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], rank: int, steps: int) -> list[torch.Tensor]:
    """Losses of all ranks together, of each step."""
    import torch.distributed as dist

    text, chance = text_of_guides(), torch.Generator().manual_seed(50 + rank)
    seen = []
    for _ in range(steps):
        at = torch.randint(len(text) - LENGTH - 1, (8,), generator=chance)
        rows = torch.stack([text[i : i + LENGTH + 1] for i in at])
        loss = step(rows[:, :-1], rows[:, 1:])
        dist.all_reduce(loss)
        seen.append(loss / dist.get_world_size())
    return seen


def a_gpt_learns(groups: ranks.Groups) -> None:
    from weft import zero

    def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output.float().flatten(0, 1), target.flatten())

    def with_engine(stage: int, half: bool, steps: int) -> list[torch.Tensor]:
        more: dict[str, Any] = {"bf16": {"enabled": True}} if half else {}
        engine = zm.engine_of(Characters(), stage, hypers={"lr": 3e-3, "weight_decay": 0.01}, **more)

        def step(tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            loss = loss_of(engine(tokens), target)
            engine.backward(loss)
            engine.step()
            return loss.detach().clone()

        seen = curve(step, groups.rank, steps)
        engine.destroy()
        return seen

    def as_fsdp2(steps: int) -> list[torch.Tensor]:
        model = Characters()
        for block in model.blocks:
            zero.fully_shard(block)
        zero.fully_shard(model)
        optimizer = zero.Optimizer(model, "adamw", lr=3e-3, weight_decay=0.01)

        def step(tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            loss = loss_of(model(tokens), target)
            loss.backward()
            optimizer.step()
            return loss.detach().clone()

        seen = curve(step, groups.rank, steps)
        optimizer.destroy()
        return seen

    for half in (False, True):
        steps = 300
        first = with_engine(0, half, steps)
        print(f"# {'bf16' if half else 'fp32'}: loss {first[0].item():.4f} -> {torch.stack(first[-10:]).mean().item():.4f}")
        assert torch.stack(first[-10:]).mean().item() < LEARNT, first[-10:]
        for stage in (1, 2, 3):
            other = with_engine(stage, half, steps)
            assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True)), (stage, half)
        if not half:
            assert all(torch.equal(a, b) for a, b in zip(first, as_fsdp2(steps), strict=True))


CASES = [automatic_values, compiled, a_gpt_learns]

if __name__ == "__main__":
    ranks.main(CASES)
