#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Who may join a job: one host without a key, several hosts without one (refused) and with one, another user of the host, and
# where rank 0 listens.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
for name in $(compgen -e | grep -E '^(WEFT_|OMPI_|PMI_|PMIX_|SLURM_|TORCHELASTIC_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_)'); do
    case $name in WEFT_SRCDIR | WEFT_BUILDDIR | WEFT_TEST_SLOW) ;; *) unset "$name" ;; esac
done
probe=tests/cli/bootstrap_probe
port=29700
key_file=$tap_dir/weft.key

# ---- One host ----

# launch COUNT VARIABLES...: ranks started by hand; their output is in $tap_dir/0 and so on.
launch() {
    local count=$1 rank pids=() pid bad=0
    shift
    port=$((port + 1))
    for ((rank = 0; rank < count; rank++)); do
        env RANK=$rank WORLD_SIZE="$count" MASTER_PORT=$port "$@" timeout 100 $probe 30s >"$tap_dir/$rank" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    cat "$tap_dir"/[0-9]*
    return $bad
}
all_started() { # COUNT SECRET: each rank twice
    [ "$(cat "$tap_dir"/[0-9]* | grep -c "probe: rank .* secret $2 .* ok ")" -eq $((2 * $1)) ]
}
by_hand() {
    rm -f "$tap_dir"/[0-9]*
    launch 3 "$@" && all_started 3 1
}
silent() { by_hand MASTER_ADDR=localhost && ! grep -v '^probe: ' "$tap_dir"/[0-9]*; }
no_port_open() {
    by_hand MASTER_ADDR=localhost WEFT_STORE_PORT=$((port + 7)) WEFT_LOG=info || return 1
    ! grep 'bootstrap.listen' "$tap_dir"/[0-9]* | grep -v 'local socket'
}

# As another user (nobody), take or try the names at which the next job by hand of this user will meet.
cat >"$tap_dir/stranger.py" <<'PYTHON'
"""stranger.py listen|ask PATTERN: bind every abstract name (PATTERN % 0..3) and note what comes; or ask for the key there."""
import os, re, select, socket, sys, time
mode, pattern = sys.argv[1:3]
names = ["\0" + pattern % i for i in range(4)]
if mode == "listen":
    sockets = []
    for name in names:
        s = socket.socket(socket.AF_UNIX)
        s.bind(name)
        s.listen(64)
        sockets.append(s)
    print("ready", flush=True)
    poll = select.poll()
    for s in sockets:
        poll.register(s, select.POLLIN)
    poll.register(0, select.POLLIN | select.POLLHUP)
    byfd = {s.fileno(): s for s in sockets}
    peers = set()
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                sys.exit()
            if fd in byfd and fd not in peers:
                c, _ = byfd[fd].accept()
                byfd[c.fileno()] = c
                peers.add(c.fileno())
                poll.register(c, select.POLLIN)
                print("connected", flush=True)
            else:
                data = byfd[fd].recv(4096)
                if data:
                    print("heard", data, flush=True)
                poll.unregister(fd)
                byfd.pop(fd).close()
                peers.discard(fd)
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    for name in names:
        try:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(10)
            s.connect(name)
        except OSError:
            continue
        try:
            s.sendall(b"WFTK\1\0\0\0")
            got = s.recv(100)
        except OSError as err:
            got = b""
        print("refused" if not got else f"GOT {len(got)} BYTES")
        sys.exit(len(got))
    time.sleep(0.02)
