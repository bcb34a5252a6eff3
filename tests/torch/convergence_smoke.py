# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of convergence, small: its runs, what it writes, and how it judges."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))
sys.dont_write_bytecode = True
import convergence  # noqa: E402
from line_plot import Panel, svg  # noqa: E402


def run(*arguments: object) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = convergence.main([str(a) for a in arguments])
    return status, said.getvalue()


def made_up(codec: str, *losses: float | None) -> list[dict]:
    return [{"codec": codec, "seed": seed, "curve": [[0, 3.0], [9, loss]]} for seed, loss in enumerate(losses)]


def judgement() -> None:
    """One standard deviation of the uncompressed runs, which is 0.1 here, on either side; seeds are paired."""
    runs = [*made_up("none", 1.0, 1.1, 1.2), *made_up("int8", 1.09, 1.19, 1.29), *made_up("int4:ef=1", 1.11, 1.21, 1.31),
            *made_up("sign:ef=1", 0.8, 0.9, 1.0), *made_up("sign", 2.0, None, 2.0), *made_up("int4", 1.2, 1.3)]
    plain, int8, int4, sign, bare, partial = convergence.verdicts(runs, True)
    assert abs(plain.allowed - 0.1) < 1e-9 and plain.words() == "" and not plain.judged
    assert int8.within and int8.judged and int8.words() == "within"
    assert not int4.within and int4.judged and int4.words() == "worse"
    assert not sign.within and sign.words() == "better"
    assert not bare.within and not bare.judged and bare.words() == "diverged"
    assert abs(partial.difference - 0.2) < 1e-9 and partial.seeds == 2 and partial.words() == "worse (not judged)"
    assert not any(v.judged for v in convergence.verdicts(runs, False))
    assert not convergence.is_judged("sign:ef=0") and convergence.is_judged("sign:ef=loco") and convergence.is_judged("e4m3")
    lone = convergence.verdicts([*made_up("none", 1.0), *made_up("int8", 1.0)], True)[1]
    assert lone.words() == "too few uncompressed runs to tell" and not lone.within
    assert all(math.isnan(v.allowed) and not v.within for v in convergence.verdicts(made_up("none", 1.0), True))


def picture() -> None:
    """Well formed; a curve that leaves the axes stays within the picture, and what is not finite is left out."""
    curves = {"a<b": [(0, 2.0), (1, 1.0), (2, math.nan)], "c": [(0, 2.0), (1, 1e9), (2, 0.5)]}
    root = ElementTree.fromstring(svg([Panel("x & y", curves)], "step", ["c"]))
    height = float(root.get("height"))
    lines = [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in root.iter() if e.tag.endswith("polyline")]
    assert [len(line) for line in lines] == [2, 3]
    assert all(0 <= y <= height for line in lines for _, y in line)
    assert lines[0][0][1] < lines[0][1][1], "smaller losses are not lower"
    ElementTree.fromstring(svg([Panel("nothing", {})], "step"))


def small_runs() -> None:
    with tempfile.TemporaryDirectory() as folder:
        common = ("--out", folder, "--tasks", "lm", "--ranks", 2, "--seeds", 2, "--steps", 12, "--rows", 4, "--limit", 100)
        status, said = run(*common, "sign", "int44")
        if status == 77:
            print(f"ok - small runs # SKIP {said.strip()}")
            return
        assert status == 0 and 'SKIP: int44: ' in said and 'did you mean "int4"' in said, said
        found = json.loads(Path(folder, "convergence.json").read_text())["lm"]
        finals = {(r["codec"], r["seed"]): r["curve"][-1] for r in found["runs"]}
        assert set(finals) == {(c, s) for c in ("none", "sign") for s in (0, 1)}
        assert all(step == 12 and 2 < loss < 4.8 for step, loss in finals.values()), finals
        assert len({loss for _, loss in finals.values()}) == 4, "a codec or a seed changed nothing"
        starts = {(r["codec"], r["seed"]): r["curve"][0][1] for r in found["runs"]}
        assert starts["none", 0] == starts["sign", 0] != starts["none", 1], "runs of a seed do not begin alike"
        assert "| sign | 2 |" in Path(folder, "convergence-table.md").read_text()
        ElementTree.parse(Path(folder, "convergence.svg"))
        _, again = run(*common, "sign")
        assert "lm, seed" in said and "lm, seed" not in again, "runs were repeated"
        with contextlib.suppress(SystemExit):
            run(*common, "--steps", 13)
            raise AssertionError("runs of another number of steps were mixed")


for number, case in enumerate((judgement, picture, small_runs), 1):
    case()
    print(f"ok {number} - {case.__name__}", flush=True)
print("1..3")
