#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What outlives what, with 2 and 3 ranks: operations and tensors, groups and options, processes and children, threads.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"

python_weft "$WEFT_SRCDIR/tests/torch/lifecycle.py" --sizes 2,3
