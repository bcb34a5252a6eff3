#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Hosts with two adapters, each on a network of its own: what goes over which. Bytes are counted by the adapters.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
export WEFT_JOB_KEY=$(./weft-run --make-key -)

sent() { hosts_on "$1" cat "/sys/class/net/$2/statistics/tx_bytes"; }

# reduce RANKS_PER_HOST: 4 MiB among two hosts; then zero[] and one[] hold what each host's adapters sent of it.
algo=node:ring
reduce() {
    local per=$1 rank host pids=() pid ok=0
    shift
    for host in 0 1; do
        before0[host]=$(sent $host eth0) before1[host]=$(sent $host eth1)
    done
    for ((rank = 0; rank < 2 * per; rank++)); do
        RANK=$rank WORLD_SIZE=$((2 * per)) LOCAL_RANK=$((rank % per)) LOCAL_WORLD_SIZE=$per MASTER_ADDR=$(hosts_address 0) \
            MASTER_PORT=$((29600 + tap_number)) hosts_on $((rank / per)) env "$@" timeout 60 ./weft-bench -b 4M -e 4M -n 2 ${algo:+--algo "$algo"} \
            >"$tap_dir/$rank" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || ok=1
    done
    for host in 0 1; do
        zero[host]=$(($(sent $host eth0) - before0[host])) one[host]=$(($(sent $host eth1) - before1[host]))
        echo "# host $host: eth0 ${zero[host]} bytes, eth1 ${one[host]}"
    done
    [ $ok -eq 0 ] && grep -q 'Out of bounds values : 0 OK' "$tap_dir/0" || { cat "$tap_dir"/[0-9]*; return 1; }
}
# Each carries at least a fifth.
both() {
    local host
    reduce "$@" || return 1
    for host in 0 1; do
        [ $((zero[host] * 4)) -gt "${one[host]}" ] && [ $((one[host] * 4)) -gt "${zero[host]}" ] || return 1
    done
}
first_only() {
    reduce "$@" && [ $((one[0] * 20)) -lt "${zero[0]}" ] && [ $((one[1] * 20)) -lt "${zero[1]}" ]
}
falls_back() { # the second network carries nothing: its connections give up, the first takes over
    for host in 0 1; do ip -n "$hosts_prefix-net" link set "second$host" down; done
    first_only "$@"
    local status=$?
    for host in 0 1; do ip -n "$hosts_prefix-net" link set "second$host" up; done
    return $status
}

declare -a zero one before0 before1
hosts_create 2 1gbit
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT
hosts_second 1gbit
tap "two ranks a host take turns" both 2
tap "one rank has a socket for each link" both 1
tap "one interface is asked for" first_only 2 WEFT_TCP_INTERFACES=eth0
tap "one socket is asked for" first_only 1 WEFT_TCP_SOCKETS=1
tap "a link that is down is done without" falls_back 2
tap_end
