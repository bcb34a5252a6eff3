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
unreadable() { # what is no verdict is not among those, and says who says it
    status_is 1 '^weft-plan check: algorithm file "/nonexistent.xml": No such file' check /nonexistent.xml &&
        status_is 1 '^weft-plan check: algorithm file "'"$in"'": a directory' check "$in" &&
        [ -z "$(plan check /nonexistent.xml 2>/dev/null)" ]
}
tap "no such file" unreadable
tap "no files" status_is 2 'no files' check
tap "no such command" status_is 2 'no command "chek"' chek
tap "no such option" status_is 2 'no option --frob' check --frob x
# ---- explain ----
explained() { # PYTHON ARGUMENTS...: holds of the JSON d
    local test=$1
    shift
    plan explain --json "$@" >"$tap_dir/x.json" || return 1
    python3 -c "import json, sys; d = json.load(open(sys.argv[1])); c = {x['algorithm']: x for x in d['candidates']}; assert ($test), d" \
        "$tap_dir/x.json"
}
three="nodes:3 core:2 nic:1@10Gb"
hierarchy() {
    explained 'd["chosen"].startswith("node:") and d["nodes"] == 3 and c[d["chosen"]]["schedule_us"] > 0
        and "nic0" in c["ring"]["bottleneck"] and 0.5 < c["ring"]["utilisation"] <= 1' all_reduce -n 16M -P 6 --synthetic "$three" --no-stages
}
from_table() {
    printf 'weft-tuning 1\nmachine x\nlayout 4 1 0x4\nall_reduce 4 1 1048576 private ring 5 0\nall_reduce 4 1 1048576 private flat2 9 0\n' \
        >"$tap_dir/t.tune"
    explained 'd["chosen"] == "ring" and c["ring"]["basis"] == "measured" and abs(c["ring"]["predicted_us"] - 5) < 1e-4
        and "not measured" in c["flat"]["reason"]' all_reduce -n 1M -P 4 --tuning "$tap_dir/t.tune"
}
table_error() {
    printf 'weft-tuning 1\nmachine x\nlayout 4 1 0x5\n' >"$tap_dir/bad.tune"
    status_is 1 'bad.tune, line 3, word 4: "0x5"' explain all_reduce -n 1M -P 4 --tuning "$tap_dir/bad.tune"
}
tap "hierarchical over nodes, with the busiest link" hierarchy
tap "one rank per node: a flat ring" explained 'd["chosen"] == "ring" and not any(":" in a for a in c)' all_reduce -n 16M -P 4 --nodes 4
tap "memory and operator decide who can" explained 'd["chosen"] == "direct" and "commutative" in c["ring"]["reason"]' \
    all_reduce -n 4M -P 4 --memory mapped --op user
tap "a rule decides" explained 'd["chosen"] == "rdouble" and d["rule"] == "rdouble"' all_reduce -n 1M -P 4 --rules all_reduce:rdouble
tap "measurements decide" from_table
by_environment() {
    WEFT_ALGO=all_reduce:rdouble explained 'd["chosen"] == "rdouble"' all_reduce -n 1M -P 4 &&
        WEFT_ALGO=all_reduce:rdouble explained 'd["chosen"] == "ring"' all_reduce -n 1M -P 4 --rules all_reduce:ring &&
        WEFT_ALGO=all_reduce:rdouble explained '"rule" not in d' all_reduce -n 1M -P 4 --rules ''
}
tap "a rule that is passed over, and why" status_is 0 'the rule node:ring/flat .* passed over: .*it needs a shared-memory group inside each group$' \
    explain all_reduce -n 1M -P 8 --nodes 2 --no-stages --rules all_reduce:node:ring/flat
