#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's distributed stack on weft, with results equal to Gloo's.

    integration.py                  every case on gloo and weft, compared rank by rank
    integration.py --quick          without those that take half a minute
    integration.py --only fsdp      cases whose names match
    integration.py --all            also the cases that weft is known not to manage yet
    integration.py --backend gloo   compare Gloo with itself (checks the cases)

Results must be equal bit for bit where the order of the arithmetic is the same (two ranks; no reduction), else to
rounding. Cases that Gloo cannot do check themselves.
"""

import argparse
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def differences(ours, theirs, exact, where=""):
    """Yield a line for everything in which two nested results differ."""
    import torch

    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, torch.Tensor) or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            yield f"{where}: {ours!r} is not like {theirs!r}"
        elif exact and not torch.equal(ours, theirs):
            yield f"{where}: not equal bit for bit, largest difference {(ours - theirs).abs().max()}"
        elif not exact and not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5):
            yield f"{where}: largest difference {(ours - theirs).abs().max()}"
    elif isinstance(theirs, dict):
        if set(ours) != set(theirs):
            yield f"{where}: keys {sorted(ours)} instead of {sorted(theirs)}"
        for key in set(ours) & set(theirs):
            yield from differences(ours[key], theirs[key], exact, f"{where}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            yield f"{where}: {len(ours)} items instead of {len(theirs)}"
        for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            yield from differences(a, b, exact, f"{where}[{i}]")
    elif isinstance(theirs, float) and not exact:
        if abs(ours - theirs) > 1e-4 * max(1.0, abs(theirs)):
            yield f"{where}: {ours} instead of {theirs}"
    elif ours != theirs:
        yield f"{where}: {ours!r} instead of {theirs!r}"


def compare(case, backend):
    """Run one case on both backends; return the lines that say what is wrong."""
    import integration_ranks

    try:
        ours = integration_ranks.run(case.fn, backend, case.world, case.deadline)
    except integration_ranks.RanksFailed as failed:
        return [f"on {backend}: {failed}"]
    if not case.gloo:
        return []
    try:
        theirs = integration_ranks.run(case.fn, "gloo", case.world, case.deadline)
    except integration_ranks.RanksFailed as failed:
        return [f"on gloo: {failed}"]
    return list(differences(ours, theirs, case.exact, "rank"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression on the case's name")
    parser.add_argument("--quick", action="store_true", help="without the cases that take long")
    parser.add_argument("--all", action="store_true", help="also what weft is known to lack")
    parser.add_argument("--backend", default="weft")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    import integration_cases
    import integration_ops  # noqa: F401  adds its cases
    import integration_sharded  # noqa: F401

    failed, left_out = [], 0
    cases = [case for case in integration_cases.CASES if re.search(options.only, case.name)]
    if options.quick:
        cases = [case for case in cases if not case.slow]
    if options.backend == "gloo":
        cases = [case for case in cases if case.gloo]
    print(f"1..{len(cases)}", flush=True)
    for case in cases:
        if case.missing and options.backend == "weft" and not options.all:
            print(f"ok {case.name} # SKIP {case.missing}", flush=True)
            left_out += 1
            continue
        start = time.monotonic()
        wrong = compare(case, options.backend)
        against = ("equal to gloo's " + ("bit for bit" if case.exact else "to rounding")) if case.gloo else "as computed"
        print(f"{'not ok' if wrong else 'ok'} {case.name}: {case.world} ranks, {against}, "
              f"{time.monotonic() - start:.1f} s", flush=True)
        for line in wrong[:5]:
            print("     " + line.replace("\n", "\n     "))
        failed += [case.name] if wrong else []
    print(f"integration: torch {torch.__version__}, {len(cases) - len(failed) - left_out} of {len(cases)} cases passed"
          + (f", {left_out} left out because weft cannot do them yet" if left_out else "")
          + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
