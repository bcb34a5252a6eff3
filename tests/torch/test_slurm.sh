#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Under Slurm, on two hosts: the script that the guide has for programs of PyTorch, and weft.zero without a process group.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/torch/setup.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
. "$WEFT_SRCDIR/tests/harness/slurm.sh"
folder=$tap_dir slow=${WEFT_TEST_SLOW:-1}
unset WEFT_MANAGER WEFT_JOB_KEY WEFT_STORE_ADDR MASTER_ADDR MASTER_PORT
# done_by WORDS: the job has said so.
done_by() {
    local i
    for ((i = 0; i < 900 * slow; i++)); do
        grep -qs "$1" "$folder/out" && return 0
        grep -qsi 'error' "$folder/out" && sleep 2 && break
        sleep 0.1
    done
    tail -n 20 "$folder/out"
    return 1
}
batch() {
    rm -f "$folder/out"
    slurm_run env PYTHON="$python" sbatch -N 2 -n 4 -o "$folder/out" "$WEFT_SRCDIR/examples/slurm/torch.sbatch" \
        "$WEFT_SRCDIR/examples/torch/$1" >"$folder/log" 2>&1 || return 1
    done_by "$2"
}
alone() {
    slurm_run timeout $((90 * slow)) srun --mpi=pmi2 -N 2 -n 4 "$python" "$WEFT_SRCDIR/examples/torch/zero3.py" >"$folder/out" 2>&1
    grep -q "$1" "$folder/out"
}
slurm_create 2 || { echo "not ok 1 - Slurm starts on hosts"; echo 1..1; exit 1; }
tap "a process group, by the guide's script" batch ddp.py "ddp: weft, 4 ranks"
tap "weft.zero, by the guide's script" batch zero3.py "zero3: stage 3, 4 ranks"
tap "weft.zero, by srun alone" alone "zero3: stage 3, 4 ranks"
tap_end
