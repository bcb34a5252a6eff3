# SPDX-License-Identifier: BSD-3-Clause
"""What outlives what: operations and their tensors, groups and their options, processes and their children, threads."""

from __future__ import annotations

import copy
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
import ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from ranks import Groups  # noqa: E402

CPU = torch.device("cpu")


@contextmanager
def raises(kind: type[Exception], words: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError(f"no failure that says {words!r}")


# ---- Operations and their tensors ----


def results_are_let_go_when_waited_for(g: Groups) -> None:
    """No further operation of the group is needed for that."""
    for shape in ("all_gather", "all_reduce", "strided", "batch"):
        big = torch.ones(1 << 18)
        outs = [torch.empty(1 << 18) for _ in range(g.size)]
        if shape == "all_gather":
            work = dist.all_gather(outs, big, group=g.weft, async_op=True)
        elif shape == "all_reduce":
            work = dist.all_reduce(outs[0], group=g.weft, async_op=True)
        elif shape == "strided":
            work = dist.broadcast(outs[0][::2], 0, group=g.weft, async_op=True)
        else:
            g.weft._start_coalescing(CPU)
            dist.broadcast(outs[0], 0, group=g.weft, async_op=True)
            work = g.weft._end_coalescing(CPU)
        seen = [weakref.ref(t.untyped_storage()) for t in (outs[0],)]
        address = outs[0].data_ptr()
        work.wait()
        del outs, work, big
        gc.collect()
        assert all(ref() is None for ref in seen), (shape, address)
        assert held_tensors(g) == 0, shape


def held_tensors(g: Groups) -> int:
    """Operations that the group still knows."""
    return int(g.weft._get_backend(CPU).operations_under_way)


def results_are_let_go_by_a_future(g: Groups) -> None:
    out = torch.ones(1 << 18)
    done = threading.Event()
    future = dist.all_reduce(out, group=g.weft, async_op=True).get_future()
    future.add_done_callback(lambda _: done.set())
    assert done.wait(60)
    del future
    until = time.monotonic() + 30
    while held_tensors(g) and time.monotonic() < until:
        time.sleep(0.001)
    assert held_tensors(g) == 0


# ---- Groups and their options ----


def options_are_each_groups_own(g: Groups) -> None:
    import weft

    options = weft.Options()
    first = dist.new_group(backend="weft", pg_options=options, timeout=timedelta(seconds=41))
    second = dist.new_group(backend="weft", pg_options=options, timeout=timedelta(seconds=42))
    one, two = first._get_backend(CPU).options, second._get_backend(CPU).options
    assert (one._timeout, two._timeout) == (timedelta(seconds=41), timedelta(seconds=42)), (one._timeout, two._timeout)
    assert (one.group_name, two.group_name) == (first.group_name, second.group_name), (one.group_name, two.group_name)
    assert options.group_name == "" and list(options.global_ranks_in_group) == [], "what the caller gave was written to"
    one._timeout = timedelta(seconds=43)
    assert two._timeout == timedelta(seconds=42)
    for clone in (copy.copy(one), copy.deepcopy(one)):
        assert isinstance(clone, weft.Options) and clone.group_name == one.group_name
    with raises(TypeError, "weft.Options"):
        dist.new_group(backend="weft", pg_options=object())
    dist.destroy_process_group(first)
    dist.destroy_process_group(second)


def groups_with_a_device(g: Groups) -> None:
    """What torch does for a default group that was bound to an accelerator, as far as that goes without one."""
    backend = g.weft._get_backend(CPU)
    backend.perform_nocolor_split(torch.device("cuda:0"))
    default = dist.distributed_c10d._get_default_group()
    assert default.bound_device_id is None
    default.bound_device_id = torch.device("cuda:0")
    try:
        members = [0]
        group = dist.new_group(members, backend="weft")  # others perform_nocolor_split
        if g.rank in members:
            t = torch.ones(3)
            dist.all_reduce(t, group=group)
            dist.destroy_process_group(group)
        else:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
    finally:
        default.bound_device_id = None
    halves = list(range(g.size))[:2]
    options = copy.deepcopy(backend.options)
    part = default.split_group(halves, timeout=timedelta(seconds=60), opts=options, group_name="halves", group_desc="two ranks")
    if g.rank in halves:
        t = torch.full((5,), g.rank + 1.0)
        part.allreduce([t]).wait()
        assert t.tolist() == [3.0] * 5, t
        part._get_backend(CPU).shutdown()


# ---- Memory ----


def wrong_types_and_sizes_of_memory(g: Groups) -> None:
    import weft

    for wrong in ("float32", float, 7):
        with raises(TypeError, "torch.dtype"):
            weft.mem.empty(3, dtype=wrong)  # type: ignore[arg-type]
        with raises(TypeError, "torch.dtype"):
            weft._C.empty([3], wrong)
    with raises(ValueError, "-1"):
        weft.mem.empty(4, -1)
    with raises(ValueError, "addresses"):
        weft.mem.empty(1 << 40, 1 << 40)
    assert weft.mem.empty((2, 0, 3)).shape == (2, 0, 3)


def memory_that_cannot_be_registered(g: Groups) -> None:
    """Within backward: on one rank the library refuses; gradients are right all the same, and one warning says why."""
    import weft
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(512, 512), process_group=g.weft)
    state, held = weft.hooks.State(g.weft, "none", transport_memory=True), {}

    def taken(state, bucket):
        """On rank 0 the bucket's memory is somebody else's already, and the hook cannot have it."""
        buffer = bucket.buffer()
        if g.rank == 0 and buffer.data_ptr() not in held:
            held[buffer.data_ptr()] = weft.mem.register(buffer)
        return weft.hooks.compress(state, bucket)

    model.register_comm_hook(state, taken)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(4):
            model.zero_grad(set_to_none=False)
            model(torch.full((2, 512), g.rank + 1.0)).sum().backward()
    want = sum(2.0 * (r + 1) for r in range(g.size)) / g.size
    got = model.module.weight.grad
    assert torch.equal(got, torch.full_like(got, want)), (got.flatten()[:3], want)
    assert bool(held) == (g.rank == 0), held
    said = [str(w.message) for w in seen if "shareable already" in str(w.message)]
    assert len(said) == (1 if g.rank == 0 else 0), said


