# SPDX-License-Identifier: BSD-3-Clause
# One collective by all ranks of a job, for tests of hierarchical algorithms. Source this file and define
#
#     levels_start RANK NRANKS PORT COMMAND...    run the command as that rank (exec or wait; it is put in the background)
#
# then
#
#     levels_run TITLE NRANKS PORT COLLECTIVE SPEC [bench options]   one line of TAP; weft-bench compares every element
#     levels_end                                                     the plan; returns 1 if any failed

levels_bench=${WEFT_BUILDDIR:?}/weft-bench
levels_work=$(mktemp -d)
levels_number=0 levels_failed=0

levels_clean() { rm -rf "$levels_work"; }

# All ranks, within 30 s.
levels_run() {
    local title=$1 nranks=$2 port=$3 coll=$4 spec=$5 rank pids=() bad=0
    shift 5
    for ((rank = 0; rank < nranks; rank++)); do
        RANK=$rank WORLD_SIZE=$nranks MASTER_PORT=$port WEFT_COMM_TIMEOUT=20s levels_start "$rank" "$nranks" \
            timeout 30 "$levels_bench" -C "$coll" --algo "$spec" -b 20 -e 3M -f 53 -n 1 -w 0 "$@" \
            >"$levels_work/$rank" 2>&1 &
        pids+=($!)
    done
    for ((rank = 0; rank < nranks; rank++)); do
        wait "${pids[$rank]}" || bad=$((bad + 1))
    done
    levels_number=$((levels_number + 1))
    if [ "$bad" -eq 0 ]; then
        echo "ok $levels_number - $title$coll $spec"
    else
        echo "not ok $levels_number - $title$coll $spec"
        for ((rank = 0; rank < nranks; rank++)); do
            sed 's/^/# /' "$levels_work/$rank"
        done | grep -v '^# *$' | tail -20
        levels_failed=1
    fi
}

levels_end() {
    echo "1..$levels_number"
    return "$levels_failed"
}
