#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft.zero: parity of all stages, modules of all kinds, and both faces.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
status=0
python_weft "$WEFT_SRCDIR/tests/torch/zero.py" --sizes 2,4 --seconds 150 || status=1
python_weft "$WEFT_SRCDIR/tests/torch/zero_modules.py" --sizes 2,4 --seconds 150 || status=1
exit $status
