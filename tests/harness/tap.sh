# SPDX-License-Identifier: BSD-3-Clause
# TAP for tests that are shell scripts. Source this file; then
#     tap "what must hold" COMMAND...     # passes if the command does; its output is shown if not
#     tap_end                             # prints the plan and exits
# $tap_dir is a new directory that is removed at the end.

tap_number=0 tap_failed=0
tap_dir=$(mktemp -d "${TMPDIR:-/tmp}/weft-test-XXXXXX") || exit 99
trap 'rm -rf "$tap_dir"' EXIT
trap 'exit 143' TERM INT HUP

tap() {
    local what=$1 status
    shift
    tap_number=$((tap_number + 1))
    "$@" >"$tap_dir/.output" 2>&1
    status=$?
    if [ $status -eq 0 ]; then
        echo "ok $tap_number - $what"
    else
        echo "not ok $tap_number - $what"
        echo "# $* (exit status $status):"
        tail -n 60 "$tap_dir/.output" | sed 's/^/# /'
        tap_failed=1
    fi
    return $status
}

tap_end() {
    echo "1..$tap_number"
    exit $tap_failed
}

# COMMAND...: what it prints goes to a full disk; it says so and fails
output_lost() {
    local out
    out=$(timeout 60 "$@" 2>&1 >/dev/full) && { echo "it succeeds"; return 1; }
    echo "$out"
    grep -qE 'the output could not be written: (No space left|a part was lost before)' <<<"$out"
}
