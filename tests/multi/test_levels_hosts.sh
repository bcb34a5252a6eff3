#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Hierarchical algorithms across hosts (network namespaces): 2 and 4 hosts of two ranks, dealt out. weft-bench compares every element
# of every result.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/hosts.sh"
. "$WEFT_SRCDIR/tests/harness/levels.sh"

levels_start() {
    local rank=$1 count=$(($2 / 2))
    shift 2
    LOCAL_RANK=$((rank / count)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=$(hosts_address 0) hosts_on $((rank % count)) "$@"
}

# run HOSTS COLLECTIVE SPEC [bench options]: two ranks on each of the first HOSTS hosts.
run() {
    local count=$1
    shift
    levels_run "$count hosts, " $((2 * count)) $((29500 + levels_number)) "$@"
}

hosts_create 4
export WEFT_JOB_KEY=$("${WEFT_BUILDDIR:?}/weft-run" --make-key -)
trap 'hosts_remove; levels_clean' EXIT
for count in 2 4; do
    run "$count" all_reduce node:ring
    run "$count" all_reduce node:swing@leader*2/bine --op avg
    run "$count" all_gather node:pat
    run "$count" reduce_scatter node:ring
    run "$count" all_to_all_v node:pairwise
done
run 4 broadcast node:bine@leader -r 1
levels_end
