#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Which transport serves which pair of ranks, and how that is said: four ranks on two hosts, of which not all have the fast network, or
# reach by it only one way, or fail in it.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
slow=${WEFT_TEST_SLOW:-1} limit=60 ranks=4 guide=$WEFT_SRCDIR/doc/guide/networks.md
mkdir -m 755 "$tap_dir/plugins"
cp .libs/fakenet.so "$tap_dir/plugins" || exit 99
export WEFT_PLUGIN_PATH=$tap_dir/plugins
unset WEFT_TRANSPORTS WEFT_LOG
key=$(./weft-run --make-key -)
export WEFT_JOB_KEY=$key

# What rank $1 has in its environment besides; each test says its own.
setting() { :; }
# job COMMAND...: ranks, two on each of the hosts a, b (and c); 0 when all succeed. What rank R printed is in $tap_dir/R, its status in
# $tap_dir/R.status.
job() {
    local rank pid pids=() failed=0
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=$(hosts_address 0) MASTER_PORT=$((29700 + tap_number)) \
            hosts_on $((rank / 2)) unshare --uts sh -c 'hostname $0; exec "$@"' "$(cut -c $((rank / 2 + 1)) <<<abc)" \
            env WEFT_LOG=info WEFT_FAKENET_ID=$((rank / 2)) $(setting $rank) timeout -k 5 $((limit * slow)) "$@" \
            >"$tap_dir/$rank" 2>"$tap_dir/$rank.err" &
        pids+=($!)
    done
    for ((rank = 0; rank < ranks; rank++)); do
        wait "${pids[rank]}"
        echo $? >"$tap_dir/$rank.status"
        [ "$(cat "$tap_dir/$rank.status")" -eq 0 ] || failed=1
    done
    return $failed
}
shown() { tail -n +1 "$tap_dir"/[0-3] && grep -h 'comm\.peers\|weft-info:' "$tap_dir"/[0-3].err; return 1; }
# peers PATTERN...: rank 0 prints lines that match all of them, the others print nothing; the library says in one line of the log of
# the whole job what was chosen: $said.
peers() {
    job ./weft-info --peers || { shown; return 1; }
    local pattern
    for pattern in "$@"; do grep -qE -- "$pattern" "$tap_dir/0" || { echo "no line: $pattern"; shown; return 1; }; done
    [ "$(cat "$tap_dir"/[1-3] | wc -c)" -eq 0 ] || { echo "other ranks print, too"; shown; return 1; }
    [ "$(cat "$tap_dir"/[0-3].err | grep -c 'INFO comm.peers: ')" -eq 1 ] &&
        grep -q "INFO comm.peers: weft-info: $said\$" "$tap_dir/0.err" || { echo "not said: $said"; shown; return 1; }
}
# sums: what this job reduces is right.
sums() { job ./weft-bench all_reduce -b 1K -e 64K -n 3 && grep -q 'Out of bounds values : 0 OK' "$tap_dir/0" || { shown; grep -h "weft-bench:\|ERROR\|WARN" "$tap_dir"/[0-3].err; head "$tap_dir"/[0-3].status; return 1; }; }

hosts_create 3
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT

said="fakenet 4 pairs, shm 2 pairs"
tap "all have it" peers '^job +4 ranks on 2 hosts$' '^host +a: ranks 0-1$' '^host +b: ranks 2-3$' '^pairs +shm within each of a and b \(2\)$' \
    '^pairs +fakenet between a and b \(4\)$'
tap "all have it: sums" sums

setting() { [ "$1" -lt 2 ] || echo WEFT_PLUGIN_PATH=; }
said="shm 2 pairs, tcp 4 pairs; fakenet: host b has none"
tap "a host without the plugin" peers '^pairs +shm within each of a and b \(2\)$' '^pairs +tcp from a to b \(4\); fakenet: only one of the two has it$' \
    '^missing +fakenet on ranks 2-3: it is not installed there$'
tap "a host without the plugin: sums" sums

setting() { [ "$1" -ne 3 ] || echo WEFT_FAKENET_OPEN=absent; }
said="fakenet 2 pairs, shm 2 pairs, tcp 2 pairs; fakenet: rank 3 on host b has none"
tap "a rank without a device" peers '^pairs +fakenet between hosts, of ranks 0-2 \(2\)$' \
    '^pairs +tcp from a to rank 3 \(2\); fakenet: only one of the two has it$' \
    "^missing +fakenet on rank 3: there is no device of the fake network's$"
