# SPDX-License-Identifier: BSD-3-Clause
"""FSDP2 with compressed gradients: what use_codec does, that nothing is lost over the steps, checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
import ranks  # noqa: E402
import torch  # noqa: E402
import weft  # noqa: E402
from ranks import Groups  # noqa: E402
from torch import nn  # noqa: E402

from compress import INT4, NEVER, SHAPES, SIGN, Pushed, averaged, chance, network, raises, same_everywhere, step_of  # noqa: E402


def sharded(g: Groups, use: Callable[[nn.Module], object] | None) -> nn.Module:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    net = network()
    mesh = DeviceMesh.from_group(g.weft, "cpu")
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    if use:
        use(net)
    return net


def whole_weights(net: nn.Module) -> list[torch.Tensor]:
    return [p.full_tensor().detach().clone() for p in net.parameters()]


def train_sharded(g: Groups, net: nn.Module, steps: int = 5, first: int = 0) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        step_of(g, net, step).backward()
        optimizer.step()
    return whole_weights(net)


def sharded_gradients(g: Groups) -> None:
    """FSDP2: all ranks train alike, near to what they do without a codec, and nearer with error feedback than without."""
    plain = train_sharded(g, sharded(g, None), 12)

    def distance(codec: str, **options: object) -> float:
        got = train_sharded(g, sharded(g, lambda net: weft.fsdp.use_codec(net, codec, **options)), 12)
        same_everywhere(g, got)
        return sum((a - b).square().sum().item() for a, b in zip(got, plain, strict=True)) ** 0.5

    assert 1e-5 < distance(f"int8:{NEVER}") < 0.05
    with_feedback, without = distance(SIGN), distance(f"sign:{NEVER}", transport_memory=False)
    assert 1e-4 < with_feedback < 0.7 * without, (with_feedback, without)
    raises(ValueError, 'did you mean "int4"', lambda: sharded(g, lambda net: weft.fsdp.use_codec(net, "int44")))
    raises(ValueError, "fully_shard", lambda: weft.fsdp.use_codec(network(), "int4"))
    raises(TypeError, 'codec must be text, such as "int8:ef=1", not 3', lambda: sharded(g, lambda net: weft.fsdp.use_codec(net, 3)))
    for codec in ("topk:ef=dgc", "int8:ef=ef21"):
        words = "which takes ef=1 and ef=loco"
        raises(ValueError, words, lambda codec=codec: sharded(g, lambda net: weft.fsdp.use_codec(net, codec)))
    raises(ValueError, "the linear codec sharedint", lambda: sharded(g, lambda net: weft.fsdp.use_codec(net, "sharedint:ef=dgc")))


def sharded_mass_is_kept(g: Groups) -> None:
    """What came over the steps and what is left equal what was given; also with fewer gradients in some steps."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    net = fully_shard(Pushed(*SHAPES), mesh=DeviceMesh.from_group(g.weft, "cpu"))
    weft.fsdp.use_codec(net, INT4)
    given, came = ([torch.zeros(s).double() for s in SHAPES] for _ in range(2))
    for step in range(46):
        order = list(range(len(SHAPES))) if step % 3 else [0, 1, 4]
        pushed = [chance(g, step, *s, seed=i) * (step < 6) for i, s in enumerate(SHAPES)]
        net.zero_grad()
        net(pushed, order).backward()
        for i in order:
            given[i] += averaged(g, pushed[i])
            came[i] += net.weights[i].grad.full_tensor()
        if step == 5:
            assert max((a - b).abs().max() for a, b in zip(given, came, strict=True)) > 1e-2, "nothing was left over"
    for i in range(len(SHAPES)):
        assert (given[i] - came[i]).abs().max() < 1e-4, (i, (given[i] - came[i]).abs().max())


def sharded_checkpoints(g: Groups) -> None:
    """Training that was saved and loaded leads to the bits of that which was not interrupted; without residuals to others."""
    import io

    def coded() -> nn.Module:
        return sharded(g, lambda net: weft.fsdp.use_codec(net, SIGN))

    whole = coded()
    train_sharded(g, whole, 4)
    file = io.BytesIO()
    torch.save({"model": whole.state_dict(), "residuals": weft.fsdp.state_dict(whole)}, file)
    want = train_sharded(g, whole, 4, 4)
    results = []
    for load in (True, False):
        file.seek(0)
        saved = torch.load(file, weights_only=False)
        again = coded()
        if load:  # what was kept before is forgotten, also where it had been used
            train_sharded(g, again, 2)
        again.load_state_dict(saved["model"])
        if load:
            weft.fsdp.load_state_dict(again, saved["residuals"])
            assert weft.fsdp.state_dict(again).keys() == saved["residuals"].keys()
        results.append(train_sharded(g, again, 4, 4))
    assert all(torch.equal(a, b) for a, b in zip(results[0], want, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(results[1], want, strict=True)), "residuals make no difference"


def wrong_sharded_states(g: Groups) -> None:
    net = sharded(g, lambda net: weft.fsdp.use_codec(net, INT4))
    train_sharded(g, net, 1)
    saved = weft.fsdp.state_dict(net)
    load = weft.fsdp.load_state_dict
    name = next(name for name, one in saved.items() if one["residuals"])
    raises(ValueError, "use_codec", lambda: weft.fsdp.state_dict(network()))
    raises(ValueError, "not one of this model", lambda: load(net, {}))
    raises(ValueError, "not one of this model: 7", lambda: load(net, 7))
    raises(ValueError, "no state of a ReduceScatter", lambda: load(net, {**saved, name: {"residuals": {}}}))
    raises(ValueError, "version 9", lambda: load(net, {**saved, name: {**saved[name], "version": 9}}))
    wrong = {**saved[name], "residuals": {"12": torch.ones(3)}}
    raises(ValueError, "torch.uint8", lambda: load(net, {**saved, name: wrong}))
    elements, residual = next(iter(saved[name]["residuals"].items()))
    form, size = residual.clone(), residual.clone()
    form[8] = 2
    size[16] += 1

    def of(residuals: object, **other: object) -> dict:
        return {**saved, name: {**saved[name], "residuals": residuals, **other}}

    for kind, words, given in (
        (TypeError, "must be a mapping, not list", of([1])),
        (TypeError, "must be a tensor", of({elements: "abc"})),
        (TypeError, "of rank 'x'", of({}, rank="x")),
        (ValueError, "of rank 3 of 2", of({elements: residual}, rank=3, ranks=2)),
        (ValueError, "a number of elements", of({"0" + elements: residual})),
        (ValueError, "a number of elements", of({"\u0663": residual})),
        (ValueError, "saved with ef=loco", of({elements: form})),
        (ValueError, "elements, not of", of({elements: size})),
    ):
        raises(kind, words, lambda given=given: load(net, given))
    load(net, {**saved, name: {**saved[name], "rank": (g.rank + 1) % g.size}})
    raises(ValueError, f"by rank {(g.rank + 1) % g.size} of {g.size}", lambda: train_sharded(g, net, 1))
    net = sharded(g, lambda net: weft.fsdp.use_codec(net, INT4))
    train_sharded(g, net, 1)
    damaged = residual.clone()
    damaged[80] ^= 1
    load(net, of({elements: damaged}))  # only the library sees it, in the next step; what was kept stays
    raises(ValueError, "is damaged, or cut", lambda: train_sharded(g, net, 1))
    assert torch.equal(weft.fsdp.state_dict(net)[name]["residuals"][elements], residual)


CASES = [sharded_gradients, sharded_mass_is_kept, sharded_checkpoints, wrong_sharded_states]

if __name__ == "__main__":
    ranks.main(CASES)
