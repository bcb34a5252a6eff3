#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What tests/multi/test_verbs.sh runs in its virtual machine, where rx0 and rx1 are the ends of one wire, rx2 and rx3 those of
# another.
set -u
. "$WEFT_SRCDIR/tests/harness/tap.sh"
cd "$WEFT_BUILDDIR" || exit 99
mkdir "$tap_dir/plugins" && cp .libs/verbs.so "$tap_dir/plugins" || exit 99
export WEFT_PLUGIN_PATH=$tap_dir/plugins WEFT_TRANSPORTS=verbs
slow=${WEFT_TEST_SLOW:-1}

# start N COMMAND...: ranks with devices of their own, RAILS of them; what they print goes to files. pids[] are theirs.
rails=1 port=29500
start() {
    local n=$1 rank devices
    shift
    port=$((port + 1))
    pids=()
    for ((rank = 0; rank < n; rank++)); do
        devices=rx$((rank % 2))
        [ $rails -eq 1 ] || devices+=,rx$((rank % 2 + 2))
        RANK=$rank WORLD_SIZE=$n LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            WEFT_VERBS_DEVICES=$devices "$@" >"$tap_dir/rank$rank" 2>&1 &
        pids+=($!)
    done
}
# All end well.
finish() {
    local pid ok=0
    for pid in "${pids[@]}"; do
        wait "$pid" || ok=1
    done
    cat "$tap_dir"/rank*
    return $ok
}
stop() { kill -KILL "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null; }

everything() {
    start 4 timeout $((60 * slow)) ./weft-bench all -b 8 -e 128K -f 128 -n 2 -w 0 "$@"
    finish || return 1
    ! grep -q '^ .* [1-9][0-9]* *$' "$tap_dir/rank0" && grep -q ': 0 OK' "$tap_dir/rank0"
}
ranks=tests/multi/verbs_ranks

# The cable of the second wire is pulled while sums go on, on two rails: none is wrong, and all are made.
rail_lost() {
    local how=$1 ok
    rails=2
    start 2 env WEFT_LOG=warn WEFT_VERBS_STRIPE=16K WEFT_VERBS_TIMEOUT=12 WEFT_VERBS_RETRIES=3 $ranks $((4 * slow)) 300000
    rails=1
    sleep $((2 * slow))
    $how
    finish
    ok=$?
    ip link set w2 up
    ip neigh replace 10.3.0.2 lladdr "$(cat /sys/class/net/w3/address)" dev w2
    [ $ok -eq 0 ] && grep -q 'verbs.rail.*rx2:1 is left' "$tap_dir/rank0" && grep -q 'rounds, 0 wrong' "$tap_dir/rank1"
}
cable() { ip link set w2 down; }
lost_packets() { ip neigh replace 10.3.0.2 lladdr 02:00:00:00:00:99 dev w2; }

killed() {
    local r ms
    rm -f "$tap_dir/died"
    start 3 $ranks 60 "$1" $((3000 * slow)) "$tap_dir/died"
    finish
    for r in 0 1; do
        ms=$(sed -n 's/^rank .: told WEFT_EPEER after \([0-9]*\) ms: .*rank 2.*/\1/p' "$tap_dir/rank$r")
        [ -n "$ms" ] && [ "$ms" -le 2000 ] || return 1
    done
}

# says SETTING=VALUE... TEXT
says() {
    start 2 env "${@:1:$#-1}" $ranks 1 4096
    finish
    grep -qF -- "${*: -1}" "$tap_dir/rank0"
}
# The device's name as ranks get it is part of the setting that is tested.
says_device() {
    WEFT_VERBS_DEVICES=$1 ./weft-run -n 2 $ranks 1 4096 >"$tap_dir/rank0" 2>&1
    cat "$tap_dir/rank0"
    grep -qF -- "$2" "$tap_dir/rank0"
}
works() {
    start 2 env "$@" $ranks 1 $((1 << 20))
    finish && grep -q 'rounds, 0 wrong' "$tap_dir/rank0"
}
other_mtu() {
    local ok
    ip link set w1 mtu 1500
    works
    ok=$?
    ip link set w1 mtu 4200
    return $ok
}
# with_limit KIB COMMAND...: root locks as much as it likes, unless it gives that up.
limited() { setpriv --bounding-set -ipc_lock bash -c 'ulimit -l "$0"; exec "$@"' "$@"; }
limit_says() {
    start 2 env "$1" setpriv --bounding-set -ipc_lock bash -c 'ulimit -l 16; exec "$0" 1 4096' $ranks
    finish
    grep -qF -- "$2" "$tap_dir/rank0"
}
# Buffers that cannot be registered are staged.
limit_staged() {
    start 2 setpriv --bounding-set -ipc_lock bash -c 'ulimit -l 4096; exec "$0" 1 16777216' $ranks
    finish && grep -q 'rounds, 0 wrong' "$tap_dir/rank0"
}

tests/conform/transport_verbs
peers() { ulimit -n 4096 && tests/multi/verbs_peers rx0 1000; }
tap "1,000 peers cost at most 64 KiB each" peers
tap "4 ranks on two hosts' adapters, every collective" everything
rails=2
tap "the same over two rails" everything
rails=1
tap "new memory at an old address" works X=1
tap "a cable is pulled" rail_lost cable
tap "a rail loses all packets" rail_lost lost_packets
tap "a rank is killed between short messages" killed 64
tap "a rank is killed while cards write" killed 4000000
tap "a device that is none: the nearest is offered" says_device rx7 'no RDMA device "rx7"; did you mean rx0?'
tap "a port that is none" says_device rx0:7 'rx0 has no port 7'
tap "a port that is no number" says_device rx0:one '"rx0:one" does not end in the number of a port'
tap "a GID that is none" says WEFT_VERBS_GID_INDEX=200 'WEFT_VERBS_GID_INDEX=200: rx0:1 has no such GID'
tap "a partition key that is none" says WEFT_VERBS_PKEY=5 'has no partition key 0x0005'
tap "ports with other MTUs" other_mtu
tap "a traffic class" works WEFT_VERBS_TRAFFIC_CLASS=104
tap "the limit of locked memory is named" limit_says X=1 'may lock 16 KiB of memory (ulimit -l); raise it in /etc/security/limits.conf'
tap "under Slurm slurmd's limit is named" limit_says SLURM_JOB_ID=7 'LimitMEMLOCK=infinity in its unit'
tap "what cannot be registered is staged" limit_staged
tap_end
