# SPDX-License-Identifier: BSD-3-Clause
"""weft.mesh and weft.topology: ranks that are badly placed over (named) nodes, what is refused, real groups along each axis."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True
if "--rank" in sys.argv:  # before the library looks: rank r is on node r % 2
    os.environ["WEFT_NODE_ID"] = f"node{int(sys.argv[sys.argv.index('--rank') + 1]) % 2}"
import ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import weft  # noqa: E402
from ranks import Groups  # noqa: E402


def raises(kind: type[Exception], words: str, call) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"nothing was raised: {words}")


def wrong_axes_are_refused(g: Groups) -> None:
    raises(ValueError, "no axes", lambda: weft.mesh())
    raises(ValueError, "dp=3 * tp=2 makes 6 ranks, the group has 4", lambda: weft.mesh(dp=3, tp=2))
    raises(ValueError, "4 ranks are not divisible by tp=3, so that dp", lambda: weft.mesh(dp=-1, tp=3))
    raises(ValueError, "dp and tp are -1", lambda: weft.mesh(dp=-1, tp=-1))
    raises(ValueError, "tp=0", lambda: weft.mesh(dp=4, tp=0))
    raises(ValueError, "tp='2'", lambda: weft.mesh(dp=2, tp="2"))
    raises(ValueError, "along sp exchange", lambda: weft.mesh(dp=2, sp=2))
    raises(ValueError, "traffic of cp, which is not an axis", lambda: weft.mesh(dp=2, tp=2, traffic={"cp": 1}))
    raises(ValueError, "traffic of 0 for tp", lambda: weft.mesh(dp=2, tp=2, traffic={"tp": 0}))
    raises(RuntimeError, 'rank 1 on host node1 wants another mesh', lambda: weft.mesh(**({"dp": 2, "tp": 2} if g.rank != 1 else {"tp": 2, "dp": 2})))  # fmt: skip  # noqa: E501
    raises(RuntimeError, '"yaml" is no format', lambda: weft.topology(format="yaml"))
    raises(ValueError, "is gloo, not weft", lambda: weft.topology(g.gloo))


def pairs_share_a_node(g: Groups) -> None:
    raises(ValueError, "is gloo, not weft", lambda: weft.peers(g.gloo))
    peers = weft.peers()
    assert [p.rank for p in peers] == [0, 1, 2, 3] and [p.node for p in peers] == [0, 1, 0, 1], peers
    assert [p.transport for p in peers if p.rank != g.rank] == ["shm"] * 3 and not any(p.left_out for p in peers), peers
    mesh = weft.mesh(dp=-1, tp=2)
    assert mesh.mesh_dim_names == ("dp", "tp") and mesh.mesh.tolist() == [[0, 2], [1, 3]], mesh
    assert "tp: 2 ranks, traffic 64: within one node" in mesh.weft_reasons, mesh.weft_reasons
    assert "dp: 2 ranks, traffic 4: across nodes" in mesh.weft_reasons, mesh.weft_reasons
    for name, with_me in (("tp", (g.rank + 2) % 4), ("dp", g.rank ^ 1)):
        group = mesh[name].get_group()
        assert sorted(dist.get_process_group_ranks(group)) == sorted([g.rank, with_me]), (name, group)
        x = torch.tensor([float(g.rank)])
        dist.all_reduce(x, group=group)
        assert x.item() == g.rank + with_me, (name, x)


def traffic_overrides(g: Groups) -> None:
    mesh = weft.mesh(dp=2, tp=2, traffic={"dp": 1000, "tp": 1})
    assert mesh.mesh.t().tolist() == [[0, 2], [1, 3]], mesh
    named = weft.mesh(mine=4, traffic={"mine": 3})
    assert sorted(named.mesh.tolist()) == [0, 1, 2, 3] and named.mesh_dim_names == ("mine",), named
    five = weft.mesh(pp=1, dp=2, cp=1, ep=1, tp=2)
    assert five.mesh.shape == (1, 2, 1, 1, 2) and five.mesh.flatten().tolist() == [0, 2, 1, 3], five


def verbose_prints_on_rank_0(g: Groups) -> None:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        mesh = weft.mesh(dp=2, tp=2, verbose=True)
    assert out.getvalue() == (mesh.weft_reasons if g.rank == 0 else ""), out.getvalue()
    everywhere: list[str] = [""] * g.size
    dist.all_gather_object(everywhere, mesh.weft_reasons, group=g.gloo)
    assert everywhere == [mesh.weft_reasons] * g.size, everywhere


def topologies_are_told(g: Groups) -> None:
    hosts = [o["name"] for o in json.loads(weft.topology(format="json"))["objects"] if o["kind"] == "host"]
    assert hosts == ["node0", "node1"], hosts
    assert "node1" in weft.topology(g.weft) and weft.topology(format="xml").startswith("<?xml")


CASES = [wrong_axes_are_refused, pairs_share_a_node, traffic_overrides, verbose_prints_on_rank_0, topologies_are_told]

if __name__ == "__main__":
    ranks.main(CASES)
