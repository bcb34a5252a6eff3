#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The driver and the tally must notice every test that did not do what it says.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
harness=$WEFT_SRCDIR/tests/harness
unset WEFT_TEST_SLOW
export WEFT_TEST_TIMEOUT=20
cd "$tap_dir" || exit 99

# drive SCRIPT: the driver's results for a test that is this shell script, in t.trs.
drive() {
    rm -f t.trs t.log
    printf '%s\n' "$1" >t.sh
    "$harness/driver" --test-name t --log-file t.log --trs-file t.trs -- bash t.sh
    cat t.trs
}
# gives SCRIPT RESULT LINE...: the whole result, and all lines of results in order.
gives() {
    local script=$1 result=$2
    shift 2
    drive "$script"
    grep -q "^:global-test-result: $result\$" t.trs && diff <(printf '%s\n' "$@") <(sed -n 's/^:test-result: //p' t.trs)
}
tally_says() { # STATUS LAST-LINE FILE...
    local status=$1 line=$2 out got
    shift 2
    out=$("$harness/tally" --label t "$@")
    got=$?
    echo "$out"
    [ $got -eq "$status" ] && [ "$(tail -n 1 <<<"$out")" = "$line" ]
}

tap "cases pass, plan first" gives $'echo 1..2\necho ok 1 - a\necho ok 2 - b' PASS 'PASS a' 'PASS b'
tap "cases pass, plan last" gives $'echo ok 1 - a\necho 1..1' PASS 'PASS a'
tap "a case fails" gives $'echo 1..2\necho ok 1 - a\necho not ok 2 - b\nexit 1' FAIL 'PASS a' 'FAIL b'
tap "success in spite of failures" gives $'echo not ok 1 - b\necho 1..1' FAIL 'FAIL b' 'FAIL exit status 0 in spite of failures'
tap "failure without a failed case" gives $'echo ok 1 - b\necho 1..1\nexit 3' FAIL 'PASS b' 'FAIL exit status 3'
no_case='FAIL no case was run: a test says at least "1..1" and "ok 1 - what holds"'
tap "no case" gives 'echo all is well' FAIL "$no_case"
tap "no output" gives ':' FAIL "$no_case"
tap "a plan of nothing" gives 'echo 1..0' FAIL "$no_case"
tap "no plan" gives 'echo ok 1 - a' FAIL 'PASS a' 'FAIL no plan (1..N) was printed: it may have stopped after 1 cases'
tap "ends early, plan first" gives $'echo 1..3\necho ok 1 - a\nexit 0' FAIL 'PASS a' 'FAIL 1 of 3 planned cases ran'
tap "ends early and fails" gives $'echo 1..3\necho not ok 1 - a\nexit 1' FAIL 'FAIL a' 'FAIL 1 of 3 planned cases ran'
tap "runs more than planned" gives $'echo 1..1\necho ok 1 - a\necho ok 1 - a' FAIL 'PASS a' 'PASS a' 'FAIL 2 of 1 planned cases ran'
tap "streams add up" gives $'echo 1..1\necho ok 1 - a\necho ok 1 - b\necho 1..1' PASS 'PASS a' 'PASS b'
tap "a second stream stops" gives $'echo ok 1 - a\necho 1..1\necho ok 1 - b' FAIL 'PASS a' 'PASS b' 'FAIL 2 of 1 planned cases ran'
tap "streams, plans first" gives $'echo 1..1\necho ok 1 - a\necho 1..2\necho ok 1 - b\necho ok 2 - c' PASS 'PASS a' 'PASS b' 'PASS c'
tap "a case twice" gives $'echo 1..3\necho ok 1 - a\necho ok 2 - b\necho ok 2 - b' FAIL 'PASS a' 'PASS b' \
    'FAIL case 2 comes after case 2, not case 3' 'PASS b' 'FAIL exit status 0 in spite of failures'
tap "cases in another order" gives $'echo 1..2\necho ok 2 - b\necho not ok 1 - a\nexit 1' FAIL \
    'FAIL case 2 comes after case 0, not case 1' 'PASS b' 'FAIL case 1 comes after case 2, not case 3' 'FAIL a'
tap "a case is left out" gives $'echo 1..2\necho ok 1 - a\necho ok 3 - c' FAIL 'PASS a' 'FAIL case 3 comes after case 1, not case 2' \
    'PASS c' 'FAIL exit status 0 in spite of failures'
tap "killed" gives $'echo 1..1\necho ok 1 - a\nkill -SEGV $$' FAIL 'PASS a' 'FAIL exit status 139'
tap "bails out" gives $'echo 1..1\necho ok 1 - a\necho "Bail out! no disk"\nexit 1' FAIL 'PASS a' 'FAIL Bail out! no disk'
tap "a case is skipped" gives $'echo 1..1\necho "ok 1 - a # SKIP no such thing"' SKIP 'SKIP a: no such thing'
tap "a case is skipped without a reason" gives $'echo 1..1\necho "ok 1 - a # SKIP"' FAIL 'FAIL a: skipped without a reason' \
    'FAIL exit status 0 in spite of failures'
tap "all is skipped" gives $'echo noise\necho no such thing here\nexit 77' SKIP 'SKIP no such thing here'
tap "all is skipped, half-way" gives $'echo 1..3\necho ok 1 - a\necho no such thing here\nexit 77' FAIL 'PASS a' \
    'FAIL skipped as a whole after 1 cases'
tap "all is skipped, by plan" gives 'echo "1..0 # SKIP no such thing"' SKIP 'SKIP no such thing'
tap "all is skipped without a reason" gives 'exit 77' FAIL 'FAIL skipped without a reason'
summary() { printf 'echo "Run Summary: Type Total Ran Passed Failed Inactive"\necho "  tests %s 0"\nexit %s' "$1" "$2"; }
tap "CUnit's summary" gives "$(summary '2 2 2 0' 0)" PASS 'PASS CUnit case' 'PASS CUnit case'
tap "CUnit's summary, a failure" gives "$(summary '2 2 1 1' 1)" FAIL 'PASS CUnit case' 'FAIL CUnit case'
tap "CUnit's summary, some did not run" gives "$(summary '3 2 2 0' 0)" FAIL 'PASS CUnit case' 'PASS CUnit case' \
    'FAIL 2 of 3 planned cases ran'
export WEFT_TEST_TIMEOUT=1
tap "a deadline" gives $'echo 1..1\necho ok 1 - a\nsleep 100' FAIL 'PASS a' 'FAIL exit status 124'
export WEFT_TEST_TIMEOUT=20

drive $'echo ok 1 - a\necho 1..1' >/dev/null && mv t.trs good.trs
drive $'echo not ok 1 - a\necho 1..1\nexit 1' >/dev/null && mv t.trs bad.trs
drive $'echo no such thing\nexit 77' >/dev/null && mv t.trs skipped.trs
: >empty.trs
tap "tally: passed and skipped" tally_says 0 't: 1 passed, 0 failed, 1 skipped' good.trs skipped.trs
tap "tally: failed" tally_says 1 't: 1 passed, 1 failed, 0 skipped' good.trs bad.trs
tap "tally: not run" tally_says 1 't: 1 passed, 1 failed, 0 skipped' good.trs none.trs
tap "tally: no results" tally_says 1 't: 1 passed, 1 failed, 0 skipped' good.trs empty.trs
tap "tally: nothing" tally_says 1 't: 0 passed, 0 failed, 0 skipped'
tap_end
