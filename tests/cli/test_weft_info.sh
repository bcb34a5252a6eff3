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
folder_missing() { # PATH WORD
    WEFT_LOG=warn WEFT_PLUGIN_PATH=$1 says "plugin.path: WEFT_PLUGIN_PATH: $1: $2.*; no plugin is loaded from there" &&
        WEFT_PLUGIN_PATH=$1 says "^plugin +$1 is not loaded: $2"
}
tap "a folder of plugins that does not exist" folder_missing /nonexistent/plugins 'No such file'
tap "a folder of plugins that is a file" folder_missing /dev/null 'Not a directory'
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
no_transport() { # VALUE TEXT
    local out
    out=$(WEFT_TRANSPORTS=$1 timeout 20 ./weft-info 2>&1)
    [ $? -eq 1 ] && grep -qF -- "$2" <<<"$out" && return
    echo "$out"
    return 1
}
tap "a transport that does not exist" no_transport shm,tpc 'WEFT_TRANSPORTS names "tpc", which does not exist (built in are shm, tcp, inproc)'
tap "a list with blanks" no_transport "shm tcp" 'names "shm tcp", which does not exist'
unknown_names() {
    local text="^unknown +WEFT_WORKER \(environment\) is not a setting; did you mean WEFT_WORKERS\?"
    echo 'COMM_TIMOUT = 3s' >"$tap_dir/names.conf"
    WEFT_WORKER=3 says "$text" && WEFT_WORKER=3 says "$text" -c && WEFT_CONFIG_FILE=$tap_dir/names.conf \
        says "^unknown +WEFT_COMM_TIMOUT \(file\) is not a setting; did you mean WEFT_COMM_TIMEOUT\?" &&
        WEFT_TIMEOUT=3s says "^unknown +WEFT_TIMEOUT \(environment\) is not a setting; did you mean WEFT_COMM_TIMEOUT\?" &&
        WEFT_QWERTZUIOP=1 says "^unknown +WEFT_QWERTZUIOP \(environment\) is not a setting$" &&
        WEFT_WORKER=3 timeout 20 ./weft-info -j | python3 -c "import json, sys
assert {'name': 'WEFT_WORKER', 'origin': 'environment', 'nearest': 'WEFT_WORKERS'} in json.load(sys.stdin)['unknown']" &&
        ! WEFT_WORKERS=3 WEFT_RANK=0 WEFT_NRANKS=1 timeout 20 ./weft-run -n 1 ./weft-info | grep 'unknown.*\(WORKERS\|RANK\|STORE\|KEY\)'
}
tap "names that are no settings" unknown_names
left_out() { # settings of a transport that is left out are settings
    ! WEFT_LOG=warn WEFT_TRANSPORTS=shm WEFT_TCP_EAGER=64K timeout 20 ./weft-info 2>&1 | grep TCP_EAGER &&
        WEFT_TRANSPORTS=shm WEFT_TCP_EAGER=nonsense says "^weft " && WEFT_TRANSPORTS=shm WEFT_TCP_EAGER=64K says "^WEFT_TCP_EAGER=64K" -c
}
tap "settings of a transport that is left out" left_out
left_out_why() { # and the reason stands with the plugins
    WEFT_TRANSPORTS=shm says "^plugin +transport tcp is left out: WEFT_TRANSPORTS does not name it$" && WEFT_TRANSPORTS=shm timeout 20 ./weft-info -j |
        python3 -c "import json, sys
tcp, = [p for p in json.load(sys.stdin)['plugins'] if p['name'] == 'tcp']
assert tcp['kind'] == 'transport' and tcp['refusal'] == 'WEFT_TRANSPORTS does not name it', tcp"
}
tap "why a transport is left out" left_out_why
tap "the machine" says "[1-9][0-9]* cores"
tap "how fast this core is, and whether it counts" says "WEFT_MEASURE_RATES=n: communicators choose by constants"
tap "the rates are numbers" says "copy [0-9.]+; sum of float [0-9.]+, double"
tap "no job key" says "^security +no job key: a job on several hosts needs one"
WEFT_INSECURE=1 tap "done without a key" says "^security +WEFT_INSECURE is set and there is no job key: anyone"
WEFT_INSECURE=1 WEFT_JOB_KEY=$(./weft-run --make-key -) tap "a job key" says "^security +a job key is configured"
# TEXT: what a start refuses is refused here
refuses() {
    local out status
    out=$(timeout 20 ./weft-info 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq 1 ] && grep -qE "^security .*$1" <<<"$out" && ! grep -q 'is configured$' <<<"$out"
}
WEFT_JOB_KEY=hello tap "a malformed key" refuses "WEFT_JOB_KEY holds 5 characters"
WEFT_JOB_KEY_FILE=$tap_dir/nowhere tap "a key file that is not there" refuses "No such file"
WEFT_REQUIRE_KEY=1 WEFT_INSECURE=1 tap "settings that contradict each other" refuses "are both set"
WEFT_REQUIRE_KEY=1 tap "a key that is required and not there" refuses "no job key is configured"
misspelt() { # NAME MEANT: said with the key's state, in words and as JSON
    says "^ +$1 \(environment\) is not a setting; did you mean $2\?" && timeout 20 ./weft-info -j | grep -q "\"misspelt\": \"$1 (environment) is not a setting"
}
WEFT_JOBKEY=secret tap "a misspelt key" misspelt WEFT_JOBKEY WEFT_JOB_KEY
WEFT_REQUIREKEY=1 tap "a misspelt demand for one" misspelt WEFT_REQUIREKEY WEFT_REQUIRE_KEY
tap "a full disk" output_lost ./weft-info
tap "--help to a full disk" output_lost ./weft-info --help
tap "settings with -c" says "^WEFT_COMM_TIMEOUT=" -c
tap "their origin" says "origin: default" --config
tap "algorithms with -a" says "^all_reduce$" -a
tap "everything as JSON" json
set_uid() { # a program with more rights than its caller takes no code and no file names from the caller's environment
    local program=$tap_dir/weft-info out
    cp "$(./libtool --mode=execute sh -c 'echo "$1"' sh ./weft-info)" "$program" && chmod 755 "$tap_dir" && chmod 4755 "$program" || return 1
    out=$(cd / && env LD_LIBRARY_PATH= WEFT_{PLUGIN_PATH,COMM_DUMP_PATH,TUNING_FILE,TOPO_FILE,PLANS,JOB_KEY_FILE}=/of/the/caller \
        WEFT_LOG=info,file:/of/the/caller WEFT_{JOB_KEY_FD,STORE_FD}=17 WEFT_COMM_TIMEOUT=42s WEFT_JOB=ours \
        setpriv --reuid 65534 --clear-groups "$program" -c) || { echo "$out"; return 1; }
    echo "$out"
    grep -q '^WEFT_COMM_TIMEOUT=42' <<<"$out" && grep -q '^WEFT_JOB=ours' <<<"$out" && grep -q '^WEFT_JOB_KEY_FD=-1' <<<"$out" &&
        ! grep -F /of/the/caller <<<"$out" && ! grep '=17' <<<"$out"
}
set_uid_hwloc() { # nor does hwloc take plugins and files for it
    local program=$tap_dir/weft-topo
    cp "$(./libtool --mode=execute sh -c 'echo "$1"' sh ./weft-topo)" "$program" && chmod 4755 "$program" || return 1
    (cd / && LD_LIBRARY_PATH='' setpriv --reuid 65534 --clear-groups "$program" >/dev/null) || return 1
    (cd / && LD_LIBRARY_PATH='' HWLOC_PLUGINS_PATH=/of/the/caller setpriv --reuid 65534 --clear-groups "$program" 2>&1) |
        grep 'HWLOC_PLUGINS_PATH is set, and this program has more rights than its caller'
}
refused_plugin() { # a folder that everybody may write to
    mkdir "$tap_dir/plugins" && cp .libs/self.so "$tap_dir/plugins/" && chmod 755 "$tap_dir/plugins/self.so" && chmod 777 "$tap_dir/plugins" || return 1
    WEFT_PLUGIN_PATH=$tap_dir/plugins WEFT_LOG=warn timeout 20 ./weft-info >"$tap_dir/out" 2>"$tap_dir/log" || return 1
    cat "$tap_dir/out" "$tap_dir/log"
    grep -q "^plugin .*$tap_dir/plugins is not loaded: .*belongs to user [0-9]* and has mode 777; it must be" "$tap_dir/out" && ! grep -q 'transport self' "$tap_dir/out" &&
        grep -q "WARN net.plugin: $tap_dir/plugins is not loaded" "$tap_dir/log" || return 1
    WEFT_PLUGIN_PATH=$tap_dir/plugins timeout 20 ./weft-info -j | python3 -c "import json, sys
row = [p for p in json.load(sys.stdin)['plugins'] if p['refusal']]
assert len(row) == 1 and row[0]['path'] == '$tap_dir/plugins' and row[0]['name'] == 'plugins' and row[0]['kind'] == '', row" || return 1
    chmod 755 "$tap_dir/plugins"
    WEFT_PLUGIN_PATH=$tap_dir/plugins timeout 20 ./weft-info | grep -q "^plugin *transport self .$tap_dir/plugins/self.so"
}
tap "a plugin that somebody else could have put there" refused_plugin
no_plugin() { # a file that is none, and two of one name, stop nobody
    local folder=$tap_dir/strange
    mkdir "$folder" && chmod 755 "$folder" && echo text >"$folder/foreign.so" && cp .libs/self.so "$folder/self.so" &&
        cp .libs/self.so "$folder/zelf.so" && chmod 644 "$folder"/*.so || return 1
    WEFT_PLUGIN_PATH=$folder WEFT_LOG=warn timeout 20 ./weft-info >"$tap_dir/out" 2>"$tap_dir/log" || { cat "$tap_dir/out" "$tap_dir/log"; return 1; }
    cat "$tap_dir/out" "$tap_dir/log"
    grep -q "^plugin *transport self .$folder/self.so" "$tap_dir/out" && grep -q "^plugin *$folder/foreign.so is not loaded: ." "$tap_dir/out" &&
        grep -q "^plugin *$folder/zelf.so is not loaded: transport self was loaded from $folder/self.so" "$tap_dir/out" &&
        grep -q "WARN net.plugin: $folder/foreign.so is not loaded: ." "$tap_dir/log" && grep -q "WARN net.plugin: $folder/zelf.so" "$tap_dir/log" || return 1
    ! grep "foreign.so is not loaded: $folder" "$tap_dir/out" || return 1 # the path is said once
    ! WEFT_TRANSPORTS=shm,foreign WEFT_PLUGIN_PATH=$folder timeout 20 ./weft-info >"$tap_dir/out" 2>&1 &&
        grep "WEFT_TRANSPORTS names \"foreign\", but $folder/foreign.so is not loaded: ." "$tap_dir/out"
}
tap "files that are no plugins, and two plugins of one name" no_plugin
installers_plugin() { # who installed the library may give it plugins
    local owner folder=$tap_dir/installed
    mkdir -m 755 "$folder" "$folder/plugins" && cp .libs/self.so "$folder/plugins/" && cp weft-info "$folder/" && chmod 755 "$folder/plugins/self.so" || return 1
    for owner in 12345 0; do
        chown 12345 "$folder/plugins" "$folder/plugins/self.so" && chown "$owner" "$folder/weft-info" || return 1
        WEFT_PLUGIN_PATH=$folder/plugins timeout 20 "$folder/weft-info" >"$folder/out.$owner" || return 1
    done
    cat "$folder"/out.*
    grep -q "^plugin *transport self .$folder/plugins/self.so" "$folder/out.12345" && ! grep -q 'transport self' "$folder/out.0" &&
        grep -q "$folder/plugins is not loaded: .*user 12345" "$folder/out.0"
}
hostile_names() { # whoever can make files in a folder names them
    local folder=$tap_dir/names i
    mkdir "$folder" && chmod 755 "$folder" || return 1
    for i in {1..20}; do
        touch "$folder/$i"$'\e[2J\nplugin    forged \xff.so' && chmod 666 "$folder/$i"* || return 1
    done
    WEFT_PLUGIN_PATH=$folder timeout 20 ./weft-info >"$tap_dir/out" 2>&1 || return 1
    cat -v "$tap_dir/out"
    ! grep -q $'\e' "$tap_dir/out" && ! grep -a -q '^plugin *forged' "$tap_dir/out" &&
        [ "$(grep -a -c "^plugin .*names/.*is not loaded" "$tap_dir/out")" -eq 8 ] && grep -a -q '^plugin *and 12 more' "$tap_dir/out"
}
tap "names of files that others made" hostile_names
piped_key() { # it would be gone for the ranks
    local key
    key=$(./weft-run --make-key -) || return 1
    exec 9< <(printf %s "$key")
    WEFT_JOB_KEY_FD=9 timeout 20 ./weft-info >"$tap_dir/out" || return 1
    grep '^security *WEFT_JOB_KEY_FD is a pipe, not read' "$tap_dir/out" && [ "$(cat <&9)" = "$key" ]
}
tap "a piped key is left in its pipe" piped_key
tap "a malformed setting is named" bad_setting
no_orders() { # TEXT VALUE: what a setting says gives the terminal no orders where it is refused
    local out
    out=$(WEFT_COMPRESS=$2 timeout 20 ./weft-info 2>&1) && return 1
    echo "$out" | cat -v
    [[ $out != *$'\e'* ]] && grep -qF "$1" <<<"$out"
}
tap "a codec with control characters" no_orders 'WEFT_COMPRESS=int8 [2J:blok=1: codec "int8 [2J:blok=1": there is no codec' $'int8\e[2J:blok=1'
tap "also in its parameters" no_orders 'WEFT_COMPRESS=int8: [2J=1: codec "int8: [2J=1": there is no parameter " [2J"' $'int8:\e[2J=1'
tap "also where the codec is right" no_orders 'WEFT_COMPRESS=int8:ef=1: ef needs' 'int8:ef=1'
if [ "$(id -u)" -eq 0 ]; then
    tap "a plugin of who installed the library" installers_plugin
else
    tap_number=$((tap_number + 1))
    echo "ok $tap_number - a plugin of who installed the library # SKIP only root can give files to others"
fi
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null && [ "$(findmnt -n -o OPTIONS -T "$tap_dir" | grep -c nosuid)" -eq 0 ]; then
    tap "a set-uid program" set_uid
    tap "a set-uid program and hwloc" set_uid_hwloc
else
    for case in "a set-uid program" "a set-uid program and hwloc"; do
        tap_number=$((tap_number + 1))
        echo "ok $tap_number - $case # SKIP only root can make one, where the file system allows it"
    done
fi
tap "an unknown option" refused --what
tap "an argument" refused something
tap "--help" says "Usage: weft-info" --help
narrow() { # every tool's --help, and what weft-info says of settings, in a terminal of 80 columns
    local tool
    for tool in bench codec info plan run sim topo tune; do
        "./weft-$tool" --help || return 1
    done >"$tap_dir/narrow.txt"
    timeout 20 ./weft-info -c | sed -n '/^WEFT_ISA=/,$p' >>"$tap_dir/narrow.txt"
    [ "$(wc -l <"$tap_dir/narrow.txt")" -gt 300 ] && ! grep -nE '^.{81}' "$tap_dir/narrow.txt"
}
tap "what fits a terminal of 80 columns" narrow
tap_end