tap "a barrier has no bytes" explained 'd["bytes"] == 0' barrier -P 8 --nodes 2 -n 256K
codecs() {
    explained 'd["chosen"] == "coded2" and d["codec"]["used"] and d["codec"]["coded_us"] < d["codec"]["plain_us"] / 3
        and abs(c["coded2"]["sent_bytes"] - 1.5 * (64 << 20) * 65 / 256) < 1 and c["ring"]["possible"]' all_reduce -n 64M -P 4 --nodes 4 --codec int8 &&
        explained 'not d["codec"]["used"] and not d["chosen"].startswith("coded") and d["codec"]["coded_us"] > d["codec"]["plain_us"]' \
            all_reduce -n 64K -P 4 --codec int8 &&
        explained 'd["codec"]["used"] and "may not be bypassed" in c["ring"]["reason"] and not d["codec"]["may_bypass"]' \
            all_reduce -n 64K -P 4 --codec int8:bypass=never &&
        explained 'd["chosen"] != "coded2" and not c["coded2"]["possible"] and "ratio" not in d["codec"]' \
            all_reduce -n 64K -P 4 --nodes 4 --codec int8:min=1M &&
        status_is 0 '^compressed, predicted to be [0-9.]+ times as fast as plain data by ring$' explain all_reduce -n 64M -P 4 --nodes 4 --codec int8 &&
        status_is 0 '^bypassed: plain data is sent, predicted to be [0-9.]+ times as fast as images by coded2$' explain all_reduce -n 64K -P 4 --codec int8
}
tap "codecs: used, bypassed, never bypassed, for short vectors" codecs
linear_codecs() {
    explained 'd["codec"]["used"] and d["codec"]["summed_bytes"] == 16 << 20 and d["codec"]["agreed_bytes"] == 2 * (16 << 20) / 128
        and d["codec"]["summed_dtype"] == "int8" and 1.5 < d["codec"]["plain_us"] / d["codec"]["coded_us"] < 4
        and "summed as it is" in c["coded2"]["reason"]' all_reduce -n 64M -P 4 --nodes 4 --codec sharedint &&
        explained 'not d["codec"]["used"] and d["codec"]["coded_us"] > d["codec"]["plain_us"]' all_reduce -n 64K -P 4 --codec sharedint &&
        explained 'd["codec"]["used"] and not d["codec"]["may_bypass"]' all_reduce -n 64K -P 4 --codec sharedint:bypass=never &&
        explained 'd["codec"]["agreed_bytes"] == 0 and d["codec"]["summed_bytes"] == 164 * 2 * 1024' \
            all_reduce -n 64M -P 4 --nodes 4 --codec randomk &&
        status_is 0 '^coded: ranks agree by a broadcast of .* by .*, then an all_reduce of .* of bfloat16 by' \
            explain all_reduce -n 64M -P 4 --nodes 4 --codec leaderk:ef=1 &&
        status_is 0 '^compressed, predicted to be [0-9.]* times as fast as plain data$' \
            explain all_reduce -n 64M -P 4 --nodes 4 --codec leaderk:ef=1 &&
        status_is 1 'at most 42 ranks, and here are 64: take wire=int16' explain all_reduce -n 64M -P 64 --codec sharedint
}
tap "linear codecs" linear_codecs
linear_rows() { # what runs is what has the star, and is called chosen
    explained 'd["chosen"] == "leaderk: " + d["codec"]["agreed_algorithm"] + " + " + d["codec"]["summed_algorithm"]
        and c[d["chosen"]]["predicted_us"] == d["codec"]["coded_us"]' all_reduce -n 64M -P 4 --nodes 4 --codec leaderk &&
        explained 'd["chosen"] in c and not d["chosen"].startswith("sharedint")' all_reduce -n 64K -P 4 --codec sharedint &&
        status_is 0 '^\* randomk: [a-z]+ +[0-9.]+ ' explain all_reduce -n 64M -P 4 --nodes 4 --codec randomk &&
        status_is 0 '^chosen: randomk: [a-z]*, predicted to be [0-9.]* times as fast as plain data by ring' \
            explain all_reduce -n 64M -P 4 --nodes 4 --codec randomk && [ "$(plan explain all_reduce -n 64M -P 4 --nodes 4 --codec randomk | grep -c '^\*')" = 1 ] &&
        status_is 0 '^chosen: sharedint: .*, because plain data may not be sent' explain all_reduce -n 64K -P 4 --codec sharedint:bypass=never
}
tap "linear codecs: the row of the call that runs" linear_rows
tap "a rule: the chosen beside the cheapest" status_is 0 '^beside flat2: steps 2 against 3, sent 2.0 MiB against 0 B' \
    explain all_reduce -n 1M -P 4 --rules all_reduce:rdouble
