#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Under a limit L of memory that kills, by cgroup v1 or v2: optimizer states of 2 L in a file, and a model of 4 L with parameters and
# gradients in one, too. The same without files is killed, so that the limit is one.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

mib=1048576
limit=$((192 * mib))
folder=$(mktemp -d "$PWD/zero-limit.XXXXXX") || exit 99
group=
leave() {
    rm -rf "$folder"
    [ -n "$group" ] && rmdir "$group" 2>/dev/null
}
trap leave EXIT

# A cgroup with the limit, without swap where that can be said; its procs file is printed.
make_group() {
    local name=weft-zero-$$
    if [ -w /sys/fs/cgroup/cgroup.subtree_control ] && grep -qw memory /sys/fs/cgroup/cgroup.controllers; then
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
        group=/sys/fs/cgroup/$name
        mkdir "$group" 2>/dev/null && echo $limit >"$group/memory.max" || { group=; return 1; }
        echo 0 >"$group/memory.swap.max" 2>/dev/null
        return 0
    fi
    [ -d /sys/fs/cgroup/memory ] || return 1
    group=/sys/fs/cgroup/memory/$name
    mkdir "$group" 2>/dev/null && echo $limit >"$group/memory.limit_in_bytes" || { group=; return 1; }
    echo $limit >"$group/memory.memsw.limit_in_bytes" 2>/dev/null
    return 0
}

# One rank of a model in layers of 262144 parameters.
limited() {
    (echo $BASHPID >"$group/cgroup.procs" && exec timeout 60 ./tests/bench/bench_zero --elems 262144 --steps 2 "$@")
}

# 32 Mi parameters of 2 bytes: weights and moments take 12 bytes each, 2 L; in memory are 4.
states() { limited --stage 1 --half --units 128 --offload "$folder"; }
# 48 Mi parameters of 4 bytes, 16 with gradients and moments: 4 L.
all_of_it() { limited --stage 3 --units 192 --offload "$folder" --params; }
killed() { ! limited --stage 3 --units 192 >/dev/null 2>&1; }

if ! make_group; then
    echo "ok 1 - under a limit of memory # SKIP no cgroup with a memory limit can be made here"
    echo "1..1"
    exit 0
fi
tap "what takes $((4 * limit / mib)) MiB is killed by a limit of $((limit / mib)) MiB" killed
tap "with all of it in files it is not" all_of_it
tap "states of $((2 * limit / mib)) MiB in a file fit" states
tap_end
