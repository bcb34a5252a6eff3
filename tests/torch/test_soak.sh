#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A thousand groups made and destroyed, 24,000 operations of several threads, Ctrl-C.
# timeout: 2400
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/soak.py"