codec_of_environment() { # as of a program: for sums of floats, else nothing
    local folder=$tap_dir/codecs
    mkdir -p "$folder" && cp "${WEFT_BUILDDIR:?}/.libs/drops.so" "$folder/" && chmod 700 "$folder" "$folder/drops.so" || return 1
    WEFT_COMPRESS=int8:bypass=never explained 'd["codec"]["codec"] == "int8" and d["codec"]["used"]' all_reduce -n 1M -P 4 &&
        WEFT_COMPRESS=int8 explained 'd["codec"]["codec"] == "int4"' all_reduce -n 1M -P 4 --codec int4 &&
        WEFT_COMPRESS=int8 explained '"codec" not in d' all_gather -n 1M -P 4 &&
        WEFT_COMPRESS=int8 explained '"codec" not in d' all_reduce -n 1M -P 4 --dtype int32 &&
        WEFT_COMPRESS=int9 status_is 2 'explain: WEFT_COMPRESS: codec "int9"' explain all_reduce -n 1M -P 4 &&
        WEFT_PLUGIN_PATH=$folder explained 'd["codec"]["codec"] == "drops"' all_reduce -n 1M -P 4 --codec drops
}
tap "codecs of the environment and of plugins" codec_of_environment
wrong_codecs() {
    status_is 2 '--codec: codec "int9": there is no codec "int9"; did you mean "int8"' explain all_reduce -n 1M -P 2 --codec int9 &&
        status_is 2 'codecs are for sums, not "max"' explain all_reduce -n 1M -P 2 --codec int8 --op max &&
        status_is 2 'codecs take float, half and bfloat16, not "int32"' explain all_reduce -n 1M -P 2 --codec int8 --dtype int32 &&
        status_is 2 'codecs are for all_reduce.* and broadcast, not "scan"' explain scan -n 1M -P 2 --codec int8
}
tap "codecs: wrong ones, wrong calls" wrong_codecs
no_trailing_blanks() { plan explain all_reduce -n 16M -P 8 --nodes 2 >"$tap_dir/x.txt" && ! grep -n ' $' "$tap_dir/x.txt"; }
tap "lines end without blanks" no_trailing_blanks
tap "WEFT_ALGO decides as --rules does" by_environment
files_of_environment() { # WEFT_PLANS: no candidates, and not to be passed over in silence; WEFT_TUNING_FILE: as --tuning
    local file=$in/right/all_to_all.xml
    WEFT_PLANS=$file status_is 0 'plans: the programs of WEFT_PLANS are no candidates' explain all_reduce -n 1M -P 4 &&
        WEFT_PLANS=$file WEFT_ALGO=all_to_all:file:x status_is 1 'names file:x for this call: .*WEFT_PLANS' explain all_to_all -n 1M -P 4 &&
        WEFT_PLANS=$file WEFT_ALGO=all_to_all:file:x status_is 0 '' explain all_reduce -n 1M -P 4 &&
        WEFT_TUNING_FILE=/nonexistent.tune status_is 1 'explain: WEFT_TUNING_FILE: tuning table "/nonexistent.tune"' \
            explain all_reduce -n 1M -P 4 &&
        status_is 1 'explain: --tuning: tuning table "/nonexistent.tune"' explain all_reduce -n 1M -P 4 --tuning /nonexistent.tune &&
        WEFT_TUNING_FILE=/nonexistent.tune status_is 0 '' explain all_reduce -n 1M -P 4 --tuning ''
}
tap "WEFT_PLANS and WEFT_TUNING_FILE" files_of_environment
slots_cut() {
    explained 'd["fragments"]["bytes"] <= 4 << 13' all_reduce -n 16M -P 8 --nodes 2 --slot-bytes 8K --rules all_reduce:node:ring/flat &&
        cp "$tap_dir/x.json" "$tap_dir/by_option.json" &&
        WEFT_SHM_STAGE_SLOT_BYTES=8K explained 'd["fragments"]["bytes"] <= 4 << 13' all_reduce -n 16M -P 8 --nodes 2 \
            --rules all_reduce:node:ring/flat && cmp "$tap_dir/x.json" "$tap_dir/by_option.json" &&
        WEFT_SHM_STAGE_SLOT_BYTES=1 status_is 2 'WEFT_SHM_STAGE_SLOT_BYTES: a size from 4K to 64M, not "1"' explain all_reduce -n 1M -P 8
}
tap "slots limit fragments, by option or environment" slots_cut
tap "a slot that is none" status_is 2 '--slot-bytes: a size from 4K to 64M, not "12"' explain all_reduce -n 1M -P 8 --slot-bytes 12
tap "more nodes than ranks" status_is 2 '--nodes 9: there are only 8 ranks' explain all_reduce -n 1M -P 8 --nodes 9
chain_explained() {
    explained 'd["chosen"].startswith("node:") and d["chosen"].endswith("/flat")
        and [s["by"] for s in d["stages"]] == ["mapped memory", "messages", "mapped memory"]
        and [s["where"] for s in d["stages"]] == ["inside", "among", "inside"] and d["stages"][1]["collective"] == "all_reduce"
        and d["fragments"]["under_way"] == 4 and d["fragments"]["number"] * d["fragments"]["bytes"] >= d["bytes"] == 16 << 20' \
        all_reduce -n 16M -P 8 --nodes 2 &&
        status_is 0 '^stages: inside each node: reduce_scatter flat, mapped memory$' explain all_reduce -n 16M -P 8 --nodes 2 &&
        status_is 0 '^fragments: [0-9]+ of [0-9]+ bytes, at most 4 under way; what takes the time: the link' \
            explain all_reduce -n 16M -P 8 --nodes 2
}
tap "a chain: stages, fragments, and what bounds it" chain_explained
tap "without the groups it is not offered" explained 'not any("/flat" in a for a in c) and "fragments" not in d and len(d["stages"]) == 3' \
    all_reduce -n 16M -P 8 --nodes 2 --no-stages
