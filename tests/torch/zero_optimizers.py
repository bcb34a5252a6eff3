# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: Muon and other optimizers beside AdamW, moments in fewer bytes, and optimizers written in Python."""

from __future__ import annotations

import copy
import shutil
import tempfile
import threading
from typing import Any

import ranks
import torch
import torch.optim._muon as torchs
import zero_models as zm
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from zero_faces import fails

MUON = {"lr": 0.02, "weight_decay": 0.01, "momentum": 0.9, "nesterov": True}
ADAMW = {"lr": 3e-3, "betas": (0.9, 0.95), "eps": 1e-5, "weight_decay": 0.1}


def split(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Matrices of the blocks, and the rest; the last layer is a plain one of a Sequential."""
    from weft.zero._groups import hidden_matrices

    last = set(list(model.children())[-1].parameters())
    hidden = hidden_matrices(model) - last
    return [p for p in model.parameters() if p in hidden], [p for p in model.parameters() if p not in hidden]


def train(engine: Any, data: Any) -> None:
    for batch, target in data:
        engine.backward(zm.common.loss_of(engine(batch), target))
        engine.step()


def named(model: nn.Module, stage: int, **more: Any) -> Any:
    """By name: one group of matrices, one of the rest."""
    from weft import zero

    hidden, rest = split(model)
    groups = [{"params": hidden, "use_muon": True, **MUON}, {"params": rest, "use_muon": False, **ADAMW}]
    return zero.initialize(model, "muon", zm.config(stage, **more.pop("config", {})), model_parameters=groups, **more)


def in_fp32(grad: torch.Tensor, coefficients: Any, steps: int, eps: float) -> torch.Tensor:
    """torch's iterations without bfloat16."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


def with_torchs(data: Any) -> dict[str, torch.Tensor]:
    model = DistributedDataParallel(zm.gpt())
    hidden, rest = split(model.module)
    both = [torchs.Muon(hidden, **MUON), torch.optim.AdamW(rest, **ADAMW)]
    for batch, target in data:
        zm.common.loss_of(model(batch), target).backward()
        for one in both:
            one.step()
            one.zero_grad()
    return dict(model.module.state_dict())


def muon_is_torchs(groups: ranks.Groups) -> None:
    """Whose iterations are in bfloat16; ours are in fp32. All stages have the same bits, by name and of torch's own."""
    from weft import zero

    data, start = zm.text(4, groups.rank), dict(zm.gpt().state_dict())
    theirs = with_torchs(data)
    half, torchs._zeropower_via_newtonschulz = torchs._zeropower_via_newtonschulz, in_fp32
    exact = with_torchs(data)
    torchs._zeropower_via_newtonschulz = half
    first: Any = None
    for stage in range(4):
        sharded = zm.gpt()
        if stage == 2:
            hidden, rest = split(sharded)
            both = [torch.optim.Muon(hidden, **MUON), torch.optim.AdamW(rest, **ADAMW)]
            engine = zero.initialize(sharded, both, zm.config(stage))
        else:
            engine = named(sharded, stage)
        train(engine, data)
        whole = engine.full_state_dict(every_rank=True)
        first = first or whole
        zm.same_bits(whole, first)
        engine.destroy()
    for name, values in first.items():
        moved = (theirs[name] - start[name]).norm()
        for expected, most in ((theirs, 0.15), (exact, 0.002)):
            assert moved > 0 and (apart := (values - expected[name]).norm()) <= most * moved, (name, moved, apart, most)


def hidden_matrices_are_found(groups: ranks.Groups) -> None:
    """Embeddings, heads and vectors are AdamW's, unless somebody says otherwise."""
    from weft import zero

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte = nn.Embedding(11, 8)
            self.position_embed = nn.Parameter(torch.zeros(4, 8))
            self.layer = nn.Linear(8, 8)
            self.gate = nn.Linear(8, 8)
            self.norm = nn.LayerNorm(8)
            self.lm_head = nn.Linear(8, 11, bias=False)
            self.head, self.classifier = nn.Linear(8, 2, bias=False), nn.Linear(8, 3, bias=False)
            self.gate.weight.use_muon = False  # type: ignore[assignment]  as DeepSpeed's tag

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.norm(self.gate(self.layer(self.wte(tokens) + self.position_embed)))
            return torch.cat([self.lm_head(x), self.head(x), self.classifier(x)], -1)

    model = Model()
    engine = zero.initialize(model, "muon", zm.config(3), muon_lr=0.03, adam_lr=2e-3, weight_decay=0.0)
    ours = {True: [], False: []}  # type: dict[bool, list[str]]
    names = {p: n for n, p in model.named_parameters()}
    for group in engine.optimizer.param_groups:
        ours[group["use_muon"]] += [names[p] for p in group["params"]]
        assert group["lr"] == (0.03 if group["use_muon"] else 2e-3) and group["weight_decay"] == 0
        assert ("momentum" in group, "betas" in group) == (group["use_muon"], not group["use_muon"])
    assert ours[True] == ["layer.weight"] and len(ours[False]) == 10, ours
    engine.backward(engine(torch.arange(4)).square().sum())
    engine.step()
    assert zero.safe_get_full_optimizer_state(model.layer.weight, "momentum_buffer").norm() > 0
    assert zero.safe_get_full_optimizer_state(model.wte.weight, "exp_avg_sq").norm() > 0
    fails(ValueError, "keeps no exp_avg_sq of it; it keeps momentum_buffer",
          lambda: zero.safe_get_full_optimizer_state(model.layer.weight, "exp_avg_sq"))  # fmt: skip
    engine.destroy()


def configured_and_saved(groups: ranks.Groups) -> None:
    """DeepSpeed's keys; what goes on from a checkpoint or a state_dict, in another stage, has the same bits."""
    from weft import zero

    more = {"optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 3e-3, "momentum": 0.9, "weight_decay": 0.01}}}
    data, states = zm.text(6, groups.rank), []
    with zm.shared_folder(groups) as folder:
        for stage, state_dtype in ((1, "fp32"), (3, "fp32"), (2, "bf16")):
            options = {"state_dtype": state_dtype}
            engine = zero.initialize(zm.gpt(), None, zm.config(stage, **more), options=options)
            muon, rest = engine.optimizer.param_groups
            assert (muon["lr"], muon["momentum"], muon["nesterov"], muon["use_muon"]) == (0.02, 0.9, True, True)
            assert (rest["lr"], rest["betas"], rest["eps"], rest["weight_decay"]) == (3e-3, (0.9, 0.95), 1e-10, 0.01)
            train(engine, data[:3])
            engine.save_checkpoint(folder, f"{stage}")
            state = engine.optimizer.state_dict()
            train(engine, data[3:])
            whole = engine.full_state_dict(every_rank=True)
            states.append(whole)
            engine.destroy()
            other = zero.initialize(zm.gpt(), None, zm.config(3 - stage, **more), options=options)
            other.load_checkpoint(folder, f"{stage}")
            assert other.global_steps == 3
            loaded = other.optimizer.state_dict()
            assert loaded["param_groups"] == state["param_groups"]
            for place, values in state["state"].items():
                assert values.keys() == loaded["state"][place].keys() and "step" in values
                zm.same_bits(values, loaded["state"][place])
            train(other, data[3:])
            zm.same_bits(other.full_state_dict(every_rank=True), whole)
            for group in other.optimizer.param_groups:
                group["lr"] = 1.0
            other.optimizer.load_state_dict(state)
            assert [group["lr"] for group in other.optimizer.param_groups] == [0.02, 3e-3]
            zm.same_bits(other.optimizer.state_dict()["state"][0], state["state"][0])
            other.destroy()
        zm.same_bits(states[0], states[1])
        # Moments of another optimizer are not taken for these.
        plain = zm.engine_of(zm.gpt(), 1)
        fails(zero.Error, "was saved with adamw, muon, and the engine has adamw", lambda: plain.load_checkpoint(folder, "1"))
        plain.destroy()


def moments_in_fewer_bytes(groups: ranks.Groups) -> None:
    data, found = zm.text(10, groups.rank), {}
    for state_dtype in ("fp32", "bf16", "block8"):
        for stage in (1, 3):
            engine = zm.engine_of(zm.gpt(), stage, hypers=zm.CALM, options={"state_dtype": state_dtype, "threads": 1})
            train(engine, data)
            whole, size = zm.whole(engine), engine.stats()["state_bytes"]
            engine.destroy()
            if stage == 1:
                found[state_dtype] = (whole, size)
            zm.same_bits(whole, found[state_dtype][0])
    exact, all_bytes = found["fp32"]
    scratch = 2 * 33024 * 4
    for state_dtype, share, most in (("bf16", 2, 0.02), ("block8", 4, 0.1)):
        whole, size = found[state_dtype]
        assert size - scratch <= all_bytes / share * 1.1 + 4096, (state_dtype, size, all_bytes)
        apart = sum(float((whole[name] - exact[name]).square().sum()) for name in exact) ** 0.5
        moved = sum(float((exact[name] - start).square().sum()) for name, start in zm.gpt().state_dict().items()) ** 0.5
        assert 0 < apart <= most * moved, (state_dtype, apart, moved)


def python_is_sgd(groups: ranks.Groups) -> None:
    """A function that computes as the library does has its bits, in every stage and in a file."""
    from weft import zero

    threads, steps, several = set(), set(), threading.Event()
    seen, lock = {}, threading.Lock()  # type: dict[str, set[int]], threading.Lock

    def sgd(piece: zero.Piece) -> None:
        threads.add(threading.get_ident())
        steps.add(piece.step)
        if len(threads) > 1:
            several.set()
        elif piece.weight.numel() > 32000:  # of a unit that is more than one thread's work
            several.wait(20)
        assert piece.weight.shape == piece.grad.shape == piece.moments[0].shape and len(piece.moments) == 1
        group, weight = piece.group, piece.weight.double()
        grad = piece.grad.double() + group["weight_decay"] * weight
        moment = grad if piece.step == 1 else piece.moments[0].double() * group["friction"] + grad
        with lock:
            seen.setdefault(piece.name, set()).update(range(piece.first, piece.first + piece.weight.numel()))
        piece.moments[0].copy_(moment)
        piece.weight.copy_(weight - group["lr"] * moment)

    data = zm.text(4, groups.rank)
    hypers = {"lr": 0.125, "weight_decay": 0.01}
    engine = zero.initialize(zm.gpt(dim=128), "sgd", zm.config(1), momentum=0.5, **hypers)
    train(engine, data)
    expected = engine.full_state_dict(every_rank=True)
    engine.destroy()
    folder = tempfile.mkdtemp()
    for stage, options in ((0, {"threads": 3}), (1, {}), (2, {"offload_folder": folder}), (3, {"threads": 2})):
        model = zm.gpt(dim=128)
        engine = zero.initialize(model, zero.Callback(sgd, 1, friction=0.5), zm.config(stage), options=options, **hypers)
        assert engine.optimizer.param_groups[0]["friction"] == 0.5
        seen.clear()
        train(engine, data)
        if stage == 0:  # where every rank updates all
            assert seen == {name: set(range(p.numel())) for name, p in zm.gpt(dim=128).named_parameters()}
        zm.same_bits(engine.full_state_dict(every_rank=True), expected)
        assert zero.safe_get_full_optimizer_state(next(model.parameters()), "moment1").norm() > 0
        assert len(engine.optimizer.state_dict()["state"][0]) == 2
        engine.destroy()
    shutil.rmtree(folder)
    assert steps == {1, 2, 3, 4} and several.is_set()


def python_that_fails_is_told(groups: ranks.Groups) -> None:
    from weft import zero

    def breaks(piece: zero.Piece) -> None:
        piece.weight.zero_()
        raise KeyError(piece.name)

    engine = zero.initialize(nn.Linear(4, 4), zero.Callback(breaks), zm.config(1))
    engine.backward(engine(torch.ones(2, 4)).sum())
    fails(zero.Error, "the Callback has raised", engine.step)  # also on a rank that has no element
    engine.destroy()
    fails(ValueError, "moments is 3, not 0, 1 or 2", lambda: zero.Callback(breaks, 3))
    fails(TypeError, "cannot be called", lambda: zero.Callback(None))  # type: ignore[arg-type]


def several_of_torchs(groups: ranks.Groups) -> None:
    """SGD for some parameters, AdamW for others."""
    from weft import zero

    data = zm.text(3, groups.rank)
    model, sharded = DistributedDataParallel(zm.gpt()), zm.gpt()

    def both(of: nn.Module) -> list[torch.optim.Optimizer]:
        hidden, rest = split(of)
        return [torch.optim.SGD(hidden, lr=0.1, momentum=0.9), torch.optim.AdamW(rest, **ADAMW)]

    theirs = both(model.module)
    engine = zero.initialize(sharded, lambda _: both(sharded), zm.config(3), options={"state_dtype": "fp32"})
    for batch, target in data:
        zm.common.loss_of(model(batch), target).backward()
        for one in theirs:
            one.step()
            one.zero_grad()
    train(engine, data)
    zm.near(engine.full_state_dict(every_rank=True), dict(model.module.state_dict()))
    engine.destroy()


def momentum_of_torchs(groups: ranks.Groups) -> None:
    """torch's SGD counts no steps: its momentum is taken all the same, from a state_dict and from a version of DCP."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from weft import zero

    data = zm.text(6, groups.rank)
    model = DistributedDataParallel(zm.gpt())
    theirs = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def steps(batches: Any) -> None:
        for batch, target in batches:
            zm.common.loss_of(model(batch), target).backward()
            theirs.step()
            theirs.zero_grad()

    steps(data[:3])
    state, start = copy.deepcopy(theirs.state_dict()), {name: value.clone() for name, value in model.module.state_dict().items()}
    with zm.shared_folder(groups) as folder:
        weights, moments = get_state_dict(model, theirs)
        checkpoint.save({"model": weights, "optim": moments}, checkpoint_id=folder / "dcp", process_group=groups.gloo)
        steps(data[3:])
        for way in ("state", "dcp"):
            sharded = zm.gpt()
            sharded.load_state_dict(start)
            engine = zero.initialize(sharded, "sgd", zm.config(3), lr=0.1, momentum=0.9)
            if way == "state":
                engine.optimizer.load_state_dict(state)
            else:
                zero.dcp.load(engine, folder / "dcp")
            train(engine, data[3:])
            zm.near(engine.full_state_dict(every_rank=True), dict(model.module.state_dict()))
            engine.destroy()


def arranged_otherwise(groups: ranks.Groups) -> None:
    """A version does not know which of several optimizers was named first."""
    from weft import zero

    data = zm.text(4, groups.rank)
    with zm.shared_folder(groups) as folder:
        found = []
        for order in (1, -1):
            model = zm.gpt()
            hidden, rest = split(model)
            both = [torch.optim.SGD(hidden, lr=0.1, momentum=0.9), torch.optim.AdamW(rest, **ADAMW)][::order]
            engine = zero.initialize(model, both, zm.config(2))
            if order == 1:
                train(engine, data[:2])
                engine.save_checkpoint(folder, "a")
            else:
                engine.load_checkpoint(folder, "a")
            train(engine, data[2:])
            found.append(engine.full_state_dict(every_rank=True))
            engine.destroy()
        zm.same_bits(*found)


def wrong_use(groups: ranks.Groups) -> None:
    from weft import zero

    model = nn.Linear(4, 4)
    fails(ValueError, "Muon is for matrices, and a parameter that it is to update has shape (4,)",
          lambda: zero.initialize(model, "muon", model_parameters=[{"params": [model.bias], "use_muon": True}]))  # fmt: skip
    fails(ValueError, "state_dtype is 'int3'; there are fp32, bf16, block8",
          lambda: zero.initialize(model, options={"state_dtype": "int3"}))  # fmt: skip
    fails(zero.Error, "state_dtype is set, and the optimizer is lamb",
          lambda: zero.initialize(model, "lamb", options={"state_dtype": "bf16"}))  # fmt: skip
    fails(ValueError, "adjust_lr_fn='match_rms_adamw' is not possible with a sharded muon",
          lambda: zero.initialize(model, torch.optim.Muon([model.weight], adjust_lr_fn="match_rms_adamw")))  # fmt: skip
    fails(ValueError, "there is no optimizer 'callback'", lambda: zero.initialize(model, "callback"))
    fails(ValueError, "there is no optimizer 'CALLBACK'", lambda: zero.initialize(model, "CALLBACK"))
    for name, value in (("momentum", None), ("eps", (1, 2)), ("nesterov", "yes")):
        fails(ValueError, f"{name} is {value!r}, not a number",
              lambda name=name, value=value: zero.initialize(model, zero.Callback(print, **{name: value})))  # fmt: skip
    fails(ValueError, "betas is 0.9, not two numbers", lambda: zero.initialize(model, zero.Callback(print, betas=0.9)))
    fails(ValueError, "muon has no parameter adamlr; it has muon_lr, adam_lr, lr", lambda: zero.initialize(model, "muon", adamlr=1))
    made = torch.optim.AdamW(model.parameters())
    made.state[model.weight]["step"] = torch.ones(1)
    fails(ValueError, "has made steps already", lambda: zero.initialize(model, made))
    fails(ValueError, "eps of a sharded Muon", lambda: zero.initialize(model, torch.optim.Muon([model.weight], eps=1e-6)))
    fails(ValueError, "a parameter is in two of the optimizers", lambda: zero.initialize(
        model, [torch.optim.SGD(model.parameters()), torch.optim.AdamW(model.parameters())]))  # fmt: skip
    fails(ValueError, "muon has no parameter speed", lambda: zero.initialize(model, "muon", speed=1))


CASES = [
    muon_is_torchs,
    hidden_matrices_are_found,
    configured_and_saved,
    moments_in_fewer_bytes,
    python_is_sgd,
    python_that_fails_is_told,
    several_of_torchs,
    momentum_of_torchs,
    arranged_otherwise,
    wrong_use,
]

if __name__ == "__main__":
    ranks.main(CASES)
