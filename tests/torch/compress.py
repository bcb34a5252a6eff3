# SPDX-License-Identifier: BSD-3-Clause
"""Compressed gradients: weft.codec, both forms of DDP's hook, buckets that are cut anew, what is refused; Gloo for comparison."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
import ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import weft  # noqa: E402
from ranks import Groups  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402, N817

NEVER = "bypass=never"  # on one host plain data would be faster
INT4, INT8, SIGN = f"int4:ef=1,{NEVER}", f"int8:ef=1,{NEVER}", f"sign:ef=1,{NEVER}"
BOUND = {"int8": 2 ** -7, "int6": 2 ** -5, "int4": 2 ** -3, "int2": 1.0, "sign": 1.0}  # of one image, of the block's largest


# ---- Tools ----


def raises(kind: type[Exception], words: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), f"{words!r} is not in {error}"
    else:
        raise AssertionError(f"nothing was raised: {words}")


def same_everywhere(g: Groups, tensors: list[torch.Tensor]) -> None:
    """All ranks have the same bits."""
    flat = torch.cat([t.detach().flatten() for t in tensors]).contiguous().view(torch.uint8)
    everywhere = [torch.empty_like(flat) for _ in range(g.size)]
    dist.all_gather(everywhere, flat, group=g.gloo)
    assert all(torch.equal(other, flat) for other in everywhere), "ranks have different bits"


def chance(g: Groups, step: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Other values on each rank and in each step."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1000 * seed + 17 * step + g.rank))


def averaged(g: Groups, t: torch.Tensor) -> torch.Tensor:
    """The average over the ranks, in double precision, by way of Gloo."""
    exact = t.double()
    dist.all_reduce(exact, group=g.gloo)
    return exact / g.size


def network(seed: int = 3) -> nn.Sequential:
    """Matrices that are compressed and that are too small, biases, a norm; no size is a multiple of a block of a codec."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(33, 131), nn.LayerNorm(131), nn.Tanh(), nn.Linear(131, 77), nn.Tanh(), nn.Linear(77, 5))


def wrapped(g: Groups, *, net: nn.Module | None = None, **options: object) -> DDP:
    """As DDP with many buckets, which it cuts anew after the first step."""
    return DDP(net or network(), process_group=g.weft, bucket_cap_mb=0.03, **options)


def step_of(g: Groups, model: nn.Module, step: int, rows: int = 8) -> torch.Tensor:
    return nn.functional.mse_loss(model(chance(g, step, rows, 33)), chance(g, step, rows, 5, seed=1))


def gradients(model: DDP) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.module.parameters()]


def train(g: Groups, model: DDP, steps: int, first: int = 0, optimizer: torch.optim.Optimizer | None = None) -> list[torch.Tensor]:
    """Steps of SGD; the weights that they lead to."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.05)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        step_of(g, model, step).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.module.parameters()]


def hooked(g: Groups, codec: str | None, native: bool, **options: object) -> tuple[DDP, weft.hooks.State]:
    """A model with the hook, registered in Python or in C++."""
    rules = {k: options.pop(k) for k in ("min_elements", "vectors", "transport_memory") if k in options}
    model = wrapped(g, **options)
    if native:
        return model, weft.hooks.register(model, codec=codec, **rules)
    state = weft.hooks.State(g.weft, codec=codec, model=model, **rules)
    model.register_comm_hook(state, weft.hooks.compress)
    return model, state


class Pushed(nn.Module):
    """Parameters whose gradients are what is pushed, so that sums of gradients are known."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in shapes])

    def forward(self, pushed: list[torch.Tensor], order: list[int]) -> torch.Tensor:
        return sum(((self.weights[i] * pushed[i]).sum() for i in order), torch.zeros(()))


SHAPES = ((64, 131), (300,), (129, 65), (40, 3), (256, 64), (7,))
CODED = (0, 2, 4)


def push(g: Groups, model: DDP, step: int, order: list[int], factor: float = 1.0) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """One backward pass of a Pushed; what this rank gave, and the averages that came."""
    given = [chance(g, step, *shape, seed=i) * factor for i, shape in enumerate(SHAPES)]
    model.zero_grad()
    model(given, order).backward()
    return given, gradients(model)


# ---- One call ----


