#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every collective of the PyTorch backend with 2 and 3 ranks, against the definition and Gloo.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"

python_weft "$WEFT_SRCDIR/tests/torch/backend.py" --sizes 2,3
