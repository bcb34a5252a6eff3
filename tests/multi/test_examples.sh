#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every example runs with 1, 2 and 4 ranks, is short, and is listed here and in the build.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

short() { [ "$(wc -l <"$1")" -lt 100 ]; }

for source in "$WEFT_SRCDIR"/examples/*.c; do
    name=$(basename "$source" .c)
    tap "$name has fewer than 100 lines" short "$source"
    for nranks in 1 2 4; do
        tap "$name with $nranks ranks" timeout 30 ./weft-run -n "$nranks" "./examples/$name"
    done
done
tap_end