def codecs_by_call(g: Groups) -> None:
    """Every codec and type: the same bits on all ranks, an error within the codec's bound, and not none at all."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        given = chance(g, 1, 5003).to(dtype)
        exact = averaged(g, given)
        largest = max(exact.abs().max().item(), given.float().abs().max().item(), 5.0)
        for name, bound in BOUND.items():
            got = given.clone()
            with weft.codec(f"{name}:{NEVER}"):
                dist.all_reduce(got, op=dist.ReduceOp.AVG, group=g.weft)
            same_everywhere(g, [got])
            error = (got.double() - exact).abs().max().item()
            assert error <= 2.5 * bound * largest, (name, dtype, error)
            assert error > 1e-5, (name, dtype, "was not compressed")


def other_collectives_by_call(g: Groups) -> None:
    whole = chance(g, 2, 1031 * g.size)
    share = torch.empty(1031)
    want = averaged(g, whole)[1031 * g.rank : 1031 * (g.rank + 1)]
    with weft.codec(f"int8:{NEVER}"):
        dist.reduce_scatter_tensor(share, whole, op=dist.ReduceOp.AVG, group=g.weft)
        gathered = torch.empty(1031 * g.size)
        work = dist.all_gather_into_tensor(gathered, share, group=g.weft, async_op=True)
        work.wait()
        swapped = torch.empty_like(whole)
        dist.all_to_all_single(swapped, whole, group=g.weft)
    assert 1e-5 < (share - want).abs().max() < 0.1
    same_everywhere(g, [gathered])
    assert 1e-5 < (gathered - averaged(g, whole)).abs().max() < 0.2
    plain = torch.empty_like(whole)
    dist.all_to_all_single(plain, whole, group=g.gloo)
    assert 1e-5 < (swapped - plain).abs().max() < 0.1


def recorded(g: Groups) -> None:
    """The flight recorder has the codec of what was compressed, and whose residuals, and no key of it elsewhere."""
    weft.trace.clear()
    t = chance(g, 0, 5000)
    dist.all_reduce(t.clone(), group=g.weft)
    with weft.codec(INT8, tensor=5):
        dist.all_reduce(t.clone(), group=g.weft)
        with weft.codec("none"):
            dist.all_reduce(t.clone(), group=g.weft)
    dist.all_reduce(t.clone(), group=g.weft)
    found = [(e.get("codec"), e.get("tensors")) for e in weft.flight_recorder.record()["entries"]]
    assert found == [(None, None), (INT8, [5]), ("none", []), (None, None)], found
    weft.trace.clear()
    model, _ = hooked(g, SIGN, True)
    step_of(g, model, 0).backward()
    hooks = [e for e in weft.flight_recorder.record()["entries"] if e.get("codec") == SIGN]
    assert hooks and all(tensor >= 2**32 for e in hooks for tensor in e["tensors"]), hooks


def the_innermost_codec_counts(g: Groups) -> None:
    given = chance(g, 3, 4099)
    exact = averaged(g, given)

    def error() -> float:
        t = given.clone()
        dist.all_reduce(t, op=dist.ReduceOp.AVG, group=g.weft)
        return (t - exact).abs().max().item()

    with weft.codec(f"sign:{NEVER}"):
        assert error() > 0.1
        with weft.codec("none"):
            assert error() < 1e-5
        with contextlib.suppress(KeyError), weft.codec("none"):
            raise KeyError
        assert error() > 0.1
    assert error() < 1e-5


def blocks_left_in_any_order(g: Groups) -> None:
    """Generators that are suspended inside of blocks: each block ends with itself, in whatever order and by whichever thread."""
    import gc
    from collections.abc import Iterator

    def suspended(codec: str) -> Iterator[None]:
        with weft.codec(codec):
            yield

    def newest() -> str | None:
        dist.all_reduce(chance(g, 3, 4099), group=g.weft)
        return weft.flight_recorder.record()["entries"][-1].get("codec")

    int2, int4, int8 = f"int2:{NEVER}", f"int4:{NEVER}", f"int8:{NEVER}"
    blocks = [suspended(codec) for codec in (int2, int4, int8)]
    for block in blocks:
        next(block)
    assert newest() == int8
    blocks[1].close()
    assert newest() == int8
    blocks[0].close()
    assert newest() == int8
    blocks[2].close()
    del blocks, block
    gc.collect()
    rubbish = [weft._C.Codec(int2, 5) for _ in range(50)]  # where the codecs were
    assert newest() is None
    del rubbish
    outer, inner = suspended(int4), suspended(int2)
    next(outer), next(inner)
    other = threading.Thread(target=inner.close)
    other.start()
    other.join()
    assert newest() == int4, "a block that another thread has left counts"
    with weft.codec(int8):
        outer.close()
        assert newest() == int8
    assert newest() is None


def batches_keep_their_codec(g: Groups) -> None:
    """What is called inside of a batch has the codec of its place in the program, not of the batch's end."""
    coded, plain = chance(g, 4, 4099), chance(g, 5, 4099)
    want = [averaged(g, t) for t in (coded, plain)]
    g.weft._start_coalescing(torch.device("cpu"))
    with weft.codec(f"int4:{NEVER}"):
        dist.all_reduce(coded, op=dist.ReduceOp.AVG, group=g.weft, async_op=True)
    dist.all_reduce(plain, op=dist.ReduceOp.AVG, group=g.weft, async_op=True)
    with weft.codec("sign"):
        g.weft._end_coalescing(torch.device("cpu")).wait()
    assert (coded - want[0]).abs().max() > 1e-3 > 1e-5 > (plain - want[1]).abs().max()


def error_feedback_by_call(g: Groups) -> None:
    """What was sent and what is left add up to what was given."""
    count, steps = 3001, 12
    linear = (f"sharedint:ef=1,{NEVER}", f"leaderk:block=256,ratio=0.3,values=fp32,ef=1,{NEVER}")
    for codec in (INT4, SIGN, f"int2:ef=1,{NEVER}", *linear):
        sent, given = torch.zeros(count).double(), torch.zeros(count).double()
        for step in range(steps):
            t = chance(g, step, count)
            given += averaged(g, t)
            with weft.codec(codec, tensor=41):
                dist.all_reduce(t, op=dist.ReduceOp.AVG, group=g.weft)
            sent += t
        assert (sent - given).abs().max() > 1e-2, "nothing was left over"
        for _ in range(6):
            t = torch.zeros(count)
            with weft.codec(INT8, tensor=41):
                dist.all_reduce(t, op=dist.ReduceOp.AVG, group=g.weft)
            sent += t
        assert (sent - given).abs().max() < 1e-4, (codec, (sent - given).abs().max())


