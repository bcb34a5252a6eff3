#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-topo: the tree, files that it reads back, pictures, ranks and rings; bad input is refused by name.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

dgx="nodes:2 pack:2 core:4 gpu:8 nvlink:450 nic:8@400Gb pcisw:4"
says() { # TEXT ARGUMENTS...
    local text=$1 out
    shift
    out=$(timeout 20 ./weft-topo "$@" 2>&1) || { echo "$out"; return 1; }
    grep -qE -- "$text" <<<"$out" || { echo "$out"; return 1; }
}
refused() { # STATUS TEXT ARGUMENTS...
    local wanted=$1 text=$2 out status
    shift 2
    out=$(timeout 20 ./weft-topo "$@" 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq "$wanted" ] && [ "$(wc -l <<<"$out")" -eq 1 ] && grep -qF -- "$text" <<<"$out" &&
        { [ "$wanted" -ne 2 ] || grep -q '; see weft-topo --help$' <<<"$out"; }
}
round_trip() { # FORMAT
    timeout 20 ./weft-topo -s "$dgx" --export "$1" >"$tap_dir/a.$1" &&
        timeout 20 ./weft-topo -f "$tap_dir/a.$1" --export "$1" >"$tap_dir/b.$1" &&
        [ -s "$tap_dir/a.$1" ] && cmp "$tap_dir/a.$1" "$tap_dir/b.$1"
}
is_json() {
    timeout 20 ./weft-topo --export json | python3 -c '
import json, sys
d = json.load(sys.stdin)
kinds = {o["kind"] for o in d["objects"]}
assert {"host", "numa", "core"} <= kinds, kinds
assert all(link["rate"] > 0 for link in d["links"])'
}
is_svg() {
    timeout 20 ./weft-topo -s "$dgx" --svg "$tap_dir/a.svg" >/dev/null && python3 - "$tap_dir/a.svg" <<'END'
import sys
import xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
name = "{http://www.w3.org/2000/svg}"
texts = [t.text for t in root.iter(name + "text")]
assert texts.count("gpu7") == 2 and "400 Gb/s" in texts, texts
width, height = float(root.get("width")), float(root.get("height"))
for rect in root.iter(name + "rect"):
    if rect.get("x"):
        assert 0 <= float(rect.get("x")) and float(rect.get("x")) + float(rect.get("width")) <= width
        assert 0 <= float(rect.get("y")) and float(rect.get("y")) + float(rect.get("height")) <= height
END
}
# Rates of links between packages lie on none of them.
labels_are_clear() {
    local machine
    for machine in "pack:2 core:4" "pack:4 core:2" "pack:8 core:2"; do
        timeout 20 ./weft-topo -s "$machine" --svg "$tap_dir/b.svg" >/dev/null && python3 - "$tap_dir/b.svg" <<'END' || return 1
import sys
import xml.etree.ElementTree as tree
name = "{http://www.w3.org/2000/svg}"
root = tree.parse(sys.argv[1]).getroot()
boxes = [[float(r.get(k)) for k in ("x", "y", "width", "height")] for r in root.iter(name + "rect")
         if (r.findtext(name + "title") or "").startswith("package ")]
last, labels = "", 0
for e in root:
    last = e.get("class") if e.tag == name + "line" else last
    if e.tag != name + "text" or e.get("class") != "rate" or last != "socket":
        continue
    labels += 1
    x, y = float(e.get("x")), float(e.get("y"))
    for bx, by, w, h in boxes:
        assert x >= bx + w or x + 5 * len(e.text) <= bx or y - 8 >= by + h or y + 2 <= by, (e.text, x, y)
assert labels, "no link has its rate"
END
    done
}
# A wire of the network is drawn before the boxes of the hosts that it passes.
wires_pass_behind() {
    timeout 20 ./weft-topo -s "nodes:12 core:2 nic:2@100Gb" --svg "$tap_dir/c.svg" >/dev/null && python3 - "$tap_dir/c.svg" <<'END'
import sys
import xml.etree.ElementTree as tree
name = "{http://www.w3.org/2000/svg}"
hosts, passed = [], 0
for e in tree.parse(sys.argv[1]).getroot():
    if e.tag == name + "rect" and (e.findtext(name + "title") or "").startswith("host "):
        x, y = float(e.get("x")), float(e.get("y"))
        hosts.append((x, y, x + float(e.get("width")), y + float(e.get("height"))))
    if e.tag != name + "line" or e.get("class") != "network":
        continue
    ends = [(float(e.get("x" + n)), float(e.get("y" + n))) for n in "12"]
    for x, y, right, low in hosts:
        inside = [x - 0.2 <= a <= right + 0.2 and y - 0.2 <= b <= low + 0.2 for a, b in ends]
        points = [(ends[0][0] + (ends[1][0] - ends[0][0]) * k / 100, ends[0][1] + (ends[1][1] - ends[0][1]) * k / 100)
                  for k in range(1, 100)]
        if any(x + 1 < a < right - 1 and y + 1 < b < low - 1 for a, b in points):
            assert all(inside), (ends, (x, y, right, low))
            passed += 1
assert len(hosts) > 6 and passed >= 2 * len(hosts), (len(hosts), passed)
END
}
merges() {
    local out
    printf 'core:2 nic:1@10Gb' >"$tap_dir/one.txt"
    ./weft-topo -f "$tap_dir/one.txt" --export xml | sed 's/name="node0"/name="left"/' >"$tap_dir/left.xml"
    ./weft-topo -f "$tap_dir/one.txt" --export xml | sed 's/name="node0"/name="right"/' >"$tap_dir/right.xml"
    out=$(timeout 20 ./weft-topo -f "$tap_dir/left.xml" -f "$tap_dir/right.xml" --rings)
    echo "$out"
    grep -q '^host left' <<<"$out" && grep -q '^host right' <<<"$out" && grep -q '^ring 0: 0 1 [23] [23]' <<<"$out"
}
twice() {
    refused 1 'both of a host called left' -f "$tap_dir/left.xml" -f "$tap_dir/left.xml"
}
reads_lstopo() {
    says '^ +gpu7 ' --hwloc "$WEFT_SRCDIR/tests/topology/dgx.xml" &&
        refused 1 "hwloc's XML" -f "$WEFT_SRCDIR/tests/topology/dgx.xml"
}

