#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# DeepSpeed and Accelerate, where they are installed.
# timeout: 2400
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/third_party.py"