def wrong_codecs_by_call(g: Groups) -> None:
    def reduce(codec: str, tensor: int | None = None, **options: object) -> None:
        with weft.codec(codec, tensor=tensor):
            dist.all_reduce(torch.ones(512, dtype=options.pop("dtype", torch.float32)), group=g.weft, **options)

    raises(ValueError, 'did you mean "int4"', lambda: reduce("int44"))
    raises(ValueError, "block", lambda: reduce("int4:block=33"))
    raises(TypeError, "a codec is text", lambda: reduce(4))  # type: ignore[arg-type]
    raises(TypeError, "tensor must be an id", lambda: reduce("int4:ef=1", tensor="a"))  # type: ignore[arg-type]
    raises(TypeError, "tensor must be an id", lambda: reduce("int4:ef=1", tensor=True))
    raises(ValueError, "images; the linear codec leaderk", lambda: reduce("leaderk:ef=ef21", tensor=9))
    raises(ValueError, "from 1 to", lambda: reduce("int4:ef=1", tensor=0))
    raises(ValueError, "from 1 to", lambda: reduce("int4:ef=1", tensor=2**32))
    raises(RuntimeError, "the call names none", lambda: reduce("int4:ef=1"))
    raises(RuntimeError, "not double", lambda: reduce("int4", dtype=torch.float64))
    raises(RuntimeError, "not int32", lambda: reduce("int4", dtype=torch.int32))
    raises(RuntimeError, "sum and avg, not max", lambda: reduce("int4", op=dist.ReduceOp.MAX))
    with weft.codec("int4"):
        raises(RuntimeError, "codec int4 is for", lambda: dist.reduce(torch.ones(5), 0, group=g.weft))
    reduce(INT4, tensor=77)
    with weft.codec(INT4, tensor=77):
        raises(RuntimeError, "tensor 77 has a residual of 512 elements", lambda: dist.all_reduce(torch.ones(513), group=g.weft))
    dist.barrier(group=g.weft)


# ---- Hooks ----


def hooks_are_alike(g: Groups) -> None:
    """Python's form and C++'s lead to the same weights, bit for bit, with every codec; on all ranks; and not to those without."""
    plain = train(g, wrapped(g), 6)
    for codec in (INT8, INT4, SIGN, f"int8:block=64,{NEVER}", f"sharedint:ef=1,{NEVER}"):
        results = [train(g, hooked(g, codec, native)[0], 6) for native in (False, True)]
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True)), codec
        same_everywhere(g, results[0])
        largest = max((a - b).abs().max().item() for a, b in zip(results[0], plain, strict=True))
        assert 1e-6 < largest < 0.1, (codec, largest)


