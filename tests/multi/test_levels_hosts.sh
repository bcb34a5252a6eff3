#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Hierarchical algorithms across hosts (network namespaces): 2 and 4 hosts of two ranks, dealt out. weft-bench compares every element
# of every result.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/hosts.sh"
bench=${WEFT_BUILDDIR:?}/weft-bench
work=$(mktemp -d)
number=0 failed=0

# run HOSTS COLLECTIVE SPEC [bench options]: two ranks on each of the first HOSTS hosts, within 30 s.
run() {
    local count=$1 coll=$2 spec=$3 rank pids=() bad=0
    local nranks=$((2 * count))
    shift 3
    for ((rank = 0; rank < nranks; rank++)); do
        RANK=$rank WORLD_SIZE=$nranks LOCAL_RANK=$((rank / count)) LOCAL_WORLD_SIZE=2 \
            MASTER_ADDR=$(hosts_address 0) MASTER_PORT=$((29500 + number)) WEFT_COMM_TIMEOUT=20s \
            hosts_on $((rank % count)) timeout 30 "$bench" -C "$coll" --algo "$spec" -b 20 -e 3M -f 53 -n 1 -w 0 "$@" \
            >"$work/$rank" 2>&1 &
        pids+=($!)
    done
    for ((rank = 0; rank < nranks; rank++)); do
        wait "${pids[$rank]}" || bad=$((bad + 1))
    done
    number=$((number + 1))
    if [ "$bad" -eq 0 ]; then
        echo "ok $number - $count hosts, $coll $spec"
    else
        echo "not ok $number - $count hosts, $coll $spec"
        sed 's/^/# /' "$work"/[0-7] | grep -v '^# *$' | tail -20
        failed=1
    fi
}

hosts_create 4
trap 'hosts_remove; rm -rf "$work"' EXIT
for count in 2 4; do
    run "$count" all_reduce node:ring
    run "$count" all_reduce node:swing@leader*2/bine --op avg
    run "$count" all_gather node:pat
    run "$count" reduce_scatter node:ring
done
run 4 broadcast node:bine@leader -r 1
echo "1..$number"
exit $failed
