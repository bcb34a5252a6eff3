#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Operations that are issued together, with 2 and 3 ranks: values, exceptions, nesting, threads, numbers.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"

status=0
for nranks in 2 3; do
    python_weft "$WEFT_SRCDIR/tests/torch/coalescing.py" --size $nranks || status=1
done
exit $status