tap "the winner against the next" status_is 0 '^steps [0-9]+ against [0-9]+, sent ' explain all_reduce -n 16M -P 8 --nodes 2
tap "the text says who, why, and why not" status_is 0 'not possible:' explain all_reduce -n 1M -P 4
tap "the winner is marked" status_is 0 '^\* flat2' explain all_reduce -n 1M -P 4
tap "a wrong table is named" table_error
# How fast cores reduce: by type, and where it comes from.
rates_say() {
    local by_table="$tap_dir/rates.tune"
    printf 'weft-tuning 1\nmachine x\nlayout 4 4 0x1+1x1+2x1+3x1\nrate sum half 77 66\n' >"$by_table"
    status_is 0 '^reducing float, sum: 8000 B/us in cache, 8000 in memory \(constant\)$' explain all_reduce -n 1M -P 4 --nodes 4 &&
        status_is 0 '^reducing half, max: 77 B/us in cache, 66 in memory \(tuning table\)$' explain all_reduce -n 1M -P 4 \
            --nodes 4 --dtype half --op max --tuning "$by_table" &&
        status_is 0 '^reducing f8e4m3, sum: [0-9]+ B/us in cache, [0-9]+ in memory \(measured by the ranks\)$' explain all_reduce \
            -n 1M -P 4 --nodes 4 --dtype f8e4m3 --measure &&
        explained 'd["reduce_rate"]["origin"] == "tuning table" and d["reduce_rate"]["memory"] == 66 and d["copy_rate"]["origin"] == "constant"' \
            all_reduce -n 1M -P 4 --nodes 4 --dtype half --tuning "$by_table" &&
        ! plan explain all_gather -n 1M -P 4 | grep -q '^reducing'
}
tap "how fast cores reduce, and who says so" rates_say
table_named() { # a table that the environment names changes the answer: the answer says which it was
    local table="$tap_dir/rates.tune"
    status_is 0 "^tuning: $table$" explain all_reduce -n 1M -P 4 --tuning "$table" &&
        WEFT_TUNING_FILE=$table status_is 0 "^tuning: $table \(WEFT_TUNING_FILE\)$" explain all_reduce -n 1M -P 4 &&
        WEFT_TUNING_FILE=$table explained "d['tuning'] == '$table'" all_reduce -n 1M -P 4 &&
        explained "'tuning' not in d" all_reduce -n 1M -P 4
}
tap "which table chooses" table_named
tap "no such type" status_is 2 '--dtype: no data type "flaot"; did you mean "float"\? \(there are: int8, .*, complex128' explain all_reduce -n 1M -P 4 --dtype flaot
tap "an operator that the type has not" status_is 2 'undefined for this data type: "band"' explain all_reduce -n 1M -P 4 --op band
tap "a wrong rule is named" status_is 1 'did you mean "ring"' explain all_reduce -n 1M -P 4 --rules all_reduce:rnig
tap "a wrong machine is named" status_is 1 'frob' explain all_reduce -n 1M -P 4 --synthetic "nodes:2 frob:3"
tap "nodes against the machine" status_is 1 'has 3 hosts' explain all_reduce -n 1M -P 6 --nodes 2 --synthetic "$three"
tap "no such operator" status_is 2 '--op: no operator "summ"; did you mean "sum"\? \(there are: sum, .*, user' explain all_reduce -n 1M -P 4 --op summ
tap "no such collective" status_is 2 'no collective "all_redce"; did you mean "all_reduce"\? \(there are: all_reduce, .*, barrier' explain all_redce -n 1 -P 2
tap "nothing like a collective" status_is 2 'no collective "frob"; there are all_reduce, .*, barrier' explain frob -n 1 -P 2
tap "no collective" status_is 2 'explain: which collective\?' explain -n 1 -P 2
tap "a root that is no rank" status_is 2 '--root 9: there are ranks 0 to 7' explain broadcast -n 1 -P 8 --root 9
tap "too many ranks" status_is 2 '-P: not a number from 1 to 1048576: "99999999"' explain broadcast -n 1 -P 99999999
tap "one rank" status_is 0 '^barrier, 1 rank on 1 node' explain barrier -P 1
tap "no bytes" status_is 2 'how many bytes' explain all_reduce -P 2
tap "no ranks" status_is 2 'how many ranks' explain all_reduce -n 1K
tap "a bad size" status_is 2 'not a size such as 1M: "1Q"' explain all_reduce -n 1Q -P 2
tap "no such option of explain" status_is 2 "^weft-plan explain: '--frob' is not an option; see weft-plan explain --help" explain \
    all_reduce --frob
tap "an option without its value" status_is 2 "^weft-plan explain: '-n' wants a value" explain all_reduce -n
tap "help" status_is 0 'usage: weft-plan' --help
tap "a full disk" output_lost ./weft-plan explain all_reduce -n 1M -P 4
for help in --help --version "check --help" "explain --help"; do
    tap "$help to a full disk" output_lost ./weft-plan $help
done
tap_end
