#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All of PyTorch's own DistributedTest with 3, 4 and 8 ranks, against Gloo's recorded results.
# timeout: 3000
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/suite.py" --tap
