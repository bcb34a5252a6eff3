#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Under Slurm, as it starts ranks: munge, slurmctld and four slurmd of this test. First four nodes of this host, whose names do not
# resolve, then four hosts.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
. "$WEFT_SRCDIR/tests/harness/slurm.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
folder=$tap_dir slow=${WEFT_TEST_SLOW:-1}
mkdir -m 755 "$folder/plugins"
for plugin in shm tcp pmix; do [ -e .libs/$plugin.so ] && cp .libs/$plugin.so "$folder/plugins"; done
export WEFT_PLUGIN_PATH=$folder/plugins
unset WEFT_MANAGER WEFT_JOB_KEY WEFT_STORE_ADDR
key=$(printf 'a key of the test %s' $$ | sha256sum | cut -d' ' -f1)
# What ranks say that they have met by.
declare -A by=([none]="" [pmi2]="bootstrap.manager: pmi: rank" [pmix]="bootstrap.manager: pmix: rank")

# bench MPI SETTING=VALUE... -- ARGUMENTS of srun: four ranks reduce, right, and have met as this manager's do.
bench() {
    local mpi=$1 settings=()
    shift
    while [ "$1" != -- ]; do settings+=("$1") && shift; done
    shift
    slurm_run env WEFT_LOG=info "${settings[@]}" timeout $((60 * slow)) srun --mpi="$mpi" -n 4 "$@" ./weft-bench all_reduce -b 1K -e 64K \
        >"$folder/log" 2>&1 || return 1
    grep -q 'Out of bounds values : 0 OK' "$folder/log" || return 1
    if [ -n "${by[$mpi]}" ]; then
        [ "$(grep -c "${by[$mpi]} [0-3] of 4 of job" "$folder/log")" -eq 4 ]
    else
        ! grep -q 'bootstrap.manager' "$folder/log" && grep -q 'job slurm:[0-9]*\.[0-9]' "$folder/log"
    fi
}
# Names of nodes that do not resolve: ranks that know of no manager say which, and what to set.
unresolved() {
    slurm_run env WEFT_JOB_KEY="$key" WEFT_COMM_INIT_TIMEOUT=5s timeout 60 srun --mpi=none -N 4 -n 4 ./weft-bench all_reduce -b 1K -e 1K \
        >"$folder/log" 2>&1 && return 1
        grep -q "n1" "$folder/log" && grep -q WEFT_STORE_ADDR "$folder/log"
}
probe_pids=()
# start MPI ARGUMENTS of srun: ranks that reduce until something fails, four of them, until all are going.
start() {
    local mpi=$1 i
    shift
    rm -f "$folder"/rank.*
    # shellcheck disable=SC2016
    slurm_run env WEFT_JOB_KEY="$key" srun --mpi="$mpi" -n 4 -K0 "$@" bash -c \
        'echo $$ >"$1/rank.$SLURM_PROCID.pid"; exec "$0" 60 100 5000 >"$1/rank.$SLURM_PROCID.out" 2>&1' \
        "$PWD/tests/fault/network_probe" "$folder" >"$folder/log" 2>&1 &
    srun_pid=$!
    for ((i = 0; i < 200 * slow; i++)); do
        [ "$(cat "$folder"/rank.*.out 2>/dev/null | grep -c '^going')" -eq 4 ] && break
        sleep 0.1
    done
    [ $i -lt $((200 * slow)) ] || { cat "$folder/log" "$folder"/rank.*.out; return 1; }
    probe_pids=()
    for i in 0 1 2 3; do probe_pids+=("$(cat "$folder/rank.$i.pid")"); done
}
# told VICTIM SECONDS: all others have failed by then, and name it.
told() {
    local rank status peer took rest
    for ((rank = 0; rank < 4; rank++)); do
        [ $rank -ne "$1" ] || continue
        read -r status peer took rest < <(grep '^WEFT_E' "$folder/rank.$rank.out")
        echo "rank $rank: ${status:-nothing} ${peer:-} after ${took:-} s"
        [ "${peer:-}" = "$1" ] && awk -v t="$took" -v most="$(($2 * slow))" 'BEGIN { exit !(t <= most) }' || return 1
    done
}
killed() {
    local mpi=$1
    shift
    start "$mpi" "$@" || return 1
    kill -KILL "${probe_pids[2]}"
    wait "$srun_pid"
    told 2 2
}
cut_link() {
    start "$@" || return 1
    hosts_cut 2
    local i
    for ((i = 0; i < 200 * slow; i++)); do
        [ "$(cat "$folder"/rank.[013].out | grep -c '^WEFT_E')" -eq 3 ] && break
        sleep 0.1
    done
    hosts_join 2
    slurm_run scancel -u root
    wait "$srun_pid"
    told 2 12
}
# After scancel everything is gone within KillWait (2 s, and Slurm's own pace), with what ranks had in memory.
cancelled() {
    local before after i left
    before=$(find /dev/shm | sort)
    start "$@" || return 1
    slurm_run scancel -u root
    for ((i = 0; i < 60 * slow; i++)); do
        left=0
        for pid in "${probe_pids[@]}"; do kill -0 "$pid" 2>/dev/null && left=1; done
        [ $left -eq 0 ] && break
        sleep 0.1
    done
    wait "$srun_pid"
    after=$(find /dev/shm | sort)
    echo "gone after $i tenths of a second"
    [ $left -eq 0 ] && [ "$before" = "$after" ] || { diff <(echo "$before") <(echo "$after"); return 1; }
}
# The script that the guide has, as it is, under four nodes.
script() {
    local i
    rm -f "$folder/job.out"
    slurm_run env "$@" PATH="$PWD:$PATH" FROM=1K TO=4K sbatch -n 4 -N 4 -o "$folder/job.out" "$WEFT_SRCDIR/examples/slurm/bench.sbatch" \
        >"$folder/log" 2>&1 || return 1
    for ((i = 0; i < 300 * slow; i++)); do
        grep -qs 'Out of bounds values : 0 OK' "$folder/job.out" && return 0
        sleep 0.1
    done
    cat "$folder/job.out"
    return 1
}
managers="none pmi2"
[ -e .libs/pmix.so ] && managers="none pmi2 pmix"

