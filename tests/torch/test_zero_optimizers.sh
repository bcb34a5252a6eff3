#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft.zero: Muon, several optimizers, moments in fewer bytes, and optimizers in Python.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/zero_optimizers.py" --sizes 1,2,4 --seconds 150
