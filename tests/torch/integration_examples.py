#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run every example of examples/torch under torchrun; each asserts that its loss falls.

    integration_examples.py [--backend weft] [--only NAME]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "torch")
DEADLINE = 150

# name, ranks, arguments; "{folder}" is one folder for the whole run
RUNS = [
    ("ddp", 2, []),
    ("ddp_compressed", 2, []),
    ("ddp_compressed", 4, ["--codec", "sign:block=64"]),
    ("fsdp2", 2, []),
    ("fsdp2", 2, ["--bf16", "1"]),
    ("fsdp2", 4, ["--replicas", "2"]),
    ("tensor_parallel", 2, []),
    ("pipeline_1f1b", 2, []),
    ("pipeline_1f1b", 2, ["--schedule", "gpipe"]),
    ("pipeline_1f1b", 2, ["--schedule", "interleaved"]),
    ("moe_expert_parallel", 2, []),
    ("moe_expert_parallel", 4, []),
    ("context_parallel", 2, []),
    ("three_d", 8, []),
    ("checkpoint", 4, ["--folder", "{folder}"]),
    ("checkpoint", 2, ["--folder", "{folder}", "--load", "1"]),
    ("elastic_torchrun", 2, []),
    ("zero3", 2, []),
    ("zero3", 4, ["--stage", "2", "--bf16", "1"]),
    ("zero3_offload", 2, []),
    ("zero3_offload", 2, ["--keep", "states", "--backend", "gloo"]),
]

OF_WEFT = ("ddp_compressed",)  # what others cannot run


def command(name, ranks, arguments, backend, folder):
    arguments = [a.format(folder=folder) for a in arguments] + ["--backend", backend]
    if os.path.exists(os.path.join(EXAMPLES, name + ".sh")):
        return [os.path.join(EXAMPLES, name + ".sh"), *arguments]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
            os.path.join(EXAMPLES, name + ".py"), *arguments]


def run(arguments, env):
    """Run one example; return (ok, output). On the deadline its whole process group is ended."""
    child = subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", start_new_session=True)
    try:
        output, _ = child.communicate(timeout=DEADLINE)
        return child.returncode == 0, output
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 15)  # torchrun passes it on to its workers
        try:
            output, _ = child.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            output, _ = child.communicate()
        return False, output + f"\ndid not end within {DEADLINE} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--only", default="", help="regular expression on the example's name")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    folder, failed, runs = tempfile.mkdtemp(), 0, [r for r in RUNS if re.search(options.only, r[0])]
    if options.backend != "weft":
        runs = [r for r in runs if r[0] not in OF_WEFT]
    print(f"1..{len(runs)}", flush=True)
    try:
        for name, ranks, arguments in runs:
            start = time.monotonic()
            ok, output = run(command(name, ranks, arguments, options.backend, folder), env)
            said = [line for line in output.splitlines() if "loss" in line and "->" in line]
            ok = ok and len(said) == 1  # an example that says nothing proves nothing
            failed += not ok
            print(f"{'ok' if ok else 'not ok'} {name} {' '.join(arguments).format(folder='DIR')}: "
                  f"{said[0] if said else 'no loss printed'} ({time.monotonic() - start:.0f} s)", flush=True)
            if not ok:
                print("\n".join("     " + line for line in output.splitlines()[-40:]))
    finally:
        shutil.rmtree(folder)
    print(f"examples: {len(runs) - failed} of {len(runs)} passed on {options.backend}")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