# ---- The flight recorder ----


def records_are_their_operations_own(g: Groups) -> None:
    """An operation that was forgotten by clear() does not complete the record of one that came after it."""
    import weft

    if g.rank > 1:
        return
    other = 1 - g.rank
    first = dist.irecv(torch.ones(3), other, group=g.weft, tag=1)
    weft.trace.clear()
    second = dist.irecv(torch.ones(3), other, group=g.weft, tag=2)
    send = dist.isend(torch.ones(3), other, group=g.weft, tag=1)
    first.wait()
    send.wait()
    states = [e["state"] for e in weft.flight_recorder.record()["entries"]]
    assert states == ["started", "completed"], states
    dist.isend(torch.ones(3), other, group=g.weft, tag=2).wait()
    second.wait()
    assert all(e["state"] == "completed" for e in weft.flight_recorder.record()["entries"])


def records_of_many_threads(g: Groups) -> None:
    """More operations than entries, from threads of their own, while others read and forget: every entry is whole."""
    import weft

    groups = [dist.new_group(backend="weft") for _ in range(3)]
    stop, problems = threading.Event(), []
    weft.trace.clear()  # what other cases did

    def read() -> None:
        while not stop.is_set():
            for e in weft.flight_recorder.record()["entries"]:
                n = {"gloo:all_reduce": 3, "gloo:broadcast": 5}.get(e["profiling_name"])
                if n is not None and e["input_sizes"] != [[n]]:
                    problems.append(str(e))
                if e["state"] == "completed" and e["time_discovered_completed_ns"] < e["time_created_ns"]:
                    problems.append(str(e))
            weft.trace.clear()

    def work(i: int) -> None:
        for k in range(600):
            if k % 2:
                dist.all_reduce(torch.ones(3), group=groups[i])
            else:
                dist.broadcast(torch.ones(5), 0, group=groups[i], async_op=True).wait()

    reader = threading.Thread(target=read)
    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in [reader, *workers]:
        t.start()
    for t in workers:
        t.join()
    stop.set()
    reader.join()
    assert not problems, problems[:3]
    for group in groups:
        dist.destroy_process_group(group)


