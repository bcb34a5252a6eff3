#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1800
# Each fuzz target runs for WEFT_TEST_FUZZ_SECONDS (20) under libFuzzer with the address and the undefined-behaviour
# sanitizer, from the inputs in tests/fuzz/corpus/<target> and, for schedules, tests/golden. A crash, a leak, or an input
# that takes 20 s is a finding; its bytes are printed in base64, to be added to the corpus once the defect is mended.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
build=${WEFT_BUILDDIR:?}
seconds=${WEFT_TEST_FUZZ_SECONDS:-20}
seed=${WEFT_TEST_FUZZ_SEED:-0} # 0: another one each time
optimise=${WEFT_TEST_FUZZ_OPTIMISE:--O1}
work=$build/fuzz$optimise # each level has objects of its own
mkdir -p "$work" && cd "$WEFT_SRCDIR" || exit 99

echo 'int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long bytes);
int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long bytes) { return !data && bytes; }' >"$tap_dir/none.c"
clang -fsanitize=fuzzer,address,undefined "$tap_dir/none.c" -o "$tap_dir/none" >/dev/null 2>&1 || {
    echo "no clang with -fsanitize=fuzzer here (Debian packages clang and libclang-rt-dev, or llvm's own)"
    exit 77
}
words=$(env -u MAKEFLAGS -u MAKELEVEL -u TESTS make -s -C "$build" print-fuzz) || exit 99
words=$(grep -E '^(sources|targets|flags|libs)="' <<<"$words") # make may have had to configure first, and said so
sources= targets= flags= libs=
eval "$words"

clang_flags="-g $optimise -std=gnu11 -fno-omit-frame-pointer -fno-sanitize-recover=all -I$build -Iinclude -Isrc -I. $flags
    -DWEFT_PLUGIN_DIR=\"/nonexistent\""
# The library once, for all targets: what the fuzzer learns from is the same for each.
library() {
    local f object newest headers
    mkdir -p "$work/objects"
    headers="include $(printf '%s\n' $sources | cut -d/ -f1 | sort -u)" # the rooms that there are sources of
    newest=$(find $headers -name '*.h' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
    for f in $sources; do
        object=$work/objects/$(tr / _ <<<"${f%.c}").o
        objects+=" $object"
        [ "$object" -nt "$f" ] && [ "$object" -nt "$newest" ] || printf '%s\n%s\n' "$f" "$object"
    done >"$tap_dir/stale"
    xargs -a "$tap_dir/stale" -r -n 2 -P "$(nproc)" bash "$tap_dir/compile"
}
# compile SOURCE OBJECT. Reduction kernels are compiled without sanitizers, which take minutes for their unrolled loops: no target
# reduces anything. Codecs' kernels likewise, but for the plain ones, which the targets that decode use.
{
    printf 'with=-fsanitize=fuzzer-no-link,address,undefined\ncase $1 in src/base/reduce_*|compress/kernels_avx*|compress/select_avx*) with= ;; esac\nexec clang'
    printf ' %q' $clang_flags
    echo ' $with -c "$1" -o "$2"'
} >"$tap_dir/compile"
build() {
    local name=$(basename "$1" .c) with=$(sed -n 's/.*with: \(\(tools\|plugins\)\/.*\.c\)[^a-z]*$/\1/p' "$1")
    clang $clang_flags -fsanitize=fuzzer,address,undefined "$1" $with $objects -o "$work/$name" $libs -lpthread -lm -ldl \
        >"$work/$name.build" 2>&1
}
run() {
    local name=$(basename "$1" .c)
    local seeds=()
    [ -d "tests/fuzz/corpus/$name" ] && seeds+=("tests/fuzz/corpus/$name")
    [ "$name" = fuzz_sched ] && seeds+=(tests/golden)
    [ "$name" = fuzz_import ] && python3 tests/import/generate.py "$work/import" >/dev/null && seeds+=("$work/import")
    rm -rf "$work/$name.found" "$work/$name.log" "$work/$name".{crash,timeout,leak,oom}-*
    mkdir -p "$work/$name.found"
    # Blocks larger than half a GiB are refused, as a small machine would.
    ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 \
        "$work/$name" -seed="$seed" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=2048 -max_len=16384 \
        -print_final_stats=1 -artifact_prefix="$work/$name." "$work/$name.found" ${seeds[@]+"${seeds[@]}"} \
        >"$work/$name.log" 2>&1
}
# each COMMAND: of every target, on all cores; its exit status goes to a file.
each() {
    local target running=0
    for target in $targets; do
        [ $((running++)) -lt "$(nproc)" ] || wait -n
        { "$1" "$target"; echo $? >"$tap_dir/$1.$(basename "$target" .c)"; } &
    done
    wait
}
built() { cat "$work/$1.build"; return "$(cat "$tap_dir/build.$1")"; }
ran() {
    local name=$1 f
    if [ "$(cat "$tap_dir/run.$name")" -ne 0 ]; then
        grep -v '^#[0-9]\|^NEW_FUNC\|^\s*REDUCE\|^INFO' "$work/$name.log" | tail -n 50
        for f in "$work/$name".{crash,timeout,leak,oom}-*; do
            [ -f "$f" ] && { echo "input $f:"; base64 "$f" | head -n 40; }
        done
        return 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")
    # A target that hardly runs proves nothing.
    [ "${runs:-0}" -ge 100 ] || { echo "$name: only ${runs:-0} inputs in $seconds s"; return 1; }
}

objects= runs=
tap "the library is built for libFuzzer" library || tap_end
each build
each run
for target in $targets; do
    name=$(basename "$target" .c)
    tap "$name is built" built "$name" || continue
    tap "$name for $seconds s" ran "$name" && echo "# $name: $runs inputs"
done
tap_end
