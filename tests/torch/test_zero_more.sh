#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft.zero: models built without memory, weights from files, and checkpoints of torch's DCP and of DeepSpeed.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
status=0
python_weft "$WEFT_SRCDIR/tests/torch/zero_more.py" --sizes 2,4 --seconds 150 || status=1
echo 1..1
exit $status