# ---- Failures told in several threads at once ----


def a_failure_seen_by_many_threads(g: Groups) -> None:
    """Each gets a whole text, though all of them ask the library at the same time."""
    group = dist.new_group(backend="weft", timeout=timedelta(seconds=120))
    if g.rank == 0:
        dist.barrier(group=g.gloo)
        group._get_backend(CPU).abort()
        dist.barrier(group=g.gloo)
        return
    works = [dist.all_reduce(torch.ones(100 + i), group=group, async_op=True) for i in range(64)]
    texts: list[str] = []

    def wait(work: dist.Work) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            texts.append(str(error))

    threads = [threading.Thread(target=wait, args=(w,)) for w in works]
    for t in threads:
        t.start()
    dist.barrier(group=g.gloo)
    for t in threads:
        t.join()
    dist.barrier(group=g.gloo)
    assert len(texts) == 64, len(texts)
    for text in texts:
        assert f"rank {g.rank} of {g.size}" in text and "all_reduce" in text and text.count("culprit") <= 1, text
    causes = {text.split(" failed: ")[1].split("; issued at")[0] for text in texts}
    assert len(causes) == 1, causes


# ---- Children of fork() ----

FORKED = """
import os, signal, sys, threading, time, torch, torch.distributed as dist
folder, rank, children = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
dist.init_process_group("weft", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
for _ in range(3):
    dist.all_reduce(torch.ones(1000))
open_work = dist.irecv(torch.ones(3), 1 - rank, tag=77)

def done(what): return os.path.exists(folder + "/" + what)

def child_is_interrupted():
    def run():
        signal.signal(signal.SIGINT, lambda *_: None)
        for _ in range(40):  # the parent is inside of its collective at one of them
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
    return run

def child_ends():
    def run():
        sys.exit(0)
    return run

def child_calls():
    def run():
        for call in (lambda: dist.all_reduce(torch.ones(3)), lambda: open_work.wait(), lambda: dist.barrier(),
                     lambda: dist.all_reduce(torch.ones(3), async_op=True)):
            try:
                call()
            except RuntimeError as error:
                assert "forked" in str(error), error
            else:
                raise AssertionError("a child of fork() used its parent's group")
        assert not open_work.is_completed()
        dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).abort()
        dist.destroy_process_group()
        sys.exit(0)
    return run

for what in children:
    if rank == 0:
        run = globals()[what]()
        pid = os.fork()
        if pid == 0:
            run()
            sys.exit(0)
        def reap():
            _, status = os.waitpid(pid, 0)
            open(folder + "/" + what, "w").write(str(status))
        thread = threading.Thread(target=reap)
        thread.start()
        dist.all_reduce(torch.ones(1000))
        thread.join()
        assert open(folder + "/" + what).read() == "0", (what, open(folder + "/" + what).read())
    else:
        while not done(what):
            time.sleep(0.01)
        dist.all_reduce(torch.ones(1000))
    t = torch.ones(5)
    dist.all_reduce(t)
    assert t.tolist() == [2.0] * 5, what
dist.isend(torch.ones(3), 1 - rank, tag=77).wait()
open_work.wait()
dist.barrier()
dist.destroy_process_group()
print("all is well")
"""


