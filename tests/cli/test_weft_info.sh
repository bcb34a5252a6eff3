#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-info: what it prints is there, settings tell where they come from, bad input is refused.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

says() { # TEXT ARGUMENTS...
    local text=$1 out
    shift
    out=$(timeout 20 ./weft-info "$@" 2>&1) || { echo "$out"; return 1; }
    grep -qE -- "$text" <<<"$out" || { echo "$out"; return 1; }
}
version=$(sed -n 's/^PACKAGE_VERSION = //p' Makefile)
json() {
    WEFT_COMM_TIMEOUT=42s timeout 20 ./weft-info --json >"$tap_dir/info.json" && python3 - "$tap_dir/info.json" "$version" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["version"] == sys.argv[2], d["version"]
m = d["machine"]
assert m["cores"] >= 1 and m["hardware_threads"] >= m["cores"] and m["memory_bytes"] > 0 and "scalar" in m["isa"]
assert {"shm", "tcp"} <= {p["name"] for p in d["plugins"]}, d["plugins"]
s = {x["name"]: x for x in d["settings"]}
assert len(s) > 10 and all(x["help"] and x["origin"] for x in s.values())
t = s["WEFT_COMM_TIMEOUT"]
assert t["origin"] == "environment" and t["value"] != t["default"], t
kinds = {a["collective"] for a in d["algorithms"]}
assert {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier"} <= kinds, kinds
END
}
bad_setting() {
    local out status
    out=$(WEFT_COMM_TIMEOUT=soon timeout 20 ./weft-info 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq 1 ] && grep -q 'COMM_TIMEOUT' <<<"$out" && grep -q 'soon' <<<"$out"
}
refused() {
    local out status
    out=$(timeout 20 ./weft-info "$@" 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq 2 ] && [ "$(wc -l <<<"$out")" -eq 1 ]
}

tap "the version" says "^weft +$version"
tap "transports that are built in" says "plugin.* shm .built in"
tap "the machine" says "[1-9][0-9]* cores"
tap "how fast this core is, and whether it counts" says "WEFT_MEASURE_RATES=n: communicators choose by constants"
tap "the rates are numbers" says "copy [0-9.]+; sum of float [0-9.]+, double"
tap "settings with -c" says "^WEFT_COMM_TIMEOUT=" -c
tap "their origin" says "origin: default" --config
tap "algorithms with -a" says "^all_reduce$" -a
tap "everything as JSON" json
tap "a malformed setting is named" bad_setting
tap "an unknown option" refused --what
tap "an argument" refused something
tap "--help" says "Usage: weft-info" --help
tap_end
