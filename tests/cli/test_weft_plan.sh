#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-plan check: verdicts, exit statuses, and each output read by what it is for.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
in=$tap_dir/in
python3 "$WEFT_SRCDIR/tests/import/generate.py" "$in" >/dev/null || exit 99

plan() { timeout 20 ./weft-plan "$@"; }
status_is() { # STATUS TEXT ARGUMENTS...
    local want=$1 text=$2 out status
    shift 2
    out=$(plan "$@" 2>&1)
    status=$?
    [ $status -eq "$want" ] && grep -qE -- "$text" <<<"$out" && return 0
    echo "exit status $status: $out"
    return 1
}
printed_again() {
    plan check --print "$in/right/all_reduce_ring.xml" >"$tap_dir/all.txt" || return 1
    plan check "$tap_dir/all.txt" | grep -q proved || return 1
    csplit -s -z -f "$tap_dir/rank" "$tap_dir/all.txt" '/^weft-schedule/' '{*}' || return 1
    [ "$(ls "$tap_dir"/rank* | wc -l)" -eq 4 ] && plan check "$tap_dir"/rank* | grep -q proved || return 1
    status_is 1 'no schedule of rank' check "$tap_dir"/rank00 "$tap_dir"/rank01 "$tap_dir"/rank02
}
json() {
    plan check --json "$in/right/all_gather.json" "$in/wrong/deadlock.xml" >"$tap_dir/out.json"
    [ $? -eq 1 ] && python3 - "$tap_dir/out.json" <<'END'
import json, sys
good, bad = json.load(open(sys.argv[1]))
assert good["verdict"] == "proved" and good["collective"] == "all_gather" and good["ranks"] == 4, good
assert len(good["schedules"]) == 4 and good["format"] == "MSCCL++ JSON"
assert bad["verdict"] == "refused" and "deadlock" in bad["reason"], bad
END
}
dot() { plan check --dot "$in/right/all_to_all.xml" | grep -q '^digraph'; }

tap "right files are proved" status_is 0 'MSCCL XML "ring", all_reduce, 4 ranks, 4 blocks per vector' check "$in"/right/*
tap "wrong ones are refused" status_is 1 'deadlock.xml:4: refused: .*deadlock' check "$in"/wrong/*
tap "one wrong file is enough" status_is 1 'proved' check "$in/right/all_to_all.xml" "$in/wrong/circle.xml"
tap "what is printed is read again" printed_again
tap "JSON" json
tap "DOT" dot
tap "no such file" status_is 1 'No such file' check /nonexistent.xml
tap "no files" status_is 2 'no files' check
tap "no such command" status_is 2 'no command "chek"' chek
tap "no such option" status_is 2 'no option --frob' check --frob x
tap "help" status_is 0 'usage: weft-plan' --help
tap_end
