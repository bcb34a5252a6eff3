#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-sim: predictions that can be done by hand, faults, reports, training steps, and bad input by name.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
machine=(-s "nodes:2 core:4 nic:1@10Gb")

sim() { timeout 30 ./weft-sim "$@"; }
says() { # TEXT ARGUMENTS...
    local text=$1 out
    shift
    out=$(sim "$@" 2>&1) || { echo "$out"; return 1; }
    grep -qE -- "$text" <<<"$out" || { echo "$out"; return 1; }
}
fails() { # STATUS TEXT ARGUMENTS...: one line that says why
    local want=$1 text=$2 out status
    shift 2
    out=$(sim "$@" 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq "$want" ] && [ "$(wc -l <<<"$out")" -eq 1 ] && grep -qE -- "$text" <<<"$out" &&
        { [ "$want" -ne 2 ] || grep -q '; see weft-sim --help$' <<<"$out"; }
}
# 2 (P-1) (α + n/P/β) = 14 * (2 + 131072/12500) us
ring() { says "^time +174.801 us" -u 100Gb,2us -P 8 all_reduce -n 1M -a ring --slice 0; }
json() {
    sim "${machine[@]}" all_reduce -n 1M -a ring --links --critical --json >"$tap_dir/sim.json" && python3 - "$tap_dir/sim.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["ranks"] == 8 and d["algorithm"] == "ring" and d["method"] == "events", d
assert abs(max(d["rank_us"]) - d["us"]) < 1e-9
assert d["links"][0]["busy_us"] >= d["links"][-1]["busy_us"] > 0
nic = [x for x in d["links"] if x["name"] == "node0/nic0 out"][0]
assert nic["bytes"] == 14 * 131072, nic
ends = [s["end_us"] for s in d["critical"]]
assert ends == sorted(ends) and abs(ends[-1] - d["us"]) < 1e-6, ends[-1]
END
}
perfetto() {
    sim "${machine[@]}" all_reduce -n 1M -a rhalving --timeline "perfetto=$tap_dir/trace.json" && python3 - "$tap_dir/trace.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
spans = [e for e in d["traceEvents"] if e["ph"] == "X"]
assert {e["pid"] for e in spans} == set(range(8)) and all(e["dur"] >= 0 for e in spans)
# A core does one thing at a time.
for rank in range(8):
    core = sorted((e["ts"], e["dur"]) for e in spans if e["pid"] == rank and e["tid"] == 0)
    assert core and all(a[0] + a[1] <= b[0] + 1e-5 for a, b in zip(core, core[1:]))
END
}
# 4 x (compute 1 ms, then 2 (P-1) (α + n/P/β) = 2.097... ms of ring each, overlapped): 1 ms + 4 rings.
step() {
    printf 'repeat 4 # layers\n  compute 1ms\n  all_reduce 16M algo=ring\nend\nwait\n' >"$tap_dir/step.txt"
    says "^step +10.395 ms" -u 100Gb,0 -P 8 --slice 0 --step "$tap_dir/step.txt" &&
        says "not hidden.*\(61.5%" -u 100Gb,0 -P 8 --slice 0 --step "$tap_dir/step.txt"
}
from_file() {
    echo "nodes:2 core:4 nic:1@10Gb" >"$tap_dir/machine.txt"
    says "^all_reduce, 1 MiB, 8 ranks" --topo "$tap_dir/machine.txt" all_reduce
}
bad_step() { # TEXT LINES
    printf "$2" >"$tap_dir/bad.txt"
    fails 1 "$1" -u 100Gb,2us -P 4 --step "$tap_dir/bad.txt"
}

