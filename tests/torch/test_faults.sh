#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Ranks of a PyTorch program that skip, disagree, die, stop or are interrupted: everybody else learns who, where and when.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/faults.py"
