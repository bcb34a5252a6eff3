#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The transport over UCX in whole programs: when it is used, every collective on one host and on four, a rank that is killed, MPI over
# UCX in the same process, many communicators; and that UCX neither prints nor takes signals.
# timeout: 400
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
[ -e .libs/ucx.so ] || { echo "UCX was not found when this was configured (Debian package libucx-dev)"; exit 77; }

folder=$tap_dir slow=${WEFT_TEST_SLOW:-1}
mkdir -m 755 "$folder/plugins"
cp .libs/ucx.so "$folder/plugins"
export WEFT_PLUGIN_PATH=$folder/plugins WEFT_JOB_KEY=$(./weft-run --make-key -)
unset UCX_TLS UCX_NET_DEVICES UCX_LOG_LEVEL WEFT_TRANSPORTS WEFT_UCX_NETWORK

listed() { WEFT_UCX_NETWORK=any ./weft-info | grep -q 'transport.*ucx'; }
# Without an RDMA device it stands back, and says what to do; asked for by name that is the error.
stands_back() {
    [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] || return 0
    WEFT_TRANSPORTS=ucx timeout 60 ./weft-run -n 2 ./weft-bench -b 8 -e 8 >"$folder/log" 2>&1 && return 1
    grep -q 'no RDMA device in /sys/class/infiniband; WEFT_UCX_NETWORK=any' "$folder/log" &&
        timeout 60 ./weft-run -n 2 ./weft-bench -b 8 -e 8 >"$folder/log" 2>&1 && grep -q ': 0 OK' "$folder/log"
}
misspelt() {
    WEFT_UCX_NETWORK=sometimes timeout 60 ./weft-run -n 1 ./weft-bench -b 8 -e 8 >"$folder/log" 2>&1 && return 1
    grep -q "WEFT_UCX_NETWORK='sometimes' is neither auto nor any" "$folder/log"
}
# collectives TLS RANKS: every collective, right, and nothing on the error output.
collectives() {
    UCX_TLS=$1 WEFT_UCX_NETWORK=any WEFT_TRANSPORTS=ucx timeout $((120 * slow)) ./weft-run -n "$2" ./weft-bench -C all -b 4 -e 600K -f 53 \
        >"$folder/log" 2>"$folder/errors"
    local status=$?
    cat "$folder/errors"
    [ $status -eq 0 ] && [ ! -s "$folder/errors" ] && [ "$(grep -c '# Out of bounds values : 0 OK' "$folder/log")" -ge 1 ] &&
        ! grep -q 'FAILED' "$folder/log"
}
# UCX that cannot work says why in weft's words, and prints nothing itself.
no_transport() {
    UCX_TLS=nothing WEFT_UCX_NETWORK=any WEFT_TRANSPORTS=ucx timeout 60 ./weft-run -n 1 ./weft-bench -b 8 -e 8 >"$folder/log" 2>&1 && return 1
    grep -q 'ucx: ' "$folder/log" && ! grep -q 'UCX  *\(ERROR\|WARN\)' "$folder/log"
}
# What a program does on a crash stays its own.
signals() {
    cat >"$folder/signals.py" <<'END'
import ctypes, sys
def handlers():  # but for 33, which the C library catches once there is a second thread
    return [int(line.split()[1], 16) & ~(1 << 32) for line in open("/proc/self/status") if line.startswith(("SigCgt", "SigBlk", "SigIgn"))]
before = handlers()
weft = ctypes.CDLL(sys.argv[1])
context = ctypes.c_void_p()
assert weft.weft_context_create(None, ctypes.byref(context)) == 0
loaded = any("libucp" in line for line in open("/proc/self/maps"))
assert handlers() == before, (before, handlers())
weft.weft_context_destroy(context)
print("loaded" if loaded else "not loaded")
END
    [ "$(WEFT_UCX_NETWORK=any python3 "$folder/signals.py" "$PWD/.libs/libweft.so.1" 2>&1 | tee "$folder/log")" = loaded ] &&
        { [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] || [ "$(python3 "$folder/signals.py" "$PWD/.libs/libweft.so.1")" = "not loaded" ]; }
}
# killed TLS: the last of three is killed in its work; the others name it within two seconds.
killed() {
    local rank pids=()
    port=$((port + 1))
    for rank in 0 1 2; do
        RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WEFT_UCX_NETWORK=any \
            WEFT_TRANSPORTS=ucx UCX_TLS=$1 timeout $((60 * slow)) tests/fault/network_probe 60 30 5000 >"$folder/$rank" 2>&1 &
        pids+=($!)
    done
    for ((i = 0; i < 300 * slow; i++)); do
        [ "$(cat "$folder"/[0-2] | grep -c '^going')" -eq 3 ] && break
        sleep 0.1
    done
    pkill -KILL -P "${pids[2]}" # what timeout runs
    wait "${pids[@]}"
    cat "$folder"/[0-2]
    named 2 0 1
}
# named VICTIM RANK...: these have named it within two seconds.
named() {
    local victim=$1 rank
    shift
    for rank; do
        awk -v most=$((2 * slow)) -v victim="$victim" '$1 == "WEFT_EPEER" && $2 == victim && $3 <= most { found = 1 } END { exit !found }' \
            "$folder/$rank" || { echo "rank $rank"; return 1; }
    done
}
beside_mpi() {
    timeout $((60 * slow)) mpirun.openmpi --allow-run-as-root --oversubscribe --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any \
        -x UCX_TLS=posix,cma,self -x WEFT_UCX_NETWORK=any -x WEFT_TRANSPORTS=ucx -x WEFT_PLUGIN_PATH -n 2 \
        ./weft-bench --against mpi -b 64 -e 64K -f 32 all_reduce >"$folder/log" 2>&1
    local status=$?
    cat "$folder/log"
    [ $status -eq 0 ] && grep -q 'against: Open MPI' "$folder/log" && grep -q ': 0 OK' "$folder/log"
}