tap "a rank without a device: sums" sums

setting() { [ "$1" -ne 3 ] || echo WEFT_TRANSPORTS=shm,tcp; }
tap "WEFT_TRANSPORTS of one rank" peers '^pairs +tcp from a to rank 3 \(2\)' '^missing +fakenet on rank 3: WEFT_TRANSPORTS does not name it$'

setting() { [ "$1" -ne 1 ] || echo WEFT_TRANSPORTS=fakenet,tcp; }
said="fakenet 5 pairs, shm 1 pair; shm: rank 1 on host a has none"
tap "a rank without shared memory" peers '^pairs +fakenet from rank 0 to rank 1 \(1\); shm: only one of the two has it$' \
    '^missing +shm on rank 1: WEFT_TRANSPORTS does not name it$'
tap "a rank without shared memory: sums" sums

setting() { echo WEFT_FAKENET_REACH=up; }
said="shm 2 pairs, tcp 4 pairs; fakenet reaches rank 2 on host b from rank 0 on host a, but not back, and so in 3 more pairs"
tap "one direction only" peers '^pairs +tcp between a and b \(4\); fakenet reaches the higher rank only$'
tap "one direction only: sums" sums
matrix() {
    job ./weft-info --peers --json && python3 - "$tap_dir/0" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
names = [t["name"] for t in d["transports"]]
got = [[None if i < 0 else names[i] for i in row] for row in d["matrix"]]
assert got == [[None, "shm", "tcp", "tcp"], ["shm", None, "tcp", "tcp"], ["tcp", "tcp", None, "shm"], ["tcp", "tcp", "shm", None]], got
assert d["hosts"] == [{"name": "a", "ranks": [0, 1]}, {"name": "b", "ranks": [2, 3]}], d["hosts"]
fake = d["transports"][names.index("fakenet")]
assert fake["reaches"] == ["0011", "0011", "0000", "0000"] and fake["priority"] == 80 and fake["without"] == [], fake
assert sum(g["pairs"] for g in d["pairs"]) == 6, d["pairs"]
END
}
tap "as JSON" matrix

setting() { echo WEFT_FAKENET_REACH=node; }
said="shm 2 pairs, tcp 4 pairs; fakenet reaches neither way between rank 0 on host a and rank 2 on host b, and so in 3 more pairs"
tap "neither direction" peers '^pairs +tcp between a and b \(4\); fakenet reaches neither way$'

# What fails on one rank fails on all, in time, and is named: fails SECONDS TEXT.
fails() {
    local began=$SECONDS rank
    job ./weft-info --peers && { echo "it succeeds"; return 1; }
    for rank in 0 1 2 3; do
        [ "$rank" -eq 3 ] && [ "${hung:-no}" = yes ] && continue
        [ "$(cat "$tap_dir/$rank.status")" -eq 1 ] && grep -q "weft-info: communicator: .*$2\|weft-info: context: .*$2" "$tap_dir/$rank.err" ||
            { echo "rank $rank, status $(cat "$tap_dir/$rank.status"):"; grep weft-info: "$tap_dir/$rank.err"; return 1; }
    done
    echo "$((SECONDS - began)) s"
    [ $((SECONDS - began)) -le $(($1 * slow)) ]
}
setting() { [ "$1" -ne 3 ] || echo WEFT_FAKENET_GROUP=fails; }
tap "a transport that cannot join on one rank" fails 20 "the fake network has no room for a group"
setting() { echo "WEFT_COMM_INIT_TIMEOUT=5s" && { [ "$1" -ne 3 ] || echo WEFT_FAKENET_OPEN=broken; }; }
tap "a device that is broken on one rank" fails 20 "rank.* 3\|does not answer"
setting() { echo "WEFT_COMM_INIT_TIMEOUT=5s" && { [ "$1" -ne 3 ] || echo WEFT_FAKENET_GROUP=hangs; }; }
hung=yes limit=20
tap "a transport that hangs on one rank" fails 22 "rank.* 3"
tap "and that rank hung until it was ended" test "$(cat "$tap_dir/3.status")" -eq 124
setting() { :; }
limit=60