slurm_create_here 4 || { echo "not ok 1 - Slurm starts"; echo 1..1; exit 1; }
tap "one node, none" bench none -- -N 1
tap "names that do not resolve, none" unresolved
tap "names that do not resolve, none, with an address" bench none WEFT_JOB_KEY="$key" WEFT_STORE_ADDR=127.0.0.1 -- -N 4
for mpi in ${managers#none }; do
    tap "names that do not resolve, $mpi" bench "$mpi" -- -N 4
    tap "a killed rank is named, $mpi" killed "$mpi" -N 4
done
tap "a killed rank is named, one node, none" killed none -N 1
tap "scancel ends all, and leaves nothing" cancelled none -N 1
slurm_remove

slurm_create 4 || { echo "not ok $((++tap_number)) - Slurm starts on hosts"; tap_end; exit 1; }
for mpi in $managers; do
    tap "four hosts, $mpi" bench "$mpi" WEFT_JOB_KEY="$key" -- -N 4
    tap "a killed rank is named, four hosts, $mpi" killed "$mpi" -N 4
done
tap "the guide's script" script MPI= WEFT_LOG=info
by_pmix() { grep -q 'bootstrap.manager: pmix: rank' "$folder/job.out"; }
[ -e .libs/pmix.so ] && tap "the guide's script takes PMIx where it can" by_pmix
tap "the guide's script, none" script MPI=none
tap "a cut link is named, four hosts" cut_link none -N 4
tap "scancel ends all on four hosts" cancelled none -N 4
[ "$managers" = "none pmi2 pmix" ] || echo "ok $((++tap_number)) - pmix # SKIP libpmix was not found when this was configured (Debian package libpmix-dev)"
tap_end
