#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The cache of compiled adapters: nothing is loaded from it that somebody else could have put there. Needs no PyTorch.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "${WEFT_SRCDIR:?}/tests/torch/python.sh"
cases=(private own_folder own_target own_lock links library)
for case in "${cases[@]}"; do
    if [ "$case" = own_target ] && [ "$(id -u)" -ne 0 ]; then
        echo "ok $((++tap_number)) - $case # SKIP only root can give files to another user"
    else
        mkdir -m 700 "$tap_dir/$case"
        tap "$case" "$python" "$WEFT_SRCDIR/tests/torch/cache.py" "$case" "$tap_dir/$case"
    fi
done
tap_end