def without_codec_as_ddp(g: Groups) -> None:
    """Averages without a codec equal Gloo's: bit for bit where dividing first is exact, as with 2 and 4 ranks and two summands."""
    want = train(g, DDP(network(), process_group=g.gloo), 4)
    for build in (
        lambda: hooked(g, "none", False)[0],
        lambda: hooked(g, "none", True)[0],
        lambda: hooked(g, "none", True, transport_memory=True)[0],
    ):
        got = train(g, build(), 4)
        same_everywhere(g, got)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
            assert g.size > 2 or torch.equal(a, b)
    model = wrapped(g)
    model.register_comm_hook(g.weft, weft.hooks.allreduce)
    for a, b in zip(train(g, model, 4), want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def small_parameters_stay_as_they_are(g: Groups) -> None:
    """By rule: exact averages of what has one dimension or few elements, in each bucket, and coded ones of the rest."""
    order = list(range(len(SHAPES)))
    for rules, coded in (({}, CODED), ({"min_elements": 8385}, (2, 4)), ({"vectors": True, "min_elements": 1}, tuple(order))):
        for native in (False, True):
            model = DDP(Pushed(*SHAPES), process_group=g.weft)
            if native:
                weft.hooks.register(model, f"int4:{NEVER}", **rules)
            else:
                model.register_comm_hook(weft.hooks.State(g.weft, f"int4:{NEVER}", **rules), weft.hooks.compress)
            for step in range(3):
                given, got = push(g, model, step, order)
                for i, (a, b) in enumerate(zip(given, got, strict=True)):
                    error = (averaged(g, a) - b).abs().max().item()
                    assert error > 1e-3 if i in coded else error < 1e-6, (rules, i, error)


def compress_and_tell(seen_and_state, bucket):  # DDP would compare annotations with its classes, and here they are text
    seen, state = seen_and_state
    seen.append([p.numel() for p in bucket.parameters()])
    return weft.hooks.compress(state, bucket)


def mass_is_kept_over_rebuilt_buckets(g: Groups) -> None:
    """Sums of what came and of what is left equal sums of what was given, over the step in which DDP's buckets are cut anew."""
    order = [3, 0, 5, 2, 4, 1]  # gradients come in another order than DDP thinks at first
    for native in (False, True):
        model = DDP(Pushed(*SHAPES), process_group=g.weft, bucket_cap_mb=0.05)
        state = weft.hooks.register(model, INT4) if native else weft.hooks.State(g.weft, INT4)
        seen: list[list[int]] = []
        if not native:
            model.register_comm_hook((seen, state), compress_and_tell)
        given = [torch.zeros(s).double() for s in SHAPES]
        came = [torch.zeros(s).double() for s in SHAPES]
        for step in range(8):
            gave, got = push(g, model, step, order)
            for i in range(len(SHAPES)):
                given[i] += averaged(g, gave[i])
                came[i] += got[i]
            if step == 0 and not native:
                first = list(seen)
        assert native or seen[-len(first) :] != first, f"the buckets were not cut anew: {first}"
        assert all((given[i] - came[i]).abs().max() > 1e-2 for i in CODED), "nothing was left over"
        residual = weft._C.residual_bytes(state.backend)
        for step in range(40):  # what is left comes when zeros are given, of which the images lose nothing new
            _, got = push(g, model, step, order, factor=0.0)
            for i in range(len(SHAPES)):
                came[i] += got[i]
        for i in range(len(SHAPES)):
            assert (given[i] - came[i]).abs().max() < 1e-4, (native, i, (given[i] - came[i]).abs().max())
        assert weft._C.residual_bytes(state.backend) == residual, "residuals were made anew"


def issued_while_python_is_busy(g: Groups, native: bool, seconds: float) -> bool:
    """Whether all averages of a backward pass are issued while another thread has the interpreter's lock, and keeps it."""
    torch.manual_seed(1)
    model = DDP(nn.Sequential(*(nn.Linear(400, 400) for _ in range(6))), process_group=g.weft, bucket_cap_mb=0.6)
    if native:
        weft.hooks.register(model, INT4)
    else:
        model.register_comm_hook(weft.hooks.State(g.weft, INT4), weft.hooks.compress)
    backend = weft._groups.backend_of(g.weft)
    for _ in range(2):
        model(torch.ones(64, 400)).sum().backward()
    before = backend.sequence_number
    model(torch.ones(64, 400)).sum().backward()
    each = backend.sequence_number - before
    assert each > 2, each
    go, issued = threading.Lock(), [0]
    go.acquire()

    def be_busy() -> None:
        go.acquire()
        until = time.monotonic() + seconds
        while issued[0] < each and time.monotonic() < until:
            issued[0] = backend.sequence_number - start

    busy = threading.Thread(target=be_busy)
    loss = model(torch.ones(64, 400)).sum()
    # Autograd takes the lock to let go of what Python has seen: here the graph, and the gradient to begin with, stay.
    first = torch.ones(())
    kept = torch.ones((), requires_grad=True) * first
    start, interval = backend.sequence_number, sys.getswitchinterval()
    busy.start()
    sys.setswitchinterval(1000)  # whoever has the lock keeps it until it lets go by itself: this thread in backward()
    try:
        go.release()
        loss.backward(first, retain_graph=True)
        busy.join()
    finally:
        sys.setswitchinterval(interval)
    del kept
    return issued[0] == each


def registered_in_cpp_python_is_not_needed(g: Groups) -> None:
    assert issued_while_python_is_busy(g, True, 30)


def residuals_go_with_their_state(g: Groups) -> None:
    backend = weft._groups.backend_of(g.weft)
    before = weft._C.residual_bytes(backend)
    model = DDP(Pushed(*SHAPES), process_group=g.weft)
    state = weft.hooks.register(model, INT4)
    push(g, model, 0, list(range(len(SHAPES))))
    each = weft._C.residual_bytes(backend) - before
    assert each >= 4 * sum(torch.Size(SHAPES[i]).numel() for i in CODED), each
    state.clear()
    assert weft._C.residual_bytes(backend) == before
    push(g, model, 1, list(range(len(SHAPES))))
    assert weft._C.residual_bytes(backend) == before + each
    del model, state
    import gc

    gc.collect()
    assert weft._C.residual_bytes(backend) == before, (weft._C.residual_bytes(backend), before)


def two_models_of_a_group(g: Groups) -> None:
    """Their residuals are their own: together they train as each alone."""
    alone = train(g, hooked(g, INT4, True)[0], 4)
    one, other = hooked(g, INT4, True)[0], hooked(g, INT4, False)[0]
    sgd = [torch.optim.SGD(m.parameters(), 0.05) for m in (one, other)]
    for step in range(4):
        train(g, one, 1, step, sgd[0])
        train(g, other, 1, step, sgd[1])
    for model in (one, other):
        assert all(torch.equal(a, b) for a, b in zip(alone, model.module.parameters(), strict=True))


def static_graphs(g: Groups) -> None:
    want = train(g, hooked(g, INT4, False)[0], 5)
    for native in (False, True):
        got = train(g, hooked(g, INT4, native, static_graph=True)[0], 5)
        same_everywhere(g, got)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.one, self.other, self.head = nn.Linear(33, 150), nn.Linear(33, 150), nn.Linear(150, 5)

    def forward(self, x: torch.Tensor, which: bool) -> torch.Tensor:
        return self.head(torch.tanh((self.one if which else self.other)(x)))


def unused_parameters(g: Groups) -> None:
    """Ranks that use other parameters, and parameters that no rank uses: the two forms agree, and so do the ranks."""
    results = []
    for native in (False, True):
        model, _ = hooked(g, INT4, native, net=Branches(), find_unused_parameters=True)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for step in range(6):
            optimizer.zero_grad()
            # In steps 2 and 3 ranks use different branches.
            which = step % 2 == 0 if step not in (2, 3) else (step + g.rank) % 2 == 0
            nn.functional.mse_loss(model(chance(g, step, 8, 33), which), chance(g, step, 8, 5)).backward()
            optimizer.step()
        results.append([p.detach().clone() for p in model.module.parameters()])
        same_everywhere(g, results[-1])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def accumulation(g: Groups) -> None:
    """no_sync: one compressed sum of what several backward passes have left."""
    results = []
    for native in (False, True):
        model, _ = hooked(g, INT4, native)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        before = weft._groups.backend_of(g.weft).sequence_number
        for step in range(4):
            optimizer.zero_grad()
            with model.no_sync():
                step_of(g, model, 10 * step).backward()
                step_of(g, model, 10 * step + 1).backward()
            between = weft._groups.backend_of(g.weft).sequence_number
            step_of(g, model, 10 * step + 2).backward()
            optimizer.step()
            if step > 1:  # before, buckets are cut anew
                assert between == before, "something was sent inside of no_sync"
            before = weft._groups.backend_of(g.weft).sequence_number
        results.append([p.detach().clone() for p in model.module.parameters()])
        same_everywhere(g, results[-1])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def infinite_steps_are_skipped(g: Groups) -> None:
    """GradScaler: one rank's Inf is NaN on all ranks, who skip the step; residuals are as they were, to rounding."""
    for native in (False, True):
        model = DDP(Pushed(*SHAPES), process_group=g.weft)
        if native:
            weft.hooks.register(model, INT4)
        else:
            model.register_comm_hook(weft.hooks.State(g.weft, INT4), weft.hooks.compress)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        order = list(range(len(SHAPES)))
        given = [torch.zeros(s).double() for s in SHAPES]
        for step in range(60):
            push_ = [chance(g, step, *s, seed=i) * (step < 6) / 1024 for i, s in enumerate(SHAPES)]
            bad = step == 3
            if bad and g.rank == g.size - 1:
                push_[2][5, 7] = float("inf")
            optimizer.zero_grad()
            scaler.scale(model(push_, order)).backward()
            before = [p.detach().clone() for p in model.module.parameters()]
            scaler.step(optimizer)
            scale = scaler.get_scale()
            scaler.update(scale)  # the same scale: changes of it are another test
            skipped = all(torch.equal(a, b) for a, b in zip(before, model.module.parameters(), strict=True))
            everywhere = [False] * g.size
            dist.all_gather_object(everywhere, skipped, group=g.gloo)
            if bad:
                assert all(everywhere), "a rank has stepped"
            else:
                assert step > 5 or not any(everywhere)
                for i in range(len(SHAPES)):
                    given[i] += averaged(g, push_[i])
        # Blocks that were finite in the skipped step have sent it, and it was thrown away: only that of the infinity kept its mass.
        at = (5 * 65 + 7) // 128 * 128
        kept = slice(at, at + 128)
        lost = (given[2] + model.module.weights[2].detach()).flatten()[kept]
        assert lost.abs().max() < 1e-6, (native, lost.abs().max())
        assert all(torch.isfinite(p).all() for p in model.module.parameters())
        same_everywhere(g, list(model.module.parameters()))


def counterparts_of_torch(g: Groups) -> None:
    """fp16_compress and bf16_compress are within two roundings of torch's own; before the library has such codecs it says so."""
    for name, mine, theirs in (("fp16", weft.hooks.fp16_compress, default_hooks.fp16_compress_hook),
                               ("bf16", weft.hooks.bf16_compress, None)):
        assert mine.__name__ != "bf16_compress_hook"
        model = wrapped(g)
        model.register_comm_hook(g.weft, mine)
        try:
            weft._C.Codec(name)
        except ValueError as unknown:
            raises(ValueError, str(unknown), lambda model=model: train(g, model, 1))
            continue
        got = train(g, model, 3)
        same_everywhere(g, got)
        reference = wrapped(g)
        if theirs:
            reference.register_comm_hook(g.weft, theirs)
        for a, b in zip(got, train(g, reference, 3), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=2e-3 if theirs else 1e-2)


def wrong_hooks(g: Groups) -> None:
    raises(ValueError, 'did you mean "int4"', lambda: weft.hooks.State(g.weft, codec="int44"))
    raises(ValueError, "ef=2", lambda: weft.hooks.State(g.weft, codec="int4:ef=2"))
    raises(TypeError, "a codec is text", lambda: weft.hooks.State(g.weft, codec=4))
    raises(ValueError, "the linear codec leaderk takes ef=1", lambda: weft.hooks.State(g.weft, codec="leaderk:ef=ef21"))
    raises(ValueError, "the linear codec sharedint takes ef=1", lambda: weft.hooks.register(wrapped(g), codec="sharedint:ef=dgc"))
    raises(ValueError, "min_elements=-1: must be 0", lambda: weft.hooks.State(g.weft, INT4, min_elements=-1))
    raises(ValueError, "below 2**63", lambda: weft.hooks.State(g.weft, INT4, min_elements=2**63))
    raises(TypeError, "min_elements must be a number", lambda: weft.hooks.State(g.weft, INT4, min_elements="a"))
    raises(TypeError, "vectors must be True or False", lambda: weft.hooks.State(g.weft, INT4, vectors=None))
    raises(ValueError, "is gloo, not weft", lambda: weft.hooks.State(g.gloo, codec="int4"))
    raises(ValueError, "is gloo, not weft", lambda: weft.hooks.register(DDP(network(), process_group=g.gloo), codec="int4"))
    raises(TypeError, "DistributedDataParallel is needed", lambda: weft.hooks.register(network(), codec="int4"))
    raises(TypeError, "must be a weft.hooks.State", lambda: weft.hooks.compress(g.weft, None))
    model, _ = hooked(g, INT4, True)
    raises(RuntimeError, "only be called once", lambda: weft.hooks.register(model, codec="int4"))
    raises(RuntimeError, "only be called once", lambda: model.register_comm_hook(None, weft.hooks.compress))
    for native in (False, True):
        double, _ = hooked(g, INT4, native, net=network().double())
        raises(RuntimeError, "not double", lambda double=double: double(torch.ones(2, 33).double()).sum().backward())
    dist.barrier(group=g.weft)


def half_precision_gradients(g: Groups) -> None:
    results = []
    for native in (False, True):
        model, _ = hooked(g, INT8, native, net=network().bfloat16())
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for step in range(3):
            optimizer.zero_grad()
            model(chance(g, step, 8, 33).bfloat16()).square().sum().backward()
            optimizer.step()
        results.append([p.detach().clone() for p in model.module.parameters()])
        same_everywhere(g, results[-1])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def sparse_gradients(g: Groups) -> None:
    """Of an embedding: as they are; what is dense beside them is compressed."""
    results = []
    for hook in (None, False, True):
        torch.manual_seed(2)
        net = nn.Sequential(nn.Embedding(50, 33, sparse=True), nn.Linear(33, 150))
        model = wrapped(g, net=net) if hook is None else hooked(g, INT8, hook, net=net)[0]
        for step in range(3):
            model.zero_grad()
            words = torch.randint(50, (16,), generator=torch.Generator().manual_seed(9 * step + g.rank))
            model(words).square().mean().backward()
        results.append([net[0].weight.grad.to_dense().clone(), net[1].weight.grad.clone()])
    for got in results[1:]:
        torch.testing.assert_close(got[0], results[0][0])
        assert 0 < (got[1] - results[0][1]).abs().max() < 0.1
    assert torch.equal(results[1][1], results[2][1])


def transport_memory_and_codec(g: Groups) -> None:
    """Together, in both forms: the same weights as without registered buckets; and by way of weft.ddp."""
    want = train(g, hooked(g, INT4, True)[0], 4)
    for native in (False, True):
        got = train(g, hooked(g, INT4, native, transport_memory=True)[0], 4)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    model = wrapped(g)
    weft.ddp.use_transport_memory(model, codec=INT4)
    assert all(torch.equal(a, b) for a, b in zip(train(g, model, 4), want, strict=True))


def join_with_uneven_inputs(g: Groups) -> None:
    """Ranks that have no more data take part with zeros, and their residuals are used."""
    for native in (False, True):
        model, _ = hooked(g, INT4, native)
        with model.join():
            for step in range(2 + 2 * g.rank):
                model.zero_grad()
                step_of(g, model, step).backward()
        dist.barrier(group=g.weft)


# ---- Checkpoints ----


def drained(g: Groups, model: DDP, steps: int = 40) -> list[torch.Tensor]:
    """What comes when only zeros are given: what was left."""
    total = [torch.zeros(s).double() for s in SHAPES]
    for step in range(steps):
        for sum_, got in zip(total, push(g, model, step, list(range(len(SHAPES))), factor=0.0)[1], strict=True):
            sum_ += got
    return total


def pushed_model(group: dist.ProcessGroup, codec: str = INT4) -> tuple[DDP, weft.hooks.State]:
    model = DDP(Pushed(*SHAPES), process_group=group)
    return model, weft.hooks.register(model, codec)


def go_on_from_a_checkpoint(g: Groups) -> None:
    """Training that was saved and loaded leads to the bits of that which was not interrupted; without residuals to others."""
    import io

    for native in (False, True):
        whole, state = hooked(g, SIGN, native)
        optimizer = torch.optim.SGD(whole.parameters(), 0.05)
        train(g, whole, 4, 0, optimizer)
        file = io.BytesIO()
        torch.save({"model": whole.module.state_dict(), "residuals": state.state_dict()}, file)
        want = train(g, whole, 4, 4, optimizer)
        results = []
        for load in (True, False):
            file.seek(0)
            saved = torch.load(file)
            again, restored = hooked(g, SIGN, native)
            again.module.load_state_dict(saved["model"])
            if load:
                restored.load_state_dict(saved["residuals"])
            results.append(train(g, again, 4, 4))
        assert all(torch.equal(a, b) for a, b in zip(results[0], want, strict=True))
        assert not all(torch.equal(a, b) for a, b in zip(results[1], want, strict=True)), "residuals make no difference"
        assert set(saved["residuals"]["residuals"]) == {"0.weight", "3.weight"}, saved["residuals"]["residuals"].keys()


def states_replace_what_was_kept(g: Groups) -> None:
    model, state = pushed_model(g.weft)
    push(g, model, 0, list(range(len(SHAPES))))
    saved = state.state_dict()
    other, theirs = pushed_model(g.weft)
    push(g, other, 1, list(range(len(SHAPES))))
    theirs.load_state_dict(saved)
    for a, b in zip(drained(g, model), drained(g, other), strict=True):
        assert torch.equal(a, b)


def other_numbers_of_ranks(g: Groups) -> None:
    """What all ranks together have not sent stays the same on fewer and on more of them."""
    if g.size < 4:
        return
    few = dist.new_group([1, 2, 3], backend="weft")
    few_gloo = dist.new_group([1, 2, 3], backend="gloo")
    model, state = pushed_model(g.weft)
    for step in range(5):
        push(g, model, step, list(range(len(SHAPES))))
    states: list[dict] = [{}] * g.size
    dist.all_gather_object(states, state.state_dict(), group=g.gloo)
    left = drained(g, model)
    assert max(t.abs().max() for t in left) > 1e-2
    fewer: list[dict] = [{}] * 3
    wrong = []
    if g.rank:
        small, theirs = pushed_model(few)
        theirs.load_state_dict(states)
        dist.all_gather_object(fewer, theirs.state_dict(), group=few_gloo)
        wrong += [f"3 ranks: {(a - b).abs().max()}" for a, b in zip(drained(g, small), left, strict=True)
                  if (a - b).abs().max() > 1e-4]  # fmt: skip
    everything = [fewer]
    dist.broadcast_object_list(everything, 1, group=g.gloo)
    large, again = pushed_model(g.weft)
    again.load_state_dict(everything[0])
    wrong += [f"{g.size} ranks: {(a - b).abs().max()}" for a, b in zip(drained(g, large), left, strict=True)
              if (a - b).abs().max() > 1e-4]  # fmt: skip
    assert not wrong, wrong
    raises(ValueError, "as a list", lambda: again.load_state_dict(everything[0][g.rank % 3]))
    raises(ValueError, "in the order of ranks", lambda: again.load_state_dict(everything[0][::-1]))


def scales_of_losses(g: Groups) -> None:
    """What is left goes with the scale: twice the scale, twice the rest."""
    left = []
    for factor in (1.0, 2.0, 0.5):
        model, state = pushed_model(g.weft)
        push(g, model, 3, list(range(len(SHAPES))))
        state.rescale(factor)
        left.append(drained(g, model))
    for one, twice, half in zip(*left, strict=True):
        assert torch.equal(2 * one, twice) and torch.equal(one / 2, half)
    assert left[0][0].abs().max() > 1e-2


def wrong_states(g: Groups) -> None:
    model, state = pushed_model(g.weft)
    push(g, model, 0, list(range(len(SHAPES))))
    saved = state.state_dict()
    nameless = weft.hooks.State(g.weft, INT4)
    raises(ValueError, "State(model=...)", lambda: nameless.load_state_dict(saved))
    raises(ValueError, "no such parameter", lambda: hooked(g, INT4, False)[1].load_state_dict(saved))
    raises(ValueError, "no state of a State", lambda: state.load_state_dict({"residuals": {}}))
    raises(ValueError, "no states", lambda: state.load_state_dict([]))
    raises(ValueError, "version 9", lambda: state.load_state_dict({**saved, "version": 9}))
    raises(ValueError, f"by rank {(g.rank + 1) % g.size} of {g.size}", lambda: state.load_state_dict({**saved, "rank": (g.rank + 1) % g.size}))  # fmt: skip  # noqa: E501


def refused_states_change_nothing(g: Groups) -> None:
    """What is wrong is named before what is kept is forgotten: that is the same bits afterwards."""
    model, state = pushed_model(g.weft)
    push(g, model, 0, list(range(len(SHAPES))))
    saved = state.state_dict()
    names = list(saved["residuals"])
    assert len(names) == len(CODED)
    one = saved["residuals"][names[-1]]  # the last: what comes before it is fine
    damaged = one.clone()
    damaged[80] ^= 1
    form, size = one.clone(), one.clone()
    form[8] = 4
    size[16] += 1

    def with_one(residual: object) -> dict:
        return {**saved, "residuals": {**saved["residuals"], names[-1]: residual}}

    for kind, words, wrong in (
        (ValueError, "is damaged, or cut", with_one(one[:-1])),
        (ValueError, "is damaged, or cut", with_one(damaged)),
        (ValueError, "is cut: it has 7 bytes", with_one(one[:7])),
        (ValueError, "is none of state_dict()", with_one(torch.zeros_like(one))),
        (ValueError, "was saved with ef=dgc, and codec int4:ef=1,bypass=never has ef=1", with_one(form)),
        (ValueError, f"the residual of '{names[-1]}' is of", with_one(size)),
        (ValueError, "torch.uint8 of one dimension", with_one(torch.ones(3))),
        (ValueError, "torch.uint8 of one dimension", with_one(one.view(2, -1))),
        (TypeError, f"the residual of '{names[-1]}' must be a tensor", with_one("abc")),
        (TypeError, "the residual of 3 must be a tensor", {**saved, "residuals": {3: one}}),
        (TypeError, "must be a mapping, not list", {**saved, "residuals": [1]}),
        (TypeError, "of rank 0 of 'x' ranks", {**saved, "rank": 0, "ranks": "x"}),
        (ValueError, "of rank 0 of 0, which there is not", {**saved, "rank": 0, "ranks": 0}),
        (ValueError, "of rank 0 of 0, which there is not", {**saved, "rank": 0, "ranks": 0, "residuals": {}}),
        (ValueError, "of rank -1 of", {**saved, "rank": -1}),
        (TypeError, "a state, or those of all ranks as a list, not int", 7),
        (TypeError, "a state, or those of all ranks as a list, not str", "abc"),
    ):
        raises(kind, words, lambda wrong=wrong: state.load_state_dict(wrong))
    raises(ValueError, "ef=1, and codec", lambda: pushed_model(g.weft, "int4")[1].load_state_dict(saved))
    raises(ValueError, "factor is nan", lambda: state.rescale(float("nan")))
    raises(ValueError, "factor is inf", lambda: state.rescale(10**400))
    raises(TypeError, "factor must be a number", lambda: state.rescale("2"))  # type: ignore[arg-type]
    after = state.state_dict()["residuals"]
    assert set(after) == set(names) and all(torch.equal(after[name], saved["residuals"][name]) for name in names)


def numbers_of_parameters(g: Groups) -> None:
    """Of a State without names: plain decimal ones of its own tensors, and of parameters that there are, once they are known."""
    from weft import _C

    model = DDP(Pushed(*SHAPES), process_group=g.weft)
    state, other = (weft.hooks.State(g.weft, INT4) for _ in range(2))
    model.register_comm_hook(state, weft.hooks.compress)
    push(g, model, 0, list(range(len(SHAPES))))
    saved = state.state_dict()
    key, residual = next(iter(saved["residuals"].items()))
    before = _C.residual_bytes(state.backend)
    for wrong in (2**64 - 2**32 + 9, 2**32 + 3, 2**64, 2**32 - 1, "\u0663", "03", "+3", "", "9" * 5000):
        with_key = {**saved, "residuals": {str(wrong): residual}}
        for one in (state, other):
            raises(ValueError, "numbers from 0 to", lambda one=one, with_key=with_key: one.load_state_dict(with_key))
    too_large = {**saved, "residuals": {"77": residual}}
    raises(ValueError, f"the model has {len(SHAPES)} parameters", lambda: state.load_state_dict(too_large))
    wrong_size = {**saved, "residuals": {"1": residual}}
    raises(ValueError, "elements, not of", lambda: state.load_state_dict(wrong_size))
    raises(ValueError, "below 2**32", lambda: state._state.tensor(2**32))
    assert _C.residual_bytes(state.backend) == before
    other.load_state_dict(saved)  # which has seen no parameter yet
    assert set(other.state_dict()["residuals"]) == set(saved["residuals"])
    other.load_state_dict({**saved, "residuals": {key: residual}})
    assert set(other.state_dict()["residuals"]) == {key}
    other.clear()
    assert not other.state_dict()["residuals"] and _C.residual_bytes(state.backend) == before


def momentum_is_the_codecs(g: Groups) -> None:
    """ef=dgc has the momentum: an optimizer that has one as well is refused at its step, others and other models' are not."""
    dgc = f"topk:ratio=0.1,ef=dgc,{NEVER}"
    model, state = hooked(g, dgc, True)
    other = wrapped(g)
    step_of(g, model, 0).backward()
    step_of(g, other, 0).backward()
    before = [p.detach().clone() for p in model.parameters()]
    for wrong in (torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), torch.optim.Adam(model.parameters())):
        raises(ValueError, f"{type(wrong).__name__} has momentum", wrong.step)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)), "a refused step changed weights"
    torch.optim.SGD(other.parameters(), 0.1, momentum=0.9).step()
    few = [p for p in model.parameters() if p.dim() < 2 or p.numel() < 4096]  # are not coded
    assert 0 < len(few) < len(before)
    many = [p for p in model.parameters() if not any(p is q for q in few)]
    torch.optim.SGD([{"params": many}, {"params": few, "momentum": 0.9}], 0.1).step()
    assert not all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    nameless = wrapped(g)  # a State that is not told the model learns from the buckets
    nameless.register_comm_hook(weft.hooks.State(g.weft, dgc), weft.hooks.compress)
    late = torch.optim.SGD(nameless.parameters(), 0.1, momentum=0.9)
    step_of(g, nameless, 0).backward()
    raises(ValueError, "SGD has momentum", late.step)
    del model, state
    plain, _ = hooked(g, SIGN, False)
    step_of(g, plain, 0).backward()
    torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9).step()


CASES = [
    codecs_by_call, other_collectives_by_call, recorded, the_innermost_codec_counts, blocks_left_in_any_order,
    batches_keep_their_codec, error_feedback_by_call, wrong_codecs_by_call, hooks_are_alike, without_codec_as_ddp,
    small_parameters_stay_as_they_are, mass_is_kept_over_rebuilt_buckets, registered_in_cpp_python_is_not_needed,
    residuals_go_with_their_state, two_models_of_a_group, static_graphs, unused_parameters, accumulation,
    infinite_steps_are_skipped, counterparts_of_torch, wrong_hooks, half_precision_gradients, sparse_gradients,
    transport_memory_and_codec, join_with_uneven_inputs, go_on_from_a_checkpoint, states_replace_what_was_kept,
    other_numbers_of_ranks, scales_of_losses, wrong_states, refused_states_change_nothing, numbers_of_parameters,
    momentum_is_the_codecs,
]  # fmt: skip

if __name__ == "__main__":
    ranks.main(CASES)
