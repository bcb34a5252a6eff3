#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Operations that are issued together, with 2 and 3 ranks: values, exceptions, nesting, threads, numbers.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"

python_weft "$WEFT_SRCDIR/tests/torch/coalescing.py" --sizes 2,3
