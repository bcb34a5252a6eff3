# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: modules of all kinds train as without it, when parameters come and go."""

from __future__ import annotations

import copy
import dataclasses
from collections import namedtuple
from typing import Any

import ranks
import torch
import torch.nn.functional as F
import zero_models as zm
from torch import nn
from torch.utils.checkpoint import checkpoint

Pair = namedtuple("Pair", "main aux")


@dataclasses.dataclass
class Result:
    main: torch.Tensor
    more: dict[str, Any]


class Mlp(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """An embedding, blocks, and a head that may be tied; what its forward does, a subclass or `how` says."""

    def __init__(self, how: str = "plain", tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.how = how
        self.embed = nn.Embedding(11, 6)
        self.blocks = nn.ModuleList(Mlp() for _ in range(3))
        self.head = nn.Linear(6, 11, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def run(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        if self.how == "reentrant":
            return checkpoint(block, x, use_reentrant=True)
        if self.how == "checkpoint":
            return checkpoint(block, x, use_reentrant=False)
        return block(x)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = self.run(block, x)
        return self.head(x)


class Twice(Net):
    """Each block is used twice, the first three times."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in [*self.blocks, *self.blocks, self.blocks[0]]:
            x = self.run(block, x)
        return self.head(x)


def tokens(step: int) -> torch.Tensor:
    return torch.randint(11, (2, 5), generator=torch.Generator().manual_seed(step))


def loss_of(model: nn.Module, step: int) -> torch.Tensor:
    return F.cross_entropy(model(tokens(step)).flatten(0, 1), tokens(step).flatten())


def plain_tied_and_nested(groups: ranks.Groups) -> None:
    zm.beside_plain(Net, loss_of, stages=(0, 1, 2, 3))
    zm.beside_plain(lambda: Net(tied=True), loss_of, stages=(1, 2, 3))
    zm.beside_plain(Net, loss_of, units=[Net, "Mlp", nn.LayerNorm])
    zm.beside_plain(Net, loss_of, units=[nn.Linear, Mlp])
    zm.beside_plain(Net, loss_of, units=[])


def modules_used_twice(groups: ranks.Groups) -> None:
    zm.beside_plain(Twice, loss_of, stages=(1, 2, 3))


def activation_checkpoints(groups: ranks.Groups) -> None:
    for how in ("checkpoint", "reentrant"):
        zm.beside_plain(lambda how=how: Net(how), loss_of, stages=(1, 2, 3))
        zm.beside_plain(lambda how=how: Net(how, tied=True), loss_of)
        zm.beside_plain(lambda how=how: Net(how), loss_of, units=["Mlp", nn.Linear])
        zm.beside_plain(lambda how=how: Twice(how), loss_of, stages=(1, 2, 3))


def ways_to_checkpoint(groups: ranks.Groups) -> None:
    from weft import zero

    class Own(Net):
        def run(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return zero.checkpoint(block, x)

    class Inside(Net):
        """Of half a block, with units above and below."""

        def run(self, block: Any, x: torch.Tensor) -> torch.Tensor:
            return block(x) + checkpoint(lambda y: block(y) * 2, x, use_reentrant=False)

    zm.beside_plain(Own, loss_of)
    zm.beside_plain(Inside, loss_of, units=[Mlp, nn.Linear])


def frozen_and_unused(groups: ranks.Groups) -> None:
    class Unused(Net):
        def __init__(self, frozen: bool = False) -> None:
            super().__init__()
            self.spare = nn.Linear(3, 3)
            for block in self.blocks:
                block.spare = nn.Parameter(torch.ones(4))
            if frozen:
                for block in self.blocks:
                    block.up.requires_grad_(False)
                self.embed.requires_grad_(False)

    zm.beside_plain(Unused, loss_of, stages=(0, 1, 2, 3), steps=4)
    zm.beside_plain(lambda: Unused(frozen=True), loss_of, stages=(0, 1, 2, 3))


def blocks_that_come_and_go(groups: ranks.Groups) -> None:
    def alternating(model: nn.Module, step: int) -> torch.Tensor:
        x = model.embed(tokens(step))
        for i, block in enumerate(model.blocks):
            if (i + step) % 2:
                x = block(x)
        return F.cross_entropy(model.head(x).flatten(0, 1), tokens(step).flatten())

    zm.beside_plain(Net, alternating, stages=(1, 2, 3), steps=6)


def requires_grad_changes(groups: ranks.Groups) -> None:
    from weft import zero

    model = Net()
    model.blocks[0].up.requires_grad_(False)
    engine = zm.engine_of(model, 3)

    def one() -> None:
        engine.backward(loss_of(engine, 0))
        engine.step()

    one()
    for module, setting, words in ((model.head, False, "does not require"), (model.blocks[0].up, True, "was not trained")):
        module.requires_grad_(setting)
        try:
            one()
            raise AssertionError("no error")
        except zero.Error as problem:
            assert words in str(problem), problem
        module.requires_grad_(not setting)
        module.weight.grad = None
        engine.drop_gradients()
    model.head.requires_grad_(False)  # of a part of the time, as two models that train each other have it
    loss_of(model, 1)
    model.head.requires_grad_(True)
    one()
    engine.destroy()


def outputs_of_all_kinds(groups: ranks.Groups) -> None:
    class Kinds(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            torch.manual_seed(4)
            self.kind, self.blocks = kind, nn.ModuleList()
            for _ in range(3):
                self.blocks.append(_Block(kind))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            aux = x.new_zeros(())
            for block in self.blocks:
                out = block(x=x, aux={"one": [aux]})
                if self.kind == "tuple":
                    x, aux = out
                elif self.kind == "named":
                    x, aux = out.main, out.aux
                elif self.kind == "dict":
                    x, aux = out["main"], out["more"][0]["aux"]
                else:
                    x, aux = out.main, out.more["aux"]
            return x.sum(-1) + aux

    class _Block(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.kind, self.main, self.aux = kind, nn.Linear(5, 5), nn.Linear(5, 1)

        def forward(self, x: torch.Tensor, aux: dict[str, list[torch.Tensor]]) -> Any:
            main = torch.tanh(self.main(x))
            total = aux["one"][0] + self.aux(x).mean()
            if self.kind == "tuple":
                return main, total
            if self.kind == "named":
                return Pair(main, total)
            if self.kind == "dict":
                return {"main": main, "more": [{"aux": total}], "text": "ignored"}
            return Result(main, {"aux": total})

    for kind in ("tuple", "named", "dict", "dataclass"):
        zm.beside_plain(lambda kind=kind: Kinds(kind), lambda m, s: (m(torch.ones(3, 5) * (s + 1)) - 2).pow(2).mean())


def changes_in_place(groups: ranks.Groups) -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(5)
            self.layers = nn.ModuleList(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)) for _ in range(3))
            self.first, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for layer in self.layers:
                x = layer(x)
                x.add_(1)
            return self.norm(x).mul_(2)

    data = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    zm.beside_plain(InPlace, lambda m, s: (m(data + s) - data.flip(0)).pow(2).mean(), stages=(1, 2, 3))


def modules_of_torch(groups: ranks.Groups) -> None:
    class Torchs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(6)
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.lstm, self.conv = nn.LSTM(8, 8, batch_first=True), nn.Conv1d(8, 8, 3, padding=1)
            self.extra = nn.ParameterList([nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))])
            self.weighted = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.encoder(x)
            x = x + self.attention(x, x, x, need_weights=False)[0]
            x = x + self.lstm(x)[0]
            x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
            return self.weighted(x * self.extra[0] + self.extra[1])

    data = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    zm.beside_plain(Torchs, lambda m, s: m(data + 0.1 * s).pow(2).mean(), stages=(1, 3))


def exceptions_in_forward_and_backward(groups: ranks.Groups) -> None:
    class Failing(Net):
        fails = ""

        def run(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
            if self.fails == "forward" and block is self.blocks[1]:
                raise KeyError("on purpose")
            x = super().run(block, x)
            if self.fails == "backward" and block is self.blocks[1]:
                x.register_hook(fail)
            return x

    def fail(_: torch.Tensor) -> None:
        raise KeyError("on purpose")

    def failing_first(model: Any, step: int) -> torch.Tensor:
        engine = engines.get(id(model))
        for fails in ("forward", "backward") if engine is not None and step == 1 else ():
            model.fails = fails
            try:
                engine.backward(loss_of(model, 7))
                raise AssertionError("no exception")
            except KeyError:
                pass
            model.fails = ""
            if fails == "backward":
                engine.drop_gradients()
        return loss_of(model, step)

    engines: dict[int, Any] = {}
    for stage in (1, 3):
        expected = copy.deepcopy(Failing())
        optimizer = torch.optim.AdamW(expected.parameters(), **zm.HYPERS)
        model = Failing()
        engine = engines[id(model)] = zm.engine_of(model, stage)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(expected, step).backward()
            optimizer.step()
            engine.backward(failing_first(model, step))
            engine.step()
        zm.near(engine.full_state_dict(every_rank=True), dict(expected.state_dict()))
        engine.destroy()


def parameters_of_other_modules(groups: ranks.Groups) -> None:
    from weft import zero

    class Outside(Net):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return F.linear(super().forward(tokens), self.blocks[0].up.weight[:11, :].sum(1).diag())

    engine = zm.engine_of(Outside(), 3)
    try:
        loss_of(engine, 0)
        raise AssertionError("no error")
    except RuntimeError as problem:
        assert '"blocks.0.up.weight" is not gathered' in str(problem) and "register_external_parameter" in str(problem), problem
    engine.destroy()
    zm.beside_plain(Outside, loss_of, prepare=lambda m: zero.register_external_parameter(m, m.blocks[0].up.weight))


def evaluation(groups: ranks.Groups) -> None:
    """Between micro-batches, with other lengths, and as a loop that generates."""
    for stage in (1, 3):
        model, plain = Net(tied=True), Net(tied=True)
        engine = zm.engine_of(model, stage, gradient_accumulation_steps=2)
        optimizer = torch.optim.AdamW(plain.parameters(), **zm.HYPERS)
        for step in range(6):
            engine.backward(loss_of(engine, step))
            engine.step()
            (loss_of(plain, step) / 2).backward()
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
            engine.eval()
            assert not model.training
            with torch.no_grad():
                text = torch.tensor([[1]])
                for _ in range(4):
                    a, b = engine(text), plain(text)
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
                    text = torch.cat([text, b[:, -1:].argmax(-1)], 1)
            engine.train()
            loss_of(engine, step)  # a forward pass whose loss is not used
        zm.near(engine.full_state_dict(every_rank=True), dict(plain.state_dict()))
        engine.destroy()


def memory_of_two_units(groups: ranks.Groups) -> None:
    """In stage 3 no more than two units are gathered at a time, nor gradients of more than two kept."""
    for how in ("plain", "checkpoint", "reentrant"):
        model = Net(how)
        model.blocks.extend(Mlp() for _ in range(5))
        largest = max(sum(p.numel() for p in block.parameters()) for block in model.blocks)
        engine = zm.engine_of(model, 3)
        for step in range(3):
            engine.backward(loss_of(engine, step))
            engine.step()
        stats, most = engine.stats(), 2 * 4 * (largest + 16 * (8 + groups.size))  # alignment of parameters and of shards
        assert stats["gather_bytes"] <= most and stats["reduce_bytes"] <= most, (how, most, stats)
        assert stats["prefetches"] > 0 and stats["retraces"] == 0, (how, stats)
        engine.destroy()


def gradients_of_inputs(groups: ranks.Groups) -> None:
    """torch.autograd.grad is no micro-batch."""

    def penalized(model: nn.Module, step: int) -> torch.Tensor:
        x = torch.full((2, 6), 0.1 * (step + 1), requires_grad=True)
        (slope,) = torch.autograd.grad(model.blocks[0](x).sum(), x)
        return loss_of(model, step) + 0 * slope.detach().sum()

    zm.beside_plain(Net, penalized)


CASES = [
    plain_tied_and_nested,
    modules_used_twice,
    activation_checkpoints,
    ways_to_checkpoint,
    frozen_and_unused,
    blocks_that_come_and_go,
    requires_grad_changes,
    outputs_of_all_kinds,
    changes_in_place,
    modules_of_torch,
    exceptions_in_forward_and_backward,
    parameters_of_other_modules,
    evaluation,
    memory_of_two_units,
    gradients_of_inputs,
]

if __name__ == "__main__":
    ranks.main(CASES)
