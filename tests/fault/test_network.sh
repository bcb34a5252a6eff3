#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Networks that break while four ranks on four hosts reduce: cut, swallowed, divided, lossy. Who cannot go on is told who is missing,
# within what doc/man/weft.7 says of WEFT_TCP_USER_TIMEOUT (here 2 s) or within the operation's deadline; who can, goes on right.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
probe=${WEFT_BUILDDIR:?}/tests/fault/network_probe
slow=${WEFT_TEST_SLOW:-1}
export WEFT_TCP_USER_TIMEOUT=2s WEFT_TCP_KEEPALIVE_IDLE=1s WEFT_TCP_KEEPALIVE_INTERVAL=1s WEFT_TCP_KEEPALIVE_COUNT=2
export WEFT_COMM_INIT_TIMEOUT=$((20 * slow))s
WEFT_JOB_KEY=$(printf 'a key of the test %s' $$ | sha256sum | cut -d' ' -f1)
export WEFT_JOB_KEY

ranks=4 pids=() codes=()
# start DEADLINE MOST ELEMENTS: a rank on each host, until all of them are going.
start() {
    local rank i
    pids=() codes=()
    port=$((port + 1))
    rm -f "$tap_dir"/out.* # what an earlier case left says nothing of these; they make theirs when they get to run
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$(hosts_address 0) MASTER_PORT=$port \
            hosts_on $rank timeout 120 "$probe" "$@" >"$tap_dir/out.$rank" 2>&1 &
        pids+=($!)
    done
    for ((i = 0; i < 300 * slow; i++)); do
        [ "$(cat "$tap_dir"/out.* 2>&1 | grep -c '^going')" -eq $ranks ] && return 0
        sleep 0.1
    done
    cat "$tap_dir"/out.*
    return 1
}
finish() { # all have ended
    local rank
    for ((rank = 0; rank < ranks; rank++)); do
        wait "${pids[$rank]}"
        codes[$rank]=$?
        sed "s/^/rank $rank: /" "$tap_dir/out.$rank"
    done
}
# told RANK PEERS SECONDS: it failed with WEFT_EPEER or WEFT_ETIMEDOUT, naming one of these, after at most so many seconds.
told() {
    local rank=$1 peers=$2 seconds=$3 status peer took rest
    [ "${codes[$rank]}" -eq 3 ] || { echo "rank $rank ended with status ${codes[$rank]}"; return 1; }
    read -r status peer took rest < <(grep '^WEFT_E' "$tap_dir/out.$rank")
    case $status in WEFT_EPEER | WEFT_ETIMEDOUT | WEFT_EABORTED) ;; *) echo "rank $rank: $status"; return 1 ;; esac
    case " $peers " in *" $peer "*) ;; *) echo "rank $rank names rank $peer, not one of $peers"; return 1 ;; esac
    awk -v t="$took" -v most="$((seconds * slow))" 'BEGIN { exit !(t <= most) }' || { echo "rank $rank: after $took s"; return 1; }
}
others_told() { # VICTIM SECONDS: all but the victim name it; the victim names somebody
    local victim=$1 seconds=$2 rank bad=0
    for ((rank = 0; rank < ranks; rank++)); do
        [ $rank -eq "$victim" ] && { told $rank "0 1 2 3" "$seconds" || bad=1; continue; }
        told $rank "$victim" "$seconds" || bad=1
    done
    return $bad
}
cut_cable() {
    start 60 100 "$1" || return 1
    hosts_cut 2
    finish
    hosts_join 2
    others_told 2 15
}
# Packets leave and no answer ever comes: the host's routes swallow what it sends.
swallowed() {
    start 60 100 5000 || return 1
    for host in 0 1 3; do hosts_on 2 ip route add blackhole "$(hosts_address $host)/32"; done
    finish
    for host in 0 1 3; do hosts_on 2 ip route del blackhole "$(hosts_address $host)/32"; done
    others_told 2 15
}
# Hosts 0 and 1 do not reach 2 and 3; each side names one of the other's.
divided() {
    local a b bad=0
    start 60 100 5000 || return 1
    for a in 0 1; do for b in 2 3; do
        hosts_on $a ip route add blackhole "$(hosts_address $b)/32"
        hosts_on $b ip route add blackhole "$(hosts_address $a)/32"
    done; done
    finish
    for a in 0 1; do for b in 2 3; do
        hosts_on $a ip route del blackhole "$(hosts_address $b)/32"
        hosts_on $b ip route del blackhole "$(hosts_address $a)/32"
    done; done
    told 0 "2 3" 15 || bad=1
    told 1 "2 3" 15 || bad=1
    told 2 "0 1" 15 || bad=1
    told 3 "0 1" 15 || bad=1
    return $bad
}
# The operation's deadline comes first where it is shorter.
deadline_first() {
    start 1 100 5000 || return 1
    hosts_cut 1
    finish
    hosts_join 1
    # All deadlines pass at once: a rank may name one that waits for the victim.
    local rank named=0
    for ((rank = 0; rank < ranks; rank++)); do
        told $rank "0 1 2 3" 10 || return 1
        [ $rank -eq 1 ] || ! grep -q '^WEFT_E[A-Z]* 1 ' "$tap_dir/out.$rank" || named=$((named + 1))
    done
    [ $named -gt 0 ]
}
# A cable that is out for less than the time-out: all goes on, and is right.
all_right() {
    local rank bad=0
    finish
    for ((rank = 0; rank < ranks; rank++)); do
        [ "${codes[$rank]}" -eq 0 ] && grep -q '^right ' "$tap_dir/out.$rank" || bad=1
    done
    return $bad
}
short_outage() {
    local WEFT_TCP_USER_TIMEOUT=$((10 * slow))s WEFT_TCP_KEEPALIVE_IDLE=$((10 * slow))s
    start 60 $((4 * slow)) 5000 || return 1
    hosts_cut 3
    sleep 0.7
    hosts_join 3
    all_right
}
lossy() {
    hosts_on 1 tc qdisc add dev eth0 root netem loss 3% delay 2ms reorder 10% duplicate 2% || return 1
    start 60 $((3 * slow)) 20000 && all_right
    local status=$?
    hosts_on 1 tc qdisc del dev eth0 root
    return $status
}

port=29700
hosts_create $ranks
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT
tap "a host whose cable is cut is named" cut_cable 5000
tap "a host whose cable is cut is named, in small operations" cut_cable 1
tap "a host whose packets are swallowed is named" swallowed
tap "a network in two halves: each names the other" divided
tap "the deadline of the operation, where it is shorter" deadline_first
tap "a short outage is got over" short_outage
if hosts_on 1 tc qdisc add dev eth0 root netem loss 1% 2>/dev/null; then
    hosts_on 1 tc qdisc del dev eth0 root
    tap "loss, reordering and duplicates do no harm" lossy
else
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - loss, reordering and duplicates do no harm # SKIP this kernel has no netem"
fi
tap_end