print("nobody listened")
sys.exit(99)
PYTHON
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
# The abstract name of the next job: what rank 0 says of it.
name_of() { # PORT
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$1 WEFT_LOG=info timeout 60 $probe 1ms 2>&1 |
        sed -n 's/.*start-up store at local socket @\(.*\)-0$/\1-%d/p' | head -n 1
}
prepare_stranger() {
    chmod 755 "$tap_dir" && chmod 644 "$tap_dir/stranger.py"
    [ "$(id -u)" -eq 0 ] && as_nobody /usr/bin/python3 -c '' 2>/dev/null
}
asked_by_another() {
    local name status
    port=$((port + 1))
    name=$(name_of $port)
    echo "name: $name"
    [ -n "$name" ] || return 1
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port WEFT_LOG=info timeout 100 $probe 60s >"$tap_dir/0" 2>&1 &
    as_nobody /usr/bin/python3 "$tap_dir/stranger.py" ask "$name"
    status=$?
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port timeout 100 $probe 60s >"$tap_dir/1" 2>&1 || status=1
    wait
    cat "$tap_dir/0" "$tap_dir/1"
    [ $status -eq 0 ] && grep -q 'uid 65534 tried to join this job of uid 0: refused' "$tap_dir/0" && grep -q 'round 2 ok' "$tap_dir/1"
}
# Ranks of one job of two users: the other user's rank never meets this one's.
two_users() {
    port=$((port + 1))
    cp $probe "$tap_dir/probe" && chmod 755 "$tap_dir/probe"
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port timeout 100 "$tap_dir/probe" 2s >"$tap_dir/0" 2>&1 &
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port as_nobody timeout 100 "$tap_dir/probe" 2s >"$tap_dir/1" 2>&1
    wait
    cat "$tap_dir/0" "$tap_dir/1"
    ! grep -qh '^probe: rank' "$tap_dir/0" "$tap_dir/1" && grep -q WEFT_ETIMEDOUT "$tap_dir/0" && grep -q WEFT_ETIMEDOUT "$tap_dir/1"
}
# COMMAND... with the names of the next job taken by the other user, who must not hear a word.
squatted() {
    local name status pid
    name=$(name_of $((port + 1)))
    [ -n "$name" ] || return 1
    mkfifo "$tap_dir/end" || return 1
    as_nobody /usr/bin/python3 "$tap_dir/stranger.py" listen "$name" <"$tap_dir/end" >"$tap_dir/squatter" 2>&1 &
    pid=$!
    exec 8>"$tap_dir/end"
    for _ in $(seq 600); do
        grep -q ready "$tap_dir/squatter" && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    "$@"
    status=$?
    exec 8>&-
    wait $pid
    rm -f "$tap_dir/end"
    cat "$tap_dir/squatter"
    grep -q ready "$tap_dir/squatter" && ! grep -q heard "$tap_dir/squatter" && return $status
}
names_taken() { by_hand MASTER_ADDR=localhost WEFT_LOG=info && grep -q "start-up store at local socket /" "$tap_dir/0"; }
# A container: nothing in /run, an empty /tmp and /dev/shm that others may write to. SETUP PATTERN [TIME]
contained() {
    port=$((port + 1))
    # shellcheck disable=SC2016
    timeout 200 unshare -m bash -c '
        mount -t tmpfs -o mode=755 none /run && mount -t tmpfs -o mode=1777 none /tmp && mount -t tmpfs -o mode=1777 none /dev/shm || exit 98
        unset XDG_RUNTIME_DIR
        eval "$1"
        for rank in 0 1; do
            RANK=$rank WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$2 WEFT_LOG=info timeout 100 $3 ${4:-30s} 2>&1 &
        done
        wait' - "$1" $port $probe "${3:-}" >"$tap_dir/0"
    cat "$tap_dir/0"
    grep -qE "$2" "$tap_dir/0"
}
in_container() { contained "$@" && [ "$(grep -c 'probe: rank .* secret 1 .* ok ' "$tap_dir/0")" -eq 4 ]; }
nowhere_to_meet() {
    contained 'for d in /tmp /dev/shm; do mkdir $d/weft-0; chown 65534 $d/weft-0; done' \
        'WEFT_EBUSY: .*all in use, and no directory is this user.s alone; set XDG_RUNTIME_DIR' 2s && ! grep -q '^probe: rank' "$tap_dir/0"
}
# Rank 0 is killed while it listens in a directory; the next job of that name takes its place.
killed_before() {
    local pid
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    RANK=0 WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$((port + 1)) $probe 60s &
    pid=$!
    for _ in $(seq 600); do
        [ -n "$(ls -A "$XDG_RUNTIME_DIR")" ] && break
        sleep 0.05
    done
    kill -9 $pid
    wait $pid 2>/dev/null
    ls -l "$XDG_RUNTIME_DIR"
    [ -n "$(ls -A "$XDG_RUNTIME_DIR")" ] && names_taken && [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
}

for address in localhost 127.0.0.1 127.9.9.9 ::1; do
    tap "by hand with MASTER_ADDR=$address: one host, nothing to set" by_hand MASTER_ADDR=$address
done
tap "by hand with WEFT_STORE_ADDR=localhost" by_hand MASTER_ADDR=somewhere.invalid WEFT_STORE_ADDR=localhost
tap "the launcher's counts say one host" by_hand MASTER_ADDR=somewhere.invalid LOCAL_WORLD_SIZE=3
tap "nothing is printed" silent
tap "no port is opened, whatever port is named" no_port_open
if prepare_stranger; then
    tap "another user who asks for the key gets nothing" asked_by_another
    tap "another user's rank does not join" two_users
    tap "another user who holds the names hears nothing and stops nobody" squatted names_taken
    export XDG_RUNTIME_DIR=$tap_dir/run
    tap "the same after a killed rank 0" squatted killed_before
    unset XDG_RUNTIME_DIR
else
    echo "ok $((++tap_number)) - another user of the host # SKIP needs root and setpriv"
fi
if prepare_stranger && unshare -m true 2>/dev/null; then
    tap "a container without a run directory" in_container true 'start-up store at local socket @'
    tap "the same, names taken" squatted in_container true 'start-up store at local socket /tmp/weft-0/'
    tap "the same, and the directory in /tmp" squatted in_container 'mkdir -m 700 /tmp/weft-0; chown 65534 /tmp/weft-0' \
        'start-up store at local socket /dev/shm/weft-0/'
    tap "the same, by a link" squatted in_container 'mkdir -m 700 /run/own; ln -s /run/own /tmp/weft-0' \
        'start-up store at local socket /dev/shm/weft-0/'
    tap "the same, open to others" squatted in_container 'mkdir /tmp/weft-0; chmod 770 /tmp/weft-0' \
        'start-up store at local socket /dev/shm/weft-0/'
    tap "everything taken: an error that says what to do" squatted nowhere_to_meet
else
    echo "ok $((++tap_number)) - a container # SKIP needs root and unshare"
fi

# ---- Keys ----

made() {
    (umask 0 && ./weft-run --make-key "$key_file") && [ "$(stat -c %a:%s "$key_file")" = 600:65 ] && grep -qxE '[0-9a-f]{64}' "$key_file"
}
kept() {
    local before out
    before=$(cat "$key_file")
    out=$(./weft-run --make-key "$key_file" 2>&1) && return 1
    echo "$out"
    grep -q 'exists already' <<<"$out" && [ "$(cat "$key_file")" = "$before" ]
}
differs() { [ "$(./weft-run --make-key -)" != "$(./weft-run --make-key -)" ] && ./weft-run --make-key - | grep -qxE '[0-9a-f]{64}'; }
not_shown() {
    local key
    key=$(cat "$key_file")
    export WEFT_JOB_KEY=$key
    { ./weft-info -c && ./weft-info -c -j && by_hand MASTER_ADDR=localhost WEFT_LOG=trace; } >"$tap_dir/shown" 2>&1 || cat "$tap_dir/shown"
    unset WEFT_JOB_KEY
    grep 'JOB_KEY' "$tap_dir/shown"
    grep -q '^WEFT_JOB_KEY=set$' "$tap_dir/shown" && all_started 3 1 && ! grep -qi "${key:8:16}" "$tap_dir/shown"
}
malformed() {
    local key
    key=$(head -c 60 "$key_file")zz12
    WEFT_JOB_KEY=$key RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1 $probe >"$tap_dir/0" 2>&1 && return 1
    cat "$tap_dir/0"
    grep -q 'WEFT_JOB_KEY holds 64 characters; a job key is 64 hexadecimal digits' "$tap_dir/0" && ! grep -qF "${key:8:16}" "$tap_dir/0"
}
half_keyed() {
    port=$((port + 1))
    WEFT_JOB_KEY_FILE=$key_file RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port $probe 4s >"$tap_dir/0" 2>&1 &
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port $probe 2s >"$tap_dir/1" 2>&1
    wait
    cat "$tap_dir/1"
    grep -q 'WEFT_EAUTH: .*rank 0 was given a job key and this rank was not' "$tap_dir/1"
}
misspelt() { # in what a rank without a key is told; the value is not shown
    local bench="timeout 60 ./weft-bench -b 8 -e 8 -n 1"
    port=$((port + 1))
    WEFT_JOB_KEY_FILE=$key_file RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port $probe 4s >"$tap_dir/0" 2>&1 &
    WEFT_JOBKEY=my-secret RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port WEFT_COMM_INIT_TIMEOUT=2s $bench >"$tap_dir/1" 2>&1
    wait
    cat "$tap_dir/1"
    grep -q 'WEFT_JOBKEY (environment) is not a setting; did you mean WEFT_JOB_KEY?' "$tap_dir/1" && ! grep -q my-secret "$tap_dir/1" || return 1
    WEFT_REQUIR_KEY=1 WEFT_RANK=1 WEFT_NRANKS=2 WEFT_STORE_ADDR=192.0.2.1 $bench >"$tap_dir/1" 2>&1
    cat "$tap_dir/1"
    grep -q 'have no key: .*; WEFT_REQUIR_KEY (environment) is not a setting; did you mean WEFT_REQUIRE_KEY?' "$tap_dir/1"
}
tap "weft-run --make-key makes a file of mode 600" made
tap "it overwrites nothing" kept
tap "each key is new" differs
tap "one host with a key" by_hand MASTER_ADDR=localhost WEFT_JOB_KEY_FILE="$key_file"
tap "a rank without the key that rank 0 has is told" half_keyed
tap "a misspelt name of the key is named" misspelt
tap "weft-info, the log and errors do not show the key" not_shown
tap "a malformed key is not repeated" malformed

# ---- Several hosts ----

# hosts_launch VARIABLES...: two ranks on two hosts. Output in $tap_dir/0 and 1.
hosts_launch() {
    local rank pids=() pid bad=0
    rm -f "$tap_dir"/[0-9]*
    port=$((port + 1))
    for rank in 0 1; do
        hosts_on $rank env PLACE=$rank RANK=$rank WORLD_SIZE=2 MASTER_ADDR="$(hosts_address 0)" MASTER_PORT=$port "$@" \
            timeout 100 $probe "${limit:-30s}" >"$tap_dir/$rank" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    cat "$tap_dir"/[0-9]*
    return $bad
}
refused() { # LINE VARIABLES...: both ranks say what to type
    local line=$1
    shift
    hosts_launch "$@" && return 1
    [ "$(grep -cF "$line" "$tap_dir/0")" -eq 1 ] && [ "$(grep -cF "$line" "$tap_dir/1")" -eq 1 ] &&
        grep -qF WEFT_INSECURE=1 "$tap_dir/0"
}
other() { # LINE VARIABLES...: as refused, for launchers whose variables give the rank
    local line=$1
    shift
    hosts_on 1 env "$@" timeout 60 $probe 2s >"$tap_dir/1" 2>&1 && return 1
    cat "$tap_dir/1"
    grep -qF "$line" "$tap_dir/1" && grep -qF WEFT_INSECURE=1 "$tap_dir/1"
}
keyed() { hosts_launch "$@" && all_started 2 1; }
keyed_by_fd() { keyed WEFT_JOB_KEY_FD=9 9<"$key_file"; }
keyed_apart() {
    ./weft-run --make-key "$tap_dir/other.key" || return 1
    # shellcheck disable=SC2016
    limit=2s hosts_launch WEFT_LOG=warn sh -c 'export WEFT_JOB_KEY_FILE=$1; [ $PLACE = 1 ] && WEFT_JOB_KEY_FILE=$2; shift 2; exec "$@"' - "$key_file" \
        "$tap_dir/other.key" && return 1
    grep -q 'WEFT_EAUTH: .*another job key' "$tap_dir/1" && grep -q 'rank 1 (of 2) did not join' "$tap_dir/0" &&
        [ "$(grep -c 'WARN store.refused' "$tap_dir/0")" -eq 1 ] && [ "$(grep -c 'WARN store.refused' "$tap_dir/1")" -eq 1 ]
}
insecure() {
    hosts_launch WEFT_INSECURE=1 WEFT_LOG=warn && all_started 2 0 &&
        [ "$(cat "$tap_dir"/[01] | grep -c 'WARN bootstrap.insecure')" -eq 1 ]
}
insecure_is_silent() { hosts_launch WEFT_INSECURE=1 && ! grep -v '^probe: ' "$tap_dir"/[01]; }
# Who listens on host 0 while rank 0 waits there: two sockets (store, links), at the one address. ADDRESS VARIABLES...
listens_at() {
    local want pid i found
    want=$(/usr/bin/python3 -c 'import socket, struct, sys; print("%08X" % struct.unpack("=I", socket.inet_aton(sys.argv[1])))' "$1")
    shift
    port=$((port + 1))
    hosts_on 0 env RANK=0 WORLD_SIZE=2 WEFT_JOB_KEY_FILE="$key_file" MASTER_PORT=$port "$@" $probe 60s >"$tap_dir/0" 2>&1 &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        found=$(hosts_on 0 cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A" { split($2, a, ":"); print a[1] }' | sort)
        [ "$(wc -w <<<"$found")" -ge "${sockets:-2}" ] && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    kill $pid
    wait $pid 2>/dev/null
    echo "listening: $found; wanted only $want"
    cat "$tap_dir/0"
    [ "$(wc -w <<<"$found")" -ge "${sockets:-2}" ] && ! grep -qvx "$want" <<<"$found"
}
# A name that is a loopback on rank 0's host, as Debian writes it to /etc/hosts. A third rank, on rank 0's host too.
named_hosts() {
    local i
    for i in 0 1; do
        mkdir -p "/etc/netns/$(hosts_name $i)" || return 1
    done
    echo '127.0.1.1 master' >"/etc/netns/$(hosts_name 0)/hosts"
    echo "$(hosts_address 0) master" >"/etc/netns/$(hosts_name 1)/hosts"
}
debian_name() {
    local rank pids=() pid bad=0
    named_hosts || return 1
    rm -f "$tap_dir"/[0-9]*
    port=$((port + 1))
    for rank in 0 1 2; do
        hosts_on $((rank % 2)) env RANK=$rank WORLD_SIZE=3 MASTER_ADDR=master MASTER_PORT=$port WEFT_LOG=info \
            WEFT_JOB_KEY_FILE="$key_file" timeout 100 $probe 30s >"$tap_dir/$rank" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    cat "$tap_dir"/[0-9]*
    [ $bad -eq 0 ] && all_started 3 1 && grep -q "start-up store at $(hosts_address 0):" "$tap_dir/0" &&
        grep -q "start-up links at $(hosts_address 1):" "$tap_dir/1" && ! grep -qE '(0\.0\.0\.0|\[::\]):' "$tap_dir"/[0-9]*
}
not_of_this_host() {
    hosts_on 0 env RANK=0 WORLD_SIZE=2 WEFT_JOB_KEY_FILE="$key_file" MASTER_ADDR=10.89.77.77 MASTER_PORT=29500 $probe 5s >"$tap_dir/0" 2>&1 &&
        return 1
    cat "$tap_dir/0"
    grep -q "WEFT_ECONFIG: .*'10.89.77.77' .*: that is no address of this host.*WEFT_STORE_INTERFACES" "$tap_dir/0"
}
# The program itself over TCP, not only its start-up.
bench() {
    local rank pids=() pid bad=0
    rm -f "$tap_dir"/[0-9]*
    port=$((port + 1))
    for rank in 0 1; do
        hosts_on $rank env RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR="$(hosts_address 0)" MASTER_PORT=$port "$@" \
            timeout 100 ./weft-bench -b 8 -e 1K -n 2 >"$tap_dir/$rank" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    cat "$tap_dir"/[0-9]*
    return $bad
}
bench_open() { # the log of every communicator says so
    bench WEFT_INSECURE=1 WEFT_LOG=info && grep -q 'comm.created.*without a job key (WEFT_INSECURE)' "$tap_dir/0" || return 1
    bench WEFT_JOB_KEY_FILE="$key_file" WEFT_LOG=info && grep -q 'comm.created' "$tap_dir/0" && ! grep 'without a job key' "$tap_dir/0"
}
bench_refused() { ! bench && grep -q 'WEFT_JOB_KEY_FILE=weft.key' "$tap_dir/0"; }

hosts_create 2
trap 'rm -rf "/etc/netns/$hosts_prefix-h0" "/etc/netns/$hosts_prefix-h1"; rmdir /etc/netns 2>/dev/null; hosts_remove; rm -rf "$tap_dir"' EXIT
tap "two hosts by hand without a key" refused 'weft-run --make-key weft.key, then copy it to every host and start every rank with WEFT_JOB_KEY_FILE=weft.key'
tap "under torchrun" refused 'on each type: WEFT_JOB_KEY_FILE=weft.key torchrun ...' TORCHELASTIC_RUN_ID=r LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
# shellcheck disable=SC2016
tap "under Open MPI's mpirun" other 'Type: WEFT_JOB_KEY=$(weft-run --make-key -) mpirun -x WEFT_JOB_KEY ...' \
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_NAMESPACE=7 WEFT_STORE_ADDR="$(hosts_address 0)"
# shellcheck disable=SC2016
tap "under srun" other 'Type: WEFT_JOB_KEY=$(weft-run --make-key -) srun ...' \
    SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_NNODES=2 SLURM_JOB_ID=3 SLURM_STEP_ID=0 SLURM_STEP_NODELIST="$(hosts_address 0)"
tap "with weft-run's variables by hand" other 'start every rank with WEFT_JOB_KEY_FILE=weft.key' \
    WEFT_RANK=1 WEFT_NRANKS=2 WEFT_STORE_ADDR="$(hosts_address 0)"
tap "with WEFT_JOB_KEY_FILE" keyed WEFT_JOB_KEY_FILE="$key_file"
tap "with WEFT_JOB_KEY" keyed WEFT_JOB_KEY="$(cat "$key_file")"
tap "with WEFT_JOB_KEY_FD" keyed_by_fd
tap "with different keys" keyed_apart
tap "with WEFT_INSECURE: one warning" insecure
tap "which is printed only if it is asked for" insecure_is_silent
tap "weft-bench without a key" bench_refused
tap "weft-bench with one" bench WEFT_JOB_KEY_FILE="$key_file"
tap "weft-bench says that it does without" bench_open
tap "rank 0 listens at the address that was named" listens_at "$(hosts_address 0)" MASTER_ADDR="$(hosts_address 0)"
tap "a name that is 127.0.1.1 on rank 0's host" debian_name
tap "rank 0 then listens at its own address" listens_at "$(hosts_address 0)" MASTER_ADDR=master
tap "an interface that is named" listens_at "$(hosts_address 0)" MASTER_ADDR=10.89.77.77 WEFT_STORE_INTERFACES=eth0
tap "an address that is not rank 0's is refused by name" not_of_this_host
tap_end
