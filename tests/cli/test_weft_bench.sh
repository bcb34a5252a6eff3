#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-bench: every collective, type, operator and form is right; bad arguments are refused in one line; the files it
# writes are what they claim to be.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

bench() { # RANKS ARGUMENTS...
    local n=$1
    shift
    timeout 100 ./weft-run --no-prefix -n "$n" ./weft-bench "$@"
}
# The run succeeds, says that nothing is wrong, and has at least so many rows whose values were checked.
right() { # ROWS RANKS ARGUMENTS...
    local rows=$1 out
    shift
    out=$(bench "$@" 2>&1) || { echo "$out"; return 1; }
    echo "$out"
    grep -q 'Out of bounds values : 0 OK' <<<"$out" && [ "$(grep -cE '^ +[0-9]' <<<"$out")" -ge "$rows" ]
}
refused() { # TEXT ARGUMENTS...: exit status 2 and one line that holds the text
    local text=$1 err status
    shift
    err=$(timeout 20 ./weft-bench "$@" 2>&1 >/dev/null)
    status=$?
    echo "status $status: $err"
    [ $status -eq 2 ] && [ "$(wc -l <<<"$err")" -eq 1 ] && grep -qF -- "$text" <<<"$err"
}

for n in 1 2 3 4; do
    tap "every collective with $n ranks" right 18 "$n" all -b 4 -e 64K -f 128 -n 3
done
for type in int8 uint8 int16 uint16 int32 uint32 int64 uint64 half bfloat16 float double f8e4m3 f8e5m2 bool complex64 \
    complex128; do
    tap "$type, every operator" right 2 3 -d "$type" -o all -b 48 -e 4800 -f 100 -n 2
done
tap "every root" right 6 3 reduce broadcast -r all -b 4K -e 4K -n 2
for form in --blocking --request --persistent "-m 3" "--dirty each" "--dirty none" "--memory alloc" \
    "--memory register" "--offset 3" "-a 3" "-N 2" "-c 3" "--percentiles" "--report_cputime 1"; do
    tap "$form" right 2 2 -b 1K -e 1M -f 1024 -n 3 $form
done

some_algorithms() {
    local name
    for name in $(./weft-bench --list | sed -n '/^all_reduce$/,/^[a-z]/p' | awk '/^ / { print $1 }' ); do
        case $name in coded*) continue ;; esac # they need a codec: below
        right 1 2 --algo "$name" -d int32 --memory alloc -b 4K -e 4K -n 2 || return 1
    done
    [ -n "$name" ]
}
tap "--list names algorithms that --algo forces" some_algorithms
# coded CODEC SENT LEAST MOST BYPASSED [OPTION...]: the bytes that a rank sends, between what the error is, whether plain data goes.
coded() {
    local out
    out=$(bench 2 --codec "$1" -b 64K -e 64K -n 3 --json "$tap_dir/coded.json" --csv "$tap_dir/coded.csv" "${@:6}") ||
        { echo "$out"; return 1; }
    grep -q "codec: $1\$" <<<"$out" && python3 - "$tap_dir" "${@:2:4}" <<'END' || { echo "$out"; return 1; }
import csv, json, sys
folder, sent, least, most, bypassed = sys.argv[1], *map(float, sys.argv[2:])
row = json.load(open(folder + "/coded.json"))["rows"][0]
lines = {line["place"]: line for line in csv.DictReader(open(folder + "/coded.csv"))}
for place in "out", "in":
    t = row[f"{place}_{'of_' if place == 'out' else ''}place"]
    assert t["wrong"] == 0 and t["bytes_sent"] == sent and t["codec_bypassed"] == bool(bypassed), t
    assert least <= t["nmse"] <= min(most, t["nmse_allowed"]), t
    assert abs(float(lines[place]["nmse"]) - t["nmse"]) <= 1e-6 * t["nmse"] and float(lines[place]["bytes_sent"]) == sent, lines
END
}
plain() { bench 2 --codec none -b 64K -e 64K -n 3 | grep -qE ' 65536 +16384 +float .* 0 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0 *$'; }
unknown_codec() {
    bench 2 --codec int9 -b 64K -e 64K -n 1 2>"$tap_dir/codec" >/dev/null
    [ $? = 2 ] && [ "$(grep -c 'there is no codec "int9"; did you mean "int8"' "$tap_dir/codec")" = 1 ]
}
# Of two ranks each sends an image once, in two halves: 16384 codes of 4 bits with a scale of 16 bits for 64. It loses a shot and a half.
tap "--codec compresses" coded int4:block=64,ef=1,bypass=never 8704 .01 .03 0 --algo coded2
tap "--codec: a parameter of the codec, and of the type" coded int8:scale=fp32,bypass=never 33792 1e-5 1e-4 0 --algo coded2 -d bfloat16 -o avg
tap "--codec: where it is bypassed" coded int8 0 0 1e-12 1
tap "--codec none is none" plain
logged() { WEFT_LOG=info bench 2 --codec "$1" -b 64K -e 64K -n 1 2>&1 | grep "INFO plan.choice: all_reduce of 65536 bytes: $2\$"; }
tap "the log says that a codec is used" logged int8:bypass=never 'coded2, .* us predicted, compressed to 0.254'
tap "the log says that it is bypassed" logged int8 '[a-z0-9]*, .* us predicted; the codec is bypassed'
tap "an unknown codec is named" unknown_codec
# Right results whose error is about as long as the vector.
for n in 2 3 4; do
    tap "--codec terngrad with $n ranks" right 1 "$n" broadcast --codec terngrad:bypass=never -d bfloat16 -b 48K -e 48K -n 2 -N 3
