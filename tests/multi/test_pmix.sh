#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Start-up through PMIx, under Open MPI's mpirun: without a key, without an address, beside MPI in one process.
# timeout: 180
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99
[ -e .libs/pmix.so ] || { echo "libpmix was not found when this was configured (Debian package libpmix-dev)"; exit 77; }
command -v mpirun.openmpi >/dev/null || { echo "no mpirun.openmpi here (Debian package openmpi-bin)"; exit 77; }

folder=$tap_dir
mkdir -m 755 "$folder/plugins"
cp .libs/pmix.so "$folder/plugins"
export WEFT_PLUGIN_PATH=$folder/plugins
unset WEFT_MANAGER WEFT_JOB_KEY WEFT_STORE_ADDR
# times TEXT: how often the log has it. mpirun passes on what ranks write in pieces, so that lines of two may become one.
times() { grep -o "$1" "$folder/log" | wc -l; }
mpirun="timeout 60 mpirun.openmpi --allow-run-as-root --oversubscribe"

listed() { ./weft-info | grep -q 'manager pmix (.*/pmix.so)'; }
# Every rank says by what it has met, and sums are right.
meets() {
    WEFT_LOG=info $mpirun -n 4 ./weft-bench all_reduce -b 1K -e 1K >"$folder/log" 2>&1 || return 1
    [ "$(times 'bootstrap.manager: pmix: rank [0-3] of 4 of job pmix:')" -eq 4 ] && grep -q ': 0 OK' "$folder/log"
}
without() {
    WEFT_LOG=info WEFT_MANAGER=none $mpirun -n 2 ./weft-bench all_reduce -b 1K -e 1K >"$folder/log" 2>&1 || return 1
    ! grep -q 'bootstrap.manager' "$folder/log" && grep -q 'job openmpi:' "$folder/log" && grep -q ': 0 OK' "$folder/log"
}
# says SETTING=VALUE... TEXT: start-up fails with that text.
says() {
    local text=${*: -1}
    env "${@:1:$#-1}" $mpirun -n 2 ./weft-bench all_reduce -b 1K -e 1K >"$folder/log" 2>&1 && return 1
    grep -q "$text" "$folder/log"
}
beside_mpi() {
    mpicc.openmpi -I"$WEFT_SRCDIR/include" "$WEFT_SRCDIR/tests/multi/beside_mpi.c" -o "$folder/beside" -L.libs -lweft \
        "-Wl,-rpath,$PWD/.libs" || return 1
    $mpirun -n 3 "$folder/beside" "$1" >"$folder/log" 2>&1 && [ "$(times 'weft 3 mpi 3')" -eq 3 ]
}
# A job key, where there is one, counts as well: ranks that have another one are refused.
keys() {
    # shellcheck disable=SC2016
    WEFT_COMM_INIT_TIMEOUT=5s $mpirun -n 2 bash -c 'export WEFT_JOB_KEY=$(printf "key $(('"$1"'))" | sha256sum | cut -d" " -f1)
        exec ./weft-bench all_reduce -b 1K -e 1K' >"$folder/log" 2>&1
}
same_key() { keys 7 && grep -q ': 0 OK' "$folder/log"; }
other_keys() { ! keys OMPI_COMM_WORLD_RANK && ! grep -q ': 0 OK' "$folder/log"; }
# A program that loads MPI after it has used weft, as Python does.
mpi_loaded_later() {
    cat >"$folder/later.py" <<'END'
import ctypes, sys
weft = ctypes.CDLL(sys.argv[1])
context, comm = ctypes.c_void_p(), ctypes.c_void_p()
assert weft.weft_context_create(None, ctypes.byref(context)) == 0
assert weft.weft_comm_create_env(context, None, ctypes.byref(comm)) == 0
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
assert mpi.MPI_Init(None, None) == 0
print("both", flush=True)
assert weft.weft_comm_destroy(comm) == 0 and mpi.MPI_Finalize() == 0
END
    $mpirun -n 2 python3 "$folder/later.py" "$PWD/.libs/libweft.so.1" >"$folder/log" 2>&1 || return 1
    [ "$(times both)" -eq 2 ]
}
tap "weft-info lists it" listed
tap "ranks meet by it" meets
# A rank whose plugin is missing waits at another place than the others: it says so.
one_without() {
    # shellcheck disable=SC2016
    WEFT_COMM_INIT_TIMEOUT=3s $mpirun -n 2 bash -c '[ "$OMPI_COMM_WORLD_RANK" -eq 0 ] || export WEFT_MANAGER=none
        exec ./weft-bench all_reduce -b 1K -e 1K' >"$folder/log" 2>&1 && return 1
    grep -q 'and to do without PMIx, as this one does' "$folder/log"
}
tap "a rank that does without it says so" one_without
tap "ranks that have one job key" same_key
tap "ranks that have other job keys are refused" other_keys
tap "WEFT_MANAGER=none takes the environment" without
tap "a manager that has not started the job" says WEFT_MANAGER=pmi "WEFT_MANAGER=pmi, but no such process manager"
tap "a setting that is none" says WEFT_PMIX_HOLD=maybe "WEFT_PMIX_HOLD='maybe' is not y, n or auto"
if command -v mpicc.openmpi >/dev/null; then
    tap "MPI after it in one process" beside_mpi after
    tap "MPI before it in one process" beside_mpi before
    tap "MPI that is loaded later" mpi_loaded_later
else
    echo "ok $((++tap_number)) - MPI in one process # SKIP no mpicc.openmpi here (Debian package libopenmpi-dev)"
fi
tap_end
