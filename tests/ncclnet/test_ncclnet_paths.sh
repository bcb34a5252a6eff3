#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Which file a name of a network plugin means, by NCCL's rules, and who may have written it.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
build=$PWD/.libs
unset NCCL_NET_PLUGIN WEFT_NCCLNET_PLUGIN LD_LIBRARY_PATH
mkdir "$tap_dir/plugins" "$tap_dir/lib"
chmod 755 "$tap_dir"
cp .libs/ncclnet.so "$tap_dir/plugins/"
for name in weftsample weftsample8 weftnone; do cp ".libs/libnccl-net-$name.so" "$tap_dir/lib/"; done
export WEFT_PLUGIN_PATH=$tap_dir/plugins WEFT_LOG=info

# bench RANKS [VARIABLE=VALUE...]: an all-reduce; its output is kept.
bench() {
    local ranks=$1
    shift
    env "$@" timeout 60 ./weft-run -n "$ranks" ./weft-bench -b 1K -e 1K -n 2 >"$tap_dir/out" 2>&1
    local status=$?
    cat "$tap_dir/out"
    return $status
}
says() { grep -qF -- "$1" "$tap_dir/out"; }
# works WHAT [VARIABLE=VALUE...]: it runs over ncclnet, and WHAT is in its output
works() {
    local what=$1
    shift
    bench 2 WEFT_TRANSPORTS=ncclnet "$@" && says 'Out of bounds values : 0 OK' && says "$what"
}
# refuses WHAT [VARIABLE=VALUE...]
refuses() {
    local what=$1
    shift
    ! bench 1 "$@" && says "$what"
}
without() { # it goes on with other transports, and says nothing of it or WHAT
    local what=$1
    shift
    bench 2 "$@" && says 'Out of bounds values : 0 OK' && says "$what" && ! says 'ncclnet.device'
}

v12="libnccl-net-weftsample.so WeftSample (version 12)"
tap "an absolute path" works "$v12" WEFT_NCCLNET_PLUGIN="$build/libnccl-net-weftsample.so"
tap "NCCL's variable" works "$v12" NCCL_NET_PLUGIN="$build/libnccl-net-weftsample.so"
tap "weft's variable comes first" works "unnamed (version 8)" NCCL_NET_PLUGIN="$build/libnccl-net-weftsample.so" \
    WEFT_NCCLNET_PLUGIN="$build/libnccl-net-weftsample8.so"
tap "a relative path" works "$v12" WEFT_NCCLNET_PLUGIN=./.libs/libnccl-net-weftsample.so
tap "X is libnccl-net-X.so" works "$v12" LD_LIBRARY_PATH="$tap_dir/lib" NCCL_NET_PLUGIN=weftsample
tap "the name of a library" works "$v12" LD_LIBRARY_PATH="/nowhere:$tap_dir/lib" NCCL_NET_PLUGIN=libnccl-net-weftsample.so
tap "of a list the first that can be loaded" works "unnamed (version 8)" LD_LIBRARY_PATH="$tap_dir/lib" \
    NCCL_NET_PLUGIN=nothere,weftnone,weftsample8,weftsample
tap "the version may be limited" works "WeftSample (version 9)" WEFT_NCCLNET_MAX_VERSION=9 \
    WEFT_NCCLNET_PLUGIN="$build/libnccl-net-weftsample.so"

tap "what it logs is seen" says "WARN ncclnet.plugin: a warning of the sample plugin"
tap "none" without "no network plugin of NCCL is named" NCCL_NET_PLUGIN=none
tap "not set" without "no network plugin of NCCL is named"
tap "weft's none stands above NCCL's variable" without "no network plugin of NCCL is named" WEFT_NCCLNET_PLUGIN=NONE \
    NCCL_NET_PLUGIN="$build/libnccl-net-weftsample.so"
tap "what NCCL's variable names and is not there is left out with a warning" without \
    "NCCL_NET_PLUGIN=nothere: nothere or libnccl-net-nothere.so: no such file" NCCL_NET_PLUGIN=nothere
tap "unless ncclnet is asked for" refuses "NCCL_NET_PLUGIN=nothere: nothere or libnccl-net-nothere.so: no such file" \
    WEFT_TRANSPORTS=ncclnet NCCL_NET_PLUGIN=nothere
tap "what weft's variable names must be there" refuses "WEFT_NCCLNET_PLUGIN=nothere: nothere or libnccl-net-nothere.so" \
    WEFT_NCCLNET_PLUGIN=nothere
tap "a path has no other forms" refuses "$tap_dir/weftsample: no such file" WEFT_NCCLNET_PLUGIN="$tap_dir/weftsample"
tap "ncclnet asked for and no plugin named" refuses "no network plugin of NCCL is named" WEFT_TRANSPORTS=ncclnet
tap "no plugin at all" refuses "ncclNetPlugin_v12 to _v8" WEFT_NCCLNET_PLUGIN="$tap_dir/lib/libnccl-net-weftnone.so"
echo 'not a library' >"$tap_dir/lib/libnccl-net-text.so"
tap "no library" refuses "libnccl-net-text.so: " WEFT_NCCLNET_PLUGIN="$tap_dir/lib/libnccl-net-text.so"
tap "linked into the program" refuses "STATIC_PLUGIN" WEFT_NCCLNET_PLUGIN=STATIC_PLUGIN

mkdir "$tap_dir/open"
cp .libs/libnccl-net-weftsample.so "$tap_dir/open/libnccl-net-weftopen.so"
chmod 777 "$tap_dir/open"
tap "a folder that others can write to" refuses "$tap_dir/open" \
    WEFT_NCCLNET_PLUGIN="$tap_dir/open/libnccl-net-weftopen.so"
tap "also when it is found by its name" refuses "$tap_dir/open" LD_LIBRARY_PATH="$tap_dir/open" \
    WEFT_NCCLNET_PLUGIN=weftopen
chmod 755 "$tap_dir/open"
chmod 666 "$tap_dir/open/libnccl-net-weftopen.so"
tap "a file that others can write to" refuses "$tap_dir/open/libnccl-net-weftopen.so" \
    WEFT_NCCLNET_PLUGIN="$tap_dir/open/libnccl-net-weftopen.so"
tap_end