# On hosts: what UCX has between them is TCP.
on_hosts() { # COMMAND...: a rank on each of four
    local rank pids=() pid ok=0
    port=$((port + 1))
    for ((rank = 0; rank < 4; rank++)); do
        RANK=$rank WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$(hosts_address 0) MASTER_PORT=$port WEFT_UCX_NETWORK=any \
            WEFT_TRANSPORTS=ucx UCX_TLS=all hosts_on $rank timeout $((120 * slow)) "$@" >"$folder/$rank" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || ok=1; done
    return $ok
}
hosts_collectives() {
    on_hosts ./weft-bench -C all -b 4 -e 600K -f 53 || { cat "$folder"/[0-3]; return 1; }
    ! grep -q FAILED "$folder/0" && grep -q '# Out of bounds values : 0 OK' "$folder/0"
}
hosts_killed() {
    # shellcheck disable=SC2016
    on_hosts bash -c '"$0" 60 30 5000 & pid=$!
        if [ "$RANK" = 3 ]; then sleep 3; kill -KILL $pid; fi
        wait $pid' tests/fault/network_probe
    cat "$folder"/[0-3]
    named 3 0 1 2
}
port=29800

tap "weft-info lists it" listed
tap "without an RDMA device it stands back" stands_back
tap "a setting that is none" misspelt
tap "UCX without a transport says so" no_transport
tap "signals stay the program's, and UCX is loaded where it is used" signals
tap "every collective over shared memory" collectives posix,cma,self 3
tap "every collective over TCP" collectives tcp,self 3
tap "every collective over what UCX chooses" collectives all 2
tap "a killed rank is named, over shared memory" killed posix,cma,self
tap "a killed rank is named, over TCP" killed tcp,self
if command -v mpirun.openmpi >/dev/null; then
    tap "MPI over UCX in the same process" beside_mpi
else
    echo "ok $((++tap_number)) - MPI over UCX in the same process # SKIP no mpirun.openmpi here (Debian package openmpi-bin)"
fi
hosts_create 4
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT
tap "every collective on four hosts" hosts_collectives
tap "a killed rank is named on the other hosts" hosts_killed
tap_end
