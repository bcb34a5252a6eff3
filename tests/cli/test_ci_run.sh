#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# .ci/run: what it runs, and that its last line and exit status tell of every kind of failure; with a bootstrap that is made up.
set -u
unset TIERS CONFIGURE_FLAGS # of the run that runs this test
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
mkdir -p "$tap_dir/tree/.ci" && cp "$WEFT_SRCDIR/.ci/run" "$tap_dir/tree/.ci/run" || exit 99
cat >"$tap_dir/tree/bootstrap" <<'END'
#!/bin/bash
echo "ran $* TIERS=${TIERS-} CONFIGURE_FLAGS=${CONFIGURE_FLAGS-}"
name=$1
[ "$name" = check ] && name=$TIERS
case $(cat said.$name 2>/dev/null) in
'') [ "$name" = tests ] || echo "weft: 10 passed, 0 failed, 1 skipped"; exit 0 ;;
silent) exit 0 ;;
status) echo "weft: 10 passed, 0 failed, 1 skipped"; exit 1 ;;
failed) echo "weft: 8 passed, 2 failed, 1 skipped"; exit 1 ;;
broken) echo "error: no such thing"; exit 2 ;;
esac
END
chmod +x "$tap_dir/tree/bootstrap"

# ci STATUS LAST-LINE [PART...] with files said.*: what each run of bootstrap says
ci() {
    local want=$1 last=$2 status
    shift 2
    "$tap_dir/tree/.ci/run" "$@" >"$tap_dir/said" 2>&1 </dev/null
    status=$?
    cat "$tap_dir/said"
    echo "status $status"
    [ $status -eq "$want" ] && [ "$(tail -n 1 "$tap_dir/said")" = "$last" ]
}
with() { # NAME WHAT COMMAND...
    local file=$tap_dir/tree/said.$1 status
    echo "$2" >"$file"
    shift 2
    "$@"
    status=$?
    rm "$file"
    return $status
}
parts() {
    ci 0 "40 passed, 0 failed, 4 skipped" && [ "$(grep -c '^ran ' "$tap_dir/said")" -eq 5 ] &&
        [ "$(grep -c '^ran .*CONFIGURE_FLAGS=--enable-werror' "$tap_dir/said")" -eq 4 ] && grep -q '^ran check TIERS=workers ' "$tap_dir/said" && grep -q '^ran asan-ubsan TIERS=check fault ' "$tap_dir/said"
}
tap "all parts" parts
tap "one part" ci 0 "10 passed, 0 failed, 1 skipped" multi
tap "failed tests" with multi failed ci 1 "38 passed, 2 failed, 4 skipped"
tap "a part without results" with multi silent ci 1 "30 passed, 1 failed, 3 skipped"
tap "a part that fails without a failed test" with multi status ci 1 "40 passed, 1 failed, 4 skipped"
tap "a build that fails" with tests broken ci 1 "40 passed, 1 failed, 4 skipped"
tap "the sanitizers' build fails" with asan-ubsan broken ci 1 "30 passed, 1 failed, 3 skipped"
unknown() { "$tap_dir/tree/.ci/run" long >"$tap_dir/said" 2>&1; local status=$?; cat "$tap_dir/said"; [ $status -eq 2 ]; }
tap "an unknown part" unknown
tap_end