# What the guide shows is what is printed. block NAME: the indented lines behind that comment, without the command.
block() { awk -v mark="<!-- $1 -->" '$0 == mark { on = 1; next } on && /^    / { print substr($0, 5); next } on { exit }' "$guide" | grep -v '^\$ '; }
as_guide() { # NAME FILE
    block "$1" >"$tap_dir/wanted"
    [ -s "$tap_dir/wanted" ] && diff "$tap_dir/wanted" "$2"
}
laptop() {
    unshare --uts sh -c 'hostname laptop; exec timeout 60 ./weft-run -n 4 --no-prefix ./weft-info --peers' >"$tap_dir/out" && as_guide "peers: laptop" "$tap_dir/out"
}
tap "the guide's laptop" laptop
plugins() { WEFT_PLUGIN_PATH='' timeout 60 ./weft-info | grep '^plugin' >"$tap_dir/out" && as_guide "info: plugins" "$tap_dir/out"; }
tap "the guide's plugins" plugins
setting() { echo WEFT_PLUGIN_PATH=; }
ethernet() { job ./weft-info --peers && as_guide "peers: ethernet" "$tap_dir/0"; }
tap "the guide's hosts on Ethernet" ethernet
setting() { [ "$1" -lt 4 ] || echo WEFT_FAKENET_OPEN=absent; }
mixed() {
    local ranks=6
    job ./weft-info --peers && as_guide "peers: mixed" "$tap_dir/0" && sed -n 's/.*INFO \(comm\.peers: .*\)/\1/p' "$tap_dir/0.err" >"$tap_dir/out" &&
        as_guide "log: mixed" "$tap_dir/out"
}
tap "the guide's mixed job" mixed
setting() { :; }

named() {
    WEFT_FAKENET_OPEN=absent WEFT_TRANSPORTS=shm,fakenet timeout 60 ./weft-info >"$tap_dir/out" 2>&1
    [ $? -eq 1 ] && grep -q "WEFT_TRANSPORTS names \"fakenet\", which cannot work here: there is no device of the fake network's" "$tap_dir/out"
}
tap "one that is named and cannot work" named
without_device() {
    WEFT_FAKENET_OPEN=absent timeout 60 ./weft-info >"$tap_dir/out" && grep -q "^plugin *transport fakenet is left out: there is no device" "$tap_dir/out"
}
tap "one that cannot work" without_device
alone() { timeout 60 ./weft-info --peers >"$tap_dir/out" && grep -q '^pairs *there are none: start it with weft-run' "$tap_dir/out"; }
tap "without a launcher" alone
refused() {
    timeout 60 ./weft-info --peers -c >"$tap_dir/out" 2>&1
    [ $? -eq 2 ] && grep -q 'peers goes with --json only' "$tap_dir/out"
}
tap "with what does not go with it" refused
tap "a full disk" output_lost ./weft-info --peers
# 48 ranks as 24 nodes, four of which are without the fast network: few lines say it.
many() {
    WEFT_TRANSPORTS='' timeout $((120 * slow)) ./weft-run --no-prefix -n 48 bash -c \
        'export WEFT_NODE_ID=n$((WEFT_RANK / 2)) WEFT_TRANSPORTS=fakenet,tcp; [ $((WEFT_RANK / 2 % 6)) -ne 5 ] || WEFT_TRANSPORTS=tcp; exec ./weft-info -p' \
        >"$tap_dir/out" 2>&1 || { cat "$tap_dir/out"; return 1; }
    cat "$tap_dir/out"
    [ "$(wc -l <"$tap_dir/out")" -lt 26 ] && grep -q '^pairs *fakenet among n0, n1, .* and 12 more (780)$' "$tap_dir/out" &&
        grep -q '^pairs *tcp from n0, n1, .* and 12 more to n5, n11, n17, n23 (320); fakenet: only one of the two has it$' "$tap_dir/out" &&
        grep -q '^pairs *tcp among n5, n11, n17 and n23 (28)$' "$tap_dir/out" &&
        grep -q '^missing *fakenet on ranks 10-11,22-23,34-35,46-47: WEFT_TRANSPORTS does not name it$' "$tap_dir/out"
}
tap "many ranks" many
tap_end
