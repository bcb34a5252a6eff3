#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch over two hosts: without a job key, with one, with different ones, and where one is required.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/torch/setup.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
hosts_create 2
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT

# both NAME=VALUE... -- NAME=VALUE...: a rank on each host, with these variables on all, then these on the second. Leaves what they
# printed in $tap_dir/0 and /1, and their statuses in $status.
port=29400 how=
both() {
    local all=() second=() r pids=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do all+=("$1"); shift; done
    shift
    second=("$@")
    port=$((port + 1))
    for r in 0 1; do
        [ $r = 0 ] && second_now=() || second_now=("${second[@]}")
        hosts_on $r env MASTER_ADDR="$(hosts_address 0)" MASTER_PORT=$port RANK=$r WORLD_SIZE=2 "${all[@]}" "${second_now[@]}" \
            timeout 120 "$python" "$WEFT_SRCDIR/tests/torch/security.py" $how >"$tap_dir/$r" 2>&1 &
        pids+=($!)
    done
    status=""
    for r in 0 1; do wait "${pids[$r]}"; status="$status$?"; done
}
say() { echo "statuses $status"; tail -n 20 "$tap_dir/0" "$tap_dir/1"; return 1; }
all_say() { grep -q "$1" "$tap_dir/0" && grep -q "$1" "$tap_dir/1"; }

key() {
    head -c 32 /dev/urandom >"$tap_dir/$1"
    chmod 600 "$tap_dir/$1"
}
key one
key other

runs() { both "$@" --; [ "$status" = 00 ] && all_say "sum 3 $want" || say; }
want="security store"
tap "without a key two hosts start, as private as PyTorch's store" runs WEFT_JOB_KEY_FD=-1
want="security key"
tap "with a key they start" runs "WEFT_JOB_KEY_FILE=$tap_dir/one"

refused() { [ "$status" = 33 ] && all_say "$1" || say; }
different() { both "WEFT_JOB_KEY_FILE=$tap_dir/one" -- "WEFT_JOB_KEY_FILE=$tap_dir/other"; refused "does not verify: another job key"; }
tap "different keys are refused on both, and the rank named" different
missing() { both -- "WEFT_JOB_KEY_FILE=$tap_dir/one"; refused "rank 0 has no job key and rank 1 has one"; }
tap "a key on one of them only is refused on both" missing
how=leaving
tap "so it is where the rank that has the store leaves first" missing
how=
required() { both WEFT_REQUIRE_KEY=1 --; refused "WEFT_REQUIRE_KEY is set and no job key is configured"; }
tap "a required key that is not configured is refused" required
enough() { both WEFT_REQUIRE_KEY=1 "WEFT_JOB_KEY_FILE=$tap_dir/one" --; [ "$status" = 00 ] || say; }
tap "a required key that is configured is enough" enough
tap_end