done
tap "--codec qsgd, whose error is longer" right 1 2 all_reduce --codec qsgd:levels=1,bypass=never -b 64K -e 64K -n 2
tap "--codec leaderk, which loses more of the others" right 1 3 all_reduce --codec leaderk:ratio=0.1,bypass=never -b 16K -e 16K -n 2
tap "--codec topk of next to nothing" right 1 3 all_reduce --codec topk:ratio=0.00001,bypass=never -b 256K -e 256K -n 2 -N 3
# sharedint with ranks= given; terngrad's clip, which is not that of ef=dgc; codecs of WEFT_COMPRESS.
checked() { # COUNT RANKS ARGUMENTS...: right, with so many halves of rows checked, and the codec in the header
    local count=$1 out
    shift
    out=$(right 1 "$@") || { echo "$out"; return 1; }
    echo "$out"
    [ "$(awk '/^ +[0-9]/ { n += ($9 == "0") + ($15 == "0") } END { print n }' <<<"$out")" = "$count" ] && grep -q ' codec: ' <<<"$out"
}
tap "--codec sharedint with ranks=" checked 2 2 all_reduce --codec sharedint:ranks=2,bypass=never -b 64K -e 64K -n 2
tap "--codec terngrad with its clip is checked" checked 2 2 all_reduce --codec terngrad:clip=2,bypass=never -b 64K -e 64K -n 2
tap "--codec with clip= of ef=dgc is not" checked 0 2 all_reduce --codec topk:ef=dgc,clip=1,bypass=never -b 64K -e 64K -n 2
WEFT_COMPRESS=int8:bypass=never tap "WEFT_COMPRESS is the codec of sums of floats" checked 2 2 all_reduce -b 64K -e 64K -n 2
WEFT_COMPRESS=int8:bypass=never tap "WEFT_COMPRESS: an average of halves" checked 1 3 reduce_scatter -o avg -d half -b 96K -e 96K -n 2 --place out
WEFT_COMPRESS=int8:bypass=never tap "WEFT_COMPRESS: others are exact" checked 1 3 all_gather -b 96K -e 96K -n 2 --place out
WEFT_COMPRESS=int8:bypass=never tap "WEFT_COMPRESS: --overlap" bench 2 --overlap -e 1M
# A codec whose images are zeros in collectives: rank 0 says so before a launcher ends it, because another rank has failed.
dropped() { # ARGUMENTS...
    local out i
    mkdir -p "$tap_dir/drops" && cp .libs/drops.so "$tap_dir/drops/" && chmod 700 "$tap_dir/drops" "$tap_dir/drops/drops.so" || return 1
    for i in 1 2 3 4 5 6; do
        out=$(WEFT_PLUGIN_PATH=$tap_dir/drops bench 4 --codec drops:bypass=never,"$1" -b 64K -e 64K -n 2 "${@:2}" 2>&1)
        [ $? = 1 ] && grep -qE '^ +65536 ' <<<"$out" && grep -q 'Out of bounds values : [1-9][0-9]* FAILED' <<<"$out" ||
            { echo "run $i: $out"; return 1; }
    done
}
# However long rank 0 takes for it.
waited_for() {
    local fifo=$tap_dir/fifo
    mkfifo "$fifo" && { (sleep 1 && exec timeout 30 cat "$fifo" >"$tap_dir/late.json") & } || return 1
    WEFT_PLUGIN_PATH=$tap_dir/drops bench 4 --codec drops:bypass=never -b 64K -e 64K -n 2 broadcast --json "$fifo"
    [ $? = 1 ] && wait $! && python3 -c "import json, sys; assert json.load(open(sys.argv[1]))['wrong'] > 0" "$tap_dir/late.json"
}
tap "wrong results are found, and rank 0 reports them" dropped loses=0.5 broadcast
tap "also of a codec that loses nearly all" dropped loses=0.7 all_reduce
tap "no rank fails before rank 0 has reported" waited_for
tap "an unknown algorithm is refused" refused "no algorithm is called 'nonsense'" --algo nonsense

