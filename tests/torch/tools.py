# SPDX-License-Identifier: BSD-3-Clause
"""weft as PyTorch's tools see it, and the tools that the package brings."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
import ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from ranks import Groups  # noqa: E402


def profiler_shows_operations(g: Groups) -> None:
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(3, 5)
    big = torch.ones(1 << 20)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        dist.all_reduce(x, group=g.weft)
        work = dist.all_reduce(big, group=g.weft, async_op=True)
        work.wait()
        dist.barrier(group=g.weft)
    with tempfile.TemporaryDirectory() as folder:
        p.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(f"{folder}/trace.json").read_text())["traceEvents"]
    ours = [e for e in events if e.get("name") == "weft:all_reduce"]
    assert [e["args"]["Input Dims"] for e in ours] == [[[3, 5]], [[1 << 20]]], ours
    assert all(e["dur"] > 0 for e in ours), ours
    assert any(e.get("name") == "weft:barrier" for e in events)
    comms = [e["args"] for e in events if e.get("name") == "record_param_comms"]
    first = next(a for a in comms if a["Collective name"] == "all_reduce")
    assert first["dtype"] == "Float" and first["In msg nelems"] == 15 and first["Group size"] == g.size, first
    assert first["Process Group Name"] == g.weft.group_name, first


def flight_recorder_reads(g: Groups) -> None:
    import weft

    weft.trace.clear()
    dist.all_reduce(torch.ones(3, 5), group=g.weft)
    dist.all_gather_into_tensor(torch.empty(4 * g.size, dtype=torch.int64), torch.ones(4, dtype=torch.int64), group=g.weft)
    with weft.trace.paused():
        dist.all_reduce(torch.ones(7), group=g.weft)
    if g.rank == 0:
        dist.send(torch.ones(9), 1, group=g.weft)
    elif g.rank == 1:
        dist.recv(torch.ones(9), 0, group=g.weft)
    record = json.loads(weft.flight_recorder.dump_json())
    names = [e["profiling_name"] for e in record["entries"]]
    message = {0: ["gloo:send 0->1"], 1: ["gloo:recv 1<-0"]}.get(g.rank, [])
    assert names == ["gloo:all_reduce", "gloo:_all_gather_base", *message], names
    first, second = record["entries"][:2]
    assert first["input_sizes"] == [[3, 5]] and first["input_dtypes"] == ["Float"] and first["state"] == "completed"
    assert second["output_sizes"] == [[4 * g.size]] and second["collective_seq_id"] == first["collective_seq_id"] + 1
    assert first["backend"] == "weft" and first["time_discovered_completed_ns"] >= first["time_created_ns"] > 1.6e18


def analyzer_finds_who_is_missing(g: Groups) -> None:
    """Rank 1 leaves an operation out; PyTorch's program reads the dumps of all ranks and names it."""
    from datetime import timedelta

    import weft

    folder: list[object] = [tempfile.mkdtemp(prefix="weft-fr-") if g.rank == 0 else None]
    dist.broadcast_object_list(folder, 0, group=g.gloo)
    weft.trace.clear()
    group = dist.new_group(backend="weft", timeout=timedelta(seconds=1))
    dist.all_reduce(torch.ones(3), group=group)
    if g.rank != 1:
        try:
            dist.all_reduce(torch.ones(100), group=group)
        except RuntimeError as error:
            assert "rank 1" in str(error), error
        else:
            raise AssertionError("a rank did not take part, and nobody noticed")
    weft.flight_recorder.dump(f"{folder[0]}/rank_")
    dist.barrier(group=g.gloo)
    if g.rank == 0:
        done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "-p", "rank_", str(folder[0])],
                              capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        said = done.stdout + done.stderr
        assert "gloo:all_reduce" in said and "missing ranks: {1}" in said and "[[100]]" in said, said


def failure_writes_the_recorder(g: Groups) -> None:
    """With TORCH_FR_DUMP_TEMP_FILE (set for all ranks of this test) the failure above has been written by itself."""
    written = Path(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(g.rank))
    assert g.rank == 1 or written.exists(), written


