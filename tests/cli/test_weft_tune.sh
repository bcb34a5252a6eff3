#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-tune: a small table is measured, goes on where it was, is judged, and is what communicators choose by.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
table=$tap_dir/t.tune

tune() { timeout 60 ./weft-run --no-prefix -n 2 ./weft-tune "$@"; }
status_is() { # STATUS TEXT COMMAND...
    local want=$1 text=$2 out status
    shift 2
    out=$("$@" 2>&1)
    status=$?
    [ $status -eq "$want" ] && grep -qE -- "$text" <<<"$out" && return 0
    echo "exit status $status: $out"
    return 1
}
measures() {
    status_is 0 '2 ranks on 1 node.*points measured now' tune -o "$table" -c all_reduce,barrier -s 8-1M -f 512 -p 1 || return 1
    cat "$table"
    grep -q '^weft-tuning 1$' "$table" && grep -q '^layout 2 1 0x2' "$table" && grep -q '^figure local_us' "$table" &&
        grep -q '^link 0 1 ' "$table" && grep -qE '^all_reduce 2 1 1048576 mapped direct [0-9.e+]+ [0-9.e+]+$' "$table" &&
        grep -qE '^all_reduce 2 1 8 private ring ' "$table" && grep -qE '^barrier 2 1 0 private dissem ' "$table"
}
goes_on() { # nothing is measured twice; a line taken out is measured again
    status_is 0 ', 0 points measured now' tune -o "$table" -c all_reduce,barrier -s 8-1M -f 512 -p 1 || return 1
    sed -i '/^all_reduce 2 1 8 private ring /d' "$table"
    status_is 0 ', 1 points measured now' tune -o "$table" -c all_reduce,barrier -s 8-1M -f 512 -p 1
}
# What the table says is fastest is what runs: a table in which an unlikely one is.
chooses() {
    sed -E 's/^(all_reduce 2 1 [0-9]+ private rdouble) [^ ]+/\1 0.001/' "$table" >"$tap_dir/odd.tune"
    WEFT_LOG=debug WEFT_TUNING_FILE=$tap_dir/odd.tune status_is 0 'plan.choice: all_reduce of 65536 bytes: rdouble' \
        timeout 60 ./weft-run --no-prefix -n 2 ./weft-bench -C all_reduce -b 64K -e 64K -n 3 || return 1
    timeout 20 ./weft-plan explain --json all_reduce -n 64K -P 2 --tuning "$tap_dir/odd.tune" | grep -q '"chosen": "rdouble"'
}
other_machine() {
    sed 's/^machine .*/machine vax, 1 processors, 780/' "$table" >"$tap_dir/other.tune"
    status_is 1 'other.tune is a tuning table of another machine: it was made on "vax' \
        env WEFT_TUNING_FILE="$tap_dir/other.tune" timeout 20 ./weft-info || return 1
    status_is 1 'another machine' tune -o "$tap_dir/other.tune" -c barrier
}
# Ranks with different tables are told which of them it is.
ranks_differ() {
    sed 's/^made .*/made yesterday/' "$table" >"$tap_dir/second.tune"
    cat >"$tap_dir/one.sh" <<'END'
[ "$WEFT_RANK" = 1 ] && export WEFT_TUNING_FILE=$2 || export WEFT_TUNING_FILE=$1
exec ./weft-bench -C barrier -n 2
END
    WEFT_COMM_INIT_TIMEOUT=20s status_is 1 'rank [01] on host .* has other WEFT_\* settings' \
        timeout 60 ./weft-run -n 2 bash "$tap_dir/one.sh" "$table" "$tap_dir/second.tune"
}
broken() {
    printf 'weft-tuning 1\nmachine x\nlayout 2 1 0x2\nall_reduce 2 1 8 private rinng 1 1\n' >"$tap_dir/broken.tune"
    status_is 1 'broken.tune, line 4: no algorithm "rinng" for all_reduce; did you mean "ring"' \
        env WEFT_TUNING_FILE="$tap_dir/broken.tune" timeout 20 ./weft-info
}

# The machine's description gives figures and levels; ranks of more hosts than it has are refused.
topology_file() {
    echo "nodes:1 pack:2 core:1" >"$tap_dir/one.topo"
    WEFT_LOG=debug WEFT_TOPO_FILE=$tap_dir/one.topo status_is 0 'plan.choice: all_reduce of 65536 bytes: flat' \
        timeout 60 ./weft-run --no-prefix -n 2 ./weft-bench -C all_reduce -b 64K -e 64K -n 3 || return 1
    cat >"$tap_dir/two.sh" <<'END'
export WEFT_NODE_ID=h$WEFT_RANK
exec ./weft-bench -C barrier -n 2
END
    WEFT_TOPO_FILE=$tap_dir/one.topo status_is 1 'one.topo describes 1 host.*, but the ranks are on 2' \
        timeout 60 ./weft-run -n 2 bash "$tap_dir/two.sh" || return 1
    WEFT_TOPO_FILE=$tap_dir/none.topo status_is 1 'none.topo' timeout 20 ./weft-info
}

tap "measures links and algorithms" measures
tap "goes on where it was" goes_on
tap "judges choices and predictions" status_is 0 'all: within 10 % of the best: [0-9]+ of 5 .*median error' ./weft-tune --check "$table"
tap "communicators choose by it" chooses
tap "a table of another machine is refused" other_machine
tap "ranks with different tables are named" ranks_differ
tap "a broken table is named" broken
tap "a topology file gives figures and levels" topology_file
tap "out of time, and says so" status_is 0 'out of time' tune -o "$tap_dir/late.tune" -t 0.1 -p 20
tap "no table" status_is 2 'no table is named' ./weft-tune
tap "bad sizes" status_is 2 'sizes: not a range such as 8-64M: "9-8"' ./weft-tune -o x -s 9-8
tap "bad collectives" status_is 2 'colls: .*"all_redce"' ./weft-tune -o x -c all_redce
tap "bad memory" status_is 2 'memory: .*"ram"' ./weft-tune -o x -m ram
tap "check of a file that is not there" status_is 1 'nothere' ./weft-tune --check nothere
tap "help" status_is 0 'usage: LAUNCHER weft-tune' ./weft-tune --help
tap_end
