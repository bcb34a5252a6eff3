#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Hierarchical algorithms for real: five ranks on two "hosts" (names that WEFT_NODE_ID gives them, so that shared memory serves
# the ranks of one and TCP those of both), dealt out, 3 + 2. weft-bench compares every element of every result.
set -u
bench=${WEFT_BUILDDIR:?}/weft-bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0 failed=0

# run COLLECTIVE SPEC [bench options]: all ranks, within 30 s.
run() {
    local coll=$1 spec=$2 rank pids=() bad=0 port
    shift 2
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    for rank in 0 1 2 3 4; do
        RANK=$rank WORLD_SIZE=5 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=5 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            WEFT_NODE_ID=host$((rank % 2)) WEFT_COMM_TIMEOUT=20s \
            timeout 30 "$bench" -C "$coll" --algo "$spec" -b 20 -e 3M -f 53 -n 1 -w 0 "$@" >"$work/$rank" 2>&1 &
        pids+=($!)
    done
    for rank in 0 1 2 3 4; do
        wait "${pids[$rank]}" || bad=$((bad + 1))
    done
    number=$((number + 1))
    if [ "$bad" -eq 0 ]; then
        echo "ok $number - $coll $spec"
    else
        echo "not ok $number - $coll $spec"
        sed 's/^/# /' "$work"/[0-4] | grep -v '^# *$' | tail -20
        failed=1
    fi
}

run all_reduce node:ring
run all_reduce node:ring*3/ring --op avg
run all_reduce node:rhalving/pairwise+rdouble
run all_reduce node:flat_send@leader*2/knomial
run reduce node:rsgather -r all
run reduce node:linear@leader -r all --op avg
run broadcast node:scatter_ring*2 -r all
run broadcast node:knomial@leader -r all
run all_gather node:ring/bruck
run all_gather node:linear@leader
run reduce_scatter node:ring --op avg
run reduce_scatter node:pairwise@leader
run all_to_all node:pairwise --place out
run barrier node:dissem
run barrier node:dissem@leader
run all_gather_v node:ring
echo "1..$number"
exit $failed
