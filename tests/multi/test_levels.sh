#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Hierarchical algorithms for real: five ranks on two "hosts" (names that WEFT_NODE_ID and WEFT_SHM_NODE_ID give them, so that shared
# memory serves the ranks of one and TCP those of both), dealt out, 3 + 2. weft-bench compares every element of every result.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/levels.sh"
trap levels_clean EXIT

levels_start() {
    local rank=$1 nranks=$2
    shift 2
    LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$nranks MASTER_ADDR=127.0.0.1 WEFT_NODE_ID=host$((rank % 2)) \
        WEFT_SHM_NODE_ID=host$((rank % 2)) "$@"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# run COLLECTIVE SPEC [bench options]
run() {
    levels_run "" 5 "$(free_port)" "$@"
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
run all_to_all node:linear@leader --place out
run all_to_all_v node:pairwise
run all_to_all_v node:linear@leader
run barrier node:dissem
run barrier node:dissem@leader
run all_gather_v node:ring
run reduce_scatter_v node:ring --op avg
run reduce_scatter_v node:linear@leader
# Inside the hosts through slots, in fragments that follow each other through the stages.
run all_reduce node:ring/flat
run all_reduce node:ring/flat --op avg
run all_reduce node:rdouble@leader/flat2
run reduce node:rsgather/flat -r all
run reduce node:linear@leader/flat2 -r all --op avg
run broadcast node:scatter_ring/flat -r all
run broadcast node:knomial@leader/flat -r all
run all_gather node:ring/flat
run all_gather node:linear@leader/flat
run reduce_scatter node:ring/flat --op avg
run reduce_scatter node:pairwise@leader/flat
run barrier node:dissem/flat
run barrier node:dissem@leader/flat
run all_gather_v node:ring/flat
run reduce_scatter_v node:ring/flat --op avg
run reduce_scatter_v node:linear@leader/flat

# Which stages a job of 2 x 4 ranks takes is in its log.
levels_start() {
    local rank=$1 nranks=$2
    shift 2
    LOCAL_RANK=$((rank % 4)) LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 WEFT_NODE_ID=host$((rank / 4)) \
        WEFT_SHM_NODE_ID=host$((rank / 4)) WEFT_LOG=info "$@"
}
levels_run "2 x 4: " 8 "$(free_port)" all_reduce node:ring/flat
stages_logged() { # TEXT: a line of rank 0's
    levels_number=$((levels_number + 1))
    if grep -qE "$1" "$levels_work/0"; then
        echo "ok $levels_number - the log says $1"
    else
        echo "not ok $levels_number - the log says $1"
        grep plan "$levels_work/0" | sed 's/^/# /'
        levels_failed=1
    fi
}
parts="before, reduce_scatter flat of 4 ranks through slots; messages; after, all_gather flat of 4 ranks"
stages_logged "plan.stages.*all_reduce node:ring/flat in stages: $parts"
stages_logged "plan.stages.*all_reduce node:ring/flat in stages, in place: $parts"
stages_logged "plan.fragments.*all_reduce node:ring/flat: [0-9]+ bytes in ([2-9]|[1-9][0-9]+) fragments of [0-9]+"
stages_logged "plan.fragments.*all_reduce node:ring/flat, in place: [0-9]+ bytes in "

# The last fragment is about as long as the others, whatever the slots hold.
export WEFT_SHM_STAGE_SLOT_BYTES=128K
levels_run "2 x 4, slots of 128K: " 8 "$(free_port)" all_reduce node:ring/flat
levels_number=$((levels_number + 1))
uneven=$(sed -nE 's/.*plan.fragments.* ([0-9]+) bytes in ([0-9]+) fragments of ([0-9]+)$/\1 \2 \3/p' "$levels_work/0" |
    awk '{ n++; if ($2 * $3 - $1 >= 1024 * $2) print } END { if (!n) print "no line" }')
echo "${uneven:+not }ok $levels_number - fragments are about equal"
[ -z "$uneven" ] || { echo "# total, number, length: $uneven" && levels_failed=1; }
levels_end
