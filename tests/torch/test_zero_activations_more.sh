#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft.zero: activation checkpoints beside ordinary training, on one and three ranks.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/zero_activations_more.py" --sizes 1,3 --seconds 200
