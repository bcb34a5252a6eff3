#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/bench/convergence.py with two ranks and few steps: that it runs, judges and draws, so that it can be relied on when it is needed.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/convergence_smoke.py"