def _forked(children: str, transports: str) -> None:
    full = {**os.environ, "WEFT_TRANSPORTS": transports}
    with tempfile.TemporaryDirectory(prefix="weft-torch-") as folder:
        started = [subprocess.Popen([sys.executable, "-c", FORKED, folder, str(r), children], env=full, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for r in range(2)]  # fmt: skip
        try:
            for p in started:
                out, _ = p.communicate(timeout=60 * ranks.SLOW)
                assert p.returncode == 0 and "all is well" in out, (p.returncode, out[-3000:])
        finally:
            for p in started:
                p.kill()


def forked_children(g: Groups) -> None:
    """SIGINT of one is its own; of one that ends the finalisation tells the other ranks nothing; one that calls is told that the
    group is its parent's."""
    if g.rank == 0:
        _forked("child_is_interrupted,child_ends,child_calls", "shm,tcp")


def forked_children_over_tcp(g: Groups) -> None:
    """Their copies of the sockets keep nobody waiting."""
    if g.rank == 0:
        _forked("child_ends,child_calls", "tcp")


LOADER = """
import os, sys, torch, torch.distributed as dist
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): return torch.full((100,), float(i))
rank = int(sys.argv[2])
dist.init_process_group("weft", store=dist.FileStore(sys.argv[1] + "/store", 2), rank=rank, world_size=2)
dist.all_reduce(torch.ones(10))
loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2,
                                     multiprocessing_context="fork", persistent_workers=True)
for _ in range(3):
    total = torch.zeros(100)
    for batch in loader:
        total += batch.sum(0)
        dist.all_reduce(torch.ones(1000), async_op=True).wait()
    dist.all_reduce(total)
    assert total.tolist() == [2.0 * sum(range(64))] * 100
print("ready", flush=True)
if sys.argv[3] == "interrupt":
    for batch in loader:
        if rank == 0:
            dist.all_reduce(torch.ones(1000))  # never complete: rank 1 does not call
        sys.stdin.read()
dist.barrier()
dist.destroy_process_group()
print("end", flush=True)
"""


def _loaders(folder: str, what: str) -> list[subprocess.Popen[str]]:
    env = {**os.environ, "TORCH_DISTRIBUTED_DEBUG": "OFF"}
    return [subprocess.Popen([sys.executable, "-c", LOADER, folder, str(r), what], env=env, text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) for r in range(2)]  # fmt: skip


def data_loader_workers(g: Groups) -> None:
    if g.rank != 0:
        return
    with tempfile.TemporaryDirectory(prefix="weft-torch-") as folder:
        for p in _loaders(folder, "finish"):
            out, errors = p.communicate(timeout=60 * ranks.SLOW)
            assert p.returncode == 0 and "end" in out, (p.returncode, errors[-3000:])
            assert "algorithm" not in errors, errors  # see choices_are_told


def data_loader_workers_and_ctrl_c(g: Groups) -> None:
    """Ctrl-C goes to the whole of a terminal's processes: the rank ends with KeyboardInterrupt, and its workers with it."""
    if g.rank != 0:
        return
    with tempfile.TemporaryDirectory(prefix="weft-torch-") as folder:
        started = _loaders(folder, "interrupt")
        try:
            for p in started:
                assert p.stdout and p.stdout.readline() == "ready\n", p.communicate()[1][-3000:]
            time.sleep(0.5 * ranks.SLOW)  # into the collective; before it, it is interrupted all the same
            os.killpg(started[0].pid, signal.SIGINT)
            _, errors = started[0].communicate(timeout=20 * ranks.SLOW)
            assert "KeyboardInterrupt" in errors, errors[-3000:]
            assert started[1].poll() is None, "the other rank's program has ended"
        finally:
            for p in started:
                os.killpg(p.pid, signal.SIGKILL) if p.poll() is None else None
                p.communicate()


# ---- Threads ----


def a_thread_sends_what_another_one_waits_for(g: Groups) -> None:
    """Rank 0 blocks in a collective, which rank 1 comes to only when it has a message of another thread of rank 0's."""
    for round, n in enumerate([0, 0, 1, 1, 700, 700, 1 << 16, 1 << 16, 1 << 20]):
        total = torch.full((n,), float(g.rank))

        def collective(total: torch.Tensor = total) -> None:
            if total.numel():
                dist.all_reduce(total, group=g.weft)
            else:
                dist.barrier(group=g.weft)

        number = torch.tensor([round + 1])
        if g.rank == 0:
            failures: list[BaseException] = []

            def blocked(failures: list[BaseException] = failures) -> None:
                try:
                    collective()
                except BaseException as error:
                    failures.append(error)

            thread = threading.Thread(target=blocked)
            thread.start()
            time.sleep(0.003 * (round % 3))
            if round % 2:
                dist.send(number, 1, group=g.weft, tag=round)
            else:
                work = dist.isend(number, 1, group=g.weft, tag=round)
                assert work is not None
                work.wait()
            thread.join()
            assert not failures, failures
        else:
            if g.rank == 1:
                got = torch.zeros(1, dtype=torch.int64)
                dist.recv(got, 0, group=g.weft, tag=round)
                assert got.item() == round + 1
            collective()
        want = sum(range(g.size))
        assert torch.equal(total, torch.full((n,), float(want))), (n, total[:4])
    dist.barrier(group=g.gloo)


def an_abort_from_another_thread(g: Groups) -> None:
    """It ends an operation that waits in the calling thread."""
    group = dist.new_group(backend="weft", timeout=timedelta(seconds=100 * ranks.SLOW))
    begun = time.monotonic()
    if g.rank == 0:
        timer = threading.Timer(1, group._get_backend(CPU).abort)
        timer.start()
        with raises(RuntimeError, "aborted"):
            dist.all_reduce(torch.ones(10), group=group)
        timer.join()
    dist.barrier(group=g.gloo)
    assert time.monotonic() - begun < 50 * ranks.SLOW

# ---- Algorithms ----


def algorithms_by_name(g: Groups) -> None:
    """For a group and for calls; what each operation took is in the library's own recorder."""
    import weft

    def took(group: dist.ProcessGroup) -> str:
        return str(weft._C.newest_algorithm(group._get_backend(CPU)))

    given = {"all_reduce": "ring", "broadcast": "chain"}
    for options in (weft.Options(algorithm="all_reduce:ring,broadcast:chain"), weft.Options(algorithm=given)):
        assert options.algorithm == "all_reduce:ring,broadcast:chain", options.algorithm
        group = dist.new_group(backend="weft", pg_options=options)
        t = torch.ones(1000)
        dist.all_reduce(t, group=group)
        assert t.tolist() == [float(g.size)] * 1000 and took(group) == "ring", took(group)
        with weft.algorithm("all_reduce:rdouble"):
            dist.all_reduce(t, group=group, async_op=True).wait()
            assert took(group) == "rdouble", took(group)
            with weft.algorithm("broadcast:knomial"):  # the innermost; for other collectives the group's
                dist.all_reduce(t, group=group)
                assert took(group) == "ring", took(group)
        dist.broadcast(t, 0, group=group)
        assert took(group) == "chain", took(group)
        with _coalesced(group), weft.algorithm("broadcast:knomial"):
            dist.broadcast(t, 0, group=group)
        assert took(group) == "knomial", took(group)

        def suspended(named: str) -> Iterator[None]:
            with weft.algorithm(named):
                yield

        first, second = suspended("all_reduce:rdouble"), suspended("all_reduce:dbtree")
        next(first), next(second)
        first.close()  # in the order in which they were entered
        dist.all_reduce(t, group=group)
        assert took(group) == "dbtree", took(group)
        second.close()
        dist.all_reduce(t, group=group)
        assert took(group) == "ring", took(group)
        dist.destroy_process_group(group)


@contextmanager
def _coalesced(group: dist.ProcessGroup) -> Iterator[None]:
    group._start_coalescing(CPU)
    yield
    group._end_coalescing(CPU).wait()


def algorithms_that_are_wrong(g: Groups) -> None:
    import weft

    wrong = [("all_reduce:rng", "ring"), ("al_reduce:ring", "all_reduce"), ("all_reduce", "without an algorithm"),
             ({"all_reduce": "nothing"}, "no algorithm 'nothing'")]  # fmt: skip
    for given, words in wrong:
        with raises(ValueError, words):
            weft.Options(algorithm=given)
        with raises(ValueError, words), weft.algorithm(given):
            pass
    with raises(TypeError, "all_reduce:ring"):
        weft.Options(algorithm=7)
    with raises(ValueError, "above 0"):
        weft.Options(timeout=timedelta(seconds=-1))
    for keywords, words in (({"timeout": "5"}, "such as timedelta(seconds=30), or None, not '5'"),
                            ({"timeout": 5}, "weft.Options: timeout must be a datetime.timedelta"),
                            ({"timeou": None}, "weft.Options takes timeout and algorithm; not timeou")):  # fmt: skip
        with raises(TypeError, words):
            weft.Options(**keywords)
    with raises(TypeError, "one more was given: 7"):
        weft.Options(None, None, 7)
    with raises(TypeError, "weft.monitored_barrier: timeout must be a datetime.timedelta"):
        weft.monitored_barrier(g.weft, 5)
    with raises(TypeError, "weft.monitored_barrier: wait_all_ranks must be True or False, not 'all'"):
        weft.monitored_barrier(g.weft, None, "all")
    own = weft.Options(timeout=timedelta(seconds=77))
    group = dist.new_group(backend="weft", pg_options=own)
    assert group._get_backend(CPU).options._timeout == timedelta(seconds=77)
    dist.destroy_process_group(group)
    options = weft.Options(algorithm="all_reduce:ring" if g.rank == 0 else "all_reduce:rdouble")
    with raises(RuntimeError, "the same on all ranks"):
        dist.new_group(backend="weft", pg_options=options)


CHOICES = """
import sys, torch, torch.distributed as dist
rank = int(sys.argv[2])
dist.init_process_group("weft", store=dist.FileStore(sys.argv[1] + "/store", 2), rank=rank, world_size=2)
for _ in range(3):
    dist.all_reduce(torch.ones(1000)); dist.all_reduce(torch.ones(1 << 18)); dist.broadcast(torch.ones(3), 0, async_op=True).wait()
dist.destroy_process_group()
"""


def choices_are_told(g: Groups) -> None:
    """With TORCH_DISTRIBUTED_DEBUG=INFO rank 0 says once for each size class what it took; data_loader_workers has it that nobody
    says anything without."""
    if g.rank != 0:
        return
    env = {**os.environ, "TORCH_DISTRIBUTED_DEBUG": "INFO"}
    with tempfile.TemporaryDirectory(prefix="weft-torch-") as folder:
        started = [subprocess.Popen([sys.executable, "-c", CHOICES, folder, str(r)], env=env, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for r in range(2)]  # fmt: skip
        said = [p.communicate(timeout=60 * ranks.SLOW)[0] for p in started]
        assert all(p.returncode == 0 for p in started), said
    lines = [[line for line in text.splitlines() if "algorithm" in line] for text in said]
    assert lines[1] == [], lines[1]
    assert len(lines[0]) == 3, lines[0]
    expected = ("all_reduce of 2048 to 4095 bytes", "all_reduce of 1048576 to", "broadcast of 8 to 15")
    for line, words in zip(lines[0], expected, strict=True):
        assert words in line and "2 of 2 ranks" in line and "shm" in line, (words, line)


CASES = [results_are_let_go_when_waited_for, results_are_let_go_by_a_future, options_are_each_groups_own, groups_with_a_device,
         wrong_types_and_sizes_of_memory, memory_that_cannot_be_registered, records_are_their_operations_own,
         records_of_many_threads, a_failure_seen_by_many_threads, a_thread_sends_what_another_one_waits_for,
         an_abort_from_another_thread, algorithms_by_name, algorithms_that_are_wrong]  # fmt: skip
#: They start programs of their own, of two ranks: once is enough.
PROGRAMS = [forked_children, forked_children_over_tcp, data_loader_workers, data_loader_workers_and_ctrl_c, choices_are_told]

if __name__ == "__main__":
    ranks.main(CASES, {"TORCH_FR_BUFFER_SIZE": "16"}, PROGRAMS)
