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
    for rate in 'copy bytes' 'sum float' 'sum f8e4m3' 'prod complex64' 'user float'; do # all above 0: the parser sees to it
        grep -qE "^rate $rate [0-9.e+]+ [0-9.e+]+$" "$table" || return 1
    done
    grep -q '^weft-tuning 1$' "$table" && grep -q '^layout 2 1 0x2' "$table" && grep -q '^parameter local_us' "$table" &&
        grep -q '^link 0 1 ' "$table" && grep -qE '^all_reduce 2 1 1048576 mapped direct [0-9.e+]+ [0-9.e+]+( noise=[0-9.e-]+)?$' "$table" &&
        grep -qE '^all_reduce 2 1 8 private ring ' "$table" && grep -qE '^barrier 2 1 0 private dissem ' "$table"
}
goes_on() { # nothing is measured twice; a line taken out is measured again
    status_is 0 ', 0 points measured now' tune -o "$table" -c all_reduce,barrier -s 8-1M -f 512 -p 1 || return 1
    sed -i '/^all_reduce 2 1 8 private ring /d' "$table"
    status_is 0 ', 1 points measured now' tune -o "$table" -c all_reduce,barrier -s 8-1M -f 512 -p 1
}
# A line that is measured again beside known ones is tied to them: in a table whose times are a million times as long it gets a time
# near theirs, not what a clock says.
ties() {
    awk '/^all_reduce 2 1 8 private /{$7 *= 1000000} {print}' "$table" | sed '/^all_reduce 2 1 8 private ring /d' >"$tap_dir/tied.tune"
    status_is 0 ', 1 points measured now' tune -o "$tap_dir/tied.tune" -c all_reduce -s 8-8 -p 1 || return 1
    awk '/^all_reduce 2 1 8 private ring /{ring = $7; next}
        /^all_reduce 2 1 8 private /{if (!least || $7 < least) least = $7}
        END {exit !(ring > least / 1000)}' "$tap_dir/tied.tune" && return 0
    cat "$tap_dir/tied.tune"
    return 1
}
# What communicators chose is measured beside; every question of the measurements has a row, whatever they are.
judges_measured() {
    local out=$tap_dir/check.txt
    status_is 0 'points measured now' tune -o "$tap_dir/again.tune" --table "$table" -c all_reduce,barrier -s 8-1M -f 512 -p 1 ||
        return 1
    ./weft-tune --check "$tap_dir/again.tune" --table "$table" --all >"$out" || return 1
    cat "$out"
    grep -q ' chosen=' "$tap_dir/again.tune" && [ "$(grep -cE '^(all_reduce|barrier) +2 +[0-9]+ ' "$out")" -eq 5 ] &&
        grep -qE '^2 ranks on 1 node\(s\), 0x2: within 10 % of the best: [0-9]+ of 5 ' "$out"
}
# Made up: rows, the lines below them and the picture are what the two tables say.
judges() {
    local out=$tap_dir/check.txt plot=$tap_dir/check.svg bytes head=$'weft-tuning 1\nmachine x\nlayout 4 2 0x2+1x2'
    { echo "$head"; for bytes in 8 512 32768 1048576; do
        echo "all_reduce 4 2 $bytes private ring 10 1"; echo "all_reduce 4 2 $bytes private rdouble 20 1"
    done; echo 'barrier 4 2 0 private dissem 5 1'; } >"$tap_dir/said.tune"
    { echo "$head"; for bytes in 8 512 32768 1048576; do # from the third on the table is wrong: by 70.8 %
        echo "all_reduce 4 2 $bytes private ring $([ $bytes -le 512 ] && echo 10 || echo 17.08) 1 noise=0.01 chosen=10.5"
        echo "all_reduce 4 2 $bytes private rdouble $([ $bytes -le 512 ] && echo 20 || echo 10) 1 noise=0.01"
    done; echo 'barrier 4 2 0 private dissem 5 1 noise=0.01 chosen=5'; } >"$tap_dir/seen.tune"
    ./weft-tune --check "$tap_dir/seen.tune" --table "$tap_dir/said.tune" --all --plot "$plot" >"$out" || return 1
    cat "$out"
    [ "$(grep -cE '^(all_reduce|barrier) +4/2 +[0-9]+ ' "$out")" -eq 5 ] &&
        [ "$(grep -cE '^all_reduce +4/2 +[0-9]+ private ring +rdouble .* 70\.8%' "$out")" -eq 2 ] &&
        grep -qE '^4 ranks on 2 node\(s\), 0x2\+1x2: within 10 % of the best: 3 of 5 ' "$out" &&
        grep -q 'farther off than twice the noise explains: 2 ' "$out" &&
        grep -q 'as communicators chose: within 10 % of the best: 5 of 5 ' "$out" &&
        grep -q 'the same algorithm measured twice: within 10 % of itself: 3 of 5 ' "$out" &&
        grep -q '</svg>' "$plot" && [ "$(grep -c '<title>' "$plot")" -eq 5 ]
}
# Made up: of four questions the table is right about three, and one time is twice what it says.
counts() {
    local out head=$'weft-tuning 1\nmachine x\nlayout 4 2 0x2+1x2'
    printf '%s\n' "$head" 'all_reduce 4 2 8 private ring 10 1' 'all_reduce 4 2 8 private rdouble 20 1' \
        'all_reduce 4 2 64 private ring 30 1' 'all_reduce 4 2 64 private rdouble 20 1' \
        'barrier 4 2 0 private dissem 5 1' 'all_gather 4 2 8 private ring 7 1' >"$tap_dir/said.tune"
    printf '%s\n' "$head" 'all_reduce 4 2 8 private ring 10 1 noise=0.01 chosen=10.5' \
        'all_reduce 4 2 8 private rdouble 20 1 noise=0.01' 'all_reduce 4 2 64 private ring 20 1 noise=0.01' \
        'all_reduce 4 2 64 private rdouble 30 1 noise=0.01' 'barrier 4 2 0 private dissem 10 1' \
        'all_gather 4 2 8 private ring 7 1' >"$tap_dir/seen.tune"
    out=$(./weft-tune --check "$tap_dir/seen.tune" --table "$tap_dir/said.tune")
    echo "$out"
    grep -qE '^all_reduce +4/2 +64 private rdouble +ring +30.00 +20.00 +50.0% +1.4% +20.00 +-33.3%$' <<<"$out" &&
        [ "$(grep -c '^all_reduce ' <<<"$out")" -eq 1 ] &&
        grep -q '^all: within 10 % of the best: 3 of 4 (75.0 %); predictions: median error 16.7 % of 6$' <<<"$out" &&
        grep -q 'farther off than twice the noise explains: 1 ' <<<"$out" &&
        grep -q 'as communicators chose: within 10 % of the best: 1 of 1 ' <<<"$out" &&
        grep -q 'measured twice: within 10 % of itself: 1 of 1 (100.0 %); differs by median 5.0 %' <<<"$out"
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

# The machine's description gives link parameters and levels; ranks of more hosts than it has are refused.
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

# One rank's core is slow: everybody says the same rates, and they are the slow ones.
cores_agree() {
    local rates
    cat >"$tap_dir/slow.sh" <<'END'
[ "$WEFT_RANK" = 1 ] && export WEFT_ISA=scalar
exec ./weft-bench -C all_reduce -b 256K -e 256K -n 3
END
    WEFT_MEASURE_RATES=y WEFT_LOG=info timeout 60 ./weft-run --no-prefix -n 3 bash "$tap_dir/slow.sh" >"$tap_dir/slow.out" 2>&1 ||
        { cat "$tap_dir/slow.out"; return 1; }
    rates=$(sed -n 's/.*plan\.rates: [^:]*: //p' "$tap_dir/slow.out" | sort -u)
    echo "$rates"
    [ "$(grep -c 'plan\.rates' "$tap_dir/slow.out")" -ge 3 ] && [ "$(wc -l <<<"$rates")" -eq 1 ] &&
        grep -q 'measured by the ranks' <<<"$rates"
}
# The setting is one of those that are compared.
one_measures() {
    printf '[ "$WEFT_RANK" = 1 ] && export WEFT_MEASURE_RATES=y\nexec ./weft-bench -C barrier -n 2\n' >"$tap_dir/lone.sh"
    WEFT_COMM_INIT_TIMEOUT=20s status_is 1 'has other WEFT_\* settings' timeout 60 ./weft-run -n 2 bash "$tap_dir/lone.sh"
}

tap "measures links and algorithms" measures
tap "ranks of unlike cores go by the same rates" cores_agree
tap "a rank that alone measures is named" one_measures
tap "goes on where it was" goes_on
tap "judges choices and predictions" status_is 0 'all: within 10 % of the best: [0-9]+ of 5 .*median error' ./weft-tune --check "$table"
tap "ties a missing line to known ones" ties
tap "judges what was measured by another table" judges_measured
tap "judges a table by another, and draws it" judges
tap "counts what is near, what noise explains, and how far predictions are off" counts
tap "a picture that cannot be written" status_is 1 'none/x.svg: No such' ./weft-tune --check "$table" --plot "$tap_dir/none/x.svg"
tap "communicators choose by it" chooses
tap "a table of another machine is refused" other_machine
tap "ranks with different tables are named" ranks_differ
tap "a broken table is named" broken
tap "a topology file gives link parameters and levels" topology_file
tap "out of time, and says so" status_is 0 'out of time' tune -o "$tap_dir/late.tune" -t 0.1 -p 20
tap "no table" status_is 2 'no table is named' ./weft-tune
tap "bad sizes" status_is 2 'sizes: not a range such as 8-64M: "9-8"' ./weft-tune -o x -s 9-8
tap "bad collectives" status_is 2 'colls: .*"all_redce"' ./weft-tune -o x -c all_redce
tap "bad rounds" status_is 2 'rounds: not a whole number from 1 to 1000: "2.5"' ./weft-tune -o x -r 2.5
tap "a picture of nothing" status_is 2 'needs --check FILE: "--plot"' ./weft-tune -o x --plot x.svg
tap "a check measures nothing" status_is 2 'measures nothing for -o: "x"' ./weft-tune -o x --check "$table"
tap "bad memory" status_is 2 'memory: .*"ram"' ./weft-tune -o x -m ram
tap "check of a file that is not there" status_is 1 'nothere' ./weft-tune --check nothere
no_option() { # one line, without the path by which it was called
    status_is 2 "^weft-tune: '--chek' is not an option; see weft-tune --help$" "$PWD/weft-tune" --chek x &&
        status_is 2 "^weft-tune: '-o' wants a value; see weft-tune --help$" ./weft-tune -o && [ "$(./weft-tune --chek 2>&1 | wc -l)" -eq 1 ]
}
tap "no such option, no value" no_option
full_disk() { # in a mount namespace of its own; what is full is not called shared memory
    local out
    mkdir "$tap_dir/full" && out=$(unshare -m sh -c "mount -t tmpfs -o size=8k tmpfs '$tap_dir/full' &&
        head -c 8192 /dev/zero >'$tap_dir/full/x' && timeout 60 ./weft-tune -o '$tap_dir/full/t' -c barrier" 2>&1)
    [ $? -eq 1 ] && grep -q 'writing a tuning table: No space left' <<<"$out" && ! grep -q 'for shared memory:' <<<"$out" && return
    echo "$out"
    return 1
}
if unshare -m sh -c "mount -t tmpfs tmpfs '$tap_dir'" 2>/dev/null; then
    tap "a table that does not fit" full_disk
else
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - a table that does not fit # SKIP nothing can be mounted here"
fi
tap "help" status_is 0 'usage: LAUNCHER weft-tune' ./weft-tune --help
tap "--help to a full disk" output_lost ./weft-tune --help
tap_end
