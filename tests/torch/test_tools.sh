#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft in PyTorch's tools: profiler, flight recorder and its analyzer, debug levels; and the package's own.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/tools.py"