files() {
    bench 2 all_reduce barrier -b 8 -e 64K -n 2 --percentiles --json "$tap_dir/a.json" --csv "$tap_dir/a.csv" \
        --plot "$tap_dir/a.svg" || return 1
    python3 - "$tap_dir" <<'END'
import csv, json, sys, xml.etree.ElementTree as xml
d = sys.argv[1]
data = json.load(open(d + "/a.json"))
assert data["ranks"] == 2 and data["wrong"] == 0 and len(data["rows"]) == 15, data
row = data["rows"][0]
assert row["bytes"] == 8 and row["out_of_place"]["time_us"] > 0 and row["in_place"]["wrong"] == 0
p = row["out_of_place"]["percentiles_us"]
assert p["50"] <= p["90"] <= p["99"] <= p["99.9"] <= p["100"], p
lines = list(csv.DictReader(open(d + "/a.csv")))
assert len(lines) == 29 and all(float(x["time_us"]) > 0 for x in lines), len(lines)
root = xml.parse(d + "/a.svg").getroot()
assert len(root.findall(".//{*}polyline")) == 4, "curves"
END
}
tap "--json, --csv and --plot" files

tap "--startup" bench 4 --startup
tap "--idle-memory" bench 4 --idle-memory
tap "--overlap" bench 2 --overlap -e 1M
beside() {
    local out
    out=$(bench 2 --beside -e 8M)
    local status=$?
    echo "$out"
    [ $status -eq 0 ] && grep -q '^# beside: 0 of 2000 requests of 8 bytes alone' <<<"$out" &&
        grep -q '^# beside: 0 of 2000 requests of 8 bytes while another' <<<"$out" && grep -q '^# all_reduce of 8 bytes.* 0 wrong' <<<"$out"
}
tap "--beside, and where it is" beside
without_thread() { # RANK without it
    local out status
    out=$(timeout 60 ./weft-run --no-prefix -n 2 sh -c "[ \$WEFT_RANK = $1 ] && export WEFT_PROGRESS_THREAD=no
        exec ./weft-bench --beside -e 1M" 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq 2 ] && grep -q -- '--beside needs the progress thread' <<<"$out"
}
tap "--beside without the progress thread is refused" without_thread 0
tap "... though another rank has it" without_thread 1
for extra in "-n 3" "-d int32" "--percentiles" "--csv -" "-b 4" "-C all_reduce"; do
    for mode in --beside --overlap; do
        tap "$mode does not take $extra" refused "$mode does not use --" $mode $extra
    done
done
tap "--beside of another collective" refused "--beside measures all_reduce only; leave out 'broadcast'" --beside broadcast
tap "--overlap and --beside at once" refused "--overlap and --beside are separate measurements" --overlap --beside
tap "--help" ./weft-bench --help

tap "-b above -e" refused "-b 8192 is above" -b 8K -e 4K
tap "a size that is none" refused "'12q'" -b 12q
tap "a negative count" refused "-n wants" -n -3
tap "an unknown collective" refused "'all_reduse'" all_reduse
tap "an unknown type" refused "'float7'; there are int8, uint8, int16," -d float7
tap "an operator that the type lacks" refused "-o: undefined for this type (-d), so that all_reduce measures nothing" -o band
tap "... in one of several collectives" refused "scan measures nothing" -C broadcast,scan -d bool -o avg
tap "... of some of the types" right 3 1 -d all -o band -b 64 -e 64 -n 1
tap "-e below the default of -b" right 1 1 -e 4 -n 1
tap "-b above the default of -e" right 1 1 -b 17M -n 1
tap "--overlap -e below the default of -b" bench 2 --overlap -e 4
unwritable() { # OPTION...: said before anything is measured
    local option file
    for option in --json --csv --plot "--overlap --json"; do
        for file in /nonexistent/file "$tap_dir"; do
            refused "$file: " $option "$file" && [ -z "$(timeout 20 ./weft-bench $option "$file" 2>/dev/null)" ] || return 1
        done
    done
    ./weft-bench -e 8 -n 1 --json /dev/full >/dev/null 2>&1
    [ $? -eq 1 ]
}
tap "files that cannot be written" unwritable
whose() { WEFT_RANK=1 WEFT_TRANSPORTS=nonsense ./weft-bench -e 8 2>&1 | grep '^weft-bench: rank 1: '; }
tap "a rank without a context says which it is" whose
tap "an unknown operator" refused "'plus' (--help" -o plus
tap "a misspelt operator" refused "no operator is called 'summ'; did you mean 'sum'?" -o summ
tap "nothing like a collective" refused "no collective is called 'frobnicate' (--help" -C all_reduce,frobnicate
tap "a misspelt collective" refused "no collective is called 'all_reduc'; did you mean 'all_reduce'?" all_reduc
tap "a collective too long to be one" refused "_v_v_v_v_v_v' (--help" "$(printf 'all_to_all_v%.0s_v' {1..20})_v_v_v_v_v"
tap "an unknown option" refused "--frobnicate" --frobnicate
# Rank 0 says it, though another one could fail first and have it ended; and where rank 0 does not, another one does.
told() { # RANKS_THAT_SAY_IT LAG_OF_RANK_0 PROGRAM ARGUMENTS...
    local said=$1 lag=$2 out
    shift 2
    out=$(timeout 60 ./weft-run -n 2 sh -c '[ $WEFT_RANK = 0 ] && sleep '"$lag"'; exec "$@"' sh "$@" 2>&1 >/dev/null)
    echo "$out"
    [ "$(grep -oE '^\[[01]\] weft-(bench|tune): ' <<<"$out")" = "[$said] ${1#./}: " ]
}
tap "an unknown option is said by rank 0, once" told 0 0.5 ./weft-bench --frobnicate
tap "... and by another rank where rank 0 does not" told 1 30 ./weft-bench --frobnicate
tap "an algorithm that there is not is said by rank 0, once" told 0 0.5 ./weft-bench --algo nonsense
tap "a root that is no rank is said by rank 0, once" told 0 0 ./weft-bench -r 7 -C broadcast
tap "weft-tune's unknown options too" told 0 0.5 ./weft-tune --frobnicate
tap "weft-tune's wrong values too" told 0 0.5 ./weft-tune -o "$tap_dir/table" --rounds 0
tap "a missing value" refused "wants a value" -e
tap "a root that is no rank" refused "-r 7" -r 7 -C broadcast
tap "an option for GPUs" refused "CUDA" -G 1
tap "-i 0" refused "-i 0" -i 0
tap "--against without MPI" refused "mpirun" --against mpi

against() { # MPI
    local out
    out=$(timeout 60 "mpirun.$1" -n 2 ./weft-bench all_reduce -b 1K -e 4K -n 20 --against mpi 2>&1)
    echo "$out"
    grep -q '# against: ' <<<"$out" && grep -q '0 OK' <<<"$out"
}
for mpi in openmpi mpich; do
    if [ -f ".libs/bench_mpi_$mpi.so" ] && command -v "mpirun.$mpi" >/dev/null && [ -z "${WEFT_SANITIZER#no}" ]; then
        tap "--against mpi under $mpi" against "$mpi"
    else
        tap_number=$((tap_number + 1))
        echo "ok $tap_number - --against mpi under $mpi # SKIP no module, no mpirun, or a sanitizer"
    fi
done
workers_start() { # MEMORY ALGORITHM: what the log says of them
    WEFT_LOG=info WEFT_WORKERS=2 bench 2 --memory "$1" -b 4M -e 4M -n 1 --algo "$2" 2>&1 | grep workers.started
}
workers_say() {
    workers_start alloc direct | grep -q '2 of 2 worker threads, for copies and reductions of 262144 bytes or more' &&
        ! workers_start malloc flat2
}
tap "worker threads say that they start; none do for pieces of malloc's memory" workers_say
rule_said() {
    WEFT_LOG=info WEFT_TRANSPORTS=tcp WEFT_ALGO=all_reduce:flat2 bench 2 -b 4K -e 4K -n 1 2>&1 |
        grep -q 'plan.rule: all_reduce of 4096 bytes: the rule "flat2" is passed over: it needs all ranks in one shared-memory group'
}
tap "a rule that is passed over is in the log" rule_said
tap "a full disk" output_lost ./weft-bench -b 8 -e 8 -n 1
tap "--list to a full disk" output_lost ./weft-bench --list
tap "--help to a full disk" output_lost ./weft-bench --help
tap_end
