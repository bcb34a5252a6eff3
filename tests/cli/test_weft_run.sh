#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-run: ranks, output, exit codes, signals, bad arguments; and the same program under other launchers.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
probe=tests/cli/bootstrap_probe
run() { timeout 60 ./weft-run "$@"; }

# STATUS PATTERN ARGUMENTS...: exit status, and a line of output (both streams).
ends() {
    local want=$1 pattern=$2 out status
    shift 2
    out=$(run "$@" 2>&1 </dev/null)
    status=$?
    echo "status $status: $out"
    [ $status -eq "$want" ] && grep -qE -- "$pattern" <<<"$out"
}
refused() { # PATTERN ARGUMENTS...: one line, exit status 2
    local pattern=$1 out status
    shift
    out=$(run "$@" 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq 2 ] && [ "$(wc -l <<<"$out")" -eq 1 ] && grep -qF -- "$pattern" <<<"$out"
}
starts() { # COUNT COMMAND...: every rank starts twice, with a key that is secret
    local count=$1 out
    shift
    out=$(timeout 120 "$@" 2>&1)
    echo "$out"
    [ "$(grep -c 'probe: rank .* secret 1 .* ok ' <<<"$out")" -eq $((2 * count)) ]
}
separate() {
    run -n 2 sh -c 'echo out; echo err >&2' >"$tap_dir/out" 2>"$tap_dir/err" || return 1
    cat "$tap_dir/out" "$tap_dir/err"
    [ "$(sort "$tap_dir/out")" = "[0] out
[1] out" ] && [ "$(sort "$tap_dir/err")" = "[0] err
[1] err" ]
}
plain() { [ "$(run --no-prefix -n 1 printf 'a\nb' 2>&1)" = "a
b" ]; }
long_lines() {
    run -n 2 python3 -c 'print("x" * 300000)' >"$tap_dir/long" || return 1
    [ "$(tr -cd x <"$tap_dir/long" | wc -c)" -eq 600000 ]
}
input() { [ "$(echo hello | run -n 3 cat)" = "[0] hello" ]; }
# The others end soon after the first failure, also when they ignore SIGTERM.
stubborn() {
    local begin=$SECONDS
    run -n 2 sh -c 'trap "" TERM; [ $WEFT_RANK = 1 ] && exit 3; sleep 100 & wait; sleep 100'
    [ $? -eq 3 ] && [ $((SECONDS - begin)) -lt 30 ]
}
# Start ranks that tell when they are ready, send a signal to weft-run, see what it passes on.
passes_on() { # SIGNAL STATUS
    local fifo=$tap_dir/ready.$1 pid status i
    mkfifo "$fifo"
    env --default-signal=INT ./weft-run -n 2 bash -c "trap 'echo got $1; exit 0' $1; echo ready >$fifo; while :; do sleep 0.1; done" \
        >"$tap_dir/signal" 2>&1 &
    pid=$!
    exec 9<>"$fifo"
    for i in 1 2; do read -r -t 30 -u 9 || { kill -9 $pid; return 1; }; done
    exec 9<&-
    kill -"$1" $pid
    wait $pid
    status=$?
    cat "$tap_dir/signal"
    [ $status -eq "$2" ] && [ "$(grep -c "got $1" "$tap_dir/signal")" -eq 2 ]
}
# When weft-run itself is killed its ranks go too.
orphans() {
    local fifo=$tap_dir/orphan pid child i
    mkfifo "$fifo"
    ./weft-run -n 1 sh -c "echo \$\$ >$fifo; exec sleep 100" >/dev/null 2>&1 &
    pid=$!
    read -r -t 30 child <"$fifo" || return 1
    kill -9 $pid
    wait $pid 2>/dev/null
    for i in $(seq 100); do
        [ -d "/proc/$child" ] && ! grep -q '^State:.*Z' "/proc/$child/status" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$child"
    return 1
}
no_key_shown() {
    WEFT_JOB_KEY=$(./weft-run --make-key -) run -n 1 sh -c 'tr "\0" "\n" </proc/$$/environ; tr "\0" " " </proc/$$/cmdline' \
        >"$tap_dir/env" || return 1
    grep WEFT "$tap_dir/env"
    grep -q 'WEFT_JOB_KEY_FD=[0-9]' "$tap_dir/env" && ! grep -qE '[0-9a-f]{64}' "$tap_dir/env"
}
# Before rank 0 listens, and whatever options the other one sets.
port_held() {
    cat >"$tap_dir/take.py" <<'EOF'
import errno, os, socket, sys
os.setresuid(65534, 65534, 65534)
for option in None, socket.SO_REUSEADDR, socket.SO_REUSEPORT:
    s = socket.socket()
    if option:
        s.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        s.bind(("127.0.0.1", int(sys.argv[1])))
        sys.exit(f"option {option}: bound")
    except OSError as e:
        assert e.errno == errno.EADDRINUSE, e
print("refused")
EOF
    run -n 1 sh -c 'python3 "$0" $WEFT_STORE_PORT' "$tap_dir/take.py" >"$tap_dir/taken" 2>&1
    cat "$tap_dir/taken"
    grep -q '^\[0\] refused' "$tap_dir/taken"
}
if [ "$(id -u)" -eq 0 ]; then
    tap "another user cannot take the port" port_held
else
    echo "ok $((++tap_number)) - another user cannot take the port # SKIP only root can become another user"
fi

tap "--help" ends 0 'usage: weft-run' --help
tap "--help to a full disk" output_lost ./weft-run --help
tap "--version" ends 0 '^weft-run [0-9]+\.[0-9]+\.[0-9]+$' --version
tap "a bad count" refused "-n '0'" -n 0 true
tap "a count that is no number" refused "-n 'two'" -n two true
tap "an unknown option" refused "--cluster" --cluster true
tap "a bad binding" refused "--bind 'socket'" --bind socket true
tap "a bad time" refused "--timeout 'soon'" --timeout soon true
tap "a bad variable" refused "--env 'X'" --env X true
tap "a missing value" refused "--bind" --bind
tap "a program beside --make-key" refused "--make-key runs nothing: 'true'" --make-key "$tap_dir/never" true
dashes() { # nothing is made of it
    (cd "$tap_dir" && ! "$tap_run" --make-key -- 2>said && ! "$tap_run" --make-key --hex 2>>said && ls && cat said &&
        [ ! -e ./-- ] && [ ! -e ./--hex ] && grep -q "wants the name of a file.* '--' looks like an option; './--' is" said &&
        "$tap_run" --make-key ./-- && [ "$(stat -c %a ./--)" = 600 ])
}
tap_run=$PWD/weft-run tap "a key in a file that looks like an option" dashes
tap "a key where there is no directory" refused "--make-key: cannot create '$tap_dir/none/key'" --make-key "$tap_dir/none/key"
tap "no program" refused "no program" -n 2
tap "a program that is not there" ends 127 "cannot run '/nonexistent'" -n 2 /nonexistent
tap "a program that may not run" ends 126 "cannot run '/etc/passwd'" -n 2 /etc/passwd
tap "every rank knows who it is" ends 0 '^\[2\] 2 of 3, 2 of 3$' -n 3 sh -c 'echo $WEFT_RANK of $WEFT_NRANKS, $WEFT_LOCAL_RANK of $WEFT_LOCAL_NRANKS'
tap "--env reaches the ranks" ends 0 '^\[0\] a=b$' -n 1 --env X=a=b sh -c 'echo $X'
tap "the two streams stay apart" separate
tap "--no-prefix" plain
tap "long lines" long_lines
tap "rank 0 reads standard input" input
tap "the exit code of the rank that fails" ends 7 'rank 1 \(pid [0-9]+\) exited with code 7' -n 2 sh -c '[ $WEFT_RANK = 1 ] && exit 7; sleep 100'
tap "128 + the signal that ends a rank" ends 137 'rank 1 \(pid [0-9]+\) was ended by signal 9' -n 2 sh -c '[ $WEFT_RANK = 1 ] && kill -9 $$; sleep 100'
full_disk() { # the ranks run to their end
    timeout 20 ./weft-run -n 2 sh -c "echo text; touch $tap_dir/ended.\$WEFT_RANK" >/dev/full 2>"$tap_dir/said"
    local status=$?
    cat "$tap_dir/said"
    [ $status -eq 1 ] && [ -e "$tap_dir/ended.0" ] && [ -e "$tap_dir/ended.1" ] &&
        [ "$(grep -c 'standard output and is lost: No space left' "$tap_dir/said")" -eq 1 ]
}
tap "a full disk" full_disk
tap "stubborn ranks are killed" stubborn
tap "--timeout" ends 124 'ran longer than 0.5 s; still running: ranks 0, 1' --timeout 500ms -n 2 sleep 100
for signal in TERM INT HUP USR1 USR2; do
    tap "SIG$signal is passed on" passes_on $signal 0
done
tap "ranks end with weft-run" orphans
tap "the key is in no argument and no variable" no_key_shown
tap "bound to cores" ends 0 '^\[0\] Cpus_allowed_list:' -n 1 grep Cpus_allowed_list /proc/self/status
contradicted() {
    ! WEFT_REQUIRE_KEY=1 WEFT_INSECURE=1 timeout 60 ./weft-run -n 2 $probe >"$tap_dir/both" 2>&1 && grep -q 'WEFT_REQUIRE_KEY and WEFT_INSECURE are both set' "$tap_dir/both"
}
tap "a key is required and done without" contradicted
tap "4 ranks under weft-run" starts 4 ./weft-run -n 4 $probe
tap "64 ranks under weft-run" starts 64 ./weft-run -n 64 $probe 60s
if command -v mpirun.openmpi >/dev/null; then
    tap "4 ranks under Open MPI's mpirun" starts 4 mpirun.openmpi --allow-run-as-root --oversubscribe -n 4 $probe
else
    echo "ok $((++tap_number)) - 4 ranks under Open MPI's mpirun # SKIP not installed"
fi
if command -v mpirun.mpich >/dev/null; then
    tap "4 ranks under MPICH's mpirun" starts 4 mpirun.mpich -n 4 $probe
    pmi_required() { # one host: enough for WEFT_REQUIRE_KEY, since the ranks meet over a local socket and open no port
        WEFT_REQUIRE_KEY=1 WEFT_LOG=info starts 2 mpirun.mpich -n 2 $probe >"$tap_dir/pmi" 2>&1 || { cat "$tap_dir/pmi"; return 1; }
        grep -q 'bootstrap.listen: start-up store at local socket' "$tap_dir/pmi" && ! grep 'bootstrap.listen' "$tap_dir/pmi" | grep -v 'local socket'
    }
    tap "a key is required of MPICH's mpirun on one host" pmi_required
else
    echo "ok $((++tap_number)) - 4 ranks under MPICH's mpirun # SKIP not installed"
    echo "ok $((++tap_number)) - a key is required of MPICH's mpirun on one host # SKIP not installed"
fi
. "$WEFT_SRCDIR/tests/torch/python.sh"
if python_has_torch; then
    tap "4 ranks under torchrun" starts 4 "$python" -m torch.distributed.run --nproc-per-node 4 --no-python $probe
else
    echo "ok $((++tap_number)) - 4 ranks under torchrun # SKIP $python_why_not"
fi
tap_end