machine_memory() { # the host's memory is the machine's, as the kernel has it
    local kib gib
    kib=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
    gib=$(awk -v k="$kib" 'BEGIN { printf k >= 1048576 ? "%.4g GiB" : "%.4g MiB", k / (k >= 1048576 ? 1048576 : 1024) }')
    says "^host .* $gib"
}

tap "this machine" says "^host "
tap "this machine's memory is what the kernel has in all" machine_memory
tap "this machine as JSON" is_json
tap "a synthetic machine" says "nvlink 450 GB/s" -s "$dgx"
tap "XML is read back" round_trip xml
tap "JSON is read back" round_trip json
tap "DOT" says '^graph weft \{' -s "$dgx" --export dot
tap "a picture" is_svg
tap "wires pass behind hosts" wires_pass_behind
tap "labels are clear of boxes" labels_are_clear
tap "machines are merged" merges
tap "one machine twice" twice
tap "hwloc's XML" reads_lstopo
tap "ranks" says '^ +15 +node1 +gpu7 +nic7 ' -s "$dgx" --ranks 16
tap "levels" says '^level node +2 groups' -s "$dgx" --ranks 16
tap "a ring for each adapter" says '^ring 7: 7 ' -s "$dgx" --rings
tap "no adapter is shared" says '^no adapter is used by more than one ring' -s "$dgx" --rings
tap "a wrong word" refused 1 '"nvlnk:3"' -s "core:1 nvlnk:3"
tap "a file that is not there" refused 1 '/nonexistent' -f /nonexistent
tap "a wrong format" refused 2 'yaml' --export yaml
tap "a wrong number of ranks" refused 2 'many' --ranks many
tap "an argument" refused 2 'something' something
tap "no such option" refused 2 "'--frob' is not an option" --frob
tap "no such letter" refused 2 "'-q' is not an option" -rq
tap "an option without its value" refused 2 "'--ranks' wants a value" --ranks
tap "--help" says "Usage: weft-topo" --help
tap "--help to a full disk" output_lost ./weft-topo --help
tap_end