def groups_with_a_cpu_backend_each(g: Groups) -> None:
    import weft

    try:
        weft.monitored_barrier(g.gloo)
    except ValueError as error:
        assert "gloo, not weft" in str(error)
    else:
        raise AssertionError("a Gloo group was taken for a weft one")


def info_and_bench(g: Groups) -> None:
    import weft
    from weft.bench import OPERATIONS, bench

    known = weft.info()
    assert known.torch == torch.__version__ and "shm" in known.transports and len(known.algorithms) > 20
    assert known.security == "store" and "as private as PyTorch's store" in str(known)
    assert not known.insecure and "WEFT_INSECURE" not in str(known)
    assert any(s.name == "WEFT_COMM_TIMEOUT" for s in known.settings) and known.version in str(known)
    for operation in OPERATIONS:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rows = bench(operation, 8, 4096, 512, 0.01)
        assert rows and all(r.time_us > 0 for r in rows)
        assert g.rank != 0 or operation in out.getvalue()


def info_of_keys(g: Groups) -> None:
    """What is wrong with a key is said as weft-info does, and so are names that look like one."""
    if g.rank != 0:
        return
    script = "import weft; i = weft.info(); print(i.security, i.insecure, i.refusal); print(i)"
    cases = [({"WEFT_JOB_KEY": "hello"}, "refused False WEFT_JOB_KEY holds 5 characters", "security: WEFT_JOB_KEY holds 5"),
             ({"WEFT_JOB_KEY": "ab" * 32}, "key False", "security: a job key is configured"),
             ({"WEFT_JOBKEY": "x"}, "store False", "WEFT_JOBKEY (environment) is not a setting; did you mean WEFT_")]  # fmt: skip
    for given, first, somewhere in cases:
        env = {**os.environ, **given}
        ran = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=200)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith(first) and somewhere in ran.stdout, (first, somewhere, ran.stdout)


def fully_shard_in_transport_memory(g: Groups) -> None:
    import weft
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(g.weft, "cpu")
    losses = []
    for use in (None, weft.fsdp.use_transport_memory, weft.fsdp.use_group_memory):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
        if use:
            use(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(g.rank)
        x = torch.randn(16, 64)
        for _ in range(3):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[0] == losses[1] == losses[2], losses
    assert weft.mem.reserved() > 0


def ddp_in_transport_memory(g: Groups) -> None:
    """The same losses as DDP by itself, with buckets that are laid out anew after the first step."""
    import weft
    from torch.nn.parallel import DistributedDataParallel

    losses = []
    for use in (False, True):
        torch.manual_seed(1)
        layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
        model = DistributedDataParallel(layers, process_group=g.weft, bucket_cap_mb=0.6)
        if use:
            weft.ddp.use_transport_memory(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(g.rank)
        for _ in range(4):
            loss = model(torch.randn(16, 256)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[:4] == losses[4:], losses
    assert len(set(losses)) == 4, losses


def debug_levels(g: Groups) -> None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: torch's wrapper checks each collective, and names the rank that differs."""
    program = """
import sys, torch, torch.distributed as dist
rank = int(sys.argv[2])
dist.init_process_group("weft", store=dist.FileStore(sys.argv[1], 2), rank=rank, world_size=2)
dist.all_reduce(torch.ones(4)); dist.barrier()
import weft; weft.monitored_barrier()
try:
    dist.all_reduce(torch.ones(4 + rank))
except RuntimeError as error:
    assert "mismatch" in str(error), error
    print("noticed")
"""
    if g.rank != 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
        started = [subprocess.Popen([sys.executable, "-c", program, f"{folder}/store", str(r)], env=env, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for r in range(2)]  # fmt: skip
        for p in started:
            out, _ = p.communicate(timeout=100)
            assert "noticed" in out, out


CASES = [profiler_shows_operations, flight_recorder_reads, analyzer_finds_who_is_missing, failure_writes_the_recorder,
         groups_with_a_cpu_backend_each, info_and_bench, info_of_keys, fully_shard_in_transport_memory, ddp_in_transport_memory,
         debug_levels]  # fmt: skip

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="weft-fr-") as dumps:
        ranks.main(CASES, {"TORCH_FR_DUMP_TEMP_FILE": f"{dumps}/failed_"})
