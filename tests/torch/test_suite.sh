#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The everyday part of PyTorch's own DistributedTest, against Gloo's recorded results.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/suite.py" --quick --tap