tap "the ring is the textbook's" ring
tap "rings of graphs" says "^time .*by events" "${machine[@]}" all_reduce -n 1M -a ring
tap "the fastest algorithm is chosen" says "^all_reduce, 8 B, 8 ranks, flat_send" -u 100Gb,2us -P 8 all_reduce -n 8
tap "all algorithms" says "^rdouble .*ms  events" "${machine[@]}" all_reduce -a all
tap "more ranks than cores" says "^all_reduce, 1 MiB, 9 ranks" "${machine[@]}" -P 9 all_reduce
tap "a graph in a file" from_file
tap "hierarchical" says "^all_reduce, 1 MiB, 8 ranks, node:ring" "${machine[@]}" --place round-robin all_reduce -a node:ring
tap "interleaved ranks are slower" says "^time +[0-9.]+ ms" "${machine[@]}" --place round-robin all_reduce -n 1M -a ring
tap "text time line" says "^ +7 \|.*\|$" "${machine[@]}" broadcast --timeline text
tap "links" says "^node0/nic0 out" "${machine[@]}" broadcast -l
tap "critical path" says "limited by node0/nic0 in" "${machine[@]}" all_reduce -n 1M -a ring -c
tap "JSON" json
tap "Perfetto" perfetto
tap "a training step" step
tap "100,000 ranks by formula" says "by formula" -u 400Gb,5us -P 100000 all_reduce -n 1G
tap "a slow link" says "^time +22.972 us" -u 100Gb,2us -P 2 broadcast -n 128K --slow "rank0 out=0.5" --slice 0
tap "a late rank" says "^time +1.012 ms" -u 100Gb,2us -P 2 broadcast -n 128K --straggler 0=+1ms --slice 0
tap "a failed link" fails 1 "failed link rank0 out: ranks 0, 1, 2, 3 cannot finish" -u 100Gb,2us -P 4 all_reduce -a ring -f "rank0 out"
tap "an unknown link" fails 1 'no link "eth7"; there are' "${machine[@]}" all_reduce -f eth7
tap "an unknown algorithm" fails 1 'no algorithm "rong" for all_reduce.* ring' -u 100Gb,2us -P 4 all_reduce -a rong
tap "too many ranks" fails 1 "-P 9: the machine has 8 places" "${machine[@]}" -P 9 --place by-core all_reduce
tap "a bad rate" fails 1 'rate "fast"' -u fast,2us -P 4 all_reduce
tap "a bad machine" fails 1 '"cor:4"' -s "nodes:2 cor:4" all_reduce
tap "a bad straggler" fails 1 '--straggler "9=2": there are ranks 0 to 3' -u 100Gb,2us -P 4 all_reduce --straggler 9=2
tap "a bad number" fails 2 '-n "much"' -u 100Gb,2us -P 4 all_reduce -n much
tap "a bad collective" fails 2 '"all_reduc"' -u 100Gb,2us -P 4 all_reduc
tap "no machine" fails 2 "must describe the machine" all_reduce
tap "no such option" fails 2 "'--frob' is not an option" --frob
tap "no such letter" fails 2 "'-q' is not an option" -lq
tap "an option without its value" fails 2 "'--radix' wants a value" --radix
tap "steps: a bad word" bad_step 'line 2: "all_reduc"' 'compute 1ms\nall_reduc 1M\n'
tap "steps: a bad time" bad_step 'line 1: "soon"' 'compute soon\n'
tap "steps: a bad algorithm" bad_step 'line 1: .*"rong"' 'all_reduce 1M algo=rong\n'
tap "steps: a repeat without a count" bad_step 'line 2: "repeat": lacks its count' 'compute 1ms\nrepeat\nend\n'
tap "steps: a time beyond all" bad_step 'line 1: "1e305s": is not a time' 'compute 1e305s\n'
tap "steps: no text" bad_step 'line 2: holds a NUL' 'compute 1ms\ncom\0pute\n'
tap "steps: no end" bad_step 'line 1: "repeat": has no end' 'repeat 3\ncompute 1ms\n'
tap "steps: no repeat" bad_step 'line 2: "end": has no repeat' 'compute 1ms\nend\n'
tap "steps: too many" bad_step 'more than 10000000 instructions' 'repeat 10000000\nrepeat 10000000\ncompute 1us\nend\nend\n'
tap "--help" says "Usage: weft-sim" --help
tap "a full disk" output_lost ./weft-sim -P 4 --uniform 100Gb,2us all_reduce -n 1M
tap "--help to a full disk" output_lost ./weft-sim --help
tap_end
