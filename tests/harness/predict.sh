#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How good choices and predictions are on this machine: 2, 4 and 8 ranks here, 2 hosts of two ranks and 4 hosts of one joined at
# 1 Gbit/s (network namespaces). Each setting is measured twice, collective by collective by turns: A is the table, B the judge;
# so both see the machine in the same state. From the build folder:
#
#     ../tests/harness/predict.sh FOLDER [SETTING...]      settings: 2 4 8 2x2 4x1; all of them
#
# FOLDER gets a.tune, b.tune, check.txt and check.svg. A second call goes on where the first one was stopped. PREDICT_LOCAL and
# PREDICT_HOSTS are options of weft-tune for settings here and over hosts, PREDICT_COLLS the collectives.
set -u
folder=${1:?folder}
shift
[ $# -gt 0 ] || set -- 2 4 8 2x2 4x1
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/tests/harness/hosts.sh"
local_options=${PREDICT_LOCAL:--r 17 -p 60 -t 20}
hosts_options=${PREDICT_HOSTS:--r 17 -p 80 -t 60}
colls=${PREDICT_COLLS:-all_reduce reduce broadcast all_gather reduce_scatter all_to_all gather scatter barrier}
port=29500
mkdir -p "$folder" || exit 1

# tune_here RANKS OPTIONS...
tune_here() {
    local ranks=$1
    shift
    ./weft-run --no-prefix -n "$ranks" ./weft-tune -q "$@" </dev/null
}

# tune_hosts HOSTSxRANKS OPTIONS...
tune_hosts() {
    local hosts=${1%x*} each=${1#*x} rank pids=() bad=0
    shift
    port=$((port + 1))
    for ((rank = 0; rank < hosts * each; rank++)); do
        RANK=$rank WORLD_SIZE=$((hosts * each)) LOCAL_RANK=$((rank % each)) LOCAL_WORLD_SIZE=$each \
            MASTER_ADDR=$(hosts_address 0) MASTER_PORT=$port \
            hosts_on $((rank / each)) ./weft-tune -q "$@" </dev/null &
        pids+=($!)
    done
    for ((rank = 0; rank < hosts * each; rank++)); do
        wait "${pids[$rank]}" || bad=1
    done
    return $bad
}

# both KIND SETTING OPTIONS: A and B of each collective.
both() {
    local kind=$1 setting=$2 options=$3 coll
    for coll in $colls; do
        # shellcheck disable=SC2086
        "tune_$kind" "$setting" -o "$folder/a.tune" -c "$coll" $options || return 1
        # shellcheck disable=SC2086
        "tune_$kind" "$setting" -o "$folder/b.tune" --table "$folder/a.tune" -c "$coll" $options || return 1
    done
}

export WEFT_JOB_KEY=$(./weft-run --make-key -)
for setting in "$@"; do
    case $setting in
    *x*)
        hosts_create "${setting%x*}" 1gbit
        both hosts "$setting" "$hosts_options" || exit 1
        hosts_remove
        ;;
    *) both here "$setting" "$local_options" || exit 1 ;;
    esac
done
./weft-tune --check "$folder/b.tune" --table "$folder/a.tune" --all --plot "$folder/check.svg" >"$folder/check.txt" || exit 1
grep -vE '^[a-z_]+ +[0-9/]+ +[0-9]+ |^collective ' "$folder/check.txt"
